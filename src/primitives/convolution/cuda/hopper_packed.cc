// ConvHopperPacked: ConvHopper on copies of tensors that it cannot address or would waste its steps on: channels first,
// odd or few channels. The workspace holds the copies, of a slice of the problem where they are large.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>

#include "base/math.h"
#include "primitives/convolution/cuda/hopper.h"
#include "primitives/convolution/cuda/hopper_packing.h"
#include "primitives/convolution/cuda/hopper_plan.h"
#include "primitives/convolution/cuda/hopper_slices.h"
#include "primitives/convolution/gpu/arguments.h"

namespace polymio::convolution {
namespace {

using cuda::HopperOperand;
using cuda::HopperPacking;
using cuda::HopperSlices;

constexpr std::int64_t kThreads = 256, kPerThread = 8, kTile = 64;  // as in fold.cl

/// Elements of a plane per access; 0: planes are contiguous, 16 bytes per access.
std::int64_t vector_of(const HopperOperand& o, std::int64_t bytes) {
  const kernels::FoldShape& s = o.shape;
  std::int64_t vector = 16 / bytes;
  if (s.columns <= kTile && s.channel == s.columns && std::int64_t{s.channels} * s.columns % vector == 0) return 0;
  while (o.unit % vector != 0) vector /= 2;
  return vector;
}

/// Launches of the copies of one problem; `built`: one kernel per copied operand, x, w, y.
class Copies {
 public:
  explicit Copies(HopperPacking plan) : plan_(std::move(plan)) {}

  const HopperPacking& plan() const { return plan_; }

  std::vector<KernelSpec> kernel_specs() const {
    std::vector<KernelSpec> specs;
    for (const HopperOperand* o : {&plan_.x, &plan_.w, &plan_.y}) {
      if (!o->copied) continue;
      const char* const entry = is_flipped(*o) ? "fold_weights"
                                : o->output    ? (o->planes ? "pixels_to_planes" : "unfold")
                                               : (o->planes ? "planes_to_pixels" : "fold");
      specs.push_back(
          {"primitives/convolution/cuda/fold.cl",
           entry,
           {fmt::format("-DVECTOR={}", o->planes ? vector_of(*o, bytes()) : 1), fmt::format("-DBYTES={}", bytes())}});
    }
    return specs;
  }

  /// The arguments of the inner problem, whose tensors may be copies in the workspace.
  Problem::Args inner(const Problem::Args& a) const {
    Problem::Args in = a;
    in.workspace = copies(a) + plan_.bytes();
    const auto used = static_cast<std::size_t>(static_cast<char*>(in.workspace) - static_cast<char*>(a.workspace));
    in.workspace_bytes = a.workspace_bytes - used;
    void* const x = plan_.x.copied ? copy_of(plan_.x, a) : a.x;
    void* const y = plan_.y.copied ? copy_of(plan_.y, a) : a.y;
    in.x = plan_.swapped ? y : x;
    in.y = plan_.swapped ? x : y;
    if (plan_.w.copied) in.w = copy_of(plan_.w, a);
    return in;
  }

  void before(Stream& stream, const Kernels& built, const Problem::Args& a) const { run(stream, built, a, false); }
  void after(Stream& stream, const Kernels& built, const Problem::Args& a) const { run(stream, built, a, true); }

 private:
  /// Of an element.
  std::int64_t bytes() const { return static_cast<std::int64_t>(size_of(plan_.inner.x.type)); }

  bool is_flipped(const HopperOperand& o) const { return &o == &plan_.w && plan_.swapped; }

  static char* copies(const Problem::Args& a) {
    return reinterpret_cast<char*>(
        round_up(reinterpret_cast<std::intptr_t>(a.workspace), std::intptr_t{HopperPacking::kAlignment}));
  }
  static char* copy_of(const HopperOperand& o, const Problem::Args& a) { return copies(a) + o.at; }

