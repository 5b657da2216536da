// Blocked matrix multiplication over implicit operands. For each block of depth the rows of A lie in place or are
// copied into the second-level cache; a narrow panel of columns of B is copied, if it lies evenly by the first of the
// register tiles that walk down the rows of it. Partial sums between depth blocks are kept in C, or in scratch if C is
// 16-bit or strided. Large results are written past the caches.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/caches.h"
#include "kernels/cpu/isa/prefetch.h"
#include "kernels/cpu/isa/copy_blocks.h"
#include "kernels/cpu/isa/gemv_dot.h"
#include "kernels/cpu/isa/entry_points.h"
#include "kernels/cpu/isa/gemm_operands.h"
#include "kernels/cpu/isa/gemv_axpy.h"
#include "kernels/cpu/isa/upsample.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

/// Some columns of B and C: those in one run of C with unit stride can be written by the micro-kernel.
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
      : g_(g), rows_(rows), columns_(columns), step_(depth_step<T>(g)) {
    b_in_place_ = b_in_place<T>(g, rows, step_);
    block_ = block_columns<T>(g, step_, rows, columns);
    copies_ = copies_panels(rows);
    far_ = !is_near<T>(g);
    upsamples_ = g.c.gap != 0 && g.beta == 0;
    const bool large = max_of(g.k, g.m) * g.n * static_cast<i64>(sizeof(T)) > kResultCaches / 2;
    non_temporal_ = kVectorBytes == 64 && large && (upsamples_ || step_ >= g.k);
    goes_down_ = b_in_place_ || block_ <= kTilePitch;
    keeps_ = upsamples_ || (step_ < g.k && (size_of_type(g.c.dtype) < sizeof(T) || inner(g.c.columns).stride != 1));
    a_along_ = run_cost(g.a.depth) <= run_cost(g.a.lanes);
    a_groups_ = a_in_groups<T>(g, columns);
    a_in_place_ = !a_groups_ && a_in_place<T>(g);
    a_pitch_ = a_groups_ ? kGroup : pitch_of<T>(a_along_ ? step_ : rows);
    b_pitch_ = b_in_place_ || block_ <= kTilePitch ? min_of<i64>(block_, kTilePitch) : pitch_of<T>(block_);
    sums_pitch_ = pitch_of<T>(columns);
    space_.line_pitch = pitch_of<T>(step_ + kSpill<T>);
    const i64 lines = a_in_place_ ? 0 : a_along_ ? rows : step_;
    a_ = take<T>(base, (a_groups_ ? round_up(rows, kGroup) * step_ : lines * a_pitch_) + kSpill<T>);
    b_ = take<T>(base, step_ * b_pitch_ + kSpill<T>);
    tile_ = take<T>(base, kTileRows * kTilePitch);
    space_.lines = take<T>(base, kLanes<T> * space_.line_pitch);
    space_.runs = take<Run>(base, max_of(max_of(rows, block_), step_) + 1);
    column_runs_ = take<Run>(base, block_ + 1);
    panels_ = take<Panel<T>>(base, block_ / kLanes<T>);
    row_offset_ = take<i64>(base, rows);
    row_even_ = take<int>(base, rows);
    segments_ = take<Segment>(base, a_in_place_ ? rows / kSegment + 3 : 2);
    sums_ = take<T>(base, keeps_ ? rows * sums_pitch_ + kSpill<T> : 0);  // a vector is read past the last run
    upsample_.line = take<T>(base, upsamples_ ? upsample_room<T>(columns) : 0);
    upsample_.runs = take<Run>(base, upsamples_ ? columns : 0);
    upsample_.non_temporal = non_temporal_;
  }
  std::size_t bytes() const { return bytes_; }

  void run(i64 m0, i64 n0) {
    m0_ = m0;
    n0_ = n0;
    find_rows();
    i64 k0 = 0;
    do {
      depth_ = min_of(step_, g_.k - k0);
      if (depth_run_ > 0) depth_ = min_of(depth_, depth_run_ - k0 % depth_run_);
      first_ = k0 == 0;
      last_ = k0 + depth_ >= g_.k;
      b_start_ = seek(g_.b.depth, k0).offset;
      below_ = 0;
      place_a(k0);
      for (i64 n = 0; n < columns_;) n += multiply_block(k0, n);
      k0 += depth_;
    } while (k0 < g_.k);
    if (upsamples_) write_zeros_between();
#if defined(__AVX512F__)
    if (non_temporal_) _mm_sfence();  // other threads read the result when they see that the task is done
#endif
  }

 private:
  static constexpr Dot kDot = sizeof(T) == sizeof(double) ? Dot::kDouble : Dot::kFloat;
  static constexpr int kTileRows = kMicroRows[1];
  static constexpr int kGroup = kMicroRows[3];
  static constexpr int kTilePitch = kMicroVectors * kLanes<T>;

  /// Rows of A that are the same number of bytes apart, and how they are cut into tiles of similar height.
  struct Segment {
    i64 first, rows;
    const char* a;
    int tiles = 0, each = 0, higher = 0;

    int cut(int most) {
      const int all = static_cast<int>(rows);
      tiles = (all + most - 1) / most;
      each = all / tiles;
      higher = all % tiles;
      return tiles;
    }
  };

  static bool is_lined(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 64 == 0; }
  static std::size_t size_of_type(DataType type) { return is_type<T>(type) ? sizeof(T) : 2; }

  template <class U>
  U* take(char* base, i64 count) {
    char* place = base == nullptr ? nullptr : base + bytes_;
    bytes_ += static_cast<std::size_t>(round_up(count * static_cast<i64>(sizeof(U)), 64));
    return reinterpret_cast<U*>(place);
  }

  /// Where the rows of C lie, and how many from each on are evenly spaced.
  void find_rows() {
    place_rows(g_, m0_, rows_, row_offset_);
    if (is_single(g_.c.rows)) {
      for (i64 i = 0; i < rows_; ++i) row_even_[i] = static_cast<int>(rows_ - i);
      return;
    }
    for (i64 i = rows_; i-- > 0;) {
      const i64* const at = row_offset_ + i;
      const bool joins = i + 2 < rows_ && at[2] - at[1] == at[1] - at[0];
      row_even_[i] = i + 1 == rows_ ? 1 : joins ? row_even_[i + 1] + 1 : 2;
    }
  }

  void place_a(i64 k0) {
    constexpr i64 kSize = sizeof(T);
    segment_count_ = 1;
    segments_[0] = {0, rows_, reinterpret_cast<const char*>(a_)};
    a_row_ = a_along_ ? a_pitch_ * kSize : kSize;
    a_step_ = a_along_ ? kSize : a_pitch_ * kSize;
    if (a_in_place_) return place_segments(k0);
    if (a_groups_) return place_groups(k0);
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
    const i64 start = g_.a.offset + seek(g_.a.depth, k0).offset;
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

  void place_groups(i64 k0) {
    constexpr int kPart = kGroup < kLanes<T> ? kGroup : kLanes<T>;
    const i64 stride = inner(g_.a.depth).stride, whole = rows_ / kGroup * kGroup;
    const T* from = static_cast<const T*>(g_.a.data) + g_.a.offset + seek(g_.a.depth, k0).offset + m0_;
    T* to = a_;
    a_row_ = sizeof(T);
    a_step_ = kGroup * sizeof(T);
    segment_count_ = 0;
    if (whole > 0) segments_[segment_count_++] = {0, whole, reinterpret_cast<const char*>(a_)};
    for (i64 row = 0; row < rows_; row += kGroup, from += kGroup) {
      const T* line = from;
      if (row < whole) {
        for (i64 k = 0; k < depth_; ++k, line += stride, to += kGroup)
          for (int e = 0; e < kGroup; e += kPart) store<T, kPart>(to + e, load<T, kPart>(line + e));
        continue;
      }
      segments_[segment_count_++] = {row, rows_ - row, reinterpret_cast<const char*>(to)};
      const int rest = static_cast<int>(rows_ - row);
      for (i64 k = 0; k < depth_; ++k, line += stride, to += kGroup)
        for (int e = 0; e < rest; e += kPart) store(to + e, load_lanes(line + e, 0, min_of(rest - e, kPart)));
    }
  }

  /// Columns from n of the piece on are multiplied where they lie, or copied; returns how many.
  i64 multiply_block(i64 k0, i64 n) {
    const Operand& b = g_.b;
    const i64 first = n0_ + n;
    i64 left = min_of(columns_ - n, block_);
    if (is_readable_in_place<T>(g_, b) && inner(b.lanes).stride == 1) {
      const i64 pitch = inner(b.depth).stride, whole = min_of(left, b_stretch_.room(first)) / kLanes<T> * kLanes<T>;
      if (whole > 0 && (whole == left || whole >= 3 * kLanes<T>)) {
        const T* const source = static_cast<const T*>(b.data) + b.offset + b_stretch_.at(first) + b_start_;
        pitch_bytes_ = pitch * static_cast<i64>(sizeof(T));
        look_behind(source + whole, whole);
        look_below(source, pitch, whole);
        if (!b_in_place_) copy_block(source, pitch, whole);
        multiply(n, static_cast<int>(whole), b_in_place_ ? source : b_, b_in_place_ ? pitch : b_pitch_);
        return whole;
      }
    }
    look_behind(nullptr, 0);
    prefetcher_.look_below(nullptr, 0);
    if (b_in_place_) left = min_of<i64>(left, 3 * kLanes<T>);
    const int columns = static_cast<int>(left), depth = static_cast<int>(depth_);
    with_storage<T>(b.dtype, [&](auto* s) {
      using S = std::remove_pointer_t<decltype(s)>;
      if (run_cost(b.lanes) <= run_cost(b.depth)) {
        const int padded = static_cast<int>(round_up(columns, kLanes<T>));
        copy_lines<T, S>(b, b.depth, k0, depth, b.lanes, first, columns, padded, b_, b_pitch_, space_.runs);
      } else {
        transpose_part<T, S>(b, {first, k0, columns, depth}, b_, b_pitch_, space_);
      }
    });
    multiply(n, columns, b_, b_pitch_);
    return left;
  }

  void copy_block(const T* from, i64 pitch, i64 columns) {
    T* to = b_;
    for (i64 k = 0; k < depth_; ++k, from += pitch, to += b_pitch_)
      for (i64 e = 0; e < columns; e += kLanes<T>) store(to + e, load(from + e));
  }

  /// All rows by the columns from n on, whose B is at b.
  void multiply(i64 n, int columns, const T* b, i64 b_pitch) {
    const int vectors = (columns + kLanes<T> - 1) / kLanes<T>;
    // Two rows of four vectors have as few sums as a chain of additions needs: only where A's rows lie apart.
    const bool few = kMicroRows[4] <= 2 && a_row_ == sizeof(T);
    const bool wide = !a_groups_ && (rows_ <= kMicroRows[4] || (!few && vectors <= kMicroVectors));
    const int most = wide ? kMicroVectors : 3, panels = (vectors + most - 1) / most;
    const int each = vectors / panels, wider = vectors % panels;
    Run* runs = column_runs_;
    for (int p = 0, from = 0; p < panels; ++p) {
      const int some = min_of((each + (p < wider)) * kLanes<T>, columns - from);
      panels_[p] = panel_at(n + from, some, b + from, runs);
      runs += panels_[p].run_count;
      from += some;
    }
    const int rows = a_groups_ ? kGroup : kMicroRows[each + (wider > 0)];
    int tiles = 0;
    for (int i = 0; i < segment_count_; ++i) tiles += segments_[i].cut(rows);
    prefetcher_.share(tiles * panels);
    line_ = c_stretch_.room(n0_ + n) >= columns;
    if (goes_down_) {
      for (int p = goes_down_evenly(wider, panels, b_pitch) ? panels : 0; p < panels; ++p) {
        if (b_in_place_ && prefetcher_.looks_behind())
          look_behind(panels_[p].b + panels_[p].columns, panels_[p].columns);
        go_down(panels_[p], b_pitch);
      }
    } else {
      for (int i = 0; i < segment_count_; ++i) go_across(segments_[i], wider, panels, b_pitch);
    }
  }

  Panel<T> panel_at(i64 column, int columns, const T* b, Run* runs) {
    const int vectors = (columns + kLanes<T> - 1) / kLanes<T>;
    int count = 1;
    if (c_stretch_.room(n0_ + column) >= columns) {
      *runs = {columns, c_stretch_.at(n0_ + column), {}};
    } else {
      count = cut_runs(g_.c.columns, n0_ + column, columns, runs);
    }
    const bool contiguous = count == 1 && inner(g_.c.columns).stride == 1 && is_type<T>(g_.c.dtype) && g_.alpha == 1 &&
                            (!first_ || g_.beta == 0 || g_.beta == 1);
    return {b, column, columns, vectors, count, runs, contiguous};
  }

  Micro micro(const char* a, const T* b, i64 b_pitch) const {
    constexpr i64 kSize = sizeof(T);
    return {.a = a, .b = b, .depth = depth_, .a_row = a_row_, .a_step = a_step_, .b_step = b_pitch * kSize};
  }

  /// All panels with as few calls as possible, where all tiles are equal and lie evenly.
  bool goes_down_evenly(int wider, int panels, i64 b_pitch) {
    const Segment& all = segments_[0];
    if (!copies_ || !b_in_place_ || panels_[0].b == b_ || keeps_ || !line_ || !panels_[0].contiguous) return false;
    if (segment_count_ != 1 || all.higher != 0 || row_even_[all.first] < all.rows) return false;
    for (int p = 0; p < panels; p += p < wider ? wider : panels - wider) {
      const Panel<T>& panel = panels_[p];
      Micro m = micro(all.a, panel.b, b_pitch);
      m.a_next = a_groups_ ? depth_ * a_step_ : all.each * a_row_;
      m.copy = b_;
      m.panels = p < wider ? wider : panels - wider;
      look_behind(panel.b + panel.columns, panel.columns);
      prefetcher_.fetch(m, all.tiles, all.tiles);
      multiply_tiles(panel, all.first, all.each, all.tiles, 1, m);
    }
    return true;
  }

  /// The tiles of a panel one below the other: its B stays in the first-level cache, where the first tile copies it.
  void go_down(const Panel<T>& panel, i64 b_pitch) {
    const T* b = panel.b;
    for (int i = 0; i < segment_count_; ++i) {
      const Segment& segment = segments_[i];
      const char* a = segment.a;
      i64 row = segment.first;
      for (int t = 0; t < segment.tiles;) {
        const bool high = t < segment.higher, copies = copies_ && b != b_;
        const int rows = segment.each + high, rest = (high ? segment.higher : segment.tiles) - t;
        const int tiles = keeps_ || (panel.contiguous && row_even_[row] >= rows * rest) ? rest : 1;
        Micro m = micro(a, b, b_pitch);
        m.a_next = a_groups_ ? depth_ * a_step_ : rows * a_row_;
        m.copy = copies ? b_ : nullptr;
        if (!look_down(m, rows * a_row_, panel.column == 0, tiles)) prefetcher_.fetch(m, tiles, segment.tiles);
        multiply_tiles(panel, row, rows, tiles, 1, m);
        if (copies) {
          b = b_;
          b_pitch = panel.vectors * kLanes<T>;
        }
        t += tiles;
        row += rows * tiles;
        a += tiles * m.a_next;
      }
    }
  }

  /// Tile by tile of a segment all panels, of which `wider` have a vector more: B and C are read and written in long
  /// lines.
  void go_across(const Segment& segment, int wider, int panels, i64 b_pitch) {
    const bool ragged = panels_[panels - 1].columns % kLanes<T> != 0;
    const char* a = segment.a;
    i64 row = segment.first;
    for (int t = 0; t < segment.tiles; ++t) {
      const int rows = segment.each + (t < segment.higher);
      for (int p = 0; p < panels;) {
        const Panel<T>& panel = panels_[p];
        const bool line = (keeps_ || (line_ && panel.contiguous && row_even_[row] >= rows));
        const int end = p < wider ? wider : ragged && p + 1 < panels ? panels - 1 : panels, tiles = line ? end - p : 1;
        Micro m = micro(a, panel.b, b_pitch);
        m.b_next = panel.vectors * kVectorBytes;
        if (!look_down(m, rows * a_row_, panel.column == 0, 1)) prefetcher_.fetch(m, tiles, segment.tiles);
        multiply_tiles(panel, row, rows, 1, tiles, m);
        p += tiles;
      }
      row += rows;
      a += a_groups_ ? depth_ * a_step_ : rows * a_row_;
    }
  }

  MicroKernel kernel_for(int rows, int vectors) {
    if (rows == kernel_rows_ && vectors == kernel_vectors_) return kernel_;
    kernel_rows_ = rows;
    kernel_vectors_ = vectors;
    return kernel_ = micro_kernel(kDot, rows, vectors);
  }

  /// What lies behind the columns that are multiplied now is wanted next.
  void look_behind(const T* next, i64 columns) { prefetcher_.look_behind(next, columns / kLanes<T>, pitch_bytes_); }
  /// Rather, the next block of B's depth, if it follows this one as it lies and they share a cache.
  void look_below(const T* b, i64 pitch, i64 columns) {
    const i64 bytes = depth_ * pitch * static_cast<i64>(sizeof(T));
    const bool follows = !last_ && pitch == columns && is_single(g_.b.depth) && bytes <= kColumnBlockBytes;
    prefetcher_.look_below(follows ? b + depth_ * pitch : nullptr, bytes);
  }
  /// Of A in place that is read from one end to the other each step fetches a line. If a row's depths are neighbours,
  /// these are rows some KiB below the tile, of `bytes` bytes; if all rows of a depth are, the next block of depth.
  bool look_down(Micro& m, i64 bytes, bool first_panel, int tiles) {
    constexpr i64 kFar = 4096, kLine = 64, kSize = sizeof(T);
    if (!a_in_place_) return false;
    if (a_step_ == kSize && first_panel && a_row_ > 0 && a_row_ <= depth_ * kSize * 5 / 4 && bytes <= kLine * depth_) {
      m.prefetch = static_cast<const char*>(m.a) + ceil_div(kFar, bytes) * bytes;
      m.prefetch_next = bytes;
      m.prefetch_tiles = tiles;
    } else if (a_row_ == kSize && a_step_ == rows_ * kSize && below_ < a_step_ && !last_) {
      m.prefetch = segments_[0].a + depth_ * (a_step_ + below_);
      m.prefetch_next = kLine * depth_;
      m.prefetch_tiles = min_of<i64>(tiles, ceil_div(a_step_ - below_, kLine));
      below_ += tiles * kLine;
    } else {
      return false;
    }
    m.prefetch_step = m.prefetch_next / depth_;
    return true;
  }

  /// `down` tiles one below the other, or `across` side by side.
  void multiply_tiles(const Panel<T>& panel, i64 row, int rows, int down, int across, Micro& m) {
    constexpr i64 kSize = sizeof(T);
    const MicroKernel kernel = m.copy ? copying_kernel(kDot, rows, panel.vectors) : kernel_for(rows, panel.vectors);
    m.tiles = down * across;
    m.tail = 0;
    m.add = keeps_ && !first_;
    if (keeps_) {
      m.c = sums_ + row * sums_pitch_ + panel.column;
      m.c_row = sums_pitch_ * kSize;
    } else if (panel.contiguous && row_even_[row] >= rows * down) {
      m.c = static_cast<T*>(g_.c.data) + row_offset_[row] + panel.runs[0].offset;
      m.c_row = rows * down > 1 ? (row_offset_[row + 1] - row_offset_[row]) * kSize : 0;
      m.tail = panel.columns - (panel.vectors - 1) * kLanes<T>;
      m.add = !first_ || g_.beta == 1;
      m.fetches_c = far_;
      m.non_temporal = non_temporal_ && !m.add && m.tail == kLanes<T> && is_lined(m.c) && m.c_row % 64 == 0;
      if (m.non_temporal) m.fetches_c = false;
    } else {
      m.c = tile_;
      m.c_row = kTilePitch * kSize;
      kernel(m);
      return write(panel, row, rows, tile_, kTilePitch);
    }
    m.c_next = across > 1 ? panel.vectors * kVectorBytes : rows * m.c_row;
    kernel(m);
    for (int p = 0; keeps_ && last_ && !upsamples_ && p < across; ++p)
      write((&panel)[p], row, rows * down, static_cast<T*>(m.c) + p * panel.vectors * kLanes<T>, sums_pitch_);
  }

  void write_zeros_between() {
    upsample_.count = cut_runs(g_.c.columns, n0_, static_cast<int>(columns_), upsample_.runs);
    for (i64 row = 0; row < rows_; ++row)
      upsample_.write(static_cast<T*>(g_.c.data) + row_offset_[row], g_.c.gap, sums_ + row * sums_pitch_,
                      static_cast<T>(g_.alpha));
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
  i64 rows_, columns_, step_, depth_run_ = depth_run(g_);
  bool keeps_, upsamples_, a_along_, a_in_place_, a_groups_, b_in_place_, goes_down_, copies_, far_, non_temporal_,
      line_ = false;
  i64 block_ = 0, a_pitch_, b_pitch_, sums_pitch_;
  Panel<T>* panels_;
  MicroKernel kernel_ = nullptr;
  int kernel_rows_ = 0, kernel_vectors_ = 0;
  Prefetcher prefetcher_;
  i64 pitch_bytes_ = 0;  // of B
  i64 below_ = 0;        // of A, fetched of its next block
  T *a_, *b_, *tile_, *sums_;
  CopySpace<T> space_;
  Run* column_runs_;
  Stretch b_stretch_{&g_.b.lanes}, c_stretch_{&g_.c.columns};
  Upsample<T> upsample_;
  i64* row_offset_;
  int* row_even_;
  Segment* segments_;
  std::size_t bytes_ = 0;
  // Of the piece and the block of depth at hand.
  i64 m0_ = 0, n0_ = 0, depth_ = 0, b_start_ = 0, a_row_ = 0, a_step_ = 0;
  int segment_count_ = 0;
  bool first_ = true, last_ = true;
};

template <class T>
std::size_t scratch_of(const Gemm& g, i64 rows, i64 columns) {
  return is_scaled_lines(g) ? kScaledBytes : Product<T>(g, rows, columns, nullptr).bytes();
}

template <class T>
void multiply(const Gemm& g, i64 m0, i64 m1, i64 n0, i64 n1, void* scratch) {
  if (is_dots(g) || is_scaled_lines(g)) {
    return with_storage<T>(g.c.dtype, [&](auto* s) {
      using S = std::remove_pointer_t<decltype(s)>;
      is_dots(g) ? dots<T, S>(g, m0, m1, n0, n1) : scaled_lines<T, S>(g, m0, m1, n0, n1, scratch);
    });
  }
  Product<T>(g, m1 - m0, n1 - n0, static_cast<char*>(scratch)).run(m0, n0);
}

}  // namespace

TileShape gemm_tile(DataType type) {
  const int lanes = type == DataType::kDouble ? kLanes<double> : kLanes<float>;
  return {kMicroRows[3], 3 * lanes, lanes};
}

std::size_t gemm_scratch(const Gemm& g, i64 rows, i64 columns) {
  return g.c.dtype == DataType::kDouble ? scratch_of<double>(g, rows, columns) : scratch_of<float>(g, rows, columns);
}

void gemm(const Gemm& g, i64 m0, i64 m1, i64 n0, i64 n1, void* scratch) {
  if (g.c.dtype == DataType::kDouble) return multiply<double>(g, m0, m1, n0, n1, scratch);
  multiply<float>(g, m0, m1, n0, n1, scratch);
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
