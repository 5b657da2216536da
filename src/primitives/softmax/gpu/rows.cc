// SoftmaxGpu: the row skeleton; consecutive threads have neighbouring elements of a row, or neighbouring rows where
// these are closer. A row is read once if it fits in a block's registers.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "core/kernel_builder.h"
#include "primitives/common/gpu/skeletons.h"
#include "primitives/softmax/solvers.h"

namespace polymio::softmax {
namespace {

using gpu_skeletons::kRowEntries;

/// Formula of softmax.cl.
template <class Real>
struct Formula {
  Real scale, keep;
};

/// The rows of the loops: their dimensions, then those of a row.
Loop loop_of(const common::RowLoops& loops) {
  Loop all = loops.kept;
  for (std::size_t d = 0; d < loops.reduced.rank; ++d) all.push(loops.reduced.dims[d]);
  return all;
}

/// In the order of RowEntry.
std::vector<KernelSpec> specs_of(const DeviceInfo& device, DataType type, Direction direction, bool log, int threads) {
  std::vector<std::string> options = {fmt::format("-DIN={}", polymio::name_of(type)),
                                      fmt::format("-DOUT={}", polymio::name_of(type)),
                                      fmt::format("-DNUM={}", type == DataType::kDouble ? "double" : "float"),
                                      fmt::format("-DINPUTS={}", direction == Direction::kForward ? 1 : 2),
                                      fmt::format("-DLOG={}", log ? 1 : 0),
                                      fmt::format("-DTHREADS={}", threads)};
  if (device.gpu.fp64) options.emplace_back("-DFP64");
  std::vector<KernelSpec> specs;
  for (const auto entry : {gpu_skeletons::RowEntry::kElements, gpu_skeletons::RowEntry::kVectors})
    specs.push_back({"primitives/softmax/gpu/softmax.cl", kRowEntries[static_cast<std::size_t>(entry)], options});
  return specs;
}

class GpuRows final : public GpuSolver<Problem> {
 public:
  GpuRows(const SolverInfo& info, Direction d) : GpuSolver(info), direction_(d) {}

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    POLYMIO_REQUIRE(d.kind != DeviceKind::kCpu, "does not run on this kind of device");
    POLYMIO_REQUIRE(p.direction == direction_, "computes another direction");
    POLYMIO_REQUIRE(d.gpu.fp64 || p.in.type != DataType::kDouble, "the device has no double-precision arithmetic");
    POLYMIO_REQUIRE_MOST(p.row_size(), kernels::kMaxPartUnits, "elements of a row");
    return {};
  }

  // More threads than registers allow would spill.
  TuneSpace tune_space(const DeviceInfo&, const Problem& p) const override {
    if (p.forward() && p.in.type != DataType::kDouble) return {{"threads", {256, 512, 1024}}};
    return {{"threads", {256, 512}}};
  }
  bool is_valid(const DeviceInfo& d, const Problem&, const TunePoint& t) const override {
    return t[0] <= std::max(d.gpu.block_threads, gpu_skeletons::kRowThreads);
  }
  TunePoint default_point(const DeviceInfo& d, const Problem& p) const override {
    const common::RowLoops loops = row_loops_of(p);
    if (!loops.reduced.contiguous()) return {gpu_skeletons::kRowThreads};
    const std::size_t size = size_of(p.in.type);
    const std::int64_t vector = kernels::vector_of(size, size), n = p.row_size();
    const std::int64_t units = n % vector == 0 ? n / vector : n;
    return {gpu_skeletons::row_threads(d, loops.kept.count(), units, tune_space(d, p)[0].values.back())};
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint&) const override {
    constexpr double kLaunchUs = 3;
    return kLaunchUs + p.work() / std::max(d.bandwidth_gbs, 1.0) * 1e-3;
  }

  std::vector<KernelSpec> kernel_specs(const DeviceInfo& d, const Problem& p, const TunePoint& t) const override {
    return specs_of(d, p.in.type, p.direction, p.log(), t[0]);
  }

  Invoker assemble(const DeviceInfo& device, const Problem& p, const TunePoint& t,
                   const Kernels& built) const override {
    const common::RowLoops loops = row_loops_of(p);
    gpu_skeletons::Rows rows;
    rows.nest = p.forward() ? gpu_skeletons::nest_of(loop_of(loops), 1, {1, 0})
                            : gpu_skeletons::nest_of(loop_of(loops), 2, {1, 2, 0});
    rows.column_rank = static_cast<int>(loops.reduced.rank);
    rows.mapped = 1;
    rows.threads = t[0];
    return [p, built, rows, device](Stream& stream, const Args& a) {
      const std::size_t size = size_of(p.in.type);
      gpu_skeletons::Rows now = rows;
      now.sides = p.forward() ? kernels::Sides{{{a.in, size}, {a.result, size}}}
                              : kernels::Sides{{{a.in, size}, {a.dy, size}, {a.result, size}}};
      gpu_skeletons::RowPlan plan = plan_row(device, now);
      plan.shape.parts = 1;  // the API has no workspace
      const auto kernel_of = [&](gpu_skeletons::RowEntry entry) -> const Kernel& {
        return *built[static_cast<std::size_t>(entry)];
      };
      const auto launch = [&](const auto& formula) {
        launch_row(stream, kernel_of, plan, now.sides, gpu_skeletons::value_argument(formula), Buffer(nullptr));
      };
      if (p.in.type == DataType::kDouble)
        launch(Formula<double>{a.scale, a.keep});
      else
        launch(Formula<float>{static_cast<float>(a.scale), static_cast<float>(a.keep)});
    };
  }

 private:
  Direction direction_;
};

}  // namespace

std::vector<KernelSpec> programs(const DeviceInfo& device, DataType type, Direction direction, bool log) {
  const bool wide = type == DataType::kDouble;
  const bool known = wide || type == DataType::kFloat || type == DataType::kHalf || type == DataType::kBFloat16;
  if (device.kind == DeviceKind::kCpu || !known || (wide && !device.gpu.fp64)) return {};
  return specs_of(device, type, direction, log, gpu_skeletons::kRowThreads);
}

std::unique_ptr<const SolverBase> gpu_rows(const SolverInfo& info, Direction d) {
  return std::make_unique<GpuRows>(info, d);
}

}  // namespace polymio::softmax
