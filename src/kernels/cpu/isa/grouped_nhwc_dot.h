// NHWC groups by dot operands: bf16 pairs or int8 quads. A tile is 32 channels of a few vertically adjacent pixels. A
// lane sums over the dot operands of its group, which are permuted out of the loaded line. Only for instruction sets
// with these products.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/depthwise_nhwc_loop.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

enum Store { kMasked, kWhole, kNonTemporal };  // channels of a mask; all channels, by normal or non-temporal stores

template <Store kStore>
static inline void store_line(void* to, __mmask16 lanes, __m512i v) {
  if constexpr (kStore == kNonTemporal) return _mm512_stream_si512(static_cast<__m512i*>(to), v);
  kStore == kWhole ? _mm512_storeu_si512(to, v) : _mm512_mask_storeu_epi32(to, lanes, v);
}

/// Writes vertically adjacent results, whose channels are in two vectors each.
template <int kRows, class Out, class V, class Write>
[[gnu::always_inline]] inline void write_rows(Out to, i64 pitch, const V (&low)[kRows], const V (&high)[kRows],
                                              const Write& write) {
#pragma GCC unroll 16
  for (int j = 0; j < kRows; ++j, to += pitch) {
    if constexpr (std::is_pointer_v<Out>) __asm__("" : "+r"(to));
    write(to, low[j], high[j]);
  }
}

/// Writes alpha * sums + beta * result for the first `count` channels of two vectors of sums.
template <class S, class Out, class V>
[[gnu::noinline]] static void write_scaled(Out to, V low, V high, int count, const Block<S>& b) {
  constexpr int kN = kLanes<float>;
  with_type_of(to, [&]<class R>(R* results) {
    const auto emit = [&](R* p, V v, int n) {
      if constexpr (kIsInteger<R>) {
        Emit<std::int32_t, decltype(p->value)>{b.alpha, b.beta}(&p->value, v, n);
      } else {
        Emit<float, R>{b.alpha, b.beta}(p, v, n);
      }
    };
    emit(results, low, min_of(count, kN));
    if (count > kN) emit(results + kN, high, count - kN);
  });
}

/// Dot operands of a storage type. bf16 products treat subnormal numbers as zero. int8 is loaded as unsigned values,
/// 128 larger: sums need a zero-point correction of 128 times the sum of the weights.
template <class S>
struct DotTraits;
template <>
struct DotTraits<Bfloat16> {
  using V = Vec<float>;
  static constexpr int kPerOperand = 2;
  static constexpr bool kShifts = false;
  static __m512i read(const Bfloat16* p) { return _mm512_loadu_si512(p); }
  static __m512i read(const Bfloat16* p, __mmask32 channels) { return _mm512_maskz_loadu_epi16(channels, p); }
  static V add(V sum, __m512i x, __m512i w) { return (V)_mm512_dpbf16_ps((__m512)sum, (__m512bh)x, (__m512bh)w); }
  static std::uint32_t bits(Bfloat16 v) { return v.bits; }
};
template <>
struct DotTraits<std::int8_t> {
  using V = Vec<std::int32_t>;
  static constexpr int kPerOperand = 4;
  static constexpr bool kShifts = true;
  static __m512i read(const std::int8_t* p) { return shifted(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))); }
  static __m512i read(const std::int8_t* p, __mmask32 channels) {
    return shifted(_mm256_maskz_loadu_epi8(channels, p));
  }
  static __m512i shifted(__m256i v) { return _mm512_castsi256_si512(_mm256_xor_si256(v, _mm256_set1_epi8(-128))); }
  static V add(V sum, __m512i x, __m512i w) { return (V)_mm512_dpbusd_epi32((__m512i)sum, x, w); }
  static std::uint32_t bits(std::int8_t v) { return static_cast<std::uint8_t>(v); }
};

