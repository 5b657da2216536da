// Cases of optimizers. They have no solvers, so the function behind the C API is run as one. The state is one operand:
// parameters, means, mean squares, maxima.
// SPDX-License-Identifier: MIT
#include "primitives/optimizer/optimizer.h"

#include <cmath>

#include "driver/run/adam_args.h"
#include "tests/runner/pass.h"
#include "tests/runner/tensors.h"

namespace polymio::test {
namespace {

void* after(void* data, std::int64_t bytes) { return static_cast<char*>(data) + bytes; }

class OptimizerCase final : public PassCase {
 public:
  OptimizerCase(const driver::AdamArgs& args, const driver::TensorArgs& tensors, std::string text)
      : PassCase("Optimizer"), args_(args) {
    const auto tensor = [&](const std::vector<std::int64_t>& strides) {
      return reference::Tensor(static_cast<reference::Type>(tensors.type), tensors.lens(), strides);
    };
    problem_.text = std::move(text);
    wanted_ = args.problem(tensor(tensors.x_strides()), tensor(tensors.y_strides()));
    operands = {{wanted_.state}, {wanted_.gradient}, {reference::Tensor(reference::Type::kInt32, {3})}};
    if (args.in_place != 0) {
      set_output(0, Use::kUpdated);
    } else {
      operands.push_back({wanted_.state});
      set_output(3, Use::kWritten);
    }
  }
  void prepare() override {
    for (std::size_t i : {0, 1}) operands[i].content = random_tensor(operands[i].tensor, i + 1, Gaps::kNan);
    if (output_ == 3) operands[3].content.assign(operands[3].tensor.bytes(), kPoison);
    const reference::Tensor& state = operands[0].tensor;
    for (std::int64_t i = state.count() / state.lens[0] * 2; i < state.count(); ++i) {  // squares
      const std::int64_t at = state.offset(i);
      const double v = reference::load(state.type, operands[0].content.data(), at);
      reference::store(state.type, operands[0].content.data(), at, std::fabs(v));
    }
    operands[2].content.resize(operands[2].tensor.bytes());
    const double scalars[] = {wanted_.step - 1, wanted_.scale, wanted_.skip ? 1.0 : 0.0};
    for (std::int64_t i = 0; i < 3; ++i)
      reference::store(reference::Type::kInt32, operands[2].content.data(), i, scalars[i]);
    expected_ = evaluate(wanted_, operands[0].content.data(), operands[1].content.data());
  }
  void run(Stream& stream, std::span<void* const> data) const override {
    const reference::Adam& w = wanted_;
    const std::int64_t part = w.state.strides[0] * static_cast<std::int64_t>(reference::size_of(w.state.type));
    const TensorDesc state =
        describe({w.state.type, w.gradient.lens, {w.state.strides.begin() + 1, w.state.strides.end()}});
    const TensorDesc gradient = describe(w.gradient), one = describe({reference::Type::kInt32, {1}});
    const auto of = [&](void* from, std::int64_t k) { return optimizer::Operand{&state, after(from, k * part)}; };
    const auto scalar = [&](std::int64_t k) { return optimizer::Operand{&one, after(data[2], 4 * k)}; };
    optimizer::Adam a;
    a.algorithm = static_cast<optimizer::Algorithm>(w.kind);
    a.param = of(data[0], 0);
    a.gradient = {&gradient, data[1]};
    a.mean = of(data[0], 1);
    a.square = of(data[0], 2);
    a.param_out = of(data[output_], 0);
    a.mean_out = of(data[output_], 1);
    a.square_out = of(data[output_], 2);
    a.amsgrad = w.state.lens[0] == 4;
    if (a.amsgrad) {
      a.max = of(data[0], 3);
      a.max_out = of(data[output_], 3);
    }
    if (args_.step_tensor != 0) a.last_step = scalar(0);
    if (args_.amp) {
      a.scale = scalar(1);
      a.found = scalar(2);
    }
    a.step = static_cast<unsigned>(w.step);
    a.rate = static_cast<float>(w.rate);
    a.beta1 = static_cast<float>(w.beta1);
    a.beta2 = static_cast<float>(w.beta2);
    a.weight_decay = static_cast<float>(w.weight_decay);
    a.eps = static_cast<float>(w.eps);
    a.step_size = static_cast<float>(w.step_size);
    a.maximize = w.maximize;
    a.correct_bias = w.correct_bias;
    optimizer::run(stream, a);
  }
  reference::Comparison compare(const void* result) const override {
    return reference::compare(arithmetic(wanted_), wanted_.state, result, expected_);
  }

 private:
  driver::AdamArgs args_;
  reference::Adam wanted_;
  reference::Result expected_;
};

}  // namespace

Cases optimizer_cases(const std::string& line) {
  const std::vector<std::string> arguments = driver::split_line(line);
  const std::string& base = arguments[0];
  driver::TensorArgs tensors, other_tensors;
  driver::AdamArgs args(base), other_args(base);
  tensors.directions = other_tensors.directions = driver::kForward;
  tensors.type = driver::kNoType;
  for (const char* name : {"adam", "adamw", "transformersadamw", "ampadam", "ampadamw", "transformersampadamw"}) {
    const driver::Bases bases{name, kFloats};
    if (bases.type_of(base) != driver::kNoType) tensors.type = bases.type_of(base);
  }
  if (tensors.type == driver::kNoType) throw std::invalid_argument(base + " is no optimizer");
  const driver::Flags rows = tensors.rows(args.rows()), fresh = other_tensors.rows(other_args.rows());
  parse_arguments(arguments, rows);
  tensors.check(rows, fresh);
  Cases cases;
  cases.push_back(std::make_unique<OptimizerCase>(args, tensors,
                                                  base + driver::flags_text(rows, fresh, tensors.spatial_dim, false)));
  return cases;
}

}  // namespace polymio::test
