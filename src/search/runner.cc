// SPDX-License-Identifier: MIT
#include "search/runner.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <utility>

#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "core/kernel_builder.h"
#include "core/registry.h"
#include "search/online_tuning.h"
#include "search/record.h"
#include "search/tune.h"

namespace polymio::search {
namespace {

thread_local bool keeps_explanations = false;
thread_local std::deque<std::pair<std::string, std::string>> explanations;  // by the problem's text
thread_local std::string explanation_lines;

/// `allowed`: what the environment restricts the solvers to, if anything.
void keep_explanation(Request rq, SolverList allowed = {}) {
  if (!keeps_explanations) return;
  if (!allowed.empty()) rq.solvers = allowed;
  constexpr std::size_t kMost = 16;
  std::string key = rq.problem.key();
  std::erase_if(explanations, [&](const auto& kept) { return kept.first == key; });
  explanations.emplace_back(std::move(key), explain(rq));
  if (explanations.size() > kMost) explanations.pop_front();
  explanation_lines.clear();
  for (const auto& [problem, text] : explanations)
    explanation_lines += fmt::format("{}{}", explanation_lines.empty() ? "" : "\n", text);
}

bool contains(SolverList list, const SolverBase* solver) { return std::ranges::find(list, solver) != list.end(); }

/// The least workspace that the solver can do with.
std::size_t least_workspace(const Request& rq, const Candidate& c) {
  std::size_t least = c.workspace;
  for (const TunePoint& p : valid_points(*c.solver, rq.handle.device(), rq.problem))
    least = std::min(least, c.solver->workspace_size(rq.handle.device(), rq.problem, p));
  return least;
}

/// Whether a solver serves the request with so much workspace.
bool is_served(Request rq, std::size_t workspace) {
  rq.constraints.workspace_limit = workspace;
  return !rank(rq).empty();
}

/// As the request lists it; a solver of another direction will be refused with that reason.
const SolverBase& known_solver(const Request& rq, const Primitive& primitive, std::uint64_t id) {
  if (const SolverBase* listed = solver_by_id(id, rq.solvers)) return *listed;
  const SolverBase* solver = solver_by_id(id, primitive.all_solvers());
  require(solver, "solution id {} is unknown; ask GetSolution for the valid ones", id);
  return *solver;
}

/// Whether the tensors are less aligned than the solver needs. Solutions are chosen before their addresses are known.
bool needs_alignment(const Request& rq, const Primitive& primitive, std::uint64_t id, const Constraints& limits) {
  return known_solver(rq, primitive, id).info().alignment > limits.alignment;
}

/// Solver `id` with its best known tune point; BadParm with the reason if it does not apply.
Candidate candidate_of(const Request& rq, const Primitive& primitive, std::uint64_t id) {
  const SolverBase& solver = known_solver(rq, primitive, id);
  const Verdict verdict = admit(solver, rq.handle.device(), rq.problem, rq.constraints);
  require(static_cast<bool>(verdict), "solution {} ({}) does not apply to: {}. Reason: {}", id, solver.info().name,
          rq.problem.key(), verdict.text());
  for (const auto& c : rank(rq))
    if (c.solver == &solver) return c;
  fail(Status::kBadParm, "solution {} ({}) is {}, and is not used: {}", id, solver.info().name, kQuarantined,
       rq.problem.key());
}

[[noreturn]] void fail_captured(const ProblemBase& problem) {
  fail(Status::kNotInitialized,
       "the stream is being captured and there is no plan yet: call polymioPrepare with the problem before: {}",
       problem.key());
}

/// Nothing, with a warning, where a program cannot be built.
std::optional<Plan> buildable_plan(const Call& call, const Candidate& c) {
  try {
    return call.plan(c);
  } catch (const Error& e) {
    if (e.status != Status::kInternalError) throw;
    const char* name = c.solver->info().name;
    log::warn_once(name, "{} is passed over for {}: {}", name, call.request().problem.key(), e.what());
    return std::nullopt;
  }
}

/// The best after a find on data of our own, or nothing where there is no memory for it.
std::optional<Candidate> best_on_private_data(const Request& rq) {
  try {
    const std::size_t bytes = most_workspace(rq, rank(rq), true), limit = rq.handle.workspace_limit();
    const auto own = bytes < limit ? rq.check->private_case(rq.handle, limit - bytes) : nullptr;
    if (own && own->problem().equals(rq.problem)) {
      const Memory workspace(rq.handle, bytes);
      return find(rq, {}, own->args(workspace.data(), bytes)).at(0);
    }
    log::info("not tuned: its data would exceed the workspace limit: {}", rq.problem.key());
  } catch (const Error& e) {
    if (e.status != Status::kAllocFailed) throw;
    log::info("not tuned: {}: {}", e.what(), rq.problem.key());
  }
  return std::nullopt;
}

}  // namespace

void keep_explanations(bool on) {
  keeps_explanations = on;
  explanations.clear();
  explanation_lines.clear();
}
const std::string& last_explanations() { return explanation_lines; }

void fail_refused(const Request& rq) {
  fail(Status::kNotImplemented, "no solver can do: {}. Reasons: {}", rq.problem.key(), refusals(rq));
}

Call::Call(Handle& handle, const Primitive& primitive, const ProblemBase& problem, const Constraints& allowed)
    : primitive_(primitive), request_{handle, primitive.solvers(problem, handle.device().kind), problem, allowed} {
  primitive.validate(problem);
  if (primitive.has_find() && handle.stream().capturing()) fail_captured(problem);
  check_ = primitive.make_check(problem);
  request_.check = check_.get();
  request_.constraints.workspace_limit = std::min(allowed.workspace_limit, handle.workspace_limit());
  if (handle.device().kind != DeviceKind::kCpu) {
    clock_ = device_clock(handle.stream());
    request_.clock = clock_.get();
  }
  record_problem(problem.key());
}

/// Those that MIOPEN_DEBUG_FIND_ONLY_SOLVER names by name or id; empty: all. BadParm when it names one that does not
/// exist. Solvers of other primitives are passed over, since one variable serves them all.
std::vector<const SolverBase*> Call::only() const {
  std::vector<const SolverBase*> named;
  const std::string text = env::text(env::kFindOnlySolver).value_or("");
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(';', at), text.size());
    const std::string name = text.substr(at, end - at);
    at = end + 1;
    if (name.empty()) continue;
    const SolverBase* solver = solver_by_name(name);
    if (!solver) {
      const std::string key = request_.problem.key(), command = key.substr(0, key.find(' '));
      fail(Status::kBadParm, "{}={}: there is no solver '{}'; {}docs/safety.md lists those of all primitives",
           env::kFindOnlySolver.name, text, name,
           command.starts_with("matmul")
               ? ""
               : fmt::format("MIOpenDriver {} --explain lists those of this primitive, ", command));
    }
    if (!contains(primitive_.all_solvers(), solver)) continue;
    solver = &known_solver(request_, primitive_, solver->info().id);
    if (primitive_.has_find() || contains(request_.solvers, solver)) named.push_back(solver);
  }
  return named;
}

