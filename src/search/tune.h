// Searches the tune space of a solver for one problem: points in the order of their estimates, each checked, measured
// and stored at once; slow ones are stopped early, the best few are measured again in alternation.
// SPDX-License-Identifier: MIT
#pragma once
#include "search/benchmark.h"
#include "search/settings.h"

namespace polymio::search {

struct TuneResult {
  bool complete = true;      // the space, the iterations or the patience are exhausted
  std::size_t measured = 0;  // points measured by this call; earlier ones come from the database
  bool wrong = false;        // a point gave a wrong result: the solver must not be used
  bool cancelled = false;    // the callback stopped the tuning
};

/// Every valid point within the workspace limit: the starting point, then the others by estimate, fastest first.
std::vector<TunePoint> tune_points(const Request&, const Candidate& start);

/// The largest workspace of any candidate, with `tune` at any of its tune points. Bytes.
std::size_t most_workspace(const Request&, const std::vector<Candidate>&, bool tune);

/// Sets the candidate's point and time to the best ones. `tuned` is set when the search is complete; otherwise the next
/// call continues. The handle's callback may stop it.
TuneResult tune(const Request&, Verifier&, Candidate&, const void* args, const TuneLimits&, bool again);

/// Tunes every allowed solver on private random data and stores the results.
struct TuneAll {
  double budget_us = 0;  // for all solvers; 0: the environment's limit per solver
  bool again = false;
};
struct TunedAll {
  std::vector<Candidate> candidates;  // best first
  bool complete = true;
  std::size_t measured = 0;
};
TunedAll tune_all(const Request&, const TuneAll&);

}  // namespace polymio::search
