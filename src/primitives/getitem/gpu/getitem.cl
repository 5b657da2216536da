// The gradient of indexing: numbers of positions by place, their order, and sums of rows of dy in this order, without
// atomics. Options: IN = OUT (type of dy and dx), NUM (arithmetic).
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/elements.h"
#include "kernels/gpu/portable/walk.h"

#define THREADS 256
#define SORTED 512  // numbers that a block sorts
#define OUTSIDE (~(u64)0)

/// Sizes or strides of up to 8 dimensions, slowest first.
typedef struct {
  i64 of[8];
  int rank;
} Dims;

/// The offset of element `number` of a space.
INLINE i64 offset_of(i64 number, const Dims* size, const Dims* stride) {
  i64 at = 0;
  for (int d = size->rank - 1; d > 0; --d) {
    const i64 next = number / size->of[d];
    at += (number - next * size->of[d]) * stride->of[d];
    number = next;
  }
  return at + number * stride->of[0];
}

/// Adds index tensor `tensor`, of a dimension of `size`, to the places of `w.count` positions from `first`.
KERNEL THREADS_PER_BLOCK(THREADS)
    number_places(FIXED Walk w, GLOBAL const int* index, FIXED Strides index_at, GLOBAL u64* places, const i64 first,
                  const i64 size, const int tensor, GLOBAL int* error, const int has_error) {
  const int i = BLOCK(0) * THREADS + THREAD(0);
  if (i >= w.count) return;
  const Strides* const strides[1] = {&index_at};
  i64 at[1];
  locate(&w, i, strides, 1, at);
  const i64 given = index[at[0]], from_start = given < 0 ? given + size : given;
  const u64 place = tensor == 0 ? 0 : places[first + i];
  const int inside = from_start >= 0 && from_start < size;
  if (!inside && has_error) error[tensor] = -1;
  places[first + i] = inside && place != OUTSIDE ? place * (u64)size + (u64)from_start : OUTSIDE;
}

/// Makes numbers of places and positions, sorted in blocks of SORTED. `outside` is the place of indices that are.
KERNEL THREADS_PER_BLOCK(THREADS)
    sort_blocks(GLOBAL u64* numbers, const i64 count, const i64 outside, const int shift) {
  SHARED u64 block[SORTED];
  const i64 first = (i64)BLOCK(0) * SORTED;
  for (int t = THREAD(0); t < SORTED; t += THREADS) {
    const i64 i = first + t;
    block[t] = OUTSIDE;  // behind all numbers
    if (i < count) block[t] = (numbers[i] == OUTSIDE ? (u64)outside : numbers[i]) << shift | (u64)i;
  }
  for (int size = 2; size <= SORTED; size *= 2) {
    for (int step = size / 2; step > 0; step /= 2) {
      BARRIER();
      const int a = 2 * THREAD(0) - (THREAD(0) & (step - 1)), b = a + step;
      const u64 low = MIN(block[a], block[b]), high = MAX(block[a], block[b]);
      const int ascends = (a & size) == 0;
      block[a] = ascends ? low : high;
      block[b] = ascends ? high : low;
    }
  }
  BARRIER();
  for (int t = THREAD(0); t < SORTED; t += THREADS)
    if (first + t < count) numbers[first + t] = block[t];
}

/// Merges pairs of sorted runs of `run` numbers: each number finds its rank in the other run.
KERNEL THREADS_PER_BLOCK(THREADS) merge_runs(GLOBAL const u64* from, GLOBAL u64* to, const i64 count, const i64 run) {
  const i64 i = (i64)BLOCK(0) * THREADS + THREAD(0);
  if (i >= count) return;
  const i64 begin = i / (2 * run) * (2 * run), middle = MIN(begin + run, count), end = MIN(middle + run, count);
  const u64 number = from[i];
  const i64 other = i < middle ? middle : begin;
  i64 low = other, high = i < middle ? end : middle;
  while (low < high) {
    const i64 mid = low + (high - low) / 2;
    if (from[mid] < number)
      low = mid + 1;
    else
      high = mid;
  }
  to[(i < middle ? i : begin + (i - middle)) + (low - other)] = number;
}

INLINE num element(GLOBAL const u8* p, i64 i) { return decode(IN_TYPE, load_bits(p, SIZE_OF(IN_TYPE), i)); }

/// `lanes` threads per place add elements of its rows; those whose number is not the first one of its place do nothing.
/// Numbers from `first`.
KERNEL THREADS_PER_BLOCK(THREADS)
    add_rows(FIXED Walk w, GLOBAL u8* dx, FIXED Strides dx_at, GLOBAL const u8* dy, FIXED Strides dy_at,
             GLOBAL const u64* sorted, const i64 first, const i64 count, const int shift, const int lanes,
             const Dims place_size, const Dims place_stride, const Dims position_size, const Dims position_stride) {
  const int row_blocks = CEIL_DIV(w.count, lanes);
  i64 s = first + (i64)(BLOCK(0) / row_blocks) * (THREADS / lanes) + THREAD(0) / lanes;
  const int in_row = BLOCK(0) % row_blocks * lanes + THREAD(0) % lanes;
  if (s >= count || in_row >= w.count) return;
  const u64 place = sorted[s] >> shift, begin = place << shift, end = (place + 1) << shift;
  u64 places = 1;
  for (int d = 0; d < place_size.rank; ++d) places *= (u64)place_size.of[d];
  if (place >= places || (s > 0 && sorted[s - 1] >= begin)) return;
  const Strides* const strides[2] = {&dx_at, &dy_at};
  i64 at[2];
  locate(&w, in_row, strides, 2, at);
  num sum = num_of(0);
  for (; s + 4 <= count && sorted[s + 3] < end; s += 4) {
    num v[4];
    UNROLL
    for (int k = 0; k < 4; ++k)
      v[k] = element(dy, at[1] + offset_of((i64)(sorted[s + k] - begin), &position_size, &position_stride));
    UNROLL
    for (int k = 0; k < 4; ++k) sum += v[k];
  }
  for (; s < count && sorted[s] < end; ++s)
    sum += element(dy, at[1] + offset_of((i64)(sorted[s] - begin), &position_size, &position_stride));
  const i64 to = at[0] + offset_of((i64)place, &place_size, &place_stride);
  store_bits(dx, SIZE_OF(OUT_TYPE), to, encode(OUT_TYPE, element(dx, to) + sum));
}
