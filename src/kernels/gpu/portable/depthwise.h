// Shared by the NHWC depthwise kernels: a thread computes VEC neighbouring channels of a tile of pixels.
// SPDX-License-Identifier: MIT
#pragma once

#ifndef THREADS
#define THREADS 256
#endif
#define TAPS (FILTER_H * FILTER_W)
#define MAX_CHANNELS 128  // per block

#if VEC == 4
#define LOAD_VEC(p, v) load4(p, v)
#define STORE_VEC(p, v) store4(p, v)
#elif VEC == 2
#define LOAD_VEC(p, v) ((v)[0] = LOAD(IN, p, 0), (v)[1] = LOAD(IN, p, 1))
#define STORE_VEC(p, v) store2(p, v)
#elif VEC == VECTOR
#define LOAD_VEC(p, v) load_vector(p, v)
#define STORE_VEC(p, v) store_vector(p, v)
#else
#define LOAD_VEC(p, v) ((v)[0] = LOAD(IN, p, 0))
#define STORE_VEC(p, v) STORE(OUT, p, 0, (v)[0])
#endif

/// The image, first row and first column of a thread's tile.
typedef struct {
  int image, row, col;
} Tile;

INLINE Tile tile_at(int index, int rows, int cols, int tile_rows) {
  Tile t;
  t.image = index / (rows * cols);
  const int rest = index - t.image * rows * cols, row = rest / cols;
  t.row = row * tile_rows;
  t.col = (rest - row * cols) * COLS;
  return t;
}

// The filter in local memory, [tap][quad of a vector][vector][4]; [tap][channel] if VEC is 1.
#if VEC == 1
#define FILTER_AT(tap, part, lane, vectors) ((tap) * (vectors) + (lane))
#define LOAD_TAP(w, tap, vectors, v) ((v)[0] = (w)[(tap) * (vectors)])
#define LANE_AT(lane) (lane)
#else
#define FILTER_AT(tap, part, lane, vectors) ((((tap) * (VEC / 4) + (part)) * (vectors) + (lane)) * 4)
#define LANE_AT(lane) ((lane)*4)
INLINE void load_tap(LOCAL const sum_t* w, int tap, int vectors, sum_t* v) {
  UNROLL
  for (int part = 0; part < VEC / 4; ++part) local_load4(w + FILTER_AT(tap, part, 0, vectors), v + part * 4);
}
#define LOAD_TAP(w, tap, vectors, v) load_tap(w, tap, vectors, v)
#endif

INLINE void load_or_zero(GLOBAL const in_t* p, int inside, sum_t* v) {
  UNROLL
  for (int u = 0; u < VEC; ++u) v[u] = 0;
  if (inside) LOAD_VEC(p, v);
}

INLINE void multiply_add(const sum_t* a, const sum_t* b, sum_t* c) {
  UNROLL
  for (int u = 0; u < VEC; ++u) c[u] = MULTIPLY_ADD(a[u], b[u], c[u]);
}
