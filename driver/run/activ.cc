// Activation functions and their gradients.
// SPDX-License-Identifier: MIT
#include "driver/run/tensor_operation.h"
#include "reference/activation.h"

namespace polymio::driver {
namespace {

constexpr Choice kModes[] = {{"passthru", 0}, {"logistic", 1}, {"tanh", 2},        {"relu", 3},      {"softrelu", 4},
                             {"abs", 5},      {"power", 6},    {"clippedrelu", 7}, {"leakyrelu", 8}, {"elu", 9}};

class Activation final : public TensorOperation {
 public:
  using TensorOperation::TensorOperation;

  Flags own_flags() override {
    return with_scalars({{"m", "mode", Name{&mode_, kModes, true}, "name or number, from 0", Part::kShape},
                         {"A", "alpha", Real{&alpha_}, "alpha of the function", Part::kOption},
                         {"B", "beta", Real{&beta_}, "beta of the function", Part::kOption},
                         {"G", "gamma", Real{&gamma_}, "gamma of the function", Part::kOption}});
  }

  std::vector<Operand> operands(Direction which) const override {
    if (which == kForward) return {{"x", in(), 4}, {"y", out(), old_limit(), kWritten}};
    return {{"x", in(), 4}, {"y", out(), 0, kPassed}, {"dy", dout(), 1}, {"dx", din(), old_limit(), kWritten}};
  }

  void launch(const Session& session, Direction which, Operands& data) const override {
    const auto activ =
        create<miopenDestroyActivationDescriptor>(miopenCreateActivationDescriptor, "miopenCreateActivationDescriptor");
    check(miopenSetActivationDescriptor(activ.get(), static_cast<miopenActivationMode_t>(mode_), alpha_, beta_, gamma_),
          "miopenSetActivationDescriptor");
    Memory& x = data["x"];
    Memory& y = data["y"];
    if (which == kForward) {
      return check(miopenActivationForward(session.get(), activ.get(), scalars().alpha(), x.descriptor(), x.device(),
                                           scalars().beta(), y.descriptor(), y.device()),
                   "miopenActivationForward");
    }
    Memory& dy = data["dy"];
    Memory& dx = data["dx"];
    check(miopenActivationBackward(session.get(), activ.get(), scalars().alpha(), y.descriptor(), y.device(),
                                   dy.descriptor(), dy.device(), x.descriptor(), x.device(), scalars().beta(),
                                   dx.descriptor(), dx.device()),
          "miopenActivationBackward");
  }

  reference::Result expected(Direction which, Operands& data, const Expectation& wanted) const override {
    const void* dy = which == kForward ? nullptr : data["dy"].host();
    return evaluate(problem(which), data["x"].host(), dy, wanted.old, wanted.sample);
  }
  reference::Arithmetic arithmetic(Direction which) const override { return reference::arithmetic(problem(which)); }
  std::string stats_name() const override { return std::string("activ-").append(kModes[mode_].name); }

  reference::Activation problem(Direction which) const {
    reference::Activation p;
    p.mode = static_cast<reference::ActivationMode>(mode_);
    p.backward = which != kForward;
    p.alpha = parameter(alpha_);
    p.beta = parameter(beta_);
    p.gamma = parameter(gamma_);
    p.scale = parameter(scale_);
    p.keep = parameter(keep_);
    p.x = in();
    p.dy = dout();
    p.out = which == kForward ? out() : din();
    return p;
  }

  int mode_ = 3;
  double alpha_ = 0, beta_ = 0, gamma_ = 1;
};

}  // namespace

std::unique_ptr<Operation> make_activation(const Primitive& primitive, const std::string& base) {
  return std::make_unique<Activation>(primitive, base);
}

}  // namespace polymio::driver
