// Direct convolution from tiles of src, with their halo, and weights in local memory, in parts of the channels. A warp
// has OUTPUTS channels of dst, each of its threads RUNS runs of four pixels along W. Columns of src are ordered by
// their remainder by the stride first, so that the taps of a run are neighbours. Options: IN, OUT, SRC_LAST and
// DST_LAST (1: channels are innermost), TAPS_W (taps of a row, or 0: one at a time, of any number and dilation),
// STRIDE_W, RUNS, OUTPUTS, VECTORS (dst has quads along its innermost dimension), RESIDENT (blocks
// per multiprocessor), LOCAL_FLOATS (but for CUDA), HAS_BIAS, HAS_SCALE, MODE.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/vector.h"
#include "kernels/gpu/portable/local_copy.h"
#include "kernels/gpu/portable/direct_tiles.h"
#include "kernels/gpu/portable/epilogue.h"

#define LANES 32
#define STEP_TAPS MAX(TAPS_W, 1)
#define PHASES MIN(STRIDE_W, STEP_TAPS)
#define WINDOW (RUN + CEIL_DIV((STEP_TAPS - 1) / STRIDE_W, 4) * 4)
#define QUADS CEIL_DIV(OUTPUTS, 4)
#define STAGED MIN(OUTPUTS, 4)  // channels at a time

/// The weights of so many channels and the outputs from `first` on as [channel][tap][output], in the order of memory.
INLINE void copy_weights(LOCAL sum_t* to, GLOBAL const in_t* from, const DirectShape* s, const DirectTile* t,
                         const DirectWeights* w, int first, int channels) {
  const int taps = s->taps[0] * s->taps[1] * s->taps[2], width = t->output_warps * OUTPUTS;
  const int inner_count = (int)w->by_inner.divisor, middle_count = (int)w->by_middle.divisor;
  NO_UNROLL
  for (int i = THREAD(0); i < t->chunk * taps * width; i += THREADS) {
    const int rest = divide(i, w->by_inner), inner = i - rest * inner_count;
    const int outer = divide(rest, w->by_middle), middle = rest - outer * middle_count;
    const int k = w->order == 2 ? inner : outer, tap = w->order == 0 ? inner : middle;
    const int c = w->order == 0 ? middle : w->order == 1 ? inner : outer;
    copy_element(to + (c * taps + tap) * w->pitch + k, from + ((first + k) * w->output + c * w->channel + tap * w->tap),
                 first + k < s->outputs && c < channels);
  }
}

/// acc += the products of STEP_TAPS taps of a row.
INLINE void add_taps(LOCAL const sum_t* source, const int* runs, int phase, LOCAL const sum_t* weights, int pitch,
                     sum_t (*acc)[RUN][OUTPUTS]) {
  sum_t window[RUNS][PHASES][WINDOW];
  UNROLL
  for (int r = 0; r < RUNS; ++r) {
#if TAPS_W == 0
    UNROLL
    for (int i = 0; i < RUN; ++i) window[r][0][i] = source[runs[r] + i];
#else
    UNROLL
    for (int q = 0; q < PHASES; ++q) {
      UNROLL
      for (int i = 0; i < RUN + (STEP_TAPS - 1 - q) / STRIDE_W; i += 4)
        local_load4(source + runs[r] + q * phase + i, window[r][q] + i);
    }
#endif
  }
  UNROLL
  for (int s = 0; s < STEP_TAPS; ++s) {
    sum_t taps[QUADS * 4];
#if OUTPUTS % 4 == 0
    UNROLL
    for (int k = 0; k < OUTPUTS; k += 4) local_load4(weights + s * pitch + k, taps + k);
#else
    UNROLL
    for (int k = 0; k < OUTPUTS; ++k) taps[k] = weights[s * pitch + k];
#endif
    UNROLL
    for (int r = 0; r < RUNS; ++r) {
      UNROLL
      for (int i = 0; i < RUN; ++i) {
        UNROLL
        for (int k = 0; k < OUTPUTS; ++k)
          acc[r][i][k] = MULTIPLY_ADD(window[r][s % STRIDE_W][i + s / STRIDE_W], taps[k], acc[r][i][k]);
      }
    }
  }
}

