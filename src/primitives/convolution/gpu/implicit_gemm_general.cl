// Implicit GEMM for any convolution: 1 to 3 spatial dimensions, any types, strides, groups and sizes (64-bit indices).
// result[p][q] = sum over k of gathered[p][k] * plain[q][k]:
//   forward        p: pixels of y             q: channels of y   k: taps x channels of x    gathered: x   plain: w
//   backward data  p: pixels of a phase of x  q: channels of x   k: taps x channels of y    gathered: y   plain: w
//   weights        p: taps x channels of x    q: channels of y   k: pixels of y             gathered: x   plain: y
// The address of a gathered element is a part that depends on p plus one that depends on k, and so are its coordinates,
// which decide whether it is in the padding. Both parts are computed once per block and are in local memory.
// Options: those of conv_elements.h, FP64 if the device has double, SUM (float, double, int, i64), OPERAND (float,
// double, int), SCALAR (float, double: of alpha and beta), POSITION (int, i64: coordinates), DIRECTION (0, 1, 2),
// TILE_P, TILE_Q, TILE_K, SLICES (threads that share a sum), P_FAST (neighbouring threads load neighbouring p, else k).
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/conv_args.h"
#include "kernels/gpu/portable/conv_axis.h"
#include "kernels/gpu/portable/conv_elements.h"

#define THREADS (SLICES * (TILE_P / 4) * (TILE_Q / 4))
#define RESIDENT MAX(1, 384 / THREADS)  // blocks per multiprocessor: leaves 168 registers
#define PITCH_P (TILE_P + 4)
#define PITCH_Q (TILE_Q + 4)
#define OPERANDS (TILE_K * (PITCH_P + PITCH_Q))
#define POOL MAX(OPERANDS, SLICES > 1 ? SLICES * TILE_P * TILE_Q : 0)

// The thread's loads of the gathered operand: ROWS rows at P_LANES from each other, STEPS steps at K_LANES.
#if P_FAST
#define P_LANES MIN(THREADS, TILE_P)
#define K_LANES (THREADS / P_LANES)
#define LANE_P(thread) ((thread) % P_LANES)
#define LANE_K(thread) ((thread) / P_LANES)
#else
#define K_LANES TILE_K
#define P_LANES (THREADS / K_LANES)
#define LANE_P(thread) ((thread) / K_LANES)
#define LANE_K(thread) ((thread) % K_LANES)
#endif
#define ROWS (TILE_P / P_LANES)
#define STEPS (TILE_K / K_LANES)
#define PLAIN CEIL_DIV(TILE_Q* TILE_K, THREADS)

typedef POSITION position_t;
typedef SUM sum_t;

/// Row p: coordinates and element offset of its part of the gathered operand; offset of its first result, -1 if there
/// is no such row.
typedef struct {
  i64 source, result;
  position_t at[3];
} Row;

/// Step k: the same, and the offset in the plain operand, -1 beyond the last step.
typedef struct {
  i64 source, plain;
  position_t at[3];
} Step;

/// A tile of the result: its first row and column, the axes of its phase, and where its group begins in the gathered
/// operand, its first column in the plain operand and in the result.
typedef struct {
  i64 p0, q0, rows, outputs, reduced, depth, gathered, plain, result;
  Axis axes[3];
} Tile;

