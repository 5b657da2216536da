// Cases of attention and its gradients.
// SPDX-License-Identifier: MIT
#include "reference/mha.h"

#include <fmt/format.h>

#include "driver/run/mha_args.h"
#include "primitives/mha/mha.h"
#include "tests/runner/line.h"
#include "tests/runner/runner.h"
#include "tests/runner/tensors.h"

namespace polymio::test {
namespace {

using mha::Problem;
using reference::Tensor;
using reference::Type;

/// Places of the operands of a case. Behind the tensors: the scalars, dropout's numbers, the largest magnitudes.
enum Place { kQ, kK, kV, kBias, kO, kM, kZInv, kDout, kDq, kDk, kDv, kTensors, kDropout = kTensors, kAmax, kPlaces };

class MhaCase final : public Case {
 public:
  MhaCase(driver::DataType type, const driver::MhaArgs& args, bool backward)
      : args_(args), wanted_(args.problem(type, backward)) {
    const Use of_results = backward ? Use::kRead : Use::kWritten;
    add(kQ, wanted_.q);
    add(kK, wanted_.k);
    add(kV, wanted_.v);
    if (args_.bias != 0) add(kBias, wanted_.bias);
    add(kO, wanted_.o, of_results);
    add(kM, wanted_.statistics(), of_results);
    add(kZInv, wanted_.statistics(), of_results);
    if (backward) {
      add(kDout, wanted_.dout);
      add(kDq, wanted_.dq, Use::kWritten);
      add(kDk, wanted_.dk, Use::kWritten);
      add(kDv, wanted_.dv, Use::kWritten);
    }
    first_scalar_ = operands.size();
    for (std::size_t i = 0; i < mha::kScalars; ++i) operands.push_back({{Type::kFloat, {1}}});
    if (args_.probability > 0) add(kDropout, {Type::kFloat, {1}});
    for (int i = 0; args_.probability > 0 && i < 2; ++i) operands.push_back({{Type::kInt64, {1}}});
    add(kAmax, {Type::kFloat, {1}}, Use::kWritten);
    for (int i = 1; i < (backward ? 4 : 2); ++i) operands.push_back({{Type::kFloat, {1}}, Use::kWritten});
    make_problem();
  }

  std::string line() const override {
    std::string text = problem_.key();
    if (args_.mask != 0) text += " --mask causal";
    if (args_.scale != 0) text += fmt::format(" --scale {}", args_.scale);
    if (args_.probability > 0)
      text += fmt::format(" -p {} --seed {} --offset {}", args_.probability, args_.seed, args_.offset);
    return text + (args_.scaled ? " --scaled" : "");
  }
  const ProblemBase& problem() const override { return problem_; }
  SolverList solvers(DeviceKind kind) const override { return mha::solvers(problem_.direction, kind); }
  bool has_problem_of(const Case& other) const override {
    Problem same = static_cast<const MhaCase&>(other).problem_, mine = problem_;
    for (Problem* p : {&same, &mine})
      for (TensorDesc* t : {&p->q, &p->k, &p->v, &p->o, &p->dout, &p->dq, &p->dk, &p->dv, &p->bias})
        *t = without_idle_strides(*t);
    return mine == same;
  }

  void prepare() override {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      Operand& o = operands[i];
      o.content = random_tensor(o.tensor, i + 1, Gaps::kNan);
      if (o.use == Use::kWritten) o.content.assign(o.tensor.bytes(), kPoison);
    }
    const auto factors = driver::MhaArgs::factors(wanted_);
    for (std::size_t i = 0; i < mha::kScalars; ++i) put(first_scalar_ + i, *factors[i]);
    if (at_[kDropout] >= 0) {
      const auto first = static_cast<std::size_t>(at_[kDropout]);
      put(first, args_.probability);
      put(first + 1, static_cast<double>(args_.seed));
      put(first + 2, static_cast<double>(args_.offset));
    }
    reference::MhaData data{content(kQ), content(kK), content(kV), content(kBias)};
    const auto forward = mha_forward(wanted_, data);
    expected_.assign(forward.begin(), forward.end());
    if (!wanted_.backward) return;
    for (const Place place : {kO, kM, kZInv}) put_all(place, forward[static_cast<std::size_t>(place - kO)]);
    data.o = content(kO);
    data.m = content(kM);
    data.z_inv = content(kZInv);
    data.dout = content(kDout);
    const auto gradients = mha_backward(wanted_, data);
    expected_.assign(gradients.begin(), gradients.end());
  }

