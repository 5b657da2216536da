// Softmax and its gradient.
// SPDX-License-Identifier: MIT
#include "reference/softmax.h"

#include "driver/run/softmax_args.h"
#include "driver/run/tensor_operation.h"

namespace polymio::driver {
namespace {

class Softmax final : public TensorOperation {
 public:
  using TensorOperation::TensorOperation;

  Flags own_flags() override { return softmax_.rows(args_); }

  std::vector<Operand> operands(Direction which) const override {
    if (which == kForward) return {{"x", in(), 4}, {"y", out(), old_limit(), kWritten}};
    return {{"y", out(), 1}, {"dy", dout(), 1}, {"dx", din(), old_limit(), kWritten}};
  }

  void launch(const Session& session, Direction which, Operands& data) const override {
    const auto algorithm = static_cast<miopenSoftmaxAlgorithm_t>(softmax_.algorithm);
    const auto mode = static_cast<miopenSoftmaxMode_t>(softmax_.mode);
    Memory& y = data["y"];
    if (which == kForward) {
      Memory& x = data["x"];
      return check(miopenSoftmaxForward_V2(session.get(), scalars().alpha(), x.descriptor(), x.device(),
                                           scalars().beta(), y.descriptor(), y.device(), algorithm, mode),
                   "miopenSoftmaxForward_V2");
    }
    Memory& dy = data["dy"];
    Memory& dx = data["dx"];
    check(miopenSoftmaxBackward_V2(session.get(), scalars().alpha(), y.descriptor(), y.device(), dy.descriptor(),
                                   dy.device(), scalars().beta(), dx.descriptor(), dx.device(), algorithm, mode),
          "miopenSoftmaxBackward_V2");
  }

  reference::Result expected(Direction which, Operands& data, const Expectation& wanted) const override {
    const bool forward = which == kForward;
    return evaluate(problem(which), data[forward ? "x" : "y"].host(), forward ? nullptr : data["dy"].host(), wanted.old,
                    wanted.sample);
  }
  reference::Arithmetic arithmetic(Direction which) const override { return reference::arithmetic(problem(which)); }
  std::string stats_name() const override {
    return std::string("softmax-").append(kSoftmaxAlgorithms[softmax_.algorithm].name);
  }

 private:
  reference::Softmax problem(Direction which) const {
    const bool backward = which != kForward;
    return {backward,
            softmax_.algorithm == MIOPEN_SOFTMAX_LOG,
            softmax_.mode == MIOPEN_SOFTMAX_MODE_INSTANCE,
            parameter(args_.scale),
            parameter(args_.keep),
            backward ? out() : in(),
            dout(),
            backward ? din() : out()};
  }

  SoftmaxArgs softmax_;
};

}  // namespace

std::unique_ptr<Operation> make_softmax(const Primitive& primitive, const std::string& base) {
  return std::make_unique<Softmax>(primitive, base);
}

}  // namespace polymio::driver
