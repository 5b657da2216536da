// The k-th smallest element along one dimension and its position: the interface of this folder. Selection by the digits
// of a number that has the order of the elements; NaNs are larger than every number.
// SPDX-License-Identifier: MIT
#pragma once
#include <vector>

#include "core/loop.h"
#include "core/solver.h"
#include "core/tensor.h"
#include "runtime/device.h"

namespace polymio::kthvalue {

struct Problem {
  TensorDesc x;
  TensorDesc y, indices;  // the sizes of x with 1 in dimension `dim`; indices have 64 bits
  std::int64_t dim = 0;
  std::int64_t k = 1;  // from 1

  std::int64_t length() const { return x.lens[static_cast<std::size_t>(dim)]; }
};

struct Args {
  const void* x = nullptr;
  void* y = nullptr;
  std::uint64_t* indices = nullptr;  // of equal elements, the first
};

/// Throws BadParm, naming what is wrong.
void validate(const Problem&);

/// The problem is valid. BadParm if an output overlaps x; NotImplemented on GPUs for 2^30 elements and more in the
/// dimension.
void run(Stream&, const Problem&, const Args&);

/// The program that a GPU needs for elements of this type.
std::vector<KernelSpec> programs(const DeviceInfo&, DataType);

// What run() calls. Loops over the rows: operands x, y, indices.
void run_cpu(Stream&, const Problem&, const Loop& rows, const Args&);
void run_gpu(Stream&, const Problem&, const Loop& rows, const Args&);

}  // namespace polymio::kthvalue
