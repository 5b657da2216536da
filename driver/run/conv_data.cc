// Random numbers are a hash of the element's index, so that the contents do not depend on the number of threads.
// SPDX-License-Identifier: MIT
#include "driver/run/conv_data.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <system_error>
#include <thread>

#include "driver/base/files.h"

namespace polymio::driver {
namespace {

// Finaliser of splitmix64: every input bit changes half of the output bits.
std::uint64_t mix(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

template <class Body>
void parallel_blocks(std::int64_t count, Body body) {
  constexpr std::int64_t kSmallest = 1 << 16;  // elements per thread below which starting it does not pay off
  const std::int64_t wanted = std::max<std::int64_t>(1, std::thread::hardware_concurrency());
  const std::int64_t blocks = std::clamp<std::int64_t>(count / kSmallest, 1, wanted);
  const auto block = [=](std::int64_t i) { body(count * i / blocks, count * (i + 1) / blocks); };
  std::vector<std::thread> threads;
  std::int64_t i = 1;
  try {
    for (; i < blocks; ++i) threads.emplace_back(block, i);
  } catch (const std::system_error&) {  // the system's thread limit: this thread computes the rest
  }
  for (; i < blocks; ++i) block(i);
  block(0);
  for (std::thread& thread : threads) thread.join();
}

// Values are low + fraction * (high - low), without the fraction part for integers.
struct Range {
  double low, high;
  bool integer;

  double at(double fraction) const {
    const double value = low + fraction * (high - low);
    return integer ? std::floor(value) : value;
  }
};

bool is_fp8(reference::Type type) { return type == reference::Type::kFloat8 || type == reference::Type::kBFloat8; }

// In the usual range of floats nearly all values cast to 8 bits would be subnormal.
Range range_of(const reference::Tensor& tensor, bool weights) {
  if (reference::is_integer(tensor.type)) {
    return weights ? Range{-63, 64, true} : Range{0, 127, true};
  }
  if (is_fp8(tensor.type) || is_fp8(tensor.cast)) return {-1, 1, false};
  return weights ? Range{-0.005, 0.005, false} : Range{0, 0.01, false};
}

template <class Real>
void fill_real(Real* out, std::int64_t count, std::uint64_t seed, const Range& range) {
  parallel_blocks(count, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const double fraction = static_cast<double>(mix(seed ^ static_cast<std::uint64_t>(i)) >> 40) * 0x1p-24;
      out[i] = static_cast<Real>(range.at(fraction));
    }
  });
}

// Narrow types: 65,536 values converted once, then picked by the hash.
template <class Bits>
void fill_table(reference::Type type, Bits* out, std::int64_t count, std::uint64_t seed, const Range& range) {
  constexpr std::int64_t kEntries = 1 << 16;
  std::vector<Bits> table(kEntries);
  for (std::int64_t i = 0; i < kEntries; ++i) {
    reference::store(type, table.data(), i, range.at(static_cast<double>(i) / kEntries));
  }
  const Bits* values = table.data();
  parallel_blocks(count, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      out[i] = values[mix(seed ^ static_cast<std::uint64_t>(i)) >> 48];
    }
  });
}

const char* role_name(Role role) {
  static const char* const kNames[] = {"the input", "the filter", "the output"};
  return kNames[role];
}

void fill(const Problem& problem, Role role, void* memory) {
  const reference::Tensor& tensor = problem.tensors[role];
  const std::string* const files[] = {&problem.args.in_data, &problem.args.weights, &problem.args.dout_data};
  if (role != problem.written() && !files[role]->empty()) {
    read_file(*files[role], memory, tensor.bytes());
    return;
  }
  if (role == problem.written() && problem.args.beta == 0) {
    std::memset(memory, 0xff, tensor.bytes());
    return;
  }
  fill_random(tensor, memory, mix(static_cast<std::uint64_t>(role) + 1), role == kW);
}

}  // namespace

TensorData::TensorData(const Session& session, const Problem& problem) {
  std::size_t bytes = 0;
  for (const reference::Tensor& tensor : problem.tensors) bytes += tensor.bytes();
  if (problem.args.beta != 0) bytes += problem.tensors[problem.written()].bytes();
  require_memory(session, bytes, "the tensors");
  for (int i = kX; i <= kY; ++i) {
    const Role role = static_cast<Role>(i);
    buffers[i] = Buffer(session, problem.tensors[i].bytes(), role_name(role));
    fill(problem, role, buffers[i].host());
    buffers[i].upload();
  }
  if (problem.args.beta == 0) return;
  const auto* written = static_cast<const unsigned char*>(buffers[problem.written()].host());
  old.assign(written, written + buffers[problem.written()].bytes());
}

void TensorData::reset_written(const Problem& problem) {
  Buffer& buffer = buffers[problem.written()];
  if (old.empty()) {
    std::memset(buffer.host(), 0xff, buffer.bytes());
  } else {
    std::memcpy(buffer.host(), old.data(), old.size());
  }
  buffer.upload();
}

void fill_random(const reference::Tensor& tensor, void* memory, std::uint64_t seed, bool weights) {
  const std::int64_t count = tensor.space();
  const Range range = range_of(tensor, weights);
  if (tensor.type == reference::Type::kFloat) {
    fill_real(static_cast<float*>(memory), count, seed, range);
  } else if (tensor.type == reference::Type::kDouble) {
    fill_real(static_cast<double*>(memory), count, seed, range);
  } else if (reference::size_of(tensor.type) == 1) {
    fill_table(tensor.type, static_cast<std::uint8_t*>(memory), count, seed, range);
  } else if (reference::size_of(tensor.type) == 2) {
    fill_table(tensor.type, static_cast<std::uint16_t*>(memory), count, seed, range);
  } else {
    fill_table(tensor.type, static_cast<std::uint32_t*>(memory), count, seed, range);
  }
}

void read_file(const std::string& path, void* memory, std::size_t bytes) {
  Descriptor file;
  const std::string why = open_regular(path, O_RDONLY, file);
  if (!why.empty()) throw RunError(fmt::format("cannot open '{}' for reading: {}", path, why));
  const std::size_t got = read_some(file, path, memory, bytes);
  if (got != bytes) throw RunError(fmt::format("'{}' has {} bytes, the tensor needs {}", path, got, bytes));
}

void write_file(const std::string& path, const void* memory, std::size_t bytes) {
  write_whole(path, {static_cast<const char*>(memory), bytes});
}

}  // namespace polymio::driver
