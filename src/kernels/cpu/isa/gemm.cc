// Blocked matrix multiplication over implicit operands. For each block of depth the rows of A lie in place or are
// copied line by line into the second-level cache; blocks of columns of B likewise; register tiles walk down the rows
// of a narrow panel of columns. Partial sums between depth blocks are kept in C, or in scratch for 16-bit C.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/isa/block.h"
#include "kernels/cpu/isa/entries.h"
#include "kernels/cpu/isa/micro.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

constexpr i64 kColumnBlockBytes = 256 * 1024;  // of B: together with the rows of A it stays in the second-level cache
constexpr int kMaxColumns = 4096;              // of a block
constexpr i64 kSegment = 6;                    // rows that are worth a tile of their own when A lies in place

i64 round_up(i64 value, i64 unit) { return (value + unit - 1) / unit * unit; }
i64 ceil_div(i64 value, i64 unit) { return (value + unit - 1) / unit; }

template <class T>
constexpr bool is_type(DataType type) {
  return type == (sizeof(T) == sizeof(double) ? DataType::kDouble : DataType::kFloat);
}

const Level& inner(const Axis& axis) { return axis.level[kLevels - 1]; }
bool is_single(const Axis& axis) { return axis.size() == inner(axis).size; }

/// Whether the micro-kernel can read an operand where it lies.
template <class T>
bool lies_even(const Operand& o) {
  return is_type<T>(o.dtype) && !is_bounded(o) && is_single(o.depth);
}
template <class T>
bool a_in_place(const Operand& a) {
  return lies_even<T>(a) && (is_single(a.lanes) || inner(a.lanes).size >= kSegment);
}
/// Few rows do not pay for a copy of B, unless its lines lie on more pages than the processor remembers.
template <class T>
bool b_in_place(const Operand& b, i64 rows, i64 depth) {
  constexpr i64 kRows = 96, kBytes = 64 * 4096;
  return rows <= kRows && lies_even<T>(b) && inner(b.lanes).stride == 1 && inner(b.lanes).size >= 2 * kLanes<T> &&
         depth * inner(b.depth).stride * static_cast<i64>(sizeof(T)) <= kBytes;
}

/// Rows of elements whose distance has an odd number of vectors: they share no cache set.
template <class T>
i64 pitch_of(i64 elements) {
  return (ceil_div(elements, kLanes<T>) | 1) * kLanes<T>;
}

template <class T>
i64 block_columns(i64 depth, i64 columns) {
  const i64 vectors = kColumnBlockBytes / (max_of<i64>(depth, 1) * kVectorBytes);
  const i64 most = min_of<i64>(max_of<i64>(vectors / 12 * 12, 12) * kLanes<T>, kMaxColumns);
  return min_of(most, round_up(columns, kLanes<T>));
}

/// c[e * stride] = alpha * value[e] + beta * c[e * stride] over the runs of a row's columns.
template <class S, class T>
void write_runs(S* c, i64 stride, const Run* runs, int count, const T* value, T alpha, T beta) {
  for (int r = 0; r < count; ++r) {
    S* out = c + runs[r].offset;
    const int length = runs[r].length;
    for (int e = 0; stride == 1 && e < length; e += kLanes<T>) {
      const int some = min_of(length - e, kLanes<T>);
      Vec<T> v = load(value + e) * broadcast(alpha);
      if (beta != 0) v += fetch_vector<T>(out + e, some) * broadcast(beta);
      if constexpr (sizeof(T) == sizeof(double)) {
        store_lanes(out + e, v, some);
      } else {
        store_narrowed(out + e, v, some);
      }
    }
    for (int e = 0; stride != 1 && e < length; ++e) {
      S& element = out[e * stride];
      T v = alpha * value[e];
      if (beta != 0) v += beta * static_cast<T>(widen(element));
      element = narrow<S>(v);
    }
    value += length;
  }
}

/// Some columns of C: those in one run with unit stride can be written by the micro-kernel.
template <class T>
struct Panel {
  const T* b;
  i64 column;  // of the piece
  int columns, vectors, run_count;
  const Run* runs;  // where the columns lie in C
  bool contiguous;
};

