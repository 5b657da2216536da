// Blocked matrix multiplication over implicit operands. Per block of depth (K), A is read in place or copied into the
// second-level cache; B is copied panel by panel, by the first register tile if B is uniformly strided. Partial sums
// stay in C, or in scratch if C is 16-bit or strided. Large results are written with non-temporal stores.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/epilogue.h"
#include "kernels/cpu/isa/gemm_operand_b.h"
#include "kernels/cpu/isa/gemm_write_c.h"
#include "kernels/cpu/isa/gemm_operand_a.h"
#include "kernels/cpu/isa/gemv_axpy.h"
#include "kernels/cpu/isa/gemv_dot.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

/// The panels of a block of columns: the first `wider` ones have a vector more than the others. b_pitch: elements
/// between depths of their B.
template <class T>
struct Panels {
  const Panel<T>* panel;
  int count, wider;
  i64 b_pitch;
  bool is_one_run;  // of C

  const Panel<T>& operator[](int i) const { return panel[i]; }
};

/// Applies the epilogue to a part of C.
inline void finish(const Gemm& g, i64 m0, i64 m1, i64 n0, i64 n1) {
  if (g.epilogue) entry_points<EpilogueKernels>().run(*g.epilogue, m0, m1, n0, n1);
}

/// Multiplies a piece of C; `arena` holds copies and sums.
template <class T>
class Product {
 public:
  Product(const Gemm& g, const GemmPlan<T>& plan, Arena& arena)
      : g_(g), plan_(plan), a_(g, plan, arena), b_(g, plan, arena), c_(g, plan, arena) {
    column_runs_ = arena.take<Run>(plan.block_columns + 1);
    panels_ = arena.take<Panel<T>>(plan.block_columns / kLanes<T>);
  }

  /// Computes rows from m0 and columns from n0 on.
  void run(i64 m0, i64 n0) {
    c_.begin(m0, n0);
    for_depth_blocks(g_, plan_.max_depth, [&](const DepthBlock& block) {
      depth_ = block.depth;
      a_.prepare(m0, block, b_.runs());
      b_.begin_block(block);
      c_.begin_block(block);
      for (i64 n = 0; n < plan_.columns;) {
        const auto columns = b_.block_at(n0 + n, min_of(plan_.columns - n, plan_.block_columns));
        multiply(n, columns);
        if (block.is_last) finish(g_, m0, m0 + plan_.rows, n0 + n, n0 + n + columns.columns);
        n += columns.columns;
      }
    });
    c_.finish();
  }

 private:
  /// Multiplies all rows by a block of columns, from n of the piece on.
  void multiply(i64 n, const typename GemmColumns<T>::Block& block) {
    const int columns = block.columns;
    const bool has_row_panels = plan_.read_a == ReadA::kRowPanels;
    const int vectors = (columns + kLanes<T> - 1) / kLanes<T>;
    // 2 x 4 vectors (AVX2) are as few sums as the latency of FMA allows: only where the rows of A are not contiguous.
    const bool has_few_sums = kMicroRows[4] <= 2 && a_.row_stride() == sizeof(T);
    const bool is_wide =
        !has_row_panels && (plan_.rows <= kMicroRows[4] || (!has_few_sums && vectors <= kMicroVectors));
    const int max_vectors = is_wide ? kMicroVectors : 3, count = (vectors + max_vectors - 1) / max_vectors;
    const int panel_vectors = vectors / count;
    const Panels<T> panels{panels_, count, vectors % count, block.pitch, c_.is_one_run(n, columns)};
    Run* runs = column_runs_;
    for (int p = 0, column = 0; p < count; ++p) {
      const int width = min_of((panel_vectors + (p < panels.wider)) * kLanes<T>, columns - column);
      panels_[p] = c_.panel_at(n + column, width, block.data + column, runs);
      runs += panels_[p].run_count;
      column += width;
    }
    const int rows = has_row_panels ? kPanelRows : kMicroRows[panel_vectors + (panels.wider > 0)];
    int tiles = 0;
    for (int i = 0; i < a_.segment_count(); ++i) tiles += a_.segment(i).cut(rows);
    b_.prefetcher().distribute(tiles * count);
    if (!plan_.has_panels_outermost) {
      for (int i = 0; i < a_.segment_count(); ++i) multiply_segment(a_.segment(i), panels);
      return;
    }
    if (multiply_uniform_panels(panels)) return;
    for (int p = 0; p < count; ++p) {
      if (plan_.has_in_place_b && b_.prefetcher().has_next_columns())
        b_.prefetch_columns(panels[p].b + panels[p].columns, panels[p].columns);
      multiply_panel(panels[p], block.pitch);
    }
  }

  Micro micro(const char* a, const T* b, i64 b_pitch) const {
    return {.a = a,
            .b = b,
            .depth = depth_,
            .a_row = a_.row_stride(),
            .a_step = a_.step_stride(),
            .b_step = b_pitch * static_cast<i64>(sizeof(T))};
  }

