// Optimizers: Adam, AdamW, AdamW of Transformers, with scaled gradients (amp), too.
// SPDX-License-Identifier: MIT
#include "driver/run/adam_args.h"
#include "driver/run/tensor_operation.h"

namespace polymio::driver {
namespace {

class Adam final : public TensorOperation {
 public:
  Adam(const Primitive& primitive, const std::string& base) : TensorOperation(primitive, base), adam_(base) {
    args_.directions = kForward;
  }

  Flags own_flags() override { return adam_.rows(); }
  std::int64_t available() const override { return kForward; }

  std::vector<Operand> operands(Direction) const override {
    const reference::Adam p = problem();
    Operand in{"in", p.state, 1}, out{"out", p.state, 0, kWritten};
    if (adam_.in_place != 0) out = {"out", p.state, 1, kWritten};
    in.positive = out.positive = true;
    std::vector<Operand> all{{"gradient", p.gradient, 1}, {"scalars", {reference::Type::kInt32, {3}}, 0, kPassed}, out};
    if (adam_.in_place == 0) all.push_back(in);
    return all;
  }

  void launch(const Session& session, Direction, Operands& data) const override {
    const reference::Adam p = problem();
    Memory &g = data["gradient"], &out = data["out"], &scalars = data["scalars"];
    auto* const numbers = static_cast<std::int32_t*>(scalars.buffer().host());
    numbers[0] = static_cast<std::int32_t>(adam_.step) - 1;
    numbers[1] = static_cast<std::int32_t>(adam_.scale);
    numbers[2] = static_cast<std::int32_t>(adam_.found_inf);
    scalars.buffer().upload();
    const TensorDescriptor one = make_tensor(miopenInt32, {1}, {1}, kNoType);
    const TensorDescriptor desc = make_tensor(static_cast<int>(p.state.type), in().lens, in().strides, kNoType);
    const auto at = [](Memory& m, std::int64_t element, std::size_t size) {
      return static_cast<void*>(static_cast<char*>(m.device()) + element * static_cast<std::int64_t>(size));
    };
    const auto part = [&](Memory& m, std::int64_t k) {
      return at(m, k * p.state.strides[0], reference::size_of(p.state.type));
    };
    const auto scalar = [&](std::int64_t k, bool given) { return given ? at(scalars, k, 4) : nullptr; };
    const auto scalar_desc = [&](bool given) { return given ? one.get() : nullptr; };
    Memory& from = adam_.in_place != 0 ? out : data["in"];
    const bool counts = adam_.step_tensor != 0, max = p.state.lens[0] == 4;
    const miopenTensorDescriptor_t d = desc.get(), max_desc = max ? d : nullptr;
    const auto f = [](double v) { return static_cast<float>(v); };
    const auto step = static_cast<unsigned>(adam_.step);
    if (p.kind == reference::Optimizer::kTransformersAdamW) {
      return check(miopenTransformersAdamWWithOutput(
                       session.get(), d, part(from, 0), d, part(out, 0), nullptr, nullptr, g.descriptor(), g.device(),
                       d, part(from, 1), d, part(out, 1), d, part(from, 2), d, part(out, 2), scalar_desc(counts),
                       scalar(0, counts), nullptr, nullptr, step, f(p.rate), f(p.beta1), f(p.beta2), f(p.weight_decay),
                       f(p.eps), f(p.step_size), p.correct_bias, scalar_desc(adam_.amp), scalar(1, adam_.amp),
                       scalar_desc(adam_.amp), scalar(2, adam_.amp)),
                   "miopenTransformersAdamWWithOutput");
    }
    check(miopenFusedAdamWithOutput(session.get(), d, part(from, 0), d, part(out, 0), nullptr, nullptr, g.descriptor(),
                                    g.device(), d, part(from, 1), d, part(out, 1), d, part(from, 2), d, part(out, 2),
                                    max_desc, max ? part(from, 3) : nullptr, max_desc, max ? part(out, 3) : nullptr,
                                    scalar_desc(counts), scalar(0, counts), nullptr, nullptr, step, f(p.rate),
                                    f(p.beta1), f(p.beta2), f(p.weight_decay), f(p.eps), max, p.maximize,
                                    p.kind == reference::Optimizer::kAdamW, scalar_desc(adam_.amp),
                                    scalar(1, adam_.amp), scalar_desc(adam_.amp), scalar(2, adam_.amp)),
          "miopenFusedAdamWithOutput");
  }

  reference::Result expected(Direction, Operands& data, const Expectation& wanted) const override {
    const void* const state = adam_.in_place != 0 ? wanted.old : data["in"].host();
    return evaluate(problem(), state, data["gradient"].host());
  }
  reference::Arithmetic arithmetic(Direction) const override { return reference::arithmetic(problem()); }

  reference::Adam problem() const { return adam_.problem(in(), out()); }

  AdamArgs adam_;
};

}  // namespace

std::unique_ptr<Operation> make_adam(const Primitive& primitive, const std::string& base) {
  return std::make_unique<Adam>(primitive, base);
}

}  // namespace polymio::driver
