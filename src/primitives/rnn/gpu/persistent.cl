// All steps of a layer in one direction, forward or backward, for sequences of the same length. A block owns groups of
// hidden units: ROWS rows of the recurrent weights, forward [gate][unit], backward of their transpose, [unit], which
// stay in local memory. A step multiplies them with the state, backward with the gradients of the gates, and computes
// the cells. The blocks, all of which must be resident, exchange states through global memory: each step has a place of
// its own, filled with a value that no state has; who needs a state reads it until it is another one. So nothing but a
// state itself says that it is there, and no order of stores matters. Warps share the depth of the products; their sums
// are added in order. Rows of blocks have samples of their own.
// Options: those of rnn_cell.h; BACKWARD; ROWS (16 or 32, with MATRIX also 64, backward
// without it also 8); SAMPLES (4, 8, 16 or 32),
// multiplied at once; SINGLE: a block has one group and no more samples than
// that; MATRIX: by matrix units (CUDA, 16 bits, at least 8 samples); then DEPTH, that of Walk; on OpenCL LOCAL_BYTES.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/rnn_cell.h"

#define THREADS 256
#define LANES 32
#define WARPS (THREADS / LANES)
#if BACKWARD || GATES == 1
#define UNITS ROWS
#else
#define UNITS (ROWS / 4)  // a GRU's fourth gate is 0
#endif
#if defined(__CUDACC__)
#define WAITS 1
#else
#define WAITS 0  // one block has all units
#endif
#define OF_GATE (UNITS * SAMPLES)                     // cells of a group
#define CELLS CEIL_DIV(OF_GATE, THREADS)              // of a thread
#define GATE_CELLS CEIL_DIV(GATES* OF_GATE, THREADS)  // of a thread: gates of cells

/// As gpu/persistent.h has it.
typedef struct {
  i64 weights;  // the first recurrent weight in w
  int steps, reversed;
  int depth;    // of the products, rounded up to a multiple of 64
  int samples;  // of a row of blocks, which exchange nothing with other rows
} Walk;

/// What the blocks exchange at a step: [samples][depth], states, or gradients of [gate][unit]. The first one is the
/// initial state, which was there before.
typedef struct {
  GLOBAL stored* data;
  int end, depth, used;  // of the samples of this row of blocks; used: of the depth
  int waits;
} Exchange;

#define PER_LOAD (16 / (int)sizeof(stored))

/// PER_LOAD elements of an exchange.
INLINE u32x4 load_shared(GLOBAL const stored* p) {
  u32x4 v;
#if defined(__CUDACC__)
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p)
               : "memory");
#else
  v = *(GLOBAL const u32x4*)p;
#endif
  return v;
}

/// Element by element the larger of both, as numbers without a sign.
INLINE u32 larger(u32 a, u32 b) {
#if OUT_TYPE == TYPE_fp32
  return MAX(a, b);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  u32 most;
  asm("max.u16x2 %0, %1, %2;" : "=r"(most) : "r"(a), "r"(b));
  return most;
#else
  return MAX(a & 0xffff0000u, b & 0xffff0000u) | MAX(a & 0xffffu, b & 0xffffu);
#endif
}
INLINE u32 largest(u32x4 v) { return larger(larger(v.x, v.y), larger(v.z, v.w)); }

/// Whether an element is all ones.
INLINE int has_ones(u32 elements) {
  return OUT_TYPE == TYPE_fp32 ? elements == ~0u : ((~elements - 0x10001u) & elements & 0x80008000u) != 0;
}

/// Whether an element of v is not there yet.
INLINE int lacks(u32x4 v) { return has_ones(largest(v)); }

INLINE void hand_over(GLOBAL stored* p, stored v) {
#if !defined(__CUDACC__)
  *p = v;
#elif OUT_TYPE == TYPE_fp32
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" : : "l"(p), "r"(MIN(BITS_OF_FLOAT(v), ~0u - 1)) : "memory");
#else
  asm volatile("st.relaxed.gpu.global.u16 [%0], %1;" : : "l"(p), "h"((u16)MIN(v, 0xfffeu)) : "memory");
#endif
}

