// Filters that do not overlap, without padding (patch embeddings): an element of x is in one row of the im2col matrix
// at most, so that the matrix is a permutation of x, or x itself.
// SPDX-License-Identifier: MIT
#pragma once
#include "primitives/convolution/gpu/arguments.h"

namespace polymio::convolution::gpu {

/// Whether filters of several taps read no element of x twice, and their rows are contiguous in x and in w: both NCHW,
/// or both NHWC without groups.
bool has_patches(const Problem&);

/// Whether x is already the matrix (image, pixel, channel x tap) of such filters.
bool has_patches_in_place(const Problem&);

/// Copies between x and the matrix (image, pixel, channel x tap) of a problem that has_patches(), by patches.cl. Pixels
/// of the matrix may be `pitch` elements apart; zeros are between, which scatter() does not read.
class Patches {
 public:
  explicit Patches(const Problem&, std::int64_t pitch = 0);

  /// Elements that are copied together if x and the matrix are aligned to 16 bytes.
  int unit() const { return unit_; }

  /// Some images of x, and the matrix, from these elements on.
  struct Call {
    Buffer x, matrix;
    std::int64_t x_at, matrix_at, images;
    int unit;  // 1 or unit(), as the kernel was compiled
  };
  /// Kernel gather_patches: the matrix from x.
  void gather(Stream&, const Kernel&, const Call&) const;
  /// Kernel scatter_patches: x from the matrix, and beta * x where no filter reads.
  void scatter(Stream&, const Kernel&, const Call&, float beta) const;

 private:
  kernels::PatchShape shape_of(const Call&) const;
  static Launch launch_of(const kernels::PatchShape&);

  kernels::PatchShape shape_;  // one image, in elements
  int unit_;
};

}  // namespace polymio::convolution::gpu
