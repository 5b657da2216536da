// ConvGpuImplicitGemm: convolution as a tiled matrix product whose im2col matrix exists in local memory only. One or
// two spatial dimensions, any strides and groups, floats of 16 and 32 bits, int8 forward. Weights are packed into the
// workspace; where there are few tiles, K is split and the parts are added up in a fixed order.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "core/kernel_builder.h"
#include "primitives/convolution/gpu/arguments.h"
#include "primitives/convolution/solvers.h"

namespace polymio::convolution {
namespace {

constexpr const char* kSource = "primitives/convolution/gpu/implicit_gemm.cl";
constexpr std::int64_t kThreads = 256;  // of the kernels beside the product
constexpr std::int64_t kSlack = 16;     // bytes: kernels align the workspace themselves

/// `resident` blocks fit a multiprocessor; efficiency is of the peak, measured on large products.
struct Tile {
  int m, n, k, thread_m, thread_n, resident;
  double efficiency;
  std::int64_t threads() const { return std::int64_t{m / thread_m} * (n / thread_n); }
};
constexpr std::array<Tile, 5> kTiles = {{{64, 64, 16, 4, 4, 3, 0.45},
                                         {128, 64, 16, 8, 4, 2, 0.55},
                                         {128, 128, 8, 8, 8, 2, 0.60},
                                         {128, 128, 16, 8, 8, 2, 0.61},
                                         {256, 128, 8, 8, 16, 1, 0.62}}};

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }
int narrow(std::int64_t v) { return static_cast<int>(v); }
bool quads(std::initializer_list<std::int64_t> values) {
  return std::all_of(values.begin(), values.end(), [](std::int64_t v) { return v % 4 == 0; });
}

struct Plan {
  Tile tile;
  kernels::ProductShape s{};
  bool fast_n = false, quads = false, flat = false, fast_channel = false;
  std::int64_t groups = 1, taps = 1;
  std::int64_t blocks = 0, steps = 0, rows = 0;  // rows of packed weights
  std::int64_t packed = 0, result = 0;           // elements
  std::int64_t weight_group = 0, weight_reduced = 0, weight_output = 0, weight_row = 0, weight_col = 0;
  bool weights() const { return packed == 0; }
  std::int64_t workspace_sums() const { return packed + (s.splits > 1 ? s.splits * result : 0); }
};

void set_shape(Plan& plan, const Problem& p) {
  kernels::ProductShape& s = plan.s;
  const auto z = gpu::sizes_of(p);
  const auto t = gpu::steps_of(p);
  const auto e = gpu::strides_of(p);
  const bool data = p.direction == Direction::kBackwardData;
  const auto &src = data ? e.y : e.x, &dst = data ? e.x : e.y;
  s.src_image = src[0], s.dst_image = dst[0];
  s.src_channel = narrow(src[1]), s.src_row = narrow(src[3]), s.src_col = narrow(src[4]);
  s.dst_channel = narrow(dst[1]), s.dst_row = narrow(dst[3]), s.dst_col = narrow(dst[4]);
  const auto &from = data ? z.out : z.in, &to = data ? z.in : z.out;
  s.src_h = narrow(from[1]), s.src_w = narrow(from[2]), s.dst_h = narrow(to[1]), s.dst_w = narrow(to[2]);
  s.images = narrow(z.n);
  s.filter_h = narrow(z.filter[1]), s.filter_w = narrow(z.filter[2]);
  s.pad_h = narrow(t.pad[1]), s.pad_w = narrow(t.pad[2]);
  s.stride_h = narrow(t.stride[1]), s.stride_w = narrow(t.stride[2]);
  s.dilation_h = narrow(t.dilation[1]), s.dilation_w = narrow(t.dilation[2]);
  s.tap_step_h = s.stride_h / std::gcd(s.stride_h, s.dilation_h);
  s.tap_step_w = s.stride_w / std::gcd(s.stride_w, s.dilation_w);
  const std::int64_t c = z.c / z.groups, k = z.k / z.groups;
  s.reduced = narrow(data ? k : c), s.outputs = narrow(data ? c : k);
  s.splits = 1;
  plan.groups = z.groups, plan.taps = z.filter[1] * z.filter[2];
  plan.weight_group = k * e.w[0], plan.weight_reduced = e.w[data ? 0 : 1], plan.weight_output = e.w[data ? 1 : 0];
  plan.weight_row = e.w[3], plan.weight_col = e.w[4];
}

/// Enough splits of K for every multiprocessor, each of some steps at least.
int splits_for(const DeviceInfo& d, const Plan& plan) {
  constexpr std::int64_t kLeastSteps = 8, kMostSplits = 256;
  const std::int64_t wanted = std::int64_t{d.units} * plan.tile.resident / std::max<std::int64_t>(1, plan.blocks);
  return narrow(std::clamp<std::int64_t>(std::min(wanted, plan.steps / kLeastSteps), 1, kMostSplits));
}

void plan_weights(Plan& plan, const DeviceInfo& d, const Problem& p) {
  kernels::ProductShape& s = plan.s;
  const std::int64_t columns = plan.taps * s.reduced;
  plan.fast_n = true, plan.fast_channel = p.w.is_channels_last();
  plan.quads = plan.fast_channel && s.src_channel == 1 && s.dst_channel == 1 &&
               quads({s.reduced, s.outputs, s.src_row, s.src_col, s.src_image, s.dst_row, s.dst_col, s.dst_image});
  s.store_quads = columns % 4 == 0;
  plan.blocks = ceil_div(columns, plan.tile.n) * ceil_div(s.outputs, plan.tile.m) * plan.groups;
  plan.result = p.w.count();
  plan.steps = ceil_div(std::int64_t{s.images} * s.dst_h * s.dst_w, plan.tile.k);
  s.splits = splits_for(d, plan);
}

void plan_data(Plan& plan, const DeviceInfo& d, const Problem& p) {
  kernels::ProductShape& s = plan.s;
  const bool backward = p.direction == Direction::kBackwardData;
  const std::int64_t phases = backward ? std::int64_t{s.stride_h} * s.stride_w : 1;
  plan.fast_n = s.dst_channel == 1;
  plan.flat = !backward && s.reduced <= 8;
  plan.quads = !plan.flat && s.src_channel == 1 && quads({s.reduced, s.src_row, s.src_col, s.src_image});
  s.outputs_padded = narrow(round_up(s.outputs, plan.tile.n));
  s.reduced_padded = narrow(round_up(plan.flat ? s.reduced * plan.taps : s.reduced, plan.tile.k));
  plan.rows = s.reduced_padded * (plan.flat ? 1 : plan.taps);
  plan.packed = plan.groups * plan.rows * s.outputs_padded;
  const bool plane =
      s.dst_col == 1 && (s.dst_h == 1 || s.dst_row == s.dst_w) && std::int64_t{s.dst_h} * s.dst_w % 4 == 0;
  s.store_quads = plan.fast_n ? quads({s.outputs, s.dst_row, s.dst_col, s.dst_image})
                              : phases == 1 && plane && quads({s.dst_channel, s.dst_image});
  const std::int64_t rows = backward ? ceil_div(s.dst_h, s.stride_h) : s.dst_h;
  const std::int64_t cols = backward ? ceil_div(s.dst_w, s.stride_w) : s.dst_w;
  plan.blocks = ceil_div(s.images * rows * cols, plan.tile.m) * phases * (s.outputs_padded / plan.tile.n) * plan.groups;
  plan.steps = ceil_div(plan.rows / plan.tile.k, std::min(phases, plan.taps));
  plan.result = p.output().count();
  if (p.output().packed()) s.splits = splits_for(d, plan);
}

Plan plan_of(const DeviceInfo& d, const Problem& p, int tile) {
  Plan plan;
  plan.tile = kTiles[static_cast<std::size_t>(tile)];
  set_shape(plan, p);
  p.direction == Direction::kBackwardWeights ? plan_weights(plan, d, p) : plan_data(plan, d, p);
  return plan;
}

double predict_us(const DeviceInfo& d, const Problem& p, const Plan& plan) {
  constexpr double kLaunchUs = 3;
  const auto real = [](std::int64_t v) { return static_cast<double>(v); };
  const std::int64_t slots = std::int64_t{d.units} * plan.tile.resident;
  const double waves = real(ceil_div(plan.blocks * plan.s.splits, slots)) * plan.tile.resident;
  const double block = 2.0 * plan.tile.m * plan.tile.n * plan.tile.k * real(ceil_div(plan.steps, plan.s.splits) + 1);
  const double compute = waves * block * d.units / (1e3 * d.fp32_gflops * plan.tile.efficiency);
  const double bytes = 4.0 * real(2 * plan.workspace_sums() + (plan.s.splits > 1 ? plan.result : 0));
  const double memory = gpu::tensor_bytes(p) / (1e3 * d.bandwidth_gbs);
  const int launches = 1 + (plan.weights() ? 0 : 1) + (plan.s.splits > 1 ? 1 : 0);
  return launches * kLaunchUs + std::max(compute, memory) + bytes / (1e3 * d.bandwidth_gbs);
}

/// The kernels of one program.
struct Program {
  std::shared_ptr<const Kernel> product, sum, pack;
};

struct Call {
  gpu::Operands tensors;
  Buffer workspace;
  float alpha, beta;
};

void run_data(Stream& stream, const Plan& plan, const Program& program, const kernels::ProductShape& s, const Call& c) {
  launch(stream, *program.pack, gpu::launch_shape(kThreads, ceil_div(plan.packed, kThreads)), c.tensors.second,
         c.workspace, narrow(plan.groups), narrow(plan.taps), s.filter_w, s.reduced, s.outputs, narrow(plan.rows),
         s.outputs_padded, plan.weight_group, plan.weight_reduced, plan.weight_output, plan.weight_row,
         plan.weight_col);
  const Launch shape = gpu::launch_shape(plan.tile.threads(), plan.blocks / plan.groups, plan.groups, s.splits);
  launch(stream, *program.product, shape, c.tensors.first, c.workspace, c.tensors.output, c.workspace, s,
         gpu::divider(s.reduced), gpu::divider(s.filter_w), plan.packed, plan.result, c.alpha, c.beta);
}

void run_weights(Stream& stream, const Plan& plan, const Program& program, const kernels::ProductShape& s,
                 const Call& c) {
  const Launch shape = gpu::launch_shape(plan.tile.threads(), plan.blocks / plan.groups, plan.groups, s.splits);
  launch(stream, *program.product, shape, c.tensors.first, c.tensors.second, c.tensors.output, c.workspace, s,
         gpu::divider(std::int64_t{s.dst_h} * s.dst_w), gpu::divider(s.dst_w), c.alpha, c.beta);
}

class GpuImplicitGemm final : public GpuSolver<Problem> {
 public:
  constexpr explicit GpuImplicitGemm(Direction d) : direction_(d) {}

