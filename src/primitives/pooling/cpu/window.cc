// PoolCpuWindow: vectors of contiguous channels, else of planes that are transposed, else vectors along rows of any
// stride. Every element is read from and written to memory once; windows that overlap read the caches. Tuning knobs:
// KiB written per task, non-temporal stores, and whether planes are transposed.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "base/math.h"
#include "kernels/cpu/kernels_of.h"
#include "kernels/cpu/pooling.h"
#include "primitives/common/caches.h"
#include "primitives/pooling/solvers.h"

namespace polymio::pooling {
namespace {

using kernels::WindowDim;
using kernels::WindowStrides;

constexpr int kLeastKib = 16, kMostKib = 256;
constexpr std::int64_t kMostStride = 1 << 16;

constexpr std::size_t kMostPlaneScratch = 1 << 20;  // bytes for a band of transposed planes, within the L2 cache

/// Whether the elements of a plane are contiguous.
bool has_dense_planes(const WindowStrides& s, const std::array<std::int64_t, kMostSpatial>& sizes) {
  std::int64_t step = 1;
  for (std::size_t k = kMostSpatial; k-- > 0; step *= sizes[k])
    if (sizes[k] > 1 && s.dims[k] != step) return false;
  return true;
}

std::int64_t planes_of(const Problem& p) { return p.x.lens[0] * p.x.lens[1]; }

/// Whether planes can be transposed, so that vectors hold the same element of each.
bool has_planes(const DeviceInfo& d, const Problem& p) {
  kernels::Pooling job = job_of(p);
  if (job.across_channels || p.searches_x() || planes_of(p) < kernels::kPlanes) return false;
  std::array<std::int64_t, kMostSpatial> in{}, out{};
  double elements = 1;
  for (std::size_t k = 0; k < in.size(); ++k) {
    in[k] = p.forward() ? job.dims[k].size : job.dims[k].windows;
    out[k] = p.forward() ? job.dims[k].windows : job.dims[k].size;
    elements *= static_cast<double>(job.dims[k].size);
  }
  if (elements >= kernels::kMostPositions) return false;
  job.planes = planes_of(p);
  return has_dense_planes(job.in_at, in) && has_dense_planes(job.out_at, out) &&
         (p.index == Index::kNone || has_dense_planes(job.index_at, p.forward() ? out : in)) &&
         kernels::kernels_of<kernels::PoolingKernels>(d.isa).scratch(job, !p.forward()) <= kMostPlaneScratch;
}

/// Whether kernels prefetch an input that the caches do not keep. Prefetches make a Zen 4 1.1 to 2 times as fast where
/// windows of channels overlap, and where rows are long; its hardware prefetches the others.
bool prefetches(const kernels::Pooling& job) {
  constexpr std::int64_t kLongRow = 1024;  // bytes
  const WindowDim &height = job.dims[1], &width = job.dims[2];
  const bool skips = height.stride > height.length || width.stride > width.length;  // elements that no window has
  if (!kernels::fetches_streams() || skips) return false;
  if (job.across_channels) return height.length > height.stride || width.length > width.stride;
  return width.size * static_cast<std::int64_t>(polymio::size_of(job.type)) >= kLongRow;
}

double output_bytes(const Problem& p) {
  return static_cast<double>(p.output().count()) * static_cast<double>(polymio::size_of(p.x.type));
}

class CpuWindow final : public Solver<Problem> {
 public:
  CpuWindow(const SolverInfo& info, Direction d) : Solver(info), direction_(d) {}

  Verdict is_applicable(const DeviceInfo&, const Problem& p) const override {
    POLYMIO_REQUIRE(p.direction == direction_, "computes another direction");
    const WindowDim row = Geometry(p).dims[2];
    POLYMIO_REQUIRE_MOST(row.stride, p.forward() ? kMostStride : Geometry::kMostGatheredStride,
                         "has buffers of the width's stride");
    POLYMIO_REQUIRE(std::max(row.size, row.windows) < kernels::kMostPositions, "has buffers of a row of windows");
    const bool image = p.index != Index::kNone && p.position == Position::kImage;
    double volume = 1, last = 0;  // last: the position of a window's last element, from that of its first
    for (const WindowDim& dim : Dims(p).dims) {
      volume *= static_cast<double>(dim.length);
      last = last * static_cast<double>(image ? dim.size : dim.length) + static_cast<double>(dim.length - 1);
    }
    POLYMIO_REQUIRE(std::max(volume, last) < kernels::kMostPositions, "counts positions in a window in 30 bits");
    return {};
  }

