// NHWC depthwise convolution on NVIDIA matrix units, 16-bit floats, stride 1, forward and backward data. One mma
// multiplies sixteen pixels of a row by eight channels with two diagonal matrices of the channels' taps, which stay in
// registers. A block processes a list of column tiles (TILE_W columns, d.band rows) row by row, prefetching src rows
// into a ring in local memory; each row of src is multiplied with all rows of the filter.
// Options: IN, OUT (the same), DIRECTION (0, 1), FILTER (square, odd), CHANNELS (per block), TILE_W, IMAGES, PER_WARP,
// STAGES (rows of the ring, at most one more than the src rows of a column tile), RESIDENT (blocks per multiprocessor);
// forward with an epilogue: FUSES.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/depthwise_matrix.h"
#include "kernels/gpu/portable/depthwise_epilogue.h"

#define SRC_ROW_BYTES ((WIDTH + IMAGES * (FILTER - 1)) * PITCH * BYTES)
#define SRC_CHUNKS (IMAGES * IN_W * GROUPS)
#define SRC_CHUNKS_PER_THREAD CEIL_DIV(SRC_CHUNKS, THREADS)
#define DST_ROW_BYTES (WIDTH * PITCH * BYTES)
#define RESULTS_AT (STAGES * SRC_ROW_BYTES)  // byte offset of the two result rows, after the ring
#define DST_CHUNKS (IMAGES * TILE_W * GROUPS)
#define DST_CHUNKS_PER_THREAD CEIL_DIV(DST_CHUNKS, THREADS)

/// Filter rows that are in the padding above the first output row of a column tile.
INLINE int rows_above(const DepthwiseShape* d, ColumnTile tile) {
  return MIN(MAX(d->pad_h - tile.row0, 0), FILTER - 1);
}

/// The next src row to copy, its chunk offsets and the number of rows left in its column tile.
typedef struct {
  GLOBAL const in_t* next_row;
  int row, rows_left;
  int chunk_offsets[SRC_CHUNKS_PER_THREAD];
} Source;

/// Sets all but the chunk offsets. `src` is at the block's first channel. `valid` is 0 after the last column tile: then
/// nothing is copied.
INLINE void start_tile(Source* source, ColumnTile tile, int valid, GLOBAL const in_t* src, const DepthwiseShape* d) {
  const int above = rows_above(d, tile);
  source->row = valid ? tile.row0 + above - d->pad_h : d->src_h;
  source->rows_left = tile.rows + FILTER - 1 - above;
  source->next_row = src + ((i64)tile.image * d->src_h + source->row) * (d->src_w * d->channels);
}

INLINE void locate_source(Source* source, ColumnTile tile, int channels, const DepthwiseShape* d) {
  locate_row_chunks(source->chunk_offsets, SRC_CHUNKS_PER_THREAD, IN_W, tile.col0 - d->pad_w, d->images - tile.image,
                    d->src_h, d->src_w, channels, d->channels);
}

INLINE void locate_results(int* dst_offsets, ColumnTile tile, int channels, const DepthwiseShape* d) {
  locate_row_chunks(dst_offsets, DST_CHUNKS_PER_THREAD, TILE_W, tile.col0, d->images - tile.image, d->dst_h, d->dst_w,
                    channels, d->channels);
}

INLINE void copy_row_async(Source* source, u32 smem, const DepthwiseShape* d) {
  if ((u32)source->row < (u32)d->src_h)
    copy_chunks(smem, source->next_row, source->chunk_offsets, SRC_CHUNKS_PER_THREAD, SRC_CHUNKS);
  source->next_row += d->src_w * d->channels;
  ++source->row;
  --source->rows_left;
  commit_copies();
}

/// The channels' taps as diagonals of FILTER * FILTER matrices of 8 x 8: a lane holds two rows of a column.
INLINE void load_taps(GLOBAL const in_t* w, int lane, int inside, u32* taps) {
  const int c = lane / 4, on_diagonal = inside && c / 2 == lane % 4;
  UNROLL
  for (int t = 0; t < TAPS; ++t)
    taps[t] = on_diagonal ? (u32)w[c * TAPS + (DIRECTION == 1 ? TAPS - 1 - t : t)] << (c % 2 * 16) : 0;
}

/// Volatile, so that the compiler does not hoist it out of branches.
INLINE void clear(float (*v)[4]) {
  UNROLL
  for (int t = 0; t < PER_WARP; ++t) {
    UNROLL
    for (int u = 0; u < 4; ++u) asm volatile("mov.f32 %0, 0f00000000;" : "=f"(v[t][u]));
  }
}

