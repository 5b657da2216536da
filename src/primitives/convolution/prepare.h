// Plans made ahead, for runs while a stream is being captured.
// SPDX-License-Identifier: MIT
#pragma once
#include "primitives/convolution/convolution.h"

namespace polymio::convolution {

/// The best plan that prepare() made for the algorithm, or for the solver `id` where that is not 0, and that the
/// limits of this call allow. NotInitialized, naming polymioPrepare, without one.
Plan prepared_plan(Handle&, const Problem&, const Constraints& allowed, const Constraints& limits, Algorithm,
                   std::uint64_t id = 0);

[[noreturn]] void fail_captured(const Problem&);

}  // namespace polymio::convolution
