// Cases of reductions, which have no solvers: the function behind the C API is run as one.
// SPDX-License-Identifier: MIT
#include "primitives/reduce/reduce.h"

#include <random>
#include <stdexcept>

#include "core/problem_text.h"
#include "driver/run/conv_args.h"
#include "driver/run/reduce_args.h"
#include "tests/runner/line.h"
#include "tests/runner/runner.h"
#include "tests/runner/tensors.h"

namespace polymio::test {
namespace {

using driver::ReduceArgs;
using reference::ReduceOp;

struct Problem final : ProblemOf<Problem> {
  using Args = reduce::Args;
  reduce::Problem reduction;
  std::string text;  // the case's line

  auto fields() const { return std::tie(reduction.op, reduction.nan, reduction.a, reduction.c, reduction.positions); }
  std::string key() const override { return text; }
  std::string family() const override { return text; }
  std::vector<float> log_sizes() const override { return {}; }
  double work() const override { return static_cast<double>(reduction.a.count()); }
};

class Pass final : public Solver<Problem> {
 public:
  explicit Pass(DeviceKind kind) : Solver(info_of(kind)) {}
  Verdict is_applicable(const DeviceInfo& device, const Problem& p) const override {
    POLYMIO_REQUIRE(reduce::is_supported(device, p.reduction), "the device has no arithmetic in double");
    return {};
  }
  double estimate(const DeviceInfo&, const Problem&, const TunePoint&) const override { return 0; }
  std::size_t workspace_size(const DeviceInfo& device, const Problem& p, const TunePoint&) const override {
    return reduce::workspace_bytes(device, p.reduction);
  }
  Invoker build(Stream&, const Problem& p, const TunePoint&) const override {
    return [p](Stream& stream, const Args& args) { reduce::run(stream, p.reduction, args); };
  }

 private:
  static SolverInfo info_of(DeviceKind kind) {
    SolverInfo info;
    info.deterministic = kind == DeviceKind::kCpu;  // on GPUs the order of sums depends on the alignment of a
    info.name = "Reduce";
    info.devices = ~0u;
    return info;
  }
};

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
  explicit ReduceCase(const std::string& line) : ReduceCase(line, parse(line)) {}
  std::string line() const override { return problem_.text; }
  const ProblemBase& problem() const override { return problem_; }
  SolverList solvers(DeviceKind kind) const override {
    static const Pass cpu(DeviceKind::kCpu), gpu(DeviceKind::kOpenCl);
    static const SolverBase *const kCpu[] = {&cpu}, *const kGpu[] = {&gpu};
    return kind == DeviceKind::kCpu ? SolverList(kCpu) : SolverList(kGpu);
  }
  bool has_problem_of(const Case& other) const override { return problem_.equals(other.problem()); }

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
      if (reduce::is_extreme(problem_.reduction.op)) changed = whole ? x : nan ? std::nan("") : std::round(x * 16) / 16;
      if (zero && nan) changed = std::nan("");
      reference::store(a.type, content.data(), a.offset(i), changed);
    }
    const void* const old = problem_.reduction.values ? operands[1].content.data() : nullptr;
    expected_ = evaluate(wanted_, content.data(), old);
  }
  void run(const AnyInvoker& invoke, Stream& stream, std::span<void* const> data, void* workspace,
           std::size_t workspace_bytes) const override {
    Problem::Args args{wanted_.alpha, wanted_.beta, data[0]};
    if (problem_.reduction.values) args.c = data[1];
    if (problem_.reduction.has_positions()) args.positions = static_cast<std::int32_t*>(data.back());
    args.workspace = workspace;
    args.workspace_bytes = workspace_bytes;
    invoke(stream, &args);
  }
  reference::Comparison compare(const SolverBase&, std::size_t operand, const void* result) const override {
    const bool values = operand == 1 && problem_.reduction.values;
    reference::Arithmetic how = arithmetic(wanted_);
    if (!values) how = {reference::Type::kInt32, reference::Type::kInt64, 1, false};
    return reference::compare(how, operands[operand].tensor, result, values ? expected_.values : expected_.positions);
  }

 private:
  ReduceCase(const std::string& line, const ReduceArgs& args) : wanted_(args.problem()) {
    problem_.text = line;
    reduce::Problem& p = problem_.reduction;
    p.op = static_cast<reduce::Op>(wanted_.op);
    p.nan = static_cast<reduce::Nan>(wanted_.nan);
    p.values = args.has_values();
    p.allows_workspace = args.kind != ReduceArgs::kExtreme;
    p.a = describe(wanted_.a);
    p.c = describe(wanted_.c);
    if (args.has_positions()) p.positions = reduce::positions_of(p.c);
    reduce::validate(p);
    operands = {{wanted_.a}};
    if (p.values) operands.push_back({wanted_.c, wanted_.beta != 0 ? Use::kUpdated : Use::kWritten});
    if (!p.has_positions()) return;
    const auto rank = static_cast<std::size_t>(p.c.rank);
    const auto& strides = p.positions.strides;
    operands.push_back(
        {reference::Tensor(reference::Type::kInt32, wanted_.c.lens, {strides.begin(), strides.begin() + rank}),
         Use::kWritten});
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
