// One direction of a parsed problem as API objects and as a reference problem.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "driver/run/conv_args.h"
#include "driver/base/library.h"
#include "reference/convolution.h"

namespace polymio::driver {

enum Role : int { kX = 0, kW = 1, kY = 2 };

// The tensor that the direction writes.
Role written_role(Direction direction);

struct Problem {
  Direction direction;
  ConvArgs args;
  reference::Tensor tensors[3];  // by Role
  TensorDescriptor descriptors[3];
  ConvDescriptor conv;
  // The reference problem; transposed mode is expressed by swapped operands and direction.
  reference::Convolution math;

  // Output lengths come from the library. Throws RunError, ArgError.
  Problem(const ConvArgs& arguments, Direction which);

  Role written() const { return written_role(direction); }
  miopenTensorDescriptor_t descriptor(Role role) const { return descriptors[role].get(); }
  std::string line() const { return problem_line(args, direction); }
  double gflop() const { return math.flops() * 1e-9; }
  // Bytes of the read and of the written tensors, each counted once.
  double bytes_read() const;
  double bytes_written() const;
};

// The operands of `math` from the three tensors' memory; `old` replaces the written one.
reference::Operands operands(const Problem& problem, const void* const data[3], const void* old);

}  // namespace polymio::driver
