// Cases of kthvalue.
// SPDX-License-Identifier: MIT
#include "primitives/kthvalue/kthvalue.h"

#include <cmath>
#include <random>

#include "driver/run/conv_args.h"
#include "driver/run/kthvalue_args.h"
#include "tests/runner/line.h"
#include "tests/runner/runner.h"
#include "tests/runner/tensors.h"

namespace polymio::test {
namespace {

using driver::KthvalueArgs;
using kthvalue::Problem;

KthvalueArgs parse(const std::string& line) {
  static constexpr driver::DataType kTypes[] = {driver::kFloat,  driver::kHalf,  driver::kBFloat16,
                                                driver::kDouble, driver::kInt32, driver::kInt8};
  const std::vector<std::string> arguments = driver::split_line(line);
  KthvalueArgs args(type_of(arguments[0], {"kthvalue", kTypes}));
  parse_arguments(arguments, args.rows());
  return args;
}

class KthvalueCase final : public Case {
 public:
  explicit KthvalueCase(const KthvalueArgs& args) : wanted_(args.problem()) {
    const reference::Tensor positions = args.indices(wanted_);
    problem_.selection = {wanted_.dim, wanted_.k};
    problem_.x = describe(wanted_.x);
    problem_.y = describe(wanted_.y);
    problem_.indices = describe(positions);
    kthvalue::validate(problem_);
    operands = {{wanted_.x}, {wanted_.y, Use::kWritten}, {positions, Use::kWritten}};
  }
  std::string line() const override { return problem_.key(); }
  const ProblemBase& problem() const override { return problem_; }
  SolverList solvers(DeviceKind kind) const override { return kthvalue::solvers(kind); }
  bool has_problem_of(const Case& other) const override {
    Problem same = static_cast<const KthvalueCase&>(other).problem_, mine = problem_;
    for (Problem* p : {&same, &mine})
      for (TensorDesc* t : {&p->x, &p->y, &p->indices}) *t = without_idle_strides(*t);
    return mine == same;
  }

  /// Many equal elements, zeros of both signs, infinities and NaNs.
  void prepare() override {
    for (std::size_t i = 0; i < operands.size(); ++i)
      operands[i].content = random_tensor(operands[i].tensor, i + 1, Gaps::kNan);
    auto& [x, use, content] = operands[0];
    std::mt19937 engine(7);
    for (std::int64_t i = 0; i < x.count(); ++i) {
      if (reference::is_integer(x.type)) break;
      const double value = reference::load(x.type, content.data(), x.offset(i));
      static constexpr double kSpecial[] = {INFINITY, -INFINITY, NAN, -0.0};
      const unsigned choice = engine() % 32;
      const double changed = choice < 4 ? kSpecial[choice] : choice < 16 ? std::round(value * 4) / 4 : value;
      reference::store(x.type, content.data(), x.offset(i), changed);
    }
    expected_ = evaluate(wanted_, content.data());
  }
  void run(const AnyInvoker& invoke, Stream& stream, std::span<void* const> data, void*, std::size_t) const override {
    const Problem::Args args{data[0], data[1], data[2]};
    invoke(stream, &args);
  }
  reference::Comparison compare(const SolverBase&, std::size_t operand, const void* result) const override {
    const reference::Tensor& to = operands[operand].tensor;
    const reference::Arithmetic exact{to.type, reference::Type::kInt64, 1, false};
    return reference::compare(exact, to, result, operand == 1 ? expected_.values : expected_.positions);
  }

 private:
  const reference::Kthvalue wanted_;
  Problem problem_;
  reference::Selected expected_;
};

}  // namespace

Cases kthvalue_cases(const std::string& line) {
  Cases cases;
  cases.push_back(std::make_unique<KthvalueCase>(parse(line)));
  return cases;
}

}  // namespace polymio::test
