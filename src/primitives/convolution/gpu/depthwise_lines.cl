// NCHW depthwise 3x3 convolution with stride 1 and padding 1, three directions: a thread computes COLS neighbours of
// ROWS rows, row by row. It prefetches the next three rows into registers: a run of COLS elements and its left and
// right neighbours.
// Options: IN, OUT, DIRECTION (0, 1, 2), COLS (a divisor of the width), ROWS; forward with an epilogue: FUSES.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/vector.h"
#include "kernels/gpu/portable/partials.h"
#include "kernels/gpu/portable/depthwise_epilogue.h"

#define THREADS 256
#define FILTER 3
#define TAPS 9
#define WINDOW (COLS + 2)

/// COLS elements in their storage format, aligned to their bytes in memory.
#if defined(UNALIGNED)
typedef struct {
  in_t element[COLS];
} Run;
#elif COLS == VECTOR
typedef u32x4 Run;
#elif COLS == 4 || IN_KIND == KIND_fp32
typedef u64 Run;
#else
typedef u32 Run;
#endif

/// A run and its neighbours, not converted yet: the loads may still be in flight.
typedef struct {
  Run run;
  in_t left, right;
} Row;

INLINE Row load_row(GLOBAL const in_t* p, int inside, int left, int right) {
  Row r;
#if defined(UNALIGNED)
  UNROLL
  for (int u = 0; u < COLS; ++u) r.run.element[u] = inside ? p[u] : 0;
#elif COLS == VECTOR
  r.run.x = r.run.y = r.run.z = r.run.w = 0;
  if (inside) r.run = *(GLOBAL const Run*)p;
#else
  r.run = inside ? *(GLOBAL const Run*)p : 0;
#endif
  r.left = inside && left ? p[-1] : 0;
  r.right = inside && right ? p[COLS] : 0;
  return r;
}

#if IN_KIND == KIND_fp32
#define CONVERT(bits) FLOAT_OF_BITS(bits)
#define CONVERT_NEIGHBOUR(element) (element)
#else
#define CONVERT(bits) NARROW(bits)
#define CONVERT_NEIGHBOUR(element) NARROW(element)
#endif

INLINE void convert_run(Run run, sum_t* v) {
#if defined(UNALIGNED)
  UNROLL
  for (int u = 0; u < COLS; ++u) v[u] = CONVERT_NEIGHBOUR(run.element[u]);
#elif COLS == VECTOR && IN_KIND == KIND_fp32
  v[0] = CONVERT(run.x);
  v[1] = CONVERT(run.y);
  v[2] = CONVERT(run.z);
  v[3] = CONVERT(run.w);
#elif COLS == VECTOR
  v[0] = CONVERT(run.x);
  v[1] = CONVERT(run.x >> 16);
  v[2] = CONVERT(run.y);
  v[3] = CONVERT(run.y >> 16);
  v[4] = CONVERT(run.z);
  v[5] = CONVERT(run.z >> 16);
  v[6] = CONVERT(run.w);
  v[7] = CONVERT(run.w >> 16);
#elif IN_KIND == KIND_fp32
  v[0] = CONVERT((u32)run);
  v[1] = CONVERT((u32)(run >> 32));
#else
  UNROLL
  for (int u = 0; u < COLS; ++u) v[u] = CONVERT(run >> (16 * u));
#endif
}

INLINE void convert_row(Row r, sum_t* v) {
  v[0] = CONVERT_NEIGHBOUR(r.left);
  v[WINDOW - 1] = CONVERT_NEIGHBOUR(r.right);
  convert_run(r.run, v + 1);
}

INLINE void store_run(GLOBAL out_t* p, const sum_t* v) {
#if defined(UNALIGNED)
  UNROLL
  for (int u = 0; u < COLS; ++u) STORE(OUT, p, u, v[u]);
#elif COLS == VECTOR
  store_vector(p, v);
#elif COLS == 4
  store4(p, v);
#elif OUT_KIND == KIND_fp32
  *(GLOBAL u64*)p = (u64)BITS_OF_FLOAT(v[0]) | (u64)BITS_OF_FLOAT(v[1]) << 32;
#else
  *(GLOBAL u32*)p = PAIR(v[0], v[1]);
#endif
}