  SolverInfo info() const override {
    static constexpr const char* kNames[] = {"ConvGpuImplicitGemmFwd", "ConvGpuImplicitGemmBwd",
                                             "ConvGpuImplicitGemmWrw"};
    const auto i = static_cast<unsigned>(direction_);
    return gpu::portable_info(104 + i, kNames[i], Algorithm::kImplicitGemm);
  }

  Verdict check(const DeviceInfo& d, const Problem& p) const override {
    const bool integers = direction_ == Direction::kForward && p.x.type == DataType::kInt8;
    const Verdict common = integers ? check_integers(d, p) : gpu::check_planes(d, p, direction_);
    if (!common) return common;
    POLYMIO_REQUIRE(direction_ != Direction::kBackwardWeights || p.w.is_channels_first() || p.w.is_channels_last(),
                    "w is neither packed NCHW nor packed NHWC");
    constexpr std::int64_t kMost = std::int64_t{1} << 30;
    const Plan plan = plan_of(d, p, 0);
    POLYMIO_REQUIRE_MOST(plan.blocks / plan.groups, kMost, "blocks");
    POLYMIO_REQUIRE_MOST(plan.packed, kMost, "elements of packed weights");
    return {};
  }

  double predict(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    return predict_us(d, p, plan_of(d, p, point[0]));
  }

