// Depthwise convolution with stride 1, filters of any size, columns innermost, any other strides; three directions.
// A block copies lines of src to local memory in 16-byte vectors from the boundary before the first column that it
// needs, whatever the alignment, and zeros for the padding. A thread slides CHUNK taps of a filter row along a window
// in registers and computes COLS results of ROWS rows, `dilation` columns apart: adjacent results if it is 1. COLS is
// odd, so that threads read different banks. Results return through local memory in vectors.
// Options: IN, OUT, DIRECTION (0, 1, 2; src and filter are x and w; dy and the rotated w; x and dy), FILTER_W, CHUNK,
// COLS, ROWS (1 if filter rows are dilated), DILATED (columns), LOCAL_FLOATS; forward and backward data: TAP_FLOATS,
// HAS_BIAS, HAS_SCALE, MODE.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/vector.h"
#include "kernels/gpu/portable/partials.h"

#define THREADS 256
#define WINDOW (COLS + CHUNK - 1)
#define CHUNKS CEIL_DIV(FILTER_W, CHUNK)
#define TAP_PITCH (CEIL_DIV(CHUNKS * CHUNK, 4) * 4)
#if DILATED
#define GAP d.dilation_w
#else
#define GAP 1
#endif

/// A tensor in memory: strides and the size of a plane.
typedef struct {
  GLOBAL const in_t* data;
  i64 image;
  int channel, row, height, width;
  int shift;  // elements between a 16-byte boundary and the first one
} Side;

INLINE int shift_of(GLOBAL const in_t* p) { return (int)(((u64)p & 15) / sizeof(in_t)); }

/// The planes of a block: consecutive ones from `channel` of `image` on; for weights those of `images` images, then
/// those of the next channel.
typedef struct {
  int image, channel, images, channels;
} Planes;

typedef struct {
  int image, channel;
} Plane;

INLINE Plane plane_at(Planes p, int plane) {
  Plane at = {p.image, p.channel + plane};
#if DIRECTION == 2
  if (p.images > 1) {
    at.channel = p.channel + plane / p.images;
    at.image = p.image + plane % p.images;
  }
#else
  while (at.channel >= p.channels) {
    at.channel -= p.channels;
    ++at.image;
  }
#endif
  return at;
}

INLINE i64 first_of(Plane p, i64 image_stride, int channel_stride) {
  return p.image * image_stride + (i64)p.channel * channel_stride;
}

/// Where column `col` of this row begins within its line in local memory.
INLINE int place_in_line(Side s, i64 row_begin, int col) { return (int)(row_begin + col + s.shift) & (VECTOR - 1); }

/// Copies `rows` rows from `row0` on, each from column `col0` on, of `planes` planes: a line of `pitch` floats each.
INLINE void copy_lines(Side s, Planes set, int planes, int rows, int row0, int col0, int pitch, Divider by_vectors,
                       LOCAL sum_t* tile) {
  const int vectors = pitch / VECTOR;
  for (int i = THREAD(0); i < planes * rows * vectors; i += THREADS) {
    const int line = divide(i, by_vectors), plane = rows == 1 ? line : line / rows, row = row0 + line - plane * rows;
    const i64 begin = first_of(plane_at(set, plane), s.image, s.channel) + (i64)row * s.row, end = begin + s.width;
    const i64 at = begin + col0 - place_in_line(s, begin, col0) + (i - line * vectors) * VECTOR;
    const int inside = (u32)row < (u32)s.height;
    sum_t v[VECTOR];
    if (inside && at >= begin && at + VECTOR <= end) {
      load_vector(s.data + at, v);
    } else {
      UNROLL
      for (int u = 0; u < VECTOR; ++u) v[u] = inside && at + u >= begin && at + u < end ? LOAD(IN, s.data, at + u) : 0;
    }
    LOCAL sum_t* to = tile + line * pitch + (i - line * vectors) * VECTOR;
    UNROLL
    for (int u = 0; u < VECTOR; u += 4) {
      u32x4 quad;
      quad.x = BITS_OF_SUM(v[u]);
      quad.y = BITS_OF_SUM(v[u + 1]);
      quad.z = BITS_OF_SUM(v[u + 2]);
      quad.w = BITS_OF_SUM(v[u + 3]);
      *(LOCAL u32x4*)(to + u) = quad;
    }
  }
}

#if DIRECTION != 2
#include "kernels/gpu/portable/epilogue.h"

