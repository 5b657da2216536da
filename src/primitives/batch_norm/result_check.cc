// Checks y or dx: compares up to 256 elements, the first and last among them, with their evaluation in double.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <cfloat>
#include <cmath>
#include <map>

#include "primitives/batch_norm/solvers.h"
#include "search/sampled_check.h"

namespace polymio::batch_norm {
namespace {

using search::Accepted;
using search::Operand;
using Args = Problem::Args;

/// The moments of a row, and the sums of its gradient with those of their absolute terms.
struct RowValues {
  double mean = 0, inverse = 0, factor = 0, bias = 0;
  double dscale = 0, dbias = 0, dscale_size = 0, dbias_size = 0;
};

/// Elements are numbered by rows.
class BatchNormCheck final : public search::SampledCheck<Problem> {
 public:
  explicit BatchNormCheck(const Problem& p) : SampledCheck(p), loops_(loops_of(p)), length_(loops_.reduced.count()) {}

 private:
  std::vector<Operand> operands(Args& a) const override {
    using enum Operand::Use;
    const auto parameter = [&](DataType type) {
      TensorDesc t = p_.parameters;
      t.type = t.cast = type;
      return t;
    };
    std::vector<Operand> all{{kWhole, p_.x, a.x, 1, 4},
                             {kOutput, p_.out, a.out, 2},
                             {kWhole, parameter(p_.scale_type), a.scale, 3},
                             {kWhole, parameter(p_.bias_type), a.bias, 4}};
    if (!p_.forward()) all.emplace_back(kWhole, p_.dy, a.dy, 5);
    if (p_.direction == Direction::kInference) {
      all.emplace_back(kWhole, parameter(p_.moment_type), a.mean, 6);
      all.emplace_back(kWhole, parameter(p_.moment_type), a.variance, 7);
    }
    return all;
  }
  const char* obstacle(const Args& a) const override {
    if (a.keep != 0 || a.x == a.out || a.dy == a.out) return "the inputs are overwritten";
    if (!p_.forward() && (a.mean || !a.bias)) return "the moments are given";
    return "";
  }

  std::vector<Accepted> accepted(Stream&, const Args& args, search::Tolerance, std::string& why) const override {
    std::vector<Accepted> all;
    std::map<std::int64_t, RowValues> rows;
    why = "no result is finite";
    for (const std::int64_t i : samples()) {
      const std::int64_t row = i / length_;
      const auto [values, added] = rows.try_emplace(row);
      if (added) values->second = evaluate(args, row);
      Accepted& e = all.emplace_back(accepted(args, values->second, i));
      e.known = std::isfinite(rounded(p_.out.type, e.want)) && std::isfinite(e.bound);
      if (e.known) why = "";
    }
    return all;
  }

  Accepted accepted(const Args& a, const RowValues& v, std::int64_t number) const {
    const Cursor row(loops_.kept, number / length_), at(loops_.reduced, number % length_);
    const double x = load(p_.x, a.x, row, at, kX), n = static_cast<double>(length_);
    const double distance = (std::fabs(x) + std::fabs(v.mean)) * std::fabs(v.inverse);
    double value, size;
    if (p_.forward()) {
      const Range range = range_of(p_.activation, a.activation);
      value = std::fmax(range.low, std::fmin(range.high, (x - v.mean) * v.factor + v.bias));
      size = distance * (std::fabs(v.factor / v.inverse) + std::fabs(value - v.bias)) + std::fabs(v.bias);
    } else {
      const double dy = load(p_.dy, a.dy, row, at, kDy), open = gated(a, v, x, dy);
      value = v.factor * (open - v.dbias / n - (x - v.mean) * v.inverse * v.dscale / n);
      size = std::fabs(v.factor) * (std::fabs(dy) + v.dbias_size / n + distance * v.dscale_size / n);
    }
    const bool wide = p_.x.type == DataType::kDouble;
    const double bound = (wide ? 0x1p-53 : 0x1p-24) * 64 * size + (wide ? DBL_MIN : FLT_MIN);
    return {a.blend * value - bound, a.blend * value + bound, a.blend * value, bound};
  }

  static double load(const TensorDesc& t, const void* data, const Cursor& row, const Cursor& at, std::size_t operand) {
    return dtype::load(t.type, data, row.offset(operand) + at.offset(operand));
  }
  /// dy where the activation has a gradient, else 0.
  double gated(const Args& a, const RowValues& v, double x, double dy) const {
    if (p_.activation == activation::Mode::kPassthru) return dy;
    const Range range = range_of(p_.activation, a.activation);
    const double argument = (x - v.mean) * v.factor + v.bias;
    return argument > range.low && argument <= range.high ? dy : 0;
  }
  template <class Body>
  void each(const Body& body) const {
    Cursor at(loops_.reduced, 0);
    for (std::int64_t i = 0; i < length_; ++i, at.advance(1)) body(at);
  }

  RowValues evaluate(const Args& a, std::int64_t number) const {
    const Cursor row(loops_.kept, number);
    const std::int64_t parameter = row.offset(kParameter);
    const double n = static_cast<double>(length_);
    RowValues v;
    if (p_.direction == Direction::kInference) {
      v.mean = dtype::load(p_.moment_type, a.mean, parameter);
      const double given = dtype::load(p_.moment_type, a.variance, parameter);
      v.inverse = a.inverse ? given : 1 / std::sqrt(given + a.epsilon);
    } else {
      double squares = 0;
      each([&](const Cursor& at) { v.mean += load(p_.x, a.x, row, at, kX) / n; });
      each([&](const Cursor& at) {
        const double distance = load(p_.x, a.x, row, at, kX) - v.mean;
        squares += distance * distance;
      });
      v.inverse = 1 / std::sqrt(squares / n + a.epsilon);
    }
    v.factor = v.inverse * dtype::load(p_.scale_type, a.scale, parameter);
    v.bias = dtype::load(p_.bias_type, a.bias, parameter);
    if (p_.forward()) return v;
    each([&](const Cursor& at) {
      const double x = load(p_.x, a.x, row, at, kX), dy = gated(a, v, x, load(p_.dy, a.dy, row, at, kDy));
      const double product = dy * (x - v.mean) * v.inverse;
      v.dbias += dy;
      v.dscale += product;
      v.dbias_size += std::fabs(dy);
      v.dscale_size += std::fabs(product);
    });
    return v;
  }

  std::int64_t offset(std::int64_t element) const override {
    return Cursor(loops_.kept, element / length_).offset(kOut) + Cursor(loops_.reduced, element % length_).offset(kOut);
  }
  std::string name(std::int64_t element) const override {
    return fmt::format("{} at offset {}", p_.forward() ? "y" : "dx", offset(element));
  }

  /// Random numbers are no variances: the private case of inference takes inverse deviations.
  Args private_args() const override {
    Args args;
    args.inverse = true;
    args.epsilon = 1e-5;
    args.activation = {0.5, 1.5, 0};
    return args;
  }
  std::unique_ptr<SampledCheck> make(const Problem& p) const override { return std::make_unique<BatchNormCheck>(p); }
  std::vector<TensorDesc*> with_images(Problem& p) const override {
    return p.forward() ? std::vector{&p.x, &p.out} : std::vector{&p.x, &p.out, &p.dy};
  }

  const common::RowLoops loops_;
  const std::int64_t length_;
};

}  // namespace

std::unique_ptr<const search::ResultCheck> make_check(const Problem& p) { return std::make_unique<BatchNormCheck>(p); }

}  // namespace polymio::batch_norm
