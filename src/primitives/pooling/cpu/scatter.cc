// PoolCpuScatter: the gradient of maxima with indices, a few planes of channels at a time. It reads dy and the indices
// once, where PoolCpuWindow compares the indices of all windows of an element. Tuning knob: non-temporal stores.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <memory>

#include "base/math.h"
#include "kernels/cpu/kernels_of.h"
#include "kernels/cpu/pooling.h"
#include "primitives/common/caches.h"
#include "primitives/pooling/solvers.h"

namespace polymio::pooling {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 22;  // of a plane, whose sums are in scratch

std::int64_t elements_of_plane(const Geometry& g) { return g.dims[0].size * g.dims[1].size * g.dims[2].size; }

class CpuScatter final : public Solver<Problem> {
 public:
  explicit CpuScatter(const SolverInfo& info, Direction) : Solver(info) {}

  Verdict is_applicable(const DeviceInfo&, const Problem& p) const override {
    POLYMIO_REQUIRE(!p.forward(), "computes another direction");
    POLYMIO_REQUIRE(p.mode == Mode::kMax && p.index != Index::kNone, "scatters to the indices of maxima");
    POLYMIO_REQUIRE_MOST(elements_of_plane(Geometry(p)), kMostElements, "keeps a plane of dx in scratch memory");
    POLYMIO_REQUIRE_MOST(p.window.volume(), kMostElements, "has a table of the elements of a window");
    return {};
  }

  TuneSpace tune_space(const DeviceInfo&, const Problem&) const override { return {{"non_temporal", {0, 1}}}; }
  bool is_valid(const DeviceInfo& d, const Problem& p, const TunePoint& t) const override {
    return t[0] == 0 || p.work() > static_cast<double>(d.cache_bytes[1]);
  }
  TunePoint default_point(const DeviceInfo& d, const Problem& p) const override {
    // dx of the arithmetic's type takes the sums themselves, unless its stores are non-temporal.
    const bool in_place = p.x.type == DataType::kFloat || p.x.type == DataType::kDouble;
    return {!in_place && common::exceeds_caches(d, p.work()) ? 1 : 0};
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint&) const override {
    const Geometry g(p);
    const double planes = static_cast<double>(p.dx.lens[0] * p.dx.lens[1]);
    const double busy = std::min(planes, static_cast<double>(d.threads));
    // Where channels are neighbours, planes share cache lines.
    constexpr double kScattered = 200;
    const bool scattered = g.out.dims[2] != 1;
    // Images are computed in vectors of windows; volumes and doubles by rows.
    const bool flat = !scattered && g.dims[0].size == 1 && p.x.type != DataType::kDouble;
    const double ns_per_window = flat ? 0.6 : 1.2, ns_per_plane = flat ? 5 : 100;
    const double ns_per_element = flat ? 0.03 : 0.15 * (scattered ? kScattered : 1);
    const double ns = ns_per_plane * planes + ns_per_window * static_cast<double>(p.dy.count()) +
                      ns_per_element * static_cast<double>(p.dx.count());
    const double gbs = std::max(d.bandwidth_gbs, 1.0) * (common::exceeds_caches(d, p.work()) ? 1 : 4);
    return (ns / busy + p.work() / gbs) * 1e-3 + 1;
  }

  Invoker build(Stream& stream, const Problem& p, const TunePoint& t) const override {
    const auto& kernels = kernels::kernels_of<kernels::PoolingKernels>(stream.info().isa);
    kernels::Pooling job = job_of(p);
    job.non_temporal = t[0] != 0;
    const std::int64_t planes = p.dx.lens[0] * job.channels;
    const std::int64_t part = std::max<std::int64_t>(1, planes / (8 * stream.info().threads));
    const std::size_t scratch = kernels.scatter_scratch(job);
    stream.reserve_scratch(scratch);
    return [&kernels, job, planes, part, scratch](Stream& on, const Args& args) {
      kernels::Pooling call = job;
      call.in = args.dy;
      call.out = args.result;
      call.index = args.index;
      call.scale = args.scale;
      call.keep = args.keep;
      on.parallel_for(static_cast<std::size_t>(ceil_div(planes, part)), scratch, [&](std::size_t i, void* memory) {
        const std::int64_t first = static_cast<std::int64_t>(i) * part;
        kernels.scatter(call, first, std::min(first + part, planes), memory);
      });
    };
  }
};

}  // namespace

std::unique_ptr<const SolverBase> cpu_scatter(const SolverInfo& info, Direction d) {
  return std::make_unique<CpuScatter>(info, d);
}

}  // namespace polymio::pooling
