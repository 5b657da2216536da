// Cases of local response normalisation and its gradient.
// SPDX-License-Identifier: MIT
#include "reference/lrn.h"

#include <fmt/format.h>

#include "driver/run/lrn_args.h"
#include "primitives/lrn/lrn.h"
#include "tests/runner/line.h"
#include "tests/runner/runner.h"
#include "tests/runner/tensors.h"

namespace polymio::test {
namespace {

using lrn::Problem;

struct Args {
  driver::TensorArgs tensors;
  driver::LrnArgs lrn;

  driver::Flags rows() { return tensors.rows(lrn.rows()); }
};

reference::Lrn wanted_of(const Args& args, bool backward) {
  const driver::TensorArgs& t = args.tensors;
  const auto tensor = [&](const std::vector<std::int64_t>& strides) {
    return reference::Tensor(static_cast<reference::Type>(t.type), t.lens(), strides);
  };
  reference::Lrn wanted;
  wanted.cross = args.lrn.mode == 1;
  wanted.backward = backward;
  wanted.n = args.lrn.n;
  wanted.alpha = args.lrn.alpha;
  wanted.beta = args.lrn.beta;
  wanted.k = args.lrn.k;
  wanted.x = tensor(t.x_strides());
  wanted.y = tensor(t.y_strides());
  if (backward) wanted.dy = tensor(t.dy_strides());
  wanted.out = backward ? tensor(t.dx_strides()) : wanted.y;
  return wanted;
}

class LrnCase final : public Case {
 public:
  LrnCase(const Args& args, bool backward) : args_(args), wanted_(wanted_of(args, backward)) {
    problem_.direction = backward ? lrn::Direction::kBackward : lrn::Direction::kForward;
    problem_.mode = static_cast<lrn::Mode>(args.lrn.mode);
    problem_.scale = static_cast<lrn::Scale>(args.lrn.workspace);
    problem_.window = {static_cast<std::uint32_t>(args.lrn.n)};
    problem_.x = describe(wanted_.x);
    problem_.y = describe(wanted_.y);
    if (backward) {
      problem_.dy = describe(wanted_.dy);
      problem_.dx = describe(wanted_.out);
    }
    lrn::validate(problem_);
    operands = {{wanted_.x}, {wanted_.out}};
    operands[1].use = Use::kWritten;
    if (backward) operands.insert(operands.end(), {{wanted_.dy}, {wanted_.y}});
    if (problem_.has_scale()) operands.push_back({wanted_.y, backward ? Use::kRead : Use::kWritten});
  }
  std::string line() const override {
    return fmt::format("{} -A {} -B {} -K {}", problem_.key(), wanted_.alpha, wanted_.beta, wanted_.k);
  }
  const ProblemBase& problem() const override { return problem_; }
  SolverList solvers(DeviceKind kind) const override { return lrn::solvers(problem_.direction, kind); }
  bool has_problem_of(const Case& other) const override {
    Problem same = static_cast<const LrnCase&>(other).problem_, mine = problem_;
    for (Problem* p : {&same, &mine})
      for (TensorDesc* t : {&p->x, &p->y, &p->dx, &p->dy}) *t = without_idle_strides(*t);
    return mine == same;
  }
  void prepare() override {
    for (std::size_t i = 0; i < operands.size(); ++i) fill(operands[i], i, wanted_.backward && i == 4);
    const auto content = [&](std::size_t i) { return i < operands.size() ? operands[i].content.data() : nullptr; };
    const void* const x = content(0);
    if (wanted_.backward) {
      expected_ = evaluate(wanted_, x, content(3), content(2), content(4));
    } else {
      expected_ = evaluate(wanted_, x, nullptr, nullptr, nullptr);
      expected_scale_ = lrn_scale(wanted_, x);
    }
  }
  void run(const AnyInvoker& invoke, Stream& stream, std::span<void* const> data, void*, std::size_t) const override {
    Problem::Args args;
    args.x = data[0];
    args.result = data[1];
    if (wanted_.backward) {
      args.dy = data[2];
      args.y = data[3];
    }
    if (problem_.has_scale()) args.scale = data.back();
    args.parameters = {wanted_.alpha, wanted_.beta, wanted_.k};
    invoke(stream, &args);
  }
  reference::Comparison compare(const SolverBase&, std::size_t operand, const void* result) const override {
    return reference::compare(arithmetic(wanted_), operands[operand].tensor, result,
                              operand == 1 ? expected_ : expected_scale_);
  }

 private:
  /// Values from -2 to 2, or 0.5 to 4 for a scale; NaN between the elements.
  static void fill(Operand& operand, std::size_t seed, bool is_scale) {
    const reference::Tensor& t = operand.tensor;
    operand.content.assign(t.bytes(), kPoison);
    std::mt19937 random(static_cast<unsigned>(seed));
    for (std::int64_t i = 0; i < t.count(); ++i) {
      const double unit = static_cast<double>(random()) / static_cast<double>(random.max());
      reference::store(t.type, operand.content.data(), t.offset(i), is_scale ? 0.5 + 3.5 * unit : 4 * unit - 2);
    }
  }

  Args args_;
  reference::Lrn wanted_;
  Problem problem_;
  reference::Result expected_, expected_scale_;
};

}  // namespace

Cases lrn_cases(const std::string& line) {
  const Args args = parse_tensors<Args>(line, "lrn");
  const std::int64_t directions = args.tensors.directions == 0 ? 3 : args.tensors.directions;
  Cases cases;
  for (const bool backward : {false, true})
    if (directions & (backward ? 2 : 1)) cases.push_back(std::make_unique<LrnCase>(args, backward));
  return cases;
}

}  // namespace polymio::test
