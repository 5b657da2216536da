// Windows: a thread for each unit of results, neighbouring threads along the dimension that is contiguous in memory.
// Forward a result is a window, whose elements the thread reads; backward it is an element, whose windows the thread
// reads: nothing is written twice, and the order of a sum depends on sizes only. The host side is
// primitives/common/gpu/window.h.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/portable/window_shape.h"

// The including source includes portable.h and elements.h and defines the entry points
//   window_elements   along rows, one result per thread
//   window_runs       kWindowRun results per thread, which are contiguous in memory across rows
//   window_channels   along channels, one result per thread
//   window_vectors    VECTOR channels per thread
//   window_lanes      forward only: WindowShape::lanes threads per result, along rows of elements
// each with the parameters (const WindowShape, const WindowAxes, tensors with their WindowAt, a Formula).

#define WINDOW_KERNEL KERNEL THREADS_PER_BLOCK(256)

/// The coordinates of a result's first element.
typedef struct {
  int image, channel, axis[3];
} WindowPlace;

/// [first, end)
typedef struct {
  int first, end;
} WindowRange;

/// Number of this thread, over all blocks.
INLINE int window_thread(void) { return BLOCK(0) * kWindowThreads + THREAD(0); }

/// The place of unit number `rest`.
INLINE WindowPlace window_place(const WindowShape* s, const int along_channels, const int unit, int rest) {
  WindowPlace at;
  int c[4];
  UNROLL
  for (int k = 0; k < 4; ++k) {
    const int next = divide(rest, s->size[k]);
    c[k] = rest - next * (int)s->size[k].divisor;
    rest = next;
  }
  at.image = rest;
  at.channel = (along_channels ? c[0] : c[3]) * unit;
  UNROLL
  for (int k = 0; k < 3; ++k) at.axis[2 - k] = c[along_channels ? k + 1 : k];
  return at;
}

/// The next result along rows.
INLINE void next_window_place(const WindowShape* s, WindowPlace* at) {
  UNROLL
  for (int k = 2; k >= 0; --k) {
    if (++at->axis[k] < (int)s->size[2 - k].divisor) return;
    at->axis[k] = 0;
  }
  if (++at->channel < (int)s->size[3].divisor) return;
  at->channel = 0;
  ++at->image;
}

/// The offset of a plane's first element.
INLINE i64 window_plane(const WindowAt* t, const WindowPlace* at) {
  return t->first + at->image * t->image + at->channel * t->channel;
}
INLINE i64 window_offset(const WindowAt* t, const WindowPlace* at) {
  return window_plane(t, at) + at->axis[0] * t->axis[0] + at->axis[1] * t->axis[1] + at->axis[2] * t->axis[2];
}

/// The elements of window o; empty if end <= first.
INLINE WindowRange elements_of(const WindowAxis* a, int o) {
  WindowRange r;
  const int start = o * (int)a->stride.divisor - a->pad;
  r.first = MAX(start, 0);
  r.end = MIN(start + a->length, a->size);
  return r;
}

/// The windows that cover an element.
INLINE WindowRange windows_of(const WindowAxis* a, int element) {
  WindowRange r;
  const int after = element + a->pad - a->length;
  r.first = after < 0 ? 0 : divide(after, a->stride) + 1;
  r.end = MIN(divide(element + a->pad, a->stride) + 1, a->windows);
  return r;
}