INLINE void store_shared(Exchange e, int sample, int k, float v) {
  GLOBAL stored* const p = e.data + (i64)sample * e.depth + k;
  hand_over(p, stored_of(v));
  // The last load of a row ends behind its last element.
  for (int i = e.used; k + 1 == e.used && i % PER_LOAD; ++i) hand_over(p + i - k, 0);
}

/// Row `row` of a group's weights at depth k.
INLINE stored weight_of(GLOBAL const stored* w, Step s, int group, int row, int k) {
#if BACKWARD
  const int unit = group * UNITS + row;
  return unit < s.hidden && k < GATES * s.hidden ? w[(i64)k * s.hidden + unit] : (stored)0;
#else
  const int gate = row / UNITS, unit = group * UNITS + row % UNITS;
  return gate < GATES && unit < s.hidden && k < s.hidden ? w[((i64)gate * s.hidden + unit) * s.hidden + k] : (stored)0;
#endif
}

#if MATRIX

#define KIND_fp32 1
#define KIND_fp16 2
#define KIND_bf16 3
#define IN_KIND PASTE(KIND_, IN)
typedef stored in_t;
#include "kernels/gpu/portable/matrix_units.h"

#define PARTS WARPS
#define CHUNK (4 * PER_LOAD)
#define CHUNKS CEIL_DIV(DEPTH, CHUNK* WARPS)                                                   // of a warp
#define BATCH MIN(CHUNKS, (SAMPLES < 32 ? 256 : OUT_TYPE == TYPE_fp32 ? 128 : 192) / SAMPLES)  // of them in registers
#define TILES (SAMPLES / 8)
#define PITCH(depth) ((depth) + (OUT_TYPE == TYPE_fp32 ? 16 : 8))  // eight rows, of fp32 two, are in different banks
#define WEIGHT_ELEMENTS(depth) (ROWS * PITCH(depth))

/// [row][depth]. A lane has eight neighbours of a chunk of the state, of which an instruction takes four, two by two:
/// weights of 16 bits are in the order that the instruction has them.
INLINE void load_weights(LOCAL stored* to, GLOBAL const stored* w, Step s, int group, int depth) {
  NO_UNROLL
  for (int k = THREAD(0); k < depth; k += THREADS) {
    const int at =
        OUT_TYPE == TYPE_fp32 ? k : k / CHUNK * CHUNK + k / 4 % 2 * 16 + k / 2 % 2 * 8 + k / 8 % 4 * 2 + k % 2;
    NO_UNROLL
    for (int first = 0; first < ROWS; first += 16) {
      UNROLL
      for (int row = first; row < first + 16; ++row) to[row * PITCH(depth) + at] = weight_of(w, s, group, row, k);
    }
  }
}

#if OUT_TYPE == TYPE_fp32

/// The sum of both is the number; TF32 holds `high`, and `low` but for two bits.
INLINE void split(u32 bits, u32* high, u32* low) {
  *high = bits & 0xffffe000u;
  *low = BITS_OF_FLOAT(FLOAT_OF_BITS(bits) - FLOAT_OF_BITS(*high));
}
INLINE void split_4(u32x4 v, u32* high, u32* low) {
  split(v.x, high + 0, low + 0);
  split(v.y, high + 1, low + 1);
  split(v.z, high + 2, low + 2);
  split(v.w, high + 3, low + 3);
}