  void run(Stream& stream, const Kernels& built, const Problem::Args& a, bool outputs) const {
    std::size_t next = 0;
    void* const tensors[] = {a.x, a.w, a.y};
    const HopperOperand* const operands[] = {&plan_.x, &plan_.w, &plan_.y};
    for (std::size_t i = 0; i < std::size(operands); ++i) {
      const HopperOperand& o = *operands[i];
      if (!o.copied) continue;
      const Kernel& kernel = *built[next++];
      if (o.output != outputs) continue;
      const Buffer tensor(tensors[i]), copy(copy_of(o, a));
      if (is_flipped(o)) {
        const auto& s = plan_.weights;
        const std::int64_t elements = std::int64_t{s.rows} * s.taps_h * s.taps_w * s.depth;
        launch(stream, kernel, launch_shape(kThreads, ceil_div(elements, kThreads)), tensor, copy, s);
      } else {
        launch(stream, kernel, launch_shape(kThreads, blocks_of(o)), outputs ? copy : tensor, outputs ? tensor : copy,
               o.shape);
      }
    }
  }

  std::int64_t blocks_of(const HopperOperand& o) const {
    const auto& s = o.shape;
    const std::int64_t rows = std::int64_t{s.images} * s.rows, columns = s.columns, depth = s.depth;
    if (o.planes) return rows * ceil_div(columns, kTile) * ceil_div(depth, kTile);
    if (!o.output) return rows * ceil_div(columns * (depth * bytes() / 16), kThreads);
    return std::int64_t{s.tensor_images} * s.height *
           ceil_div(std::int64_t{s.channels} * s.width, kThreads * kPerThread);
  }

  HopperPacking plan_;
};

class HopperPacked final : public GpuSolver<Problem> {
 public:
  HopperPacked(const SolverInfo& info, Direction d, std::int64_t most_bytes)
      : GpuSolver(info), direction_(d), most_bytes_(most_bytes) {
    for (const Direction inner : kDirections)
      solvers_[static_cast<std::size_t>(inner)] = cuda::make_hopper(info, inner);
  }

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    POLYMIO_REQUIRE(p.direction == direction_, "serves another direction");
    if (const Verdict v = cuda::hopper_runs_on(d); !v) return v;
    return cuda::hopper_packing_serves(p);
  }

  ErrorClass error_class(const Problem& p) const override {
    return size_of(p.w.type) == 2 ? ErrorClass::kAccurate : ErrorClass::kReduced;
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    const HopperSlices made = slices(p);
    std::vector<double> us;
    for (const Problem& slice : made.shapes) us.push_back(estimate_of_slice(d, slice, point));
    double sum = 0;
    for (const auto& slice : made.slices) sum += us[slice.shape];
    return sum;
  }

  TuneSpace tune_space(const DeviceInfo& d, const Problem& p) const override {
    const Problem inner = cuda::hopper_packing(slices(p).shapes[0]).inner;
    return solver(inner).tune_space(d, inner);
  }
  bool is_valid(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    return std::ranges::all_of(slices(p).shapes, [&](const Problem& slice) {
      const Problem inner = cuda::hopper_packing(slice).inner;
      return solver(inner).is_valid(d, inner, point);
    });
  }
  TunePoint default_point(const DeviceInfo& d, const Problem& p) const override {
    const HopperPacking plan = cuda::hopper_packing(slices(p).shapes[0]);
    const TunePoint halo = cuda::hopper_halo_point(plan.inner.direction);
    return plan.overlaps && solver(plan.inner).is_valid(d, plan.inner, halo)
               ? halo
               : solver(plan.inner).default_point(d, plan.inner);
  }

  std::size_t workspace_size(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    std::size_t most = 0;
    for (const Problem& slice : slices(p).shapes) {
      const HopperPacking plan = cuda::hopper_packing(slice);
      most = std::max(most, static_cast<std::size_t>(plan.bytes() + HopperPacking::kAlignment) +
                                solver(plan.inner).workspace_size(d, plan.inner, point));
    }
    return most;
  }

  std::vector<KernelSpec> kernel_specs(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    std::vector<KernelSpec> specs;
    for (const Problem& slice : slices(p).shapes) {
      const Copies copies(cuda::hopper_packing(slice));
      const Problem& inner = copies.plan().inner;
      for (KernelSpec& spec : copies.kernel_specs()) specs.push_back(std::move(spec));
      for (KernelSpec& spec : solver(inner).kernel_specs(d, inner, point)) specs.push_back(std::move(spec));
    }
    return specs;
  }

