// Find, run and immediate mode of convolution, on top of the solvers.
// SPDX-License-Identifier: MIT
#include "primitives/convolution/convolution.h"

#include <algorithm>
#include <array>
#include <type_traits>

#include "base/env.h"
#include "base/error.h"
#include "core/aligned_buffer.h"
#include "primitives/convolution/fused.h"
#include "primitives/convolution/numerics.h"
#include "primitives/convolution/prepare.h"
#include "search/record.h"
#include "search/online_tuning.h"
#include "search/tune.h"

namespace polymio::convolution {
namespace {

/// The least workspace of the solver over all tune points, in bytes.
std::size_t least_workspace(const search::Request& rq, const search::Candidate& c) {
  std::size_t least = c.workspace;
  for (const TunePoint& p : valid_points(*c.solver, rq.handle.device(), rq.problem))
    least = std::min(least, c.solver->workspace_size(rq.handle.device(), rq.problem, p));
  return least;
}

/// Throws for a request without a solver: BadParm if only workspace is missing, else NotImplemented.
[[noreturn]] void fail_unsolved(const search::Request& rq) {
  search::Request unlimited = rq;
  unlimited.constraints.workspace_limit = SIZE_MAX;
  const auto possible = search::rank(unlimited);
  if (const auto only = env::text(env::kFindOnlySolver); only && !search::rank(rq).empty())
    fail(Status::kNotImplemented, "{}={} leaves no solver for: {}", env::kFindOnlySolver.name, *only, rq.problem.key());
  std::size_t least = SIZE_MAX;
  for (const auto& c : possible) least = std::min(least, least_workspace(rq, c));
  if (!possible.empty() && least > rq.constraints.workspace_limit)
    fail(Status::kBadParm, "not enough workspace: {} bytes were given, at least {} are needed for: {}",
         rq.constraints.workspace_limit, least, rq.problem.key());
  fail(Status::kNotImplemented, "no solver can do: {}. Reasons: {}", rq.problem.key(), search::refusals(rq));
}

/// The same for a call that requests an algorithm: the text lists the available ones.
[[noreturn]] void fail_algorithm(search::Request rq, Algorithm wanted, unsigned enabled) {
  for (const SolverBase* solver : rq.solvers)
    if (solver->info().algorithm == wanted) fail_unsolved(rq);
  rq.constraints.algorithms = enabled;
  std::string others;
  for (const auto& c : search::best_per_algorithm(search::rank(rq)))
    others += fmt::format("{}{}", others.empty() ? "" : ", ", name_of(c.solver->info().algorithm));
  fail(Status::kNotImplemented, "no solver has the algorithm {} for: {}. Available: {}", name_of(wanted),
       rq.problem.key(), others);
}

Plan build(const search::Request& rq, const SolverBase& solver, const TunePoint& point) {
  Stream& stream = rq.handle.stream();
  return {solver.build(stream, rq.problem, point), &solver, solver.workspace_size(stream.info(), rq.problem, point)};
}

/// The solver `id` of the request's list, or one of another direction, which is refused later with that reason.
const SolverBase& known_solver(const search::Request& rq, std::uint64_t id) {
  for (const SolverBase* s : rq.solvers)
    if (s->info().id == id) return *s;
  const SolverBase* solver = solver_by_id(id);
  require(solver, "solution id {} is unknown; ask GetSolution for the valid ones", id);
  return *solver;
}

/// Solver `id` with its best known tune point; BadParm with the reason if it does not apply.
search::Candidate candidate_by_id(const search::Request& rq, std::uint64_t id) {
  const SolverBase& solver = known_solver(rq, id);
  const Verdict verdict = admit(solver, rq.handle.device(), rq.problem, rq.constraints);
  require(static_cast<bool>(verdict), "solution {} ({}) does not apply to: {}. Reason: {}", id, solver.info().name,
          rq.problem.key(), verdict.text());
  for (const auto& c : search::rank(rq))
    if (c.solver == &solver) return c;
  fail(Status::kBadParm, "solution {} ({}) is {}, and is not used: {}", id, solver.info().name, search::kQuarantined,
       rq.problem.key());
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

Constraints for_call(const Handle& handle, Constraints allowed, const Problem::Args& args) {
  allowed.workspace_limit = std::min(args.workspace ? args.workspace_bytes : 0, handle.workspace_limit());
  allowed.alignment = alignment({args.x, args.w, args.y});
  return allowed;
}

/// BadParm for pointers that the device cannot use. Too slow for warm calls.
void check_memory(const Handle& handle, const Problem::Args& args) {
  const Stream& stream = handle.stream();
  stream.check_memory(args.x, "the buffer of x");
  stream.check_memory(args.w, "the buffer of w");
  stream.check_memory(args.y, "the buffer of y");
  if (args.workspace) stream.check_memory(args.workspace, "the workspace");
}

bool has_aligned_elements(const Problem& p, const Problem::Args& a) {
  constexpr std::uintptr_t kWidest = sizeof(double);  // the largest element that solvers keep in workspace
  return is_element_aligned(a.x, p.x.type) && is_element_aligned(a.w, p.w.type) && is_element_aligned(a.y, p.y.type) &&
         is_element_aligned(a.bias, p.y.type) && reinterpret_cast<std::uintptr_t>(a.workspace) % kWidest == 0;
}

/// Calls `use` with arguments whose elements are aligned, copies where needed. Slow, but rare: files mapped at odd
/// offsets, for instance.
template <class Use>
auto on_aligned(Handle& handle, const Problem& p, Problem::Args args, const Use& use) {
  validate(p);  // before copies read buffers by their sizes
  const DeviceInfo& device = handle.device();
  const TensorDesc channels = make_tensor(p.y.type, std::array{p.k()}, {});
  const AlignedBuffer x(device, p.x, args.x, "the buffer of x"), w(device, p.w, args.w, "the buffer of w"),
      y(device, p.y, args.y, "the buffer of y"), bias(device, channels, args.bias, "the bias");
  const Memory workspace(handle, args.workspace ? args.workspace_bytes : 0);
  args.x = x.data();
  args.w = w.data();
  args.y = y.data();
  args.bias = bias.data();
  args.workspace = workspace.data();
  const auto finish = [&] {
    (p.direction == Direction::kForward ? y : p.direction == Direction::kBackwardData ? x : w).write_back();
  };
  if constexpr (std::is_void_v<decltype(use(args))>) {
    use(args);
    finish();
  } else {
    auto result = use(args);
    finish();
    return result;
  }
}

/// The solvers named by MIOPEN_DEBUG_FIND_ONLY_SOLVER; BadParm if one does not exist. Solvers of other directions are
/// kept and match no candidate.
std::vector<const SolverBase*> only_solvers(const search::Request& rq) {
  std::vector<const SolverBase*> only;
  const std::string text = env::text(env::kFindOnlySolver).value_or("");
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(';', at), text.size());
    const std::string name = text.substr(at, end - at);
    at = end + 1;
    if (name.empty()) continue;
    const SolverBase* solver = solver_by_name(name);
    require(solver, "{}={}: there is no solver '{}'; names and ids are in MIOpenDriver conv --explain",
            env::kFindOnlySolver.name, text, name);
    only.push_back(&known_solver(rq, solver->info().id));
  }
  return only;
}

search::FindOptions narrowed(const search::Request& rq, search::FindOptions options) {
  options.only = only_solvers(rq);
  return options;
}

/// A plan for online tuning. Not for beta != 0: a wrong result could not be computed again.
Plan running_plan(const search::Request& rq, const Problem& problem) {
  search::Subject subject{problem.clone(), make_check(problem), rq.solvers, rq.constraints};
  const SolverBase* first = search::rank(rq)[0].solver;
  std::size_t workspace = 0;
  auto invoke = search::tune_online(rq.handle, std::move(subject), workspace);
  constexpr std::size_t kBytes = 20'000;  // with the invokers of all candidates
  return {std::move(invoke), first, workspace, kBytes};
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

Call::Call(Handle& handle, const Problem& problem, const Constraints& allowed)
    : check_((validate(problem), make_check(problem))),
      request_{handle, solvers(problem, handle.device().kind), problem, allowed, check_.get()} {
  request_.constraints.workspace_limit = std::min(allowed.workspace_limit, handle.workspace_limit());
  if (handle.stream().capturing()) fail_captured(problem);
  if (handle.device().kind != DeviceKind::kCpu) {
    clock_ = search::device_clock(handle.stream());
    request_.clock = clock_.get();
  }
  search::record_problem(problem.key());
}

std::size_t find_workspace(Handle& handle, const Problem& problem, const Constraints& allowed, search::FindMode mode) {
  const Call call(handle, problem, allowed);
  const auto& rq = call.request();
  auto ranking = search::rank(rq);
  if (const auto only = only_solvers(rq); !only.empty())
    std::erase_if(ranking, [&](const auto& c) { return std::find(only.begin(), only.end(), c.solver) == only.end(); });
  if (ranking.empty()) fail_unsolved(rq);
  if (search::enforce() != search::Enforce::kNone) mode = search::FindMode::kNormal;
  if (mode == search::FindMode::kFast || search::is_hit(ranking, mode)) return ranking[0].workspace;
  std::size_t most = 0;
  for (const auto& c : ranking) most = std::max(most, c.workspace);
  return most;
}

std::vector<search::Candidate> find(Handle& handle, const Problem& problem, const Constraints& allowed,
                                    const Problem::Args& args, const search::FindOptions& options) {
  if (!has_aligned_elements(problem, args)) {
    return on_aligned(handle, problem, args,
                      [&](const auto& aligned) { return find(handle, problem, allowed, aligned, options); });
  }
  check_memory(handle, args);
  const Call call(handle, problem, for_call(handle, allowed, args));
  const auto& rq = call.request();
  const auto best = search::best_per_algorithm(search::find(rq, narrowed(rq, options), &args));
  if (best.empty()) fail_unsolved(rq);
  // The next run uses this result and replaces earlier plans.
  for (const auto& c : best)
    handle.plans().put({&problem, rq.constraints, 0, static_cast<int>(c.solver->info().algorithm)},
                       build(rq, *c.solver, c.point));
  return best;
}

std::optional<std::vector<search::Candidate>> answer(Handle& handle, const Problem& problem, Constraints allowed,
                                                     const Problem::Args& args, const search::FindOptions& options,
                                                     const char* reason) {
  allowed.alignment = alignment({args.x, args.w, args.y});
  const Call call(handle, problem, allowed);
  const auto& rq = call.request();
  const auto found = search::answer(rq, narrowed(rq, options), reason);
  if (!found) return std::nullopt;
  if (found->empty()) fail_unsolved(rq);
  return search::best_per_algorithm(*found);
}

std::vector<search::Candidate> solutions(Handle& handle, const Problem& problem, const Constraints& allowed) {
  const Call call(handle, problem, allowed);
  auto ranking = search::rank(call.request());
  if (!env::flag(env::kImmediateFallback, true))
    std::erase_if(ranking, [](const search::Candidate& c) { return c.source != search::Source::kMeasured; });
  return ranking;
}

// A cached plan belongs to exactly this problem, so that a warm call skips validation.
void run(Handle& handle, const Problem& problem, const Constraints& allowed, const Problem::Args& args,
         Algorithm algorithm) {
  if (!has_aligned_elements(problem, args)) {
    return on_aligned(handle, problem, args,
                      [&](const auto& aligned) { run(handle, problem, allowed, aligned, algorithm); });
  }
  const Constraints limits = for_call(handle, allowed, args);
  const auto plan = handle.plans().get({&problem, limits, 0, static_cast<int>(algorithm)}, [&] {
    check_memory(handle, args);
    if (handle.stream().capturing()) return prepared_plan(handle, problem, allowed, limits, algorithm);
    const Call call(handle, problem, limits);
    search::Request rq = call.request();
    rq.constraints.algorithms &= 1u << static_cast<int>(algorithm);
    const auto candidates = search::rank(rq);
    if (candidates.empty()) fail_algorithm(rq, algorithm, allowed.algorithms);
    if (handle.tunes_while_running() && problem.scalars != Scalars::kBilinear)
      return running_plan(call.request(), problem);
    return build(rq, *candidates[0].solver, candidates[0].point);
  });
  run_checked(handle, problem, *plan, args);
}

void run(Handle& handle, const Problem& problem, const Constraints& allowed, const Problem::Args& args,
         std::uint64_t id) {
  if (!has_aligned_elements(problem, args)) {
    return on_aligned(handle, problem, args, [&](const auto& aligned) { run(handle, problem, allowed, aligned, id); });
  }
  const Constraints limits = for_call(handle, allowed, args);
  const auto plan = handle.plans().get({&problem, limits, id}, [&] {
    check_memory(handle, args);
    if (const SolverBase* solver = solver_by_id(id); solver && handle.stream().capturing())
      return prepared_plan(handle, problem, allowed, limits, solver->info().algorithm, id);
    // The caller must give the workspace that GetSolutionWorkspaceSize returned: possibly that of the default point,
    // before the database had a better point with more workspace.
    const Call call(handle, problem, allowed);
    const auto c = candidate_by_id(call.request(), id);
    const std::size_t least =
        std::min(c.workspace,
                 c.solver->workspace_size(handle.device(), problem, c.solver->default_point(handle.device(), problem)));
    require(least <= limits.workspace_limit, "solution {} ({}) needs {} bytes of workspace, {} were given for: {}", id,
            c.solver->info().name, least, limits.workspace_limit, problem.key());
    Plan made = c.workspace <= limits.workspace_limit ? build(call.request(), *c.solver, c.point)
                                                      : build_by_id(Call(handle, problem, limits).request(), id);
    return made;
  });
  run_checked(handle, problem, *plan, args);
}

void run(Handle& handle, const Problem& problem, const Constraints& allowed, const Problem::Args& args,
         std::uint64_t id, const TunePoint& point) {
  if (!has_aligned_elements(problem, args)) {
    return on_aligned(handle, problem, args,
                      [&](const auto& aligned) { run(handle, problem, allowed, aligned, id, point); });
  }
  const Constraints limits = for_call(handle, allowed, args);
  const auto made = handle.plans().get({&problem, limits, id, -1, point.empty() ? nullptr : &point}, [&] {
    check_memory(handle, args);
    return plan(handle, problem, limits, id, point);
  });
  run_checked(handle, problem, *made, args);
}

void prepare(Handle& handle, const Problem& problem, const Constraints& allowed, std::uint64_t id) {
  const Call call(handle, problem, allowed);
  // The key has exactly the solver's workspace, which the caller will pass to run.
  auto plan = build_by_id(call.request(), id);
  Constraints exact = allowed;
  exact.workspace_limit = plan.workspace;
  handle.plans().put({&problem, exact, id}, std::move(plan));
}

Plan plan(Handle& handle, const Problem& problem, const Constraints& allowed, std::uint64_t id,
          const TunePoint& point) {
  const Call call(handle, problem, allowed);
  const auto& rq = call.request();
  if (!point.empty()) {
    // The point may need less workspace than the best known one.
    search::Request unlimited = rq;
    unlimited.constraints.workspace_limit = SIZE_MAX;
    const auto c = candidate_by_id(unlimited, id);
    if (takes(*c.solver, handle.device(), problem, point) &&
        c.solver->workspace_size(handle.device(), problem, point) <= rq.constraints.workspace_limit)
      return build(rq, *c.solver, point);
  }
  return build_by_id(rq, id);
}

Tuned tune(Handle& handle, const Problem& problem, const Constraints& allowed, const Tuning& tuning) {
  const Call call(handle, problem, allowed);
  search::TuneAll all{tuning.budget_us, tuning.again};
  const auto result = search::tune_all(call.request(), all);
  if (result.candidates.empty()) fail_unsolved(call.request());
  return {result.complete, result.measured, result.candidates[0]};
}

std::size_t solution_workspace(Handle& handle, const Problem& problem, const Constraints& allowed, std::uint64_t id) {
  return candidate_by_id(Call(handle, problem, allowed).request(), id).workspace;
}

}  // namespace polymio::convolution
