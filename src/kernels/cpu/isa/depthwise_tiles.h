// Tiles with channels last: a vector of channels of a few pixels one below another, for a list of columns of taps.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/depthwise_channels.h"
#include "kernels/cpu/isa/stencil.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// Lists of columns that tiles are compiled for: none, three columns of three taps, three times one of two taps and one
/// of one (3x3 with stride 2).
enum Form { kAnyForm, kThrees, kTwosAndOnes };

/// What the tiles of a pixel have in common.
template <class S>
struct Block {
  const TapColumn* columns;
  i64 count;
  i64 pitch, out_pitch;    // between source lines, and result rows
  i64 x_pixel, out_pixel;  // between neighbours
  i64 run;                 // neighbours in turn
  Form form;               // of a pixel whose taps across are all inside
  unsigned edges;          // then: whether the columns of most taps lack their first line (1), their last (2)
  i64 w_step;
  Sum<S> alpha, beta;
  bool around;             // results go past the caches
};

/// Whether vectors are whole lines of the cache, of the type that sums have.
template <class S>
inline constexpr bool kWritesLines = kVectorBytes == 64 && sizeof(S) == sizeof(Sum<S>);

template <class S>
static inline void write_around([[maybe_unused]] S* p, [[maybe_unused]] Vec<Sum<S>> v) {
#if defined(__AVX512F__)
  if constexpr (kWritesLines<S>) _mm512_stream_si512(reinterpret_cast<__m512i*>(p), (__m512i)v);
#endif
}

/// All taps of columns of a known form.
template <int kRows, Form kForm, unsigned kEdges, class S, class V, class Channels>
[[gnu::always_inline]] inline void add_form(const Block<S>& b, const S* x, const V* w, const Channels& channels,
                                            V (*sum)[kRows]) {
  constexpr int kEach = kForm == kThrees ? 1 : 2, kTaps = kForm == kThrees ? 3 : 2;
  constexpr unsigned kLines = (kEdges & 1 ? ~1u : ~0u) & (((kEdges & 2 ? 1u : 2u) << (kRows + kTaps - 2)) - 1);
#pragma GCC unroll 3
  for (int across = 0; across < 3; ++across) {
    const TapColumn* const c = b.columns + across * kEach;
    const auto weight = [&](int, int t) { return w[c->weight + t * b.w_step]; };
    add_taps<kTaps, kRows, false, 1>(x + c->source, b.pitch, kLines, channels, weight, sum);
    if constexpr (kForm == kTwosAndOnes) {
      const auto single = [&](int, int) { return w[c[1].weight]; };
      add_taps<1, kRows, true, 1>(x + c[1].source, b.pitch, 0, channels, single, sum);
    }
  }
}

/// Results `row` to row + kRows - 1 of those that the columns are listed for, of `units` vectors of channels of
/// kPixels neighbours at a time.
template <class S, int kRows, int kPixels, bool kInside, Form kForm, unsigned kEdges, class Channels>
[[gnu::noinline]] static void tile(const Block<S>& b, i64 row, const S* x, const Vec<Sum<S>>* w, S* out, i64 units, i64 w_unit,
                            const Channels& channels) {
  using V = Vec<Sum<S>>;
  const bool plain = b.alpha == 1 && b.beta == 0, around = Channels::kAll && kWritesLines<S> && b.around;
  const i64 pitch = b.pitch, out_pitch = b.out_pitch, sources = channels.sources, w_step = b.w_step * sources;
  const TapColumn* const end = b.columns + b.count;
  const S* first_x = x + row * pitch;
  S* first_out = out + row * out_pitch;
  const V* const first_w = w;
  for (i64 i = 0; i < b.run; ++i, first_x += b.x_pixel, first_out += b.out_pixel) {
    x = first_x, out = first_out, w = first_w;
    for (i64 u = 0; u < units; ++u, x += kLanes<Sum<S>>, out += kLanes<Sum<S>>, w += w_unit) {
      V sum[kPixels][kRows] = {};
      if constexpr (kForm != kAnyForm) add_form<kRows, kForm, kEdges>(b, x, w, channels, sum);
      for (const TapColumn* c = b.columns; kForm == kAnyForm && c < end; ++c) {
        const V* weights = w + c->weight * sources;
        with_taps(c->taps, [&](auto n) __attribute__((always_inline)) {
          for (i64 j = 0; j < sources; ++j, ++weights) {
            const auto weight = [&](int, int t) { return weights[t * w_step]; };
#pragma GCC unroll 2
            for (int p = 0; p < kPixels; ++p) {
              add_taps<n.value, kRows, kInside, 1>(x + c->source + p * b.x_pixel, pitch, c->lines >> row,
                                                   channels.source(j), weight, sum + p);
            }
          }
        });
      }
#pragma GCC unroll 2
      for (int p = 0; p < kPixels; ++p) {
        S* to = out + p * b.out_pixel;
#pragma GCC unroll 16
        for (int j = 0; j < kRows; ++j, to += out_pitch) {
          V& v = sum[p][j];
          if (!plain) {
            v *= broadcast(b.alpha);
            if (b.beta != 0) v += broadcast(b.beta) * channels(to);
          }
          if (Channels::kAll && around) {
            write_around(to, v);
          } else {
            channels.store(to, v);
          }
        }
      }
    }
  }
}

/// The same rows of dy, added to the sums of the taps.
template <class S, int kRows, int kPixels, bool kInside, class Channels>
[[gnu::noinline]] static void weights_tile(const Block<S>& b, i64 row, const S* x, const S* dy, Vec<Sum<S>>* sums, i64 units,
                                    i64 sums_unit, const Channels& channels) {
  using V = Vec<Sum<S>>;
  const i64 pitch = b.pitch, dy_pitch = b.out_pitch, sources = channels.sources, w_step = b.w_step * sources;
  const TapColumn* const end = b.columns + b.count;
  const S *first_x = x + row * pitch, *first_dy = dy + row * dy_pitch;
  V* const first_sums = sums;
  for (i64 i = 0; i < b.run; ++i, first_x += b.x_pixel, first_dy += b.out_pixel) {
    x = first_x, dy = first_dy, sums = first_sums;
    for (i64 u = 0; u < units; ++u, x += kLanes<Sum<S>>, dy += kLanes<Sum<S>>, sums += sums_unit) {
      V rows[kPixels][kRows];
#pragma GCC unroll 16
      for (int j = 0; j < kPixels * kRows; ++j) {
        rows[j / kRows][j % kRows] = channels(dy + j / kRows * b.out_pixel + j % kRows * dy_pitch);
      }
      for (const TapColumn* c = b.columns; c < end; ++c) {
        V* to = sums + c->weight * sources;
        with_taps(c->taps, [&](auto n) __attribute__((always_inline)) {
          for (i64 j = 0; j < sources; ++j, ++to) {
            V sum[n.value];
#pragma GCC unroll 16
            for (int t = 0; t < n.value; ++t) sum[t] = to[t * w_step];
#pragma GCC unroll 2
            for (int p = 0; p < kPixels; ++p) {
              add_rows<n.value, kRows, kInside>(x + c->source + p * b.x_pixel, pitch, c->lines >> row,
                                                channels.source(j), rows[p], sum);
            }
#pragma GCC unroll 16
            for (int t = 0; t < n.value; ++t) to[t * w_step] = sum[t];
          }
        });
      }
    }
  }
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
