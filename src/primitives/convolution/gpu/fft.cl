// Convolution by Fourier transforms of 16 x 16 tiles: the transforms around the products, one of which there is for
// each of the 9 x 16 frequencies that a real tile has. Complex numbers are pairs of channels, real parts first. Each
// line of a tile is a 16-point transform of one thread (radix 2, decimation in time). Told by -D: IN, OUT.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable.h"
#include "kernels/gpu/vector.h"

#define SIDE 16
#define HALF 9  // columns of the transform of real rows: the others are their mirror image
#define TILES_PER_BLOCK 16
#define THREADS (TILES_PER_BLOCK * SIDE)
#define PITCH (SIDE + 1)

/// Places of tiles: `step` outputs apart in both dimensions. A block takes TILES_PER_BLOCK of channels x tiles.
typedef struct {
  int channels, height, width, pad_h, pad_w, step_h, step_w, tiles_h, tiles_w, tiles;
} Tiles;

typedef struct {
  i64 image, channel, row, col;
} Places;

/// In place; `sign` is -1 forward, 1 backward (which is not scaled).
INLINE void transform(float* re, float* im, float sign) {
  const float cosine[8] = {1, 0.9238795325f,  0.7071067812f,  0.3826834324f,
                           0, -0.3826834324f, -0.7071067812f, -0.9238795325f};
  const float sine[8] = {0, 0.3826834324f, 0.7071067812f, 0.9238795325f,
                         1, 0.9238795325f, 0.7071067812f, 0.3826834324f};
  float a[SIDE], b[SIDE];
  UNROLL
  for (int i = 0; i < SIDE; ++i) {
    const int reversed = (i & 1) << 3 | (i & 2) << 1 | (i & 4) >> 1 | (i & 8) >> 3;
    a[i] = re[reversed], b[i] = im[reversed];
  }
  UNROLL
  for (int level = 0; level < 4; ++level) {
    UNROLL
    for (int i = 0; i < SIDE / 2; ++i) {
      const int span = 1 << level, k = i & (span - 1), low = (i - k) * 2 + k, high = low + span;
      const float c = cosine[k << (3 - level)], s = sign * sine[k << (3 - level)];
      const float x = c * a[high] - s * b[high], y = c * b[high] + s * a[high];
      a[high] = a[low] - x, b[high] = b[low] - y;
      a[low] += x, b[low] += y;
    }
  }
  UNROLL
  for (int i = 0; i < SIDE; ++i) re[i] = a[i], im[i] = b[i];
}

#define LINE(tile, row) (((tile)*SIDE + (row)) * PITCH)

/// Rows are transformed; column `lane` of the tile follows and goes out as frequencies (lane, 0 to 15), `step` apart,
/// imaginary parts `to_imaginary` behind real ones. Threads of a tile's unused columns do nothing.
INLINE void columns_out(LOCAL const float* real, LOCAL const float* imaginary, int tile, int lane, GLOBAL float* to,
                        i64 step, i64 to_imaginary) {
  float re[SIDE], im[SIDE];
  UNROLL
  for (int i = 0; i < SIDE; ++i) re[i] = real[LINE(tile, i) + lane], im[i] = imaginary[LINE(tile, i) + lane];
  transform(re, im, -1);
  UNROLL
  for (int i = 0; i < SIDE; ++i) {
    to[(lane * SIDE + i) * step] = re[i];
    to[(lane * SIDE + i) * step + to_imaginary] = im[i];
  }
}

INLINE void row_in(LOCAL float* real, LOCAL float* imaginary, int tile, int lane, float* re) {
  float im[SIDE];
  UNROLL
  for (int i = 0; i < SIDE; ++i) im[i] = 0;
  transform(re, im, -1);
  UNROLL
  for (int i = 0; i < HALF; ++i) real[LINE(tile, lane) + i] = re[i], imaginary[LINE(tile, lane) + i] = im[i];
}

/// Windows of x (or dy) as (frequency, part, channel, tile).
KERNEL THREADS_PER_BLOCK(THREADS)
    fft_source(GLOBAL const in_t* RESTRICT x, GLOBAL float* spectrum, const i64 begin, const Tiles s, const Places e) {
  SHARED float real[TILES_PER_BLOCK * SIDE * PITCH], imaginary[TILES_PER_BLOCK * SIDE * PITCH];
  const int tile = THREAD(0) % TILES_PER_BLOCK, lane = THREAD(0) / TILES_PER_BLOCK;
  const i64 all = (i64)s.channels * s.tiles, index = (i64)BLOCK(0) * TILES_PER_BLOCK + tile;
  const int channel = (int)(index / s.tiles), at = (int)(index % s.tiles), image = at / (s.tiles_h * s.tiles_w);
  const int rest = at - image * s.tiles_h * s.tiles_w;
  const int h = rest / s.tiles_w * s.step_h - s.pad_h + lane, w0 = rest % s.tiles_w * s.step_w - s.pad_w;
  GLOBAL const in_t* from = x + image * e.image + channel * e.channel + h * e.row;
  float re[SIDE];
  UNROLL
  for (int i = 0; i < SIDE; ++i) {
    const int inside = index < all && (u32)h < (u32)s.height && (u32)(w0 + i) < (u32)s.width;
    re[i] = inside ? LOAD(IN, from, (w0 + i) * e.col) : 0;
  }
  row_in(real, imaginary, tile, lane, re);
  BARRIER();
  if (lane < HALF && index < all) columns_out(real, imaginary, tile, lane, spectrum + begin + index, 2 * all, all);
}

