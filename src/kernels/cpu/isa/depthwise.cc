// Depthwise and grouped convolution with channels last: vectors run over channels, x and y are used where they lie. A
// tile is a vector of channels of a few pixels one below another. In groups, each lane meets all channels of its group:
// a vector of the source is read once for each of them and permuted.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/caches.h"
#include "kernels/cpu/isa/depthwise_rows.h"
#include "kernels/cpu/isa/depthwise_tiles.h"
#include "kernels/cpu/isa/entries.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

i64 ceil_div(i64 a, i64 b) { return (a + b - 1) / b; }

/// R: the type of results.
template <class S, class R = S>
class Pixels {
  static constexpr bool kAll = __is_same(S, R);  // directions
  using T = Sum<S>;
  using V = Vec<T>;
  static constexpr int kN = kLanes<T>;
  /// Of groups, in a tile: their sums and what is added to them are in registers.
  static constexpr int kMostPixels = 2 * kMostRows + 4 <= kRegisters ? 2 : 1;
  /// One residue of the columns: its taps, `each` columns of them for each tap across.
  struct Across {
    Pass pass;
    const TapColumn* columns;
    i64 each;
    Form form;
    bool inside;  // no tap of the current rows is outside, above or below
  };

 public:
  Pixels(const Depthwise& job, void* scratch)
      : job_(job), s_(job.shape), data_(job.direction == ConvDirection::kBackwardData),
        weights_only_(job.direction == ConvDirection::kBackwardWeights), groups_({}, job.shape.c) {
    taps_ = s_.taps[0] * s_.taps[1] * s_.taps[2];
    unit_ = taps_ * s_.c;
    from_ = data_ ? s_.y_d : s_.x_d;
    to_ = data_ ? s_.x_d : s_.y_d;
    for (int d = 0; d < kSpatial; ++d) source_.size[d] = data_ ? s_.out[d] : s_.in[d];
    source_.step[0] = from_[0];
    source_.step[1] = from_[1];
    most_units_ = most_units(job);
    vectors_ = static_cast<V*>(scratch);
    columns_ = reinterpret_cast<TapColumn*>(vectors_ + most_units_ * unit_);
    across_ = reinterpret_cast<Across*>(columns_ + taps_);
    offsets_ = reinterpret_cast<i64*>(across_ + pass_count(s_, job.direction, 2));
    source_.column = offsets_;
    block_.alpha = static_cast<T>(job.alpha);
    block_.beta = static_cast<T>(job.beta);
    block_.around = writes_around();
  }
  ~Pixels() {
#if defined(__AVX512F__)
    if (block_.around) _mm_sfence();  // other threads read the result when they see that the task is done
#endif
  }

  static std::size_t bytes(const Depthwise& job) {
    const i64 taps = job.shape.taps[0] * job.shape.taps[1] * job.shape.taps[2];
    return static_cast<std::size_t>(most_units(job) * taps * job.shape.c) * sizeof(V) +
           static_cast<std::size_t>(taps) * sizeof(TapColumn) + static_cast<std::size_t>(job.shape.taps[2]) * 8 +
           static_cast<std::size_t>(pass_count(job.shape, job.direction, 2)) * sizeof(Across);
  }

  void pieces(i64 first, i64 end) {
    if constexpr (kAll) {
      for (i64 i = first, some = 0; weights_only_ && i < end; i += some) {
        some = min_of(job_.blocks_at_once(), end - i);
        all_weights(i, some);
      }
    }
    for (i64 i = first; !weights_only_ && i < end; ++i) piece(i);
  }

 private:
  void piece(i64 index) {
    const i64* size = data_ ? s_.in : s_.out;
    const i64 row_blocks = ceil_div(size[1], kRowBlock), part = index % row_blocks, slab = index / row_blocks % size[0];
    const i64 n = index / (row_blocks * size[0]) % s_.n;
    take(index / (row_blocks * size[0] * s_.n), 1);
    x_ = static_cast<const S*>(data_ ? job_.y : job_.x) + n * (data_ ? s_.y_n : s_.x_n) + channel_;
    out_ = static_cast<R*>(job_.result) + n * (data_ ? s_.x_n : s_.y_n) + channel_;
    const i64 phases = pass_count(s_, job_.direction, 0), f0 = slab % phases;
    for (i64 f1 = 0; f1 < pass_count(s_, job_.direction, 1); ++f1) phase(f0, f1, slab / phases, part, row_blocks);
  }

  static i64 most_units(const Depthwise& job) { return ceil_div(job.blocks_at_once() * job.channel_block(), kN); }

