// LrnCpuWindow: any strides. Forward across channels, windows are read in the tensor if channels or rows are contiguous
// (direct_windows.h). Else the tensor is cut into tiles; each task copies what its tile's windows need, squared and
// with zeros where they leave the tensor, to a buffer that stays in the L2 cache, sums windows along one dimension
// after the other in place, and computes results from the sums. Sums have the order of their elements, whatever the
// tiles are. Tuning knobs: KiB of the buffer, and non-temporal stores.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>

#include "base/math.h"
#include "kernels/cpu/kernels_of.h"
#include "kernels/cpu/lrn.h"
#include "primitives/common/caches.h"
#include "primitives/common/runs.h"
#include "primitives/lrn/cpu/direct_windows.h"
#include "primitives/lrn/lrn.h"

namespace polymio::lrn {
namespace {

constexpr int kKib[] = {32, 128, 512};
constexpr std::int64_t kLeastTile = 4096;  // elements; a task of a few microseconds
constexpr int kTilesAtOnce = 16;           // of a task without a buffer
constexpr std::int64_t kSlack = 64;        // elements that vectors read after the last one
constexpr std::size_t kMostAxes = 4;       // three windowed dimensions and a free one
using Offsets = std::array<std::int64_t, kMaxOperands>;
using Indices = std::array<std::int64_t, kMostAxes>;

struct Axis {
  Loop::Dim dim;
  bool windowed = false;
  Reach reach{0, 0};
  std::int64_t chunk = 1;  // elements of a tile
  std::int64_t chunks() const { return ceil_div(dim.size, chunk); }
};

/// The elements as tiles of these axes, slowest first, for each element of `outer`. The output is densest along the
/// last axis.
struct Tiling {
  Loop outer;
  std::array<Axis, kMostAxes> axes{};
  std::size_t rank = 0;
  std::int64_t tiles() const {
    std::int64_t n = outer.count();
    for (std::size_t a = 0; a < rank; ++a) n *= axes[a].chunks();
    return n;
  }
};

Tiling tiling_of(const Problem& p, std::int64_t elements) {
  const Loop all = loop_of(p);
  Tiling t;
  t.outer.operands = all.operands;
  t.outer.base = all.base;
  const auto push = [&](const Loop::Dim& dim, bool windowed) {
    t.axes[t.rank++] = {dim, windowed, windowed ? reach_of(p, dim.size) : Reach{0, 0}};
  };
  for (std::size_t d = 0; d < all.rank; ++d) {
    if (!p.windowed(d)) t.outer.push(all.dims[d]);
    if (p.windowed(d) && all.dims[d].size > 1) push(all.dims[d], true);
  }
  t.outer.simplify();
  std::stable_sort(t.axes.begin(), t.axes.begin() + static_cast<std::ptrdiff_t>(t.rank),
                   [](const Axis& a, const Axis& b) { return a.dim.strides[0] > b.dim.strides[0]; });
  const Loop::Dim free = t.outer.inner();
  t.outer.dims[t.outer.rank - 1] = {};
  t.outer.merge();
  push(free, false);
  const bool runs_along_window = t.rank > 1 && (free.size == 1 || t.axes[t.rank - 2].dim.strides[0] < free.strides[0]);
  if (runs_along_window)
    std::rotate(t.axes.begin(), t.axes.begin() + static_cast<std::ptrdiff_t>(t.rank) - 1,
                t.axes.begin() + static_cast<std::ptrdiff_t>(t.rank));
  // Rows of whole cache lines; short ones where windows extend over several other dimensions, whose tiles are then less
  // oblong and overlap less.
  std::int64_t used = runs_along_window ? 1024 : t.rank > 2 ? 64 : 1024;
  for (std::size_t a = t.rank; a-- > 0;) {
    Axis& axis = t.axes[a];
    const bool row = a + 1 == t.rank;
    const std::int64_t most = std::clamp<std::int64_t>(row ? used : elements / used, 1, axis.dim.size);
    axis.chunk = ceil_div(axis.dim.size, ceil_div(axis.dim.size, most));
    if (row) axis.chunk = std::min(round_up(axis.chunk, kSlack), axis.dim.size);
    used = (row ? 1 : used) * (axis.chunk + axis.reach.before + axis.reach.after);
  }
  return t;
}

/// A buffer for the elements of a tile and `before`, `after` more of each axis.
struct Area {
  Indices before{}, after{}, pitch{};
  std::int64_t size = 0;

