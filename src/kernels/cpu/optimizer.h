// The kernel of Adam and its relatives: fp32, fp64; fp16 and bf16 are computed in fp32.
// SPDX-License-Identifier: MIT
#pragma once
#include "base/dtype.h"
#include "kernels/cpu/skeletons.h"

namespace polymio::kernels {

/// One step: g = gradient * g + l2 * p; m = keep_mean * m + add_mean * g; v = keep_square * v + add_square * g^2;
/// p = (before * p - size * m / (correction * sqrt(v) + eps)) * after, with the largest v so far if that is kept.
struct AdamStep {
  double gradient, l2, keep_mean, add_mean, keep_square, add_square, correction, eps, size, before, after;
  bool skip;  // outputs are inputs
};

/// Operands of the kernel: p, g, m, v and, with `keeps_max`, the largest v; outputs p, m, v, the largest v, and with
/// `copies` p in fp16. All but g are of the type of p.
struct AdamTypes {
  DataType parameter, gradient;
  bool keeps_max, copies;
};
using AdamKernel = void (*)(const AdamStep&, const Run&);

struct OptimizerKernels {
  static constexpr bool kHasDotProducts = false;
  /// Null if there is none for the types.
  AdamKernel (*adam)(const AdamTypes&);
};

}  // namespace polymio::kernels