/// c += the weights from depth k on times a chunk. Three products of the parts have the error of one of fp32.
INLINE void multiply_chunk(LOCAL const stored* weights, int k, const u32x4* chunk, float c[ROWS / 16][TILES][4]) {
  const int lane = THREAD(0) % LANES;
  u32 high[TILES][4], low[TILES][4];
  UNROLL
  for (int t = 0; t < TILES; ++t) split_4(chunk[t], high[t], low[t]);
  UNROLL
  for (int m = 0; m < ROWS / 16; ++m) {
    u32 w_high[2][4], w_low[2][4];
    UNROLL
    for (int i = 0; i < 2; ++i) {
      const int row = m * 16 + i * 8 + lane / 4;
      split_4(*(LOCAL const u32x4*)(weights + row * PITCH(DEPTH) + k + lane % 4 * 4), w_high[i], w_low[i]);
    }
    UNROLL
    for (int j = 0; j < 4; j += 2) {
      const u32 a_high[4] = {w_high[0][j], w_high[1][j], w_high[0][j + 1], w_high[1][j + 1]};
      const u32 a_low[4] = {w_low[0][j], w_low[1][j], w_low[0][j + 1], w_low[1][j + 1]};
      UNROLL
      for (int t = 0; t < TILES; ++t) mma_tf32(a_low, high[t] + j, c[m][t]);
      UNROLL
      for (int t = 0; t < TILES; ++t) mma_tf32(a_high, low[t] + j, c[m][t]);
      UNROLL
      for (int t = 0; t < TILES; ++t) mma_tf32(a_high, high[t] + j, c[m][t]);
    }
  }
}

#else

/// c += the weights from depth k on times a chunk.
INLINE void multiply_chunk(LOCAL const stored* weights, int k, const u32x4* chunk, float c[ROWS / 16][TILES][4]) {
  const int lane = THREAD(0) % LANES;
  UNROLL
  for (int half = 0; half < 2; ++half) {
    UNROLL
    for (int m = 0; m < ROWS / 16; ++m) {
      u32 a[4];
      load_4_blocks(local_address(weights + (m * 16 + lane % 16) * PITCH(DEPTH) + k + half * 16 + lane / 16 * 8), a);
      UNROLL
      for (int t = 0; t < TILES; ++t) {
        const u32 pairs[2] = {half ? chunk[t].z : chunk[t].x, half ? chunk[t].w : chunk[t].y};
        mma_16x8x16(a, pairs, c[m][t]);
      }
    }
  }
}

#endif

/// sums [PARTS][ROWS][SAMPLES + 1] = the weights times the state of samples from `first` on. Matrix units truncate sums
/// of fp32, so these are short.
INLINE void multiply(LOCAL const stored* weights, Exchange e, int first, LOCAL float* sums) {
  const int warp = THREAD(0) / LANES, lane = THREAD(0) % LANES, k_of_lane = warp * CHUNK + lane % 4 * PER_LOAD;
  GLOBAL const stored* const from = e.data + (i64)(first + lane / 4) * DEPTH + k_of_lane;
  float c[ROWS / 16][TILES][4], total[ROWS / 16][TILES][4];
  UNROLL
  for (int i = 0; i < ROWS / 16 * TILES * 4; ++i)
    c[i / 4 / TILES][i / 4 % TILES][i % 4] = total[i / 4 / TILES][i / 4 % TILES][i % 4] = 0;
#define LOAD_PART(n)                                                                           \
  if (first + lane / 4 + (n) % TILES * 8 < e.end &&                                            \
      (begin + (n) / TILES + 1 < CHUNKS || k_of_lane + (CHUNKS - 1) * WARPS * CHUNK < e.used)) \
  fetched[n] = load_shared(from + (begin + (n) / TILES) * WARPS * CHUNK + (n) % TILES * 8 * DEPTH)
  UNROLL
  for (int begin = 0; begin < CHUNKS; begin += BATCH) {
    u32x4 fetched[BATCH * TILES];
    UNROLL
    for (int n = 0; n < BATCH * TILES; ++n) {
      const u32x4 none = {0, 0, 0, 0};
      fetched[n] = none;
      if (begin + n / TILES < CHUNKS) LOAD_PART(n);
    }
    while (e.waits) {
      u32 most = 0;
      UNROLL
      for (int n = 0; n < BATCH * TILES; ++n) most = larger(most, largest(fetched[n]));
      if (!__any_sync(~0u, has_ones(most))) break;
      UNROLL
      for (int n = 0; n < BATCH * TILES; ++n)
        if (lacks(fetched[n])) LOAD_PART(n);
    }
    UNROLL
    for (int i = 0; i < MIN(BATCH, CHUNKS - begin); ++i) {
      const int k = ((begin + i) * WARPS + warp) * CHUNK, is_last = i + 1 == MIN(BATCH, CHUNKS - begin);
      if (begin + i + 1 < CHUNKS || k < DEPTH) multiply_chunk(weights, k, fetched + i * TILES, c);
      UNROLL
      for (int j = 0; OUT_TYPE == TYPE_fp32 && (i % 4 == 3 || is_last) && j < ROWS / 16 * TILES * 4; ++j) {
        total[j / 4 / TILES][j / 4 % TILES][j % 4] += c[j / 4 / TILES][j / 4 % TILES][j % 4];
        c[j / 4 / TILES][j / 4 % TILES][j % 4] = 0;
      }
    }
  }
  UNROLL
  for (int i = 0; i < ROWS / 16 * TILES * 4; ++i) {
    const int m = i / 4 / TILES, t = i / 4 % TILES, j = i % 4;
    sums[(warp * ROWS + m * 16 + lane / 4 + j / 2 * 8) * (SAMPLES + 1) + t * 8 + lane % 4 * 2 + j % 2] =
        c[m][t][j] + total[m][t][j];
  }
}

