// Tensors whose elements follow from their positions: indices, and random numbers from a counter-based generator. Equal
// seeds, offsets and sizes give equal numbers on every device, but for the rounding of normal ones.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>

#include "core/loop.h"
#include "kernels/gpu/portable/philox.h"
#include "primitives/graph/chain.h"

namespace polymio::graph {
namespace {

constexpr std::int64_t kPart = 1 << 14;  // elements per task, a multiple of 4

float number(const Random& r, const std::uint32_t* v, std::int64_t e) {
  const auto first = static_cast<float>(r.first), second = static_cast<float>(r.second);
  if (r.distribution == Distribution::kNormal) {
    const float radius = std::sqrt(-2 * std::log(kernels::philox_unit(v[0])));
    return first + second * radius * std::cos(6.28318531f * kernels::philox_unit(v[1]));
  }
  const float u = kernels::philox_unit(v[e % 4]);
  return r.distribution == Distribution::kBernoulli ? (u < first ? 1.0f : 0.0f) : first + (second - first) * u;
}

void draw(Stream& stream, const Random& r, const TensorDesc& y, const Loop& loop, void* data, std::uint64_t offset,
          std::uint64_t seed) {
  for_ranges(stream, loop.count(), kPart, [&](std::int64_t begin, std::int64_t end) {
    Cursor at(loop, begin);
    std::uint32_t v[4];
    for (std::int64_t e = begin; e < end; ++e, at.advance(1)) {
      if (r.distribution == Distribution::kNormal)
        kernels::philox(seed, static_cast<std::uint64_t>(e), offset, v);
      else if (e == begin || e % 4 == 0)
        kernels::philox(seed, static_cast<std::uint64_t>(e / 4), offset, v);
      dtype::store(y.type, data, at.offset(0), static_cast<double>(number(r, v, e)));
    }
  });
}

/// In the order of the sizes.
Loop loop_over(const TensorDesc& y) {
  const TensorDesc* const tensors[] = {&y};
  Loop loop = make_loop(tensors);
  loop.merge();
  return loop;
}

}  // namespace

RandomRun build_random(Stream& stream, const Random& r, const TensorDesc& y) {
  if (stream.info().kind != DeviceKind::kCpu) return build_random_on_gpu(stream, r, y);
  return [r, y, loop = loop_over(y)](Stream& on, void* data, const void* offset, const void* seed) {
    draw(on, r, y, loop, data, dtype::read<std::uint64_t>(offset, 0),
         seed ? dtype::read<std::uint64_t>(seed, 0) : static_cast<std::uint64_t>(r.seed));
  };
}

IndexRun build_index(Stream& stream, std::int64_t axis, const TensorDesc& y) {
  if (stream.info().kind != DeviceKind::kCpu) return build_index_on_gpu(stream, axis, y);
  return [y, loop = loop_over(y), size = y.lens[static_cast<std::size_t>(axis)], step = elements_after(y, axis)](
             Stream& on, void* data) {
    for_ranges(on, loop.count(), kPart, [&](std::int64_t begin, std::int64_t end) {
      Cursor at(loop, begin);
      for (std::int64_t e = begin; e < end; ++e, at.advance(1))
        dtype::store(y.type, data, at.offset(0), static_cast<double>(e / step % size));
    });
  };
}

}  // namespace polymio::graph
