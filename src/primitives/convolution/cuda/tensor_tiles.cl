// Implicit GEMM of any convolution on NVIDIA's matrix units, 1 to 3 spatial dimensions, any strides and groups.
// result[p][q] = sum over k of gathered[p][k] * plain[q][k]:
//   forward        p: pixels of y             q: channels of y   k: taps x channels of x    gathered: x   plain: w
//   backward data  p: pixels of a phase of x  q: channels of x   k: taps x channels of y    gathered: y   plain: w
//   weights        p: taps x channels of x    q: channels of y   k: pixels of y             gathered: x   plain: y
// A gathered element's address is a part that depends on p plus one that depends on k, and so are its coordinates,
// which decide whether it is in the padding. The parts of p are computed once; those of k, a step in advance, by adding
// TILE_K to numbers of mixed radix. Tiles are copied by cp.async, several steps in advance; elements that
// cannot be copied together, or are converted, pass registers, one step in advance.
// Options: IN, OUT, SECOND (as in vector.h, of 8-bit floats), CODES and SECOND_CODES (types of 8-bit operands that
// become IN, which is bf16, on their way through registers), DITHERS_OUT (results are rounded stochastically, as in
// conv_elements.h), FP64 for int8, DIRECTION (0, 1, 2), AXES (2, or 3 with
// depth), CHANNELS_FAST (order of taps x channels), TILE_P, TILE_Q, WARPS_P, WARPS_Q, TILE_STAGES (at least 2),
// RESIDENT; P_UNIT, Q_UNIT (elements copied together: of the gathered and of the plain operand), P_LANES_K, Q_LANES_K
// (units and neighbouring threads lie along k, else along p or q), STORE_UNIT, STORE_Q (results stored together, along
// q or along p); HAS_BIAS, HAS_SCALE, MODE (epilogue.h).
// SPDX-License-Identifier: MIT
#ifdef UNALIGNED
#undef P_UNIT
#undef Q_UNIT
#undef STORE_UNIT
#define P_UNIT 1
#define Q_UNIT 1
#define STORE_UNIT 1
#endif
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/conv_args.h"
#include "kernels/gpu/portable/conv_axis.h"
#include "kernels/gpu/portable/vector.h"
#ifdef DITHERS_OUT
#include "kernels/gpu/portable/conv_elements.h"
#endif
#include "kernels/gpu/portable/local_copy.h"
#ifndef __OPENCL_VERSION__
#include "kernels/gpu/portable/matrix_units.h"
#endif
#include "kernels/gpu/portable/partials.h"

#define IN_BYTES (16 / VECTOR)
#define P_K_MAJOR (P_LANES_K || IN_BYTES != 2)
#define Q_K_MAJOR (Q_LANES_K || IN_BYTES != 2)
#include "kernels/gpu/portable/matrix_tile.h"

#define THREADS (WARPS_P * WARPS_Q * 32)
#define P_TILE (TILE_P * TILE_K)
#define Q_TILE (TILE_Q * TILE_K)
#define STAGE (P_TILE + Q_TILE)
#define OUTSIDE (-(1 << 29))  // a coordinate that stays negative with any other added to it

// A thread copies a unit together or, below four bytes, the elements of four bytes (a quad), along the rows of a tile
// or its columns as that is stored. Elements of a copy, threads side by side, and the copies of each.
#define P_TOGETHER (P_UNIT * IN_BYTES >= 4)
#define Q_TOGETHER (Q_UNIT * IN_BYTES >= 4)
#define P_COPY (P_TOGETHER ? P_UNIT : 4 / IN_BYTES)
#define Q_COPY (Q_TOGETHER ? Q_UNIT : 4 / IN_BYTES)
#define P_LANES (P_LANES_K ? TILE_K / P_COPY : TILE_P / (P_K_MAJOR ? 1 : P_COPY))
#define Q_LANES (Q_LANES_K ? TILE_K / Q_COPY : TILE_Q / (Q_K_MAJOR ? 1 : Q_COPY))
#define P_UNITS (P_TILE / P_COPY / THREADS)
#define Q_UNITS CEIL_DIV(Q_TILE / Q_COPY, THREADS)
#define P_COPY_ROWS (P_TOGETHER || P_K_MAJOR ? 1 : P_COPY)
#define PLACES_HELD (P_LANES_K ? (P_UNITS <= 4 ? P_UNITS : 0) : P_COPY_ROWS)  // in registers

