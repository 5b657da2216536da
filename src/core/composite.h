// A solver made of other solvers: steps in order on one stream, each with a problem of its own, in one workspace. For a
// problem whose parts have solvers: a convolution and its epilogue, the products of an RNN. Works on every kind of
// device on which the steps' solvers work. A derived class lists the steps of a problem.
// SPDX-License-Identifier: MIT
#pragma once
#include <utility>
#include <vector>

#include "base/function_ref.h"
#include "core/solver.h"

namespace polymio {

/// How many values of the composite's tune point are a step's; with none the step runs at its default point.
inline constexpr std::size_t kNoKnobs = 0, kAllKnobs = SIZE_MAX;

/// One step, valid while steps() lists it.
struct Step {
  const SolverBase& solver;
  const ProblemBase& problem;
  std::size_t knobs;
  FunctionRef<AnyInvoker(AnyInvoker)> bind;  // makes an invoker that takes the composite's Args
};

/// A part of the workspace that one step writes and later ones read.
struct WorkspaceBuffer {
  std::size_t offset = 0;
  void* in(void* workspace) const { return static_cast<char*>(workspace) + offset; }
};

/// Where a composite lists the steps of a problem. The workspace holds the scratch of the running step, at its start,
/// and then the buffers.
class Steps {
 public:
  Steps(std::size_t first_buffer, FunctionRef<void(const Step&)> visit) : end_(first_buffer), visit_(visit) {}

  /// A step that takes the composite's Args.
  void add(const SolverBase& solver, const ProblemBase& problem, std::size_t knobs = kNoKnobs) {
    const auto bind = [](AnyInvoker run) { return run; };
    visit_({solver, problem, knobs, bind});
  }

  /// A step whose Args are arguments(the composite's Args) at each call; its scratch is at the start of the workspace.
  template <class Args, class Inner, class Arguments>
  void add(const SolverBase& solver, const Inner& problem, const Arguments& arguments, std::size_t knobs = kNoKnobs) {
    const auto bind = [&arguments](AnyInvoker run) -> AnyInvoker {
      return [run = std::move(run), arguments](Stream& stream, const void* args) {
        const typename Inner::Args own = arguments(*static_cast<const Args*>(args));
        run(stream, &own);
      };
    };
    visit_({solver, problem, knobs, bind});
  }

  /// Memory between steps, aligned to 256 bytes from the start of the workspace.
  WorkspaceBuffer buffer(std::size_t bytes);

  std::size_t end() const { return end_; }  // of the last buffer

 private:
  std::size_t end_;
  FunctionRef<void(const Step&)> visit_;
};

class Composite : public SolverBase {
 public:
  explicit Composite(const SolverInfo& info) : info_(info) {}

  SolverInfo info() const override { return info_; }
  Verdict is_applicable(const DeviceInfo&, const ProblemBase&) const override;  // the first refusal of a step
  /// That of the least exact step; may not depend on the device.
  ErrorClass error_class(const ProblemBase&) const override;
  std::size_t workspace_size(const DeviceInfo&, const ProblemBase&, const TunePoint&) const override;
  double estimate(const DeviceInfo&, const ProblemBase&, const TunePoint&) const override;  // the sum
  /// Those of the steps with knobs, in order.
  TuneSpace tune_space(const DeviceInfo&, const ProblemBase&) const override;
  bool is_valid(const DeviceInfo&, const ProblemBase&, const TunePoint&) const override;
  TunePoint default_point(const DeviceInfo&, const ProblemBase&) const override;
  std::vector<KernelSpec> kernel_specs(const DeviceInfo&, const ProblemBase&, const TunePoint&) const override;
  AnyInvoker build(Stream&, const ProblemBase&, const TunePoint&) const override;

 protected:
  /// Lists the steps, the same ones at every call for a problem on a device, or says why there are none. Does not
  /// allocate.
  virtual Verdict steps(const DeviceInfo&, const ProblemBase&, Steps&) const = 0;

 private:
  /// Calls `each` for every step; returns the end of the last buffer.
  std::size_t visit(const DeviceInfo&, const ProblemBase&, FunctionRef<void(const Step&)> each,
                    std::size_t first_buffer = 0) const;
  /// Returns the bytes of all buffers; sets `scratch` to the most that a step needs.
  std::size_t measure(const DeviceInfo&, const ProblemBase&, const TunePoint&, std::size_t& scratch) const;

  SolverInfo info_;
};

}  // namespace polymio