template <class T>
class Product {
 public:
  /// Carves its memory from base; with null it only counts bytes.
  Product(const Gemm& g, i64 rows, i64 columns, char* base)
      : g_(g), rows_(rows), columns_(columns), step_(g.depth_step()) {
    const i64 block = block_columns<T>(step_, columns);
    keeps_ = size_of_type(g.c.dtype) < sizeof(T) && step_ < g.k;
    a_along_ = run_cost(g.a.depth) <= run_cost(g.a.lanes);
    a_in_place_ = a_in_place<T>(g.a);
    a_pitch_ = pitch_of<T>(a_along_ ? step_ : rows);
    b_pitch_ = pitch_of<T>(block);
    sums_pitch_ = pitch_of<T>(columns);
    space_.line_pitch = pitch_of<T>(step_ + kSpill<T>);
    const i64 longest = max_of(max_of(rows, block), step_);
    a_ = take<T>(base, a_in_place_ ? 0 : (a_along_ ? rows : step_) * a_pitch_ + kSpill<T>);
    b_ = take<T>(base, step_ * b_pitch_ + kSpill<T>);
    tile_ = take<T>(base, kTileRows * kTilePitch);
    space_.lines = take<T>(base, kLanes<T> * space_.line_pitch);
    space_.runs = take<Run>(base, longest + 1);
    column_runs_ = take<Run>(base, block + 1);
    panels_ = take<Panel<T>>(base, block / kLanes<T>);
    row_offset_ = take<i64>(base, rows);
    row_even_ = take<int>(base, rows);
    segments_ = take<Segment>(base, a_in_place_ ? rows / kSegment + 3 : 1);
    sums_ = take<T>(base, keeps_ ? rows * sums_pitch_ : 0);
  }
  std::size_t bytes() const { return bytes_; }

  void run(i64 m0, i64 n0) {
    m0_ = m0;
    n0_ = n0;
    place_rows();
    i64 k0 = 0;
    do {
      depth_ = min_of(step_, g_.k - k0);
      first_ = k0 == 0;
      last_ = k0 + depth_ >= g_.k;
      place_a(k0);
      for (i64 n = 0; n < columns_;) n += multiply_block(k0, n);
      k0 += depth_;
    } while (k0 < g_.k);
  }

 private:
  static constexpr int kTileRows = kMicroRows[1];
  static constexpr int kTilePitch = kMicroVectors * kLanes<T>;

  /// Rows of A that are the same number of bytes apart.
  struct Segment {
    i64 first, rows;
    const char* a;
  };

  static std::size_t size_of_type(DataType type) { return is_type<T>(type) ? sizeof(T) : 2; }

  template <class U>
  U* take(char* base, i64 count) {
    char* place = base == nullptr ? nullptr : base + bytes_;
    bytes_ += static_cast<std::size_t>(round_up(count * static_cast<i64>(sizeof(U)), 64));
    return reinterpret_cast<U*>(place);
  }

  /// Where the rows of C lie, and how many from each on are evenly spaced.
  void place_rows() {
    Cursor row = seek(g_.c.rows, m0_);
    for (i64 i = 0; i < rows_; ++i, step(row, g_.c.rows)) row_offset_[i] = g_.c.offset + row.offset;
    for (i64 i = rows_; i-- > 0;) {
      const bool joins = i + 2 < rows_ && row_offset_[i + 2] - row_offset_[i + 1] == row_offset_[i + 1] - row_offset_[i];
      row_even_[i] = i + 1 == rows_ ? 1 : joins ? row_even_[i + 1] + 1 : 2;
    }
  }

  void place_a(i64 k0) {
    constexpr i64 kSize = sizeof(T);
    segment_count_ = 1;
    segments_[0] = {0, rows_, reinterpret_cast<const char*>(a_)};
    a_row_ = a_along_ ? a_pitch_ * kSize : kSize;
    a_step_ = a_along_ ? kSize : a_pitch_ * kSize;
    if (a_in_place_) {
      place_segments(k0);
      return;
    }
    const int rows = static_cast<int>(rows_), depth = static_cast<int>(depth_);
    with_storage<T>(g_.a.dtype, [&](auto* s) {
      using S = std::remove_pointer_t<decltype(s)>;
      const Operand& a = g_.a;
      if (a_along_) {
        copy_lines<T, S>(a, a.lanes, m0_, rows, a.depth, k0, depth, depth, a_, a_pitch_, space_.runs);
      } else {
        copy_lines<T, S>(a, a.depth, k0, depth, a.lanes, m0_, rows, rows, a_, a_pitch_, space_.runs);
      }
    });
  }