/// Multiplies a src row with all filter rows into FILTER result rows; filter row 0 starts the result row `phase`.
INLINE void multiply_row(u32 smem_row, const u32* taps, const int phase, float (*acc)[PER_WARP][4]) {
  const float zeros[4] = {0, 0, 0, 0};
  UNROLL
  for (int t = 0; t < PER_WARP; ++t) {
    UNROLL
    for (int s = 0; s < FILTER; s += 2) {
      u32 v[4];
      if (s + 1 < FILTER)
        load_4_blocks(smem_row + (t * IN_STEP + s) * PITCH * BYTES, v);
      else
        load_2_blocks(smem_row + (t * IN_STEP + s) * PITCH * BYTES, v);
      UNROLL
      for (int r = 0; r < FILTER; ++r) {
        float* sums = acc[(phase + FILTER - r) % FILTER][t];
        const u32* b = taps + r * FILTER + s;
        if (s + 1 < FILTER)
          mma_16x8x16_to(v, b, s == 0 && r == 0 ? zeros : sums, sums);
        else
          mma_16x8x8(v, b[0], sums);
      }
    }
  }
}

/// v = alpha * v + beta * dst; `dst` is at the lane's first pixel. Only the first `pixels` pixels of a row and `images`
/// images are read.
INLINE void scale_results(GLOBAL const out_t* dst, const DepthwiseShape* d, int pixels, int images, float alpha,
                          float beta, float (*v)[4]) {
  UNROLL
  for (int t = 0; t < PER_WARP; ++t) {
    UNROLL
    for (int u = 0; u < 4; ++u) {
      const int image = IMAGES == 1 ? 0 : t, pixel = (IMAGES == 1 ? t * 16 : 0) + u / 2 * 8;
      const i64 at = ((i64)image * d->dst_h * d->dst_w + pixel) * d->channels;
      v[t][u] *= alpha;
      if (beta != 0 && pixel < pixels && image < images) v[t][u] = FMA(beta, LOAD(OUT, dst + at, u % 2), v[t][u]);
    }
  }
}

/// The lane has two neighbouring channels.
INLINE void apply_epilogue(float (*v)[4] FUSED_PARAMETERS) {
  UNROLL
  for (int t = 0; t < PER_WARP; ++t) {
    UNROLL
    for (int u = 0; u < 4; ++u) v[t][u] = FUSED(v[t][u], u % 2);
  }
}

INLINE void write_results(u32 smem_row, const float (*v)[4]) {
  UNROLL
  for (int t = 0; t < PER_WARP; ++t) {
    UNROLL
    for (int h = 0; h < 2; ++h)
      asm volatile("st.shared.b32 [%0], %1;" ::"r"(smem_row + (t * 16 + h * 8) * PITCH * BYTES),
                   "r"(PAIR(v[t][h * 2], v[t][h * 2 + 1]))
                   : "memory");
  }
}

INLINE void store_results(GLOBAL out_t* dst_row, u32 smem_row, const int* dst_offsets) {
  UNROLL
  for (int k = 0; k < DST_CHUNKS_PER_THREAD; ++k)
    if (dst_offsets[k] >= 0 && ((k + 1) * THREADS <= DST_CHUNKS || THREAD(0) + k * THREADS < DST_CHUNKS)) {
      u32x4 v;
      asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                   : "r"(smem_row + k * CHUNK_STEP_BYTES)
                   : "memory");
#ifdef UNALIGNED
      const u32 packed[4] = {v.x, v.y, v.z, v.w};
      UNROLL
      for (int u = 0; u < 8; ++u) dst_row[dst_offsets[k] + u] = (out_t)(packed[u / 2] >> (u % 2 * 16));
#else
      *(GLOBAL u32x4*)(dst_row + dst_offsets[k]) = v;
#endif
    }
}

