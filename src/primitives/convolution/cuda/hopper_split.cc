// ConvHopperSplit: fp32 convolutions as accurate as fp32 arithmetic, on the matrix units of NVIDIA's sm90. Operands are
// split into three parts of bf16, which add up to them; ConvProduct multiplies the six pairs of parts that matter. The
// device decides: with operands that parts cannot represent it computes in fp32 instead.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "core/arithmetic.h"
#include "kernels/gpu/wgmma.h"
#include "primitives/convolution/cuda/hopper.h"
#include "primitives/convolution/cuda/hopper_packing.h"
#include "primitives/convolution/cuda/hopper_plan.h"
#include "primitives/convolution/cuda/hopper_slices.h"
#include "primitives/convolution/gpu/arguments.h"

namespace polymio::convolution {
namespace {

using cuda::HopperProduct;
using cuda::HopperSlices;
using cuda::HopperTile;

constexpr std::int64_t kParts = 3, kPartBytes = 2, kPairs = 6;
constexpr std::int64_t kThreads = 384;                                        // as in hopper.cu
constexpr std::int64_t kSplitThreads = 256, kSplitUnit = 8, kSplitTile = 64;  // as in split.cl
constexpr std::int64_t kAlignment = 256;  // of parts in the workspace, which begins with a flag
constexpr int kSize = sizeof(float);

/// The problem whose operands are parts, packed with channels last.
Problem of_parts(const Problem& p) {
  Problem q = p;
  for (TensorDesc* t : {&q.x, &q.w, &q.y}) {
    t->type = t->cast = DataType::kBFloat16;
    if (t != &q.output()) *t = cuda::channels_last(*t, t->lens[0], t->lens[1]);
  }
  return q;
}

std::int64_t part_bytes(const TensorDesc& t) { return round_up(t.count() * kParts * kPartBytes, kAlignment); }

/// Of the flag and of both operands.
std::int64_t copied_bytes(const Problem& p) {
  return 2 * kAlignment + part_bytes(p.first_input()) + part_bytes(p.second_input());
}

/// Slices whose parts fit a workspace; an eighth of it is for partial sums of gradients of the weights.
HopperSlices slices_of(const Problem& p, std::int64_t most_bytes) {
  const auto copied = [&](const Problem& slice, bool summed) {
    const bool whole_weights = p.direction == Direction::kBackwardWeights && !summed;
    return copied_bytes(slice) + (whole_weights ? most_bytes / 16 : 0);  // as much is left for them anyway
  };
  return cuda::hopper_slices(p, copied, true, most_bytes);
}

/// fp32 of a tensor that become parts.
struct Operand {
  const void* data;
  char* parts;
  std::int64_t outer, channels, pixels, image_pitch, plane_pitch;