#else

#if defined(__CUDACC__)
#define WARP_BARRIER() __syncwarp()
#else
#define WARP_BARRIER() BARRIER()
#endif
#define SPLIT (LANES / ROWS)  // lanes with the same row have different depths
#define PARTS (WARPS * SPLIT)
#define CHUNK (512 / SAMPLES < 64 ? 512 / SAMPLES : 64)
#define OF_LANE (CHUNK * SAMPLES / LANES)  // elements of a chunk of the state, 8 or 16 neighbours of a sample
#define WEIGHT_ELEMENTS(depth) (ROWS * (depth))

/// [depth][row].
INLINE void load_weights(LOCAL stored* to, GLOBAL const stored* w, Step s, int group, int depth) {
  NO_UNROLL
  for (int k = THREAD(0); k < depth; k += THREADS) {
    UNROLL
    for (int row = 0; row < ROWS; ++row) to[k * ROWS + row] = weight_of(w, s, group, row, k);
  }
}

/// sums [PARTS][ROWS][SAMPLES + 1] = the weights times the state of samples from `first` on. A warp keeps a chunk of
/// the state, [depth][sample], in memory that the sums overwrite, and has the next one in registers.
INLINE void multiply(LOCAL const stored* weights, Exchange e, int first, LOCAL float* sums) {
  const int warp = THREAD(0) / LANES, lane = THREAD(0) % LANES;
  const int sample = lane % SAMPLES, k_of_lane = lane / SAMPLES * OF_LANE;
  LOCAL float* const chunk = sums + warp * CHUNK * SAMPLES;
  u32x4 next[OF_LANE / PER_LOAD];
  float c[SAMPLES];
  UNROLL
  for (int n = 0; n < SAMPLES; ++n) c[n] = 0;
  const u32x4 none = {0, 0, 0, 0};
  GLOBAL const stored* const from = e.data + (i64)(first + sample) * e.depth;
#define LOAD_VECTOR(k, i) \
  next[i] = first + sample < e.end && (k) + (i)*PER_LOAD < e.used ? load_shared(from + (k) + (i)*PER_LOAD) : none
#define LOAD_CHUNK(k) \
  UNROLL              \
  for (int i = 0; i < OF_LANE / PER_LOAD; ++i) LOAD_VECTOR((k) + k_of_lane, i);
  LOAD_CHUNK(warp * CHUNK)
  // All warps take part in the barriers of the last chunks.
  NO_UNROLL
  for (int begin = 0; begin < e.depth; begin += WARPS * CHUNK) {
    const int k = begin + warp * CHUNK;
    UNROLL
    for (int i = 0; i < OF_LANE / PER_LOAD; ++i)
      while (e.waits && lacks(next[i])) LOAD_VECTOR(k + k_of_lane, i);
    UNROLL
    for (int i = 0; i < OF_LANE; ++i) {
      const u32x4 v = next[i / PER_LOAD];
      const u32 quarters[4] = {v.x, v.y, v.z, v.w};
      const int j = i % PER_LOAD;
      const u32 bits = PER_LOAD == 4 ? quarters[j % 4] : quarters[j / 2 % 4] >> j % 2 * 16;
      chunk[(k_of_lane + i) * SAMPLES + sample] = float_of(OUT_TYPE, PER_LOAD == 4 ? bits : bits & 0xffffu);
    }
    WARP_BARRIER();
    LOAD_CHUNK(k + WARPS * CHUNK)
    if (k < e.depth) {
      for (int d = lane / ROWS; d < CHUNK; d += SPLIT) {
        const float weight = number_of(weights[(k + d) * ROWS + lane % ROWS]);
        UNROLL
        for (int n = 0; n < SAMPLES; ++n) c[n] = FMA(weight, chunk[d * SAMPLES + n], c[n]);
      }
    }
    WARP_BARRIER();
  }
  BARRIER();
  const int part = warp * SPLIT + lane / ROWS;
  UNROLL
  for (int n = 0; n < SAMPLES; ++n) sums[(part * ROWS + lane % ROWS) * (SAMPLES + 1) + n] = c[n];
}