// Results pass local memory in slices: a block of 16 rows of every warp.
#define SLICE_P (WARPS_P * 16)
#define SLICE_PITCH (TILE_Q + (STORE_Q ? 4 : 1))

#if IN_KIND == KIND_int8
typedef struct {
  double alpha, beta;
} Scalars;
typedef out_t bias_t;
typedef int ChannelTerms;
INLINE ChannelTerms channel_terms(GLOBAL const bias_t* bias, GLOBAL const float* scale, i64 channel) { return 0; }
INLINE real finished(sum_t v, GLOBAL const out_t* dst, ChannelTerms c, Scalars s) {
  const real scaled = s.alpha * v;
  return s.beta != 0 ? scaled + s.beta * LOAD(OUT, dst, 0) : scaled;
}
#else
#include "kernels/gpu/portable/epilogue.h"
#endif

/// Numbers of mixed radix, least digit first: three axes, and images (of pixels) or channels (of taps). The digits of a
/// number give its parts of an address, coordinates, and its offset in the plain operand or in the result.
typedef struct {
  int size[4], advance[4], source[4], other[4], at[4], source_at, other_at, base[3];
} Numbers;

// The digits: axis a of pixels and of taps.
#define PIXEL_DIGIT(a) (2 - (a))
#define TAP_DIGIT(a) (CHANNELS_FAST ? 3 - (a) : 2 - (a))
#define CHANNEL_DIGIT (CHANNELS_FAST ? 0 : 3)
#if DIRECTION == 2
#define P_DIGIT(a) TAP_DIGIT(a)
#define K_DIGIT(a) PIXEL_DIGIT(a)
#else
#define P_DIGIT(a) PIXEL_DIGIT(a)
#define K_DIGIT(a) TAP_DIGIT(a)
#endif

/// A tile of the result: its group, first row and column.
typedef struct {
  Numbers p, k;
  int rows, depth, p0, q0, outputs, group;
  i64 gathered_at, plain_at, result_at;
} Tile;

/// A part of an address and of coordinates.
typedef struct {
  int source, at[3];
} __attribute__((aligned(16))) Place;

INLINE void set_digit(LOCAL Numbers* n, int digit, i64 size, i64 source, i64 other, i64 at) {
  n->size[digit] = (int)MAX(size, 1);
  n->source[digit] = (int)source;
  n->other[digit] = (int)other;
  n->at[digit] = (int)at;
}

