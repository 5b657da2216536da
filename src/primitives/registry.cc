// Which primitives have solvers. A new one adds its list here.
// SPDX-License-Identifier: MIT
#include "core/registry.h"

#include "primitives/activation/activation.h"
#include "primitives/convolution/convolution.h"
#include "primitives/pooling/pooling.h"

namespace polymio {

std::span<const SolverList> registered_solvers() {
  static const SolverList kLists[] = {convolution::all_solvers(), activation::all_solvers(), pooling::all_solvers()};
  return kLists;
}

}  // namespace polymio
