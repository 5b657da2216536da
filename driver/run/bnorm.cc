// Batch normalisation: training or inference, and the gradient. Verifies y and dx.
// SPDX-License-Identifier: MIT
#include "driver/run/bnorm_args.h"
#include "driver/run/tensor_operation.h"
#include "reference/batch_norm.h"

namespace polymio::driver {
namespace {

using reference::Tensor;

class BatchNorm final : public TensorOperation {
 public:
  using TensorOperation::TensorOperation;

  Flags own_flags() override { return norm_.rows(args_); }
  std::int64_t directions() const override { return norm_.directions(); }
  std::string line(Direction which) override {
    const BnormArgs given = norm_;
    (which == kForward ? norm_.backward : norm_.forward) = 0;
    if (which != kForward) norm_.backward = 1;
    std::string text = TensorOperation::line(which);
    norm_ = given;
    return text;
  }

  std::vector<Operand> operands(Direction which) const override {
    const reference::BatchNorm p = problem(which);
    const bool forward = which == kForward, training = forward && norm_.forward == 1, save = norm_.save != 0;
    const bool given = forward ? !training || norm_.run != 0 : save;
    std::vector<Operand> all = {{"x", p.x, 1}, {"scale", p.scales, 1}, {"bias", p.biases, 1}};
    for (const char* name : {"mean", "variance"})
      all.push_back({name, p.moments, given ? 1.0 : 0.0, given ? kRead : kPassed, {}, nullptr, true});
    if (training && save)
      for (const char* name : {"saved_mean", "saved_inverse"}) all.push_back({name, p.moments, 0, kWritten});
    all.push_back({forward ? "y" : "dx", p.out, old_limit(), kWritten});
    if (forward) return all;
    all.push_back({"dy", p.dy, 1});
    for (const char* name : {"dscale", "dbias"}) all.push_back({name, p.biases, 0, kWritten});
    return all;
  }

  void launch(const Session& session, Direction which, Operands& data) const override {
    const auto mode = static_cast<miopenBatchNormMode_t>(norm_.mode);
    const auto activ =
        create<miopenDestroyActivationDescriptor>(miopenCreateActivationDescriptor, "miopenCreateActivationDescriptor");
    check(miopenSetActivationDescriptor(activ.get(), static_cast<miopenActivationMode_t>(norm_.activation),
                                        norm_.activation_alpha, norm_.activation_beta, norm_.activation_gamma),
          "miopenSetActivationDescriptor");
    float alpha = static_cast<float>(args_.scale), beta = static_cast<float>(args_.keep), one = 1, zero = 0;
    Memory &x = data["x"], &scale = data["scale"], &bias = data["bias"], &mean = data["mean"];
    Memory &variance = data["variance"], &out = data[which == kForward ? "y" : "dx"];
    const auto device = [&](const char* name, bool given) { return given ? data[name].device() : nullptr; };
    const bool save = norm_.save != 0, run = norm_.run != 0;
    if (which != kForward) {
      Memory& dy = data["dy"];
      return check(
          miopenBatchNormBackwardActivation(
              session.get(), mode, &alpha, &beta, &one, &zero, x.descriptor(), x.device(), dy.descriptor(), dy.device(),
              out.descriptor(), out.device(), scale.descriptor(), bias.descriptor(), mean.descriptor(),
              variance.descriptor(), scale.device(), bias.device(), data["dscale"].device(), data["dbias"].device(),
              norm_.epsilon, device("mean", save), device("variance", save), activ.get()),
          "miopenBatchNormBackwardActivation");
    }
    if (norm_.forward == 1) {
      return check(miopenBatchNormForwardTrainingActivation(
                       session.get(), mode, &alpha, &beta, x.descriptor(), x.device(), out.descriptor(), out.device(),
                       scale.descriptor(), bias.descriptor(), mean.descriptor(), variance.descriptor(), scale.device(),
                       bias.device(), norm_.factor, device("mean", run), device("variance", run), norm_.epsilon,
                       device("saved_mean", save), device("saved_inverse", save), activ.get()),
                   "miopenBatchNormForwardTrainingActivation");
    }
    if (norm_.inverse != 0) {
      return check(miopenBatchNormForwardInferenceActivationInvVariance(
                       session.get(), mode, &alpha, &beta, x.descriptor(), x.device(), out.descriptor(), out.device(),
                       scale.descriptor(), bias.descriptor(), mean.descriptor(), variance.descriptor(), scale.device(),
                       bias.device(), mean.device(), variance.device(), activ.get()),
                   "miopenBatchNormForwardInferenceActivationInvVariance");
    }
    check(miopenBatchNormForwardInferenceActivation(
              session.get(), mode, &alpha, &beta, x.descriptor(), x.device(), out.descriptor(), out.device(),
              scale.descriptor(), bias.descriptor(), mean.descriptor(), variance.descriptor(), scale.device(),
              bias.device(), mean.device(), variance.device(), norm_.epsilon, activ.get()),
          "miopenBatchNormForwardInferenceActivation");
  }

  reference::Result expected(Direction which, Operands& data, const Expectation& wanted) const override {
    reference::BatchNormInputs in;
    in.x = data["x"].host();
    in.old = wanted.old;
    in.scale = data["scale"].host();
    in.bias = data["bias"].host();
    if (which != kForward) in.dy = data["dy"].host();
    if ((which == kForward && norm_.forward == 2) || (which != kForward && norm_.save != 0)) {
      in.mean = data["mean"].host();
      in.variance = data["variance"].host();
    }
    reference::BatchNorm p = problem(which);
    if (wanted.name != "y" && wanted.name != "dx") p.keep = 0;  // the old contents are another tensor's
    const reference::BatchNormResults all = evaluate(p, in);
    if (wanted.name == "saved_mean") return all.mean;
    if (wanted.name == "saved_inverse") return all.inverse;
    return wanted.name == "dscale" ? all.dscale : wanted.name == "dbias" ? all.dbias : all.out;
  }
  reference::Arithmetic arithmetic(Direction which) const override {
    const reference::BatchNorm p = problem(which);
    return reference::arithmetic(p, p.out.type);
  }
  reference::Arithmetic arithmetic_of(Direction which, std::string_view name) const override {
    const reference::BatchNorm p = problem(which);
    const bool gradient = name == "dscale" || name == "dbias";
    const reference::Tensor& tensor = name == "y" || name == "dx" ? p.out : gradient ? p.biases : p.moments;
    return reference::arithmetic(p, tensor.type);
  }

  reference::BatchNorm problem(Direction which) const {
    reference::BatchNorm p = norm_.problem(args_, which == kForward);
    p.parameter_scale = 1;
    p.parameter_keep = 0;
    return p;
  }

  BnormArgs norm_;
};

}  // namespace

std::unique_ptr<Operation> make_batch_norm(const Primitive& primitive, const std::string& base) {
  return std::make_unique<BatchNorm>(primitive, base);
}

}  // namespace polymio::driver
