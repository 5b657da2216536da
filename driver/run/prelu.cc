// The gradients of the parametric ReLU.
// SPDX-License-Identifier: MIT
#include "driver/run/prelu_args.h"
#include "driver/run/tensor_operation.h"
#include "reference/prelu.h"

namespace polymio::driver {
namespace {

class Prelu final : public TensorOperation {
 public:
  Prelu(const Primitive& primitive, const std::string& base) : TensorOperation(primitive, base) {
    use_list(PreluArgs::tensors());
  }

 private:
  Flags own_flags() override { return prelu_.rows(args_); }
  std::int64_t available() const override { return kBackwardData; }

  std::vector<Operand> operands(Direction) const override {
    return {{"x", in(), 1},
            {"weight", weight(), 1},
            {"dy", dout(), 1},
            {"dx", din(), 0, kWritten},
            {"dweight", weight(), 0, kWritten}};
  }

  void launch(const Session& session, Direction, Operands& data) const override {
    Memory &x = data["x"], &w = data["weight"], &dy = data["dy"], &dx = data["dx"], &dw = data["dweight"];
    std::size_t bytes = 0;
    check(miopenGetPReLUBackwardWorkspaceSize(session.get(), x.descriptor(), w.descriptor(), &bytes),
          "miopenGetPReLUBackwardWorkspaceSize");
    void* const workspace = data.workspace(session, bytes);
    check(miopenPReLUBackward(session.get(), workspace, bytes, x.descriptor(), x.device(), w.descriptor(), w.device(),
                              dy.descriptor(), dy.device(), dx.descriptor(), dx.device(), dw.descriptor(), dw.device()),
          "miopenPReLUBackward");
  }

  reference::Result expected(Direction, Operands& data, const Expectation& wanted) const override {
    const reference::Prelu p{in(), dout(), weight()};
    if (wanted.name == "dweight") return prelu_weight(p, data["x"].host(), data["dy"].host());
    return prelu_input(p, data["x"].host(), data["weight"].host(), data["dy"].host(), wanted.sample);
  }
  reference::Arithmetic arithmetic(Direction) const override {
    return reference::arithmetic({in(), dout(), weight()}, false);
  }
  reference::Arithmetic arithmetic_of(Direction, std::string_view name) const override {
    return reference::arithmetic({in(), dout(), weight()}, name == "dweight");
  }

  reference::Tensor weight() const { return {in().type, {prelu_.weights}}; }

  PreluArgs prelu_;
};

}  // namespace

std::unique_ptr<Operation> make_prelu(const Primitive& primitive, const std::string& base) {
  return std::make_unique<Prelu>(primitive, base);
}

}  // namespace polymio::driver
