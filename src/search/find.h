// Choosing solvers: rank() orders them without running anything, find() measures. Uses solver and problem base classes
// only, so that every primitive shares it.
// SPDX-License-Identifier: MIT
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/handle.h"
#include "core/solver.h"
#include "search/result_check.h"
#include "search/measure.h"

namespace polymio::search {

/// Numbers equal the find modes of the C API.
enum class FindMode : int {
  kNormal = 1,
  kFast = 2,
  kHybrid = 3,
  kReserved = 4,
  kDynamicHybrid = 5,
  kTrustVerify = 6,
  kTrustVerifyFull = 7,
};
constexpr bool trusts(FindMode mode) { return mode == FindMode::kTrustVerify || mode == FindMode::kTrustVerifyFull; }

/// MIOPEN_FIND_MODE, read once per process; an invalid value gives a warning and the default.
FindMode default_find_mode();

/// The handle's tuning policy, else MIOPEN_FIND_ENFORCE, read in the same way; kNone while the debug flag disables
/// both.
Enforce enforce(const Handle&);

struct Request {
  Handle& handle;
  SolverList solvers;
  const ProblemBase& problem;
  Constraints constraints;
  const ResultCheck* check = nullptr;  // without one results are not verified
  Clock* clock = &steady_clock();
};

/// Where a time comes from, the least reliable first. Numbers equal polymioSource_t.
enum class Source : int {
  kEstimate = 0,   // the solver's roofline model
  kModel = 1,      // the learned model
  kNeighbour = 2,  // measured on a similar problem, on other cores, or by another version of the solver
  kMeasured = 3,   // measured on this problem, now or stored
};
const char* name_of(Source);

struct Candidate {
  const SolverBase* solver;
  TunePoint point;
  double us;              // time, measured or predicted
  std::size_t workspace;  // bytes
  Source source;
  bool tuned = false;    // `point` is the result of a completed search
  bool current = false;  // the time is that of a record of this solver version on these cores
};

/// Orders the allowed solvers without running anything, best first, the reference solver last: by stored records, else
/// records of neighbouring problems, else the learned model, else estimates. Quarantined solvers are left out.
std::vector<Candidate> rank(const Request&);

struct FindOptions {
  FindMode mode = default_find_mode();
  bool tune = false;                      // exhaustiveSearch
  std::optional<Enforce> forced{};        // none: enforce() of the handle
  double spent_us = 0;                    // part of the budget that the caller has used already
  std::vector<const SolverBase*> only{};  // empty: all
};

/// The candidates, best first. On a database hit that the mode accepts: only the best one, nothing runs; FAST returns a
/// prediction on a miss. Otherwise candidates are checked and measured on `args` (outputs are overwritten), tuned if
/// requested, and the results are stored.
std::vector<Candidate> find(const Request&, const FindOptions&, const void* args);

/// The result of `find` where it needs no run, else nothing. With a `reason` never to run: the whole ranking, and the
/// reason goes into the report.
std::optional<std::vector<Candidate>> answer(const Request&, const FindOptions&, const char* reason = nullptr);

/// Whether the mode measures the candidate on a miss: DYNAMIC_HYBRID and TRUST_VERIFY skip solvers that are not
/// dynamic.
bool searches(FindMode, const Candidate&);

/// Whether every solver that the mode searches has a current record, and the best of those was measured.
bool is_hit(const std::vector<Candidate>&, FindMode);

/// The candidate whose record answers a find in this mode without a run, or null: the best one of a hit. TRUST_VERIFY
/// takes the user's own records only, and needs one, since it stores one only after a verification or a search.
const Candidate* answer_of_database(const Request&, const std::vector<Candidate>&, FindMode);

/// What the last find of this thread measured and what it skipped, with reasons; "" before the first.
const std::string& last_report();

/// The fastest candidate of each algorithm, in the given order.
std::vector<Candidate> best_per_algorithm(const std::vector<Candidate>&);

/// The reason for leaving out a quarantined solver.
inline constexpr const char* kQuarantined = "quarantined: it gave a wrong result on this kind of problem";

/// "name: reason; ..." for every solver that is not allowed: the text of a failed find.
std::string refusals(const Request&);

/// The quarantined solvers that the constraints would allow.
std::vector<const SolverBase*> quarantined(const Request&);

/// JSON: problem, device, source, chosen, and for every solver its verdict, times, workspace, class.
std::string explain(const Request&);

/// JSON of polymioDiagnose: database files and settings; with a request also why its problem misses the database.
std::string diagnose(Handle&, const Request*);

}  // namespace polymio::search
