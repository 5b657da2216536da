// Checks the result of an activation: compares up to 256 elements, the first and last among them, with their evaluation
// in double.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "primitives/activation/scalar.h"
#include "primitives/activation/solvers.h"
#include "search/sampled_check.h"

namespace polymio::activation {
namespace {

using search::Accepted;
using search::Operand;

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

/// Elements are numbered in the loop's order.
class ActivationCheck final : public search::SampledCheck<Problem> {
 public:
  explicit ActivationCheck(const Problem& p) : SampledCheck(p), loop_(loop_of(p)) {}

 private:
  std::vector<Operand> operands(Args& a) const override {
    std::vector<Operand> all{{Operand::Use::kElements, p_.x, a.x, 1, 4},
                             {Operand::Use::kOutput, p_.output(), a.result, 3}};
    if (!p_.forward()) all.emplace_back(Operand::Use::kElements, p_.dy, a.dy, 2);
    return all;
  }
  const char* obstacle(const Args& a) const override {
    return a.keep == 0 && a.x != a.result && a.dy != a.result ? "" : "the inputs are overwritten";
  }
  Accepted element(Stream& stream, const Args& a, std::int64_t i) const override {
    const Cursor at(loop_, i);
    const double x = read_element(stream, p_.x, a.x, at.offset(1));
    const double dy = p_.forward() ? 1 : read_element(stream, p_.dy, a.dy, at.offset(2));
    const double want = a.scale * (p_.forward() ? value_at(p_.mode, a.parameters, x)
                                   : a.x_is_y   ? gradient_from_y(p_.mode, a.parameters, x, dy)
                                                : gradient_at(p_.mode, a.parameters, x, dy));
    const double bound = error_bound(p_, a.parameters, x, want);
    return {want - bound, want + bound, want, bound, std::isfinite(x)};
  }

  std::int64_t offset(std::int64_t element) const override { return Cursor(loop_, element).offset(0); }
  std::string name(std::int64_t element) const override {
    return fmt::format("{} at offset {}", p_.forward() ? "y" : "dx", offset(element));
  }

  Args private_args() const override { return {.parameters = {0.25, 0.5, 1.5}}; }
  std::unique_ptr<SampledCheck> make(const Problem& p) const override { return std::make_unique<ActivationCheck>(p); }
  std::vector<TensorDesc*> with_images(Problem& p) const override { return {&p.x, &p.y, &p.dy, &p.dx}; }

  const Loop loop_;
};

}  // namespace

std::unique_ptr<const search::ResultCheck> make_check(const Problem& p) { return std::make_unique<ActivationCheck>(p); }

}  // namespace polymio::activation
