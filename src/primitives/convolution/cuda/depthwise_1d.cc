// ConvCudaDepthwise1d: depthwise convolution with 2 to 114 taps along one dimension on NVIDIA's matrix units, 16-bit
// floats, stride and dilation 1. Either lines or channels are contiguous; bias and activation in the same pass. The
// gradient of the filter writes partial sums, which add_partials adds in a fixed order.
// SPDX-License-Identifier: MIT
#include "primitives/convolution/cuda/depthwise_1d.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/math.h"
#include "core/kernel_builder.h"
#include "kernels/gpu/sm90/conv_shape.h"
#include "primitives/convolution/cuda/hopper.h"
#include "primitives/convolution/cuda/matrix_units.h"
#include "primitives/convolution/gpu/arguments.h"

namespace polymio::convolution {
namespace {

using gpu::narrow;
using Shape = kernels::ConvDepthwise1dShape;

// As in the kernels.
constexpr std::int64_t kUnit = 8, kChunk = 512, kChannels = 64;
constexpr std::int64_t kLineAlignment = 15;  // results before a line's first one, at most

/// Lines, forward and backward data: results of a piece, about. Else: how many times the blocks that multiprocessors
/// have at once share the work; 0: the number with the least estimated time.
constexpr int kPieces[] = {2048, 4096, 8192, 16384}, kWaves[] = {0, 1, 2, 4};
constexpr int kPoints = static_cast<int>(std::size(kPieces));

/// The arguments of the kernels.
struct Arguments {
  const void *source, *second, *bias;
  void* result;
  Shape shape;
};

/// A problem's shape, and the launch of its kernel.
struct Plan {
  Shape shape{};
  bool lines = false;
  int depth = 1;  // of the Toeplitz matrix: in 16s; in 8s where channels, forward and backward data
  std::int64_t threads = 128, blocks = 1, shared_bytes = 0;

  Plan(const DeviceInfo& d, const Problem& p, int point) {
    const bool data = p.direction == Direction::kBackwardData, weights = p.direction == Direction::kBackwardWeights;
    const int i = *gpu::long_dimension(p);
    const auto at = static_cast<std::size_t>(i);
    const TensorDesc &source = data ? p.y : p.x, &result = data ? p.x : p.y;
    auto& s = shape;
    s.images = narrow(p.n());
    s.channels = narrow(p.c());
    s.source_size = narrow(source.lens[at + 2]);
    s.results = narrow(result.lens[at + 2]);
    s.taps = narrow(p.filter(i));
    s.first = narrow(data ? p.geometry.pad[at] - (p.filter(i) - 1) : -p.geometry.pad[at]);
    s.source_image = source.strides[0];
    s.source_channel = source.strides[1];
    s.source_step = source.strides[at + 2];
    s.result_image = result.strides[0];
    s.result_channel = result.strides[1];
    s.result_step = result.strides[at + 2];
    s.parts = 1;
    lines = s.source_step == 1 && s.result_step == 1;
    if (lines)
      plan_lines(d, weights, point);
    else
      plan_channels(d, weights, p.epilogue.bias || p.epilogue.activation != 0, point);
  }

 private:
  void plan_lines(const DeviceInfo& d, bool weights, int point) {
    constexpr std::int64_t kSourceBytes = 1280, kDyBytes = 1024, kStages = 3, kGramBytes = 576;  // as in the kernels
    auto& s = shape;
    depth = narrow(std::max<std::int64_t>(2, ceil_div(s.taps + 2 * kUnit - 2, 2 * kUnit)));
    const std::int64_t line = s.results + kLineAlignment;
    const std::int64_t pieces = std::max<std::int64_t>(1, line / kPieces[weights ? 0 : point]);
    s.piece = narrow(round_up(ceil_div(line, pieces), kChunk));
    s.pieces = narrow(ceil_div(line, std::int64_t{s.piece}));
    const std::int64_t works = std::int64_t{s.images} * s.pieces, warps = threads / 32;
    shared_bytes = warps * kStages * (weights ? std::max(kSourceBytes + kDyBytes, depth * kGramBytes) : kSourceBytes);
    blocks = ceil_div(works * s.channels, warps);
    if (!weights) return;
    s.parts = narrow(parts_of(ceil_div(works, warps), s.channels, (depth > 3 ? 4 : 7) * d.units, kWaves[point]));
    blocks = std::int64_t{s.channels} * s.parts;
  }

