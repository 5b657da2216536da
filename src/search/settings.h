// Environment variables of the search; each is read once per process.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>

#include "search/find.h"

namespace polymio::search {

/// Values of MIOPEN_FIND_MODE and MIOPEN_FIND_ENFORCE: a name in any case, or a number; else nothing.
std::optional<FindMode> parse_find_mode(const std::string&);
std::optional<Enforce> parse_enforce(const std::string&);

/// Limits of the tuning of one solver.
struct TuneLimits {
  double time_us;
  std::size_t iterations = SIZE_MAX;  // candidates
  std::size_t patience = SIZE_MAX;    // consecutive candidates without improvement
  bool strict = false;                // no run starts that may not fit the time, and none continues beyond it
};
/// Those of the environment; with `boxed`, which TRUST_VERIFY is, those that it does not set are a second and six
/// candidates of patience.
TuneLimits tune_limits(bool boxed = false);

/// The slack of a record's time that TRUST_VERIFY accepts, as a factor: MIOPEN_VERIFY_TOLERANCE_PCT.
double verify_slack();

}  // namespace polymio::search