/// A thread's part of the planes. Threads are ordered by plane, band of ROWS rows, run of a row.
typedef struct {
  i64 plane;
  int row, col;
} Position;

INLINE Position position_of(i64 index, const DepthwiseShape* d) {
  const int runs = d->dst_w / COLS, per_plane = runs * CEIL_DIV(d->dst_h, ROWS);
  Position p;
  p.plane = index / per_plane;
  const int rest = (int)(index - p.plane * per_plane), band = rest / runs;
  p.row = band * ROWS;
  p.col = (rest - band * runs) * COLS;
  return p;
}

#if DIRECTION != 2

KERNEL THREADS_PER_BLOCK(THREADS)
    depthwise_lines(GLOBAL const in_t* RESTRICT src, GLOBAL const in_t* RESTRICT w, GLOBAL out_t* RESTRICT dst,
                    const DepthwiseShape d, const float alpha, const float beta EPILOGUE_PARAMETERS) {
  const Position at = position_of((i64)BLOCK(0) * THREADS + THREAD(0), &d);
  if (at.plane >= (i64)d.images * d.channels) return;
  const int c = (int)(at.plane % d.channels), left = at.col > 0, right = at.col + COLS < d.dst_w;
  sum_t taps[TAPS], acc[FILTER][COLS];
  LOAD_TERMS(1, c);
  UNROLL
  for (int t = 0; t < TAPS; ++t) taps[t] = alpha * LOAD(IN, w, c * TAPS + (DIRECTION == 1 ? TAPS - 1 - t : t));
  UNROLL
  for (int r = 0; r < FILTER; ++r) {
    UNROLL
    for (int q = 0; q < COLS; ++q) acc[r][q] = 0;
  }
  const int rows = MIN(ROWS, d.dst_h - at.row) + FILTER - 1;
  GLOBAL const in_t* from = src + (at.plane * d.dst_h + at.row - 1) * d.dst_w + at.col;
  GLOBAL out_t* to = dst + (at.plane * d.dst_h + at.row) * d.dst_w + at.col;
  Row next_rows[FILTER];
  UNROLL
  for (int i = 0; i < FILTER; ++i)
    next_rows[i] = load_row(from + i * d.dst_w, i < rows && (u32)(at.row - 1 + i) < (u32)d.dst_h, left, right);
  NO_UNROLL
  for (int i0 = 0; i0 < rows; i0 += FILTER) {
    sum_t v[FILTER][WINDOW];
    UNROLL
    for (int i = 0; i < FILTER; ++i) {
      const int next_row = i0 + FILTER + i;
      convert_row(next_rows[i], v[i]);
      next_rows[i] = load_row(from + next_row * d.dst_w, next_row < rows && (u32)(at.row - 1 + next_row) < (u32)d.dst_h,
                              left, right);
    }
    UNROLL
    for (int i = 0; i < FILTER; ++i) {
      UNROLL
      for (int r = 0; r < FILTER; ++r) {
        UNROLL
        for (int s = 0; s < FILTER; ++s) {
          UNROLL
          for (int q = 0; q < COLS; ++q) {
            sum_t* sum = &acc[(i - r + FILTER) % FILTER][q];
            *sum = r == 0 && s == 0 ? v[i][q] * taps[0] : MULTIPLY_ADD(v[i][q + s], taps[r * FILTER + s], *sum);
          }
        }
      }
      if (i0 + i < FILTER - 1 || i0 + i >= rows) continue;
      sum_t* finished = acc[(i + 1) % FILTER];
      GLOBAL out_t* dst_row = to + (i0 + i - (FILTER - 1)) * d.dst_w;
      if (beta != 0) {
        UNROLL
        for (int q = 0; q < COLS; ++q) finished[q] = FMA(beta, LOAD(OUT, dst_row, q), finished[q]);
      }
      UNROLL
      for (int q = 0; q < COLS; ++q) finished[q] = FUSED(finished[q], 0);
      store_run(dst_row, finished);
    }
  }
}