  TuneSpace knobs(const DeviceInfo&, const Problem&) const override {
    std::vector<int> tiles(kTiles.size());
    std::iota(tiles.begin(), tiles.end(), 0);
    return {{"tile", tiles}};
  }

  bool accepts(const DeviceInfo&, const Problem&, const TunePoint& point) const override {
    return point.size() == 1 && point[0] >= 0 && point[0] < narrow(kTiles.size());
  }

  TunePoint start(const DeviceInfo& d, const Problem& p) const override {
    constexpr int kDefaults = 3;  // the other tiles are for tuning
    int best = 0;
    for (int i = 1; i < kDefaults; ++i)
      if (predict_us(d, p, plan_of(d, p, i)) < predict_us(d, p, plan_of(d, p, best))) best = i;
    return {best};
  }

  std::size_t workspace(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    const std::int64_t sums = plan_of(d, p, point[0]).workspace_sums();
    return sums == 0 ? 0 : static_cast<std::size_t>(sums * 4 + kSlack);
  }

  std::vector<KernelSpec> kernels(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    const Plan plan = plan_of(d, p, point[0]);
    const Tile& t = plan.tile;
    const std::pair<const char*, int> flags[] = {{"DIRECTION", static_cast<int>(direction_)},
                                                 {"FAST_N", plan.fast_n},
                                                 {"QUADS", plan.quads},
                                                 {"FLAT", plan.flat},
                                                 {"FAST_CHANNEL", plan.fast_channel},
                                                 {"TILE_M", t.m},
                                                 {"TILE_N", t.n},
                                                 {"TILE_K", t.k},
                                                 {"THREAD_M", t.thread_m},
                                                 {"THREAD_N", t.thread_n},
                                                 {"RESIDENT", t.resident}};
    std::vector<std::string> options = {fmt::format("-DIN={}", name_of(p.first_input().type)),
                                        fmt::format("-DOUT={}", name_of(p.output().type))};
    for (const auto& [name, value] : flags) options.push_back(fmt::format("-D{}={}", name, value));
    std::vector<KernelSpec> specs;
    for (int variant = 0; variant < (plan.quads ? 2 : 1); ++variant) {
      if (variant == 1) options.emplace_back("-DUNALIGNED");
      specs.push_back({kSource, plan.weights() ? "implicit_gemm_weights" : "implicit_gemm", options});
      specs.push_back({kSource, "add_partials", options});
      if (!plan.weights()) specs.push_back({kSource, "pack_weights", options});
    }
    return specs;
  }

