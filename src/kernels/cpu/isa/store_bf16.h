// Stores of fp32 sums as bf16, two vectors at a time, where the instruction set has vcvtne2ps2bf16; empty elsewhere.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/vec.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// Whether one instruction rounds vectors to bf16. It flushes subnormal numbers to zero.
#if defined(__AVX512BF16__)
inline constexpr bool kHasBf16Rounding = true;
#else
inline constexpr bool kHasBf16Rounding = false;
#endif

/// The first `count` elements of two vectors of sums, count <= 2 * kLanes.
template <bool kNonTemporal>
static inline void store_bf16([[maybe_unused]] Vec<float> low, [[maybe_unused]] Vec<float> high,
                              [[maybe_unused]] Bfloat16* to, [[maybe_unused]] int count) {
#if defined(__AVX512BF16__)
  constexpr int kN = kLanes<float>;
  const auto both = (__m512i)_mm512_cvtne2ps_pbh((__m512)high, (__m512)low);
  if (count == 2 * kN) {
    kNonTemporal ? _mm512_stream_si512(reinterpret_cast<__m512i*>(to), both) : _mm512_storeu_si512(to, both);
  } else if (count == kN) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), (__m256i)_mm512_cvtneps_pbh((__m512)low));
  } else {
    _mm512_mask_storeu_epi16(to, 0xffffffffu >> (2 * kN - count), both);
  }
#endif
}

/// Two full vectors of sums, with a plain store: the common case, which matters for products of few depths.
static inline void store_bf16_panel([[maybe_unused]] const float* sums, [[maybe_unused]] Bfloat16* to) {
#if defined(__AVX512BF16__)
  const auto low = (__m512)load(sums), high = (__m512)load(sums + kLanes<float>);
  _mm512_storeu_si512(to, (__m512i)_mm512_cvtne2ps_pbh(high, low));
#endif
}

/// A line of `count` elements; reads whole vectors of sums. non_temporal: non-temporal stores of full cache lines, if
/// the line is aligned to one.
static inline void store_bf16_line([[maybe_unused]] const float* sums, [[maybe_unused]] i64 count,
                                   [[maybe_unused]] Bfloat16* to, [[maybe_unused]] bool non_temporal) {
#if defined(__AVX512BF16__)
  constexpr i64 kN = kLanes<float>, kPair = 2 * kN;
  non_temporal = non_temporal && reinterpret_cast<std::uintptr_t>(to) % 64 == 0;
  for (i64 i = 0; i < count; i += kPair) {
    const i64 left = count - i;
    const auto low = (__m512)load(sums + i), high = left > kN ? (__m512)load(sums + i + kN) : low;
    const auto both = (__m512i)_mm512_cvtne2ps_pbh(high, low);
    if (left < kPair) {
      _mm512_mask_storeu_epi16(to + i, 0xffffffffu >> (kPair - left), both);
    } else if (non_temporal) {
      _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i), both);
    } else {
      _mm512_storeu_si512(to + i, both);
    }
  }
#endif
}

/// `lines` lines of `count` elements; sums_line and to_line: elements from line to line.
static inline void store_bf16_lines([[maybe_unused]] const float* sums, [[maybe_unused]] i64 sums_line,
                                    [[maybe_unused]] i64 lines, [[maybe_unused]] i64 count,
                                    [[maybe_unused]] Bfloat16* to, [[maybe_unused]] i64 to_line,
                                    [[maybe_unused]] bool non_temporal) {
#if defined(__AVX512BF16__)
  constexpr i64 kN = kLanes<float>, kPair = 2 * kN;
  if (sums_line == count && to_line == count) return store_bf16_line(sums, lines * count, to, non_temporal);
  for (i64 first = 0; first < count; first += kPair, sums += kPair, to += kPair) {
    const i64 some = min_of(kPair, count - first), upper = some > kN ? kN : 0;
    const __mmask32 kept = 0xffffffffu >> (kPair - some);
    for (i64 i = 0; i < lines; ++i) {
      const float* const line = sums + i * sums_line;
      if (non_temporal) {
        store_bf16_line(line, some, to + i * to_line, true);
      } else {
        const auto low = (__m512)load(line), high = (__m512)load(line + upper);
        _mm512_mask_storeu_epi16(to + i * to_line, kept, (__m512i)_mm512_cvtne2ps_pbh(high, low));
      }
    }
  }
#endif
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
