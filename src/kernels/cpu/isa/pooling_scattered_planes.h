// Planes of dx that the gradients of maxima are added to, where windows are read and results written.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/pooling_indices.h"
#include "kernels/cpu/isa/skeletons/results.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

template <class S>
class ScatteredPlanes {
 public:
  using T = Arithmetic<S>;

 protected:
  static constexpr i64 kStep = kLanes<T>, kRead = 256;  // windows that are read at once

  /// Of `planes` planes at once.
  ScatteredPlanes(const Pooling& p, Scratch& scratch, i64 planes)
      : p_(p),
        elements_(p.dims[0].size * p.dims[1].size * p.dims[2].size),
        positions_(p.image_index ? 0 : p.dims[0].length * p.dims[1].length * p.dims[2].length),
        in_place_(__is_same(S, T) && is_one_run(p) && p.scale == 1 && p.keep == 0 && !p.non_temporal),
        buffer_(scratch.take<T>(elements_ * planes)),
        writer_(scratch, {p.scale, p.keep, p.non_temporal}, p.out_at.dims[2]) {}

  static bool has_rows_together(const WindowStrides& s, i64 width) { return s.dims[2] == 1 && s.dims[1] == width; }
  static bool is_one_run(const Pooling& p) {
    const i64 width = p.dims[2].size, depth = width * p.dims[1].size;
    return has_rows_together(p.out_at, width) && (p.dims[0].size == 1 || p.out_at.dims[0] == depth);
  }

  /// Zeros for sums of so many planes; more than one only if they follow each other in memory.
  void start(i64 image, i64 channel, i64 planes) {
    sums_ = in_place_ ? reinterpret_cast<T*>(result(image, channel)) : buffer_;
    __builtin_memset(sums_, 0, static_cast<std::size_t>(planes * elements_) * sizeof(T));
  }
  void finish(i64 image, i64 channel, i64 planes) {
    if (in_place_) return;
    const WindowStrides& s = p_.out_at;
    const i64 width = p_.dims[2].size;
    const bool together = is_one_run(p_);
    const i64 rows = together ? 1 : p_.dims[0].size * p_.dims[1].size, row = together ? planes * elements_ : width;
    const T* from = sums_;
    for (i64 r = 0; r < rows; ++r) {
      S* const to = result(image, channel) + r / p_.dims[1].size * s.dims[0] + r % p_.dims[1].size * s.dims[1];
      for (i64 i = 0, n; i < row; i += n, from += n) {
        n = min_of(row - i, kWriterElements);
        __builtin_memcpy(writer_.reserve(to + i * s.dims[2], n), from, static_cast<std::size_t>(n) * sizeof(T));
      }
    }
  }

  /// n elements in memory, or copies of them in the buffer.
  static const T* values_at(const S* from, i64 step, i64 n, T* buffer) {
    if constexpr (__is_same(S, T))
      if (step == 1) return from;
    for (i64 i = 0; i < n; i += kStep)
      store(buffer + i, load_elements<S, T>(from + i * step, step, min_of(kStep, n - i)));
    return buffer;
  }
  static const Int<T>* indices_at(const IndexLine& index, i64 window, i64 n, Int<T>* buffer) {
    const unsigned char* const from = index.at(window);
    if (index.bytes == sizeof(Int<T>) && index.window_step == 1 &&
        reinterpret_cast<std::uintptr_t>(from) % sizeof(Int<T>) == 0)
      return reinterpret_cast<const Int<T>*>(from);
    const auto copy = [&]<class U>(U) {
      for (i64 i = 0; i < n; i += kStep)
        store(buffer + i, load_indices<U, T>(from + i * index.window_step * static_cast<i64>(sizeof(U)),
                                             index.window_step, min_of(kStep, n - i)));
      return buffer;
    };
    switch (index.bytes) {
      case 1: return copy(std::uint8_t{});
      case 2: return copy(std::uint16_t{});
      case 4: return copy(std::uint32_t{});
      default: return copy(std::uint64_t{});
    }
  }

  const Pooling& p_;
  const i64 elements_, positions_;
  T* sums_ = nullptr;

 private:
  S* result(i64 image, i64 channel) const {
    return static_cast<S*>(p_.out) + image * p_.out_at.image + channel * p_.out_at.channel;
  }

  const bool in_place_;  // planes of dx take the sums themselves
  T* const buffer_;
  Writer<S, T> writer_;
};

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
