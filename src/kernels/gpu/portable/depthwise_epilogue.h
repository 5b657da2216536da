// How depthwise kernels that exist with an epilogue and without store results. Kernels list EPILOGUE_PARAMETERS and
// read the TERMS of their channels; functions list FUSED_PARAMETERS. Options: FUSES, and those of epilogue.h.
// SPDX-License-Identifier: MIT
#pragma once

#ifdef FUSES
#include "kernels/gpu/portable/epilogue.h"
#define EPILOGUE_PARAMETERS , CHANNEL_PARAMETERS, const Scalars scalars
#define LOAD_TERMS(count, channel) \
  ChannelTerms terms[count];       \
  UNROLL                           \
  for (int u_ = 0; u_ < (count); ++u_) terms[u_] = CHANNEL_TERMS((channel) + u_)
/// Kernels with few registers to spare keep the terms in local memory, and read them behind a barrier.
#define STAGE_TERMS(most, channel, count) \
  SHARED ChannelTerms staged_terms[most]; \
  for (int i_ = THREAD(0); i_ < (count); i_ += THREADS) staged_terms[i_] = CHANNEL_TERMS((channel) + i_)
#define STAGED_TERMS(count, at) \
  ChannelTerms terms[count];    \
  UNROLL                        \
  for (int u_ = 0; u_ < (count); ++u_) terms[u_] = staged_terms[(at) + u_]
#define FUSED_PARAMETERS , const ChannelTerms *terms, const Scalars scalars
#define FUSED_ARGUMENTS , terms, scalars
#define FUSED(v, term) activated(v, terms[term], scalars)

INLINE void store_finished(GLOBAL out_t* p, sum_t v, float alpha, float beta FUSED_PARAMETERS) {
  v *= alpha;
  if (beta != 0) v = FMA(beta, LOAD(OUT, p, 0), v);
  STORE(OUT, p, 0, FUSED(v, 0));
}
/// Of four neighbouring channels.
INLINE void store4_finished(GLOBAL out_t* p, const sum_t* v, float alpha, float beta FUSED_PARAMETERS) {
  sum_t results[4];
  UNROLL
  for (int u = 0; u < 4; ++u) {
    results[u] = v[u] * alpha;
    if (beta != 0) results[u] = FMA(beta, LOAD(OUT, p, u), results[u]);
    results[u] = FUSED(results[u], u);
  }
  store4(p, results);
}

#else
#define EPILOGUE_PARAMETERS
#define LOAD_TERMS(count, channel)
#define STAGE_TERMS(most, channel, count)
#define STAGED_TERMS(count, at)
#define FUSED_PARAMETERS
#define FUSED_ARGUMENTS
#define FUSED(v, term) (v)
#define store_finished store_scaled
#define store4_finished store4_scaled
#endif
