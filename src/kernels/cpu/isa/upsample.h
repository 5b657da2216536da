// Upsampling by 2: stores rows of an image with zeros between the elements and lines of zeros between the lines
// (backward data of 1x1 filters with stride 2).
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/operand_cursor.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// Half of the lanes of v, from kFrom on, each followed by a zero.
template <int kFrom, class V, std::size_t... I>
static inline V with_zeros(V v, std::index_sequence<I...>) {
  constexpr int kZero = sizeof...(I);
  return __builtin_shufflevector(v, V{}, (I % 2 == 0 ? static_cast<int>(kFrom + I / 2) : kZero)...);
}

/// Elements of Upsample::line for `columns` columns.
template <class T>
constexpr i64 upsample_room(i64 columns) {
  return 4 * columns + 2 * kLanes<T>;
}

template <class T>
struct Upsample {
  T* line = nullptr;    // scratch: upsample_room() elements
  Run* runs = nullptr;  // of C's columns; offsets in elements
  int count = 0;        // of runs
  bool non_temporal = false;

  /// Stores a row of columns: alpha * value at c + runs, a zero after each element, and a line of zeros `gap` elements
  /// further (Output::gap).
  void write(T* c, i64 gap, const T* value, T alpha) const {
    for (int r = 0; r < count;) {
      T* const out = c + runs[r].offset;
      T* end = line;
      bool has_next = true;
      // Contiguous lines of the image are collected in `line` and stored at once.
      for (; r < count && has_next; ++r) {
        const i64 length = runs[r].length;
        expand(value, length, alpha, end);
        value += length;
        end += 2 * length;
        has_next = 2 * length == gap && r + 1 < count && runs[r + 1].offset == runs[r].offset + 2 * gap &&
                   2 * runs[r + 1].length == gap;
        if (2 * length == gap)
          end = clear(end, gap);
        else if (!has_next)
          clear(end, 2 * length);
      }
      const i64 last = 2 * runs[r - 1].length;
      copy(line, out, end - line);
      if (last < gap) copy(end, out + (end - line) - last + gap, last);
    }
  }

 private:
  /// Stores whole vectors: may write past 2 * length elements.
  static void expand(const T* value, i64 length, T alpha, T* to) {
    constexpr int kN = kLanes<T>;
    for (i64 e = 0; e < length; e += kN) {
      const Vec<T> v = load(value + e) * broadcast(alpha);
      store(to + 2 * e, with_zeros<0>(v, std::make_index_sequence<kN>{}));
      store(to + 2 * e + kN, with_zeros<kN / 2>(v, std::make_index_sequence<kN>{}));
    }
  }
  /// Returns to + length; may write a vector more.
  static T* clear(T* to, i64 length) {
    for (i64 e = 0; e < length; e += kLanes<T>) store(to + e, Vec<T>{});
    return to + length;
  }
  /// Copies exactly `length` elements to the result.
  void copy(const T* from, T* to, i64 length) const {
    constexpr i64 kN = kLanes<T>;
    i64 e = 0;
#if defined(__AVX512F__)
    if (non_temporal) {
      const i64 before = (64 - reinterpret_cast<std::uintptr_t>(to) % 64) % 64 / static_cast<i64>(sizeof(T));
      e = min_of(before, length);
      if (e > 0) store_lanes(to, load(from), static_cast<int>(e));
      for (; e + kN <= length; e += kN) stream(to + e, load(from + e));
    }
#endif
    for (; e + kN <= length; e += kN) store(to + e, load(from + e));
    if (e < length) store_lanes(to + e, load(from + e), static_cast<int>(length - e));
  }
};

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
