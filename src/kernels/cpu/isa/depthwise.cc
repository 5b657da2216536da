// Depthwise convolution with channels last: vectors run over channels, x and y are used where they lie. A tile is a
// vector of channels of a few pixels one below another.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/isa/depthwise_rows.h"
#include "kernels/cpu/isa/entries.h"
#include "kernels/cpu/isa/stencil.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

/// The type that values of a storage type are computed in.
template <class S>
struct SumType {
  using type = float;
};
template <>
struct SumType<double> {
  using type = double;
};
template <class S>
using Sum = typename SumType<S>::type;

i64 ceil_div(i64 a, i64 b) { return (a + b - 1) / b; }

/// Reads and writes a vector's channels: all of them, or the first n.
template <class S>
struct AllChannels {
  using V = Vec<Sum<S>>;
  V operator()(const S* p) const {
    if constexpr (sizeof(S) == sizeof(double)) {
      return load(p);
    } else {
      return load_widened(p);
    }
  }
  void store(S* p, V v) const {
    if constexpr (sizeof(S) == sizeof(double)) {
      POLYMIO_ISA_NAMESPACE::store(p, v);
    } else {
      store_narrowed(p, v);
    }
  }
};

template <class S>
struct SomeChannels {
  using V = Vec<Sum<S>>;
  int n;
  V operator()(const S* p) const {
    if constexpr (sizeof(S) == sizeof(double)) {
      return load_lanes(p, 0, n);
    } else {
      return load_widened(p, n);
    }
  }
  void store(S* p, V v) const {
    if constexpr (sizeof(S) == sizeof(double)) {
      store_lanes(p, v, n);
    } else {
      store_narrowed(p, v, n);
    }
  }
};

/// What the tiles of a pixel have in common.
template <class S>
struct Block {
  const TapColumn* columns;
  i64 count;
  i64 pitch, out_pitch;  // between source lines, and result rows
  i64 w_step;
  Sum<S> alpha, beta;
  bool around;  // results go past the caches
};

/// Whether vectors are whole lines of the cache, of the type that sums have.
template <class S>
inline constexpr bool kWritesLines = kVectorBytes == 64 && sizeof(S) == sizeof(Sum<S>);

template <class S>
void write_around([[maybe_unused]] S* p, [[maybe_unused]] Vec<Sum<S>> v) {
#if defined(__AVX512F__)
  if constexpr (kWritesLines<S>) _mm512_stream_si512(reinterpret_cast<__m512i*>(p), (__m512i)v);
#endif
}

/// Results `row` to row + kRows - 1 of those that the columns are listed for, of `units` vectors of channels.
template <class S, int kRows, bool kInside, class Channels>
[[gnu::noinline]] void tile(const Block<S>& b, i64 row, const S* x, const Vec<Sum<S>>* w, S* out, i64 units, i64 w_unit,
                            const Channels channels) {
  using V = Vec<Sum<S>>;
  const bool plain = b.alpha == 1 && b.beta == 0, around = kWritesLines<S> && b.around;
  const i64 pitch = b.pitch, out_pitch = b.out_pitch, w_step = b.w_step;
  const TapColumn* const end = b.columns + b.count;
  x += row * pitch;
  out += row * out_pitch;
  for (i64 u = 0; u < units; ++u, x += kLanes<Sum<S>>, out += kLanes<Sum<S>>, w += w_unit) {
    V sum[kRows] = {};
    for (const TapColumn* c = b.columns; c < end; ++c) {
      const V* weights = w + c->weight;
      with_taps(c->taps, [&](auto n) __attribute__((always_inline)) {
        add_taps<n.value, kRows, kInside>(
            x + c->source, pitch, c->lines >> row, channels, [&](int t) { return weights[t * w_step]; }, sum);
      });
    }
    S* to = out;
#pragma GCC unroll 16
    for (int j = 0; j < kRows; ++j, to += out_pitch) {
      if (!plain) {
        sum[j] *= broadcast(b.alpha);
        if (b.beta != 0) sum[j] += broadcast(b.beta) * channels(to);
      }
      if (__is_same(Channels, AllChannels<S>) && around) {
        write_around(to, sum[j]);
      } else {
        channels.store(to, sum[j]);
      }
    }
  }
}

