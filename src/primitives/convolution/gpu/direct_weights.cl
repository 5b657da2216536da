// The gradient of the weights of direct.cl: dw[output][channel][tap] is the sum over pixels of dst x the pixel of src
// that each meets at the tap. A block copies tiles of src, with their halo, and of dst to local memory and adds the
// products of many tiles. A line is STEP_TAPS neighbouring taps of a row of the filter in a channel. A thread has
// OUTPUTS outputs x LINES lines, for runs of four pixels along W; groups of threads share the runs. Splits of the tiles
// write partial sums, which add_partials adds. Options: IN, OUT (of the result), SRC_LAST and DST_LAST (1: channels are
// innermost), TAPS_W (taps of a line, or 0: one, at any dilation), STRIDE_W, OUTPUTS, LINES, VECTORS (dst has quads
// along its innermost dimension), LOCAL_FLOATS (but for CUDA).
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/vector.h"
#include "kernels/gpu/portable/local_copy.h"
#include "kernels/gpu/portable/direct_tiles.h"
#include "kernels/gpu/portable/partials.h"

#define RESIDENT 2  // blocks per multiprocessor
#define STEP_TAPS MAX(TAPS_W, 1)
#define PHASES MIN(STRIDE_W, STEP_TAPS)
#define SUMS (LINES * STEP_TAPS)  // per output
#define UNIT (VECTORS ? 4 : 1)    // elements that are copied at once
#define QUADS (DST_LAST && OUTPUTS % 4 == 0)

/// Where a thread's output `i` is: neighbouring threads load from other banks.
INLINE int output_at(int group, int groups, int i) {
  return QUADS ? (i / 4 * groups + group) * 4 + i % 4 : i * groups + group;
}

INLINE void copy_unit(LOCAL sum_t* to, GLOBAL const in_t* from, int inside) {
#if VECTORS && IN_KIND == KIND_fp32
  copy_chunk(to, from, inside);
#elif VECTORS
  sum_t v[4] = {0, 0, 0, 0};
  if (inside) load4(from, v);
  UNROLL
  for (int i = 0; i < 4; ++i) to[i] = v[i];
#else
  copy_element(to, from, inside);
#endif
}

/// The pixels of a tile and the outputs from `first` on, as [pixel][output] if outputs are innermost in dst.
INLINE void copy_results(LOCAL sum_t* to, GLOBAL const in_t* dst, const DirectShape* s, const DirectTile* t,
                         const DirectSums* m, int first, int w0, int h0, int d0) {
  const int pixels_log = t->log[0] + t->log[1] + t->log[2], units_log = pixels_log - (VECTORS ? 2 : 0);
  const int width = m->output_groups * OUTPUTS, count = DST_LAST ? width / UNIT << pixels_log : width << units_log;
  NO_UNROLL
  for (int i = THREAD(0); i < count; i += THREADS) {
    const int outer = DST_LAST ? divide(i, m->by_width) : i >> units_log;
    const int inner = (DST_LAST ? i - outer * (int)m->by_width.divisor : i & ((1 << units_log) - 1)) * UNIT;
    const int pixel = DST_LAST ? outer : inner, k = DST_LAST ? inner : outer;
    const int w = w0 + (pixel & ((1 << t->log[0]) - 1)), line = pixel >> t->log[0];
    const int h = h0 + (line & ((1 << t->log[1]) - 1)), d = d0 + (line >> t->log[1]);
    copy_unit(to + outer * m->pitch + inner,
              dst + ((i64)d * s->dst_step[2] + (i64)h * s->dst_step[1] + (i64)w * s->dst_step[0] +
                     (i64)(first + k) * s->dst_channel),
              w < s->dst_size[0] && h < s->dst_size[1] && d < s->dst_size[2] && first + k < s->outputs);
  }
}

/// Its channel and first tap.
typedef struct {
  int c, z, y, x;
} Line;

INLINE Line line_of(const DirectSums* m, int line) {
  Line l;
  l.c = divide(line, m->by_channel);
  line -= l.c * (int)m->by_channel.divisor;
  l.z = divide(line, m->by_slice);
  line -= l.z * (int)m->by_slice.divisor;
  l.y = divide(line, m->by_row);
  l.x = (line - l.y * (int)m->by_row.divisor) * STEP_TAPS;
  return l;
}

