// Cost model of matrix products.
// SPDX-License-Identifier: MIT
#pragma once
#include <vector>

#include "primitives/convolution/cpu/cost.h"
#include "primitives/convolution/cpu/products.h"

namespace polymio::convolution {

/// Bytes of the tensors that products read, indexed by kernels::ConvTensor.
struct TensorBytes {
  double size[3];
};

/// The cost of one parallel loop over all pieces of the products, cut as class Products cuts them.
Work products_work(const Machine&, const std::vector<kernels::ConvProduct>&, std::int64_t groups,
                   const kernels::TileShape&, int threads, const ProductTuning&, const TensorBytes&);

/// Microseconds of products_invoker.
double own_products_us(const DeviceInfo&, const Problem&, const ProductTuning&);

}  // namespace polymio::convolution
