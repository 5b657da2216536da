// BnormGpuChannels: one launch, a block for each channel, which keeps its elements in registers. The fastest where a
// channel is contiguous in each image and small. BnormGpuThreads: the same with a thread for each channel, the fastest
// where channels have few elements, as those of a norm per activation.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <numeric>

#include "base/math.h"
#include "core/kernel_builder.h"
#include "kernels/gpu/nest.h"
#include "kernels/gpu/portable/bnorm_channel_shape.h"
#include "primitives/batch_norm/solvers.h"
#include "primitives/common/gpu/skeletons.h"

namespace polymio::batch_norm {
namespace {

using kernels::ChannelShape;

constexpr int kVectorElements = 32, kSingleElements = 16;  // that a thread keeps
constexpr std::int64_t kMostThreads = 512;
constexpr std::int64_t kThreads = 64;  // of a block whose threads have a channel each

/// Formula of channels.cl.
template <class Real>
struct Formula {
  Real epsilon, factor, length, low, high, range, blend, keep, parameter_blend, parameter_keep;
  int given, running, saved, has_bias, has_dscale, has_dbias;
};

bool is_double(const Problem& p) {
  const DataType types[] = {p.x.type, p.scale_type, p.bias_type, p.moment_type};
  return std::ranges::find(types, DataType::kDouble) != std::end(types);
}
bool is_bounded(const Problem& p) {
  return p.activation == activation::Mode::kClippedRelu || p.activation == activation::Mode::kClamp;
}
bool is_gated(const Problem& p) { return !p.forward() && p.activation != activation::Mode::kPassthru; }

/// The kernel for blocks of so many threads, with so many units each; `wide` if these are vectors.
std::vector<KernelSpec> specs_of(const DeviceInfo& d, const Problem& p, std::int64_t threads, int units, bool wide,
                                 bool per_thread) {
  std::vector<std::string> options = {fmt::format("-DIN={}", polymio::name_of(p.x.type)),
                                      fmt::format("-DOUT={}", polymio::name_of(p.out.type)),
                                      fmt::format("-DGRAD={}", polymio::name_of(p.out.type)),
                                      fmt::format("-DNUM={}", is_double(p) ? "double" : "float"),
                                      fmt::format("-DSCALES={}", polymio::name_of(p.scale_type)),
                                      fmt::format("-DBIASES={}", polymio::name_of(p.bias_type)),
                                      fmt::format("-DMOMENTS={}", polymio::name_of(p.moment_type)),
                                      fmt::format("-DBACKWARD={}", p.forward() ? 0 : 1),
                                      fmt::format("-DGATED={}", !is_gated(p)    ? 0
                                                                : is_bounded(p) ? 2
                                                                                : 1),
                                      fmt::format("-DWIDE={}", wide ? 1 : 0),
                                      fmt::format("-DTHREADS={}", threads),
                                      fmt::format("-DUNITS={}", units),
                                      fmt::format("-DPER_THREAD={}", per_thread ? 1 : 0)};
  if (d.gpu.fp64) options.emplace_back("-DFP64");
  return {{"primitives/batch_norm/gpu/channels.cl", "channels", options}};
}

double estimate_of(const DeviceInfo& d, const Problem& p) {
  constexpr double kLaunchUs = 3;
  return kLaunchUs + p.work() / std::max(d.bandwidth_gbs, 1.0) * 1e-3;
}

/// `length`: elements of a channel; `where`: the kernel's arguments that say where these are.
void run_channels(Stream& stream, const Kernel& kernel, const Launch& shape, const Problem& p, const Problem::Args& a,
                  std::int64_t length, const auto&... where) {
  const auto buffer = [&](const void* data) { return Buffer(data ? data : a.out); };
  const Range range = range_of(p.activation, a.activation);
  const auto run = [&]<class Real>(Real) {
    const auto real = [](double v) { return static_cast<Real>(v); };
    const Formula<Real> f{real(a.epsilon),
                          real(a.factor),
                          real(static_cast<double>(length)),
                          real(range.low),
                          real(range.high),
                          real(is_gated(p) && is_bounded(p) ? range.high - range.low : 1),
                          real(a.blend),
                          real(a.keep),
                          real(a.parameter_blend),
                          real(a.parameter_keep),
                          !p.forward() && a.mean,
                          a.next_mean != nullptr,
                          a.saved_mean != nullptr,
                          a.bias != nullptr,
                          a.dscale != nullptr,
                          a.dbias != nullptr};
    launch(stream, kernel, shape, where..., buffer(a.x), buffer(a.dy), buffer(a.out), buffer(a.scale), buffer(a.bias),
           buffer(a.mean), buffer(a.variance), buffer(a.next_mean), buffer(a.next_variance),
           buffer(p.forward() ? a.saved_mean : a.dscale), buffer(p.forward() ? a.saved_inverse : a.dbias), f);
  };
  is_double(p) ? run(double{}) : run(float{});
}

/// The channels of a problem, whose runs are contiguous if `is_rows`; in units of `unit` elements.
struct Channels {
  explicit Channels(const Problem& p) : loops(loops_of(p)) {
    const Loop &kept = loops.kept, &reduced = loops.reduced;
    const auto used = {kOut, kX, kDy};
    is_rows = kept.rank == 1 && reduced.rank <= 2 &&
              std::ranges::all_of(used, [&](std::size_t o) { return reduced.inner().strides[o] == 1; });
    if (!is_rows) return;
    run = reduced.inner().size;
    images = reduced.rank == 2 ? reduced.dims[0].size : 1;
    const int vector = kernels::vector_of(size_of(p.x.type), size_of(p.out.type));
    const auto fits = [&](std::int64_t n) { return n % vector == 0; };
    if (fits(run) && std::ranges::all_of(used, [&](std::size_t o) {
          return fits(loops.kept.base[o]) && fits(kept.inner().strides[o]) && fits(image_stride(o));
        }))
      unit = vector;
  }
  std::int64_t image_stride(std::size_t o) const {
    return loops.reduced.rank == 2 ? loops.reduced.dims[0].strides[o] : 0;
  }
  std::int64_t units() const { return run / unit * images; }
  int units_per_thread() const { return unit == 1 ? kSingleElements : kVectorElements / unit; }