  /// Rows of one image, or images, of a packed tensor.
  Operand(const TensorDesc& t, const void* from, char* to)
      : data(from), parts(to), outer(t.lens[0]), channels(t.lens[1]), pixels(t.count() / outer / channels) {
    const auto strides = meaningful_strides(t);
    image_pitch = strides[0];
    plane_pitch = strides[1];
  }
  std::int64_t size() const { return outer * channels * pixels; }
  bool planes() const { return plane_pitch != 1; }
};

/// Kernels of a solver; of the products one per shape of slices, then that of partial sums.
enum KernelNumber : std::size_t { kSplitFloats, kSplitPlanes, kProducts };

void add_split_specs(std::vector<KernelSpec>& to) {
  for (const char* const entry : {"split_floats", "split_planes"})
    to.push_back({"primitives/convolution/cuda/split.cl", entry, {}});
}

void split(Stream& stream, const Kernels& built, const std::vector<Operand>& operands, Buffer outside) {
  Operand none = operands[0];
  none.outer = 0;
  const Operand &first = operands[0].planes() ? none : operands[0],
                &second = operands.size() < 2 || operands[1].planes() ? none : operands[1];
  const std::int64_t elements = first.size() + second.size();
  if (elements > 0)
    launch(stream, *built[kSplitFloats], launch_shape(kSplitThreads, ceil_div(elements, kSplitThreads * kSplitUnit)),
           Buffer(first.data), Buffer(first.parts), first.size(), Buffer(second.data), Buffer(second.parts),
           second.size(), outside);
  for (const Operand& o : operands) {
    if (!o.planes()) continue;
    const std::int64_t tiles = ceil_div(o.channels, kSplitTile) * ceil_div(o.pixels, kSplitTile);
    launch(stream, *built[kSplitPlanes], launch_shape(kSplitThreads, o.outer * tiles), Buffer(o.data), Buffer(o.parts),
           gpu::narrow(o.channels), gpu::narrow(o.pixels), o.image_pitch, o.plane_pitch, o.size(), outside);
  }
}

/// The workspace: a flag, then parts.
char* flag_of(const Problem::Args& a) { return gpu::align_up(a.workspace, kAlignment); }

kernels::ConvFloats floats_of(const TensorDesc& t, const void* data) {
  const auto strides = meaningful_strides(t);
  kernels::ConvFloats floats{static_cast<const float*>(data), strides[0], strides[1], {}};
  for (int i = 0; i + 2 < t.rank; ++i) floats.step[i] = strides[static_cast<std::size_t>(t.rank - 1 - i)];
  return floats;
}

kernels::ConvUnsplit unsplit_of(const Problem& p, const void* first, const void* second, const char* outside) {
  kernels::ConvUnsplit all{reinterpret_cast<const unsigned*>(outside),
                           floats_of(p.first_input(), first),
                           floats_of(p.second_input(), second),
                           {1, 1, 1}};
  for (int i = 0; i < p.spatial(); ++i)
    all.size[i] = gpu::narrow(p.first_input().lens[static_cast<std::size_t>(1 + p.spatial() - i)]);
  return all;
}

const char* element(const void* tensor, std::int64_t at) { return static_cast<const char*>(tensor) + at * kSize; }

/// What both solvers ask of a problem.
Verdict check(const DeviceInfo& d, const Problem& p, Direction direction, std::int64_t most_bytes) {
  POLYMIO_REQUIRE(p.direction == direction, "serves another direction");
  if (const Verdict v = cuda::hopper_runs_on(d); !v) return v;
  POLYMIO_REQUIRE(p.all_types(DataType::kFloat) && !p.has_casts(), "not fp32");
  POLYMIO_REQUIRE(p.groups() == 1, "groups");
  for (const TensorDesc* t : {&p.first_input(), &p.second_input()})
    POLYMIO_REQUIRE(t->is_channels_last() || t->is_channels_first(), "inputs that are not packed");
  for (const Problem& slice : slices_of(p, most_bytes).shapes) {
    if (const Verdict v = cuda::hopper_serves(of_parts(slice)); !v) return v;
    POLYMIO_REQUIRE_MOST(copied_bytes(slice), most_bytes, "bytes of the parts of a row");
  }
  return {};
}

/// Sums of a step and of all steps are in registers. Tiles of 96 columns were not measured.
constexpr bool takes_parts(const HopperTile& tile) {
  return tile.row_blocks * tile.columns <= 192 && tile.columns % 64 == 0;
}

/// The plan of ConvProduct for operands that are three tensors, one after another, and results in fp32.
HopperProduct plan_of(const DeviceInfo& d, const Problem& q, const TunePoint& point) {
  HopperProduct plan = cuda::hopper_product(d, q, point);
  plan.weights.sizes[2] *= kParts;
  plan.weights.strides[3] *= kParts;
  if (plan.shape.unit > 1) plan.shape.unit = 16 / kSize;
  for (TensorMapSpec& src : plan.src) src.sizes[static_cast<std::size_t>(src.rank - 1)] *= kParts;
  for (TensorMapSpec& dst : plan.dst) {
    dst.element = TensorMapSpec::Element::kFloat32;
    for (std::int64_t& stride : dst.strides) stride *= kSize / kPartBytes;
    dst.box[0] = plan.tile.slab_columns(kSize);
    dst.swizzle = dst.box[0] * kSize;
  }
  return plan;
}

/// The arguments of ConvProduct for operands of parts.
template <int kPhases>
struct SplitArguments : kernels::ConvUnsplit, cuda::HopperProductArguments<kPhases> {};

/// Where operands and results of a slice are.
struct Call {
  const void *src, *weights;
  char *outside, *weight_parts, *src_parts;
  void* dst;
  const void* residual;
  kernels::ConvChannelParameters parameters;
  kernels::ConvScalars scalars;
};

/// The products of a slice.
class Product {
 public:
  Product(const DeviceInfo& d, const Problem& p, const TunePoint& point)
      : fp32_(p), problem_(of_parts(p)), plan_(plan_of(d, problem_, point)) {
    const std::int64_t tiles = plan_.shape.tiles;
    launch_ = launch_shape(kThreads, plan_.split > 1 ? tiles * plan_.split : std::min<std::int64_t>(tiles, d.units));
    launch_.cluster = static_cast<std::uint32_t>(plan_.split);
    launch_.shared_bytes =
        static_cast<std::uint32_t>(cuda::hopper_shared_bytes(problem_, plan_.tile, plan_.split, kSize));
  }

