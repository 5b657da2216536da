// y = alpha * x + beta * y, and copies, where x is dense in one dimension and y in another: square tiles through local
// memory.
// Options: as elementwise.cl.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/elements.h"
#include "kernels/gpu/portable/walk.h"
#include "kernels/gpu/portable/formula.h"

#define THREADS 256
#define TILE 64
#define IN_SIZE SIZE_OF(IN_TYPE)
#define OUT_SIZE SIZE_OF(OUT_TYPE)
#define IN_RUN MIN(16 / IN_SIZE, 8)  // elements per access
#define OUT_RUN MIN(16 / OUT_SIZE, 8)
#define MAY_BE_FLAT (IN_TYPE == OUT_TYPE)               // limits the code size of conversions
#define PITCH (TILE + (IN_SIZE < 4 ? 4 / IN_SIZE : 1))  // elements: an odd number of banks

#if IN_SIZE == 1
typedef u64 run_t;
#else
typedef u32x4 run_t;
#endif
#if IN_SIZE == 1
typedef u8 stored;
#elif IN_SIZE == 2
typedef u16 stored;
#elif IN_SIZE == 4
typedef u32 stored;
#else
typedef u64 stored;
#endif

/// x is dense along rows, y along columns; x_column and y_row are their other strides, in elements. `flat`: tiles of
/// the tensor are contiguous in memory, whatever the length of its rows, and local memory has the same order. At most
/// one of the two tensors is flat.
typedef struct {
  i64 rows, columns, x_column, y_row;
  int x_flat, y_flat;
} TransposeShape;

/// Loads `unit` elements of a column of x, zeros from `remaining` on.
INLINE void load_run(GLOBAL const u8* x, i64 at, stored* to, i64 remaining, const int unit) {
  u64 bits[IN_RUN];
  if (unit > 1 && remaining >= unit) {
    u32 packed[4];
    load_u32s(x + at * IN_SIZE, unit * IN_SIZE / 4, packed);
    UNROLL
    for (int i = 0; i < unit; ++i) bits[i] = unpack_bits(packed, IN_SIZE, i);
  } else {
    UNROLL
    for (int i = 0; i < unit; ++i) bits[i] = i < remaining ? load_bits(x, IN_SIZE, at + i) : 0;
  }
  UNROLL
  for (int i = 0; i < unit; ++i) to[i] = (stored)bits[i];
}

INLINE void store_run(GLOBAL u8* y, i64 at, const stored* from, i64 remaining, const Formula* f, const int unit) {
  num v[OUT_RUN];
  const int n = remaining < unit ? (int)remaining : unit;
  if (reads_c(f)) read_unit(y, OUT_TYPE, at, 1, unit, n, v);
  UNROLL
  for (int i = 0; i < unit; ++i) {
    const num x = decode(IN_TYPE, from[i]);
    v[i] = value_of(f, x, x, v[i]);
  }
  write_unit(y, OUT_TYPE, at, 1, unit, n, v);
}

/// Copies a contiguous tile of x, `size` elements from `at` on, in its memory order.
INLINE void load_tile_flat(GLOBAL const u8* x, LOCAL stored* tile, i64 at, int size, const int unit) {
  UNROLL
  for (int round = 0; round < TILE * TILE / (THREADS * unit); ++round) {
    const int e = (round * THREADS + THREAD(0)) * unit;
    if (e + unit <= size) {
      ((LOCAL run_t*)tile)[e / unit] = *(GLOBAL const run_t*)(x + (at + e) * IN_SIZE);
    } else {
      for (int i = e; i < size; ++i) tile[i] = (stored)load_bits(x, IN_SIZE, at + i);
    }
  }
}

INLINE void store_tile_flat(GLOBAL u8* y, LOCAL const stored* tile, i64 at, int size, const Formula* f,
                            const int unit) {
  UNROLL
  for (int round = 0; round < TILE * TILE / (THREADS * unit); ++round) {
    const int e = (round * THREADS + THREAD(0)) * unit;
    stored run[OUT_RUN];
    if (e >= size) continue;
    UNROLL
    for (int i = 0; i < unit; ++i) run[i] = tile[e + i];
    store_run(y, at + e, run, size - e, f, unit);
  }
}

