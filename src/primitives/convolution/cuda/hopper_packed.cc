// ConvHopperPacked: ConvHopper on copies of tensors that it cannot address or would waste its steps on: channels first,
// odd or few channels. ConvHopperSplitPacked: the same for ConvHopperSplit. The workspace holds the copies, of a slice
// of the problem where they are large.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>

#include "base/math.h"
#include "core/arithmetic.h"
#include "primitives/convolution/cuda/hopper.h"
#include "primitives/convolution/cuda/hopper_packing.h"
#include "primitives/convolution/cuda/hopper_plan.h"
#include "primitives/convolution/cuda/hopper_slices.h"
#include "primitives/convolution/gpu/arguments.h"

namespace polymio::convolution {
namespace {

using cuda::HopperInner;
using cuda::HopperOperand;
using cuda::HopperPacking;
using cuda::HopperSlices;

constexpr std::int64_t kThreads = 256, kPerThread = 8, kTile = 64, kMostOwn = 4;  // as in fold.cl, fold_planes.cl

/// Elements of a plane per access; 0: planes are contiguous, 16 bytes per access.
std::int64_t vector_of(const HopperOperand& o, std::int64_t bytes) {
  const kernels::FoldShape& s = o.shape;
  std::int64_t vector = 16 / bytes;
  if (s.columns <= kTile && s.channel == s.columns && std::int64_t{s.channels} * s.columns % vector == 0) return 0;
  while (o.unit % vector != 0) vector /= 2;
  return vector;
}

/// The copy in units of 16 bytes where channels are whole units of both tensors; else as it is.
struct Units {
  kernels::FoldShape shape;
  std::int64_t bytes;  // of an element of the shape
};
Units units_of(const HopperOperand& o, std::int64_t bytes) {
  kernels::FoldShape s = o.shape;
  const int unit = static_cast<int>(16 / bytes);
  const auto is_whole = [unit](auto elements) { return elements % unit == 0; };
  if (s.channel != 1 || !is_whole(s.channels) || !is_whole(s.fold_c) || !is_whole(s.column) || !is_whole(s.row) ||
      !is_whole(s.image))
    return {s, bytes};
  for (int* const elements : {&s.channels, &s.fold_c, &s.column, &s.row, &s.depth, &s.folded_row, &s.folded_column})
    *elements /= unit;
  s.image /= unit;
  s.folded_image /= unit;
  return {s, 16};
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
      specs.push_back(is_patches(*o)                ? patches_spec(*o)
                      : o->planes || is_flipped(*o) ? planes_spec(*o)
                                                    : fold_spec(*o));
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
    in.w = plan_.sums > 0 ? copies(a) : weights(a);
    return in;
  }

  /// The weights or their copy.
  void* weights(const Problem::Args& a) const { return plan_.w.copied ? copy_of(plan_.w, a) : a.w; }

  void before(Stream& stream, const Kernels& built, const Problem::Args& a) const { run(stream, built, a, false); }
  void after(Stream& stream, const Kernels& built, const Problem::Args& a) const { run(stream, built, a, true); }

 private:
  /// Of an element.
  std::int64_t bytes() const { return static_cast<std::int64_t>(size_of(plan_.inner.x.type)); }

  bool is_flipped(const HopperOperand& o) const { return &o == &plan_.w && plan_.swapped; }

  bool is_patches(const HopperOperand& o) const { return &o == &plan_.x && plan_.patches; }

  KernelSpec patches_spec(const HopperOperand& o) const {
    const std::string type(name_of(plan_.inner.x.type));
    return {"primitives/convolution/gpu/patches.cl",
            o.output ? "scatter_patches" : "gather_patches",
            {"-DIN=" + type, "-DOUT=" + type, fmt::format("-DUNIT={}", plan_.patches->unit())}};
  }

  KernelSpec planes_spec(const HopperOperand& o) const {
    const char* const entry = is_flipped(o) ? "fold_weights" : o.output ? "pixels_to_planes" : "planes_to_pixels";
    return {"primitives/convolution/cuda/fold_planes.cl",
            entry,
            {fmt::format("-DVECTOR={}", o.planes ? vector_of(o, bytes()) : 1), fmt::format("-DBYTES={}", bytes())}};
  }

  KernelSpec fold_spec(const HopperOperand& o) const {
    const auto [s, size] = units_of(o, bytes());
    return {"primitives/convolution/cuda/fold.cl",
            o.output ? "unfold" : "fold",
            {fmt::format("-DBYTES={}", size), fmt::format("-DCHANNELS={}", s.channels),
             fmt::format("-DFOLD_C={}", s.fold_c), fmt::format("-DFOLD_H={}", s.fold_h),
             fmt::format("-DFOLD_W={}", s.fold_w), fmt::format("-DDEPTH={}", s.depth),
             fmt::format("-DCHANNELS_LAST={}", s.channel == 1 ? 1 : 0)}};
  }