  KernelSpec kernel_spec() const {
    const auto& tile = plan_.tile;
    const bool transposed = cuda::hopper_transposes_weights(problem_);
    KernelSpec spec{"primitives/convolution/cuda/hopper.cu", "conv_product", {}};
    spec.generated = kernels::wgmma(tile.columns, "bf16", false, transposed);
    spec.instantiation =
        fmt::format("sm90::ConvProduct<sm90::SplitFloat, {}, {}, {}, {}, {}, {}, {}, {}, {}>", problem_.spatial(),
                    transposed, tile.row_blocks, tile.columns, tile.stages, tile.apart, plan_.split,
                    cuda::hopper_epilogue(problem_), plan_.one_phase ? 1 : HopperProduct::kMaxPhases);
    return spec;
  }

  void run(Stream& stream, const Kernel& kernel, const Call& c) const {
    plan_.one_phase ? run_phases<1>(stream, kernel, c) : run_phases<HopperProduct::kMaxPhases>(stream, kernel, c);
  }

 private:
  template <int kPhases>
  void run_phases(Stream& stream, const Kernel& kernel, const Call& c) const {
    SplitArguments<kPhases> a{};
    static_cast<kernels::ConvUnsplit&>(a) = unsplit_of(fp32_, c.src, c.weights, c.outside);
    a.weights = stream.tensor_map(plan_.weights, c.weight_parts);
    a.residual = problem_.epilogue.residual ? stream.tensor_map(plan_.dst[0], c.residual) : a.weights;
    for (std::size_t i = 0; i < plan_.phases.size(); ++i) {
      a.src[i] = stream.tensor_map(plan_.src[i], c.src_parts);
      if (!cuda::hopper_writes_planes(problem_))
        a.dst[i] = stream.tensor_map(plan_.dst[i], static_cast<char*>(c.dst) + plan_.dst_at[i] * kSize);
      a.phase[i] = plan_.phases[i];
    }
    a.shape = plan_.shape;
    a.shape.scalars = c.scalars;
    a.parameters = c.parameters;
    a.dst_data = c.dst;
    a.residual_data = c.residual;
    launch(stream, kernel, launch_, a);
  }

  Problem fp32_, problem_;
  HopperProduct plan_;
  Launch launch_;
};

/// How it computes is not what an fp32 solver usually does. Both solvers have a default_point of their own: GCC 12
/// drops the loop of one here, for calls of virtual functions that a class in an anonymous namespace leaves to others.
class SplitSolver : public GpuSolver<Problem>, public NamesArithmetic {
 public:
  SplitSolver(const SolverInfo& info, std::int64_t most_bytes) : GpuSolver(info), most_bytes_(most_bytes) {}
  const char* arithmetic() const final { return cuda::kSplitArithmetic; }

 protected:
  /// Whether `can` holds for the parts of every slice.
  template <class Can>
  bool all_slices(const Problem& p, const Can& can) const {
    return std::ranges::all_of(slices(p).shapes, [&](const Problem& slice) { return can(of_parts(slice)); });
  }

  HopperSlices slices(const Problem& p) const { return slices_of(p, most_bytes_); }

  /// The sum over slices of what `of` gives for their shapes.
  template <class Of>
  static double sum_over(const HopperSlices& made, const Of& of) {
    std::vector<double> values;
    for (const Problem& shape : made.shapes) values.push_back(static_cast<double>(of(shape)));
    double sum = 0;
    for (const auto& slice : made.slices) sum += values[slice.shape];
    return sum;
  }

