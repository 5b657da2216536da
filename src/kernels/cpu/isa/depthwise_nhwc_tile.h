// NHWC register tiles: a vector of channels of a few vertically adjacent pixels, for a list of columns of taps.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/depthwise_epilogue.h"
#include "kernels/cpu/isa/depthwise_nhwc_vectors.h"
#include "kernels/cpu/isa/stencil_tile.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// Columns that a list has per tap of dimension 2, if tiles are compiled for them: one column of one, two or three
/// taps, or one of two taps and one of one tap (3x3 with stride 2). kFromMemory: any list, and the tiles prefetch for
/// later ones.
enum Form { kAnyForm, kOnes, kTwos, kThrees, kTwosAndOnes, kFromMemory };
constexpr int columns_of(Form form) { return form == kTwosAndOnes ? 2 : 1; }
constexpr int most_taps(Form form) { return form == kTwosAndOnes ? 2 : form; }

/// The form of a list with `columns_per_tap` columns per tap of dimension 2.
static inline Form form_of(const TapColumn* columns, i64 count, i64 columns_per_tap, i64 rows) {
  const Form form = columns_per_tap == 2              ? kTwosAndOnes
                    : count > 0 && columns->taps <= 3 ? Form(columns->taps)
                                                      : kAnyForm;
  if (form == kAnyForm || columns_per_tap != columns_of(form)) return kAnyForm;
  for (const TapColumn* const end = columns + count; columns < end; columns += columns_per_tap) {
    const unsigned all = (2u << (rows + most_taps(form) - 2)) - 1, ends = 1 | (all + 1) >> 1;
    if (columns->taps != most_taps(form) || (columns->lines | ends) != all) return kAnyForm;
    if (columns_per_tap == 2 && (columns[1].taps != 1 || columns[1].lines + 1 != 1u << rows)) return kAnyForm;
  }
  return form;
}

/// How tiles make results of sums: by the epilogue, or as alpha * sum + beta * result.
template <class T>
struct NhwcFinish {
  T alpha, beta;
  const Vec<T>* terms;  // scale and bias per vector of channels, alpha in the scale; null: no epilogue
  ActivationRange<T> range;
};

/// Common arguments of the tiles of a block of rows; distances in elements.
template <class S>
struct Block : NhwcFinish<Sum<S>> {
  const TapColumn* columns;
  i64 count;
  i64 pitch, out_pitch;              // between source lines, between result rows
  i64 x_pixel, out_pixel;            // between pixels of a row: source, result
  i64 run;                           // pixels per call of a tile
  i64 w_step;                        // vectors of weights between the taps of a column
  bool non_temporal;                 // non-temporal stores of results
  const TapColumn *next, *next_end;  // columns of the taps that read a pixel first, for prefetch
  i64 x_prefetch, out_prefetch;      // distance to the prefetched pixel: source, result
};

/// Whether a cache line starts at a channel, if channel 0 is aligned.
template <class S>
constexpr bool starts_cache_line(i64 channel) {
  return channel * static_cast<i64>(sizeof(S)) % 64 == 0;
}

/// Prefetches the lines that the pixel at distance x_prefetch is the first to read.
template <int kRows, class S>
[[gnu::always_inline]] inline void prefetch_columns(const Block<S>& b, const S* x) {
  for (const TapColumn* c = b.next; c < b.next_end; ++c) {
    const S* line = x + c->source + b.x_prefetch;
    for (i64 i = 0; i < kRows + c->taps - 1; ++i, line += b.pitch) __builtin_prefetch(line);
  }
}

/// Whether stored vectors are whole cache lines: results have the type of the sums.
template <class S>
inline constexpr bool kWritesLines = kVectorBytes == 64 && sizeof(S) == sizeof(Sum<S>);

template <class S>
static inline void store_non_temporal([[maybe_unused]] S* p, [[maybe_unused]] Vec<Sum<S>> v) {
  if constexpr (kWritesLines<S>) stream(p, v);
}

