// Blocks of depth of matrix products.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/gemm.h"

#include <algorithm>

#include "base/math.h"

namespace polymio::kernels {

std::int64_t Gemm::depth_step() const {
  const std::int64_t blocks = std::max<std::int64_t>(ceil_div(k, depth_block), 1);
  return ceil_div(k, blocks);
}

}  // namespace polymio::kernels
