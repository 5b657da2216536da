// Arguments of the convolution kernels that serve any problem, in structs of at most 128 bytes. Shared with the host.
// Spatial dimensions are [D], H, W; missing ones have size 1.
// SPDX-License-Identifier: MIT
#pragma once
#ifndef KERNEL
#include <cstdint>
namespace polymio::kernels {
using i64 = std::int64_t;
#endif

typedef struct ConvSizes {
  i64 n, c, k, groups, in[3], out[3], filter[3];
} ConvSizes;

typedef struct ConvSteps {
  i64 pad[3], stride[3], dilation[3];
} ConvSteps;

// Strides in elements: N, C (of w: K, C), then the spatial dimensions.
typedef struct ConvStrides {
  i64 x[5], w[5], y[5];
} ConvStrides;

/// Implicit GEMM of any convolution (implicit_gemm_general.cl). In backward data the taps of a phase are `tap_step`
/// apart and read source positions `tap_delta` apart.
typedef struct GeneralShape {
  i64 tiles, tiles_p, tiles_q;  // all, and of one group and phase
  i64 tap_step[3], tap_delta[3];
  int splits, channels_fast, plain_fast;  // order of (tap, channel); neighbouring threads load neighbouring q
} GeneralShape;

#ifndef KERNEL
}  // namespace polymio::kernels
#endif
