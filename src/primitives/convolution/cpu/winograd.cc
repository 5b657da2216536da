// ConvCpuWinograd: stride 1 by Winograd's minimal filtering, forward and backward data. F(4x4, 3x3) takes 36 products
// per tile instead of 144. Wins with 32 or more channels on all but the smallest images.
// SPDX-License-Identifier: MIT
#include "primitives/convolution/cpu/winograd.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/math.h"
#include "kernels/cpu/epilogue.h"
#include "kernels/cpu/kernels_of.h"
#include "kernels/cpu/winograd.h"
#include "primitives/convolution/cpu/cost.h"
#include "primitives/convolution/cpu/epilogue.h"
#include "primitives/convolution/cpu/problem_shape.h"
#include "primitives/convolution/weight_packing.h"

namespace polymio::convolution {
namespace {

using kernels::Winograd;

constexpr std::int64_t kAlign = kernels::kScratchAlignment;
constexpr std::int64_t kMostStoredChannels = 128;  // input channels whose transformed block of tiles stays in the cache
constexpr std::size_t kMostStoredBytes = 8 << 20;  // of transformed filters in workspace
constexpr std::int64_t kMostPlanes = 8;            // output planes per slab, which share input planes

const kernels::WinogradKernels& kernels_of(const DeviceInfo& d) {
  return kernels::kernels_of<kernels::WinogradKernels>(d.isa);
}

/// The problem as a forward convolution, without a cut. Backward data reads dy and writes dx, with reversed taps and
/// swapped input and output channels of the filter.
Winograd plain_job(const Problem& p) {
  Winograd job;
  kernels::ConvShape& s = job.shape;
  s = conv_shape(p);
  job.w_group = s.k * s.w_k;
  if (p.direction != Direction::kBackwardData) return job;
  std::swap(s.c, s.k);
  std::swap(s.in, s.out);
  std::swap(s.x_n, s.y_n);
  std::swap(s.x_c, s.y_k);
  std::swap(s.x_d, s.y_d);
  std::swap(s.w_k, s.w_c);
  for (int d = 0; d < kernels::kSpatial; ++d) {
    s.pad[d] = (s.taps[d] - 1) * s.dilation[d] - s.pad[d];
    s.w_d[d] = -s.w_d[d];
  }
  return job;
}

/// Offset of the first tap in w, in elements: the last one in memory if taps are reversed.
std::int64_t first_tap(const Winograd& job) {
  const kernels::ConvShape& s = job.shape;
  std::int64_t offset = 0;
  for (int d = 0; d < kernels::kSpatial; ++d) offset -= (s.taps[d] - 1) * std::min<std::int64_t>(s.w_d[d], 0);
  return offset;
}

/// F(tile x tile, taps x taps).
struct Form {
  int tile, taps;
};

/// The job, cut for the caches and for `threads`. Blocks of channels decide the order of summation and do not depend on
/// threads. Few input channels: transformed filters are in workspace and every block of tiles reads them. Many: storing
/// them would take longer than the products, so large blocks of tiles transform a block of filters at a time.
Winograd job_of(const DeviceInfo& d, const Problem& p, Form form, int threads, std::int64_t tiles) {
  const kernels::WinogradKernels& kernels = kernels_of(d);
  Winograd job = plain_job(p);
  job.tile = form.tile;
  job.taps = form.taps;
  const kernels::ConvShape& s = job.shape;
  const std::int64_t panel = kernels.panel, parts = job.parts(0) * job.parts(2);
  const bool few_channels = s.c * parts * job.parts(1) <= kMostStoredChannels;
  job.part_rows = few_channels ? job.parts(1) : 1;
  job.c_block = few_channels ? s.c : equal_blocks(s.c, std::max(kWinogradBlock / parts, panel / 2), panel / 2);
  job.k_block = equal_blocks(s.k, few_channels ? kWinogradBlock : 2 * kWinogradBlock, panel);
  if (job.parts(0) > 1) job.planes = ceil_div(s.out[0], ceil_div(s.out[0], kMostPlanes));
  const double cache_share = few_channels ? 0.4 : 0.6;  // of the second-level cache, for transformed tiles and sums
  const double cache = cache_share * static_cast<double>(std::max<std::size_t>(d.cache_bytes[1], 512 << 10));
  const std::int64_t input_planes = job.planes + (job.parts(0) - 1) * job.part_step(0);
  const std::int64_t channels = job.c_block * job.part_rows * job.parts(2) * input_planes / job.planes + job.k_block;
  const double tile_bytes = 4.0 * static_cast<double>(job.points() * channels);
  if (tiles == 0) tiles = std::clamp<std::int64_t>(static_cast<std::int64_t>(cache / tile_bytes), 8, 64);
  tiles = std::max<std::int64_t>(tiles / job.planes, 1);
  job.tiles = std::max(tiles, job.band());
  job.stored = (few_channels || kernels.memory(job) <= kMostStoredBytes) && job.tile_blocks() > 2;
  cut_tiles(job, tiles, kernels.scratch);
  job.k_piece = few_channels ? s.k : job.k_block;
  while (threads > 1 && job.pieces() < 2 * threads && job.k_piece > job.k_block) {
    job.k_piece = round_up(job.k_piece / 2, job.k_block);
  }
  return job;
}

double cycles_of(const Machine& m, const Winograd& job) {
  const kernels::ConvShape& s = job.shape;
  const auto lanes = static_cast<std::int64_t>(m.lanes(DataType::kFloat));
  const auto real = [](std::int64_t n) { return static_cast<double>(n); };
  const double x_vectors = real(ceil_div(s.c, lanes)), y_vectors = real(ceil_div(s.k, lanes)),
               tiles = real(job.all_tiles());
  const double blocks = real(job.tile_blocks());
  const WinogradCycles cost = winograd_cycles(job.tile, job.taps);
  const double parts = real(job.parts(0) * job.parts(1) * job.parts(2)), planes = real(job.planes);
  // A register tile takes at least four cycles per step, even with few rows.
  const double rows = std::max(real(job.tiles * job.planes), 4.0) * blocks;
  const double multiply = real(job.points()) * rows * parts * x_vectors * m.lanes(DataType::kFloat) * y_vectors / 2;
  // Parts of a filter that are adjacent in a row share the loads and one dimension of the input transform.
  const double transforms =
      real(job.parts(1) * (1 + job.parts(2))) / 2 * (planes + real((job.parts(0) - 1) * job.part_step(0)));
  const bool transforms_again = job.chunks() > 1;
  const double input =
      tiles * x_vectors * transforms * cost.input * real(ceil_div(s.k, transforms_again ? job.k_block : job.k_piece));
  const double filter =
      parts * x_vectors * m.lanes(DataType::kFloat) * y_vectors * cost.filter * (job.stored ? 1 : blocks);
  return kWinogradStalls * real(s.groups) * (multiply + input + filter + tiles * planes * y_vectors * cost.output);
}

/// Whether the filter is one part of 3x3 taps.
bool is_small(const Problem& p) { return std::max(p.filter(p.spatial() - 1), p.filter(p.spatial() - 2)) <= 3; }

class CpuWinograd final : public Solver<Problem>, public PacksWeights {
 public:
  CpuWinograd(const SolverInfo& info, Direction d, bool large) : Solver(info), direction_(d), large_(large) {}