  void run(const AnyInvoker& invoke, Stream& stream, std::span<void* const> data, void* workspace,
           std::size_t workspace_bytes) const override {
    const auto at = [&](Place place, std::size_t next = 0) {
      return at_[place] < 0 ? nullptr : data[static_cast<std::size_t>(at_[place]) + next];
    };
    Problem::Args a;
    a.q = at(kQ);
    a.k = at(kK);
    a.v = at(kV);
    a.bias = at(kBias);
    a.o = at(kO);
    a.m = at(kM);
    a.z_inv = at(kZInv);
    a.dout = at(kDout);
    a.dq = at(kDq);
    a.dk = at(kDk);
    a.dv = at(kDv);
    for (std::size_t i = 0; i < mha::kScalars; ++i) a.scalars[i] = data[first_scalar_ + i];
    a.probability = at(kDropout);
    a.seed = at(kDropout, 1);
    a.offset = at(kDropout, 2);
    using enum mha::Amax;
    const mha::Amax forward[] = {mha::Amax::kS, mha::Amax::kO}, backward[] = {kDQ, kDK, kDV, kDS};
    const std::span<const mha::Amax> list = wanted_.backward ? std::span<const mha::Amax>(backward) : forward;
    for (std::size_t i = 0; i < list.size(); ++i) a.largest(list[i]) = at(kAmax, i);
    a.scale = wanted_.scale;
    a.mask = wanted_.causal ? mha::Mask::kCausal : mha::Mask::kNone;
    a.workspace = workspace;
    a.workspace_bytes = workspace_bytes;
    invoke(stream, &a);
  }

  reference::Comparison compare(const SolverBase&, std::size_t operand, const void* result) const override {
    const Tensor& tensor = operands[operand].tensor;
    const int first = at_[wanted_.backward ? kDq : kO], amax = at_[kAmax], at = static_cast<int>(operand);
    const auto number = static_cast<std::size_t>(at >= amax ? at - amax + 3 : at - first);
    return reference::compare(mha_arithmetic(wanted_, tensor.type), tensor, result, expected_[number]);
  }

 private:
  void add(Place place, const Tensor& tensor, Use use = Use::kRead) {
    at_[place] = static_cast<int>(operands.size());
    operands.push_back({tensor, use});
  }
  const void* content(Place place) const {
    return at_[place] < 0 ? nullptr : operands[static_cast<std::size_t>(at_[place])].content.data();
  }
  void put(std::size_t operand, double value) {
    reference::store(operands[operand].tensor.type, operands[operand].content.data(), 0, value);
  }
  void put_all(Place place, const reference::Result& values) {
    Operand& o = operands[static_cast<std::size_t>(at_[place])];
    for (std::int64_t i = 0; i < o.tensor.count(); ++i)
      reference::store(o.tensor.type, o.content.data(), o.tensor.offset(i), values.value[static_cast<std::size_t>(i)]);
  }

  void make_problem() {
    const auto desc = [&](Place place) {
      return at_[place] < 0 ? TensorDesc() : describe(operands[static_cast<std::size_t>(at_[place])].tensor);
    };
    problem_ = wanted_.backward ? mha::backward_problem(desc(kQ), desc(kK), desc(kV), desc(kO), desc(kDout), desc(kDq),
                                                        desc(kDk), desc(kDv), desc(kBias))
                                : mha::forward_problem(desc(kQ), desc(kK), desc(kV), desc(kO), desc(kBias));
    mha::validate(problem_);
  }

  const driver::MhaArgs args_;
  reference::Mha wanted_;
  int at_[kPlaces] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
  std::size_t first_scalar_ = 0;
  Problem problem_;
  std::vector<reference::Result> expected_;
};

}  // namespace

Cases mha_cases(const std::string& line) {
  const std::vector<std::string> arguments = driver::split_line(line);
  const driver::DataType type = type_of(arguments[0], {"mha", driver::kMhaTypes});
  driver::MhaArgs args;
  parse_arguments(arguments, args.rows());
  Cases cases;
  for (const bool backward : {false, true})
    if (args.directions == 0 || (args.directions & (backward ? 2 : 1)) != 0)
      cases.push_back(std::make_unique<MhaCase>(type, args, backward));
  return cases;
}

}  // namespace polymio::test
