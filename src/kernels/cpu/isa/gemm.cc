// Blocked matrix multiplication over implicit operands. Per block of depth (K), A is read in place or copied into the
// second-level cache; B is copied panel by panel, by the first register tile if B is uniformly strided. Partial sums
// stay in C, or in scratch if C is 16-bit or strided. Large results are written with non-temporal stores.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/caches.h"
#include "kernels/cpu/isa/prefetch.h"
#include "kernels/cpu/isa/copy_blocks.h"
#include "kernels/cpu/isa/gemv_dot.h"
#include "kernels/cpu/isa/gemm_operands.h"
#include "kernels/cpu/isa/gemv_axpy.h"
#include "kernels/cpu/isa/upsample.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

/// A piece of C: `rows` x `columns`.
template <class T>
class Product {
 public:
  /// Carves its memory from base; with null it only counts bytes.
  Product(const Gemm& g, i64 rows, i64 columns, char* base)
      : g_(g), rows_(rows), columns_(columns), max_depth_(depth_step<T>(g)) {
    has_in_place_b_ = has_in_place_b<T>(g, rows, max_depth_);
    block_columns_ = block_columns<T>(g, max_depth_, rows, columns);
    has_panel_copy_ = copies_b_panels(rows);
    exceeds_cache_ = !fits_in_cache<T>(g);
    is_upsampled_ = g.c.gap != 0 && g.beta == 0;
    const bool is_large = max_of(g.k, g.m) * g.n * static_cast<i64>(sizeof(T)) > kResultCaches / 2;
    is_non_temporal_ = kVectorBytes == 64 && is_large && (is_upsampled_ || max_depth_ >= g.k);
    has_panels_outermost_ = has_in_place_b_ || block_columns_ <= kTilePitch;
    has_scratch_sums_ = is_upsampled_ || (max_depth_ < g.k &&
                                          (size_of_type<T>(g.c.dtype) < sizeof(T) || inner(g.c.columns).stride != 1));
    has_row_major_a_ = run_cost(g.a.depth) <= run_cost(g.a.lanes);
    has_row_panels_ = has_row_panels<T>(g, columns);
    has_in_place_a_ = !has_row_panels_ && has_in_place_a<T>(g);
    a_pitch_ = has_row_panels_ ? kPanelRows : pitch_of<T>(has_row_major_a_ ? max_depth_ : rows);
    b_pitch_ = has_in_place_b_ || block_columns_ <= kTilePitch ? min_of<i64>(block_columns_, kTilePitch)
                                                               : pitch_of<T>(block_columns_);
    sums_pitch_ = pitch_of<T>(columns);
    space_.line_pitch = pitch_of<T>(max_depth_ + kSpill<T>);
    const i64 lines = has_in_place_a_ ? 0 : has_row_major_a_ ? rows : max_depth_;
    a_ = take<T>(base, (has_row_panels_ ? round_up(rows, kPanelRows) * max_depth_ : lines * a_pitch_) + kSpill<T>);
    b_ = take<T>(base, max_depth_ * b_pitch_ + kSpill<T>);
    tile_sums_ = take<T>(base, kMicroRows[1] * kTilePitch);
    space_.lines = take<T>(base, kLanes<T> * space_.line_pitch);
    space_.runs = take<Run>(base, max_of(max_of(rows, block_columns_), max_depth_) + 1);
    column_runs_ = take<Run>(base, block_columns_ + 1);
    panels_ = take<Panel<T>>(base, block_columns_ / kLanes<T>);
    row_offsets_ = take<i64>(base, rows);
    uniform_rows_ = take<int>(base, rows);
    segments_ = take<Segment>(base, has_in_place_a_ ? rows / kMinSegmentRows + 3 : 2);
    // write() reads a vector past the last run.
    sums_ = take<T>(base, has_scratch_sums_ ? rows * sums_pitch_ + kSpill<T> : 0);
    upsample_.line = take<T>(base, is_upsampled_ ? upsample_room<T>(columns) : 0);
    upsample_.runs = take<Run>(base, is_upsampled_ ? columns : 0);
    upsample_.non_temporal = is_non_temporal_;
  }
  std::size_t bytes() const { return bytes_; }

