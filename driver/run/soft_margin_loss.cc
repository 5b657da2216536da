// The soft margin loss and its gradient.
// SPDX-License-Identifier: MIT
#include "driver/run/loss_args.h"
#include "driver/run/tensor_operation.h"
#include "reference/loss.h"

namespace polymio::driver {
namespace {

class SoftMarginLoss final : public TensorOperation {
 public:
  SoftMarginLoss(const Primitive& primitive, const std::string& base) : TensorOperation(primitive, base) {
    use_list(SoftMarginArgs::tensors());
  }

 private:
  Flags own_flags() override { return loss_.rows(args_); }

  std::vector<Operand> operands(Direction which) const override {
    const reference::SoftMargin p = problem();
    const bool reduced = p.reduction != reference::LossReduction::kNone;
    const Operand x{"x", p.x, 1}, target{"target", p.target, 1};
    if (which != kForward) return {x, target, {"dy", dout(), 1}, {"dx", din(), 0, kWritten}};
    return {x, target, {"y", reduced ? reference::Tensor(p.x.type, {1}) : out(), 0, kWritten}};
  }

  void launch(const Session& session, Direction which, Operands& data) const override {
    const auto reduction = static_cast<miopenLossReductionMode_t>(loss_.reduction);
    Memory &x = data["x"], &target = data["target"];
    if (which != kForward) {
      Memory &dy = data["dy"], &dx = data["dx"];
      return check(
          miopenSoftMarginLossBackward(session.get(), x.descriptor(), x.device(), target.descriptor(), target.device(),
                                       dy.descriptor(), dy.device(), dx.descriptor(), dx.device(), reduction),
          "miopenSoftMarginLossBackward");
    }
    Memory& y = data["y"];
    std::size_t bytes = 0;
    check(miopenGetSoftMarginLossForwardWorkspaceSize(session.get(), x.descriptor(), target.descriptor(),
                                                      y.descriptor(), reduction, &bytes),
          "miopenGetSoftMarginLossForwardWorkspaceSize");
    void* const workspace = data.workspace(session, bytes);
    check(miopenSoftMarginLossForward(session.get(), x.descriptor(), x.device(), target.descriptor(), target.device(),
                                      y.descriptor(), y.device(), reduction, workspace, bytes),
          "miopenSoftMarginLossForward");
  }

  reference::Result expected(Direction which, Operands& data, const Expectation&) const override {
    const void *x = data["x"].host(), *target = data["target"].host();
    if (which == kForward) return evaluate(problem(), x, target);
    return gradient(problem(), x, target, dout(), data["dy"].host());
  }
  reference::Arithmetic arithmetic(Direction which) const override {
    return reference::arithmetic(problem(), which != kForward);
  }

  reference::SoftMargin problem() const {
    return {{in().type, args_.lens(), loss_.x_strides(args_)},
            {in().type, args_.lens()},
            static_cast<reference::LossReduction>(loss_.reduction)};
  }

  SoftMarginArgs loss_;
};

}  // namespace

std::unique_ptr<Operation> make_soft_margin_loss(const Primitive& primitive, const std::string& base) {
  return std::make_unique<SoftMarginLoss>(primitive, base);
}

}  // namespace polymio::driver
