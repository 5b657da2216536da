// All steps of a layer in one direction, for sequences of the same length. A block owns groups of hidden units: ROWS
// rows of the recurrent weights, [gate][unit], which stay in local memory. A step multiplies them with the state, which
// the blocks exchange through global memory, computes the cells, and waits for the other blocks, all of which must be
// resident. Warps share the depth of the products; their sums are added in order.
// Options: those of rnn_cell.h; ROWS (16 or 32); SAMPLES (4, 8, 16 or 32), multiplied at once; MATRIX: by matrix units
// (CUDA, 16 bits, at least 8 samples); on OpenCL LOCAL_BYTES.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/rnn_cell.h"

#define THREADS 256
#define LANES 32
#define WARPS (THREADS / LANES)
#if GATES == 1
#define UNITS ROWS
#else
#define UNITS (ROWS / 4)  // a GRU's fourth gate is 0
#endif

/// As gpu/persistent.h has it. h: two states of [samples][depth], zeros behind the hidden units; begins as the first.
typedef struct {
  i64 weights;  // the first recurrent weight in w
  int steps, reversed;
  int depth;  // hidden units, rounded up to a multiple of 64
} Walk;

/// 16 bytes that another block wrote.
INLINE u32x4 load_shared(GLOBAL const stored* p) {
  u32x4 v;
#if defined(__CUDACC__)
  asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p)
               : "memory");
#else
  v = *(GLOBAL const u32x4*)p;
#endif
  return v;
}

/// Returns when all blocks have called it `times` times.
INLINE void wait_for_blocks(GLOBAL int* arrived, int times) {
  BARRIER_GLOBAL();
#if defined(__CUDACC__)
  if (THREAD(0) == 0 && BLOCKS(0) > 1) {
    __threadfence();
    atomicAdd(arrived, 1);
    int now;
    do {
      asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(now) : "l"(arrived) : "memory");
    } while (now < times * BLOCKS(0));
  }
  BARRIER();
#endif
}

/// Row `row` of a group's weights at depth k.
INLINE stored weight_of(GLOBAL const stored* w, Step s, int group, int row, int k) {
  const int gate = row / UNITS, unit = group * UNITS + row % UNITS;
  return gate < GATES && unit < s.hidden && k < s.hidden ? w[((i64)gate * s.hidden + unit) * s.hidden + k] : (stored)0;
}

#if MATRIX

#define KIND_fp16 2
#define KIND_bf16 3
#define IN_KIND PASTE(KIND_, IN)
typedef u16 in_t;
#include "kernels/gpu/portable/matrix_units.h"

#define PARTS WARPS
#define CHUNK 32
#define PITCH(depth) ((depth) + 8)  // eight rows are in different banks
#define WEIGHT_ELEMENTS(depth) (ROWS * PITCH(depth))

/// [row][depth]. A lane has eight neighbours of a chunk of the state, of which an instruction takes four, two by two:
/// weights are in the order that the instruction has them.
INLINE void load_weights(LOCAL stored* to, GLOBAL const stored* w, Step s, int group, int depth) {
  NO_UNROLL
  for (int k = THREAD(0); k < depth; k += THREADS) {
    const int at = k / CHUNK * CHUNK + k / 4 % 2 * 16 + k / 2 % 2 * 8 + k / 8 % 4 * 2 + k % 2;
    UNROLL
    for (int row = 0; row < ROWS; ++row) to[row * PITCH(depth) + at] = weight_of(w, s, group, row, k);
  }
}