  TuneSpace tune_space(const DeviceInfo&, const Problem&) const override {
    return {{"kib", {kLeastKib, 64, kMostKib}}, {"non_temporal", {0, 1}}, {"planes", {0, 1}}};
  }
  bool is_valid(const DeviceInfo& d, const Problem& p, const TunePoint& t) const override {
    const bool part = t[0] == kLeastKib || t[0] * 1024.0 < output_bytes(p);
    return part && (t[1] == 0 || p.work() > static_cast<double>(d.cache_bytes[1])) && (t[2] == 0 || has_planes(d, p));
  }
  TunePoint default_point(const DeviceInfo& d, const Problem& p) const override {
    // Lines of more windows fill the vectors of a row, and gradients of more are scattered faster.
    constexpr std::int64_t kForwardLine = 64, kBackwardLine = 8;
    const bool short_line = Geometry(p).dims[2].windows <= (p.forward() ? kForwardLine : kBackwardLine);
    // Four tasks per thread balance threads of unequal speed.
    const double share = output_bytes(p) / (4.0 * d.threads * 1024);
    return {share >= 64 ? 64 : kLeastKib, common::exceeds_caches(d, p.work()) ? 1 : 0,
            short_line && has_planes(d, p) ? 1 : 0};
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& t) const override {
    const double written = output_bytes(p), read = p.work() - written;
    const bool non_temporal = t[1] != 0, large = common::exceeds_caches(d, p.work());
    // A plain store reads the line first. Assumes caches four times as fast as memory.
    const double traffic = read + (non_temporal || !large ? written : 2 * written);
    const double gbs = std::max(d.bandwidth_gbs, 1.0) * (large || non_temporal ? 1 : 4);
    const double tasks = std::ceil(written / (t[0] * 1024.0)), rounds = std::ceil(tasks / d.threads);
    // Loads from the caches: one for each element of a window, in vectors.
    const double loads = static_cast<double>(p.y.count()) * static_cast<double>(p.window.volume());
    double arithmetic = 8 * loads / (std::max(d.fp32_gflops, 1.0) * 1e3);
    if (t[2] != 0) {
      // Elements are transposed, and the windows of planes computed in whole vectors.
      const double ns_per_load = p.forward() ? 0.02 : 0.05, ns_per_element = p.forward() ? 0.3 : 0.55;
      const double elements = static_cast<double>(p.x.count()) + static_cast<double>(p.y.count());
      arithmetic = (ns_per_load * loads + ns_per_element * elements) / d.threads * 1e-3;
    } else if (!p.forward() && p.mode == Mode::kMax && !job_of(p).across_channels) {
      // Rows of gathered maxima are shifted and compared, window by window.
      constexpr double kNsPerLoad = 0.08, kNsPerRow = 15;
      const double row = static_cast<double>(p.dx.lens[static_cast<std::size_t>(p.dx.rank) - 1]);
      const double rows = static_cast<double>(p.dx.count()) / row;
      arithmetic = (kNsPerLoad * loads + kNsPerRow * rows) / d.threads * 1e-3;
    }
    // As PoolCpuScatter's, so that they compare with any bandwidth.
    const bool adds = !p.forward() && p.mode == Mode::kMax;
    const double moved = traffic / gbs * 1e-3, us = adds ? moved + arithmetic : std::max(moved, arithmetic);
    return rounds * d.threads / tasks * us + (tasks > 1 ? 2 + 0.2 * rounds : 0.1);
  }

  Invoker build(Stream& stream, const Problem& p, const TunePoint& t) const override {
    const auto& kernels = kernels::kernels_of<kernels::PoolingKernels>(stream.info().isa);
    kernels::Pooling job = job_of(p);
    job.non_temporal = t[1] != 0;
    job.prefetches = p.forward() && prefetches(job) && common::exceeds_caches(stream.info(), p.work());
    job.planes = t[2] != 0 ? planes_of(p) : 0;
    std::int64_t lines = ceil_div(job.planes, kernels::kPlanes);
    if (lines == 0) {
      lines = p.x.lens[0] * (job.across_channels ? 1 : job.channels);
      for (int k = 0; k < 2; ++k) lines *= p.forward() ? job.dims[k].windows : job.dims[k].size;
    }
    const double line_bytes = output_bytes(p) / static_cast<double>(lines);
    const std::int64_t part = std::clamp<std::int64_t>(static_cast<std::int64_t>(t[0] * 1024.0 / line_bytes), 1, lines);
    const std::size_t scratch = kernels.scratch(job, !p.forward());
    stream.reserve_scratch(scratch);
    return [p, &kernels, job, lines, part, scratch](Stream& on, const Args& args) {
      kernels::Pooling call = job;
      call.in = p.forward() ? args.x : args.dy;
      call.x = args.x;
      call.out = args.result;
      call.index = args.index;
      call.scale = args.scale;
      call.keep = args.keep;
      on.parallel_for(static_cast<std::size_t>(ceil_div(lines, part)), scratch, [&](std::size_t i, void* memory) {
        const std::int64_t first = static_cast<std::int64_t>(i) * part;
        (p.forward() ? kernels.forward : kernels.backward)(call, first, std::min(first + part, lines), memory);
      });
    };
  }

 private:
  Direction direction_;
};

}  // namespace

kernels::Pooling job_of(const Problem& p) {
  const Geometry g(p);
  kernels::Pooling job;
  job.type = p.x.type;
  job.maximum = p.mode == Mode::kMax;
  job.inclusive = p.mode == Mode::kAverageInclusive;
  std::ranges::copy(g.dims, job.dims);
  job.channels = p.x.lens[1];
  job.in_at = g.in;
  job.out_at = g.out;
  job.x_at = g.x;
  job.index_at = g.index;
  job.index_bytes = static_cast<int>(size_of(p.index));
  job.image_index = p.position == Position::kImage;
  job.across_channels = job.channels > 1 && g.in.channel == 1 && g.out.channel == 1 &&
                        (!p.searches_x() || g.x.channel == 1) && (p.index == Index::kNone || g.index.channel == 1);
  return job;
}

std::unique_ptr<const SolverBase> cpu_window(const SolverInfo& info, Direction d) {
  return std::make_unique<CpuWindow>(info, d);
}

}  // namespace polymio::pooling
