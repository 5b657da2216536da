// The im2col matrix of a convolution: gathered from x into the workspace, or summed from there into x (backward data).
// For a pointwise convolution x is the matrix, in place.
// SPDX-License-Identifier: MIT
#pragma once
#include <optional>
#include <string_view>

#include "primitives/convolution/gpu/arguments.h"
#include "primitives/convolution/gpu/patches.h"

namespace polymio::convolution::gpu {

std::int64_t taps_of(const Problem&);
std::int64_t pixels_of(const Problem&);

/// Whether x is the matrix, in place: 1x1 filter, no padding, strides 1; or has_patches_in_place().
bool is_pointwise(const Problem&);

/// Sizes that fit the 32-bit indices of columns.cl, and layouts that the product supports; no epilogue unless `fuses`.
Verdict check_columns(const DeviceInfo&, const Problem&, Direction, bool fuses);

/// How a batch is cut so that the matrix of a part fits the workspace: into runs of whole images; into runs of pixels
/// of y of one image; or, in backward data, into runs of channels of x of one image, since a pixel of x sums products
/// of many pixels of y. The numbers are those of a full part; the last one of a run may have less.
struct Slices {
  std::int64_t images, pixels, channels;
  bool operator==(const Slices&) const = default;
};

/// A part: its first image, pixel of y and channel of x, and how many it has.
struct Part {
  std::int64_t image, pixel, channel;
  Slices size;
};

/// Parts whose matrix has about `target` bytes if that takes whole images, and never more than `most`; nothing if even
/// the smallest part has more, or cannot be indexed. In place, the whole batch is one part.
std::optional<Slices> slices_of(const Problem&, bool direct, std::int64_t target, std::int64_t most);
std::int64_t parts(const Problem&, const Slices&);
Part part(const Problem&, const Slices&, std::int64_t index);

/// Whether, for each column of y, the pixels that a strided pointwise convolution reads have one stride through all
/// images: then x is, in place, one matrix per column of y.
bool has_even_rows(const Problem&);

class Columns {
 public:
  /// The matrix of a part. `in_place` requires has_even_rows: pixels are read in place instead of gathered.
  Columns(const Problem&, const Slices&, bool in_place = false);

  /// Whether x is the matrix, or one matrix per column of y.
  bool direct() const { return pointwise_ || in_place_; }
  /// Whether the matrix consists of elements of x, each once at most: then the backward product writes them scaled.
  bool picks() const { return picks_; }
  bool in_place() const { return in_place_; }
  /// Elements of x between images.
  std::int64_t image_step() const { return strides_.x[0]; }
  /// Whether the part is as large as those that this was made for.
  bool is_full(const Part& part) const { return part.size == slices_; }
  bool pixels_innermost() const { return order_.pixels_innermost != 0; }
  /// Whether the rows of a pixel are contiguous, whatever the layout of y.
  bool depth_innermost() const { return patches_.has_value() || !pixels_innermost(); }
  /// Whether rows of the matrix are ordered by tap, then by channel, as those of the filter.
  bool taps_first() const { return order_.taps_first != 0; }
  std::int64_t elements() const { return slices_.images * slices_.pixels * slices_.channels * groups_ * taps_; }
  DataType type() const { return type_; }
  std::size_t bytes() const { return static_cast<std::size_t>(elements()) * size_of(type_); }

  /// Estimated microseconds to gather or to sum the matrix of a full part.
  double predict(const DeviceInfo&) const;

  /// The programs of run() and prepare(): none if x is read in place; per entry point one, or two of which the second
  /// requires x and the matrix to be aligned to 16 bytes.
  std::vector<KernelSpec> kernels() const;

  /// add_partials (kernels/gpu/portable/partials.h), scale_sums.
  KernelSpec add_partials_spec() const;
  KernelSpec scale_sums_spec() const;

  /// Gathers the matrix of a part from x, or sums it into x. `x_at`, that of the first image, and `matrix_at` are
  /// offsets in elements.
  struct Call {
    Buffer x, matrix;
    std::int64_t x_at, matrix_at;
    Part part;
    bool aligned;
    float alpha, beta;  // scale the sums in x; if picks(), also those of the product
  };
  /// Runs before the backward product: gathers the pixels that it adds to (if picks() and beta is not 0), or scales all
  /// other pixels (in place).
  void prepare(Stream&, const std::vector<std::shared_ptr<const Kernel>>& built, std::size_t first, const Call&) const;
  void run(Stream&, const std::vector<std::shared_ptr<const Kernel>>& built, std::size_t first, const Call&) const;

 private:
  /// As in columns.cl.
  struct Order {
    int taps_first, pixels_innermost;
  };

  KernelSpec spec(std::string_view source, const char* entry, int wide) const;
  void run_picks(Stream&, const Kernel&, const Call&, bool upsample) const;
  void run_patches(Stream&, const Kernel&, const Call&, bool scatter) const;
  void scale_others(Stream&, const Kernel&, const Call&) const;
  Launch launch_picks(kernels::PixelShape&, const Call&, bool upsample) const;
  bool wide(const Call& c) const { return wide_ != 0 && c.aligned; }

  kernels::ConvSizes sizes_;
  kernels::ConvSteps steps_;
  kernels::ConvStrides strides_;
  Order order_;
  kernels::PixelShape pixels_;
  bool backward_, pointwise_, picks_, in_place_;
  std::optional<Patches> patches_;
  bool runs_ = false;  // gathers NCHW rows in 16-byte vectors
  int wide_;           // elements per vector if all is aligned, 0: none
  DataType type_, x_type_;
  Slices slices_;
  std::int64_t groups_, taps_;
  double bytes_;  // memory traffic: matrix and x of a full part
};

/// result = alpha * sums + beta * result, for sums in one part, of any alignment.
void scale_sums(Stream&, const Kernel&, const Partials&, float alpha, float beta);

}  // namespace polymio::convolution::gpu