KERNEL THREADS_PER_BLOCK_OF(THREADS, RESIDENT)
    direct(GLOBAL const in_t* RESTRICT src, GLOBAL const in_t* RESTRICT w, GLOBAL out_t* dst,
           GLOBAL const bias_t* RESTRICT bias, GLOBAL const float* RESTRICT scale, const DirectShape s,
           const DirectTile t, const DirectWeights weights, const Scalars scalars) {
  LARGE_SHARED(u32x4, pool, LOCAL_FLOATS / 4);
  LOCAL sum_t* const memory = (LOCAL sum_t*)pool;
  LOCAL sum_t* const copied = memory + t.chunk * t.plane;
  const int lane = THREAD(0) % LANES, warp = THREAD(0) / LANES, pixel_warp = warp / t.output_warps;
  const int group = (warp - pixel_warp * t.output_warps) * OUTPUTS, threads = THREADS / t.output_warps;
  const int first_run = pixel_warp * LANES + lane;
  int block = BLOCK(0);
  const int first = block % t.output_tiles * t.output_warps * OUTPUTS;
  block /= t.output_tiles;
  const int w0 = block % t.tiles[0] << t.log[0];
  block /= t.tiles[0];
  const int h0 = block % t.tiles[1] << t.log[1];
  block /= t.tiles[1];
  const int d0 = block % t.tiles[2] << t.log[2], image = block / t.tiles[2];
  src += (i64)image * s.src_image;
  w += weights.first;
  dst += (i64)image * s.dst_image;

  int runs[RUNS];
  sum_t acc[RUNS][RUN][OUTPUTS];
  UNROLL
  for (int r = 0; r < RUNS; ++r) {
    const Position p = position_of(&t, first_run + r * threads);
    runs[r] = p.d * s.stride[2] * t.slice + p.h * s.stride[1] * t.row + p.w;
    UNROLL
    for (int i = 0; i < RUN; ++i) {
      UNROLL
      for (int k = 0; k < OUTPUTS; ++k) acc[r][i][k] = 0;
    }
  }
  NO_UNROLL
  for (int c0 = 0; c0 < s.channels; c0 += t.chunk) {
    const int channels = MIN(t.chunk, s.channels - c0);
    if (c0 > 0) BARRIER();
    copy_source(memory, src + (i64)c0 * s.src_channel, &s, &t, w0 * STRIDE_W - s.pad[0], h0 * s.stride[1] - s.pad[1],
                d0 * s.stride[2] - s.pad[2], channels);
    copy_weights(copied, w + (i64)c0 * weights.channel, &s, &t, &weights, first, channels);
    wait_for_all_copies();
    LOCAL const sum_t* taps = copied + group;
    NO_UNROLL
    for (int c = 0; c < channels; ++c) {
      NO_UNROLL
      for (int z = 0; z < s.taps[2]; ++z) {
        LOCAL const sum_t* row = memory + c * t.plane + z * s.dilation[2] * t.slice;
        NO_UNROLL
        for (int y = 0; y < s.taps[1]; ++y) {
#if TAPS_W == 0
          NO_UNROLL
          for (int x = 0; x < s.taps[0]; ++x) {
            const int col = x * s.dilation[0];
            add_taps(row + col % STRIDE_W * t.phase + col / STRIDE_W, runs, t.phase, taps, weights.pitch, acc);
            taps += weights.pitch;
          }
#else
          add_taps(row, runs, t.phase, taps, weights.pitch, acc);
          taps += TAPS_W * weights.pitch;
#endif
          row += s.dilation[1] * t.row;
        }
      }
    }
  }

#if !DST_LAST && !VECTORS
  LOCAL sum_t* const stage = memory + warp * STAGED * LANES * RUN;
  BARRIER();
#endif
  UNROLL
  for (int r = 0; r < RUNS; ++r) {
#if !DST_LAST && !VECTORS
    // Neighbouring threads store neighbouring pixels.
    UNROLL
    for (int k0 = 0; k0 < OUTPUTS; k0 += STAGED) {
      UNROLL
      for (int k = 0; k < STAGED; ++k) {
        u32x4 u;
        u.x = BITS_OF_SUM(acc[r][0][k0 + k]);
        u.y = BITS_OF_SUM(acc[r][1][k0 + k]);
        u.z = BITS_OF_SUM(acc[r][2][k0 + k]);
        u.w = BITS_OF_SUM(acc[r][3][k0 + k]);
        *(LOCAL u32x4*)(stage + (k * LANES + lane) * RUN) = u;
      }
      LANES_BARRIER();
      UNROLL
      for (int i = 0; i < RUN; ++i) {
        const int e = i * LANES + lane;
        const Position p = position_of(&t, pixel_warp * LANES + e / RUN + r * threads);
        const int col = w0 + p.w + e % RUN, h = h0 + p.h, d = d0 + p.d;
        GLOBAL out_t* to = dst + ((i64)d * s.dst_step[2] + (i64)h * s.dst_step[1] + (i64)col * s.dst_step[0]);
        const int inside = col < s.dst_size[0] && h < s.dst_size[1] && d < s.dst_size[2];
        UNROLL
        for (int k = 0; k < STAGED; ++k) {
          const int o = first + group + k0 + k;
          if (!inside || o >= s.outputs) continue;
          GLOBAL out_t* at = to + (i64)o * s.dst_channel;
          STORE(OUT, at, 0, finished(stage[k * LANES * RUN + e], at, channel_terms(bias, scale, o), scalars));
        }
      }
      LANES_BARRIER();
    }
#else
    const Position p = position_of(&t, first_run + r * threads);
    const int col = w0 + p.w, h = h0 + p.h, d = d0 + p.d;
    if (h >= s.dst_size[1] || d >= s.dst_size[2]) continue;
    GLOBAL out_t* to = dst + ((i64)d * s.dst_step[2] + (i64)h * s.dst_step[1] + (i64)col * s.dst_step[0]);
#if DST_LAST
    UNROLL
    for (int i = 0; i < RUN; ++i) {
      if (col + i >= s.dst_size[0]) continue;
      GLOBAL out_t* at = to + i * s.dst_step[0] + first + group;
      UNROLL
      for (int k = 0; k < OUTPUTS; ++k)
        if (first + group + k < s.outputs)
          acc[r][i][k] = finished(acc[r][i][k], at + k, channel_terms(bias, scale, first + group + k), scalars);
      UNROLL
      for (int k = 0; k < OUTPUTS; k += VECTORS ? 4 : 1) {
        if (first + group + k >= s.outputs) continue;
#if VECTORS
        store4(at + k, acc[r][i] + k);
#else
        STORE(OUT, at, k, acc[r][i][k]);
#endif
      }
    }
#else
    if (col >= s.dst_size[0]) continue;
    UNROLL
    for (int k = 0; k < OUTPUTS; ++k) {
      const int o = first + group + k;
      if (o >= s.outputs) continue;
      GLOBAL out_t* at = to + (i64)o * s.dst_channel;
      sum_t v[RUN] = {acc[r][0][k], acc[r][1][k], acc[r][2][k], acc[r][3][k]};
      finish(v, RUN, at, channel_terms(bias, scale, o), scalars);
      store4(at, v);
    }
#endif
#endif
  }
}
