// Plans made in advance, for calls while a stream is being captured.
// SPDX-License-Identifier: MIT
#pragma once
#include "primitives/convolution/convolution.h"

namespace polymio::convolution {

/// The best plan of prepare() for the algorithm, or for the solver `id` if not 0, within the limits of this call.
/// NotInitialized, naming polymioPrepare, if there is none.
Plan prepared_plan(Handle&, const Problem&, const Constraints& allowed, const Constraints& limits, Algorithm,
                   std::uint64_t id = 0);

[[noreturn]] void fail_captured(const Problem&);

}  // namespace polymio::convolution
