// Tasks scan chunks of a size that depends only on the tensor; their statistics are merged in order.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/loop.h"
#include "primitives/tensor_ops/cpu/rows.h"
#include "primitives/tensor_ops/tensor_ops.h"

namespace polymio::tensor_ops {
namespace {

constexpr std::int64_t kBlock = 512;                    // elements read at a time
constexpr std::int64_t kChunk = std::int64_t{1} << 16;  // elements per task; about 50 us
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Statistics {
  std::int64_t nan = 0, infinite = 0, zeros = 0;
  double least = kInfinity, most = -kInfinity, sum = 0, sum_abs = 0;

  void add(double v) {
    const bool finite = std::fabs(v) < kInfinity;
    nan += v != v;
    infinite += std::fabs(v) == kInfinity;
    zeros += v == 0;
    least = std::min(least, finite ? v : kInfinity);
    most = std::max(most, finite ? v : -kInfinity);
    sum += finite ? v : 0;
    sum_abs += finite ? std::fabs(v) : 0;
  }
  void add(const Statistics& f) {
    nan += f.nan;
    infinite += f.infinite;
    zeros += f.zeros;
    least = std::min(least, f.least);
    most = std::max(most, f.most);
    sum += f.sum;
    sum_abs += f.sum_abs;
  }
};

Statistics scan_part(const Loop& loop, DataType type, const void* data, std::int64_t begin, std::int64_t end) {
  const ReadRow<double> read = reader<double>(type);
  const std::int64_t stride = loop.dims[loop.rank - 1].strides[0];
  double buffer[kBlock];
  Statistics statistics;
  Cursor cursor(loop, begin);
  for (std::int64_t i = begin; i < end;) {
    const std::int64_t n = std::min({cursor.run(), end - i, kBlock});
    read(at(data, type, cursor.offset(0)), stride, n, buffer);
    for (std::int64_t j = 0; j < n; ++j) statistics.add(buffer[j]);
    cursor.advance(n);
    i += n;
  }
  return statistics;
}

}  // namespace

Numerics scan(Stream& stream, const TensorDesc& desc, const void* data) {
  const TensorDesc* operand = &desc;
  const Loop loop = simplified_loop({&operand, 1});
  const std::int64_t count = loop.count();
  std::vector<Statistics> parts(static_cast<std::size_t>((count + kChunk - 1) / kChunk));
  stream.parallel_for(parts.size(), 0, [&](std::size_t i, void*) {
    const std::int64_t begin = static_cast<std::int64_t>(i) * kChunk;
    parts[i] = scan_part(loop, desc.type, data, begin, std::min(begin + kChunk, count));
  });
  Statistics all;
  for (const Statistics& part : parts) all.add(part);
  const std::int64_t finite = count - all.nan - all.infinite;
  Numerics n{all.nan, all.infinite, all.zeros, count, 0, 0, 0, 0};
  if (finite == 0) return n;
  n.least = all.least;
  n.most = all.most;
  n.mean = all.sum / static_cast<double>(finite);
  n.mean_abs = all.sum_abs / static_cast<double>(finite);
  return n;
}

}  // namespace polymio::tensor_ops
