// PoolGpuWindow: a thread for each result, or for vectors of channels where they are contiguous.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>

#include "core/kernel_builder.h"
#include "kernels/gpu/nest.h"
#include "primitives/common/gpu/skeletons.h"
#include "primitives/common/gpu/window.h"
#include "primitives/pooling/solvers.h"

namespace polymio::pooling {
namespace {

using gpu_skeletons::kMaxWindowPlane;
using gpu_skeletons::kWindowEntries;
using gpu_skeletons::WindowOperand;
using gpu_skeletons::WindowResults;

/// Formula of pooling.cl.
template <class Real>
struct Formula {
  Real scale, keep, least;
  int inclusive, index_bytes, image;
};

/// In the order of kWindowEntries.
std::vector<KernelSpec> kernels_of(const DeviceInfo& device, DataType type, Mode mode, Direction direction) {
  std::vector<std::string> options = {fmt::format("-DIN={}", name_of(type)), fmt::format("-DOUT={}", name_of(type)),
                                      fmt::format("-DNUM={}", type == DataType::kDouble ? "double" : "float"),
                                      fmt::format("-DPASS={}", static_cast<int>(direction)),
                                      fmt::format("-DMAXIMUM={}", mode == Mode::kMax ? 1 : 0)};
  if (device.gpu.fp64) options.emplace_back("-DFP64");
  std::vector<KernelSpec> specs;
  for (const char* entry : kWindowEntries) specs.push_back({"primitives/pooling/gpu/pooling.cl", entry, options});
  if (direction == Direction::kBackward) specs.pop_back();  // lanes
  return specs;
}

WindowOperand operand_of(const kernels::WindowStrides& s, std::size_t size) {
  return {nullptr, {0, s.image, s.channel, {s.dims[0], s.dims[1], s.dims[2]}}, size};
}

class GpuWindow final : public GpuSolver<Problem> {
 public:
  GpuWindow(const SolverInfo& info, Direction d) : GpuSolver(info), direction_(d) {}

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    POLYMIO_REQUIRE(d.kind != DeviceKind::kCpu, "does not run on this kind of device");
    POLYMIO_REQUIRE(p.direction == direction_, "computes another direction");
    POLYMIO_REQUIRE(d.gpu.fp64 || p.x.type != DataType::kDouble, "the device has no double-precision arithmetic");
    double volume = 1;
    bool fits = true;
    for (const kernels::WindowDim& dim : Geometry(p).dims) {
      volume *= static_cast<double>(dim.length);
      // Windows begin and end within 31 bits.
      fits = fits && (static_cast<double>(dim.windows) + 1) * static_cast<double>(dim.stride) +
                             static_cast<double>(dim.length + dim.pad + dim.size) <
                         0x1p31;
    }
    const std::int64_t planes = p.x.lens[0] * p.x.lens[1];
    fits = fits && volume < 0x1p31 && std::max(p.x.count(), p.y.count()) / planes <= kMaxWindowPlane;
    POLYMIO_REQUIRE(fits, "counts elements of windows and of channels of an image in 30 bits");
    return {};
  }

  TuneSpace tune_space(const DeviceInfo&, const Problem& p) const override {
    if (!p.forward()) return {};
    return {{"run", {kernels::kWindowRun, 1}}};
  }
  // Windows of several planes: neighbouring threads that have neighbouring windows access fewer cache lines at a time,
  // which 16-bit elements need less.
  TunePoint default_point(const DeviceInfo&, const Problem& p) const override {
    if (!p.forward()) return {};
    const bool single = Geometry(p).dims[0].length > 1 && polymio::size_of(p.x.type) >= 4;
    return {single ? 1 : kernels::kWindowRun};
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint&) const override {
    constexpr double kLaunchUs = 3;
    double reads = 1;  // of a window by the elements that gather it
    if (!p.forward())
      for (const kernels::WindowDim& k : Geometry(p).dims)
        reads *= std::max(1.0, static_cast<double>(k.length) / static_cast<double>(k.stride));
    return kLaunchUs + reads * p.work() / std::max(d.bandwidth_gbs, 1.0) * 1e-3;
  }

  std::vector<KernelSpec> kernel_specs(const DeviceInfo& d, const Problem& p, const TunePoint&) const override {
    return kernels_of(d, p.x.type, p.mode, p.direction);
  }

  Invoker assemble(const DeviceInfo&, const Problem& p, const TunePoint& t, const Kernels& built) const override {
    const std::size_t size = polymio::size_of(p.x.type);
    WindowResults results{p.x.lens[0], p.x.lens[1], {}, !p.forward(), kernels::vector_of(size, size)};
    const Geometry g(p);
    std::ranges::transform(g.dims, results.axes.axis, [](const kernels::WindowDim& k) {
      const auto number = [](std::int64_t v) { return static_cast<int>(v); };
      return kernels::WindowAxis{number(k.size), number(k.windows), number(k.length), number(k.pad),
                                 kernels::make_divider(k.stride)};
    });
    std::vector<WindowOperand> operands = {operand_of(g.in, size), operand_of(g.out, size),
                                           operand_of(g.index, size_of(p.index))};
    operands[1].is_result = true;
    operands[2].is_result = p.forward();
    operands[2].is_accessed_singly = p.forward();
    if (!p.forward()) {
      operands.push_back(operand_of(g.x, size));
      operands[3].is_accessed_singly = true;
    }
    const bool single = p.forward() && t[0] == 1;
    return [p, built, results, operands, single](Stream& stream, const Args& a) {
      std::array<WindowOperand, 4> all{};
      std::ranges::copy(operands, all.begin());
      all[0].data = p.forward() ? a.x : a.dy;
      all[1].data = a.result;
      all[2].data = p.index == Index::kNone ? nullptr : a.index;
      all[3].data = p.searches_x() ? a.x : nullptr;
      const std::span used(all.data(), operands.size());
      gpu_skeletons::WindowPlan plan = plan_window(stream.info(), results, used);
      if (single && plan.entry == gpu_skeletons::WindowEntry::kRuns) plan.entry = gpu_skeletons::WindowEntry::kElements;
      const auto launch = [&]<class Real>(Real) {
        const Formula<Real> formula{static_cast<Real>(a.scale),         static_cast<Real>(a.keep),
                                    static_cast<Real>(least(p.x.type)), p.mode == Mode::kAverageInclusive,
                                    static_cast<int>(size_of(p.index)), p.position == Position::kImage};
        launch_window(stream, *built[static_cast<std::size_t>(plan.entry)], plan, results, used,
                      gpu_skeletons::value_argument(formula));
      };
      p.x.type == DataType::kDouble ? launch(double{}) : launch(float{});
    };
  }

 private:
  Direction direction_;
};

}  // namespace

std::unique_ptr<const SolverBase> gpu_window(const SolverInfo& info, Direction d) {
  return std::make_unique<GpuWindow>(info, d);
}

std::vector<KernelSpec> programs(const DeviceInfo& d, DataType type, Mode mode) {
  auto specs = kernels_of(d, type, mode, Direction::kForward);
  if (type != DataType::kInt8)
    std::ranges::move(kernels_of(d, type, mode, Direction::kBackward), std::back_inserter(specs));
  return specs;
}

}  // namespace polymio::pooling
