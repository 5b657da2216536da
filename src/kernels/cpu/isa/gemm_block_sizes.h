// How a matrix product reads its operands: in place, packed in row panels, per panel or in blocks, and the block
// sizes.
// SPDX-License-Identifier: MIT
#pragma once
#include "base/math.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/isa/micro_kernel.h"
#include "kernels/cpu/isa/operand_cursor.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

inline constexpr i64 kColumnBlockBytes = 256 * 1024;  // of B's copy: fits the second-level cache with the rows of A
inline constexpr int kMaxColumnsCopied = 4096;        // of a block of B
inline constexpr i64 kMaxColumnsInPlace = 1008;       // of a block of B in place: whole panels
inline constexpr i64 kMinSegmentRows = 6;             // of A in place: fewer are not worth register tiles of their own

/// Whether `type` is the type of the arithmetic T, which operands need to be read in place.
template <class T>
constexpr bool is_type(DataType type) {
  return type == (sizeof(T) == sizeof(double) ? DataType::kDouble : DataType::kFloat);
}

template <class T>
static inline std::size_t size_of_type(DataType type) {
  return is_type<T>(type) ? sizeof(T) : 2;
}
static inline bool is_line_aligned(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 64 == 0; }

static inline const Level& inner(const Axis& axis) { return axis.level[kLevels - 1]; }
static inline bool is_uniformly_strided(const Axis& axis) { return axis.size() == inner(axis).size; }

/// The number of consecutive depths that are uniformly strided in both operands: all, or those of an image if an image
/// is deep enough for blocks of its own; else 0.
static inline i64 depth_run(const Gemm& g) {
  constexpr i64 kMinDepth = 128;
  if (is_uniformly_strided(g.a.depth) && is_uniformly_strided(g.b.depth)) return max_of<i64>(g.k, 1);
  const i64 run = inner(g.a.depth).size;
  return run == inner(g.b.depth).size && run >= kMinDepth ? run : 0;
}

/// Whether the micro-kernel can read a block of depth of o, an operand of g, in place.
template <class T>
static inline bool is_readable_in_place(const Gemm& g, const Operand& o) {
  return is_type<T>(o.dtype) && !is_bounded(o) && (is_uniformly_strided(o.depth) || depth_run(g) > 0);
}
template <class T>
static inline bool has_in_place_a(const Gemm& g) {
  return is_readable_in_place<T>(g, g.a) &&
         (is_uniformly_strided(g.a.lanes) || inner(g.a.lanes).size >= kMinSegmentRows);
}
/// Whether A is packed in row panels as high as a register tile. Rows are contiguous but depths far apart: in place,
/// each depth would cost a cache line and a page.
template <class T>
static inline bool has_row_panels(const Gemm& g, i64 columns) {
  constexpr i64 kMinStepBytes = 512, kMinStepBytesFewColumns = 4096;
  const i64 step = inner(g.a.depth).stride * static_cast<i64>(sizeof(T));
  return is_readable_in_place<T>(g, g.a) && is_uniformly_strided(g.a.lanes) && inner(g.a.lanes).stride == 1 &&
         step >= (columns >= 12 * kLanes<T> ? kMinStepBytes : kMinStepBytesFewColumns);
}

/// Element offsets of `count` rows of C from row `first` on.
static inline void find_row_offsets(const Gemm& g, i64 first, i64 count, i64* offsets) {
  if (is_uniformly_strided(g.c.rows)) {
    const i64 stride = inner(g.c.rows).stride, start = g.c.offset + first * stride;
    for (i64 i = 0; i < count; ++i) offsets[i] = start + i * stride;
    return;
  }
  Cursor row = seek(g.c.rows, first);
  for (i64 i = 0; i < count; ++i, step(row, g.c.rows)) offsets[i] = g.c.offset + row.offset;
}

/// A row pitch of at least `elements`, an odd number of vectors: neighbouring rows map to different cache sets.
template <class T>
static inline i64 pitch_of(i64 elements) {
  return (ceil_div(elements, kLanes<T>) | 1) * kLanes<T>;
}

/// Whether the first register tile of a panel of B copies it for the others: from three tiles of rows on.
static inline bool copies_b_panels(i64 rows) { return rows > 2 * kMicroRows[3]; }
/// Whether B and C are small enough to be in a cache.
template <class T>
static inline bool fits_in_cache(const Gemm& g) {
  constexpr i64 kBytes = 4 * 1024 * 1024;
  return max_of(g.k, g.m) * g.n * static_cast<i64>(sizeof(T)) <= kBytes;
}
/// Whether one cache line per depth of B stays in the first-level cache (64 sets, 12 ways): power-of-two strides map to
/// few sets.
template <class T>
static inline bool fits_cache_sets(const Operand& b, i64 depth) {
  constexpr i64 kLine = 64, kSets = 64, kWays = 12;
  const i64 pitch = inner(b.depth).stride * static_cast<i64>(sizeof(T));
  i64 sets = kSets;
  for (i64 step = pitch; step % (2 * kLine) == 0 && sets > 1; step /= 2) sets /= 2;
  return depth <= sets * kWays;
}