  common::RowLoops loops;
  bool is_rows = false;
  std::int64_t run = 1, images = 1;
  int unit = 1;
};

class GpuChannels final : public GpuSolver<Problem> {
 public:
  GpuChannels(const SolverInfo& info, Direction d) : GpuSolver(info), direction_(d) {}

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    POLYMIO_REQUIRE(d.kind != DeviceKind::kCpu, "does not run on this kind of device");
    POLYMIO_REQUIRE(p.direction == direction_, "computes another direction");
    POLYMIO_REQUIRE(d.gpu.fp64 || !is_double(p), "the device has no double-precision arithmetic");
    const Channels c(p);
    POLYMIO_REQUIRE(c.is_rows, "needs channels that are contiguous in each image");
    POLYMIO_REQUIRE_MOST(c.units(), most_threads(d) * c.units_per_thread(), "vectors or elements of a channel");
    POLYMIO_REQUIRE_MOST(c.loops.kept.count(), std::int64_t{1} << 30, "channels");
    return {};
  }

  TuneSpace tune_space(const DeviceInfo&, const Problem&) const override { return {{"threads", {128, 256, 512}}}; }
  bool is_valid(const DeviceInfo& d, const Problem& p, const TunePoint& t) const override {
    const Channels c(p);
    return t[0] <= most_threads(d) && c.units() <= std::int64_t{t[0]} * c.units_per_thread();
  }
  // Few channels: a unit or two for each thread. Many: several blocks for each multiprocessor.
  TunePoint default_point(const DeviceInfo& d, const Problem& p) const override {
    const Channels c(p);
    const bool few = c.loops.kept.count() <= 2 * std::int64_t{d.units};
    const std::int64_t kept = few ? 2 : c.units_per_thread();
    int threads = 128;
    while (2 * threads <= most_threads(d) && threads * kept < c.units()) threads *= 2;
    return {threads};
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint&) const override { return estimate_of(d, p); }

  std::vector<KernelSpec> kernel_specs(const DeviceInfo& d, const Problem& p, const TunePoint& t) const override {
    const Channels c(p);
    return specs_of(d, p, t[0], c.units_per_thread(), c.unit > 1, false);
  }

  Invoker assemble(const DeviceInfo&, const Problem& p, const TunePoint& t, const Kernels& built) const override {
    const Channels c(p);
    const common::RowLoops& loops = c.loops;
    ChannelShape shape{static_cast<int>(c.units()), 0, kernels::make_divider(c.run / c.unit), {}, {}};
    std::size_t n = 0;
    for (const std::size_t o : {kX, kDy, kOut, kParameter})
      shape.at[n++] = {loops.kept.base[o], loops.kept.inner().strides[o], o == kParameter ? 0 : c.image_stride(o)};
    const std::int64_t length = c.run * c.images;
    return [=, kernel = built[0], threads = t[0], channels = loops.kept.count(), unit = c.unit](Stream& stream,
                                                                                                const Args& a) {
      ChannelShape now = shape;
      const auto is_aligned = [&](const void* data, DataType type) {
        const std::size_t bytes = std::min<std::size_t>(static_cast<std::size_t>(unit) * polymio::size_of(type), 16);
        return reinterpret_cast<std::uintptr_t>(data) % bytes == 0;
      };
      now.aligned =
          is_aligned(a.x, p.x.type) && is_aligned(a.out, p.out.type) && (p.forward() || is_aligned(a.dy, p.dy.type));
      run_channels(stream, *kernel, launch_shape(threads, channels), p, a, length, now);
    };
  }