/// sums [PARTS][ROWS][SAMPLES + 1] = the weights times the state of samples from `first` on.
INLINE void multiply(LOCAL const stored* weights, GLOBAL const stored* h, int depth, int first, int samples,
                     LOCAL float* sums) {
  const int warp = THREAD(0) / LANES, lane = THREAD(0) % LANES;
  float c[ROWS / 16][SAMPLES / 8][4];
  u32x4 b[SAMPLES / 8], next[SAMPLES / 8];
  UNROLL
  for (int i = 0; i < ROWS / 16 * (SAMPLES / 8) * 4; ++i) c[i / 4 / (SAMPLES / 8)][i / 4 % (SAMPLES / 8)][i % 4] = 0;
#define LOAD_STATE(chunk)                                                                                             \
  UNROLL                                                                                                              \
  for (int t = 0; t < SAMPLES / 8; ++t) {                                                                             \
    const int sample = first + t * 8 + lane / 4;                                                                      \
    const u32x4 none = {0, 0, 0, 0};                                                                                  \
    next[t] = none;                                                                                                   \
    if (sample < samples && (chunk) < depth) next[t] = load_shared(h + (i64)sample * depth + (chunk) + lane % 4 * 8); \
  }
  LOAD_STATE(warp * CHUNK)
  NO_UNROLL
  for (int k = warp * CHUNK; k < depth; k += WARPS * CHUNK) {
    UNROLL
    for (int t = 0; t < SAMPLES / 8; ++t) b[t] = next[t];
    LOAD_STATE(k + WARPS * CHUNK)
    UNROLL
    for (int half = 0; half < 2; ++half) {
      UNROLL
      for (int m = 0; m < ROWS / 16; ++m) {
        u32 a[4];
        load_4_blocks(local_address(weights + (m * 16 + lane % 16) * PITCH(depth) + k + half * 16 + lane / 16 * 8), a);
        UNROLL
        for (int t = 0; t < SAMPLES / 8; ++t) {
          const u32 pairs[2] = {half ? b[t].z : b[t].x, half ? b[t].w : b[t].y};
          mma_16x8x16(a, pairs, c[m][t]);
        }
      }
    }
  }
  UNROLL
  for (int i = 0; i < ROWS / 16 * (SAMPLES / 8) * 4; ++i) {
    const int m = i / 4 / (SAMPLES / 8), t = i / 4 % (SAMPLES / 8), e = i % 4;
    sums[(warp * ROWS + m * 16 + lane / 4 + e / 2 * 8) * (SAMPLES + 1) + t * 8 + lane % 4 * 2 + e % 2] = c[m][t][e];
  }
}

#else

#define SPLIT (LANES / ROWS)  // lanes with the same row have different depths
#define PARTS (WARPS * SPLIT)
#define CHUNK (512 / SAMPLES < 64 ? 512 / SAMPLES : 64)
#define OF_LANE (CHUNK * SAMPLES / LANES)  // elements of a chunk of the state, 8 or 16 neighbours of a sample
#define PER_LOAD (16 / (int)sizeof(stored))
#define WEIGHT_ELEMENTS(depth) (ROWS * (depth))

/// [depth][row].
INLINE void load_weights(LOCAL stored* to, GLOBAL const stored* w, Step s, int group, int depth) {
  NO_UNROLL
  for (int k = THREAD(0); k < depth; k += THREADS) {
    UNROLL
    for (int row = 0; row < ROWS; ++row) to[k * ROWS + row] = weight_of(w, s, group, row, k);
  }
}

#if OUT_TYPE == TYPE_fp32
INLINE float number_of(stored v) { return v; }
#else
INLINE float number_of(stored v) { return float_of(OUT_TYPE, v); }
#endif

/// sums [PARTS][ROWS][SAMPLES + 1] = the weights times the state of samples from `first` on. A warp keeps a chunk of
/// the state, [depth][sample], in memory that the sums overwrite.
INLINE void multiply(LOCAL const stored* weights, GLOBAL const stored* h, int depth, int first, int samples,
                     LOCAL float* sums) {
  const int warp = THREAD(0) / LANES, lane = THREAD(0) % LANES;
  const int sample = lane % SAMPLES, k_of_lane = lane / SAMPLES * OF_LANE;
  LOCAL float* const chunk = sums + warp * CHUNK * SAMPLES;
  float c[SAMPLES];
  UNROLL
  for (int n = 0; n < SAMPLES; ++n) c[n] = 0;
  // All warps take part in the barriers of the last chunks.
  NO_UNROLL
  for (int begin = 0; begin < depth; begin += WARPS * CHUNK) {
    const int k = begin + warp * CHUNK;
    if (k < depth) {
      UNROLL
      for (int i = 0; i < OF_LANE; i += PER_LOAD) {
        u32x4 v = {0, 0, 0, 0};
        if (first + sample < samples) v = load_shared(h + (i64)(first + sample) * depth + k + k_of_lane + i);
        const u32 quarters[4] = {v.x, v.y, v.z, v.w};
        UNROLL
        for (int j = 0; j < PER_LOAD; ++j) {
          const u32 bits = PER_LOAD == 4 ? quarters[j % 4] : quarters[j / 2 % 4] >> j % 2 * 16;
          chunk[(k_of_lane + i + j) * SAMPLES + sample] = float_of(OUT_TYPE, PER_LOAD == 4 ? bits : bits & 0xffffu);
        }
      }
    }
    BARRIER();
    if (k < depth) {
      for (int d = lane / ROWS; d < CHUNK; d += SPLIT) {
        const float weight = number_of(weights[(k + d) * ROWS + lane % ROWS]);
        UNROLL
        for (int n = 0; n < SAMPLES; ++n) c[n] = FMA(weight, chunk[d * SAMPLES + n], c[n]);
      }
    }
    BARRIER();
  }
  const int part = warp * SPLIT + lane / ROWS;
  UNROLL
  for (int n = 0; n < SAMPLES; ++n) sums[(part * ROWS + lane % ROWS) * (SAMPLES + 1) + n] = c[n];
}

