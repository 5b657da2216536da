// Arguments of the attention kernels for sm90 (primitives/mha/cuda/hopper_*.cu), shared with the host, which includes
// <cstdint> before.
// SPDX-License-Identifier: MIT
#pragma once
#ifdef __CUDACC_RTC__
namespace sm90 {
#else
namespace polymio::kernels {
#endif

/// Strides of a tensor, in elements.
struct AttentionStrides {
  long long batch, head, token;
};

struct AttentionShape {
  int heads, queries, keys, head_size, causal, has_statistics;
  float scale;
};

}  // namespace
