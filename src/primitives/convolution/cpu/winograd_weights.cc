// ConvCpuWinogradWrw: backward weights of stride 1 by Winograd's minimal filtering F(r x r, m x m), with tiles of dy as
// filters. Wins with 32 or more channels.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <memory>

#include "base/math.h"
#include "kernels/cpu/kernels_of.h"
#include "kernels/cpu/winograd.h"
#include "primitives/convolution/cpu/cost.h"
#include "primitives/convolution/cpu/problem_shape.h"
#include "primitives/convolution/cpu/winograd.h"
#include "primitives/convolution/convolution.h"

namespace polymio::convolution {
namespace {

using kernels::WinogradWeights;

constexpr std::int64_t kAlign = kernels::kScratchAlignment;
constexpr std::int64_t kFewestProducts = 64;  // per sum: with fewer, rounding errors do not average out
constexpr std::int64_t kFewestPieces = 16;
constexpr int kTiles[] = {0, 14, 28, 56};  // per block; 0: as many as fit the cache

const kernels::WinogradWeightsKernels& kernels_of(const DeviceInfo& d) {
  return kernels::kernels_of<kernels::WinogradWeightsKernels>(d.isa);
}

/// The cut depends on the problem and the caches only, not on threads: it decides the order of summation.
WinogradWeights job_of(const DeviceInfo& d, const Problem& p, bool large, const TunePoint& point) {
  const kernels::WinogradWeightsKernels& kernels = kernels_of(d);
  WinogradWeights job;
  job.tile = point[0];
  job.taps = winograd_taps(p, large, point[0]);
  const kernels::ConvShape& s = job.shape = conv_shape(p);
  job.w_group = s.k * s.w_k;
  const std::int64_t panel = kernels.panel;
  job.c_block = equal_blocks(s.c, kWinogradBlock, panel / 2);
  job.k_block = equal_blocks(s.k, kWinogradBlock, panel);
  const double cache = 0.3 * static_cast<double>(std::max<std::size_t>(d.cache_bytes[1], 512 << 10));
  const double tile_bytes = 4.0 * static_cast<double>(job.points() * (job.c_block + job.k_block));
  const std::int64_t tiles =
      point[1] > 0 ? point[1] : std::clamp<std::int64_t>(static_cast<std::int64_t>(cache / tile_bytes), 8, 64);
  cut_tiles(job, tiles, kernels.scratch);
  job.slices = std::clamp<std::int64_t>(ceil_div(kFewestPieces, job.pieces()), 1, job.tile_blocks());
  return job;
}

class CpuWinogradWeights final : public Solver<Problem> {
 public:
  CpuWinogradWeights(const SolverInfo& info, bool large) : Solver(info), large_(large) {}

  ErrorClass error_class(const Problem&) const override {
    return large_ ? ErrorClass::kApproximate : ErrorClass::kAccurate;
  }

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    if (const Verdict v = check_float_problem(p, Direction::kBackwardWeights); !v) return v;
    if (const Verdict v = check_winograd(p); !v) return v;
    const kernels::ConvShape s = conv_shape(p);
    // Taps that only see padding must be exactly zero; Winograd would give rounding errors of their tile.
    POLYMIO_REQUIRE(s.out[1] > s.pad[1] && s.out[2] > s.pad[2], "some results are of padding only");
    const std::int64_t planes = std::max<std::int64_t>(s.out[0] - s.pad[0], 0);
    POLYMIO_REQUIRE_MOST(kFewestProducts, s.n * planes * (s.out[1] - s.pad[1]) * (s.out[2] - s.pad[2]),
                         "products of a result, at least");
    for (const int tile : winograd_tiles(p, large_)) {
      const WinogradWeights job = job_of(d, p, large_, {tile, 0});
      POLYMIO_REQUIRE_MOST(static_cast<std::int64_t>(kernels_of(d).scratch(job)), kMostWinogradScratch,
                           "bytes of scratch for one block");
    }
    return {};
  }

  TuneSpace tune_space(const DeviceInfo&, const Problem& p) const override {
    return {{"tile", winograd_tiles(p, large_)}, {"tiles", {std::begin(kTiles), std::end(kTiles)}}};
  }

