// Cases of activation functions and their gradients.
// SPDX-License-Identifier: MIT
#include "reference/activation.h"

#include <fmt/format.h>

#include <random>

#include "driver/run/activ_args.h"
#include "primitives/activation/activation.h"
#include "tests/runner/line.h"
#include "tests/runner/runner.h"
#include "tests/runner/tensors.h"

namespace polymio::test {
namespace {

using activation::Problem;

struct Args {
  driver::TensorArgs tensors;
  driver::ActivationArgs function;

  driver::Flags rows() { return tensors.rows(tensors.with_scalars(function.rows())); }
};

reference::Activation wanted_of(const Args& args, bool backward) {
  const driver::TensorArgs& t = args.tensors;
  const auto tensor = [&](const std::vector<std::int64_t>& strides) {
    return reference::Tensor(static_cast<reference::Type>(t.type), t.lens(), strides);
  };
  reference::Activation wanted;
  wanted.mode = static_cast<reference::ActivationMode>(args.function.mode);
  wanted.backward = backward;
  wanted.alpha = args.function.alpha;
  wanted.beta = args.function.beta;
  wanted.gamma = args.function.gamma;
  wanted.scale = t.scale;
  wanted.keep = t.keep;
  wanted.x = tensor(t.x_strides());
  if (backward) wanted.dy = tensor(t.dy_strides());
  wanted.out = tensor(backward ? t.dx_strides() : t.y_strides());
  return wanted;
}

class ActivationCase final : public Case {
 public:
  ActivationCase(const Args& args, bool backward) : args_(args), wanted_(wanted_of(args, backward)) {
    const auto mode = static_cast<activation::Mode>(args.function.mode);
    const TensorDesc x = describe(wanted_.x), out = describe(wanted_.out);
    const TensorDesc y = describe({wanted_.x.type, args.tensors.lens(), args.tensors.y_strides()});
    problem_ = backward ? activation::backward_problem(mode, x, y, describe(wanted_.dy), out)
                        : activation::forward_problem(mode, x, out);
    activation::validate(problem_);
    operands = {{wanted_.x}, {wanted_.out}};
    if (backward) operands.push_back({wanted_.dy});
    operands[1].use = args.tensors.keep != 0 ? Use::kUpdated : Use::kWritten;
  }
  std::string line() const override {
    return fmt::format("{} -A {} -B {} -G {} --scale_alpha {} --scale_beta {}", problem_.key(), args_.function.alpha,
                       args_.function.beta, args_.function.gamma, args_.tensors.scale, args_.tensors.keep);
  }
  const ProblemBase& problem() const override { return problem_; }
  SolverList solvers(DeviceKind kind) const override { return activation::solvers(problem_.direction, kind); }
  bool has_problem_of(const Case& other) const override {
    Problem same = static_cast<const ActivationCase&>(other).problem_, mine = problem_;
    for (Problem* p : {&same, &mine})
      for (TensorDesc* t : {&p->x, &p->y, &p->dx, &p->dy}) *t = without_idle_strides(*t);
    return mine == same;
  }
  void prepare() override {
    fill(operands[0], 1, 6);
    fill(operands[1], 3, 2);
    if (wanted_.backward) fill(operands[2], 2, 2);
    const void* const dy = wanted_.backward ? operands[2].content.data() : nullptr;
    expected_ = evaluate(wanted_, operands[0].content.data(), dy, operands[1].content.data());
  }
  void run(const AnyInvoker& invoke, Stream& stream, std::span<void* const> data, void*, std::size_t) const override {
    Problem::Args args;
    args.x = data[0];
    args.result = data[1];
    args.dy = wanted_.backward ? data[2] : nullptr;
    args.parameters = {args_.function.alpha, args_.function.beta, args_.function.gamma};
    args.scale = args_.tensors.scale;
    args.keep = args_.tensors.keep;
    invoke(stream, &args);
  }
  reference::Comparison compare(const SolverBase&, std::size_t, const void* result) const override {
    return reference::compare(arithmetic(wanted_), wanted_.out, result, expected_);
  }

 private:
  /// Values from -limit to limit, every ninth where a function may have a kink; NaN between the elements.
  void fill(Operand& operand, unsigned seed, double limit) const {
    const reference::Tensor& t = operand.tensor;
    operand.content.assign(t.bytes(), kPoison);
    std::mt19937 random(seed);
    const double kinks[] = {0, args_.function.alpha, -1, 1};
    for (std::int64_t i = 0; i < t.count(); ++i) {
      const double unit = static_cast<double>(random()) / static_cast<double>(random.max()) * 2 - 1;
      reference::store(t.type, operand.content.data(), t.offset(i), i % 9 == 8 ? kinks[i / 9 % 4] : unit * limit);
    }
  }

  Args args_;
  reference::Activation wanted_;
  Problem problem_;
  reference::Result expected_;
};

}  // namespace

Cases activation_cases(const std::string& line) {
  const Args args = parse_tensors<Args>(line, "activ");
  const std::int64_t directions = args.tensors.directions == 0 ? 3 : args.tensors.directions;
  Cases cases;
  for (const bool backward : {false, true})
    if (directions & (backward ? 2 : 1)) cases.push_back(std::make_unique<ActivationCase>(args, backward));
  return cases;
}

}  // namespace polymio::test
