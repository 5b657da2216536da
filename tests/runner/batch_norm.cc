// Cases of batch norms: training, inference and backward.
// SPDX-License-Identifier: MIT
#include "reference/batch_norm.h"

#include <fmt/format.h>

#include <cmath>
#include <random>

#include "driver/run/bnorm_args.h"
#include "primitives/batch_norm/batch_norm.h"
#include "tests/runner/line.h"
#include "tests/runner/runner.h"
#include "tests/runner/tensors.h"

namespace polymio::test {
namespace {

using batch_norm::Direction;
using batch_norm::Problem;
using reference::Tensor;

struct Args {
  driver::TensorArgs tensors;
  driver::BnormArgs norm;

  driver::Flags rows() { return tensors.rows(norm.rows(tensors)); }
};

class BatchNormCase final : public Case {
 public:
  BatchNormCase(const Args& args, Direction direction)
      : args_(args), wanted_(args.norm.problem(args.tensors, direction != Direction::kBackward)) {
    problem_.direction = direction;
    problem_.mode = wanted_.spatial ? batch_norm::Mode::kSpatial : batch_norm::Mode::kPerActivation;
    problem_.activation = static_cast<activation::Mode>(args.norm.activation);
    problem_.x = describe(wanted_.x);
    problem_.out = describe(wanted_.out);
    if (!problem_.forward()) problem_.dy = describe(wanted_.dy);
    problem_.parameters = describe({reference::Type::kFloat, wanted_.scales.lens, wanted_.scales.strides});
    problem_.scale_type = static_cast<DataType>(wanted_.scales.type);
    problem_.bias_type = static_cast<DataType>(wanted_.biases.type);
    problem_.moment_type = static_cast<DataType>(wanted_.moments.type);
    batch_norm::validate(problem_);
    const Use result = wanted_.keep != 0 ? Use::kUpdated : Use::kWritten;
    operands = {{wanted_.x}, {wanted_.out, result}, {wanted_.scales}, {wanted_.biases}};
    const auto add = [&](std::size_t& number, const Tensor& tensor, Use use) {
      number = operands.size();
      operands.push_back({tensor, use});
    };
    const driver::BnormArgs& n = args.norm;
    switch (direction) {
      case Direction::kTraining:
        if (n.run) add(mean_, wanted_.moments, Use::kUpdated);
        if (n.run) add(variance_, wanted_.moments, Use::kUpdated);
        if (n.save) add(saved_mean_, wanted_.moments, Use::kWritten);
        if (n.save) add(saved_inverse_, wanted_.moments, Use::kWritten);
        break;
      case Direction::kInference:
        add(mean_, wanted_.moments, Use::kRead);
        add(variance_, wanted_.moments, Use::kRead);
        break;
      case Direction::kBackward:
        add(dy_, wanted_.dy, Use::kRead);
        add(dscale_, wanted_.biases, result);
        add(dbias_, wanted_.biases, result);
        if (n.save) add(mean_, wanted_.moments, Use::kRead);
        if (n.save) add(variance_, wanted_.moments, Use::kRead);
        break;
    }
  }
  std::string line() const override {
    const driver::BnormArgs& n = args_.norm;
    return fmt::format(
        "{} --save {} -r {} --inverse {} -A {} -B {} --epsilon {} --factor {} --activ_alpha {} --activ_beta {}",
        problem_.key(), n.save, n.run, n.inverse, args_.tensors.scale, args_.tensors.keep, n.epsilon, n.factor,
        n.activation_alpha, n.activation_beta);
  }
  const ProblemBase& problem() const override { return problem_; }
  SolverList solvers(DeviceKind kind) const override { return batch_norm::solvers(problem_.direction, kind); }
  bool has_problem_of(const Case& other) const override {
    Problem same = static_cast<const BatchNormCase&>(other).problem_, mine = problem_;
    for (Problem* p : {&same, &mine})
      for (TensorDesc* t : {&p->x, &p->out, &p->dy, &p->parameters}) *t = without_idle_strides(*t);
    return mine == same;
  }
  void prepare() override {
    const auto numbers = [&](std::size_t operand, double least, double most) {
      if (operand != 0) fill(operands[operand], static_cast<unsigned>(operand), least, most);
    };
    fill(operands[0], 100, -1, 1);
    offset_channels(operands[0]);
    numbers(1, -1, 1);
    numbers(2, -1.5, 1.5);
    numbers(3, -0.5, 0.5);
    numbers(dy_, -1, 1);
    numbers(dscale_, -1, 1);
    numbers(dbias_, -1, 1);
    numbers(saved_mean_, 0, 1);
    numbers(saved_inverse_, 0, 1);
    numbers(mean_, 9, 11);
    numbers(variance_, 0.5, 2);
    reference::BatchNormInputs in;
    in.x = operands[0].content.data();
    in.old = content(1);
    in.scale = content(2);
    in.bias = content(3);
    in.dy = content(dy_);
    in.mean = content(mean_);
    in.variance = content(variance_);
    in.old_dscale = content(dscale_);
    in.old_dbias = content(dbias_);
    expected_ = reference::evaluate(wanted_, in);
  }
  void run(const AnyInvoker& invoke, Stream& stream, std::span<void* const> data, void*, std::size_t) const override {
    const auto at = [&](std::size_t operand) { return operand == 0 ? nullptr : data[operand]; };
    Problem::Args args;
    args.x = data[0];
    args.out = data[1];
    args.scale = data[2];
    args.bias = data[3];
    args.dy = at(dy_);
    args.mean = at(mean_);
    args.variance = at(variance_);
    if (problem_.direction == Direction::kTraining) {
      args.next_mean = at(mean_);
      args.next_variance = at(variance_);
    }
    args.saved_mean = at(saved_mean_);
    args.saved_inverse = at(saved_inverse_);
    args.dscale = at(dscale_);
    args.dbias = at(dbias_);
    args.inverse = wanted_.inverse;
    args.epsilon = wanted_.epsilon;
    args.factor = wanted_.factor;
    args.activation = {wanted_.activation.alpha, wanted_.activation.beta, 0};
    args.blend = wanted_.scale;
    args.keep = wanted_.keep;
    args.parameter_blend = wanted_.parameter_scale;
    args.parameter_keep = wanted_.parameter_keep;
    invoke(stream, &args);
  }
  reference::Comparison compare(const SolverBase&, std::size_t operand, const void* result) const override {
    const auto against = [&](const reference::Result& expected) {
      const Tensor& tensor = operands[operand].tensor;
      return reference::compare(arithmetic(wanted_, tensor.type), tensor, result, expected);
    };
    if (operand == 1) return against(expected_.out);
    if (operand == mean_) return against(expected_.next_mean);
    if (operand == variance_) return against(expected_.next_variance);
    if (operand == saved_mean_) return against(expected_.mean);
    if (operand == saved_inverse_) return against(expected_.inverse);
    return against(operand == dscale_ ? expected_.dscale : expected_.dbias);
  }