  /// Computes rows from m0 and columns from n0 on.
  void run(i64 m0, i64 n0) {
    m0_ = m0;
    n0_ = n0;
    find_row_offsets(g_, m0_, rows_, row_offsets_);
    find_uniform_rows();
    i64 k0 = 0;
    do {
      depth_ = min_of(max_depth_, g_.k - k0);
      if (depth_run_ > 0) depth_ = min_of(depth_, depth_run_ - k0 % depth_run_);
      is_first_block_ = k0 == 0;
      is_last_block_ = k0 + depth_ >= g_.k;
      b_depth_offset_ = seek(g_.b.depth, k0).offset;
      a_prefetch_offset_ = 0;
      prepare_a(k0);
      for (i64 n = 0; n < columns_;) n += multiply_block(k0, n);
      k0 += depth_;
    } while (k0 < g_.k);
    if (is_upsampled_) write_zeros_between();
#if defined(__AVX512F__)
    if (is_non_temporal_) _mm_sfence();  // other threads read the result when they see that the task is done
#endif
  }

 private:
  static constexpr Dot kDot = sizeof(T) == sizeof(double) ? Dot::kDouble : Dot::kFloat;
  static constexpr int kPanelRows = kMicroRows[3];
  static constexpr int kTilePitch = kMicroVectors * kLanes<T>;

  /// The next `count` elements of the scratch memory, aligned to a cache line.
  template <class U>
  U* take(char* base, i64 count) {
    char* place = base == nullptr ? nullptr : base + bytes_;
    bytes_ += static_cast<std::size_t>(round_up(count * static_cast<i64>(sizeof(U)), 64));
    return reinterpret_cast<U*>(place);
  }

  void find_uniform_rows() {
    if (is_uniformly_strided(g_.c.rows)) {
      for (i64 i = 0; i < rows_; ++i) uniform_rows_[i] = static_cast<int>(rows_ - i);
      return;
    }
    for (i64 i = rows_; i-- > 0;) {
      const i64* const offset = row_offsets_ + i;
      const bool is_uniform = i + 2 < rows_ && offset[2] - offset[1] == offset[1] - offset[0];
      uniform_rows_[i] = i + 1 == rows_ ? 1 : is_uniform ? uniform_rows_[i + 1] + 1 : 2;
    }
  }

  /// A for the block of depth from k0 on: in place, packed in row panels, or copied.
  void prepare_a(i64 k0) {
    constexpr i64 kSize = sizeof(T);
    segment_count_ = 1;
    segments_[0] = {0, rows_, reinterpret_cast<const char*>(a_)};
    a_row_stride_ = has_row_major_a_ ? a_pitch_ * kSize : kSize;
    a_step_stride_ = has_row_major_a_ ? kSize : a_pitch_ * kSize;
    if (has_in_place_a_) return prepare_a_in_place(k0);
    if (has_row_panels_) return pack_a_row_panels(k0);
    const int height = static_cast<int>(rows_), depth = static_cast<int>(depth_);
    with_storage<T>(g_.a.dtype, [&](auto* s) {
      using S = std::remove_pointer_t<decltype(s)>;
      const Operand& a = g_.a;
      if (has_row_major_a_) {
        copy_lines<T, S>(a, a.lanes, m0_, height, a.depth, k0, depth, depth, a_, a_pitch_, space_.runs);
      } else {
        copy_lines<T, S>(a, a.depth, k0, depth, a.lanes, m0_, height, height, a_, a_pitch_, space_.runs);
      }
    });
  }

  void prepare_a_in_place(i64 k0) {
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
    a_row_stride_ = inner(g_.a.lanes).stride * kSize;
    a_step_stride_ = inner(g_.a.depth).stride * kSize;
  }

