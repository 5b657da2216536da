// Cases of normalizations and their gradients.
// SPDX-License-Identifier: MIT
#include "reference/norm.h"

#include <fmt/format.h>

#include <random>

#include "driver/run/norm_args.h"
#include "primitives/norm/norm.h"
#include "tests/runner/line.h"
#include "tests/runner/runner.h"
#include "tests/runner/tensors.h"

namespace polymio::test {
namespace {

using norm::Problem;
using reference::NormKind;

struct Args {
  driver::TensorArgs tensors;
  driver::NormArgs norm;

  driver::Flags rows() { return tensors.rows(norm.rows()); }
};

Args parse(const std::string& line) {
  const std::vector<std::string> arguments = driver::split_line(line);
  for (const std::string_view name : driver::kNormNames) {
    const driver::DataType type = driver::Bases{name, kFloats}.type_of(arguments[0]);
    if (type == driver::kNoType) continue;
    Args args{{}, driver::NormArgs(name)};
    args.tensors.type = type;
    return parse_tensors(arguments, args);
  }
  throw std::invalid_argument(arguments[0] + " is no normalization");
}

/// Places of the operands of a case; weight and bias are absent where they are not read.
enum Place { kX, kX2, kWeight, kBias, kDy, kOut, kMean, kRstd, kDw, kDb, kPlaces };

class NormCase final : public Case {
 public:
  NormCase(const Args& args, bool backward)
      : args_(args), backward_(backward), wanted_(args.norm.problem(args.tensors, backward)) {
    const bool rms = wanted_.kind == NormKind::kRms;
    const Use of_statistics = backward ? Use::kRead : Use::kWritten;
    add(kX, wanted_.x);
    if (wanted_.kind == NormKind::kAddLayer) add(kX2, wanted_.x2);
    if (wanted_.affine) add(kWeight, wanted_.parameter());
    if (wanted_.affine && !rms && !backward) add(kBias, wanted_.parameter());
    if (backward) add(kDy, wanted_.dy);
    add(kOut, wanted_.out, Use::kWritten);
    if (!rms) add(kMean, wanted_.statistic(), of_statistics);
    add(kRstd, wanted_.statistic(), of_statistics);
    if (backward) add(kDw, wanted_.parameter(), Use::kWritten);
    if (backward && !rms) add(kDb, wanted_.parameter(), Use::kWritten);
    make_problem();
  }

  std::string line() const override { return fmt::format("{} -e {}", problem_.key(), args_.norm.epsilon); }
  const ProblemBase& problem() const override { return problem_; }
  SolverList solvers(DeviceKind kind) const override { return norm::solvers(problem_.direction, kind); }
  bool has_problem_of(const Case& other) const override {
    Problem same = static_cast<const NormCase&>(other).problem_, mine = problem_;
    for (Problem* p : {&same, &mine})
      for (TensorDesc* t : {&p->x, &p->x2, &p->y, &p->dx, &p->dy}) *t = without_idle_strides(*t);
    return mine == same;
  }

  void prepare() override {
    fill(kX, 1, [](double unit, std::int64_t i) { return i % 7 == 3 ? 4 * unit : unit + 0.5; });
    fill(kX2, 2, [](double unit, std::int64_t) { return unit; });
    fill(kWeight, 3, [](double unit, std::int64_t) { return 1 + unit; });
    fill(kBias, 4, [](double unit, std::int64_t) { return unit; });
    fill(kDy, 5, [](double unit, std::int64_t) { return unit; });
    fill(kMean, 6, [](double unit, std::int64_t) { return 0.5 + unit / 4; });
    fill(kRstd, 7, [](double unit, std::int64_t) { return 1 + unit / 2; });
    for (const Place place : {kOut, kDw, kDb}) fill(place, 8, nullptr);
    const reference::NormData data{content(kX),  content(kX2),   content(kWeight), content(kBias),
                                   content(kDy), content(kMean), content(kRstd)};
    expected_ = backward_ ? norm_backward(wanted_, data) : norm_forward(wanted_, data);
  }

