// SPDX-License-Identifier: MIT
#include "primitives/convolution/prepare.h"

#include <algorithm>
#include <deque>

#include "base/error.h"
#include "core/kernel_builder.h"
#include "primitives/convolution/fused.h"

namespace polymio::convolution {
namespace {

/// Solver 0: the best of the algorithm. The key has the handle's workspace limit, since that of later calls is unknown.
PlanKey key_for(const Handle& handle, const Problem& problem, Constraints allowed, Algorithm algorithm,
                std::uint64_t solver) {
  allowed.workspace_limit = handle.workspace_limit();
  return {&problem, allowed, solver, static_cast<int>(algorithm)};
}

/// The ranking, with the reference solver only if its algorithm has no other one.
std::vector<search::Candidate> worth(const search::Request& rq) {
  auto ranking = search::rank(rq);
  unsigned served = 0;
  const auto bit = [](const search::Candidate& c) { return 1u << static_cast<int>(c.solver->info().algorithm); };
  for (const auto& c : ranking)
    if (!c.solver->info().reference) served |= bit(c);
  std::erase_if(ranking, [&](const auto& c) { return c.solver->info().reference && (served & bit(c)); });
  if (ranking.empty())
    fail(Status::kNotImplemented, "no solver can do: {}. Reasons: {}", rq.problem.key(), search::refusals(rq));
  return ranking;
}

}  // namespace

void fail_captured(const Problem& problem) {
  fail(Status::kNotInitialized,
       "the stream is being captured and there is no plan yet: call polymioPrepare with the problem before: {}",
       problem.key());
}

void prepare(Handle& handle, std::span<const Wanted> problems) {
  Stream& stream = handle.stream();
  std::vector<std::vector<search::Candidate>> rankings;
  std::vector<KernelSpec> specs;
  for (const auto& [problem, allowed] : problems) {
    rankings.push_back(worth(Call(handle, problem, allowed).request()));
    for (const auto& c : rankings.back())
      std::ranges::move(c.solver->kernel_specs(stream.info(), problem, c.point), std::back_inserter(specs));
  }
  const auto together = specs.empty() ? Kernels() : build_kernels(stream, specs);
  for (std::size_t i = 0; i < problems.size(); ++i) {
    const auto& [problem, allowed] = problems[i];
    unsigned seen = 0;
    for (const auto& c : rankings[i]) {
      const SolverInfo info = c.solver->info();
      const Plan plan{c.solver->build(stream, problem, c.point), c.solver, c.workspace};
      handle.plans().put(key_for(handle, problem, allowed, info.algorithm, info.id), plan);
      const unsigned bit = 1u << static_cast<int>(info.algorithm);
      if (!(seen & bit)) handle.plans().put(key_for(handle, problem, allowed, info.algorithm, 0), plan);
      seen |= bit;
    }
  }
}

Plan prepared_plan(Handle& handle, const Problem& problem, const Constraints& allowed, const Constraints& limits,
                   Algorithm algorithm, std::uint64_t id) {
  const auto fits = [&](const Plan& plan) {
    return plan.workspace <= limits.workspace_limit && admit(*plan.solver, handle.device(), problem, limits);
  };
  const auto find = [&](std::uint64_t solver) {
    auto plan = handle.plans().peek(key_for(handle, problem, allowed, algorithm, solver));
    return plan && fits(*plan) ? plan : nullptr;
  };
  if (const auto plan = find(id)) return *plan;
  if (id == 0)
    for (const SolverBase* s : solvers(problem, handle.device().kind))
      if (s->info().algorithm == algorithm)
        if (const auto plan = find(s->info().id)) return *plan;
  fail_captured(problem);
}

}  // namespace polymio::convolution
