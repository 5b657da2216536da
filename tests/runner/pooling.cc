// Cases of poolings and their gradients. Indices are an operand: they must be those of the first maxima.
// SPDX-License-Identifier: MIT
#include "reference/pooling.h"

#include <fmt/format.h>

#include <cstring>
#include <random>

#include "driver/run/pool_args.h"
#include "primitives/pooling/pooling.h"
#include "tests/runner/line.h"
#include "tests/runner/runner.h"
#include "tests/runner/tensors.h"

namespace polymio::test {
namespace {

using pooling::Problem;

struct Args {
  driver::TensorArgs tensors;
  driver::PoolArgs pool;

  driver::Flags rows() { return tensors.rows(tensors.with_scalars(pool.rows())); }
};

class PoolingCase final : public Case {
 public:
  PoolingCase(const Args& args, bool backward)
      : args_(args), backward_(backward), wanted_(args.pool.problem(args.tensors)) {
    wanted_.scale = args.tensors.scale;
    wanted_.keep = args.tensors.keep;
    problem_.direction = backward ? pooling::Direction::kBackward : pooling::Direction::kForward;
    problem_.mode = static_cast<pooling::Mode>(args.pool.mode);
    if (args.pool.has_indices()) {
      problem_.index = static_cast<pooling::Index>(args.pool.index_type + 1);
      problem_.position = static_cast<pooling::Position>(args.pool.position);
    }
    problem_.window.rank = static_cast<int>(wanted_.window.size());
    std::ranges::copy(wanted_.window, problem_.window.length.begin());
    std::ranges::copy(wanted_.pad, problem_.window.pad.begin());
    std::ranges::copy(wanted_.stride, problem_.window.stride.begin());
    problem_.x = describe(wanted_.x);
    problem_.y = describe(wanted_.y);
    if (backward) {
      problem_.dy = describe(wanted_.dy);
      problem_.dx = describe(wanted_.dx);
    }
    pooling::validate(problem_);
    index_ = pooling::index_tensor(problem_.y);
    // The type only gives the size.
    static constexpr reference::Type kTypes[] = {reference::Type::kInt8, reference::Type::kInt8, reference::Type::kHalf,
                                                 reference::Type::kInt32, reference::Type::kInt64};
    const reference::Tensor indices(kTypes[static_cast<int>(problem_.index)],
                                    {args.pool.has_indices() ? problem_.y.count() : 1});
    operands = {{wanted_.x}, {backward ? wanted_.dx : wanted_.y}, {indices}};
    if (backward) operands.push_back({wanted_.dy});
    operands[kResult].use = wanted_.keep != 0 ? Use::kUpdated : Use::kWritten;
    if (!backward && args.pool.has_indices()) operands[kIndex].use = Use::kWritten;
  }
  std::string line() const override {
    return fmt::format("{} --scale_alpha {} --scale_beta {}", problem_.key(), wanted_.scale, wanted_.keep);
  }
  const ProblemBase& problem() const override { return problem_; }
  SolverList solvers(DeviceKind kind) const override { return pooling::solvers(problem_.direction, kind); }
  bool has_problem_of(const Case& other) const override {
    Problem same = static_cast<const PoolingCase&>(other).problem_, mine = problem_;
    for (Problem* p : {&same, &mine})
      for (TensorDesc* t : {&p->x, &p->y, &p->dx, &p->dy}) *t = without_idle_strides(*t);
    return mine == same;
  }
  void prepare() override {
    fill(operands[kX], 1);
    fill(operands[kResult], 2);
    if (backward_) fill(operands[kDy], 3);
    const void *const x = operands[kX].content.data(), *const old = operands[kResult].content.data();
    expected_ = backward_ ? pool_backward(wanted_, x, operands[kDy].content.data(), old) : pool(wanted_, x, old);
    operands[kIndex].content.assign(operands[kIndex].tensor.bytes(), kPoison);
    if (!args_.pool.has_indices()) return;
    indices_.assign(index_bytes(problem_), 0);
    const std::vector<std::int64_t> maxima = reference::maxima(wanted_, x, args_.pool.position == 1);
    const std::vector<std::int64_t> strides(index_.strides.begin(), index_.strides.begin() + index_.rank);
    const reference::Tensor places(reference::Type::kInt8, wanted_.y.lens, strides);
    const std::size_t size = size_of(problem_.index);
    for (std::size_t i = 0; i < maxima.size(); ++i)
      std::memcpy(&indices_[static_cast<std::size_t>(places.offset(static_cast<std::int64_t>(i))) * size], &maxima[i],
                  size);
    if (backward_) operands[kIndex].content = indices_;
  }
  void run(const AnyInvoker& invoke, Stream& stream, std::span<void* const> data, void*, std::size_t) const override {
    Problem::Args args;
    args.x = data[kX];
    args.result = data[kResult];
    args.index = data[kIndex];
    args.dy = backward_ ? data[kDy] : nullptr;
    args.scale = wanted_.scale;
    args.keep = wanted_.keep;
    invoke(stream, &args);
  }
  reference::Comparison compare(const SolverBase&, std::size_t operand, const void* result) const override {
    if (operand == kResult)
      return reference::compare(pool_arithmetic(wanted_, backward_), operands[kResult].tensor, result, expected_);
    reference::Comparison found;
    const auto* const bytes = static_cast<const unsigned char*>(result);
    for (std::size_t i = 0; i < indices_.size(); ++i) {
      if (bytes[i] == indices_[i]) continue;
      ++found.failures;
      found.index = static_cast<std::int64_t>(i);
      found.got = bytes[i];
      found.want = indices_[i];
    }
    return found;
  }

 private:
  enum { kX, kResult, kIndex, kDy };

  /// Few values, so that windows have several maxima, and others; NaN between the elements.
  void fill(Operand& operand, unsigned seed) const {
    const reference::Tensor& t = operand.tensor;
    operand.content.assign(t.bytes(), kPoison);
    std::mt19937 random(seed);
    for (std::int64_t i = 0; i < t.count(); ++i) {
      const auto draw = static_cast<double>(random() % 4096);
      const double value = static_cast<int>(draw) % 3 == 0 ? draw / 512 - 4 : static_cast<int>(draw) % 5 - 3;
      reference::store(t.type, operand.content.data(), t.offset(i), value);
    }
  }

  Args args_;
  bool backward_;
  reference::Pooling wanted_;
  Problem problem_;
  TensorDesc index_;
  std::vector<unsigned char> indices_;
  reference::Result expected_;
};

}  // namespace

Cases pooling_cases(const std::string& line) {
  const Args args = parse_tensors<Args>(line, "pool", driver::kPoolTypes);
  const bool forward_only = args.tensors.type == driver::kInt8;
  const std::int64_t directions = args.tensors.directions != 0 ? args.tensors.directions : forward_only ? 1 : 3;
  Cases cases;
  for (const bool backward : {false, true})
    if (directions & (backward ? 2 : 1)) cases.push_back(std::make_unique<PoolingCase>(args, backward));
  return cases;
}

}  // namespace polymio::test
