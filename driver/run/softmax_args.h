// The flags of softmax.
// SPDX-License-Identifier: MIT
#pragma once

#include "driver/run/tensor_args.h"

namespace polymio::driver {

inline constexpr Choice kSoftmaxAlgorithms[] = {{"fast", 0}, {"accurate", 1}, {"log", 2}};
inline constexpr Choice kSoftmaxModes[] = {{"instance", 0}, {"channel", 1}};

struct SoftmaxArgs {
  int algorithm = 1, mode = 1;

  Flags rows(TensorArgs& tensors) {
    return {{"a", "algorithm", Name{&algorithm, kSoftmaxAlgorithms, true}, "name or number, from 0", Part::kShape},
            {"m", "mode", Name{&mode, kSoftmaxModes, true}, "name or number, from 0", Part::kShape},
            {"A", "alpha", Real{&tensors.scale}, "result = alpha * f + beta * result", Part::kOption},
            {"B", "beta", Real{&tensors.keep}, "see --alpha", Part::kOption}};
  }
};

}  // namespace polymio::driver
