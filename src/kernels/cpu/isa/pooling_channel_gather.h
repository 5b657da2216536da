// Elements of dx that gather from the windows that cover them, in vectors of contiguous channels.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/pooling_indices.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// The windows that cover an element: some of each of the lines. From one to the next in elements, bytes and indices.
template <class S, class T, bool kMaximum>
struct ChannelSources {
  /// A line of windows that cover a line of dx: gradients and indices of its first window, and the index of element 0
  /// or the weight of a mean in the line.
  struct Line {
    const S* gradient;
    const unsigned char* index;
    Int<T> wanted;
    T weight;
  };

  const Line* lines;
  i64 count;
  i64 element;
  Range widths;
  const T* weights;
  i64 gradient_step, index_step, wanted_step;
};

/// n elements in kVectors vectors; the last overlaps the one before. U: the type of indices.
template <class U, int kVectors, class S, class T, bool kMaximum>
[[gnu::always_inline]] inline void gather_channel_block(const ChannelSources<S, T, kMaximum>& given, i64 c, i64 n,
                                                        T* to) {
  constexpr i64 kStep = kLanes<T>;
  const auto sources = given;
  const i64 last = kVectors == 1 ? 0 : n - kStep, count = kVectors == 1 ? n : kStep;
  Vec<T> acc[kVectors] = {};
  for (i64 i = 0; i < sources.count; ++i) {
    const auto line = sources.lines[i];
    const S* gradient = line.gradient + c + sources.widths.first * sources.gradient_step;
    [[maybe_unused]] const unsigned char* index = nullptr;
    if constexpr (kMaximum)
      index = line.index + c * static_cast<i64>(sizeof(U)) + sources.widths.first * sources.index_step;
    i64 wanted = line.wanted + sources.element - sources.widths.first * sources.wanted_step;
    for (i64 o = sources.widths.first; o < sources.widths.end; ++o) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        const i64 first = v < kVectors - 1 ? v * kStep : last;
        const Vec<T> x = load_elements<S, T>(gradient + first, 1, count);
        if constexpr (kMaximum) {
          const Ints<T> indices = load_indices<U, T>(index + first * static_cast<i64>(sizeof(U)), 1, count);
          acc[v] = indices == static_cast<Int<T>>(wanted) ? acc[v] + x : acc[v];
        } else {
          acc[v] = acc[v] + x * (line.weight * sources.weights[o]);
        }
      }
      gradient += sources.gradient_step;
      if constexpr (kMaximum) index += sources.index_step;
      wanted -= sources.wanted_step;
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) store(to + (v < kVectors - 1 ? v * kStep : last), acc[v]);
}

/// Channels [c, c + n) of an element of dx.
template <class U, class S, class T, bool kMaximum>
[[gnu::always_inline]] inline void gather_channels(const ChannelSources<S, T, kMaximum>& sources, i64 c, i64 n, T* to) {
  constexpr i64 kStep = kLanes<T>;
  i64 i = 0;
  for (; i + 4 * kStep <= n; i += 4 * kStep) gather_channel_block<U, 4>(sources, c + i, 4 * kStep, to + i);
  if (i == n) return;
  switch ((n - i - 1) / kStep) {
    case 0:
      if (n >= kStep) i = n - kStep;  // overlaps the vector before
      return gather_channel_block<U, 1>(sources, c + i, n - i, to + i);
    case 1: return gather_channel_block<U, 2>(sources, c + i, n - i, to + i);
    case 2: return gather_channel_block<U, 3>(sources, c + i, n - i, to + i);
    default: return gather_channel_block<U, 4>(sources, c + i, n - i, to + i);
  }
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