/// Whether B is read in place: by the first tile of a panel, which copies it for the others, or by all of few rows.
template <class T>
static inline bool has_in_place_b(const Gemm& g, i64 rows, i64 depth) {
  const Operand& b = g.b;
  if (!is_readable_in_place<T>(g, b) || inner(b.lanes).stride != 1) return false;
  if (copies_b_panels(rows)) return true;
  const bool fits = fits_cache_sets<T>(b, depth);
  return depth <= (fits_in_cache<T>(g) ? (fits ? depth : 128) : fits ? 256 : 32);
}

/// Size of a block of depth. With few rows and B in place, a panel of B must stay in the first-level cache for the
/// second tile of rows; of a large B, a block has as many lines as the hardware prefetchers follow.
template <class T>
static inline i64 depth_step(const Gemm& g) {
  const bool is_b_contiguous =
      is_readable_in_place<T>(g, g.b) && is_uniformly_strided(g.b.lanes) && inner(g.b.lanes).stride == 1;
  const i64 step = g.depth_step(), run = depth_run(g);
  if (is_b_contiguous && !copies_b_panels(g.m))
    return min_of<i64>(step, fits_in_cache<T>(g) ? 128 : g.m <= kMicroRows[kMicroVectors] ? 32 : 64);
  return run > 0 && run < g.k ? ceil_div(run, ceil_div(run, max_of<i64>(step, 1))) : step;
}

/// Columns of B that are copied together: long lines if B comes from memory, a panel that fits the first-level cache if
/// B is in a cache.
template <class T>
static inline i64 block_columns(const Gemm& g, i64 depth, i64 rows, i64 columns) {
  const i64 vectors = ceil_div(columns, kLanes<T>);
  const i64 panel = rows <= kMicroRows[kMicroVectors] ? kMicroVectors : 3;
  if (vectors <= kMicroVectors) return vectors * kLanes<T>;
  if (has_in_place_b<T>(g, rows, depth)) return min_of<i64>(kMaxColumnsInPlace, vectors * kLanes<T>);
  if (fits_in_cache<T>(g)) return ceil_div(vectors, ceil_div(vectors, panel)) * kLanes<T>;
  const i64 most = max_of<i64>(kColumnBlockBytes / (max_of<i64>(depth, 1) * kVectorBytes) / 12 * 12, 12) * kLanes<T>;
  return min_of(min_of<i64>(most, kMaxColumnsCopied), vectors * kLanes<T>);
}

/// The run of an axis that was looked up last: positions within it need no division.
struct CachedRun {
  const Axis* axis;
  i64 begin = 0, end = 0;  // positions
  i64 offset = 0;          // of position `begin`, in elements

  /// How many positions from `first` on are in one run, which becomes the cached one.
  i64 length_from(i64 first) {
    if (first < begin || first >= end) {
      const Cursor cursor = seek(*axis, first);
      begin = first - cursor.index[kLevels - 1];
      end = begin + inner(*axis).size;
      offset = cursor.offset - cursor.index[kLevels - 1] * inner(*axis).stride;
    }
    return end - first;
  }
  /// Element offset of a position in the cached run.
  i64 offset_at(i64 position) const { return offset + (position - begin) * inner(*axis).stride; }
};

/// The columns of a register tile: at most kMicroVectors vectors of B and C.
template <class T>
struct Panel {
  const T* b;
  i64 column;  // of the piece
  int columns, vectors;
  int run_count;  // runs of C that the columns are in
  const Run* runs;
  bool is_contiguous;  // one run of unit stride: the micro-kernel can write C
};

/// Uniformly strided rows of A, cut into register tiles of nearly equal height.
struct Segment {
  i64 first, rows;
  const char* a;
  int tiles = 0;
  int tile_rows = 0;     // of the lower tiles
  int higher_tiles = 0;  // the first ones, which have a row more

  /// Into tiles of at most max_rows rows; returns how many.
  int cut(int max_rows) {
    const int all = static_cast<int>(rows);
    tiles = (all + max_rows - 1) / max_rows;
    tile_rows = all / tiles;
    higher_tiles = all % tiles;
    return tiles;
  }
};

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
