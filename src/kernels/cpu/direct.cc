// Counting the pieces of direct convolutions.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/direct.h"

namespace polymio::kernels {

std::int64_t Direct::pieces() const {
  const ConvShape& s = shape;
  if (channels_last) {
    const std::int64_t pixels = s.n * s.out[0] * s.out[1] * s.out[2];
    return s.groups * ((pixels + rows - 1) / rows);
  }
  return s.groups * s.n * s.out[0] * ((s.out[1] + rows - 1) / rows);
}

}  // namespace polymio::kernels
