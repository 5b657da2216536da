// Running an activation, on top of the solvers.
// SPDX-License-Identifier: MIT
#include "primitives/activation/activation.h"

#include "core/aligned_buffer.h"
#include "core/tensor_checks.h"
#include "kernels/cpu/activation.h"
#include "primitives/activation/solvers.h"
#include "search/runner.h"

namespace polymio::activation {
namespace {

class Activation final : public search::Primitive {
 public:
  void validate(const ProblemBase& p) const override { activation::validate(static_cast<const Problem&>(p)); }
  SolverList solvers(const ProblemBase& p, DeviceKind kind) const override {
    return activation::solvers(static_cast<const Problem&>(p).direction, kind);
  }
  SolverList all_solvers() const override { return activation::all_solvers(); }
  std::unique_ptr<const search::ResultCheck> make_check(const ProblemBase& p) const override {
    return activation::make_check(static_cast<const Problem&>(p));
  }
  bool has_find() const override { return false; }
};
constexpr Activation kActivation;

void check_memory(const Problem& p, const Problem::Args& args) {
  require_no_overlap(p.x, args.x, "x", p.output(), args.result);
  if (!p.forward()) require_no_overlap(p.dy, args.dy, "dy", p.dx, args.result);
}

}  // namespace

Parameters rounded(const Parameters& p, DataType t) {
  if (t == DataType::kDouble) return p;
  return {static_cast<float>(p.alpha), static_cast<float>(p.beta), static_cast<float>(p.gamma)};
}

// A cached plan belongs to exactly this problem, so that a warm call skips validation.
void run(Handle& handle, const Problem& problem, const Problem::Args& given, std::uint64_t id, const TunePoint& point) {
  Problem::Args args = given;
  const CallerBuffer buffers[] = {{problem.x, given.x, "the buffer of x"},
                                  {problem.dy, given.dy, "the buffer of dy"},
                                  {problem.output(), given.result, "the buffer of the result", true}};
  if (!are_aligned(buffers)) {
    validate(problem);
    check_memory(problem, given);
    return run_on_aligned(handle.device(), buffers, [&](void* const* data) {
      args.x = data[0];
      args.dy = data[1];
      args.result = data[2];
      run(handle, problem, args, id, point);
    });
  }
  const auto plan = handle.plans().get({&problem, Constraints{}, id, -1, point.empty() ? nullptr : &point}, [&] {
    const Stream& stream = handle.stream();
    stream.check_memory(given.x, "the buffer of x");
    stream.check_memory(given.result, problem.forward() ? "the buffer of y" : "the buffer of dx");
    if (!problem.forward()) stream.check_memory(given.dy, "the buffer of dy");
    const search::Call call = search_call(handle, problem, {});
    return id == 0 ? call.first_plan() : call.plan(id, point);
  });
  check_memory(problem, given);
  args.parameters = rounded(given.parameters, problem.x.type);
  handle.run(*plan, &args);
}

search::Call search_call(Handle& handle, const Problem& problem, const Constraints& allowed) {
  return {handle, kActivation, problem, allowed};
}

void apply(Stream& stream, const TensorDesc& desc, void* data, Mode mode, const Parameters& parameters) {
  const Problem p = forward_problem(mode, desc, desc);
  Problem::Args args;
  args.x = args.result = data;
  args.parameters = rounded(parameters, desc.type);
  run_strided(stream, Tiles(loop_of(p)), kernel_job(p, args));
}

}  // namespace polymio::activation