/// Calls use(taps, lines, column) for each column, with the number of its taps and the mask of the lines that may be
/// outside the source as constants. In a known form these are the first and the last line of the longest columns.
template <Form kForm, int kRows, bool kInside, class S, class Use>
[[gnu::always_inline]] inline void each_column(const Block<S>& b, const Use& use) {
  const TapColumn* const end = b.columns + b.count;
  if constexpr (kForm == kAnyForm || kForm == kFromMemory) {
    constexpr std::integral_constant<unsigned, kInside ? 0 : kAllLines> kMaybe;
    for (const TapColumn* c = b.columns; c < end; ++c) {
      with_taps(
          c->taps, [&](auto n) __attribute__((always_inline)) { use(n, kMaybe, *c); });
    }
  } else {
    constexpr int kTaps = most_taps(kForm), kEach = columns_of(kForm);
    constexpr std::integral_constant<unsigned, kInside ? 0 : 1u | 1u << (kRows + kTaps - 2)> kEnds;
    for (const TapColumn* c = b.columns; c < end; c += kEach) {
      use(std::integral_constant<int, kTaps>{}, kEnds, c[0]);
      if constexpr (kEach == 2) use(std::integral_constant<int, 1>{}, std::integral_constant<unsigned, 0>{}, c[1]);
    }
  }
}

/// Writes alpha * sums + beta * result for the first n channels.
[[gnu::noinline, maybe_unused]] static void write_scaled_integers(IntegerPointer to, Floats v, int n, Scaling s) {
  to.with_type([&](auto* p) { write_scaled(p, v, n, s); });
}

/// Writes the first n channels of vertically adjacent results.
template <int kRows>
[[gnu::always_inline]] inline void write_integers(IntegerPointer to, i64 pitch, const Floats (&sum)[kRows], int n,
                                                  Scaling s) {
  if (s.alpha != 1 || s.beta != 0) {
#pragma GCC unroll 16
    for (int j = 0; j < kRows; ++j, to += pitch) write_scaled_integers(to, sum[j], n, s);
    return;
  }
  to.with_type([&](auto* p) __attribute__((always_inline)) {
#pragma GCC unroll 16
    for (int j = 0; j < kRows; ++j, p += pitch) write_scaled(p, sum[j], n, {1, 0});
  });
}

/// Applies the epilogue, if there is one, to sums whose channels are in two vectors. Returns whether it did.
template <class S, int kRows, class V>
[[gnu::always_inline]] inline bool finish_unit(const Block<S>& b, i64 unit, V (&low)[kRows], V (&high)[kRows]) {
  if constexpr (__is_same(V, Vec<float>)) {
    if (__builtin_expect(b.terms == nullptr, 1)) return false;
    const V* const terms = b.terms + 4 * unit;
    finish_rows(low, terms[0], terms[1], b.range);
    finish_rows(high, terms[2], terms[3], b.range);
    return true;
  }
  return false;
}

