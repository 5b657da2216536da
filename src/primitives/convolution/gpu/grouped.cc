// ConvGpuGrouped: few channels per group, as in ResNeXt. A thread keeps a few adjacent pixels by 4 or 8 channels in
// registers, and the block's filters are in local memory; 16-bit floats use NVIDIA matrix units (grouped_matrix).
// Packed NCHW and NHWC, any stride and dilation. Only backward weights needs workspace: blocks write partial results
// that are summed in a fixed order.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>

#include "base/math.h"
#include "core/kernel_builder.h"
#include "primitives/convolution/convolution.h"
#include "primitives/convolution/cuda/grouped_matrix.h"
#include "primitives/convolution/gpu/arguments.h"

namespace polymio::convolution {
namespace {

constexpr std::int64_t kThreads = 256;
constexpr int kBlocks = 1056;          // more do not help: each loads filters or writes a partial result
constexpr int kMaxGroupChannels = 32;  // per group
constexpr int kLocalFloatsNhwc = 8192, kLocalFloatsNchw = 2304;  // floats of filters in local memory

bool channels_last(const Problem& p) { return p.x.is_channels_last() && p.y.is_channels_last(); }

/// 1 or 2 where the kernels are specialised on the stride, 0 for all others.
int stride_class(const Problem& p) {
  const auto& g = p.geometry;
  const bool plain = g.dilation[0] == 1 && g.dilation[1] == 1 && g.stride[0] == g.stride[1];
  return plain && g.stride[0] <= (p.direction == Direction::kBackwardData ? 1 : 2) ? static_cast<int>(g.stride[0]) : 0;
}

struct Plan {
  kernels::GroupedShape s{};
  bool last = false;
  int filter_h = 1, filter_w = 1, stride = 1, thread_pixels = 4, outputs = 4, local_floats = 0, pixel_tiles = 0,
      parts = 1;
  std::array<std::int64_t, 2> blocks{1, 1};
};

void set_shape(Plan& plan, const Problem& p) {
  using gpu::narrow;
  const auto z = gpu::sizes_of(p);
  const auto t = gpu::steps_of(p);
  const bool data = p.direction == Direction::kBackwardData;
  const auto &src = data ? z.out : z.in, &dst = data ? z.in : z.out;
  auto& s = plan.s;
  plan.last = channels_last(p);
  plan.stride = stride_class(p);
  plan.filter_h = narrow(z.filter[1]);
  plan.filter_w = narrow(z.filter[2]);
  // Backward data with stride 1 is a forward convolution with the flipped filter.
  const bool flipped = data && plan.stride == 1;
  const auto pad = [&](int i) { return narrow(flipped ? z.filter[i] - 1 - t.pad[i] : t.pad[i]); };
  const std::int64_t c = z.c / z.groups, k = z.k / z.groups;
  s.images = narrow(z.n);
  s.groups = narrow(z.groups);
  s.reduced = narrow(data ? k : c);
  s.outputs = narrow(data ? c : k);
  s.src_h = narrow(src[1]);
  s.src_w = narrow(src[2]);
  s.dst_h = narrow(dst[1]);
  s.dst_w = narrow(dst[2]);
  s.pad_h = pad(1);
  s.pad_w = pad(2);
  gpu::set_steps(s, t);
}

/// `units`: units of work per group of thread_pixels pixels.
void set_blocks(Plan& plan, int units, int tiles_per_thread) {
  auto& s = plan.s;
  const int slots = static_cast<int>(kThreads) / s.units, rows = ceil_div(units, s.units);
  plan.pixel_tiles = s.images * (plan.last ? s.dst_h * ceil_div(s.dst_w, plan.thread_pixels)
                                           : ceil_div(s.dst_h, plan.thread_pixels) * s.dst_w);
  plan.parts = std::min<int>(ceil_div(plan.pixel_tiles, slots * tiles_per_thread), std::max(1, kBlocks / rows));
  plan.blocks = {plan.parts, rows};
}

/// Pixels per thread and units per block were measured on an H200.
Plan plan_of(const Problem& p) {
  Plan plan;
  set_shape(plan, p);
  auto& s = plan.s;
  const bool is_fp32 = p.x.type == DataType::kFloat;
  plan.thread_pixels = plan.last && !is_fp32 ? 7 : 4;
  if (p.direction == Direction::kBackwardWeights) {
    constexpr int kUnits = 32, kTilesPerThread = 2;
    const int units = s.groups * (s.reduced / 4) * (s.outputs / 4) * (plan.last ? plan.filter_h : plan.filter_w);
    s.units = plan.last ? std::min(kUnits, units) : 1;
    set_blocks(plan, units, kTilesPerThread);
    return plan;
  }
  constexpr int kUnits = 8;
  plan.outputs = s.outputs % 8 == 0 ? 8 : 4;
  const int per_unit = plan.filter_h * plan.filter_w * s.reduced * plan.outputs,
            units = s.groups * s.outputs / plan.outputs;
  plan.local_floats = plan.last || per_unit > kLocalFloatsNchw ? kLocalFloatsNhwc : kLocalFloatsNchw;
  s.units =
      plan.last ? std::min({kUnits, units, plan.local_floats / per_unit}) : std::min(1, plan.local_floats / per_unit);
  if (s.units > 0) set_blocks(plan, units, 1);
  return plan;
}

class GpuGrouped final : public GpuSolver<Problem> {
 public:
  GpuGrouped(const SolverInfo& info, Direction d) : GpuSolver(info), direction_(d) {}

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    if (const Verdict v = gpu::check_planes(d, p, direction_); !v) return v;
    POLYMIO_REQUIRE(p.groups() > 1 && p.spatial() == 2, "not a grouped convolution with two spatial dimensions");
    const std::int64_t c = p.c() / p.groups(), k = p.k() / p.groups();
    POLYMIO_REQUIRE(c % 4 == 0 && k % 4 == 0, "channels of a group are not multiples of 4");
    POLYMIO_REQUIRE_MOST(std::max(c, k), kMaxGroupChannels, "channels of a group");
    POLYMIO_REQUIRE(p.filter(0) == p.filter(1) && (p.filter(0) == 3 || p.filter(0) == 5),
                    "the filter is not 3x3 or 5x5");
    const bool last = channels_last(p);
    POLYMIO_REQUIRE(last || (p.x.is_channels_first() && p.y.is_channels_first()),
                    "x and y are neither packed NCHW nor packed NHWC");
    POLYMIO_REQUIRE(last ? p.w.is_channels_last() : p.w.is_channels_first(), "w is not packed as x and y are");
    if (cuda::GroupedMatrix::serve(d, p)) return {};
    POLYMIO_REQUIRE(plan_of(p).s.units > 0, "filters too large for local memory");
    return {};
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint&) const override {
    constexpr double kLaunchUs = 3, kMemory = 0.4, kArithmetic = 0.42, kGeneral = 4;
    const bool weights = direction_ == Direction::kBackwardWeights;
    const double memory = gpu::tensor_bytes(p) / (1e3 * d.bandwidth_gbs * kMemory);
    // Bound by loads from local memory: 16 channels per group take as long as the traffic to global memory.
    if (cuda::GroupedMatrix::serve(d, p))
      return kLaunchUs * (weights ? 2 : 1) + memory * std::max(1.0, static_cast<double>(p.c() / p.groups()) / 16);
    const double compute = p.flops() / (1e3 * d.fp32_gflops * kArithmetic);
    const double slower = stride_class(p) == 0 ? kGeneral : weights ? 1.5 : 1;
    return kLaunchUs * (weights ? 2 : 1) + slower * std::max(memory, compute);
  }