 private:
  static std::int64_t most_threads(const DeviceInfo& d) {
    return std::min(kMostThreads, std::max<std::int64_t>(d.gpu.block_threads, 256));
  }

  Direction direction_;
};

/// In tiles where parameters are contiguous along another dimension than x, so that memory is read by whole sectors.
Loop tiled(Loop channels) {
  constexpr std::int64_t kSide = 8;
  const std::size_t inner = channels.rank - 1;
  std::size_t other = 0;
  while (other < inner && channels.dims[other].strides[kParameter] != 1) ++other;
  if (other == inner || channels.dims[inner].size % (kSide / 2) != 0) return channels;
  for (const std::size_t d : {other, inner}) {
    Loop::Dim side = channels.dims[d];
    side.size = std::gcd(side.size, kSide);
    channels.dims[d].size /= side.size;
    for (std::int64_t& stride : channels.dims[d].strides) stride *= side.size;
    channels.push(side);
  }
  return channels;
}

class GpuThreads final : public GpuSolver<Problem> {
 public:
  GpuThreads(const SolverInfo& info, Direction d) : GpuSolver(info), direction_(d) {}

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    POLYMIO_REQUIRE(d.kind != DeviceKind::kCpu, "does not run on this kind of device");
    POLYMIO_REQUIRE(p.direction == direction_, "computes another direction");
    POLYMIO_REQUIRE(d.gpu.fp64 || !is_double(p), "the device has no double-precision arithmetic");
    const common::RowLoops loops = loops_of(p);
    POLYMIO_REQUIRE(loops.reduced.rank == 1, "needs equal distances between the elements of a channel");
    const auto used = {kOut, kX, kDy};
    POLYMIO_REQUIRE(std::ranges::all_of(used, [&](std::size_t o) { return loops.kept.inner().strides[o] == 1; }),
                    "needs neighbouring channels that are contiguous");
    // x, and backward dy, are in registers.
    const std::int64_t most = (p.forward() ? 64 : 32) / (is_double(p) ? 2 : 1);
    POLYMIO_REQUIRE_MOST(loops.reduced.count(), most, "elements of a channel");
    POLYMIO_REQUIRE_MOST(loops.kept.count(), std::int64_t{1} << 30, "channels");
    return {};
  }
  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint&) const override { return estimate_of(d, p); }

  std::vector<KernelSpec> kernel_specs(const DeviceInfo& d, const Problem& p, const TunePoint&) const override {
    const auto elements = static_cast<std::uint64_t>(loops_of(p).reduced.count());
    return specs_of(d, p, kThreads, static_cast<int>(std::bit_ceil(elements)), false, true);
  }

  Invoker assemble(const DeviceInfo&, const Problem& p, const TunePoint&, const Kernels& built) const override {
    const common::RowLoops loops = loops_of(p);
    kernels::Nest nest = gpu_skeletons::nest_of(tiled(loops.kept), 4, {kX, kDy, kOut, kParameter});
    nest.group(1);
    const std::int64_t length = loops.reduced.count();
    ChannelShape shape{static_cast<int>(length), 0, kernels::make_divider(1), {}, {}};
    std::size_t n = 0;
    for (const std::size_t o : {kX, kDy, kOut}) shape.at[n++].image = loops.reduced.inner().strides[o];
    return [=, kernel = built[0]](Stream& stream, const Args& a) {
      run_channels(stream, *kernel, launch_shape(kThreads, ceil_div(nest.count(), kThreads)), p, a, length, shape,
                   nest.walk(), nest.strides(0), nest.strides(1), nest.strides(2), nest.strides(3));
    };
  }

 private:
  Direction direction_;
};

}  // namespace

std::unique_ptr<const SolverBase> gpu_threads(const SolverInfo& info, Direction d) {
  return std::make_unique<GpuThreads>(info, d);
}

std::unique_ptr<const SolverBase> gpu_channels(const SolverInfo& info, Direction d) {
  return std::make_unique<GpuChannels>(info, d);
}

}  // namespace polymio::batch_norm
