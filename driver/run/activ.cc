// Activation functions and their gradients.
// SPDX-License-Identifier: MIT
#include "driver/run/activ_args.h"
#include "driver/run/tensor_operation.h"
#include "reference/activation.h"

namespace polymio::driver {
namespace {

class Activation final : public TensorOperation {
 public:
  using TensorOperation::TensorOperation;

  Flags own_flags() override { return args_.with_scalars(activation_.rows()); }

  std::vector<Operand> operands(Direction which) const override {
    if (which == kForward) return {{"x", in(), 4}, {"y", out(), old_limit(), kWritten}};
    return {{"x", in(), 4}, {"y", out(), 0, kPassed}, {"dy", dout(), 1}, {"dx", din(), old_limit(), kWritten}};
  }

  void launch(const Session& session, Direction which, Operands& data) const override {
    const auto activ =
        create<miopenDestroyActivationDescriptor>(miopenCreateActivationDescriptor, "miopenCreateActivationDescriptor");
    check(miopenSetActivationDescriptor(activ.get(), static_cast<miopenActivationMode_t>(activation_.mode),
                                        activation_.alpha, activation_.beta, activation_.gamma),
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
  std::string stats_name() const override {
    return std::string("activ-").append(kActivationModes[activation_.mode].name);
  }

  reference::Activation problem(Direction which) const {
    reference::Activation p;
    p.mode = static_cast<reference::ActivationMode>(activation_.mode);
    p.backward = which != kForward;
    p.alpha = parameter(activation_.alpha);
    p.beta = parameter(activation_.beta);
    p.gamma = parameter(activation_.gamma);
    p.scale = parameter(args_.scale);
    p.keep = parameter(args_.keep);
    p.x = in();
    p.dy = dout();
    p.out = which == kForward ? out() : din();
    return p;
  }

  ActivationArgs activation_;
};

}  // namespace

std::unique_ptr<Operation> make_activation(const Primitive& primitive, const std::string& base) {
  return std::make_unique<Activation>(primitive, base);
}

}  // namespace polymio::driver