  static char* copies(const Problem::Args& a) { return gpu::align_up(a.workspace, HopperPacking::kAlignment); }
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
      if (is_patches(o)) {
        const gpu::Patches::Call call = {tensor, copy, 0, 0, plan_.inner.n(), plan_.patches->unit()};
        outputs ? plan_.patches->scatter(stream, kernel, call, 0) : plan_.patches->gather(stream, kernel, call);
      } else if (is_flipped(o)) {
        const auto& s = plan_.weights;
        const std::int64_t elements = std::int64_t{s.rows} * s.taps_h * s.taps_w * s.depth;
        launch(stream, kernel, launch_shape(kThreads, ceil_div(elements, kThreads)), tensor, copy, s);
      } else {
        launch(stream, kernel, launch_shape(kThreads, blocks_of(o)), outputs ? copy : tensor, outputs ? tensor : copy,
               o.planes ? o.shape : units_of(o, bytes()).shape);
      }
    }
  }

  std::int64_t blocks_of(const HopperOperand& o) const {
    if (o.planes)
      return std::int64_t{o.shape.images} * o.shape.rows * ceil_div(std::int64_t{o.shape.columns}, kTile) *
             ceil_div(std::int64_t{o.shape.depth}, kTile);
    const auto [s, size] = units_of(o, bytes());
    if (o.output)
      return std::int64_t{s.tensor_images} * s.height *
             ceil_div(std::int64_t{s.channels} * s.width, kThreads * kPerThread);
    const std::int64_t units = s.depth * size / 16, pieces = units <= kMostOwn ? 1 : units;
    return std::int64_t{s.images} * s.rows * ceil_div(s.columns * pieces, kThreads);
  }

  HopperPacking plan_;
};

