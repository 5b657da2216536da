// ConvGpuDepthwise: one input channel per group, mostly bound by memory bandwidth. With one output channel, filters
// 3x3, 5x5 and 7x7 of packed NCHW and NHWC with stride 1 run depthwise_tiles or, on matrix units, depthwise_matrix,
// with stride 2 the kernels of this file; all other problems run depthwise_windows. Only backward weights needs
// workspace: blocks write partial results that are summed in a fixed order.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>

#include "base/math.h"
#include "core/kernel_builder.h"
#include "primitives/convolution/convolution.h"
#include "primitives/convolution/cuda/depthwise_matrix.h"
#include "primitives/convolution/gpu/arguments.h"
#include "primitives/convolution/gpu/depthwise_tiles.h"
#include "primitives/convolution/gpu/depthwise_windows.h"

namespace polymio::convolution {
namespace {

constexpr std::int64_t kThreads = 256;

/// NHWC: elements per vector, rows (backward weights: of the filter, at most) and columns of outputs per thread. NCHW:
/// rows per thread, floats of local memory. blocks: most blocks of backward weights; NHWC, forward and backward data:
/// those that load the taps once, 0: any.
struct Variant {
  int vec, rows, cols, local_floats, blocks;
};
constexpr Variant kChannels[] = {
    {4, 2, 4, 0, 0}, {4, 2, 2, 0, 0}, {4, 2, 4, 0, 264}, {4, 2, 4, 0, 528}, {4, 1, 2, 0, 2112}};
constexpr Variant kChannelsWeights[] = {{4, 7, 4, 0, 1056}, {4, 1, 4, 0, 1056}, {4, 2, 4, 0, 1056}, {4, 1, 2, 0, 2112}};
constexpr Variant kPlanes[] = {{1, 14, 1, 6144, 0}, {1, 7, 1, 8192, 0}};
constexpr Variant kPlanesWeights[] = {{1, 14, 1, 8192, 1056}, {1, 7, 1, 4096, 2112}};

bool channels_last(const Problem& p) { return p.x.is_channels_last() && p.y.is_channels_last(); }

std::span<const Variant> variants(const Problem& p) {
  const bool weights = p.direction == Direction::kBackwardWeights;
  if (channels_last(p)) return weights ? std::span<const Variant>(kChannelsWeights) : kChannels;
  return weights ? kPlanesWeights : kPlanes;
}

struct Plan {
  kernels::DepthwiseShape s{};
  Variant v{};
  int filter = 3, stride = 1, tap_rows = 3;
  bool fits = true;
  int tiles = 0, parts = 1;  // parts: partial results of backward weights
  std::array<std::int64_t, 3> blocks{1, 1, 1};
};

/// Vectors of channels per block: a large divisor of all vectors, else the size of equal chunks.
int vectors_of_block(int vectors, int vec) {
  const int most = std::min(128 / vec, 32);
  for (int v = std::min(most, vectors); 2 * v > most; --v)
    if (vectors % v == 0) return v;
  return ceil_div(vectors, ceil_div(vectors, most));
}

void plan_channels(Plan& plan, Direction direction) {
  constexpr int kMaxSums = 100;
  auto& s = plan.s;
  const bool weights = direction == Direction::kBackwardWeights;
  // Backward data with stride 2: tiles begin at an output that tap 0 maps to a pixel of src.
  const bool phases = direction == Direction::kBackwardData && plan.stride == 2;
  if (s.channels % plan.v.vec != 0) plan.v.vec = 1;
  if (phases) plan.v.rows = 2;
  const int vectors = s.channels / plan.v.vec;
  s.vectors = vectors_of_block(vectors, plan.v.vec);
  const int chunks = ceil_div(vectors, s.vectors), slots = static_cast<int>(kThreads) / s.vectors;
  const int rows = weights ? 1 : plan.v.rows;
  const int extra_h = phases ? s.pad_h % 2 : 0, extra_w = phases ? s.pad_w % 2 : 0;
  plan.tiles = s.images * ceil_div(s.dst_h + extra_h, rows) * ceil_div(s.dst_w + extra_w, plan.v.cols);
  plan.tap_rows = std::min(plan.filter, plan.v.rows);
  if (plan.tap_rows * plan.filter * plan.v.vec > kMaxSums) plan.tap_rows = 1;
  const int lines = ceil_div(plan.filter, plan.tap_rows);
  plan.parts = std::min<int>(ceil_div(plan.tiles, 2 * slots), std::max(1, plan.v.blocks / chunks / lines));
  int blocks = weights ? plan.parts : static_cast<int>(ceil_div(plan.tiles, slots));
  if (!weights && plan.v.blocks > 0) blocks = std::min(blocks, std::max(1, plan.v.blocks / chunks));
  plan.blocks = {blocks, chunks, weights ? lines : 1};
}

/// Elements per plane of src that a band of `rows` rows of dst depends on.
std::int64_t band_elements(const Plan& plan, bool backward, int rows) {
  const auto& s = plan.s;
  const std::int64_t reach = plan.filter - 1;
  const std::int64_t lines =
      backward && plan.stride != 1 ? (rows - 1 + reach) / s.stride_h + 2 : (rows - 1) * s.stride_h + reach + 1;
  return std::min<std::int64_t>(s.src_h, lines) * s.src_w;
}

void plan_planes(Plan& plan, const DeviceInfo& d, const Problem& p) {
  constexpr std::int64_t kMinOutputs = 1024;  // per block
  auto& s = plan.s;
  const bool weights = p.direction == Direction::kBackwardWeights, backward = p.direction == Direction::kBackwardData;
  if (backward && plan.stride == 2) plan.v.rows += plan.v.rows % 2;
  const int vector = p.x.type == DataType::kFloat ? 4 : 8, rows = plan.v.rows;
  const auto pitch = [&](std::int64_t elements) { return (elements + vector - 1) / vector * vector + vector; };
  const std::int64_t whole = pitch(std::int64_t{s.src_h} * s.src_w), all = std::int64_t{s.images} * s.channels;
  s.planes = 1;
  s.band = s.dst_h;
  if (whole <= plan.v.local_floats) {
    const std::int64_t outputs = ceil_div(s.dst_h, rows) * s.dst_w;
    const std::int64_t most = std::min(plan.v.local_floats / whole, (kMinOutputs + outputs - 1) / outputs);
    s.planes = static_cast<int>(std::min(most, weights ? s.images : std::max<std::int64_t>(1, all / (2 * d.units))));
  } else {
    const auto fits = [&] { return pitch(band_elements(plan, backward, s.band)) <= plan.v.local_floats; };
    for (int bands = 1; !fits() && s.band > rows; ++bands) s.band = ceil_div(ceil_div(s.dst_h, bands), rows) * rows;
    plan.fits = fits();
  }
  const int bands = ceil_div(s.dst_h, s.band), groups = ceil_div(s.images, s.planes);
  plan.parts = std::min(bands * groups, std::max(1, plan.v.blocks / s.channels));
  if (weights)
    plan.blocks = {s.channels, plan.parts, 1};
  else
    plan.blocks = {(all + s.planes - 1) / s.planes, bands, 1};
}

Plan plan_of(const DeviceInfo& d, const Problem& p, const TunePoint& point) {
  Plan plan;
  plan.v = variants(p)[static_cast<std::size_t>(point[0])];
  plan.s = gpu::depthwise_shape(p);
  plan.filter = static_cast<int>(p.filter(0));
  plan.stride = static_cast<int>(p.geometry.stride[0]);
  if (channels_last(p))
    plan_channels(plan, p.direction);
  else
    plan_planes(plan, d, p);
  return plan;
}

/// Whether depthwise_windows computes the problem.
bool needs_windows(const DeviceInfo& d, const Problem& p) {
  const auto& g = p.geometry;
  if (p.spatial() != 2 || p.k() != p.c() || p.filter(0) != p.filter(1)) return true;
  if (p.filter(0) != 3 && p.filter(0) != 5 && p.filter(0) != 7) return true;
  if (g.dilation[0] != 1 || g.dilation[1] != 1 || g.stride[0] != g.stride[1] || g.stride[0] > 2) return true;
  if (channels_last(p) || gpu::DepthwiseTiles::serve(p)) return false;
  return !p.x.is_channels_first() || !p.y.is_channels_first() || !plan_of(d, p, {1}).fits;
}

/// Tune points after those of DepthwiseTiles select variants of DepthwiseMatrix: the variant, or negative.
int matrix_variant(const DeviceInfo& d, const Problem& p, const TunePoint& point) {
  return cuda::DepthwiseMatrix::serve(d, p) ? point[0] - gpu::DepthwiseTiles::variants(p) : -1;
}

int count_variants(const DeviceInfo& d, const Problem& p) {
  if (needs_windows(d, p)) return gpu::DepthwiseWindows::variants(d, p);
  if (!gpu::DepthwiseTiles::serve(p)) return static_cast<int>(variants(p).size());
  return gpu::DepthwiseTiles::variants(p) +
         (cuda::DepthwiseMatrix::serve(d, p) ? cuda::DepthwiseMatrix::variants(p) : 0);
}

class GpuDepthwise final : public GpuSolver<Problem> {
 public:
  GpuDepthwise(const SolverInfo& info, Direction d) : GpuSolver(info), direction_(d) {}

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    if (const Verdict v = gpu::check_planes(d, p, direction_, true, 3); !v) return v;
    POLYMIO_REQUIRE(p.depthwise(), "not one input channel per group");
    if (needs_windows(d, p)) return gpu::DepthwiseWindows::check(d, p);
    if (const Verdict v = gpu::check_channel_epilogue(p, true); !v) return v;
    POLYMIO_REQUIRE(p.w.is_channels_first() || p.w.is_channels_last(), "w is not packed");
    return {};
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    constexpr double kLaunchUs = 3, kMemory = 0.5, kTilesMemory = 0.6, kArithmetic = 0.2, kTilesArithmetic = 0.4;
    constexpr double kMatrixArithmetic = 0.55, kOther = 1.1;
    if (needs_windows(d, p)) return gpu::DepthwiseWindows(d, p, point[0]).predict(d);
    const bool tiles = gpu::DepthwiseTiles::serve(p), matrix = matrix_variant(d, p, point) >= 0;
    const double memory = gpu::tensor_bytes(p) / (1e3 * d.bandwidth_gbs * (tiles ? kTilesMemory : kMemory));
    const double arithmetic = matrix ? kMatrixArithmetic : tiles ? kTilesArithmetic : kArithmetic;
    const double compute = p.flops() / (1e3 * d.fp32_gflops * arithmetic);
    const bool weights = direction_ == Direction::kBackwardWeights;
    return kLaunchUs * (weights ? 2 : 1) + (point == default_point(d, p) ? 1 : kOther) * std::max(memory, compute);
  }

