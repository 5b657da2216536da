// Cost model of matrix products. Costs in cycles (see Machine) were measured on a Xeon (Sapphire Rapids) with AVX-512;
// only their ratios matter. tests/convolution/estimates_test.cc pins rankings against the direct solver. The learned
// model corrects these estimates: it has to be trained again (kEstimates) when they change much.
// SPDX-License-Identifier: MIT
#include "primitives/convolution/cpu/product_cost.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/kernels_of.h"
#include "primitives/convolution/cpu/problem_shape.h"

namespace polymio::convolution {
namespace {

using kernels::Axis;
using kernels::ConvProduct;
using kernels::Gemm;
using kernels::kLevels;
using kernels::Level;
using kernels::Operand;

constexpr double kPieceCycles = 200;      // set-up of a piece: scratch, offsets, cold code
constexpr double kTileCycles = 25;        // set-up of a register tile
constexpr double kStoreCycles = 3;        // loading or storing a vector of results
constexpr double kLineCycles = 3;         // packing: the address of a line
constexpr double kTransposeCycles = 0.4;  // transposing, per element

bool is_bounded(const Operand& o) { return (o.extent[0] | o.extent[1] | o.extent[2]) != 0; }

/// Relative cost of reading along an axis: the packing kernel reads along the cheaper one of lanes and depth.
double run_cost(const Machine& m, const Axis& axis) {
  const Level& inner = axis.level[kLevels - 1];
  const bool vectorized = inner.stride == 1 || (m.masked() && inner.stride == 2);
  return vectorized ? static_cast<double>(inner.stride) * 8.0 / static_cast<double>(inner.size) : 2.0;
}

/// Cycles of packing a line of `length` positions along an axis.
double line_cycles(const Machine& m, const Operand& o, const Axis& axis, double length) {
  const Level& inner = axis.level[kLevels - 1];
  const auto size = static_cast<double>(inner.size), total = static_cast<double>(axis.size());
  const double runs = size >= total ? 1 : 1 + (length - 1) / size;
  return kLineCycles + runs * run_cycles(m, o.dtype, length / runs, inner.stride, is_bounded(o));
}

/// Cycles of packing lanes x depths into panels `width` lanes wide, `step` depths at a time.
double pack_cycles(const Machine& m, const Operand& o, double lanes, double depths, double width, double step) {
  if (lanes * depths == 0) return 0;
  if (run_cost(m, o.lanes) <= run_cost(m, o.depth))
    return ceil_ratio(lanes, width) * depths * line_cycles(m, o, o.lanes, std::min(lanes, width));
  const double blocks = ceil_ratio(depths, step);
  return lanes * (blocks * line_cycles(m, o, o.depth, depths / blocks) + depths * kTransposeCycles);
}

const Level& inner(const Axis& axis) { return axis.level[kLevels - 1]; }

/// Whether the micro-kernel reads an operand in place: no conversion, no padding, evenly spaced depths.
bool is_readable_in_place(const Operand& o) {
  constexpr std::int64_t kRun = 128;
  return size_of(o.dtype) > 2 && !is_bounded(o) && std::min(o.depth.size(), kRun) <= inner(o.depth).size;
}

/// Cycles of copying rows of A that are not read in place. A with large strides between depths is copied in groups of a
/// vector of rows (docs/kernels/gemm.md).
double a_cycles(const Machine& m, const Gemm& g, double rows, double columns, double step) {
  constexpr std::int64_t kCopyStride = 512;
  const auto k = static_cast<double>(g.k), lanes = m.lanes(g.c.dtype);
  if (!is_readable_in_place(g.a)) return pack_cycles(m, g.a, rows, k, rows, step);
  const auto bytes = inner(g.a.depth).stride * static_cast<std::int64_t>(size_of(g.a.dtype));
  const bool grouped = inner(g.a.lanes).stride == 1 && bytes >= (columns >= 12 * lanes ? kCopyStride : 8 * kCopyStride);
  return grouped ? ceil_ratio(rows, lanes) * k * kCopyVectorCycles : 0;
}

/// Cycles of copying columns of B before the product: panel by panel if B fits the cache. Evenly spaced B is free: the
/// first tile that reads it copies it.
double b_cycles(const Machine& m, const Gemm& g, double columns, double step) {
  constexpr double kInCache = 4096.0 * 1024, kPanel = 3;
  if (is_readable_in_place(g.b) && inner(g.b.lanes).stride == 1) return 0;
  const double bytes = static_cast<double>(std::max(g.k, g.m)) * static_cast<double>(g.n) * sizeof(float);
  const double width = bytes <= kInCache ? kPanel * m.lanes(g.c.dtype) : columns;
  return pack_cycles(m, g.b, columns, static_cast<double>(g.k), width, step);
}

/// Cycles of writing rows x columns of C where these are not whole contiguous vectors.
double scatter_cycles(const Machine& m, const kernels::Output& c, double rows, double columns) {
  if (c.gap != 0) return rows * run_cycles(m, c.dtype, 4 * columns, 1, false);
  const Level& inner = c.columns.level[kLevels - 1];
  const double runs = 1 + columns / static_cast<double>(inner.size);
  return rows * runs * run_cycles(m, c.dtype, columns / runs, inner.stride, false);
}

/// Fraction of the column panels that are not one contiguous run of whole vectors.
double scattered_part(const kernels::Output& c, double columns, double panel) {
  const Level& inner = c.columns.level[kLevels - 1];
  if (inner.stride != 1 || size_of(c.dtype) == 2) return 1;
  if (inner.size >= c.columns.size()) return std::fmod(columns, panel) == 0 ? 0 : panel / std::max(columns, panel);
  return std::min(1.0, panel / static_cast<double>(inner.size));
}

/// piece_cycles of bf16 pairs. B is packed as pairs panel by panel, A is copied unless its depths are contiguous. AMX
/// multiplies 512 pairs per cycle, vdpbf16ps 32.
double pair_cycles(const Machine& m, const Gemm& g, const kernels::TileShape& tile, double rows, double columns) {
  constexpr double kRegister = 16, kPanel = 32;
  const auto k = static_cast<double>(g.k);
  const double panels = ceil_ratio(columns, kPanel), vectors = ceil_ratio(columns, kRegister);
  const double products =
      tile.amx ? ceil_ratio(rows, kRegister) * ceil_ratio(k, 2 * kRegister) * kRegister : rows * k / 4;
  const double multiply = vectors * products + panels * ceil_ratio(rows, kPanel) * kTileCycles;
  constexpr double kColumnBlock = 128, kDepthBlock = 512;  // columns and depths that are packed together
  const bool in_place = inner(g.a.depth).stride == 1 && !is_bounded(g.a);
  return kPieceCycles + multiply + pack_cycles(m, g.b, columns, k, kColumnBlock, kDepthBlock) +
         (in_place ? 0 : pack_cycles(m, g.a, rows, k, rows, kDepthBlock)) +
         scatter_cycles(m, g.c, rows * panels, columns / panels);
}

/// Cycles of one piece: rows x columns of C, the whole depth.
double piece_cycles(const Machine& m, const Gemm& g, const kernels::TileShape& tile, double rows, double columns) {
  if (tile.pairs) return pair_cycles(m, g, tile, rows, columns);
  const auto k = static_cast<double>(g.k), step = static_cast<double>(std::max<std::int64_t>(g.depth_step(), 1));
  const double blocks = std::max(1.0, ceil_ratio(k, step));
  const auto lanes = static_cast<double>(tile.lanes), tile_rows = static_cast<double>(tile.rows);
  const double vectors = ceil_ratio(columns, lanes);
  const double panels = ceil_ratio(vectors * lanes, static_cast<double>(tile.columns));
  const double wide_panels = std::fmod(vectors, panels), narrow_panels = panels - wide_panels;
  const double narrow_vectors = std::floor(vectors / panels);
  const double full_tiles = std::floor(rows / tile_rows), rest = rows - full_tiles * tile_rows;
  const auto step_cycles = [&](double r) {
    return wide_panels * Machine::tile_step(r, narrow_vectors + 1) +
           narrow_panels * Machine::tile_step(r, narrow_vectors);
  };
  const double multiply = k * (full_tiles * step_cycles(tile_rows) + (rest > 0 ? step_cycles(rest) : 0));
  const double tiles = blocks * panels * (full_tiles + (rest > 0)) * kTileCycles;
  const bool is_16bit = size_of(g.c.dtype) == 2;
  const double stores = rows * vectors * kStoreCycles * (2 * blocks - 1);
  const double scattered = scattered_part(g.c, columns, vectors * lanes / panels);
  const double scatter = scattered * (is_16bit ? 1 : blocks) * scatter_cycles(m, g.c, rows, columns);
  const double pack = a_cycles(m, g, rows, columns, step) + b_cycles(m, g, columns, step);
  return kPieceCycles + multiply + tiles + stores + scatter + pack;
}

/// Effective bytes (see effective_bytes) read to pack an operand of `bytes` once.
double read_bytes(const Machine& m, const Operand& o, double bytes, const Gemm& g, std::int64_t width) {
  const bool along_lanes = run_cost(m, o.lanes) <= run_cost(m, o.depth);
  const Level& inner = (along_lanes ? o.lanes : o.depth).level[kLevels - 1];
  const std::int64_t run = std::min(inner.size, along_lanes ? width : g.depth_step());
  const double chunk = static_cast<double>(run * inner.stride) * static_cast<double>(size_of(o.dtype));
  return effective_bytes(bytes, chunk);
}

/// Effective bytes read and written of C. `stays_in_cache`: a piece of C does, from one block of depth to the next.
double write_bytes(const Gemm& g, std::int64_t width, bool stays_in_cache) {
  const Level& inner = g.c.columns.level[kLevels - 1];
  const auto size = static_cast<double>(size_of(g.c.dtype)), stride = static_cast<double>(inner.stride);
  const double chunk = static_cast<double>(std::min(inner.size, width)) * std::min(stride * size, kLineBytes);
  const auto steps = static_cast<double>(std::max<std::int64_t>(g.depth_step(), 1));
  const double rounds = stays_in_cache ? 1 : std::max(1.0, 2 * ceil_ratio(static_cast<double>(g.k), steps) - 1);
  const double bytes = static_cast<double>(g.m) * static_cast<double>(g.n) * std::min(stride * size, kLineBytes);
  return effective_bytes((stride > 1 ? 2 : 1) * rounds * bytes, chunk);
}

}  // namespace

Work products_work(const Machine& m, const std::vector<ConvProduct>& products, std::int64_t groups,
                   const kernels::TileShape& tile, int threads, const ProductTuning& tuning, const TensorBytes& bytes) {
  Work work{.pieces = 0};
  for (const ConvProduct& p : products) {
    if (p.fills_gap) continue;
    Gemm g = p.gemm;
    g.depth_block = tuning.depth;
    const kernels::Cut cut = cut_of(g, groups, tile, threads, tuning.cut);
    const auto rows = static_cast<double>(std::min(cut.rows, g.m)),
               columns = static_cast<double>(std::min(cut.columns, g.n));
    Work one;
    one.largest = piece_cycles(m, g, tile, rows, columns);
    const double across = ceil_ratio(static_cast<double>(g.m), rows),
                 along = ceil_ratio(static_cast<double>(g.n), columns);
    one.pieces = across * along * static_cast<double>(groups);
    const double share = static_cast<double>(g.m) / (rows * across) * static_cast<double>(g.n) / (columns * along);
    one.cycles = one.largest * one.pieces * share;
    const bool stays_in_cache = tile.pairs || m.fits_cache(rows * columns * static_cast<double>(size_of(g.c.dtype)));
    one.bytes = read_bytes(m, g.a, bytes.size[static_cast<int>(p.a)], g, tile.rows) +
                read_bytes(m, g.b, bytes.size[static_cast<int>(p.b)], g, tile.columns) +
                static_cast<double>(groups) * write_bytes(g, tile.columns, stays_in_cache);
    work.add(one);
  }
  return work;
}

double own_products_us(const DeviceInfo& d, const Problem& p, const ProductTuning& tuning) {
  const Machine m(d);
  const kernels::TileShape tile = kernels::kernels_of<kernels::GemmKernels>(d.isa).tile(p.x.type);
  const TensorBytes bytes{
      {static_cast<double>(p.x.bytes()), static_cast<double>(p.w.bytes()), static_cast<double>(p.y.bytes())}};
  const Work work = products_work(m, products_of(p), p.groups(), tile, d.threads, tuning, bytes);
  return m.loop_us(work, tensor_bytes(p));
}

}  // namespace polymio::convolution
