// Tune while running, for one problem: an invoker that plays candidates in real calls and settles on the
// fastest.
// SPDX-License-Identifier: MIT
#pragma once
#include <memory>

#include "search/find.h"

namespace polymio::search {

/// What a running contest needs to outlive the call that made it; the primitive provides it.
struct Subject {
  std::unique_ptr<const ProblemBase> problem;
  std::unique_ptr<const ResultCheck> check;
  SolverList solvers;
  Constraints constraints;
};

/// Plays the ranking's candidates and the most promising tune points. Outputs must not be read by the call
/// (beta 0), since a wrong result is computed again by the first candidate. Thread-safe; the handle must
/// outlive it. Stores what it learned once it settles.
AnyInvoker tune_online(Handle&, Subject, std::size_t& workspace);

}  // namespace polymio::search
