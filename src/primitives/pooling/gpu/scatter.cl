// The gradient of maxima with indices: a block has a tile of dx in local memory and reads each window that meets it
// once. Windows of a class do not overlap, and classes are added one after the other: the order of a sum is fixed.
// Options: IN = OUT (type), NUM (arithmetic), BYTES of an index, CHANNELS (1: neighbouring threads have neighbouring
// channels).
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/elements.h"
#include "kernels/gpu/portable/window.h"
#include "kernels/gpu/portable/pool_scatter_shape.h"

/// dx = scale * v + keep * dx.
typedef struct {
  scalar scale, keep;
} Formula;

typedef struct {
  GLOBAL const u8* dy;
  GLOBAL u8* dx;
  GLOBAL const u8* index;
  const WindowAt *dy_at, *dx_at, *index_at;
  const ScatterShape* shape;
  const ScatterOrder* order;
  const WindowAxis* axis;
  const Formula* f;
} Tensors;

/// The first element of a block's tile and, along each axis, its elements and the windows that meet it.
typedef struct {
  WindowPlace first;
  int channels, extent[3];
  WindowRange windows[3];
} Tile;

// Classes whose windows a thread has in flight. Compilers for CPUs take long for barriers.
#ifdef __OPENCL_VERSION__
#define SLOTS 2
#else
#define SLOTS 8
#endif

INLINE Tile tile_of_block(const Tensors* t) {
  const ScatterShape* s = t->shape;
  Tile tile;
  int rest = BLOCK(0), c[4];
  UNROLL
  for (int k = 0; k < 4; ++k) {
    const int next = divide(rest, s->tiles[k]);
    c[k] = rest - next * (int)s->tiles[k].divisor;
    rest = next;
  }
  tile.first.image = rest;
  tile.first.channel = c[3] * s->channels;
  tile.channels = MIN(s->channels, s->all_channels - tile.first.channel);
  UNROLL
  for (int k = 0; k < 3; ++k) {
    const int first = c[2 - k] * s->box[k];
    tile.first.axis[k] = first;
    tile.extent[k] = MIN(s->box[k], t->axis[k].size - first);
    tile.windows[k].first = windows_of(&t->axis[k], first).first;
    tile.windows[k].end = windows_of(&t->axis[k], first + tile.extent[k] - 1).end;
  }
  return tile;
}

/// Number `rest` of what threads take: along D, H, W; the channel.
INLINE int place_of(const Divider* sizes, int rest, int* axis) {
  int c[4];
  UNROLL
  for (int k = 0; k < 3; ++k) {
    const int next = divide(rest, sizes[k]);
    c[k] = rest - next * (int)sizes[k].divisor;
    rest = next;
  }
  c[3] = rest;
  UNROLL
  for (int k = 0; k < 3; ++k) axis[2 - k] = c[CHANNELS ? k + 1 : k];
  return CHANNELS ? c[0] : c[3];
}

/// The element of the tile that an index of window o means, or -1.
INLINE int element_of(const Tensors* t, const Tile* tile, u64 found, const int* o, int channel) {
  const int rows = divide((int)found, t->order->position[0]), planes = divide(rows, t->order->position[1]);
  int e[3];
  e[0] = planes;
  e[1] = rows - planes * (int)t->order->position[1].divisor;
  e[2] = (int)found - rows * (int)t->order->position[0].divisor;
  int is_inside = BYTES < 8 || found >> 31 == 0;
  UNROLL
  for (int k = 0; k < 3; ++k) {
    const int start = o[k] * (int)t->axis[k].stride.divisor - t->axis[k].pad;
    const int in_window = t->order->image ? e[k] - start : e[k];
    e[k] = start + in_window - tile->first.axis[k];
    is_inside = is_inside && (u32)in_window < (u32)t->axis[k].length && (u32)e[k] < (u32)tile->extent[k];
  }
  const int* box = t->shape->box;
  const int number = (((CHANNELS ? 0 : channel) * box[0] + e[0]) * box[1] + e[1]) * box[2] + e[2];
  return is_inside ? CHANNELS ? number * t->shape->channels + channel : number : -1;
}