#if DIRECTION != 2
/// Restricts the taps to those that read from the source for any of the rows, of which `last` is the last.
INLINE void leave_out_padding(Tile* tile, i64 last, ConvSizes z) {
  i64 from = tile->p0, to = last;
  UNROLL
  for (int i = 2; i >= 0; --i) {
    Axis* const a = &tile->axes[i];
    if (from > to || a->count == 0 || a->taps == 0) return;
    const i64 next_from = quotient(from, a->count), next_to = quotient(to, a->count);
    const int whole = next_from != next_to;  // the rows cover the axis, or nearly so
    const i64 low = (whole ? 0 : from - next_from * a->count) * a->in_step + a->base;
    const i64 high = (whole ? a->count - 1 : to - next_to * a->count) * a->in_step + a->base;
    const i64 step = a->delta < 0 ? -a->delta : a->delta;
    const i64 before = a->delta < 0 ? low - (SIZE[i] - 1) : -high;  // positions that the first tap must move by
    const i64 within = a->delta < 0 ? high : SIZE[i] - 1 - low;     // and the last one may
    const i64 begin = before > 0 ? quotient(before + step - 1, step) : 0;
    const i64 end = within < 0 ? 0 : MIN(a->taps, quotient(within, step) + 1);
    a->first += begin * a->tap_step;
    a->base += begin * a->delta;
    a->taps = MAX(end - begin, 0);
    from = next_from;
    to = next_to;
  }
}
#else
/// Restricts the pixels to those for which any tap reads from the source.
INLINE void leave_out_padding(Tile* tile, ConvSizes z, ConvStrides e) {
  tile->depth = z.n;
  UNROLL
  for (int i = 0; i < 3; ++i) {
    Axis* const a = &tile->axes[i];
    const i64 before = -(a->base + (a->taps - 1) * a->delta), within = SIZE[i] - 1 - a->base;
    const i64 begin = before > 0 ? quotient(before + a->in_step - 1, a->in_step) : 0;
    const i64 end = MIN(a->count, quotient(within, a->in_step) + 1);
    a->base += begin * a->in_step;
    a->count = MAX(end - begin, 0);
    tile->plain += begin * e.y[2 + i];
    tile->depth *= a->count;
  }
}
#endif

INLINE Tile make_tile(i64 index, ConvSizes z, ConvSteps t, ConvStrides e, GeneralShape s) {
  Tile tile;
  i64 rest = quotient(index, s.tiles_q);
  tile.q0 = (index - rest * s.tiles_q) * TILE_Q;
  i64 next = quotient(rest, s.tiles_p);
  tile.p0 = (rest - next * s.tiles_p) * TILE_P;
  UNROLL
  for (int i = 2; i >= 0; --i) {
    rest = next;
    next = quotient(rest, PHASES(i));
    tile.axes[i] = make_axis(rest - next * PHASES(i), z.in[i], z.out[i], z.filter[i], t.pad[i], t.stride[i],
                             t.dilation[i], s.tap_step[i], s.tap_delta[i]);
  }
  const i64 group = next;
  const i64 pixels = z.n * tile.axes[0].count * tile.axes[1].count * tile.axes[2].count;
#if DIRECTION != 2
  leave_out_padding(&tile, MIN(tile.p0 + TILE_P, pixels) - 1, z);
#endif
  const i64 taps = tile.axes[0].taps * tile.axes[1].taps * tile.axes[2].taps;
  const i64 group_c = quotient(z.c, z.groups), group_k = quotient(z.k, z.groups);
#if DIRECTION == 2
  tile.reduced = group_c;
  tile.rows = group_c * taps;
  tile.depth = pixels;
#else
  tile.reduced = DIRECTION == 0 ? group_c : group_k;
  tile.rows = pixels;
  tile.depth = tile.reduced * taps;
#endif
  tile.outputs = DIRECTION == 1 ? group_c : group_k;
  tile.gathered = group * (DIRECTION == 1 ? group_k : group_c) * SOURCE[1];
#if DIRECTION == 2
  tile.plain = group * group_k * e.y[1] + tile.q0 * PLAIN_Q;
  tile.result = group * group_k * e.w[0] + tile.q0 * RESULT_Q;
#else
  tile.plain = group * group_k * e.w[0] + tile.q0 * PLAIN_Q;
  tile.result = group * tile.outputs * RESULT[1] + tile.q0 * RESULT_Q;
#endif
  return tile;
}

/// The channel and the taps of element `i` of their product.
INLINE i64 channel_and_taps(i64 i, LOCAL const Tile* tile, int channels_fast, i64* tap) {
  const i64 taps1 = tile->axes[1].taps, taps2 = tile->axes[2].taps, taps = tile->axes[0].taps * taps1 * taps2;
  i64 channel, at;
  if (channels_fast) {
    at = quotient(i, tile->reduced);
    channel = i - at * tile->reduced;
  } else {
    channel = quotient(i, taps);
    at = i - channel * taps;
  }
  const i64 lines = quotient(at, taps2);
  tap[2] = at - lines * taps2;
  tap[0] = quotient(lines, taps1);
  tap[1] = lines - tap[0] * taps1;
  return channel;
}

