// What the convolution API does, above the solvers: find, run, immediate mode.
// SPDX-License-Identifier: MIT
#include "primitives/convolution/convolution.h"

#include <algorithm>
#include <array>
#include <type_traits>

#include "base/env.h"
#include "base/error.h"
#include "core/aligned_buffer.h"
#include "core/registry.h"
#include "core/stream_memory.h"
#include "primitives/convolution/fused.h"
#include "primitives/convolution/numerics.h"

namespace polymio::convolution {
namespace {

const Problem& typed(const ProblemBase& p) { return static_cast<const Problem&>(p); }

class Convolution final : public search::Primitive {
 public:
  void validate(const ProblemBase& p) const override { convolution::validate(typed(p)); }
  SolverList solvers(const ProblemBase& p, DeviceKind kind) const override {
    return convolution::solvers(typed(p), kind);
  }
  SolverList all_solvers() const override { return convolution::all_solvers(); }
  std::unique_ptr<const search::ResultCheck> make_check(const ProblemBase& p) const override {
    return convolution::make_check(typed(p));
  }
  Plan finish(Plan plan, const ProblemBase& p) const override { return check_numerics(std::move(plan), typed(p)); }
  bool reads_output(const ProblemBase& p) const override { return typed(p).scalars == Scalars::kBilinear; }
  int promised_algorithm() const override { return static_cast<int>(Algorithm::kGemm); }
};
constexpr Convolution kConvolution;

int alignment(std::initializer_list<const void*> pointers) {
  std::uintptr_t bits = 16;
  for (const void* p : pointers) bits |= reinterpret_cast<std::uintptr_t>(p);
  return 1 << __builtin_ctzll(bits);
}

Constraints for_call(const Handle& handle, Constraints allowed, const Problem::Args& args) {
  allowed.workspace_limit = std::min(args.workspace ? args.workspace_bytes : 0, handle.workspace_limit());
  allowed.alignment = alignment({args.x, args.w, args.y, args.residual});
  return allowed;
}

/// Runs without a workspace from the caller take memory of the plan.
Plan with_memory(Plan plan) {
  if (plan.workspace == 0) return plan;
  plan.invoke = [run = std::move(plan.invoke), memory = std::make_shared<StreamMemory>(plan.workspace)](
                    Stream& stream, const void* args) {
    Problem::Args a = *static_cast<const Problem::Args*>(args);
    if (a.workspace) return run(stream, args);
    memory->use(stream, [&](void* workspace) {
      a.workspace = workspace;
      a.workspace_bytes = memory->bytes();
      run(stream, &a);
    });
  };
  return plan;
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
  for (const void* parameter : {a.scale, a.norm_scale, a.norm_bias, a.norm_mean, a.norm_variance})
    if (!is_element_aligned(parameter, p.parameter_type())) return false;
  return is_element_aligned(a.residual, p.y.type) && is_element_aligned(a.x, p.x.type) &&
         is_element_aligned(a.w, p.w.type) && is_element_aligned(a.y, p.y.type) &&
         is_element_aligned(a.bias, p.y.type) && reinterpret_cast<std::uintptr_t>(a.workspace) % kWidest == 0;
}

/// Calls `use` with arguments whose elements are aligned, copies where needed. Slow, but rare: files mapped at odd
/// offsets, for instance.
template <class Use>
auto on_aligned(Handle& handle, const Problem& p, Problem::Args args, const Use& use) {
  validate(p);  // before copies read buffers by their sizes
  const DeviceInfo& device = handle.device();
  const TensorDesc channels = make_tensor(p.y.type, std::array{p.k()}, {});
  const TensorDesc parameters = make_tensor(p.parameter_type(), std::array{p.k()}, {});
  const AlignedBuffer x(device, p.x, args.x, "the buffer of x"), w(device, p.w, args.w, "the buffer of w"),
      y(device, p.y, args.y, "the buffer of y"), bias(device, channels, args.bias, "the bias"),
      scale(device, parameters, args.norm_scale, "the scale"), shift(device, parameters, args.norm_bias, "the bias"),
      mean(device, parameters, args.norm_mean, "the mean"),
      variance(device, parameters, args.norm_variance, "the variance"),
      residual(device, p.y, args.residual, "the residual");
  const Memory workspace(handle, args.workspace ? args.workspace_bytes : 0);
  args.x = x.data();
  args.w = w.data();
  args.y = y.data();
  args.bias = bias.data();
  args.norm_scale = scale.data();
  args.norm_bias = shift.data();
  args.norm_mean = mean.data();
  args.norm_variance = variance.data();
  args.residual = residual.data();
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

}  // namespace

Algorithm reported_algorithm(Algorithm algorithm) {
  static const bool legacy = env::flag(env::kLegacyAlgorithms, false) && env::flag(env::kConvImplicitGemm, true);
  return legacy && algorithm == Algorithm::kImplicitGemm ? Algorithm::kDirect : algorithm;
}

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

search::Call make_call(Handle& handle, const Problem& problem, const Constraints& allowed) {
  return {handle, kConvolution, problem, allowed};
}

std::vector<search::Candidate> find(Handle& handle, const Problem& problem, const Constraints& allowed,
                                    const Problem::Args& args, const search::FindOptions& options) {
  if (!has_aligned_elements(problem, args)) {
    return on_aligned(handle, problem, args,
                      [&](const auto& aligned) { return find(handle, problem, allowed, aligned, options); });
  }
  check_memory(handle, args);
  return make_call(handle, problem, for_call(handle, allowed, args)).find(options, &args);
}

std::optional<std::vector<search::Candidate>> answer(Handle& handle, const Problem& problem, Constraints allowed,
                                                     const Problem::Args& args, const search::FindOptions& options,
                                                     const char* reason) {
  allowed.alignment = alignment({args.x, args.w, args.y, args.residual});
  return make_call(handle, problem, allowed).answer(options, reason);
}

// A cached plan belongs to exactly this problem, so that a warm call skips validation.
void run(Handle& handle, const Problem& problem, const Constraints& allowed, const Problem::Args& args,
         Algorithm algorithm) {
  if (!has_aligned_elements(problem, args)) {
    return on_aligned(handle, problem, args,
                      [&](const auto& aligned) { run(handle, problem, allowed, aligned, algorithm); });
  }
  const Constraints limits = for_call(handle, allowed, args);
  const int slot = static_cast<int>(algorithm);
  const auto plan = handle.plans().get({&problem, limits, 0, slot}, [&] {
    check_memory(handle, args);
    if (handle.stream().capturing()) return search::prepared_plan(handle, kConvolution, problem, allowed, limits, slot);
    return make_call(handle, problem, limits).plan_of_algorithm(slot, allowed.algorithms);
  });
  handle.run(*plan, &args);
}

void run(Handle& handle, const Problem& problem, const Constraints& allowed, const Problem::Args& args,
         std::uint64_t id) {
  if (!has_aligned_elements(problem, args)) {
    return on_aligned(handle, problem, args, [&](const auto& aligned) { run(handle, problem, allowed, aligned, id); });
  }
  const Constraints limits = for_call(handle, allowed, args);
  const auto plan = handle.plans().get({&problem, limits, id}, [&] {
    check_memory(handle, args);
    const SolverBase* solver = solver_by_id(id, all_solvers());
    if (solver && handle.stream().capturing())
      return search::prepared_plan(handle, kConvolution, problem, allowed, limits, solver->info().algorithm, id);
    return make_call(handle, problem, allowed).plan_within(id, limits);
  });
  handle.run(*plan, &args);
}

void run(Handle& handle, const Problem& problem, const Constraints& allowed, const Problem::Args& args,
         std::uint64_t id, const TunePoint& point) {
  if (!has_aligned_elements(problem, args)) {
    return on_aligned(handle, problem, args,
                      [&](const auto& aligned) { run(handle, problem, allowed, aligned, id, point); });
  }
  const Constraints limits = for_call(handle, allowed, args);
  const auto plan = handle.plans().get({&problem, limits, id, -1, point.empty() ? nullptr : &point}, [&] {
    check_memory(handle, args);
    return make_call(handle, problem, limits).plan(id, point);
  });
  handle.run(*plan, &args);
}

void run(Handle& handle, const Problem& problem, const Constraints& allowed, const Problem::Args& args) {
  if (!has_aligned_elements(problem, args)) {
    return on_aligned(handle, problem, args, [&](const auto& aligned) { run(handle, problem, allowed, aligned); });
  }
  constexpr std::size_t kMostOwn = 32 << 20;
  const bool on_gpu = handle.device().kind != DeviceKind::kCpu;
  Constraints limits = for_call(handle, allowed, args);
  if (on_gpu && !args.workspace) limits.workspace_limit = std::min(kMostOwn, handle.workspace_limit());
  const auto plan = handle.plans().get({&problem, limits}, [&] {
    check_memory(handle, args);
    const search::Call call = make_call(handle, problem, limits);
    const auto ranking = call.solutions();
    if (ranking.empty()) search::fail_refused(call.request());
    Plan made = call.plan_of_first(ranking);
    return on_gpu ? with_memory(std::move(made)) : made;
  });
  handle.run(*plan, &args);
}

void prepare(Handle& handle, const Problem& problem, const Constraints& allowed, std::uint64_t id) {
  // The key has exactly the solver's workspace, which the caller will pass to run.
  auto plan = make_call(handle, problem, allowed).plan(id);
  Constraints exact = allowed;
  exact.workspace_limit = plan.workspace;
  handle.plans().put({&problem, exact, id}, std::move(plan));
}

void prepare(Handle& handle, std::span<const search::Wanted> problems) {
  search::prepare(handle, kConvolution, problems);
}

}  // namespace polymio::convolution