  Invoker assemble(const DeviceInfo& d, const Problem& p, const TunePoint& point, const Kernels& built) const override {
    const Plan plan = plan_of(d, p, point[0]);
    const std::size_t each = plan.weights() ? 2 : 3;
    const auto program = [&](std::size_t first) {
      return Program{built[first], built[first + 1], each == 3 ? built[first + 2] : nullptr};
    };
    const std::array programs = {program(0), program(plan.quads ? each : 0)};
    return [p, plan, programs](Stream& stream, const Args& a) {
      const bool aligned = gpu::aligned(a);
      const Program& used = programs[aligned ? 0 : 1];
      kernels::ProductShape s = plan.s;
      if (!aligned && !plan.quads) s.store_quads = 0;
      const Call call{gpu::operands_of(p, a), a.workspace, static_cast<float>(a.alpha), static_cast<float>(a.beta)};
      (plan.weights() ? run_weights : run_data)(stream, plan, used, s, call);
      if (s.splits == 1) return;
      launch(stream, *used.sum, gpu::launch_shape(kThreads, ceil_div(plan.result, kThreads)), call.workspace,
             call.tensors.output, plan.packed, plan.result, s.splits, call.alpha, call.beta);
    };
  }

 private:
  static Verdict check_integers(const DeviceInfo& d, const Problem& p) {
    POLYMIO_REQUIRE(p.direction == Direction::kForward, "serves another direction");
    POLYMIO_REQUIRE(p.w.type == DataType::kInt8 && p.y.type == DataType::kInt32, "int8 gives int32 only");
    POLYMIO_REQUIRE(p.scalars == Scalars::kDefault, "alpha and beta of integers");
    if (const Verdict v = gpu::check_types(d, p); !v) return v;
    return gpu::check_sizes(p);
  }

  Direction direction_;
};

}  // namespace

const Solver<Problem>& gpu_implicit_gemm(Direction d) {
  static constexpr GpuImplicitGemm kSolvers[] = {GpuImplicitGemm(Direction::kForward),
                                                 GpuImplicitGemm(Direction::kBackwardData),
                                                 GpuImplicitGemm(Direction::kBackwardWeights)};
  return kSolvers[static_cast<int>(d)];
}

}  // namespace polymio::convolution
