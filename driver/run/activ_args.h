// The flags of activations.
// SPDX-License-Identifier: MIT
#pragma once

#include "driver/run/tensor_args.h"

namespace polymio::driver {

inline constexpr Choice kActivationModes[] = {{"passthru", 0},  {"logistic", 1}, {"tanh", 2},  {"relu", 3},
                                              {"softrelu", 4},  {"abs", 5},      {"power", 6}, {"clippedrelu", 7},
                                              {"leakyrelu", 8}, {"elu", 9},      {"clamp", 10}};

struct ActivationArgs {
  int mode = 3;
  double alpha = 0, beta = 0, gamma = 1;

  Flags rows() {
    return {{"m", "mode", Name{&mode, kActivationModes, true}, "name or number, from 0", Part::kShape},
            {"A", "alpha", Real{&alpha}, "alpha of the function", Part::kOption},
            {"B", "beta", Real{&beta}, "beta of the function", Part::kOption},
            {"G", "gamma", Real{&gamma}, "gamma of the function", Part::kOption}};
  }
};

}  // namespace polymio::driver
