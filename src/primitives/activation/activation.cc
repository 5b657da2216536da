// Running an activation, on top of the solvers.
// SPDX-License-Identifier: MIT
#include "primitives/activation/activation.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "core/aligned_buffer.h"
#include "primitives/activation/solvers.h"
#include "primitives/convolution/convolution.h"
#include "search/record.h"

namespace polymio::activation {
namespace {

constexpr std::int64_t kApplyPart = 1 << 14;  // elements per task of apply()

/// The best candidate of a find on private data, or nothing without memory for these.
std::optional<search::Candidate> found(const search::Request& rq) {
  try {
    const auto own = rq.check->private_case(rq.handle, rq.handle.workspace_limit());
    if (own && own->problem().equals(rq.problem)) return search::find(rq, {}, own->args(nullptr, 0)).at(0);
    log::info("not tuned: its data would exceed the workspace limit: {}", rq.problem.key());
  } catch (const Error& e) {
    if (e.status != Status::kAllocFailed) throw;
    log::info("not tuned: {}: {}", e.what(), rq.problem.key());
  }
  return std::nullopt;
}

const SolverBase* solver_by_name(Direction d, std::string_view text) {
  for (const SolverBase* solver : solvers(d)) {
    const SolverInfo info = solver->info();
    if (text == info.name || text == std::to_string(info.id)) return solver;
  }
  return nullptr;
}

/// The solvers that MIOPEN_DEBUG_FIND_ONLY_SOLVER names by name or id; all if it names none of this direction, since
/// convolutions use the variable, too. BadParm if it names one that does not exist.
std::vector<const SolverBase*> allowed_solvers(Direction d) {
  const SolverList all = solvers(d);
  const Direction other = d == Direction::kForward ? Direction::kBackward : Direction::kForward;
  const std::string text = env::text(env::kFindOnlySolver).value_or("");
  std::vector<const SolverBase*> allowed;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(';', at), text.size());
    const std::string name = text.substr(at, end - at);
    at = end + 1;
    if (name.empty()) continue;
    const SolverBase* solver = solver_by_name(d, name);
    require(solver || solver_by_name(other, name) || convolution::solver_by_name(name),
            "{}={}: there is no solver '{}'; those of activations are in docs/activations.md",
            env::kFindOnlySolver.name, text, name);
    if (solver) allowed.push_back(solver);
  }
  if (allowed.empty()) allowed.assign(all.begin(), all.end());
  return allowed;
}

Plan first_plan(Handle& handle, const Problem& problem) {
  validate(problem);
  search::record_problem(problem.key());
  const auto check = make_check(problem);
  const auto allowed = allowed_solvers(problem.direction);
  search::Request rq{handle, allowed, problem, {}, check.get()};
  std::unique_ptr<search::Clock> clock;
  if (handle.device().kind != DeviceKind::kCpu) rq.clock = (clock = search::device_clock(handle.stream())).get();
  std::optional<search::Candidate> best;
  if (search::enforce() != search::Enforce::kNone && !handle.stream().capturing()) best = found(rq);
  if (!best) {
    const auto ranking = search::rank(rq);
    if (ranking.empty())
      fail(Status::kNotImplemented, "no solver can do: {}. Reasons: {}", problem.key(), search::refusals(rq));
    best = ranking[0];
  }
  return {best->solver->build(handle.stream(), problem, best->point), best->solver, best->workspace};
}

/// BadParm for overlapping dense tensors. Strided ones may be interleaved without sharing an element.
void check_memory(const TensorDesc& in, const void* data, const char* name, const TensorDesc& out, const void* result) {
  if (data == result) {
    require(same_memory(in, out), "the result is written over {}, but their strides differ", name);
    return;
  }
  if (!in.packed() || !out.packed()) return;
  const auto in_begin = reinterpret_cast<std::uintptr_t>(data), out_begin = reinterpret_cast<std::uintptr_t>(result);
  require(in_begin + in.bytes() <= out_begin || out_begin + out.bytes() <= in_begin,
          "the result overlaps {}: it must be the same buffer or another one, and starts {} bytes from it", name,
          static_cast<std::int64_t>(out_begin - in_begin));
}

/// For buffers whose elements are not aligned.
void run_on_copies(Handle& handle, const Problem& problem, const Problem::Args& given) {
  validate(problem);
  check_memory(problem.x, given.x, "x", problem.output(), given.result);
  if (!problem.forward()) check_memory(problem.dy, given.dy, "dy", problem.dx, given.result);
  const DeviceInfo& device = handle.device();
  const AlignedBuffer x(device, problem.x, given.x, "the buffer of x"),
      dy(device, problem.dy, given.dy, "the buffer of dy"),
      result(device, problem.output(), given.result, "the buffer of the result");
  Problem::Args args = given;
  args.x = x.data();
  args.dy = dy.data();
  args.result = result.data();
  run(handle, problem, args);
  result.write_back();
}

}  // namespace

Parameters rounded(const Parameters& p, DataType t) {
  if (t == DataType::kDouble) return p;
  return {static_cast<float>(p.alpha), static_cast<float>(p.beta), static_cast<float>(p.gamma)};
}

// A cached plan belongs to exactly this problem, so that a warm call skips validation.
void run(Handle& handle, const Problem& problem, const Problem::Args& given) {
  const DataType type = problem.x.type;
  if (!is_element_aligned(given.x, type) || !is_element_aligned(given.dy, type) ||
      !is_element_aligned(given.result, problem.output().type))
    return run_on_copies(handle, problem, given);
  const auto plan = handle.plans().get({&problem, Constraints{}}, [&] {
    const Stream& stream = handle.stream();
    stream.check_memory(given.x, "the buffer of x");
    stream.check_memory(given.result, problem.forward() ? "the buffer of y" : "the buffer of dx");
    if (!problem.forward()) stream.check_memory(given.dy, "the buffer of dy");
    return first_plan(handle, problem);
  });
  check_memory(problem.x, given.x, "x", problem.output(), given.result);
  if (!problem.forward()) check_memory(problem.dy, given.dy, "dy", problem.dx, given.result);
  Problem::Args args = given;
  args.parameters = rounded(given.parameters, problem.x.type);
  handle.run(*plan, &args);
}

void apply(Stream& stream, const TensorDesc& desc, void* data, Mode mode, const Parameters& parameters) {
  const Problem p = forward_problem(mode, desc, desc);
  Problem::Args args;
  args.x = args.result = data;
  args.parameters = rounded(parameters, desc.type);
  const kernels::Activation job = kernel_job(p, args);
  const kernels::KernelTable& table = kernel_table(stream.info());
  const Grid grid = grid_of(p);
  if (!grid.flat()) return run_strided(stream, grid, table, job);
  for_parts(stream, grid.count(), kApplyPart,
            [&](std::int64_t first, std::int64_t end) { table.activation(job, first, end); });
}

}  // namespace polymio::activation
