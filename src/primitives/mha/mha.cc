// Running attention, on top of the solvers.
// SPDX-License-Identifier: MIT
#include "primitives/mha/mha.h"

#include <algorithm>

#include "base/error.h"
#include "core/aligned_buffer.h"
#include "core/tensor_checks.h"

namespace polymio::mha {
namespace {

class Attention final : public search::Primitive {
 public:
  void validate(const ProblemBase& p) const override { mha::validate(static_cast<const Problem&>(p)); }
  SolverList solvers(const ProblemBase& p, DeviceKind kind) const override {
    return mha::solvers(static_cast<const Problem&>(p).direction, kind);
  }
  SolverList all_solvers() const override { return mha::all_solvers(); }
  std::unique_ptr<const search::ResultCheck> make_check(const ProblemBase& p) const override {
    return mha::make_check(static_cast<const Problem&>(p));
  }
  bool has_find() const override { return false; }
};
constexpr Attention kAttention;

TensorDesc scalar_desc(DataType type) {
  const std::int64_t sizes[] = {1};
  return make_tensor(type, sizes, {});
}

/// A buffer of the arguments.
struct Slot {
  const TensorDesc* desc = nullptr;
  const void** data = nullptr;
  const char* name = "";
  bool is_output = false, is_optional = false;
};

/// The buffers of a call.
class Slots {
 public:
  Slots(const Problem& p, Problem::Args& a) : statistics_(p.statistics()) {
    const bool forward = p.forward();
    add({&p.q, &a.q, "q"});
    add({&p.k, &a.k, "k"});
    add({&p.v, &a.v, "v"});
    add({&p.o, of(a.o), "o", forward});
    add({&statistics_, of(a.m), "m", forward, forward});
    add({&statistics_, of(a.z_inv), "z_inv", forward, forward});
    if (p.has_bias()) add({&p.bias, &a.bias, "bias"});
    if (!forward) {
      add({&p.dout, &a.dout, "dout"});
      add({&p.dq, of(a.dq), "dq", true});
      add({&p.dk, of(a.dk), "dk", true});
      add({&p.dv, of(a.dv), "dv", true});
    }
    static const TensorDesc number = scalar_desc(DataType::kFloat), integer = scalar_desc(DataType::kInt64);
    for (const void*& scalar : a.scalars) add({&number, &scalar, "a scale", false, true});
    add({&number, &a.probability, "the dropout probability", false, true});
    add({&integer, &a.seed, "the dropout seed", false, true});
    add({&integer, &a.offset, "the dropout offset", false, true});
    for (void*& largest : a.amax) add({&number, of(largest), "a largest magnitude", true, true});
  }
  Slots(const Slots&) = delete;
  Slots& operator=(const Slots&) = delete;

  std::span<const Slot> all() const { return {all_.data(), count_}; }

  bool are_aligned() const {
    return std::all_of(all().begin(), all().end(),
                       [](const Slot& s) { return is_element_aligned(*s.data, s.desc->type); });
  }
  void check_given() const {
    for (const Slot& s : all()) require(*s.data || s.is_optional, "the buffer of {} is null", s.name);
  }
  void check_overlap() const {
    for (const Slot& out : all()) {
      if (!out.is_output) continue;
      for (const Slot& other : all())
        if (other.data != out.data) require_apart(*other.desc, *other.data, other.name, *out.desc, *out.data, out.name);
    }
  }
  void check_memory(const Stream& stream) const {
    for (const Slot& s : all())
      if (*s.data) stream.check_memory(*s.data, s.name);
  }

 private:
  static const void** of(void*& p) { return const_cast<const void**>(&p); }
  void add(const Slot& slot) { all_[count_++] = slot; }

