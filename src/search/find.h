// Choosing solvers: ranking by stored records and estimates, and find, which measures.
// Works on solver and problem bases, so it is the same for every primitive.
// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <vector>

#include "core/handle.h"
#include "core/solver.h"

namespace polymio::search {

struct Request {
  Handle& handle;
  SolverList solvers;
  const ProblemBase& problem;
  Constraints constraints;
};

enum class Source { kDatabase, kMeasured, kEstimate };
const char* name_of(Source);

struct Candidate {
  const SolverBase* solver;
  TunePoint point;
  double us;              // time, measured or predicted
  std::size_t workspace;  // bytes
  bool measured;          // else `us` is an estimate
};

struct Ranking {
  std::vector<Candidate> candidates;  // allowed solvers, best first; the reference solver always last
  Source source = Source::kEstimate;  // kDatabase: every allowed solver has a current record
};

/// Orders the allowed solvers without running anything.
Ranking rank(const Request&);

/// Like rank, but on a database miss runs the candidates on `args` (outputs are overwritten), and
/// stores what it learns. The reference solver is predicted, not run, where another applies.
Ranking find(const Request&, const void* args);

/// The fastest of each algorithm, in order.
std::vector<Candidate> best_per_algorithm(const std::vector<Candidate>&);

/// "name: reason; ..." for every solver that is not allowed: the text of a failed find.
std::string refusals(const Request&);

/// JSON: problem, device, source, chosen, and for every solver its verdict, times, workspace, class.
std::string explain(const Request&);

}  // namespace polymio::search