void Call::restrict(std::vector<Candidate>& candidates) const {
  const auto allowed = only();
  if (!allowed.empty()) std::erase_if(candidates, [&](const Candidate& c) { return !contains(allowed, c.solver); });
}

/// Throws for a request nothing satisfies: BadParm when only workspace is short, else NotImplemented.
void Call::fail_unsolved(const Request& rq) const {
  Request unlimited = rq;
  unlimited.constraints.workspace_limit = SIZE_MAX;
  const auto possible = rank(unlimited);
  if (const auto text = env::text(env::kFindOnlySolver); text && !rank(rq).empty())
    fail(Status::kNotImplemented, "{}={} leaves no solver for: {}", env::kFindOnlySolver.name, *text, rq.problem.key());
  std::size_t least = SIZE_MAX;
  for (const auto& c : possible) least = std::min(least, least_workspace(rq, c));
  if (!possible.empty() && least > rq.constraints.workspace_limit)
    fail(Status::kBadParm, "not enough workspace: {} bytes were given, at least {} are needed for: {}",
         rq.constraints.workspace_limit, least, rq.problem.key());
  fail_refused(rq);
}

/// The same for a call that named its algorithm: says which ones there are.
void Call::fail_algorithm(int algorithm, unsigned enabled) const {
  Request rq = request_;
  rq.constraints.algorithms &= 1u << algorithm;
  std::string wanted = std::to_string(algorithm);
  for (const SolverBase* solver : primitive_.all_solvers())
    if (solver->info().algorithm == algorithm) wanted = solver->info().method;
  for (const SolverBase* solver : rq.solvers)
    if (solver->info().algorithm == algorithm) fail_unsolved(rq);
  rq.constraints.algorithms = enabled;
  std::string others;
  for (const auto& c : best_per_algorithm(rank(rq)))
    others += fmt::format("{}{}", others.empty() ? "" : ", ", c.solver->info().method);
  fail(Status::kNotImplemented, "no solver has the algorithm {} for: {}. Available: {}", wanted, rq.problem.key(),
       others);
}

