// Checks the result of a softmax: compares elements, the first and last among them, with their evaluation in double.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "primitives/softmax/solvers.h"
#include "search/sampled_check.h"

namespace polymio::softmax {
namespace {

using search::Accepted;
using search::Operand;

constexpr std::int64_t kMostTerms = std::int64_t{1} << 21;  // of all sums together

class SoftmaxCheck final : public search::SampledCheck<Problem> {
 public:
  explicit SoftmaxCheck(const Problem& p) : SampledCheck(p), loops_(row_loops_of(p)) {}

 private:
  std::vector<Operand> operands(Args& a) const override {
    std::vector<Operand> all{{Operand::Use::kWhole, p_.in, a.in, 1, p_.forward() ? 4.0 : 1.0},
                             {Operand::Use::kOutput, p_.out, a.result, 3}};
    if (!p_.forward()) all.emplace_back(Operand::Use::kWhole, p_.dy, a.dy, 2);
    return all;
  }
  const char* obstacle(const Args& a) const override {
    return a.keep == 0 && a.in != a.result && a.dy != a.result ? "" : "the inputs are overwritten";
  }

  std::vector<std::int64_t> pick() const override {
    std::vector<std::int64_t> all = SampledCheck::pick();
    const auto most = static_cast<std::size_t>(std::clamp<std::int64_t>(kMostTerms / loops_.reduced.count(), 2, 256));
    if (all.size() > most) all.resize(most);
    return all;
  }
  /// Elements are numbered row by row.
  std::int64_t offset(std::int64_t element) const override {
    const std::int64_t n = loops_.reduced.count();
    return Cursor(loops_.kept, element / n).offset(0) + Cursor(loops_.reduced, element % n).offset(0);
  }
  std::string name(std::int64_t element) const override {
    return fmt::format("{} at offset {}", p_.out_name(), offset(element));
  }

  Accepted element(Stream&, const Args& a, std::int64_t i) const override {
    const std::int64_t n = loops_.reduced.count();
    const Row row{p_, a, Cursor(loops_.kept, i / n), loops_.reduced};
    const Cursor at(loops_.reduced, i % n);
    const Value v = p_.forward() ? forward(row, row.in(at)) : backward(row, row.in(at), row.dy(at));
    const bool wide = p_.in.type == DataType::kDouble;
    const double terms = std::min(static_cast<double>(n), 8 * std::sqrt(static_cast<double>(n))) + 8;
    const double bound =
        terms * (wide ? 0x1p-53 : 0x1p-24) * std::fabs(a.scale) * v.magnitude + (wide ? DBL_MIN : FLT_MIN);
    const double want = a.scale * v.value;
    return {want - bound, want + bound, want, bound};
  }

  struct Value {
    double value, magnitude;  // what the error is relative to
  };
  struct Row {
    const Problem& p;
    const Args& args;
    Cursor first;
    const Loop& elements;
    double in(const Cursor& at) const { return dtype::load(p.in.type, args.in, first.offset(1) + at.offset(1)); }
    double dy(const Cursor& at) const { return dtype::load(p.in.type, args.dy, first.offset(2) + at.offset(2)); }
    template <class Body>
    void each(const Body& body) const {
      Cursor at(elements, 0);
      for (std::int64_t i = 0; i < elements.count(); ++i, at.advance(1)) body(at);
    }
  };

  Value forward(const Row& row, double x) const {
    double most = -HUGE_VAL, sum = 0, weighted = 0;
    row.each([&](const Cursor& at) { most = std::max(most, row.in(at)); });
    row.each([&](const Cursor& at) {
      const double below = most - row.in(at), term = std::exp(-below);
      sum += term;
      weighted += term > 0 ? below * term : 0;
    });
    const double down = most - x, deviation = 1 + weighted / sum;
    if (p_.log()) return {-down - std::log(sum), down + std::log(sum) + deviation};
    const double value = std::exp(-down) / sum;
    return {value, value * (down + deviation)};
  }
  Value backward(const Row& row, double y, double dy) const {
    double sum = 0, magnitude = 0;
    row.each([&](const Cursor& at) {
      const double term = row.dy(at) * (p_.log() ? 1 : row.in(at));
      sum += term;
      magnitude += std::fabs(term);
    });
    if (p_.log()) return {dy - std::exp(y) * sum, std::fabs(dy) + std::exp(y) * (1 + std::fabs(y)) * magnitude};
    return {y * (dy - sum), std::fabs(y) * (std::fabs(dy) + magnitude)};
  }

  std::unique_ptr<SampledCheck> make(const Problem& p) const override { return std::make_unique<SoftmaxCheck>(p); }
  std::vector<TensorDesc*> with_images(Problem& p) const override {
    if (p.forward()) return {&p.in, &p.out};
    return {&p.in, &p.dy, &p.out};
  }

  const common::RowLoops loops_;
};

}  // namespace

std::unique_ptr<const search::ResultCheck> make_check(const Problem& p) { return std::make_unique<SoftmaxCheck>(p); }

}  // namespace polymio::softmax