  ErrorClass error_class(const Problem&) const override {
    return large_ ? ErrorClass::kApproximate : ErrorClass::kAccurate;
  }

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    if (const Verdict v = check_float_problem(p, direction_, true); !v) return v;
    POLYMIO_REQUIRE(p.epilogue.empty() || (p.scalars != Scalars::kBilinear && !p.epilogue.residual),
                    "fuses an epilogue only without beta and residual");
    if (const Verdict v = check_winograd(p); !v) return v;
    // Outputs that only see padding must be exactly zero; Winograd would give rounding errors of their tile.
    const kernels::ConvShape s = plain_job(p).shape;
    for (int i = 1; i < kernels::kSpatial; ++i) {
      POLYMIO_REQUIRE(s.pad[i] <= (s.taps[i] - 1) * s.dilation[i] && s.in[i] >= s.dilation[i],
                      "some results are of padding only");
    }
    for (const int tile : winograd_tiles(p, large_)) {
      const Winograd job = job_of(d, p, form(p, tile), 1, 0);
      POLYMIO_REQUIRE_MOST(static_cast<std::int64_t>(kernels_of(d).scratch(job)), kMostWinogradScratch,
                           "bytes of scratch for one block");
    }
    return {};
  }

  TuneSpace tune_space(const DeviceInfo&, const Problem& p) const override {
    return {{"tile", winograd_tiles(p, large_)}, {"tiles", {0, 14, 28, 56}}};
  }

