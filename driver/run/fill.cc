// Random numbers are a hash of the element's index, so that the contents do not depend on the number of threads.
// SPDX-License-Identifier: MIT
#include "driver/run/fill.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <system_error>
#include <thread>
#include <vector>

#include "driver/base/files.h"
#include "driver/base/library.h"

namespace polymio::driver {
namespace {

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

double at(const Range& range, double fraction) {
  const double value = range.low + fraction * (range.high - range.low);
  return range.integer ? std::floor(value) : value;
}

template <class Real>
void fill_real(Real* out, std::int64_t count, std::uint64_t seed, const Range& range) {
  parallel_blocks(count, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const double fraction = static_cast<double>(mix(seed ^ static_cast<std::uint64_t>(i)) >> 40) * 0x1p-24;
      out[i] = static_cast<Real>(at(range, fraction));
    }
  });
}

// Narrow types: 65,536 values converted once, then picked by the hash.
template <class Bits>
void fill_table(reference::Type type, Bits* out, std::int64_t count, std::uint64_t seed, const Range& range) {
  constexpr std::int64_t kEntries = 1 << 16;
  std::vector<Bits> table(kEntries);
  for (std::int64_t i = 0; i < kEntries; ++i) {
    reference::store(type, table.data(), i, at(range, static_cast<double>(i) / kEntries));
  }
  const Bits* values = table.data();
  parallel_blocks(count, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      out[i] = values[mix(seed ^ static_cast<std::uint64_t>(i)) >> 48];
    }
  });
}

}  // namespace

std::uint64_t mix(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

void fill_random(const reference::Tensor& tensor, void* memory, std::uint64_t seed, const Range& range) {
  const std::int64_t count = tensor.space();
  if (tensor.type == reference::Type::kFloat) {
    fill_real(static_cast<float*>(memory), count, seed, range);
  } else if (tensor.type == reference::Type::kDouble) {
    fill_real(static_cast<double*>(memory), count, seed, range);
  } else if (reference::size_of(tensor.type) == 1) {
    fill_table(tensor.type, static_cast<std::uint8_t*>(memory), count, seed, range);
  } else if (reference::size_of(tensor.type) == 2) {
    fill_table(tensor.type, static_cast<std::uint16_t*>(memory), count, seed, range);
  } else if (reference::size_of(tensor.type) == 4) {
    fill_table(tensor.type, static_cast<std::uint32_t*>(memory), count, seed, range);
  } else {
    fill_table(tensor.type, static_cast<std::uint64_t*>(memory), count, seed, range);
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