/// Adds windows number `n` of all classes.
INLINE void add_windows(const Tensors* t, const Tile* tile, int n, LOCAL num* sums) {
  const int size = SIZE_OF(IN_TYPE), *classes = t->shape->classes;
  int first[3];
  WindowPlace at = tile->first;
  const int channel = place_of(t->order->windows, n, first);
  at.channel += channel;
  UNROLL
  for (int k = 0; k < 3; ++k) first[k] = tile->windows[k].first + first[k] * classes[k];
  const i64 dy_plane = window_plane(t->dy_at, &at), index_plane = window_plane(t->index_at, &at);
  int class_of[3] = {0, 0, 0};
  NO_UNROLL
  while (class_of[0] < classes[0]) {
    u64 gradient[SLOTS], found[SLOTS];
    int o[SLOTS][3], element[SLOTS];
    UNROLL
    for (int s = 0; s < SLOTS; ++s) {
      int is_window = channel < tile->channels && class_of[0] < classes[0];
      i64 from = dy_plane, index_from = index_plane;
      UNROLL
      for (int k = 0; k < 3; ++k) {
        o[s][k] = first[k] + class_of[k];
        is_window = is_window && o[s][k] < tile->windows[k].end;
        from += o[s][k] * t->dy_at->axis[k];
        index_from += o[s][k] * t->index_at->axis[k];
      }
      gradient[s] = found[s] = 0;
      if (is_window) gradient[s] = load_bits(t->dy, size, from);
      if (is_window) found[s] = load_bits(t->index, BYTES, index_from);
      element[s] = is_window;
      if (++class_of[2] == classes[2]) {
        class_of[2] = 0;
        if (++class_of[1] == classes[1]) {
          class_of[1] = 0;
          ++class_of[0];
        }
      }
    }
    UNROLL
    for (int s = 0; s < SLOTS; ++s) element[s] = element[s] ? element_of(t, tile, found[s], o[s], channel) : -1;
    UNROLL
    for (int s = 0; s < SLOTS; ++s) {
      if (element[s] >= 0) sums[element[s]] += decode(IN_TYPE, gradient[s]);
      BARRIER();
    }
  }
}

/// Writes `unit` neighbours of the tile.
INLINE void write_sums(const Tensors* t, const Tile* tile, int n, const int unit, LOCAL const num* sums) {
  WindowPlace at = tile->first;
  int axis[3];
  const int first = place_of(t->order->elements, n, axis);
  const int channel = CHANNELS ? first * unit : first;
  if (!CHANNELS) axis[2] *= unit;
  int is_inside = channel < tile->channels;
  UNROLL
  for (int k = 0; k < 3; ++k) {
    is_inside = is_inside && axis[k] < tile->extent[k];
    at.axis[k] += axis[k];
  }
  if (!is_inside) return;
  at.channel += channel;
  const i64 offset = window_offset(t->dx_at, &at);
  const Formula* f = t->f;
  num v[kScatterUnit], old[kScatterUnit];
  if (f->keep != 0) read_unit(t->dx, OUT_TYPE, offset, 1, unit, unit, old);
  UNROLL
  for (int k = 0; k < unit; ++k) v[k] = blend(f->scale, sums[n * unit + k], f->keep, f->keep != 0 ? old[k] : 0);
  write_unit(t->dx, OUT_TYPE, offset, 1, unit, unit, v);
}

KERNEL THREADS_PER_BLOCK_OF(128, 7)
    scatter(const ScatterShape shape, const ScatterOrder order, const WindowAxes axes, GLOBAL const u8* dy,
            const WindowAt dy_at, GLOBAL u8* dx, const WindowAt dx_at, GLOBAL const u8* index, const WindowAt index_at,
            const Formula f) {
  SHARED num sums[kScatterElements];
  const Tensors t = {dy, dx, index, &dy_at, &dx_at, &index_at, &shape, &order, axes.axis, &f};
  const int elements = shape.box[0] * shape.box[1] * shape.box[2] * shape.channels;
  const Tile tile = tile_of_block(&t);
  for (int i = THREAD(0); i < elements; i += kScatterThreads) sums[i] = 0;
  BARRIER();
  for (int round = 0; round < shape.rounds; ++round) add_windows(&t, &tile, round * kScatterThreads + THREAD(0), sums);
  if (order.unit == 1)
    for (int i = THREAD(0); i < elements; i += kScatterThreads) write_sums(&t, &tile, i, 1, sums);
  else
    for (int i = THREAD(0); i < elements / kScatterUnit; i += kScatterThreads)
      write_sums(&t, &tile, i, kScatterUnit, sums);
}
