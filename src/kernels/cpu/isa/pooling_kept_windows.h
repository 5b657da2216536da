// Rows of windows for rows of dx that gather from them, and what windows add to a mean's gradient.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/pooling_indices.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// What an element's windows add to its gradient of a mean: a factor for each dimension.
template <class T>
class WindowWeights {
 public:
  WindowWeights(const Pooling& p, Scratch& scratch) : p_(p) {
    for (int k = 0; k < 3; ++k) weights_[k] = p.maximum ? nullptr : scratch.take<T>(p.dims[k].windows);
  }

  /// Those of the windows that cover lines [first, end) of dx: there are tasks of a few lines of a large plane.
  void prepare(i64 first, i64 end) {
    fill(2, {0, p_.dims[2].windows});
    i64 last = end - 1;
    for (int k = 1; k >= 0; --k) {
      const WindowDim& dim = p_.dims[k];
      const bool part = first / dim.size == last / dim.size;
      fill(k, {part ? windows_of(dim, first % dim.size).first : 0,
               part ? windows_of(dim, last % dim.size).end : dim.windows});
      first /= dim.size;
      last /= dim.size;
    }
  }
  const T* operator[](int k) const { return weights_[k]; }

 private:
  void fill(int k, Range windows) {
    for (i64 w = windows.first; w < windows.end; ++w) {
      const i64 n = p_.inclusive ? p_.dims[k].length : elements_of(p_.dims[k], w).count();
      weights_[k][w] = n > 0 ? 1 / static_cast<T>(n) : 0;
    }
  }

  const Pooling& p_;
  T* weights_[3];
};

/// Rows of windows in lanes of T between zeros, as many as some rows of dx need: neighbouring elements read
/// neighbouring windows, and rows reach the cache before vectors that overlap their stores are loaded.
template <class S, class T, bool kMaximum>
class KeptWindows {
 public:
  /// `columns`: elements of a row of dx by the stride.
  KeptWindows(Scratch& scratch, const Pooling& p, i64 columns)
      : p_(p),
        dim_(p.dims[2]),
        depths_(slots((p.dims[0].length - 1) / p.dims[0].stride + 1)),
        before_(max_of<i64>((dim_.length - 1 - dim_.pad) / dim_.stride, 0)),
        pitch_(round_up(before_ + max_of(dim_.windows, columns + dim_.pad / dim_.stride + 1) + 2 * kStep, kStep)) {
    const WindowDim& height = p.dims[1];
    const i64 overlap = (height.length - 1) / height.stride + 2;
    const i64 fit = kBytes / (depths_ * pitch_ * static_cast<i64>(sizeof(T) + (kMaximum ? sizeof(Int<T>) : 0)));
    rows_ = min_of(max_of<i64>((fit - overlap) * height.stride + 1, 1), height.size);
    heights_ = slots((rows_ - 1) / height.stride + overlap);
    gradients_ = scratch.take<T>(depths_ * heights_ * pitch_);
    taps_ = kMaximum ? scratch.take<Int<T>>(depths_ * heights_ * pitch_) : nullptr;
    kept_ = scratch.take<i64>(depths_ * heights_);
  }

  void clear() {
    for (i64 i = 0; i < depths_ * heights_ * pitch_; ++i) gradients_[i] = 0;
    for (i64 i = 0; i < depths_ * heights_; ++i) kept_[i] = -1;
  }

  i64 most_lines() const { return depths_ * heights_; }
  T* gradients_of(i64 d, i64 h) const { return gradients_ + slot(d, h) * pitch_ + before_; }
  Int<T>* taps_of(i64 d, i64 h) const { return taps_ + slot(d, h) * pitch_ + before_; }
  /// Rows of dx whose windows are kept at once.
  i64 rows() const { return rows_; }

  /// Row (d, h) of the windows of a plane: dy, of means times their weights.
  void keep(i64 plane, i64 d, i64 h, const S* dy, const WindowWeights<T>& weights, const IndexLine& index) {
    const i64 number = (plane * p_.dims[0].windows + d) * p_.dims[1].windows + h;
    i64& kept = kept_[slot(d, h)];
    if (kept == number) return;
    kept = number;
    if constexpr (kMaximum) {
      switch (index.bytes) {
        case 1: keep_taps<std::uint8_t>(index, taps_of(d, h)); break;
        case 2: keep_taps<std::uint16_t>(index, taps_of(d, h)); break;
        case 4: keep_taps<std::uint32_t>(index, taps_of(d, h)); break;
        default: keep_taps<std::uint64_t>(index, taps_of(d, h));
      }
    }
    T* const to = gradients_of(d, h);
    const T weight = kMaximum ? 1 : weights[0][d] * weights[1][h];
    each_vector([&](i64 i, i64 n) {
      const Vec<T> x = load_elements<S, T>(dy + i * p_.in_at.dims[2], p_.in_at.dims[2], n);
      if constexpr (kMaximum)
        store(to + i, x);
      else
        store(to + i, x * weight * load_elements<T, T>(weights[2] + i, 1, n));
    });
  }

 private:
  static constexpr i64 kStep = kLanes<T>, kBytes = 1 << 14;

  /// A power of two: rows need no divisions.
  static i64 slots(i64 rows) {
    i64 n = 1;
    while (n < rows) n *= 2;
    return n;
  }
  i64 slot(i64 d, i64 h) const { return (d & (depths_ - 1)) * heights_ + (h & (heights_ - 1)); }

  /// Calls body(i, n) for vectors of n windows of a row; the last overlaps the one before.
  template <class Body>
  [[gnu::always_inline]] void each_vector(const Body& body) const {
    if (dim_.windows < kStep) return body(0, dim_.windows);
    for (i64 i = 0; i < dim_.windows; i += kStep) body(min_of(i, dim_.windows - kStep), kStep);
  }

  template <class U>
  void keep_taps(const IndexLine& index, Int<T>* to) const {
    // Of an index in the image only the distance from the window's start differs between windows.
    const i64 step = index.image ? dim_.stride : 0, start = index.image ? -dim_.pad : 0;
    const Unsigneds<T> starts = (Unsigneds<T>)lane_numbers<T>() * static_cast<Unsigned<T>>(step);
    each_vector([&](i64 i, i64 n) {
      const Ints<T> indices = load_indices<U, T>(index.at(i), index.window_step, n);
      store(to + i, (Ints<T>)((Unsigneds<T>)indices - static_cast<Unsigned<T>>(start + i * step) - starts));
    });
  }

  const Pooling& p_;
  const WindowDim& dim_;
  const i64 depths_, before_, pitch_;  // rows of windows; zeros before a row, elements per row
  i64 heights_, rows_;
  T* gradients_;
  Int<T>* taps_;
  i64* kept_;
};

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