/// Writes sums without scaling, converted to the type of the results.
template <Store kStore>
static inline void write_plain(Bfloat16* to, Vec<float> low, Vec<float> high, __mmask32 channels) {
  const auto line = (__m512i)_mm512_cvtne2ps_pbh((__m512)high, (__m512)low);
  if constexpr (kStore == kMasked) {
    _mm512_mask_storeu_epi16(to, channels, line);
  } else {
    store_line<kStore>(to, 0, line);
  }
}
template <Store kStore, class R>
static inline void write_plain(Integer<R>* to, Vec<std::int32_t> low, Vec<std::int32_t> high, __mmask32 channels) {
  constexpr int kN = kLanes<float>;
  const auto first = static_cast<__mmask16>(channels), second = static_cast<__mmask16>(channels >> kN);
  if constexpr (sizeof(R) == 1) {
    _mm512_mask_cvtsepi32_storeu_epi8(to, first, (__m512i)low);
    _mm512_mask_cvtsepi32_storeu_epi8(to + kN, second, (__m512i)high);
  } else {
    store_line<kStore>(to, first, (__m512i) __builtin_convertvector(low, Vec<R>));
    store_line<kStore>(to + kN, second, (__m512i) __builtin_convertvector(high, Vec<R>));
  }
}

/// Layout of the groups and weights of a unit.
struct DotGroups {
  i64 operands;      // dot operands per group
  i64 step;          // vectors of weights per tap
  __m512i first[2];  // per lane: index of the first dot operand of its group
};

/// Adds a column of taps to the sums of vertically adjacent results. Lines outside the source are skipped; if values
/// are shifted, they are zeros instead, as the zero-point correction covers them.
template <class S, int kTaps, int kRows, bool kInside, class Read>
[[gnu::always_inline]] inline void add_dots(const TapColumn& column, const S* x, i64 pitch, const Read& read,
                                            const DotGroups& groups, const __m512i* w, i64 w_step,
                                            typename DotTraits<S>::V (&low)[kRows],
                                            typename DotTraits<S>::V (&high)[kRows]) {
  using W = DotTraits<S>;
  const auto one = (__m512i)(Vec<std::int32_t>{} + 1);
  __m512i first = groups.first[0], second = groups.first[1];
  for (i64 operand = 0; operand < groups.operands; ++operand, w += 2) {
    __m512i weights[kTaps][2];
#pragma GCC unroll 16
    for (int i = 0; i < 2 * kTaps; ++i) weights[i / 2][i % 2] = w[i / 2 * w_step + i % 2];
    const S* line = x + column.source;
#pragma GCC unroll 16
    for (int i = 0; i < kRows + kTaps - 1; ++i, line += pitch) {
      __asm__("" : "+r"(line));  // compilers would keep all addresses, and spill them
      __m512i v;
      if (!kInside && __builtin_expect((column.lines >> i & 1) == 0, 0)) {
        if (!W::kShifts) continue;
        v = _mm512_set1_epi8(-128);
      } else {
        v = read(line);
      }
      const __m512i a = _mm512_maskz_permutexvar_epi32(0xffff, first, v);
      const __m512i b = _mm512_maskz_permutexvar_epi32(0xffff, second, v);
#pragma GCC unroll 16
      for (int t = 0; t < kTaps; ++t) {
        if (i - t < 0 || i - t >= kRows) continue;
        low[i - t] = W::add(low[i - t], a, weights[t][0]);
        high[i - t] = W::add(high[i - t], b, weights[t][1]);
      }
    }
    first = _mm512_add_epi32(first, one);
    second = _mm512_add_epi32(second, one);
  }
}

