// Kernels of normalizations: fp32, fp64; fp16 and bf16 are computed in fp32.
// SPDX-License-Identifier: MIT
#pragma once
#include "base/dtype.h"
#include "kernels/cpu/skeletons.h"

namespace polymio::kernels {

struct NormVariant {
  DataType data = DataType::kFloat, parameters = DataType::kFloat, statistics = DataType::kFloat;
  bool rms = false;           // without mean and bias
  bool adds = false;          // of x + x2
  bool affine = false;        // weight, and bias unless rms, are applied
  bool non_temporal = false;  // of normalize and gradient_of_short_rows
};

struct NormJob {
  bool non_temporal = false;  // streaming stores of y or dx
};

struct NormKernels {
  static constexpr bool kHasDotProducts = false;
  /// Rows of y from x, x2, weight and bias, those that the variant has, with a NormJob. Values: count, shift, and sum
  /// and squares of distances from the shift; apply takes mean and rstd instead. RMS: the sum of squares; apply takes
  /// rstd.
  const Reduction<>* (*forward)(const NormVariant&);
  /// Rows of dx from dy, x, weight, mean unless RMS, and rstd, with a NormJob; mean and rstd have one element per row.
  /// Values: the sums of g and of g * xhat, where g = dy * weight and xhat = (x - mean) * rstd; apply takes them
  /// divided by the number of elements, and 0 for the first if rms.
  const Reduction<>* (*gradient)(const NormVariant&);
  /// dw and db of each element of a row, from dy, x, mean and rstd; RMS: dw from dy, x and rstd.
  const Reduction<>* (*parameter_gradient)(const NormVariant&);
  /// Both in one pass over a run with the inputs of gradient, of which mean and rstd are contiguous: its rows'
  /// values[k * pitch + row], and dw and, unless RMS, db, which it adds to sums[k * n + element]. For few rows: the sum
  /// of an element over the rows is float.
  void (*gradient_sums)(const NormVariant&, const Run&, double* values, std::int64_t pitch, double* sums);
  /// dx of rows of at most kShortRowBytes, and dw and db, added to `sums` likewise, for any number of rows.
  void (*gradient_of_short_rows)(const NormVariant&, const Run&, double* sums);
  /// The values of forward's reduction (not RMS) for groups of `of_group` neighbouring columns, from those of columns
  /// with equal counts: values[k * pitch + column], merged[k * merged_pitch + group].
  void (*merge_columns)(std::int64_t of_group, std::int64_t groups, const double* values, std::int64_t pitch,
                        double* merged, std::int64_t merged_pitch);
  /// What forward's apply takes, from the values of n rows of `length` elements: values[k * pitch + row]. The second
  /// values are rstd for RMS, too.
  void (*statistics)(bool rms, double length, double epsilon, std::int64_t n, double* values, std::int64_t pitch);
  /// y = (x - mean) * scale, plus bias if affine, of inputs x, mean, scale and bias; mean and scale have the type of
  /// the arithmetic.
  void (*normalize)(const NormVariant&, const Run&);
};

}  // namespace polymio::kernels
