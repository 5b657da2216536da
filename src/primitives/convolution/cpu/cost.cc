// Costs in cycles were measured on Xeon (Sapphire Rapids) with AVX-512; only their proportions matter.
// SPDX-License-Identifier: MIT
#include "primitives/convolution/cpu/cost.h"

#include <algorithm>
#include <cmath>

namespace polymio::convolution {
namespace {

using kernels::Axis;
using kernels::ConvProduct;
using kernels::Gemm;
using kernels::kLevels;
using kernels::Level;
using kernels::Operand;

constexpr double kLoopUs = 0.02;      // a parallel loop that runs inline
constexpr double kWakeUs = 3;         // one that wakes other threads
constexpr double kPieceCycles = 200;  // set-up of a piece: scratch, offsets, cold code
constexpr double kTileCycles = 25;    // set-up of a register tile
constexpr double kStoreCycles = 3;    // a vector of results, read or written
constexpr double kLineCycles = 3;     // a line of packing: its position
constexpr double kRunCycles = 10;     // consecutive elements of a line
constexpr double kBoundCycles = 10;   // finding what of them is inside the padding
constexpr double kPlainCycles = 2.5;  // a vector of consecutive elements
constexpr double kWidenCycles = 2;    // widening or narrowing it
constexpr double kEvenCycles = 5;     // a vector of every second element
constexpr double kElementCycles = 1;  // an element that is copied or converted on its own
constexpr double kHalfCycles = 1.8;   // the same with fp16
constexpr double kTurnCycles = 0.4;   // transposing, an element
constexpr double kCacheSpeed = 6;     // second-level cache over memory
constexpr double kJumpBytes = 100;    // what could be read from memory while a new place is found
constexpr double kLineBytes = 64;     // the least that is read or written

bool is_bounded(const Operand& o) { return (o.extent[0] | o.extent[1] | o.extent[2]) != 0; }

/// As the kernel decides whether lanes or depths are read as they lie.
double run_cost(const Machine& m, const Axis& axis) {
  const Level& inner = axis.level[kLevels - 1];
  const bool quick = inner.stride == 1 || (m.masked() && inner.stride == 2);
  return quick ? static_cast<double>(inner.stride) * 8.0 / static_cast<double>(inner.size) : 2.0;
}

/// Lines of `length` positions along an axis.
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
  return lanes * (blocks * line_cycles(m, o, o.depth, depths / blocks) + depths * kTurnCycles);
}

const Level& inner(const Axis& axis) { return axis.level[kLevels - 1]; }

/// Whether the micro-kernel reads an operand of the kernel's own type where it lies.
bool is_readable_in_place(const Operand& o) {
  constexpr std::int64_t kRun = 128;
  return size_of(o.dtype) > 2 && !is_bounded(o) && std::min(o.depth.size(), kRun) <= inner(o.depth).size;
}

/// Cycles of copying rows of A, if they are not read in place: in groups of a vector where steps of depth are far
/// apart.
double a_cycles(const Machine& m, const Gemm& g, double rows, double columns, double step) {
  constexpr std::int64_t kFar = 512;
  const auto k = static_cast<double>(g.k), lanes = m.lanes(g.c.dtype);
  if (!is_readable_in_place(g.a)) return pack_cycles(m, g.a, rows, k, rows, step);
  const auto bytes = inner(g.a.depth).stride * static_cast<std::int64_t>(size_of(g.a.dtype));
  const bool grouped = inner(g.a.lanes).stride == 1 && bytes >= (columns >= 12 * lanes ? kFar : 8 * kFar);
  return grouped ? ceil_ratio(rows, lanes) * k * kPlainCycles : 0;
}

/// Cycles of copying columns of B. What lies evenly is copied by the first tile that reads it; what is in the cache and
/// does not, panel by panel.
double b_cycles(const Machine& m, const Gemm& g, double columns, double step) {
  constexpr double kNear = 4096.0 * 1024, kPanel = 3;
  if (is_readable_in_place(g.b) && inner(g.b.lanes).stride == 1) return 0;
  const double bytes = static_cast<double>(std::max(g.k, g.m)) * static_cast<double>(g.n) * sizeof(float);
  const double width = bytes <= kNear ? kPanel * m.lanes(g.c.dtype) : columns;
  return pack_cycles(m, g.b, columns, static_cast<double>(g.k), width, step);
}

/// Cycles of writing a tile that does not lie in C as whole vectors.
double scatter_cycles(const Machine& m, const kernels::Output& c, double rows, double columns) {
  if (c.gap != 0) return rows * run_cycles(m, c.dtype, 4 * columns, 1, false);
  const Level& inner = c.columns.level[kLevels - 1];
  const double runs = 1 + columns / static_cast<double>(inner.size);
  return rows * runs * run_cycles(m, c.dtype, columns / runs, inner.stride, false);
}

/// The part of column panels that is not one run of whole vectors.
double scattered_part(const kernels::Output& c, double columns, double panel) {
  const Level& inner = c.columns.level[kLevels - 1];
  if (inner.stride != 1 || size_of(c.dtype) == 2) return 1;
  if (inner.size >= c.columns.size()) return std::fmod(columns, panel) == 0 ? 0 : panel / std::max(columns, panel);
  return std::min(1.0, panel / static_cast<double>(inner.size));
}

/// The same of pairs of depths: A is copied unless its rows are runs of depth, B is turned into pairs panel by panel. A
/// cycle multiplies 512 pairs by tile registers, else 32.
double pair_cycles(const Machine& m, const Gemm& g, const kernels::TileShape& tile, double rows, double columns) {
  constexpr double kRegister = 16, kPanel = 32;
  const auto k = static_cast<double>(g.k);
  const double panels = ceil_ratio(columns, kPanel), vectors = ceil_ratio(columns, kRegister);
  const double products =
      tile.amx ? ceil_ratio(rows, kRegister) * ceil_ratio(k, 2 * kRegister) * kRegister : rows * k / 4;
  const double multiply = vectors * products + panels * ceil_ratio(rows, kPanel) * kTileCycles;
  constexpr double kTogether = 128, kPart = 512;  // columns that are copied together, depths at a time
  const bool in_place = inner(g.a.depth).stride == 1 && !is_bounded(g.a);
  return kPieceCycles + multiply + pack_cycles(m, g.b, columns, k, kTogether, kPart) +
         (in_place ? 0 : pack_cycles(m, g.a, rows, k, rows, kPart)) +
         scatter_cycles(m, g.c, rows * panels, columns / panels);
}

/// One piece: rows x columns of C, all of k.
double piece_cycles(const Machine& m, const Gemm& g, const kernels::TileShape& tile, double rows, double columns) {
  if (tile.pairs) return pair_cycles(m, g, tile, rows, columns);
  const auto k = static_cast<double>(g.k), step = static_cast<double>(std::max<std::int64_t>(g.depth_step(), 1));
  const double blocks = std::max(1.0, ceil_ratio(k, step));
  const auto lanes = static_cast<double>(tile.lanes), tile_rows = static_cast<double>(tile.rows);
  const double vectors = ceil_ratio(columns, lanes);
  const double panels = ceil_ratio(vectors * lanes, static_cast<double>(tile.columns));
  const double wide = std::fmod(vectors, panels), narrow = panels - wide, width = std::floor(vectors / panels);
  const double full = std::floor(rows / tile_rows), rest = rows - full * tile_rows;
  const auto steps = [&](double r) {
    return wide * Machine::tile_step(r, width + 1) + narrow * Machine::tile_step(r, width);
  };
  const double multiply = k * (full * steps(tile_rows) + (rest > 0 ? steps(rest) : 0));
  const double tiles = blocks * panels * (full + (rest > 0)) * kTileCycles;
  const bool narrow_type = size_of(g.c.dtype) == 2;
  const double stores = rows * vectors * kStoreCycles * (2 * blocks - 1);
  const double part = scattered_part(g.c, columns, vectors * lanes / panels);
  const double scatter = part * (narrow_type ? 1 : blocks) * scatter_cycles(m, g.c, rows, columns);
  const double pack = a_cycles(m, g, rows, columns, step) + b_cycles(m, g, columns, step);
  return kPieceCycles + multiply + tiles + stores + scatter + pack;
}

/// Bytes read, as if in order, to pack an operand of `bytes` once.
double read_bytes(const Machine& m, const Operand& o, double bytes, const Gemm& g, std::int64_t width) {
  const bool across = run_cost(m, o.lanes) <= run_cost(m, o.depth);
  const Level& inner = (across ? o.lanes : o.depth).level[kLevels - 1];
  const std::int64_t together = std::min(inner.size, across ? width : g.depth_step());
  const double chunk = static_cast<double>(together * inner.stride) * static_cast<double>(size_of(o.dtype));
  return jump_bytes(bytes, chunk);
}

/// Bytes read and written of C; `keeps`: a piece stays in the cache from one block of depth to the next.
double write_bytes(const Gemm& g, std::int64_t width, bool keeps) {
  const Level& inner = g.c.columns.level[kLevels - 1];
  const auto size = static_cast<double>(size_of(g.c.dtype)), stride = static_cast<double>(inner.stride);
  const double chunk = static_cast<double>(std::min(inner.size, width)) * std::min(stride * size, kLineBytes);
  const auto steps = static_cast<double>(std::max<std::int64_t>(g.depth_step(), 1));
  const double rounds = keeps ? 1 : std::max(1.0, 2 * ceil_ratio(static_cast<double>(g.k), steps) - 1);
  const double bytes = static_cast<double>(g.m) * static_cast<double>(g.n) * std::min(stride * size, kLineBytes);
  return jump_bytes((stride > 1 ? 2 : 1) * rounds * bytes, chunk);
}

}  // namespace