/// Copies the filters of the planes, rotated for backward data: rows of TAP_PITCH floats.
INLINE void copy_filters(GLOBAL const in_t* w, Planes set, int planes, int filter_h, LOCAL sum_t* taps) {
  for (int i = THREAD(0); i < planes * filter_h * FILTER_W; i += THREADS) {
    const int line = i / FILTER_W, s = i - line * FILTER_W, plane = line / filter_h, r = line - plane * filter_h;
    const i64 filter = (i64)plane_at(set, plane).channel * filter_h * FILTER_W;
#if DIRECTION == 1
    taps[line * TAP_PITCH + s] = LOAD(IN, w, filter + (filter_h - 1 - r) * FILTER_W + FILTER_W - 1 - s);
#else
    taps[line * TAP_PITCH + s] = LOAD(IN, w, filter + r * FILTER_W + s);
#endif
  }
}

/// Adds the products of a window with CHUNK taps, of which the first is tap `first` of the filter row.
INLINE void multiply(const sum_t* v, LOCAL const sum_t* taps, int first, sum_t* acc) {
  UNROLL
  for (int s = 0; s < CHUNK; s += 4) {
    sum_t tap[4];
    local_load4(taps + s, tap);
    UNROLL
    for (int t = 0; t < 4; ++t) {
      if (s + t >= CHUNK || (CHUNKS > 1 && first + s + t >= FILTER_W)) continue;
      UNROLL
      for (int q = 0; q < COLS; ++q) acc[q] = MULTIPLY_ADD(v[(q + s + t) % WINDOW], tap[t], acc[q]);
    }
  }
}

