// How depthwise kernels that exist with an epilogue and without store results. Options: FUSES, and those of epilogue.h.
// SPDX-License-Identifier: MIT
#pragma once

#ifdef FUSES
#include "kernels/gpu/portable/epilogue.h"
#define EPILOGUE_PARAMETERS \
  , GLOBAL const bias_t *RESTRICT bias, GLOBAL const float *RESTRICT scale, const Scalars scalars
#define EPILOGUE_ARGUMENTS , bias, scale, scalars
#define FUSED(v, channel) activated(v, channel_terms(bias, scale, channel), scalars)

INLINE void store_finished(GLOBAL out_t* p, sum_t v, float alpha, float beta, int channel EPILOGUE_PARAMETERS) {
  v *= alpha;
  if (beta != 0) v = FMA(beta, LOAD(OUT, p, 0), v);
  STORE(OUT, p, 0, FUSED(v, channel));
}
/// Of four neighbouring channels.
INLINE void store4_finished(GLOBAL out_t* p, const sum_t* v, float alpha, float beta, int channel EPILOGUE_PARAMETERS) {
  sum_t results[4];
  UNROLL
  for (int u = 0; u < 4; ++u) {
    results[u] = v[u] * alpha;
    if (beta != 0) results[u] = FMA(beta, LOAD(OUT, p, u), results[u]);
    results[u] = FUSED(results[u], channel + u);
  }
  store4(p, results);
}

#else
#define EPILOGUE_PARAMETERS
#define EPILOGUE_ARGUMENTS
#define FUSED(v, channel) (v)

INLINE void store_finished(GLOBAL out_t* p, sum_t v, float alpha, float beta, int channel) {
  store_scaled(p, v, alpha, beta);
}
INLINE void store4_finished(GLOBAL out_t* p, const sum_t* v, float alpha, float beta, int channel) {
  store4_scaled(p, v, alpha, beta);
}
#endif
