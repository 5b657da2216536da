// PoolGpuScatterBwd: the gradient of maxima with indices, in tiles of dx in local memory to which the windows are
// added. The fastest where windows overlap: each is read about once, not by every element that it covers.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>

#include "base/math.h"
#include "core/kernel_builder.h"
#include "kernels/gpu/portable/pool_scatter_shape.h"
#include "kernels/gpu/portable/window_shape.h"
#include "primitives/pooling/solvers.h"

namespace polymio::pooling {
namespace {

using kernels::kScatterElements;
using kernels::kScatterThreads;
using kernels::kScatterUnit;
using kernels::make_divider;
using kernels::ScatterOrder;
using kernels::ScatterShape;
using kernels::WindowAt;

constexpr std::int64_t kMostClasses = 64, kMostPositions = std::int64_t{1} << 30, kTileChannels = 32;

/// Formula of scatter.cl.
template <class Real>
struct Formula {
  Real scale, keep;
};

int number(std::int64_t v) { return static_cast<int>(v); }

/// Windows at this distance do not overlap.
std::int64_t classes_of(const kernels::WindowDim& d) { return std::min(ceil_div(d.length, d.stride), d.windows); }

/// Windows that may meet `elements` neighbours.
std::int64_t windows_over(const kernels::WindowDim& d, std::int64_t elements) {
  return std::min((elements + d.length - 2) / d.stride + 1, d.windows);
}

/// Of the tiles of dx that a launch needs.
struct Tiling {
  std::array<std::int64_t, kMostSpatial> box{1, 1, 1};
  std::int64_t channels = 1, count = 0;
};

/// The tiles of at most `most` elements that take the fewest accesses.
Tiling tiling_of(const Geometry& g, std::int64_t channels, bool along_channels, std::int64_t most) {
  constexpr std::int64_t kWindowCost = 3;  // beside an element's; threads without a window wait for the others
  const auto& [d, h, w] = g.dims;
  Tiling best;
  double least = std::numeric_limits<double>::infinity();
  const std::int64_t together = along_channels ? std::min({channels, kTileChannels, most}) : 1;
  const std::int64_t room = most / together;
  const std::int64_t widest = std::min(w.size, room);
  for (std::int64_t q = along_channels ? 1 : widest; q <= widest; ++q)
    for (std::int64_t r = 1; r <= std::min(h.size, room / q); ++r) {
      Tiling t;
      t.box = {std::min(d.size, room / (q * r)), r, q};
      const bool whole = t.box == std::array{d.size, h.size, w.size};
      t.channels = along_channels || !whole ? together : std::min(channels, room / (q * r * t.box[0]));
      t.count = ceil_div(channels, t.channels);
      std::int64_t classes = 1, of_class = t.channels, elements = t.channels;
      for (std::size_t k = 0; k < kMostSpatial; ++k) {
        t.count *= ceil_div(g.dims[k].size, t.box[k]);
        classes *= classes_of(g.dims[k]);
        of_class *= ceil_div(windows_over(g.dims[k], t.box[k]), classes_of(g.dims[k]));
        elements *= t.box[k];
      }
      const std::int64_t windows = classes * round_up(of_class, std::int64_t{kScatterThreads});
      const double cost = static_cast<double>(t.count) * static_cast<double>(elements + kWindowCost * windows);
      if (cost < least) {
        least = cost;
        best = t;
      }
    }
  return best;
}

class GpuScatter final : public GpuSolver<Problem> {
 public:
  GpuScatter(const SolverInfo& info, Direction d) : GpuSolver(info), direction_(d) {}

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    POLYMIO_REQUIRE(d.kind != DeviceKind::kCpu, "does not run on this kind of device");
    POLYMIO_REQUIRE(p.direction == direction_, "computes another direction");
    POLYMIO_REQUIRE(p.mode == Mode::kMax && p.index != Index::kNone, "needs the indices of maxima");
    POLYMIO_REQUIRE(d.gpu.fp64 || p.x.type != DataType::kDouble, "the device has no double-precision arithmetic");
    const Geometry g(p);
    std::int64_t classes = 1, volume = 1, plane = 1;
    for (const kernels::WindowDim& dim : g.dims) {
      const std::int64_t most = kMostPositions / 4;
      POLYMIO_REQUIRE_MOST(std::max({dim.length, dim.pad, dim.stride, dim.size, dim.windows}), most,
                           "counts along a dimension in 28 bits");
      POLYMIO_REQUIRE_MOST(dim.windows, kMostPositions / dim.stride, "counts positions in 30 bits");
      classes = std::min(classes * classes_of(dim), kMostClasses + 1);
      volume = std::min(volume, kMostPositions) * dim.length;
      plane = std::min(plane, kMostPositions) * dim.size;
    }
    POLYMIO_REQUIRE_MOST(classes, kMostClasses, "windows overlap too many others");
    POLYMIO_REQUIRE_MOST(std::max(volume, plane), kMostPositions, "counts positions in 30 bits");
    const Tiling t = tiling(p, g, kScatterElements / 4);
    POLYMIO_REQUIRE_MOST(t.count, kMostPositions / p.x.lens[0], "too many tiles");
    return {};
  }