  void plan_channels(const DeviceInfo& d, bool weights, bool fuses, int point) {
    constexpr std::int64_t kStages = 2;
    auto& s = shape;
    const std::int64_t unit = weights ? 2 * kUnit : kUnit;
    depth = narrow(ceil_div(s.taps + kUnit - 1, unit));
    const bool deep = weights && depth > 1;
    threads = weights ? 512 : 256;
    s.piece = deep ? 256 : 128;
    s.pieces = narrow(ceil_div(s.results, std::int64_t{s.piece}));
    const std::int64_t chunks = ceil_div(s.channels, kChannels);
    const std::int64_t resident = deep ? 1 : weights || fuses ? 2 : 3;  // blocks, as in the kernels
    s.parts = narrow(parts_of(std::int64_t{s.images} * s.pieces, chunks, resident * d.units, kWaves[point]));
    blocks = chunks * s.parts;
    const std::int64_t source = s.piece + depth * unit - kUnit;
    const std::int64_t rest = weights ? kStages * s.piece : s.piece + 2 * (depth + 2) * kUnit;  // dy; results and taps
    shared_bytes = kChannels * 2 * (kStages * source + rest);
  }

  /// Into how many parts, all of them about equal, the works of each of `sets` are divided. `slots`: blocks at once.
  static std::int64_t parts_of(std::int64_t works, std::int64_t sets, std::int64_t slots, int waves) {
    constexpr std::int64_t kMostWaves = 8;
    constexpr double kBlock = 0.25;  // time of a block beside its works
    const auto most = [&](std::int64_t times) { return std::clamp<std::int64_t>(times * slots / sets, 1, works); };
    std::int64_t best = most(std::max(1, waves));
    double least = 0;
    for (std::int64_t parts = 1; waves == 0 && parts <= most(kMostWaves); ++parts) {
      const double time =
          static_cast<double>(ceil_div(sets * parts, slots)) * (static_cast<double>(ceil_div(works, parts)) + kBlock);
      if (least > 0 && time >= least) continue;
      least = time;
      best = parts;
    }
    return ceil_div(works, ceil_div(works, best));
  }
};

class CudaDepthwise1d final : public GpuSolver<Problem> {
 public:
  CudaDepthwise1d(const SolverInfo& info, Direction d) : GpuSolver(info), direction_(d) {}

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    constexpr std::int64_t kMostSize = 1 << 29, kMostWorks = 1 << 30, kLeastPiece = 128;
    POLYMIO_REQUIRE(p.direction == direction_, "serves another direction");
    if (const Verdict v = gpu::check_types(d, p, true); !v) return v;
    if (const Verdict v = gpu::check_channel_epilogue(p); !v) return v;
    POLYMIO_REQUIRE(!p.epilogue.scale, "fuses bias and activation only");
    POLYMIO_REQUIRE(cuda::has_16_bits(p), "not all floats of 16 bits");
    if (const Verdict v = cuda::check_depthwise_1d(d, p); !v) return v;
    const int i = *gpu::long_dimension(p);
    const auto at = static_cast<std::size_t>(i);
    POLYMIO_REQUIRE(p.w.is_channels_first() || p.w.is_channels_last(), "w is not packed");
    POLYMIO_REQUIRE(p.filter(i) >= 2, "a single tap");
    const bool lines = p.x.strides[at + 2] == 1 && p.y.strides[at + 2] == 1;
    POLYMIO_REQUIRE(lines || cuda::has_channel_vectors(p), "neither steps nor channels, by eight, are contiguous");
    for (const std::int64_t size : {p.in(i), p.out(i), p.geometry.pad[at], p.n(), p.c()})
      POLYMIO_REQUIRE_MOST(size, kMostSize, "elements of a dimension");
    POLYMIO_REQUIRE_MOST(p.filter(i), lines ? 114 : is_weights() ? 41 : 57, "taps");
    POLYMIO_REQUIRE_MOST(p.n() * p.c() * ceil_div(std::max(p.in(i), p.out(i)) + kLineAlignment, kLeastPiece),
                         kMostWorks, "pieces of lines");
    POLYMIO_REQUIRE_MOST(Plan(d, p, 0).shared_bytes, static_cast<std::int64_t>(d.gpu.shared_opt_in_bytes),
                         "bytes of shared memory");
    return {};
  }

  /// Bytes, and what is computed but does not exist. Rates were measured on an H200.
  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    constexpr double kLaunchUs = 3, kLines = 0.81, kChannelsRate = 0.6, kOther = 1.05, kMostWaste = 1.5;
    const Plan plan(d, p, point[0]);
    const auto& s = plan.shape;
    const auto real = [](std::int64_t v) { return static_cast<double>(v); };
    const double launches = kLaunchUs * (is_weights() ? 2 : 1);
    const double waste = plan.lines ? real(round_up(s.results, kChunk)) / real(s.results)
                                    : real(std::int64_t{s.pieces} * s.piece) / real(s.results) *
                                          real(round_up(s.channels, kChannels)) / real(s.channels);
    const double rate = (plan.lines || is_weights() ? kLines : kChannelsRate) * (point[0] == 0 ? 1 : 1 / kOther);
    return launches + gpu::tensor_bytes(p) * std::max(1.0, waste / kMostWaste) / (1e3 * d.bandwidth_gbs * rate);
  }

