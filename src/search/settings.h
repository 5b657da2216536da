// What the environment says about searching; each variable is read once per process.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>

#include "search/find.h"

namespace polymio::search {

/// MIOPEN_FIND_MODE, MIOPEN_FIND_ENFORCE: a name in any case, or a number. Nothing when it is neither.
std::optional<FindMode> parse_find_mode(const std::string&);
std::optional<Enforce> parse_enforce(const std::string&);

/// When the tuning of one solver ends before its space is exhausted.
struct TuneLimits {
  double time_us;
  std::size_t iterations = SIZE_MAX;  // candidates
  std::size_t patience = SIZE_MAX;    // candidates in a row that are no better
  bool strict = false;                // nothing starts that may not fit the time, nor runs beyond it
};
TuneLimits tune_limits();

}  // namespace polymio::search