/// Steps are distances in the tile: local memory elements between rows and between columns.
INLINE void load_tile(GLOBAL const u8* x, LOCAL stored* tile, i64 at, i64 rows, i64 columns, i64 stride, int row_step,
                      int column_step, const int unit) {
  const int chunks = TILE / unit, row = THREAD(0) % chunks * unit;
  UNROLL
  for (int i = 0; i < TILE / (THREADS / chunks); ++i) {
    const int column = THREAD(0) / chunks + i * (THREADS / chunks);
    stored run[IN_RUN];
    if (column >= columns || row >= rows) continue;
    load_run(x, at + column * stride + row, run, rows - row, unit);
    UNROLL
    for (int j = 0; j < unit; ++j) tile[column * column_step + (row + j) * row_step] = run[j];
  }
}

INLINE void store_tile(GLOBAL u8* y, LOCAL const stored* tile, i64 at, i64 rows, i64 columns, i64 stride,
                       int column_step, const Formula* f, const int unit) {
  const int chunks = TILE / unit, column = THREAD(0) % chunks * unit;
  UNROLL
  for (int i = 0; i < TILE / (THREADS / chunks); ++i) {
    const int row = THREAD(0) / chunks + i * (THREADS / chunks);
    stored run[OUT_RUN];
    if (column >= columns || row >= rows) continue;
    UNROLL
    for (int j = 0; j < unit; ++j) run[j] = tile[(column + j) * column_step + row];
    store_run(y, at + row * stride + column, run, columns - column, f, unit);
  }
}

/// A block transposes one tile. The third operand of the walk encodes its origin: row + 2^32 * column. Entry points
/// differ in which tensors are accessed 16 bytes at a time.
#define TRANSPOSE(name, x_unit, y_unit)                                                            \
  KERNEL THREADS_PER_BLOCK(THREADS)                                                                \
      name(GLOBAL const u8* x, GLOBAL u8* y, FIXED Walk w, FIXED Strides x_at, FIXED Strides y_at, \
           const Strides origin, const TransposeShape t, const Formula f) {                        \
    SHARED stored tile[TILE * PITCH] __attribute__((aligned(16)));                                 \
    const Strides* const strides[] = {&x_at, &y_at, &origin};                                      \
    i64 at[3];                                                                                     \
    locate(&w, BLOCK(0), strides, 3, at);                                                          \
    const i64 rows = t.rows - (at[2] & 0xffffffff), columns = t.columns - (at[2] >> 32);           \
    const int tile_rows = (int)MIN(rows, TILE), tile_columns = (int)MIN(columns, TILE);            \
    if (MAY_BE_FLAT && x_unit > 1 && t.x_flat)                                                     \
      load_tile_flat(x, tile, at[0], tile_rows* tile_columns, x_unit);                             \
    else if (MAY_BE_FLAT && y_unit > 1 && t.y_flat)                                                \
      load_tile(x, tile, at[0], rows, columns, t.x_column, tile_columns, 1, x_unit);               \
    else                                                                                           \
      load_tile(x, tile, at[0], rows, columns, t.x_column, 1, PITCH, x_unit);                      \
    BARRIER();                                                                                     \
    if (MAY_BE_FLAT && y_unit > 1 && t.y_flat)                                                     \
      store_tile_flat(y, tile, at[1], tile_rows* tile_columns, &f, y_unit);                        \
    else if (MAY_BE_FLAT && x_unit > 1 && t.x_flat)                                                \
      store_tile(y, tile, at[1], rows, columns, t.y_row, tile_rows, &f, y_unit);                   \
    else                                                                                           \
      store_tile(y, tile, at[1], rows, columns, t.y_row, PITCH, &f, y_unit);                       \
  }
TRANSPOSE(transpose, 1, 1)
TRANSPOSE(transpose_x, IN_RUN, 1)
TRANSPOSE(transpose_y, 1, OUT_RUN)
TRANSPOSE(transpose_xy, IN_RUN, OUT_RUN)