#endif

INLINE float sum_of(LOCAL const float* sums, int row, int sample) {
  float sum = 0;
  UNROLL
  for (int p = 0; p < PARTS; ++p) sum += sums[(p * ROWS + row) * (SAMPLES + 1) + sample];
  return sum;
}

INLINE Exchange exchange(GLOBAL stored* data, Step s, Walk walk, int step) {
  const Exchange e = {data + (i64)step * s.samples * walk.depth, MIN(s.samples, (BLOCK(1) + 1) * walk.samples),
                      walk.depth, (BACKWARD ? GATES : 1) * s.hidden, WAITS && step > 0};
  return e;
}

INLINE int groups_of_block(Step s) { return CEIL_DIV(CEIL_DIV(s.hidden, UNITS) - BLOCK(0), BLOCKS(0)); }

/// Loads the weights of the block's groups and returns what follows them.
INLINE LOCAL float* load_groups(LOCAL stored* weights, GLOBAL const stored* w, Step s, int depth) {
  for (int i = 0; i < groups_of_block(s); ++i)
    load_weights(weights + i * WEIGHT_ELEMENTS(depth), w, s, BLOCK(0) + i * BLOCKS(0), depth);
  BARRIER();
  return (LOCAL float*)(weights + CEIL_DIV(CEIL_DIV(s.hidden, UNITS), BLOCKS(0)) * WEIGHT_ELEMENTS(depth));
}

/// Of a thread's cells of a group's units, `unit` and `sample` from these on.
INLINE int cell_of(Step s, int cell, int end, int* unit, int* sample) {
  *unit += cell % UNITS;
  *sample += cell / UNITS;
  return cell < OF_GATE && *unit < s.hidden && *sample < end;
}

#if defined(__OPENCL_VERSION__)
#define BLOCK_MEMORY SHARED u32x4 memory[LOCAL_BYTES / 16]
#else
#define BLOCK_MEMORY extern SHARED u32x4 memory[]
#endif

// The loops over a block's groups of units and over its samples.
#if SINGLE
#define FOR_GROUPS(i) const int i = 0;
#define FOR_SAMPLES(first, end) const int first = BLOCK(1) * walk.samples;
#else
#define FOR_GROUPS(i) for (int i = 0; i < groups_of_block(s); ++i)
#define FOR_SAMPLES(first, end) for (int first = BLOCK(1) * walk.samples; first < (end); first += SAMPLES)
#endif

#if BACKWARD

INLINE Gradients at_step(Gradients g, Step* s, Walk walk, int step) {
  const i64 row = (i64)(walk.reversed ? walk.steps - 1 - step : step) * s->samples;
  g.dy += row * s->width;
  g.gates += row * s->gates;
  g.previous_h += row * s->width;
  g.previous_c += row * s->width;
  g.recurrent_n += row * s->width;
  g.input_gradient += row * s->gates;
  g.recurrent_gradient += row * s->gates;
  s->begun = step + 1 == walk.steps ? 0 : s->samples;
  s->continued = step == 0 ? 0 : s->samples;
  return g;
}

