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

struct EpilogueKernels {
  static constexpr bool kHasDotProducts = false;
  /// Rows [m0, m1) x columns [n0, n1) of y.
  void (*run)(const Epilogue& job, std::int64_t m0, std::int64_t m1, std::int64_t n0, std::int64_t n1);
};

}  // namespace polymio::kernels
