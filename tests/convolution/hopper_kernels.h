// The convolution kernels that are C++ templates, as the host's compiler sees them: without its warnings.
// SPDX-License-Identifier: MIT
#pragma once
#pragma GCC system_header
#include "kernels/gpu/sm90/conv_shape.h"
#include "tests/kernels/gpu/multiprocessor.h"

namespace sm90 {
using namespace polymio::kernels;
}

#include "primitives/convolution/cuda/depthwise_1d_channels.cu"
#include "primitives/convolution/cuda/depthwise_1d_lines.cu"
#include "primitives/convolution/cuda/few_channels.cu"
#include "primitives/convolution/cuda/few_channels_packing.cu"
#include "primitives/convolution/cuda/few_channels_weights.cu"
#include "primitives/convolution/cuda/hopper.cu"
#include "primitives/convolution/cuda/hopper_halo.cu"
#include "primitives/convolution/cuda/hopper_halo_weights.cu"
#include "primitives/convolution/cuda/hopper_weights.cu"
#include "primitives/convolution/cuda/long_filters.cu"
