// The kernels of MhaHopper as the host's compiler sees them: without its warnings.
// SPDX-License-Identifier: MIT
#pragma once
#pragma GCC system_header
#include "kernels/gpu/portable/attention_scalars.h"
#include "kernels/gpu/sm90/attention_shape.h"
#include "tests/kernels/gpu/multiprocessor.h"
#include "kernels/gpu/portable/attention_kept.h"

namespace sm90 {
using polymio::kernels::AttentionShape;
using polymio::kernels::AttentionStrides;
using polymio::kernels::DESCALE_DO;
using polymio::kernels::DESCALE_DS;
using polymio::kernels::DESCALE_K;
using polymio::kernels::DESCALE_O;
using polymio::kernels::DESCALE_Q;
using polymio::kernels::DESCALE_S;
using polymio::kernels::DESCALE_V;
using polymio::kernels::kept_factor;
using polymio::kernels::Scalars;
using polymio::kernels::SCALE_DK;
using polymio::kernels::SCALE_DQ;
using polymio::kernels::SCALE_DS;
using polymio::kernels::SCALE_DV;
using polymio::kernels::SCALE_O;
using polymio::kernels::SCALE_S;
}  // namespace sm90

#include "primitives/mha/cuda/hopper_backward.cu"
#include "primitives/mha/cuda/hopper_forward.cu"
