// Which primitives have solvers. A new one adds its list here.
// SPDX-License-Identifier: MIT
#include "core/registry.h"

#include "primitives/activation/activation.h"
#include "primitives/batch_norm/batch_norm.h"
#include "primitives/convolution/convolution.h"
#include "primitives/kthvalue/kthvalue.h"
#include "primitives/lrn/lrn.h"
#include "primitives/matmul/matmul.h"
#include "primitives/mha/mha.h"
#include "primitives/norm/norm.h"
#include "primitives/pooling/pooling.h"
#include "primitives/reduce/reduce.h"
#include "primitives/softmax/softmax.h"

namespace polymio {

std::span<const SolverList> registered_solvers() {
  static const SolverList kLists[] = {convolution::all_solvers(), activation::all_solvers(), batch_norm::all_solvers(),
                                      lrn::all_solvers(),         matmul::all_solvers(),     norm::all_solvers(),
                                      pooling::all_solvers(),     softmax::all_solvers(),    mha::all_solvers(),
                                      reduce::all_solvers(),      kthvalue::all_solvers()};
  return kLists;
}

}  // namespace polymio