  bool is_valid(const DeviceInfo&, const Problem& p, const TunePoint& point) const override {
    if (point.size() != 2) return false;
    const std::vector<int> tiles = winograd_tiles(p, large_);
    return std::find(tiles.begin(), tiles.end(), point[0]) != tiles.end() &&
           (point[1] == 0 || point[1] == 14 || point[1] == 28 || point[1] == 56);
  }

  TunePoint default_point(const DeviceInfo& d, const Problem& p) const override {
    const std::vector<int> tiles = winograd_tiles(p, large_);
    // The tile size changes results, so it must not depend on the number of threads.
    const Machine m(d);
    const auto cycles = [&](int tile) { return cycles_of(m, job_of(d, p, form(p, tile), 1, 0)); };
    return {*std::min_element(tiles.begin(), tiles.end(), [&](int a, int b) { return cycles(a) < cycles(b); }), 0};
  }

  std::size_t workspace_size(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    const Winograd job = job_at(d, p, d.threads, point);
    return job.stored ? kernels_of(d).memory(job) + kAlign : 0;
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    const Machine m(d);
    const Winograd job = job_at(d, p, d.threads, point);
    const double memory = job.stored ? static_cast<double>(kernels_of(d).memory(job)) : 0;
    Work work;
    work.pieces = static_cast<double>(job.pieces());
    work.cycles = cycles_of(m, job);
    work.largest = work.cycles / work.pieces;
    work.bytes = tensor_bytes(p) + 3 * memory;
    return m.loop_us(work, tensor_bytes(p) + memory);
  }

  Invoker build(Stream& stream, const Problem& p, const TunePoint& point) const override {
    return invoker(stream, p, job_at(stream.info(), p, stream.threads(), point), kTransformFilters | kCompute);
  }

  WeightPacking build_packing(Stream& stream, const Problem& p, const TunePoint& point) const override {
    Winograd job = job_at(stream.info(), p, stream.threads(), point);
    job.stored = true;
    const std::size_t bytes = kernels_of(stream.info()).memory(job) + kAlign;
    return {bytes, invoker(stream, p, job, kTransformFilters).any(), invoker(stream, p, job, kCompute).any()};
  }

 private:
  enum Stages : unsigned { kTransformFilters = 1, kCompute = 2 };

  static Invoker invoker(Stream& stream, const Problem& p, const Winograd& job, unsigned stages) {
    const kernels::WinogradKernels& kernels = kernels_of(stream.info());
    const std::size_t scratch = kernels.scratch(job), size = size_of(p.x.type);
    stream.reserve_scratch(scratch);
    const std::int64_t panels = job.stored ? job.shape.groups * ceil_div(job.shape.k, kernels.panel) : 0;
    const bool forward = p.direction == Direction::kForward;
    const bool fuses = !p.epilogue.empty();
    return [=, &kernels, tap = first_tap(job) * static_cast<std::int64_t>(size)](Stream& on, const Args& a) {
      Winograd call = job;
      call.x = forward ? a.x : a.y;
      call.y = forward ? a.y : a.x;
      call.w = static_cast<const char*>(a.w) + tap;
      call.alpha = static_cast<float>(a.alpha);
      call.beta = static_cast<float>(a.beta);
      kernels::Epilogue epilogue;
      if (fuses) {
        epilogue = epilogue_job(p, a);
        call.epilogue = &epilogue;
      }
      const auto address =
          reinterpret_cast<std::uintptr_t>(stages == (kTransformFilters | kCompute) ? a.workspace : a.packed);
      call.memory = reinterpret_cast<float*>((address + kAlign - 1) / kAlign * kAlign);
      const auto run_all = [&](std::int64_t tasks, auto kernel) {
        on.parallel_for(static_cast<std::size_t>(tasks), scratch, [&](std::size_t i, void* memory) {
          const auto piece = static_cast<std::int64_t>(i);
          kernel(call, piece, piece + 1, memory);
        });
      };
      if (panels > 0 && stages & kTransformFilters) run_all(panels, kernels.filters);
      if (stages & kCompute) run_all(call.pieces(), kernels.run);
    };
  }

