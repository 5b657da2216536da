// Copies up to kCatParts tensors to their parts of another in one launch: each has blocks of its own.
// Options: IN = OUT = int8, NUM = bits, as elements.h requires.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/elements.h"
#include "kernels/gpu/portable/cat_part.h"

#define MOST_UNITS 4

/// Adds the offsets of a unit in both tensors, in bytes.
INLINE void add_offsets(const CatPart* p, int unit, i64* from, i64* to) {
  UNROLL
  for (int d = 0; d < kCatDims; ++d) {
    const int next = d + 1 < p->rank ? divide(unit, p->size[MIN(d, kCatDims - 2)]) : 0;
    const int i = d + 1 < p->rank ? unit - next * (int)p->size[MIN(d, kCatDims - 2)].divisor : unit;
    *from += i * p->from[d];
    *to += i * p->to[d];
    unit = next;
  }
}

/// All loads precede the stores.
INLINE void copy_units(const CatPart* p, GLOBAL const u8* from, GLOBAL u8* to, const int bytes) {
  u32 v[MOST_UNITS][4];
  i64 at[MOST_UNITS];
  const int units = CAT_UNITS(bytes);
  const int first = (BLOCK(0) - p->first_block) * kCatThreads * units + THREAD(0);
  UNROLL
  for (int u = 0; u < units; ++u) {
    i64 source = 0;
    at[u] = 0;
    if (first + u * kCatThreads >= p->units) break;
    add_offsets(p, first + u * kCatThreads, &source, &at[u]);
    if (bytes < 4)
      v[u][0] = (u32)load_bits(from + source, bytes, 0);
    else
      load_u32s(from + source, bytes / 4, v[u]);
  }
  UNROLL
  for (int u = 0; u < units; ++u) {
    if (first + u * kCatThreads >= p->units) break;
    if (bytes < 4)
      store_bits(to + at[u], bytes, 0, v[u][0]);
    else
      store_u32s(to + at[u], bytes / 4, v[u]);
  }
}

#define PART_PARAMETERS(i) FIXED CatPart part##i, GLOBAL const u8 *from##i, GLOBAL u8 *to##i
#define TAKE_PART(i)                     \
  if (BLOCK(0) >= part##i.first_block) { \
    part = &part##i;                     \
    from = from##i;                      \
    to = to##i;                          \
  }

KERNEL THREADS_PER_BLOCK(kCatThreads)
    cat(PART_PARAMETERS(0), PART_PARAMETERS(1), PART_PARAMETERS(2), PART_PARAMETERS(3), PART_PARAMETERS(4),
        PART_PARAMETERS(5), PART_PARAMETERS(6), PART_PARAMETERS(7)) {
  const CatPart* part = &part0;
  GLOBAL const u8* from = from0;
  GLOBAL u8* to = to0;
  TAKE_PART(1)
  TAKE_PART(2)
  TAKE_PART(3)
  TAKE_PART(4)
  TAKE_PART(5)
  TAKE_PART(6)
  TAKE_PART(7)
  if (part->bytes == 16) copy_units(part, from, to, 16);
  if (part->bytes == 8) copy_units(part, from, to, 8);
  if (part->bytes == 4) copy_units(part, from, to, 4);
  if (part->bytes == 2) copy_units(part, from, to, 2);
  if (part->bytes == 1) copy_units(part, from, to, 1);
}
