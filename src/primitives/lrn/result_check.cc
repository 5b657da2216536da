// Checks the result of LRN: compares up to 256 elements, the first and last among them, with their evaluation in
// double.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "primitives/lrn/lrn.h"
#include "search/sampled_check.h"

namespace polymio::lrn {
namespace {

using search::Accepted;
using search::Operand;
using Index = std::array<std::int64_t, kMaxRank>;

/// A sum, and the sum of the magnitudes of its terms.
struct Sum {
  double value = 0, magnitude = 0;
  void add(double v) {
    value += v;
    magnitude += std::fabs(v);
  }
};

class LrnCheck final : public search::SampledCheck<Problem> {
 public:
  explicit LrnCheck(const Problem& p) : SampledCheck(p) {}

 private:
  std::vector<Operand> operands(Args& a) const override {
    std::vector<Operand> all{{Operand::Use::kElements, p_.x, a.x, 1},
                             {Operand::Use::kOutput, p_.output(), a.result, 3}};
    if (!p_.forward()) {
      all.emplace_back(Operand::Use::kElements, p_.y, a.y, 2);
      all.emplace_back(Operand::Use::kElements, p_.dy, a.dy, 4);
    }
    if (p_.has_scale()) all.emplace_back(Operand::Use::kElements, p_.y, a.scale, 5);
    return all;
  }

  static std::int64_t offset_at(const TensorDesc& t, const Index& at) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < static_cast<std::size_t>(t.rank); ++d) offset += at[d] * t.strides[d];
    return offset;
  }
  double read(Stream& stream, const TensorDesc& t, const void* data, const Index& at) const {
    return read_element(stream, t, data, offset_at(t, at));
  }

  /// Calls body(index) for the elements of the window of the element `at`.
  template <class Body>
  void window(const Index& at, bool mirrored, std::size_t dim, Index& index, const Body& body) const {
    if (dim == static_cast<std::size_t>(p_.x.rank)) return body(index);
    std::int64_t first = at[dim], last = at[dim];
    if (p_.windowed(dim)) {
      const Reach forward = reach_of(p_, p_.x.lens[dim]), reach = mirrored ? forward.mirrored() : forward;
      first = std::max<std::int64_t>(first - reach.before, 0);
      last = std::min(last + reach.after, p_.x.lens[dim] - 1);
    }
    for (index[dim] = first; index[dim] <= last; ++index[dim]) window(at, mirrored, dim + 1, index, body);
  }

  Sum scale(Stream& stream, const Args& a, const Index& at) const {
    Sum sum;
    Index index{};
    if (p_.has_scale() && !p_.forward()) {
      sum.add(read(stream, p_.y, a.scale, at));
      return sum;
    }
    const double factor = factors_of(p_, a.parameters).factor;
    sum.add(a.parameters.k);
    window(at, false, 0, index, [&](const Index& i) {
      const double x = read(stream, p_.x, a.x, i);
      sum.add(factor * x * x);
    });
    return sum;
  }

  Accepted element(Stream& stream, const Args& a, std::int64_t number) const override {
    Index at{};
    for (std::size_t d = static_cast<std::size_t>(p_.x.rank); d-- > 0; number /= p_.x.lens[d])
      at[d] = number % p_.x.lens[d];
    const Sum s = scale(stream, a, at);
    const double amplified = 1 + std::fabs(a.parameters.beta) * s.magnitude / std::fabs(s.value);
    const double x = read(stream, p_.x, a.x, at), power = std::pow(s.value, -a.parameters.beta);
    Sum result;
    if (p_.forward()) {
      result.add(x * power);
    } else {
      Sum products;
      Index index{};
      window(at, true, 0, index, [&](const Index& i) {
        products.add(read(stream, p_.y, a.y, i) * read(stream, p_.dy, a.dy, i) / scale(stream, a, i).value);
      });
      result.add(read(stream, p_.dy, a.dy, at) * power);
      const double ratio = factors_of(p_, a.parameters).ratio;
      result.value -= ratio * x * products.value;
      result.magnitude += std::fabs(ratio * x) * products.magnitude;
    }
    const bool wide = p_.x.type == DataType::kDouble;
    const double terms = 16 + std::pow(p_.window.n, p_.mode == Mode::kCrossChannel ? 1 : p_.x.rank - 2);
    const double bound = terms * amplified * (wide ? 0x1p-53 : 0x1p-24) * result.magnitude + (wide ? DBL_MIN : FLT_MIN);
    return {result.value - bound, result.value + bound, result.value, bound, std::isfinite(result.value)};
  }

  std::string name(std::int64_t element) const override {
    return fmt::format("{} at offset {}", p_.forward() ? "y" : "dx", offset(element));
  }
  std::unique_ptr<SampledCheck> make(const Problem& p) const override { return std::make_unique<LrnCheck>(p); }
  std::vector<TensorDesc*> with_images(Problem& p) const override {
    if (p.forward()) return {&p.x, &p.y};
    return {&p.x, &p.y, &p.dy, &p.dx};
  }
};

}  // namespace

std::unique_ptr<const search::ResultCheck> make_check(const Problem& p) { return std::make_unique<LrnCheck>(p); }

}  // namespace polymio::lrn