  /// Vectors of channels that are done for a row of pixels before others: with small images, as many as stay in the
  /// first-level cache while the taps across move over them. Otherwise whole pixels, which are read faster than parts.
  i64 units_at_once() const {
    constexpr i64 kSmall = 256 << 10, kUnitBytes = 512;
    const i64 bytes = source_.size[1] * source_.size[2] * channels_ * static_cast<i64>(sizeof(S));
    return weights_only_ || bytes > kSmall ? units_ : kUnitBytes / kVectorBytes;
  }

  /// Results that are not read, aligned, and with their source larger than what caches keep.
  bool writes_around() const {
    const i64 source = data_ ? s_.out[0] * s_.out[1] * s_.out[2] : s_.in[0] * s_.in[1] * s_.in[2];
    const i64 result = data_ ? s_.in[0] * s_.in[1] * s_.in[2] : s_.out[0] * s_.out[1] * s_.out[2];
    const i64 steps = to_[0] | to_[1] | to_[2] | (data_ ? s_.x_n : s_.y_n);
    return kWritesLines<S> && !weights_only_ && job_.beta == 0 && steps % kN == 0 &&
           reinterpret_cast<std::uintptr_t>(job_.result) % kVectorBytes == 0 &&
           s_.n * s_.groups * s_.c * (source + result) * static_cast<i64>(sizeof(S)) > result_caches() / 2;
  }

  /// Makes some blocks of channels the current ones.
  void take(i64 block, i64 blocks) {
    if (block == taken_) return;
    taken_ = block;
    channel_ = block * job_.channel_block();
    channels_ = min_of(blocks * job_.channel_block(), s_.groups * s_.c - channel_);
    units_ = ceil_div(channels_, kN);
    if (!weights_only_) pack();
  }

  /// Weights as vectors of channels, for each unit, tap and channel that it meets.
  void pack() {
    const S* w = static_cast<const S*>(job_.w);
    for (i64 u = 0; u < units_; ++u) {
      const i64 first = channel_ + u * kN, some = min_of<i64>(kN, channels_ - u * kN);
      if (s_.c == 1 && taps_packed()) {
        for (i64 t = 0; t < taps_; t += kN) {
          turn_in(w + first * s_.w_k + t, some, min_of<i64>(kN, taps_ - t), vectors_ + u * taps_ + t);
        }
        continue;
      }
      i64 place[kN];
      for (i64 l = 0; l < some; ++l) place[l] = place_of(first + l);
      const i64 step = data_ ? s_.w_k : s_.w_c;
      T* to = reinterpret_cast<T*>(vectors_ + u * unit_);
      each_tap([&](i64 at) {
        for (i64 j = 0; j < s_.c; ++j, at += step, to += kN) {
          for (i64 l = 0; l < kN; ++l) to[l] = l < some ? widen(w[at + place[l]]) : T{};
        }
      });
    }
  }
  /// Where the first weight is that a channel of the result meets.
  i64 place_of(i64 channel) const {
    return data_ ? channel / s_.c * s_.c * s_.w_k + channel % s_.c * s_.w_c : channel * s_.w_k;
  }
  bool taps_packed() const {
    const i64 *taps = s_.taps, *steps = s_.w_d;
    return (taps[2] == 1 || steps[2] == 1) && (taps[1] == 1 || steps[1] == taps[2]) &&
           (taps[0] == 1 || steps[0] == taps[1] * taps[2]);
  }
  /// `taps` taps of `channels` filters as vectors of channels.
  void turn_in(const S* w, i64 channels, i64 taps, V* to) const {
    if (taps == 1) {  // left of 3x3, 5x5 and 7x7 by vectors of four and eight
      T* const lanes = reinterpret_cast<T*>(to);
      for (i64 l = 0; l < kN; ++l) lanes[l] = l < channels ? widen(w[l * s_.w_k]) : T{};
      return;
    }
    with_taps_of_vector(taps, [&](const auto& some) {
      V rows[kN];
#pragma GCC unroll 16
      for (i64 l = 0; l < kN; ++l) rows[l] = l < channels ? some(w + l * s_.w_k) : V{};
      transpose(rows);
      for (i64 t = 0; t < taps; ++t) to[t] = rows[t];
    });
  }
  /// The inverse, scaled.
  void turn_out(const V* from, i64 channels, i64 taps, S* dw) const {
    if (taps == 1) return scatter(reinterpret_cast<const T*>(from), channels, dw);
    const i64 step = s_.w_k;
    const V alpha = broadcast(block_.alpha), beta = broadcast(block_.beta);
    const bool adds = block_.beta != 0;
    with_taps_of_vector(taps, [&](const auto& some) {
      V rows[kN];
#pragma GCC unroll 16
      for (i64 t = 0; t < kN; ++t) rows[t] = t < taps ? from[t] * alpha : V{};
      transpose(rows);
#pragma GCC unroll 16
      for (i64 l = 0; l < kN; ++l) {
        if (l < channels) some.store(dw + l * step, adds ? rows[l] + beta * some(dw + l * step) : rows[l]);
      }
    });
  }
  /// One tap of `channels` filters, scaled.
  void scatter(const T* sums, i64 channels, S* dw) const {
    const i64 step = s_.w_k;
    const T alpha = block_.alpha, beta = block_.beta;
    if (beta == 0) {
      for (i64 l = 0; l < channels; ++l) dw[l * step] = narrow<S>(alpha * sums[l]);
    } else {
      for (i64 l = 0; l < channels; ++l) dw[l * step] = narrow<S>(alpha * sums[l] + beta * widen(dw[l * step]));
    }
  }
  template <class Use>
  static void with_taps_of_vector(i64 taps, const Use& use) {
    if (taps == kN) return use(AllChannels<S>{});
    use(SomeChannels<S>{static_cast<int>(taps)});
  }
  template <class Use>
  void each_tap(const Use& use) const {
    for (i64 r0 = 0; r0 < s_.taps[0]; ++r0) {
      for (i64 r1 = 0; r1 < s_.taps[1]; ++r1) {
        for (i64 r2 = 0; r2 < s_.taps[2]; ++r2) use(r0 * s_.w_d[0] + r1 * s_.w_d[1] + r2 * s_.w_d[2]);
      }
    }
  }

