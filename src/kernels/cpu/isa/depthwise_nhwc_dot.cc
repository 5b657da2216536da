// NHWC depthwise convolution of bf16 and int8 by pairs: a lane of 32 bits has the values of one channel that two
// horizontally adjacent taps read. Only for instruction sets with these products; other problems use the code that is
// shared with AVX-512.
// Instruction sets: only those that add dot products.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/isa/amx.h"
#include "kernels/cpu/isa/grouped_nhwc_dot.h"
#include "kernels/cpu/isa/depthwise_via_nhwc.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

inline constexpr int kPairLanes = kLanes<float>, kChannels = 2 * kPairLanes;  // channels per vector of sums, per unit

/// Columns of two horizontally adjacent taps, or of one of them.
struct PairColumn {
  i64 source[2];  // the same twice if one column is outside
  i64 weight;     // index of the first vector of weights
  int taps;
  unsigned lines;
  bool both;
  bool masked;  // only one: its weights are packed with those of a column outside, which the kernel masks
  int shift;    // bit position of its weights, 0 or 16
};

/// Products of 16-bit pairs. Those of bf16 treat subnormal numbers as zero.
template <class S>
struct Products;
template <>
struct Products<Bfloat16> {
  using V = Vec<float>;
  static __m512i read(const Bfloat16* p) { return _mm512_loadu_si512(p); }
  static __m512i read(const Bfloat16* p, __mmask32 channels) { return _mm512_maskz_loadu_epi16(channels, p); }
  static V add(V sum, __m512i x, __m512i w) { return (V)_mm512_dpbf16_ps((__m512)sum, (__m512bh)x, (__m512bh)w); }
  /// Narrows a to the lower and b to the upper halves of lanes; both have values of the storage type.
  static Vec<std::uint32_t> interleave(Vec<float> a, Vec<float> b) {
    return (Vec<std::uint32_t>)a >> 16 | (Vec<std::uint32_t>)b;
  }
};
template <>
struct Products<std::int8_t> {
  using V = Vec<std::int32_t>;
  static __m512i read(const std::int8_t* p) { return widened(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))); }
  static __m512i read(const std::int8_t* p, __mmask32 channels) {
    return widened(_mm256_maskz_loadu_epi8(channels, p));
  }
  static __m512i widened(__m256i v) { return _mm512_maskz_cvtepi8_epi16(~0u, v); }
  static V add(V sum, __m512i x, __m512i w) { return (V)_mm512_dpwssd_epi32((__m512i)sum, x, w); }
  static Vec<std::uint32_t> interleave(Vec<float> a, Vec<float> b) {
    const auto low = __builtin_convertvector(a, V), high = __builtin_convertvector(b, V);
    return (Vec<std::uint32_t>)((low & 0xffff) | high << 16);
  }
};