  void place_segments(i64 k0) {
    constexpr i64 kSize = sizeof(T);
    const int count = cut_runs(g_.a.lanes, m0_, static_cast<int>(rows_), space_.runs);
    const i64 start = g_.a.offset + k0 * inner(g_.a.depth).stride;
    i64 row = 0;
    segment_count_ = count;
    for (int i = 0; i < count; ++i) {
      const Run& run = space_.runs[i];
      segments_[i] = {row, run.length, static_cast<const char*>(g_.a.data) + (start + run.offset) * kSize};
      row += run.length;
    }
    a_row_ = inner(g_.a.lanes).stride * kSize;
    a_step_ = inner(g_.a.depth).stride * kSize;
  }

  /// Columns from n of the piece on that are multiplied as they lie or copied together; returns how many.
  i64 multiply_block(i64 k0, i64 n) {
    const i64 left = min_of(columns_ - n, block_columns<T>(step_, columns_));
    if (b_in_place<T>(g_.b, rows_, step_)) {
      const Level& lanes = inner(g_.b.lanes);
      const i64 run = min_of(left, lanes.size - (n0_ + n) % lanes.size), whole = run / kLanes<T> * kLanes<T>;
      if (whole > 0 && (whole == run || run == left)) {
        const i64 offset = g_.b.offset + seek(g_.b.lanes, n0_ + n).offset + k0 * inner(g_.b.depth).stride;
        multiply(n, whole, static_cast<const T*>(g_.b.data) + offset, inner(g_.b.depth).stride);
        return whole;
      }
    }
    const int columns = static_cast<int>(left), depth = static_cast<int>(depth_);
    with_storage<T>(g_.b.dtype, [&](auto* s) {
      using S = std::remove_pointer_t<decltype(s)>;
      const Operand& b = g_.b;
      if (run_cost(b.lanes) <= run_cost(b.depth)) {
        const int padded = static_cast<int>(round_up(columns, kLanes<T>));
        copy_lines<T, S>(b, b.depth, k0, depth, b.lanes, n0_ + n, columns, padded, b_, b_pitch_, space_.runs);
      } else {
        turn_part<T, S>(b, {n0_ + n, k0, columns, depth}, b_, b_pitch_, space_);
      }
    });
    multiply(n, left, b_, b_pitch_);
    return left;
  }

  /// All rows by the columns from n on, whose B is at b.
  void multiply(i64 n, i64 columns, const T* b, i64 b_pitch) {
    const i64 vectors = ceil_div(columns, kLanes<T>);
    const int wide = vectors <= kMicroVectors        ? static_cast<int>(vectors)
                     : rows_ <= kMicroRows[4] ? 4
                     : rows_ <= kMicroRows[3] ? 3
                                              : 2;
    const i64 panels = wide == 2 ? max_of<i64>(vectors / 2, 1) : ceil_div(vectors, wide);
    Run* runs = column_runs_;
    for (i64 p = 0; p < panels; ++p) {
      const i64 from = vectors * p / panels * kLanes<T>;
      const i64 to = min_of(vectors * (p + 1) / panels * kLanes<T>, columns);
      panels_[p] = panel_at(n + from, static_cast<int>(to - from), b + from, runs);
      runs += panels_[p].run_count;
    }
    for (int i = 0; i < segment_count_; ++i) {
      const Segment& segment = segments_[i];
      const i64 tiles = ceil_div(segment.rows, kMicroRows[wide]);
      for (i64 t = 0; t < tiles; ++t) {
        const i64 from = segment.rows * t / tiles, to = segment.rows * (t + 1) / tiles;
        for (i64 p = 0; p < panels; ++p) multiply_rows(panels_[p], segment, from, to, b_pitch);
      }
    }
  }

  Panel<T> panel_at(i64 column, int columns, const T* b, Run* runs) {
    const int vectors = (columns + kLanes<T> - 1) / kLanes<T>, count = cut_runs(g_.c.columns, n0_ + column, columns, runs);
    const bool contiguous = count == 1 && inner(g_.c.columns).stride == 1 && is_type<T>(g_.c.dtype) && g_.alpha == 1 &&
                            (!first_ || g_.beta == 0 || g_.beta == 1);
    return {b, column, columns, vectors, count, runs, contiguous};
  }

