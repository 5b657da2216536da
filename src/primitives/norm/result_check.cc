// Checks the result of a normalization: compares up to 256 elements of y or dx, the first and last among them, with
// their evaluation in double. The statistics, and the gradients of weight and bias, are not checked.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "primitives/norm/solvers.h"
#include "search/sampled_check.h"

namespace polymio::norm {
namespace {

using search::Accepted;
using search::offset_of;
using search::Operand;

struct Evaluated {
  double value, magnitude;
};

class NormCheck final : public search::SampledCheck<Problem> {
 public:
  explicit NormCheck(const Problem& p)
      : SampledCheck(p), parameter_(parameter_desc(p)), statistic_(statistic_desc(p)), length_(p.length()) {}

 private:
  std::vector<Operand> operands(Args& a) const override {
    using Use = Operand::Use;
    std::vector<Operand> all{{Use::kWhole, p_.x, a.x, 1, 2}};
    if (p_.kind == Kind::kAddLayer) all.emplace_back(Use::kWhole, p_.x2, a.x2, 2);
    if (p_.affine == Affine::kYes) all.emplace_back(Use::kWhole, parameter_, a.weight, 3);
    const bool biased = p_.affine == Affine::kYes && p_.kind != Kind::kRms;
    if (p_.forward()) {
      all.emplace_back(Use::kOutput, p_.y, a.y, 4);
      if (biased) all.emplace_back(Use::kWhole, parameter_, a.bias, 5);
      return all;
    }
    all.emplace_back(Use::kOutput, p_.dx, a.dx, 4);
    all.emplace_back(Use::kWhole, p_.dy, a.dy, 5);
    all.emplace_back(Use::kWhole, statistic_, a.rstd, 6);
    all.emplace_back(Use::kWhole, parameter_, a.dw, 7);
    if (p_.kind == Kind::kRms) return all;
    all.emplace_back(Use::kWhole, statistic_, a.mean, 8);
    all.emplace_back(Use::kWhole, parameter_, a.db, 9);
    return all;
  }
  const char* obstacle(const Args& a) const override {
    const void* const out = p_.forward() ? a.y : a.dx;
    return a.x != out && a.x2 != out && a.dy != out ? "" : "the inputs are overwritten";
  }

  Accepted element(Stream&, const Args& a, std::int64_t i) const override {
    const auto [want, magnitude] = p_.forward() ? y(a, i) : dx(a, i);
    const bool wide = p_.x.type == DataType::kDouble;
    const double units = 32 + 8 * std::sqrt(static_cast<double>(length_));
    const double bound = units * (wide ? 0x1p-53 : 0x1p-24) * magnitude + (wide ? DBL_MIN : FLT_MIN);
    return {want - bound, want + bound, want, bound, std::isfinite(want) && std::isfinite(magnitude)};
  }

  double x(const Args& a, std::int64_t i) const {
    const double v = dtype::load(p_.x.type, a.x, offset_of(p_.x, i));
    return p_.kind == Kind::kAddLayer ? v + dtype::load(p_.x.type, a.x2, offset_of(p_.x2, i)) : v;
  }
  double parameter(const void* data, std::int64_t i, double otherwise) const {
    if (!data || p_.affine == Affine::kNo) return otherwise;
    const std::int64_t image = p_.kind == Kind::kGroup ? p_.x.count() / p_.x.lens[0] : length_;
    return dtype::load(p_.parameters, data, i % image / (image / parameter_.count()));
  }

  Evaluated y(const Args& a, std::int64_t i) const {
    const std::int64_t first = i / length_ * length_;
    const bool rms = p_.kind == Kind::kRms;
    double mean = 0, squares = 0;
    for (std::int64_t j = first; j < first + length_ && !rms; ++j) mean += x(a, j) / static_cast<double>(length_);
    for (std::int64_t j = first; j < first + length_; ++j) squares += (x(a, j) - mean) * (x(a, j) - mean);
    const double rstd = 1 / std::sqrt(squares / static_cast<double>(length_) + a.epsilon);
    const double weight = parameter(a.weight, i, 1), bias = rms ? 0 : parameter(a.bias, i, 0);
    return {(x(a, i) - mean) * rstd * weight + bias,
            (std::fabs(x(a, i)) + std::fabs(mean)) * rstd * std::fabs(weight) + std::fabs(bias)};
  }

  Evaluated dx(const Args& a, std::int64_t i) const {
    const std::int64_t row = i / length_;
    const bool rms = p_.kind == Kind::kRms;
    const double mean = rms ? 0 : dtype::load(p_.statistics, a.mean, row),
                 rstd = dtype::load(p_.statistics, a.rstd, row);
    const auto g = [&](std::int64_t j) {
      return dtype::load(p_.dy.type, a.dy, offset_of(p_.dy, j)) * parameter(a.weight, j, 1);
    };
    double sum = 0, dot = 0, sizes = 0, dot_sizes = 0;
    for (std::int64_t j = row * length_; j < (row + 1) * length_; ++j) {
      const double normalized = (x(a, j) - mean) * rstd;
      sum += rms ? 0 : g(j);
      dot += g(j) * normalized;
      sizes += std::fabs(g(j));
      dot_sizes += std::fabs(g(j)) * (std::fabs(x(a, j)) + std::fabs(mean)) * std::fabs(rstd);
    }
    const double n = static_cast<double>(length_), normalized = (x(a, i) - mean) * rstd;
    const double size = (std::fabs(x(a, i)) + std::fabs(mean)) * std::fabs(rstd);
    return {rstd * (g(i) - sum / n - normalized * dot / n),
            std::fabs(rstd) * (std::fabs(g(i)) + sizes / n + size * dot_sizes / n)};
  }

  std::string name(std::int64_t element) const override {
    return fmt::format("{} at offset {}", p_.forward() ? "y" : "dx", offset(element));
  }
  std::unique_ptr<SampledCheck> make(const Problem& p) const override { return std::make_unique<NormCheck>(p); }
  std::vector<TensorDesc*> with_images(Problem& p) const override { return {&p.x, &p.x2, &p.y, &p.dy, &p.dx}; }

  const TensorDesc parameter_, statistic_;
  const std::int64_t length_;
};

}  // namespace

std::unique_ptr<const search::ResultCheck> make_check(const Problem& p) { return std::make_unique<NormCheck>(p); }

}  // namespace polymio::norm
