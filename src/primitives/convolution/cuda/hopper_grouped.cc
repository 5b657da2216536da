// ConvHopperGrouped: ConvHopper, or ConvHopperPacked where x or y is no channels-last tensor, with fewer groups: a tile
// has 64 channels, so that small groups are merged, with zero weights between them. The workspace holds the weights of
// the merged groups, or their gradient.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "base/math.h"
#include "primitives/convolution/cuda/hopper.h"
#include "primitives/convolution/cuda/hopper_packing.h"
#include "primitives/convolution/cuda/hopper_plan.h"
#include "primitives/convolution/cuda/hopper_slices.h"
#include "primitives/convolution/gpu/arguments.h"

namespace polymio::convolution {
namespace {

using gpu::narrow;

constexpr std::int64_t kThreads = 256;    // as in merge_groups.cl
constexpr std::int64_t kAlignment = 256;  // of the merged weights

bool is_weights(const Problem& p) { return p.direction == Direction::kBackwardWeights; }
bool is_packed(const Problem& p) { return !p.x.is_channels_last() || !p.y.is_channels_last(); }

/// The problem with `merged` groups in each of its groups. Its gradient of the weights is of fp32 where a kernel can
/// write that.
Problem merge(const Problem& p, std::int64_t merged) {
  Problem q = p;
  q.geometry.groups /= merged;
  q.w = cuda::channels_last(p.w, p.k(), p.w.lens[1] * merged);
  if (!is_weights(p)) return q;
  if (!is_packed(p)) q.w.type = q.w.cast = DataType::kFloat;
  q.scalars = Scalars::kDefault;
  return q;
}

Verdict serves(const Problem& p) { return is_packed(p) ? cuda::hopper_packing_serves(p) : cuda::hopper_serves(p); }

/// The number of groups to merge for the fewest products; 1 if those of groups alone are the fewest.
std::int64_t merged_groups(const Problem& p) {
  constexpr std::int64_t kMost = 64;
  const std::int64_t channels = p.c() / p.groups(), outputs = p.k() / p.groups();
  // Of a dimension, in tiles. Half a step takes two thirds of the time of a whole one.
  const auto size = [](std::int64_t n) {
    constexpr std::int64_t kTile = 64;
    return static_cast<double>(n / kTile) + (n % kTile == 0 ? 0 : n % kTile <= kTile / 2 ? 0.65 : 1);
  };
  const auto cost = [&](std::int64_t merged) {
    const std::int64_t c = merged * channels, k = merged * outputs;
    const double products = size(c) * std::ceil(size(k)) + std::ceil(size(c)) * size(k);
    return products / static_cast<double>(merged);
  };
  std::int64_t best = 1;
  double least = cost(1);
  for (std::int64_t merged = 2; merged <= std::min(kMost, p.groups()); ++merged) {
    if (p.groups() % merged != 0 || cost(merged) >= least || !serves(merge(p, merged))) continue;
    least = cost(merged);
    best = merged;
  }
  return best;
}

Problem inner_problem(const Problem& p) { return merge(p, merged_groups(p)); }

class HopperGrouped final : public GpuSolver<Problem> {
 public:
  HopperGrouped(const SolverInfo& info, Direction d)
      : GpuSolver(info),
        direction_(d),
        solvers_{cuda::make_hopper(info, d), cuda::make_hopper_packed(info, d, cuda::kMostCopiedBytes)} {}

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    constexpr std::int64_t kFewest = 4;  // channels of a group
    POLYMIO_REQUIRE(p.direction == direction_, "serves another direction");
    if (const Verdict v = cuda::hopper_runs_on(d); !v) return v;
    POLYMIO_REQUIRE(p.groups() > 1, "one group");
    POLYMIO_REQUIRE(std::min(p.c(), p.k()) / p.groups() >= kFewest, "groups of less than 4 channels");
    POLYMIO_REQUIRE(p.w.is_channels_last() || p.w.is_channels_first(), "strided weights");
    POLYMIO_REQUIRE(!is_weights(p) || p.scalars == Scalars::kDefault || merge(p, 1).w.type == DataType::kFloat,
                    "would round gradients twice");
    POLYMIO_REQUIRE(merged_groups(p) > 1, "merged groups have no fewer products, or ConvHopper does not serve them");
    return {};
  }

