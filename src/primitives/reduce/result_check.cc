// Checks the result of a reduction: compares elements of c, or positions where there is no c, with their evaluation in
// double. The positions of extremes whose values are written are not checked.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "primitives/reduce/solvers.h"
#include "search/sampled_check.h"

namespace polymio::reduce {
namespace {

using search::Accepted;
using search::Operand;

constexpr std::int64_t kMostTerms = std::int64_t{1} << 21;  // of all rows together

class ReduceCheck final : public search::SampledCheck<Problem> {
 public:
  explicit ReduceCheck(const Problem& p) : SampledCheck(p), loops_(p) {}

 private:
  std::vector<Operand> operands(Args& a) const override {
    std::vector<Operand> all{{Operand::Use::kWhole, p_.a, a.a, 1}};
    if (p_.has_values()) all.emplace_back(Operand::Use::kOutput, p_.c, a.c, 2);
    if (p_.has_positions())
      all.emplace_back(p_.has_values() ? Operand::Use::kWhole : Operand::Use::kOutput, p_.positions, a.positions, 3);
    return all;
  }
  const char* obstacle(const Args& a) const override {
    return a.beta == 0 && a.a != a.c ? "" : "the result is an input, too";
  }

  std::vector<std::int64_t> pick() const override {
    std::vector<std::int64_t> all = SampledCheck::pick();
    const auto most = static_cast<std::size_t>(std::clamp<std::int64_t>(kMostTerms / p_.length(), 2, 256));
    if (all.size() > most) all.resize(most);
    return all;
  }
  /// Elements are rows, in the order of the loop.
  std::int64_t offset(std::int64_t row) const override { return Cursor(loops_.kept, row).offset(1); }
  std::string name(std::int64_t row) const override {
    return fmt::format("{} at offset {}", p_.has_values() ? "c" : "the index", offset(row));
  }

  Accepted element(Stream&, const Args& a, std::int64_t row) const override {
    const Cursor first(loops_.kept, row);
    Cursor at(loops_.reduced, 0);
    const bool product = p_.op == Op::kMul, extreme = is_extreme(p_.op);
    double value = product ? 1 : 0, magnitude = 0, best = -HUGE_VAL;
    std::int64_t position = 0;
    for (std::int64_t i = 0; i < p_.length(); ++i, at.advance(1)) {
      const double x = dtype::load(p_.a.type, a.a, first.offset(0) + at.offset(0));
      const double term = p_.op == Op::kNorm2                         ? x * x
                          : p_.op == Op::kMin                         ? -x
                          : p_.op == Op::kNorm1 || p_.op == Op::kAmax ? std::fabs(x)
                                                                      : x;
      if (term > best) {
        best = term;
        position = i;
      }
      value = product ? value * term : value + term;
      magnitude += std::fabs(term);
    }
    if (extreme) value = p_.op == Op::kMin ? -best : best;
    if (p_.op == Op::kAvg) value /= static_cast<double>(p_.length());
    if (p_.op == Op::kAvg) magnitude /= static_cast<double>(p_.length());
    if (p_.op == Op::kNorm2) value = magnitude = std::sqrt(value);
    if (extreme || product) magnitude = std::fabs(value);
    if (!p_.has_values()) {
      const auto want = static_cast<double>(position);
      return {want, want, want};
    }
    const bool wide = p_.a.type == DataType::kDouble || p_.a.type == DataType::kInt32;
    const double terms = (extreme ? 0 : 8 * std::sqrt(static_cast<double>(p_.length()))) + 8;
    const double bound =
        terms * (wide ? 0x1p-53 : 0x1p-24) * std::fabs(a.alpha) * magnitude + (wide ? DBL_MIN : FLT_MIN);
    const double want = a.alpha * value;
    return {want - bound, want + bound, want, bound, std::isfinite(magnitude)};
  }

  std::unique_ptr<SampledCheck> make(const Problem& p) const override { return std::make_unique<ReduceCheck>(p); }
  std::vector<TensorDesc*> with_images(Problem& p) const override {
    if (p.a.lens[0] != p.c.lens[0]) return {&p.a};
    if (!p.has_positions()) return {&p.a, &p.c};
    return {&p.a, &p.c, &p.positions};
  }

  const Loops loops_;
};

}  // namespace

std::unique_ptr<const search::ResultCheck> make_check(const Problem& p) { return std::make_unique<ReduceCheck>(p); }

}  // namespace polymio::reduce
