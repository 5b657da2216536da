// Running a softmax, on top of the solvers.
// SPDX-License-Identifier: MIT
#include "primitives/softmax/softmax.h"

#include "core/aligned_buffer.h"
#include "core/tensor_checks.h"

namespace polymio::softmax {
namespace {

class Softmax final : public search::Primitive {
 public:
  void validate(const ProblemBase& p) const override { softmax::validate(static_cast<const Problem&>(p)); }
  SolverList solvers(const ProblemBase& p, DeviceKind kind) const override {
    return softmax::solvers(static_cast<const Problem&>(p).direction, kind);
  }
  SolverList all_solvers() const override { return softmax::all_solvers(); }
  std::unique_ptr<const search::ResultCheck> make_check(const ProblemBase& p) const override {
    return softmax::make_check(static_cast<const Problem&>(p));
  }
  bool has_find() const override { return false; }
};
constexpr Softmax kSoftmax;

void check_memory(const Problem& p, const Problem::Args& args) {
  require_no_overlap(p.in, args.in, p.in_name(), p.out, args.result);
  if (!p.forward()) require_no_overlap(p.dy, args.dy, "dy", p.out, args.result);
}

}  // namespace

// A cached plan belongs to exactly this problem, so that a warm call skips validation.
void run(Handle& handle, const Problem& problem, const Problem::Args& given, std::uint64_t id, const TunePoint& point) {
  const CallerBuffer buffers[] = {
      {problem.in, given.in, problem.forward() ? "the buffer of x" : "the buffer of y"},
      {problem.dy, given.dy, "the buffer of dy"},
      {problem.out, given.result, problem.forward() ? "the buffer of y" : "the buffer of dx", true}};
  if (!are_aligned(buffers)) {
    validate(problem);
    check_memory(problem, given);
    return run_on_aligned(handle.device(), buffers, [&](void* const* data) {
      Problem::Args args = given;
      args.in = data[0];
      args.dy = data[1];
      args.result = data[2];
      run(handle, problem, args, id, point);
    });
  }
  const auto make = [&] {
    for (const CallerBuffer& b : buffers)
      if (b.data) handle.stream().check_memory(b.data, b.name);
    const search::Call call(handle, kSoftmax, problem, {});
    return id == 0 ? call.first_plan() : call.plan(id, point);
  };
  const auto plan = handle.plans().get({&problem, Constraints{}, id, -1, point.empty() ? nullptr : &point}, make);
  check_memory(problem, given);
  handle.run(*plan, &given);
}

search::Call search_call(Handle& handle, const Problem& problem, const Constraints& allowed) {
  return {handle, kSoftmax, problem, allowed};
}

}  // namespace polymio::softmax
