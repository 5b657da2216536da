// Random contents for tensors that are only measured or judged on.
// SPDX-License-Identifier: MIT
#pragma once
#include "core/handle.h"
#include "core/tensor.h"

namespace polymio {

/// Elements in [-limit, limit), or integers in [-16, 16): cheap to make, since a row of them is repeated, of a
/// length that no size has as a factor.
void fill_random(Stream&, const TensorDesc&, void* data, std::uint64_t seed, double limit = 1);

/// A tensor of memory from the handle, filled so.
class RandomTensor {
 public:
  RandomTensor(Handle& handle, const TensorDesc& t, std::uint64_t seed, double limit = 1) : memory_(handle, t.bytes()) {
    fill_random(handle.stream(), t, memory_.data(), seed, limit);
  }
  void* data() const { return memory_.data(); }

 private:
  Memory memory_;
};

}  // namespace polymio