  /// a_[panel][depth][kPanelRows]; rows past the last full panel are a segment of their own.
  void pack_a_row_panels(i64 k0) {
    constexpr int kChunk = kPanelRows < kLanes<T> ? kPanelRows : kLanes<T>;
    const i64 stride = inner(g_.a.depth).stride, full_panel_rows = rows_ / kPanelRows * kPanelRows;
    const T* source = static_cast<const T*>(g_.a.data) + g_.a.offset + seek(g_.a.depth, k0).offset + m0_;
    T* packed = a_;
    a_row_stride_ = sizeof(T);
    a_step_stride_ = kPanelRows * sizeof(T);
    segment_count_ = 0;
    if (full_panel_rows > 0) segments_[segment_count_++] = {0, full_panel_rows, reinterpret_cast<const char*>(a_)};
    for (i64 row = 0; row < rows_; row += kPanelRows, source += kPanelRows) {
      const T* line = source;
      if (row < full_panel_rows) {
        for (i64 k = 0; k < depth_; ++k, line += stride, packed += kPanelRows)
          for (int e = 0; e < kPanelRows; e += kChunk) store<T, kChunk>(packed + e, load<T, kChunk>(line + e));
        continue;
      }
      segments_[segment_count_++] = {row, rows_ - row, reinterpret_cast<const char*>(packed)};
      const int rest = static_cast<int>(rows_ - row);
      for (i64 k = 0; k < depth_; ++k, line += stride, packed += kPanelRows)
        for (int e = 0; e < rest; e += kChunk) store(packed + e, load_lanes(line + e, 0, min_of(rest - e, kChunk)));
    }
  }

