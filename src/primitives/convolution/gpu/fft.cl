// FFT convolution in 16 x 16 tiles: transforms of src, filters and result; a matrix product per frequency (9 x 16 for a
// real tile) is in between. Complex numbers are pairs of channels, real parts first. A thread transforms one line of a
// tile (16 points, radix 2, decimation in time).
// Options: IN, OUT.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/vector.h"

#define SIDE 16
#define HALF 9  // columns of the transform of real rows: the others are complex conjugates
#define TILES_PER_BLOCK 16
#define THREADS (TILES_PER_BLOCK * SIDE)
#define PITCH (SIDE + 1)

/// Tiles are step_h x step_w outputs apart. A block processes TILES_PER_BLOCK of channels x tiles.
typedef struct {
  int channels, height, width, pad_h, pad_w, step_h, step_w, tiles_h, tiles_w, tiles;
} Tiles;

/// In elements.
typedef struct {
  i64 image, channel, row, col;
} Strides;

/// In-place transform; `sign` is -1 forward, 1 inverse (unscaled).
INLINE void transform(float* re, float* im, float sign) {
  const float cosine[8] = {1, 0.9238795325f,  0.7071067812f,  0.3826834324f,
                           0, -0.3826834324f, -0.7071067812f, -0.9238795325f};
  const float sine[8] = {0, 0.3826834324f, 0.7071067812f, 0.9238795325f,
                         1, 0.9238795325f, 0.7071067812f, 0.3826834324f};
  float a[SIDE], b[SIDE];
  UNROLL
  for (int i = 0; i < SIDE; ++i) {
    const int reversed = (i & 1) << 3 | (i & 2) << 1 | (i & 4) >> 1 | (i & 8) >> 3;
    a[i] = re[reversed];
    b[i] = im[reversed];
  }
  UNROLL
  for (int level = 0; level < 4; ++level) {
    UNROLL
    for (int i = 0; i < SIDE / 2; ++i) {
      const int span = 1 << level, k = i & (span - 1), low = (i - k) * 2 + k, high = low + span;
      const float c = cosine[k << (3 - level)], s = sign * sine[k << (3 - level)];
      const float x = c * a[high] - s * b[high], y = c * b[high] + s * a[high];
      a[high] = a[low] - x;
      b[high] = b[low] - y;
      a[low] += x;
      b[low] += y;
    }
  }
  UNROLL
  for (int i = 0; i < SIDE; ++i) {
    re[i] = a[i];
    im[i] = b[i];
  }
}

#define LINE_AT(tile, row) (((tile)*SIDE + (row)) * PITCH)

/// Transforms column `lane` of a tile whose rows are transformed and stores the frequencies (lane, 0 to 15) `step`
/// elements apart, imaginary parts `imaginary_offset` elements after real ones. lane < HALF.
INLINE void transform_column(LOCAL const float* real, LOCAL const float* imaginary, int tile, int lane,
                             GLOBAL float* dst, i64 step, i64 imaginary_offset) {
  float re[SIDE], im[SIDE];
  UNROLL
  for (int i = 0; i < SIDE; ++i) {
    re[i] = real[LINE_AT(tile, i) + lane];
    im[i] = imaginary[LINE_AT(tile, i) + lane];
  }
  transform(re, im, -1);
  UNROLL
  for (int i = 0; i < SIDE; ++i) {
    dst[(lane * SIDE + i) * step] = re[i];
    dst[(lane * SIDE + i) * step + imaginary_offset] = im[i];
  }
}

/// Transforms row `lane` of a real tile, `re`, into local memory.
INLINE void transform_row(LOCAL float* real, LOCAL float* imaginary, int tile, int lane, float* re) {
  float im[SIDE];
  UNROLL
  for (int i = 0; i < SIDE; ++i) im[i] = 0;
  transform(re, im, -1);
  UNROLL
  for (int i = 0; i < HALF; ++i) real[LINE_AT(tile, lane) + i] = re[i], imaginary[LINE_AT(tile, lane) + i] = im[i];
}

/// Input windows of x (or dy) to (frequency, part, channel, tile).
KERNEL THREADS_PER_BLOCK(THREADS) fft_source(GLOBAL const in_t* RESTRICT x, GLOBAL float* spectrum,
                                             const i64 spectrum_at, const Tiles s, const Strides e) {
  SHARED float real[TILES_PER_BLOCK * SIDE * PITCH], imaginary[TILES_PER_BLOCK * SIDE * PITCH];
  const int tile = THREAD(0) % TILES_PER_BLOCK, lane = THREAD(0) / TILES_PER_BLOCK;
  const i64 count = (i64)s.channels * s.tiles, index = (i64)BLOCK(0) * TILES_PER_BLOCK + tile;
  const int channel = (int)(index / s.tiles), tile_number = (int)(index % s.tiles),
            image = tile_number / (s.tiles_h * s.tiles_w);
  const int tile_of_image = tile_number - image * s.tiles_h * s.tiles_w;
  const int h = tile_of_image / s.tiles_w * s.step_h - s.pad_h + lane,
            w0 = tile_of_image % s.tiles_w * s.step_w - s.pad_w;
  GLOBAL const in_t* src_row = x + image * e.image + channel * e.channel + h * e.row;
  float re[SIDE];
  UNROLL
  for (int i = 0; i < SIDE; ++i) {
    const int inside = index < count && (u32)h < (u32)s.height && (u32)(w0 + i) < (u32)s.width;
    re[i] = inside ? LOAD(IN, src_row, (w0 + i) * e.col) : 0;
  }
  transform_row(real, imaginary, tile, lane, re);
  BARRIER();
  if (lane < HALF && index < count)
    transform_column(real, imaginary, tile, lane, spectrum + spectrum_at + index, 2 * count, count);
}

