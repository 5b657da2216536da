// The flags of local response normalisation.
// SPDX-License-Identifier: MIT
#pragma once

#include "driver/run/tensor_args.h"

namespace polymio::driver {

inline constexpr Choice kLrnModes[] = {{"within", 0}, {"cross", 1}};

struct LrnArgs {
  int mode = 0;
  std::int64_t n = 5, workspace = 1;
  double alpha = 0.001, beta = 0.75, k = 1;

  Flags rows() {
    return {
        {"m", "mode", Name{&mode, kLrnModes, true}, "within (a channel) or cross (channels), or 0, 1", Part::kShape},
        {"N", "lrnN", Integer{&n, 1, 1 << 30}, "elements of the window along each of its dimensions", Part::kShape},
        {"", "workspace", Integer{&workspace, 0, 1}, "1: with a workspace of scales, 0: without", Part::kShape},
        {"A", "alpha", Real{&alpha}, "alpha of the formula", Part::kOption},
        {"B", "beta", Real{&beta}, "beta of the formula", Part::kOption},
        {"K", "lrnK", Real{&k}, "k of the formula", Part::kOption}};
  }
};

}  // namespace polymio::driver