/// The same rows of dy, added to the sums of the taps.
template <class S, int kRows, bool kInside, class Channels>
[[gnu::noinline]] void weights_tile(const Block<S>& b, i64 row, const S* x, const S* dy, Vec<Sum<S>>* sums, i64 units,
                                    i64 sums_unit, const Channels channels) {
  using V = Vec<Sum<S>>;
  const i64 pitch = b.pitch, dy_pitch = b.out_pitch, w_step = b.w_step;
  const TapColumn* const end = b.columns + b.count;
  x += row * pitch;
  dy += row * dy_pitch;
  for (i64 u = 0; u < units; ++u, x += kLanes<Sum<S>>, dy += kLanes<Sum<S>>, sums += sums_unit) {
    V rows[kRows];
#pragma GCC unroll 16
    for (int j = 0; j < kRows; ++j) rows[j] = channels(dy + j * dy_pitch);
    for (const TapColumn* c = b.columns; c < end; ++c) {
      V* const to = sums + c->weight;
      with_taps(c->taps, [&](auto n) __attribute__((always_inline)) {
        V sum[n.value];
#pragma GCC unroll 16
        for (int t = 0; t < n.value; ++t) sum[t] = to[t * w_step];
        add_rows<n.value, kRows, kInside>(x + c->source, pitch, c->lines >> row, channels, rows, sum);
#pragma GCC unroll 16
        for (int t = 0; t < n.value; ++t) to[t * w_step] = sum[t];
      });
    }
  }
}

template <class S>
class Pixels {
  using T = Sum<S>;
  using V = Vec<T>;
  static constexpr int kN = kLanes<T>;
  /// One residue of the columns: its taps, `each` columns of them for each tap across.
  struct Across {
    Pass pass;
    const TapColumn* columns;
    i64 each;
  };

 public:
  Pixels(const Depthwise& job, void* scratch)
      : job_(job), s_(job.shape), data_(job.direction == ConvDirection::kBackwardData),
        weights_only_(job.direction == ConvDirection::kBackwardWeights) {
    taps_ = s_.taps[0] * s_.taps[1] * s_.taps[2];
    from_ = data_ ? s_.y_d : s_.x_d;
    to_ = data_ ? s_.x_d : s_.y_d;
    for (int d = 0; d < kSpatial; ++d) source_.size[d] = data_ ? s_.out[d] : s_.in[d];
    source_.step[0] = from_[0];
    source_.step[1] = from_[1];
    most_units_ = kChannelBlock / kN;
    vectors_ = static_cast<V*>(scratch);
    columns_ = reinterpret_cast<TapColumn*>(vectors_ + most_units_ * taps_);
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
    return static_cast<std::size_t>(kChannelBlock / kN * taps) * sizeof(V) +
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
           s_.n * s_.groups * (source + result) * static_cast<i64>(sizeof(S)) > kCaches;
  }

  /// Makes a block of channels the current one.
  void take(i64 block) {
    if (block == taken_) return;
    taken_ = block;
    channel_ = block * kChannelBlock;
    channels_ = min_of(kChannelBlock, s_.groups - channel_);
    units_ = ceil_div(channels_, kN);
    if (!weights_only_) pack();
  }

