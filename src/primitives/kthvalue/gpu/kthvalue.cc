// KthvalueGpu: a block per row. Tuning knob: threads of a block. KthvalueGpuRows: rows of up to 4096 elements (fp64:
// 2048), which a few threads keep in registers, the fastest for them. Tuning knob: elements of a thread.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <memory>

#include "base/math.h"
#include "core/kernel_builder.h"
#include "primitives/common/gpu/skeletons.h"
#include "primitives/kthvalue/solvers.h"

namespace polymio::kthvalue {
namespace {

constexpr int kUsualThreads = 256, kDigits = 16;  // digits as in kthvalue.cl
constexpr double kLaunchUs = 3;

/// Formula of kthvalue.cl.
struct Formula {
  std::int64_t step;
  int length, k;
};

/// `knob`: the option of the tune point.
KernelSpec spec_of(const DeviceInfo& device, DataType type, const char* source, const char* entry, std::string knob) {
  KernelSpec spec{source, entry, {}};
  spec.options = {fmt::format("-DIN={}", name_of(type)), fmt::format("-DOUT={}", name_of(type)), "-DNUM=float",
                  std::move(knob)};
  if (device.gpu.fp64) spec.options.emplace_back("-DFP64");
  return spec;
}

KernelSpec digits_spec(const DeviceInfo& device, DataType type, int threads) {
  return spec_of(device, type, "primitives/kthvalue/gpu/kthvalue.cl", "kthvalue", fmt::format("-DTHREADS={}", threads));
}

KernelSpec rows_spec(const DeviceInfo& device, DataType type, int kept) {
  return spec_of(device, type, "primitives/kthvalue/gpu/rows.cl", "kthvalue_rows", fmt::format("-DKEPT={}", kept));
}

class GpuDigits final : public GpuSolver<Problem> {
 public:
  using GpuSolver::GpuSolver;

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    POLYMIO_REQUIRE(d.kind != DeviceKind::kCpu, "does not run on this kind of device");
    POLYMIO_REQUIRE_MOST(p.length(), kernels::kMaxPartUnits, "elements of a row");
    return {};
  }
  ErrorClass error_class(const Problem&) const override { return ErrorClass::kExact; }

  TuneSpace tune_space(const DeviceInfo&, const Problem&) const override { return {{"threads", {64, 128, 256, 512}}}; }
  bool is_valid(const DeviceInfo& d, const Problem&, const TunePoint& t) const override {
    const std::size_t counters = static_cast<std::size_t>(t[0]) * (kDigits + 1) * sizeof(std::uint32_t);
    return t[0] <= std::max(d.gpu.block_threads, kUsualThreads) &&
           (t[0] <= kUsualThreads || counters <= d.gpu.shared_bytes);
  }
  TunePoint default_point(const DeviceInfo&, const Problem&) const override { return {kUsualThreads}; }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& t) const override {
    constexpr double kThreadsPerUnit = 1024;
    const double passes = 2.0 * static_cast<double>(size_of(p.x.type)) + 1;
    const double threads = static_cast<double>(p.y.count()) * t[0];
    const double busy = std::min(threads / (kThreadsPerUnit * std::max(d.units, 1)), 1.0);
    return kLaunchUs + passes * p.work() / std::max(d.bandwidth_gbs, 1.0) * 1e-3 / busy;
  }

  std::vector<KernelSpec> kernel_specs(const DeviceInfo& d, const Problem& p, const TunePoint& t) const override {
    return {digits_spec(d, p.x.type, t[0])};
  }

  Invoker assemble(const DeviceInfo&, const Problem& p, const TunePoint& t, const Kernels& built) const override {
    const auto [dim, k] = p.selection;
    const Formula formula{p.x.strides[static_cast<std::size_t>(dim)], static_cast<int>(p.length()),
                          static_cast<int>(k)};
    kernels::Nest nest = gpu_skeletons::nest_of(rows_of(p), 1, {0, 1, 2});
    nest.group(1);
    return [formula, nest, threads = t[0], kernel = built[0]](Stream& stream, const Args& args) {
      each_part(nest, [&](const kernels::Nest& part) {
        launch(stream, *kernel, launch_shape(threads, part.count()), part.walk(), Buffer(args.x), part.strides(0),
               Buffer(args.y), part.strides(1), Buffer(args.indices), part.strides(2), formula);
      });
    };
  }
};

