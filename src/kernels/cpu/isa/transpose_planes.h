// Transposes between planes of channels (NCHW) and pixels of channels (NHWC), by squares of vectors.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/dot_operands.h"
#include "kernels/cpu/isa/partial_vectors.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// `channels` planes of `pixels` elements, `plane` elements apart, and as many pixels, `pixel` elements apart.
struct PlaneBlock {
  i64 channels, plane, pixels, pixel;
};

/// The most pixels of a square. Lane: the type of a lane, which is one element or a dot operand of smaller ones.
template <class Lane>
inline constexpr int kMostSquarePixels = 2 * kLanes<Lane>;

/// Calls square(whole, first pixel, pixels) for squares of up to `side` pixels and one(pixel) for remaining pixels.
template <class Square, class One>
static inline void each_square(i64 pixels, int side, const Square& square, const One& one) {
  constexpr i64 kFewPixels = 2;  // which are faster copied one by one
  i64 p = 0;
  for (; p + side <= pixels; p += side) square(std::true_type{}, p, side);
  if (p + kFewPixels < pixels) {
    square(std::false_type{}, p, static_cast<int>(pixels - p));
    p = pixels;
  }
  for (; p < pixels; ++p) one(p);
}

/// Transposes the planes at `from` to the pixels at `to`; may write up to kMostSquarePixels pixels past the last one.
template <class Lane, class T>
static void planes_to_pixels(const T* from, const PlaneBlock& b, T* to) {
  constexpr int kN = kLanes<Lane>;
  // A lane is a dot operand of one, two or four channels. Squares of int8 quads have twice as many pixels, in two
  // sets of rows.
  constexpr int kPerLane = static_cast<int>(sizeof(Lane) / sizeof(T)), kSets = kPerLane == 4 ? 2 : 1,
                kRows = kN / kSets;
  const i64 plane = b.plane, block = b.pixel, channels = b.channels;
  for (i64 c = 0; c < channels; c += kRows * kPerLane) {
    const T* const planes = from + c * plane;
    const i64 plane_count = min_of<i64>(channels - c, kRows * kPerLane);
    const auto square = [&](auto whole, i64 p, int count) {
      Vec<DotOperand<T>> rows[kN];
#pragma GCC unroll 16
      for (int i = 0; i < kN; ++i) {
        const i64 first = i % kRows * kPerLane;
        const int n = whole ? kN : min_of(count - i / kRows * kN, kN);
        const bool is_inside = first < plane_count && n > 0;
        const T* const line = planes + first * plane + p + i / kRows * kN;
        rows[i] = is_inside ? load_dot_operands<T>(line, plane, min_of<i64>(plane_count - first, kPerLane), 1, n)
                            : Vec<DotOperand<T>>{};
      }
      transpose(rows);
      T* pixel = to + p * block + c;
#pragma GCC unroll 16
      for (int i = 0; i < kN; ++i, pixel += block) {
        if constexpr (kSets == 1) {
          store(reinterpret_cast<DotOperand<T>*>(pixel), rows[i]);
        } else {
          __builtin_memcpy(pixel, &rows[i], kVectorBytes / 2);
          const char* const upper = reinterpret_cast<const char*>(&rows[i]) + kVectorBytes / 2;
          __builtin_memcpy(pixel + kN * block, upper, kVectorBytes / 2);
        }
      }
    };
    each_square(b.pixels, kN * kSets, square, [&](i64 p) {
      for (i64 i = 0; i < plane_count; ++i) to[p * block + c + i] = planes[i * plane + p];
    });
  }
}

/// Stores element e of the first n dot operands.
template <class Lane, class T, class V>
static inline void store_element(T* to, V operands, [[maybe_unused]] int e, int n) {
  if constexpr (sizeof(T) >= sizeof(float)) {
    Writer<Lane>(n).store(reinterpret_cast<Lane*>(to), operands);
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  } else if constexpr (sizeof(T) == 2) {
    const auto mask = static_cast<__mmask16>(0xffffu >> (kLanes<Lane> - n));
    _mm512_mask_cvtepi32_storeu_epi16(to, mask, (__m512i)(operands >> 16 * e));
  } else {
    const auto mask = static_cast<__mmask16>(0xffffu >> (kLanes<Lane> - n));
    _mm512_mask_cvtepi32_storeu_epi8(to, mask, (__m512i)(operands >> 8 * e));
#else
  } else {
    static_assert(sizeof(T) >= sizeof(float));
#endif
  }
}

/// Transposes the pixels at `from` to the planes at `to`.
template <class Lane, class T>
static void pixels_to_planes(const T* from, const PlaneBlock& b, T* to) {
  constexpr int kN = kLanes<Lane>;
  constexpr int kPerLane = static_cast<int>(sizeof(Lane) / sizeof(T)), kSets = kPerLane == 4 ? 2 : 1,
                kRows = kN / kSets;
  using W = std::conditional_t<kPerLane == 1, Lane, std::uint32_t>;
  const i64 plane = b.plane, block = b.pixel, channels = b.channels;
  for (i64 c = 0; c < channels; c += kRows * kPerLane) {
    T* const planes = to + c * plane;
    const i64 plane_count = min_of<i64>(channels - c, kRows * kPerLane);
    const auto square = [&](auto whole, i64 p, int count) {
      Vec<W> rows[kN];
      const T* pixel = from + p * block + c;
#pragma GCC unroll 16
      for (int i = 0; i < kN; ++i, pixel += block) {
        if constexpr (kSets == 1) {
          rows[i] = load(reinterpret_cast<const W*>(pixel));
        } else {
          __builtin_memcpy(&rows[i], pixel, kVectorBytes / 2);
          __builtin_memcpy(reinterpret_cast<char*>(&rows[i]) + kVectorBytes / 2, pixel + kN * block, kVectorBytes / 2);
        }
      }
      transpose(rows);
      for (int i = 0; i < kN; ++i) {
        const int n = whole ? kN : min_of(count - i / kRows * kN, kN);
        T* const line = planes + i % kRows * kPerLane * plane + p + i / kRows * kN;
        const i64 operands = n > 0 ? min_of<i64>(plane_count - i % kRows * kPerLane, kPerLane) : 0;
        for (int e = 0; e < operands; ++e) store_element<Lane>(line + e * plane, rows[i], e, n);
      }
    };
    each_square(b.pixels, kN * kSets, square, [&](i64 p) {
      for (i64 i = 0; i < plane_count; ++i) planes[i * plane + p] = from[p * block + c + i];
    });
  }
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
