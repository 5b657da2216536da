// Online tuning of one problem: an invoker that measures candidates in the application's own calls until the fastest is
// known.
// SPDX-License-Identifier: MIT
#pragma once
#include <memory>

#include "search/find.h"

namespace polymio::search {

/// What online tuning keeps beyond the call that starts it; the primitive provides it.
struct Subject {
  std::unique_ptr<const ProblemBase> problem;
  std::unique_ptr<const ResultCheck> check;
  SolverList solvers;
  Constraints constraints;
};

/// Tries the candidates of the ranking and the tune points with the best predictions. Calls must not read their output
/// (beta 0), since a wrong result is computed again by another candidate. Thread-safe; the handle must outlive the
/// invoker. Stores the results once the fastest is known.
AnyInvoker tune_online(Handle&, Subject, std::size_t& workspace);

}  // namespace polymio::search
