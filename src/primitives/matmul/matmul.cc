// Running a matrix product, on top of the solvers.
// SPDX-License-Identifier: MIT
#include "primitives/matmul/matmul.h"

#include <optional>

#include "base/error.h"
#include "core/aligned_buffer.h"

namespace polymio::matmul {
namespace {

class Matmul final : public search::Primitive {
 public:
  void validate(const ProblemBase& p) const override { matmul::validate(static_cast<const Problem&>(p)); }
  SolverList solvers(const ProblemBase&, DeviceKind kind) const override { return matmul::solvers(kind); }
  SolverList all_solvers() const override { return matmul::all_solvers(); }
  std::unique_ptr<const search::ResultCheck> make_check(const ProblemBase& p) const override {
    return matmul::make_check(static_cast<const Problem&>(p));
  }
  bool has_find() const override { return false; }
};
constexpr Matmul kMatmul;

/// The matrix's own address; null for one without elements.
CallerBuffer buffer(const TensorDesc& desc, const void* data, std::int64_t at, const char* name, bool is_output) {
  const auto* const first = static_cast<const char*>(data) + at * static_cast<std::int64_t>(size_of(desc.type));
  return {desc, desc.count() == 0 ? nullptr : first, name, is_output};
}

/// The default point, or one that differs from it in one knob and that the workspace suffices for; empty if none does.
std::optional<TunePoint> point_within(const SolverBase& solver, const DeviceInfo& device, const Problem& p,
                                      std::size_t workspace) {
  const TunePoint start = solver.default_point(device, p);
  if (solver.workspace_size(device, p, start) <= workspace) return start;
  const TuneSpace space = solver.tune_space(device, p);
  for (std::size_t knob = 0; knob < space.size(); ++knob)
    for (const int value : space[knob].values) {
      TunePoint point = start;
      point[knob] = value;
      if (solver.is_valid(device, p, point) && solver.workspace_size(device, p, point) <= workspace) return point;
    }
  return std::nullopt;
}

Plan predicted_plan(Stream& stream, const Problem& p, std::size_t workspace) {
  validate(p);
  const DeviceInfo& device = stream.info();
  const SolverBase& solver = best_solver(device, p);
  const auto point = point_within(solver, device, p, workspace);
  require(point.has_value(), "{} bytes of workspace are too few for {}: {}", workspace, solver.info().name, p.key());
  return {solver.build(stream, p, *point), &solver, solver.workspace_size(device, p, *point)};
}

}  // namespace

// A cached plan belongs to exactly this problem, so that a warm call skips validation.
void run(Handle& handle, const Problem& problem, const Problem::Args& given) {
  const CallerBuffer buffers[] = {buffer(problem.a, given.a, given.a_at, "a", false),
                                  buffer(problem.b, given.b, given.b_at, "b", false),
                                  buffer(problem.c, given.c, given.c_at, "c", true)};
  if (!are_aligned(buffers)) {
    validate(problem);
    return run_on_aligned(handle.device(), buffers, [&](void* const* data) {
      Problem::Args args = given;
      args.a = data[0];
      args.b = data[1];
      args.c = data[2];
      args.a_at = 0;
      args.b_at = 0;
      args.c_at = 0;
      run(handle, problem, args);
    });
  }
  Constraints limits;
  limits.workspace_limit = given.workspace_bytes;
  const auto plan = handle.plans().get({&problem, limits, 0, -1, nullptr},
                                       [&] { return predicted_plan(handle.stream(), problem, given.workspace_bytes); });
  handle.run(*plan, &given);
}

search::Call search_call(Handle& handle, const Problem& problem, const Constraints& allowed) {
  return {handle, kMatmul, problem, allowed};
}

}  // namespace polymio::matmul