  TuneSpace tune_space(const DeviceInfo& d, const Problem& p) const override {
    std::vector<int> values(static_cast<std::size_t>(count_variants(d, p)));
    std::iota(values.begin(), values.end(), 0);
    return {{"variant", values}};
  }

  bool is_valid(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    if (point.size() != 1 || point[0] < 0 || point[0] >= count_variants(d, p)) return false;
    if (needs_windows(d, p)) return gpu::DepthwiseWindows(d, p, point[0]).fits();
    if (matrix_variant(d, p, point) >= 0) return true;
    return gpu::DepthwiseTiles::serve(p) ? gpu::DepthwiseTiles::fits(p, point[0]) : plan_of(d, p, point).fits;
  }

  /// Measured on an H200.
  TunePoint default_point(const DeviceInfo& d, const Problem& p) const override {
    if (needs_windows(d, p)) return {gpu::DepthwiseWindows::best(d, p)};
    constexpr std::int64_t kSmall = 1536;  // elements per multiprocessor: below it tiles beat matrix units
    const bool is_small =
        direction_ != Direction::kBackwardWeights && std::min(p.x.count(), p.y.count()) < kSmall * d.units;
    if (cuda::DepthwiseMatrix::serve(d, p) && !is_small)
      return {gpu::DepthwiseTiles::variants(p) + cuda::DepthwiseMatrix::best(d, p)};
    if (gpu::DepthwiseTiles::serve(p)) return {gpu::DepthwiseTiles::best(d, p)};
    const std::int64_t stride = p.geometry.stride[0];
    if (!channels_last(p)) return {stride != 2 && plan_of(d, p, {0}).fits ? 0 : 1};
    if (direction_ == Direction::kBackwardWeights) return {p.filter(0) == 5 ? 2 : 0};
    return {stride != 2 ? 0 : direction_ == Direction::kForward && p.filter(0) == 3 ? 4 : 2};
  }