/// The image and the place along the axes of pixel `i`.
INLINE i64 image_and_place(i64 i, LOCAL const Tile* tile, i64* place) {
  const i64 lines = quotient(i, tile->axes[2].count), planes = quotient(lines, tile->axes[1].count);
  const i64 image = quotient(planes, tile->axes[0].count);
  place[2] = i - lines * tile->axes[2].count;
  place[1] = lines - planes * tile->axes[1].count;
  place[0] = planes - image * tile->axes[0].count;
  return image;
}

INLINE Row make_row(i64 p, LOCAL const Tile* tile, ConvStrides e, int channels_fast) {
  const i64 outside = -((i64)1 << (sizeof(position_t) == 8 ? 61 : 29));
  i64 place[3];
  Row row;
  row.result = -1;
  row.source = 0;
  row.at[0] = (position_t)outside;
  row.at[1] = row.at[2] = 0;
  if (p >= tile->rows) return row;
#if DIRECTION == 2
  const i64 channel = channel_and_taps(p, tile, channels_fast, place);
  row.source = tile->gathered + channel * e.x[1];
  row.result = tile->result + channel * e.w[1];
#else
  const i64 image = image_and_place(p, tile, place);
  row.source = tile->gathered + image * SOURCE[0];
  row.result = tile->result + image * RESULT[0];
#endif
  UNROLL
  for (int i = 0; i < 3; ++i) {
    LOCAL const Axis* const a = &tile->axes[i];
#if DIRECTION == 2
    const i64 at = place[i] * a->delta, to = place[i];
#else
    const i64 at = place[i] * a->in_step + a->base, to = a->phase + place[i] * a->out_step;
#endif
    row.at[i] = (position_t)at;
    row.source += at * SOURCE[2 + i];
    row.result += to * RESULT[2 + i];
  }
  return row;
}

INLINE Step make_step(i64 k, i64 last, LOCAL const Tile* tile, ConvStrides e, int channels_fast) {
  i64 place[3];
  Step step;
  step.plain = -1;
  step.source = 0;
  step.at[0] = (position_t)(-((i64)1 << (sizeof(position_t) == 8 ? 61 : 29)));
  step.at[1] = step.at[2] = 0;
  if (k >= last) return step;
#if DIRECTION == 2
  const i64 image = image_and_place(k, tile, place);
  step.source = image * e.x[0];
  step.plain = tile->plain + image * e.y[0];
#else
  const i64 channel = channel_and_taps(k, tile, channels_fast, place);
  step.source = channel * SOURCE[1];
  step.plain = tile->plain + channel * e.w[DIRECTION == 0 ? 1 : 0];
#endif
  UNROLL
  for (int i = 0; i < 3; ++i) {
    LOCAL const Axis* const a = &tile->axes[i];
#if DIRECTION == 2
    const i64 at = place[i] * a->in_step + a->base;
    step.plain += place[i] * e.y[2 + i];
#else
    const i64 at = place[i] * a->delta;
    step.plain += (a->first + place[i] * a->tap_step) * e.w[2 + i];
#endif
    step.at[i] = (position_t)at;
    step.source += at * SOURCE[2 + i];
  }
  return step;
}

INLINE void store_sum(GLOBAL STORED(OUT) * result, i64 at, sum_t sum, SCALAR alpha, SCALAR beta, u64 seed) {
  SCALAR v = alpha * (SCALAR)sum;
  if (beta != 0) v += beta * (SCALAR)LOAD(OUT, result, at);
  STORE_OUT(result, at, v, seed);
}

// If this is unrolled, PoCL makes the stores of rows that do not exist unconditional.
#ifdef POCL_DEVICE_ADDRESS_BITS
#define UNROLL_STORES NO_UNROLL
#else
#define UNROLL_STORES UNROLL
#endif

#define TILE_INDEX ((i64)BLOCK(2) * BLOCKS(0) + BLOCK(0))

