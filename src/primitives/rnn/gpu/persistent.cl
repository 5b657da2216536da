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

#include "kernels/gpu/portable/rnn_product.h"

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