void Work::add(const Work& other) {
  cycles += other.cycles;
  largest = std::max(largest, other.largest);
  pieces += other.pieces;
  bytes += other.bytes;
}

Machine::Machine(const DeviceInfo& d) {
  vector_bytes_ = d.isa >= CpuIsa::kAvx512 ? 64 : d.isa == CpuIsa::kAvx2 ? 32 : 16;
  threads_ = std::max(d.threads, 1);
  // Without a fused instruction, a multiplication and an addition are one of each.
  const double flops = vector_bytes_ / 4 * (d.isa == CpuIsa::kGeneric ? 2 : 4);
  cycle_us_ = flops * 1e-3 * threads_ / std::max(d.fp32_gflops, 0.1);
  bytes_us_ = std::max(d.bandwidth_gbs, 0.1) * 1e3;
  core_cache_ = 0.75 * static_cast<double>(d.cache_bytes[1]);
  all_caches_ = core_cache_ * std::min(threads_, static_cast<double>(d.units));
}

double Machine::loop_us(const Work& w, double footprint) const {
  const double rounds = w.pieces / threads_;
  const double compute = (w.cycles / threads_ + w.largest * (std::ceil(rounds) - rounds)) * cycle_us_;
  // The larger the data, the less of it is still in some cache.
  const double near = std::clamp(kCacheSpeed * std::sqrt(all_caches_ / std::max(footprint, 1.0)), 1.0, kCacheSpeed);
  const double memory = w.bytes / (bytes_us_ * std::min(1.0, rounds) * near);
  // Packing and padding wait for memory: the sum is nearer to measured times than the larger of the two.
  return compute + memory + (std::min(w.pieces, threads_) > 1 ? kWakeUs : kLoopUs);
}