class HopperPacked : public GpuSolver<Problem> {
 public:
  HopperPacked(const SolverInfo& info, Direction d, HopperInner inner, std::int64_t most_bytes)
      : GpuSolver(info), direction_(d), inner_(inner), most_bytes_(most_bytes) {
    for (const Direction of : kDirections)
      solvers_[static_cast<std::size_t>(of)] = inner == HopperInner::kHopper
                                                   ? cuda::make_hopper(info, of)
                                                   : cuda::make_hopper_split(info, of, cuda::kMostCopiedBytes / 2);
  }

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    POLYMIO_REQUIRE(p.direction == direction_, "serves another direction");
    if (const Verdict v = cuda::hopper_runs_on(d); !v) return v;
    return cuda::hopper_packing_serves(p, inner_, most_bytes_);
  }

  ErrorClass error_class(const Problem& p) const override {
    return size_of(p.w.type) == 2 ? ErrorClass::kAccurate : ErrorClass::kReduced;
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    const Slices made = slices(p);
    std::vector<double> us;
    for (std::size_t i = 0; i < made.shapes.size(); ++i)
      us.push_back(estimate_of_slice(d, made.shapes[i], made.packings[i], made.summed(), point));
    double sum = 0;
    for (const auto& slice : made.slices) sum += us[slice.shape];
    if (made.summed()) {
      const HopperPacking& plan = made.packings[0];
      if (plan.sums > 0) sum += copy_us(d, plan.sums + static_cast<std::int64_t>(p.w.bytes()));
      if (plan.w.copied) sum += copy_us(d, plan.w.bytes + static_cast<std::int64_t>(p.w.bytes()));
    }
    return sum;
  }

  TuneSpace tune_space(const DeviceInfo& d, const Problem& p) const override {
    const Problem inner = slices(p).packings[0].inner;
    return solver(inner).tune_space(d, inner);
  }
  bool is_valid(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    return std::ranges::all_of(slices(p).packings, [&](const HopperPacking& plan) {
      return solver(plan.inner).is_valid(d, plan.inner, point) && !sums_exceed(d, plan, point);
    });
  }
  TunePoint default_point(const DeviceInfo& d, const Problem& p) const override {
    const HopperPacking plan = slices(p).packings[0];
    const TunePoint halo = cuda::hopper_halo_point(plan.inner.direction);
    const TunePoint usual = plan.overlaps && solver(plan.inner).is_valid(d, plan.inner, halo)
                                ? halo
                                : solver(plan.inner).default_point(d, plan.inner);
    if (!sums_exceed(d, plan, usual)) return usual;
    const std::vector<TunePoint> others = valid_points(*this, d, p);
    return others.empty()
               ? usual
               : *std::ranges::min_element(others, {}, [&](const TunePoint& point) { return estimate(d, p, point); });
  }

  std::size_t workspace_size(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    std::size_t most = 0;
    for (const HopperPacking& plan : slices(p).packings) most = std::max(most, workspace_of(d, plan, point));
    return most;
  }

  std::vector<KernelSpec> kernel_specs(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    std::vector<KernelSpec> specs;
    const Slices made = slices(p);
    for (const HopperPacking& plan : made.packings) {
      for (KernelSpec& spec : Copies(plan).kernel_specs()) specs.push_back(std::move(spec));
      for (KernelSpec& spec : solver(plan.inner).kernel_specs(d, plan.inner, point)) specs.push_back(std::move(spec));
    }
    if (made.packings[0].sums > 0) {  // rounds them
      const std::string type(name_of(p.w.type));
      specs.push_back(
          {"primitives/convolution/gpu/columns.cl", "add_partials", {"-DIN=" + type, "-DOUT=" + type, "-DWIDE=0"}});
    }
    return specs;
  }

  Invoker assemble(const DeviceInfo& d, const Problem& p, const TunePoint& point, const Kernels& built) const override {
    const Slices made = slices(p);
    std::vector<Part> parts;
    auto next = built.begin();
    const auto take = [&](std::size_t count) {
      const auto first = next;
      next += static_cast<std::ptrdiff_t>(count);
      return Kernels(first, next);
    };
    for (const HopperPacking& plan : made.packings) {
      const Copies copies(plan);
      const Kernels of_copies = take(copies.kernel_specs().size());
      const Kernels own = take(solver(plan.inner).kernel_specs(d, plan.inner, point).size());
      parts.push_back({copies, of_copies, solver(plan.inner).assemble(d, plan.inner, point, own)});
    }
    const auto bytes = static_cast<std::int64_t>(size_of(p.x.type));
    if (made.summed()) {
      const std::shared_ptr<const Kernel> round = next == built.end() ? nullptr : *next;
      return [parts, slices = made.slices, bytes, round](Stream& stream, const Args& all) {
        sum_slices(stream, parts, slices, bytes, round.get(), all);
      };
    }
    return [parts, slices = made.slices, bytes, channels = p.k()](Stream& stream, const Args& all) {
      for (const auto& slice : slices) {
        const Part& part = parts[slice.shape];
        const Args a = moved(all, slice, bytes);
        part.copies.before(stream, part.of_copies, a);
        Args inner = part.copies.inner(a);
        inner.parameter_channels = channels;
        part.convolve(stream, inner);
        part.copies.after(stream, part.of_copies, a);
      }
    };
  }

 protected:
  struct Slices : HopperSlices {
    std::vector<HopperPacking> packings;  // of the shapes
  };

  Slices slices(const Problem& p) const {
    Slices made{cuda::hopper_slices(p, most_bytes_, inner_), {}};
    for (const Problem& slice : made.shapes)
      made.packings.push_back(cuda::hopper_packing(slice, made.summed(), inner_));
    return made;
  }

  const GpuSolver<Problem>& solver(const Problem& inner) const {
    return *solvers_[static_cast<std::size_t>(inner.direction)];
  }

 private:
  static constexpr Direction kDirections[] = {Direction::kForward, Direction::kBackwardData,
                                              Direction::kBackwardWeights};

  std::size_t workspace_of(const DeviceInfo& d, const HopperPacking& plan, const TunePoint& point) const {
    return static_cast<std::size_t>(plan.bytes() + HopperPacking::kAlignment) +
           solver(plan.inner).workspace_size(d, plan.inner, point);
  }

  /// Whether partial sums need more than copies leave.
  bool sums_exceed(const DeviceInfo& d, const HopperPacking& plan, const TunePoint& point) const {
    return direction_ == Direction::kBackwardWeights && plan.bytes() <= cuda::kMostCopiedBytes &&
           workspace_of(d, plan, point) > cuda::kMostCopiedBytes;
  }

  /// How slices of a shape are computed.
  struct Part {
    Copies copies;
    Kernels of_copies;
    Invoker convolve;
  };

  /// A gradient of the weights. `round`: of sums that are not of the type of the result.
  static void sum_slices(Stream& stream, const std::vector<Part>& parts, const std::vector<HopperSlices::Slice>& slices,
                         std::int64_t bytes, const Kernel* round, const Args& all) {
    for (std::size_t i = 0; i < slices.size(); ++i) {
      const Part& part = parts[slices[i].shape];
      const Args a = moved(all, slices[i], bytes);
      part.copies.before(stream, part.of_copies, a);
      Args inner = part.copies.inner(a);
      if (round) {
        inner.alpha = 1;
        inner.beta = 0;
      }
      if (i > 0) inner.beta = 1;
      part.convolve(stream, inner);
    }
    const Part& part = parts.front();
    if (round)
      gpu::add_partials(stream, *round,
                        {part.copies.inner(all).w, part.copies.weights(all), part.copies.plan().inner.w.count(), 1},
                        static_cast<float>(all.alpha), static_cast<float>(all.beta));
    part.copies.after(stream, part.of_copies, all);
  }

  /// The arguments of a slice. A residual has the shape of y.
  static Args moved(const Args& all, const HopperSlices::Slice& slice, std::int64_t bytes) {
    Args a = all;
    a.x = static_cast<char*>(all.x) + slice.x * bytes;
    a.y = static_cast<char*>(all.y) + slice.y * bytes;
    if (all.residual) a.residual = static_cast<const char*>(all.residual) + slice.y * bytes;
    return a;
  }

  static double copy_us(const DeviceInfo& d, std::int64_t bytes) {
    constexpr double kLaunchUs = 2, kRate = 0.8;  // of the memory's
    return kLaunchUs + static_cast<double>(bytes) / (1e3 * d.bandwidth_gbs * kRate);
  }

  /// Without the weights of a slice that is summed.
  double estimate_of_slice(const DeviceInfo& d, const Problem& p, const HopperPacking& plan, bool summed,
                           const TunePoint& point) const {
    const Problem& q = plan.inner;
    double us = solver(q).estimate(d, q, point);
    if (plan.overlaps && !cuda::hopper_has_halo(q, point)) {
      constexpr double kClocksPerPixel = 9, kClocksPerUs = 1500;  // of an im2col load, measured on an H100
      const double taps = static_cast<double>(q.w.count() / q.w.lens[0] / q.w.lens[1]);
      const double pixels = static_cast<double>(q.y.count() / q.y.lens[1]);
      us = std::max(us, pixels * taps * kClocksPerPixel / (d.units * kClocksPerUs));
    }
    const auto add = [&](const HopperOperand& o, const TensorDesc& t) {
      if (o.copied) us += copy_us(d, o.bytes + static_cast<std::int64_t>(t.bytes()));
    };
    add(plan.x, p.x);
    if (!summed) add(plan.w, p.w);
    add(plan.y, p.y);
    return us;
  }

  Direction direction_;
  HopperInner inner_;
  std::int64_t most_bytes_;
  std::array<std::unique_ptr<const GpuSolver<Problem>>, std::size(kDirections)> solvers_;
};