/// acc += the products of a run of four pixels; `outputs` are apart by `step`, their pixels in [pixel][output] by
/// `pitch`.
INLINE void add_run(LOCAL const sum_t* source, const int* lines, int phase, LOCAL const sum_t* result, int step,
                    int pitch, sum_t (*acc)[SUMS]) {
  sum_t pixels[OUTPUTS][RUN];
#if QUADS
  UNROLL
  for (int i = 0; i < RUN; ++i) {
    UNROLL
    for (int k = 0; k < OUTPUTS; k += 4) {
      sum_t v[4];
      local_load4(result + i * pitch + k * step, v);
      pixels[k][i] = v[0];
      pixels[k + 1][i] = v[1];
      pixels[k + 2][i] = v[2];
      pixels[k + 3][i] = v[3];
    }
  }
#else
  UNROLL
  for (int k = 0; k < OUTPUTS; ++k) {
#if DST_LAST
    UNROLL
    for (int i = 0; i < RUN; ++i) pixels[k][i] = result[i * pitch + k * step];
#else
    local_load4(result + k * step * pitch, pixels[k]);
#endif
  }
#endif
  UNROLL
  for (int l = 0; l < LINES; ++l) {
    UNROLL
    for (int q = 0; q < PHASES; ++q) {
      sum_t window[RUN + (STEP_TAPS - 1) / STRIDE_W + 3];
      UNROLL
      for (int i = 0; i < RUN + (STEP_TAPS - 1 - q) / STRIDE_W; i += 4)
        local_load4(source + lines[l] + q * phase + i, window + i);
      UNROLL
      for (int s = q; s < STEP_TAPS; s += STRIDE_W) {
        UNROLL
        for (int i = 0; i < RUN; ++i) {
          UNROLL
          for (int k = 0; k < OUTPUTS; ++k) {
            const int j = l * STEP_TAPS + s;
            acc[k][j] = MULTIPLY_ADD(window[i + s / STRIDE_W], pixels[k][i], acc[k][j]);
          }
        }
      }
    }
  }
}

/// The same of one pixel, at any address.
INLINE void add_pixel(LOCAL const sum_t* source, const int* lines, int phase, LOCAL const sum_t* result, int step,
                      sum_t (*acc)[SUMS]) {
  sum_t pixel[OUTPUTS];
  UNROLL
  for (int k = 0; k < OUTPUTS; ++k) pixel[k] = result[QUADS ? k / 4 * 4 * step + k % 4 : k * step];
  UNROLL
  for (int j = 0; j < SUMS; ++j) {
    const int s = j % STEP_TAPS;
    const sum_t v = source[lines[j / STEP_TAPS] + s % STRIDE_W * phase + s / STRIDE_W];
    UNROLL
    for (int k = 0; k < OUTPUTS; ++k) acc[k][j] = MULTIPLY_ADD(v, pixel[k], acc[k][j]);
  }
}