  Area(const Tiling& t, const Area* inner, bool mirrored) {
    std::int64_t step = 1;
    for (std::size_t a = t.rank; a-- > 0;) {
      const Reach reach = mirrored ? t.axes[a].reach.mirrored() : t.axes[a].reach;
      before[a] = reach.before + (inner ? inner->before[a] : 0);
      after[a] = reach.after + (inner ? inner->after[a] : 0);
      pitch[a] = step;
      step *= t.axes[a].chunk + before[a] + after[a];
    }
    size = step;
  }
  std::int64_t space() const { return round_up(size, kSlack) + kSlack; }
};

/// One task's tile.
class Tile {
 public:
  Tile(const Tiling& t, std::int64_t number) : t_(t) {
    for (std::size_t a = 0; a < t.rank; ++a) {
      const std::int64_t chunks = t.axes[a].chunks();
      first_[a] = number % chunks * t.axes[a].chunk;
      end_[a] = std::min(first_[a] + t.axes[a].chunk, t.axes[a].dim.size);
      number /= chunks;
    }
    const Cursor at(t.outer, number);
    for (std::size_t o = 0; o < t.outer.operands; ++o) base_[o] = at.offset(o);
  }

  /// Calls body(offsets, n, rows, indices of the first element) for the rows of the tile and `before`, `after` more
  /// elements of each axis, as far as they are in the tensor; with `many` for all neighbouring rows at once.
  template <class Body>
  void rows(const Indices& before, const Indices& after, bool many, const Body& body) const {
    Indices first{}, end{}, at{};
    for (std::size_t a = 0; a < t_.rank; ++a) {
      at[a] = first[a] = std::max<std::int64_t>(first_[a] - before[a], 0);
      end[a] = std::min(end_[a] + after[a], t_.axes[a].dim.size);
    }
    const std::size_t last = t_.rank - 1, walked = many && last > 0 ? last - 1 : last;
    const std::int64_t count = walked < last ? end[walked] - first[walked] : 1;
    for (;;) {
      Offsets offsets = base_;
      for (std::size_t a = 0; a <= last; ++a)
        for (std::size_t o = 0; o < t_.outer.operands; ++o) offsets[o] += at[a] * t_.axes[a].dim.strides[o];
      body(offsets, end[last] - first[last], count, at);
      std::size_t a = walked;
      while (a-- > 0 && ++at[a] == end[a]) at[a] = first[a];
      if (a == static_cast<std::size_t>(-1)) return;
    }
  }
  /// Of an element in the area's buffer, where the tile's first element is `before` elements after the first.
  std::int64_t position(const Area& area, const Indices& at, const Indices& before) const {
    std::int64_t i = 0;
    for (std::size_t a = 0; a < t_.rank; ++a) i += (at[a] - first_[a] + before[a]) * area.pitch[a];
    return i;
  }

 private:
  const Tiling& t_;
  Indices first_{}, end_{};
  Offsets base_{};
};

/// The task's invariants.
struct Work {
  const Problem& p;
  const Tiling& t;
  const kernels::LrnKernels& kernels;
  const kernels::Lrn& job;
  Loop row{};  // along the last axis
  common::Operands operands{};
  Area products, squares;  // forward has no products
  std::size_t wide;        // bytes of an element of the buffers

  Work(const Problem& problem, const Tiling& tiling, const kernels::LrnKernels& k, const kernels::Lrn& j)
      : p(problem),
        t(tiling),
        kernels(k),
        job(j),
        products(t, nullptr, true),
        squares(t, p.forward() ? nullptr : &products, false),
        wide(p.x.type == DataType::kDouble ? sizeof(double) : sizeof(float)) {
    row.operands = t.outer.operands;
    row.push(t.axes[t.rank - 1].dim);
  }

  bool needs_squares() const { return p.forward() || !p.has_scale(); }
  std::size_t products_bytes() const { return p.forward() ? 0 : static_cast<std::size_t>(products.space()) * wide; }
  std::size_t scratch_bytes() const {
    return products_bytes() + (needs_squares() ? static_cast<std::size_t>(squares.space()) * wide : 0);
  }

  void take(const Problem::Args& args) {
    const std::size_t size = size_of(p.x.type);
    operands.push(args.result, size);
    if (p.forward() && p.has_scale()) operands.push(args.scale, size);
    operands.outputs = operands.count;
    operands.push(args.x, size);
    if (p.forward()) return;
    operands.push(args.dy, size);
    if (p.has_scale()) operands.push(args.scale, size);
    operands.push(args.y, size);
  }

  void sum_windows(const Area& area, void* buffer) const {
    std::int64_t n = area.size;
    for (std::size_t a = t.rank; a-- > 0;) {
      const std::int64_t others = t.axes[a].reach.before + t.axes[a].reach.after;
      if (others == 0) continue;
      n -= others * area.pitch[a];
      kernels.window(job, buffer, others + 1, area.pitch[a], n);
    }
  }

