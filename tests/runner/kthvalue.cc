// Cases of kthvalue, which has no solvers: the function behind the C API is run as one.
// SPDX-License-Identifier: MIT
#include "primitives/kthvalue/kthvalue.h"

#include <cmath>
#include <random>

#include "core/problem_text.h"
#include "driver/run/conv_args.h"
#include "driver/run/kthvalue_args.h"
#include "tests/runner/line.h"
#include "tests/runner/runner.h"
#include "tests/runner/tensors.h"

namespace polymio::test {
namespace {

using driver::KthvalueArgs;

struct Problem final : ProblemOf<Problem> {
  using Args = kthvalue::Args;
  kthvalue::Problem selection;
  std::string text;  // the case's line

  auto fields() const { return std::tie(selection.x, selection.y, selection.indices); }
  std::string key() const override { return text; }
  std::string family() const override { return text; }
  std::vector<float> log_sizes() const override { return {}; }
  double work() const override { return static_cast<double>(selection.x.count()); }
};

class Pass final : public Solver<Problem> {
 public:
  Pass() : Solver(info_of()) {}
  Verdict is_applicable(const DeviceInfo&, const Problem&) const override { return {}; }
  double estimate(const DeviceInfo&, const Problem&, const TunePoint&) const override { return 0; }
  Invoker build(Stream&, const Problem& p, const TunePoint&) const override {
    return [p](Stream& stream, const Args& args) { kthvalue::run(stream, p.selection, args); };
  }

 private:
  static SolverInfo info_of() {
    SolverInfo info;
    info.name = "Kthvalue";
    info.devices = ~0u;
    return info;
  }
};

KthvalueArgs parse(const std::string& line) {
  static constexpr driver::DataType kTypes[] = {driver::kFloat,  driver::kHalf,  driver::kBFloat16,
                                                driver::kDouble, driver::kInt32, driver::kInt8};
  const std::vector<std::string> arguments = driver::split_line(line);
  KthvalueArgs args(driver::Bases{"kthvalue", kTypes}.type_of(arguments[0]));
  parse_arguments(arguments, args.rows());
  return args;
}

class KthvalueCase final : public Case {
 public:
  explicit KthvalueCase(const std::string& line) : wanted_(parse(line).problem()) {
    problem_.text = line;
    kthvalue::Problem& p = problem_.selection;
    p.x = describe(wanted_.x);
    p.y = describe(wanted_.y);
    const reference::Tensor positions(reference::Type::kInt64, wanted_.y.lens);
    p.indices = describe(positions);
    p.dim = wanted_.dim;
    p.k = wanted_.k;
    kthvalue::validate(p);
    operands = {{wanted_.x}, {wanted_.y, Use::kWritten}, {positions, Use::kWritten}};
  }
  std::string line() const override { return problem_.text; }
  const ProblemBase& problem() const override { return problem_; }
  SolverList solvers(DeviceKind) const override {
    static const Pass pass;
    static const SolverBase* const kAll[] = {&pass};
    return kAll;
  }
  bool has_problem_of(const Case& other) const override { return problem_.equals(other.problem()); }

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
    const Problem::Args args{data[0], data[1], static_cast<std::uint64_t*>(data[2])};
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
  cases.push_back(std::make_unique<KthvalueCase>(line));
  return cases;
}

}  // namespace polymio::test
