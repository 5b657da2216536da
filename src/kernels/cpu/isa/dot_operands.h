// Elements of the packed operands of direct convolutions, and the words that a multiplication takes at once: one
// fp32 or fp64 value, two bf16 or int16, four int8.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/vec.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// An int8 value plus 128.
struct Shifted8 {
  std::uint8_t bits;
};

/// A pixel of two images of bf16, or two of one.
struct ImagePair {
  std::int32_t bits;
};

/// Whether there are operands for products of bf16 and int8. Those of the instruction set that adds these products are
/// made here.
#if defined(__AVX512F__)
inline constexpr bool kPacksProducts = true;
#else
inline constexpr bool kPacksProducts = false;
#endif

template <class E>
inline constexpr int kGroupOf = sizeof(E) >= 4 ? 1 : 4 / static_cast<int>(sizeof(E));

template <class E>
struct DotOperandOf {
  using Type = std::int32_t;
};
template <>
struct DotOperandOf<float> {
  using Type = float;
};
template <>
struct DotOperandOf<double> {
  using Type = double;
};
template <class E>
using DotOperand = typename DotOperandOf<E>::Type;

template <class E>
inline constexpr E kZero{};
template <>
inline constexpr Shifted8 kZero<Shifted8>{128};

template <class E, class S>
static inline E convert(S v) {
  if constexpr (__is_same(E, Shifted8)) {
    return {static_cast<std::uint8_t>(v ^ 0x80)};
  } else if constexpr (__is_same(E, S) || sizeof(S) == 1) {
    return v;
  } else {
    return widen(v);
  }
}

/// The bits of an element, in the lowest part of a word.
template <class E, class S>
static inline std::int32_t bits_of(S v) {
  const E e = convert<E>(v);
  if constexpr (sizeof(E) == 1) {
    std::uint8_t bits;
    __builtin_memcpy(&bits, &e, sizeof bits);
    return bits;
  } else {
    std::uint16_t bits;
    __builtin_memcpy(&bits, &e, sizeof bits);
    return bits;
  }
}

template <class E, class S>
static inline void convert_run(const S* src, i64 count, E* to) {
  if constexpr (__is_same(E, float)) {
    i64 i = 0;
    for (; i + kLanes<float> <= count; i += kLanes<float>) store(to + i, load_widened(src + i));
    if (i < count) store_lanes(to + i, load_widened(src + i, static_cast<int>(count - i)), static_cast<int>(count - i));
  } else {
    i64 i = 0;
    if constexpr (__is_same(E, S)) {
      constexpr i64 kN = kVectorBytes / static_cast<i64>(sizeof(E));
      for (; i + kN <= count; i += kN) __builtin_memcpy(to + i, src + i, kVectorBytes);
    }
    for (; i < count; ++i) to[i] = convert<E>(src[i]);
  }
}

/// n elements of 1 or 2 bytes, zero in the other lanes; memory behind them is not touched.
template <class Bits, int kN>
static inline typename VecType<Bits, kN>::type load_bits(const void* src, int n) {
  const Bits* p = static_cast<const Bits*>(src);
  if (n == kN) return load<Bits, kN>(p);
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  if constexpr (kN == 16) {
    const auto mask = static_cast<__mmask16>(0xffffu >> (16 - n));
    if constexpr (sizeof(Bits) == 1) {
      return (typename VecType<Bits, kN>::type)_mm_maskz_loadu_epi8(mask, p);
    } else {
      return (typename VecType<Bits, kN>::type)_mm256_maskz_loadu_epi16(mask, p);
    }
  }
#endif
  Bits line[kN] = {};
  for (int i = 0; i < n; ++i) line[i] = p[i];
  return load<Bits, kN>(line);
}

/// Words of n bytes, zero behind them; memory there is not touched.
template <class W>
static inline Vec<W> load_bytes(const char* p, i64 n) {
  constexpr i64 kBytes = kVectorBytes;
  if (n == kBytes) {
    Vec<W> whole;  // not by load(): words may begin anywhere
    __builtin_memcpy(&whole, p, kBytes);
    return whole;
  }
#if defined(__AVX512BW__)
  return (Vec<W>)_mm512_maskz_loadu_epi8(~std::uint64_t{0} >> (kBytes - n), p);
#else
  W line[kLanes<W>] = {};
  __builtin_memcpy(line, p, static_cast<std::size_t>(n));
  return load(line);
#endif
}

/// Each element in the lowest part of a word. Compilers take the conversion apart.
static inline Vec<std::uint32_t> widen_to_lanes(VecType<std::uint8_t, kLanes<float>>::type v) {
#if defined(__AVX512F__)
  return (Vec<std::uint32_t>)_mm512_maskz_cvtepu8_epi32(0xffff, (__m128i)v);
#elif defined(__AVX2__)
  return (Vec<std::uint32_t>)_mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)v));