  /// Calls body(run, indices of its first element, elements before it) for runs of the rows, with the operands
  /// [first, end).
  template <class Body>
  void rows(const Tile& tile, const Indices& before, const Indices& after, std::size_t first, std::size_t end,
            const Body& body) const {
    bool contiguous = t.rank > 1;
    for (std::size_t o = first; o < end; ++o) contiguous = contiguous && row.inner().strides[o] == 1;
    if (contiguous) {
      return tile.rows(before, after, true,
                       [&](const Offsets& offsets, std::int64_t n, std::int64_t count, const Indices& at) {
                         body(run_of(offsets, n, count, first, end), at, 0);
                       });
    }
    const common::Runs runs(row, operands, common::RunShape::kOneRow, first, end);
    tile.rows(before, after, false, [&](const Offsets& offsets, std::int64_t n, std::int64_t, const Indices& at) {
      std::int64_t done = 0;
      runs.each(0, n, offsets, [&](const kernels::Run& run) {
        body(run, at, done);
        done += run.n;
      });
    });
  }

  kernels::Run run_of(const Offsets& offsets, std::int64_t n, std::int64_t count, std::size_t first,
                      std::size_t end) const {
    kernels::Run run;
    run.n = n;
    run.rows = count;
    for (std::size_t o = first; o < end; ++o) {
      const auto size = static_cast<std::int64_t>(operands.size[o]);
      char* const data = static_cast<char*>(operands.data[o]) + offsets[o] * size;
      const std::int64_t row_bytes = t.axes[t.rank - 2].dim.strides[o] * size;
      if (o < operands.outputs) {
        run.out[o] = data;
        run.out_row_bytes[o] = row_bytes;
      } else {
        run.in[o - operands.outputs] = data;
        run.in_row_bytes[o - operands.outputs] = row_bytes;
      }
    }
    return run;
  }
  /// Between rows of a buffer.
  std::int64_t row_bytes(const Area& area) const {
    return t.rank > 1 ? area.pitch[t.rank - 2] * static_cast<std::int64_t>(wide) : 0;
  }

  void run(std::int64_t number, void* scratch) const {
    const Tile tile(t, number);
    auto* const products_buffer = static_cast<char*>(scratch);
    char* const squares_buffer = products_buffer + products_bytes();
    const auto at_element = [&](char* buffer, std::int64_t i) { return buffer + i * static_cast<std::int64_t>(wide); };
    const std::size_t x = operands.outputs;
    if (needs_squares()) {
      std::memset(squares_buffer, 0, static_cast<std::size_t>(squares.space()) * wide);
      rows(tile, squares.before, squares.after, x, x + 1,
           [&](const kernels::Run& run, const Indices& at, std::int64_t done) {
             kernels::Run part = run;
             part.out[0] = at_element(squares_buffer, tile.position(squares, at, squares.before) + done);
             part.out_row_bytes[0] = row_bytes(squares);
             kernels.squares(job, part);
           });
      sum_windows(squares, squares_buffer);
    }
    // A window's sum is where its first element was.
    const auto sum_at = [&](const Indices& at, std::int64_t done) {
      const Indices none{};
      return at_element(squares_buffer, tile.position(squares, at, p.forward() ? none : products.before) + done);
    };
    if (p.forward()) {
      return rows(tile, {}, {}, 0, operands.count, [&](const kernels::Run& run, const Indices& at, std::int64_t done) {
        kernels::Run part = run;
        part.in[1] = sum_at(at, done);
        part.in_row_bytes[1] = row_bytes(squares);
        kernels.forward(job, part);
      });
    }
    std::memset(products_buffer, 0, products_bytes());
    rows(tile, products.before, products.after, x + 1, operands.count,
         [&](const kernels::Run& run, const Indices& at, std::int64_t done) {
           kernels::Run part;
           part.n = run.n;
           part.rows = run.rows;
           const std::size_t y = p.has_scale() ? 3 : 2;
           part.in[0] = run.in[1];
           part.in_row_bytes[0] = run.in_row_bytes[1];
           part.in[1] = p.has_scale() ? run.in[2] : sum_at(at, done);
           part.in_row_bytes[1] = p.has_scale() ? run.in_row_bytes[2] : row_bytes(squares);
           part.in[2] = run.in[y];
           part.in_row_bytes[2] = run.in_row_bytes[y];
           part.out[0] = at_element(products_buffer, tile.position(products, at, products.before) + done);
           part.out_row_bytes[0] = row_bytes(products);
           kernels.products(job, part);
         });
    sum_windows(products, products_buffer);
    rows(tile, {}, {}, 0, x + (p.has_scale() ? 3 : 2),
         [&](const kernels::Run& run, const Indices& at, std::int64_t done) {
           kernels::Run part = run;
           if (!p.has_scale()) {
             part.in[2] = sum_at(at, done);
             part.in_row_bytes[2] = row_bytes(squares);
           }
           part.in[3] = at_element(products_buffer, tile.position(products, at, {}) + done);
           part.in_row_bytes[3] = row_bytes(products);
           kernels.backward(job, part);
         });
  }
};

/// Elements of a buffer of so many KiB; less if threads would have no tile.
std::int64_t tile_elements(const DeviceInfo& d, const Problem& p, int kib) {
  const std::int64_t most = kib * 1024 / (p.x.type == DataType::kDouble ? 8 : 4);
  return std::clamp(p.count() / (4 * std::int64_t{d.threads}), kLeastTile, std::max(most, kLeastTile));
}

kernels::Lrn job_with_values(kernels::Lrn job, const Problem& p, const Problem::Args& args) {
  const Factors factors = factors_of(p, args.parameters);
  job.k = args.parameters.k;
  job.beta = args.parameters.beta;
  job.factor = factors.factor;
  job.ratio = factors.ratio;
  return job;
}

class CpuWindow final : public Solver<Problem> {
 public:
  CpuWindow(const SolverInfo& info, Direction d) : Solver(info), direction_(d) {}

