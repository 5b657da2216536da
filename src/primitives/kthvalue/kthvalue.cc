// Running kthvalue, on top of the solvers.
// SPDX-License-Identifier: MIT
#include "primitives/kthvalue/kthvalue.h"

#include "base/error.h"
#include "core/aligned_buffer.h"

namespace polymio::kthvalue {
namespace {

class Kthvalue final : public search::Primitive {
 public:
  void validate(const ProblemBase& p) const override { kthvalue::validate(static_cast<const Problem&>(p)); }
  SolverList solvers(const ProblemBase&, DeviceKind kind) const override { return kthvalue::solvers(kind); }
  SolverList all_solvers() const override { return kthvalue::all_solvers(); }
  std::unique_ptr<const search::ResultCheck> make_check(const ProblemBase& p) const override {
    return kthvalue::make_check(static_cast<const Problem&>(p));
  }
  bool has_find() const override { return false; }
};
constexpr Kthvalue kKthvalue;

void require_separate_buffers(const Problem& p, const Problem::Args& args) {
  const auto check = [](const TensorDesc& a, const void* a_data, const char* a_name, const TensorDesc& b,
                        const void* b_data, const char* b_name) {
    if (!a.packed() || !b.packed()) return;
    const auto first = reinterpret_cast<std::uintptr_t>(a_data), begin = reinterpret_cast<std::uintptr_t>(b_data);
    require(first + a.bytes() <= begin || begin + b.bytes() <= first,
            "{} overlaps {}: it starts {} bytes from it, and must be another buffer", b_name, a_name,
            static_cast<std::int64_t>(begin - first));
  };
  check(p.x, args.x, "the input", p.y, args.y, "the output");
  check(p.x, args.x, "the input", p.indices, args.indices, "the buffer of indices");
  check(p.y, args.y, "the output", p.indices, args.indices, "the buffer of indices");
}

}  // namespace

// A cached plan belongs to exactly this problem, so that a warm call skips validation.
void run(Handle& handle, const Problem& p, const Problem::Args& given) {
  const CallerBuffer buffers[] = {{p.x, given.x, "the buffer of the input"},
                                  {p.y, given.y, "the buffer of the output", true},
                                  {p.indices, given.indices, "the buffer of indices", true}};
  if (!are_aligned(buffers)) {
    validate(p);
    require_separate_buffers(p, given);
    return run_on_aligned(handle.device(), buffers, [&](void* const* data) {
      run(handle, p, {data[0], data[1], data[2]});
    });
  }
  const auto plan = handle.plans().get({&p, Constraints{}}, [&] {
    for (const CallerBuffer& b : buffers) handle.stream().check_memory(b.data, b.name);
    return search::Call(handle, kKthvalue, p, {}).first_plan();
  });
  require_separate_buffers(p, given);
  handle.run(*plan, &given);
}

}  // namespace polymio::kthvalue
