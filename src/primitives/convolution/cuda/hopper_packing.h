// Convolutions that ConvHopper or ConvHopperSplit computes on copies of their tensors: channels first, odd or few
// channels. Few channels are folded: rows that a stride joins and the taps of a filter's row become channels, or blocks
// of neighbouring pixels (space-to-depth). Pure functions of the problem.
// SPDX-License-Identifier: MIT
#pragma once
#include <optional>

#include "core/solver.h"
#include "kernels/gpu/portable/conv_shapes.h"
#include "primitives/convolution/convolution.h"
#include "primitives/convolution/gpu/patches.h"

namespace polymio::convolution::cuda {

/// Copies of a problem that is not sliced take at most this, with their alignment 512 MiB.
constexpr std::int64_t kMostCopiedBytes = (std::int64_t{512} << 20) - 4096;

/// What computes on the copies. ConvHopperSplit takes fp32 whose channels are multiples of 8, as those of its parts.
enum class HopperInner { kHopper, kSplit };

/// A tensor of the problem and its copy.
struct HopperOperand {
  bool copied = false;
  bool planes = false;  // no fold, and the columns of the tensor are innermost
  bool output = false;
  kernels::FoldShape shape{};
  std::int64_t unit = 1;           // elements of which those before each row of columns are a multiple
  std::int64_t bytes = 0, at = 0;  // of the copy, and where it begins in the workspace
};

/// How the copies of a problem make a problem of channels-last tensors with multiples of 8 channels.
///
/// Forward and backward weights with few channels: a row of `inner.x` is a row of x with its padding, in which
/// neighbouring pixels of the inner tensor overlap: each has all the taps of a row (or of a part of it) as channels.
/// Backward data with few channels: a forward convolution of dy, whose outputs are blocks of rows and columns of dx.
/// Forward and backward data with few channels and a stride along W: as many pixels of x as the stride are one.
/// Patches of few channels: `inner` is pointwise, a pixel of its x has a patch as channels, in the order of w.
struct HopperPacking {
  static constexpr std::int64_t kAlignment = 256;  // of copies in the workspace
  Problem inner;
  bool swapped = false;   // inner.x is dy and inner.y is dx
  bool overlaps = false;  // pixels of inner.x share elements
  HopperOperand x, w, y;
  std::optional<gpu::Patches> patches;    // how x is copied, instead of its shape
  std::int64_t sums = 0;                  // bytes before the copies: fp32 of inner.w, of all slices
  kernels::FoldedWeightsShape weights{};  // instead of w's shape, if `swapped`
  std::int64_t bytes() const { return sums + x.bytes + w.bytes + y.bytes; }
};

/// A dense tensor with channels last, and the type and the spatial sizes of another one.
TensorDesc channels_last(const TensorDesc& like, std::int64_t images, std::int64_t channels);

/// `summed`: a slice of a gradient of the weights, whose sums are added to those of other slices, in fp32.
HopperPacking hopper_packing(const Problem&, bool summed = false, HopperInner = HopperInner::kHopper);

/// Whether ConvHopper serves the problem on copies, or of ConvHopperSplit only whether they can be made, within
/// `most_bytes` in slices; no device is asked.
Verdict hopper_packing_serves(const Problem&, HopperInner = HopperInner::kHopper,
                              std::int64_t most_bytes = kMostCopiedBytes);

}  // namespace polymio::convolution::cuda
