// Tiles of source pixels with their halo in local memory, which direct convolutions copy. Columns are ordered by their
// remainder by the stride first, so that the taps of a run of four pixels are neighbours. Options: SRC_LAST (1:
// channels are innermost), STRIDE_W. Vectors of in_t and copies to local memory must be included before.
// SPDX-License-Identifier: MIT
#pragma once

#define THREADS 256
#define RUN 4

INLINE void copy_element(LOCAL sum_t* to, GLOBAL const in_t* from, int inside) {
#if IN_KIND == KIND_fp32
  copy_bytes(to, from, 4, inside);
#else
  *to = inside ? LOAD(IN, from, 0) : 0;
#endif
}

/// The part of `channels` channels from `src` on; the tile begins at (w0, h0, d0).
INLINE void copy_source(LOCAL sum_t* tile, GLOBAL const in_t* src, const DirectShape* s, const DirectTile* t, int w0,
                        int h0, int d0, int channels) {
  const int lanes = 1 << t->lanes_log, elements = t->halo[0] * (SRC_LAST ? t->chunk : 1);
  const int rows = t->halo[1] * t->halo[2] * (SRC_LAST ? 1 : channels);
  NO_UNROLL
  for (int i = THREAD(0) >> t->lanes_log; i < rows; i += THREADS >> t->lanes_log) {
    const int slice = divide(i, t->by_halo_h), y = i - slice * t->halo[1], plane = divide(slice, t->by_halo_d);
    const int z = slice - plane * t->halo[2], h = h0 + y, d = d0 + z;
    const int inside = (u32)h < (u32)s->src_size[1] && (u32)d < (u32)s->src_size[2];
    GLOBAL const in_t* from = src + ((i64)plane * s->src_channel + (i64)d * s->src_step[2] + (i64)h * s->src_step[1] +
                                     (i64)w0 * s->src_step[0]);
    LOCAL sum_t* to = tile + plane * t->plane + z * t->slice + y * t->row;
    NO_UNROLL
    for (int e = THREAD(0) & (lanes - 1); e < elements; e += lanes) {
      const int col = SRC_LAST ? divide(e, t->by_chunk) : e, c = SRC_LAST ? e - col * t->chunk : 0;
      copy_element(to + c * t->plane + col % STRIDE_W * t->phase + col / STRIDE_W, from + (col * s->src_step[0] + c),
                   inside && (u32)(w0 + col) < (u32)s->src_size[0] && c < channels);
    }
  }
}

/// Of a run, or of a pixel in it.
typedef struct {
  int w, h, d;
} Position;

INLINE Position position_of(const DirectTile* t, int run) {
  Position p;
  const int log = t->log[0] - 2;
  p.w = (run & ((1 << log) - 1)) * RUN;
  p.h = (run >> log) & ((1 << t->log[1]) - 1);
  p.d = run >> (log + t->log[1]);
  return p;
}
