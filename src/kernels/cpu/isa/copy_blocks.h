// Copies of blocks of operands in the type of the arithmetic: line by line, or transposed by squares of vectors. Sums
// written to the runs of C's columns.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/operand_cursor.h"
#include "kernels/cpu/isa/storage_types.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// Elements that a copy may write past the end of a line.
template <class T>
inline constexpr int kSpill = kLanes<T>;

/// dst[e] = src[e] for low <= e < high, zero in the rest of [0, length); may write kSpill more elements.
template <class T, class S>
static inline void copy_line(const S* src, int low, int high, int length, T* dst) {
  constexpr int kN = kLanes<T>;
  for (int e = 0; e < low; e += kN) store(dst + e, Vec<T>{});
  int e = low;
  for (; e + kN <= high; e += kN) store(dst + e, fetch_vector<T>(src + e));
  if (e < high) store(dst + e, fetch_vector<T>(src + e, high - e));
  for (e = high; e < length; e += kN) store(dst + e, Vec<T>{});
}

/// copy_line with src[e * stride].
template <class T, class S>
static inline void gather_line(const S* src, i64 stride, int low, int high, int length, T* dst) {
  for (int e = 0; e < low; ++e) dst[e] = 0;
  int e = low;
  constexpr int kN = kLanes<T>;
  if constexpr (kMaskedLoads && sizeof(T) == sizeof(S)) {
    if (stride == 2) {
      for (; e < high; e += kN) store(dst + e, load_steps<2>(src + e * 2, 0, min_of(high - e, kN)));
      e = high;
    }
  }
  for (; e < high; ++e) dst[e] = widen(src[e * stride]);
  for (e = high; e < length; ++e) dst[e] = 0;
}

/// Copies the positions of `runs` on one line to dst, zeros out of bounds; may write kSpill more elements.
template <class T, class S>
static inline void fetch_line(const Operand& operand, const Level& inner, bool bounded, const Line& line,
                              const Run* runs, int count, T* dst) {
  const S* data = static_cast<const S*>(operand.data) + line.offset;
  for (int r = 0; r < count; ++r) {
    const Run& run = runs[r];
    int low = 0, high = run.length;
    if (bounded) visible(operand, inner, line, run, low, high);
    if (inner.stride == 1) {
      copy_line<T, S>(data + run.offset, low, high, run.length, dst);
    } else {
      gather_line<T, S>(data + run.offset, inner.stride, low, high, run.length, dst);
    }
    dst += run.length;
  }
}

/// Scratch memory of copies.
template <class T>
struct CopySpace {
  Run* runs;  // as many as a line may have positions
  T* lines;   // kLanes lines of line_pitch elements
  i64 line_pitch;
};

/// A block of an operand: lanes [lane, lane + lanes), depths [depth, depth + depths).
struct Part {
  i64 lane, depth;
  int lanes, depths;
};

/// dst[i * pitch + e]: positions e of `along` on line i of `lines`, zero from `length` to `padded`, a multiple of
/// the vector; may write kSpill elements more than padded.
template <class T, class S>
static void copy_lines(const Operand& operand, const Axis& lines, i64 first_line, int line_count, const Axis& along,
                       i64 first, int length, int padded, T* dst, i64 pitch, Run* runs) {
  const Level& inner = along.level[kLevels - 1];
  const int count = cut_runs(along, first, length, runs);
  const bool bounded = is_bounded(operand);
  Cursor cursor = seek(lines, first_line);
  for (int i = 0; i < line_count; ++i, dst += pitch) {
    fetch_line<T, S>(operand, inner, bounded, line_at(operand, cursor), runs, count, dst);
    for (int e = length; e < padded; e += kLanes<T>) store(dst + e, Vec<T>{});
    step(cursor, lines);
  }
}

/// dst[k * pitch + t] = source[t][k] for kLanes lines t.
template <class T, class S>
static inline void transpose_lines(const S* const (&source)[kLanes<T>], int depths, T* dst, i64 pitch) {
  constexpr int kN = kLanes<T>;
  for (int k = 0; k < depths; k += kN) {
    const int some = min_of(depths - k, kN);
    Vec<T> rows[kN];
    if (some == kN) {
#pragma GCC unroll 16
      for (int t = 0; t < kN; ++t) rows[t] = fetch_vector<T>(source[t] + k);
      transpose(rows);
#pragma GCC unroll 16
      for (int t = 0; t < kN; ++t) store(dst + (k + t) * pitch, rows[t]);
    } else {
      for (int t = 0; t < kN; ++t) rows[t] = fetch_vector<T>(source[t] + k, some);
      transpose(rows);
      for (int t = 0; t < some; ++t) store(dst + (k + t) * pitch, rows[t]);
    }
  }
}