  const TensorDesc statistics_;
  std::array<Slot, 11 + kScalars + 3 + kAmaxes> all_;
  std::size_t count_ = 0;
};

void check_arguments(const Problem::Args& a, const Slots& slots) {
  slots.check_given();
  require((a.probability && a.seed && a.offset) || (!a.probability && !a.seed && !a.offset),
          "dropout needs a probability, a seed and an offset, or none of them");
  require(a.mask == Mask::kNone || a.mask == Mask::kCausal, "mask {} is unknown: allowed are 0 (none), 1 (causal)",
          static_cast<int>(a.mask));
  slots.check_overlap();
}

/// The smallest alignment of q, k, v, o and gradients, in bytes.
int alignment(const Problem::Args& a) {
  std::uintptr_t bits = 16;
  for (const void* p : {a.q, a.k, a.v, static_cast<const void*>(a.o), a.dout, static_cast<const void*>(a.dq),
                        static_cast<const void*>(a.dk), static_cast<const void*>(a.dv)})
    bits |= reinterpret_cast<std::uintptr_t>(p);
  return 1 << __builtin_ctzll(bits);
}

/// Calls body with the arguments on buffers of aligned elements.
template <class Body>
void on_aligned(Handle& handle, const Problem& p, const Problem::Args& given, const Body& body) {
  Problem::Args args = given;
  const Slots slots(p, args);
  std::vector<CallerBuffer> buffers;
  for (const Slot& s : slots.all()) buffers.push_back({*s.desc, *s.data, s.name, s.is_output});
  run_on_aligned(handle.device(), buffers, [&](void* const* data) {
    for (const Slot& s : slots.all()) *s.data = *data++;
    body(args);
  });
}

}  // namespace

// A cached plan belongs to exactly this problem, so that a warm call skips validation.
void run(Handle& handle, const Problem& problem, const Problem::Args& given, std::uint64_t id, const TunePoint& point) {
  Problem::Args args = given;
  const Slots slots(problem, args);
  if (!slots.are_aligned()) {
    validate(problem);
    check_arguments(given, slots);
    return on_aligned(handle, problem, given,
                      [&](const Problem::Args& aligned) { run(handle, problem, aligned, id, point); });
  }
  Constraints allowed;
  allowed.workspace_limit = args.workspace ? args.workspace_bytes : 0;
  allowed.alignment = alignment(args);
  const auto plan = handle.plans().get({&problem, allowed, id, -1, point.empty() ? nullptr : &point}, [&] {
    slots.check_memory(handle.stream());
    const search::Call call = search_call(handle, problem, allowed);
    return id == 0 ? call.first_plan() : call.plan(id, point);
  });
  check_arguments(args, slots);
  constexpr std::uintptr_t kWidest = 8;  // bytes of a number that GPU solvers keep in workspace
  require(plan->workspace == 0 || reinterpret_cast<std::uintptr_t>(args.workspace) % kWidest == 0,
          "the workspace starts at {}, but must start at a multiple of {} bytes", args.workspace, kWidest);
  handle.run(*plan, &args);
}

std::size_t workspace_size(const DeviceInfo& device, const Problem& p) {
  std::size_t most = 0;
  for (const SolverBase* solver : solvers(p.direction, device.kind)) {
    const ProblemBase& problem = p;
    if (solver->is_applicable(device, problem))
      most = std::max(most, solver->workspace_size(device, problem, solver->default_point(device, problem)));
  }
  return most;
}

std::vector<KernelSpec> programs(const DeviceInfo& device, DataType type, Direction direction) {
  const bool known = type == DataType::kFloat || type == DataType::kHalf || type == DataType::kBFloat16 || is_fp8(type);
  if (device.kind == DeviceKind::kCpu || !known) return {};
  std::vector<KernelSpec> all;
  for (const std::int64_t head_size : {64, 128}) {
    const std::int64_t sizes[] = {1, 1, 1, head_size};
    const TensorDesc t = make_tensor(type, sizes, {});
    const bool forward = direction == Direction::kForward;
    const Problem problem = forward ? forward_problem(t, t, t, t) : backward_problem(t, t, t, t, t, t, t, t);
    const ProblemBase& p = problem;
    for (const SolverBase* solver : solvers(direction, device.kind))
      if (solver->is_applicable(device, p))
        std::ranges::move(solver->kernel_specs(device, p, solver->default_point(device, p)), std::back_inserter(all));
  }
  return all;
}

search::Call search_call(Handle& handle, const Problem& problem, const Constraints& allowed) {
  return {handle, kAttention, problem, allowed};
}

std::vector<search::Candidate> find(Handle& handle, const Problem& problem, const Constraints& allowed,
                                    const Problem::Args& given, const search::FindOptions& options) {
  if (handle.stream().capturing())
    fail(Status::kNotInitialized, "find is not possible while the stream is being captured");
  const search::Call call = search_call(handle, problem, allowed);
  Problem::Args args = given;
  check_arguments(args, Slots(problem, args));
  std::vector<search::Candidate> found;
  on_aligned(handle, problem, given, [&](const Problem::Args& aligned) { found = call.find(options, &aligned); });
  return found;
}

}  // namespace polymio::mha
