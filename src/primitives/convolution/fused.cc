// SPDX-License-Identifier: MIT
#include "primitives/convolution/fused.h"

#include <algorithm>
#include <vector>

#include "core/composite.h"
#include "primitives/activation/activation.h"
#include "primitives/convolution/cpu/epilogue.h"

namespace polymio::convolution {
namespace {

activation::Mode mode_of(const Problem& p) { return static_cast<activation::Mode>(p.epilogue.activation); }

bool on_cpu(const DeviceInfo& d) { return d.kind == DeviceKind::kCpu; }

/// Applies the epilogue to all of y. No solver of the primitive: it is only a step.
class EpiloguePass final : public Solver<Problem> {
 public:
  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    if (const Verdict v = check_epilogue(p); !v) return v;
    return on_cpu(d) ? Verdict{} : activation::check_epilogue(d, p.y.type, mode_of(p));
  }
  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint&) const override { return epilogue_us(d, p); }
  std::vector<KernelSpec> kernel_specs(const DeviceInfo& d, const Problem& p, const TunePoint&) const override {
    if (on_cpu(d)) return {};
    return activation::epilogue_kernels(d, p.y.type, mode_of(p), p.epilogue.bias);
  }
  Invoker build(Stream& stream, const Problem& p, const TunePoint&) const override {
    if (on_cpu(stream.info())) return epilogue_pass(stream, p);
    return [p, pass = activation::epilogue(stream, p.y, mode_of(p), p.epilogue.bias)](Stream& on, const Args& a) {
      pass(on, a.y, p.epilogue.bias ? a.bias : nullptr, {a.activation_alpha, a.activation_beta, a.activation_gamma});
    };
  }
};

/// A solver, and the pass if the solver refuses the epilogue.
class Composed final : public Composite {
 public:
  explicit Composed(const SolverBase* solver) : Composite(solver->info()), solver_(*solver) {}

  ErrorClass error_class(const ProblemBase& p) const override {
    // The pass reads a rounded y, so that the result is not exact; the reference solver stays in double.
    return info().reference ? solver_.error_class(p) : std::max(ErrorClass::kAccurate, solver_.error_class(p));
  }

 private:
  Verdict steps(const DeviceInfo& d, const ProblemBase& problem, Steps& to) const override {
    static const EpiloguePass pass;
    const Problem& p = static_cast<const Problem&>(problem);
    if (solver_.is_applicable(d, problem)) {
      to.add(solver_, problem, kAllKnobs);
      return {};
    }
    if (const Verdict v = pass.is_applicable(d, p); !v) return v;
    Problem plain = p;
    plain.epilogue = {};
    to.add(solver_, plain, kAllKnobs);
    to.add(pass, p);
    return {};
  }

  const SolverBase& solver_;
};

/// The solvers of the forward direction, composed; both vectors have the same order.
struct ComposedList {
  std::vector<Composed> objects;
  std::vector<const SolverBase*> pointers;
  explicit ComposedList(DeviceKind kind) {
    for (const SolverBase* s : solvers(Direction::kForward, kind)) objects.emplace_back(s);
    for (const Composed& c : objects) pointers.push_back(&c);
  }
};

}  // namespace

SolverList solvers(const Problem& p, DeviceKind kind) {
  if (p.epilogue.empty() || p.direction != Direction::kForward) return solvers(p.direction, kind);
  static const ComposedList composed(DeviceKind::kCpu), composed_gpu(DeviceKind::kCuda);
  return (kind == DeviceKind::kCpu ? composed : composed_gpu).pointers;
}

}  // namespace polymio::convolution