#else
  return __builtin_convertvector(v, Vec<std::uint32_t>);
#endif
}
static inline Vec<std::uint32_t> widen_to_lanes(VecType<std::uint16_t, kLanes<float>>::type v) {
#if defined(__AVX512F__)
  return (Vec<std::uint32_t>)_mm512_maskz_cvtepu16_epi32(0xffff, (__m256i)v);
#else
  return __builtin_convertvector(v, Vec<std::uint32_t>);
#endif
}

/// The bits of n neighbouring elements, each in the lowest part of a word.
template <class E, class S>
static inline Vec<std::uint32_t> row_bits(const S* src, int n) {
  using Bits = std::conditional_t<sizeof(S) == 1, std::uint8_t, std::uint16_t>;
  Vec<std::uint32_t> operands = widen_to_lanes(load_bits<Bits, kLanes<std::int32_t>>(src, n));
  if constexpr (__is_same(E, Shifted8)) operands ^= 0x80;
  if constexpr (__is_same(E, std::int16_t)) operands = ((operands ^ 0x80) - 0x80) & 0xffff;  // extends the sign
  return operands;
}

#if defined(__AVX512BW__) && defined(__AVX512VL__)
/// The first n elements of 16 bits of two lines, `upper` in the upper halves of words; null: zeros.
static inline Vec<std::int32_t> interleave_pairs(const void* lower, const void* upper, i64 n) {
  __m256i low{}, high{};
  // Masks are only for tails: processors do not fetch ahead of loads that have one.
  if (n == kLanes<std::int32_t> && upper != nullptr) {
    low = _mm256_loadu_si256(static_cast<const __m256i*>(lower));
    high = _mm256_loadu_si256(static_cast<const __m256i*>(upper));
  } else {
    const auto kept = static_cast<__mmask16>(0xffffu >> (kLanes<std::int32_t> - n));
    low = _mm256_maskz_loadu_epi16(kept, lower);
    if (upper != nullptr) high = _mm256_maskz_loadu_epi16(kept, upper);
  }
  const auto neighbours = (__m512i)(kLaneNumbers * 0x10001 + 0x200000);  // element i of each in word i
  return (Vec<std::int32_t>)_mm512_permutex2var_epi16(_mm512_castsi256_si512(low), neighbours,
                                                      _mm512_castsi256_si512(high));
}
#endif

/// Words of `n` pixels that are `step` (1 or 2) apart, zero in the other lanes: `channels` channels or as many as
/// make a word, `channel` elements apart. Channels that are not there are zero.
template <class E, class S>
static inline Vec<DotOperand<E>> load_dot_operands(const S* src, i64 channel, i64 channels, i64 step, int n) {
  constexpr int kN = kLanes<DotOperand<E>>;
  if constexpr (kGroupOf<E> == 1) {
    if (step == 1) {
      if constexpr (__is_same(E, S)) {
        return n == kN ? load(src) : load_lanes(src, 0, n);
      } else {
        return load_widened(src, n);
      }
    }
    if constexpr (kMaskedLoads && __is_same(E, S)) return load_steps<2>(src, 0, n);
    E line[kN];
    for (int i = 0; i < kN; ++i) line[i] = i < n ? convert<E>(src[i * step]) : E{};
    return load(line);
  } else {
    using Bits = std::conditional_t<sizeof(E) == 1, std::uint8_t, std::uint16_t>;
    using Operands = Vec<std::uint32_t>;
#if defined(__AVX512BW__) && defined(__AVX512VL__)
    if constexpr (sizeof(E) == 2 && sizeof(S) == 2) {
      if (step == 1) return interleave_pairs(src, channels > 1 ? src + channel : nullptr, n);
    }
#endif
    Operands operands{};
#pragma GCC unroll 4
    for (int g = 0; g < kGroupOf<E>; ++g) {
      if (g >= channels) break;
      const S* from = src + g * channel;
      Operands part;
      if (step == 1) {
        part = row_bits<E>(from, n);
      } else {
        Bits line[kN];
        for (int i = 0; i < kN; ++i) line[i] = i < n ? static_cast<Bits>(bits_of<E>(from[i * step])) : Bits{};
        part = __builtin_convertvector(load<Bits, kN>(line), Operands);
      }
      operands |= part << (g * 8 * static_cast<int>(sizeof(E)));
    }
    return (Vec<std::int32_t>)operands;
  }
}

/// Neighbours of one image with those of its partner, or with zeros if `images` is 1; shifted by so many bits.
static inline void pair_run(const Bfloat16* src, i64 partner, int images, i64 count, ImagePair* to, int shift = 0) {
  constexpr i64 kN = kLanes<std::int32_t>;
  for (i64 i = 0; i < count; i += kN) {
    const int some = static_cast<int>(min_of(kN, count - i));
    store_lanes(&to[i].bits, load_dot_operands<Bfloat16>(src + i, partner, images, 1, some) << shift, some);
  }
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
