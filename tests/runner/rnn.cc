// Cases of recurrent networks. They have no solvers: a training step, its three passes one after the other, is run as
// one.
// SPDX-License-Identifier: MIT
#include "reference/rnn.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "driver/run/rnn_args.h"
#include "primitives/rnn/plan.h"
#include "tests/runner/line.h"
#include "tests/runner/runner.h"
#include "tests/runner/tensors.h"

namespace polymio::test {
namespace {

using reference::Doubles;
using reference::Tensor;

/// The operands, in their order.
enum Number : std::size_t { kX, kW, kHx, kCx, kDy, kDhy, kDcy, kY, kHy, kDx, kDhx, kDw, kCy, kDcx };

struct Problem final : ProblemOf<Problem> {
  struct Args {
    rnn::Problem::Args passes;
  };
  rnn::Problem training;
  std::string text;  // the case's line

  auto fields() const { return std::tie(training.network, training.sequences, training.hx, training.x_order); }
  std::string key() const override { return text; }
  std::string family() const override { return text; }
  std::vector<float> log_sizes() const override { return {}; }
  double work() const override { return training.work(); }
};

class TrainingStep final : public Solver<Problem> {
 public:
  /// On GPUs the matrix library chooses by the alignment of tensors.
  explicit TrainingStep(bool gpu) : Solver({.name = "Rnn", .devices = ~0u, .deterministic = !gpu}) {}
  Verdict is_applicable(const DeviceInfo&, const Problem&) const override { return {}; }
  double estimate(const DeviceInfo&, const Problem&, const TunePoint&) const override { return 0; }
  std::size_t workspace_size(const DeviceInfo& d, const Problem& p, const TunePoint&) const override {
    const rnn::Sizes sizes = rnn::sizes(d, p.training);
    return sizes.workspace + sizes.reserve;
  }
  Invoker build(Stream& stream, const Problem& p, const TunePoint&) const override {
    std::array<std::shared_ptr<const rnn::NetworkPlan>, 3> plans;
    for (std::size_t i = 0; i < plans.size(); ++i) {
      constexpr rnn::Pass kPasses[] = {rnn::Pass::kTraining, rnn::Pass::kBackwardData, rnn::Pass::kBackwardWeights};
      rnn::Problem pass(p.training);
      pass.pass = kPasses[i];
      plans[i] = std::make_shared<const rnn::NetworkPlan>(stream, pass);
    }
    return [plans](Stream& on, const Args& args) {
      for (const auto& plan : plans) plan->run(on, args.passes);
    };
  }
};

class RnnCase final : public Case {
 public:
  RnnCase(const driver::RnnArgs& args, std::string text) : args_(args), net_(args.network()) {
    const auto type = static_cast<reference::Type>(args.type);
    rnn::Problem& p = problem_.training;
    p.pass = rnn::Pass::kTraining;
    p.network.mode = static_cast<rnn::Mode>(args.mode);
    p.network.type = static_cast<DataType>(args.type);
    p.network.skips_input = net_.skips_input;
    p.network.bidirectional = net_.bidirectional;
    p.network.has_bias = net_.has_bias;
    p.network.layers = net_.layers;
    p.network.hidden = net_.hidden;
    p.network.input = net_.input;
    p.sequences.steps = net_.steps;
    p.sequences.lengths.view(net_.lengths);
    p.x_order = static_cast<rnn::Order>(args.order());
    p.y_order = p.x_order;
    p.hx = args.no_hx ? rnn::Problem::Initial::kAbsent : rnn::Problem::Initial::kGiven;
    problem_.text = std::move(text);
    const Tensor x = rnn_tensor(net_, args.order(), type, net_.input), w(type, {net_.weights()});
    const Tensor y = rnn_tensor(net_, args.order(), type, net_.width());
    const Tensor state(type, {net_.layers * net_.directions(), net_.samples(), net_.hidden});
    for (const Tensor& t : {x, w, state, state, y, state, state}) operands.push_back({t});
    for (const Tensor& t : {y, state, x, state, w}) operands.push_back({t, Use::kWritten});
    if (args.lstm()) operands.insert(operands.end(), {{state, Use::kWritten}, {state, Use::kWritten}});
  }
  std::string line() const override { return problem_.text; }
  const ProblemBase& problem() const override { return problem_; }
  SolverList solvers(DeviceKind kind) const override {
    static const TrainingStep cpu(false), gpu(true);
    static const SolverBase* const kCpu[] = {&cpu};
    static const SolverBase* const kGpu[] = {&gpu};
    return kind == DeviceKind::kCpu ? kCpu : kGpu;
  }
  bool has_problem_of(const Case& other) const override { return problem_.equals(other.problem()); }

