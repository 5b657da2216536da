// Measuring the candidates of one problem: each is built and its result checked, then all are timed.
// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "db/find_db.h"
#include "search/find.h"
#include "search/measure.h"

namespace polymio::search {

/// Fastest first; equal times keep their order; the reference solver comes last.
void sort(std::vector<Candidate>&);

/// Stores the candidates of a problem as records: measured, tuned or predicted times.
void store(const Request&, const std::vector<Candidate>&);
FindRecord record_of(const Request&, const Candidate&, RecordKind);

/// Whether this process found a wrong result of the solver for this family while the database was switched off.
bool gave_wrong_result(const SolverInfo&, const std::string& family);

/// Checks results and quarantines solvers with a wrong one.
class Verifier {
 public:
  enum class Data { kPrivateToo, kCallersOnly };

  /// `args`: the arguments of the measured runs; `workspace`: the largest workspace of a candidate, in bytes. With
  /// kCallersOnly an inconclusive check of the caller's data counts as right.
  Verifier(const Request&, const void* args, std::size_t workspace, Data data = Data::kPrivateToo);

  /// Call one before and one after the checked run. accept() is false if the candidate's result is wrong.
  void before();
  bool accept(const Candidate&);

 private:
  CheckResult check_private(const Candidate&, std::string& text);
  void quarantine(const Candidate&, const ProblemBase&, const std::string& text);

  const Request& rq_;
  const void* args_;
  std::size_t workspace_;
  Data data_;
  std::unique_ptr<ResultCheck::PrivateCase> case_;
  bool case_tried_ = false;
};

/// A candidate that is measured: builds, checks and runs it. Refers to the request, the arguments and the verifier.
class MeasuredCandidate {
 public:
  MeasuredCandidate(const Request&, Verifier&, Candidate, const void* args);
  const Candidate& candidate() const { return candidate_; }
  Trial trial();
  const std::string& note() const { return note_; }  // why it was excluded
  bool wrong() const { return wrong_; }              // its result was wrong

 private:
  Run start(double most_us, double& warm_us);
  Run run(double most_us);

  const Request& rq_;
  Verifier& verifier_;
  Candidate candidate_;
  const void* args_;
  AnyInvoker invoker_;
  std::string note_;
  bool wrong_ = false;
};

}  // namespace polymio::search
