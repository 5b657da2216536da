// The indices of maxima in memory: unsigned integers of 1, 2, 4 or 8 bytes, any alignment; and the places of the
// windows that they count from.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/skeletons/window.h"
#include "kernels/cpu/pooling.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// Positions in an image may exceed the lanes' range: they are computed modulo that range. Those of elements of one
/// window differ by less than kMostPositions, so that comparisons are exact.
template <class T>
using Unsigned = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
template <class T>
using Unsigneds = typename VecType<Unsigned<T>, kLanes<T>>::type;

/// The indices of a line of windows: those of window `w` at data + w * window_step, in elements.
struct IndexLine {
  unsigned char* data = nullptr;
  i64 window_step = 1, channel_step = 1;
  int bytes = 0;
  bool image = false;

  unsigned char* at(i64 window) const { return data + window * window_step * bytes; }
};

inline IndexLine index_line(const Pooling& p, i64 image, i64 channel, i64 d, i64 h) {
  const WindowStrides& s = p.index_at;
  const i64 offset = image * s.image + channel * s.channel + d * s.dims[0] + h * s.dims[1];
  return {static_cast<unsigned char*>(p.index) + offset * p.index_bytes, s.dims[2], s.channel, p.index_bytes,
          p.image_index};
}

/// Index of element (d, h, w) of the image, or of the windows (od, oh, ow).
struct Numbering {
  Numbering(const Pooling& p, bool image) {
    for (int k = 0; k < 3; ++k) {
      sizes[k] = image ? p.dims[k].size : p.dims[k].length;
      moves[k] = image ? 0 : p.dims[k].stride;
      pads[k] = image ? 0 : p.dims[k].pad;
    }
  }
  /// Of an element relative to a window.
  i64 of(int k, i64 element, i64 window) const { return element - window * moves[k] + pads[k]; }
  i64 of(i64 d, i64 od, i64 h, i64 oh, i64 w, i64 ow) const {
    return (of(0, d, od) * sizes[1] + of(1, h, oh)) * sizes[2] + of(2, w, ow);
  }
  i64 sizes[3], moves[3], pads[3];
};

/// Converts integers in steps of twice or half the size: compilers convert one element at a time otherwise.
template <class To, class From, int kN>
[[gnu::always_inline]] inline void convert(const typename VecType<From, kN>::type& v,
                                           typename VecType<To, kN>::type& to) {
  constexpr std::size_t kTo = sizeof(To), kFrom = sizeof(From);
  if constexpr (kTo <= 2 * kFrom && kFrom <= 2 * kTo) {
    to = __builtin_convertvector(v, typename VecType<To, kN>::type);
  } else {
    using Step = std::conditional_t<(kTo > kFrom ? 2 * kFrom : kFrom / 2) == 2, std::uint16_t, std::uint32_t>;
    const auto step = __builtin_convertvector(v, typename VecType<Step, kN>::type);
    convert<To, Step, kN>(step, to);
  }
}

template <class U, class T>
void store_indices(unsigned char* to, i64 step, const Int<T>* numbers, i64 n, i64 base, i64 base_step) {
  using Stored = typename VecType<U, kLanes<T>>::type;
  using Wide = std::conditional_t<sizeof(U) == 8, std::uint64_t, Unsigned<T>>;
  using Wides = typename VecType<Wide, kLanes<T>>::type;
  i64 i = 0;
  if (step == 1) {
    const Wides lanes = __builtin_convertvector(lane_numbers<T>(), Wides) * static_cast<Wide>(base_step);
    for (; i + kLanes<T> <= n; i += kLanes<T>) {
      const Wides v =
          __builtin_convertvector(load(numbers + i), Wides) + static_cast<Wide>(base + i * base_step) + lanes;
      Stored stored;
      convert<U, Wide, kLanes<T>>(v, stored);
      __builtin_memcpy(to + i * static_cast<i64>(sizeof(U)), &stored, sizeof stored);
    }
  }
  for (; i < n; ++i) {
    const U value = static_cast<U>(numbers[i] + base + i * base_step);
    __builtin_memcpy(to + i * step * static_cast<i64>(sizeof(U)), &value, sizeof value);
  }
}

/// Stores numbers[i] + base + i * base_step, `step` elements apart.
template <class T>
void store_indices(int bytes, unsigned char* to, i64 step, const Int<T>* numbers, i64 n, i64 base, i64 base_step) {
  switch (bytes) {
    case 1: return store_indices<std::uint8_t, T>(to, step, numbers, n, base, base_step);
    case 2: return store_indices<std::uint16_t, T>(to, step, numbers, n, base, base_step);
    case 4: return store_indices<std::uint32_t, T>(to, step, numbers, n, base, base_step);
    default: return store_indices<std::uint64_t, T>(to, step, numbers, n, base, base_step);
  }
}

template <class U, class T>
Ints<T> load_indices(const unsigned char* from, i64 step, i64 n) {
  typename VecType<U, kLanes<T>>::type v{};
  if (step == 1 && n == kLanes<T>) {
    __builtin_memcpy(&v, from, sizeof v);
  } else {
    U part[kLanes<T>] = {};
    for (i64 i = 0; i < n; ++i) __builtin_memcpy(part + i, from + i * step * static_cast<i64>(sizeof(U)), sizeof(U));
    __builtin_memcpy(&v, part, sizeof v);
  }
  Ints<T> indices;
  convert<Int<T>, U, kLanes<T>>(v, indices);
  return indices;
}

/// n <= kLanes<T> indices, modulo the lanes' range, zero elsewhere.
template <class T>
Ints<T> load_indices(int bytes, const unsigned char* from, i64 step, i64 n) {
  switch (bytes) {
    case 1: return load_indices<std::uint8_t, T>(from, step, n);
    case 2: return load_indices<std::uint16_t, T>(from, step, n);
    case 4: return load_indices<std::uint32_t, T>(from, step, n);
    default: return load_indices<std::uint64_t, T>(from, step, n);
  }
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
