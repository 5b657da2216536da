// The inner loops of a tiled matrix product: two operand tiles in local memory, THREAD_M x THREAD_N accumulators per
// thread. A thread's rows and columns are quads TILE / (THREAD / 4) apart, so that 16-byte reads of neighbouring
// threads touch neighbouring banks.
// SPDX-License-Identifier: MIT
#pragma once

#define THREADS ((TILE_M / THREAD_M) * (TILE_N / THREAD_N))
#define PITCH_M (TILE_M + 4)
#define PITCH_N (TILE_N + 4)
#define QUADS_M (THREAD_M / 4)
#define QUADS_N (THREAD_N / 4)
#define QUAD_STEP_M (TILE_M / QUADS_M)
#define QUAD_STEP_N (TILE_N / QUADS_N)

// Neighbouring threads differ in the coordinate that is contiguous in the result.
#if FAST_N
#define THREAD_TILE_N(thread) ((thread) % (TILE_N / THREAD_N))
#define THREAD_TILE_M(thread) ((thread) / (TILE_N / THREAD_N))
#else
#define THREAD_TILE_M(thread) ((thread) % (TILE_M / THREAD_M))
#define THREAD_TILE_N(thread) ((thread) / (TILE_M / THREAD_M))
#endif

/// acc += a^T b over the TILE_K rows of both tiles; a and b are at the thread's first quad.
INLINE void multiply_tiles(LOCAL const sum_t* a, LOCAL const sum_t* b, sum_t (*acc)[THREAD_N]) {
  UNROLL
  for (int k = 0; k < TILE_K; ++k) {
    sum_t left[THREAD_M], right[THREAD_N];
    UNROLL
    for (int i = 0; i < QUADS_M; ++i) local_load4(a + k * PITCH_M + i * QUAD_STEP_M, left + i * 4);
    UNROLL
    for (int j = 0; j < QUADS_N; ++j) local_load4(b + k * PITCH_N + j * QUAD_STEP_N, right + j * 4);
    UNROLL
    for (int i = 0; i < THREAD_M; ++i) {
      UNROLL
      for (int j = 0; j < THREAD_N; ++j) acc[i][j] = MULTIPLY_ADD(left[i], right[j], acc[i][j]);
    }
  }
}

INLINE void clear_tile(sum_t (*acc)[THREAD_N]) {
  UNROLL
  for (int i = 0; i < THREAD_M; ++i) {
    UNROLL
    for (int j = 0; j < THREAD_N; ++j) acc[i][j] = 0;
  }
}