  TuneSpace tune_space(const DeviceInfo&, const Problem&) const override {
    return {{"elements", {kScatterElements / 4, kScatterElements / 2, kScatterElements}}};
  }
  // Large tiles read fewer windows twice; the device needs a few tiles for each multiprocessor.
  TunePoint default_point(const DeviceInfo& d, const Problem& p) const override {
    const Geometry g(p);
    for (const int elements : {int{kScatterElements}, kScatterElements / 2})
      if (tiling(p, g, elements).count * p.x.lens[0] >= 4 * std::int64_t{std::max(d.units, 1)}) return {elements};
    return {kScatterElements / 4};
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint&) const override {
    // Beside PoolGpuWindowBwd, where each window is read by the elements that it covers; vectors of channels share
    // that.
    constexpr double kLaunchUs = 4.5, kRows = 1.6, kChannels = 2.6;
    const double times = is_along_channels(Geometry(p), p) ? kChannels : kRows;
    return kLaunchUs + times * p.work() / std::max(d.bandwidth_gbs, 1.0) * 1e-3;
  }

  std::vector<KernelSpec> kernel_specs(const DeviceInfo& d, const Problem& p, const TunePoint&) const override {
    std::vector<std::string> options = {fmt::format("-DIN={}", name_of(p.x.type)),
                                        fmt::format("-DOUT={}", name_of(p.x.type)),
                                        fmt::format("-DNUM={}", p.x.type == DataType::kDouble ? "double" : "float"),
                                        fmt::format("-DBYTES={}", size_of(p.index)),
                                        fmt::format("-DCHANNELS={}", is_along_channels(Geometry(p), p) ? 1 : 0)};
    if (d.gpu.fp64) options.emplace_back("-DFP64");
    return {{"primitives/pooling/gpu/scatter.cl", "scatter", options}};
  }

  Invoker assemble(const DeviceInfo&, const Problem& p, const TunePoint& point, const Kernels& built) const override {
    const Geometry g(p);
    const bool along_channels = is_along_channels(g, p);
    const Tiling t = tiling(p, g, point[0]);
    ScatterShape shape{};
    ScatterOrder order{};
    kernels::WindowAxes axes{};
    std::array<std::int64_t, 4> windows{}, elements{};  // W, H, D, channels
    const std::int64_t channels = p.x.lens[1];
    for (std::size_t k = 0; k < kMostSpatial; ++k) {
      const kernels::WindowDim& d = g.dims[k];
      axes.axis[k] = {number(d.size), number(d.windows), number(d.length), number(d.pad), make_divider(d.stride)};
      shape.box[k] = number(t.box[k]);
      shape.classes[k] = number(classes_of(d));
      shape.tiles[2 - k] = make_divider(ceil_div(d.size, t.box[k]));
      windows[2 - k] = ceil_div(windows_over(d, t.box[k]), classes_of(d));
      elements[2 - k] = t.box[k];
    }
    shape.tiles[3] = make_divider(ceil_div(channels, t.channels));
    shape.channels = number(t.channels);
    shape.all_channels = number(channels);
    shape.rounds = number(ceil_div(windows[0] * windows[1] * windows[2] * t.channels, std::int64_t{kScatterThreads}));
    windows[3] = elements[3] = t.channels;
    if (along_channels) {
      std::rotate(windows.begin(), windows.end() - 1, windows.end());
      std::rotate(elements.begin(), elements.end() - 1, elements.end());
    }
    const std::int64_t steps[] = {g.out.image,   along_channels ? g.out.dims[2] : g.out.channel,
                                  g.out.dims[0], g.out.dims[1],
                                  elements[0],   along_channels ? channels : g.dims[2].size};
    const bool in_units = (along_channels ? g.out.channel : g.out.dims[2]) == 1 &&
                          std::ranges::all_of(steps, [](std::int64_t s) { return s % kScatterUnit == 0; });
    order.image = p.position == Position::kImage;
    for (std::size_t k = 0; k < 2; ++k) {
      const kernels::WindowDim& d = g.dims[2 - k];
      order.position[k] = make_divider(order.image ? d.size : d.length);
    }
    for (std::size_t k = 0; k < 3; ++k) order.windows[k] = make_divider(windows[k]);
    const auto at = [](const kernels::WindowStrides& s) {
      return WindowAt{0, s.image, s.channel, {s.dims[0], s.dims[1], s.dims[2]}};
    };
    const std::size_t size = polymio::size_of(p.x.type);
    return [=, is_double = p.x.type == DataType::kDouble, kernel = built[0], blocks = t.count * p.x.lens[0],
            dy = at(g.in), dx = at(g.out), index = at(g.index)](Stream& stream, const Args& a) {
      ScatterOrder now = order;
      const std::size_t bytes = std::min<std::size_t>(kScatterUnit * size, 16);
      now.unit = in_units && reinterpret_cast<std::uintptr_t>(a.result) % bytes == 0 ? kScatterUnit : 1;
      for (std::size_t k = 0; k < 3; ++k) now.elements[k] = make_divider(elements[k] / (k == 0 ? now.unit : 1));
      const auto run = [&]<class Real>(Real) {
        launch(stream, *kernel, launch_shape(kScatterThreads, blocks), shape, now, axes, Buffer(a.dy), dy,
               Buffer(a.result), dx, Buffer(a.index), index,
               Formula<Real>{static_cast<Real>(a.scale), static_cast<Real>(a.keep)});
      };
      is_double ? run(double{}) : run(float{});
    };
  }

 private:
  /// Whether neighbouring threads take neighbouring channels.
  static bool is_along_channels(const Geometry& g, const Problem& p) {
    return p.x.lens[1] > 1 && g.out.channel == 1 && g.out.dims[2] != 1;
  }
  static Tiling tiling(const Problem& p, const Geometry& g, std::int64_t most) {
    return tiling_of(g, p.x.lens[1], is_along_channels(g, p), most);
  }

  Direction direction_;
};

}  // namespace

std::unique_ptr<const SolverBase> gpu_scatter(const SolverInfo& info, Direction d) {
  return std::make_unique<GpuScatter>(info, d);
}

}  // namespace polymio::pooling
