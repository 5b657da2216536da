// Sums of all elements of a channel: a block reduces a few channels, always in the same order.
// Options: IN = OUT (type of dy and db), NUM (arithmetic of the sums).
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/elements.h"
#include "kernels/gpu/portable/walk.h"

#define THREADS 512

/// Strides in elements between channels or, for NCHWc, between vectors of channels. `together` neighbouring
/// channels per block; `together` is a power of two.
typedef struct {
  i64 channels, dy_stride, db_stride;
  int dy_vector, db_vector, together;
} Channels;

/// db = alpha * sum + beta * db, in exact arithmetic if `exact` (alpha and beta are -1, 0 or 1).
typedef struct {
  real alpha, beta;
  int exact;
} Scaling;

INLINE i64 channel_at(i64 channel, i64 stride, int vector) { return channel / vector * stride + channel % vector; }

INLINE u64 scaled(num sum, num old, Scaling s) {
#if NUMBERS == NUMBERS_exact
  if (s.exact) {
    const num v = times(num_of((i64)s.alpha), sum);
    return encode(OUT_TYPE, s.beta != 0 ? plus(v, times(num_of((i64)s.beta), old)) : v);
  }
#endif
  const real v = s.alpha * real_of(sum);
  return BITS_OF_REAL(OUT_TYPE, s.beta != 0 ? v + s.beta * real_of(old) : v);
}

INLINE void store_sum(GLOBAL u8* db, i64 at, num sum, Scaling s) {
  const num old = s.beta != 0 ? decode(OUT_TYPE, load_bits(db, SIZE_OF(OUT_TYPE), at)) : num_of(0);
  store_bits(db, SIZE_OF(OUT_TYPE), at, scaled(sum, old, s));
}

/// Reduces channels; the walk iterates over the elements of one channel.
INLINE void reduce_channels(GLOBAL const u8* dy, GLOBAL u8* db, const Walk* w, const Strides* dy_at, Channels c,
                            Scaling s, LOCAL num* sums, const int unit, const int aligned) {
  const int lane = THREAD(0) % c.together, row = THREAD(0) / c.together, rows = THREADS / c.together;
  const i64 channel = (i64)BLOCK(0) * c.together + lane;
  num sum = num_of(0);
  if (channel < c.channels) {
    const i64 from = channel_at(channel, c.dy_stride, c.dy_vector);
    _Pragma("unroll 4") for (int i = row; i < w->count; i += rows) {
      num v[VECTOR];
      i64 at[3];
      const int n = i == w->count - 1 ? w->last : unit;
      locate(w, i, dy_at, dy_at, dy_at, at);
      if (aligned)
        read_unit(dy, IN_TYPE, from + at[0], dy_at->step, unit, n, v);
      else
        read_elements(dy, IN_TYPE, from + at[0], dy_at->step, unit, n, v);
      UNROLL
      for (int j = 0; j < unit; ++j)
        if (j < n) sum = plus(sum, v[j]);
    }
  }
  sums[THREAD(0)] = sum;
  UNROLL
  for (int part = THREADS / 2; part > 0; part /= 2) {
    BARRIER();
    if (part >= c.together && THREAD(0) < part) sums[THREAD(0)] = plus(sums[THREAD(0)], sums[THREAD(0) + part]);
  }
  if (row != 0 || channel >= c.channels) return;
  store_sum(db, channel_at(channel, c.db_stride, c.db_vector), sums[THREAD(0)], s);
}