  /// Multiplies a block of columns from n of the piece on; returns how many.
  i64 multiply_block(i64 k0, i64 n) {
    const Operand& b = g_.b;
    const i64 first = n0_ + n;
    i64 left = min_of(columns_ - n, block_columns_);
    if (is_readable_in_place<T>(g_, b) && inner(b.lanes).stride == 1) {
      const i64 pitch = inner(b.depth).stride;
      const i64 width = min_of(left, b_lane_run_.length_from(first)) / kLanes<T> * kLanes<T>;
      if (width > 0 && (width == left || width >= 3 * kLanes<T>)) {
        const T* const source =
            static_cast<const T*>(b.data) + b.offset + b_lane_run_.offset_at(first) + b_depth_offset_;
        b_pitch_bytes_ = pitch * static_cast<i64>(sizeof(T));
        prefetch_columns(source + width, width);
        prefetch_depth_block(source, pitch, width);
        if (!has_in_place_b_) copy_block(source, pitch, width);
        multiply(n, static_cast<int>(width), has_in_place_b_ ? source : b_, has_in_place_b_ ? pitch : b_pitch_);
        return width;
      }
    }
    prefetch_columns(nullptr, 0);
    prefetcher_.set_next_depth_block(nullptr, 0);
    if (has_in_place_b_) left = min_of<i64>(left, 3 * kLanes<T>);
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

  /// b_[depth][column]; `columns` is a multiple of the vector.
  void copy_block(const T* source, i64 pitch, i64 columns) {
    T* copy = b_;
    for (i64 k = 0; k < depth_; ++k, source += pitch, copy += b_pitch_)
      for (i64 e = 0; e < columns; e += kLanes<T>) store(copy + e, load(source + e));
  }

  /// Multiplies all rows by a block of columns from n on. b: element (0, n) of B or of its copy.
  void multiply(i64 n, int columns, const T* b, i64 b_pitch) {
    const int vectors = (columns + kLanes<T> - 1) / kLanes<T>;
    // 2 x 4 vectors (AVX2) are as few sums as the latency of FMA allows: only where the rows of A are not contiguous.
    const bool has_few_sums = kMicroRows[4] <= 2 && a_row_stride_ == sizeof(T);
    const bool is_wide = !has_row_panels_ && (rows_ <= kMicroRows[4] || (!has_few_sums && vectors <= kMicroVectors));
    const int max_vectors = is_wide ? kMicroVectors : 3, panels = (vectors + max_vectors - 1) / max_vectors;
    const int panel_vectors = vectors / panels, wider_panels = vectors % panels;  // the wider ones are first
    Run* runs = column_runs_;
    for (int p = 0, column = 0; p < panels; ++p) {
      const int width = min_of((panel_vectors + (p < wider_panels)) * kLanes<T>, columns - column);
      panels_[p] = panel_at(n + column, width, b + column, runs);
      runs += panels_[p].run_count;
      column += width;
    }
    const int rows = has_row_panels_ ? kPanelRows : kMicroRows[panel_vectors + (wider_panels > 0)];
    int tiles = 0;
    for (int i = 0; i < segment_count_; ++i) tiles += segments_[i].cut(rows);
    prefetcher_.distribute(tiles * panels);
    is_block_in_one_run_ = c_column_run_.length_from(n0_ + n) >= columns;
    if (has_panels_outermost_) {
      for (int p = multiply_uniform_panels(wider_panels, panels, b_pitch) ? panels : 0; p < panels; ++p) {
        if (has_in_place_b_ && prefetcher_.has_next_columns())
          prefetch_columns(panels_[p].b + panels_[p].columns, panels_[p].columns);
        multiply_panel(panels_[p], b_pitch);
      }
    } else {
      for (int i = 0; i < segment_count_; ++i) multiply_segment(segments_[i], wider_panels, panels, b_pitch);
    }
  }

  /// A panel of `columns` columns from `column` of the piece on; writes its runs to `runs`.
  Panel<T> panel_at(i64 column, int columns, const T* b, Run* runs) {
    const int vectors = (columns + kLanes<T> - 1) / kLanes<T>;
    int count = 1;
    if (c_column_run_.length_from(n0_ + column) >= columns) {
      *runs = {columns, c_column_run_.offset_at(n0_ + column), {}};
    } else {
      count = cut_runs(g_.c.columns, n0_ + column, columns, runs);
    }
    const bool is_contiguous = count == 1 && inner(g_.c.columns).stride == 1 && is_type<T>(g_.c.dtype) &&
                               g_.alpha == 1 && (!is_first_block_ || g_.beta == 0 || g_.beta == 1);
    return {b, column, columns, vectors, count, runs, is_contiguous};
  }

  Micro micro(const char* a, const T* b, i64 b_pitch) const {
    constexpr i64 kSize = sizeof(T);
    return {
        .a = a, .b = b, .depth = depth_, .a_row = a_row_stride_, .a_step = a_step_stride_, .b_step = b_pitch * kSize};
  }

  /// At most two calls for all panels. Returns false, having done nothing, unless all tiles are equal and uniform in C.
  bool multiply_uniform_panels(int wider_panels, int panels, i64 b_pitch) {
    const Segment& all = segments_[0];
    if (!has_panel_copy_ || !has_in_place_b_ || panels_[0].b == b_) return false;
    if (has_scratch_sums_ || !is_block_in_one_run_ || !panels_[0].is_contiguous) return false;
    if (segment_count_ != 1 || all.higher_tiles != 0 || uniform_rows_[all.first] < all.rows) return false;
    for (int p = 0; p < panels; p += p < wider_panels ? wider_panels : panels - wider_panels) {
      const Panel<T>& panel = panels_[p];
      Micro m = micro(all.a, panel.b, b_pitch);
      m.a_next = has_row_panels_ ? depth_ * a_step_stride_ : a_row_stride_ * all.tile_rows;
      m.b_copy = b_;
      m.panels = p < wider_panels ? wider_panels : panels - wider_panels;
      prefetch_columns(panel.b + panel.columns, panel.columns);
      prefetcher_.schedule(m, all.tiles, all.tiles);
      multiply_tiles(panel, all.first, all.tile_rows, all.tiles, 1, m);
    }
    return true;
  }

  /// The vertically adjacent tiles of a panel: the first one copies B, which then stays in the first-level cache.
  void multiply_panel(const Panel<T>& panel, i64 b_pitch) {
    const T* b = panel.b;
    for (int i = 0; i < segment_count_; ++i) {
      const Segment& segment = segments_[i];
      const char* a = segment.a;
      i64 row = segment.first;
      for (int t = 0; t < segment.tiles;) {
        const bool is_higher = t < segment.higher_tiles, is_copying = has_panel_copy_ && b != b_;
        const int rows = segment.tile_rows + is_higher;
        const int equal_tiles = (is_higher ? segment.higher_tiles : segment.tiles) - t;
        const int tiles =
            has_scratch_sums_ || (panel.is_contiguous && uniform_rows_[row] >= rows * equal_tiles) ? equal_tiles : 1;
        Micro m = micro(a, b, b_pitch);
        m.a_next = has_row_panels_ ? depth_ * a_step_stride_ : a_row_stride_ * rows;
        m.b_copy = is_copying ? b_ : nullptr;
        if (!prefetch_a(m, a_row_stride_ * rows, panel.column == 0, tiles)) {
          prefetcher_.schedule(m, tiles, segment.tiles);
        }
        multiply_tiles(panel, row, rows, tiles, 1, m);
        if (is_copying) {
          b = b_;
          b_pitch = panel.vectors * kLanes<T>;
        }
        t += tiles;
        row += rows * tiles;
        a += tiles * m.a_next;
      }
    }
  }

  /// All panels of one row of tiles before the next row: the kernel reads B and writes C in long lines.
  void multiply_segment(const Segment& segment, int wider_panels, int panels, i64 b_pitch) {
    const bool has_tail = panels_[panels - 1].columns % kLanes<T> != 0;
    const char* a = segment.a;
    i64 row = segment.first;
    for (int t = 0; t < segment.tiles; ++t) {
      const int rows = segment.tile_rows + (t < segment.higher_tiles);
      for (int p = 0; p < panels;) {
        const Panel<T>& panel = panels_[p];
        const bool is_one_call =
            has_scratch_sums_ || (is_block_in_one_run_ && panel.is_contiguous && uniform_rows_[row] >= rows);
        const int end = p < wider_panels ? wider_panels : has_tail && p + 1 < panels ? panels - 1 : panels;
        const int tiles = is_one_call ? end - p : 1;
        Micro m = micro(a, panel.b, b_pitch);
        m.b_next = panel.vectors * kVectorBytes;
        if (!prefetch_a(m, a_row_stride_ * rows, panel.column == 0, 1)) prefetcher_.schedule(m, tiles, segment.tiles);
        multiply_tiles(panel, row, rows, 1, tiles, m);
        p += tiles;
      }
      row += rows;
      a += has_row_panels_ ? depth_ * a_step_stride_ : a_row_stride_ * rows;
    }
  }

  MicroKernel kernel_for(int rows, int vectors) {
    if (rows == kernel_rows_ && vectors == kernel_vectors_) return kernel_;
    kernel_rows_ = rows;
    kernel_vectors_ = vectors;
    return kernel_ = micro_kernel(kDot, rows, vectors);
  }

  /// Tiles prefetch the columns from `next` on,
  void prefetch_columns(const T* next, i64 columns) {
    prefetcher_.set_next_columns(next, columns / kLanes<T>, b_pitch_bytes_);
  }
  /// or the next block of depth of B instead, if it follows this one in memory and both fit the cache.
  void prefetch_depth_block(const T* b, i64 pitch, i64 columns) {
    const i64 bytes = depth_ * pitch * static_cast<i64>(sizeof(T));
    const bool is_next =
        !is_last_block_ && pitch == columns && is_uniformly_strided(g_.b.depth) && bytes <= kColumnBlockBytes;
    prefetcher_.set_next_depth_block(is_next ? b + depth_ * pitch : nullptr, bytes);
  }
  /// Lets each step of a tile prefetch a line of A where tiles read A in place and sequentially: rows at least 4 KiB
  /// below the tile (`tile_bytes` of A) if depths are contiguous, the next block of depth if rows are.
  bool prefetch_a(Micro& m, i64 tile_bytes, bool is_first_panel, int tiles) {
    constexpr i64 kDistance = 4096, kLine = 64, kSize = sizeof(T);
    if (!has_in_place_a_) return false;
    if (a_step_stride_ == kSize && is_first_panel && a_row_stride_ > 0 && a_row_stride_ <= depth_ * kSize * 5 / 4 &&
        tile_bytes <= kLine * depth_) {
      m.prefetch = static_cast<const char*>(m.a) + ceil_div(kDistance, tile_bytes) * tile_bytes;
      m.prefetch_tile_bytes = tile_bytes;
      m.prefetch_tiles = tiles;
    } else if (a_row_stride_ == kSize && a_step_stride_ == rows_ * kSize && a_prefetch_offset_ < a_step_stride_ &&
               !is_last_block_) {
      m.prefetch = segments_[0].a + depth_ * (a_step_stride_ + a_prefetch_offset_);
      m.prefetch_tile_bytes = kLine * depth_;
      m.prefetch_tiles = min_of<i64>(tiles, ceil_div(a_step_stride_ - a_prefetch_offset_, kLine));
      a_prefetch_offset_ += tiles * kLine;
    } else {
      return false;
    }
    m.prefetch_step_bytes = m.prefetch_tile_bytes / depth_;
    return true;
  }

  /// `down` vertically or `across` horizontally adjacent tiles; one of the two is 1.
  void multiply_tiles(const Panel<T>& panel, i64 row, int rows, int down, int across, Micro& m) {
    constexpr i64 kSize = sizeof(T);
    const MicroKernel kernel = m.b_copy ? copying_kernel(kDot, rows, panel.vectors) : kernel_for(rows, panel.vectors);
    m.tiles = down * across;
    m.tail = 0;
    m.add = has_scratch_sums_ && !is_first_block_;
    if (has_scratch_sums_) {
      m.c = sums_ + row * sums_pitch_ + panel.column;
      m.c_row = sums_pitch_ * kSize;
    } else if (panel.is_contiguous && uniform_rows_[row] >= rows * down) {
      m.c = static_cast<T*>(g_.c.data) + row_offsets_[row] + panel.runs[0].offset;
      m.c_row = rows * down > 1 ? (row_offsets_[row + 1] - row_offsets_[row]) * kSize : 0;
      m.tail = panel.columns - (panel.vectors - 1) * kLanes<T>;
      m.add = !is_first_block_ || g_.beta == 1;
      m.prefetch_c = exceeds_cache_;
      m.non_temporal = is_non_temporal_ && !m.add && m.tail == kLanes<T> && is_line_aligned(m.c) && m.c_row % 64 == 0;
      if (m.non_temporal) m.prefetch_c = false;
    } else {
      m.c = tile_sums_;
      m.c_row = kTilePitch * kSize;
      kernel(m);
      return write(panel, row, rows, tile_sums_, kTilePitch);
    }
    m.c_next = across > 1 ? panel.vectors * kVectorBytes : rows * m.c_row;
    kernel(m);
    for (int p = 0; has_scratch_sums_ && is_last_block_ && !is_upsampled_ && p < across; ++p)
      write((&panel)[p], row, rows * down, static_cast<T*>(m.c) + p * panel.vectors * kLanes<T>, sums_pitch_);
  }

  /// C with its gap: the zeros between elements and lines, too.
  void write_zeros_between() {
    upsample_.count = cut_runs(g_.c.columns, n0_, static_cast<int>(columns_), upsample_.runs);
    for (i64 row = 0; row < rows_; ++row)
      upsample_.write(static_cast<T*>(g_.c.data) + row_offsets_[row], g_.c.gap, sums_ + row * sums_pitch_,
                      static_cast<T>(g_.alpha));
  }

  /// Writes sums to C: finished ones, or those of one block of depth.
  void write(const Panel<T>& panel, i64 row, int rows, const T* sums, i64 pitch) {
    const i64 stride = inner(g_.c.columns).stride;
    const T alpha = static_cast<T>(g_.alpha),
            beta = is_first_block_ || has_scratch_sums_ ? static_cast<T>(g_.beta) : T{1};
    with_storage<T>(g_.c.dtype, [&](auto* s) {
      auto* const c = static_cast<decltype(s)>(g_.c.data);
      for (int r = 0; r < rows; ++r)
        write_runs(c + row_offsets_[row + r], stride, panel.runs, panel.run_count, sums + r * pitch, alpha, beta);
    });
  }

  // The piece and its blocking.
  const Gemm& g_;
  i64 rows_, columns_, max_depth_, depth_run_ = depth_run(g_);  // max_depth_: of a block of depth
  bool has_scratch_sums_;  // partial sums of several blocks of depth, or sums to be upsampled
  bool is_upsampled_;      // C has a gap
  bool has_row_major_a_;   // copy of A: a_[row][depth], else a_[depth][row]
  bool has_in_place_a_, has_row_panels_, has_in_place_b_;   // has_row_panels_: A is packed in row panels
  bool has_panels_outermost_;                               // all rows of a panel before the next panel
  bool has_panel_copy_;                                     // the first tile of a panel copies its B for the others
  bool exceeds_cache_, is_non_temporal_;                    // exceeds_cache_: B or C
  bool is_block_in_one_run_ = false;                        // the columns at hand are in one run of C
  i64 block_columns_ = 0, a_pitch_, b_pitch_, sums_pitch_;  // pitches in elements, of the copies and of the sums

  // The kernel that was looked up last, and prefetching.
  Panel<T>* panels_;  // of the columns at hand
  MicroKernel kernel_ = nullptr;
  int kernel_rows_ = 0, kernel_vectors_ = 0;
  Prefetcher prefetcher_;
  i64 b_pitch_bytes_ = 0;      // of B in place
  i64 a_prefetch_offset_ = 0;  // bytes per depth of the next block of A that tiles have prefetched

  // Scratch memory.
  T *a_, *b_, *tile_sums_, *sums_;  // copies; sums of one tile; sums of the piece, if has_scratch_sums_
  CopySpace<T> space_;
  Run* column_runs_;
  CachedRun b_lane_run_{&g_.b.lanes}, c_column_run_{&g_.c.columns};
  Upsample<T> upsample_;
  i64* row_offsets_;   // of C, in elements
  int* uniform_rows_;  // [i]: uniformly strided rows of C from row i on
  Segment* segments_;
  std::size_t bytes_ = 0;

  // The piece's position, and the block of depth at hand. Strides of A in bytes.
  i64 m0_ = 0, n0_ = 0, depth_ = 0, b_depth_offset_ = 0, a_row_stride_ = 0, a_step_stride_ = 0;
  int segment_count_ = 0;
  bool is_first_block_ = true, is_last_block_ = true;
};

template <class T>
std::size_t scratch_of(const Gemm& g, i64 rows, i64 columns) {
  return is_gemv_axpy(g) ? kAxpySumBytes : Product<T>(g, rows, columns, nullptr).bytes();
}

template <class T>
void multiply(const Gemm& g, i64 m0, i64 m1, i64 n0, i64 n1, void* scratch) {
  if (is_gemv_dot(g) || is_gemv_axpy(g)) {
    return with_storage<T>(g.c.dtype, [&](auto* s) {
      using S = std::remove_pointer_t<decltype(s)>;
      is_gemv_dot(g) ? gemv_dot<T, S>(g, m0, m1, n0, n1) : gemv_axpy<T, S>(g, m0, m1, n0, n1, scratch);
    });
  }
  Product<T>(g, m1 - m0, n1 - n0, static_cast<char*>(scratch)).run(m0, n0);
}

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

}  // namespace

template <>
const GemmKernels& entry_points<GemmKernels>() {
  static constexpr GemmKernels kKernels{.tile = gemm_tile, .scratch = gemm_scratch, .run = gemm};
  return kKernels;
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
