// LrnGpuWindow: any strides. A thread computes some elements along the slowest dimension of the window, or vectors of
// them along a dense dimension that is not the window's; short windows are summed incrementally. Tuning knob: elements
// per thread.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>

#include "core/kernel_builder.h"
#include "primitives/common/gpu/arguments.h"
#include "primitives/common/gpu/skeletons.h"
#include "primitives/lrn/lrn.h"

namespace polymio::lrn {
namespace {

using kernels::Divider;
using kernels::Nest;
using kernels::Sides;

constexpr std::int64_t kThreads = 256;  // as in lrn.cl
constexpr std::uint32_t kLongestRing = 16;
constexpr int kRingRegisters = 64;
constexpr const char* kEntries[] = {"lrn_elements", "lrn_vectors"};
constexpr std::size_t kMostAxes = 3;

/// Structs of lrn.cl.
template <class Real>
struct Formula {
  Real k, factor, ratio, beta;
  int n, exponent, chunk;
};
struct Axes {
  Divider below[kMostAxes], size[kMostAxes];
  int extent[kMostAxes];
};
struct Steps {
  std::int64_t x[kMostAxes], dy[kMostAxes], y[kMostAxes], result;
};

/// The elements by the result's strides, slowest first; dimensions of the window are not merged with others.
struct Order {
  Nest nest{};
  std::array<int, kMostAxes> axes{};  // dimensions of the nest
  std::size_t count = 0;
};

Order order_of(const Problem& p) {
  const Loop all = loop_of(p);
  struct Item {
    Loop::Dim dim;
    bool windowed;
  };
  std::vector<Item> items;
  for (std::size_t d = 0; d < all.rank; ++d)
    if (all.dims[d].size > 1) items.push_back({all.dims[d], p.windowed(d)});
  std::stable_sort(items.begin(), items.end(),
                   [](const Item& a, const Item& b) { return a.dim.strides[0] > b.dim.strides[0]; });
  const bool plane = std::any_of(items.begin(), items.end(), [](const Item& i) { return i.windowed; });
  if (!plane) items.insert(items.begin(), {Loop::Dim{}, true});
  Loop sorted;
  sorted.operands = all.operands;
  Order order;
  bool merges = false;
  for (const Item& item : items) {
    Loop pair;
    pair.operands = all.operands;
    if (merges && !item.windowed) pair.push(sorted.dims[--sorted.rank]);
    pair.push(item.dim);
    if (!item.windowed) pair.merge();
    if (item.windowed) order.axes[order.count++] = static_cast<int>(sorted.rank);
    for (std::size_t d = 0; d < pair.rank; ++d) sorted.push(pair.dims[d]);
    merges = !item.windowed;
  }
  const std::size_t y = all.operands - 1;
  order.nest = p.forward()     ? p.has_scale() ? gpu_skeletons::nest_of(sorted, 1, {2, 0, 1})
                                               : gpu_skeletons::nest_of(sorted, 1, {1, 0})
                   : p.has_scale() ? gpu_skeletons::nest_of(sorted, 4, {1, 2, y, 3, 0})
                               : gpu_skeletons::nest_of(sorted, 3, {1, 2, y, 0});
  return order;
}

bool has_ring(const Problem& p, const Order& order) {
  return p.window.n <= kLongestRing && order.axes[0] + 1 < order.nest.rank;
}

std::vector<KernelSpec> specs_of(const DeviceInfo& device, const Problem& p, std::size_t axes, bool ring) {
  const char* const type = polymio::name_of(p.x.type);
  std::vector<std::string> options = {fmt::format("-DIN={}", type),
                                      fmt::format("-DOUT={}", type),
                                      fmt::format("-DNUM={}", p.x.type == DataType::kDouble ? "double" : "float"),
                                      fmt::format("-DBACKWARD={}", p.forward() ? 0 : 1),
                                      fmt::format("-DSCALE={}", static_cast<int>(p.scale)),
                                      fmt::format("-DAXES={}", axes),
                                      fmt::format("-DRING={}", ring ? p.window.n : 0)};
  if (device.gpu.fp64) options.emplace_back("-DFP64");
  std::vector<KernelSpec> specs;
  for (const char* entry : kEntries) specs.push_back({"primitives/lrn/gpu/lrn.cl", entry, options});
  return specs;
}

class GpuWindow final : public GpuSolver<Problem> {
 public:
  GpuWindow(const SolverInfo& info, Direction d) : GpuSolver(info), direction_(d) {}

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    POLYMIO_REQUIRE(d.kind != DeviceKind::kCpu, "does not run on this kind of device");
    POLYMIO_REQUIRE(p.direction == direction_, "computes another direction");
    POLYMIO_REQUIRE(d.gpu.fp64 || p.x.type != DataType::kDouble, "the device has no double-precision arithmetic");
    // Launches are cut along the slowest dimension, which must then not be the window's.
    const Order order = order_of(p);
    const std::int64_t cut = order.axes[0] == 0 ? 1 : order.nest.dim(0).size;
    POLYMIO_REQUIRE_MOST(p.count() / cut, kernels::kMaxPartUnits, "planes of the window are too large");
    return {};
  }