// Buffers that a call does not use may be any.
KERNEL THREADS_PER_BLOCK_OF(THREADS, 1)
    all_steps(Step s, GLOBAL const stored* dy, GLOBAL float* carried, GLOBAL const stored* dhy,
              GLOBAL const stored* dcy, GLOBAL stored* dhx, GLOBAL stored* dcx, GLOBAL const stored* gates,
              GLOBAL const stored* previous_h, GLOBAL const float* previous_c, GLOBAL const stored* recurrent_n,
              GLOBAL stored* input_gradient, GLOBAL stored* recurrent_gradient, GLOBAL const stored* w,
              GLOBAL stored* exchanged, Walk walk) {
  BLOCK_MEMORY;
  LOCAL stored* const weights = (LOCAL stored*)memory;
  LOCAL float* const sums = load_groups(weights, w + walk.weights, s, walk.depth);
  const Gradients all = {dy,          dhy, dcy, gates,          previous_h,        previous_c,
                         recurrent_n, dhx, dcx, input_gradient, recurrent_gradient};
  Kept kept[CELLS];  // SINGLE: of the step to come
  // One more for the gradient of the initial state.
  for (int step = 0; step < walk.steps + (s.has_hy ? 1 : 0); ++step) {
    const int is_step = step < walk.steps;
    const Exchange before = exchange(exchanged, s, walk, step), after = exchange(exchanged, s, walk, step + 1);
    FOR_GROUPS(i) {
      const int first_unit = (BLOCK(0) + i * BLOCKS(0)) * UNITS;
      FOR_SAMPLES(first, after.end) {
        Terms terms[CELLS];
        UNROLL
        for (int c = 0; c < CELLS; ++c) {
          int unit = first_unit, sample = first;
          if (!cell_of(s, THREAD(0) + c * THREADS, after.end, &unit, &sample)) continue;
          if (!SINGLE || step == 0)
            if (is_step) {
              const Gradients now = at_step(all, &s, walk, step);
              kept[c] = kept_of(s, now, sample, unit);
              if (MODE >= 2 && step > 0) kept[c].carried = carried[(i64)sample * s.hidden + unit];
            }
          terms[c] = terms_of(kept[c]);
          if (SINGLE && step + 1 < walk.steps) {
            const Gradients next = at_step(all, &s, walk, step + 1);
            kept[c] = kept_of(s, next, sample, unit);
          }
        }
        if (step > 0) multiply(weights + i * WEIGHT_ELEMENTS(walk.depth), before, first, sums);
        BARRIER();
        UNROLL
        for (int c = 0; c < CELLS; ++c) {
          int unit = first_unit, sample = first;
          if (!cell_of(s, THREAD(0) + c * THREADS, after.end, &unit, &sample)) continue;
          const float product = step > 0 ? sum_of(sums, unit - first_unit, sample - first) : 0.0f;
          const i64 number = (i64)sample * s.hidden + unit;
          if (!is_step) {
            STORE(OUT, dhx, number, product + (MODE != 3 ? 0.0f : SINGLE ? kept[c].carried : carried[number]));
            continue;
          }
          const Slopes slopes = slopes_of(terms[c], product);
          UNROLL
          for (int g = 0; g < GATES; ++g) store_shared(after, sample, g * s.hidden + unit, slopes.of_state[g]);
          const Gradients now = at_step(all, &s, walk, step);
          write_slopes(s, slopes, now, sample, unit);
          kept[c].carried = slopes.carried;
          if (MODE >= 2 && SINGLE == 0) carried[number] = slopes.carried;
        }
        BARRIER_GLOBAL();
      }
    }
  }
}

#else

