// SPDX-License-Identifier: MIT
#include "primitives/convolution/fused.h"

#include <algorithm>
#include <vector>

#include "primitives/convolution/cpu/epilogue.h"

namespace polymio::convolution {
namespace {

Problem without_epilogue(const Problem& p) {
  Problem plain = p;
  plain.epilogue = {};
  return plain;
}

class Composed final : public Solver<Problem> {
 public:
  explicit Composed(const SolverBase* solver) : solver_(static_cast<const Solver<Problem>&>(*solver)) {}

  SolverInfo info() const override { return solver_.info(); }

  Verdict check(const DeviceInfo& d, const Problem& p) const override {
    if (fuses(d, p)) return {};
    POLYMIO_REQUIRE(d.kind == DeviceKind::kCpu, "what follows the convolution runs on the CPU only");
    if (const Verdict v = check_epilogue(p); !v) return v;
    return solver_.check(d, without_epilogue(p));
  }
  ErrorClass accuracy(const Problem& p) const override {
    // A pass reads what was rounded; the reference solver goes on in double.
    return solver_.info().reference ? solver_.accuracy(p) : std::max(ErrorClass::kAccurate, solver_.accuracy(p));
  }
  std::size_t workspace(const DeviceInfo& d, const Problem& p, const TunePoint& t) const override {
    return solver_.workspace(d, seen(d, p), t);
  }
  double predict(const DeviceInfo& d, const Problem& p, const TunePoint& t) const override {
    return solver_.predict(d, seen(d, p), t) + (fuses(d, p) ? 0 : epilogue_us(d, p));
  }
  TuneSpace knobs(const DeviceInfo& d, const Problem& p) const override { return solver_.knobs(d, seen(d, p)); }
  bool accepts(const DeviceInfo& d, const Problem& p, const TunePoint& t) const override {
    return solver_.accepts(d, seen(d, p), t);
  }
  TunePoint start(const DeviceInfo& d, const Problem& p) const override { return solver_.start(d, seen(d, p)); }
  std::vector<KernelSpec> kernels(const DeviceInfo& d, const Problem& p, const TunePoint& t) const override {
    return solver_.kernels(d, seen(d, p), t);
  }

  Invoker make(Stream& stream, const Problem& p, const TunePoint& t) const override {
    if (fuses(stream.info(), p)) return solver_.make(stream, p, t);
    return [run = solver_.make(stream, without_epilogue(p), t), pass = epilogue_pass(stream, p)](Stream& on,
                                                                                                 const Args& a) {
      run(on, a);
      pass(on, a);
    };
  }

 private:
  bool fuses(const DeviceInfo& d, const Problem& p) const { return static_cast<bool>(solver_.check(d, p)); }
  /// The problem as the solver itself gets it.
  Problem seen(const DeviceInfo& d, const Problem& p) const { return fuses(d, p) ? p : without_epilogue(p); }

  const Solver<Problem>& solver_;
};

/// Of the forward direction; both lists are in the same order.
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
