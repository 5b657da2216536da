// The flags of dropout.
// SPDX-License-Identifier: MIT
#pragma once

#include "driver/run/tensor_args.h"

namespace polymio::driver {

struct DropoutArgs {
  double rate = 0.5;
  std::int64_t seed_low = 0, seed_high = 0, use_mask = 0, state_evo = 0, reserve = 1;

  std::uint64_t seed() const {
    return static_cast<std::uint64_t>(seed_high) << 32 | static_cast<std::uint64_t>(seed_low);
  }

  Flags rows() {
    constexpr std::int64_t kMost = (std::int64_t{1} << 32) - 1;
    return {
        {"p", "dropout", Real{&rate}, "the rate: the probability that an element is dropped", Part::kOption},
        {"L", "seed_low", Integer{&seed_low, 0, kMost}, "the low 32 bits of the seed", Part::kOption},
        {"M", "seed_high", Integer{&seed_high, 0, kMost}, "the high 32 bits of the seed", Part::kOption},
        {"m", "use_mask", Integer{&use_mask, 0, 1}, "1: forward reads the mask of the reserve space", Part::kOption},
        {"", "state_evo", Integer{&state_evo, 0, 1}, "1: forward moves the states on", Part::kOption},
        {"", "reserve", Integer{&reserve, 0, 1}, "0: no reserve space; backward draws the mask again", Part::kOption}};
  }
};

}  // namespace polymio::driver
