// Elements of a row that gather from the windows that cover them, in vectors for every stride.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/skeletons/window.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// Consecutive elements of a row, each the sum over the windows that cover it. Column q has the elements q * stride -
/// pad to q * stride - pad + stride - 1, one per phase; window o covers, at tap a * stride + r, phase r of column o +
/// a.
template <class T, bool kMaximum>
class GatheredRow {
 public:
  GatheredRow(Scratch& scratch, const WindowDim& dim) : dim_(dim) {
    const i64 block = min_of(dim.size, kWriterElements);
    pitch_ = round_up((block - 1 + dim.stride) / dim.stride + 1, kStep);
    const i64 most = min_of(dim.windows, pitch_ + (dim.length - 1) / dim.stride) + 3 * kStep;
    gradients_ = scratch.take<T>(most);
    taps_ = kMaximum ? scratch.take<Int<T>>(most) : nullptr;
    phases_ = scratch.take<T>(pitch_ * dim.stride);
    row_ = scratch.take<T>(pitch_ * dim.stride);
  }

  /// Begins elements `which`, at most kWriterElements; returns the windows that cover any of them.
  Range begin(Range which) {
    first_ = (which.first + dim_.pad) / dim_.stride;
    columns_ = (which.end - 1 + dim_.pad) / dim_.stride - first_ + 1;
    skipped_ = which.first + dim_.pad - first_ * dim_.stride;
    windows_ = {windows_of(dim_, which.first).first, windows_of(dim_, which.end - 1).end};
    const i64 n = windows_.count();
    for (i64 i = 0; i < kStep; ++i) gradients_[i] = gradients_[kStep + n + i] = gradients_[2 * kStep + n + i] = 0;
    for (i64 i = 0; i < pitch_ * dim_.stride; ++i) phases_[i] = 0;
    return windows_;
  }
  /// Of the windows: a gradient, and the tap whose element gets it; without kMaximum all elements get it. Whole vectors
  /// of gradients are written, with zeros at the end.
  T* gradients() { return gradients_ + kStep; }
  Int<T>* taps() { return taps_ + kStep; }

  /// Adds the gradients to the elements.
  void add() {
    const i64 taps = dim_.length, stride = dim_.stride, shift = first_ - windows_.first;
    for (i64 r = 0; r < min_of(stride, taps); ++r)
      for (i64 q = 0; q < columns_; q += kStep) {
        // Only windows that exist.
        const i64 low = max_of<i64>(q + first_ - (windows_.end - 1), 0);
        const i64 high = min_of((taps - 1 - r) / stride, q + kStep - 1 + shift);
        Vec<T> acc = load(phases_ + r * pitch_ + q);
        for (i64 a = low; a <= high; ++a) {
          const i64 at = q - a + shift + kStep;
          const Vec<T> x = load(gradients_ + at);
          if constexpr (kMaximum)
            acc = acc + (load(taps_ + at) == Ints<T>{} + static_cast<Int<T>>(a * stride + r) ? x : Vec<T>{});
          else
            acc = acc + x;
        }
        store(phases_ + r * pitch_ + q, acc);
      }
  }

  /// The elements in their order.
  const T* finish() {
    const i64 stride = dim_.stride;
    if (stride == 1) return phases_ + skipped_;
    if (stride == 2) {
      const auto lanes = std::make_index_sequence<static_cast<std::size_t>(kStep)>{};
      for (i64 q = 0; q < columns_; q += kStep) merge_pair(phases_ + q, phases_ + pitch_ + q, row_ + 2 * q, lanes);
    } else {
      for (i64 q = 0; q < columns_; ++q)
        for (i64 r = 0; r < stride; ++r) row_[q * stride + r] = phases_[r * pitch_ + q];
    }
    return row_ + skipped_;
  }

 private:
  static constexpr i64 kStep = kLanes<T>;

  template <std::size_t... I>
  static void merge_pair(const T* even, const T* odd, T* to, std::index_sequence<I...>) {
    constexpr auto kLane = [](std::size_t i) { return static_cast<int>(i / 2 + i % 2 * kStep); };
    const Vec<T> a = load(even), b = load(odd);
    store(to, __builtin_shufflevector(a, b, kLane(I)...));
    store(to + kStep, __builtin_shufflevector(a, b, kLane(I + static_cast<std::size_t>(kStep))...));
  }

  const WindowDim& dim_;
  i64 pitch_, first_ = 0, columns_ = 0, skipped_ = 0;
  Range windows_;
  T *gradients_, *phases_, *row_;
  Int<T>* taps_;
};

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