INLINE void set_tile(LOCAL Tile* tile, i64 index, ConvSizes z, ConvSteps t, ConvStrides e, GeneralShape s) {
  i64 rest = quotient(index, s.tiles_q);
  tile->q0 = (int)(index - rest * s.tiles_q) * TILE_Q;
  i64 next = quotient(rest, s.tiles_p);
  tile->p0 = (int)(rest - next * s.tiles_p) * TILE_P;
#if DIRECTION == 2
  LOCAL Numbers *const pixels = &tile->k, *const taps = &tile->p;
#else
  LOCAL Numbers *const pixels = &tile->p, *const taps = &tile->k;
#endif
  i64 all_pixels = z.n, all_taps = 1, pixels_source = 0, pixels_other = 0, taps_other = 0;
  UNROLL
  for (int i = 2; i >= 0; --i) {
    rest = next;
    next = quotient(rest, PHASES(i));
    const Axis a = make_axis(rest - next * PHASES(i), z.in[i], z.out[i], z.filter[i], t.pad[i], t.stride[i],
                             t.dilation[i], s.tap_step[i], s.tap_delta[i]);
    all_pixels *= a.count;
    all_taps *= a.taps;
    pixels_source += a.base * SOURCE[2 + i];
    pixels->base[i] = (int)a.base;
    taps->base[i] = 0;
#if DIRECTION == 2
    set_digit(pixels, PIXEL_DIGIT(i), a.count, a.in_step * SOURCE[2 + i], e.y[2 + i], a.in_step);
    set_digit(taps, TAP_DIGIT(i), a.taps, a.delta * SOURCE[2 + i], e.w[2 + i], a.delta);
#else
    set_digit(pixels, PIXEL_DIGIT(i), a.count, a.in_step * SOURCE[2 + i], a.out_step * RESULT[2 + i], a.in_step);
    set_digit(taps, TAP_DIGIT(i), a.taps, a.delta * SOURCE[2 + i], a.tap_step * e.w[2 + i], a.delta);
    pixels_other += a.phase * RESULT[2 + i];
    taps_other += a.first * e.w[2 + i];
#endif
  }
  const i64 c = z.c, k = z.k, group = next;
#if DIRECTION == 2
  set_digit(pixels, 3, z.n, SOURCE[0], e.y[0], 0);
  set_digit(taps, CHANNEL_DIGIT, c, SOURCE[1], e.w[1], 0);
  tile->rows = (int)(c * all_taps);
  tile->depth = (int)all_pixels;
  tile->gathered_at = group * c * e.x[1];
  tile->plain_at = group * k * e.y[1];
  tile->result_at = group * k * e.w[0];
#else
  const i64 reduced = DIRECTION == 0 ? c : k;
  set_digit(pixels, 3, z.n, SOURCE[0], RESULT[0], 0);
  set_digit(taps, CHANNEL_DIGIT, reduced, SOURCE[1], e.w[DIRECTION == 0 ? 1 : 0], 0);
  tile->rows = (int)all_pixels;
  tile->depth = (int)(reduced * all_taps);
  tile->gathered_at = group * reduced * SOURCE[1];
  tile->plain_at = group * k * e.w[0];
  tile->result_at = group * (DIRECTION == 0 ? k : c) * RESULT[1];
#endif
  tile->outputs = (int)(DIRECTION == 1 ? c : k);
  tile->group = (int)group;
  pixels->source_at = (int)pixels_source;
  pixels->other_at = (int)pixels_other;
  taps->source_at = 0;
  taps->other_at = (int)taps_other;
  int step = TILE_K;
  UNROLL
  for (int i = 0; i < 4; ++i) {
    const int higher = i < 3 ? step / tile->k.size[i] : 0;
    tile->k.advance[i] = step - higher * tile->k.size[i];
    step = higher;
  }
}

INLINE void set_digits(int* digits, int number, LOCAL const Numbers* n) {
  UNROLL
  for (int i = 0; i < 4; ++i) {
    const int higher = i < 3 ? (int)((u32)number / (u32)n->size[i]) : 0;
    digits[i] = number - higher * n->size[i];
    number = higher;
  }
}

/// Adds TILE_K.
INLINE void advance(int* digits, LOCAL const Numbers* n) {
  int carry = 0;
  UNROLL
  for (int i = 0; i < 4; ++i) {
    digits[i] += n->advance[i] + carry;
    carry = i < 3 && digits[i] >= n->size[i];
    if (carry) digits[i] -= n->size[i];
  }
}

INLINE int other_of(const int* digits, LOCAL const Numbers* n) {
  return n->other_at + digits[0] * n->other[0] + digits[1] * n->other[1] + digits[2] * n->other[2] +
         digits[3] * n->other[3];
}

