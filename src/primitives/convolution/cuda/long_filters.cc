// ConvCudaLongFilters: depthwise convolution with a long filter along one dimension (of causal convolutions and state
// space models) as products of matrices on NVIDIA's matrix units, where a thread per result reads every tap. 16-bit
// floats, any strides of tensors. ConvCudaLongFiltersSplit: the same for fp32, as accurate as fp32 arithmetic.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>

#include "base/math.h"
#include "core/arithmetic.h"
#include "core/kernel_builder.h"
#include "kernels/gpu/sm90/conv_shape.h"
#include "primitives/convolution/cuda/depthwise_1d.h"
#include "primitives/convolution/cuda/hopper.h"
#include "primitives/convolution/cuda/matrix_units.h"
#include "primitives/convolution/gpu/arguments.h"

namespace polymio::convolution {
namespace {

using gpu::narrow;
using Shape = kernels::ConvLongFiltersShape;

constexpr std::int64_t kRow = 64, kUnit = 8, kStep = 128;  // as in long_filters.cu
constexpr std::int64_t kLeastTaps = 24;                    // below, threads per result are faster
constexpr std::int64_t kMostSize = 1 << 29;                // of a dimension: sums of two stay within 32 bits

/// Warps of a block, blocks of 16 rows of a warp, channels of a block: one, or eight neighbouring ones.
struct Tile {
  int warps, row_blocks, channels;
  std::int64_t results() const { return warps / channels * row_blocks * 16 * kRow; }  // of a channel
  std::int64_t most_chunk(int parts) const { return channels > 1 || parts > 1 ? 1024 : 2048; }
  /// Blocks of a multiprocessor.
  int resident(int parts) const { return (parts > 1 ? 8 : row_blocks > 1 ? 12 : 16) / warps; }
};
constexpr Tile kTiles[] = {{4, 2, 1}, {4, 1, 1}, {2, 1, 1}, {1, 1, 1}, {8, 1, 8}};

/// The arguments of ConvLongFilters.
struct Arguments {
  const void *source, *taps;
  void* result;
  Shape shape;
};

/// Of an element, which matrix units multiply: three of bf16 are an fp32.
int parts_of(const Problem& p) { return p.w.type == DataType::kFloat ? 3 : 1; }

Shape shape_of(const Problem& p, const Tile& tile) {
  const int i = *gpu::long_dimension(p);
  const auto at = static_cast<std::size_t>(i);
  const bool data = p.direction == Direction::kBackwardData, weights = p.direction == Direction::kBackwardWeights;
  const auto step = [&](const TensorDesc& t) { return t.strides[at + 2]; };
  Shape s{};
  s.images = narrow(p.n());
  s.channels = narrow(p.c());
  const TensorDesc &source = data ? p.y : p.x, &taps = weights ? p.y : p.w, &result = p.output();
  s.source_size = narrow(source.lens[at + 2]);
  s.taps = narrow(taps.lens[at + 2]);
  s.results = narrow(result.lens[at + 2]);
  s.first = narrow(data ? p.geometry.pad[at] - (p.filter(i) - 1) : -p.geometry.pad[at]);
  s.tiles = narrow(ceil_div(s.results, tile.results()));
  const std::int64_t depth = s.taps + kRow + kUnit - 2;
  s.chunk = narrow(round_up(ceil_div(depth, ceil_div(depth, tile.most_chunk(parts_of(p)))), kStep));
  s.source_image = source.strides[0];
  s.source_channel = source.strides[1];
  s.source_step = step(source);
  s.tap_image = weights ? taps.strides[0] : 0;
  s.tap_channel = weights ? taps.strides[1] : taps.strides[0];
  s.tap_step = step(taps);
  s.result_image = weights ? 0 : result.strides[0];
  s.result_channel = weights ? result.strides[0] : result.strides[1];
  s.result_step = step(result);
  return s;
}

std::int64_t blocks_of(const Problem& p, const Shape& s, const Tile& tile) {
  return std::int64_t{s.tiles} * (s.channels / tile.channels) *
         (p.direction == Direction::kBackwardWeights ? 1 : s.images);
}

/// Whether the tile's channels can be read and written together. The sums of parts leave registers for few tiles.
bool takes(const Problem& p, const Tile& tile) {
  return parts_of(p) > 1 ? tile.row_blocks == 1 && tile.channels == 1
                         : tile.channels == 1 || cuda::has_channel_vectors(p);
}

class CudaLongFilters : public GpuSolver<Problem> {
 public:
  CudaLongFilters(const SolverInfo& info, Direction d, bool splits = false)
      : GpuSolver(info), direction_(d), splits_(splits) {}

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    constexpr std::int64_t kMostBlocks = std::int64_t{1} << 30;
    POLYMIO_REQUIRE(p.direction == direction_, "serves another direction");
    if (const Verdict v = gpu::check_types(d, p); !v) return v;
    if (splits_)
      POLYMIO_REQUIRE(p.all_types(DataType::kFloat), "not fp32");
    else
      POLYMIO_REQUIRE(cuda::has_16_bits(p), "not all floats of 16 bits");
    if (const Verdict v = cuda::check_depthwise_1d(d, p); !v) return v;
    const int i = *gpu::long_dimension(p);
    const auto at = static_cast<std::size_t>(i);
    POLYMIO_REQUIRE(p.filter(i) >= kLeastTaps, "fewer than 24 taps");
    for (const std::int64_t size : {p.in(i), p.out(i), p.filter(i), p.geometry.pad[at], p.n(), p.c()})
      POLYMIO_REQUIRE_MOST(size, kMostSize, "elements of a dimension");
    const std::int64_t least = 16 * kRow;  // results of a tile
    const std::int64_t planes = direction_ == Direction::kBackwardWeights ? p.c() : p.n() * p.c();
    POLYMIO_REQUIRE_MOST(planes, kMostBlocks, "blocks");
    POLYMIO_REQUIRE_MOST(planes * ceil_div(p.output().lens[at + 2], least), kMostBlocks, "blocks");
    return {};
  }