  void phase(i64 f0, i64 f1, i64 slab, i64 part, i64 parts) {
    const Pass down = pass_of(s_, job_.direction, 1, f1);
    for (i64 a = 0; a < comb_count(down); ++a) {
      const Comb comb = comb_of(down, a);
      i64 m = comb.count * part / parts, rows = 0;
      for (const i64 end = comb.count * (part + 1) / parts; m < end; m += rows) {
        rows = tile_rows(end - m, kMostRows);
        row_block(pass_of(s_, job_.direction, 0, f0), down, comb, slab, m, rows);
      }
    }
  }

  /// All residues of the columns together: they read the same lines.
  void row_block(const Pass& slabs, const Pass& down, const Comb& comb, i64 slab, i64 m, i64 rows) {
    const i64 phases = pass_count(s_, job_.direction, 2);
    TapColumn* columns = columns_;
    i64 pixels = 0;
    for (i64 f = 0; f < phases; ++f) {
      const Pass pass[kSpatial] = {slabs, down, pass_of(s_, job_.direction, 2, f)};
      for (i64 t = 0; t < pass[2].taps; ++t) offsets_[t] = t * pass[2].dilation * from_[2];
      const i64 count = list_columns(pass, comb, slab, m, rows, source_, s_.taps, columns);
      const i64 each = pass[2].taps > 0 ? count / pass[2].taps : 0;
      across_[f] = {pass[2], columns, each, form_of(columns, count, each, rows), all_inside(columns, count, rows)};
      columns += count;
      pixels = max_of(pixels, pass[2].count);
    }
    block_.pitch = comb.line * from_[1];
    block_.w_step = comb.tap_step * down.w_step * s_.taps[2];
    block_.out_pitch = comb.step * down.out_step * to_[1];
    R* const out = out_ + (slabs.out_first + slab * slabs.out_step) * to_[0] +
                   (down.out_first + (comb.first + m * comb.step) * down.out_step) * to_[1];
    // Weights of a group's channels are many: they stay in the cache for a row of pixels.
    // Residues take turns as soon as a call has some work: results are written as they lie, what is read is still near.
    constexpr i64 kCall = 16;
    const i64 step = s_.c == 1 ? units_at_once() : 1;
    const i64 together = s_.c > 1 ? 2 : phases > 1 ? max_of<i64>(kCall / units_, 1) : pixels;
    with_rows<kMostRows>(rows, [&](auto row_count) {
      for (i64 u = 0; u < units_; u += step) {
        for (i64 i = 0; i < pixels; i += together) {
          for (i64 f = 0; f < phases; ++f) pixels_at<row_count.value>(across_[f], i, together, out, u);
        }
      }
    });
  }