KERNEL THREADS_PER_BLOCK_OF(THREADS, RESIDENT)
    depthwise_matrix(GLOBAL const in_t* RESTRICT src, GLOBAL const in_t* RESTRICT w, GLOBAL out_t* dst,
                     const DepthwiseShape d, const int column_tiles, const float alpha,
                     const float beta EPILOGUE_PARAMETERS) {
  SHARED in_t ring[(STAGES * SRC_ROW_BYTES + 2 * DST_ROW_BYTES) / BYTES]
      __attribute__((aligned(16)));  // then two result rows
  const int c0 = BLOCK(1) * CHANNELS, channels = MIN(CHANNELS, d.channels - c0), dst_row_stride = d.dst_w * d.channels;
  const int warp = THREAD(0) / 32, lane = THREAD(0) % 32, c = warp % GROUPS * 8, col = warp / GROUPS * (16 * PER_WARP);
  const u32 ring_at = address_in_register(ring), chunk_at = chunk_address(ring_at);
  const u32 load_at = ring_at + ((col + lane % 16 + lane / 16) * PITCH + c) * BYTES;
  const u32 store_at = ring_at + ((col + lane / 4) * PITCH + c + lane % 4 * 2) * BYTES;
  ColumnTile tile = images_column_tile(BLOCK(0), &d);
  Source source;
  int dst_offsets[DST_CHUNKS_PER_THREAD];
  start_tile(&source, tile, 1, src + c0, &d);
  locate_source(&source, tile, channels, &d);
  locate_results(dst_offsets, tile, channels, &d);
  for (int i = 0; i < STAGES - 1; ++i) copy_row_async(&source, chunk_at + i * SRC_ROW_BYTES, &d);
  u32 taps[TAPS];
  load_taps(w + (i64)(c0 + c) * TAPS, lane, c < channels, taps);
  STAGE_TERMS(CHANNELS, c0, channels);
  int read_at = 0, write_at = (STAGES - 1) * SRC_ROW_BYTES, result_at = RESULTS_AT;  // byte offsets in the ring
  NO_UNROLL
  for (int index = BLOCK(0); index < column_tiles; index += BLOCKS(0)) {
    const int above = rows_above(&d, tile);
    const ColumnTile next_tile = images_column_tile(index + BLOCKS(0), &d);
    Source next_source = source;
    start_tile(&next_source, next_tile, index + BLOCKS(0) < column_tiles, src + c0, &d);
    if (!same_columns(&d, tile, next_tile)) locate_source(&next_source, next_tile, channels, &d);
    GLOBAL out_t* dst_row = dst + ((i64)tile.image * d.dst_h + tile.row0) * dst_row_stride + c0;
    float acc[FILTER][PER_WARP][4];
    UNROLL
    for (int r = 0; r < FILTER; ++r) clear(acc[r]);
    int rows_left = tile.rows + FILTER - 1 - above, row = tile.row0 + above - d.pad_h;
    int result_row = above - FILTER;  // last finished result row
    NO_UNROLL
    while (rows_left > 0) {
      UNROLL
      for (int phase = 0; phase < FILTER; ++phase) {
        const int finished = (phase + 1) % FILTER;
        if (rows_left-- <= 0) continue;
        WAIT_FOR_COPY_GROUPS(STAGES - 2);
        if (source.rows_left == 0) source = next_source;
        copy_row_async(&source, chunk_at + write_at, &d);
        if (result_row >= 0) {
          store_results(dst_row, chunk_at + result_at, dst_offsets);
          dst_row += dst_row_stride;
        }
        if ((u32)row++ < (u32)d.src_h)
          multiply_row(load_at + read_at, taps, phase, acc);
        else
          clear(acc[phase]);
        if (++result_row >= 0) {
          if (alpha != 1 || beta != 0) {
            const int first = col + lane / 4, dst_col = tile.col0 + first;
            const int pixels = c < channels ? MIN(TILE_W - first, d.dst_w - dst_col) : 0;
            scale_results(dst_row + (i64)dst_col * d.channels + c + lane % 4 * 2, &d, pixels, d.images - tile.image,
                          alpha, beta, acc[finished]);
          }
          STAGED_TERMS(2, c + lane % 4 * 2);
          apply_epilogue(acc[finished] FUSED_ARGUMENTS);
          result_at = 2 * RESULTS_AT + DST_ROW_BYTES - result_at;
          write_results(store_at + result_at, acc[finished]);
        }
        write_at = read_at;
        read_at = read_at == (STAGES - 1) * SRC_ROW_BYTES ? 0 : read_at + SRC_ROW_BYTES;
      }
    }
    BARRIER();
    store_results(dst_row, chunk_at + result_at, dst_offsets);
    if (!same_columns(&d, tile, next_tile)) locate_results(dst_offsets, next_tile, channels, &d);
    tile = next_tile;
  }
}
