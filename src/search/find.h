// Choosing solvers: ranking by what is known, and find, which measures. Works on solver and problem bases,
// so it is the same for every primitive.
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

/// Numbers equal miopenConvolutionFindMode_t.
enum class FindMode : int { kNormal = 1, kFast = 2, kHybrid = 3, kReserved = 4, kDynamicHybrid = 5 };

/// MIOPEN_FIND_ENFORCE.
enum class Enforce : int { kNone = 1, kDbUpdate = 2, kSearch = 3, kSearchDbUpdate = 4, kDbClean = 5 };

/// The values of MIOPEN_FIND_MODE, MIOPEN_FIND_ENFORCE, read once per process; garbage is one warning and the default.
FindMode default_find_mode();
Enforce enforce();

struct Request {
  Handle& handle;
  SolverList solvers;
  const ProblemBase& problem;
  Constraints constraints;
  const ResultCheck* check = nullptr;  // without one results are not verified
  Clock* clock = &steady_clock();
};

/// Where a time comes from, the weakest first. Numbers equal polymioSource_t.
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
  bool current = false;  // a record of this solver version on these cores says so
};

/// Orders the allowed solvers without running anything, best first, the reference solver always last: by
/// stored records, else neighbours, else the learned model, else estimates. Solvers that were caught
/// giving wrong results on this family are left out.
std::vector<Candidate> rank(const Request&);

struct FindOptions {
  FindMode mode = default_find_mode();
  bool tune = false;  // exhaustiveSearch
  Enforce forced = enforce();
  double spent_us = 0;                    // of the budget, by what the caller did before
  std::vector<const SolverBase*> only{};  // empty: all
};

/// The candidates, best first. Where the mode trusts a database hit that is the best one alone, and nothing
/// runs; FAST takes a prediction on a miss. Else candidates are verified and measured on `args` (outputs are
/// overwritten), tuned if asked, and what is learned is stored.
std::vector<Candidate> find(const Request&, const FindOptions&, const void* args);

/// What `find` answers without running anything; nothing where it would have to run. With a reason to run
/// nothing at all that is the whole ranking, and the reason goes into the report.
std::optional<std::vector<Candidate>> answer(const Request&, const FindOptions&, const char* reason = nullptr);

/// Whether the mode measures the candidate on a miss: DYNAMIC_HYBRID leaves out what is not dynamic.
bool searches(FindMode, const Candidate&);

/// Whether `find` in this mode would answer from the database: every solver that the mode searches has a
/// current record, and the best of those was measured.
bool is_hit(const std::vector<Candidate>&, FindMode);

/// What the last find of this thread measured and what it skipped, with reasons; "" before the first.
const std::string& last_report();

/// The fastest of each algorithm, in order.
std::vector<Candidate> best_per_algorithm(const std::vector<Candidate>&);

/// Why a solver is left out that gave a wrong result on the problem's family.
inline constexpr const char* kQuarantined = "quarantined: it gave a wrong result on this kind of problem";

/// "name: reason; ..." for every solver that is not allowed: the text of a failed find.
std::string refusals(const Request&);

/// The solvers that would be allowed and are quarantined.
std::vector<const SolverBase*> quarantined(const Request&);

/// JSON: problem, device, source, chosen, and for every solver its verdict, times, workspace, class.
std::string explain(const Request&);

/// JSON of polymioDiagnose: database files and settings; and of the problem, if given, why it misses.
std::string diagnose(Handle&, const Request*);

}  // namespace polymio::search
