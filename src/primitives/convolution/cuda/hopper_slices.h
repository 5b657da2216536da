// Slices of a convolution, so that the copies of a slice fit a workspace: of images, or of the first spatial dimension
// of one image. Pure functions of the problem.
// SPDX-License-Identifier: MIT
#pragma once
#include <functional>
#include <vector>

#include "primitives/convolution/convolution.h"
#include "primitives/convolution/cuda/hopper_packing.h"

namespace polymio::convolution::cuda {

struct HopperSlices {
  struct Slice {
    std::size_t shape;  // an index of `shapes`
    std::int64_t x, y;  // the first element of its tensors in those of the problem
  };
  std::vector<Problem> shapes;  // that differ
  std::vector<Slice> slices;    // in the order they run
  bool summed() const { return slices.size() > 1 && shapes.front().direction == Direction::kBackwardWeights; }
};

/// The bytes of what is copied of a problem or slice. Gradients of the weights may be sums over slices.
using CopiedBytes = std::function<std::int64_t(const Problem&, bool summed)>;

/// Problems whose copies take more than `most_bytes` in slices whose copies do not; others whole, and what has no such
/// slices. Gradients of the weights are sums over slices. Where a slice is not whole in the first spatial dimension,
/// its padding is that before its first row: sizes of input and output do not determine each other. `divides_images`:
/// whether slices may be of rows.
HopperSlices hopper_slices(const Problem&, const CopiedBytes&, bool divides_images,
                           std::int64_t most_bytes = kMostCopiedBytes);

/// The slices of ConvHopperPacked and ConvHopperSplitPacked.
HopperSlices hopper_slices(const Problem&, std::int64_t most_bytes = kMostCopiedBytes,
                           HopperInner = HopperInner::kHopper);

}  // namespace polymio::convolution::cuda