/// Blocks per cluster share the sums of the same channels through distributed shared memory.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && NUMBERS == NUMBERS_float
#define CLUSTER 8
#define IN_CLUSTERS __cluster_dims__(CLUSTER, 1, 1)
#define CLUSTER_BARRIER() asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory")
INLINE float cluster_sum(LOCAL const float* sum, int block) {
  float v;
  asm volatile("{.reg .u32 a; mapa.shared::cluster.u32 a, %1, %2; ld.shared::cluster.f32 %0, [a];}"
               : "=f"(v)
               : "r"((u32)__cvta_generic_to_shared(sum)), "r"(block)
               : "memory");
  return v;
}
#else
#define CLUSTER 1
#define IN_CLUSTERS
#define CLUSTER_BARRIER()
INLINE num cluster_sum(LOCAL const num* sum, int block) { return *sum; }
#endif
#define MAX_CLUSTER 8  // blocks launched per group of channels
#define PIXELS 4       // per thread in flight

/// Adds every `step`-th pixel from `first` on, PIXELS at a time. `uniform`: pixels have a constant stride.
INLINE void add_strided_pixels(GLOBAL const u8* dy, const Walk* w, const Strides* dy_at, i64 channel, int first,
                               int step, const int uniform, num* sum) {
  for (int i = first; i < w->count; i += step * PIXELS) {
    num v[PIXELS][VECTOR];
    UNROLL
    for (int k = 0; k < PIXELS; ++k) {
      i64 at[3];
      const int pixel = i + k * step;
      UNROLL
      for (int j = 0; j < VECTOR; ++j) v[k][j] = num_of(0);
      if (pixel >= w->count) continue;
      if (uniform)
        at[0] = dy_at->first + pixel * dy_at->stride[0];
      else
        locate(w, pixel, dy_at, dy_at, dy_at, at);
      read_unit(dy, IN_TYPE, channel + at[0], 1, VECTOR, VECTOR, v[k]);
    }
    UNROLL
    for (int k = 0; k < PIXELS; ++k) {
      UNROLL
      for (int j = 0; j < VECTOR; ++j) sum[j] = plus(sum[j], v[k][j]);
    }
  }
}

INLINE void add_pixels(GLOBAL const u8* dy, const Walk* w, const Strides* dy_at, i64 channel, int first, int step,
                       num* sum) {
  if (w->rank == 1)
    add_strided_pixels(dy, w, dy_at, channel, first, step, 1, sum);
  else
    add_strided_pixels(dy, w, dy_at, channel, first, step, 0, sum);
}

/// NHWC: VECTOR channels per thread, `together` vectors of channels per block.
KERNEL THREADS_PER_BLOCK(THREADS)
IN_CLUSTERS
sum_channels_across(GLOBAL const u8* dy, GLOBAL u8* db, const Walk w, const Strides dy_at, const Channels c,
                    const Scaling s) {
  SHARED num sums[VECTOR * THREADS];
  const int part = BLOCK(0) % MAX_CLUSTER, lane = THREAD(0) % c.together, rows = THREADS / c.together;
  const i64 channel = ((i64)(BLOCK(0) / MAX_CLUSTER) * c.together + lane) * VECTOR;
  if (part >= CLUSTER) return;
  num sum[VECTOR];
  UNROLL
  for (int j = 0; j < VECTOR; ++j) sum[j] = num_of(0);
  if (channel < c.channels)
    add_pixels(dy, &w, &dy_at, channel, part * rows + THREAD(0) / c.together, rows * CLUSTER, sum);
  UNROLL
  for (int j = 0; j < VECTOR; ++j) sums[j * THREADS + THREAD(0)] = sum[j];
  for (int other = THREADS / 2; other >= c.together; other /= 2) {
    BARRIER();
    if (THREAD(0) < other) {
      UNROLL
      for (int j = 0; j < VECTOR; ++j)
        sums[j * THREADS + THREAD(0)] = plus(sums[j * THREADS + THREAD(0)], sums[j * THREADS + THREAD(0) + other]);
    }
  }
  CLUSTER_BARRIER();
  if (part == 0 && THREAD(0) < c.together && channel < c.channels) {
    UNROLL
    for (int j = 0; j < VECTOR; ++j) {
      num all = sums[j * THREADS + THREAD(0)];
      UNROLL
      for (int b = 1; b < CLUSTER; ++b) all = plus(all, cluster_sum(sums + j * THREADS + THREAD(0), b));
      store_sum(db, (channel + j) * c.db_stride, all, s);
    }
  }
  CLUSTER_BARRIER();
}