/// Computes b.run pixels x kRows rows: with kAll all channels of `units` units, else the first `count` of one unit.
template <class S, int kRows, bool kInside, bool kPrefetch, bool kAll, class Out>
[[gnu::noinline]] static void dot_tile(const Block<S>& b, const DotGroups& groups, const S* x, const __m512i* w,
                                       i64 w_unit, Out out, i64 units, int count) {
  using W = DotTraits<S>;
  using V = typename W::V;
  constexpr i64 kUnit = 2 * kLanes<float>;
  const i64 pitch = b.pitch, out_pitch = b.out_pitch, w_step = b.w_step * groups.step;
  const bool plain = b.alpha == 1 && b.beta == 0;
  const __mmask32 mask = ~0u >> (kUnit - count);
  const TapColumn* const end = b.columns + b.count;
  const auto read = [&](const S* p) __attribute__((always_inline)) {
    if constexpr (kAll) {
      return W::read(p);
    } else {
      return W::read(p, mask);
    }
  };
  for (i64 i = 0; i < b.run; ++i, x += b.x_pixel, out += b.out_pixel) {
    const __m512i* weights = w;
    for (i64 c = 0; c < units * kUnit; c += kUnit, weights += w_unit) {
      V low[kRows] = {}, high[kRows] = {};
      if (kPrefetch && starts_cache_line<S>(c)) prefetch_columns<kRows>(b, x + c);
      if constexpr (W::kShifts) {
        V zero_point[2] = {};
        for (const TapColumn* p = b.columns; p < end; ++p) {
          const V* of_tap = reinterpret_cast<const V*>(weights + p->weight * groups.step + 2 * groups.operands);
          for (int t = 0; t < p->taps; ++t, of_tap += w_step) {
            zero_point[0] += of_tap[0];
            zero_point[1] += of_tap[1];
          }
        }
#pragma GCC unroll 16
        for (int j = 0; j < kRows; ++j) {
          low[j] -= zero_point[0];
          high[j] -= zero_point[1];
        }
      }
      for (const TapColumn* p = b.columns; p < end; ++p) {
        const __m512i* const of_column = weights + p->weight * groups.step;
        with_taps(
            p->taps, [&](auto n) __attribute__((always_inline)) {
              add_dots<S, n.value, kRows, kInside>(*p, x + c, pitch, read, groups, of_column, w_step, low, high);
            });
      }
      if (!finish_unit(b, c / kUnit, low, high) && !plain) {
        write_rows(out + c, out_pitch, low, high, [&](Out p, V l, V h) { write_scaled(p, l, h, count, b); });
        continue;
      }
      with_type_of(
          out + c, [&]<class R>(R * to) __attribute__((always_inline)) {
            if (!kAll) {
              write_rows(to, out_pitch, low, high, [&](R* p, V l, V h) { write_plain<kMasked>(p, l, h, mask); });
            } else if (b.non_temporal) {
              write_rows(to, out_pitch, low, high, [&](R* p, V l, V h) { write_plain<kNonTemporal>(p, l, h, mask); });
            } else {
              write_rows(to, out_pitch, low, high, [&](R* p, V l, V h) { write_plain<kWhole>(p, l, h, mask); });
            }
          });
    }
  }
}

/// S: type of the source; R: type of the results, see Results.
template <class S, class R>
class GroupedDot : PixelLoop<GroupedDot<S, R>, S, R, 2 * kLanes<float>> {
  using Loop = PixelLoop<GroupedDot, S, R, 2 * kLanes<float>>;
  using W = DotTraits<S>;
  using Loop::kN, Loop::plan_, Loop::scratch_, Loop::filters_, Loop::s_, Loop::channels_, Loop::block_;
  using typename Loop::Out;
  static constexpr int kUnit = 2 * kN;
  friend Loop;

 public:
  GroupedDot(const Depthwise& job, void* scratch) : Loop(job, unit_of(job), scratch) {
    groups_.operands = s_.c / W::kPerOperand;
    groups_.step = tap_vectors(s_.c);
    for (i64 l = 0; l < kUnit; ++l) {
      reinterpret_cast<std::int32_t*>(groups_.first)[l] = static_cast<std::int32_t>(l / s_.c * groups_.operands);
    }
  }
  static std::size_t bytes(const Depthwise& job) { return Loop::bytes(job, unit_of(job)); }
  void pieces(i64 first, i64 end) {
    for (i64 i = first; i < end; ++i) this->piece(i);
  }