  std::int64_t most_bytes_;  // of parts
};

class HopperSplit final : public SplitSolver {
 public:
  HopperSplit(const SolverInfo& info, Direction d, std::int64_t most_bytes)
      : SplitSolver(info, most_bytes), direction_(d) {}

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    return check(d, p, direction_, most_bytes_);
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    // Fitted to times on an H200.
    constexpr double kGhz = 1.73, kApart = 1.2, kWide = 1.05;  // times: tiles apart, of 192 columns
    constexpr double kStartUs = 4.8, kSliceUs = 1.7, kRate = 0.84;
    const bool data = direction_ == Direction::kBackwardData;
    const HopperSlices made = slices(p);
    const HopperTile tile = plan_of(d, of_parts(made.shapes[0]), point).tile;
    const double bytes_us = 1e3 * d.bandwidth_gbs * kRate;
    const double in =
        sum_over(made, [](const Problem& q) { return q.first_input().count(); }) + static_cast<double>(p.w.count());
    const double computed =
        sum_over(made, [&](const Problem& q) { return clocks(d, plan_of(d, of_parts(q), point), data); }) /
        (1e3 * kGhz);
    const double moved = (in * kParts * kPartBytes + static_cast<double>(p.output().count()) * kSize) / bytes_us;
    const double overlapped = std::sqrt(std::sqrt(std::pow(computed, 4) + std::pow(moved, 4)));
    return kStartUs + static_cast<double>(made.slices.size()) * kSliceUs +
           in * (kSize + kParts * kPartBytes) / bytes_us +
           overlapped * (tile.apart ? kApart : 1) * (tile.columns > 128 ? kWide : 1);
  }

  TuneSpace tune_space(const DeviceInfo&, const Problem& p) const override {
    TuneSpace space = cuda::hopper_space(of_parts(p));
    std::erase_if(space[0].values, [](int tile) {
      return tile >= static_cast<int>(std::size(cuda::kProductTiles)) || !takes_parts(cuda::kProductTiles[tile]);
    });
    return space;
  }

  bool is_valid(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    return all_slices(p, [&](const Problem& q) { return takes(d, q, point); });
  }
  TunePoint default_point(const DeviceInfo& d, const Problem& p) const override {
    return least_estimate(*this, d, p, valid_points(*this, d, p));
  }

  std::size_t workspace_size(const DeviceInfo&, const Problem& p, const TunePoint&) const override {
    std::int64_t most = 0;
    for (const Problem& slice : slices(p).shapes) most = std::max(most, copied_bytes(slice));
    return static_cast<std::size_t>(most);
  }

  std::vector<KernelSpec> kernel_specs(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    std::vector<KernelSpec> specs;
    add_split_specs(specs);
    for (const Problem& slice : slices(p).shapes) specs.push_back(Product(d, slice, point).kernel_spec());
    return specs;
  }

  Invoker assemble(const DeviceInfo& d, const Problem& p, const TunePoint& point, const Kernels& built) const override {
    const HopperSlices made = slices(p);
    std::vector<Product> products;
    for (const Problem& slice : made.shapes) products.emplace_back(d, slice, point);
    return [p, made, products, built](Stream& stream, const Args& a) {
      const bool data = p.direction == Direction::kBackwardData;
      char *const outside = flag_of(a), *const weights = outside + kAlignment, *const src = weights + part_bytes(p.w);
      stream.clear(outside, sizeof(unsigned));
      bool are_split = false;
      for (const auto& slice : made.slices) {
        const Problem& shape = made.shapes[slice.shape];
        const std::int64_t from = data ? slice.y : slice.x, to = data ? slice.x : slice.y;
        const Call c{element(data ? a.y : a.x, from),
                     a.w,
                     outside,
                     weights,
                     src,
                     const_cast<char*>(element(data ? a.x : a.y, to)),
                     a.residual ? element(a.residual, slice.y) : nullptr,
                     cuda::hopper_parameters(p, a),
                     cuda::hopper_scalars(a)};
        std::vector<Operand> operands = {{shape.first_input(), c.src, src}};
        if (!are_split) operands.emplace_back(p.w, a.w, weights);
        split(stream, built, operands, outside);
        are_split = true;
        products[slice.shape].run(stream, *built[kProducts + slice.shape], c);
      }
    };
  }

 private:
  static bool takes(const DeviceInfo& d, const Problem& q, const TunePoint& point) {
    if (point.size() != 3 || point[0] < 0 || point[0] >= static_cast<int>(std::size(cuda::kProductTiles))) return false;
    if (!takes_parts(cuda::kProductTiles[point[0]]) || !cuda::hopper_takes(d, q, point)) return false;
    // The sums of a wide tile leave too few registers for more.
    return cuda::kProductTiles[point[0]].columns <= 128 ||
           (point[1] == 1 && q.spatial() <= 2 && plan_of(d, q, point).one_phase);
  }

