// Rotary position embeddings and their gradient.
// SPDX-License-Identifier: MIT
#include "driver/run/rope_args.h"
#include "driver/run/tensor_operation.h"
#include "reference/rope.h"

namespace polymio::driver {
namespace {

class Rope final : public TensorOperation {
 public:
  Rope(const Primitive& primitive, const std::string& base) : TensorOperation(primitive, base) {
    use_list(RopeArgs::tensors());
  }

 private:
  Flags own_flags() override { return rope_.rows(args_); }

  std::vector<Operand> operands(Direction which) const override {
    const bool forward = which == kForward;
    return {{"x", forward ? in() : dout(), 1},
            {"cos", rotary(), 1},
            {"sin", rotary(), 1},
            {"y", forward ? out() : din(), 0, kWritten}};
  }

  void launch(const Session& session, Direction which, Operands& data) const override {
    Memory &x = data["x"], &cos = data["cos"], &sin = data["sin"], &y = data["y"];
    if (which == kForward)
      check(miopenRoPEForward(session.get(), x.descriptor(), x.device(), cos.descriptor(), cos.device(),
                              sin.descriptor(), sin.device(), y.descriptor(), y.device()),
            "miopenRoPEForward");
    else
      check(miopenRoPEBackward(session.get(), x.descriptor(), x.device(), cos.descriptor(), cos.device(),
                               sin.descriptor(), sin.device(), y.descriptor(), y.device()),
            "miopenRoPEBackward");
  }

  reference::Result expected(Direction which, Operands& data, const Expectation& wanted) const override {
    const reference::Rope p{data["x"].operand.tensor, rotary(), which != kForward};
    return evaluate(p, data["x"].host(), data["cos"].host(), data["sin"].host(), wanted.sample);
  }
  reference::Arithmetic arithmetic(Direction) const override { return reference::rope_arithmetic(in().type); }

  reference::Tensor rotary() const { return {in().type, rope_.rotary_lens(args_)}; }

  RopeArgs rope_;
};

}  // namespace

std::unique_ptr<Operation> make_rope(const Primitive& primitive, const std::string& base) {
  return std::make_unique<Rope>(primitive, base);
}

}  // namespace polymio::driver
