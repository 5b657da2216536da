// Convolution by its definition, in three directions: a thread per element of the output.
// Options: those of conv_elements.h, SUM (type of the sums), FP64 if the device has double.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/conv_args.h"
#include "kernels/gpu/portable/conv_elements.h"

// The coordinates of element i of a tensor (major, minor < second, three spatial dimensions).
#define COORDINATES(i, second, size)                                   \
  const i64 s2 = (i) % size[2], r2 = (i) / size[2], s1 = r2 % size[1]; \
  const i64 r1 = r2 / size[1], s0 = r1 % size[0], r0 = r1 / size[0];   \
  const i64 minor = r0 % (second), major = r0 / (second)

#define FIRST ((i64)BLOCK(0) * THREADS + THREAD(0))
#define STEP ((i64)BLOCKS(0) * THREADS)
#define THREADS 256

INLINE void store_result(GLOBAL STORED(OUT) * out, i64 at, SUM sum, real alpha, real beta, u64 seed) {
  real v = alpha * (real)sum;
  if (beta != 0) v += beta * (real)LOAD(OUT, out, at);
  STORE_OUT(out, at, v, seed);
}

KERNEL THREADS_PER_BLOCK(THREADS)
    reference_forward(GLOBAL const STORED(IN) * x, GLOBAL const STORED(SECOND) * w, GLOBAL STORED(OUT) * y, ConvSizes z,
                      ConvSteps t, ConvStrides e, real alpha, real beta, u64 seed) {
  const i64 group_c = z.c / z.groups, group_k = z.k / z.groups, count = z.n * z.k * z.out[0] * z.out[1] * z.out[2];
  for (i64 i = FIRST; i < count; i += STEP) {
    COORDINATES(i, z.k, z.out);
    const i64 image = major * e.x[0] + minor / group_k * group_c * e.x[1];
    const i64 filter = minor * e.w[0];
    SUM sum = 0;
    for (i64 c = 0; c < group_c; ++c)
      for (i64 a = 0; a < z.filter[0]; ++a)
        for (i64 b = 0; b < z.filter[1]; ++b)
          for (i64 d = 0; d < z.filter[2]; ++d) {
            const i64 h0 = s0 * t.stride[0] - t.pad[0] + a * t.dilation[0];
            const i64 h1 = s1 * t.stride[1] - t.pad[1] + b * t.dilation[1];
            const i64 h2 = s2 * t.stride[2] - t.pad[2] + d * t.dilation[2];
            if (h0 < 0 || h0 >= z.in[0] || h1 < 0 || h1 >= z.in[1] || h2 < 0 || h2 >= z.in[2]) continue;
            sum += (SUM)LOAD_FIRST(x, image + c * e.x[1] + h0 * e.x[2] + h1 * e.x[3] + h2 * e.x[4], seed) *
                   (SUM)LOAD_SECOND(w, filter + c * e.w[1] + a * e.w[2] + b * e.w[3] + d * e.w[4], seed);
          }
    store_result(y, major * e.y[0] + minor * e.y[1] + s0 * e.y[2] + s1 * e.y[3] + s2 * e.y[4], sum, alpha, beta, seed);
  }
}

// The output position at which tap `r` reads input position `h`, or -1.
INLINE i64 output_of(i64 h, i64 r, i64 pad, i64 stride, i64 dilation, i64 out) {
  const i64 at = h + pad - r * dilation;
  return at < 0 || at % stride != 0 || at / stride >= out ? -1 : at / stride;
}

KERNEL THREADS_PER_BLOCK(THREADS)
    reference_backward_data(GLOBAL const STORED(IN) * y, GLOBAL const STORED(SECOND) * w, GLOBAL STORED(OUT) * x,
                            ConvSizes z, ConvSteps t, ConvStrides e, real alpha, real beta, u64 seed) {
  const i64 group_c = z.c / z.groups, group_k = z.k / z.groups, count = z.n * z.c * z.in[0] * z.in[1] * z.in[2];
  for (i64 i = FIRST; i < count; i += STEP) {
    COORDINATES(i, z.c, z.in);
    const i64 first = minor / group_c * group_k;
    const i64 image = major * e.y[0] + first * e.y[1];
    const i64 filter = first * e.w[0] + minor % group_c * e.w[1];
    SUM sum = 0;
    for (i64 k = 0; k < group_k; ++k)
      for (i64 a = 0; a < z.filter[0]; ++a)
        for (i64 b = 0; b < z.filter[1]; ++b)
          for (i64 d = 0; d < z.filter[2]; ++d) {
            const i64 o0 = output_of(s0, a, t.pad[0], t.stride[0], t.dilation[0], z.out[0]);
            const i64 o1 = output_of(s1, b, t.pad[1], t.stride[1], t.dilation[1], z.out[1]);
            const i64 o2 = output_of(s2, d, t.pad[2], t.stride[2], t.dilation[2], z.out[2]);
            if (o0 < 0 || o1 < 0 || o2 < 0) continue;
            sum += (SUM)LOAD_FIRST(y, image + k * e.y[1] + o0 * e.y[2] + o1 * e.y[3] + o2 * e.y[4], seed) *
                   (SUM)LOAD_SECOND(w, filter + k * e.w[0] + a * e.w[2] + b * e.w[3] + d * e.w[4], seed);
          }
    store_result(x, major * e.x[0] + minor * e.x[1] + s0 * e.x[2] + s1 * e.x[3] + s2 * e.x[4], sum, alpha, beta, seed);
  }
}

KERNEL THREADS_PER_BLOCK(THREADS)
    reference_backward_weights(GLOBAL const STORED(IN) * x, GLOBAL const STORED(SECOND) * y, GLOBAL STORED(OUT) * w,
                               ConvSizes z, ConvSteps t, ConvStrides e, real alpha, real beta, u64 seed) {
  const i64 group_c = z.c / z.groups, group_k = z.k / z.groups,
            count = z.k * group_c * z.filter[0] * z.filter[1] * z.filter[2];
  for (i64 i = FIRST; i < count; i += STEP) {
    COORDINATES(i, group_c, z.filter);
    const i64 image = (major / group_k * group_c + minor) * e.x[1];
    const i64 gradient = major * e.y[1];
    SUM sum = 0;
    for (i64 n = 0; n < z.n; ++n)
      for (i64 a = 0; a < z.out[0]; ++a)
        for (i64 b = 0; b < z.out[1]; ++b)
          for (i64 d = 0; d < z.out[2]; ++d) {
            const i64 h0 = a * t.stride[0] - t.pad[0] + s0 * t.dilation[0];
            const i64 h1 = b * t.stride[1] - t.pad[1] + s1 * t.dilation[1];
            const i64 h2 = d * t.stride[2] - t.pad[2] + s2 * t.dilation[2];
            if (h0 < 0 || h0 >= z.in[0] || h1 < 0 || h1 >= z.in[1] || h2 < 0 || h2 >= z.in[2]) continue;
            sum += (SUM)LOAD_FIRST(x, image + n * e.x[0] + h0 * e.x[2] + h1 * e.x[3] + h2 * e.x[4], seed) *
                   (SUM)LOAD_SECOND(y, gradient + n * e.y[0] + a * e.y[2] + b * e.y[3] + d * e.y[4], seed);
          }
    store_result(w, major * e.w[0] + minor * e.w[1] + s0 * e.w[2] + s1 * e.w[3] + s2 * e.w[4], sum, alpha, beta, seed);
  }
}