  void run(const AnyInvoker& invoke, Stream& stream, std::span<void* const> data, void*, std::size_t) const override {
    const auto at = [&](Place place) { return at_[place] < 0 ? nullptr : data[static_cast<std::size_t>(at_[place])]; };
    Problem::Args a;
    a.x = at(kX);
    a.x2 = at(kX2);
    a.weight = at(kWeight);
    a.bias = at(kBias);
    a.dy = at(kDy);
    (backward_ ? a.dx : a.y) = at(kOut);
    a.mean = at(kMean);
    a.rstd = at(kRstd);
    a.dw = at(kDw);
    a.db = at(kDb);
    a.epsilon = wanted_.epsilon;
    invoke(stream, &a);
  }

  reference::Comparison compare(const SolverBase&, std::size_t operand, const void* result) const override {
    const auto is = [&](Place place) { return at_[place] == static_cast<int>(operand); };
    const std::size_t number = is(kOut) ? 0 : is(kMean) || is(kDw) ? 1 : 2;
    const reference::Tensor& tensor = operands[operand].tensor;
    const std::int64_t length = is(kDw) || is(kDb) ? wanted_.rows() : wanted_.length();
    return reference::compare(arithmetic(wanted_, tensor.type, length), tensor, result, expected_[number]);
  }

 private:
  void add(Place place, const reference::Tensor& tensor, Use use = Use::kRead) {
    at_[place] = static_cast<int>(operands.size());
    operands.push_back({tensor, use});
  }
  const void* content(Place place) const {
    return at_[place] < 0 ? nullptr : operands[static_cast<std::size_t>(at_[place])].content.data();
  }

  void make_problem() {
    std::vector<TensorDesc> descs;
    descs.reserve(operands.size());
    for (const Operand& operand : operands) descs.push_back(describe(operand.tensor));
    const auto desc = [&](Place place) {
      return at_[place] < 0 ? nullptr : &descs[static_cast<std::size_t>(at_[place])];
    };
    norm::Tensors tensors{.x = desc(kX),
                          .x2 = desc(kX2),
                          .y = backward_ ? nullptr : desc(kOut),
                          .dy = desc(kDy),
                          .dx = backward_ ? desc(kOut) : nullptr,
                          .weight = desc(kWeight),
                          .bias = desc(kBias),
                          .mean = desc(kMean),
                          .rstd = desc(kRstd),
                          .dw = desc(kDw),
                          .db = desc(kDb)};
    problem_ = norm::make_problem(
        static_cast<norm::Kind>(wanted_.kind), backward_ ? norm::Direction::kBackward : norm::Direction::kForward,
        wanted_.affine ? norm::Affine::kYes : norm::Affine::kNo, {wanted_.first, wanted_.groups}, tensors);
    norm::validate(problem_);
  }

  /// Values of value(a number from -1 to 1, element), NaN between them; NaN only without a function.
  template <class Value>
  void fill(Place place, unsigned seed, const Value& value) {
    if (at_[place] < 0) return;
    auto& [tensor, use, bytes] = operands[static_cast<std::size_t>(at_[place])];
    bytes.assign(tensor.bytes(), kPoison);
    if constexpr (!std::is_same_v<Value, std::nullptr_t>) {
      std::mt19937 random(seed);
      for (std::int64_t i = 0; i < tensor.count(); ++i)
        reference::store(tensor.type, bytes.data(), tensor.offset(i),
                         value(static_cast<double>(random()) / static_cast<double>(random.max()) * 2 - 1, i));
    }
  }

  const Args args_;
  const bool backward_;
  const reference::Norm wanted_;
  int at_[kPlaces] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
  Problem problem_;
  std::array<reference::Result, 3> expected_;
};

}  // namespace

Cases norm_cases(const std::string& line) {
  const Args args = parse(line);
  const std::int64_t directions = !args.norm.has_backward()      ? 1
                                  : args.tensors.directions == 0 ? 3
                                                                 : args.tensors.directions;
  Cases cases;
  for (const bool backward : {false, true})
    if (directions & (backward ? 2 : 1)) cases.push_back(std::make_unique<NormCase>(args, backward));
  return cases;
}

}  // namespace polymio::test
