// Tune spaces of matrix products.
// SPDX-License-Identifier: MIT
#include "primitives/convolution/cpu/tuning.h"

#include <algorithm>

namespace polymio::convolution {
namespace {

using kernels::ConvProduct;
using kernels::CutRequest;

constexpr int kPieceRows[] = {64, 128, 256};  // per piece; more rows gain nothing from packed operands
constexpr int kPieces[] = {1, 2, 4, 8};       // per thread
constexpr int kDepths[] = {128, 256, 512};    // panels of B of half, one and two times the first-level cache

template <std::size_t N>
bool contains(const int (&values)[N], std::int64_t value) {
  return std::find(values, values + N, value) != values + N;
}

void set_depth(std::vector<ConvProduct>& products, std::int64_t depth) {
  for (ConvProduct& p : products) p.gemm.depth_block = depth;
}

/// Depths per block of each product at this value of the knob "depth".
std::vector<std::int64_t> steps(std::vector<ConvProduct> products, std::int64_t depth) {
  set_depth(products, depth);
  std::vector<std::int64_t> result;
  for (const ConvProduct& p : products) result.push_back(p.gemm.depth_step());
  return result;
}

}  // namespace

TuneSpace product_knobs(const std::vector<ConvProduct>& products, const kernels::TileShape& tile) {
  std::int64_t rows = 1, columns = 1;
  for (const ConvProduct& p : products) {
    rows = std::max(rows, p.gemm.m);
    columns = std::max(columns, p.gemm.n);
  }
  Knob row_knob{"rows", {0}}, piece_knob{"pieces", {0}}, depth_knob{"depth", {}};
  for (const int r : kPieceRows)
    if (r < rows) row_knob.values.push_back(r);
  if (rows > tile.rows || columns > tile.lanes)
    piece_knob.values.insert(piece_knob.values.end(), kPieces, std::end(kPieces));
  const auto default_steps = steps(products, kernels::kGemmDepthBlock);
  for (const int d : kDepths)
    if (d == kernels::kGemmDepthBlock || steps(products, d) != default_steps) depth_knob.values.push_back(d);
  return {row_knob, piece_knob, depth_knob};
}

ProductTuning read_tuning(const TunePoint& point) {
  ProductTuning t;
  const std::size_t n = point.size();
  if (n < 3 || !contains(kDepths, point[n - 1])) return t;
  t.cut = {point[n - 3], point[n - 2]};
  t.depth = point[n - 1];
  return t;
}

bool is_distinct(std::vector<ConvProduct> products, std::int64_t groups, const kernels::TileShape& tile, int threads,
                 const TunePoint& point) {
  const ProductTuning t = read_tuning(point);
  if (t.cut.rows != 0 && !contains(kPieceRows, t.cut.rows)) return false;
  if (t.cut.pieces != 0 && !contains(kPieces, t.cut.pieces)) return false;
  if (t.depth != point.back()) return false;
  if (t.depth != kernels::kGemmDepthBlock && steps(products, t.depth) == steps(products, kernels::kGemmDepthBlock))
    return false;
  set_depth(products, t.depth);
  const auto same_as = [&](const CutRequest& other) {
    return std::all_of(products.begin(), products.end(), [&](const ConvProduct& p) {
      return cut_of(p.gemm, groups, tile, threads, t.cut) == cut_of(p.gemm, groups, tile, threads, other);
    });
  };
  // Of equal cuts, 0 represents the value that it chooses, else the largest request represents the smaller ones.
  if (t.cut.rows != 0 && same_as({0, t.cut.pieces})) return false;
  if (t.cut.pieces != 0 && same_as({t.cut.rows, 0})) return false;
  if (t.cut.rows != 0 && t.cut.rows != kPieceRows[2] && same_as({2 * t.cut.rows, t.cut.pieces})) return false;
  return t.cut.pieces == 0 || t.cut.pieces == kPieces[3] || !same_as({t.cut.rows, 2 * t.cut.pieces});
}

}  // namespace polymio::convolution
