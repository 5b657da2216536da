// Checks matrix products: compares elements of c with their evaluation in double.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "primitives/matmul/solvers.h"
#include "search/sampled_check.h"

namespace polymio::matmul {
namespace {

using search::Accepted;
using search::Operand;

class MatmulCheck final : public search::SampledCheck<Problem> {
 public:
  explicit MatmulCheck(const Problem& p) : SampledCheck(p) {}

 private:
  std::vector<Operand> operands(Args& a) const override {
    std::vector<Operand> all{{Operand::Use::kOutput, p_.c, a.c, 3}};
    if (p_.k() == 0) return all;
    all.emplace_back(Operand::Use::kWhole, p_.a, a.a, 1);
    all.emplace_back(Operand::Use::kWhole, p_.b, a.b, 2);
    return all;
  }
  const char* obstacle(const Args& a) const override {
    if (a.beta != 0) return "c is read, too";
    if (!p_.epilogue.empty()) return "what follows the product is not evaluated";
    return a.a_at == 0 && a.b_at == 0 && a.c_at == 0 ? "" : "the matrices do not begin where the buffers do";
  }
  std::string name(std::int64_t element) const override { return fmt::format("c at offset {}", offset(element)); }

  Accepted element(Stream&, const Args& args, std::int64_t i) const override {
    std::int64_t rest = i, a_at = 0, b_at = 0;
    for (std::size_t d = p_.column() + 1; d-- > 0; rest /= p_.c.lens[d]) {
      const std::int64_t index = rest % p_.c.lens[d];
      if (d != p_.column() && p_.a.lens[d] != 1) a_at += index * p_.a.strides[d];
      if (d != p_.row() && p_.b.lens[d] != 1) b_at += index * p_.b.strides[d];
    }
    double sum = 0, magnitude = 0;
    for (std::int64_t k = 0; k < p_.k(); ++k) {
      const double term = dtype::load(p_.a.type, args.a, a_at + k * p_.a.strides[p_.column()]) *
                          dtype::load(p_.b.type, args.b, b_at + k * p_.b.strides[p_.row()]);
      sum += term;
      magnitude += std::fabs(term);
    }
    const bool wide = is_wide(p_);
    const auto k = static_cast<double>(p_.k());
    const double terms = std::min(k, 8 * std::sqrt(k)) + 3;
    const double bound =
        terms * (wide ? 0x1p-53 : 0x1p-24) * std::fabs(args.alpha) * magnitude + (wide ? DBL_MIN : FLT_MIN);
    const double want = args.alpha * sum;
    return {want - bound, want + bound, want, bound};
  }

  std::unique_ptr<SampledCheck> make(const Problem& p) const override { return std::make_unique<MatmulCheck>(p); }
  std::vector<TensorDesc*> with_images(Problem& p) const override {
    const std::size_t first = 0;
    std::vector<TensorDesc*> all{&p.c};
    if (p.c.rank == 2) return {&p.a, &p.c};
    if (p.a.lens[first] != 1) all.push_back(&p.a);
    if (p.b.lens[first] != 1) all.push_back(&p.b);
    return all;
  }
};

}  // namespace

std::unique_ptr<const search::ResultCheck> make_check(const Problem& p) { return std::make_unique<MatmulCheck>(p); }

}  // namespace polymio::matmul
