// Windows: a thread for each unit of results, neighbouring threads along the dimension that is contiguous in memory.
// Forward a result is a window, whose elements the thread reads; backward it is an element, whose windows the thread
// reads: nothing is written twice, and the order of a sum depends on sizes only. The host side is
// primitives/common/gpu/window.h.
//
// The including source includes portable.h and elements.h, defines the arithmetic of a unit
//   void compute(<parameters>, const WindowShape* s, const WindowPlace* at, const int unit)
// and entry points: window_elements (unit 1, along rows), window_channels (unit 1, along channels) and window_vectors
// (unit VECTOR, along channels), which call it for window_place() of their thread.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/portable/window_shape.h"

#define WINDOW_THREADS 256

/// The coordinates of a result's first element.
typedef struct {
  int image, channel, axis[3];
} WindowPlace;

/// [first, end)
typedef struct {
  int first, end;
} WindowRange;

/// The place of this thread's unit; false if it has none.
INLINE int window_place(const WindowShape* s, const int along_channels, const int unit, WindowPlace* at) {
  int rest = BLOCK(0) * WINDOW_THREADS + THREAD(0);
  int c[4];
  if (rest >= s->count) return 0;
  UNROLL
  for (int k = 0; k < 4; ++k) {
    const int next = divide(rest, s->size[k]);
    c[k] = rest - next * (int)s->size[k].divisor;
    rest = next;
  }
  at->image = rest;
  at->channel = (along_channels ? c[0] : c[3]) * unit;
  UNROLL
  for (int k = 0; k < 3; ++k) at->axis[2 - k] = c[along_channels ? k + 1 : k];
  return 1;
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
  const int start = o * a->stride - a->pad;
  r.first = MAX(start, 0);
  r.end = MIN(start + a->length, a->size);
  return r;
}

/// The windows that cover an element.
INLINE WindowRange windows_of(const WindowAxis* a, int element) {
  WindowRange r;
  const int after = element + a->pad - a->length;
  r.first = after < 0 ? 0 : after / a->stride + 1;
  r.end = MIN((element + a->pad) / a->stride + 1, a->windows);
  return r;
}