  std::size_t workspace_size(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    if (needs_windows(d, p)) return gpu::DepthwiseWindows(d, p, point[0]).workspace();
    if (const int m = matrix_variant(d, p, point); m >= 0) return cuda::DepthwiseMatrix(d, p, m).workspace();
    if (gpu::DepthwiseTiles::serve(p)) return gpu::DepthwiseTiles(d, p, point[0]).workspace();
    if (direction_ != Direction::kBackwardWeights) return 0;
    return gpu::sum_bytes(plan_of(d, p, point).parts * p.w.count());
  }

  std::vector<KernelSpec> kernel_specs(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    if (needs_windows(d, p)) return gpu::DepthwiseWindows(d, p, point[0]).kernels();
    if (const int m = matrix_variant(d, p, point); m >= 0) return cuda::DepthwiseMatrix(d, p, m).kernels();
    if (gpu::DepthwiseTiles::serve(p)) return gpu::DepthwiseTiles(d, p, point[0]).kernels();
    const Plan plan = plan_of(d, p, point);
    const bool weights = direction_ == Direction::kBackwardWeights, last = channels_last(p);
    const std::string name = fmt::format("depthwise_{}{}", last ? "channels" : "planes", weights ? "_weights" : "");
    const std::string source = fmt::format("primitives/convolution/gpu/{}.cl", last ? name : "depthwise_planes");
    std::vector<std::string> options = {fmt::format("-DIN={}", name_of(p.x.type)),
                                        fmt::format("-DOUT={}", name_of(p.x.type))};
    const auto add = [&](const char* what, int value) { options.push_back(fmt::format("-D{}={}", what, value)); };
    add("FILTER_H", plan.filter);
    add("FILTER_W", plan.filter);
    add("STRIDE", plan.stride);
    if (!last || !weights) {
      add("DIRECTION", static_cast<int>(direction_));
      add("ROWS", plan.v.rows);
    }
    if (last) {
      add("VEC", plan.v.vec);
      add("COLS", plan.v.cols);
    }
    if (last && weights) add("TAP_ROWS", plan.tap_rows);
    if (!last) add("LOCAL_FLOATS", plan.v.local_floats);
    gpu::add_fused_options(p.epilogue, &options);
    return gpu::kernel_variants(source, name, std::move(options), weights);
  }

