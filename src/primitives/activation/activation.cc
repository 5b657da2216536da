// Running an activation, on top of the solvers.
// SPDX-License-Identifier: MIT
#include "primitives/activation/activation.h"

#include "base/error.h"
#include "core/aligned_buffer.h"
#include "kernels/cpu/kernels_of.h"
#include "primitives/activation/solvers.h"
#include "search/runner.h"

namespace polymio::activation {
namespace {

constexpr std::int64_t kApplyPart = 1 << 14;  // elements per task of apply()

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
    return search::Call(handle, kActivation, problem, {}).first_plan();
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
  const Grid grid = grid_of(p);
  const auto& kernels = kernels::kernels_of<kernels::ActivationKernels>(stream.info().isa);
  if (!grid.flat()) return run_strided(stream, grid, kernels, job);
  for_parts(stream, grid.count(), kApplyPart,
            [&](std::int64_t first, std::int64_t end) { kernels.run(job, first, end); });
}

}  // namespace polymio::activation
