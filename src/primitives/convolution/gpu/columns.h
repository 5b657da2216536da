// Convolution as a product with a matrix whose columns (or rows) are the pixels of y, and what of x each is made of.
// The matrix of a pointwise convolution is x as it is; others are gathered into the workspace, or added up from there.
// SPDX-License-Identifier: MIT
#pragma once
#include "primitives/convolution/gpu/arguments.h"

namespace polymio::convolution::gpu {

std::int64_t taps_of(const Problem&);
std::int64_t pixels_of(const Problem&);

/// Whether x is the matrix.
bool is_pointwise(const Problem&);

/// What the kernels of columns.cl count in 32 bits, and the layouts that a product can have.
Verdict check_columns(const DeviceInfo&, const Problem&, Direction);

/// Whether the pixels that a pointwise convolution with strides meets are, for each column of y, as far apart through
/// all images: then x is a matrix for each of these columns.
bool has_even_rows(const Problem&);

class Columns {
 public:
  /// For so many images at a time; `in_place`: of one that has even rows, which are not picked.
  Columns(const Problem&, std::int64_t images, bool in_place = false);

  /// Whether x is the matrix, or some matrices.
  bool direct() const { return pointwise_ || in_place_; }
  /// Whether single pixels of x are the matrix: then a product backward writes these as they become, scaled.
  bool picks() const { return picks_; }
  bool in_place() const { return in_place_; }
  /// Elements of x between images.
  std::int64_t image_step() const { return strides_.x[0]; }
  bool pixels_innermost() const { return order_.pixels_innermost != 0; }
  std::int64_t elements() const { return images_ * image_elements_; }
  DataType type() const { return type_; }
  std::size_t bytes() const { return static_cast<std::size_t>(elements()) * size_of(type_); }

  /// Microseconds that the matrix takes to make, or to add up.
  double predict(const DeviceInfo&) const;

  /// None where x is the matrix and nothing else of x is written, else one, or two of which the second needs x and
  /// matrix to be aligned.
  std::vector<KernelSpec> kernels() const;

  /// That adds up partial results in single precision (kernels/gpu/partials.h).
  KernelSpec adding() const;

  /// The matrix of some images from x, or x from it: `x_at` and `matrix_at` are elements behind the buffers' beginning.
  struct Call {
    Buffer x, matrix;
    std::int64_t matrix_at, images;
    bool aligned;
    float alpha, beta;  // of the sums in x; where single pixels are picked they are the product's, too
  };
  /// To run before a product backward: the pixels that it adds to, if they are picked and beta is not 0; in place all
  /// other pixels.
  void prepare(Stream&, const std::vector<std::shared_ptr<const Kernel>>& built, std::size_t first, const Call&) const;
  void run(Stream&, const std::vector<std::shared_ptr<const Kernel>>& built, std::size_t first, const Call&) const;

 private:
  /// As in columns.cl.
  struct Order {
    int taps_first, pixels_innermost;
  };

  KernelSpec spec(const char* source, const char* entry, int wide) const;
  void run_picks(Stream&, const Kernel&, const Call&, bool upsample) const;
  void scale_others(Stream&, const Kernel&, const Call&) const;
  Launch launch_picks(kernels::PixelShape&, const Call&, bool upsample) const;
  bool wide(const Call& c) const { return wide_ != 0 && c.aligned; }

  kernels::ConvSizes sizes_;
  kernels::ConvSteps steps_;
  kernels::ConvStrides strides_;
  Order order_;
  kernels::PixelShape pixels_;
  bool backward_, pointwise_, picks_, in_place_;
  bool runs_ = false;  // picks of rows 16 bytes at a time
  int wide_;           // elements that are moved at once where all is aligned
  DataType type_, x_type_;
  std::int64_t images_, image_elements_;
  double bytes_;  // of the matrix and of x, for these images
};

}  // namespace polymio::convolution::gpu