  static double clocks(const DeviceInfo& d, const HopperProduct& plan, bool data) {
    constexpr double kFlop = 4096, kL2Bytes = 61;                         // per clock
    constexpr double kStore = 0.15, kSplitStore = 2.1, kPromotion = 216;  // clocks: of an element of a tile, of a step
    const auto real = [](std::int64_t v) { return static_cast<double>(v); };
    const HopperTile& tile = plan.tile;
    const double elements = real(tile.rows()) * tile.columns;
    const double products = kPairs * 2 * elements * cuda::kHopperDepth / kFlop;
    const double loads = kParts * tile.stage_rows(data) * 128 / kL2Bytes;
    const double step = std::max(products, loads) + kPromotion;
    const std::int64_t blocks = cuda::hopper_steps(plan.shape.reduced);
    double sum = 0;
    for (const kernels::ConvPhase& phase : plan.phases) {
      const std::int64_t taps = std::int64_t{phase.taps[0]} * phase.taps[1] * phase.taps[2];
      const std::int64_t steps = std::max<std::int64_t>(1, ceil_div(taps * blocks, std::int64_t{plan.split}));
      const double own = real(steps) * step + kStore * elements * (plan.split > 1 ? kSplitStore : 1);
      const std::int64_t tiles = std::int64_t{phase.row_tiles} * plan.shape.column_tiles * plan.split;
      sum += own * (plan.phases.size() == 1 ? real(ceil_div(tiles, std::int64_t{d.units})) : real(tiles) / d.units);
    }
    return sum;
  }

  Direction direction_;
};

/// The arguments of ConvWeights for operands of parts.
struct WeightsArguments : kernels::ConvUnsplit {
  TensorMap x[kParts], dy[kParts];
  kernels::ConvWeightsShape shape;
  void *dw, *partials, *sums, *done;
};

class HopperSplitWeights final : public SplitSolver {
 public:
  using SplitSolver::SplitSolver;

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    if (const Verdict v = check(d, p, Direction::kBackwardWeights, most_bytes_); !v) return v;
    POLYMIO_REQUIRE(is_valid(d, p, {kNarrow, 1}), "at most 64 output channels, or more than 2^30 steps");
    return {};
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    constexpr double kGhz = 1.73, kFlop = 4096, kL2Bytes = 93, kPromotion = 216;
    constexpr double kStartUs = 4.8, kSliceUs = 1.7, kRate = 0.84, kSumBytes = 4.15e6;
    const auto real = [](std::int64_t v) { return static_cast<double>(v); };
    const double bytes_us = 1e3 * d.bandwidth_gbs * kRate;
    const double us = sum_over(slices(p), [&](const Problem& slice) {
      const auto plan = cuda::hopper_weights(d, of_parts(slice), point);
      const double elements = real(plan.tile.rows()) * plan.tile.columns;
      const double products = kPairs * 2 * elements * cuda::kHopperDepth / kFlop;
      const double loads = kParts * real(plan.tile.rows() + plan.tile.columns) * 128 / kL2Bytes;
      const double steps = real(ceil_div(std::int64_t{plan.shape.steps}, std::int64_t{plan.shape.groups}));
      const double clocks = real(ceil_div(plan.blocks, d.units)) * steps * (std::max(products, loads) + kPromotion);
      const double sums = plan.shape.has_parts ? 8 * real(plan.partials) / kSumBytes : 0;
      const double read = real(slice.x.count() + slice.y.count());
      return kSliceUs + sums + std::max(clocks / (1e3 * kGhz), read * kParts * kPartBytes / bytes_us) +
             read * (kSize + kParts * kPartBytes) / bytes_us;
    });
    return kStartUs + us;
  }

  TuneSpace tune_space(const DeviceInfo&, const Problem&) const override {
    return {{"tile", {kWide, kNarrow}}, {"parts", {1}}};
  }
  bool is_valid(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    return point.size() == 2 && (point[0] == kWide || point[0] == kNarrow) && point[1] == 1 &&
           all_slices(p, [&](const Problem& q) { return cuda::hopper_takes(d, q, point); });
  }
  TunePoint default_point(const DeviceInfo& d, const Problem& p) const override {
    return least_estimate(*this, d, p, valid_points(*this, d, p));
  }

