// What every primitive's API does above its solvers: find, immediate mode, tuning, and the plans that runs take.
// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/handle.h"
#include "search/find.h"
#include "search/tune.h"

namespace polymio::search {

/// Forgets what was kept. While `on`, a Call that chooses or lists solvers on this thread keeps explain() of its
/// request.
void keep_explanations(bool on);
/// Those of the last problems that were kept, one a line, "" before.
const std::string& last_explanations();

/// NotImplemented, with why each solver is not allowed.
[[noreturn]] void fail_refused(const Request&);

/// What a primitive tells the runner. Its objects live as long as the process.
class Primitive {
 public:
  /// Throws BadParm, naming what is wrong.
  virtual void validate(const ProblemBase&) const = 0;
  /// Those that compute problems of this kind on such devices, and those of every kind and device.
  virtual SolverList solvers(const ProblemBase&, DeviceKind) const = 0;
  virtual SolverList all_solvers() const = 0;
  virtual std::unique_ptr<const ResultCheck> make_check(const ProblemBase&) const = 0;
  /// What runs take instead of a solver's plan, as one that also checks numbers.
  virtual Plan finish(Plan plan, const ProblemBase&) const { return plan; }
  /// Whether runs read what they write. Then online tuning is off: a wrong result could not be computed again.
  virtual bool reads_output(const ProblemBase&) const { return false; }
  /// Whether callers choose among the solvers by find: then a restriction to solvers of another direction leaves none,
  /// else all.
  virtual bool has_find() const { return true; }
  /// Number of an algorithm that callers may count on, -1: none. Where no solver has it, runs take the best other one.
  virtual int promised_algorithm() const { return -1; }

 protected:
  ~Primitive() = default;
};

/// One problem of a primitive on a handle, validated: find, immediate mode and plans.
class Call {
 public:
  /// NotInitialized while the stream is being captured, if the primitive has a find. The problem must outlive the call.
  Call(Handle&, const Primitive&, const ProblemBase&, const Constraints&);
  const Request& request() const { return request_; }

  /// Workspace that lets find in this mode consider everything it would: that of the best on a hit, else the largest of
  /// every allowed solver.
  std::size_t find_workspace(FindMode) const;

  /// Best candidate of each algorithm, fastest first: later runs that name the algorithm take them. Throws
  /// NotImplemented with reasons when nothing applies.
  std::vector<Candidate> find(FindOptions, const void* args) const;

  /// What find answers without running anything, see search::answer: neither buffers nor workspace are needed.
  std::optional<std::vector<Candidate>> answer(FindOptions, const char* reason) const;

  /// Immediate mode's list, best first; only stored results when the environment forbids predictions.
  std::vector<Candidate> solutions() const;
  /// Those of them that MIOPEN_DEBUG_FIND_ONLY_SOLVER allows. Throws when there are none.
  std::vector<Candidate> allowed_solutions() const;

  /// Solver `id` with its best known tune point; BadParm with the reason if it does not apply.
  Candidate candidate(std::uint64_t id) const;

  /// See programs_of: those of this problem's solvers on a device, which may be another one than the handle's.
  std::vector<KernelSpec> programs(const DeviceInfo&, std::string_view solver, bool all_points) const;

  /// Tunes every solver on private data. Throws when nothing applies.
  TunedAll tune(const TuneAll&) const;

  Plan plan(const Candidate&) const;
  /// Of the first of a ranking whose programs can be built: a compiler may refuse some.
  Plan plan_of_first(const std::vector<Candidate>& ranking) const;
  /// The best solver's.
  Plan plan_of_best() const;
  /// The solver `id` at this tune point; the best known one where it is empty, invalid for the problem or needs more
  /// workspace than allowed. The best solver where the tensors are less aligned than the solver needs.
  Plan plan(std::uint64_t id, const TunePoint& = {}) const;
  /// The same with what may be less workspace than the best known point needs. What GetSolutionWorkspaceSize said must
  /// be given; that may have been the default point's, before the database knew a better one with more.
  Plan plan_within(std::uint64_t id, const Constraints& limits) const;
  /// The best of an algorithm; several in turn while the handle tunes online. `enabled`: algorithms that an error text
  /// may offer instead.
  Plan plan_of_algorithm(int algorithm, unsigned enabled) const;
  /// The best solver of a primitive whose API has no find: measured on private data where MIOPEN_FIND_ENFORCE says so.
  Plan first_plan() const;

 private:
  std::vector<const SolverBase*> only() const;
  void restrict(std::vector<Candidate>&) const;
  std::vector<Candidate> listed(SolverList allowed) const;
  [[noreturn]] void fail_unsolved(const Request&) const;
  [[noreturn]] void fail_algorithm(int algorithm, unsigned enabled) const;
  Plan online_plan() const;
  Plan collect() const;

  const Primitive& primitive_;
  std::unique_ptr<const ResultCheck> check_;
  std::unique_ptr<Clock> clock_;  // of a GPU
  Request request_;
};

/// Makes plans for these problems with every solver that may serve them, their kernels compiled several at once: runs
/// while the stream is being captured take these.
struct Wanted {
  const ProblemBase* problem;
  Constraints allowed;
};
void prepare(Handle&, const Primitive&, std::span<const Wanted>);

/// The best plan that prepare() made for the algorithm, or for the solver `id` where that is not 0, and that the limits
/// of this call allow. NotInitialized, naming polymioPrepare, without one.
Plan prepared_plan(Handle&, const Primitive&, const ProblemBase&, const Constraints& allowed, const Constraints& limits,
                   int algorithm, std::uint64_t id = 0);

}  // namespace polymio::search
