// The gradient of a score, for the kernels of attention's gradients. Option: DOUT (type of dout).
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/portable/attention.h"

#define DOUT_TYPE TYPE(DOUT)

typedef struct {
  float weight, gradient;  // of a score; the weight is dropped or not
} Weighed;

/// The weight of a score and the score's gradient, from q k' and dout v'.
INLINE Weighed weigh(float product, float dp, GLOBAL const Scalars* scalars, GLOBAL const float* bias, Place of_bias,
                     Shape s, int head, int query, int key, float m, float z_inv, float delta) {
  const float of_scores = s.scale * scalars->value[DESCALE_Q] * scalars->value[DESCALE_K];
  const float score = score_of(product, of_scores, bias, of_bias, s, query, key);
  Weighed w = {0, 0};
  if (score == FLOAT_OF_BITS(0xff800000u)) return w;
  const float softmax = exp_of(score - m) * z_inv;
  const float kept = scalars->drops ? kept_factor(scalars, score_number(s, head, query, key)) : 1;
  const float of_dp = scalars->value[DESCALE_DO] * scalars->value[DESCALE_V];
  w.weight = softmax * kept;
  w.gradient = softmax * s.scale * (kept * (dp * of_dp) - delta);
  return w;
}