  /// Weights as vectors of channels, for each unit and tap.
  void pack() {
    const S* w = static_cast<const S*>(job_.w) + channel_ * s_.w_k;
    for (i64 u = 0; u < units_; ++u, w += kN * s_.w_k) {
      const i64 some = min_of<i64>(kN, channels_ - u * kN);
      if (taps_packed()) {
        for (i64 t = 0; t < taps_; t += kN) turn_in(w + t, some, min_of<i64>(kN, taps_ - t), vectors_ + u * taps_ + t);
        continue;
      }
      T* to = reinterpret_cast<T*>(vectors_ + u * taps_);
      each_tap([&](i64 at) {
        for (i64 l = 0; l < kN; ++l) to[l] = l < some ? widen(w[at + l * s_.w_k]) : T{};
        to += kN;
      });
    }
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
      for (i64 c = 0; c < count; ++c) inside_ &= columns[c].lines + 1 == 2u << (rows + columns[c].taps - 2);
      columns += count;
      pixels = max_of(pixels, pass[2].count);
    }
    block_.pitch = comb.line * from_[1];
    block_.w_step = comb.tap_step * down.w_step * s_.taps[2];
    block_.out_pitch = comb.step * down.out_step * to_[1];
    S* const out = out_ + (slabs.out_first + slab * slabs.out_step) * to_[0] +
                   (down.out_first + (comb.first + m * comb.step) * down.out_step) * to_[1];
    with_rows<kMostRows>(rows, [&](auto row_count) {
      for (i64 i = 0; i < pixels; ++i) {
        for (i64 f = 0; f < phases; ++f) pixel<row_count.value>(across_[f], i, out);
      }
    });
  }

  template <int kRows>
  void pixel(const Across& across, i64 i, S* out) {
    const Pass& p = across.pass;
    if (i >= p.count) return;
    const i64 at = p.first + i * p.stride;
    Range taps{0, p.taps};
    if (at < 0 || at + (p.taps - 1) * p.dilation >= source_.size[2]) {
      taps = inside(at, p.dilation, source_.size[2], p.taps);
    }
    block_.columns = across.columns + taps.low * across.each;
    block_.count = max_of<i64>(taps.high - taps.low, 0) * across.each;
    all_units<kRows>(x_ + at * from_[2], out + (p.out_first + i * p.out_step) * to_[2]);
  }

  template <int kRows>
  void all_units(const S* x, S* out) {
    const i64 whole = channels_ / kN;
    if (inside_) {
      units<kRows, true>(0, x, out, vectors_, whole, AllChannels<S>{});
    } else {
      units<kRows, false>(0, x, out, vectors_, whole, AllChannels<S>{});
    }
    if (whole == units_) return;
    const SomeChannels<S> some{static_cast<int>(channels_ - whole * kN)};
    for (i64 row = 0; row < kRows; ++row) {
      units<1, false>(row, x + whole * kN, out + whole * kN, vectors_ + whole * taps_, 1, some);
    }
  }
  template <int kRows, bool kInside, class Channels>
  void units(i64 row, const S* x, S* out, V* vectors, i64 count, const Channels& channels) const {
    if (weights_only_) {
      weights_tile<S, kRows, kInside>(block_, row, x, out, vectors, count, taps_, channels);
    } else {
      tile<S, kRows, kInside>(block_, row, x, vectors, out, count, taps_, channels);
    }
  }

  void all_weights(i64 block) {
    take(block);
    for (i64 i = 0; i < units_ * taps_; ++i) vectors_[i] = V{};
    for (i64 n = 0; n < s_.n; ++n) {
      x_ = static_cast<const S*>(job_.x) + n * s_.x_n + channel_;
      out_ = const_cast<S*>(static_cast<const S*>(job_.y)) + n * s_.y_n + channel_;
      for (i64 slab = 0; slab < s_.out[0]; ++slab) phase(0, 0, slab, 0, 1);
    }
    S* dw = static_cast<S*>(job_.result) + channel_ * s_.w_k;
    for (i64 u = 0; u < units_; ++u, dw += kN * s_.w_k) {
      const i64 some = min_of<i64>(kN, channels_ - u * kN);
      if (taps_packed()) {
        for (i64 t = 0; t < taps_; t += kN) turn_out(vectors_ + u * taps_ + t, some, min_of<i64>(kN, taps_ - t), dw + t);
        continue;
      }
      const T* sums = reinterpret_cast<const T*>(vectors_ + u * taps_);
      each_tap([&](i64 at) {
        for (i64 l = 0; l < some; ++l) {
          S& element = dw[at + l * s_.w_k];
          const T sum = block_.alpha * sums[l];
          element = narrow<S>(block_.beta != 0 ? sum + block_.beta * widen(element) : sum);
        }
        sums += kN;
      });
    }
  }

  const Depthwise& job_;
  const ConvShape& s_;
  const bool data_, weights_only_;
  i64 taps_, most_units_, units_ = 0, channel_ = 0, channels_ = 0, taken_ = -1;
  const i64 *from_, *to_;
  StencilSource source_{};
  V* vectors_;  // weights, or their sums
  TapColumn* columns_;
  Across* across_;
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