/// NCHW: contiguous planes of `together` neighbouring channels; each thread sums one vector of these planes, in
/// which a second plane may begin, over images. Larger planes are cut into parts that count as images. `parts` blocks
/// share the images; `parts` is a power of two up to MAX_CLUSTER.
KERNEL THREADS_PER_BLOCK(THREADS)
IN_CLUSTERS
sum_channels_planes(GLOBAL const u8* dy, GLOBAL u8* db, const Walk w, const Strides dy_at, const Channels c,
                    const Scaling s, const int vectors, const int parts) {
  SHARED num first[THREADS], second[THREADS];
  const int cluster = MIN(parts, CLUSTER), part = BLOCK(0) % parts, row = THREAD(0) / vectors, rows = THREADS / vectors;
  const int plane = vectors * VECTOR / c.together, at = THREAD(0) % vectors * VECTOR, left = plane - at % plane;
  const i64 channel = (i64)(BLOCK(0) / parts) * c.together;
  if (part >= cluster || channel >= c.channels) return;
  num sum[VECTOR], a = num_of(0), b = num_of(0);
  UNROLL
  for (int j = 0; j < VECTOR; ++j) sum[j] = num_of(0);
  if (row < rows) add_pixels(dy, &w, &dy_at, channel * c.dy_stride + at, part * rows + row, rows * cluster, sum);
  UNROLL
  for (int j = 0; j < VECTOR; ++j)
    if (j < left)
      a = plus(a, sum[j]);
    else
      b = plus(b, sum[j]);
  first[THREAD(0)] = a;
  second[THREAD(0)] = b;
  int half_rows = 1;
  while (2 * half_rows < rows) half_rows *= 2;
  for (int other = half_rows; other > 0; other /= 2) {
    BARRIER();
    const int with = THREAD(0) + other * vectors;
    if (row < other && row + other < rows) {
      first[THREAD(0)] = plus(first[THREAD(0)], first[with]);
      second[THREAD(0)] = plus(second[THREAD(0)], second[with]);
    }
  }
  BARRIER();
  const int lanes = THREADS / c.together, channel_of_block = THREAD(0) / lanes, lane = THREAD(0) % lanes;
  num total = num_of(0);
  for (int v = channel_of_block * plane / VECTOR + lane; v * VECTOR < (channel_of_block + 1) * plane; v += lanes)
    total = plus(total, v * VECTOR < channel_of_block * plane ? second[v] : first[v]);
  BARRIER();
  first[THREAD(0)] = total;
  for (int other = lanes / 2; other > 0; other /= 2) {
    BARRIER();
    if (lane < other) first[THREAD(0)] = plus(first[THREAD(0)], first[THREAD(0) + other]);
  }
  CLUSTER_BARRIER();
  if (part == 0 && lane == 0) {
    num all = first[THREAD(0)];
    for (int k = 1; k < cluster; ++k) all = plus(all, cluster_sum(first + THREAD(0), BLOCK(0) % MAX_CLUSTER + k));
    store_sum(db, channel_at(channel + channel_of_block, c.db_stride, c.db_vector), all, s);
  }
  CLUSTER_BARRIER();
}

#define SUM(name, unit, aligned)                                                                                       \
  KERNEL THREADS_PER_BLOCK(THREADS)                                                                                    \
      name(GLOBAL const u8* dy, GLOBAL u8* db, const Walk w, const Strides dy_at, const Channels c, const Scaling s) { \
    SHARED num sums[THREADS];                                                                                          \
    reduce_channels(dy, db, &w, &dy_at, c, s, sums, unit, aligned);                                                    \
  }
SUM(sum_channels, 1, 0)
SUM(sum_channels_units, VECTOR, 0)
SUM(sum_channels_vectors, VECTOR, 1)