/// Block i computes `planes` planes of dst or, of a larger plane, a tile of tile_h rows and tile_w columns.
KERNEL THREADS_PER_BLOCK(THREADS)
    depthwise_window_planes(GLOBAL const in_t* RESTRICT src, GLOBAL const in_t* RESTRICT w, GLOBAL out_t* dst,
                            CHANNEL_PARAMETERS, const DepthwiseWindowShape d, const Divider by_src_vectors,
                            const Divider by_dst_vectors, const Scalars scalars) {
  SHARED sum_t tile[LOCAL_FLOATS] __attribute__((aligned(16)));
  SHARED sum_t taps[TAP_FLOATS] __attribute__((aligned(16)));
  const int col_tiles = CEIL_DIV(d.dst_w, d.tile_w), tiles = col_tiles * CEIL_DIV(d.dst_h, d.tile_h);
  const int group = BLOCK(0) / tiles, rest = BLOCK(0) - group * tiles, row_tile = rest / col_tiles;
  const int row0 = row_tile * d.tile_h, col0 = (rest - row_tile * col_tiles) * d.tile_w;
  const int rows = MIN(d.tile_h, d.dst_h - row0), cols = MIN(d.tile_w, d.dst_w - col0);
  const i64 first = (i64)group * d.planes, all = (i64)d.images * d.channels;
  const int planes = (int)MIN((i64)d.planes, all - first);
  const Planes set = {(int)(first / d.channels), (int)(first % d.channels), 1, d.channels};
  const Side from = {src, d.src_image, d.src_channel, d.src_row, d.src_h, d.src_w, shift_of(src)};
  const int h0 = row0 - d.pad_h, w0 = col0 - d.pad_w;
  const int begin = MAX(0, h0), end = MIN(d.src_h, h0 + rows + (d.filter_h - 1) * d.dilation_h);
  const int src_rows = MAX(0, end - begin);
  copy_lines(from, set, planes, src_rows, begin, w0, d.src_pitch, by_src_vectors, tile);
  copy_filters(w, set, planes, d.filter_h, taps);
  BARRIER();
  const int units_w = CEIL_DIV(cols, COLS * GAP) * GAP, units_h = CEIL_DIV(rows, ROWS);
  const int line = THREAD(0) / units_w, unit = THREAD(0) - line * units_w, plane = line / units_h;
  const int row = (line - plane * units_h) * ROWS, col = unit / GAP * (COLS * GAP) + unit % GAP;
  const int active = plane < planes;
  sum_t acc[ROWS][COLS];
  UNROLL
  for (int p = 0; p < ROWS; ++p) {
    UNROLL
    for (int q = 0; q < COLS; ++q) acc[p][q] = 0;
  }
  if (active) {
    const i64 plane_begin = first_of(plane_at(set, plane), d.src_image, d.src_channel);
    LOCAL const sum_t* filter = taps + plane * d.filter_h * TAP_PITCH;
    NO_UNROLL
    for (int i = 0; i < d.filter_h + ROWS - 1; ++i) {
      const int h = h0 + row + i * (ROWS == 1 ? d.dilation_h : 1);
      if (h < begin || h >= end) continue;
      LOCAL const sum_t* window = tile + (plane * src_rows + h - begin) * d.src_pitch + col +
                                  place_in_line(from, plane_begin + (i64)h * d.src_row, w0);
      NO_UNROLL
      for (int s0 = 0; s0 < FILTER_W; s0 += CHUNK) {
        sum_t v[WINDOW];
        UNROLL
        for (int j = 0; j < WINDOW; ++j) v[j] = window[(s0 + j) * GAP];
        UNROLL
        for (int p = 0; p < ROWS; ++p)
          if (i >= p && i - p < d.filter_h) multiply(v, filter + (i - p) * TAP_PITCH + s0, s0, acc[p]);
      }
    }
  }
  // The results return through the same local memory.
  const Side to = {0, d.dst_image, d.dst_channel, d.dst_row, d.dst_h, d.dst_w, shift_of((GLOBAL const in_t*)dst)};
  BARRIER();
  if (active) {
    const i64 plane_begin = first_of(plane_at(set, plane), d.dst_image, d.dst_channel);
    UNROLL
    for (int p = 0; p < ROWS; ++p) {
      LOCAL sum_t* results = tile + (plane * rows + row + p) * d.dst_pitch +
                             place_in_line(to, plane_begin + (i64)(row0 + row + p) * d.dst_row, col0);
      UNROLL
      for (int q = 0; q < COLS; ++q)
        if (row + p < rows && col + q * GAP < cols) results[col + q * GAP] = acc[p][q];
    }
  }
  BARRIER();
  const int vectors = d.dst_pitch / VECTOR;
  for (int i = THREAD(0); i < planes * rows * vectors; i += THREADS) {
    const int k = divide(i, by_dst_vectors), j = rows == 1 ? k : k / rows;
    const Plane of_line = plane_at(set, j);
    const i64 row_begin = first_of(of_line, d.dst_image, d.dst_channel) + (i64)(row0 + k - j * rows) * d.dst_row + col0;
    const i64 row_end = row_begin + cols, at = row_begin - place_in_line(to, row_begin, 0) + (i - k * vectors) * VECTOR;
    const ChannelTerms b = CHANNEL_TERMS(of_line.channel);
    LOCAL const sum_t* results = tile + k * d.dst_pitch + (i - k * vectors) * VECTOR;
    if (at >= row_begin && at + VECTOR <= row_end) {
      sum_t v[VECTOR];
      UNROLL
      for (int u = 0; u < VECTOR; u += 4) local_load4(results + u, v + u);
      UNROLL
      for (int u = 0; u < VECTOR; ++u) v[u] = finished(v[u], dst + at + u, b, scalars);
      store_vector(dst + at, v);
    } else {
      for (int u = 0; u < VECTOR; ++u)
        if (at + u >= row_begin && at + u < row_end)
          STORE(OUT, dst, at + u, finished(results[u], dst + at + u, b, scalars));
    }
  }
}

#else

#define TAPS_PER_ROUND 8

