// Cut of backward weights: a block of dw and the copies of a step each take a share of the second-level cache.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/direct_backward_weights.h"

#include <algorithm>
#include <cmath>

#include "base/math.h"

namespace polymio::kernels {
namespace {

constexpr std::int64_t kAlign = 64;

/// Size of equal blocks of at most `most`; multiples of `unit` if there are several.
std::int64_t equal_block(std::int64_t size, std::int64_t most, std::int64_t unit) {
  const std::int64_t count = ceil_div(size, std::clamp<std::int64_t>(most, 1, size));
  return std::min(size, round_up(ceil_div(size, count), count > 1 ? unit : 1));
}

/// Makes blocks as square as possible: x is copied once per block of k, dy once per block of c.
void set_blocks(DirectGradient& g, std::int64_t bytes) {
  const ConvShape& s = g.x.shape;
  const std::int64_t sums = std::max<std::int64_t>(bytes / (g.x.unit.element * g.x.taps()), 1);  // k times c
  constexpr std::int64_t kNarrow = 64;
  const std::int64_t lanes = g.x.unit.lanes;
  const bool whole = s.c * std::min(s.k, kNarrow) <= sums;
  const auto side = static_cast<std::int64_t>(std::sqrt(static_cast<double>(sums)));
  g.c_block = whole ? s.c : equal_block(s.c, std::max(round_up(side, lanes), lanes), lanes);
  g.k_block = equal_block(s.k, sums / g.c_block, 2);
  g.c_blocks = ceil_div(s.c, g.c_block);
  g.k_blocks = ceil_div(s.k, g.k_block);
}

std::int64_t outputs_of(const DirectCut& c) { return c.images * c.rows * c.columns; }

/// Sets the largest steps whose copies of x and dy have at most `bytes` each.
void set_steps(DirectGradient& g, std::int64_t bytes) {
  Direct& x = g.x;
  x.from.channels = g.c_block;
  DirectCut cut;
  cut.rows = x.cells[1];
  cut.columns = x.cells[2];
  cut.channels = g.c_block;
  cut.copied = true;
  const auto fits = [&] {
    cut_direct(x, cut);
    return x.input_tile.total * x.unit.element <= bytes && outputs_of(x.cut) * g.k_block * x.unit.element <= bytes;
  };
  for (std::int64_t* size : {&cut.rows, &cut.columns})
    while (!fits() && *size > 1) *size = ceil_div(*size, 2);
  cut.rows = ceil_div(x.cells[1], ceil_div(x.cells[1], cut.rows));
  constexpr std::int64_t kEnough = 256;  // outputs per step: each step adds its register tiles to the sums in memory
  while (fits() && outputs_of(x.cut) < kEnough && x.cut.images < x.shape.n) cut.images *= 2;
  while (!fits() && cut.images > 1) cut.images = ceil_div(cut.images, 2);
  cut_direct(x, cut);
  g.steps = ceil_div(x.shape.n, x.cut.images) * x.cells[0] * ceil_div(x.cells[1], x.cut.rows) *
            ceil_div(x.cells[2], x.cut.columns);
}

/// Cuts few blocks into slices for more pieces, as long as the sum of the slices costs little.
void set_slices(DirectGradient& g) {
  constexpr std::int64_t kPieces = 16, kOutputs = 512;
  const std::int64_t* out = g.x.shape.out;
  const std::int64_t outputs = g.x.shape.n * out[0] * out[1] * out[2];
  const std::int64_t target = std::min(ceil_div(kPieces, g.blocks()), outputs / kOutputs);
  g.slices = std::clamp<std::int64_t>(target, 1, g.steps);
}

/// Predicted cycles per output and row of taps for `rows` x `lanes` sums.
double tile_cycles(const DirectUnit& unit, std::int64_t rows, std::int64_t lanes) {
  double best = INFINITY;
  for (std::int64_t v = 1; v <= 3; ++v) {
    const double tiles = static_cast<double>(ceil_div(rows, unit.rows[v])), height = static_cast<double>(rows) / tiles;
    const auto width = static_cast<double>(v);
    const double panels = static_cast<double>(ceil_div(ceil_div(lanes, unit.lanes), v));
    best = std::min(best, panels * tiles * std::max({height * width / 2, (height + width) / 2, 4.0}));
  }
  return best;
}

/// Chooses output channels as lanes if that fills tiles better, as with few input channels. dy is then transposed
/// unless its channels are innermost. Otherwise output channels are rows, and only image pairs with channels innermost
/// are transposed.
void choose_lanes(DirectGradient& g) {
  const ConvShape& s = g.x.shape;
  const std::int64_t run = (g.x.merged ? s.taps[2] : 1) * g.c_block;
  const bool last = g.dy.c == 1, first = g.dy.d[2] == 1 && g.x.unit.element == 4;
  const bool pairs = g.x.unit.math == DirectMath::kImagePairs;
  constexpr double kGain = 1.05,
                   kTranspose = 0.4;  // kGain: transpose of the sums; kTranspose: cycles per element of dy
  const double transpose = kTranspose * static_cast<double>(g.k_block) / static_cast<double>(s.taps[0] * s.taps[1]);
  const double cycles = kGain * tile_cycles(g.x.unit, run, g.k_block) + (last ? 0 : transpose);
  const double straight = tile_cycles(g.x.unit, g.k_block, run) + (pairs && last ? transpose : 0);
  const bool transposed = (last || first) && g.c_blocks == 1 && cycles < straight;
  g.transposed_row = transposed ? round_up(g.k_block, g.x.unit.lanes) : 0;
}

void set_places(DirectGradient& g) {
  const Direct& x = g.x;
  const std::int64_t size = x.unit.element, outputs = outputs_of(x.cut);
  const bool outputs_are_rows = g.dy.c == 1 && x.unit.math != DirectMath::kImagePairs;
  g.pitch = g.transposed_row > 0 ? g.transposed_row
            : outputs_are_rows   ? g.k_block
                                 : (ceil_div(outputs, x.unit.lanes) | 1) * x.unit.lanes;
  g.k_row = x.taps() * g.c_block;
  g.sum_bytes = round_up(g.k_block * g.k_row * size + kAlign, kAlign);
  g.places.total = 0;
  const auto take = [&](std::int64_t bytes) {
    const std::int64_t offset = g.places.total;
    g.places.total += round_up(bytes, kAlign);
    return offset;
  };
  // Vectors of a register tile may read past the end of the input tile.
  g.places.input_tile = take(x.input_tile.total * size + 4 * kAlign);
  g.places.dy = take((g.transposed_row > 0 || outputs_are_rows ? outputs : g.k_block) * g.pitch * size);
  g.places.sums = take(g.sum_bytes);
  g.places.transposed = take(g.k_row * g.transposed_row * size);
  g.places.lists = take(2 * x.cut.images * x.cut.rows * static_cast<std::int64_t>(sizeof(std::int64_t)));
}

/// The job on image pairs, whose elements have the size of fp32. With an odd number of images that have more lines than
/// there are images, a pair is two lines of one image, half of its lines apart.
Direct pairs_job(ConvShape shape, DataType dw_type, DirectUnit unit) {
  unit.math = DirectMath::kImagePairs;
  unit.group = 1;
  unit.element = unit.lane_bytes();
  const std::int64_t images = shape.n, lines = shape.out[1];
  const bool halves = images % 2 == 1 && lines > images;
  if (halves) {
    shape.out[1] = ceil_div(lines, 2);
  } else {
    shape.n = ceil_div(images, 2);
  }
  Direct job = direct_job(shape, false, dw_type, unit);
  job.to.size[1] = lines;
  for (DirectSide* side : {&job.from, &job.to}) {
    side->images = images;
    side->half = halves ? shape.out[1] * (side == &job.from ? shape.stride[1] : 1) : 0;
    side->partner = halves ? side->half * side->d[1] : side->n;
    if (!halves) side->n *= 2;
  }
  return job;
}

}  // namespace

DirectGradient gradient_job(const ConvShape& shape, DataType dw_type, const DirectUnit& unit, std::int64_t cache) {
  DirectGradient g;
  const bool pairs = unit.math == DirectMath::kBf16;
  g.x = pairs ? pairs_job(shape, dw_type, unit) : direct_job(shape, false, dw_type, unit);
  g.dy = g.x.to;
  g.dy.type = shape.dtype;
  set_blocks(g, cache / 4);
  set_steps(g, cache / 6);
  set_slices(g);
  if (!(pairs && unit.amx)) choose_lanes(g);  // AMX needs the outputs of a channel contiguous
  set_places(g);
  return g;
}

}  // namespace polymio::kernels