#else

/// Block (c, i) computes every BLOCKS(1)-th group of THREADS positions of channel c. partials[i][channel][tap].
KERNEL THREADS_PER_BLOCK(THREADS)
    depthwise_lines_weights(GLOBAL const in_t* RESTRICT x, GLOBAL const in_t* RESTRICT dy, GLOBAL sum_t* partials,
                            const DepthwiseShape d, const int positions) {
  SHARED sum_t sums[TAPS * THREADS];
  const int c = BLOCK(0);
  sum_t acc[TAPS];
  UNROLL
  for (int t = 0; t < TAPS; ++t) acc[t] = 0;
  for (int k = BLOCK(1) * THREADS + THREAD(0); k < positions; k += BLOCKS(1) * THREADS) {
    const Position at = position_of(k, &d);  // the plane is the image
    const int left = at.col > 0, right = at.col + COLS < d.dst_w, rows = MIN(ROWS, d.dst_h - at.row);
    const i64 first = ((at.plane * d.channels + c) * d.dst_h + at.row) * d.dst_w + at.col;
    sum_t dy_window[FILTER][COLS];
    UNROLL
    for (int r = 0; r < FILTER; ++r) {
      UNROLL
      for (int q = 0; q < COLS; ++q) dy_window[r][q] = 0;
    }
    NO_UNROLL
    for (int i0 = 0; i0 < rows + FILTER - 1; i0 += FILTER) {
      sum_t v[FILTER][WINDOW], dy_values[FILTER][COLS];
      Row x_rows[FILTER], dy_rows[FILTER];
      UNROLL
      for (int i = 0; i < FILTER; ++i) {
        const int row = at.row - 1 + i0 + i;
        x_rows[i] = load_row(x + first + (i64)(i0 + i - 1) * d.dst_w, (u32)row < (u32)d.dst_h && i0 + i < rows + 2,
                             left, right);
        dy_rows[i] = load_row(dy + first + (i64)(i0 + i) * d.dst_w, i0 + i < rows, 0, 0);
      }
      UNROLL
      for (int i = 0; i < FILTER; ++i) {
        convert_row(x_rows[i], v[i]);
        convert_run(dy_rows[i].run, dy_values[i]);
      }
      UNROLL
      for (int i = 0; i < FILTER; ++i) {
        UNROLL
        for (int q = 0; q < COLS; ++q) dy_window[i][q] = dy_values[i][q];
        UNROLL
        for (int r = 0; r < FILTER; ++r) {
          UNROLL
          for (int s = 0; s < FILTER; ++s) {
            UNROLL
            for (int q = 0; q < COLS; ++q)
              acc[r * FILTER + s] =
                  MULTIPLY_ADD(v[i][q + s], dy_window[(i - r + FILTER) % FILTER][q], acc[r * FILTER + s]);
          }
        }
      }
    }
  }
  UNROLL
  for (int t = 0; t < TAPS; ++t) sums[t * THREADS + THREAD(0)] = acc[t];
  for (int other = THREADS / 2; other > 0; other /= 2) {
    BARRIER();
    for (int i = THREAD(0); i < TAPS * other; i += THREADS)
      sums[i / other * THREADS + i % other] += sums[i / other * THREADS + i % other + other];
  }
  BARRIER();
  GLOBAL sum_t* results = (GLOBAL sum_t*)align16(partials);
  if (THREAD(0) < TAPS) results[((i64)BLOCK(1) * d.channels + c) * TAPS + THREAD(0)] = sums[THREAD(0) * THREADS];
}
#endif
