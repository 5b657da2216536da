// y = alpha * x + beta * y, and copies, where x is dense in one dimension and y in another: square tiles by way of local
// memory. Options as of elementwise.cl.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable.h"
#include "kernels/gpu/elements.h"
#include "kernels/gpu/walk.h"
#include "kernels/gpu/formula.h"

#define THREADS 256
#define TILE 64
#define IN_SIZE SIZE_OF(IN_TYPE)
#define OUT_SIZE SIZE_OF(OUT_TYPE)
#define IN_RUN MIN(16 / IN_SIZE, 8)  // elements of an access
#define OUT_RUN MIN(16 / OUT_SIZE, 8)
#define PITCH (TILE + (IN_SIZE < 4 ? 4 / IN_SIZE : 1))  // an odd number of banks

#if IN_SIZE == 1
typedef u8 stored;
#elif IN_SIZE == 2
typedef u16 stored;
#elif IN_SIZE == 4
typedef u32 stored;
#else
typedef u64 stored;
#endif

/// x is dense along rows, y along columns; these are the sizes and the other strides of the two.
typedef struct {
  i64 rows, columns, x_column, y_row;
} Turn;

/// The part of a column of x from `row` on, `unit` elements, into the tile.
INLINE void take_in(GLOBAL const u8* x, i64 at, LOCAL stored* to, i64 left, const int unit) {
  u64 bits[IN_RUN];
  if (unit > 1 && left >= unit) {
    u32 words[4];
    load_words(x + at * IN_SIZE, unit * IN_SIZE / 4, words);
    UNROLL for (int i = 0; i < unit; ++i) bits[i] = take_bits(words, IN_SIZE, i);
  } else {
    UNROLL for (int i = 0; i < unit; ++i) bits[i] = i < left ? load_bits(x, IN_SIZE, at + i) : 0;
  }
  UNROLL for (int i = 0; i < unit; ++i) to[i] = (stored)bits[i];
}

INLINE void put_out(GLOBAL u8* y, i64 at, LOCAL const stored* from, i64 left, const Formula* f, const int unit) {
  num v[OUT_RUN];
  const int n = left < unit ? (int)left : unit;
  if (keeps(f)) read_unit(y, OUT_TYPE, at, 1, unit, n, v);
  UNROLL for (int i = 0; i < unit; ++i) {
    const num x = decode(IN_TYPE, from[i * PITCH]);
    v[i] = value_of(f, x, x, v[i]);
  }
  write_unit(y, OUT_TYPE, at, 1, unit, n, v);
}

INLINE void fill_tile(GLOBAL const u8* x, LOCAL stored* tile, i64 at, i64 rows, i64 columns, i64 stride,
                      const int unit) {
  const int chunks = TILE / unit, row = THREAD(0) % chunks * unit;
  UNROLL for (int i = 0; i < TILE / (THREADS / chunks); ++i) {
    const int column = THREAD(0) / chunks + i * (THREADS / chunks);
    if (column < columns && row < rows)
      take_in(x, at + column * stride + row, tile + column * PITCH + row, rows - row, unit);
  }
}

INLINE void empty_tile(GLOBAL u8* y, LOCAL const stored* tile, i64 at, i64 rows, i64 columns, i64 stride,
                       const Formula* f, const int unit) {
  const int chunks = TILE / unit, column = THREAD(0) % chunks * unit;
  UNROLL for (int i = 0; i < TILE / (THREADS / chunks); ++i) {
    const int row = THREAD(0) / chunks + i * (THREADS / chunks);
    if (column < columns && row < rows)
      put_out(y, at + row * stride + column, tile + column * PITCH + row, columns - column, f, unit);
  }
}

/// A tile a block. Where it begins is the place of the walk's third operand: the row and, times 2^32, the column.
/// Entries differ in which tensors are accessed 16 bytes at a time.
#define TURN(name, x_unit, y_unit)                                                                            \
  KERNEL THREADS_A_BLOCK(THREADS)                                                                             \
  name(GLOBAL const u8* x, GLOBAL u8* y, const Walk w, const Strides x_at, const Strides y_at,                \
       const Strides place, const Turn t, const Formula f) {                                                  \
    SHARED stored tile[TILE * PITCH];                                                                         \
    i64 at[3];                                                                                                \
    locate(&w, BLOCK(0), &x_at, &y_at, &place, at);                                                           \
    const i64 rows = t.rows - (at[2] & 0xffffffff), columns = t.columns - (at[2] >> 32);                      \
    fill_tile(x, tile, at[0], rows, columns, t.x_column, x_unit);                                             \
    BARRIER();                                                                                                \
    empty_tile(y, tile, at[1], rows, columns, t.y_row, &f, y_unit);                                           \
  }
TURN(turn, 1, 1)
TURN(turn_x, IN_RUN, 1)
TURN(turn_y, 1, OUT_RUN)
TURN(turn_xy, IN_RUN, OUT_RUN)
