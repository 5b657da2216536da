// A contest of candidates on one problem: each is built, its result checked, then all are timed.
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

/// Stores the candidates of a problem as records of what is known now.
void store(const Request&, const std::vector<Candidate>&);
FindRecord record_of(const Request&, const Candidate&, RecordKind);

/// Whether the solver gave a wrong result for this family while the database was switched off.
bool caught(const SolverInfo&, const std::string& family);

/// Checks results, and quarantines the solvers that gave a wrong one.
class Verifier {
 public:
  enum class Data { kPrivateToo, kCallersOnly };

  /// `args` are what candidates run on; their workspaces need up to `workspace` bytes. Without private data
  /// a result that the caller's data say nothing about counts as right.
  Verifier(const Request&, const void* args, std::size_t workspace, Data data = Data::kPrivateToo);

  /// To be called before the run that is judged, and after it. False: the candidate is wrong.
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

/// One candidate's part in contests. Refers to the request, the arguments and the verifier.
class Entrant {
 public:
  Entrant(const Request&, Verifier&, Candidate, const void* args);
  const Candidate& candidate() const { return candidate_; }
  Trial contestant();
  const std::string& note() const { return note_; }  // why it is out
  bool wrong() const { return wrong_; }              // it gave a wrong result

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