/// A block sums CHUNK taps of a filter row for `lanes` channels (a power of two) over every `parts`-th tile: tile_h
/// rows and tile_w columns of `planes` images. THREADS / lanes threads share a channel. partials[part][channel][tap].
KERNEL THREADS_PER_BLOCK(THREADS)
    depthwise_window_planes_weights(GLOBAL const in_t* RESTRICT x, GLOBAL const in_t* RESTRICT dy,
                                    GLOBAL sum_t* partials, const DepthwiseWindowShape d, const int parts,
                                    const Divider by_src_vectors, const Divider by_dst_vectors) {
  SHARED sum_t tile[LOCAL_FLOATS] __attribute__((aligned(16)));
  const int chunks = d.filter_h * CHUNKS, part_of_group = BLOCK(0) / chunks, chunk = BLOCK(0) - part_of_group * chunks;
  const int group = part_of_group / parts, part = part_of_group - group * parts;
  const int r = chunk / CHUNKS, s0 = (chunk - r * CHUNKS) * CHUNK;
  const int col_tiles = CEIL_DIV(d.dst_w, d.tile_w), row_tiles = CEIL_DIV(d.dst_h, d.tile_h);
  const int tiles = CEIL_DIV(d.images, d.planes) * row_tiles * col_tiles;
  const int c0 = group * d.lanes, channels = MIN(d.lanes, d.channels - c0);
  const int slots = THREADS / d.lanes, lane = THREAD(0) / slots, slot = THREAD(0) - lane * slots;
  const Side from = {x, d.src_image, d.src_channel, d.src_row, d.src_h, d.src_w, shift_of(x)};
  const Side to = {dy, d.dst_image, d.dst_channel, d.dst_row, d.dst_h, d.dst_w, shift_of(dy)};
  sum_t acc[CHUNK];
  UNROLL
  for (int s = 0; s < CHUNK; ++s) acc[s] = 0;
  for (int t = part; t < tiles; t += parts) {
    const int line_of_tiles = t / col_tiles, col0 = (t - line_of_tiles * col_tiles) * d.tile_w;
    const int image_tile = line_of_tiles / row_tiles, row0 = (line_of_tiles - image_tile * row_tiles) * d.tile_h;
    const int rows = MIN(d.tile_h, d.dst_h - row0), cols = MIN(d.tile_w, d.dst_w - col0);
    const Planes set = {image_tile * d.planes, c0, MIN(d.planes, d.images - image_tile * d.planes), d.channels};
    const int planes = channels * set.images, src_row0 = row0 - d.pad_h + r * d.dilation_h;
    const int w0 = col0 - d.pad_w + s0 * GAP;
    LOCAL sum_t* dy_tile = tile + d.lanes * d.planes * d.tile_h * d.src_pitch;
    BARRIER();
    copy_lines(from, set, planes, rows, src_row0, w0, d.src_pitch, by_src_vectors, tile);
    copy_lines(to, set, planes, rows, row0, col0, d.dst_pitch, by_dst_vectors, dy_tile);
    BARRIER();
    const int units_w = CEIL_DIV(cols, COLS * GAP) * GAP;
    if (lane >= channels) continue;
    for (int i = slot; i < set.images * rows * units_w; i += slots) {
      const int line = i / units_w, unit = i - line * units_w, image = line / rows, row = line - image * rows;
      if ((u32)(src_row0 + row) >= (u32)d.src_h) continue;
      const int plane = lane * set.images + image, k = plane * rows + row;
      const int col = unit / GAP * (COLS * GAP) + unit % GAP, count = CEIL_DIV(cols - col, GAP);
      LOCAL const sum_t* window =
          tile + k * d.src_pitch + col +
          place_in_line(
              from, first_of(plane_at(set, plane), d.src_image, d.src_channel) + (i64)(src_row0 + row) * d.src_row, w0);
      LOCAL const sum_t* dy_line =
          dy_tile + k * d.dst_pitch + col +
          place_in_line(to, first_of(plane_at(set, plane), d.dst_image, d.dst_channel) + (i64)(row0 + row) * d.dst_row,
                        col0);
      sum_t v[WINDOW];
      UNROLL
      for (int j = 0; j < WINDOW; ++j) v[j] = window[j * GAP];
      UNROLL
      for (int q = 0; q < COLS; ++q)
        if (q < count) {
          const sum_t g = dy_line[q * GAP];
          UNROLL
          for (int s = 0; s < CHUNK; ++s) acc[s] = MULTIPLY_ADD(v[q + s], g, acc[s]);
        }
    }
  }
  GLOBAL sum_t* results = (GLOBAL sum_t*)align16(partials);
  UNROLL
  for (int first = 0; first < CHUNK; first += TAPS_PER_ROUND) {
    BARRIER();
    UNROLL
    for (int s = 0; s < TAPS_PER_ROUND; ++s)
      tile[(slot * TAPS_PER_ROUND + s) * d.lanes + lane] = first + s < CHUNK ? acc[(first + s) % CHUNK] : 0;
    add_slots(tile, TAPS_PER_ROUND * d.lanes, slots);
    for (int i = THREAD(0); i < TAPS_PER_ROUND * d.lanes; i += THREADS) {
      const int s = first + i / d.lanes, c = i % d.lanes;
      if (s < CHUNK && s0 + s < FILTER_W && c < channels)
        results[(((i64)part * d.channels + c0 + c) * d.filter_h + r) * FILTER_W + s0 + s] = tile[i];
    }
  }
}
#endif
