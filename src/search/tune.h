// Searching a solver's tune space for one problem: candidates in the order of the model, each verified and
// appended to the database at once, losers stopped early, the best few timed against each other.
// SPDX-License-Identifier: MIT
#pragma once
#include "search/benchmark.h"
#include "search/settings.h"

namespace polymio::search {

struct TuneResult {
  bool complete = true;      // the space is exhausted, or the limits on iterations or patience say so
  std::size_t measured = 0;  // candidates of this call; those of an earlier one are taken from the database
  bool wrong = false;        // a point gave a wrong result: the solver must not be used
  bool cancelled = false;    // the callback wants no more tuning
};

/// Every valid point within the workspace limit, best prediction first, but the starting point at the head.
std::vector<TunePoint> tune_points(const Request&, const Candidate& start);

/// Gives the candidate its best point and that point's time. `tuned` is set when the search is complete;
/// otherwise the next call goes on. The callback of the handle may end it.
TuneResult tune(const Request&, Verifier&, Candidate&, const void* args, const TuneLimits&, bool again);

/// Tunes every allowed solver on private random data and stores the results.
struct TuneAll {
  double budget_us = 0;  // for all solvers; 0: the environment's limit for each
  bool again = false;
};
struct TunedAll {
  std::vector<Candidate> candidates;  // best first
  bool complete = true;
  std::size_t measured = 0;
};
TunedAll tune_all(const Request&, const TuneAll&);

}  // namespace polymio::search