  TuneSpace tune_space(const DeviceInfo&, const Problem&) const override { return {{"work", {0, 1, 2, 3}}}; }
  bool is_valid(const DeviceInfo&, const Problem&, const TunePoint& point) const override {
    return point.size() == 1 && point[0] >= 0 && point[0] < kPoints;
  }
  TunePoint default_point(const DeviceInfo&, const Problem&) const override { return {0}; }

  std::size_t workspace_size(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    return is_weights() ? gpu::sum_bytes(Plan(d, p, point[0]).shape.parts * p.w.count()) : 0;
  }

  std::vector<KernelSpec> kernel_specs(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    const Plan plan(d, p, point[0]);
    const char* const kind = plan.lines ? "lines" : "channels";
    KernelSpec spec{fmt::format("primitives/convolution/cuda/depthwise_1d_{}.cu", kind),
                    fmt::format("conv_depthwise_{}", kind),
                    {}};
    spec.instantiation =
        fmt::format("sm90::ConvDepthwise{}{}<sm90::{}, {}", plan.lines ? "Lines" : "Channels",
                    is_weights() ? "Weights" : "", p.w.type == DataType::kHalf ? "Half" : "Bfloat16", plan.depth);
    if (!is_weights())
      spec.instantiation +=
          fmt::format(", {}, {}, {}", direction_ == Direction::kBackwardData, p.epilogue.bias, p.epilogue.activation);
    spec.instantiation += ">";
    std::vector<KernelSpec> specs = {spec};
    const std::string type = name_of(p.w.type);
    if (is_weights())
      specs.push_back(
          {"primitives/convolution/gpu/columns.cl", "add_partials", {"-DIN=" + type, "-DOUT=" + type, "-DWIDE=0"}});
    return specs;
  }

  Invoker assemble(const DeviceInfo& d, const Problem& p, const TunePoint& point, const Kernels& built) const override {
    const Plan plan(d, p, point[0]);
    Launch where = launch_shape(plan.threads, plan.blocks);
    where.shared_bytes = static_cast<std::uint32_t>(plan.shared_bytes);
    return
        [built, shape = plan.shape, where, direction = direction_, count = p.w.count()](Stream& stream, const Args& a) {
          if (direction == Direction::kBackwardWeights) {
            launch(stream, *built[0], where, Arguments{a.x, a.y, nullptr, gpu::align_up(a.workspace, 16), shape});
            gpu::add_partials(stream, *built[1], {a.workspace, a.w, count, shape.parts}, static_cast<float>(a.alpha),
                              static_cast<float>(a.beta));
            return;
          }
          const bool data = direction == Direction::kBackwardData;
          Arguments arguments{data ? a.y : a.x, a.w, a.bias, data ? a.x : a.y, shape};
          arguments.shape.scalars = cuda::hopper_scalars(a);
          launch(stream, *built[0], where, arguments);
        };
  }

 private:
  bool is_weights() const { return direction_ == Direction::kBackwardWeights; }

  Direction direction_;
};

}  // namespace

bool cuda::has_16_bits(const Problem& p) { return p.all_types(DataType::kHalf) || p.all_types(DataType::kBFloat16); }

Verdict cuda::check_depthwise_1d(const DeviceInfo& d, const Problem& p) {
  POLYMIO_REQUIRE(cuda::has_matrix_units(d), "needs matrix units of sm80 or later");
  POLYMIO_REQUIRE(p.depthwise() && p.k() == p.c(), "not one input and one output channel per group");
  const auto i = gpu::long_dimension(p);
  POLYMIO_REQUIRE(i, "not along one dimension");
  const auto at = static_cast<std::size_t>(*i);
  POLYMIO_REQUIRE(p.geometry.stride[at] == 1 && p.geometry.dilation[at] == 1, "stride or dilation is not 1");
  return {};
}

bool cuda::has_channel_vectors(const Problem& p) {
  const auto is = [&](const TensorDesc& t) {
    return t.strides[1] == 1 && t.strides[0] % kUnit == 0 &&
           std::all_of(t.strides.begin() + 2, t.strides.begin() + t.rank,
                       [](std::int64_t v) { return v % kUnit == 0; });
  };
  return p.c() % kUnit == 0 && is(p.x) && is(p.y);
}

std::unique_ptr<const SolverBase> cuda_depthwise_1d(const SolverInfo& info, Direction d) {
  return std::make_unique<CudaDepthwise1d>(info, d);
}

}  // namespace polymio::convolution
