// Backward of y = a * logistic(b), where a and b are halves of a tensor: writes both halves of dx.
// Options: as activation.cl, without PASS.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/elements.h"
#include "kernels/gpu/portable/walk.h"
#include "kernels/gpu/portable/functions.h"
#include "kernels/gpu/portable/modes.h"

#define THREADS 256

/// The second halves of x and dx begin x_second and dx_second elements after the first.
KERNEL THREADS_PER_BLOCK(THREADS)
    gate_backward(GLOBAL const u8* x, GLOBAL const u8* dy, GLOBAL u8* dx, const Walk w, const Strides x_at,
                  const Strides dy_at, const Strides dx_at, const i64 x_second, const i64 dx_second) {
  const int index = BLOCK(0) * THREADS + THREAD(0), size = SIZE_OF(IN_TYPE);
  if (index >= w.count) return;
  i64 at[3];
  locate(&w, index, &x_at, &dy_at, &dx_at, at);
  const num a = decode(IN_TYPE, load_bits(x, size, at[0])), b = decode(IN_TYPE, load_bits(x, size, at[0] + x_second));
  const num g = decode(IN_TYPE, load_bits(dy, size, at[1]));
  store_bits(dx, size, at[2], encode(IN_TYPE, g * activate(LOGISTIC, b, 0, 0, 0)));
  store_bits(dx, size, at[2] + dx_second, encode(IN_TYPE, gradient(LOGISTIC, b, g * a, 0, 0, 0)));
}
