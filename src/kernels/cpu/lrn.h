// Steps of local response normalisation over contiguous elements: fp32, fp64; fp16 and bf16 are computed in fp32.
// Buffers of sums are of the arithmetic's type, float or double.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "base/dtype.h"
#include "kernels/cpu/skeletons.h"

namespace polymio::kernels {

/// scale = k + factor * sum of squares; y = x * scale ^ -beta; dx = dy * scale ^ -beta - ratio * x * sum of y * dy /
/// scale.
struct Lrn {
  DataType type = DataType::kFloat;
  double k = 1, factor = 1, ratio = 1, beta = 0.75;
  bool has_scale = false;     // scales are in a tensor; else backward gets sums of squares
  bool non_temporal = false;  // streaming stores of the result; ignored if there are two outputs
};

/// Rows of results whose windows are in the tensor: x[i - before * step] to x[i + after * step] for the result y[i].
struct LrnRows {
  const void* x = nullptr;
  void* y = nullptr;
  std::int64_t n = 1, rows = 1;
  std::int64_t x_pitch = 0, y_pitch = 0;  // elements
  std::int64_t before = 0, after = 0, step = 1;
  bool along = false;  // windows are along the row, step is 1, and they end where the row does, which is at least
                       // kLeastLrnRow, before and after long; otherwise every element of a window exists
};
inline constexpr std::int64_t kLeastLrnRow = 16;

struct LrnKernels {
  static constexpr bool kHasDotProducts = false;
  /// out[0] = x^2, in[0] = x.
  void (*squares)(const Lrn& job, const Run& run);
  /// out[0] = y * dy / scale, in: dy, scale or sums of squares, y.
  void (*products)(const Lrn& job, const Run& run);
  /// sums[i] = the sum of sums[i + t * step] for 0 <= t < taps, in this order, for 0 <= i < n; reads the elements up to
  /// n + (taps - 1) * step, rounded up to 64 bytes.
  void (*window)(const Lrn& job, void* sums, std::int64_t taps, std::int64_t step, std::int64_t n);
  /// y of LrnRows.
  void (*forward_windows)(const Lrn& job, const LrnRows& rows);
  /// out: y, then the scale unless null; in: x, sums of squares.
  void (*forward)(const Lrn& job, const Run& run);
  /// out: dx; in: x, dy, scale or sums of squares, sums of products.
  void (*backward)(const Lrn& job, const Run& run);
};

}  // namespace polymio::kernels