  /// Blocks of a multiprocessor share its matrix units and its path to the caches. Products of a cycle, and cycles of
  /// an element, contiguous, by eight channels, and any other, were measured on an H200.
  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    constexpr double kLaunchUs = 3, kMemory = 0.7, kChannels = 0.45, kPairs = 6;
    const double of_cycle = splits_ ? 1294 / kPairs : 2000, contiguous = splits_ ? 0.55 : 0.32,
                 strided = splits_ ? 1.22 : 1.07, busy = splits_ ? 0.8 : 0.25;
    const Tile& tile = kTiles[point[0]];
    const Shape s = shape_of(p, tile);
    const auto real = [](std::int64_t v) { return static_cast<double>(v); };
    const auto cycles = [&](std::int64_t step) {
      return step == 1 ? contiguous : tile.channels > 1 ? kChannels : strided;
    };
    const std::int64_t depth = std::min(s.taps + kRow, s.source_size + tile.results());
    const double chunks = real(ceil_div(depth, s.chunk));
    const double loads =
        chunks * (real(tile.results() + s.chunk) * cycles(s.source_step) + real(s.chunk + kRow) * cycles(s.tap_step));
    const double products = real(tile.results() * round_up(depth, kStep)) / of_cycle;
    const double images = direction_ == Direction::kBackwardWeights ? s.images : 1;
    const double block = tile.channels * (images * (loads + products) + real(tile.results()) * cycles(s.result_step));
    const double of_unit = std::max(real(ceil_div(blocks_of(p, s, tile), d.units)), tile.resident(parts_of(p)) * busy);
    const double compute = of_unit * block * 256 * d.units / (1e3 * d.fp32_gflops);
    return kLaunchUs + std::max(compute, gpu::tensor_bytes(p) / (1e3 * d.bandwidth_gbs * kMemory));
  }

  TuneSpace tune_space(const DeviceInfo&, const Problem&) const override { return {{"tile", {0, 1, 2, 3, 4}}}; }
  bool is_valid(const DeviceInfo&, const Problem& p, const TunePoint& point) const override {
    return point.size() == 1 && point[0] >= 0 && point[0] < static_cast<int>(std::size(kTiles)) &&
           takes(p, kTiles[point[0]]);
  }
  TunePoint default_point(const DeviceInfo& d, const Problem& p) const override {
    int best = 1;  // serves every problem
    for (int i = 0; i < static_cast<int>(std::size(kTiles)); ++i)
      if (takes(p, kTiles[i]) && estimate(d, p, {i}) < estimate(d, p, {best})) best = i;
    return {best};
  }

  std::vector<KernelSpec> kernel_specs(const DeviceInfo&, const Problem& p, const TunePoint& point) const override {
    const Tile& tile = kTiles[point[0]];
    KernelSpec spec{"primitives/convolution/cuda/long_filters.cu", "conv_long_filters", {}};
    spec.instantiation = fmt::format("sm90::ConvLongFilters<sm90::{}, {}, {}, {}, {}, {}>",
                                     splits_                       ? "SplitFloat"
                                     : p.w.type == DataType::kHalf ? "Half"
                                                                   : "Bfloat16",
                                     tile.warps, tile.row_blocks, tile.channels, direction_ == Direction::kBackwardData,
                                     direction_ == Direction::kBackwardWeights);
    return {spec};
  }

  Invoker assemble(const DeviceInfo&, const Problem& p, const TunePoint& point, const Kernels& built) const override {
    const Tile& tile = kTiles[point[0]];
    const Shape shape = shape_of(p, tile);
    Launch where = launch_shape(32 * tile.warps, blocks_of(p, shape, tile));
    // Of each part of a channel the source and the taps twice; a flag.
    const std::int64_t part_bytes = 2 * (tile.results() - kRow + shape.chunk) + 4 * (shape.chunk + kRow) + 80;
    where.shared_bytes = static_cast<std::uint32_t>(tile.channels * parts_of(p) * part_bytes + 4);
    return [built, shape, where, direction = direction_](Stream& stream, const Args& a) {
      const bool data = direction == Direction::kBackwardData, weights = direction == Direction::kBackwardWeights;
      Arguments arguments{data ? a.y : a.x, weights ? a.y : a.w, data ? a.x : weights ? a.w : a.y, shape};
      arguments.shape.alpha = static_cast<float>(a.alpha);
      arguments.shape.beta = static_cast<float>(a.beta);
      launch(stream, *built[0], where, arguments);
    };
  }

 private:
  Direction direction_;
  bool splits_;
};

class CudaLongFiltersSplit final : public CudaLongFilters, public NamesArithmetic {
 public:
  CudaLongFiltersSplit(const SolverInfo& info, Direction d) : CudaLongFilters(info, d, true) {}
  const char* arithmetic() const override { return cuda::kSplitArithmetic; }
};

}  // namespace

std::unique_ptr<const SolverBase> cuda_long_filters(const SolverInfo& info, Direction d) {
  return std::make_unique<CudaLongFilters>(info, d);
}
std::unique_ptr<const SolverBase> cuda_long_filters_split(const SolverInfo& info, Direction d) {
  return std::make_unique<CudaLongFiltersSplit>(info, d);
}

}  // namespace polymio::convolution