#endif

// Buffers that a call does not use may be any.
KERNEL THREADS_PER_BLOCK_OF(THREADS, 1)
    all_steps(Step s, GLOBAL const stored* x, GLOBAL int* arrived, GLOBAL const stored* w, GLOBAL stored* h,
              GLOBAL const stored* cx, GLOBAL float* c, GLOBAL stored* y, GLOBAL stored* hy, GLOBAL stored* cy,
              GLOBAL stored* gates, GLOBAL stored* previous_h, GLOBAL float* previous_c, GLOBAL stored* recurrent_n,
              Walk walk) {
#if defined(__OPENCL_VERSION__)
  SHARED u32x4 memory[LOCAL_BYTES / 16];
#else
  extern SHARED u32x4 memory[];
#endif
  const int groups = CEIL_DIV(s.hidden, UNITS), of_group = WEIGHT_ELEMENTS(walk.depth);
  const int own = CEIL_DIV(groups - BLOCK(0), BLOCKS(0));
  LOCAL stored* const weights = (LOCAL stored*)memory;
  LOCAL float* const sums = (LOCAL float*)(weights + CEIL_DIV(groups, BLOCKS(0)) * of_group);
  for (int i = 0; i < own; ++i)
    load_weights(weights + i * of_group, w + walk.weights, s, BLOCK(0) + i * BLOCKS(0), walk.depth);
  BARRIER();
  for (int step = 0; step < walk.steps; ++step) {
    const i64 row = (i64)(walk.reversed ? walk.steps - 1 - step : step) * s.samples;
    const Results results = {c,
                             y + row * s.width,
                             hy,
                             cy,
                             gates + row * s.gates,
                             previous_h + row * s.width,
                             previous_c + row * s.width,
                             recurrent_n + row * s.width};
    GLOBAL const stored* const before = h + (i64)(step % 2) * s.samples * walk.depth;
    GLOBAL stored* const after = h + (i64)(1 - step % 2) * s.samples * walk.depth;
    s.begun = step == 0 ? 0 : s.samples;
    s.continued = step + 1 == walk.steps ? 0 : s.samples;
    for (int i = 0; i < own; ++i) {
      const int first_unit = (BLOCK(0) + i * BLOCKS(0)) * UNITS;
      for (int first = 0; first < s.samples; first += SAMPLES) {
        multiply(weights + i * of_group, before, walk.depth, first, s.samples, sums);
        BARRIER();
        for (int cell = THREAD(0); cell < UNITS * SAMPLES; cell += THREADS) {
          const int of_block = cell % UNITS, unit = first_unit + of_block, sample = first + cell / UNITS;
          if (unit >= s.hidden || sample >= s.samples) continue;
          float state[GATES];
          UNROLL
          for (int g = 0; g < GATES; ++g) {
            state[g] = 0;
            UNROLL
            for (int p = 0; p < PARTS; ++p)
              state[g] += sums[(p * ROWS + g * UNITS + of_block) * (SAMPLES + 1) + cell / UNITS];
          }
          const i64 at = (i64)sample * walk.depth + unit;
          const float h_before = LOAD(OUT, before, at);
          STORE(OUT, after, at, next_state(s, x + row * s.x_pitch, w, cx, results, sample, unit, state, h_before));
        }
        BARRIER();
      }
    }
    wait_for_blocks(arrived, step + 1);
  }
}