/// Computes rows [row, row + kRows) of the block that the columns are listed for: `units` vectors of channels of b.run
/// times kPixels horizontally adjacent pixels.
template <class S, int kRows, int kPixels, bool kInside, Form kForm, class Out, class Channels>
[[gnu::noinline]] static void tile(const Block<S>& b, i64 row, const S* x, const Vec<Sum<S>>* w, Out out, i64 units,
                                   i64 w_unit, const Channels& channels) {
  using V = Vec<Sum<S>>;
  const bool finishes = b.terms != nullptr, plain = finishes || (b.alpha == 1 && b.beta == 0);
  const bool non_temporal = Channels::kAll && kWritesLines<S> && b.non_temporal;
  const i64 pitch = b.pitch, out_pitch = b.out_pitch, sources = channels.sources, w_step = b.w_step * sources;
  const S* first_x = x + row * pitch;
  Out first_out = out + row * out_pitch;
  const V* const first_w = w;
  for (i64 i = 0; i < b.run; ++i, first_x += b.x_pixel, first_out += b.out_pixel) {
    x = first_x;
    out = first_out;
    w = first_w;
    for (i64 u = 0; u < units; ++u, x += kLanes<Sum<S>>, out += kLanes<Sum<S>>, w += w_unit) {
      V sum[kPixels][kRows] = {};
      if (kForm == kFromMemory && starts_cache_line<S>(u * kLanes<Sum<S>>)) prefetch_columns<kRows>(b, x);
      each_column<kForm, kRows, kInside>(
          b, [&](auto n, auto maybe, const TapColumn& c) __attribute__((always_inline)) {
            const V* weights = w + c.weight * sources;
            for (i64 j = 0; j < sources; ++j, ++weights) {
              const auto weight = [&](int, int t) { return weights[t * w_step]; };
#pragma GCC unroll 2
              for (int p = 0; p < kPixels; ++p) {
                add_taps<n.value, kRows, maybe.value, 1>(x + c.source + p * b.x_pixel, pitch, c.lines >> row,
                                                         channels.source(j), weight, sum + p);
              }
            }
          });
#pragma GCC unroll 2
      for (int p = 0; p < kPixels; ++p) {
        Out to = out + p * b.out_pixel;
        if constexpr (__is_same(Out, IntegerPointer)) {
          write_integers<kRows>(to, out_pitch, sum[p], channels.count(), {b.alpha, b.beta});
        } else {
          if (__builtin_expect(finishes, 0)) finish_rows(sum[p], b.terms[2 * u], b.terms[2 * u + 1], b.range);
#pragma GCC unroll 16
          for (int j = 0; j < kRows; ++j, to += out_pitch) {
            V& v = sum[p][j];
            if (!plain) {
              v *= broadcast(b.alpha);
              if (b.beta != 0) v += broadcast(b.beta) * channels(to);
            }
            if (Channels::kAll && non_temporal) {
              store_non_temporal(to, v);
            } else {
              channels.store(to, v);
            }
          }
        }
      }
    }
  }
}

/// Backward weights: adds the products of these rows of dy with x to the sums of the taps.
template <class S, int kRows, int kPixels, bool kInside, Form kForm, class Channels>
[[gnu::noinline]] static void weights_tile(const Block<S>& b, i64 row, const S* x, const S* dy, Vec<Sum<S>>* sums,
                                           i64 units, i64 sums_unit, const Channels& channels) {
  using V = Vec<Sum<S>>;
  const i64 pitch = b.pitch, dy_pitch = b.out_pitch, sources = channels.sources, w_step = b.w_step * sources;
  const S *first_x = x + row * pitch, *first_dy = dy + row * dy_pitch;
  V* const first_sums = sums;
  for (i64 i = 0; i < b.run; ++i, first_x += b.x_pixel, first_dy += b.out_pixel) {
    x = first_x;
    dy = first_dy;
    sums = first_sums;
    for (i64 u = 0; u < units; ++u, x += kLanes<Sum<S>>, dy += kLanes<Sum<S>>, sums += sums_unit) {
      V rows[kPixels][kRows];
      if (kForm == kFromMemory && starts_cache_line<S>(u * kLanes<Sum<S>>)) {
        prefetch_columns<kRows>(b, x);
        for (i64 j = 0; j < kRows; ++j) __builtin_prefetch(dy + j * dy_pitch + b.out_prefetch);
      }
#pragma GCC unroll 16
      for (int j = 0; j < kPixels * kRows; ++j) {
        rows[j / kRows][j % kRows] = channels(dy + j / kRows * b.out_pixel + j % kRows * dy_pitch);
      }
      each_column<kForm, kRows, kInside>(
          b, [&](auto n, auto maybe, const TapColumn& c) __attribute__((always_inline)) {
            V* to = sums + c.weight * sources;
            for (i64 j = 0; j < sources; ++j, ++to) {
              V sum[n.value];
#pragma GCC unroll 16
              for (int t = 0; t < n.value; ++t) sum[t] = to[t * w_step];
#pragma GCC unroll 2
              for (int p = 0; p < kPixels; ++p) {
                add_rows<n.value, kRows, maybe.value>(x + c.source + p * b.x_pixel, pitch, c.lines >> row,
                                                      channels.source(j), rows[p], sum);
              }
#pragma GCC unroll 16
              for (int t = 0; t < n.value; ++t) to[t * w_step] = sum[t];
            }
          });
    }
  }
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
