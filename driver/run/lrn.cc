// Local response normalisation and its gradient.
// SPDX-License-Identifier: MIT
#include "reference/lrn.h"

#include <cmath>

#include "driver/run/lrn_args.h"
#include "driver/run/tensor_operation.h"

namespace polymio::driver {
namespace {

class Lrn final : public TensorOperation {
 public:
  using TensorOperation::TensorOperation;

  Flags own_flags() override { return lrn_.rows(); }

  std::vector<Operand> operands(Direction which) const override {
    const bool backward = which != kForward;
    std::vector<Operand> all = {{"x", in(), 4}, {"y", out(), 0, backward ? kRead : kWritten}};
    if (lrn_.workspace) all.push_back({"scale", out(), 0, backward ? kRead : kPassed});
    if (backward) all.insert(all.end(), {{"dy", dout(), 1}, {"dx", din(), 0, kWritten}});
    return all;
  }

  void launch(const Session& session, Direction which, Operands& data) const override {
    const auto lrn = create<miopenDestroyLRNDescriptor>(miopenCreateLRNDescriptor, "miopenCreateLRNDescriptor");
    check(miopenSetLRNDescriptor(lrn.get(), static_cast<miopenLRNMode_t>(lrn_.mode), static_cast<unsigned>(lrn_.n),
                                 lrn_.alpha, lrn_.beta, lrn_.k),
          "miopenSetLRNDescriptor");
    Memory &x = data["x"], &y = data["y"];
    void* const scale = lrn_.workspace ? data["scale"].device() : nullptr;
    const auto forward = [&] {
      check(miopenLRNForward(session.get(), lrn.get(), scalars().alpha(), x.descriptor(), x.device(), scalars().beta(),
                             y.descriptor(), y.device(), lrn_.workspace != 0, scale),
            "miopenLRNForward");
    };
    if (which == kForward) return forward();
    if (std::isnan(reference::load(y.operand.tensor.type, y.host(), 0))) {  // the first call
      forward();
      forget_call(session);
      y.buffer().download();
      if (lrn_.workspace) data["scale"].buffer().download();
    }
    Memory &dy = data["dy"], &dx = data["dx"];
    check(miopenLRNBackward(session.get(), lrn.get(), scalars().alpha(), y.descriptor(), y.device(), dy.descriptor(),
                            dy.device(), x.descriptor(), x.device(), scalars().beta(), dx.descriptor(), dx.device(),
                            scale),
          "miopenLRNBackward");
  }

  reference::Result expected(Direction which, Operands& data, const Expectation& wanted) const override {
    if (which == kForward) return evaluate(problem(which), data["x"].host(), nullptr, nullptr, nullptr, wanted.sample);
    return evaluate(problem(which), data["x"].host(), data["y"].host(), data["dy"].host(),
                    lrn_.workspace ? data["scale"].host() : nullptr, wanted.sample);
  }
  reference::Arithmetic arithmetic(Direction which) const override { return reference::arithmetic(problem(which)); }

  reference::Lrn problem(Direction which) const {
    const bool backward = which != kForward;
    return {lrn_.mode == 1, backward, lrn_.n, lrn_.alpha, lrn_.beta,
            lrn_.k,         in(),     out(),  dout(),     backward ? din() : out()};
  }

  LrnArgs lrn_;
};

}  // namespace

std::unique_ptr<Operation> make_lrn(const Primitive& primitive, const std::string& base) {
  return std::make_unique<Lrn>(primitive, base);
}

}  // namespace polymio::driver
