// SPDX-License-Identifier: MIT
#include "primitives/convolution/gpu/arguments.h"

#include <fmt/format.h>

#include "primitives/convolution/point.h"

namespace polymio::convolution::gpu {
namespace {

/// Calls `set(i, s)` for each dimension i of [D], H, W with the problem's own dimension s, -1 if it is missing.
template <class Set>
void each_dimension(const Problem& p, const Set& set) {
  for (int i = 0; i < 3; ++i) set(i, i < 3 - p.spatial() ? -1 : i - (3 - p.spatial()));
}

}  // namespace

kernels::ConvSizes sizes_of(const Problem& p) {
  kernels::ConvSizes z{p.n(), p.c(), p.k(), p.groups(), {}, {}, {}};
  each_dimension(p, [&](int i, int s) {
    z.in[i] = s < 0 ? 1 : p.in(s);
    z.out[i] = s < 0 ? 1 : p.out(s);
    z.filter[i] = s < 0 ? 1 : p.filter(s);
  });
  return z;
}

kernels::ConvSteps steps_of(const Problem& p) {
  kernels::ConvSteps t{};
  each_dimension(p, [&](int i, int s) {
    const auto d = static_cast<std::size_t>(std::max(s, 0));
    t.pad[i] = s < 0 ? 0 : p.geometry.pad[d];
    t.stride[i] = s < 0 ? 1 : p.geometry.stride[d];
    t.dilation[i] = s < 0 ? 1 : p.geometry.dilation[d];
  });
  return t;
}

kernels::ConvStrides strides_of(const Problem& p) {
  kernels::ConvStrides e{};
  const auto fill = [&](const TensorDesc& t, kernels::i64* to) {
    to[0] = t.strides[0], to[1] = t.strides[1];
    each_dimension(p, [&](int i, int s) { to[i + 2] = s < 0 ? 0 : t.strides[static_cast<std::size_t>(s) + 2]; });
  };
  fill(p.x, e.x), fill(p.w, e.w), fill(p.y, e.y);
  return e;
}

Verdict check_types(const DeviceInfo& d, const Problem& p) {
  const DataType in = p.first_input().type, out = p.output().type;
  POLYMIO_REQUIRE(d.kind != DeviceKind::kCpu, "does not run on this kind of device");
  POLYMIO_REQUIRE(!p.has_casts(), "cast types run on the CPU only");
  POLYMIO_REQUIRE(!is_fp8(in) && !is_fp8(p.second_input().type) && !is_fp8(out), "8-bit floats run on the CPU only");
  POLYMIO_REQUIRE(p.epilogue.empty(), "does not fuse epilogues");
  POLYMIO_REQUIRE(d.gpu.fp64 || (in != DataType::kDouble && in != DataType::kInt8),
                  "the device has no double-precision arithmetic");
  return {};
}

std::vector<std::string> type_options(const DeviceInfo& d, const Problem& p) {
  std::vector<std::string> options = {fmt::format("-DIN={}", name_of(p.first_input().type)),
                                      fmt::format("-DOUT={}", name_of(p.output().type))};
  if (d.gpu.fp64) options.emplace_back("-DFP64");
  return options;
}

Operands operands_of(const Problem& p, const Problem::Args& a) {
  const bool data = p.direction == Direction::kBackwardData, weights = p.direction == Direction::kBackwardWeights;
  return {data ? a.y : a.x, weights ? a.y : a.w, output_of(p, a)};
}

SolverInfo portable_info(std::uint64_t id, const char* name, Algorithm algorithm) {
  constexpr unsigned kDevices = static_cast<unsigned>(DeviceKind::kCuda) | static_cast<unsigned>(DeviceKind::kOpenCl) |
                                static_cast<unsigned>(DeviceKind::kHip);
  return {.id = id,
          .name = name,
          .algorithm = algorithm,
          .version = 1,
          .devices = kDevices,
          .dynamic = true,
          .deterministic = true,
          .capture_safe = true,
          .reference = false};
}

}  // namespace polymio::convolution::gpu
