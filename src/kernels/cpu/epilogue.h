// Epilogue on results that are still in the cache: y = activation(y + bias), in place.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/operand.h"

namespace polymio::kernels {

struct Epilogue {
  Output y;                       // fp32, fp64, fp16 or bf16
  const void* bias = nullptr;     // one value per channel, of y's type; null: none
  bool channels_are_rows = true;  // else channels are the columns of y
  int mode = 0;                   // miopenActivationMode_t
  double alpha = 0, beta = 0, gamma = 0;
};

struct EpilogueKernels {
  static constexpr bool kHasDotProducts = false;
  /// Rows [m0, m1) x columns [n0, n1) of y.
  void (*run)(const Epilogue& job, std::int64_t m0, std::int64_t m1, std::int64_t n0, std::int64_t n1);
};

}  // namespace polymio::kernels
