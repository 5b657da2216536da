// Running a batch norm, on top of the solvers.
// SPDX-License-Identifier: MIT
#include "primitives/batch_norm/batch_norm.h"

#include <array>

#include "core/aligned_buffer.h"
#include "core/tensor_checks.h"
#include "primitives/batch_norm/solvers.h"
#include "primitives/tensor_ops/tensor_ops.h"
#include "search/runner.h"

namespace polymio::batch_norm {
namespace {

class BatchNorm final : public search::Primitive {
 public:
  void validate(const ProblemBase& p) const override { batch_norm::validate(static_cast<const Problem&>(p)); }
  SolverList solvers(const ProblemBase& p, DeviceKind kind) const override {
    return batch_norm::solvers(static_cast<const Problem&>(p).direction, kind);
  }
  SolverList all_solvers() const override { return batch_norm::all_solvers(); }
  std::unique_ptr<const search::ResultCheck> make_check(const ProblemBase& p) const override {
    return batch_norm::make_check(static_cast<const Problem&>(p));
  }
  bool has_find() const override { return false; }
};
constexpr BatchNorm kBatchNorm;

void check_memory(const Problem& p, const Problem::Args& args) {
  require_no_overlap(p.x, args.x, "x", p.out, args.out);
  if (!p.forward()) require_no_overlap(p.dy, args.dy, "dy", p.out, args.out);
}

enum class Type { kX, kOut, kScale, kBias, kMoment };

/// A buffer of the call: the member of Args that has its address.
struct Member {
  const void* Problem::Args::*in = nullptr;
  void* Problem::Args::*out = nullptr;
  Type type;
  const char* name;
};
using Args = Problem::Args;
constexpr Member kMembers[] = {
    {&Args::x, nullptr, Type::kX, "the buffer of x"},
    {&Args::dy, nullptr, Type::kOut, "the buffer of dy"},
    {nullptr, &Args::out, Type::kOut, "the buffer of the result"},
    {&Args::scale, nullptr, Type::kScale, "the scale"},
    {&Args::bias, nullptr, Type::kBias, "the bias"},
    {&Args::mean, nullptr, Type::kMoment, "the mean"},
    {&Args::variance, nullptr, Type::kMoment, "the variance"},
    {nullptr, &Args::next_mean, Type::kMoment, "the running mean"},
    {nullptr, &Args::next_variance, Type::kMoment, "the running variance"},
    {nullptr, &Args::saved_mean, Type::kMoment, "the saved mean"},
    {nullptr, &Args::saved_inverse, Type::kMoment, "the saved inverse variance"},
    {nullptr, &Args::dscale, Type::kBias, "the gradient of the scale"},
    {nullptr, &Args::dbias, Type::kBias, "the gradient of the bias"},
};
constexpr std::size_t kCount = std::size(kMembers);

const void* address(const Args& args, const Member& m) { return m.in ? args.*m.in : args.*m.out; }

TensorDesc desc_of(const Problem& p, const Member& m) {
  if (m.type == Type::kX) return p.x;
  if (m.type == Type::kOut) return m.in ? p.dy : p.out;
  TensorDesc t = p.parameters;
  t.type = t.cast = m.type == Type::kScale ? p.scale_type : m.type == Type::kBias ? p.bias_type : p.moment_type;
  return t;
}

bool all_aligned(const Problem& p, const Args& args) {
  const DataType types[] = {p.x.type, p.out.type, p.scale_type, p.bias_type, p.moment_type};
  for (const Member& m : kMembers)
    if (!is_element_aligned(address(args, m), types[static_cast<int>(m.type)])) return false;
  return true;
}

template <class Body>
void on_copies(Handle& handle, const Problem& p, const Args& given, const Body& body) {
  std::vector<TensorDesc> descs;
  for (const Member& m : kMembers) descs.push_back(desc_of(p, m));
  std::vector<CallerBuffer> buffers;
  for (std::size_t i = 0; i < kCount; ++i)
    buffers.push_back({descs[i], address(given, kMembers[i]), kMembers[i].name, kMembers[i].out != nullptr});
  run_on_aligned(handle.device(), buffers, [&](void* const* data) {
    Args args = given;
    for (std::size_t i = 0; i < kCount; ++i)
      if (const Member& m = kMembers[i]; m.in)
        args.*m.in = data[i];
      else
        args.*m.out = data[i];
    body(args);
  });
}

/// Before memory is taken that goes with the call.
void require_no_capture(Handle& handle, activation::Mode mode) {
  if (handle.stream().capturing())
    fail(Status::kNotInitialized,
         "batch norm with {} allocates memory at each such call, which cannot be captured: let dx be a buffer of its "
         "own, in the type of dy, and beta be 0",
         activation::name_of(mode));
}

void train_or_infer_in_passes(Handle& handle, const Problem& norm, activation::Mode mode, const Args& given) {
  const bool adds = given.keep != 0;
  if (adds) require_no_capture(handle, mode);
  const Memory own(handle, adds ? norm.out.bytes() : 0);
  Args first = given;
  first.blend = 1;
  first.keep = 0;
  if (adds) first.out = own.data();
  run(handle, norm, first);
  activation::Problem::Args last;
  last.x = first.out;
  last.result = given.out;
  last.parameters = given.activation;
  last.scale = given.blend;
  last.keep = given.keep;
  activation::run(handle, activation::forward_problem(mode, norm.out, norm.out), last);
  if (adds) handle.stream().synchronize();  // before the memory goes
}

/// The activation's input z again, the gradient of z in its place, then that of the norm.
void differentiate_in_passes(Handle& handle, Problem norm, activation::Mode mode, Args given) {
  const bool widens = norm.dy.type != norm.x.type;
  const bool in_dx = given.keep == 0 && given.out != given.x && given.out != given.dy;
  if (widens || !in_dx) require_no_capture(handle, mode);
  const TensorDesc packed = make_tensor(norm.dy.type, norm.x.sizes(), {}), z = in_dx ? norm.out : packed;
  const Memory of_x(handle, widens ? packed.bytes() : 0), of_z(handle, in_dx ? 0 : z.bytes());
  if (widens) {
    handle.run([&](Stream& s) { tensor_ops::transform(s, 1, {norm.x, given.x}, 0, {packed, of_x.data()}); });
    norm.x = packed;
    given.x = of_x.data();
  }
  Problem again = norm;
  again.direction = given.mean ? Direction::kInference : Direction::kTraining;
  again.out = z;
  again.dy = {};
  Args first;
  first.x = given.x;
  first.out = in_dx ? given.out : of_z.data();
  first.scale = given.scale;
  first.bias = given.bias;
  first.mean = given.mean;
  first.variance = given.variance;
  first.inverse = true;
  first.epsilon = given.epsilon;
  run(handle, again, first);
  activation::Problem::Args second;
  second.x = first.out;
  second.result = first.out;
  second.dy = given.dy;
  second.parameters = given.activation;
  activation::run(handle, activation::backward_problem(mode, z, z, norm.dy, z), second);
  norm.dy = z;
  given.dy = first.out;
  run(handle, norm, given);
  if (widens || !in_dx) handle.stream().synchronize();  // before the memory goes
}

void run_in_passes(Handle& handle, const Problem& problem, const Args& given) {
  Problem norm = problem;
  norm.activation = activation::Mode::kPassthru;
  validate(norm);
  check_memory(norm, given);
  handle.run_together([&] {
    norm.forward() ? train_or_infer_in_passes(handle, norm, problem.activation, given)
                   : differentiate_in_passes(handle, norm, problem.activation, given);
  });
}

}  // namespace

// A cached plan belongs to exactly this problem, so that a warm call skips validation.
void run(Handle& handle, const Problem& problem, const Problem::Args& given, std::uint64_t id, const TunePoint& point) {
  if (!computes(problem.activation)) return run_in_passes(handle, problem, given);
  if (!all_aligned(problem, given)) {
    validate(problem);
    check_memory(problem, given);
    return on_copies(handle, problem, given, [&](const Args& aligned) { run(handle, problem, aligned, id, point); });
  }
  const auto plan = handle.plans().get({&problem, Constraints{}, id, -1, point.empty() ? nullptr : &point}, [&] {
    for (const Member& m : kMembers)
      if (const void* const data = address(given, m)) handle.stream().check_memory(data, m.name);
    const search::Call call = search_call(handle, problem, {});
    return id == 0 ? call.first_plan() : call.plan(id, point);
  });
  check_memory(problem, given);
  handle.run(*plan, &given);
}

search::Call search_call(Handle& handle, const Problem& problem, const Constraints& allowed) {
  return {handle, kBatchNorm, problem, allowed};
}

}  // namespace polymio::batch_norm
