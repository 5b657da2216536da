// Cases of primitives without solvers: the function behind the C API is run as one. Their lines have a list of sizes.
// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <utility>

#include "driver/run/tensor_args.h"
#include "tests/runner/line.h"
#include "tests/runner/runner.h"
#include "tests/runner/tensors.h"

namespace polymio::test {

/// A parsed line. Own: the flags of the primitive, with its name in `kName`, `tensors()`, its sizes, and `rows()`.
template <class Own>
struct ListLine {
  explicit ListLine(const std::string& line) {
    const std::vector<std::string> arguments = driver::split_line(line);
    base = arguments[0];
    tensors.type = type_of(base, {Own::kName, kFloats});
    const driver::Flags rows = own.rows(tensors);
    parse_arguments(arguments, rows);
    tensors.check(rows, rows);
  }
  /// The line of one direction.
  std::string text(driver::Direction which) {
    tensors.directions = which;
    driver::TensorArgs fresh_tensors = Own::tensors();
    Own fresh;
    return base + flags_text(own.rows(tensors), fresh.rows(fresh_tensors), 2, false);
  }
  bool has(driver::Direction which) const { return tensors.directions == 0 || (tensors.directions & which) != 0; }
  reference::Type type() const { return static_cast<reference::Type>(tensors.type); }
  reference::Tensor tensor(const std::vector<std::int64_t>& strides) const { return {type(), tensors.lens(), strides}; }

  driver::TensorArgs tensors = Own::tensors();
  Own own;
  std::string base;
};

class ListCase : public Case {
 public:
  struct Args {
    std::span<void* const> data;
    void* workspace;
    std::size_t workspace_bytes;
  };

  explicit ListCase(std::string line) : problem_(this, std::move(line)) {}
  std::string line() const final { return problem_.key(); }
  const ProblemBase& problem() const final { return problem_; }
  SolverList solvers(DeviceKind) const final;
  bool has_problem_of(const Case& other) const final { return problem_.equals(other.problem()); }
  void run(const AnyInvoker& invoke, Stream& stream, std::span<void* const> data, void* workspace,
           std::size_t workspace_bytes) const final {
    const Args args{data, workspace, workspace_bytes};
    invoke(stream, &args);
  }

  virtual void execute(Stream&, const Args&) const = 0;
  virtual std::size_t workspace(const DeviceInfo&) const { return 0; }

  class Problem final : public ProblemBase {
   public:
    using Args = ListCase::Args;
    Problem(const ListCase* owner, std::string text) : owner_(owner), text_(std::move(text)) {}
    const ListCase& owner() const { return *owner_; }
    std::string key() const override { return text_; }
    std::uint64_t hash() const override { return std::hash<std::string>{}(text_); }
    bool equals(const ProblemBase& o) const override { return text_ == o.key(); }
    std::unique_ptr<ProblemBase> clone() const override { return std::make_unique<Problem>(*this); }
    std::string family() const override { return text_; }
    std::vector<float> log_sizes() const override { return {}; }
    double work() const override { return 1; }

   private:
    const ListCase* owner_;
    std::string text_;
  };

 protected:
  /// Random contents of every operand, NaN between the elements; every ninth element of the first is 0.
  void fill() {
    for (std::size_t i = 0; i < operands.size(); ++i)
      operands[i].content = random_tensor(operands[i].tensor, i + 1, Gaps::kNan);
    const reference::Tensor& first = operands[0].tensor;
    for (std::int64_t i = 8; i < first.count(); i += 9)
      reference::store(first.type, operands[0].content.data(), first.offset(i), 0);
  }
  const void* content(std::size_t operand) const { return operands[operand].content.data(); }

 private:
  Problem problem_;
};

}  // namespace polymio::test