std::size_t Call::find_workspace(FindMode mode) const {
  auto ranking = rank(request_);
  restrict(ranking);
  if (ranking.empty()) fail_unsolved(request_);
  if (enforce(request_.handle) != Enforce::kNone) mode = FindMode::kNormal;
  if (const Candidate* stored = answer_of_database(request_, ranking, mode)) return stored->workspace;
  if (mode == FindMode::kFast) return ranking[0].workspace;
  std::size_t most = 0;
  for (const auto& c : ranking) most = std::max(most, c.workspace);
  return most;
}

std::vector<Candidate> Call::find(FindOptions options, const void* args) const {
  if (request_.handle.collects())
    fail(Status::kNotImplemented, "find runs solvers, and a handle that collects problems computes nothing");
  options.only = only();
  const auto best = best_per_algorithm(search::find(request_, options, args));
  if (best.empty()) fail_unsolved(request_);
  keep_explanation(request_, options.only);
  // What was found is what the next run takes, whatever was chosen before.
  for (const auto& c : best)
    if (auto made = buildable_plan(*this, c))
      request_.handle.plans().put({&request_.problem, request_.constraints, 0, c.solver->info().algorithm},
                                  std::move(*made));
  return best;
}

std::optional<std::vector<Candidate>> Call::answer(FindOptions options, const char* reason) const {
  options.only = only();
  const auto found = search::answer(request_, options, reason);
  if (!found) return std::nullopt;
  if (found->empty()) fail_unsolved(request_);
  keep_explanation(request_, options.only);
  return best_per_algorithm(*found);
}

/// `allowed`: empty: all.
std::vector<Candidate> Call::listed(SolverList allowed) const {
  keep_explanation(request_, allowed);
  auto ranking = rank(request_);
  if (!env::flag(env::kImmediateFallback, true))
    std::erase_if(ranking, [](const Candidate& c) { return c.source != Source::kMeasured; });
  if (!allowed.empty()) std::erase_if(ranking, [&](const Candidate& c) { return !contains(allowed, c.solver); });
  return ranking;
}

std::vector<Candidate> Call::solutions() const { return listed({}); }

std::vector<Candidate> Call::allowed_solutions() const {
  auto list = listed(only());
  if (list.empty()) fail_unsolved(request_);
  return list;
}

Candidate Call::candidate(std::uint64_t id) const { return candidate_of(request_, primitive_, id); }

std::vector<KernelSpec> Call::programs(const DeviceInfo& device, std::string_view solver, bool all_points) const {
  const SolverList solvers = primitive_.solvers(request_.problem, device.kind);
  return programs_of(solvers, device, request_.problem, request_.constraints, solver, all_points);
}