  Verdict is_applicable(const DeviceInfo&, const Problem& p) const override {
    POLYMIO_REQUIRE(p.direction == direction_, "computes another direction");
    return {};
  }

  TuneSpace tune_space(const DeviceInfo&, const Problem&) const override {
    return {{"kib", {std::begin(kKib), std::end(kKib)}}, {"non_temporal", {0, 1}}};
  }
  bool is_valid(const DeviceInfo& d, const Problem& p, const TunePoint& t) const override {
    const bool two_outputs = p.forward() && p.has_scale();
    return t[1] == 0 || (!two_outputs && p.work() > static_cast<double>(d.cache_bytes[1]));
  }
  // Rows of tiles are short, and each would wait for its non-temporal stores.
  TunePoint default_point(const DeviceInfo& d, const Problem& p) const override {
    const bool large_cache = d.cache_bytes[1] >= (std::size_t{1} << 20);
    return {large_cache ? 128 : 32, DirectWindows::of(p) && common::exceeds_caches(d, p.work()) ? 1 : 0};
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint&) const override {
    const double count = static_cast<double>(p.count());
    const double sums = (p.forward() ? 1 : 2) * static_cast<double>(p.window.n);
    const double arithmetic = count * (100 + 4 * sums) / (std::max(d.fp32_gflops, 1.0) * 1e3);
    const double traffic = p.work() / std::max(d.bandwidth_gbs, 1.0) * 1e-3;
    return std::max(arithmetic, traffic) + 2;
  }

  Invoker build(Stream& stream, const Problem& p, const TunePoint& point) const override {
    const auto& kernels = kernels::kernels_of<kernels::LrnKernels>(stream.info().isa);
    kernels::Lrn job;
    job.type = p.x.type;
    job.has_scale = p.has_scale();
    job.non_temporal = point[1] != 0;
    if (auto direct = DirectWindows::of(p)) {
      direct->cut(tile_elements(stream.info(), p, kTilesAtOnce * point[0]));
      return [p, direct = *direct, job, &kernels](Stream& on, const Args& args) {
        const kernels::Lrn with_values = job_with_values(job, p, args);
        on.parallel_for(static_cast<std::size_t>(direct.tasks()), 0, [&](std::size_t i, void*) {
          direct.run(static_cast<std::int64_t>(i), args.x, args.result,
                     [&](const kernels::LrnRows& rows) { kernels.forward_windows(with_values, rows); });
        });
      };
    }
    const Tiling tiling = tiling_of(p, tile_elements(stream.info(), p, point[0]));
    stream.reserve_scratch(Work(p, tiling, kernels, job).scratch_bytes());
    return [p, tiling, job, &kernels](Stream& on, const Args& args) {
      const kernels::Lrn with_values = job_with_values(job, p, args);
      Work work(p, tiling, kernels, with_values);
      work.take(args);
      on.parallel_for(static_cast<std::size_t>(tiling.tiles()), work.scratch_bytes(),
                      [&](std::size_t i, void* scratch) { work.run(static_cast<std::int64_t>(i), scratch); });
    };
  }

 private:
  Direction direction_;
};

}  // namespace

std::unique_ptr<const SolverBase> cpu_window(const SolverInfo& info, Direction d) {
  return std::make_unique<CpuWindow>(info, d);
}

}  // namespace polymio::lrn