  Invoker assemble(const DeviceInfo& d, const Problem& p, const TunePoint& point, const Kernels& built) const override {
    if (needs_windows(d, p))
      return [windows = gpu::DepthwiseWindows(d, p, point[0]), built](Stream& stream, const Args& a) {
        windows.run(stream, built, a);
      };
    if (const int m = matrix_variant(d, p, point); m >= 0)
      return [matrix = cuda::DepthwiseMatrix(d, p, m), built](Stream& stream, const Args& a) {
        matrix.run(stream, built, a);
      };
    if (gpu::DepthwiseTiles::serve(p))
      return [tiles = gpu::DepthwiseTiles(d, p, point[0]), built](Stream& stream, const Args& a) {
        tiles.run(stream, built, a);
      };
    const Plan plan = plan_of(d, p, point);
    const Launch shape = launch_shape(kThreads, plan.blocks[0], plan.blocks[1], plan.blocks[2]);
    const gpu::Variants variants{direction_, p.w.count(), plan.parts, true, p.epilogue};
    return [plan, variants, shape, last = channels_last(p), built](Stream& stream, const Args& a) {
      if (last)
        gpu::launch_variant(stream, built, variants, shape, a, plan.s, plan.tiles);
      else
        gpu::launch_variant(stream, built, variants, shape, a, plan.s);
    };
  }

 private:
  Direction direction_;
};

}  // namespace

std::unique_ptr<const SolverBase> gpu_depthwise(const SolverInfo& info, Direction d) {
  return std::make_unique<GpuDepthwise>(info, d);
}

}  // namespace polymio::convolution
