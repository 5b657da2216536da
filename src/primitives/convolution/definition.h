// Convolution by its definition, one element of the output at a time: used by the reference solver and by the result
// check. Any type, layout, strides and groups, 1 to 3 spatial dimensions.
// SPDX-License-Identifier: MIT
#pragma once
#include "primitives/convolution/convolution.h"

namespace polymio::convolution {

/// 23 random bits for element `i`, a function of seed and index.
std::int64_t dither(std::uint64_t seed, std::uint64_t i);

/// Reads elements as accumulator values, rounded to the cast type if there is one.
struct Reader {
  const TensorDesc& desc;
  const void* data;
  bool stochastic;
  std::uint64_t seed;

  double operator()(std::int64_t offset) const {
    const double v = dtype::load(desc.type, data, offset);
    return desc.has_cast() ? rounded(v, offset) : v;
  }

 private:
  double rounded(double v, std::int64_t offset) const;
};

/// The index of an output element: two leading indices, then [D], H, W (0 for missing dimensions).
struct Position {
  std::int64_t i[2], s[3];
};

/// The pairs (a, b) of input elements whose products are summed for one output element: a four-dimensional loop over
/// the reduced channels or images and three spatial dimensions. Both offsets are affine in the loop indices.
struct Walk {
  std::int64_t count[4], a0, b0, da[4], db[4];

  std::int64_t pairs() const { return count[0] * count[1] * count[2] * count[3]; }

  template <class Visit>
  void each(const Visit& visit) const {
    for (std::int64_t c = 0; c < count[0]; ++c)
      for (std::int64_t i = 0; i < count[1]; ++i)
        for (std::int64_t j = 0; j < count[2]; ++j) {
          std::int64_t a = a0 + c * da[0] + i * da[1] + j * da[2];
          std::int64_t b = b0 + c * db[0] + i * db[1] + j * db[2];
          for (std::int64_t k = 0; k < count[3]; ++k, a += da[3], b += db[3]) visit(a, b);
        }
  }
};

/// The elements of the output and the products of each. Refers to the problem.
class Points {
 public:
  explicit Points(const Problem&);

  /// Sizes of the output: two leading ones, then [D], H, W with 1 for missing dimensions.
  const std::int64_t (&sizes() const)[5] { return sizes_; }
  std::int64_t offset(const Position&) const;
  /// Offset between neighbours in the innermost dimension.
  std::int64_t last_stride() const { return output_strides_[4]; }
  Walk walk(const Position&) const;

 private:
  void forward_taps(int i, std::int64_t o, Walk&) const;
  void backward_taps(int i, std::int64_t h, Walk&) const;
  void weight_taps(int i, std::int64_t r, Walk&) const;

  const Problem& p_;
  std::int64_t in_[3], out_[3], filter_[3], pad_[3], stride_[3], dilation_[3], sx_[3], sw_[3], sy_[3];
  std::int64_t sizes_[5], output_strides_[5];
};

/// Readers of first_input() and second_input().
Reader first_reader(const Problem&, const Problem::Args&);
Reader second_reader(const Problem&, const Problem::Args&);

/// The address of the direction's output.
void* output_of(const Problem&, const Problem::Args&);

}  // namespace polymio::convolution
