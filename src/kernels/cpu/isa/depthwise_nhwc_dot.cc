// Depthwise convolution with channels last whose products are of pairs: each lane of 32 bits holds what two taps across
// meet in one channel. Only for instruction sets that have such products; the rest is that of the shared ones.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/isa/amx.h"
#include "kernels/cpu/isa/entry_points.h"
#include "kernels/cpu/isa/grouped_nhwc_dot.h"
#include "kernels/cpu/isa/gemm_operands.h"
#include "kernels/cpu/isa/depthwise_via_nhwc.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

inline constexpr int kPairLanes = kLanes<float>, kChannels = 2 * kPairLanes;  // of a vector, and of a unit

/// Two columns of taps across, or one of them.
struct PairColumn {
  i64 source[2];  // of a lone one: twice the same
  i64 weight;     // vectors before those of tap 0
  int taps;
  unsigned lines;
  bool both;
  bool masked;  // a lone one, whose weights are packed beside those of one that is outside
  int shift;    // bits before them
};

/// Products of pairs take subnormal numbers of bf16 for zero.
template <class S>
struct Products;
template <>
struct Products<Bfloat16> {
  using V = Vec<float>;
  static __m512i read(const Bfloat16* p) { return _mm512_loadu_si512(p); }
  static __m512i read(const Bfloat16* p, __mmask32 channels) { return _mm512_maskz_loadu_epi16(channels, p); }
  static V add(V sum, __m512i x, __m512i w) { return (V)_mm512_dpbf16_ps((__m512)sum, (__m512bh)x, (__m512bh)w); }
  /// Elements that were widened, those of b in the upper halves.
  static Vec<std::uint32_t> join(Vec<float> a, Vec<float> b) {
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
  static Vec<std::uint32_t> join(Vec<float> a, Vec<float> b) {
    const auto low = __builtin_convertvector(a, V), high = __builtin_convertvector(b, V);
    return (Vec<std::uint32_t>)((low & 0xffff) | high << 16);
  }
};

/// Sums of channels as instructions that join neighbours leave them: four of each eight in `low`, four in `high`.
template <class V>
[[gnu::always_inline]] inline void put_in_order(V& low, V& high) {
  const V a = low, b = high;
  low = __builtin_shufflevector(a, b, 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
  high = __builtin_shufflevector(a, b, 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
}

/// Sums of some channels as elements of a result that nothing scales.
template <Store kStore>
static inline void write(Bfloat16* to, Vec<float> low, Vec<float> high, __mmask32 channels) {
  const auto both = (VecType<std::int64_t, 8>::type)_mm512_cvtne2ps_pbh((__m512)high, (__m512)low);
  const auto line = (__m512i)__builtin_shufflevector(both, both, 0, 4, 1, 5, 2, 6, 3, 7);
  if constexpr (kStore == kSome) {
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
  put_in_order(low, high);
  const auto first = __builtin_convertvector(low, Vec<R>), second = __builtin_convertvector(high, Vec<R>);
  store_line<kStore>(to, static_cast<__mmask16>(channels), (__m512i)first);
  store_line<kStore>(to + kPairLanes, static_cast<__mmask16>(channels >> kPairLanes), (__m512i)second);
}

/// Adds a pair of columns of taps, or one of them, to the sums of results one below another.
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
    __asm__("" : "+r"(first), "+r"(second));  // compilers would hold all addresses, for which registers are too few
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

/// Results of b.run pixels and kRows rows, of `units` times all channels of a vector, or of the first `count` of one.
/// Masks are only for these: processors do not fetch ahead of loads that have one.
template <class S, int kRows, bool kInside, bool kFetches, bool kAll, class R>
[[gnu::noinline]] static void tile(const Block<S>& b, const PairColumn* columns, const PairColumn* end, const S* x,
                                   const __m512i* w, i64 w_unit, R* out, i64 units, int count) {
  using P = Products<S>;
  using V = typename P::V;
  const i64 pitch = b.pitch, out_pitch = b.out_pitch, w_step = b.w_step;
  const bool plain = b.alpha == 1 && b.beta == 0;
  const __mmask32 some = ~0u >> (kChannels - count);
  const auto read = [&](const S* p) __attribute__((always_inline)) {
    if constexpr (kAll) {
      return P::read(p);
    } else {
      return P::read(p, some);
    }
  };
  for (i64 i = 0; i < b.run; ++i, x += b.x_pixel, out += b.out_pixel) {
    const __m512i* weights = w;
    for (i64 c = 0; c < units * kChannels; c += kChannels, weights += w_unit) {
      V low[kRows] = {}, high[kRows] = {};
      if (kFetches && begins_line<S>(c)) fetch_next<kRows>(b, x + c);
      for (const PairColumn* p = columns; p < end; ++p) {
        const __m512i* const of_column = weights + p->weight;
        with_taps(
            p->taps, [&](auto n) __attribute__((always_inline)) {
              p->both
                  ? add_pairs<S, true, n.value, kRows, kInside>(*p, x + c, pitch, read, of_column, w_step, low, high)
                  : add_pairs<S, false, n.value, kRows, kInside>(*p, x + c, pitch, read, of_column, w_step, low, high);
            });
      }
      if (!plain) {
        write_rows(out + c, out_pitch, low, high, [&](R* to, V l, V h) {
          put_in_order(l, h);
          write_scaled(to, l, h, count, b);
        });
      } else if (!kAll) {
        write_rows(out + c, out_pitch, low, high, [&](R* to, V l, V h) { write<kSome>(to, l, h, some); });
      } else if (b.non_temporal) {
        write_rows(out + c, out_pitch, low, high, [&](R* to, V l, V h) { write<kNonTemporal>(to, l, h, some); });
      } else {
        write_rows(out + c, out_pitch, low, high, [&](R* to, V l, V h) { write<kWhole>(to, l, h, some); });
      }
    }
  }
}

/// R: the type of results.
template <class S, class R>
class PixelPairs : PixelWalk<PixelPairs<S, R>, S, R, kChannels> {
  using Walk = PixelWalk<PixelPairs, S, R, kChannels>;
  using typename Walk::V;
  using Walk::block_, Walk::across_;
  using Walk::job_, Walk::s_, Walk::taps_, Walk::unit_, Walk::units_, Walk::channel_, Walk::channels_, Walk::vectors_;
  friend Walk;

 public:
  PixelPairs(const Depthwise& job, void* scratch)
      : Walk(job, unit_of(job), scratch),
        each_(pairs_of(job)),
        row_(2 * each_ * pass_count(job.shape, job.direction, 2)) {
    V* const behind = reinterpret_cast<V*>(static_cast<char*>(scratch) + walk_bytes(job));
    raw_[0] = behind;
    raw_[1] = behind + taps_;
    pairs_ = reinterpret_cast<PairColumn*>(behind + 2 * taps_);
  }
  static std::size_t bytes(const Depthwise& job) {
    const i64(&taps)[kSpatial] = job.shape.taps;
    const auto all = static_cast<std::size_t>(taps[0] * taps[1] * taps[2]);
    return static_cast<std::size_t>(walk_bytes(job)) + all * (2 * sizeof(V) + sizeof(PairColumn));
  }
  void pieces(i64 first, i64 end) {
    for (i64 i = first; i < end; ++i) this->piece(i);
  }

 private:
  /// Of scratch, before what is this class's own.
  static i64 walk_bytes(const Depthwise& job) {
    return round_up(static_cast<i64>(Walk::bytes(job, unit_of(job))), kVectorBytes);
  }
  /// Pairs of taps across, at most, of each residue of the columns.
  static i64 pairs_of(const Depthwise& job) {
    i64 most = 1;
    for (i64 f = 0; f < pass_count(job.shape, job.direction, 2); ++f) {
      most = max_of(most, (pass_of(job.shape, job.direction, 2, f).taps + 1) / 2);
    }
    return most;
  }
  static i64 unit_of(const Depthwise& job) {
    const i64 rows = job.shape.taps[0] * job.shape.taps[1];
    return 2 * rows * pairs_of(job) * pass_count(job.shape, job.direction, 2);
  }
  i64 row_weights() const { return row_; }

  void pack() {
    for (i64 u = 0; u < units_; ++u) {
      for (i64 half = 0; half < 2; ++half) {
        const i64 first = u * kChannels + half * kPairLanes, some = min_of<i64>(kPairLanes, channels_ - first);
        if (some > 0) this->take_weights(channel_ + first, some, raw_[half]);
      }
      __m512i* const to = reinterpret_cast<__m512i*>(vectors_ + u * unit_);
      for (i64 f = 0; f < pass_count(s_, job_.direction, 2); ++f) {
        const Pass pass = pass_of(s_, job_.direction, 2, f);
        for (i64 row = 0; row < s_.taps[0] * s_.taps[1]; ++row) {
          for (i64 t = 0; t < pass.taps; t += 2)
            pack_pair(pass, row * s_.taps[2], t, to + row * row_ + 2 * f * each_ + t);
        }
      }
    }
  }
  /// Taps t and t + 1 of a row of weights, in the order of channels that put_in_order() undoes.
  void pack_pair(const Pass& pass, i64 row, i64 t, __m512i* to) const {
    const i64 a = row + pass.w_first + t * pass.w_step;
    Vec<std::uint32_t> half[2];
    for (int i = 0; i < 2; ++i) {
      half[i] = Products<S>::join(raw_[i][a], t + 1 < pass.taps ? raw_[i][a + pass.w_step] : V{});
    }
    to[0] =
        (__m512i)__builtin_shufflevector(half[0], half[1], 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
    to[1] =
        (__m512i)__builtin_shufflevector(half[0], half[1], 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
  }

  template <int kRows>
  void pixels(const Across& across, Range taps, bool, const S* x, R* out, i64 unit) {
    const PairColumn* const end = list_pairs(across, taps);
    const i64 units = min_of(this->units_at_once(), units_ - unit), whole = min_of(units, channels_ / kChannels - unit);
    const __m512i* const w = reinterpret_cast<const __m512i*>(vectors_ + unit * unit_);
    if (whole > 0) tiles<kRows, true>(across, end, x, w, out, whole, kChannels);
    if (whole == units) return;
    tiles<kRows, false>(across, end, x + whole * kChannels, w + whole * unit_, out + whole * kChannels, 1,
                        static_cast<int>(channels_ % kChannels));
  }
  template <int kRows, bool kAll>
  void tiles(const Across& across, const PairColumn* end, const S* x, const __m512i* w, R* out, i64 units, int count) {
    const auto run = [&](const auto& tile) { tile(block_, pairs_, end, x, w, unit_, out, units, count); };
    if (across.form == kFromMemory) return run(tile<S, kRows, false, true, kAll, R>);
    across.inside ? run(tile<S, kRows, true, false, kAll, R>) : run(tile<S, kRows, false, false, kAll, R>);
  }
  PairColumn* list_pairs(const Across& across, Range taps) const {
    if (taps.low == taps.high) return pairs_;
    const i64 residue = &across - across_;
    PairColumn* to = pairs_;
    for (i64 t = taps.low & ~i64{1}; t < taps.high; t += 2) {
      const bool both = t >= taps.low && t + 1 < taps.high;
      for (i64 i = 0; i < across.each; ++i) {
        const TapColumn& column = across.columns[max_of(t, taps.low) * across.each + i];
        const i64 other = both ? across.columns[(t + 1) * across.each + i].source : column.source;
        *to++ = {{column.source, other},
                 column.weight / s_.taps[2] * row_ + 2 * residue * each_ + t,
                 column.taps,
                 column.lines,
                 both,
                 t + 1 < across.pass.taps,
                 t < taps.low ? 16 : 0};
      }
    }
    return to;
  }

  const i64 each_, row_;  // pairs of a residue; vectors of a row of taps
  V* raw_[2];             // weights of a unit, not paired yet
  PairColumn* pairs_;
};

/// Pairs of bf16 only where they are added as fast as floats, which processors with AMX do not.
bool pairs(const Depthwise& job) {
  const DataType type = job.shape.dtype;
  return job.channels_last && job.shape.c == 1 && job.shape.k == 1 &&
         (type == DataType::kInt8 || (type == DataType::kBFloat16 && !kHasAmx && prefers_bf16_dot() &&
                                      job.direction != ConvDirection::kBackwardWeights));
}

/// Whether products of this file are meant.
bool has_products(const Depthwise& job) {
  return job.shape.dtype != DataType::kFloat && (job.transposed || job.dot_group > 1 || pairs(job));
}

/// Calls use(type of values, type of results).
template <class Use>
void with_types(const Depthwise& job, const Use& use) {
  if constexpr (!kHasAmx) {
    if (job.shape.dtype == DataType::kBFloat16) return use(Bfloat16{}, Bfloat16{});
  }
  with_integers(job.result_type, job.result,
                [&](auto* result) { use(std::int8_t{}, std::remove_pointer_t<decltype(result)>{}); });
}

}  // namespace

void depthwise(const Depthwise& job, i64 first, i64 end, void* scratch) {
  if (!has_products(job)) return POLYMIO_SHARED_NAMESPACE::depthwise(job, first, end, scratch);
  with_types(job, [&](auto value, auto result) {
    using S = decltype(value);
    using R = decltype(result);
    if (job.transposed) return Transposed<S, R>(job, scratch).data(first, end);
    job.dot_group > 1 ? GroupedDot<S, R>(job, scratch).pieces(first, end)
                      : PixelPairs<S, R>(job, scratch).pieces(first, end);
  });
}

std::size_t depthwise_scratch(const Depthwise& job) {
  if (!has_products(job)) return POLYMIO_SHARED_NAMESPACE::depthwise_scratch(job);
  std::size_t bytes = 0;
  with_types(job, [&](auto value, auto result) {
    using S = decltype(value);
    using R = decltype(result);
    bytes = job.transposed      ? Transposed<S, R>(job, nullptr).bytes()
            : job.dot_group > 1 ? GroupedDot<S, R>::bytes(job)
                                : PixelPairs<S, R>::bytes(job);
  });
  return bytes;
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
