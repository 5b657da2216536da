// MIOPEN_CHECK_NUMERICS: scans inputs before and outputs after a run for NaN and infinity.
// SPDX-License-Identifier: MIT
#pragma once
#include "primitives/convolution/convolution.h"

namespace polymio::convolution {

/// The plan as runs take it: with MIOPEN_CHECK_NUMERICS it also scans the inputs before and the output after the
/// solver.
polymio::Plan check_numerics(polymio::Plan, const Problem&);

}  // namespace polymio::convolution
