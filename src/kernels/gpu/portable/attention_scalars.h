// What the kernels of attention share at the start of the workspace.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/portable/attention_dropout.h"

#ifndef KERNEL
namespace polymio::kernels {
#endif

/// Numbers equal mha::Scalar.
enum {
  DESCALE_Q,
  DESCALE_K,
  DESCALE_V,
  DESCALE_S,
  DESCALE_O,
  DESCALE_DO,
  DESCALE_DS,
  SCALE_S,
  SCALE_O,
  SCALE_DS,
  SCALE_DQ,
  SCALE_DK,
  SCALE_DV,
  SCALARS
};

typedef struct {
  AttentionDropout dropout;
  float value[SCALARS];
  int drops;
  u32 taken[2];  // works of a kernel, by its persistent blocks
} Scalars;

#ifndef KERNEL
}  // namespace polymio::kernels
#endif