// Buffers that a call does not use may be any.
KERNEL THREADS_PER_BLOCK_OF(THREADS, 1)
    all_steps(Step s, GLOBAL const stored* x, GLOBAL const stored* w, GLOBAL stored* h, GLOBAL const stored* cx,
              GLOBAL float* c, GLOBAL stored* y, GLOBAL stored* hy, GLOBAL stored* cy, GLOBAL stored* gates,
              GLOBAL stored* previous_h, GLOBAL float* previous_c, GLOBAL stored* recurrent_n, Walk walk) {
  BLOCK_MEMORY;
  LOCAL stored* const weights = (LOCAL stored*)memory;
  LOCAL float* const values = load_groups(weights, w + walk.weights, s, walk.depth);  // of gates
  LOCAL float* const sums = values + ROWS * SAMPLES;
  Biases biases[GATE_CELLS];
  stored h_before[CELLS];
  float c_before[CELLS];
  for (int step = 0; step < walk.steps; ++step) {
    const i64 row = (i64)(walk.reversed ? walk.steps - 1 - step : step) * s.samples;
    const Results results = {y + row * s.width,
                             hy,
                             cy,
                             gates + row * s.gates,
                             previous_h + row * s.width,
                             previous_c + row * s.width,
                             recurrent_n + row * s.width};
    const Exchange before = exchange(h, s, walk, step), after = exchange(h, s, walk, step + 1);
    s.begun = step == 0 ? 0 : s.samples;
    s.continued = step + 1 == walk.steps ? 0 : s.samples;
    FOR_GROUPS(i) {
      const int first_unit = (BLOCK(0) + i * BLOCKS(0)) * UNITS;
      FOR_SAMPLES(first, after.end) {
        stored in[GATE_CELLS];
        UNROLL
        for (int n = 0; n < GATE_CELLS; ++n) {
          const int item = THREAD(0) + n * THREADS, gate = item / OF_GATE;
          int unit = first_unit, sample = first;
          if (gate >= GATES || !cell_of(s, item % OF_GATE, after.end, &unit, &sample)) continue;
          in[n] = x[(row + sample) * s.x_pitch + gate * s.x_gate + unit];
          if (!SINGLE || step == 0) biases[n] = biases_of(s, w, gate, unit);
        }
        UNROLL
        for (int n = 0; n < CELLS; ++n) {
          int unit = first_unit, sample = first;
          if (SINGLE && step > 0) continue;
          if (!cell_of(s, THREAD(0) + n * THREADS, after.end, &unit, &sample)) continue;
          const i64 number = (i64)sample * s.hidden + unit;
          h_before[n] = before.data[(i64)sample * walk.depth + unit];
          c_before[n] = MODE != 2 ? 0.0f : step > 0 ? c[number] : s.has_cx ? LOAD(OUT, cx, number) : 0.0f;
        }
        multiply(weights + i * WEIGHT_ELEMENTS(walk.depth), before, first, sums);
        BARRIER();
        UNROLL
        for (int n = 0; n < GATE_CELLS; ++n) {
          const int item = THREAD(0) + n * THREADS, gate = item / OF_GATE;
          int unit = first_unit, sample = first;
          if (gate >= GATES || !cell_of(s, item % OF_GATE, after.end, &unit, &sample)) continue;
          const float sum = sum_of(sums, gate * UNITS + unit - first_unit, sample - first);
          const Gate g = gate_of(s, gate, number_of(in[n]), sum, biases[n], sample);
          values[item] = g.value;
          if (MODE == 3 && gate == 2) values[item + OF_GATE] = g.of_state;
        }
        BARRIER();
        UNROLL
        for (int n = 0; n < CELLS; ++n) {
          const int item = THREAD(0) + n * THREADS;
          int unit = first_unit, sample = first;
          if (!cell_of(s, item, after.end, &unit, &sample)) continue;
          float value[GATES];
          UNROLL
          for (int g = 0; g < GATES; ++g) value[g] = values[item + g * OF_GATE];
          const Cell cell =
              next_cell(value, MODE == 3 ? values[item + 3 * OF_GATE] : 0.0f, c_before[n], number_of(h_before[n]));
          store_shared(after, sample, unit, cell.h);
          write_cell(s, cell, results, sample, unit, c_before[n], h_before[n]);
          if (MODE == 2 && SINGLE == 0) c[(i64)sample * s.hidden + unit] = cell.c;
          c_before[n] = cell.c;
          h_before[n] = stored_of(cell.h);
        }
        if (!WAITS) BARRIER_GLOBAL();
      }
    }
  }
}

#endif
