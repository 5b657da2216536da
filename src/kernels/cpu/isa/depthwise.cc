// Depthwise and grouped convolution with channels last: vectors run over channels, x and y are used where they lie. A
// tile is a vector of channels of a few pixels one below another. In groups, each lane meets all channels of its group:
// a vector of the source is read once for each of them and permuted.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/isa/depthwise_rows.h"
#include "kernels/cpu/isa/depthwise_tiles.h"
#include "kernels/cpu/isa/entries.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

i64 ceil_div(i64 a, i64 b) { return (a + b - 1) / b; }

template <class S>
class Pixels {
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
    most_units_ = ceil_div(job.channel_block(), kN);
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
    return static_cast<std::size_t>(ceil_div(job.channel_block(), kN) * taps * job.shape.c) * sizeof(V) +
           static_cast<std::size_t>(taps) * sizeof(TapColumn) + static_cast<std::size_t>(job.shape.taps[2]) * 8 +
           static_cast<std::size_t>(pass_count(job.shape, job.direction, 2)) * sizeof(Across);
  }

  void piece(i64 index) {
    if (weights_only_) return all_weights(index);
    const i64* size = data_ ? s_.in : s_.out;
    const i64 row_blocks = ceil_div(size[1], kRowBlock), part = index % row_blocks, slab = index / row_blocks % size[0];
    const i64 n = index / (row_blocks * size[0]) % s_.n;
    take(index / (row_blocks * size[0] * s_.n));
    x_ = static_cast<const S*>(data_ ? job_.y : job_.x) + n * (data_ ? s_.y_n : s_.x_n) + channel_;
    out_ = static_cast<S*>(job_.result) + n * (data_ ? s_.x_n : s_.y_n) + channel_;
    const i64 phases = pass_count(s_, job_.direction, 0), f0 = slab % phases;
    for (i64 f1 = 0; f1 < pass_count(s_, job_.direction, 1); ++f1) phase(f0, f1, slab / phases, part, row_blocks);
  }

 private:
  /// Results that are not read, aligned, and with their source larger than what caches of a core hold.
  bool writes_around() const {
    constexpr i64 kCaches = 4 << 20;
    const i64 source = data_ ? s_.out[0] * s_.out[1] * s_.out[2] : s_.in[0] * s_.in[1] * s_.in[2];
    const i64 result = data_ ? s_.in[0] * s_.in[1] * s_.in[2] : s_.out[0] * s_.out[1] * s_.out[2];
    const i64 steps = to_[0] | to_[1] | to_[2] | (data_ ? s_.x_n : s_.y_n);
    return kWritesLines<S> && !weights_only_ && job_.beta == 0 && steps % kN == 0 &&
           reinterpret_cast<std::uintptr_t>(job_.result) % kVectorBytes == 0 &&
           s_.n * s_.groups * s_.c * (source + result) * static_cast<i64>(sizeof(S)) > kCaches;
  }

  /// Makes a block of channels the current one.
  void take(i64 block) {
    if (block == taken_) return;
    taken_ = block;
    channel_ = block * job_.channel_block();
    channels_ = min_of(job_.channel_block(), s_.groups * s_.c - channel_);
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
    return s_.w_d[2] == 1 && s_.w_d[1] == s_.taps[2] && s_.w_d[0] == s_.taps[1] * s_.taps[2];
  }
  /// `taps` taps of `channels` filters as vectors of channels.
  void turn_in(const S* w, i64 channels, i64 taps, V* to) const {
    const SomeChannels<S> some{static_cast<int>(taps)};
    V rows[kN];
    for (i64 l = 0; l < kN; ++l) rows[l] = l < channels ? some(w + l * s_.w_k) : V{};
    transpose(rows);
    for (i64 t = 0; t < taps; ++t) to[t] = rows[t];
  }
  /// The inverse, scaled.
  void turn_out(const V* from, i64 channels, i64 taps, S* dw) const {
    const SomeChannels<S> some{static_cast<int>(taps)};
    V rows[kN];
    for (i64 t = 0; t < kN; ++t) rows[t] = t < taps ? from[t] * broadcast(block_.alpha) : V{};
    transpose(rows);
    for (i64 l = 0; l < channels; ++l, dw += s_.w_k) {
      some.store(dw, block_.beta != 0 ? rows[l] + broadcast(block_.beta) * some(dw) : rows[l]);
    }
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
    inside_ = true;
    for (i64 f = 0; f < phases; ++f) {
      const Pass pass[kSpatial] = {slabs, down, pass_of(s_, job_.direction, 2, f)};
      for (i64 t = 0; t < pass[2].taps; ++t) offsets_[t] = t * pass[2].dilation * from_[2];
      const i64 count = list_columns(pass, comb, slab, m, rows, source_, s_.taps, columns);
      across_[f] = {pass[2], columns, pass[2].taps > 0 ? count / pass[2].taps : 0};
      inside_ &= all_inside(columns, count, rows);
      columns += count;
      pixels = max_of(pixels, pass[2].count);
    }
    find_form(across_[0], phases, rows);
    block_.pitch = comb.line * from_[1];
    block_.w_step = comb.tap_step * down.w_step * s_.taps[2];
    block_.out_pitch = comb.step * down.out_step * to_[1];
    S* const out = out_ + (slabs.out_first + slab * slabs.out_step) * to_[0] +
                   (down.out_first + (comb.first + m * comb.step) * down.out_step) * to_[1];
    // Weights of a group's channels are many: they stay in the cache for a row of pixels.
    constexpr i64 kNear = 8;  // pixels of each residue in turn: what they share is still in the cache
    const i64 step = s_.c == 1 ? units_ : 1, together = s_.c > 1 ? 2 : phases > 1 ? kNear : pixels;
    with_rows<kMostRows>(rows, [&](auto row_count) {
      for (i64 u = 0; u < units_; u += step) {
        for (i64 i = 0; i < pixels; i += together) {
          for (i64 f = 0; f < phases; ++f) pixels_at<row_count.value>(across_[f], i, together, out, u);
        }
      }
    });
  }

  /// What tiles that meet all taps across have: the form of their list, the lines that its longest columns lack.
  void find_form(const Across& across, i64 phases, i64 rows) {
    block_.form = kAnyForm;
    const TapColumn* const c = across.columns;
    if (phases > 1 || weights_only_ || across.pass.taps != 3 || across.each < 1 || across.each > 2) return;
    const i64 each = across.each, most = each == 1 ? 3 : 2;
    const unsigned all = (2u << (rows + most - 2)) - 1, first = ~c->lines & 1, last = ~c->lines & ((all + 1) >> 1);
    for (i64 t = 0; t < 3 * each; t += each) {
      if (c[t].taps != most || c[t].lines != (all & ~(first | last))) return;
      if (each == 2 && (c[t + 1].taps != 1 || c[t + 1].lines + 1 != 1u << rows)) return;
    }
    block_.form = each == 1 ? kThrees : kTwosAndOnes;
    block_.edges = first | (last ? 2 : 0);
  }

  /// `count` results from i on, together if all their taps are inside.
  template <int kRows>
  void pixels_at(const Across& across, i64 i, i64 count, S* out, i64 unit) {
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
      S* const to = out + (p.out_first + i * p.out_step) * to_[2] + unit * kN;
      if (s_.c == 1) {
        all_units<kRows>(x, to);
      } else if constexpr (__is_same(S, float)) {
        both ? one_unit<kRows, kMostPixels>(x, to, unit) : one_unit<kRows, 1>(x, to, unit);
      }
    }
  }

  template <int kRows>
  void all_units(const S* x, S* out) {
    const i64 whole = channels_ / kN;
    const bool across = block_.count == 3 * across_[0].each;
    if (!across || !formed_units<kRows>(x, out)) {
      rows_of<kRows, 1>(x, out, vectors_, whole, AllChannels<S>{});
    }
    if (whole == units_) return;
    const SomeChannels<S> some{static_cast<int>(channels_ - whole * kN)};
    single_rows<kRows>(x + whole * kN, out + whole * kN, vectors_ + whole * taps_, some);
  }
  /// Groups of several channels.
  template <int kRows, int kPixels>
  void one_unit(const S* x, S* out, i64 unit) {
    const i64 some = min_of<i64>(kN, channels_ - unit * kN);
    V* const vectors = vectors_ + unit * unit_;
    if (some < kN) {
      const WholeGroups<SomeChannels<float>> channels({static_cast<int>(some)}, s_.c);
      for (i64 p = 0; p < kPixels; ++p) {
        single_rows<kRows>(x + p * block_.x_pixel, out + p * block_.out_pixel, vectors, channels);
      }
    } else if (s_.c < kN) {
      rows_of<kRows, kPixels>(x, out, vectors, 1, groups_);
    } else {
      rows_of<kRows, kPixels>(x, out, vectors, 1, GroupPart(s_.c, unit * kN % s_.c));
    }
  }
  template <int kRows, int kPixels, class Channels>
  void rows_of(const S* x, S* out, V* vectors, i64 count, const Channels& channels) const {
    if (inside_) {
      units<kRows, kPixels, true>(0, x, out, vectors, count, channels);
    } else {
      units<kRows, kPixels, false>(0, x, out, vectors, count, channels);
    }
  }
  /// Vectors that are not full: testing the number of lanes costs less row by row.
  template <int kRows, class Channels>
  void single_rows(const S* x, S* out, V* vectors, const Channels& channels) const {
    for (i64 row = 0; row < kRows; ++row) units<1, 1, false>(row, x, out, vectors, 1, channels);
  }
  template <int kRows, int kPixels, bool kInside, class Channels>
  void units(i64 row, const S* x, S* out, V* vectors, i64 count, const Channels& channels) const {
    if (weights_only_) {
      weights_tile<S, kRows, kPixels, kInside>(block_, row, x, out, vectors, count, taps_, channels);
    } else {
      tile<S, kRows, kPixels, kInside, kAnyForm, 0>(block_, row, x, vectors, out, count, taps_, channels);
    }
  }
  /// all_units of a known form; false if there is no code for it.
  template <int kRows>
  bool formed_units(const S* x, S* out) {
    if constexpr (__is_same(S, float) && kRows >= 4) {
      const auto use = [&](auto form, auto edges) {
        tile<S, kRows, 1, true, Form(form.value), edges.value>(block_, 0, x, vectors_, out, channels_ / kN, taps_,
                                                               AllChannels<S>{});
        return true;
      };
      const auto with_edges = [&](auto form) {
        switch (block_.edges) {
          case 0: return use(form, std::integral_constant<unsigned, 0>{});
          case 1: return use(form, std::integral_constant<unsigned, 1>{});
          case 2: return use(form, std::integral_constant<unsigned, 2>{});
          default: return use(form, std::integral_constant<unsigned, 3>{});
        }
      };
      if (block_.form == kThrees) return with_edges(std::integral_constant<int, kThrees>{});
      if (block_.form == kTwosAndOnes) return with_edges(std::integral_constant<int, kTwosAndOnes>{});
    }
    return false;
  }

  void all_weights(i64 block) {
    take(block);
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
      for (i64 j = 0; j < s_.c; ++j, at += s_.w_c, sums += kN) {
        for (i64 l = 0; l < some; ++l) {
          S& element = dw[at + l * s_.w_k];
          const T sum = block_.alpha * sums[l];
          element = narrow<S>(block_.beta != 0 ? sum + block_.beta * widen(element) : sum);
        }
      }
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
  S* out_ = nullptr;  // dy for weights, which is not written
  Block<S> block_{};
  bool inside_ = false;  // no tap of the current rows is outside
};

/// Calls `use` with a value of the storage type.
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
  with_storage(job.shape.dtype, [&](auto value) {
    Pixels<decltype(value)> pixels(job, scratch);
    for (i64 i = first; i < end; ++i) pixels.piece(i);
  });
}

std::size_t depthwise_scratch(const Depthwise& job) {
  if (job.mixed()) return depthwise_copied_scratch(job);
  if (!job.channels_last) return depthwise_rows_scratch(job);
  return with_storage(job.shape.dtype, [&](auto value) { return Pixels<decltype(value)>::bytes(job); });
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
