// Normalizations, one row at a time. The rows of x are contiguous in dense order for every kind.
// SPDX-License-Identifier: MIT
#include "reference/norm.h"

#include <cmath>

namespace polymio::reference {
namespace {

struct Reader {
  const Norm& p;
  const NormData& data;
  std::int64_t length = p.length(), image = p.kind == NormKind::kGroup ? p.x.count() / p.x.lens[0] : length;
  std::int64_t repeats = image / p.parameter().count();
  bool centred = p.kind != NormKind::kRms;

  double x(std::int64_t i) const {
    const double v = load(p.x.type, data.x, p.x.offset(i));
    return p.kind == NormKind::kAddLayer ? v + load(p.x2.type, data.x2, p.x2.offset(i)) : v;
  }
  std::int64_t parameter(std::int64_t i) const { return i % image / repeats; }
  double weight(std::int64_t i) const { return p.affine ? load(p.parameters, data.weight, parameter(i)) : 1; }
  double bias(std::int64_t i) const { return p.affine && centred ? load(p.parameters, data.bias, parameter(i)) : 0; }
  double dy(std::int64_t i) const { return load(p.dy.type, data.dy, p.dy.offset(i)); }
  double mean(std::int64_t row) const { return centred ? load(p.statistics, data.mean, row) : 0; }
  double rstd(std::int64_t row) const { return load(p.statistics, data.rstd, row); }
};

void add(Result& result, double value, double magnitude) {
  result.value.push_back(value);
  result.magnitude.push_back(magnitude);
}

}  // namespace

std::int64_t Norm::rows() const {
  if (kind == NormKind::kGroup) return x.lens[0] * groups;
  const std::int64_t dims = kind == NormKind::kRms ? static_cast<std::int64_t>(x.lens.size()) - 1 : first;
  std::int64_t n = 1;
  for (std::int64_t d = 0; d < dims; ++d) n *= x.lens[static_cast<std::size_t>(d)];
  return n;
}

Tensor Norm::parameter() const { return {parameters, {kind == NormKind::kGroup ? x.lens[1] : length()}}; }
Tensor Norm::statistic() const { return {statistics, {rows()}}; }

std::array<Result, 3> norm_forward(const Norm& p, const NormData& data) {
  const Reader in{p, data};
  const double n = static_cast<double>(in.length);
  std::array<Result, 3> results;
  auto& [y, means, rstds] = results;
  for (std::int64_t row = 0; row < p.rows(); ++row) {
    const std::int64_t begin = row * in.length, end = begin + in.length;
    double mean = 0, size = 0, squares = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      if (in.centred) mean += in.x(i) / n;
      size += std::fabs(in.x(i)) / n;
    }
    for (std::int64_t i = begin; i < end; ++i) squares += (in.x(i) - mean) * (in.x(i) - mean) / n;
    const double rstd = 1 / std::sqrt(squares + p.epsilon);
    // The rounding of partial means reaches the deviation in proportion to their size.
    const double condition = 1 + std::fabs(mean) * rstd;
    if (in.centred) add(means, mean, size);
    add(rstds, rstd, rstd * condition);
    for (std::int64_t i = begin; i < end; ++i) {
      const double scale = rstd * in.weight(i), value = (in.x(i) - mean) * scale;
      const double inputs = (std::fabs(in.x(i)) + size) * std::fabs(scale);  // the mean is as exact as its terms
      add(y, value + in.bias(i), inputs + std::fabs(value) * condition + std::fabs(in.bias(i)));
    }
  }
  return results;
}

std::array<Result, 3> norm_backward(const Norm& p, const NormData& data) {
  const Reader in{p, data};
  const double n = static_cast<double>(in.length);
  std::array<Result, 3> results;
  auto& [dx, dw, db] = results;
  for (Result* parameter : {&dw, &db}) {
    if (parameter == &db && !in.centred) continue;
    parameter->value.resize(static_cast<std::size_t>(in.length));
    parameter->magnitude.resize(static_cast<std::size_t>(in.length));
  }
  for (std::int64_t row = 0; row < p.rows(); ++row) {
    const std::int64_t begin = row * in.length, end = begin + in.length;
    const double mean = in.mean(row), rstd = in.rstd(row);
    const auto normalized = [&](std::int64_t i) { return (in.x(i) - mean) * rstd; };
    const auto size = [&](std::int64_t i) { return (std::fabs(in.x(i)) + std::fabs(mean)) * std::fabs(rstd); };
    double sum = 0, dot = 0, sum_size = 0, dot_size = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      const double g = in.dy(i) * in.weight(i);
      if (in.centred) sum += g / n;
      sum_size += std::fabs(g) / n;
      dot += g * normalized(i) / n;
      dot_size += std::fabs(g) * size(i) / n;
      const auto at = static_cast<std::size_t>(i - begin);
      dw.value[at] += in.dy(i) * normalized(i);
      dw.magnitude[at] += std::fabs(in.dy(i)) * size(i);
      if (!in.centred) continue;
      db.value[at] += in.dy(i);
      db.magnitude[at] += std::fabs(in.dy(i));
    }
    for (std::int64_t i = begin; i < end; ++i) {
      const double g = in.dy(i) * in.weight(i);
      add(dx, rstd * (g - sum - normalized(i) * dot), std::fabs(rstd) * (std::fabs(g) + sum_size + size(i) * dot_size));
    }
  }
  return results;
}

Arithmetic arithmetic(const Norm& p, Type output, std::int64_t length) {
  Arithmetic how;
  how.output = output;
  how.accumulate = p.x.type == Type::kDouble ? Type::kDouble : Type::kFloat;
  how.reduction_length = length + 8;  // roundings of the second pass
  return how;
}

}  // namespace polymio::reference
