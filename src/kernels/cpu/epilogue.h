// Epilogue on results that are still in the cache: y = activation(y * scale + bias + residual_alpha * residual), in
// place.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/operand.h"

namespace polymio::kernels {

struct Epilogue {
  Output y;  // fp32, fp64, fp16 or bf16
  /// One value per channel; null: none. The bias has y's type; with a scale both have the type of the arithmetic, fp64
  /// for fp64 and fp32 for all others.
  const void *scale = nullptr, *bias = nullptr;
  const void* residual = nullptr;  // elements of y's type at y's offsets, no part of y; null: none
  double residual_alpha = 1;
  bool channels_are_rows = true;  // else channels are the columns of y
  int mode = 0;                   // activation::Mode
  double alpha = 0, beta = 0, gamma = 0;
};

/// A batch norm with given moments, after a bias, as terms of an epilogue. One value per channel, of the type of the
/// arithmetic, but `bias` of y's type; null: no bias.
struct FoldedNorm {
  DataType y;
  std::int64_t channels;
  const void *norm_scale, *norm_bias, *mean, *variance, *bias;
  double epsilon;
  void *scale_result, *bias_result;
};

/// Whether an activation only restricts its argument to a range, as no activation and ReLU do.
constexpr bool restricts_range(int mode) {
  constexpr int kPassthru = 0, kRelu = 3, kClippedRelu = 7, kClamp = 10;
  return mode == kPassthru || mode == kRelu || mode == kClippedRelu || mode == kClamp;
}

struct EpilogueKernels {
  static constexpr bool kHasDotProducts = false;
  /// Rows [m0, m1) x columns [n0, n1) of y.
  void (*run)(const Epilogue& job, std::int64_t m0, std::int64_t m1, std::int64_t n0, std::int64_t n1);
  /// scale = norm_scale / sqrt(variance + epsilon), bias = (bias - mean) * scale + norm_bias.
  void (*fold_norm)(const FoldedNorm& job);
};

}  // namespace polymio::kernels
