// Checks the result of a pooling: compares up to 256 elements, the first and last among them, with their evaluation in
// double.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <cfloat>
#include <cmath>

#include "primitives/pooling/solvers.h"
#include "search/sampled_check.h"

namespace polymio::pooling {
namespace {

using search::Accepted;
using search::Operand;

/// The memory of the indices, byte by byte.
TensorDesc bytes_of_indices(const Problem& p) {
  const std::int64_t lens[] = {1, static_cast<std::int64_t>(index_bytes(p))};
  return make_tensor(DataType::kInt8, lens, {});
}

class PoolingCheck final : public search::SampledCheck<Problem> {
 public:
  explicit PoolingCheck(const Problem& p) : SampledCheck(p) {}

 private:
  std::vector<Operand> operands(Args& a) const override {
    std::vector<Operand> all{{Operand::Use::kOutput, p_.output(), a.result, 3}};
    if (p_.forward() || p_.searches_x()) all.emplace_back(Operand::Use::kWhole, p_.x, a.x, 1, 4);
    if (!p_.forward()) all.emplace_back(Operand::Use::kWhole, p_.dy, a.dy, 2);
    if (p_.index != Index::kNone) all.emplace_back(Operand::Use::kWhole, bytes_of_indices(p_), a.index, 4);
    return all;
  }
  const char* obstacle(const Args& a) const override { return a.keep == 0 ? "" : "the result is an input, too"; }
  Accepted element(Stream&, const Args& a, std::int64_t i) const override {
    const Definition definition(p_, a);
    const Coordinates at(p_.output(), i);
    std::uint64_t found = 0;
    const Value v = p_.forward() ? definition.forward(at, found) : definition.backward(at);
    const bool wide = p_.x.type == DataType::kDouble;
    const auto terms = static_cast<double>(definition.most_terms() + 8);
    const double want = a.scale * v.value;
    const double bound =
        terms * (wide ? 0x1p-53 : 0x1p-24) * std::fabs(a.scale) * v.magnitude + (wide ? DBL_MIN : FLT_MIN);
    return {want - bound, want + bound, want, bound, std::isfinite(v.magnitude)};
  }

  std::string name(std::int64_t element) const override {
    return fmt::format("{} at offset {}", p_.forward() ? "y" : "dx", offset(element));
  }
  std::unique_ptr<SampledCheck> make(const Problem& p) const override { return std::make_unique<PoolingCheck>(p); }
  std::vector<TensorDesc*> with_images(Problem& p) const override {
    if (p.forward()) return {&p.x, &p.y};
    return {&p.x, &p.y, &p.dy, &p.dx};
  }
};

}  // namespace

std::unique_ptr<const search::ResultCheck> make_check(const Problem& p) { return std::make_unique<PoolingCheck>(p); }

}  // namespace polymio::pooling