  ErrorClass error_class(const Problem& p) const override { return solver(p).error_class(inner_problem(p)); }
  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    constexpr double kLaunchUs = 2, kRate = 0.5;  // of the memory's
    const Problem q = inner_problem(p);
    return kLaunchUs + static_cast<double>(p.w.bytes() + q.w.bytes()) / (1e3 * d.bandwidth_gbs * kRate) +
           solver(p).estimate(d, q, point);
  }

  TuneSpace tune_space(const DeviceInfo& d, const Problem& p) const override {
    return solver(p).tune_space(d, inner_problem(p));
  }
  bool is_valid(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    return solver(p).is_valid(d, inner_problem(p), point);
  }
  TunePoint default_point(const DeviceInfo& d, const Problem& p) const override {
    return solver(p).default_point(d, inner_problem(p));
  }

  std::size_t workspace_size(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    const Problem q = inner_problem(p);
    return static_cast<std::size_t>(weight_bytes(q) + kAlignment) + solver(p).workspace_size(d, q, point);
  }

  std::vector<KernelSpec> kernel_specs(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    const Problem q = inner_problem(p);
    KernelSpec spec{"primitives/convolution/cuda/merge_groups.cl", is_weights(p) ? "split_groups" : "merge_groups", {}};
    if (is_weights(p))
      spec.options = {std::string("-DIN=") + name_of(q.w.type), std::string("-DOUT=") + name_of(p.w.type)};
    else
      spec.options = {fmt::format("-DBITS={}", 8 * size_of(p.w.type))};
    std::vector<KernelSpec> specs{spec};
    for (KernelSpec& own : solver(p).kernel_specs(d, q, point)) specs.push_back(std::move(own));
    return specs;
  }

  Invoker assemble(const DeviceInfo& d, const Problem& p, const TunePoint& point, const Kernels& built) const override {
    const std::int64_t merged = merged_groups(p);
    const Problem q = merge(p, merged);
    const Invoker convolve = solver(p).assemble(d, q, point, Kernels(built.begin() + 1, built.end()));
    const std::int64_t taps = cuda::hopper_taps(p), bytes = weight_bytes(q);
    const bool last = p.w.is_channels_last();
    kernels::MergedGroupsShape groups{};
    groups.all_outputs = narrow(p.k());
    groups.outputs = narrow(p.k() / p.groups());
    groups.channels = narrow(p.w.lens[1]);
    groups.taps = narrow(taps);
    groups.merged = narrow(merged);
    groups.channel_step = last ? 1 : groups.taps;
    groups.tap_step = last ? groups.channels : 1;
    const Launch shape = launch_shape(kThreads, ceil_div(is_weights(p) ? p.w.count() : q.w.count(), kThreads));
    return [built, convolve, groups, shape, bytes, weights = is_weights(p)](Stream& stream, const Args& a) {
      char* const w = gpu::align_up(a.workspace, kAlignment);
      const auto copy = [&](Buffer from, Buffer to, const auto&... scalars) {
        launch(stream, *built[0], shape, from, to, groups, scalars...);
      };
      Args in = a;
      in.w = w;
      in.workspace = w + bytes;
      if (weights) {
        in.alpha = 1;
        in.beta = 0;
        convolve(stream, in);
        copy(Buffer(w), Buffer(a.w), static_cast<float>(a.alpha), static_cast<float>(a.beta));
      } else {
        copy(Buffer(a.w), Buffer(w));
        convolve(stream, in);
      }
    };
  }

 private:
  static std::int64_t weight_bytes(const Problem& q) {
    return round_up(static_cast<std::int64_t>(q.w.bytes()), kAlignment);
  }
  const GpuSolver<Problem>& solver(const Problem& p) const { return *solvers_[is_packed(p) ? 1 : 0]; }

  Direction direction_;
  std::array<std::unique_ptr<const GpuSolver<Problem>>, 2> solvers_;  // on the tensors, on copies
};

}  // namespace

std::unique_ptr<const SolverBase> cuda_hopper_grouped(const SolverInfo& info, Direction d) {
  return std::make_unique<HopperGrouped>(info, d);
}

}  // namespace polymio::convolution
