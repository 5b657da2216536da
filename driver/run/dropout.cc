// Dropout, and its gradient with the same mask.
// SPDX-License-Identifier: MIT
#include "reference/dropout.h"

#include "driver/run/dropout_args.h"
#include "driver/run/tensor_operation.h"

namespace polymio::driver {
namespace {

class Dropout final : public TensorOperation {
 public:
  using TensorOperation::TensorOperation;

  Flags own_flags() override { return dropout_.rows(); }

  // Backward x and y are dy and dx.
  std::vector<Operand> operands(Direction which) const override {
    const bool backward = which != kForward;
    const reference::Tensor from = backward ? dout() : in(), to = backward ? din() : out();
    const std::int64_t numbers = std::int64_t{16384} * 6;
    std::vector<Operand> all = {
        {"x", from, 1}, {"y", to, 0, kWritten}, {"states", {reference::Type::kInt32, {numbers}}, 0, kPassed}};
    if (dropout_.reserve) all.push_back({"reserve", {reference::Type::kInt8, {from.count()}}, 100, kPassed});
    return all;
  }

  // Starts the generators every time, so that a verified run draws the same mask.
  void launch(const Session& session, Direction which, Operands& data) const override {
    const auto descriptor =
        create<miopenDestroyDropoutDescriptor>(miopenCreateDropoutDescriptor, "miopenCreateDropoutDescriptor");
    Memory &x = data["x"], &y = data["y"], &states = data["states"];
    check(miopenSetDropoutDescriptor(descriptor.get(), session.get(), static_cast<float>(dropout_.rate),
                                     states.device(), states.buffer().bytes(), dropout_.seed(), dropout_.use_mask != 0,
                                     dropout_.state_evo != 0, MIOPEN_RNG_PSEUDO_XORWOW),
          "miopenSetDropoutDescriptor");
    void* const reserve = dropout_.reserve ? data["reserve"].device() : nullptr;
    const std::size_t bytes = dropout_.reserve ? data["reserve"].buffer().bytes() : 0;
    const auto run = which == kForward ? miopenDropoutForward : miopenDropoutBackward;
    check(run(session.get(), descriptor.get(), x.descriptor(), x.descriptor(), x.device(), y.descriptor(), y.device(),
              reserve, bytes),
          which == kForward ? "miopenDropoutForward" : "miopenDropoutBackward");
  }

  reference::Result expected(Direction which, Operands& data, const Expectation&) const override {
    Memory& x = data["x"];
    const reference::Tensor& tensor = x.operand.tensor;
    const auto rate = static_cast<float>(dropout_.rate);
    std::vector<unsigned char> mask;
    if (which == kForward ? dropout_.use_mask != 0 : dropout_.reserve != 0) {
      mask = data["reserve"].contents();
    } else {
      auto states = reference::start_generators(dropout_.seed(), reference::generators_for(tensor.count()));
      mask = reference::draw_mask(states, tensor.count(), rate);
    }
    return reference::dropout(tensor, x.host(), mask.data(), rate);
  }
  reference::Arithmetic arithmetic(Direction) const override {
    reference::Arithmetic how;
    how.output = in().type;
    how.accumulate = how.output == reference::Type::kDouble ? reference::Type::kDouble : reference::Type::kFloat;
    return how;
  }

  DropoutArgs dropout_;
};

}  // namespace

std::unique_ptr<Operation> make_dropout(const Primitive& primitive, const std::string& base) {
  return std::make_unique<Dropout>(primitive, base);
}

}  // namespace polymio::driver
