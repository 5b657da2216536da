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

/// Reads and writes the first n of a vector's channels.
template <class S>
class Channels {
  using V = Vec<Sum<S>>;

 public:
  explicit Channels(int n) : n_(n) {}
  V operator()(const S* p) const {
    if constexpr (sizeof(S) == sizeof(double)) {
      return n_ == kLanes<double> ? load(p) : load_lanes(p, 0, n_);
    } else {
      return n_ == kLanes<float> ? load_widened(p) : load_widened(p, n_);
    }
  }
  void store(S* p, V v) const {
    if constexpr (sizeof(S) == sizeof(double)) {
      n_ == kLanes<double> ? POLYMIO_ISA_NAMESPACE::store(p, v) : store_lanes(p, v, n_);
    } else {
      n_ == kLanes<float> ? store_narrowed(p, v) : store_narrowed(p, v, n_);
    }
  }

 private:
  int n_;
};

/// What the tiles of a pixel have in common.
template <class S>
struct Block {
  const TapColumn* columns;
  i64 count;
  i64 pitch, out_pitch;  // between source lines, and result rows
  i64 w_step;
  Sum<S> alpha, beta;
};

template <class S, int kRows>
void tile(const Block<S>& b, const S* x, const Vec<Sum<S>>* w, S* out, const Channels<S>& channels) {
  Vec<Sum<S>> sum[kRows] = {};
  for (const TapColumn* c = b.columns; c < b.columns + b.count; ++c) {
    const Vec<Sum<S>>* weights = w + c->weight;
    with_taps(c->taps, [&](auto n) __attribute__((always_inline)) {
      add_taps<n.value, kRows>(
          x + c->source, b.pitch, c->lines, channels, [&](int t) { return weights[t * b.w_step]; }, sum);
    });
  }
  const bool plain = b.alpha == 1 && b.beta == 0;
#pragma GCC unroll 16
  for (int j = 0; j < kRows; ++j, out += b.out_pitch) {
    if (!plain) {
      sum[j] *= broadcast(b.alpha);
      if (b.beta != 0) sum[j] += broadcast(b.beta) * channels(out);
    }
    channels.store(out, sum[j]);
  }
}

template <class S, int kRows>
void weights_tile(const Block<S>& b, const S* x, const S* dy, Vec<Sum<S>>* sums, const Channels<S>& channels) {
  using V = Vec<Sum<S>>;
  V rows[kRows];
#pragma GCC unroll 16
  for (int j = 0; j < kRows; ++j) rows[j] = channels(dy + j * b.out_pitch);
  for (const TapColumn* c = b.columns; c < b.columns + b.count; ++c) {
    V* const to = sums + c->weight;
    with_taps(c->taps, [&](auto n) __attribute__((always_inline)) {
      V sum[n.value];
#pragma GCC unroll 16
      for (int t = 0; t < n.value; ++t) sum[t] = to[t * b.w_step];
      add_rows<n.value, kRows>(x + c->source, b.pitch, c->lines, channels, rows, sum);
#pragma GCC unroll 16
      for (int t = 0; t < n.value; ++t) to[t * b.w_step] = sum[t];
    });
  }
}