double Machine::tile_step(double rows, double vectors) {
  // Two multiply-adds a cycle, two loads a cycle, and a multiply-add takes four.
  return std::max({rows * vectors / 2, (rows + vectors) / 2, 4.0});
}

double jump_bytes(double bytes, double chunk) { return bytes * (1 + kJumpBytes / std::max(chunk, kLineBytes)); }

double convert_cycles(DataType type) { return type == DataType::kHalf ? kHalfCycles : kElementCycles; }

double run_cycles(const Machine& m, DataType type, double length, std::int64_t stride, bool bounded) {
  const double start = kRunCycles + (bounded ? kBoundCycles : 0), vectors = ceil_ratio(length, m.lanes(type));
  const bool wide = size_of(type) > 2;
  if (stride == 1 && (wide || m.masked())) return start + vectors * (kPlainCycles + (wide ? 0 : kWidenCycles));
  if (wide && stride == 2 && m.masked()) return start + vectors * kEvenCycles;
  return start + length * convert_cycles(type);
}

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
    const bool keeps = tile.pairs || m.fits_cache(rows * columns * static_cast<double>(size_of(g.c.dtype)));
    one.bytes = read_bytes(m, g.a, bytes.of[static_cast<int>(p.a)], g, tile.rows) +
                read_bytes(m, g.b, bytes.of[static_cast<int>(p.b)], g, tile.columns) +
                static_cast<double>(groups) * write_bytes(g, tile.columns, keeps);
    work.add(one);
  }
  return work;
}

double own_products_us(const DeviceInfo& d, const Problem& p, const ProductTuning& tuning) {
  const Machine m(d);
  const kernels::TileShape tile = kernel_table(d).gemm_tile(p.x.type);
  const TensorBytes bytes{
      {static_cast<double>(p.x.bytes()), static_cast<double>(p.w.bytes()), static_cast<double>(p.y.bytes())}};
  const Work work = products_work(m, products_of(p), p.groups(), tile, d.threads, tuning, bytes);
  return m.loop_us(work, tensor_bytes(p));
}

}  // namespace polymio::convolution