TunedAll Call::tune(const TuneAll& how) const {
  auto tuned = tune_all(request_, how);
  if (tuned.candidates.empty()) fail_unsolved(request_);
  return tuned;
}

/// The workspace belongs to the call, which knows another device's needs only.
Plan Call::collect() const {
  Constraints allowed = request_.constraints;
  allowed.workspace_limit = SIZE_MAX;
  request_.handle.collect({&primitive_, request_.problem.clone(), allowed});
  return {[](Stream&, const void*) {}, request_.solvers[0]};
}

Plan Call::plan(const Candidate& c) const {
  if (request_.handle.collects()) return collect();
  Stream& stream = request_.handle.stream();
  const ProblemBase& problem = request_.problem;
  return primitive_.finish(
      {c.solver->build(stream, problem, c.point), c.solver, c.solver->workspace_size(stream.info(), problem, c.point)},
      problem);
}

Plan Call::plan_of_first(const std::vector<Candidate>& ranking) const {
  for (const Candidate& c : ranking)
    if (auto made = buildable_plan(*this, c)) return *made;
  return plan(ranking[0]);  // says what is wrong
}

Plan Call::plan_of_best() const {
  const auto ranking = rank(request_);
  if (ranking.empty()) fail_unsolved(request_);
  return plan_of_first(ranking);
}

Plan Call::plan(std::uint64_t id, const TunePoint& point) const {
  if (needs_alignment(request_, primitive_, id, request_.constraints)) return plan_of_best();
  if (!point.empty()) {
    // The point may need less workspace than the one that is best known.
    Request unlimited = request_;
    unlimited.constraints.workspace_limit = SIZE_MAX;
    Candidate c = candidate_of(unlimited, primitive_, id);
    const DeviceInfo& device = request_.handle.device();
    if (takes(*c.solver, device, request_.problem, point) &&
        c.solver->workspace_size(device, request_.problem, point) <= request_.constraints.workspace_limit) {
      c.point = point;
      return plan(c);
    }
  }
  return plan(candidate(id));
}

Plan Call::plan_within(std::uint64_t id, const Constraints& limits) const {
  const DeviceInfo& device = request_.handle.device();
  const ProblemBase& problem = request_.problem;
  if (needs_alignment(request_, primitive_, id, limits))
    return Call(request_.handle, primitive_, problem, limits).plan_of_best();
  const Candidate c = candidate(id);
  const std::size_t least =
      std::min(c.workspace, c.solver->workspace_size(device, problem, c.solver->default_point(device, problem)));
  require(least <= limits.workspace_limit, "solution {} ({}) needs {} bytes of workspace, {} were given for: {}", id,
          c.solver->info().name, least, limits.workspace_limit, problem.key());
  if (c.workspace <= limits.workspace_limit) return plan(c);
  return Call(request_.handle, primitive_, problem, limits).plan(id);
}

/// Runs candidates in real calls.
Plan Call::online_plan() const {
  const ProblemBase& problem = request_.problem;
  Subject subject{problem.clone(), primitive_.make_check(problem), request_.solvers, request_.constraints};
  const SolverBase* first = rank(request_)[0].solver;
  std::size_t workspace = 0;
  auto invoke = tune_online(request_.handle, std::move(subject), workspace);
  constexpr std::size_t kBytes = 20'000;  // with the invokers of all candidates
  return primitive_.finish({std::move(invoke), first, workspace, kBytes}, problem);
}

Plan Call::plan_of_algorithm(int algorithm, unsigned enabled) const {
  Request rq = request_;
  rq.constraints.algorithms &= 1u << algorithm;
  auto candidates = rank(rq);
  if (candidates.empty() && algorithm == primitive_.promised_algorithm() && (enabled >> algorithm & 1u) &&
      !is_served(rq, SIZE_MAX)) {
    rq.constraints.algorithms = enabled;
    candidates = rank(rq);
  }
  if (candidates.empty()) fail_algorithm(algorithm, enabled);
  if (rq.handle.tunes_while_running() && !primitive_.reads_output(rq.problem)) return online_plan();
  return plan_of_first(candidates);
}

