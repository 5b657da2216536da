// SPDX-License-Identifier: MIT
#include "primitives/convolution/gpu/direct_problem.h"

#include <algorithm>

#include "primitives/convolution/cuda/matrix_units.h"

namespace polymio::convolution::gpu {
namespace {

constexpr std::int64_t kMostSize = std::int64_t{1} << 30;

}  // namespace

DirectProblem::DirectProblem(const Problem& p, bool mirrors) {
  const auto z = sizes_of(p);
  const auto t = steps_of(p);
  const auto e = strides_of(p);
  const auto &src = mirrors ? e.y : e.x, &dst = mirrors ? e.x : e.y;
  auto& s = shape;
  s.channels = narrow(mirrors ? p.k() : p.c());
  s.outputs = narrow(mirrors ? p.c() : p.k());
  s.src_channel = narrow(src[1]);
  s.dst_channel = narrow(dst[1]);
  for (int i = 0; i < 3; ++i) {
    const int at = 2 - i;
    const std::int64_t filter = z.filter[at], dilation = filter > 1 ? t.dilation[at] : 1;
    s.src_step[i] = narrow(src[at + 2]);
    s.dst_step[i] = narrow(dst[at + 2]);
    s.src_size[i] = narrow(mirrors ? z.out[at] : z.in[at]);
    s.dst_size[i] = narrow(mirrors ? z.in[at] : z.out[at]);
    s.taps[i] = narrow(filter);
    s.stride[i] = narrow(t.stride[at]);
    s.dilation[i] = narrow(dilation);
    s.pad[i] = narrow(mirrors ? (filter - 1) * dilation - t.pad[at] : t.pad[at]);
    taps *= filter;
  }
  if (p.spatial() < 3) {
    s.src_size[2] = s.dst_size[2] = narrow(p.n());
    s.src_step[2] = narrow(src[0]);
    s.dst_step[2] = narrow(dst[0]);
  } else {
    images = p.n();
    s.src_image = narrow(src[0]);
    s.dst_image = narrow(dst[0]);
  }
  const bool planes = p.w.is_channels_first();
  const std::int64_t tap = planes ? 1 : p.w.lens[1];
  weights.output = narrow(e.w[mirrors ? 1 : 0]);
  weights.channel = narrow(e.w[mirrors ? 0 : 1]);
  weights.tap = narrow(mirrors ? -tap : tap);
  weights.first = narrow(mirrors ? (taps - 1) * tap : 0);
  weights.order = planes ? 0 : mirrors ? 2 : 1;
}

bool DirectProblem::has_vectors(std::int64_t outputs) const {
  const auto& s = shape;
  const bool last = result_is_last();
  bool found = (last ? outputs : s.dst_channel) % kDirectRun == 0 &&
               (last ? s.outputs : s.dst_size[0]) % kDirectRun == 0 && s.dst_image % kDirectRun == 0 &&
               (last || s.dst_step[0] == 1);
  for (int i = last ? 0 : 1; i < 3; ++i) found = found && s.dst_step[i] % kDirectRun == 0;
  return found;
}

bool DirectProblem::set_sides(kernels::DirectTile& t, const int (&log)[3]) const {
  const auto& s = shape;
  bool is_useful = true;
  for (int i = 0; i < 3; ++i) {
    const std::int64_t size = std::int64_t{1} << log[i];
    t.log[i] = log[i];
    t.halo[i] = narrow((size - 1) * s.stride[i] + std::int64_t{s.taps[i] - 1} * s.dilation[i] + 1);
    t.tiles[i] = narrow(ceil_div(s.dst_size[i], size));
    is_useful = is_useful && (i == 2 || size < 2 * std::max<std::int64_t>(s.dst_size[i], kDirectRun));
  }
  return is_useful;
}

std::int64_t DirectProblem::count(const kernels::DirectTile& t) const {
  std::int64_t found = images;
  for (const int tiles : t.tiles) found *= tiles;
  return found;
}

std::int64_t DirectProblem::plane_of(std::int64_t floats) const {
  return source_is_last() ? round_up(floats, 32) + 4 : floats;
}

void DirectProblem::set_lanes(kernels::DirectTile& t) const {
  constexpr std::int64_t kShortRow = 48;
  t.lanes_log = std::int64_t{t.halo[0]} * (source_is_last() ? t.chunk : 1) <= kShortRow ? 3 : 5;
}

bool sizes_local_memory(const DeviceInfo& d) { return d.kind == DeviceKind::kCuda; }

std::int64_t most_direct_floats(const DeviceInfo& d) {
  constexpr std::size_t kOfBlock = 1 << 10;  // bytes that the driver takes
  constexpr std::size_t kMostStatic = 48 << 10, kAlignment = 16;
  const std::size_t bytes =
      sizes_local_memory(d) ? (d.gpu.shared_opt_in_bytes - kOfBlock) / 2 : std::min(d.gpu.shared_bytes, kMostStatic);
  return static_cast<std::int64_t>(bytes / kAlignment * 4);
}

std::int64_t direct_floats(const DeviceInfo& d, std::int64_t floats) {
  constexpr std::int64_t kStep = 4096;
  return sizes_local_memory(d) ? floats : std::min(most_direct_floats(d), round_up(floats, kStep));
}

Verdict check_direct(const DeviceInfo& d, const Problem& p, bool mirrors, bool fuses) {
  constexpr std::int64_t kFew = 64, kMostStep = 64, kMostTaps = 1 << 12, kMostPixel = 1 << 16,
                         kMostStride = (std::int64_t{1} << 31) - 1;
  if (const Verdict v = check_types(d, p, fuses); !v) return v;
  const DataType t = p.x.type;
  POLYMIO_REQUIRE(t == DataType::kFloat || t == DataType::kHalf || t == DataType::kBFloat16,
                  "not a float of 16 or 32 bits");
  POLYMIO_REQUIRE(p.all_types(t), "mixed types");
  POLYMIO_REQUIRE(t == DataType::kFloat || !cuda::has_matrix_units(d), "16 bits, which matrix units multiply");
  POLYMIO_REQUIRE(p.groups() == 1, "groups");
  POLYMIO_REQUIRE_MOST(std::min(p.c(), p.k()), kFew, "channels on the side that has fewer");
  POLYMIO_REQUIRE(p.w.is_channels_first() || p.w.is_channels_last(), "w is neither packed NCHW nor NHWC");
  std::int64_t taps = 1;
  for (int i = 0; i < p.spatial(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const auto& g = p.geometry;
    POLYMIO_REQUIRE_MOST(std::max({p.filter(i), g.stride[at], g.pad[at], g.dilation[at]}), kMostStep,
                         "taps, stride, padding or dilation");
    POLYMIO_REQUIRE_MOST(std::max(p.in(i), p.out(i)), kMostSize, "positions along an axis");
    taps *= p.filter(i);
  }
  POLYMIO_REQUIRE_MOST(taps, kMostTaps, "taps");
  POLYMIO_REQUIRE_MOST(std::max({p.n(), p.c(), p.k()}), kMostSize, "images or channels");
  POLYMIO_REQUIRE_MOST(p.w.space(), kMostSize, "elements of w");
  for (const TensorDesc* tensor : {&p.x, &p.y})
    for (std::size_t i = 0; i < static_cast<std::size_t>(tensor->rank); ++i)
      POLYMIO_REQUIRE_MOST(tensor->lens[i] == 1 ? 1 : tensor->strides[i], kMostStride, "elements of a stride");
  const TensorDesc& source = mirrors ? p.y : p.x;
  const auto innermost = static_cast<std::size_t>(source.rank - 1);
  POLYMIO_REQUIRE_MOST(source.lens[innermost] == 1 ? 1 : source.strides[innermost], kMostPixel, "elements of a pixel");
  return {};
}

}  // namespace polymio::convolution::gpu