  bool is_valid(const DeviceInfo&, const Problem& p, const TunePoint& point) const override {
    const std::vector<int> tiles = winograd_tiles(p, large_);
    return point.size() == 2 && std::find(tiles.begin(), tiles.end(), point[0]) != tiles.end() &&
           std::find(std::begin(kTiles), std::end(kTiles), point[1]) != std::end(kTiles);
  }

  TunePoint default_point(const DeviceInfo& d, const Problem& p) const override {
    const std::vector<int> tiles = winograd_tiles(p, large_);
    const Machine m(d);
    const auto cycles = [&](int tile) { return cycles_of(m, job_of(d, p, large_, {tile, 0})); };
    return {*std::min_element(tiles.begin(), tiles.end(), [&](int a, int b) { return cycles(a) < cycles(b); }), 0};
  }

  std::size_t workspace_size(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    return kernels_of(d).memory(job_at(d, p, point)) + kAlign;
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    const Machine m(d);
    const WinogradWeights job = job_at(d, p, point);
    const auto memory = static_cast<double>(kernels_of(d).memory(job));
    Work work;
    work.pieces = static_cast<double>(job.pieces());
    work.cycles = cycles_of(m, job);
    work.largest = work.cycles / work.pieces;
    work.bytes = tensor_bytes(p) + 3 * memory;
    return m.loop_us(work, tensor_bytes(p) + memory);
  }

  Invoker build(Stream& stream, const Problem& p, const TunePoint& point) const override {
    const kernels::WinogradWeightsKernels& kernels = kernels_of(stream.info());
    const WinogradWeights job = job_at(stream.info(), p, point);
    const std::size_t scratch = kernels.scratch(job);
    stream.reserve_scratch(scratch);
    const std::int64_t lanes = kernels.panel / 2, vectors = job.shape.groups * ceil_div(job.shape.k, lanes);
    return [=, &kernels](Stream& on, const Args& a) {
      WinogradWeights call = job;
      call.x = a.x;
      call.dy = a.y;
      call.dw = a.w;
      call.alpha = static_cast<float>(a.alpha);
      call.beta = static_cast<float>(a.beta);
      const auto address = reinterpret_cast<std::uintptr_t>(a.workspace);
      call.memory = reinterpret_cast<float*>((address + kAlign - 1) / kAlign * kAlign);
      on.parallel_for(static_cast<std::size_t>(call.pieces()), scratch, [&](std::size_t i, void* memory) {
        const auto piece = static_cast<std::int64_t>(i);
        kernels.run(call, piece, piece + 1, memory);
      });
      on.parallel_for(static_cast<std::size_t>(vectors), 0, [&](std::size_t i, void*) {
        const auto vector = static_cast<std::int64_t>(i);
        kernels.sum(call, vector, vector + 1);
      });
    };
  }

 private:
  WinogradWeights job_at(const DeviceInfo& d, const Problem& p, const TunePoint& point) const {
    return job_of(d, p, large_, point.empty() ? default_point(d, p) : point);
  }

  static double cycles_of(const Machine& m, const WinogradWeights& job) {
    const kernels::ConvShape& s = job.shape;
    const auto real = [](std::int64_t n) { return static_cast<double>(n); };
    const double lanes = m.lanes(DataType::kFloat), tiles = real(job.all_tiles());
    const double x_vectors = std::ceil(real(s.c) / lanes), y_vectors = std::ceil(real(s.k) / lanes);
    const double multiply = real(job.points()) * tiles * x_vectors * lanes * y_vectors / 2;
    const WinogradCycles cost = winograd_cycles(job.tile, job.taps);
    const double transform =
        tiles * (cost.input * x_vectors * real(job.k_blocks()) + cost.gradient * y_vectors * real(job.c_blocks()));
    const double collect = real(job.slices) * x_vectors * lanes * y_vectors * cost.filter;
    return kWinogradStalls * real(s.groups * job.all_parts()) * (multiply + transform + collect);
  }

  bool large_;
};

}  // namespace

std::unique_ptr<const SolverBase> cpu_winograd_weights(const SolverInfo& info, Direction) {
  return std::make_unique<CpuWinogradWeights>(info, false);
}

std::unique_ptr<const SolverBase> cpu_winograd_weights_large(const SolverInfo& info, Direction) {
  return std::make_unique<CpuWinogradWeights>(info, true);
}

}  // namespace polymio::convolution
