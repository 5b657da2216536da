// Running a pooling, on top of the solvers.
// SPDX-License-Identifier: MIT
#include "primitives/pooling/pooling.h"

#include <fmt/format.h>

#include "base/error.h"
#include "core/aligned_buffer.h"
#include "search/runner.h"

namespace polymio::pooling {
namespace {

class Pooling final : public search::Primitive {
 public:
  void validate(const ProblemBase& p) const override { pooling::validate(static_cast<const Problem&>(p)); }
  SolverList solvers(const ProblemBase& p, DeviceKind kind) const override {
    return pooling::solvers(static_cast<const Problem&>(p).direction, kind);
  }
  SolverList all_solvers() const override { return pooling::all_solvers(); }
  std::unique_ptr<const search::ResultCheck> make_check(const ProblemBase& p) const override {
    return pooling::make_check(static_cast<const Problem&>(p));
  }
  bool has_find() const override { return false; }
};
constexpr Pooling kPooling;

struct Memory {
  const char* name;
  const void* data;
  std::size_t bytes;
  bool dense;  // else other memory may be between its elements
};

void require_apart(const Memory& written, const Memory& other) {
  if (!other.data || (written.data != other.data && !(written.dense && other.dense))) return;
  const auto a = reinterpret_cast<std::uintptr_t>(written.data), b = reinterpret_cast<std::uintptr_t>(other.data);
  if (a + written.bytes <= b || b + other.bytes <= a) return;
  fail(Status::kBadParm,
       "{} overlaps {}: a window is read after neighbours of its result are written, so each needs "
       "memory of its own",
       written.name, other.name);
}

void check_memory(const Problem& p, const Problem::Args& args) {
  const auto tensor = [](const char* name, const TensorDesc& t, const void* data) {
    return Memory{name, data, t.rank == 0 ? 0 : t.bytes(), t.packed()};
  };
  const Memory result = tensor(p.forward() ? "y" : "dx", p.output(), args.result);
  const Memory x = tensor("x", p.x, p.uses(p.x) ? args.x : nullptr), dy = tensor("dy", p.dy, args.dy);
  const Memory index{"the workspace", p.index == Index::kNone ? nullptr : args.index, index_bytes(p), true};
  for (const Memory& other : {x, dy, index}) require_apart(result, other);
  if (p.forward() && index.data) require_apart(index, x);
}

}  // namespace

// A cached plan belongs to exactly this problem, so that a warm call skips validation.
void run(Handle& handle, const Problem& problem, const Problem::Args& given) {
  Problem::Args args = given;
  const CallerBuffer buffers[] = {{problem.x, problem.uses(problem.x) ? given.x : nullptr, "the buffer of x"},
                                  {problem.dy, given.dy, "the buffer of dy"},
                                  {problem.output(), given.result, "the buffer of the result", true}};
  if (!are_aligned(buffers)) {
    validate(problem);
    check_memory(problem, given);
    return run_on_aligned(handle.device(), buffers, [&](void* const* data) {
      args.x = data[0];
      args.dy = data[1];
      args.result = data[2];
      run(handle, problem, args);
    });
  }
  if (problem.index != Index::kNone && handle.device().kind != DeviceKind::kCpu)
    require(reinterpret_cast<std::uintptr_t>(given.index) % size_of(problem.index) == 0,
            "the workspace is at an address that is no multiple of {} bytes, the size of an index",
            size_of(problem.index));
  const auto plan = handle.plans().get({&problem, Constraints{}}, [&] {
    const Stream& stream = handle.stream();
    if (problem.uses(problem.x)) stream.check_memory(given.x, "the buffer of x");
    stream.check_memory(given.result, problem.forward() ? "the buffer of y" : "the buffer of dx");
    if (!problem.forward()) stream.check_memory(given.dy, "the buffer of dy");
    if (problem.index != Index::kNone) stream.check_memory(given.index, "the workspace");
    return search::Call(handle, kPooling, problem, {}).first_plan();
  });
  check_memory(problem, given);
  handle.run(*plan, &args);
}

}  // namespace polymio::pooling