  static Form form_of(const TapColumn* columns, i64 count, i64 each, i64 rows) {
    const Form form = each == 2 ? kTwosAndOnes : count > 0 && columns->taps <= 3 ? Form(columns->taps) : kAnyForm;
    if (form == kAnyForm || each != columns_of(form)) return kAnyForm;
    for (const TapColumn* const end = columns + count; columns < end; columns += each) {
      const unsigned all = (2u << (rows + most_taps(form) - 2)) - 1, ends = 1 | (all + 1) >> 1;
      if (columns->taps != most_taps(form) || (columns->lines | ends) != all) return kAnyForm;
      if (each == 2 && (columns[1].taps != 1 || columns[1].lines + 1 != 1u << rows)) return kAnyForm;
    }
    return form;
  }

  /// `count` results from i on, together if all their taps are inside.
  template <int kRows>
  void pixels_at(const Across& across, i64 i, i64 count, R* out, i64 unit) {
    const Pass& p = across.pass;
    const i64 end = min_of(i + count, p.count), reach = (p.taps - 1) * p.dilation;
    block_.x_pixel = p.stride * from_[2];
    block_.out_pixel = p.out_step * to_[2];
    const i64 first = p.first + i * p.stride;
    const bool both = kMostPixels == 2 && s_.c > 1 && end - i == 2 && first >= 0 &&
                      first + p.stride + reach < source_.size[2];
    for (i64 some = both ? 2 : 1; i < end; i += some) {
      const i64 at = p.first + i * p.stride;
      Range taps{0, p.taps};
      block_.run = 1;
      if (at < 0 || at + reach >= source_.size[2]) {
        taps = inside(at, p.dilation, source_.size[2], p.taps);
      } else if (s_.c == 1) {
        block_.run = min_of(end - i, (source_.size[2] - 1 - reach - at) / p.stride + 1);
      }
      if (s_.c == 1) some = block_.run;
      block_.columns = across.columns + taps.low * across.each;
      block_.count = max_of<i64>(taps.high - taps.low, 0) * across.each;
      const S* x = x_ + at * from_[2] + unit * kN;
      R* const to = out + (p.out_first + i * p.out_step) * to_[2] + unit * kN;
      if (s_.c == 1) {
        all_units<kRows>(across, x, to, unit);
      } else if constexpr (__is_same(S, float)) {
        both ? one_unit<kRows, kMostPixels>(across.inside, x, to, unit)
             : one_unit<kRows, 1>(across.inside, x, to, unit);
      }
    }
  }

  template <int kRows>
  void all_units(const Across& across, const S* x, R* out, i64 unit) {
    const i64 units = min_of(units_at_once(), units_ - unit), whole = min_of(units, channels_ / kN - unit);
    V* const vectors = vectors_ + unit * taps_;
    with_form<kRows>(across.form, [&](auto form) {
      rows_of<kRows, 1, Form(form.value)>(across.inside, x, out, vectors, whole, AllChannels<S>{});
    });
    if (whole == units) return;
    const SomeChannels<S> some{static_cast<int>(channels_ % kN)};
    single_rows<kRows>(x + whole * kN, out + whole * kN, vectors + whole * taps_, some);
  }
  /// Groups of several channels.
  template <int kRows, int kPixels>
  void one_unit(bool inside, const S* x, R* out, i64 unit) {
    const i64 some = min_of<i64>(kN, channels_ - unit * kN);
    V* const vectors = vectors_ + unit * unit_;
    if (some < kN) {
      const WholeGroups<SomeChannels<float>> channels({static_cast<int>(some)}, s_.c);
      for (i64 p = 0; p < kPixels; ++p) {
        single_rows<kRows>(x + p * block_.x_pixel, out + p * block_.out_pixel, vectors, channels);
      }
    } else if (s_.c < kN) {
      rows_of<kRows, kPixels, kAnyForm>(inside, x, out, vectors, 1, groups_);
    } else {
      rows_of<kRows, kPixels, kAnyForm>(inside, x, out, vectors, 1, GroupPart(s_.c, unit * kN % s_.c));
    }
  }
  template <int kRows, int kPixels, Form kForm, class Channels>
  void rows_of(bool inside, const S* x, R* out, V* vectors, i64 count, const Channels& channels) const {
    if (inside) {
      units<kRows, kPixels, true, kForm>(0, x, out, vectors, count, channels);
    } else {
      units<kRows, kPixels, false, kForm>(0, x, out, vectors, count, channels);
    }
  }
  /// Vectors that are not full: testing the number of lanes costs less row by row.
  template <int kRows, class Channels>
  void single_rows(const S* x, R* out, V* vectors, const Channels& channels) const {
    for (i64 row = 0; row < kRows; ++row) units<1, 1, false, kAnyForm>(row, x, out, vectors, 1, channels);
  }
  template <int kRows, int kPixels, bool kInside, Form kForm, class Channels>
  void units(i64 row, const S* x, R* out, V* vectors, i64 count, const Channels& channels) const {
    if constexpr (kAll) {
      if (weights_only_) {
        return weights_tile<S, kRows, kPixels, kInside, kForm>(block_, row, x, out, vectors, count, taps_, channels);
      }
    }
    tile<S, kRows, kPixels, kInside, kForm>(block_, row, x, vectors, out, count, taps_, channels);
  }
  /// Calls `use` with a form as a constant if there is code for it.
  template <int kRows, class Use>
  static void with_form(Form form, const Use& use) {
    if constexpr (__is_same(S, float) && kRows >= 2) {
      if (form == kOnes) return use(std::integral_constant<int, kOnes>{});
      if (form == kTwos) return use(std::integral_constant<int, kTwos>{});
      if (form == kThrees) return use(std::integral_constant<int, kThrees>{});
      if (form == kTwosAndOnes) return use(std::integral_constant<int, kTwosAndOnes>{});
    }
    use(std::integral_constant<int, kAnyForm>{});
  }

