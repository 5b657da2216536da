// A convolution, bias, batch norm and activation as one fusion plan.
// SPDX-License-Identifier: MIT
#include "driver/run/fusion_args.h"
#include "driver/run/tensor_operation.h"

namespace polymio::driver {
namespace {

class Fusion final : public TensorOperation {
 public:
  Fusion(const Primitive& primitive, const std::string& base) : TensorOperation(primitive, base) {
    args_.batch = 32;
    args_.directions = kForward;
  }
  ~Fusion() override {
    if (plan_ != nullptr) miopenDestroyFusionPlan(plan_);
  }

 private:
  Flags own_flags() override { return fusion_.rows(); }
  std::int64_t available() const override { return kForward; }

  std::vector<Operand> operands(Direction) const override {
    const reference::Fusion p = problem();
    std::vector<Operand> all{{"x", p.convolution.x, 1}, {"y", p.convolution.y, 0, kWritten}};
    if (p.has_convolution) all.push_back({"w", p.convolution.w, 1});
    if (p.has_bias) all.push_back({"bias", p.bias, 1});
    if (!p.has_norm) return all;
    all.push_back({"scale", p.norm.scales, 1});
    all.push_back({"shift", p.norm.biases, 1});
    all.push_back({"mean", p.norm.moments, 1});
    all.push_back({"variance", p.norm.moments, 1, kRead, {}, nullptr, true});
    return all;
  }

  void launch(const Session& session, Direction, Operands& data) const override {
    const reference::Fusion p = problem();
    Memory &x = data["x"], &y = data["y"];
    if (plan_ == nullptr) make_plan(session, p, data);
    const auto args = create<miopenDestroyOperatorArgs>(miopenCreateOperatorArgs, "miopenCreateOperatorArgs");
    const auto device = [&](const char* name) { return data[name].device(); };
    if (p.has_convolution)
      check(miopenSetOpArgsConvForward(args.get(), convolution_, nullptr, nullptr, device("w")),
            "miopenSetOpArgsConvForward");
    if (p.has_bias)
      check(miopenSetOpArgsBiasForward(args.get(), bias_, nullptr, nullptr, device("bias")),
            "miopenSetOpArgsBiasForward");
    if (p.has_norm)
      check(miopenSetOpArgsBatchNormInference(args.get(), norm_, nullptr, nullptr, device("scale"), device("shift"),
                                              device("mean"), device("variance"), fusion_.epsilon),
            "miopenSetOpArgsBatchNormInference");
    if (p.has_activation)
      check(miopenSetOpArgsActivForward(args.get(), activation_, nullptr, nullptr, fusion_.alpha, fusion_.beta,
                                        fusion_.gamma),
            "miopenSetOpArgsActivForward");
    check(miopenExecuteFusionPlan(session.get(), plan_, x.descriptor(), x.device(), y.descriptor(), y.device(),
                                  args.get()),
          "miopenExecuteFusionPlan");
  }

  void make_plan(const Session& session, const reference::Fusion& p, Operands& data) const {
    check(miopenCreateFusionPlan(&plan_, miopenVerticalFusion, data["x"].descriptor()), "miopenCreateFusionPlan");
    if (p.has_convolution) {
      const auto convolution = create<miopenDestroyConvolutionDescriptor>(miopenCreateConvolutionDescriptor,
                                                                          "miopenCreateConvolutionDescriptor");
      const auto ints = [](const std::vector<std::int64_t>& all) { return std::vector<int>(all.begin(), all.end()); };
      const reference::Convolution& c = p.convolution;
      check(miopenInitConvolutionNdDescriptor(convolution.get(), static_cast<int>(c.pad.size()), ints(c.pad).data(),
                                              ints(c.stride).data(), ints(c.dilation).data(), miopenConvolution),
            "miopenInitConvolutionNdDescriptor");
      check(miopenSetConvolutionGroupCount(convolution.get(), static_cast<int>(c.groups)),
            "miopenSetConvolutionGroupCount");
      check(miopenCreateOpConvForward(plan_, &convolution_, convolution.get(), data["w"].descriptor()),
            "miopenCreateOpConvForward");
    }
    if (p.has_bias)
      check(miopenCreateOpBiasForward(plan_, &bias_, data["bias"].descriptor()), "miopenCreateOpBiasForward");
    if (p.has_norm)
      check(miopenCreateOpBatchNormInference(plan_, &norm_, p.norm.spatial ? miopenBNSpatial : miopenBNPerActivation,
                                             data["scale"].descriptor()),
            "miopenCreateOpBatchNormInference");
    if (p.has_activation)
      check(
          miopenCreateOpActivationForward(plan_, &activation_, static_cast<miopenActivationMode_t>(fusion_.activation)),
          "miopenCreateOpActivationForward");
    check(miopenCompileFusionPlan(session.get(), plan_), "miopenCompileFusionPlan");
  }

  reference::Result expected(Direction, Operands& data, const Expectation& wanted) const override {
    const reference::Fusion p = problem();
    const auto host = [&](bool has, const char* name) { return has ? data[name].host() : nullptr; };
    const reference::FusionInputs in{
        data["x"].host(),          host(p.has_convolution, "w"), host(p.has_bias, "bias"),    host(p.has_norm, "scale"),
        host(p.has_norm, "shift"), host(p.has_norm, "mean"),     host(p.has_norm, "variance")};
    return evaluate(p, in, wanted.sample);
  }
  reference::Arithmetic arithmetic(Direction) const override { return reference::arithmetic(problem()); }

  reference::Fusion problem() const {
    reference::Fusion p = fusion_.problem(args_);
    p.activation.alpha = parameter(fusion_.alpha);
    p.activation.beta = parameter(fusion_.beta);
    p.activation.gamma = parameter(fusion_.gamma);
    return p;
  }

  FusionArgs fusion_;
  // Made by the first run; the operations belong to it.
  mutable miopenFusionPlanDescriptor_t plan_ = nullptr;
  mutable miopenFusionOpDescriptor_t convolution_ = nullptr, bias_ = nullptr, norm_ = nullptr, activation_ = nullptr;
};

}  // namespace

std::unique_ptr<Operation> make_fusion(const Primitive& primitive, const std::string& base) {
  return std::make_unique<Fusion>(primitive, base);
}

}  // namespace polymio::driver
