// Frozen: not to be mended.
// SPDX-License-Identifier: MIT
#include "primitives/convolution/cpu/former_cost.h"

#include <algorithm>
#include <cmath>

namespace polymio::convolution {
namespace {

using kernels::DirectGradient;

/// Cycles of all pieces.
double work_cycles(const DirectGradient& g, DataType type) {
  constexpr double kTile = 30, kBlock = 6, kCopy = 0.5, kRun = 8, kSum = 0.2, kStore = 0.6;
  const kernels::Direct& x = g.x;
  const kernels::ConvShape& s = x.shape;
  const auto real = [](std::int64_t v) { return static_cast<double>(v); };
  const double steps = real(g.steps * g.blocks()), lanes = real(x.unit.lanes);
  const double tap_rows = real(s.taps[0] * s.taps[1]), runs = x.merged ? 1 : real(s.taps[2]);
  const double run = real(x.merged ? s.taps[2] * g.c_block : g.c_block), channels = real(g.k_block);
  const double rows = g.turned_row > 0 ? run : channels,
               vectors = std::ceil((g.turned_row > 0 ? channels : run) / lanes);
  const double lines = real(x.cut.images * x.cut.rows), outputs = lines * real(x.cut.columns);
  const double tile = std::max({14 * vectors / std::ceil(vectors / 2) / 2, 4.0}) * outputs + kTile + kBlock * lines;
  const double tiles = tap_rows * runs * std::ceil(vectors / 2) * std::ceil(rows / 14);
  const double share = std::min(1.0, rows / (14 * std::ceil(rows / 14)) + 0.1);
  const double widen = size_of(type) == 2 ? 1.5 : 1;
  const double copies = real(x.strip.total) * kCopy * widen + real(g.k_block) * (outputs * 0.2 * widen + lines * kRun);
  const double results = real(g.blocks() * g.k_block * g.k_row);
  return steps * (tiles * tile * share + copies) + results * (kStore + kSum * real(g.slices));
}

}  // namespace

Work former_direct_work(const kernels::Direct& job, const Problem& p, const Machine& m) {
  constexpr double kCopy = 0.5;
  Work work;
  work.pieces = static_cast<double>(job.pieces());
  work.cycles = p.flops() / 4 / m.lanes(DataType::kFloat) * 1.1;
  work.cycles += kCopy * work.pieces * static_cast<double>(job.strip.total);
  work.largest = work.cycles / work.pieces;
  work.bytes = tensor_bytes(p);
  return work;
}

Work former_gradient_work(const DirectGradient& job, const Problem& p) {
  Work work;
  work.pieces = static_cast<double>(job.pieces());
  work.cycles = work_cycles(job, p.x.type);
  work.largest = work.cycles / work.pieces;
  work.bytes = tensor_bytes(p) + 2 * static_cast<double>(job.workspace());
  return work;
}

}  // namespace polymio::convolution