/// Filters to the real matrices of complex products with conj(w): (frequency, part and output channel, part and input
/// channel). `flipped` in both dimensions for backward data.
KERNEL THREADS_PER_BLOCK(THREADS)
    fft_filters(GLOBAL const in_t* RESTRICT w, GLOBAL float* spectrum, const i64 spectrum_at, const int outputs,
                const int inputs, const int filter_h, const int filter_w, const int flipped, const Strides e) {
  SHARED float real[TILES_PER_BLOCK * SIDE * PITCH], imaginary[TILES_PER_BLOCK * SIDE * PITCH];
  const int tile = THREAD(0) % TILES_PER_BLOCK, lane = THREAD(0) / TILES_PER_BLOCK;
  const i64 count = (i64)outputs * inputs, index = (i64)BLOCK(0) * TILES_PER_BLOCK + tile;
  const int k = (int)(index / inputs), c = (int)(index % inputs), r = flipped ? filter_h - 1 - lane : lane;
  GLOBAL const in_t* filter_row = w + k * e.image + c * e.channel + r * e.row;
  float re[SIDE];
  UNROLL
  for (int i = 0; i < SIDE; ++i) {
    const int inside = index < count && lane < filter_h && i < filter_w;
    re[i] = inside ? LOAD(IN, filter_row, (flipped ? filter_w - 1 - i : i) * e.col) : 0;
  }
  transform_row(real, imaginary, tile, lane, re);
  BARRIER();
  if (lane >= HALF || index >= count) return;
  GLOBAL float* dst = spectrum + spectrum_at + (i64)k * 2 * inputs + c;
  transform_column(real, imaginary, tile, lane, dst, 4 * count, inputs);  // matrix row of the real part: re, im
  UNROLL
  for (int i = 0; i < SIDE; ++i) {  // matrix row of the imaginary part: -im, re
    GLOBAL float* row = dst + (lane * SIDE + i) * 4 * count;
    row[2 * count] = -row[inputs];
    row[2 * count + inputs] = row[0];
  }
}

/// Spectra (frequency, part, channel, tile) to outputs.
KERNEL THREADS_PER_BLOCK(THREADS)
    fft_result(GLOBAL const float* RESTRICT spectrum, GLOBAL out_t* y, const i64 spectrum_at, const Tiles s,
               const Strides e, const float alpha, const float beta) {
  SHARED float real[TILES_PER_BLOCK * SIDE * PITCH], imaginary[TILES_PER_BLOCK * SIDE * PITCH];
  const int tile = THREAD(0) % TILES_PER_BLOCK, lane = THREAD(0) / TILES_PER_BLOCK;
  const i64 count = (i64)s.channels * s.tiles, index = (i64)BLOCK(0) * TILES_PER_BLOCK + tile;
  float re[SIDE], im[SIDE];
  if (lane < HALF && index < count) {
    GLOBAL const float* column = spectrum + spectrum_at + index;
    UNROLL
    for (int i = 0; i < SIDE; ++i) {
      re[i] = column[(lane * SIDE + i) * 2 * count];
      im[i] = column[(lane * SIDE + i) * 2 * count + count];
    }
    transform(re, im, 1);
    UNROLL
    for (int i = 0; i < SIDE; ++i) real[LINE_AT(tile, i) + lane] = re[i], imaginary[LINE_AT(tile, i) + lane] = im[i];
  }
  BARRIER();
  if (index >= count) return;
  UNROLL
  for (int i = 0; i < SIDE; ++i) {
    const int source_col = i < HALF ? i : SIDE - i;
    re[i] = real[LINE_AT(tile, lane) + source_col];
    im[i] = i < HALF ? imaginary[LINE_AT(tile, lane) + source_col] : -imaginary[LINE_AT(tile, lane) + source_col];
  }
  transform(re, im, 1);
  const int channel = (int)(index / s.tiles), tile_number = (int)(index % s.tiles),
            image = tile_number / (s.tiles_h * s.tiles_w);
  const int tile_of_image = tile_number - image * s.tiles_h * s.tiles_w;
  const int h = tile_of_image / s.tiles_w * s.step_h + lane, w0 = tile_of_image % s.tiles_w * s.step_w;
  if (lane >= s.step_h || h >= s.height) return;
  GLOBAL out_t* dst = y + image * e.image + channel * e.channel + h * e.row;
  UNROLL
  for (int i = 0; i < SIDE; ++i)
    if (i < s.step_w && w0 + i < s.width) store_scaled(dst + (w0 + i) * e.col, re[i] / (SIDE * SIDE), alpha, beta);
}