  Invoker assemble(const DeviceInfo& d, const Problem& p, const TunePoint& point, const Kernels& built) const override {
    struct Part {
      Copies copies;
      Kernels of_copies;
      Invoker convolve;
    };
    const HopperSlices made = slices(p);
    std::vector<Part> parts;
    auto next = built.begin();
    const auto take = [&](std::size_t count) {
      const auto first = next;
      next += static_cast<std::ptrdiff_t>(count);
      return Kernels(first, next);
    };
    for (const Problem& slice : made.shapes) {
      const Copies copies(cuda::hopper_packing(slice));
      const Problem& inner = copies.plan().inner;
      const Kernels of_copies = take(copies.kernel_specs().size());
      const Kernels own = take(solver(inner).kernel_specs(d, inner, point).size());
      parts.push_back({copies, of_copies, solver(inner).assemble(d, inner, point, own)});
    }
    const auto bytes = static_cast<std::int64_t>(size_of(p.x.type));
    return [parts, slices = made.slices, bytes](Stream& stream, const Args& all) {
      for (const auto& slice : slices) {
        const Part& part = parts[slice.shape];
        const Args a = moved(all, slice, bytes);
        part.copies.before(stream, part.of_copies, a);
        part.convolve(stream, part.copies.inner(a));
        part.copies.after(stream, part.of_copies, a);
      }
    };
  }

 private:
  static constexpr Direction kDirections[] = {Direction::kForward, Direction::kBackwardData,
                                              Direction::kBackwardWeights};

  HopperSlices slices(const Problem& p) const { return cuda::hopper_slices(p, most_bytes_); }

  /// The arguments of a slice. A residual has the shape of y.
  static Args moved(const Args& all, const HopperSlices::Slice& slice, std::int64_t bytes) {
    Args a = all;
    a.x = static_cast<char*>(all.x) + slice.x * bytes;
    a.y = static_cast<char*>(all.y) + slice.y * bytes;
    if (all.residual) a.residual = static_cast<const char*>(all.residual) + slice.y * bytes;
    return a;
  }

  double estimate_of_slice(const DeviceInfo& d, const Problem& p, const TunePoint& point) const {
    const HopperPacking plan = cuda::hopper_packing(p);
    const Problem& q = plan.inner;
    constexpr double kLaunchUs = 2, kRate = 0.8;  // of the memory's
    double us = solver(q).estimate(d, q, point);
    if (plan.overlaps && !cuda::hopper_has_halo(q, point)) {
      constexpr double kClocksPerPixel = 9, kClocksPerUs = 1500;  // of an im2col load, measured on an H100
      const double taps = static_cast<double>(q.w.count() / q.w.lens[0] / q.w.lens[1]);
      const double pixels = static_cast<double>(q.y.count() / q.y.lens[1]);
      us = std::max(us, pixels * taps * kClocksPerPixel / (d.units * kClocksPerUs));
    }
    const auto add = [&](const HopperOperand& o, const TensorDesc& t) {
      if (o.copied)
        us += kLaunchUs +
              static_cast<double>(o.bytes + static_cast<std::int64_t>(t.bytes())) / (1e3 * d.bandwidth_gbs * kRate);
    };
    add(plan.x, p.x);
    add(plan.w, p.w);
    add(plan.y, p.y);
    return us;
  }

  const GpuSolver<Problem>& solver(const Problem& inner) const {
    return *solvers_[static_cast<std::size_t>(inner.direction)];
  }

  Direction direction_;
  std::int64_t most_bytes_;
  std::array<std::unique_ptr<const GpuSolver<Problem>>, std::size(kDirections)> solvers_;
};

}  // namespace

std::unique_ptr<const GpuSolver<Problem>> cuda::make_hopper_packed(const SolverInfo& info, Direction d,
                                                                   std::int64_t most_bytes) {
  return std::make_unique<HopperPacked>(info, d, most_bytes);
}
std::unique_ptr<const SolverBase> cuda_hopper_packed(const SolverInfo& info, Direction d) {
  return cuda::make_hopper_packed(info, d, cuda::kMostCopiedBytes);
}

}  // namespace polymio::convolution