  void all_weights(i64 block, i64 blocks) {
    take(block, blocks);
    for (i64 i = 0; i < units_ * unit_; ++i) vectors_[i] = V{};
    for (i64 n = 0; n < s_.n; ++n) {
      x_ = static_cast<const S*>(job_.x) + n * s_.x_n + channel_;
      out_ = const_cast<S*>(static_cast<const S*>(job_.y)) + n * s_.y_n + channel_;
      for (i64 slab = 0; slab < s_.out[0]; ++slab) phase(0, 0, slab, 0, 1);
    }
    for (i64 u = 0; u < units_; ++u) write_weights(u);
  }

  void write_weights(i64 u) {
    S* dw = static_cast<S*>(job_.result) + (channel_ + u * kN) * s_.w_k;
    const i64 some = min_of<i64>(kN, channels_ - u * kN);
    if (s_.c == 1 && taps_packed()) {
      for (i64 t = 0; t < taps_; t += kN) turn_out(vectors_ + u * taps_ + t, some, min_of<i64>(kN, taps_ - t), dw + t);
      return;
    }
    const T* sums = reinterpret_cast<const T*>(vectors_ + u * unit_);
    each_tap([&](i64 at) {
      for (i64 j = 0; j < s_.c; ++j, at += s_.w_c, sums += kN) scatter(sums, some, dw + at);
    });
  }

  const Depthwise& job_;
  const ConvShape& s_;
  const bool data_, weights_only_;
  i64 taps_, unit_, most_units_, units_ = 0, channel_ = 0, channels_ = 0, taken_ = -1;
  const i64 *from_, *to_;
  StencilSource source_{};
  V* vectors_;  // weights, or their sums, unit_ of each vector of channels
  TapColumn* columns_;
  Across* across_;
  WholeGroups<AllChannels<float>> groups_;
  i64* offsets_;
  const S* x_ = nullptr;
  R* out_ = nullptr;  // dy for weights, which is not written
  Block<S> block_{};
};

/// Calls `use` with a value of the storage type of all tensors.
template <class Use>
auto with_storage(DataType type, const Use& use) {
  switch (type) {
    case DataType::kDouble:
      return use(double{});
    case DataType::kHalf:
      return use(Half{});
    case DataType::kBFloat16:
      return use(Bfloat16{});
    default:
      return use(float{});
  }
}

}  // namespace

void depthwise(const Depthwise& job, i64 first, i64 end, void* scratch) {
  if (job.mixed()) return depthwise_copied(job, first, end, scratch);
  if (!job.channels_last) return depthwise_rows(job, first, end, scratch);
  if (job.shape.dtype == DataType::kInt8) {
    return with_integers(job.result_type, job.result, [&](auto* result) {
      Pixels<std::int8_t, std::remove_pointer_t<decltype(result)>>(job, scratch).pieces(first, end);
    });
  }
  with_storage(job.shape.dtype, [&](auto value) { Pixels<decltype(value)>(job, scratch).pieces(first, end); });
}

std::size_t depthwise_scratch(const Depthwise& job) {
  if (job.mixed()) return depthwise_copied_scratch(job);
  if (!job.channels_last) return depthwise_rows_scratch(job);
  if (job.shape.dtype == DataType::kInt8) return Pixels<std::int8_t>::bytes(job);
  return with_storage(job.shape.dtype, [&](auto value) { return Pixels<decltype(value)>::bytes(job); });
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
