// Running a normalization, on top of the solvers.
// SPDX-License-Identifier: MIT
#include "primitives/norm/norm.h"

#include "core/aligned_buffer.h"
#include "core/tensor_checks.h"
#include "primitives/norm/solvers.h"
#include "search/runner.h"

namespace polymio::norm {
namespace {

class Norm final : public search::Primitive {
 public:
  void validate(const ProblemBase& p) const override { norm::validate(static_cast<const Problem&>(p)); }
  SolverList solvers(const ProblemBase& p, DeviceKind kind) const override {
    return norm::solvers(static_cast<const Problem&>(p).direction, kind);
  }
  SolverList all_solvers() const override { return norm::all_solvers(); }
  std::unique_ptr<const search::ResultCheck> make_check(const ProblemBase& p) const override {
    return norm::make_check(static_cast<const Problem&>(p));
  }
  bool has_find() const override { return false; }
};
constexpr Norm kNorm;

void check_overlap(const Problem& p, const Problem::Args& a) {
  void* const out = p.forward() ? a.y : a.dx;
  require_no_overlap(p.x, a.x, "x", p.output(), out);
  if (a.x2) require_no_overlap(p.x2, a.x2, "x2", p.y, a.y);
  if (a.dy) require_no_overlap(p.dy, a.dy, "dy", p.dx, a.dx);
}

bool is_aligned(const Problem& p, const Problem::Args& a) {
  for (const void* data : {a.x, a.x2, a.dy, static_cast<const void*>(a.y), static_cast<const void*>(a.dx)})
    if (!is_element_aligned(data, p.x.type)) return false;
  for (const void* data : {a.weight, a.bias, static_cast<const void*>(a.dw), static_cast<const void*>(a.db)})
    if (!is_element_aligned(data, p.parameters)) return false;
  return is_element_aligned(a.mean, p.statistics) && is_element_aligned(a.rstd, p.statistics);
}

void run_misaligned(Handle& handle, const Problem& p, const Problem::Args& given) {
  validate(p);
  check_overlap(p, given);
  const TensorDesc parameter = parameter_desc(p), statistic = statistic_desc(p);
  const bool forward = p.forward();
  const CallerBuffer buffers[] = {{p.x, given.x, "the buffer of x"},
                                  {p.x2, given.x2, "the buffer of x2"},
                                  {p.dy, given.dy, "the buffer of dy"},
                                  {parameter, given.weight, "the buffer of weight"},
                                  {parameter, given.bias, "the buffer of bias"},
                                  {p.y, given.y, "the buffer of y", true},
                                  {p.dx, given.dx, "the buffer of dx", true},
                                  {parameter, given.dw, "the buffer of dw", true},
                                  {parameter, given.db, "the buffer of db", true},
                                  {statistic, given.mean, "the buffer of mean", forward},
                                  {statistic, given.rstd, "the buffer of rstd", forward}};
  run_on_aligned(handle.device(), buffers, [&](void* const* data) {
    Problem::Args args = given;
    const void** const inputs[] = {&args.x, &args.x2, &args.dy, &args.weight, &args.bias};
    for (const void** input : inputs) *input = *data++;
    void** const others[] = {&args.y, &args.dx, &args.dw, &args.db, &args.mean, &args.rstd};
    for (void** other : others) *other = *data++;
    run(handle, p, args);
  });
}

void check_memory(const Stream& stream, const Problem::Args& a) {
  const std::pair<const void*, const char*> buffers[] = {
      {a.x, "the buffer of x"},           {a.x2, "the buffer of x2"},     {a.dy, "the buffer of dy"},
      {a.weight, "the buffer of weight"}, {a.bias, "the buffer of bias"}, {a.y, "the buffer of y"},
      {a.dx, "the buffer of dx"},         {a.dw, "the buffer of dw"},     {a.db, "the buffer of db"},
      {a.mean, "the buffer of mean"},     {a.rstd, "the buffer of rstd"}};
  for (const auto& [data, name] : buffers)
    if (data) stream.check_memory(data, name);
}

}  // namespace

// A cached plan belongs to exactly this problem, so that a warm call skips validation.
void run(Handle& handle, const Problem& problem, const Problem::Args& args) {
  if (!is_aligned(problem, args)) return run_misaligned(handle, problem, args);
  const auto plan = handle.plans().get({&problem, Constraints{}}, [&] {
    check_memory(handle.stream(), args);
    return search::Call(handle, kNorm, problem, {}).first_plan();
  });
  check_overlap(problem, args);
  handle.run(*plan, &args);
}

}  // namespace polymio::norm
