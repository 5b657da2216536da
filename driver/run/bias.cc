// A bias for each channel; its gradient, the sum of the output gradient.
// SPDX-License-Identifier: MIT
#include "driver/run/bias.h"

#include <fmt/format.h>

#include <optional>

#include "driver/run/tensor_operation.h"
#include "reference/tensor_ops.h"

namespace polymio::driver {
namespace {

class Bias final : public TensorOperation {
 public:
  using TensorOperation::TensorOperation;
  // On memory of a convolution; `file` has the elements of the bias unless it is empty.
  Bias(const reference::Tensor& y, Buffer& memory, const std::string& file) : Bias(*find_primitive("bias"), "bias") {
    memory_ = &memory;
    y_ = y;
    file_ = file;
    args_.type = static_cast<DataType>(y.type);
  }

 private:
  Flags own_flags() override { return {}; }

  std::vector<Operand> operands(Direction which) const override {
    const Access of_y = which == kForward ? kWritten : kRead;
    const Operand y{"y", written(), 1, of_y, "", memory_};
    if (which == kForward) return {{"b", bias(), 1, kRead, file_}, y};
    return {y, {"b", bias(), 0, kWritten}};
  }

  void launch(const Session& session, Direction which, Operands& data) const override {
    const Scalars scalars(1, 0, args_.type == kDouble);
    Memory& b = data["b"];
    Memory& y = data["y"];
    if (which == kForward) {
      check(miopenConvolutionForwardBias(session.get(), scalars.alpha(), b.descriptor(), b.device(), scalars.beta(),
                                         y.descriptor(), y.device()),
            "miopenConvolutionForwardBias");
      return;
    }
    check(miopenConvolutionBackwardBias(session.get(), scalars.alpha(), y.descriptor(), y.device(), scalars.beta(),
                                        b.descriptor(), b.device()),
          "miopenConvolutionBackwardBias");
  }

  reference::Result expected(Direction which, Operands& data, const Expectation& wanted) const override {
    if (which == kForward) return reference::bias_forward(1, bias(), data["b"].host(), 1, written(), wanted.old);
    return reference::bias_backward(1, written(), data["y"].host(), 0, bias(), nullptr);
  }
  reference::Arithmetic arithmetic(Direction which) const override {
    const reference::Tensor y = written();
    reference::Arithmetic result;
    result.output = y.type;
    result.accumulate = reference::is_integer(y.type)        ? reference::Type::kInt64
                        : y.type == reference::Type::kDouble ? reference::Type::kDouble
                                                             : reference::Type::kFloat;
    result.reduction_length = which == kForward ? 1 : y.count() / y.lens[1];
    return result;
  }

  reference::Tensor written() const { return memory_ != nullptr ? y_ : in(); }
  reference::Tensor bias() const {
    std::vector<std::int64_t> lens(written().lens.size(), 1);
    lens[1] = written().lens[1];
    return {written().type, lens};
  }

  Buffer* memory_ = nullptr;
  reference::Tensor y_;
  std::string file_;
};

}  // namespace

std::unique_ptr<Operation> make_bias(const Primitive& primitive, const std::string& base) {
  return std::make_unique<Bias>(primitive, base);
}

std::string run_bias(const Session& session, const Problem& problem, TensorData& data, bool verify, Result& result) {
  Bias bias(problem.tensors[kY], data.buffers[kY], problem.args.in_bias);
  const Result ran = bias.run_once(session, problem.direction, verify);
  result.verified = verify ? result.verified && ran.verified : true;
  result.checked = result.checked || verify;
  return verify ? ran.verify_text : fmt::format("{} ran", bias.title(problem.direction));
}

}  // namespace polymio::driver
