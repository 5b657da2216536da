// How a matrix product reads its operands: where they lie, in groups, panel by panel or in blocks, and how much at
// once. SPDX-License-Identifier: MIT
#pragma once
#include "base/math.h"
#include "kernels/cpu/isa/micro_kernel.h"
#include "kernels/cpu/isa/operand_runs.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

inline constexpr i64 kColumnBlockBytes = 256 * 1024;  // of B: with the rows of A it stays in the second-level cache
inline constexpr int kMaxColumns = 4096;              // of a block
inline constexpr i64 kPlacedColumns = 1008;           // of B in place that are looked at together: whole panels
inline constexpr i64 kSegment = 6;                    // rows that are worth a tile of their own when A lies in place

template <class T>
constexpr bool is_type(DataType type) {
  return type == (sizeof(T) == sizeof(double) ? DataType::kDouble : DataType::kFloat);
}

static inline const Level& inner(const Axis& axis) { return axis.level[kLevels - 1]; }
static inline bool is_single(const Axis& axis) { return axis.size() == inner(axis).size; }

/// Depths that lie evenly in both operands: all, or those of an image, if it is worth blocks of its own; else 0.
static inline i64 depth_run(const Gemm& g) {
  constexpr i64 kFew = 128;
  if (is_single(g.a.depth) && is_single(g.b.depth)) return max_of<i64>(g.k, 1);
  const i64 run = inner(g.a.depth).size;
  return run == inner(g.b.depth).size && run >= kFew ? run : 0;
}

/// Whether the micro-kernel can read the depths of a block of an operand of g where they lie.
template <class T>
static inline bool is_readable_in_place(const Gemm& g, const Operand& o) {
  return is_type<T>(o.dtype) && !is_bounded(o) && (is_single(o.depth) || depth_run(g) > 0);
}
template <class T>
static inline bool a_in_place(const Gemm& g) {
  return is_readable_in_place<T>(g, g.a) && (is_single(g.a.lanes) || inner(g.a.lanes).size >= kSegment);
}
/// Steps of depth that are far apart cost a line, and a page, each: such rows are copied in groups as high as a tile.
template <class T>
static inline bool a_in_groups(const Gemm& g, i64 columns) {
  constexpr i64 kFew = 512, kFar = 4096;
  const i64 step = inner(g.a.depth).stride * static_cast<i64>(sizeof(T));
  return is_readable_in_place<T>(g, g.a) && is_single(g.a.lanes) && inner(g.a.lanes).stride == 1 &&
         step >= (columns >= 12 * kLanes<T> ? kFew : kFar);
}

/// Where rows of C lie, from row `first` on.
static inline void place_rows(const Gemm& g, i64 first, i64 count, i64* offsets) {
  if (is_single(g.c.rows)) {
    const i64 stride = inner(g.c.rows).stride, start = g.c.offset + first * stride;
    for (i64 i = 0; i < count; ++i) offsets[i] = start + i * stride;
    return;
  }
  Cursor row = seek(g.c.rows, first);
  for (i64 i = 0; i < count; ++i, step(row, g.c.rows)) offsets[i] = g.c.offset + row.offset;
}

/// Rows of elements whose distance has an odd number of vectors: they share no cache set.
template <class T>
static inline i64 pitch_of(i64 elements) {
  return (ceil_div(elements, kLanes<T>) | 1) * kLanes<T>;
}

/// Whether the first tile of a panel copies it for the others.
static inline bool copies_panels(i64 rows) { return rows > 2 * kMicroRows[3]; }
/// Whether B and C are likely to be found in a cache.
template <class T>
static inline bool is_near(const Gemm& g) {
  constexpr i64 kBytes = 4 * 1024 * 1024;
  return max_of(g.k, g.m) * g.n * static_cast<i64>(sizeof(T)) <= kBytes;
}
/// Whether a line of each of B's depths stays in the first-level cache: some distances fall into few of its sets.
template <class T>
static inline bool is_spread_over_lines(const Operand& b, i64 depth) {
  constexpr i64 kLine = 64, kSets = 64, kWays = 12;
  const i64 pitch = inner(b.depth).stride * static_cast<i64>(sizeof(T));
  i64 sets = kSets;
  for (i64 step = pitch; step % (2 * kLine) == 0 && sets > 1; step /= 2) sets /= 2;
  return depth <= sets * kWays;
}

/// Whether B is read where it lies: by the first tile of a panel, which copies it for the others, or by few rows.
template <class T>
static inline bool b_in_place(const Gemm& g, i64 rows, i64 depth) {
  const Operand& b = g.b;
  if (!is_readable_in_place<T>(g, b) || inner(b.lanes).stride != 1) return false;
  if (copies_panels(rows)) return true;
  const bool spread = is_spread_over_lines<T>(b, depth);
  return depth <= (is_near<T>(g) ? (spread ? depth : 128) : spread ? 256 : 32);
}

/// Depth that is summed at once. Few rows by a B in place: so many of its lines that a panel stays in the first-level
/// cache for the second tile, and of a large B as many as are fetched ahead.
template <class T>
static inline i64 depth_step(const Gemm& g) {
  const bool unit = is_readable_in_place<T>(g, g.b) && is_single(g.b.lanes) && inner(g.b.lanes).stride == 1;
  const i64 step = g.depth_step(), run = depth_run(g);
  if (unit && !copies_panels(g.m))
    return min_of<i64>(step, is_near<T>(g) ? 128 : g.m <= kMicroRows[kMicroVectors] ? 32 : 64);
  return run > 0 && run < g.k ? ceil_div(run, ceil_div(run, max_of<i64>(step, 1))) : step;
}

/// Columns of B that are copied together. What comes from memory is read and written in long lines, what is in a cache
/// in panels for the first-level cache.
template <class T>
static inline i64 block_columns(const Gemm& g, i64 depth, i64 rows, i64 columns) {
  const i64 vectors = ceil_div(columns, kLanes<T>);
  const i64 panel = rows <= kMicroRows[kMicroVectors] ? kMicroVectors : 3;
  if (vectors <= kMicroVectors) return vectors * kLanes<T>;
  if (b_in_place<T>(g, rows, depth)) return min_of<i64>(kPlacedColumns, vectors * kLanes<T>);
  if (is_near<T>(g)) return ceil_div(vectors, ceil_div(vectors, panel)) * kLanes<T>;
  const i64 most = max_of<i64>(kColumnBlockBytes / (max_of<i64>(depth, 1) * kVectorBytes) / 12 * 12, 12) * kLanes<T>;
  return min_of(min_of<i64>(most, kMaxColumns), vectors * kLanes<T>);
}

/// The run of positions of an axis that was asked for last: neighbours of it need no division.
struct Stretch {
  const Axis* axis;
  i64 begin = 0, end = 0, offset = 0;

  /// How many positions from `first` on are in one run.
  i64 room(i64 first) {
    if (first < begin || first >= end) {
      const Cursor cursor = seek(*axis, first);
      begin = first - cursor.index[kLevels - 1];
      end = begin + inner(*axis).size;
      offset = cursor.offset - cursor.index[kLevels - 1] * inner(*axis).stride;
    }
    return end - first;
  }
  i64 at(i64 position) const { return offset + (position - begin) * inner(*axis).stride; }
};

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
