// The multi margin loss.
// SPDX-License-Identifier: MIT
#include "driver/run/loss_args.h"
#include "driver/run/tensor_operation.h"
#include "reference/loss.h"

namespace polymio::driver {
namespace {

class MultiMarginLoss final : public TensorOperation {
 public:
  MultiMarginLoss(const Primitive& primitive, const std::string& base) : TensorOperation(primitive, base) {
    use_list(MultiMarginArgs::tensors());
  }

 private:
  Flags own_flags() override { return loss_.rows(args_); }
  std::int64_t available() const override { return kForward; }

  std::vector<Operand> operands(Direction) const override {
    const reference::MultiMargin p = problem();
    const std::int64_t outputs = p.reduction == reference::LossReduction::kNone ? args_.lens()[0] : 1;
    Operand target{"target", p.target, static_cast<double>(args_.lens()[1])};
    target.positive = true;
    return {{"x", p.x, 1}, target, {"weight", p.weight, 1}, {"y", {p.x.type, {outputs}}, 0, kWritten}};
  }

  void launch(const Session& session, Direction, Operands& data) const override {
    const auto reduction = static_cast<miopenLossReductionMode_t>(loss_.reduction);
    const auto margin = static_cast<float>(loss_.margin);
    Memory &x = data["x"], &target = data["target"], &weight = data["weight"], &y = data["y"];
    std::size_t bytes = 0;
    check(miopenGetMultiMarginLossForwardWorkspaceSize(session.get(), x.descriptor(), target.descriptor(),
                                                       weight.descriptor(), y.descriptor(), loss_.power, margin,
                                                       reduction, &bytes),
          "miopenGetMultiMarginLossForwardWorkspaceSize");
    void* const workspace = data.workspace(session, bytes);
    check(miopenMultiMarginLossForward(session.get(), x.descriptor(), x.device(), target.descriptor(), target.device(),
                                       weight.descriptor(), weight.device(), y.descriptor(), y.device(), loss_.power,
                                       margin, reduction, workspace, bytes),
          "miopenMultiMarginLossForward");
  }

  reference::Result expected(Direction, Operands& data, const Expectation&) const override {
    return evaluate(problem(), data["x"].host(), data["target"].host(), data["weight"].host());
  }
  reference::Arithmetic arithmetic(Direction) const override { return reference::arithmetic(problem()); }

  reference::MultiMargin problem() const {
    const std::vector<std::int64_t> lens = args_.lens();
    if (lens.size() != 2)
      throw ArgError("-D --dim: the input of the multi margin loss has two sizes, rows and classes");
    return {{in().type, lens, loss_.x_strides(args_)},
            {reference::Type::kInt64, {lens[0]}, loss_.list_strides()},
            {in().type, {lens[1]}, loss_.list_strides()},
            static_cast<reference::LossReduction>(loss_.reduction),
            loss_.power,
            static_cast<float>(loss_.margin)};
  }

  MultiMarginArgs loss_;
};

}  // namespace

std::unique_ptr<Operation> make_multi_margin_loss(const Primitive& primitive, const std::string& base) {
  return std::make_unique<MultiMarginLoss>(primitive, base);
}

}  // namespace polymio::driver
