// Checks the result of an activation: compares up to 256 elements, the first and last among them, with their evaluation
// in double.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>

#include "base/hash.h"
#include "core/random.h"
#include "primitives/activation/grid.h"
#include "primitives/activation/scalar.h"

namespace polymio::activation {
namespace {

using search::CheckResult;
using search::ResultCheck;
using search::Tolerance;

constexpr std::int64_t kSamples = 256;

double rounded(DataType t, double v) {
  double memory = 0;
  dtype::store(t, &memory, 0, v);
  return dtype::load(t, &memory, 0);
}

/// Error bound: some units in the last place, more where the function amplifies the rounding of its argument.
double error_bound(const Problem& p, const Parameters& a, double x, double value) {
  const bool wide = p.x.type == DataType::kDouble;
  double units = 8;
  if (p.mode == Mode::kTanh) units += 4 * std::fabs(a.alpha * x);
  if (p.mode == Mode::kPower && wide) {
    const double size = std::fabs(a.alpha) + std::fabs(a.beta * x), base = a.alpha + a.beta * x;
    units += 4 * (std::fabs(a.gamma) + 1) * size / std::max(base, DBL_MIN);
  }
  return units * (wide ? 0x1p-53 : 0x1p-24) * std::fabs(value) + (wide ? DBL_MIN : FLT_MIN);
}

class ActivationCheck final : public ResultCheck {
 public:
  explicit ActivationCheck(const Problem& p) : p_(p), grid_(grid_of(p)) {
    const std::int64_t count = p.count();
    for (std::int64_t i = 0; i < std::min(count, kSamples); ++i) {
      const std::uint64_t draw = mix(mix(p.hash(), static_cast<std::uint64_t>(i)), 1);
      const bool all = count <= kSamples;
      const std::int64_t inside = static_cast<std::int64_t>(draw % static_cast<std::uint64_t>(count));
      samples_.push_back(all ? i : i == 0 ? 0 : i == 1 ? count - 1 : inside);
    }
  }

  void poison(Stream& stream, const void* arguments) const override {
    const auto& args = *static_cast<const Problem::Args*>(arguments);
    stream.synchronize();
    if (!is_checkable(args)) return;
    const std::size_t size = size_of(p_.x.type);
    for (const std::int64_t i : samples_)
      std::memset(
          static_cast<unsigned char*>(args.result) + static_cast<std::size_t>(Cursor(grid_, i).offset(0)) * size, 0xff,
          size);
  }

  CheckResult check(Stream&, const void* args, Tolerance, std::string& text) const override;
  std::unique_ptr<PrivateCase> private_case(Handle&, std::size_t most_bytes) const override;

 private:
  /// Whether the run leaves its inputs unchanged, so that the result can be checked.
  static bool is_checkable(const Problem::Args& a) { return a.keep == 0 && a.x != a.result && a.dy != a.result; }

  double element(Stream& stream, const void* data, std::int64_t offset) const {
    const std::size_t size = size_of(p_.x.type);
    double memory = 0;
    stream.download(&memory, {data, static_cast<std::size_t>(offset) * size}, size);
    return dtype::load(p_.x.type, &memory, 0);
  }
  double expected(Stream& stream, const Problem::Args& args, double x, const Cursor& at) const {
    if (p_.forward()) return args.scale * value_at(p_.mode, args.parameters, x);
    const double dy = element(stream, args.dy, at.offset(2));
    return args.scale * (args.x_is_y ? gradient_from_y(p_.mode, args.parameters, x, dy)
                                     : gradient_at(p_.mode, args.parameters, x, dy));
  }

  const Problem p_;
  const Grid grid_;
  std::vector<std::int64_t> samples_;  // element indices in the grid's order
};

CheckResult ActivationCheck::check(Stream& stream, const void* arguments, Tolerance, std::string& text) const {
  const auto& args = *static_cast<const Problem::Args*>(arguments);
  stream.synchronize();
  if (!is_checkable(args)) {
    text = "the inputs are overwritten";
    return CheckResult::kInconclusive;
  }
  const DataType t = p_.x.type;
  std::size_t finite = 0;
  for (const std::int64_t i : samples_) {
    const Cursor at(grid_, i);
    const double x = element(stream, args.x, at.offset(1)), want = expected(stream, args, x, at);
    if (!std::isfinite(x) || !std::isfinite(rounded(t, want))) continue;
    ++finite;
    const double bound = error_bound(p_, args.parameters, x, want);
    const double got = element(stream, args.result, at.offset(0));
    if (rounded(t, want - bound) <= got && got <= rounded(t, want + bound)) continue;
    text = fmt::format("{} at offset {} is {:.9g}, should be {:.9g} +- {:.3g}", p_.forward() ? "y" : "dx", at.offset(0),
                       got, rounded(t, want), bound);
    return CheckResult::kWrong;
  }
  if (finite > 0) return CheckResult::kRight;
  text = "no result is finite";
  return CheckResult::kInconclusive;
}

class ActivationCase final : public ResultCheck::PrivateCase {
 public:
  ActivationCase(Handle& handle, const Problem& p)
      : problem_(p), check_(p), x_(handle, p.x, 1, 4), result_(handle, p.output(), 3, 1) {
    if (!p.forward()) dy_ = std::make_unique<RandomTensor>(handle, p.dy, 2, 1);
    args_.x = x_.data();
    args_.dy = dy_ ? dy_->data() : nullptr;
    args_.result = result_.data();
    args_.parameters = {0.5, 0.25, 1.5};
  }

  const ProblemBase& problem() const override { return problem_; }
  const ResultCheck& check() const override { return check_; }
  const void* args(void*, std::size_t) override { return &args_; }

 private:
  const Problem problem_;
  const ActivationCheck check_;
  const RandomTensor x_, result_;
  std::unique_ptr<const RandomTensor> dy_;
  Problem::Args args_;
};

double private_bytes(const Problem& p) {
  const std::size_t all = p.x.bytes() + p.output().bytes() + (p.forward() ? 0 : p.dy.bytes());
  return static_cast<double>(all);
}

std::unique_ptr<ResultCheck::PrivateCase> ActivationCheck::private_case(Handle& handle, std::size_t most_bytes) const {
  Problem p = p_;
  while (private_bytes(p) > static_cast<double>(most_bytes)) {
    if (p.x.lens[0] == 1) return nullptr;
    p.x.lens[0] /= 2;
    p.y.lens[0] = p.x.lens[0];
    if (!p.forward()) p.dy.lens[0] = p.dx.lens[0] = p.x.lens[0];
  }
  return std::make_unique<ActivationCase>(handle, p);
}

}  // namespace

std::unique_ptr<const ResultCheck> make_check(const Problem& p) { return std::make_unique<ActivationCheck>(p); }

}  // namespace polymio::activation