  TuneSpace tune_space(const DeviceInfo&, const Problem&) const override { return {{"chunk", {1, 8, 32}}}; }
  bool is_valid(const DeviceInfo&, const Problem& p, const TunePoint& t) const override {
    return t[0] == 1 || has_ring(p, order_of(p));
  }
  TunePoint default_point(const DeviceInfo& d, const Problem& p) const override {
    const Order order = order_of(p);
    if (!has_ring(p, order)) return {1};
    // Long runs read less twice; short ones make enough threads.
    const double threads = static_cast<double>(p.count()) / (2048.0 * std::max(d.units, 1));
    return {threads >= 4 * 32 ? 32 : threads >= 8 ? 8 : 1};
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint&) const override {
    constexpr double kLaunchUs = 3;
    return kLaunchUs + p.work() / std::max(d.bandwidth_gbs, 1.0) * 1e-3;
  }

  std::vector<KernelSpec> kernel_specs(const DeviceInfo& d, const Problem& p, const TunePoint& t) const override {
    const Order order = order_of(p);
    return specs_of(d, p, order.count, t[0] > 1 && has_ring(p, order));
  }

  Invoker assemble(const DeviceInfo&, const Problem& p, const TunePoint& t, const Kernels& built) const override {
    const Order order = order_of(p);
    const bool ring = t[0] > 1 && has_ring(p, order);
    return [p, order, ring, chunk = t[0], built](Stream& stream, const Args& a) {
      const std::size_t size = size_of(p.x.type);
      Sides sides = p.forward()     ? Sides{{{a.x, size}, {a.result, size}, {a.scale, size}}}
                    : p.has_scale() ? Sides{{{a.x, size}, {a.dy, size}, {a.y, size}, {a.scale, size}, {a.result, size}}}
                                    : Sides{{{a.x, size}, {a.dy, size}, {a.y, size}, {a.result, size}}};
      const int vector = kernels::vector_of(size, size);
      const bool inner_is_free = order.axes[order.count - 1] + 1 < order.nest.rank;
      const bool vectors = inner_is_free && order.nest.inner().size % vector == 0 &&
                           (!ring || static_cast<int>(p.window.n) * vector <= kRingRegisters) &&
                           takes_vectors(order.nest, sides, vector);
      if (p.x.type == DataType::kDouble)
        return launch<double>(stream, p, order, chunk, *built[vectors], sides, vectors ? vector : 1, a);
      launch<float>(stream, p, order, chunk, *built[vectors], sides, vectors ? vector : 1, a);
    };
  }

 private:
  template <class Real>
  static void launch(Stream& stream, const Problem& p, const Order& order, int chunk, const Kernel& kernel,
                     const Sides& sides, int vector, const Args& args) {
    Axes axes{};
    Steps steps{};
    Nest nest = order.nest;
    const auto stride = [&](std::size_t operand, std::size_t axis) {
      return order.nest.dim(order.axes[axis]).strides[operand];
    };
    for (std::size_t j = 0; j < order.count; ++j) {
      axes.extent[j] = static_cast<int>(order.nest.dim(order.axes[j]).size);
      steps.x[j] = stride(0, j);
      if (p.forward()) continue;
      steps.dy[j] = stride(1, j);
      steps.y[j] = stride(2, j);
    }
    steps.result = stride(static_cast<std::size_t>(nest.inputs), 0);
    nest.group(vector);
    Nest::Dim& first = nest.dim(order.axes[0]);
    first.size = ceil_div(first.size, chunk);
    for (auto& s : first.strides) s *= chunk;
    for (std::size_t j = 0; j < order.count; ++j) {
      std::int64_t below = 1;
      for (int d = order.axes[j] + 1; d < nest.rank; ++d) below *= nest.dim(d).size;
      axes.below[j] = kernels::make_divider(below);
      axes.size[j] = kernels::make_divider(nest.dim(order.axes[j]).size);
    }
    const Factors factors = factors_of(p, args.parameters);
    const double beta = args.parameters.beta;
    const auto real = [](double v) { return static_cast<Real>(v); };
    const Formula<Real> formula{real(args.parameters.k),
                                real(factors.factor),
                                real(factors.ratio),
                                real(beta),
                                static_cast<int>(p.window.n),
                                beta == 0.75  ? 0
                                : beta == 0.5 ? 1
                                : beta == 1   ? 2
                                              : 3,
                                chunk};
    const Argument added[] = {gpu_skeletons::value_argument(formula), gpu_skeletons::value_argument(axes),
                              gpu_skeletons::value_argument(steps)};
    each_part(nest, [&](const Nest& part) {
      const gpu_skeletons::Arguments arguments(part, sides, added);
      stream.launch(kernel, launch_shape(kThreads, ceil_div(arguments.units(), kThreads)), arguments.list());
    });
  }

  Direction direction_;
};

}  // namespace

std::unique_ptr<const SolverBase> gpu_window(const SolverInfo& info, Direction d) {
  return std::make_unique<GpuWindow>(info, d);
}

std::vector<KernelSpec> programs(const DeviceInfo& device, DataType type) {
  std::vector<KernelSpec> all;
  Problem p;
  p.x.type = type;
  for (const Direction direction : {Direction::kForward, Direction::kBackward})
    for (const Scale scale : {Scale::kNone, Scale::kBuffer})
      for (const std::size_t axes : {1, 2, 3}) {
        p.direction = direction;
        p.scale = scale;
        std::ranges::move(specs_of(device, p, axes, axes < 3), std::back_inserter(all));
      }
  return all;
}

}  // namespace polymio::lrn