constexpr int kLog2RowThreads = 8;  // as in rows.cl

/// Formula of rows.cl.
struct RowsFormula {
  std::int64_t step;
  kernels::Divider length;
  int k, log2_lanes, neighbours;
};

/// Elements that a thread keeps in registers at most.
int most_kept(DataType type) { return size_of(type) == 8 ? 8 : 16; }

class GpuRows final : public GpuSolver<Problem> {
 public:
  using GpuSolver::GpuSolver;

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    POLYMIO_REQUIRE(d.kind != DeviceKind::kCpu, "does not run on this kind of device");
    POLYMIO_REQUIRE_MOST(p.length(), std::int64_t{most_kept(p.x.type)} << kLog2RowThreads, "elements of a row");
    return {};
  }
  ErrorClass error_class(const Problem&) const override { return ErrorClass::kExact; }

  TuneSpace tune_space(const DeviceInfo&, const Problem&) const override { return {{"kept", {4, 8, 16}}}; }
  bool is_valid(const DeviceInfo&, const Problem& p, const TunePoint& t) const override {
    return t[0] <= most_kept(p.x.type) && p.length() <= std::int64_t{t[0]} << kLog2RowThreads;
  }
  TunePoint default_point(const DeviceInfo&, const Problem& p) const override { return {most_kept(p.x.type)}; }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint&) const override {
    return kLaunchUs + p.work() / std::max(d.bandwidth_gbs, 1.0) * 1e-3;
  }

  std::vector<KernelSpec> kernel_specs(const DeviceInfo& d, const Problem& p, const TunePoint& t) const override {
    return {rows_spec(d, p.x.type, t[0])};
  }

  Invoker assemble(const DeviceInfo&, const Problem& p, const TunePoint& t, const Kernels& built) const override {
    kernels::Nest nest = gpu_skeletons::nest_of(rows_of(p), 1, {0, 1, 2});
    const std::int64_t step = p.x.strides[static_cast<std::size_t>(p.selection.dim)];
    const bool neighbours = std::abs(step) > std::abs(nest.inner().strides[0]);
    const int log2_lanes = std::bit_width(static_cast<std::uint64_t>(ceil_div(p.length(), std::int64_t{t[0]}) - 1));
    const RowsFormula formula{step, kernels::make_divider(p.length()), static_cast<int>(p.selection.k), log2_lanes,
                              neighbours};
    nest.group(1);
    return [formula, nest, kernel = built[0]](Stream& stream, const Args& args) {
      each_part(nest, [&](const kernels::Nest& part) {
        const std::int64_t blocks = ceil_div(part.count() << formula.log2_lanes, std::int64_t{1} << kLog2RowThreads);
        launch(stream, *kernel, launch_shape(1 << kLog2RowThreads, blocks), part.walk(), Buffer(args.x),
               part.strides(0), Buffer(args.y), part.strides(1), Buffer(args.indices), part.strides(2), formula);
      });
    };
  }
};

}  // namespace

std::unique_ptr<const SolverBase> gpu_digits(const SolverInfo& info, Direction) {
  return std::make_unique<GpuDigits>(info);
}

std::unique_ptr<const SolverBase> gpu_rows(const SolverInfo& info, Direction) {
  return std::make_unique<GpuRows>(info);
}

std::vector<KernelSpec> programs(const DeviceInfo& device, DataType type) {
  if (device.kind == DeviceKind::kCpu) return {};
  return {digits_spec(device, type, kUsualThreads), rows_spec(device, type, most_kept(type))};
}

}  // namespace polymio::kthvalue
