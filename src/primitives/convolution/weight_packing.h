// Solvers that can keep weights in a layout of their own between calls.
// SPDX-License-Identifier: MIT
#pragma once
#include "primitives/convolution/convolution.h"

namespace polymio::convolution {

/// `pack` writes the weights to Args::packed, `bytes` of memory; `run` reads them there and not Args::w.
struct WeightPacking {
  std::size_t bytes;
  AnyInvoker pack, run;
};

/// What a Solver<Problem> also derives from if packing pays: its weights are neither read as they are nor cheap to
/// pack.
class PacksWeights {
 public:
  virtual WeightPacking build_packing(Stream&, const Problem&, const TunePoint&) const = 0;

 protected:
  ~PacksWeights() = default;
};

}  // namespace polymio::convolution
