// Running a softmax, on top of the solvers.
// SPDX-License-Identifier: MIT
#include "primitives/softmax/softmax.h"

#include <array>

#include "base/error.h"
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

std::array<CallerBuffer, 3> buffers_of(const Problem& p, const Problem::Args& args) {
  return {{{p.in, args.in, p.forward() ? "the buffer of x" : "the buffer of y"},
           {p.dy, args.dy, "the buffer of dy"},
           {p.out, args.result, p.forward() ? "the buffer of y" : "the buffer of dx", true}}};
}

/// Calls body with the arguments on buffers of aligned elements.
template <class Body>
void on_aligned(Handle& handle, const std::array<CallerBuffer, 3>& buffers, Problem::Args args, const Body& body) {
  run_on_aligned(handle.device(), buffers, [&](void* const* data) {
    args.in = data[0];
    args.dy = data[1];
    args.result = data[2];
    body(args);
  });
}

}  // namespace

// A cached plan belongs to exactly this problem, so that a warm call skips validation.
void run(Handle& handle, const Problem& problem, const Problem::Args& given, std::uint64_t id, const TunePoint& point) {
  const auto buffers = buffers_of(problem, given);
  if (!are_aligned(buffers)) {
    validate(problem);
    check_memory(problem, given);
    return on_aligned(handle, buffers, given,
                      [&](const Problem::Args& aligned) { run(handle, problem, aligned, id, point); });
  }
  const auto plan = handle.plans().get({&problem, Constraints{}, id, -1, point.empty() ? nullptr : &point}, [&] {
    for (const CallerBuffer& b : buffers)
      if (b.data) handle.stream().check_memory(b.data, b.name);
    const search::Call call = search_call(handle, problem, {});
    return id == 0 ? call.first_plan() : call.plan(id, point);
  });
  check_memory(problem, given);
  handle.run(*plan, &given);
}

search::Call search_call(Handle& handle, const Problem& problem, const Constraints& allowed) {
  return {handle, kSoftmax, problem, allowed};
}

std::vector<search::Candidate> find(Handle& handle, const Problem& problem, const Constraints& allowed,
                                    const Problem::Args& given, const search::FindOptions& options) {
  if (handle.stream().capturing())
    fail(Status::kNotInitialized, "find is not possible while the stream is being captured");
  const search::Call call = search_call(handle, problem, allowed);
  check_memory(problem, given);
  std::vector<search::Candidate> found;
  on_aligned(handle, buffers_of(problem, given), given,
             [&](const Problem::Args& aligned) { found = call.find(options, &aligned); });
  return found;
}

}  // namespace polymio::softmax