KERNEL THREADS_PER_BLOCK_OF(THREADS, RESIDENT)
    direct_weights(GLOBAL const in_t* RESTRICT src, GLOBAL const in_t* RESTRICT dst, GLOBAL sum_t* workspace,
                   const DirectShape s, const DirectTile t, const DirectWeights weights, const DirectSums m) {
  LARGE_SHARED(u32x4, pool, LOCAL_FLOATS / 4);
  LOCAL sum_t* const memory = (LOCAL sum_t*)pool;
  LOCAL sum_t* const results = memory + t.chunk * t.plane;
  const int units = m.output_groups * m.line_groups, parts = m.output_tiles * m.line_tiles;
  const int pixel_group = divide(THREAD(0), m.by_units), unit = THREAD(0) - pixel_group * units;
  const int line_group = divide(unit, m.by_outputs), output_group = unit - line_group * m.output_groups;
  const int split = BLOCK(0) / parts, part = BLOCK(0) - split * parts, line_tile = part / m.output_tiles;
  const int first = (part - line_tile * m.output_tiles) * m.output_groups * OUTPUTS;
  const int first_line = line_tile * m.line_groups * LINES, channel = divide(first_line, m.by_channel);
  const int runs = 1 << (t.log[0] + t.log[1] + t.log[2] - 2);
  const int step = DST_LAST ? m.output_groups : m.output_groups * m.pitch;
  int lines[LINES];
  UNROLL
  for (int i = 0; i < LINES; ++i) {
    const int line = first_line + line_group + i * m.line_groups;
    const Line l = line_of(&m, line < m.lines ? line : first_line);
    const int col = l.x * s.dilation[0];
    lines[i] = (l.c - channel) * t.plane + l.z * s.dilation[2] * t.slice + l.y * s.dilation[1] * t.row +
               col % STRIDE_W * t.phase + col / STRIDE_W;
  }
  sum_t acc[OUTPUTS][SUMS];
  UNROLL
  for (int k = 0; k < OUTPUTS; ++k) {
    UNROLL
    for (int j = 0; j < SUMS; ++j) acc[k][j] = 0;
  }
  NO_UNROLL
  for (int tile = split; tile < m.all_tiles; tile += m.splits) {
    const int column = tile / t.tiles[0], row = column / t.tiles[1], image = row / t.tiles[2];
    const int w0 = (tile - column * t.tiles[0]) << t.log[0], h0 = (column - row * t.tiles[1]) << t.log[1];
    const int d0 = (row - image * t.tiles[2]) << t.log[2];
    BARRIER();
    copy_source(memory, src + ((i64)image * s.src_image + (i64)channel * s.src_channel), &s, &t,
                w0 * STRIDE_W - s.pad[0], h0 * s.stride[1] - s.pad[1], d0 * s.stride[2] - s.pad[2],
                MIN(t.chunk, s.channels - channel));
    copy_results(results, dst + (i64)image * s.dst_image, &s, &t, &m, first, w0, h0, d0);
    wait_for_all_copies();
    NO_UNROLL
    for (int run = pixel_group; run < runs && pixel_group < m.pixel_groups; run += m.pixel_groups) {
      const Position p = position_of(&t, run);
      if (h0 + p.h >= s.dst_size[1] || d0 + p.d >= s.dst_size[2]) continue;
      LOCAL const sum_t* source = memory + p.d * s.stride[2] * t.slice + p.h * s.stride[1] * t.row + p.w;
      LOCAL const sum_t* result =
          results + (DST_LAST ? run * RUN * m.pitch + output_at(output_group, m.output_groups, 0)
                              : output_group * m.pitch + run * RUN);
      // Those outside of dst have no products: an infinity times zero would be NaN.
      const int pixels = s.dst_size[0] - (w0 + p.w);
#if TAPS_W > 0
      if (pixels >= RUN) {
        add_run(source, lines, t.phase, result, m.output_groups, m.pitch, acc);
        continue;
      }
#endif
      NO_UNROLL
      for (int i = 0; i < MIN(pixels, RUN); ++i)
        add_pixel(source + i, lines, t.phase, result + i * (DST_LAST ? m.pitch : 1), step, acc);
    }
  }

  GLOBAL sum_t* const partials = (GLOBAL sum_t*)align16(workspace) + (i64)split * m.count;
  const int sums_pitch = SUMS | 1;  // an odd one has no bank conflicts
  UNROLL
  for (int k = 0; k < OUTPUTS; ++k) {
    BARRIER();
    if (pixel_group < m.pixel_groups) {
      UNROLL
      for (int j = 0; j < SUMS; ++j) memory[THREAD(0) * sums_pitch + j] = acc[k][j];
    }
    BARRIER();
    NO_UNROLL
    for (int i = THREAD(0); i < units * SUMS; i += THREADS) {
      const int u = i / SUMS, j = i - u * SUMS, lane = divide(u, m.by_outputs);
      const int o = first + output_at(u - lane * m.output_groups, m.output_groups, k);
      const int line = first_line + lane + j / STEP_TAPS * m.line_groups;
      const Line l = line_of(&m, line);
      const int x = l.x + j % STEP_TAPS;
      sum_t sum = 0;
      _Pragma("unroll 4") for (int g = 0; g < m.pixel_groups; ++g) sum += memory[(g * units + u) * sums_pitch + j];
      if (o < s.outputs && line < m.lines && x < s.taps[0])
        partials[weights.first + o * weights.output + l.c * weights.channel +
                 ((l.z * s.taps[1] + l.y) * s.taps[0] + x) * weights.tap] = sum;
    }
  }
}
