// Elements of the packed operands of direct convolutions, and the dot operands that one instruction multiplies: one
// fp32 or fp64 value, a bf16 or int16 pair, an int8 quad.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/vec.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// An int8 value plus 128, as an unsigned number.
struct Shifted8 {
  std::uint8_t bits;
};

/// A bf16 pair: one pixel of two images, or two pixels of one image.
struct ImagePair {
  std::int32_t bits;
};

/// Whether this instruction set packs operands for products of bf16 and int8. AVX-512 packs those of the instruction
/// sets that add such products to it.
#if defined(__AVX512F__)
inline constexpr bool kPacksProducts = true;
#else
inline constexpr bool kPacksProducts = false;
#endif

/// Elements of a dot operand.
template <class E>
inline constexpr int kGroupOf = sizeof(E) >= 4 ? 1 : 4 / static_cast<int>(sizeof(E));

/// The type of a dot operand: 32 bits or, of one element, its own type.
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

/// The element for padding: that of the number 0.
template <class E>
inline constexpr E kZero{};
template <>
inline constexpr Shifted8 kZero<Shifted8>{128};

/// An element of the packed operand from one of the storage type S.
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

/// The bits of an element of 1 or 2 bytes, in the lowest part of 32 bits.
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

/// to[i] = convert(src[i]) for i < count.
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

/// n elements of 1 or 2 bytes, zero in the other lanes; touches no memory past them.
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

/// A vector of dot operands from n bytes, zero in the rest; touches no memory past them.
template <class W>
static inline Vec<W> load_bytes(const char* p, i64 n) {
  constexpr i64 kBytes = kVectorBytes;
  if (n == kBytes) {
    Vec<W> whole;  // not by load(): p may be unaligned
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

/// Each element in the lowest part of 32 bits. By intrinsics: compilers split __builtin_convertvector.
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

/// bits_of() for storage bits in the lowest part of 32 bits.
template <class E>
static inline Vec<std::uint32_t> converted_bits(Vec<std::uint32_t> operands) {
  if constexpr (__is_same(E, Shifted8)) operands ^= 0x80;
  if constexpr (__is_same(E, std::int16_t)) operands = ((operands ^ 0x80) - 0x80) & 0xffff;  // extends the sign
  return operands;
}

/// The converted bits of n contiguous elements, each in the lowest part of 32 bits.
template <class E, class S>
static inline Vec<std::uint32_t> row_bits(const S* src, int n) {
  using Bits = std::conditional_t<sizeof(S) == 1, std::uint8_t, std::uint16_t>;
  return converted_bits<E>(widen_to_lanes(load_bits<Bits, kLanes<std::int32_t>>(src, n)));
}

/// The converted bits of n elements at distance 2, each in the lowest part of 32 bits; touches no memory past them.
template <class E, class S>
static inline Vec<std::uint32_t> strided_row_bits(const S* src, int n) {
  constexpr int kN = kLanes<std::int32_t>;
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  if constexpr (kN == 16) {
    const auto loaded = static_cast<std::uint32_t>(((std::uint64_t{1} << 2 * n) - 1) >> 1);  // not the last neighbour
    Vec<std::uint32_t> operands;
    if constexpr (sizeof(S) == 1) {
      operands = (Vec<std::uint32_t>)_mm512_maskz_cvtepu16_epi32(0xffff, _mm256_maskz_loadu_epi8(loaded, src)) & 0xff;
    } else {
      operands = (Vec<std::uint32_t>)_mm512_maskz_loadu_epi16(loaded, src) & 0xffff;
    }
    return converted_bits<E>(operands);
  }
#endif
  std::uint32_t line[kN];
  for (int i = 0; i < kN; ++i) line[i] = i < n ? static_cast<std::uint32_t>(bits_of<E>(src[i * 2])) : 0;
  return load(line);
}

#if defined(__AVX512BW__) && defined(__AVX512VL__)
/// Pairs of the first n 16-bit elements of two lines, those of `upper` in the upper halves; `upper` null: zeros.
static inline Vec<std::int32_t> interleave_pairs(const void* lower, const void* upper, i64 n) {
  __m256i low{}, high{};
  // Masks only for tails: hardware prefetchers ignore masked loads.
  if (n == kLanes<std::int32_t> && upper != nullptr) {
    low = _mm256_loadu_si256(static_cast<const __m256i*>(lower));
    high = _mm256_loadu_si256(static_cast<const __m256i*>(upper));
  } else {
    const auto kept = static_cast<__mmask16>(0xffffu >> (kLanes<std::int32_t> - n));
    low = _mm256_maskz_loadu_epi16(kept, lower);
    if (upper != nullptr) high = _mm256_maskz_loadu_epi16(kept, upper);
  }
  const auto interleaved = (__m512i)(kLaneNumbers * 0x10001 + 0x200000);  // lane i: element i of both
  return (Vec<std::int32_t>)_mm512_permutex2var_epi16(_mm512_castsi256_si512(low), interleaved,
                                                      _mm512_castsi256_si512(high));
}
#endif

/// Dot operands of n pixels that are `step` (1 or 2) elements apart, zero in the other lanes. Each has the channels of
/// a dot operand, at most `channels`, which are `channel` elements apart; missing channels are zero.
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
      const Operands part = step == 1 ? row_bits<E>(from, n) : strided_row_bits<E>(from, n);
      operands |= part << (g * 8 * static_cast<int>(sizeof(E)));
    }
    return (Vec<std::int32_t>)operands;
  }
}

/// Pairs of `count` elements of one image with those of its partner, which is `partner` elements further, or with zeros
/// if `images` is 1; shifted left by `shift` bits.
static inline void pair_run(const Bfloat16* src, i64 partner, int images, i64 count, ImagePair* to, int shift = 0) {
  constexpr i64 kN = kLanes<std::int32_t>;
  for (i64 i = 0; i < count; i += kN) {
    const int some = static_cast<int>(min_of(kN, count - i));
    store_lanes(&to[i].bits, load_dot_operands<Bfloat16>(src + i, partner, images, 1, some) << shift, some);
  }
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
