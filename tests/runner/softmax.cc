// Cases of softmax and its gradient.
// SPDX-License-Identifier: MIT
#include "reference/softmax.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "driver/run/softmax_args.h"
#include "primitives/softmax/softmax.h"
#include "tests/runner/line.h"
#include "tests/runner/runner.h"
#include "tests/runner/tensors.h"

namespace polymio::test {
namespace {

using softmax::Problem;

struct Args {
  driver::TensorArgs tensors;
  driver::SoftmaxArgs function;

  driver::Flags rows() { return tensors.rows(function.rows(tensors)); }
};

reference::Softmax wanted_of(const Args& args, bool backward) {
  const driver::TensorArgs& t = args.tensors;
  const auto tensor = [&](const std::vector<std::int64_t>& strides) {
    return reference::Tensor(static_cast<reference::Type>(t.type), t.lens(), strides);
  };
  return {backward,
          args.function.algorithm == 2,
          args.function.mode == 0,
          t.scale,
          t.keep,
          tensor(backward ? t.y_strides() : t.x_strides()),
          tensor(t.dy_strides()),
          tensor(backward ? t.dx_strides() : t.y_strides())};
}

class SoftmaxCase final : public Case {
 public:
  SoftmaxCase(const Args& args, bool backward) : args_(args), wanted_(wanted_of(args, backward)) {
    const auto algorithm = static_cast<softmax::Algorithm>(args.function.algorithm);
    const auto mode = static_cast<softmax::Mode>(args.function.mode);
    const TensorDesc in = describe(wanted_.in), out = describe(wanted_.out);
    problem_ = backward ? softmax::backward_problem(algorithm, mode, in, describe(wanted_.dy), out)
                        : softmax::forward_problem(algorithm, mode, in, out);
    softmax::validate(problem_);
    operands = {{wanted_.in}, {wanted_.out}};
    if (backward) operands.push_back({wanted_.dy});
    operands[1].use = args.tensors.keep != 0 ? Use::kUpdated : Use::kWritten;
  }
  std::string line() const override {
    return fmt::format("{} -A {} -B {}", problem_.key(), args_.tensors.scale, args_.tensors.keep);
  }
  const ProblemBase& problem() const override { return problem_; }
  SolverList solvers(DeviceKind kind) const override { return softmax::solvers(problem_.direction, kind); }
  bool has_problem_of(const Case& other) const override {
    Problem same = static_cast<const SoftmaxCase&>(other).problem_, mine = problem_;
    for (Problem* p : {&same, &mine})
      for (TensorDesc* t : {&p->in, &p->dy, &p->out}) *t = without_idle_strides(*t);
    return mine == same;
  }
  void prepare() override {
    fill(operands[0], 1, wanted_.backward ? 1 : 20);
    fill(operands[1], 3, 2);
    if (wanted_.backward) fill(operands[2], 2, 2);
    const void* const dy = wanted_.backward ? operands[2].content.data() : nullptr;
    expected_ = evaluate(wanted_, operands[0].content.data(), dy, operands[1].content.data());
  }
  void run(const AnyInvoker& invoke, Stream& stream, std::span<void* const> data, void*, std::size_t) const override {
    Problem::Args args;
    args.in = data[0];
    args.result = data[1];
    args.dy = wanted_.backward ? data[2] : nullptr;
    args.scale = args_.tensors.scale;
    args.keep = args_.tensors.keep;
    invoke(stream, &args);
  }
  reference::Comparison compare(const SolverBase&, std::size_t, const void* result) const override {
    return reference::compare(arithmetic(wanted_), wanted_.out, result, expected_);
  }

 private:
  /// Values from -limit to limit, in the first row of an input with a NaN and in later ones with infinities, if there
  /// are many; NaN between the elements.
  void fill(Operand& operand, unsigned seed, double limit) const {
    const reference::Tensor& t = operand.tensor;
    operand.content.assign(t.bytes(), kPoison);
    std::mt19937 random(seed);
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const double special[] = {std::nan(""), kInfinity, -kInfinity};
    const std::int64_t count = t.count(), apart = count / 7;
    const bool has_special = seed == 1 && !wanted_.backward && count / wanted_.row_size() > 20;
    for (std::int64_t i = 0; i < count; ++i) {
      const double unit = static_cast<double>(random()) / static_cast<double>(random.max()) * 2 - 1;
      const bool is_special = has_special && i % apart == 0 && i / apart < 3;
      reference::store(t.type, operand.content.data(), t.offset(i), is_special ? special[i / apart] : unit * limit);
    }
  }

  Args args_;
  reference::Softmax wanted_;
  Problem problem_;
  reference::Result expected_;
};

}  // namespace

Cases softmax_cases(const std::string& line) {
  const Args args = parse_tensors<Args>(line, "softmax");
  const std::int64_t directions = args.tensors.directions == 0 ? 3 : args.tensors.directions;
  Cases cases;
  for (const bool backward : {false, true})
    if (directions & (backward ? 2 : 1)) cases.push_back(std::make_unique<SoftmaxCase>(args, backward));
  return cases;
}

}  // namespace polymio::test
