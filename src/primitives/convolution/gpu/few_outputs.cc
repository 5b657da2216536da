// ConvGpuFewOutputs: forward convolution of packed NCHW tensors to up to 8 channels, small filters, any padding. The
// fastest where a matrix product would have tiles that these channels do not fill.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <memory>

#include "base/math.h"
#include "core/kernel_builder.h"
#include "primitives/convolution/convolution.h"
#include "primitives/convolution/cuda/matrix_units.h"
#include "primitives/convolution/gpu/arguments.h"

namespace polymio::convolution {
namespace {

constexpr std::int64_t kThreads = 256, kLanes = 32;  // as in few_outputs.cl
constexpr std::int64_t kMostOutputs = 8, kMostTaps = 7, kMostStride = 4, kLocalFloats = 8192;

std::int64_t padded_outputs(const Problem& p) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(p.k())));
}
std::int64_t filter_floats(const Problem& p) { return p.c() * p.filter(0) * p.filter(1) * padded_outputs(p); }
std::int64_t tiles(const Problem& p, std::int64_t pixels) { return p.n() * ceil_div(p.out(0), pixels) * p.out(1); }

/// Pixels of a thread: several share what they read, if enough threads are left.
std::int64_t thread_pixels(const DeviceInfo& d, const Problem& p) {
  constexpr std::int64_t kMost = 4, kThreadsOfUnit = 1024;
  const bool fills = tiles(p, kMost) * (kThreads / kLanes) >= kThreadsOfUnit * std::max(d.units, 1);
  return fills ? kMost : 1;
}

class GpuFewOutputs final : public GpuSolver<Problem> {
 public:
  explicit GpuFewOutputs(const SolverInfo& info) : GpuSolver(info) {}

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    if (const Verdict v = gpu::check_planes(d, p, Direction::kForward); !v) return v;
    const auto& g = p.geometry;
    POLYMIO_REQUIRE(p.groups() == 1 && p.spatial() == 2, "groups, or not two spatial dimensions");
    POLYMIO_REQUIRE_MOST(p.k(), kMostOutputs, "output channels");
    POLYMIO_REQUIRE(p.x.type == DataType::kFloat || !cuda::has_matrix_units(d), "16 bits, which matrix units multiply");
    POLYMIO_REQUIRE(p.x.is_channels_first() && p.w.is_channels_first() && p.y.is_channels_first(),
                    "a tensor is not packed NCHW");
    POLYMIO_REQUIRE(g.dilation[0] == 1 && g.dilation[1] == 1, "dilation");
    POLYMIO_REQUIRE_MOST(std::max(p.filter(0), p.filter(1)), kMostTaps, "taps along a dimension");
    POLYMIO_REQUIRE_MOST(g.stride[0], kMostStride, "rows of a stride");
    POLYMIO_REQUIRE_MOST(filter_floats(p), kLocalFloats, "elements of filters in local memory");
    return {};
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint&) const override {
    constexpr double kLaunchUs = 3, kMemory = 0.5, kLoadsPerUs = 700, kChannelUs = 0.3;  // loads: of 32 threads
    const auto real = [](std::int64_t v) { return static_cast<double>(v); };
    const double units = real(std::max(d.units, 1)), pixels = real(thread_pixels(d, p));
    const double window = (pixels - 1) * real(p.geometry.stride[0]) + real(p.filter(0));
    const double warps = real(tiles(p, thread_pixels(d, p))) / kLanes;
    const double loads = warps * real(p.c()) * real(p.filter(1)) * window / (units * kLoadsPerUs);
    const double memory = gpu::tensor_bytes(p) / (1e3 * std::max(d.bandwidth_gbs, 1.0) * kMemory);
    const double products = p.flops() / (1e3 * std::max(d.fp32_gflops, 1.0) * 0.3);
    return kLaunchUs + std::max({loads, memory, products}) + kChannelUs * real(ceil_div(p.c(), kThreads / kLanes));
  }

  std::vector<KernelSpec> kernel_specs(const DeviceInfo& d, const Problem& p, const TunePoint&) const override {
    const std::int64_t pixels = thread_pixels(d, p), outputs = padded_outputs(p);
    std::vector<std::string> options = {fmt::format("-DIN={}", name_of(p.x.type)),
                                        fmt::format("-DOUT={}", name_of(p.x.type))};
    const auto add = [&](const char* what, std::int64_t value) {
      options.push_back(fmt::format("-D{}={}", what, value));
    };
    add("FILTER_H", p.filter(0));
    add("FILTER_W", p.filter(1));
    add("STRIDE_H", p.geometry.stride[0]);
    add("OUTPUTS", outputs);
    add("PIXELS", pixels);
    add("LOCAL_FLOATS", std::max(filter_floats(p), kThreads * pixels * outputs));
    return gpu::kernel_variants("primitives/convolution/gpu/few_outputs.cl", "few_outputs", std::move(options), false,
                                false);
  }

  Invoker assemble(const DeviceInfo& d, const Problem& p, const TunePoint&, const Kernels& built) const override {
    using gpu::narrow;
    kernels::GroupedShape s{};
    s.images = narrow(p.n());
    s.groups = 1;
    s.reduced = narrow(p.c());
    s.outputs = narrow(p.k());
    s.src_h = narrow(p.in(0));
    s.src_w = narrow(p.in(1));
    s.dst_h = narrow(p.out(0));
    s.dst_w = narrow(p.out(1));
    s.pad_h = narrow(p.geometry.pad[0]);
    s.pad_w = narrow(p.geometry.pad[1]);
    gpu::set_steps(s, gpu::steps_of(p));
    const std::int64_t count = tiles(p, thread_pixels(d, p));
    const gpu::Variants variants{Direction::kForward, p.w.count(), 1, false};
    return [=, shape = launch_shape(kThreads, ceil_div(count, kLanes))](Stream& stream, const Args& a) {
      gpu::launch_variant(stream, built, variants, shape, a, s, narrow(count));
    };
  }
};

}  // namespace

std::unique_ptr<const SolverBase> gpu_few_outputs(const SolverInfo& info, Direction) {
  return std::make_unique<GpuFewOutputs>(info);
}

}  // namespace polymio::convolution
