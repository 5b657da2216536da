// SPDX-License-Identifier: MIT
#include "driver/run/conv_data.h"

#include <cstring>

#include "driver/run/fill.h"

namespace polymio::driver {
namespace {

// In the usual range of floats nearly all values cast to 8 bits would be subnormal.
Range range_of(const reference::Tensor& tensor, bool weights) {
  if (reference::is_integer(tensor.type)) {
    return weights ? Range{-63, 64, true} : Range{0, 127, true};
  }
  if (reference::is_fp8(tensor.type) || reference::is_fp8(tensor.cast)) return {-1, 1, false};
  return weights ? Range{-0.005, 0.005, false} : Range{0, 0.01, false};
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
    std::memset(memory, reference::nan_byte(tensor.type), tensor.bytes());
    return;
  }
  fill_random(tensor, memory, mix(static_cast<std::uint64_t>(role) + 1), range_of(tensor, role == kW));
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
    std::memset(buffer.host(), reference::nan_byte(problem.tensors[problem.written()].type), buffer.bytes());
  } else {
    std::memcpy(buffer.host(), old.data(), old.size());
  }
  buffer.upload();
}

}  // namespace polymio::driver