  std::size_t workspace_size(const DeviceInfo& d, const Problem& p, const TunePoint&) const override {
    if (direction_ != Direction::kBackwardWeights) return 0;
    if (cuda::GroupedMatrix::serve(d, p)) return cuda::GroupedMatrix(d, p).workspace();
    return gpu::sum_bytes(plan_of(p).parts * p.w.count());
  }

  std::vector<KernelSpec> kernel_specs(const DeviceInfo& d, const Problem& p, const TunePoint&) const override {
    if (cuda::GroupedMatrix::serve(d, p)) return cuda::GroupedMatrix(d, p).kernels();
    const Plan plan = plan_of(p);
    const bool weights = direction_ == Direction::kBackwardWeights;
    const std::string name = weights ? "grouped_weights" : "grouped";
    const std::string source = fmt::format("primitives/convolution/gpu/{}.cl", name);
    std::vector<std::string> options = {fmt::format("-DIN={}", name_of(p.x.type)),
                                        fmt::format("-DOUT={}", name_of(p.x.type))};
    const auto add = [&](const char* what, int value) { options.push_back(fmt::format("-D{}={}", what, value)); };
    add("FAST_CHANNEL", plan.last);
    add("FILTER_H", plan.filter_h);
    add("FILTER_W", plan.filter_w);
    add("STRIDE", plan.stride);
    add("THREAD_PIXELS", plan.thread_pixels);
    if (!weights) {
      add("DIRECTION", static_cast<int>(direction_));
      add("OUTPUTS", plan.outputs);
      add("LOCAL_FLOATS", plan.local_floats);
    }
    return gpu::kernel_variants(source, name, std::move(options), weights, plan.last);
  }

  Invoker assemble(const DeviceInfo& d, const Problem& p, const TunePoint&, const Kernels& built) const override {
    if (cuda::GroupedMatrix::serve(d, p))
      return
          [matrix = cuda::GroupedMatrix(d, p), built](Stream& stream, const Args& a) { matrix.run(stream, built, a); };
    const Plan plan = plan_of(p);
    const Launch shape = launch_shape(kThreads, plan.blocks[0], plan.blocks[1]);
    const gpu::Variants variants{direction_, p.w.count(), plan.parts, plan.last};
    return [plan, variants, shape, built](Stream& stream, const Args& a) {
      gpu::launch_variant(stream, built, variants, shape, a, plan.s, plan.pixel_tiles);
    };
  }

 private:
  Direction direction_;
};

}  // namespace

std::unique_ptr<const SolverBase> gpu_grouped(const SolverInfo& info, Direction d) {
  return std::make_unique<GpuGrouped>(info, d);
}

}  // namespace polymio::convolution