/// Restores the order of channels that unpacklo and unpackhi leave: `low` has four of each eight, `high` the others.
template <class V>
[[gnu::always_inline]] inline void restore_channel_order(V& low, V& high) {
  const V a = low, b = high;
  low = __builtin_shufflevector(a, b, 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
  high = __builtin_shufflevector(a, b, 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
}

/// Writes sums without scaling, converted to the type of the results.
template <Store kStore>
static inline void write(Bfloat16* to, Vec<float> low, Vec<float> high, __mmask32 channels) {
  const auto both = (VecType<std::int64_t, 8>::type)_mm512_cvtne2ps_pbh((__m512)high, (__m512)low);
  const auto line = (__m512i)__builtin_shufflevector(both, both, 0, 4, 1, 5, 2, 6, 3, 7);
  if constexpr (kStore == kMasked) {
    _mm512_mask_storeu_epi16(to, channels, line);
  } else {
    store_line<kStore>(to, 0, line);
  }
}
template <Store>
static inline void write(Integer<std::int8_t>* to, Vec<std::int32_t> low, Vec<std::int32_t> high, __mmask32 channels) {
  const __m512i both = _mm512_packs_epi32((__m512i)low, (__m512i)high);
  _mm256_mask_storeu_epi8(to, channels, _mm512_maskz_cvtsepi16_epi8(~0u, both));
}
template <Store kStore, class R>
static inline void write(Integer<R>* to, Vec<std::int32_t> low, Vec<std::int32_t> high, __mmask32 channels) {
  restore_channel_order(low, high);
  const auto first = __builtin_convertvector(low, Vec<R>), second = __builtin_convertvector(high, Vec<R>);
  store_line<kStore>(to, static_cast<__mmask16>(channels), (__m512i)first);
  store_line<kStore>(to + kPairLanes, static_cast<__mmask16>(channels >> kPairLanes), (__m512i)second);
}

/// Adds a pair of columns of taps, or one of them, to the sums of vertically adjacent results.
template <class S, bool kBoth, int kTaps, int kRows, bool kInside, class V, class Read>
[[gnu::always_inline]] inline void add_pairs(const PairColumn& column, const S* x, i64 pitch, const Read& read,
                                             const __m512i* weights, i64 w_step, V (&low)[kRows], V (&high)[kRows]) {
  __m512i w[kTaps][2];
#pragma GCC unroll 16
  for (int i = 0; i < 2 * kTaps; ++i) {
    auto& v = w[i / 2][i % 2];
    v = weights[i / 2 * w_step + i % 2];
    if (!kBoth && __builtin_expect(column.masked, 0)) v = (__m512i)((Vec<std::uint32_t>)v << (16 - column.shift) >> 16);
  }
  const S *first = x + column.source[0], *second = x + column.source[1];
#pragma GCC unroll 16
  for (int i = 0; i < kRows + kTaps - 1; ++i, first += pitch, second += pitch) {
    __asm__("" : "+r"(first), "+r"(second));  // compilers would keep all addresses, and spill them
    if (!kInside && __builtin_expect((column.lines >> i & 1) == 0, 0)) continue;
    __m512i a = read(first), b = kBoth ? read(second) : __m512i{};
    hold(a);
    if (kBoth) hold(b);
    const __m512i x_low = _mm512_unpacklo_epi16(a, b), x_high = _mm512_unpackhi_epi16(a, b);
#pragma GCC unroll 16
    for (int t = 0; t < kTaps; ++t) {
      if (i - t < 0 || i - t >= kRows) continue;
      low[i - t] = Products<S>::add(low[i - t], x_low, w[t][0]);
      high[i - t] = Products<S>::add(high[i - t], x_high, w[t][1]);
    }
  }
}

/// Computes b.run pixels x kRows rows: with kAll all channels of `units` units, else the first `count` of one unit.
/// Masks are for partial units only: hardware does not prefetch for masked loads.
template <class S, int kRows, bool kInside, bool kPrefetch, bool kAll, class Out>
[[gnu::noinline]] static void tile(const Block<S>& b, const PairColumn* columns, const PairColumn* end, const S* x,
                                   const __m512i* w, i64 w_unit, Out out, i64 units, int count) {
  using P = Products<S>;
  using V = typename P::V;
  const i64 pitch = b.pitch, out_pitch = b.out_pitch, w_step = b.w_step;
  const bool plain = b.alpha == 1 && b.beta == 0;
  const __mmask32 mask = ~0u >> (kChannels - count);
  const auto read = [&](const S* p) __attribute__((always_inline)) {
    if constexpr (kAll) {
      return P::read(p);
    } else {
      return P::read(p, mask);
    }
  };
  for (i64 i = 0; i < b.run; ++i, x += b.x_pixel, out += b.out_pixel) {
    const __m512i* weights = w;
    for (i64 c = 0; c < units * kChannels; c += kChannels, weights += w_unit) {
      V low[kRows] = {}, high[kRows] = {};
      if (kPrefetch && starts_cache_line<S>(c)) prefetch_columns<kRows>(b, x + c);
      for (const PairColumn* p = columns; p < end; ++p) {
        const __m512i* const of_column = weights + p->weight;
        with_taps(
            p->taps, [&](auto n) __attribute__((always_inline)) {
              p->both
                  ? add_pairs<S, true, n.value, kRows, kInside>(*p, x + c, pitch, read, of_column, w_step, low, high)
                  : add_pairs<S, false, n.value, kRows, kInside>(*p, x + c, pitch, read, of_column, w_step, low, high);
            });
      }
      if (!finish_unit(b, c / kChannels, low, high) && !plain) {
        write_rows(out + c, out_pitch, low, high, [&](Out to, V l, V h) {
          restore_channel_order(l, h);
          write_scaled(to, l, h, count, b);
        });
        continue;
      }
      with_type_of(
          out + c, [&]<class R>(R * first) __attribute__((always_inline)) {
            if (!kAll) {
              write_rows(first, out_pitch, low, high, [&](R* to, V l, V h) { write<kMasked>(to, l, h, mask); });
            } else if (b.non_temporal) {
              write_rows(first, out_pitch, low, high, [&](R* to, V l, V h) { write<kNonTemporal>(to, l, h, mask); });
            } else {
              write_rows(first, out_pitch, low, high, [&](R* to, V l, V h) { write<kWhole>(to, l, h, mask); });
            }
          });
    }
  }
}

/// S: type of the source; R: type of the results, see Results.
template <class S, class R>
class TapPairs : PixelLoop<TapPairs<S, R>, S, R, kChannels> {
  using Loop = PixelLoop<TapPairs, S, R, kChannels>;
  using Loop::plan_, Loop::scratch_, Loop::filters_, Loop::s_, Loop::channels_, Loop::block_;
  using typename Loop::V, typename Loop::Out;
  friend Loop;

 public:
  TapPairs(const Depthwise& job, void* scratch)
      : Loop(job, unit_of(job), scratch),
        pairs_per_phase_(pairs_of(job)),
        row_vectors_(2 * pairs_per_phase_ * pass_count(job.shape, job.direction, 2)) {
    V* const scratch_tail = reinterpret_cast<V*>(static_cast<char*>(scratch) + loop_bytes(job));
    unpaired_[0] = scratch_tail;
    unpaired_[1] = scratch_tail + plan_.taps;
    pairs_ = reinterpret_cast<PairColumn*>(scratch_tail + 2 * plan_.taps);
  }
  static std::size_t bytes(const Depthwise& job) {
    const i64(&taps)[kSpatial] = job.shape.taps;
    const auto all = static_cast<std::size_t>(taps[0] * taps[1] * taps[2]);
    return static_cast<std::size_t>(loop_bytes(job)) + all * (2 * sizeof(V) + sizeof(PairColumn));
  }
  void pieces(i64 first, i64 end) {
    for (i64 i = first; i < end; ++i) this->piece(i);
  }

 private:
  /// Scratch bytes of the base class.
  static i64 loop_bytes(const Depthwise& job) {
    return round_up(static_cast<i64>(Loop::bytes(job, unit_of(job))), kVectorBytes);
  }
  /// The most pairs of horizontally adjacent taps per phase of dimension 2.
  static i64 pairs_of(const Depthwise& job) {
    i64 max_pairs = 1;
    for (i64 f = 0; f < pass_count(job.shape, job.direction, 2); ++f) {
      max_pairs = max_of(max_pairs, (pass_of(job.shape, job.direction, 2, f).taps + 1) / 2);
    }
    return max_pairs;
  }
  static i64 unit_of(const Depthwise& job) {
    const i64 rows = job.shape.taps[0] * job.shape.taps[1];
    return 2 * rows * pairs_of(job) * pass_count(job.shape, job.direction, 2);
  }
  i64 row_weights() const { return row_vectors_; }

  void pack() {
    for (i64 u = 0; u < channels_.units; ++u) {
      for (i64 half = 0; half < 2; ++half) {
        const i64 first = u * kChannels + half * kPairLanes, count = min_of<i64>(kPairLanes, channels_.count - first);
        if (count > 0) filters_.load(channels_.first + first, count, unpaired_[half]);
      }
      if (this->epilogue_) reorder_terms(scratch_.terms + u * Loop::kTermsPerUnit);
      __m512i* const to = reinterpret_cast<__m512i*>(scratch_.vectors + u * plan_.unit);
      for (i64 f = 0; f < pass_count(s_, plan_.job.direction, 2); ++f) {
        const Pass pass = pass_of(s_, plan_.job.direction, 2, f);
        for (i64 row = 0; row < s_.taps[0] * s_.taps[1]; ++row) {
          for (i64 t = 0; t < pass.taps; t += 2)
            pack_pair(pass, row * s_.taps[2], t, to + row * row_vectors_ + 2 * f * pairs_per_phase_ + t);
        }
      }
    }
  }
  /// Puts the terms of a unit into the order of channels that unpacklo and unpackhi leave.
  static void reorder_terms(V* terms) {
    for (int i = 0; i < 2; ++i) {
      const V first = terms[i], second = terms[i + 2];
      terms[i] = __builtin_shufflevector(first, second, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
      terms[i + 2] = __builtin_shufflevector(first, second, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
    }
  }
  /// Packs taps t and t + 1 of a row of weights, in the order of channels that unpacklo and unpackhi leave.
  void pack_pair(const Pass& pass, i64 row, i64 t, __m512i* to) const {
    const i64 a = row + pass.w_first + t * pass.w_step;
    Vec<std::uint32_t> half[2];
    for (int i = 0; i < 2; ++i) {
      half[i] = Products<S>::interleave(unpaired_[i][a], t + 1 < pass.taps ? unpaired_[i][a + pass.w_step] : V{});
    }
    to[0] =
        (__m512i)__builtin_shufflevector(half[0], half[1], 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
    to[1] =
        (__m512i)__builtin_shufflevector(half[0], half[1], 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
  }

  template <int kRows>
  void pixels(const ColumnPhase& phase, Range taps, bool, const S* x, Out out, i64 unit) {
    const PairColumn* const end = list_pairs(phase, taps);
    const i64 units = min_of(this->units_at_once(), channels_.units - unit),
              whole = min_of(units, channels_.count / kChannels - unit);
    const __m512i* const w = reinterpret_cast<const __m512i*>(scratch_.vectors + unit * plan_.unit);
    if (whole > 0) tiles<kRows, true>(phase, end, x, w, out, whole, kChannels);
    if (whole == units) return;
    if (block_.terms != nullptr) block_.terms += whole * Loop::kTermsPerUnit;
    tiles<kRows, false>(phase, end, x + whole * kChannels, w + whole * plan_.unit, out + whole * kChannels, 1,
                        static_cast<int>(channels_.count % kChannels));
  }
  template <int kRows, bool kAll>
  void tiles(const ColumnPhase& phase, const PairColumn* end, const S* x, const __m512i* w, Out out, i64 units,
             int count) {
    const auto run = [&](const auto& tile) { tile(block_, pairs_, end, x, w, plan_.unit, out, units, count); };
    if (phase.form == kFromMemory) return run(tile<S, kRows, false, true, kAll, Out>);
    phase.inside ? run(tile<S, kRows, true, false, kAll, Out>) : run(tile<S, kRows, false, false, kAll, Out>);
  }
  PairColumn* list_pairs(const ColumnPhase& phase, Range taps) const {
    if (taps.first == taps.end) return pairs_;
    const i64 residue = &phase - scratch_.phases;
    PairColumn* to = pairs_;
    for (i64 t = taps.first & ~i64{1}; t < taps.end; t += 2) {
      const bool both = t >= taps.first && t + 1 < taps.end;
      for (i64 i = 0; i < phase.columns_per_tap; ++i) {
        const TapColumn& column = phase.columns[max_of(t, taps.first) * phase.columns_per_tap + i];
        const i64 other = both ? phase.columns[(t + 1) * phase.columns_per_tap + i].source : column.source;
        *to++ = {{column.source, other},
                 column.weight / s_.taps[2] * row_vectors_ + 2 * residue * pairs_per_phase_ + t,
                 column.taps,
                 column.lines,
                 both,
                 t + 1 < phase.pass.taps,
                 t < taps.first ? 16 : 0};
      }
    }
    return to;
  }

  const i64 pairs_per_phase_, row_vectors_;  // row_vectors_: vectors of weights per row of taps
  V* unpaired_[2];                           // weights of a unit as fp32
  PairColumn* pairs_;
};

/// Returns visit(null pointers to S and R): types of the source and of the results.
template <class Visit>
auto with_types(const Depthwise& job, const Visit& visit) {
  if constexpr (!kHasAmx) {
    Bfloat16* const null = nullptr;
    if (job.shape.dtype == DataType::kBFloat16) return visit(null, null);
  }
  return visit(static_cast<std::int8_t*>(nullptr), static_cast<AnyInteger*>(nullptr));
}

/// The same for copies, which are of elements of some size.
template <class Visit>
auto with_copied_types(const Depthwise& job, const Visit& visit) {
  return with_types(job, [&]<class S, class R>(S* source, R* result) {
    if constexpr (!__is_same(R, AnyInteger)) return visit(source, result);
    return with_integers(job.result_type, job.result, [&](auto* integers) { return visit(source, integers); });
  });
}

}  // namespace

void depthwise_via_nhwc_dot(const Depthwise& job, i64 first, i64 end, void* scratch) {
  with_copied_types(job, [&]<class S, class R>(S*, R*) { NhwcCopy<S, R>(job, scratch).data(first, end); });
}

std::size_t depthwise_via_nhwc_dot_scratch(const Depthwise& job) {
  return with_copied_types(job, [&]<class S, class R>(S*, R*) { return NhwcCopy<S, R>(job, nullptr).bytes(); });
}

void depthwise_tap_pairs(const Depthwise& job, i64 first, i64 end, void* scratch) {
  with_types(job, [&]<class S, class R>(S*, R*) { TapPairs<S, R>(job, scratch).pieces(first, end); });
}

std::size_t depthwise_tap_pairs_scratch(const Depthwise& job) {
  return with_types(job, [&]<class S, class R>(S*, R*) { return TapPairs<S, R>::bytes(job); });
}

void depthwise_grouped_dot(const Depthwise& job, i64 first, i64 end, void* scratch) {
  with_types(job, [&]<class S, class R>(S*, R*) { GroupedDot<S, R>(job, scratch).pieces(first, end); });
}

std::size_t depthwise_grouped_dot_scratch(const Depthwise& job) {
  return with_types(job, [&]<class S, class R>(S*, R*) { return GroupedDot<S, R>::bytes(job); });
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
