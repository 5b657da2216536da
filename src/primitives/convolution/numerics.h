// MIOPEN_CHECK_NUMERICS: scans inputs before and outputs after a run for NaN and infinity.
// SPDX-License-Identifier: MIT
#pragma once
#include "primitives/convolution/convolution.h"

namespace polymio::convolution {

/// Runs the plan; with MIOPEN_CHECK_NUMERICS the inputs are scanned before it and the output after it.
void run_checked(Handle&, const Problem&, const Plan&, const Problem::Args&);

}  // namespace polymio::convolution
