// SPDX-License-Identifier: MIT
#include "core/random.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/hash.h"

namespace polymio {

void fill_random(Stream& stream, const TensorDesc& t, void* data, std::uint64_t seed, double limit) {
  const std::int64_t length = std::min<std::int64_t>(65521, t.space());
  std::vector<unsigned char> row(static_cast<std::size_t>(length) * size_of(t.type));
  for (std::int64_t i = 0; i < length; ++i) {
    const std::uint64_t bits = mix(mix(seed, static_cast<std::uint64_t>(i)), 0x9fb21c651e98df25ull);
    const double unit = static_cast<double>(bits >> 41) * 0x1p-22 - 1;
    dtype::store(t.type, row.data(), i, is_integer(t.type) ? std::floor(16 * unit) : limit * unit);
  }
  if (row.empty()) return;
  const auto copy = [&](std::size_t i, void*) {
    const std::size_t at = i * row.size();
    stream.upload({data, at}, row.data(), std::min(row.size(), t.bytes() - at));
  };
  const std::size_t rows = (t.bytes() + row.size() - 1) / row.size();
  if (stream.info().kind == DeviceKind::kCpu) return stream.parallel_for(rows, 0, copy);
  for (std::size_t i = 0; i < rows; ++i) copy(i, nullptr);
}

}  // namespace polymio