  /// At most two calls for all panels. Returns false, having done nothing, unless all tiles are equal and uniform in C.
  bool multiply_uniform_panels(const Panels<T>& panels) {
    const Segment& all = a_.segment(0);
    const Panel<T>& widest = panels[0];
    if (!plan_.has_panel_copy || !plan_.has_in_place_b || widest.b == b_.copy()) return false;
    if (plan_.has_scratch_sums || !panels.is_one_run || a_.segment_count() != 1 || all.higher_tiles != 0) return false;
    if (!c_.is_uniform(widest, all.first, static_cast<int>(all.rows))) return false;
    const int narrower = panels.count - panels.wider;
    for (int p = 0; p < panels.count; p += p < panels.wider ? panels.wider : narrower) {
      const Panel<T>& panel = panels[p];
      Micro m = micro(all.a, panel.b, panels.b_pitch);
      m.a_next = a_.tile_stride(all.tile_rows);
      m.b_copy = b_.copy();
      m.panels = p < panels.wider ? panels.wider : narrower;
      b_.prefetch_columns(panel.b + panel.columns, panel.columns);
      b_.prefetcher().schedule(m, all.tiles, all.tiles);
      c_.multiply_tiles(panel, all.first, all.tile_rows, all.tiles, 1, m);
    }
    return true;
  }

  /// The vertically adjacent tiles of a panel: the first one copies B, which then stays in the first-level cache.
  void multiply_panel(const Panel<T>& panel, i64 b_pitch) {
    const T* b = panel.b;
    for (int i = 0; i < a_.segment_count(); ++i) {
      const Segment& segment = a_.segment(i);
      const char* a = segment.a;
      i64 row = segment.first;
      for (int t = 0; t < segment.tiles;) {
        const bool is_higher = t < segment.higher_tiles, is_copying = plan_.has_panel_copy && b != b_.copy();
        const int rows = segment.tile_rows + is_higher;
        const int equal_tiles = (is_higher ? segment.higher_tiles : segment.tiles) - t;
        const int tiles = c_.is_uniform(panel, row, rows * equal_tiles) ? equal_tiles : 1;
        Micro m = micro(a, b, b_pitch);
        m.a_next = a_.tile_stride(rows);
        m.b_copy = is_copying ? b_.copy() : nullptr;
        if (!a_.prefetch(m, rows, panel.column == 0, tiles)) b_.prefetcher().schedule(m, tiles, segment.tiles);
        c_.multiply_tiles(panel, row, rows, tiles, 1, m);
        if (is_copying) {
          b = b_.copy();
          b_pitch = panel.vectors * kLanes<T>;
        }
        t += tiles;
        row += rows * tiles;
        a += tiles * m.a_next;
      }
    }
  }

  /// All panels of one row of tiles before the next row: the kernel reads B and writes C in long lines.
  void multiply_segment(const Segment& segment, const Panels<T>& panels) {
    const int last = panels.count - 1;
    const bool has_tail = panels[last].columns % kLanes<T> != 0;
    const char* a = segment.a;
    i64 row = segment.first;
    for (int t = 0; t < segment.tiles; ++t) {
      const int rows = segment.tile_rows + (t < segment.higher_tiles);
      for (int p = 0; p < panels.count;) {
        const Panel<T>& panel = panels[p];
        const bool is_one_call = plan_.has_scratch_sums || (panels.is_one_run && c_.is_uniform(panel, row, rows));
        const int end = p < panels.wider ? panels.wider : has_tail && p < last ? last : panels.count;
        const int tiles = is_one_call ? end - p : 1;
        Micro m = micro(a, panel.b, panels.b_pitch);
        m.b_next = panel.vectors * kVectorBytes;
        if (!a_.prefetch(m, rows, panel.column == 0, 1)) b_.prefetcher().schedule(m, tiles, segment.tiles);
        c_.multiply_tiles(panel, row, rows, 1, tiles, m);
        p += tiles;
      }
      row += rows;
      a += a_.tile_stride(rows);
    }
  }

  const Gemm& g_;
  const GemmPlan<T>& plan_;
  GemmRows<T> a_;
  GemmColumns<T> b_;
  GemmResult<T> c_;
  Run* column_runs_;  // of C, of the panels
  Panel<T>* panels_;  // of the columns at hand
  i64 depth_ = 0;     // of the block of depth at hand
};

template <class T>
std::size_t scratch_of(const Gemm& g, i64 rows, i64 columns) {
  if (is_gemv_axpy(g)) return kAxpySumBytes;
  const GemmPlan<T> plan(g, rows, columns);
  Arena arena(nullptr);
  Product<T>(g, plan, arena);
  return arena.bytes();
}

template <class T>
void multiply(const Gemm& g, i64 m0, i64 m1, i64 n0, i64 n1, void* scratch) {
  if (is_gemv_dot(g) || is_gemv_axpy(g)) {
    with_storage<T>(g.c.dtype, [&](auto* s) {
      using S = std::remove_pointer_t<decltype(s)>;
      is_gemv_dot(g) ? gemv_dot<T, S>(g, m0, m1, n0, n1) : gemv_axpy<T, S>(g, m0, m1, n0, n1, scratch);
    });
    return finish(g, m0, m1, n0, n1);
  }
  const GemmPlan<T> plan(g, m1 - m0, n1 - n0);
  Arena arena(static_cast<char*>(scratch));
  Product<T>(g, plan, arena).run(m0, n0);
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
