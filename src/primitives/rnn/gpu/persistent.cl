// All steps of a layer in one direction, forward or backward, for sequences of the same length. A block owns groups of
// hidden units: ROWS rows of the recurrent weights, forward [gate][unit], backward of their transpose, [unit], which
// stay in local memory. A step multiplies them with the state, backward with the gradients of the gates, which the
// blocks exchange through global memory, computes the cells, and waits for the other blocks, all of which must be
// resident. Warps share the depth of the products; their sums are added in order.
// Options: those of rnn_cell.h; BACKWARD; ROWS (16 or 32; backward with MATRIX = 0 also 8); SAMPLES (4, 8, 16 or 32),
// multiplied at once; MATRIX: by matrix units (CUDA, 16 bits, at least 8 samples); on OpenCL LOCAL_BYTES.
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
#define CELLS CEIL_DIV(UNITS* SAMPLES, THREADS)  // of a thread

/// As gpu/persistent.h has it. The blocks exchange two buffers of [samples][depth]: states, or gradients of
/// [gate][unit], zeros behind them; the first begins as the initial state.
typedef struct {
  i64 weights;  // the first recurrent weight in w
  int steps, reversed;
  int depth;  // of the products, rounded up to a multiple of 64
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
#if BACKWARD
  const int unit = group * UNITS + row;
  return unit < s.hidden && k < GATES * s.hidden ? w[(i64)k * s.hidden + unit] : (stored)0;
#else
  const int gate = row / UNITS, unit = group * UNITS + row % UNITS;
  return gate < GATES && unit < s.hidden && k < s.hidden ? w[((i64)gate * s.hidden + unit) * s.hidden + k] : (stored)0;
#endif
}

#if MATRIX

#define KIND_fp16 2
#define KIND_bf16 3
#define IN_KIND PASTE(KIND_, IN)
typedef u16 in_t;
#include "kernels/gpu/portable/matrix_units.h"

#define PARTS WARPS
#define CHUNK 32
#define FETCHED ((ROWS == 16 ? 128 : 96) / SAMPLES)  // chunks of a warp that are on their way, in 64 or 48 registers
#define PITCH(depth) ((depth) + 8)                   // eight rows are in different banks
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

INLINE u32x4 eight_of(GLOBAL const stored* h, int depth, int sample, int samples, int k) {
  const u32x4 none = {0, 0, 0, 0};
  return sample < samples && k < depth ? load_shared(h + (i64)sample * depth + k) : none;
}