/// dst[k * pitch + i] = element (lane + i, depth + k), read along the depth; lanes are padded with zeros to a
/// multiple of the vector.
template <class T, class S>
static void transpose_part(const Operand& operand, const Part& part, T* dst, i64 pitch, const CopySpace<T>& space) {
  constexpr int kN = kLanes<T>;
  const Level& inner = operand.depth.level[kLevels - 1];
  const int count = cut_runs(operand.depth, part.depth, part.depths, space.runs);
  const bool bounded = is_bounded(operand), plain = count == 1 && !bounded && inner.stride == 1;
  Cursor cursor = seek(operand.lanes, part.lane);
  for (int i = 0; i < part.lanes; i += kN, dst += kN) {
    const int some = min_of(part.lanes - i, kN);
    if (plain && some == kN) {
      const S* source[kN];
      for (int t = 0; t < kN; ++t, step(cursor, operand.lanes))
        source[t] = static_cast<const S*>(operand.data) + line_at(operand, cursor).offset + space.runs[0].offset;
      transpose_lines<T, S>(source, part.depths, dst, pitch);
      continue;
    }
    const T* source[kN];
    for (int t = 0; t < kN; ++t) {
      T* buffer = space.lines + t * space.line_pitch;
      source[t] = buffer;
      if (t < some) {
        fetch_line<T, S>(operand, inner, bounded, line_at(operand, cursor), space.runs, count, buffer);
        step(cursor, operand.lanes);
      } else {
        for (int k = 0; k < part.depths; k += kN) store(buffer + k, Vec<T>{});
      }
    }
    transpose_lines<T, T>(source, part.depths, dst, pitch);
  }
}

/// Rough cost per element of reading along an axis: long runs of stride 1 (or 2, with masked loads) are cheap.
static inline double run_cost(const Axis& axis) {
  const Level& inner = axis.level[kLevels - 1];
  const bool quick = inner.stride == 1 || (kMaskedLoads && inner.stride == 2);
  return quick ? static_cast<double>(inner.stride) * 8.0 / static_cast<double>(inner.size) : 2.0;
}

/// c[e * stride] = alpha * value[e] + beta * c[e * stride] over the runs of a row's columns; reads whole vectors of
/// value.
template <class S, class T>
static inline void write_runs(S* c, i64 stride, const Run* runs, int count, const T* value, T alpha, T beta) {
  for (int r = 0; r < count; ++r) {
    S* out = c + runs[r].offset;
    const int length = runs[r].length;
    for (int e = 0; stride == 1 && e < length; e += kLanes<T>) {
      const int some = min_of(length - e, kLanes<T>);
      Vec<T> v = load(value + e) * broadcast(alpha);
      if (beta != 0) v += fetch_vector<T>(out + e, some) * broadcast(beta);
      put_vector<T>(out + e, v, some);
    }
    for (int e = 0; stride != 1 && e < length; ++e) {
      S& element = out[e * stride];
      T v = alpha * value[e];
      if (beta != 0) v += beta * static_cast<T>(widen(element));
      element = narrow<S>(v);
    }
    value += length;
  }
}

/// Lines of a bf16 operand along one of its axes: `count` positions from `first` on, cut into `runs`.
class Bf16Lines {
 public:
  Bf16Lines(const Operand& operand, const Axis& along, i64 first, i64 count, Run* runs)
      : operand_(operand),
        level_(along.level[kLevels - 1]),
        is_bounded_(is_bounded(operand)),
        length_(count),
        runs_(runs) {
    count_ = cut_runs(along, first, static_cast<int>(count), runs);
  }
  bool is_contiguous() const { return count_ == 1 && !is_bounded_ && level_.stride == 1; }
  /// The first element of a contiguous line.
  const Bfloat16* address(const Cursor& cursor) const {
    return static_cast<const Bfloat16*>(operand_.data) + line_at(operand_, cursor).offset + runs_[0].offset;
  }
  /// Copies a line, with zeros out of bounds and up to `padded` elements.
  void copy(const Cursor& cursor, i64 padded, Bfloat16* to) const {
    const Line line = line_at(operand_, cursor);
    const Bfloat16* const data = static_cast<const Bfloat16*>(operand_.data) + line.offset;
    Bfloat16* const start = to;
    for (int r = 0; r < count_; ++r) {
      const Run& run = runs_[r];
      int low = 0, high = run.length;
      if (is_bounded_) visible(operand_, level_, line, run, low, high);
      const Bfloat16* const from = data + run.offset;
      for (int e = 0; e < low; ++e) to[e] = {};
      if (level_.stride == 1) {
        __builtin_memcpy(to + low, from + low, static_cast<std::size_t>(high - low) * sizeof(Bfloat16));
      } else {
        for (int e = low; e < high; ++e) to[e] = from[e * level_.stride];
      }
      for (int e = high; e < run.length; ++e) to[e] = {};
      to += run.length;
    }
    for (i64 e = length_; e < padded; ++e) start[e] = {};
  }

 private:
  const Operand& operand_;
  const Level& level_;
  bool is_bounded_;
  i64 length_;
  Run* runs_;
  int count_;
};

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
