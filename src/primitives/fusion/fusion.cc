// Running a chain, stage by stage.
// SPDX-License-Identifier: MIT
#include "primitives/fusion/fusion.h"

#include <algorithm>

#include "base/error.h"
#include "base/math.h"
#include "core/tensor_checks.h"
#include "primitives/tensor_ops/tensor_ops.h"

namespace polymio::fusion {
namespace {

constexpr std::int64_t kAlignment = 256;

std::size_t aligned(std::size_t bytes) {
  return static_cast<std::size_t>(round_up(static_cast<std::int64_t>(bytes), kAlignment));
}

template <class Problem>
const Problem* as(const Stage& s) {
  return std::get_if<Problem>(&s.problem);
}

search::Call call_of(Handle& handle, const Stage& s, Constraints allowed) {
  if (const auto* p = as<convolution::Problem>(s)) {
    allowed.deterministic = s.constraints.deterministic;
    allowed.math = s.constraints.math;
    allowed.algorithms &= s.constraints.algorithms;
    return convolution::make_call(handle, *p, allowed);
  }
  if (const auto* p = as<batch_norm::Problem>(s)) return batch_norm::search_call(handle, *p, allowed);
  return activation::search_call(handle, std::get<activation::Problem>(s.problem), allowed);
}

/// The arguments of a stage's operation.
const Args& of(const Chain::Call& call, std::size_t operation) { return call.args[operation]; }

/// The buffers of one stage.
struct Buffers {
  const void* from;
  void* to;
  void* scratch;
};

void run_convolution(Handle& handle, const Stage& s, const Plan::Choice& choice, const Chain::Call& call,
                     const Buffers& b) {
  const auto& p = std::get<convolution::Problem>(s.problem);
  const bool forward = p.direction == convolution::Direction::kForward;
  convolution::Problem::Args a;
  a.w = const_cast<void*>(of(call, s.convolution).w);
  (forward ? a.x : a.y) = const_cast<void*>(b.from);
  (forward ? a.y : a.x) = b.to;
  a.seed = s.seed;
  a.workspace = choice.workspace > 0 ? b.scratch : nullptr;
  a.workspace_bytes = choice.workspace;
  if (s.bias != Stage::kNone) a.bias = of(call, s.bias).bias;
  if (s.norm != Stage::kNone) {
    const auto& norm = of(call, s.norm).norm;
    a.norm_scale = norm.scale;
    a.norm_bias = norm.bias;
    a.norm_mean = norm.mean;
    a.norm_variance = norm.variance;
    a.norm_epsilon = norm.epsilon;
  }
  if (s.activation != Stage::kNone) {
    const auto& parameters = of(call, s.activation).activation;
    a.activation_alpha = parameters.alpha;
    a.activation_beta = parameters.beta;
    a.activation_gamma = parameters.gamma;
  }
  convolution::run(handle, p, s.constraints, a, choice.id, choice.point);
}

void run_norm(Handle& handle, const Stage& s, const Plan::Choice& choice, const Chain::Call& call, const Buffers& b) {
  const auto& p = std::get<batch_norm::Problem>(s.problem);
  batch_norm::Problem::Args a = of(call, s.norm).norm;
  if (s.activation != Stage::kNone) a.activation = of(call, s.activation).activation;
  (p.forward() ? a.x : a.dy) = b.from;
  a.out = b.to;
  a.inverse = s.from == kNormX;
  require(!a.inverse || (a.mean && a.variance), "the saved moments of the batch norm are missing");
  batch_norm::run(handle, p, a, choice.id, choice.point);
}

/// `forward`: where a stage before it left the forward input of a gradient, else null.
void run_activation(Handle& handle, const Stage& s, const Plan::Choice& choice, const Chain::Call& call,
                    const Buffers& b, const void* forward) {
  const auto& p = std::get<activation::Problem>(s.problem);
  if (p.forward() && p.mode == activation::Mode::kPassthru && p.x == p.y && b.from == b.to) return;
  const Args& given = of(call, s.activation);
  activation::Problem::Args a;
  a.parameters = given.activation;
  a.result = b.to;
  a.x = b.from;
  if (!p.forward()) {
    a.dy = b.from;
    a.x = forward ? forward : given.x ? given.x : given.y;
    a.x_is_y = !forward && activation::forward_was_in_place(p.mode, a.parameters, a.x, given.y);
  }
  activation::run(handle, p, a, choice.id, choice.point);
}

void run_bias(Handle& handle, const Stage& s, const Chain::Call& call, const Buffers& b) {
  const auto& p = std::get<Stage::AddBias>(s.problem);
  handle.run([&](Stream& stream) {
    tensor_ops::op_tensor(stream, tensor_ops::Op::kAdd, 1, {p.x, b.from}, 1, {p.bias, of(call, s.bias).bias}, 0,
                          {p.y, b.to});
  });
}

}  // namespace

std::string Chain::text() const {
  std::string all;
  for (const Stage& s : stages_) {
    if (!all.empty()) all += " + ";
    if (const auto* p = as<convolution::Problem>(s)) all += p->key();
    if (const auto* p = as<batch_norm::Problem>(s)) all += p->key();
    if (const auto* p = as<activation::Problem>(s)) all += p->key();
    if (as<Stage::AddBias>(s)) all += "bias";
  }
  return all;
}

const Stage& Chain::main() const {
  const auto first = [&](auto is) { return std::ranges::find_if(stages_, is); };
  auto found = first([](const Stage& s) { return as<convolution::Problem>(s) != nullptr; });
  if (found == stages_.end()) found = first([](const Stage& s) { return as<batch_norm::Problem>(s) != nullptr; });
  if (found == stages_.end()) found = first([](const Stage& s) { return as<activation::Problem>(s) != nullptr; });
  if (found == stages_.end()) fail(Status::kNotImplemented, "a bias alone has no solvers: fuse it with others");
  return *found;
}

std::vector<search::Candidate> Chain::solutions(Handle& handle, const Constraints& allowed) const {
  const search::Call call = search_call(handle, allowed);
  auto list = call.solutions();
  if (list.empty()) search::fail_refused(call.request());
  return list;
}

search::Call Chain::search_call(Handle& handle, const Constraints& allowed) const {
  return call_of(handle, main(), allowed);
}

std::vector<search::Call> Chain::search_calls(Handle& handle) const {
  std::vector<search::Call> calls;
  for (const Stage& s : stages_)
    if (!as<Stage::AddBias>(s)) calls.push_back(call_of(handle, s, {}));
  return calls;
}

SolverList Chain::solvers(DeviceKind kind) const {
  const Stage& s = main();
  if (const auto* p = as<convolution::Problem>(s)) return convolution::solvers(p->direction, kind);
  if (const auto* p = as<batch_norm::Problem>(s)) return batch_norm::solvers(p->direction, kind);
  return activation::solvers(std::get<activation::Problem>(s.problem).direction, kind);
}

Plan Chain::prepare(Handle& handle, std::size_t workspace_limit, const search::Candidate* choice,
                    unsigned algorithms) const {
  Plan plan;
  std::size_t buffers = 0;
  for (const std::size_t bytes : buffers_) buffers += aligned(bytes);
  Constraints limits;
  limits.workspace_limit = std::min(workspace_limit, handle.workspace_limit());
  if (limits.workspace_limit < buffers)
    fail(Status::kBadParm, "the workspace limit of {} bytes has no room for the {} bytes between operations",
         limits.workspace_limit, buffers);
  if (limits.workspace_limit != SIZE_MAX) limits.workspace_limit -= buffers;
  const Stage* const chosen = choice ? &main() : nullptr;
  for (const Stage& s : stages_) {
    auto& of_stage = plan.stages.emplace_back();
    if (&s == chosen) {
      const std::uint64_t id = choice->solver->info().id;
      of_stage = {id, choice->point, call_of(handle, s, limits).plan(id, choice->point).workspace};
    } else if (const auto* p = as<convolution::Problem>(s)) {
      const auto ranking = call_of(handle, s, limits).allowed_solutions();
      auto best = std::ranges::find_if(
          ranking, [&](const auto& c) { return (algorithms >> c.solver->info().algorithm & 1) != 0; });
      if (best == ranking.end()) best = ranking.begin();
      of_stage = {best->solver->info().id, {}, best->workspace};
      convolution::prepare(handle, *p, s.constraints, of_stage.id);
    }
    plan.scratch = std::max(plan.scratch, of_stage.workspace);
  }
  plan.workspace = buffers == 0 ? plan.scratch : aligned(plan.scratch) + buffers;
  return plan;
}

void Chain::run(Handle& handle, const Plan& plan, const Call& call) const {
  const auto buffer = [&](int number) {
    std::size_t offset = aligned(plan.scratch);
    for (int i = 0; i < number; ++i) offset += aligned(buffers_[static_cast<std::size_t>(i)]);
    return static_cast<void*>(static_cast<char*>(call.workspace) + offset);
  };
  handle.run_together([&] {
    const void* forward = nullptr;
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      const Stage& s = stages_[i];
      const Buffers b{s.from == kIn      ? call.in
                      : s.from == kOut   ? call.out
                      : s.from == kNormX ? of(call, s.norm).norm.x
                                         : buffer(s.from),
                      s.to == kOut ? call.out : buffer(s.to), call.workspace};
      if (as<convolution::Problem>(s)) run_convolution(handle, s, plan.stages[i], call, b);
      if (as<batch_norm::Problem>(s)) run_norm(handle, s, plan.stages[i], call, b);
      if (as<activation::Problem>(s)) run_activation(handle, s, plan.stages[i], call, b, forward);
      if (as<Stage::AddBias>(s)) run_bias(handle, s, call, b);
      forward = s.from == kNormX ? b.to : nullptr;
    }
  });
}

}  // namespace polymio::fusion