  std::size_t workspace_size(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    std::int64_t most = 0;
    for (const Problem& slice : slices(p).shapes)
      most = std::max(most, copied_bytes(slice) + cuda::hopper_weights(d, of_parts(slice), point).partials * kSize);
    return static_cast<std::size_t>(most);
  }

  std::vector<KernelSpec> kernel_specs(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    const auto tile = cuda::hopper_weights(d, of_parts(p), point).tile;
    KernelSpec spec{"primitives/convolution/cuda/hopper_weights.cu", "conv_weights", {}};
    spec.generated = kernels::wgmma(tile.columns, "bf16", true, true);
    spec.instantiation = fmt::format("sm90::ConvWeights<sm90::SplitFloat, {}, {}, {}, {}, false>", p.spatial(),
                                     tile.row_blocks, tile.columns / 64, tile.stages);
    std::vector<KernelSpec> specs;
    add_split_specs(specs);
    specs.push_back(std::move(spec));
    specs.push_back({"primitives/convolution/gpu/columns.cl", "add_partials", {"-DIN=fp32", "-DOUT=fp32", "-DWIDE=0"}});
    return specs;
  }

  Invoker assemble(const DeviceInfo& d, const Problem& p, const TunePoint& point, const Kernels& built) const override {
    const HopperSlices made = slices(p);
    std::vector<cuda::HopperWeights> plans;
    for (const Problem& slice : made.shapes) plans.push_back(cuda::hopper_weights(d, of_parts(slice), point));
    return [made, plans, built](Stream& stream, const Args& a) {
      char *const outside = flag_of(a), *const parts = outside + kAlignment;
      stream.clear(outside, sizeof(unsigned));
      auto beta = static_cast<float>(a.beta);
      for (const auto& slice : made.slices) {
        const Problem& shape = made.shapes[slice.shape];
        const std::vector<Operand> operands = {{shape.x, element(a.x, slice.x), parts},
                                               {shape.y, element(a.y, slice.y), parts + part_bytes(shape.x)}};
        split(stream, built, operands, outside);
        multiply(stream, built, shape, plans[slice.shape], operands, outside, a.w, static_cast<float>(a.alpha), beta);
        beta = 1;  // adds to the slices before
      }
    };
  }

 private:
  static constexpr int kWide = 1, kNarrow = 3;  // of kWeightTiles
  static_assert(takes_parts(cuda::kWeightTiles[kWide]) && takes_parts(cuda::kWeightTiles[kNarrow]));

  static void multiply(Stream& stream, const Kernels& built, const Problem& p, const cuda::HopperWeights& plan,
                       const std::vector<Operand>& operands, const char* outside, void* dw, float alpha, float beta) {
    const Operand &x = operands[0], &dy = operands[1];
    WeightsArguments a{};
    static_cast<kernels::ConvUnsplit&>(a) = unsplit_of(p, x.data, dy.data, outside);
    for (std::int64_t part = 0; part < kParts; ++part) {
      a.x[part] = stream.tensor_map(plan.x, x.parts + part * x.size() * kPartBytes);
      a.dy[part] = stream.tensor_map(plan.dy, dy.parts + part * dy.size() * kPartBytes);
    }
    a.shape = plan.shape;
    a.shape.alpha = alpha;
    a.shape.beta = beta;
    a.dw = dw;
    a.partials = dy.parts + part_bytes(p.y);
    Launch shape = launch_shape(kThreads, plan.blocks);
    shape.shared_bytes = static_cast<std::uint32_t>(plan.tile.stages * (plan.tile.rows() + plan.tile.columns) * 128 +
                                                    2 * plan.tile.stages * 8);
    launch(stream, *built[kProducts], shape, a);
    if (plan.shape.has_parts)
      gpu::add_partials(stream, *built[kProducts + 1], {a.partials, dw, p.w.count(), plan.shape.groups}, alpha, beta);
  }
};

}  // namespace

std::unique_ptr<const GpuSolver<Problem>> cuda::make_hopper_split(const SolverInfo& info, Direction d,
                                                                  std::int64_t most_bytes) {
  if (d == Direction::kBackwardWeights) return std::make_unique<HopperSplitWeights>(info, most_bytes);
  return std::make_unique<HopperSplit>(info, d, most_bytes);
}
std::unique_ptr<const SolverBase> cuda_hopper_split(const SolverInfo& info, Direction d) {
  return cuda::make_hopper_split(info, d, cuda::kMostCopiedBytes);
}

}  // namespace polymio::convolution