/// sums [PARTS][ROWS][SAMPLES + 1] = the weights times the state of samples from `first` on.
INLINE void multiply(LOCAL const stored* weights, GLOBAL const stored* h, int depth, int first, int samples,
                     LOCAL float* sums) {
  const int warp = THREAD(0) / LANES, lane = THREAD(0) % LANES;
  float c[ROWS / 16][SAMPLES / 8][4];
  u32x4 fetched[FETCHED][SAMPLES / 8];
  UNROLL
  for (int i = 0; i < ROWS / 16 * (SAMPLES / 8) * 4; ++i) c[i / 4 / (SAMPLES / 8)][i / 4 % (SAMPLES / 8)][i % 4] = 0;
  h += lane % 4 * 8;
  first += lane / 4;
  UNROLL
  for (int i = 0; i < FETCHED * (SAMPLES / 8); ++i)
    fetched[i / (SAMPLES / 8)][i % (SAMPLES / 8)] =
        eight_of(h, depth, first + i % (SAMPLES / 8) * 8, samples, (warp + i / (SAMPLES / 8) * WARPS) * CHUNK);
  NO_UNROLL
  for (int begin = warp * CHUNK; begin < depth; begin += FETCHED * WARPS * CHUNK) {
    UNROLL
    for (int i = 0; i < FETCHED; ++i) {
      const int k = begin + i * WARPS * CHUNK;
      if (k >= depth) continue;
      u32x4 b[SAMPLES / 8];
      UNROLL
      for (int t = 0; t < SAMPLES / 8; ++t) {
        b[t] = fetched[i][t];
        fetched[i][t] = eight_of(h, depth, first + t * 8, samples, k + FETCHED * WARPS * CHUNK);
      }
      UNROLL
      for (int half = 0; half < 2; ++half) {
        UNROLL
        for (int m = 0; m < ROWS / 16; ++m) {
          u32 a[4];
          load_4_blocks(local_address(weights + (m * 16 + lane % 16) * PITCH(depth) + k + half * 16 + lane / 16 * 8),
                        a);
          UNROLL
          for (int t = 0; t < SAMPLES / 8; ++t) {
            const u32 pairs[2] = {half ? b[t].z : b[t].x, half ? b[t].w : b[t].y};
            mma_16x8x16(a, pairs, c[m][t]);
          }
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

#if defined(__CUDACC__)
#define WARP_BARRIER() __syncwarp()
#else
#define WARP_BARRIER() BARRIER()
#endif
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
/// the state, [depth][sample], in memory that the sums overwrite, and has the next one in registers.
INLINE void multiply(LOCAL const stored* weights, GLOBAL const stored* h, int depth, int first, int samples,
                     LOCAL float* sums) {
  const int warp = THREAD(0) / LANES, lane = THREAD(0) % LANES;
  const int sample = lane % SAMPLES, k_of_lane = lane / SAMPLES * OF_LANE;
  LOCAL float* const chunk = sums + warp * CHUNK * SAMPLES;
  u32x4 next[OF_LANE / PER_LOAD];
  float c[SAMPLES];
  UNROLL
  for (int n = 0; n < SAMPLES; ++n) c[n] = 0;
  h += (i64)(first + sample) * depth + k_of_lane;
#define LOAD_CHUNK(k)                                                                           \
  UNROLL                                                                                        \
  for (int i = 0; i < OF_LANE / PER_LOAD; ++i) {                                                \
    const u32x4 none = {0, 0, 0, 0};                                                            \
    next[i] = none;                                                                             \
    if (first + sample < samples && (k) < depth) next[i] = load_shared(h + (k) + i * PER_LOAD); \
  }
  LOAD_CHUNK(warp * CHUNK)
  // All warps take part in the barriers of the last chunks.
  NO_UNROLL
  for (int begin = 0; begin < depth; begin += WARPS * CHUNK) {
    const int k = begin + warp * CHUNK;
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
    if (k < depth) {
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

INLINE int groups_of_block(Step s) { return CEIL_DIV(CEIL_DIV(s.hidden, UNITS) - BLOCK(0), BLOCKS(0)); }

/// Loads the weights of the block's groups and returns what follows them.
INLINE LOCAL float* load_groups(LOCAL stored* weights, GLOBAL const stored* w, Step s, int depth) {
  for (int i = 0; i < groups_of_block(s); ++i)
    load_weights(weights + i * WEIGHT_ELEMENTS(depth), w, s, BLOCK(0) + i * BLOCKS(0), depth);
  BARRIER();
  return (LOCAL float*)(weights + CEIL_DIV(CEIL_DIV(s.hidden, UNITS), BLOCKS(0)) * WEIGHT_ELEMENTS(depth));
}

/// Of a thread's cells of a group's units, `unit` and `sample` from these on.
INLINE int cell_of(Step s, int number, int* unit, int* sample) {
  const int cell = THREAD(0) + number * THREADS;
  *unit += cell % UNITS;
  *sample += cell / UNITS;
  return cell < UNITS * SAMPLES && *unit < s.hidden && *sample < s.samples;
}

#if defined(__OPENCL_VERSION__)
#define BLOCK_MEMORY SHARED u32x4 memory[LOCAL_BYTES / 16]
#else
#define BLOCK_MEMORY extern SHARED u32x4 memory[]
#endif

#if BACKWARD

// Buffers that a call does not use may be any.
KERNEL THREADS_PER_BLOCK_OF(THREADS, 1)
    all_steps(Step s, GLOBAL const stored* dy, GLOBAL int* arrived, GLOBAL float* carried, GLOBAL const stored* dhy,
              GLOBAL const stored* dcy, GLOBAL stored* dhx, GLOBAL stored* dcx, GLOBAL const stored* gates,
              GLOBAL const stored* previous_h, GLOBAL const float* previous_c, GLOBAL const stored* recurrent_n,
              GLOBAL stored* input_gradient, GLOBAL stored* recurrent_gradient, GLOBAL const stored* w,
              GLOBAL stored* exchanged, Walk walk) {
  BLOCK_MEMORY;
  LOCAL stored* const weights = (LOCAL stored*)memory;
  LOCAL float* const sums = load_groups(weights, w + walk.weights, s, walk.depth);
  // One more for the gradient of the initial state.
  for (int step = 0; step < walk.steps + (s.has_hy ? 1 : 0); ++step) {
    const int is_step = step < walk.steps;
    const i64 row = !is_step ? 0 : (i64)(walk.reversed ? walk.steps - 1 - step : step) * s.samples;
    const Gradients gradients = {dy + row * s.width,
                                 dhy,
                                 dcy,
                                 gates + row * s.gates,
                                 previous_h + row * s.width,
                                 previous_c + row * s.width,
                                 recurrent_n + row * s.width,
                                 carried,
                                 dhx,
                                 dcx,
                                 input_gradient + row * s.gates,
                                 recurrent_gradient + row * s.gates};
    GLOBAL const stored* const before = exchanged + (i64)(step % 2) * s.samples * walk.depth;
    GLOBAL stored* const after = exchanged + (i64)(1 - step % 2) * s.samples * walk.depth;
    s.begun = step + 1 == walk.steps ? 0 : s.samples;
    s.continued = step == 0 ? 0 : s.samples;
    for (int i = 0; i < groups_of_block(s); ++i) {
      const int first_unit = (BLOCK(0) + i * BLOCKS(0)) * UNITS;
      for (int first = 0; first < s.samples; first += SAMPLES) {
        Kept kept[CELLS];
        UNROLL
        for (int c = 0; c < CELLS; ++c) {
          int unit = first_unit, sample = first;
          if (cell_of(s, c, &unit, &sample) && is_step) kept[c] = kept_of(s, gradients, sample, unit);
        }
        if (step > 0) multiply(weights + i * WEIGHT_ELEMENTS(walk.depth), before, walk.depth, first, s.samples, sums);
        BARRIER();
        UNROLL
        for (int c = 0; c < CELLS; ++c) {
          int unit = first_unit, sample = first;
          if (!cell_of(s, c, &unit, &sample)) continue;
          const float product = step > 0 ? sum_of(sums, unit - first_unit, sample - first) : 0.0f;
          const i64 number = (i64)sample * s.hidden + unit;
          if (!is_step) {
            STORE(OUT, dhx, number, product + (MODE == 3 ? carried[number] : 0.0f));
            continue;
          }
          float of_state[GATES];
          gradients_of(s, kept[c], gradients, sample, unit, product, of_state);
          UNROLL
          for (int g = 0; g < GATES; ++g)
            STORE(OUT, after, (i64)sample * walk.depth + g * s.hidden + unit, of_state[g]);
        }
        BARRIER();
      }
    }
    wait_for_blocks(arrived, step + 1);
  }
}

#else

// Buffers that a call does not use may be any.
KERNEL THREADS_PER_BLOCK_OF(THREADS, 1)
    all_steps(Step s, GLOBAL const stored* x, GLOBAL int* arrived, GLOBAL const stored* w, GLOBAL stored* h,
              GLOBAL const stored* cx, GLOBAL float* c, GLOBAL stored* y, GLOBAL stored* hy, GLOBAL stored* cy,
              GLOBAL stored* gates, GLOBAL stored* previous_h, GLOBAL float* previous_c, GLOBAL stored* recurrent_n,
              Walk walk) {
  BLOCK_MEMORY;
  LOCAL stored* const weights = (LOCAL stored*)memory;
  LOCAL float* const sums = load_groups(weights, w + walk.weights, s, walk.depth);
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
    for (int i = 0; i < groups_of_block(s); ++i) {
      const int first_unit = (BLOCK(0) + i * BLOCKS(0)) * UNITS;
      for (int first = 0; first < s.samples; first += SAMPLES) {
        Inputs inputs[CELLS];
        UNROLL
        for (int n = 0; n < CELLS; ++n) {
          int unit = first_unit, sample = first;
          if (cell_of(s, n, &unit, &sample)) inputs[n] = inputs_of(s, x + row * s.x_pitch, w, cx, c, sample, unit);
        }
        multiply(weights + i * WEIGHT_ELEMENTS(walk.depth), before, walk.depth, first, s.samples, sums);
        BARRIER();
        UNROLL
        for (int n = 0; n < CELLS; ++n) {
          int unit = first_unit, sample = first;
          if (!cell_of(s, n, &unit, &sample)) continue;
          float state[GATES];
          UNROLL
          for (int g = 0; g < GATES; ++g) state[g] = sum_of(sums, g * UNITS + unit - first_unit, sample - first);
          const i64 at = (i64)sample * walk.depth + unit;
          const float h_before = LOAD(OUT, before, at);
          STORE(OUT, after, at, next_state(s, inputs[n], results, sample, unit, state, h_before));
        }
        BARRIER();
      }
    }
    wait_for_blocks(arrived, step + 1);
  }
}

#endif
