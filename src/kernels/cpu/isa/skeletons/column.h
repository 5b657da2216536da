// The column skeleton: reduces rows of columns, each column to its own accumulators (batch norm, bias, reductions over
// leading dimensions), and applies the values of columns in a second pass (softmax over channels). The functor is
// described in reduction.h. Rows are read in the order of memory, some at a time, and a block of accumulators stays in
// the L1 cache.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/skeletons/accumulators.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

template <template <class> class F, class T, class Inputs>
struct Column;

template <template <class> class F, class T, class... I>
struct Column<F, T, Types<I...>> {
  // A pivot that is the first row; the largest element is not known before the last row.
  static constexpr Pivot kPivot = pivot_of<F<T>>() == Pivot::kFirst ? Pivot::kFirst : Pivot::kNone;
  using Lanes = BlockLanes<F, T, kPivot>;
  static constexpr int kCount = Lanes::kCount, kReads = F<T>::kReads;
  static constexpr int kScalars = row_scalars<F<T>>(), kArrays = kReads - kScalars;
  static constexpr i64 kStep = kLanes<T>, kVectors = 4096 / kVectorBytes / kCount;  // 4 KiB of accumulators
  static constexpr i64 kRowsAtOnce = 4, kMostRows = elements_per_lane<F<T>>();
  static constexpr auto kNumbers = std::make_index_sequence<static_cast<std::size_t>(kReads)>{};

  /// values[accumulator * pitch + column].
  static void reduce(const void* job, const Rows& rows, i64 first, double* values, i64 pitch) {
    const F<T> f = functor<F, T>(job);
    const F<double> wide = functor<F, double>(job);
    for (i64 c = 0; c < rows.n; c += kVectors * kStep) {
      const i64 columns = min_of(rows.n - c, kVectors * kStep);
      for (i64 r = 0; r < rows.rows; r += kMostRows) {
        const i64 end = min_of(r + kMostRows, rows.rows);
        reduce_block(f, wide, rows, {r, end, c, columns}, first, values + c, pitch);
      }
    }
  }

 private:
  struct Block {
    i64 row, end, column, columns;
  };

  static void reduce_block(const F<T>& f, const F<double>& wide, const Rows& rows, const Block& b, i64 first,
                           double* values, i64 pitch) {
    alignas(64) T sums[kCount][kVectors * kStep];
    const Lanes none(f);
    for (int k = 0; k < kCount; ++k)
      for (i64 v = 0; v * kStep < b.columns; ++v) store(sums[k] + v * kStep, none.v[k]);
    i64 r = b.row;
    for (; r + kRowsAtOnce <= b.end; r += kRowsAtOnce) add_rows<kRowsAtOnce>(f, rows, b, r, sums);
    for (; r < b.end; ++r) add_rows<1>(f, rows, b, r, sums);
    const i64 rest = b.columns % kStep;
    if (rest > 0 && b.column + b.columns >= kStep)
      for (int k = 0; k < kCount; ++k) {
        T* const to = sums[k] + b.columns - rest;
        __builtin_memmove(to, to + kStep - rest, static_cast<std::size_t>(rest) * sizeof(T));
      }
    constexpr int kDoubles = kLanes<double>;
    for (i64 i = 0; i < b.columns; i += kDoubles) {
      Vec<double> part[kCount];
      for (int k = 0; k < kCount; ++k) {
        typename VecType<T, kDoubles>::type some;
        __builtin_memcpy(&some, sums[k] + i, sizeof some);
        part[k] = __builtin_convertvector(some, Vec<double>);
        if (k == F<T>::kIndex) part[k] = part[k] + static_cast<double>(first + b.row);
      }
      Accumulators<F, double> of_block(wide);
      if constexpr (kPivot == Pivot::kNone) {
        for (int k = 0; k < kCount; ++k) of_block.v[k] = part[k];
      } else {
        wide.values_of(of_block.v, broadcast(static_cast<double>(b.end - b.row)), part);
      }
      merge_values<F>(wide, of_block, values + i, pitch, static_cast<int>(min_of<i64>(kDoubles, b.columns - i)));
    }
  }