/// Blocks: tiles along the dimensions 0 and 2, splits of k along 1, whose sums go to `partials` as whole tiles.
KERNEL THREADS_PER_BLOCK_OF(THREADS, RESIDENT)
    general_gemm(GLOBAL const STORED(IN) * RESTRICT gathered, GLOBAL const STORED(SECOND) * RESTRICT plain,
                 GLOBAL STORED(OUT) * result, GLOBAL sum_t* partials, const ConvSizes z, const ConvSteps t,
                 const ConvStrides e, const GeneralShape s, const SCALAR alpha, const SCALAR beta, const u64 seed) {
  SHARED sum_t pool[POOL] __attribute__((aligned(16)));
  SHARED Row rows[TILE_P];
  SHARED Step steps[TILE_K];
  SHARED Tile shared;
  LOCAL OPERAND* const p_tile = (LOCAL OPERAND*)pool;
  LOCAL OPERAND* const q_tile = p_tile + TILE_K * PITCH_P;
  LOCAL const Tile* const tile = &shared;
  if (TILE_INDEX >= s.tiles) return;
  if (THREAD(0) == 0) {
    Tile made = make_tile(TILE_INDEX, z, t, e, s);
#if DIRECTION == 2
    leave_out_padding(&made, z, e);
#endif
    shared = made;
  }
  BARRIER();
  if (tile->p0 >= tile->rows) return;
  const int thread = THREAD(0), split = BLOCK(1);
  const i64 blocks = quotient(tile->depth + TILE_K - 1, TILE_K);
  const i64 first = quotient(blocks * split, s.splits), last = quotient(blocks * (split + 1), s.splits);
  for (int p = thread; p < TILE_P; p += THREADS) rows[p] = make_row(tile->p0 + p, tile, e, s.channels_fast);
  for (int k = thread; k < TILE_K; k += THREADS)
    steps[k] = make_step(first * TILE_K + k, first < last ? tile->depth : 0, tile, e, s.channels_fast);
  BARRIER();
  const int lane_p = LANE_P(thread), lane_k = LANE_K(thread);
  i64 source[ROWS];
  position_t at[ROWS][3];
  UNROLL
  for (int i = 0; i < ROWS; ++i) {
    const Row row = rows[lane_p + i * P_LANES];
    source[i] = row.source;
    UNROLL
    for (int a = 0; a < 3; ++a) at[i][a] = row.at[a];
  }
  const int tile_p = thread % (TILE_P / 4) * 4, tile_q = thread / (TILE_P / 4) % (TILE_Q / 4) * 4,
            slice = thread / (TILE_P / 4 * (TILE_Q / 4));
  OPERAND p_regs[ROWS][STEPS], q_regs[PLAIN];
  sum_t sums[4][4];
  UNROLL
  for (int i = 0; i < 4; ++i) {
    UNROLL
    for (int j = 0; j < 4; ++j) sums[i][j] = 0;
  }

  NO_UNROLL
  for (i64 block = first; block <= last; ++block) {
    if (block > first) {  // the tiles are in registers since the last iteration
      UNROLL
      for (int j = 0; j < STEPS; ++j) {
        UNROLL
        for (int i = 0; i < ROWS; ++i) p_tile[(lane_k + j * K_LANES) * PITCH_P + lane_p + i * P_LANES] = p_regs[i][j];
      }
      UNROLL
      for (int i = 0; i < PLAIN; ++i) {
        const int n = thread + i * THREADS, q = s.plain_fast ? n % TILE_Q : n / TILE_K,
                  k = s.plain_fast ? n / TILE_Q : n % TILE_K;
        if (n < TILE_Q * TILE_K) q_tile[k * PITCH_Q + q] = q_regs[i];
      }
      for (int k = thread; k < TILE_K; k += THREADS)
        steps[k] = make_step(block * TILE_K + k, tile->depth, tile, e, s.channels_fast);
    }
    BARRIER();
    if (block < last) {
      UNROLL
      for (int j = 0; j < STEPS; ++j) {
        const Step step = steps[lane_k + j * K_LANES];
        UNROLL
        for (int i = 0; i < ROWS; ++i) {
          const i64 h = (i64)at[i][0] + step.at[0], v = (i64)at[i][1] + step.at[1], w = (i64)at[i][2] + step.at[2];
          const int inside = h >= 0 && h < SIZE[0] && v >= 0 && v < SIZE[1] && w >= 0 && w < SIZE[2];
          p_regs[i][j] = inside ? (OPERAND)LOAD_FIRST(gathered, source[i] + step.source, seed) : (OPERAND)0;
        }
      }
      UNROLL
      for (int i = 0; i < PLAIN; ++i) {
        const int n = thread + i * THREADS, q = s.plain_fast ? n % TILE_Q : n / TILE_K,
                  k = s.plain_fast ? n / TILE_Q : n % TILE_K;
        const i64 from = n < TILE_Q * TILE_K ? steps[k].plain : -1;
        q_regs[i] = from >= 0 && tile->q0 + q < tile->outputs ? (OPERAND)LOAD_SECOND(plain, from + q * PLAIN_Q, seed)
                                                              : (OPERAND)0;
      }
    }
    if (block > first) {
      UNROLL
      for (int k = 0; k < TILE_K / SLICES; ++k) {
        LOCAL const OPERAND* const p = p_tile + (k * SLICES + slice) * PITCH_P + tile_p;
        LOCAL const OPERAND* const q = q_tile + (k * SLICES + slice) * PITCH_Q + tile_q;
        OPERAND left[4], right[4];
        UNROLL
        for (int i = 0; i < 4; ++i) {
          left[i] = p[i];
          right[i] = q[i];
        }
        UNROLL
        for (int i = 0; i < 4; ++i) {
          UNROLL
          for (int j = 0; j < 4; ++j) sums[i][j] += (sum_t)(left[i] * right[j]);
        }
      }
    }
    BARRIER();
  }

  GLOBAL sum_t* const partial =
      s.splits > 1 ? partials + ((i64)split * s.tiles + TILE_INDEX) * (TILE_P * TILE_Q) : (GLOBAL sum_t*)0;
#if SLICES > 1
  UNROLL
  for (int i = 0; i < 4; ++i) {
    UNROLL
    for (int j = 0; j < 4; ++j) pool[(slice * TILE_Q + tile_q + j) * TILE_P + tile_p + i] = sums[i][j];
  }
  BARRIER();
  for (int i = thread; i < TILE_P * TILE_Q; i += THREADS) {
    const int p = i % TILE_P, q = i / TILE_P;
    sum_t sum = 0;
    for (int k = 0; k < SLICES; ++k) sum += pool[k * TILE_P * TILE_Q + i];
    if (partial)
      partial[i] = sum;
    else if (rows[p].result >= 0 && tile->q0 + q < tile->outputs)
      store_sum(result, rows[p].result + q * RESULT_Q, sum, alpha, beta, seed);
  }
#else
  UNROLL_STORES
  for (int i = 0; i < 4; ++i) {
    const i64 row = rows[tile_p + i].result;
    UNROLL_STORES
    for (int j = 0; j < 4; ++j) {
      if (partial)
        partial[(tile_q + j) * TILE_P + tile_p + i] = sums[i][j];
      else if (row >= 0 && tile->q0 + tile_q + j < tile->outputs)
        store_sum(result, row + (tile_q + j) * RESULT_Q, sums[i][j], alpha, beta, seed);
    }
  }
#endif
}