/// Filters as the real matrices of complex products: (frequency, part and output channel, part and input channel) of
/// conj(w). `turned` by half a turn for backward data.
KERNEL THREADS_PER_BLOCK(THREADS)
    fft_filters(GLOBAL const in_t* RESTRICT w, GLOBAL float* spectrum, const i64 begin, const int outputs,
                const int inputs, const int filter_h, const int filter_w, const int flipped, const Places e) {
  SHARED float real[TILES_PER_BLOCK * SIDE * PITCH], imaginary[TILES_PER_BLOCK * SIDE * PITCH];
  const int tile = THREAD(0) % TILES_PER_BLOCK, lane = THREAD(0) / TILES_PER_BLOCK;
  const i64 all = (i64)outputs * inputs, index = (i64)BLOCK(0) * TILES_PER_BLOCK + tile;
  const int k = (int)(index / inputs), c = (int)(index % inputs), r = flipped ? filter_h - 1 - lane : lane;
  GLOBAL const in_t* from = w + k * e.image + c * e.channel + r * e.row;
  float re[SIDE];
  UNROLL
  for (int i = 0; i < SIDE; ++i) {
    const int inside = index < all && lane < filter_h && i < filter_w;
    re[i] = inside ? LOAD(IN, from, (flipped ? filter_w - 1 - i : i) * e.col) : 0;
  }
  row_in(real, imaginary, tile, lane, re);
  BARRIER();
  if (lane >= HALF || index >= all) return;
  GLOBAL float* to = spectrum + begin + (i64)k * 2 * inputs + c;
  columns_out(real, imaginary, tile, lane, to, 4 * all, inputs);  // the row of the real part: re, im
  UNROLL
  for (int i = 0; i < SIDE; ++i) {  // of the imaginary part: -im, re
    GLOBAL float* row = to + (lane * SIDE + i) * 4 * all;
    row[2 * all] = -row[inputs], row[2 * all + inputs] = row[0];
  }
}

/// Outputs from (frequency, part, channel, tile).
KERNEL THREADS_PER_BLOCK(THREADS) fft_result(GLOBAL const float* RESTRICT spectrum, GLOBAL out_t* y, const i64 begin,
                                             const Tiles s, const Places e, const float alpha, const float beta) {
  SHARED float real[TILES_PER_BLOCK * SIDE * PITCH], imaginary[TILES_PER_BLOCK * SIDE * PITCH];
  const int tile = THREAD(0) % TILES_PER_BLOCK, lane = THREAD(0) / TILES_PER_BLOCK;
  const i64 all = (i64)s.channels * s.tiles, index = (i64)BLOCK(0) * TILES_PER_BLOCK + tile;
  float re[SIDE], im[SIDE];
  if (lane < HALF && index < all) {
    GLOBAL const float* from = spectrum + begin + index;
    UNROLL
    for (int i = 0; i < SIDE; ++i) {
      re[i] = from[(lane * SIDE + i) * 2 * all], im[i] = from[(lane * SIDE + i) * 2 * all + all];
    }
    transform(re, im, 1);
    UNROLL
    for (int i = 0; i < SIDE; ++i) real[LINE(tile, i) + lane] = re[i], imaginary[LINE(tile, i) + lane] = im[i];
  }
  BARRIER();
  if (index >= all) return;
  UNROLL
  for (int i = 0; i < SIDE; ++i) {
    const int mirror = i < HALF ? i : SIDE - i;
    re[i] = real[LINE(tile, lane) + mirror];
    im[i] = i < HALF ? imaginary[LINE(tile, lane) + mirror] : -imaginary[LINE(tile, lane) + mirror];
  }
  transform(re, im, 1);
  const int channel = (int)(index / s.tiles), at = (int)(index % s.tiles), image = at / (s.tiles_h * s.tiles_w);
  const int rest = at - image * s.tiles_h * s.tiles_w;
  const int h = rest / s.tiles_w * s.step_h + lane, w0 = rest % s.tiles_w * s.step_w;
  if (lane >= s.step_h || h >= s.height) return;
  GLOBAL out_t* to = y + image * e.image + channel * e.channel + h * e.row;
  UNROLL
  for (int i = 0; i < SIDE; ++i)
    if (i < s.step_w && w0 + i < s.width) store_scaled(to + (w0 + i) * e.col, re[i] / (SIDE * SIDE), alpha, beta);
}