  /// Adds kRows rows to the sums of every column of the block.
  template <i64 kRows>
  static void add_rows(const F<T>& f, const Rows& rows, const Block& b, i64 row, T (&sums)[kCount][kVectors * kStep]) {
    const void* in[kRows][kReads];
    for (i64 r = 0; r < kRows; ++r)
      for (int k = 0; k < kReads; ++k)
        in[r][k] = static_cast<const unsigned char*>(rows.in[k]) + (row + r) * rows.row_bytes[k];
    Vec<T> scalars[kRows][kScalars + 1];
    for (i64 r = 0; r < kRows; ++r) load_scalars(in[r], scalars[r], kNumbers);
    i64 i = 0;
    for (; i + kStep <= b.columns; i += kStep) {
      Lanes lanes = loaded(f, sums, i);
#pragma GCC unroll 4
      for (i64 r = 0; r < kRows; ++r) {
        if constexpr (kArrays <= 2) prefetch_rows(rows, kRows, in[r], b.column + i);
        add(f, lanes, row + r - b.row, in[r], scalars[r], b.column + i, kNumbers);
      }
      for (int k = 0; k < kCount; ++k) store(sums[k] + i, lanes.v[k]);
    }
    if (i == b.columns) return;
    // The last vector ends with the last column, unless there are too few; its sums stay in these lanes.
    Lanes lanes = loaded(f, sums, i);
    const i64 last = b.column + b.columns - kStep;
    for (i64 r = 0; r < kRows; ++r) {
      if (last >= 0)
        add(f, lanes, row + r - b.row, in[r], scalars[r], last, kNumbers);
      else
        add<false>(f, lanes, row + r - b.row, in[r], scalars[r], b.column + i, kNumbers,
                   static_cast<int>(b.columns - i));
    }
    for (int k = 0; k < kCount; ++k) store(sums[k] + i, lanes.v[k]);
  }

  /// Prefetches the rows that the next call adds: in short rows the processor recognizes no stream. With more than two
  /// arrays this takes longer than it saves.
  [[gnu::always_inline]] static void prefetch_rows(const Rows& rows, i64 after, const void* const* in, i64 i) {
    constexpr i64 kSizes[] = {sizeof(I)...};
    for (int k = 0; k < kArrays; ++k)
      __builtin_prefetch(static_cast<const char*>(in[k]) + i * kSizes[k] + after * rows.row_bytes[k]);
  }
  /// Row `row` of the block: a vector, or the first n lanes of one.
  template <bool kWhole = true, std::size_t... K>
  [[gnu::always_inline]] static void add(const F<T>& f, Lanes& lanes, i64 row, const void* const* in,
                                         const Vec<T>* scalars, i64 i, std::index_sequence<K...>, int n = kStep) {
    if constexpr (kPivot == Pivot::kFirst)
      if (row == 0) lanes.v[0] = f.element(input<K, kWhole>(in, scalars, i, n)...);
    lanes.add(f, broadcast(static_cast<T>(row)), input<K, kWhole>(in, scalars, i, n)...);
  }
  template <std::size_t K, bool kWhole>
  [[gnu::always_inline]] static Vec<T> input(const void* const* in, const Vec<T>* scalars, i64 i, int n) {
    using E = Elements<typename TypeAt<K, I...>::type, T>;
    if constexpr (K >= static_cast<std::size_t>(kArrays))
      return scalars[K - kArrays];
    else if constexpr (kWhole)
      return E::load(in[K], i);
    else
      return E::load_part(in[K], i, n);
  }
  template <std::size_t... K>
  static void load_scalars(const void* const* in, Vec<T>* scalars, std::index_sequence<K...>) {
    (load_scalar<K>(in, scalars), ...);
  }
  template <std::size_t K>
  static void load_scalar(const void* const* in, Vec<T>* scalars) {
    if constexpr (K >= static_cast<std::size_t>(kArrays)) {
      using S = typename TypeAt<K, I...>::type;
      alignas(64) unsigned char buffer[kVectorBytes] = {};
      __builtin_memcpy(buffer, in[K], sizeof(S));
      scalars[K - kArrays] = broadcast(Elements<S, T>::load(buffer, 0)[0]);
    }
  }

  static Lanes loaded(const F<T>& f, const T (&sums)[kCount][kVectors * kStep], i64 i) {
    Lanes lanes(f);
    for (int k = 0; k < kCount; ++k) lanes.v[k] = load(sums[k] + i);
    return lanes;
  }
};

/// The types of kCount values, then those of the inputs.
template <class T, int kCount, class... I>
struct WithValues : WithValues<T, kCount - 1, T, I...> {};
template <class T, class... I>
struct WithValues<T, 0, I...> {
  using type = Types<I...>;
};

template <template <class> class F, class T, class Inputs, class Outputs>
struct ColumnPass;

/// The second pass.
template <template <class> class F, class T, class... I, class... O>
struct ColumnPass<F, T, Types<I...>, Types<O...>> {
  static constexpr int kCount = F<T>::kAccumulators;
  static constexpr i64 kColumns = 8192 / kCount / static_cast<i64>(sizeof(T)) / 64 * 64;  // 8 KiB of values