/// The coordinates along the axes are at these digits.
INLINE Place place_of(const int* digits, LOCAL const Numbers* n, const int digit0, const int digit1, const int digit2) {
  Place place;
  place.source = n->source_at + digits[0] * n->source[0] + digits[1] * n->source[1] + digits[2] * n->source[2] +
                 digits[3] * n->source[3];
  place.at[0] = n->base[0] + digits[digit0] * n->at[digit0];
  place.at[1] = n->base[1] + digits[digit1] * n->at[digit1];
  place.at[2] = n->base[2] + digits[digit2] * n->at[digit2];
  return place;
}

INLINE Place outside(void) {
  Place place;
  place.source = place.at[0] = place.at[1] = 0;
  place.at[2] = OUTSIDE;
  return place;
}

/// The part of row p, of the same for all steps.
INLINE Place row_place(int p, LOCAL const Tile* tile, int* result) {
  *result = -1;
  if (tile->p0 + p >= tile->rows) return outside();
  int digits[4];
  set_digits(digits, tile->p0 + p, &tile->p);
  *result = other_of(digits, &tile->p);
  return place_of(digits, &tile->p, P_DIGIT(0), P_DIGIT(1), P_DIGIT(2));
}

/// What depends on the columns of a step: parts of the gathered operand, offsets in the plain one or -1.
typedef struct {
  Place places[TILE_K];
  int plain[TILE_K];
} Columns;

/// Sets the columns of a step of which the thread has the digits of column `k` = its number, and advances the digits.
INLINE void set_columns(LOCAL Columns* columns, int* digits, i64 step, LOCAL const Tile* tile) {
  const int k = THREAD(0);
  if (k >= TILE_K) return;
  const int exists = step * TILE_K + k < tile->depth;
  columns->plain[k] = exists ? other_of(digits, &tile->k) : -1;
  columns->places[k] = exists ? place_of(digits, &tile->k, K_DIGIT(0), K_DIGIT(1), K_DIGIT(2)) : outside();
  advance(digits, &tile->k);
}

INLINE int is_inside(Place a, Place b, const int* size) {
#if AXES == 3
  if ((u32)(a.at[0] + b.at[0]) >= (u32)size[0]) return 0;
#endif
  return (u32)(a.at[1] + b.at[1]) < (u32)size[1] && (u32)(a.at[2] + b.at[2]) < (u32)size[2];
}

// Row and column of the thread's unit `i`.
#define LANE(lanes) (THREAD(0) % (lanes))
#define LINE(lanes, i) (THREAD(0) / (lanes) + (i) * (THREADS / (lanes)))
#define P_OF(i) (P_LANES_K ? LINE(P_LANES, i) : LANE(P_LANES) * (P_K_MAJOR ? 1 : P_COPY))
#define PK_OF(i) (P_LANES_K ? LANE(P_LANES) * P_COPY : LINE(P_LANES, i) * (P_K_MAJOR ? P_COPY : 1))
#define Q_OF(i) (Q_LANES_K ? LINE(Q_LANES, i) : LANE(Q_LANES) * (Q_K_MAJOR ? 1 : Q_COPY))
#define QK_OF(i) (Q_LANES_K ? LANE(Q_LANES) * Q_COPY : LINE(Q_LANES, i) * (Q_K_MAJOR ? Q_COPY : 1))
#define HAS_Q_UNIT(i) (((i) + 1) * THREADS <= Q_TILE / Q_COPY || THREAD(0) + (i)*THREADS < Q_TILE / Q_COPY)

#include "kernels/gpu/portable/register_copy.h"