/// result = alpha * the sum of the splits + beta * result, in a fixed order. A block per tile.
KERNEL THREADS_PER_BLOCK(THREADS)
    sum_splits(GLOBAL const sum_t* RESTRICT partials, GLOBAL STORED(OUT) * result, const ConvSizes z, const ConvSteps t,
               const ConvStrides e, const GeneralShape s, const SCALAR alpha, const SCALAR beta, const u64 seed) {
  SHARED Tile shared;
  LOCAL const Tile* const tile = &shared;
  if (TILE_INDEX >= s.tiles) return;
  if (THREAD(0) == 0) shared = make_tile(TILE_INDEX, z, t, e, s);
  BARRIER();
  if (tile->p0 >= tile->rows) return;
  for (int i = THREAD(0); i < TILE_P * TILE_Q; i += THREADS) {
    const int q = i / TILE_P;
    const i64 row = make_row(tile->p0 + i % TILE_P, tile, e, s.channels_fast).result;
    if (row < 0 || tile->q0 + q >= tile->outputs) continue;
    sum_t sum = 0;
    for (int split = 0; split < s.splits; ++split)
      sum += partials[((i64)split * s.tiles + TILE_INDEX) * (TILE_P * TILE_Q) + i];
    store_sum(result, row + q * RESULT_Q, sum, alpha, beta, seed);
  }
}
