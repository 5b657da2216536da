// SPDX-License-Identifier: MIT
#include "reference/kthvalue.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace polymio::reference {
namespace {

bool less(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(b) && !std::isnan(a);
  return a < b || (a == b && std::signbit(a) && !std::signbit(b));
}

// Offset of the first element of row `i`.
std::int64_t row_offset(const Kthvalue& p, std::int64_t i) {
  std::int64_t offset = 0;
  for (std::size_t d = p.y.lens.size(); d-- > 0;) {
    offset += i % p.y.lens[d] * p.x.strides[d];
    i /= p.y.lens[d];
  }
  return offset;
}

}  // namespace

Selected evaluate(const Kthvalue& p, const void* x) {
  const auto d = static_cast<std::size_t>(p.dim);
  Selected result;
  for (std::int64_t i = 0; i < p.y.count(); ++i) {
    std::vector<std::pair<double, std::int64_t>> row;
    for (std::int64_t j = 0; j < p.x.lens[d]; ++j)
      row.emplace_back(load(p.x.type, x, row_offset(p, i) + j * p.x.strides[d]), j);
    std::sort(row.begin(), row.end(), [](const auto& a, const auto& b) {
      return less(a.first, b.first) || (!less(b.first, a.first) && a.second < b.second);
    });
    const double value = row[static_cast<std::size_t>(p.k - 1)].first;
    const auto first = std::find_if(row.begin(), row.end(), [&](const auto& e) { return !less(e.first, value); });
    result.values.value.push_back(value);
    result.values.magnitude.push_back(std::fabs(value));
    result.positions.value.push_back(static_cast<double>(first->second));
    result.positions.magnitude.push_back(0);
  }
  return result;
}

}  // namespace polymio::reference
