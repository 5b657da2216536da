// The sizes and strides of a convolution.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "base/dtype.h"
#include "kernels/cpu/operand.h"

namespace polymio::kernels {

enum class ConvDirection { kForward, kBackwardData, kBackwardWeights };

/// One grouped convolution (cross-correlation) of up to three spatial dimensions; unused leading
/// dimensions have size 1, stride 1, dilation 1 and no padding. Strides are in elements, any value.
struct ConvShape {
  DataType dtype = DataType::kFloat;
  std::int64_t n = 1, groups = 1;
  std::int64_t c = 1, k = 1;  // per group
  std::int64_t in[kSpatial] = {1, 1, 1}, out[kSpatial] = {1, 1, 1}, taps[kSpatial] = {1, 1, 1};
  std::int64_t stride[kSpatial] = {1, 1, 1}, dilation[kSpatial] = {1, 1, 1};
  std::int64_t pad[kSpatial] = {0, 0, 0};
  std::int64_t x_n = 0, x_c = 0, x_d[kSpatial] = {0, 0, 0};  // x, dx
  std::int64_t w_k = 0, w_c = 0, w_d[kSpatial] = {0, 0, 0};  // w, dw
  std::int64_t y_n = 0, y_k = 0, y_d[kSpatial] = {0, 0, 0};  // y, dy
};

/// Sets packed strides: NC(D)HW and KC(R)S, or with `channels_last` N(D)HWC and K(R)SC.
void set_packed_strides(ConvShape& shape, bool channels_last);

}  // namespace polymio::kernels
