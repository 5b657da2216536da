// SPDX-License-Identifier: MIT
#include "primitives/convolution/fused.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "primitives/activation/activation.h"
#include "primitives/convolution/cpu/epilogue.h"

namespace polymio::convolution {
namespace {

activation::Mode mode_of(const Problem& p) { return static_cast<activation::Mode>(p.epilogue.activation); }

/// Applies the epilogue to all of y.
Solver<Problem>::Invoker make_pass(Stream& stream, const Problem& p) {
  if (stream.info().kind == DeviceKind::kCpu) return epilogue_pass(stream, p);
  return
      [p, pass = activation::epilogue(stream, p.y, mode_of(p), p.epilogue.bias)](Stream& on, const Problem::Args& a) {
        pass(on, a.y, p.epilogue.bias ? a.bias : nullptr, {a.activation_alpha, a.activation_beta, a.activation_gamma});
      };
}

Problem without_epilogue(const Problem& p) {
  Problem plain = p;
  plain.epilogue = {};
  return plain;
}

class Composed final : public Solver<Problem> {
 public:
  explicit Composed(const SolverBase* solver)
      : Solver(solver->info()), solver_(static_cast<const Solver<Problem>&>(*solver)) {}

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    if (fuses(d, p)) return {};
    if (const Verdict v = check_epilogue(p); !v) return v;
    if (d.kind != DeviceKind::kCpu)
      if (const Verdict v = activation::check_epilogue(d, p.y.type, mode_of(p)); !v) return v;
    return solver_.is_applicable(d, without_epilogue(p));
  }
  ErrorClass error_class(const Problem& p) const override {
    // The pass reads a rounded y, so that the result is not exact; the reference solver stays in double.
    return solver_.info().reference ? solver_.error_class(p) : std::max(ErrorClass::kAccurate, solver_.error_class(p));
  }
  std::size_t workspace_size(const DeviceInfo& d, const Problem& p, const TunePoint& t) const override {
    return solver_.workspace_size(d, seen(d, p), t);
  }
  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& t) const override {
    return solver_.estimate(d, seen(d, p), t) + (fuses(d, p) ? 0 : epilogue_us(d, p));
  }
  TuneSpace tune_space(const DeviceInfo& d, const Problem& p) const override {
    return solver_.tune_space(d, seen(d, p));
  }
  bool is_valid(const DeviceInfo& d, const Problem& p, const TunePoint& t) const override {
    return solver_.is_valid(d, seen(d, p), t);
  }
  TunePoint default_point(const DeviceInfo& d, const Problem& p) const override {
    return solver_.default_point(d, seen(d, p));
  }
  std::vector<KernelSpec> kernel_specs(const DeviceInfo& d, const Problem& p, const TunePoint& t) const override {
    auto specs = solver_.kernel_specs(d, seen(d, p), t);
    if (d.kind != DeviceKind::kCpu && !fuses(d, p))
      std::ranges::move(activation::epilogue_kernels(d, p.y.type, mode_of(p), p.epilogue.bias),
                        std::back_inserter(specs));
    return specs;
  }

  Invoker build(Stream& stream, const Problem& p, const TunePoint& t) const override {
    if (fuses(stream.info(), p)) return solver_.build(stream, p, t);
    return
        [run = solver_.build(stream, without_epilogue(p), t), pass = make_pass(stream, p)](Stream& on, const Args& a) {
          run(on, a);
          pass(on, a);
        };
  }

 private:
  bool fuses(const DeviceInfo& d, const Problem& p) const { return static_cast<bool>(solver_.is_applicable(d, p)); }
  /// The problem that the inner solver runs.
  Problem seen(const DeviceInfo& d, const Problem& p) const { return fuses(d, p) ? p : without_epilogue(p); }

  const Solver<Problem>& solver_;
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
