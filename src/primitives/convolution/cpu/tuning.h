// The knobs that the matrix-product solvers share: how products are cut into pieces, and how deep the
// blocks are that are summed at once.
// SPDX-License-Identifier: MIT
#pragma once
#include <vector>

#include "core/solver.h"
#include "kernels/cpu/kernels.h"

namespace polymio::convolution {

/// What a tune point means. The initial values are the default point.
struct ProductTuning {
  kernels::CutRequest cut;
  std::int64_t depth = kernels::kGemmDepthBlock;
};

/// "rows", "pieces", "depth" with the values that make a difference to these products.
TuneSpace product_knobs(const std::vector<kernels::ConvProduct>&, const kernels::TileShape&);

/// The last three numbers of a point; the default where they are missing or not to be used.
ProductTuning read_tuning(const TunePoint&);

/// Whether the last three numbers of a point are values of the knobs and cut these products in another way
/// than their neighbours, one of which stands for all that are alike.
bool is_distinct(std::vector<kernels::ConvProduct>, std::int64_t groups, const kernels::TileShape&, int threads,
                 const TunePoint&);

}  // namespace polymio::convolution
