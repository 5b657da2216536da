// Copies between x and the im2col matrix (image, pixel, channel x tap) of filters that do not overlap. Threads follow
// x, whose rows are contiguous; in the matrix the runs of a filter row are. Up to three spatial dimensions.
// Options: IN = OUT (type), UNIT (elements per copy: of 16 or of 4 bytes, which must be aligned, or 1).
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/vector.h"

#define THREADS 256
#define PLANES 4  // per block: they share the index arithmetic
#if UNIT == 1
typedef in_t unit_t;
#elif UNIT == VECTOR
typedef u32x4 unit_t;
#else
typedef u32 unit_t;
#endif

/// The first plane of the block, the unit of the thread in each of its planes, and that unit's offset in the matrix, or
/// -1 if no filter reads it.
typedef struct {
  i64 column;
  int plane, unit, size, last;  // last: of a patch, in the last of its planes
} Part;

INLINE unit_t zero_unit(void) {
#if UNIT == VECTOR && UNIT > 1
  const unit_t zero = {0, 0, 0, 0};
  return zero;
#else
  return 0;
#endif
}

INLINE Part part_of(const PatchShape* s) {
  Part p;
  p.size = s->in_h * s->row;
  const int chunks = CEIL_DIV(p.size, THREADS);
  p.plane = BLOCK(0) / chunks * PLANES;
  p.unit = BLOCK(0) % chunks * THREADS + THREAD(0);
  const int h = p.unit / s->row, w = p.unit - h * s->row, o1 = h / s->step_h, o2 = w / s->step;
  const int r1 = h - o1 * s->step_h, r2 = w - o2 * s->step;
  const int inside = r1 < s->filter_h && r2 < s->run && o1 < s->out_h && o2 < s->out_w;
  p.column = inside ? ((i64)o1 * s->out_w + o2) * s->pitch + (i64)r1 * s->run + r2 : -1;
  p.last = r1 == s->filter_h - 1 && r2 == s->run - 1;
  return p;
}

/// A plane of x in the matrix: the offset of its first unit, or -1 if no filter reads it; whether patches end with it.
typedef struct {
  i64 offset;
  int last;
} Plane;

INLINE Plane plane_of(const PatchShape* s, int plane) {
  const int outer = plane / s->in_d, image = outer / s->channels;
  const int d = plane - outer * s->in_d, c = outer - image * s->channels;
  const int o0 = d / s->step_d, r0 = d - o0 * s->step_d, in_patch = c * s->filter_d + r0;
  const i64 row = (i64)(image * s->out_d + o0) * s->out_h * s->out_w;
  Plane p;
  p.offset = r0 < s->filter_d && o0 < s->out_d ? row * s->pitch + in_patch * s->filter_h * s->run : -1;
  p.last = in_patch == s->channels * s->filter_d - 1;
  return p;
}

KERNEL THREADS_PER_BLOCK(THREADS)
    gather_patches(GLOBAL const in_t* RESTRICT x, GLOBAL in_t* RESTRICT matrix, const i64 at, const PatchShape s) {
  const Part part = part_of(&s);
  const int zeros = s.pitch - s.channels * s.filter_d * s.filter_h * s.run;  // after a patch
  if (part.unit >= part.size || part.column < 0) return;
  GLOBAL const unit_t* from = (GLOBAL const unit_t*)(x + s.x_at) + part.unit;
  GLOBAL unit_t* to = (GLOBAL unit_t*)(matrix + at) + part.column;
  unit_t units[PLANES];
  UNROLL
  for (int i = 0; i < PLANES; ++i) units[i] = from[(i64)MIN(part.plane + i, s.planes - 1) * part.size];
  UNROLL
  for (int i = 0; i < PLANES; ++i) {
    const Plane plane = plane_of(&s, part.plane + i);
    if (part.plane + i >= s.planes || plane.offset < 0) continue;
    to[plane.offset] = units[i];
    if (!part.last || !plane.last) continue;
    for (int k = 0; k < zeros; ++k) to[plane.offset + 1 + k] = zero_unit();
  }
}

/// x = the matrix; beta * x where no filter reads.
KERNEL THREADS_PER_BLOCK(THREADS) scatter_patches(GLOBAL const in_t* RESTRICT matrix, GLOBAL out_t* x, const i64 at,
                                                  const PatchShape s, const float beta) {
  const Part part = part_of(&s);
  if (part.unit >= part.size) return;
  GLOBAL const unit_t* from = (GLOBAL const unit_t*)(matrix + at) + part.column;
  x += s.x_at;
  unit_t units[PLANES];
  i64 offsets[PLANES];
  UNROLL
  for (int i = 0; i < PLANES; ++i) {
    offsets[i] = part.column < 0 ? -1 : plane_of(&s, MIN(part.plane + i, s.planes - 1)).offset;
    if (offsets[i] >= 0) units[i] = from[offsets[i]];
  }
  UNROLL
  for (int i = 0; i < PLANES; ++i) {
    if (part.plane + i >= s.planes) return;
    const i64 to = (i64)(part.plane + i) * part.size + part.unit;
    if (offsets[i] >= 0) {
      ((GLOBAL unit_t*)x)[to] = units[i];
    } else {
      for (int u = 0; u < UNIT; ++u) STORE(OUT, x, to * UNIT + u, beta != 0 ? beta * LOAD(OUT, x, to * UNIT + u) : 0);
    }
  }
}