template <class S>
class Pixels {
  using T = Sum<S>;
  using V = Vec<T>;
  static constexpr int kN = kLanes<T>;

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
    offsets_ = reinterpret_cast<i64*>(columns_ + taps_);
    source_.column = offsets_;
    block_.alpha = static_cast<T>(job.alpha);
    block_.beta = static_cast<T>(job.beta);
  }

  static std::size_t bytes(const Depthwise& job) {
    const i64 taps = job.shape.taps[0] * job.shape.taps[1] * job.shape.taps[2];
    return static_cast<std::size_t>(kChannelBlock / kN * taps) * sizeof(V) +
           static_cast<std::size_t>(taps) * sizeof(TapColumn) + static_cast<std::size_t>(job.shape.taps[2]) * 8;
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
    for (i64 f1 = 0; f1 < pass_count(s_, job_.direction, 1); ++f1) {
      for (i64 f2 = 0; f2 < pass_count(s_, job_.direction, 2); ++f2) phase(f0, f1, f2, slab / phases, part, row_blocks);
    }
  }

 private:
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
    T* to = reinterpret_cast<T*>(vectors_);
    const S* w = static_cast<const S*>(job_.w) + channel_ * s_.w_k;
    for (i64 u = 0; u < units_; ++u, w += kN * s_.w_k) {
      const i64 some = min_of<i64>(kN, channels_ - u * kN);
      each_tap([&](i64 at) {
        for (i64 l = 0; l < kN; ++l) to[l] = l < some ? widen(w[at + l * s_.w_k]) : T{};
        to += kN;
      });
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

  void phase(i64 f0, i64 f1, i64 f2, i64 slab, i64 part, i64 parts) {
    const Pass pass[kSpatial] = {pass_of(s_, job_.direction, 0, f0), pass_of(s_, job_.direction, 1, f1),
                                 pass_of(s_, job_.direction, 2, f2)};
    for (i64 t = 0; t < pass[2].taps; ++t) offsets_[t] = t * pass[2].dilation * from_[2];
    for (i64 a = 0; a < comb_count(pass[1]); ++a) {
      const Comb comb = comb_of(pass[1], a);
      i64 m = comb.count * part / parts, rows = 0;
      for (const i64 end = comb.count * (part + 1) / parts; m < end; m += rows) {
        rows = tile_rows(end - m, kMostRows);
        row_block(pass, comb, slab, m, rows);
      }
    }
  }

  void row_block(const Pass (&pass)[kSpatial], const Comb& comb, i64 slab, i64 m, i64 rows) {
    const i64 count = list_columns(pass, comb, slab, m, rows, source_, s_.taps, columns_);
    const i64 each = pass[2].taps > 0 ? count / pass[2].taps : 0;
    const Pass& p = pass[2];
    block_.pitch = comb.line * from_[1];
    block_.w_step = comb.tap_step * pass[1].w_step * s_.taps[2];
    block_.out_pitch = comb.step * pass[1].out_step * to_[1];
    S* const out = out_ + (pass[0].out_first + slab * pass[0].out_step) * to_[0] +
                   (pass[1].out_first + (comb.first + m * comb.step) * pass[1].out_step) * to_[1];
    with_rows<kMostRows>(rows, [&](auto row_count) {
      for (i64 i = 0; i < p.count; ++i) {
        const i64 at = p.first + i * p.stride;
        Range taps{0, p.taps};
        if (at < 0 || at + (p.taps - 1) * p.dilation >= source_.size[2]) {
          taps = inside(at, p.dilation, source_.size[2], p.taps);
        }
        block_.columns = columns_ + taps.low * each;
        block_.count = max_of<i64>(taps.high - taps.low, 0) * each;
        all_units<row_count.value>(x_ + at * from_[2], out + (p.out_first + i * p.out_step) * to_[2]);
      }
    });
  }

  template <int kRows>
  void all_units(const S* x, S* out) {
    const Block<S> block = block_;
    const i64 whole = channels_ / kN;
    V* vectors = vectors_;
    const auto run = [&](const Channels<S>& some) __attribute__((always_inline)) {
      if (weights_only_) {
        weights_tile<S, kRows>(block, x, out, vectors, some);
      } else {
        tile<S, kRows>(block, x, vectors, out, some);
      }
    };
    for (i64 u = 0; u < whole; ++u, x += kN, out += kN, vectors += taps_) run(Channels<S>(kN));
    if (whole < units_) run(Channels<S>(static_cast<int>(channels_ - whole * kN)));
  }

  void all_weights(i64 block) {
    take(block);
    for (i64 i = 0; i < units_ * taps_; ++i) vectors_[i] = V{};
    for (i64 n = 0; n < s_.n; ++n) {
      x_ = static_cast<const S*>(job_.x) + n * s_.x_n + channel_;
      out_ = const_cast<S*>(static_cast<const S*>(job_.y)) + n * s_.y_n + channel_;
      for (i64 slab = 0; slab < s_.out[0]; ++slab) phase(0, 0, 0, slab, 0, 1);
    }
    const T* sums = reinterpret_cast<const T*>(vectors_);
    S* dw = static_cast<S*>(job_.result) + channel_ * s_.w_k;
    for (i64 u = 0; u < units_; ++u, dw += kN * s_.w_k) {
      const i64 some = min_of<i64>(kN, channels_ - u * kN);
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
  i64* offsets_;
  const S* x_ = nullptr;
  S* out_ = nullptr;  // dy for weights, which is not written
  Block<S> block_{};
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
  if (!job.channels_last) return depthwise_rows(job, first, end, scratch);
  with_storage(job.shape.dtype, [&](auto value) {
    Pixels<decltype(value)> pixels(job, scratch);
    for (i64 i = first; i < end; ++i) pixels.piece(i);
  });
}

std::size_t depthwise_scratch(const Depthwise& job) {
  if (!job.channels_last) return depthwise_rows_scratch(job);
  return with_storage(job.shape.dtype, [&](auto value) { return Pixels<decltype(value)>::bytes(job); });
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