Plan Call::first_plan() const {
  if (request_.handle.collects()) return collect();
  const auto allowed = only();
  Request rq = request_;
  if (!allowed.empty()) rq.solvers = allowed;
  keep_explanation(rq);
  if (enforce(rq.handle) != Enforce::kNone && !rq.handle.stream().capturing())
    if (const auto best = best_on_private_data(rq)) return plan(*best);
  const auto ranking = rank(rq);
  if (ranking.empty()) fail_refused(rq);
  return plan_of_first(ranking);
}

namespace {

/// Workspace and alignment of later runs are not known yet. Solver 0: the best of the algorithm.
PlanKey key_for(const Handle& handle, const ProblemBase& problem, Constraints allowed, int algorithm,
                std::uint64_t solver) {
  allowed.workspace_limit = handle.workspace_limit();
  return {&problem, allowed, solver, algorithm};
}

}  // namespace

void prepare(Handle& handle, const Primitive& primitive, std::span<const Wanted> problems) {
  Stream& stream = handle.stream();
  std::deque<Call> calls;
  std::vector<std::vector<Candidate>> rankings;
  std::vector<KernelSpec> specs;
  for (const auto& [problem, allowed] : problems) {
    const Request& rq = calls.emplace_back(handle, primitive, *problem, allowed).request();
    rankings.push_back(rank(rq));
    if (rankings.back().empty()) fail_refused(rq);
    for (const auto& c : rankings.back())
      std::ranges::move(c.solver->kernel_specs(stream.info(), *problem, c.point), std::back_inserter(specs));
  }
  try {
    if (!specs.empty()) build_kernels(stream, specs);
  } catch (const Error& e) {  // below, the plan whose program it is says why
    if (e.status != Status::kInternalError) throw;
  }
  for (std::size_t i = 0; i < problems.size(); ++i) {
    const auto& [problem, allowed] = problems[i];
    unsigned seen = 0;
    std::optional<Plan> best;
    for (const auto& c : rankings[i]) {
      const SolverInfo info = c.solver->info();
      const auto plan = buildable_plan(calls[i], c);
      if (!plan) continue;
      if (!best) best = plan;
      handle.plans().put(key_for(handle, *problem, allowed, info.algorithm, info.id), *plan);
      const unsigned bit = 1u << info.algorithm;
      if (!(seen & bit)) handle.plans().put(key_for(handle, *problem, allowed, info.algorithm, 0), *plan);
      seen |= bit;
    }
    if (!best) best = calls[i].plan(rankings[i][0]);  // says what is wrong
    const int promised = primitive.promised_algorithm();
    if (promised < 0 || (seen >> promised & 1u) || !(allowed.algorithms >> promised & 1u)) continue;
    handle.plans().put(key_for(handle, *problem, allowed, promised, 0), *best);
  }
}

Plan prepared_plan(Handle& handle, const Primitive& primitive, const ProblemBase& problem, const Constraints& allowed,
                   const Constraints& limits, int algorithm, std::uint64_t id) {
  const auto fits = [&](const Plan& plan) {
    return plan.workspace <= limits.workspace_limit && admit(*plan.solver, handle.device(), problem, limits);
  };
  const auto find = [&](std::uint64_t solver) {
    auto plan = handle.plans().peek(key_for(handle, problem, allowed, algorithm, solver));
    return plan && fits(*plan) ? plan : nullptr;
  };
  if (const auto plan = find(id)) return *plan;
  if (id == 0)
    for (const SolverBase* s : primitive.solvers(problem, handle.device().kind))
      if (s->info().algorithm == algorithm)
        if (const auto plan = find(s->info().id)) return *plan;
  fail_captured(problem);
}

}  // namespace polymio::search
