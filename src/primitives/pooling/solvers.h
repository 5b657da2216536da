// Helpers of the solvers.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/pooling.h"
#include "primitives/pooling/pooling.h"

namespace polymio::pooling {

/// Depth, height and width; dimensions that the tensors lack have size 1.
struct Dims {
  explicit Dims(const Problem&);
  kernels::WindowDim dims[kMostSpatial];
};

/// The least finite number: the maximum of no elements.
double least(DataType);

/// The strides of N, C, D, H, W; 0 where a tensor lacks a dimension.
kernels::WindowStrides strides_of(const TensorDesc&);

/// The windows and tensors of a problem, with dimensions merged where every window covers whole rows: in is x forward
/// and dy backward, out is y or dx.
struct Geometry {
  /// Of windows along a row whose gradients are gathered by phases: the kernels' buffer has so many elements.
  static constexpr std::int64_t kMostGatheredStride = 2048;

  explicit Geometry(const Problem&);
  kernels::WindowDim dims[kMostSpatial];
  kernels::WindowStrides in, out, x, index;

 private:
  void merge(const Problem&);
};

/// The kernels' parameters, without buffers and factors.
kernels::Pooling job_of(const Problem&);

/// The coordinates of an element that is numbered in N, C, [D], [H], W order.
struct Coordinates {
  Coordinates(const TensorDesc&, std::int64_t element);
  std::int64_t image, channel, dims[kMostSpatial];
};
std::int64_t offset_of(const kernels::WindowStrides&, const Coordinates&);

/// A result by definition, and the sum of the magnitudes of its terms, in double; from host memory.
struct Value {
  double value = 0, magnitude = 0;
};
class Definition {
 public:
  Definition(const Problem&, const Problem::Args&);
  /// Of y; `position` receives the index of a maximum.
  Value forward(const Coordinates&, std::uint64_t& position) const;
  /// Of dx.
  Value backward(const Coordinates&) const;
  /// The most terms of a sum.
  std::int64_t most_terms() const;

 private:
  std::uint64_t index(std::int64_t offset) const;
  std::uint64_t position(const std::int64_t (&element)[kMostSpatial], const std::int64_t (&window)[kMostSpatial]) const;

  const Problem& p_;
  const Problem::Args& args_;
  const Dims d_;
  const kernels::WindowStrides x_, dy_, index_at_;
};

}  // namespace polymio::pooling
