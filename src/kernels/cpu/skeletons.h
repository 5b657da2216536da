// Kernels of elementwise maps and reductions as the drivers in primitives/common call them. The templates that make
// them from a functor are isa/skeletons/{map,row,column}.h.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

namespace polymio::kernels {

inline constexpr std::size_t kMaxInputs = 5, kMaxOutputs = 5, kMaxAccumulators = 4;

/// Kernels that reduce rows and compute their outputs in one call take rows of at most so many bytes: of 16-bit types;
/// of wider types, whose longer rows the L1 cache keeps with their outputs until they are finished, one by one.
inline constexpr std::int64_t kShortRowBytes = 1024, kFinishedRowBytes = 8192;

/// Rows of n contiguous elements of each operand. An output may be the same memory as an input, but not overlap it
/// otherwise.
struct Run {
  const void* in[kMaxInputs + kMaxAccumulators] = {};  // a second pass over columns adds their values to the inputs
  void* out[kMaxOutputs] = {};
  std::int64_t n = 0, rows = 1;
  std::int64_t in_row_bytes[kMaxInputs + kMaxAccumulators] = {}, out_row_bytes[kMaxOutputs] = {};
  unsigned repeats = 0;     // bit i: input i has one element per row, for all n
  bool prefetches = false;  // reduce_each prefetches rows, which are in no cache
  // What every element adds to its row's values, where a reduction has such terms: written by reduce_each, which may
  // write a vector after a row, then used by apply instead of the inputs. Null: not kept.
  void* terms = nullptr;
  std::int64_t term_row_bytes = 0;
};

/// Rows of `n` contiguous elements; in[i] is the first row of an input, whose rows are row_bytes[i] apart.
struct Rows {
  const void* in[kMaxInputs] = {};
  std::int64_t row_bytes[kMaxInputs] = {};
  void* out[kMaxOutputs] = {};  // of a second pass
  std::int64_t out_row_bytes[kMaxOutputs] = {};
  std::int64_t rows = 0, n = 0;
};

/// A reduction to `accumulators` values of type A. `job` points to the parameters that the functor is made from.
template <class A = double>
struct Reduction {
  std::size_t accumulators = 1;
  std::size_t reads = 1;  // the first so many inputs are reduced; apply reads all
  /// The values of no elements.
  void (*start)(const void* job, A* values) = nullptr;
  /// Adds a run, whose first element is element number `first` of those that are reduced.
  void (*reduce)(const void* job, const Run& run, std::int64_t first, A* values) = nullptr;
  /// The values of each row of the run alone, values[accumulator * pitch + row]; its elements are numbered from `first`
  /// on. Null: none.
  void (*reduce_each)(const void* job, const Run& run, std::int64_t first, A* values, std::int64_t pitch) = nullptr;
  /// Adds rows, the first of which is number `first`, to values[accumulator * pitch + column].
  void (*reduce_columns)(const void* job, const Rows& rows, std::int64_t first, A* values,
                         std::int64_t pitch) = nullptr;
  /// Adds the values of later elements for n rows or columns: values[accumulator * pitch + row], `later` likewise.
  void (*merge)(const void* job, std::int64_t n, const A* later, A* values, std::int64_t pitch) = nullptr;
  /// Computes the outputs of a run from its inputs and the values of its rows, values[accumulator * pitch + row *
  /// step]; null if the reduction has none.
  void (*apply)(const void* job, const Run& run, const A* values, std::int64_t pitch, std::int64_t step) = nullptr;
  /// Reduces each row and computes its outputs, for rows without repeated elements of at most kFinishedRowBytes, if
  /// apply takes the values as they were reduced and no output is kept; null: no such kernel.
  void (*finish_short)(const void* job, const Run& run) = nullptr;
  /// The same as apply for rows of columns, with values[accumulator * pitch + column].
  void (*apply_columns)(const void* job, const Rows& rows, const A* values, std::int64_t pitch) = nullptr;
  /// The last so many of `reads` have one element for each row of reduce_columns.
  std::size_t row_scalars = 0;
  std::size_t term_bytes = 0;  // of a term; 0: the reduction has none
};

}  // namespace polymio::kernels
