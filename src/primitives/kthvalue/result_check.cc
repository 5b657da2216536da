// Checks the result of kthvalue: compares values with a selection among the elements in double. Positions are not
// checked.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "primitives/kthvalue/solvers.h"
#include "search/sampled_check.h"

namespace polymio::kthvalue {
namespace {

using search::Accepted;
using search::Operand;

constexpr std::int64_t kMostElements = std::int64_t{1} << 21;  // of all rows together

class KthvalueCheck final : public search::SampledCheck<Problem> {
 public:
  explicit KthvalueCheck(const Problem& p) : SampledCheck(p), rows_(rows_of(p)) {}

 private:
  std::vector<Operand> operands(Args& a) const override {
    return {{Operand::Use::kWhole, p_.x, a.x, 1},
            {Operand::Use::kOutput, p_.y, a.y, 2},
            {Operand::Use::kWhole, p_.indices, a.indices, 3}};
  }

  std::vector<std::int64_t> pick() const override {
    std::vector<std::int64_t> all = SampledCheck::pick();
    const auto most = static_cast<std::size_t>(std::clamp<std::int64_t>(kMostElements / p_.length(), 2, 256));
    if (all.size() > most) all.resize(most);
    return all;
  }
  /// Elements are rows, in the order of the loop.
  std::int64_t offset(std::int64_t row) const override { return Cursor(rows_, row).offset(1); }
  std::string name(std::int64_t row) const override { return fmt::format("y at offset {}", offset(row)); }

  Accepted element(Stream&, const Args& a, std::int64_t row) const override {
    const std::int64_t first = Cursor(rows_, row).offset(0);
    const std::int64_t stride = p_.x.strides[static_cast<std::size_t>(p_.selection.dim)];
    std::vector<double> all;
    for (std::int64_t i = 0; i < p_.length(); ++i) all.push_back(dtype::load(p_.x.type, a.x, first + i * stride));
    const auto kth = all.begin() + (p_.selection.k - 1);
    std::ranges::nth_element(all, kth, [](double x, double y) { return std::isnan(y) ? !std::isnan(x) : x < y; });
    return {*kth, *kth, *kth};
  }

  std::unique_ptr<SampledCheck> make(const Problem& p) const override { return std::make_unique<KthvalueCheck>(p); }
  std::vector<TensorDesc*> with_images(Problem& p) const override {
    if (p.selection.dim != 0) return {&p.x, &p.y, &p.indices};
    p.selection.k = 1;  // which fewer elements have, too
    return {&p.x};
  }

  const Loop rows_;
};

}  // namespace

std::unique_ptr<const search::ResultCheck> make_check(const Problem& p) { return std::make_unique<KthvalueCheck>(p); }

}  // namespace polymio::kthvalue
