// c = scale * v + keep * c for tensors of any strides, where v is, by PASS: 0 f(a); 1 b f'(a); 2 the same from a =
// f(x); 4 a f(b). PASS 3 is an epilogue, c = f(a * s + b + scale * r): with HAS_SCALE, HAS_BIAS and HAS_RESIDUAL the
// factor s, the bias b and the residual r are inputs after a, else they are absent; s and b have the type CHANNEL, and
// INPUTS counts all. PASS 5 is the gradient of the gated linear unit: for y = a logistic(b) and dy = g it
// writes the gradients of a and of b, unscaled.
// Options: MODE (f), IN = OUT (type), NUM (arithmetic), PASS.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/elements.h"
#include "kernels/gpu/portable/walk.h"
#include "kernels/gpu/portable/functions.h"
#include "kernels/gpu/portable/modes.h"

#if PASS == 0
#define INPUTS 1
#elif PASS == 3
#define INPUT_TYPE(i) ((i) == 0 || (i) == 1 + HAS_SCALE + HAS_BIAS ? IN_TYPE : TYPE(CHANNEL))
#elif PASS == 5
#define INPUTS 3
#else
#define INPUTS 2
#endif
#if PASS == 5
#define OUTPUTS 2
#else
#define OUTPUTS 1
#if PASS != 3
#define READS_OUTPUT(f, o) ((f)->keep != 0)
#endif
#endif

typedef struct {
  scalar alpha, beta, gamma, scale, keep;
} Formula;

INLINE void compute(const Formula* f, const num* in, num* out) {
  const num alpha = f->alpha, beta = f->beta, gamma = f->gamma;
#if PASS == 5
  const num a = in[0], b = in[1], g = in[2];
  out[0] = g * activate(MODE, b, alpha, beta, gamma);
  out[1] = gradient(MODE, b, g * a, alpha, beta, gamma);
#else
#if PASS == 0
  const num v = activate(MODE, in[0], alpha, beta, gamma);
#elif PASS == 1
  const num v = gradient(MODE, in[0], in[1], alpha, beta, gamma);
#elif PASS == 2
  const num v = gradient_from_y(MODE, in[0], in[1], alpha, beta, gamma);
#elif PASS == 3
  num t = in[0];
#if HAS_SCALE
  t *= in[1];
#endif
#if HAS_BIAS
  t += in[1 + HAS_SCALE];
#endif
#if HAS_RESIDUAL
  t += f->scale * in[1 + HAS_SCALE + HAS_BIAS];
#endif
  out[0] = activate(MODE, t, alpha, beta, gamma);
#else
  const num v = in[0] * activate(MODE, in[1], alpha, beta, gamma);
#endif
#if PASS != 3
  out[0] = blend(f->scale, v, f->keep, out[0]);
#endif
#endif
}

#include "kernels/gpu/portable/map.h"