 private:
  static i64 tap_vectors(i64 channels) { return 2 * (channels / W::kPerOperand + (W::kShifts ? 1 : 0)); }
  static i64 unit_of(const Depthwise& job) {
    const i64(&taps)[kSpatial] = job.shape.taps;
    return taps[0] * taps[1] * taps[2] * tap_vectors(job.shape.c);
  }
  i64 row_weights() const { return s_.taps[2]; }

  void pack() {
    for (i64 u = 0; u < channels_.units; ++u) {
      const i64 first = channels_.first + u * kUnit;
      const i64 count = min_of<i64>(kUnit, channels_.count - u * kUnit);
      std::uint32_t* to = reinterpret_cast<std::uint32_t*>(scratch_.vectors + u * plan_.unit);
      each_tap(s_, [&](i64 offset) {
        pack_tap(static_cast<const S*>(plan_.job.w) + offset, first, count, to);
        to += groups_.step * kN;
      });
    }
  }
  /// Packs the weights of a tap for channels [first, first + count) of a unit: [operand][channel] dot operands, and
  /// after them (int8) the zero-point correction of each channel, 128 times the sum of its weights.
  void pack_tap(const S* w, i64 first, i64 count, std::uint32_t* to) const {
    const i64 step = plan_.backward_data ? s_.w_k : s_.w_c;
    std::uint32_t* const zero_point = to + groups_.operands * kUnit;
    for (i64 l = 0; l < kUnit; ++l) {
      const S* from = w + filters_.offset_of(first + l);
      std::int32_t sum = 0;
      for (i64 operand = 0; operand < groups_.operands; ++operand) {
        std::uint32_t bits = 0;
        for (int e = 0; e < W::kPerOperand && l < count; ++e, from += step) {
          bits |= W::bits(*from) << (e * 32 / W::kPerOperand);
          if constexpr (W::kShifts) sum += *from;
        }
        to[operand * kUnit + l] = bits;
      }
      if constexpr (W::kShifts) zero_point[l] = static_cast<std::uint32_t>(sum * 128);
    }
  }

  template <int kRows>
  void pixels(const ColumnPhase& phase, Range taps, bool, const S* x, Out out, i64 unit) {
    block_.columns = phase.columns + taps.first * phase.columns_per_tap;
    block_.count = max_of<i64>(taps.end - taps.first, 0) * phase.columns_per_tap;
    const i64 units = min_of(this->units_at_once(), channels_.units - unit),
              whole = min_of(units, channels_.count / kUnit - unit);
    const __m512i* const w = reinterpret_cast<const __m512i*>(scratch_.vectors + unit * plan_.unit);
    if (whole > 0) tiles<kRows, true>(phase, x, w, out, whole, kUnit);
    if (whole == units) return;
    if (block_.terms != nullptr) block_.terms += whole * Loop::kTermsPerUnit;
    tiles<kRows, false>(phase, x + whole * kUnit, w + whole * plan_.unit, out + whole * kUnit, 1,
                        static_cast<int>(channels_.count % kUnit));
  }
  template <int kRows, bool kAll>
  void tiles(const ColumnPhase& phase, const S* x, const __m512i* w, Out out, i64 units, int count) {
    const auto run = [&](const auto& tile) { tile(block_, groups_, x, w, plan_.unit, out, units, count); };
    if (phase.form == kFromMemory) return run(dot_tile<S, kRows, false, true, kAll, Out>);
    phase.inside ? run(dot_tile<S, kRows, true, false, kAll, Out>) : run(dot_tile<S, kRows, false, false, kAll, Out>);
  }

  DotGroups groups_{};
};

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
