// Batched matrix product on SIMT arithmetic: register tiles, double-buffered operands in local memory, any strides.
// Options: IN, OUT, WIDE (1: fp64 sums), A_ALONG_DEPTH, B_ALONG_DEPTH (1: neighbouring threads load neighbouring
// depths, else neighbouring rows of a or columns of b), FAST_N (1: they store neighbouring columns of c, else rows),
// TILE_M/N/K, THREAD_M/N, RESIDENT (blocks per multiprocessor); unless WIDE: HAS_BIAS (one per column), MODE.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/matmul_shape.h"

typedef STORED(IN) in_t;
typedef STORED(OUT) out_t;
#if WIDE
typedef double sum_t;
#define MULTIPLY_ADD(a, b, c) FMA64(a, b, c)
INLINE void local_load4(LOCAL const sum_t* p, sum_t* v) {
  UNROLL
  for (int i = 0; i < 4; ++i) v[i] = p[i];
}
#else
typedef float sum_t;
#define MULTIPLY_ADD(a, b, c) FMA(a, b, c)
INLINE void local_load4(LOCAL const sum_t* p, sum_t* v) {
  const u32x4 u = *(LOCAL const u32x4*)p;
  v[0] = FLOAT_OF_BITS(u.x);
  v[1] = FLOAT_OF_BITS(u.y);
  v[2] = FLOAT_OF_BITS(u.z);
  v[3] = FLOAT_OF_BITS(u.w);
}
#endif
#include "kernels/gpu/portable/tile.h"
#if WIDE
typedef struct {
  double alpha, beta;
} Scalars;
typedef out_t bias_t;
typedef int ChannelTerms;
INLINE ChannelTerms channel_terms(GLOBAL const bias_t* bias, GLOBAL const float* scale, i64 n) { return 0; }
INLINE sum_t finished(sum_t v, GLOBAL const out_t* c, ChannelTerms n, Scalars s) {
  v *= s.alpha;
  return s.beta != 0 ? FMA64(s.beta, LOAD(OUT, c, 0), v) : v;
}
#else
#include "kernels/gpu/portable/epilogue.h"
#endif

#define LOADS_A (TILE_M * TILE_K / THREADS)
#define LOADS_B (TILE_N * TILE_K / THREADS)

KERNEL THREADS_PER_BLOCK_OF(THREADS, RESIDENT)
    matmul(GLOBAL const in_t* RESTRICT a, GLOBAL const in_t* RESTRICT b, GLOBAL out_t* c, const MatmulShape s,
           const MatmulBatch batch, const i64 a_at, const i64 b_at, const i64 c_at, GLOBAL const bias_t* RESTRICT bias,
           const Scalars scalars) {
  SHARED sum_t a_tile[2][TILE_K * PITCH_M] __attribute__((aligned(16)));
  SHARED sum_t b_tile[2][TILE_K * PITCH_N] __attribute__((aligned(16)));
  const int thread = THREAD(0), per_matrix = s.tiles_m * s.tiles_n, matrix = BLOCK(0) / per_matrix;
  const int block = BLOCK(0) - matrix * per_matrix;
  const int m0 = block / s.tiles_n * TILE_M, n0 = block % s.tiles_n * TILE_N;
  const i64 i2 = matrix % batch.size[2], rest = matrix / batch.size[2], i1 = rest % batch.size[1],
            i0 = rest / batch.size[1];
  a += a_at + i0 * batch.a[0] + i1 * batch.a[1] + i2 * batch.a[2];
  b += b_at + i0 * batch.b[0] + i1 * batch.b[1] + i2 * batch.b[2];
  c += c_at + i0 * batch.c[0] + i1 * batch.c[1] + i2 * batch.c[2];

  // The first element of a tile that this thread loads, and the distances to the next ones.
#if A_ALONG_DEPTH
  const int a_m = thread / TILE_K, a_k = thread % TILE_K, a_m_step = THREADS / TILE_K, a_k_step = 0;
#else
  const int a_m = thread % TILE_M, a_k = thread / TILE_M, a_m_step = 0, a_k_step = THREADS / TILE_M;
#endif
#if B_ALONG_DEPTH
  const int b_n = thread / TILE_K, b_k = thread % TILE_K, b_n_step = THREADS / TILE_K, b_k_step = 0;
#else
  const int b_n = thread % TILE_N, b_k = thread / TILE_N, b_n_step = 0, b_k_step = THREADS / TILE_N;
#endif
  a += (m0 + a_m) * s.a_row + a_k * s.a_depth;
  b += (n0 + b_n) * s.b_column + b_k * s.b_depth;

  sum_t a_regs[LOADS_A], b_regs[LOADS_B];
  sum_t acc[THREAD_M][THREAD_N];
  clear_tile(acc);
  const int tile_m = THREAD_TILE_M(thread) * 4, tile_n = THREAD_TILE_N(thread) * 4;
  const int steps = CEIL_DIV(s.k, TILE_K);

  NO_UNROLL
  for (int step = 0; step <= steps; ++step) {
    if (step < steps) {
      const int depth = s.k - step * TILE_K;  // what is left
      UNROLL
      for (int i = 0; i < LOADS_A; ++i) {
        const int inside = m0 + a_m + i * a_m_step < s.m && a_k + i * a_k_step < depth;
        a_regs[i] = inside ? LOAD(IN, a, i * (a_m_step * s.a_row + a_k_step * s.a_depth)) : 0;
      }
      UNROLL
      for (int i = 0; i < LOADS_B; ++i) {
        const int inside = n0 + b_n + i * b_n_step < s.n && b_k + i * b_k_step < depth;
        b_regs[i] = inside ? LOAD(IN, b, i * (b_n_step * s.b_column + b_k_step * s.b_depth)) : 0;
      }
      a += TILE_K * s.a_depth;
      b += TILE_K * s.b_depth;
    }
    if (step > 0) multiply_tiles(a_tile[(step - 1) & 1] + tile_m, b_tile[(step - 1) & 1] + tile_n, acc);
    if (step < steps) {
      UNROLL
      for (int i = 0; i < LOADS_A; ++i)
        a_tile[step & 1][(a_k + i * a_k_step) * PITCH_M + a_m + i * a_m_step] = a_regs[i];
      UNROLL
      for (int i = 0; i < LOADS_B; ++i)
        b_tile[step & 1][(b_k + i * b_k_step) * PITCH_N + b_n + i * b_n_step] = b_regs[i];
    }
    BARRIER();
  }

  UNROLL
  for (int i = 0; i < THREAD_M; ++i) {
    const int m = m0 + tile_m + i / 4 * QUAD_STEP_M + i % 4;
    UNROLL
    for (int j = 0; j < THREAD_N; ++j) {
      const int n = n0 + tile_n + j / 4 * QUAD_STEP_N + j % 4;
      if (m >= s.m || n >= s.n) continue;
      const i64 at = m * s.c_row + n * s.c_column;
      STORE(OUT, c, at, finished(acc[i][j], c + at, channel_terms(bias, (GLOBAL const float*)0, n), scalars));
    }
  }
}