  /// The job of a tune point. What is in workspace does not depend on `threads`.
  Winograd job_at(const DeviceInfo& d, const Problem& p, int threads, const TunePoint& point) const {
    const TunePoint& t = point.empty() ? default_point(d, p) : point;
    return job_of(d, p, form(p, t[0]), threads, t[1]);
  }

  Form form(const Problem& p, int tile) const { return {tile, winograd_taps(p, large_, tile)}; }

  Direction direction_;
  bool large_;
};

}  // namespace

Verdict check_winograd(const Problem& p) {
  constexpr std::int64_t kFewestChannels = 16;  // fewer do not fill vectors
  constexpr std::int64_t kFewestTaps = 3, kMostTaps = 12;
  POLYMIO_REQUIRE(p.x.type != DataType::kDouble, "computes in fp32");
  POLYMIO_REQUIRE(p.spatial() > 1, "computes two or three dimensions");
  const kernels::ConvShape s = conv_shape(p);
  for (int i = 0; i < kernels::kSpatial; ++i) {
    POLYMIO_REQUIRE(s.stride[i] == 1, "stride must be 1");
    if (i == 0) continue;
    POLYMIO_REQUIRE_MOST(kFewestTaps, s.taps[i], "taps of the last two dimensions, at least");
    POLYMIO_REQUIRE_MOST(s.taps[i], kMostTaps, "taps of the last two dimensions");
  }
  POLYMIO_REQUIRE((s.x_d[2] == 1 || s.x_c == 1) && (s.y_d[2] == 1 || s.y_k == 1),
                  "width or channels must be contiguous in x and y");
  POLYMIO_REQUIRE_MOST(kFewestChannels, std::min(s.c, s.k), "input and output channels of a group, at least");
  return {};
}

std::int64_t equal_blocks(std::int64_t size, std::int64_t most, std::int64_t unit) {
  return std::min(size, round_up(ceil_div(size, ceil_div(size, most)), unit));
}

std::vector<int> winograd_tiles(const Problem& p, bool large) {
  constexpr double kMostProducts = 1.5;  // over the fewest of all tile sizes
  if (is_small(p)) return large ? std::vector{6} : std::vector{2, 4};
  std::vector<int> tiles = large ? std::vector{4, 5, 6} : std::vector{2, 3, 4};
  // Products per output and channel, with the filter cut into parts.
  const auto products = [&](int tile) {
    const int taps = winograd_taps(p, large, tile), across = tile + taps - 1;
    const std::int64_t parts = ceil_div(p.filter(p.spatial() - 1), taps) * ceil_div(p.filter(p.spatial() - 2), taps);
    return static_cast<double>(parts * across * across) / (tile * tile);
  };
  double least = products(tiles[0]);
  for (const int tile : tiles) least = std::min(least, products(tile));
  std::erase_if(tiles, [&](int tile) { return products(tile) > kMostProducts * least; });
  return tiles;
}

int winograd_taps(const Problem& p, bool large, int tile) { return is_small(p) ? 3 : (large ? 9 : 7) - tile; }

WinogradCycles winograd_cycles(int tile, int taps) {
  const int across = tile + taps - 1;
  const WinogradCycles of_3x3 = across == 4   ? WinogradCycles{130, 115, 60, 130}
                                : across == 6 ? WinogradCycles{380, 215, 230, 380}
                                              : WinogradCycles{750, 360, 570, 750};
  const auto operations = [across](int n) { return across * across + (across + n) * n; };
  const auto scale = [&](double cycles, int n, int measured) { return cycles * operations(n) / operations(measured); };
  return {of_3x3.input, scale(of_3x3.filter, taps, 3), scale(of_3x3.output, tile, across - 2),
          scale(of_3x3.gradient, tile, across - 2)};
}

std::unique_ptr<const SolverBase> cpu_winograd(const SolverInfo& info, Direction d) {
  return std::make_unique<CpuWinograd>(info, d, false);
}

std::unique_ptr<const SolverBase> cpu_winograd_large(const SolverInfo& info, Direction d) {
  return std::make_unique<CpuWinograd>(info, d, true);
}

}  // namespace polymio::convolution
