// One step of Adam or a relative. Options: IN and OUT (types of the parameters and of the last output), GRADIENT (type
// of the gradient), NUM (arithmetic), MAXIMA (1: keeps the largest mean square), COPY (1: writes the parameters in
// fp16).
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/elements.h"
#include "kernels/gpu/portable/walk.h"
#include "kernels/gpu/portable/functions.h"

// Parameters, gradient, mean, mean square, its maximum; outputs without the gradient.
#if MAXIMA
#define INPUTS 5
#else
#define INPUTS 4
#endif
#if MAXIMA && COPY
#define OUTPUTS 5
#elif MAXIMA || COPY
#define OUTPUTS 4
#else
#define OUTPUTS 3
#endif
#define INPUT_TYPE(i) ((i) == 1 ? TYPE(GRADIENT) : IN_TYPE)
#define OUTPUT_TYPE(o) ((o) == OUTPUTS - 1 ? OUT_TYPE : IN_TYPE)

/// The coefficients, and how they depend on device memory. `log1` and `log2` are those of the betas.
typedef struct {
  num gradient, l2, keep_mean, add_mean, keep_square, add_square, correction, eps, size, before, after;
  num log1, log2, rate;
  int step;   // 0: size and correction are given; 1: both, 2: the size alone depends on the last step
  int scale;  // the gradient is divided by 1: an int32, 2: an fp32
  int found;  // bytes of the flag, 0 if there is none
  int skip;
} Formula;

INLINE int is_set(const int bytes, GLOBAL const u8* flag) {
  int bits = 0;
  for (int i = 0; i < bytes; ++i) bits |= flag[i];
  return bits != 0;
}

INLINE Formula formula_of(Formula f, GLOBAL const int* step, GLOBAL const int* scale, GLOBAL const u8* found) {
  if (f.step != 0) {
    const num t = (num)(step[0] + 1);
    const num of_mean = -expm1_nonpositive(t * f.log1), of_square = sqrt_of(-expm1_nonpositive(t * f.log2));
    f.size = f.rate / of_mean;
    if (f.step == 1)
      f.correction = 1 / of_square;
    else
      f.size *= of_square;
  }
  if (f.scale != 0) f.gradient /= f.scale == 1 ? (num)scale[0] : (num)FLOAT_OF_BITS((u32)scale[0]);
  f.skip = is_set(f.found, found);
  return f;
}
#define FORMULA_PARAMETERS const Formula given, GLOBAL const int *step, GLOBAL const int *scale, GLOBAL const u8 *found
#define FORMULA_VALUE const Formula f = formula_of(given, step, scale, found)

INLINE void compute(const Formula* f, const num* in, num* out) {
  num p = in[0], m = in[2], v = in[3];
#if MAXIMA
  num largest = in[4];
#endif
  if (!f->skip) {
    num g = in[1] * f->gradient;
    if (f->l2 != 0) g += p * f->l2;
    m = m * f->keep_mean + g * f->add_mean;
    v = v * f->keep_square + g * g * f->add_square;
#if MAXIMA
    largest = v > largest || v != v ? v : largest;
    const num root = sqrt_of(largest);
#else
    const num root = sqrt_of(v);
#endif
    p = (p * f->before - m * f->size / (root * f->correction + f->eps)) * f->after;
  }
#if COPY
  out[OUTPUTS - 1] = p;
#endif
  out[0] = p;
  out[1] = m;
  out[2] = v;
#if MAXIMA
  out[3] = largest;
#endif
}

#include "kernels/gpu/portable/map.h"

/// The number of the step, after the map that reads the old one.
KERNEL THREADS_PER_BLOCK(1)
    count_step(GLOBAL const int* last, GLOBAL int* next, GLOBAL const u8* found, const int bytes) {
  next[0] = last[0] + (is_set(bytes, found) ? 0 : 1);
}
