// Tuning knobs of the matrix-product solvers: the cut of products into pieces, and the depth of the blocks that are
// summed at once.
// SPDX-License-Identifier: MIT
#pragma once
#include <vector>

#include "core/solver.h"
#include "kernels/cpu/conv_gemm.h"

namespace polymio::convolution {

/// The values of a tune point, initially those of the default point.
struct ProductTuning {
  kernels::CutRequest cut;
  std::int64_t depth = kernels::kGemmDepthBlock;
};

/// The knobs "rows", "pieces" and "depth" with those values that change the cut of these products.
TuneSpace product_knobs(const std::vector<kernels::ConvProduct>&, const kernels::TileShape&);

/// The tuning of the last three numbers of a point; the default if they are missing or invalid.
ProductTuning read_tuning(const TunePoint&);

/// Whether the last three numbers of a point are values of the knobs, and the point is the representative of all points
/// that cut these products equally.
bool is_distinct(std::vector<kernels::ConvProduct>, std::int64_t groups, const kernels::TileShape&, int threads,
                 const TunePoint&);

}  // namespace polymio::convolution
