// Cases of operations without solvers: the function behind the C API as a solver, and a problem that is its line.
// SPDX-License-Identifier: MIT
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tests/runner/line.h"
#include "tests/runner/runner.h"

namespace polymio::test {

struct LineProblem final : ProblemBase {
  using Args = std::span<void* const>;  // the operands of the case
  std::string text;

  std::string key() const override { return text; }
  std::string family() const override { return text; }
  std::vector<float> log_sizes() const override { return {}; }
  double work() const override { return 1; }
  std::uint64_t hash() const override { return std::hash<std::string>{}(text); }
  bool equals(const ProblemBase& o) const override { return o.key() == text; }
  std::unique_ptr<ProblemBase> clone() const override { return std::make_unique<LineProblem>(*this); }
};

/// A case that is its own solver: run() gets the operands' addresses.
class PassCase : public Case, private Solver<LineProblem> {
 public:
  explicit PassCase(const char* name) : Solver(info_of(name)) {}
  std::string line() const final { return problem_.text; }
  const ProblemBase& problem() const final { return problem_; }
  SolverList solvers(DeviceKind) const final { return {&self_, 1}; }
  bool has_problem_of(const Case& other) const final { return problem_.equals(other.problem()); }
  void run(const AnyInvoker& invoke, Stream& stream, std::span<void* const> data, void*, std::size_t) const final {
    invoke(stream, &data);
  }
  reference::Comparison compare(const SolverBase&, std::size_t, const void* result) const final {
    return compare(result);
  }

 protected:
  virtual void run(Stream&, std::span<void* const> data) const = 0;
  virtual reference::Comparison compare(const void* result) const = 0;
  /// Of the only tensor that is written.
  void set_output(std::size_t operand, Use use) {
    output_ = operand;
    operands[operand].use = use;
  }

  LineProblem problem_;
  std::size_t output_ = 0;

 private:
  static SolverInfo info_of(const char* name) {
    SolverInfo info;
    info.name = name;
    info.devices = ~0u;
    return info;
  }
  Verdict is_applicable(const DeviceInfo&, const LineProblem&) const final { return {}; }
  double estimate(const DeviceInfo&, const LineProblem&, const TunePoint&) const final { return 0; }
  Invoker build(Stream&, const LineProblem&, const TunePoint&) const final {
    return [this](Stream& stream, const LineProblem::Args& data) { run(stream, data); };
  }
  const SolverBase* self_ = this;
};

}  // namespace polymio::test
