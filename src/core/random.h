// Random contents for tensors of measurements and result checks.
// SPDX-License-Identifier: MIT
#pragma once
#include "core/handle.h"
#include "core/tensor.h"

namespace polymio {

/// Fills with values in [-limit, limit), integers in [-16, 16). For speed one row is repeated; its length is 65521, a
/// prime, so that the repetition does not align with the tensor's sizes.
void fill_random(Stream&, const TensorDesc&, void* data, std::uint64_t seed, double limit = 1);

/// A tensor in memory from the handle, filled by fill_random.
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
