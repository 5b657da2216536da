// c = f(a, b) + beta * c for elements of tensors of any strides, and copies. -DIN is the type of a and b, -DOUT that of
// c; -DNUM is what is computed with.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable.h"
#include "kernels/gpu/elements.h"
#include "kernels/gpu/walk.h"
#include "kernels/gpu/formula.h"
#include "kernels/gpu/visit.h"
