// What the convolution API does, above the solvers: find, run, immediate mode.
// SPDX-License-Identifier: MIT
#include "primitives/convolution/convolution.h"

#include <algorithm>

#include "base/env.h"
#include "base/error.h"

namespace polymio::convolution {
namespace {

/// Throws for a request nothing satisfies: BadParm when only workspace is short, else NotImplemented.
[[noreturn]] void fail_unsolved(const search::Request& rq) {
  search::Request unlimited = rq;
  unlimited.constraints.workspace_limit = SIZE_MAX;
  const auto possible = search::rank(unlimited).candidates;
  std::size_t least = SIZE_MAX;
  for (const auto& c : possible) least = std::min(least, c.workspace);
  if (!possible.empty() && least > rq.constraints.workspace_limit)
    fail(Status::kBadParm, "not enough workspace: {} bytes were given, at least {} are needed for: {}",
         rq.constraints.workspace_limit, least, rq.problem.key());
  fail(Status::kNotImplemented, "no solver can do: {}. Reasons: {}", rq.problem.key(), search::refusals(rq));
}

/// The same for a call that named its algorithm: says which ones there are.
[[noreturn]] void fail_algorithm(search::Request rq, Algorithm wanted, unsigned enabled) {
  for (const SolverBase* solver : rq.solvers)
    if (solver->info().algorithm == wanted) fail_unsolved(rq);
  rq.constraints.algorithms = enabled;
  std::string others;
  for (const auto& c : search::best_per_algorithm(search::rank(rq).candidates))
    others += fmt::format("{}{}", others.empty() ? "" : ", ", name_of(c.solver->info().algorithm));
  fail(Status::kNotImplemented, "no solver has the algorithm {} for: {}. Available: {}", name_of(wanted),
       rq.problem.key(), others);
}

Plan build(const search::Request& rq, const SolverBase& solver, const TunePoint& point) {
  Stream& stream = rq.handle.stream();
  return {solver.build(stream, rq.problem, point), &solver, solver.workspace_size(stream.info(), rq.problem, point)};
}

const SolverBase& known_solver(std::uint64_t id) {
  const SolverBase* solver = solver_by_id(id);
  require(solver, "solution id {} is unknown; ask GetSolution for the valid ones", id);
  return *solver;
}

/// Solver `id` with its best known tune point; BadParm with the reason if it does not apply.
search::Candidate candidate_by_id(const search::Request& rq, std::uint64_t id) {
  const SolverBase& solver = known_solver(id);
  const Verdict verdict = admit(solver, rq.handle.device(), rq.problem, rq.constraints);
  require(static_cast<bool>(verdict), "solution {} ({}) does not apply to: {}. Reason: {}", id, solver.info().name,
          rq.problem.key(), verdict.text());
  for (const auto& c : search::rank(rq).candidates)
    if (c.solver == &solver) return c;
  fail(Status::kInternalError, "{} was admitted but not ranked", solver.info().name);
}

Plan build_by_id(const search::Request& rq, std::uint64_t id) {
  const auto c = candidate_by_id(rq, id);
  return build(rq, *c.solver, c.point);
}

int alignment(std::initializer_list<const void*> pointers) {
  std::uintptr_t bits = 16;
  for (const void* p : pointers) bits |= reinterpret_cast<std::uintptr_t>(p);
  return 1 << __builtin_ctzll(bits);
}

Constraints for_call(Constraints allowed, const Problem::Args& args) {
  allowed.workspace_limit = args.workspace ? args.workspace_bytes : 0;
  allowed.alignment = alignment({args.x, args.w, args.y});
  return allowed;
}

}  // namespace

unsigned enabled_algorithms() {
  unsigned mask = 0;
  const auto add = [&](Algorithm a, const env::Variable& v) {
    if (env::flag(v, true)) mask |= 1u << static_cast<int>(a);
  };
  add(Algorithm::kGemm, env::kConvGemm);
  add(Algorithm::kDirect, env::kConvDirect);
  add(Algorithm::kFft, env::kConvFft);
  add(Algorithm::kWinograd, env::kConvWinograd);
  add(Algorithm::kImplicitGemm, env::kConvImplicitGemm);
  return mask;
}

search::Request request(Handle& handle, const Problem& problem, const Constraints& allowed) {
  validate(problem);
  return {handle, solvers(problem.direction), problem, allowed};
}

std::size_t find_workspace(Handle& handle, const Problem& problem, const Constraints& allowed) {
  const auto rq = request(handle, problem, allowed);
  auto ranking = search::rank(rq);
  if (ranking.candidates.empty()) fail_unsolved(rq);
  if (ranking.source == search::Source::kDatabase) ranking.candidates = search::best_per_algorithm(ranking.candidates);
  std::size_t most = 0;
  for (const auto& c : ranking.candidates) most = std::max(most, c.workspace);
  return most;
}

std::vector<search::Candidate> find(Handle& handle, const Problem& problem, const Constraints& allowed,
                                    const Problem::Args& args, bool) {
  const auto rq = request(handle, problem, for_call(allowed, args));
  const auto best = search::best_per_algorithm(search::find(rq, &args).candidates);
  if (best.empty()) fail_unsolved(rq);
  // What was found is what the next run takes, whatever was chosen before.
  for (const auto& c : best)
    handle.plans().put({&problem, rq.constraints, 0, static_cast<int>(c.solver->info().algorithm)},
                       build(rq, *c.solver, c.point));
  return best;
}

// A plan that exists has the very problem asked for, so a warm call skips validation.
void run(Handle& handle, const Problem& problem, const Constraints& allowed, const Problem::Args& args,
         Algorithm algorithm) {
  const Constraints limits = for_call(allowed, args);
  const auto plan = handle.plans().get({&problem, limits, 0, static_cast<int>(algorithm)}, [&] {
    search::Request rq = request(handle, problem, limits);
    rq.constraints.algorithms &= 1u << static_cast<int>(algorithm);
    const auto candidates = search::rank(rq).candidates;
    if (candidates.empty()) fail_algorithm(rq, algorithm, allowed.algorithms);
    return build(rq, *candidates[0].solver, candidates[0].point);
  });
  handle.run(*plan, &args);
}

void run(Handle& handle, const Problem& problem, const Constraints& allowed, const Problem::Args& args,
         std::uint64_t id) {
  const Constraints limits = for_call(allowed, args);
  const auto plan =
      handle.plans().get({&problem, limits, id}, [&] { return build_by_id(request(handle, problem, limits), id); });
  handle.run(*plan, &args);
}

void prepare(Handle& handle, const Problem& problem, const Constraints& allowed, std::uint64_t id) {
  const auto rq = request(handle, problem, allowed);
  // The caller will run with exactly the workspace the solver asks for.
  auto plan = build_by_id(rq, id);
  Constraints exact = allowed;
  exact.workspace_limit = plan.workspace;
  handle.plans().put({&problem, exact, id}, std::move(plan));
}

std::size_t solution_workspace(Handle& handle, const Problem& problem, const Constraints& allowed, std::uint64_t id) {
  return candidate_by_id(request(handle, problem, allowed), id).workspace;
}

}  // namespace polymio::convolution