/// Copies a tile of the gathered operand to local memory or, by elements, to registers.
INLINE void gather(LOCAL in_t* tile, u32* raw, GLOBAL const OPERAND_T* gathered, LOCAL const Place* rows,
                   const Place* held, LOCAL const Columns* columns, const int* size) {
#if P_LANES_K
  Place fixed[P_TOGETHER ? 1 : P_COPY];
  UNROLL
  for (int w = 0; w < (P_TOGETHER ? 1 : P_COPY); ++w) fixed[w] = columns->places[PK_OF(0) + w];
#endif
  UNROLL
  for (int i = 0; i < P_UNITS; ++i) {
    UNROLL
    for (int w = 0; w < (P_TOGETHER ? 1 : P_COPY); ++w) {
#if P_LANES_K
      const Place row = PLACES_HELD ? held[i] : rows[P_OF(i)], column = fixed[w];
#else
      const Place row = held[P_K_MAJOR ? 0 : w], column = columns->places[PK_OF(i) + (P_K_MAJOR ? w : 0)];
#endif
      const int inside = is_inside(row, column, size), offset = inside ? row.source + column.source : 0;
#if P_TOGETHER
      COPY_UNIT(tile + p_at(P_OF(i), PK_OF(i)), gathered + offset, P_UNIT, inside, raw + i * RAW);
#else
      load_element(gathered + offset, inside, w, raw + i * RAW);
#endif
    }
  }
}

/// The same of the plain operand.
INLINE void copy_plain(LOCAL in_t* tile, u32* raw, GLOBAL const OPERAND_T* plain, LOCAL const Columns* columns,
                       int outputs, int q_stride) {
  UNROLL
  for (int i = 0; i < Q_UNITS; ++i) {
    UNROLL
    for (int w = 0; w < (Q_TOGETHER ? 1 : Q_COPY); ++w) {
      const int q = Q_OF(i) + (Q_K_MAJOR ? 0 : w), k = QK_OF(i) + (Q_K_MAJOR ? w : 0);
      const int column = HAS_Q_UNIT(i) ? columns->plain[k] : -1;
      const int inside = column >= 0 && q < outputs, offset = inside ? column + q * q_stride : 0;
#if Q_TOGETHER
      if (HAS_Q_UNIT(i)) COPY_UNIT(tile + q_at(q, k), plain + offset, Q_UNIT, inside, raw + i * RAW);
#else
      load_element(plain + offset, inside, w, raw + i * RAW);
#endif
    }
  }
}

/// Quads, and units that are widened, from registers to the tiles.
INLINE void store_quads(LOCAL in_t* p_tile, LOCAL in_t* q_tile, const u32* p_raw, const u32* q_raw) {
#if !P_TOGETHER || defined(CODES)
  UNROLL
  for (int i = 0; i < P_UNITS; ++i) STORE_COPY(p_tile + p_at(P_OF(i), PK_OF(i)), p_raw + i * RAW, P_UNIT, CODES);
#endif
#if !Q_TOGETHER || defined(CODES)
  UNROLL
  for (int i = 0; i < Q_UNITS; ++i)
    if (HAS_Q_UNIT(i)) STORE_COPY(q_tile + q_at(Q_OF(i), QK_OF(i)), q_raw + i * RAW, Q_UNIT, SECOND_CODES);
#endif
}

/// Stores STORE_UNIT results as sums for add_partials.
INLINE void store_partials(GLOBAL sum_t* dst, const sum_t* v) {
#if STORE_UNIT % 4 == 0
  UNROLL
  for (int i = 0; i < STORE_UNIT; i += 4) {
    u32x4 u;
    u.x = BITS_OF_SUM(v[i]);
    u.y = BITS_OF_SUM(v[i + 1]);
    u.z = BITS_OF_SUM(v[i + 2]);
    u.w = BITS_OF_SUM(v[i + 3]);
    *(GLOBAL u32x4*)(dst + i) = u;
  }
#else
  UNROLL
  for (int i = 0; i < STORE_UNIT; ++i) dst[i] = v[i];
#endif
}

