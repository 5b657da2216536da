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
  i64 plane, column;
  int unit, size, last;  // last: of a patch, in the last of its planes
} Part;

INLINE int depth_of(const PatchShape* s) { return s->channels * s->filter_d * s->filter_h * s->run; }

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
  p.plane = (i64)(BLOCK(0) / chunks) * PLANES;
  p.unit = BLOCK(0) % chunks * THREADS + THREAD(0);
  const int h = p.unit / s->row, w = p.unit - h * s->row, o1 = h / s->step_h, o2 = w / s->step;
  const int r1 = h - o1 * s->step_h, r2 = w - o2 * s->step;
  const int inside = r1 < s->filter_h && r2 < s->run && o1 < s->out_h && o2 < s->out_w;
  p.column = inside ? ((i64)o1 * s->out_w + o2) * s->pitch + (i64)r1 * s->run + r2 : -1;
  p.last = r1 == s->filter_h - 1 && r2 == s->run - 1;
  return p;
}

/// Offset in the matrix of the first unit of a plane, or -1 if no filter reads it.
INLINE i64 plane_offset(const PatchShape* s, i64 plane) {
  const i64 outer = plane / s->in_d, image = outer / s->channels;
  const int d = (int)(plane - outer * s->in_d), c = (int)(outer - image * s->channels);
  const int o0 = d / s->step_d, r0 = d - o0 * s->step_d;
  if (r0 >= s->filter_d || o0 >= s->out_d) return -1;
  return (image * s->out_d + o0) * s->out_h * s->out_w * s->pitch + ((i64)c * s->filter_d + r0) * s->filter_h * s->run;
}

KERNEL THREADS_PER_BLOCK(THREADS)
    gather_patches(GLOBAL const in_t* RESTRICT x, GLOBAL in_t* RESTRICT matrix, const i64 at, const PatchShape s) {
  const Part part = part_of(&s);
  const int depth = depth_of(&s);
  if (part.unit >= part.size || part.column < 0) return;
  GLOBAL const unit_t* from = (GLOBAL const unit_t*)(x + s.x_at) + part.unit;
  GLOBAL unit_t* to = (GLOBAL unit_t*)(matrix + at) + part.column;
  unit_t units[PLANES];
  UNROLL
  for (int i = 0; i < PLANES; ++i) units[i] = from[MIN(part.plane + i, s.planes - 1) * part.size];
  UNROLL
  for (int i = 0; i < PLANES; ++i) {
    const i64 offset = part.plane + i < s.planes ? plane_offset(&s, part.plane + i) : -1;
    if (offset < 0) continue;
    to[offset] = units[i];
    if (s.pitch == depth || !part.last || (part.column + offset) % s.pitch != depth - 1) continue;
    for (int k = depth; k < s.pitch; ++k) to[offset + k - depth + 1] = zero_unit();
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
    offsets[i] = part.column < 0 ? -1 : plane_offset(&s, MIN(part.plane + i, s.planes - 1));
    if (offsets[i] >= 0) units[i] = from[offsets[i]];
  }
  UNROLL
  for (int i = 0; i < PLANES; ++i) {
    if (part.plane + i >= s.planes) return;
    const i64 to = (part.plane + i) * part.size + part.unit;
    if (offsets[i] >= 0) {
      ((GLOBAL unit_t*)x)[to] = units[i];
    } else {
      for (int u = 0; u < UNIT; ++u) STORE(OUT, x, to * UNIT + u, beta != 0 ? beta * LOAD(OUT, x, to * UNIT + u) : 0);
    }
  }
}