  static void apply(const void* job, const Rows& rows, const double* values, i64 pitch) {
    const Applied applied{functor<F, T>(job)};
    alignas(64) T of_columns[kCount][kColumns];
    for (i64 c = 0; c < rows.n; c += kColumns) {
      Run run;
      run.n = min_of(rows.n - c, kColumns);
      run.rows = rows.rows;
      for (int k = 0; k < kCount; ++k) {
        for (i64 i = 0; i < run.n; ++i) of_columns[k][i] = static_cast<T>(values[k * pitch + c + i]);
        run.in[k] = of_columns[k];
      }
      for (std::size_t k = 0; k < sizeof...(I); ++k) {
        run.in[kCount + k] = static_cast<const unsigned char*>(rows.in[k]) + c * kInSizes[k];
        run.in_row_bytes[kCount + k] = rows.row_bytes[k];
      }
      for (std::size_t o = 0; o < sizeof...(O); ++o) {
        run.out[o] = static_cast<unsigned char*>(rows.out[o]) + c * kOutSizes[o];
        run.out_row_bytes[o] = rows.out_row_bytes[o];
      }
      Run last;
      last.rows = 0;
      alignas(64) unsigned char repeated[sizeof...(I)][kColumns * static_cast<i64>(sizeof(T))];
      if (is_dense(rows) && rows.n <= kColumns / 2 && rows.rows > 1) merge_rows(of_columns, repeated, run, last);
      for (const Run* const part : {&run, &last}) map_applied<T, Inputs, Types<O...>>(applied, *part);
    }
    finish_applied(applied.f);
  }

 private:
  using Inputs = typename WithValues<T, kCount, I...>::type;
  struct Applied;
  static constexpr i64 kInSizes[] = {sizeof(I)...}, kOutSizes[] = {sizeof(O)...};

  /// Whether the rows of each tensor are contiguous, or one row is broadcast.
  static bool is_dense(const Rows& rows) {
    bool dense = true;
    for (std::size_t k = 0; k < sizeof...(I); ++k)
      dense = dense && (rows.row_bytes[k] == rows.n * kInSizes[k] || rows.row_bytes[k] == 0);
    for (std::size_t o = 0; o < sizeof...(O); ++o) dense = dense && rows.out_row_bytes[o] == rows.n * kOutSizes[o];
    return dense;
  }

  /// Merges several short dense rows into each row of `run`; the rows that are left become the only row of `last`.
  static void merge_rows(T (&of_columns)[kCount][kColumns],
                         unsigned char (&repeated)[sizeof...(I)][kColumns * static_cast<i64>(sizeof(T))], Run& run,
                         Run& last) {
    const i64 n = run.n, merged = min_of(kColumns / n, run.rows), left = run.rows % merged;
    for (int k = 0; k < kCount; ++k) repeat(of_columns[k], n * static_cast<i64>(sizeof(T)), merged);
    run.n *= merged;
    run.rows /= merged;
    for (i64& bytes : run.in_row_bytes) bytes *= merged;
    for (i64& bytes : run.out_row_bytes) bytes *= merged;
    for (std::size_t k = 0; k < sizeof...(I); ++k) {
      if (run.in_row_bytes[kCount + k] != 0) continue;
      __builtin_memcpy(repeated[k], run.in[kCount + k], static_cast<std::size_t>(n * kInSizes[k]));
      repeat(repeated[k], n * kInSizes[k], merged);
      run.in[kCount + k] = repeated[k];
    }
    if (left == 0) return;
    last = run;
    last.n = n * left;
    last.rows = 1;
    for (std::size_t k = 0; k < sizeof...(I); ++k)
      last.in[kCount + k] =
          static_cast<const unsigned char*>(run.in[kCount + k]) + run.rows * run.in_row_bytes[kCount + k];
    for (std::size_t o = 0; o < sizeof...(O); ++o)
      last.out[o] = static_cast<unsigned char*>(run.out[o]) + run.rows * run.out_row_bytes[o];
  }
  /// Repeats the first bytes, so that they stand there `times` times.
  static void repeat(void* data, i64 bytes, i64 times) {
    auto* const to = static_cast<unsigned char*>(data);
    for (i64 i = 1; i < times; ++i) __builtin_memcpy(to + i * bytes, to, static_cast<std::size_t>(bytes));
  }

  struct Applied {
    template <class... X>
    [[gnu::always_inline]] auto operator()(X... x) const {
      const Vec<T> all[] = {x...};
      Vec<T> values[kCount];
      for (int k = 0; k < kCount; ++k) values[k] = all[k];
      return with(all + kCount, values, std::make_index_sequence<sizeof...(I)>{});
    }
    template <std::size_t... K>
    [[gnu::always_inline]] auto with(const Vec<T>* x, const Vec<T> (&values)[kCount], std::index_sequence<K...>) const {
      return f.apply(values, x[K]...);
    }
    F<T> f;
  };
};

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