/// Stores STORE_UNIT results; `bias` and `scale` are at those of the first.
INLINE void store_results(GLOBAL out_t* dst, const sum_t* v, GLOBAL const bias_t* bias, GLOBAL const float* scale,
                          Scalars s) {
#if STORE_UNIT == 1
  STORE(OUT, dst, 0, finished(v[0], dst, channel_terms(bias, scale, 0), s));
#else
  sum_t values[STORE_UNIT];
  UNROLL
  for (int i = 0; i < STORE_UNIT; ++i)
    values[i] = finished(v[i], dst + i, channel_terms(bias, scale, STORE_Q ? i : 0), s);
#if STORE_UNIT == VECTOR
  store_vector(dst, values);
#elif STORE_UNIT == 4
  store4(dst, values);
#elif IN_KIND == KIND_fp32
  dst[0] = values[0];
  dst[1] = values[1];
#else
  *(GLOBAL u32*)dst = PAIR(values[0], values[1]);
#endif
#endif
}

#ifdef DITHERS_OUT
/// The same from element `at` of the tensor on.
INLINE void store_dithered(GLOBAL out_t* dst, i64 at, const sum_t* v, Scalars s, u64 seed) {
  const ChannelTerms none = channel_terms((GLOBAL const bias_t*)0, (GLOBAL const float*)0, 0);
  UNROLL
  for (int i = 0; i < STORE_UNIT; ++i) STORE_OUT(dst - at, at + i, finished(v[i], dst + i, none, s), seed);
}
#endif