 private:
  /// The content of an operand after x; null if there is none.
  const void* content(std::size_t operand) const { return operand == 0 ? nullptr : operands[operand].content.data(); }
  static void fill(Operand& operand, unsigned seed, double least, double most) {
    const Tensor& t = operand.tensor;
    operand.content.assign(t.bytes(), kPoison);
    std::mt19937 random(seed);
    for (std::int64_t i = 0; i < t.count(); ++i) {
      const double unit = static_cast<double>(random()) / static_cast<double>(random.max());
      reference::store(t.type, operand.content.data(), t.offset(i), least + unit * (most - least));
    }
  }
  /// Means far from 0, and one channel in seven that is constant.
  static void offset_channels(Operand& operand) {
    const Tensor& t = operand.tensor;
    const std::int64_t inner = t.count() / t.lens[0] / t.lens[1];
    for (std::int64_t i = 0; i < t.count(); ++i) {
      const std::int64_t channel = i / inner % t.lens[1];
      const double x = reference::load(t.type, operand.content.data(), t.offset(i));
      const double mean = 5 * static_cast<double>(channel % 5);
      reference::store(t.type, operand.content.data(), t.offset(i), channel % 7 == 6 ? mean + 0.5 : mean + x);
    }
  }

  Args args_;
  reference::BatchNorm wanted_;
  Problem problem_;
  // Numbers of operands, 0 where there is none.
  std::size_t dy_ = 0, mean_ = 0, variance_ = 0, saved_mean_ = 0, saved_inverse_ = 0, dscale_ = 0, dbias_ = 0;
  reference::BatchNormResults expected_;
};

}  // namespace

Cases batch_norm_cases(const std::string& line) {
  const Args args = parse_tensors<Args>(line, "bnorm");
  Cases cases;
  if (args.norm.forward != 0)
    cases.push_back(
        std::make_unique<BatchNormCase>(args, args.norm.forward == 1 ? Direction::kTraining : Direction::kInference));
  if (args.norm.backward != 0) cases.push_back(std::make_unique<BatchNormCase>(args, Direction::kBackward));
  return cases;
}

}  // namespace polymio::test
