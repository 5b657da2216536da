// Several copies in one launch on a GPU.
// SPDX-License-Identifier: MIT
#pragma once
#include <array>

#include "core/tensor.h"
#include "kernels/gpu/portable/cat_part.h"
#include "runtime/device.h"

namespace polymio::cat {

/// Collects copies; those that are not launched yet are by launch().
class PartCopies {
 public:
  explicit PartCopies(Stream& stream) : stream_(stream) {}
  /// False for tensors that are contiguous in different dimensions, or of too many dimensions: nothing is copied then.
  bool add(const TensorDesc& x, const void* from, const TensorDesc& part, void* to);
  void launch();

 private:
  struct Copy {
    kernels::CatPart part;
    Buffer from{nullptr}, to{nullptr};
  };
  Stream& stream_;
  std::array<Copy, kernels::kCatParts> copies_{};
  std::size_t count_ = 0;
  std::int64_t blocks_ = 0;
};

}  // namespace polymio::cat