  /// Rows [from, to) of a segment, in as many tiles as the panel needs.
  void multiply_rows(const Panel<T>& panel, const Segment& segment, i64 from, i64 to, i64 b_pitch) {
    constexpr i64 kSize = sizeof(T);
    Micro m{.b = panel.b, .depth = depth_, .a_row = a_row_, .a_step = a_step_, .b_step = b_pitch * kSize};
    const i64 rows = to - from, tiles = ceil_div(rows, kMicroRows[panel.vectors]);
    for (i64 t = 0; t < tiles; ++t) {
      const i64 begin = from + rows * t / tiles, end = from + rows * (t + 1) / tiles;
      m.a = segment.a + begin * a_row_;
      multiply_tile(panel, segment.first + begin, static_cast<int>(end - begin), m);
    }
  }

  void multiply_tile(const Panel<T>& panel, i64 row, int rows, Micro& m) {
    constexpr i64 kSize = sizeof(T);
    const MicroKernel kernel =
        micro_kernel(sizeof(T) == sizeof(double) ? Dot::kDouble : Dot::kFloat, rows, panel.vectors);
    if (keeps_) {
      m.c = sums_ + row * sums_pitch_ + panel.column;
      m.c_row = sums_pitch_ * kSize;
      m.add = !first_;
      kernel(m);
      if (last_) write(panel, row, rows, sums_ + row * sums_pitch_ + panel.column, sums_pitch_);
    } else if (panel.contiguous && row_even_[row] >= rows) {
      m.c = static_cast<T*>(g_.c.data) + row_offset_[row] + panel.runs[0].offset;
      m.c_row = rows > 1 ? (row_offset_[row + 1] - row_offset_[row]) * kSize : 0;
      m.tail = panel.columns - (panel.vectors - 1) * kLanes<T>;
      m.add = !first_ || g_.beta == 1;
      kernel(m);
    } else {
      m.c = tile_;
      m.c_row = kTilePitch * kSize;
      kernel(m);
      write(panel, row, rows, tile_, kTilePitch);
    }
  }

  /// Finished sums to C, or those of one block of depth.
  void write(const Panel<T>& panel, i64 row, int rows, const T* sums, i64 pitch) {
    const i64 stride = inner(g_.c.columns).stride;
    const T alpha = static_cast<T>(g_.alpha), beta = first_ || keeps_ ? static_cast<T>(g_.beta) : T{1};
    with_storage<T>(g_.c.dtype, [&](auto* s) {
      auto* const c = static_cast<decltype(s)>(g_.c.data);
      for (int r = 0; r < rows; ++r)
        write_runs(c + row_offset_[row + r], stride, panel.runs, panel.run_count, sums + r * pitch, alpha, beta);
    });
  }

  const Gemm& g_;
  i64 rows_, columns_, step_;
  bool keeps_, a_along_, a_in_place_;
  i64 a_pitch_, b_pitch_, sums_pitch_;
  T *a_, *b_, *tile_, *sums_;
  CopySpace<T> space_;
  Run* column_runs_;
  Panel<T>* panels_;
  i64* row_offset_;
  int* row_even_;
  Segment* segments_;
  std::size_t bytes_ = 0;
  // Of the piece and the block of depth at hand.
  i64 m0_ = 0, n0_ = 0, depth_ = 0, a_row_ = 0, a_step_ = 0;
  int segment_count_ = 0;
  bool first_ = true, last_ = true;
};

}  // namespace

TileShape gemm_tile(DataType type) {
  const int lanes = type == DataType::kDouble ? kLanes<double> : kLanes<float>;
  return {kMicroRows[2], 2 * lanes, lanes};
}

std::size_t gemm_scratch(const Gemm& g, i64 rows, i64 columns) {
  return g.c.dtype == DataType::kDouble ? Product<double>(g, rows, columns, nullptr).bytes()
                                        : Product<float>(g, rows, columns, nullptr).bytes();
}

void gemm(const Gemm& g, i64 m0, i64 m1, i64 n0, i64 n1, void* scratch) {
  if (g.c.dtype == DataType::kDouble) {
    Product<double>(g, m1 - m0, n1 - n0, static_cast<char*>(scratch)).run(m0, n0);
  } else {
    Product<float>(g, m1 - m0, n1 - n0, static_cast<char*>(scratch)).run(m0, n0);
  }
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