  void prepare() override {
    for (std::size_t i = 0; i < operands.size(); ++i)
      operands[i].content = random_tensor(operands[i].tensor, i + 1, Gaps::kNan);
    const Tensor& w = operands[kW].tensor;
    for (std::int64_t i = 0; i < w.count(); ++i) {
      void* const data = operands[kW].content.data();
      reference::store(w.type, data, i, reference::load(w.type, data, i) / std::sqrt(static_cast<double>(net_.hidden)));
    }
    const auto loaded = [&](std::size_t i) {
      Doubles values;
      for (std::int64_t e = 0; e < operands[i].tensor.count(); ++e)
        values.push_back(reference::load(operands[i].tensor.type, operands[i].content.data(), e));
      return values;
    };
    const auto sequence = [&](std::size_t i) {
      return from_sequence(net_, args_.order(), operands[i].tensor, operands[i].content.data());
    };
    reference::RnnInputs in;
    in.x = sequence(kX);
    in.w = loaded(kW);
    if (!args_.no_hx) in.hx = loaded(kHx);
    if (args_.lstm() && !args_.no_cx) in.cx = loaded(kCx);
    in.dy = sequence(kDy);
    in.dhy = loaded(kDhy);
    if (args_.lstm()) in.dcy = loaded(kDcy);
    want_ = evaluate(net_, in);
  }

  void run(const AnyInvoker& invoke, Stream& stream, std::span<void* const> data, void* workspace,
           std::size_t bytes) const override {
    const rnn::Sizes sizes = rnn::sizes(stream.info(), problem_.training);
    Problem::Args args;
    rnn::Problem::Args& a = args.passes;
    a.x = data[kX];
    a.w = data[kW];
    if (!args_.no_hx) a.hx = data[kHx];
    a.dy = data[kDy];
    a.dhy = data[kDhy];
    a.y = data[kY];
    a.hy = data[kHy];
    a.dx = data[kDx];
    a.dhx = data[kDhx];
    a.dw = data[kDw];
    if (args_.lstm()) {
      if (!args_.no_cx) a.cx = data[kCx];
      a.dcy = data[kDcy];
      a.cy = data[kCy];
      a.dcx = data[kDcx];
    }
    a.workspace = workspace;
    a.workspace_bytes = sizes.workspace;
    a.reserve = static_cast<char*>(workspace) + sizes.workspace;
    a.reserve_bytes = bytes - sizes.workspace;
    invoke(stream, &args);
  }

  reference::Comparison compare(const SolverBase&, std::size_t operand, const void* result) const override {
    const Tensor& tensor = operands[operand].tensor;
    const auto wanted = [&]() -> reference::Result {
      switch (operand) {
        case kY: return to_sequence(net_, args_.order(), tensor, want_.y);
        case kDx: return to_sequence(net_, args_.order(), tensor, want_.dx);
        case kHy: return reference::to_result(want_.hy);
        case kDhx: return reference::to_result(want_.dhx);
        case kCy: return reference::to_result(want_.cy);
        case kDcx: return reference::to_result(want_.dcx);
        default: return reference::to_result(want_.dw);
      }
    };
    reference::Result want = wanted();
    // Hidden states are bounded by 1; the sums that they are functions of are not as small as few states may be.
    if (operand == kY || operand == kHy)
      for (double& magnitude : want.magnitude) magnitude = std::max(magnitude, 1.0);
    return reference::compare(reference::arithmetic(net_, tensor.type), tensor, result, want);
  }

 private:
  const driver::RnnArgs args_;
  const reference::Rnn net_;
  Problem problem_;
  reference::RnnResults want_;
};

}  // namespace

Cases rnn_cases(const std::string& line) {
  constexpr driver::DataType kTypes[] = {driver::kFloat, driver::kHalf, driver::kBFloat16};
  const std::vector<std::string> arguments = driver::split_line(line);
  driver::RnnArgs args;
  args.type = type_of(arguments[0], {"rnn", kTypes});
  parse_arguments(arguments, args.rows());
  args.check();
  Cases cases;
  cases.push_back(std::make_unique<RnnCase>(args, line));
  return cases;
}

}  // namespace polymio::test
