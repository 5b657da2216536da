// Running a reduction, on top of the solvers.
// SPDX-License-Identifier: MIT
#include "primitives/reduce/reduce.h"

#include "base/error.h"
#include "core/aligned_buffer.h"

namespace polymio::reduce {
namespace {

class Reduce final : public search::Primitive {
 public:
  void validate(const ProblemBase& p) const override { reduce::validate(static_cast<const Problem&>(p)); }
  SolverList solvers(const ProblemBase&, DeviceKind kind) const override { return reduce::solvers(kind); }
  SolverList all_solvers() const override { return reduce::all_solvers(); }
  std::unique_ptr<const search::ResultCheck> make_check(const ProblemBase& p) const override {
    return reduce::make_check(static_cast<const Problem&>(p));
  }
  bool has_find() const override { return false; }
};
constexpr Reduce kReduce;

void require_separate_buffers(const Problem& p, const Problem::Args& args) {
  const auto check = [](const TensorDesc& in, const void* data, const char* name, const TensorDesc& out,
                        const void* result, const char* out_name) {
    if (!in.packed() || !out.packed()) return;
    const auto first = reinterpret_cast<std::uintptr_t>(data), begin = reinterpret_cast<std::uintptr_t>(result);
    require(first + in.bytes() <= begin || begin + out.bytes() <= first,
            "{} overlaps {}: it starts {} bytes from it, and must be another buffer", out_name, name,
            static_cast<std::int64_t>(begin - first));
  };
  const bool in_place = args.a == args.c && p.a == p.c;
  if (p.has_values() && !in_place) check(p.a, args.a, "a", p.c, args.c, "c");
  if (p.has_positions()) check(p.a, args.a, "a", p.positions, args.positions, "the buffer of indices");
  if (p.has_values() && p.has_positions())
    check(p.c, args.c, "c", p.positions, args.positions, "the buffer of indices");
}

/// That of the best solver that does with so much workspace. Most callers give what the best needs.
std::shared_ptr<const Plan> plan_within(Handle& handle, const Problem& p, std::size_t workspace,
                                        std::span<const CallerBuffer> buffers) {
  const auto plan = [&](const Constraints& allowed) {
    return handle.plans().get({&p, allowed}, [&] {
      for (const CallerBuffer& b : buffers)
        if (b.data) handle.stream().check_memory(b.data, b.name);
      return search_call(handle, p, allowed).first_plan();
    });
  };
  Constraints allowed;
  if (!p.allows_workspace()) allowed.workspace_limit = 0;
  const auto best = plan(allowed);
  if (best->workspace <= workspace) return best;
  allowed.workspace_limit = workspace;
  return plan(allowed);
}

}  // namespace

std::size_t workspace_bytes(Handle& handle, const Problem& p) {
  return plan_within(handle, p, SIZE_MAX, {})->workspace;
}

// A cached plan belongs to exactly this problem, so that a warm call skips validation.
void run(Handle& handle, const Problem& p, const Problem::Args& given) {
  const CallerBuffer buffers[] = {{p.a, given.a, "the buffer of a"},
                                  {p.c, given.c, "the buffer of c", true},
                                  {p.positions, given.positions, "the buffer of indices", true}};
  if (!are_aligned(buffers)) {
    validate(p);
    require_separate_buffers(p, given);
    return run_on_aligned(handle.device(), buffers, [&](void* const* data) {
      Problem::Args args = given;
      args.a = data[0];
      args.c = data[1];
      args.positions = data[2];
      run(handle, p, args);
    });
  }
  const auto plan = plan_within(handle, p, given.workspace ? given.workspace_bytes : 0, buffers);
  require_separate_buffers(p, given);
  handle.run(*plan, &given);
}

search::Call search_call(Handle& handle, const Problem& p, const Constraints& allowed) {
  return {handle, kReduce, p, allowed};
}

}  // namespace polymio::reduce