/// Takes what ConvHopperSplit refuses for its channels. Half of the workspace is for the parts of copies.
class HopperSplitPacked final : public HopperPacked, public NamesArithmetic {
 public:
  HopperSplitPacked(const SolverInfo& info, Direction d)
      : HopperPacked(info, d, HopperInner::kSplit, cuda::kMostCopiedBytes / 2) {}

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    POLYMIO_REQUIRE(p.all_types(DataType::kFloat), "not fp32");
    POLYMIO_REQUIRE(p.groups() == 1, "groups");
    POLYMIO_REQUIRE(p.c() % kMultiple != 0 || p.k() % kMultiple != 0, "channels that need no copies");
    if (const Verdict v = HopperPacked::is_applicable(d, p); !v) return v;
    for (const HopperPacking& plan : slices(p).packings)
      if (const Verdict v = solver(plan.inner).is_applicable(d, plan.inner); !v) return v;
    return {};
  }

  ErrorClass error_class(const Problem&) const override { return ErrorClass::kAccurate; }
  const char* arithmetic() const override { return cuda::kSplitArithmetic; }

 private:
  static constexpr std::int64_t kMultiple = 8;
};

}  // namespace

std::unique_ptr<const GpuSolver<Problem>> cuda::make_hopper_packed(const SolverInfo& info, Direction d,
                                                                   std::int64_t most_bytes) {
  return std::make_unique<HopperPacked>(info, d, HopperInner::kHopper, most_bytes);
}
std::unique_ptr<const SolverBase> cuda_hopper_split_packed(const SolverInfo& info, Direction d) {
  return std::make_unique<HopperSplitPacked>(info, d);
}
std::unique_ptr<const SolverBase> cuda_hopper_packed(const SolverInfo& info, Direction d) {
  return cuda::make_hopper_packed(info, d, cuda::kMostCopiedBytes);
}

}  // namespace polymio::convolution
