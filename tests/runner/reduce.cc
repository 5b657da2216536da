// Cases of reductions.
// SPDX-License-Identifier: MIT
#include "primitives/reduce/reduce.h"

#include <fmt/format.h>

#include <random>
#include <stdexcept>

#include "driver/run/conv_args.h"
#include "driver/run/reduce_args.h"
#include "tests/runner/line.h"
#include "tests/runner/runner.h"
#include "tests/runner/tensors.h"

namespace polymio::test {
namespace {

using driver::ReduceArgs;
using reduce::Problem;
using reference::ReduceOp;

constexpr driver::DataType kTypes[] = {driver::kFloat,  driver::kHalf,  driver::kBFloat16,
                                       driver::kDouble, driver::kInt32, driver::kInt8};

ReduceArgs parse(const std::string& line) {
  const std::vector<std::string> arguments = driver::split_line(line);
  static constexpr std::pair<const char*, ReduceArgs::Kind> kKinds[] = {{"reduce", ReduceArgs::kReduce},
                                                                        {"reducecalculation", ReduceArgs::kCalculation},
                                                                        {"reduceextreme", ReduceArgs::kExtreme}};
  for (const auto& [name, kind] : kKinds) {
    const driver::DataType type = driver::Bases{name, kTypes}.type_of(arguments[0]);
    if (type == driver::kNoType) continue;
    ReduceArgs args(kind, type);
    parse_arguments(arguments, args.rows());
    return args;
  }
  throw std::invalid_argument("no reduction: " + line);
}

class ReduceCase final : public Case {
 public:
  explicit ReduceCase(const std::string& line) : ReduceCase(parse(line)) {}
  std::string line() const override {
    const std::string scalars = fmt::format(" -A {} -B {}", wanted_.alpha, wanted_.beta);
    return problem_.key() + (problem_.kind == reduce::Kind::kTensor ? scalars : "");
  }
  const ProblemBase& problem() const override { return problem_; }
  SolverList solvers(DeviceKind kind) const override { return reduce::solvers(kind); }
  bool has_problem_of(const Case& other) const override {
    Problem same = static_cast<const ReduceCase&>(other).problem_, mine = problem_;
    for (Problem* p : {&same, &mine})
      for (TensorDesc* t : {&p->a, &p->c, &p->positions}) *t = without_idle_strides(*t);
    return mine == same;
  }

  /// Extremes get equal elements and NaNs, products elements about 1.
  void prepare() override {
    for (std::size_t i = 0; i < operands.size(); ++i)
      operands[i].content = random_tensor(operands[i].tensor, i + 1, Gaps::kNan);
    auto& [a, use, content] = operands[0];
    const bool product = wanted_.op == ReduceOp::kMul, zero = wanted_.nan == reference::ReduceNan::kZero;
    std::mt19937 engine(7);
    for (std::int64_t i = 0; i < a.count(); ++i) {
      const double x = reference::load(a.type, content.data(), a.offset(i));
      const bool whole = reference::is_integer(a.type), nan = !whole && engine() % 8 == 0;
      double changed = x;
      if (product) changed = whole ? (x < 0 ? -1 : engine() % 64 == 0 ? 2 : 1) : (x < 0 ? -1 : 1) * (1 + x / 64);
      if (reduce::is_extreme(problem_.op)) changed = whole ? x : nan ? std::nan("") : std::round(x * 16) / 16;
      if (zero && nan) changed = std::nan("");
      reference::store(a.type, content.data(), a.offset(i), changed);
    }
    const void* const old = problem_.has_values() ? operands[1].content.data() : nullptr;
    expected_ = evaluate(wanted_, content.data(), old);
  }
  void run(const AnyInvoker& invoke, Stream& stream, std::span<void* const> data, void* workspace,
           std::size_t workspace_bytes) const override {
    Problem::Args args{wanted_.alpha, wanted_.beta, data[0]};
    if (problem_.has_values()) args.c = data[1];
    if (problem_.has_positions()) args.positions = data.back();
    args.workspace = workspace;
    args.workspace_bytes = workspace_bytes;
    invoke(stream, &args);
  }
  reference::Comparison compare(const SolverBase&, std::size_t operand, const void* result) const override {
    const bool values = operand == 1 && problem_.has_values();
    reference::Arithmetic how = arithmetic(wanted_);
    if (!values) how = {reference::Type::kInt32, reference::Type::kInt64, 1, false};
    return reference::compare(how, operands[operand].tensor, result, values ? expected_.values : expected_.positions);
  }

 private:
  explicit ReduceCase(const ReduceArgs& args) : wanted_(args.problem()) {
    Problem& p = problem_;
    p.kind = args.kind == ReduceArgs::kReduce        ? reduce::Kind::kTensor
             : args.kind == ReduceArgs::kCalculation ? reduce::Kind::kCalculation
             : args.has_values()                     ? reduce::Kind::kExtreme
                                                     : reduce::Kind::kPosition;
    p.op = static_cast<reduce::Op>(wanted_.op);
    p.nan = static_cast<reduce::Nan>(wanted_.nan);
    p.a = describe(wanted_.a);
    p.c = describe(wanted_.c);
    operands = {{wanted_.a}};
    if (p.has_values()) operands.push_back({wanted_.c, wanted_.beta != 0 ? Use::kUpdated : Use::kWritten});
    if (args.has_positions()) {
      operands.push_back({args.positions_of(wanted_.c), Use::kWritten});
      p.positions = describe(operands.back().tensor);
      if (!p.has_values()) p.c = p.positions;
    }
    reduce::validate(p);
  }

  reference::Reduction wanted_;
  Problem problem_;
  reference::Reduced expected_;
};

}  // namespace

Cases reduce_cases(const std::string& line) {
  Cases cases;
  cases.push_back(std::make_unique<ReduceCase>(line));
  return cases;
}

}  // namespace polymio::test
