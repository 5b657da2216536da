// Results of which several blocks computed parts: the sum in a fixed order, so that it does not change from run to run.
// SPDX-License-Identifier: MIT
#pragma once

/// dst = alpha * (sum of the partial results) + beta * dst, for the elements of packed tensors. The partial results are
/// `at` elements behind the beginning of the workspace, dst begins at `dst_at`.
KERNEL THREADS_A_BLOCK(256)
add_partials(GLOBAL const sum_t* RESTRICT workspace, GLOBAL out_t* dst, const i64 at, const i64 size, const int splits,
             const i64 dst_at, const float alpha, const float beta) {
  const i64 i = (i64)BLOCK(0) * 256 + THREAD(0);
  if (i >= size) return;
  GLOBAL const sum_t* partials = align16(workspace) + at;
  sum_t sum = 0;
  for (int s = 0; s < splits; ++s) sum += partials[s * size + i];
  store_scaled(dst + dst_at + i, sum, alpha, beta);
}
