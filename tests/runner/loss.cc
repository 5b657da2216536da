// Cases of the soft margin loss, its gradient, and the multi margin loss.
// SPDX-License-Identifier: MIT
#include "reference/loss.h"

#include "driver/run/loss_args.h"
#include "primitives/loss/loss.h"
#include "tests/runner/list_case.h"

namespace polymio::test {
namespace {

using SoftLine = ListLine<driver::SoftMarginArgs>;
using MultiLine = ListLine<driver::MultiMarginArgs>;

class LossCase : public ListCase {
 public:
  using ListCase::ListCase;
  reference::Comparison compare(const SolverBase&, std::size_t operand, const void* result) const override {
    return reference::compare(how_, operands[operand].tensor, result, expected_);
  }

 protected:
  loss::Input in(const Args& args, std::size_t i) const { return {describe(operands[i].tensor), args.data[i]}; }
  loss::Output out(const Args& args) const {
    const std::size_t last = operands.size() - 1;
    return {describe(operands[last].tensor), args.data[last]};
  }
  static loss::Workspace space(const Args& args) { return {args.workspace, args.workspace_bytes}; }

  reference::Arithmetic how_;
  reference::Result expected_;
};

class SoftMarginCase final : public LossCase {
 public:
  SoftMarginCase(SoftLine line, bool backward)
      : LossCase(line.text(backward ? driver::kBackwardData : driver::kForward)), backward_(backward) {
    wanted_ = {line.tensor(line.own.x_strides(line.tensors)), line.tensor({}),
               static_cast<reference::LossReduction>(line.own.reduction)};
    const bool single = wanted_.reduction != reference::LossReduction::kNone;
    operands = {{wanted_.x}, {wanted_.target}};
    if (backward) operands.push_back({line.tensor(line.tensors.dy_strides())});
    const reference::Tensor y = single ? reference::Tensor(line.type(), {1}) : line.tensor(line.tensors.y_strides());
    operands.push_back({backward ? line.tensor(line.tensors.dx_strides()) : y, Use::kWritten});
    how_ = arithmetic(wanted_, backward);
  }
  void prepare() override {
    fill();
    // Large arguments, whose exponentials overflow in 16 bits and some in 32 bits.
    const reference::Tensor& x = wanted_.x;
    for (std::int64_t i = 3; i < x.count(); i += 7)
      reference::store(x.type, operands[0].content.data(), x.offset(i), static_cast<double>(i % 400) - 200);
    expected_ = backward_ ? gradient(wanted_, content(0), content(1), operands[2].tensor, content(2))
                          : evaluate(wanted_, content(0), content(1));
  }
  std::size_t workspace(const DeviceInfo& d) const override {
    return backward_ ? 0 : loss::workspace_size(d, problem_of(), describe(operands[2].tensor));
  }
  void execute(Stream& stream, const Args& args) const override {
    loss::SoftMargin p = problem_of();
    p.x = in(args, 0);
    p.target = in(args, 1);
    if (backward_) return loss::soft_margin_backward(stream, p, in(args, 2), out(args));
    loss::soft_margin(stream, p, out(args), space(args));
  }

 private:
  loss::SoftMargin problem_of() const {
    return {{describe(wanted_.x)}, {describe(wanted_.target)}, static_cast<loss::Reduction>(wanted_.reduction)};
  }

  bool backward_;
  reference::SoftMargin wanted_;
};

class MultiMarginCase final : public LossCase {
 public:
  explicit MultiMarginCase(MultiLine line) : LossCase(line.text(driver::kForward)) {
    const std::int64_t rows = line.tensors.lens()[0], classes = line.tensors.lens()[1];
    wanted_ = {line.tensor(line.own.x_strides(line.tensors)),
               {reference::Type::kInt64, {rows}, line.own.list_strides()},
               {line.type(), {classes}, line.own.list_strides()},
               static_cast<reference::LossReduction>(line.own.reduction),
               line.own.power,
               static_cast<float>(line.own.margin)};
    const bool single = wanted_.reduction != reference::LossReduction::kNone;
    operands = {{wanted_.x}, {wanted_.target}, {wanted_.weight}};
    operands.push_back({{line.type(), {single ? 1 : rows}, line.own.list_strides()}, Use::kWritten});
    how_ = arithmetic(wanted_);
  }
  /// Every eighth target is no class.
  void prepare() override {
    fill();
    const std::int64_t classes = wanted_.x.lens[1];
    for (std::int64_t n = 0; n < wanted_.target.count(); ++n)
      reference::store(reference::Type::kInt64, operands[1].content.data(), wanted_.target.offset(n),
                       static_cast<double>(n % 8 == 7 ? (n % 16 == 7 ? -1 : classes) : n * 7 % classes));
    expected_ = evaluate(wanted_, content(0), content(1), content(2));
  }
  std::size_t workspace(const DeviceInfo& d) const override {
    return loss::workspace_size(d, problem_of(), describe(operands[3].tensor));
  }
  void execute(Stream& stream, const Args& args) const override {
    loss::MultiMargin p = problem_of();
    p.x = in(args, 0);
    p.target = in(args, 1);
    p.weight = in(args, 2);
    loss::multi_margin(stream, p, out(args), space(args));
  }

 private:
  loss::MultiMargin problem_of() const {
    return {{describe(wanted_.x)},
            {describe(wanted_.target)},
            {describe(wanted_.weight)},
            static_cast<loss::Reduction>(wanted_.reduction),
            wanted_.power,
            wanted_.margin};
  }

  reference::MultiMargin wanted_;
};

}  // namespace

Cases soft_margin_cases(const std::string& line) {
  const SoftLine parsed(line);
  Cases cases;
  for (const bool backward : {false, true})
    if (parsed.has(backward ? driver::kBackwardData : driver::kForward))
      cases.push_back(std::make_unique<SoftMarginCase>(parsed, backward));
  return cases;
}

Cases multi_margin_cases(const std::string& line) {
  Cases cases;
  cases.push_back(std::make_unique<MultiMarginCase>(MultiLine(line)));
  return cases;
}

}  // namespace polymio::test