/// Blocks: tiles along dimension 0, splits of k along 1, whose sums go to `partials`, `count` of each. The channels in
/// z are those of a group.
KERNEL THREADS_PER_BLOCK_OF(THREADS, RESIDENT)
    tensor_tiles(GLOBAL const OPERAND_T* RESTRICT gathered, GLOBAL const OPERAND_T* RESTRICT plain,
                 GLOBAL out_t* result, GLOBAL sum_t* partials, GLOBAL const bias_t* RESTRICT bias,
                 GLOBAL const float* RESTRICT scale, const ConvSizes z, const ConvSteps t, const ConvStrides e,
                 const GeneralShape s, const i64 count, const Scalars scalars SEED_PARAMETER) {
  LARGE_SHARED(u32x4, pool, TILE_STAGES * STAGE / VECTOR);
  SHARED Place rows[TILE_P];
  SHARED int results[TILE_P];
  SHARED Columns columns[2];
  SHARED Tile shared;
  LOCAL const Tile* const tile = &shared;
  LOCAL in_t* const stages = (LOCAL in_t*)pool;
  const int thread = THREAD(0), lane = thread % 32, warp = thread / 32;
  const int p_warp = warp % WARPS_P * WARP_P, q_warp = warp / WARPS_P * WARP_Q;
  if (thread == 0) set_tile(&shared, BLOCK(0), z, t, e, s);
  BARRIER();
  if (tile->p0 >= tile->rows) return;
  gathered += tile->gathered_at;
  plain += tile->plain_at + (i64)tile->q0 * PLAIN_Q;
  const int outputs = tile->outputs - tile->q0, size[3] = {(int)SIZE[0], (int)SIZE[1], (int)SIZE[2]};
  const int q_stride = (int)PLAIN_Q;
  const i64 steps = (tile->depth + TILE_K - 1) / TILE_K;
  const i64 first = steps * BLOCK(1) / s.splits, last = steps * (BLOCK(1) + 1) / s.splits;

  for (int p = thread; p < TILE_P; p += THREADS) {
    int at;
    rows[p] = row_place(p, tile, &at);
    results[p] = at;
  }
  int digits[4];
  set_digits(digits, (int)(first * TILE_K) + thread, &tile->k);
  set_columns(&columns[0], digits, first, tile);
  BARRIER();
  Place held[MAX(PLACES_HELD, 1)];
  UNROLL
  for (int i = 0; i < PLACES_HELD; ++i) held[i] = rows[P_LANES_K ? P_OF(i) : P_OF(0) + i];
  u32 p_raw[P_UNITS * RAW], q_raw[Q_UNITS * RAW];
  sum_t sums[BLOCKS_P][BLOCKS_Q][4];
  UNROLL
  for (int i = 0; i < BLOCKS_P; ++i) {
    UNROLL
    for (int j = 0; j < BLOCKS_Q; ++j) {
      UNROLL
      for (int v = 0; v < 4; ++v) sums[i][j][v] = 0;
    }
  }

  int slot = 0;  // of the ring of stages, for the next copies
  NO_UNROLL
  for (i64 step = first; step < last + TILE_STAGES - 1; ++step) {
    WAIT_FOR_COPY_GROUPS(TILE_STAGES - 2);
    LOCAL in_t* const target = stages + slot * STAGE;
    slot = slot == TILE_STAGES - 1 ? 0 : slot + 1;
    LOCAL const in_t* const ready = stages + slot * STAGE;  // copied TILE_STAGES - 1 iterations ago
    LOCAL const Columns* const now = &columns[(step - first) & 1];
    if (step < last) {
      gather(target, p_raw, gathered, rows, held, now, size);
      copy_plain(target + P_TILE, q_raw, plain, now, outputs, q_stride);
    }
    commit_copies();
    set_columns(&columns[(step - first + 1) & 1], digits, step + 1, tile);
    if (step >= first + TILE_STAGES - 1) multiply_tiles(ready, ready + P_TILE, p_warp, q_warp, lane, sums);
    if (step < last) store_quads(target, target + P_TILE, p_raw, q_raw);
  }
  BARRIER();

  LOCAL sum_t* const slice = (LOCAL sum_t*)pool;
  result += tile->result_at + (i64)tile->q0 * RESULT_Q;
  partials = s.splits > 1
                 ? (GLOBAL sum_t*)align16(partials) + BLOCK(1) * count + tile->result_at + (i64)tile->q0 * RESULT_Q
                 : (GLOBAL sum_t*)0;
  bias += (i64)tile->group * tile->outputs + tile->q0;
  scale += (i64)tile->group * tile->outputs + tile->q0;
  UNROLL
  for (int i = 0; i < BLOCKS_P; ++i) {
    UNROLL
    for (int j = 0; j < BLOCKS_Q; ++j) {
      UNROLL
      for (int v = 0; v < 4; ++v)
        slice[(warp % WARPS_P * 16 + SUM_ROW(lane, v)) * SLICE_PITCH + q_warp + j * 8 + SUM_COLUMN(lane, v)] =
            sums[i][j][v];
    }
    BARRIER();
    for (int unit = thread; unit < SLICE_P * TILE_Q / STORE_UNIT; unit += THREADS) {
#if STORE_Q
      const int row = unit / (TILE_Q / STORE_UNIT), q = unit % (TILE_Q / STORE_UNIT) * STORE_UNIT;
#else
      const int row = unit % (SLICE_P / STORE_UNIT) * STORE_UNIT, q = unit / (SLICE_P / STORE_UNIT);
#endif
      const int at = results[row / 16 * WARP_P + i * 16 + row % 16];
      if (at < 0 || q >= outputs) continue;
      sum_t v[STORE_UNIT];
#if STORE_Q && STORE_UNIT % 4 == 0
      UNROLL
      for (int u = 0; u < STORE_UNIT; u += 4) local_load4(slice + row * SLICE_PITCH + q + u, v + u);
#else
      UNROLL
      for (int u = 0; u < STORE_UNIT; ++u)
        v[u] = slice[(STORE_Q ? row : row + u) * SLICE_PITCH + q + (STORE_Q ? u : 0)];
#endif
      const i64 offset = at + (i64)q * RESULT_Q;
      if (partials)
        store_partials(partials + offset, v);
      else
#ifdef DITHERS_OUT
        store_dithered(result + offset, tile->result_at + (i64)tile->q0 * RESULT_Q + offset, v, scalars, seed);
#else
        store_results(result + offset, v, bias + q, scale + q, scalars);
#endif
    }
    BARRIER();
  }
}
