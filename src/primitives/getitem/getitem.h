// The gradient of indexing a tensor: the interface of this folder. Indices are sorted, so that the elements that meet
// in one place are added in their order, whatever the number of threads.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/solver.h"
#include "core/tensor.h"
#include "runtime/device.h"

namespace polymio::getitem {

struct Operand {
  const TensorDesc* desc = nullptr;
  void* data = nullptr;
};

/// Every `step`th element from `begin` to before `end` along `dim`; an end beyond the tensor is its end.
struct Slice {
  std::int64_t dim, begin, end, step;
};

/// dx[slices, indices] += dy: the index tensors, int32 of equal sizes, replace the dimensions `dims` of the view of dx
/// that the slices give, which are consecutive. Negative indices count from the end.
struct Backward {
  Operand dy, dx;
  std::span<const Operand> indices;  // one for each of `dims`
  std::span<const std::int32_t> dims;
  std::span<const Slice> slices;
  std::int64_t offset = 0;  // of the first element of the view in dx; replaces Slice::begin
  Operand error;            // int32, an element per index tensor: set to -1 if an index is outside; optional
};

/// Bytes of workspace for index tensors of `count` elements each.
std::size_t workspace_bytes(std::int64_t count);

/// Throws BadParm for arguments that do not fit together; nothing is written then.
void backward(Stream&, const Backward&, void* workspace, std::size_t bytes);

/// The programs that a GPU needs for tensors of this type.
std::vector<KernelSpec> programs(const DeviceInfo&, DataType);

}  // namespace polymio::getitem
