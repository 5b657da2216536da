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
using cuda::HopperTile;

constexpr std::int64_t kParts = 3, kPartBytes = 2, kPairs = 6;
constexpr std::int64_t kThreads = 384;                                        // as in hopper.cu
constexpr std::int64_t kSplitThreads = 256, kSplitUnit = 8, kSplitTile = 64;  // as in split.cl
constexpr std::int64_t kAlignment = 256;  // of parts in the workspace, which begins with a flag
constexpr int kSize = sizeof(float);

/// Channels first, and not also channels last.
bool is_planes(const TensorDesc& t) { return t.is_channels_first() && !t.is_channels_last(); }

/// The problem of as many images whose operands are parts, packed with channels last.
Problem of_parts(const Problem& p, std::int64_t images) {
  Problem q = p;
  q.x.lens[0] = q.y.lens[0] = images;
  for (TensorDesc* t : {&q.x, &q.w, &q.y}) {
    t->type = t->cast = DataType::kBFloat16;
    if (t != &q.output()) *t = cuda::channels_last(*t, t->lens[0], t->lens[1]);
  }
  return q;
}

std::int64_t part_bytes(std::int64_t elements) { return round_up(elements * kParts * kPartBytes, kAlignment); }

bool is_weights(const Problem& p) { return p.direction == Direction::kBackwardWeights; }

/// Bytes of the parts of so many images: of x or dy, or for the gradient of the weights of both.
std::int64_t image_bytes(const Problem& p, std::int64_t images) {
  const auto bytes = [&](const TensorDesc& t) { return part_bytes(t.count() / p.n() * images); };
  return bytes(p.first_input()) + (is_weights(p) ? bytes(p.y) : 0);
}

/// The images whose parts fit the workspace, and so many at a time.
struct Slices {
  std::int64_t images = 0, count = 0;  // of a slice, but for the last; 0: not even one image fits

  explicit Slices(const Problem& p) {
    constexpr std::int64_t kPartialBytes = 64 << 20;  // of gradients of the weights
    const std::int64_t left =
        cuda::kMostCopiedBytes - 2 * kAlignment - (is_weights(p) ? kPartialBytes : part_bytes(p.w.count()));
    const std::int64_t most = std::min(p.n(), left / image_bytes(p, 1));
    if (most < 1) return;
    images = ceil_div(p.n(), ceil_div(p.n(), most));
    count = ceil_div(p.n(), images);
  }
  std::int64_t last_images(const Problem& p) const { return p.n() - images * (count - 1); }
};

/// fp32 of as many images or filters that become parts.
struct Operand {
  const void* data;
  char* parts;
  std::int64_t outer, channels, pixels;
  bool planes;

  Operand(const TensorDesc& t, std::int64_t count, const void* from, char* to)
      : data(from),
        parts(to),
        outer(count),
        channels(t.lens[1]),
        pixels(t.count() / t.lens[0] / channels),
        planes(is_planes(t)) {}
  std::int64_t size() const { return outer * channels * pixels; }
};

/// Kernels of a solver: of the products, then these.
enum KernelNumber : std::size_t { kProducts, kSplitFloats, kSplitPlanes, kAddPartials };

void add_split_specs(std::vector<KernelSpec>& to) {
  for (const char* const entry : {"split_floats", "split_planes"})
    to.push_back({"primitives/convolution/cuda/split.cl", entry, {}});
}

void split(Stream& stream, const Kernels& built, const Operand& first, const Operand& second, Buffer outside) {
  const std::int64_t a = first.planes ? 0 : first.size(), b = second.planes ? 0 : second.size();
  if (a + b > 0)
    launch(stream, *built[kSplitFloats], launch_shape(kSplitThreads, ceil_div(a + b, kSplitThreads * kSplitUnit)),
           Buffer(first.data), Buffer(first.parts), a, Buffer(second.data), Buffer(second.parts), b, outside);
  for (const Operand* o : {&first, &second}) {
    if (!o->planes || o->outer == 0) continue;
    const std::int64_t tiles = ceil_div(o->channels, kSplitTile) * ceil_div(o->pixels, kSplitTile);
    launch(stream, *built[kSplitPlanes], launch_shape(kSplitThreads, o->outer * tiles), Buffer(o->data),
           Buffer(o->parts), gpu::narrow(o->channels), gpu::narrow(o->pixels), o->size(), outside);
  }
}

/// The workspace: a flag, then parts.
char* flag_of(const Problem::Args& a) {
  return reinterpret_cast<char*>(round_up(reinterpret_cast<std::intptr_t>(a.workspace), std::intptr_t{kAlignment}));
}

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

const char* images_after(const void* at, const TensorDesc& t, std::int64_t images) {
  return static_cast<const char*>(at) + images * meaningful_strides(t)[0] * kSize;
}

/// What both solvers ask of a problem.
Verdict check(const DeviceInfo& d, const Problem& p, Direction direction) {
  POLYMIO_REQUIRE(p.direction == direction, "serves another direction");
  if (const Verdict v = cuda::hopper_runs_on(d); !v) return v;
  POLYMIO_REQUIRE(p.all_types(DataType::kFloat) && !p.has_casts(), "not fp32");
  for (const TensorDesc* t : {&p.first_input(), &p.second_input()})
    POLYMIO_REQUIRE(t->is_channels_last() || t->is_channels_first(), "inputs that are not packed");
  const Problem q = of_parts(p, p.n());
  if (const Verdict v = cuda::hopper_serves(q); !v) return v;
  POLYMIO_REQUIRE(Slices(p).count > 0, "parts of an image need more than 512 MiB");
  return {};
}

TunePoint least_estimate(const SolverBase& solver, const DeviceInfo& d, const Problem& p) {
  TunePoint best;
  double least = 0;
  for (const TunePoint& point : valid_points(solver, d, p)) {
    const double us = solver.estimate(d, p, point);
    if (!best.empty() && us >= least) continue;
    best = point;
    least = us;
  }
  return best;
}

/// Sums of a step and of all steps are in registers.
constexpr bool takes_parts(const HopperTile& tile) { return tile.row_blocks * tile.columns <= 192; }

/// The plan of ConvProduct for operands that are three tensors, one after another, and results in fp32.
HopperProduct plan_of(const DeviceInfo& d, const Problem& q, const TunePoint& point) {
  HopperProduct plan = cuda::hopper_product(d, q, point);
  plan.weights.sizes[2] *= kParts;
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
  const void *residual, *bias, *scale;
  kernels::ConvScalars scalars;
};

/// The products of a slice.
class Product {
 public:
  Product(const DeviceInfo& d, const Problem& p, std::int64_t images, const TunePoint& point)
      : fp32_(p), problem_(of_parts(p, images)), plan_(plan_of(d, problem_, point)) {
    const std::int64_t tiles = plan_.shape.tiles;
    launch_ = launch_shape(kThreads, plan_.split > 1 ? tiles * plan_.split : std::min<std::int64_t>(tiles, d.units));
    launch_.cluster = static_cast<std::uint32_t>(plan_.split);
    launch_.shared_bytes =
        static_cast<std::uint32_t>(cuda::hopper_shared_bytes(problem_, plan_.tile, plan_.split, kSize));
  }

  std::int64_t images() const { return problem_.n(); }

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
    a.bias = c.bias;
    a.scale = c.scale;
    a.dst_data = c.dst;
    a.residual_data = c.residual;
    launch(stream, kernel, launch_, a);
  }

  Problem fp32_, problem_;
  HopperProduct plan_;
  Launch launch_;
};

/// How it computes is not what an fp32 solver usually does.
class SplitSolver : public GpuSolver<Problem>, public NamesArithmetic {
 public:
  using GpuSolver::GpuSolver;
  const char* arithmetic() const final {
    return "products of three bf16 parts of each operand, or of fp32 where parts cannot represent an operand";
  }
};

class HopperSplit final : public SplitSolver {
 public:
  HopperSplit(const SolverInfo& info, Direction d) : SplitSolver(info), direction_(d) {}

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override { return check(d, p, direction_); }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    // Fitted to times on an H200.
    constexpr double kGhz = 1.73, kFlop = 4096, kL2Bytes = 61;            // per clock
    constexpr double kStore = 0.15, kSplitStore = 2.1, kPromotion = 216;  // clocks: of an element of a tile, of a step
    constexpr double kApart = 1.2, kWide = 1.05;                          // times: tiles apart, of 192 columns
    constexpr double kStartUs = 4.8, kSliceUs = 1.7, kRate = 0.84;
    const auto real = [](std::int64_t v) { return static_cast<double>(v); };
    const Slices slices(p);
    const HopperProduct plan = plan_of(d, of_parts(p, slices.images), point);
    const HopperTile& tile = plan.tile;
    const double elements = real(tile.rows()) * tile.columns;
    const double products = kPairs * 2 * elements * cuda::kHopperDepth / kFlop;
    const double loads = kParts * tile.stage_rows(p.direction == Direction::kBackwardData) * 128 / kL2Bytes;
    const double step = std::max(products, loads) + kPromotion;
    const std::int64_t blocks = cuda::hopper_steps(plan.shape.reduced);
    double clocks = 0;
    for (const kernels::ConvPhase& phase : plan.phases) {
      const std::int64_t taps = std::int64_t{phase.taps[0]} * phase.taps[1] * phase.taps[2];
      const std::int64_t steps = std::max<std::int64_t>(1, ceil_div(taps * blocks, std::int64_t{plan.split}));
      const double own = real(steps) * step + kStore * elements * (plan.split > 1 ? kSplitStore : 1);
      const std::int64_t tiles = std::int64_t{phase.row_tiles} * plan.shape.column_tiles * plan.split;
      clocks += own * (plan.phases.size() == 1 ? real(ceil_div(tiles, std::int64_t{d.units})) : real(tiles) / d.units);
    }
    const double bytes_us = 1e3 * d.bandwidth_gbs * kRate;
    const double in = real(p.first_input().count() + p.w.count()), out = real(p.output().count());
    const double computed = real(slices.count) * clocks / (1e3 * kGhz);
    const double moved = (in * kParts * kPartBytes + out * kSize) / bytes_us;
    const double overlapped = std::sqrt(std::sqrt(std::pow(computed, 4) + std::pow(moved, 4)));
    return kStartUs + real(slices.count) * kSliceUs + in * (kSize + kParts * kPartBytes) / bytes_us +
           overlapped * (tile.apart ? kApart : 1) * (tile.columns > 128 ? kWide : 1);
  }

  TuneSpace tune_space(const DeviceInfo&, const Problem& p) const override {
    TuneSpace space = cuda::hopper_space(of_parts(p, p.n()));
    std::erase_if(space[0].values, [](int tile) {
      return tile >= static_cast<int>(std::size(cuda::kProductTiles)) || !takes_parts(cuda::kProductTiles[tile]);
    });
    return space;
  }

  bool is_valid(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    const auto tiles = tune_space(d, p)[0].values;
    if (point.size() != 3 || std::ranges::find(tiles, point[0]) == tiles.end()) return false;
    const Problem q = of_parts(p, Slices(p).images);
    if (!cuda::hopper_takes(d, q, point)) return false;
    // The sums of a wide tile leave too few registers for more.
    return cuda::kProductTiles[point[0]].columns <= 128 ||
           (point[1] == 1 && p.spatial() <= 2 && plan_of(d, q, point).one_phase);
  }

  TunePoint default_point(const DeviceInfo& d, const Problem& p) const override { return least_estimate(*this, d, p); }

  std::size_t workspace_size(const DeviceInfo&, const Problem& p, const TunePoint&) const override {
    return static_cast<std::size_t>(2 * kAlignment + part_bytes(p.w.count()) + image_bytes(p, Slices(p).images));
  }

  std::vector<KernelSpec> kernel_specs(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    std::vector<KernelSpec> specs = {Product(d, p, Slices(p).images, point).kernel_spec()};
    add_split_specs(specs);
    return specs;
  }

  Invoker assemble(const DeviceInfo& d, const Problem& p, const TunePoint& point, const Kernels& built) const override {
    const Slices slices(p);
    const Product product(d, p, slices.images, point), last(d, p, slices.last_images(p), point);
    return [p, slices, product, last, built](Stream& stream, const Args& a) {
      const bool data = p.direction == Direction::kBackwardData;
      char *const outside = flag_of(a), *const weight_parts = outside + kAlignment;
      Call c{data ? a.y : a.x, a.w,        outside, weight_parts, weight_parts + part_bytes(p.w.count()),
             data ? a.x : a.y, a.residual, a.bias,  a.scale,      cuda::hopper_scalars(a)};
      stream.clear(outside, sizeof(unsigned));
      for (std::int64_t slice = 0; slice < slices.count; ++slice) {
        const Product& now = slice + 1 < slices.count ? product : last;
        split(stream, built, {p.first_input(), now.images(), c.src, c.src_parts},
              {p.w, slice == 0 ? p.k() : 0, c.weights, c.weight_parts}, outside);  // the weights once
        now.run(stream, *built[kProducts], c);
        c.src = images_after(c.src, p.first_input(), now.images());
        c.dst = const_cast<char*>(images_after(c.dst, p.output(), now.images()));
        if (c.residual) c.residual = images_after(c.residual, p.y, now.images());
      }
    };
  }

 private:
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
  explicit HopperSplitWeights(const SolverInfo& info) : SplitSolver(info) {}

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    if (const Verdict v = check(d, p, Direction::kBackwardWeights); !v) return v;
    POLYMIO_REQUIRE(is_valid(d, p, {kNarrow, 1}), "at most 64 output channels, or more than 2^30 steps");
    return {};
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    constexpr double kGhz = 1.73, kFlop = 4096, kL2Bytes = 93, kPromotion = 216;
    constexpr double kStartUs = 4.8, kSliceUs = 1.7, kRate = 0.84, kPartBytes = 4.15e6;
    const Slices slices(p);
    const auto plan = cuda::hopper_weights(d, of_parts(p, slices.images), point);
    const auto real = [](std::int64_t v) { return static_cast<double>(v); };
    const double elements = real(plan.tile.rows()) * plan.tile.columns;
    const double products = kPairs * 2 * elements * cuda::kHopperDepth / kFlop;
    const double loads = kParts * real(plan.tile.rows() + plan.tile.columns) * 128 / kL2Bytes;
    const double steps = real(ceil_div(std::int64_t{plan.shape.steps}, std::int64_t{plan.shape.groups}));
    const double clocks = real(ceil_div(plan.blocks, d.units)) * steps * (std::max(products, loads) + kPromotion);
    const double bytes_us = 1e3 * d.bandwidth_gbs * kRate, in = real(p.x.count() + p.y.count());
    const double sums = plan.shape.has_parts ? 8 * real(plan.partials) / kPartBytes : 0;
    return kStartUs +
           real(slices.count) *
               (kSliceUs + sums + std::max(clocks / (1e3 * kGhz), in * 6 / real(slices.count) / bytes_us)) +
           in * 10 / bytes_us;
  }

  TuneSpace tune_space(const DeviceInfo&, const Problem&) const override {
    return {{"tile", {kWide, kNarrow}}, {"parts", {1}}};
  }
  bool is_valid(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    if (point.size() != 2 || (point[0] != kWide && point[0] != kNarrow) || point[1] != 1) return false;
    return cuda::hopper_takes(d, of_parts(p, Slices(p).images), point);
  }
  TunePoint default_point(const DeviceInfo& d, const Problem& p) const override { return least_estimate(*this, d, p); }

  std::size_t workspace_size(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    const Slices slices(p);
    std::int64_t partials = 0;
    for (const std::int64_t images : {slices.images, slices.last_images(p)})
      partials = std::max(partials, cuda::hopper_weights(d, of_parts(p, images), point).partials);
    return static_cast<std::size_t>(2 * kAlignment + image_bytes(p, slices.images) + partials * kSize);
  }

  std::vector<KernelSpec> kernel_specs(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    const auto tile = cuda::hopper_weights(d, of_parts(p, 1), point).tile;
    KernelSpec spec{"primitives/convolution/cuda/hopper_weights.cu", "conv_weights", {}};
    spec.generated = kernels::wgmma(tile.columns, "bf16", true, true);
    spec.instantiation = fmt::format("sm90::ConvWeights<sm90::SplitFloat, {}, {}, {}, {}, false>", p.spatial(),
                                     tile.row_blocks, tile.columns / 64, tile.stages);
    std::vector<KernelSpec> specs = {spec};
    add_split_specs(specs);
    specs.push_back({"primitives/convolution/gpu/columns.cl", "add_partials", {"-DIN=fp32", "-DOUT=fp32", "-DWIDE=0"}});
    return specs;
  }

  Invoker assemble(const DeviceInfo& d, const Problem& p, const TunePoint& point, const Kernels& built) const override {
    const Slices slices(p);
    const auto plan_for = [&](std::int64_t images) { return cuda::hopper_weights(d, of_parts(p, images), point); };
    const cuda::HopperWeights plans[] = {plan_for(slices.images), plan_for(slices.last_images(p))};
    return [p, slices, plan = plans[0], last = plans[1], built](Stream& stream, const Args& a) {
      char* const outside = flag_of(a);
      const void *x = a.x, *dy = a.y;
      const auto alpha = static_cast<float>(a.alpha);
      stream.clear(outside, sizeof(unsigned));
      for (std::int64_t slice = 0; slice < slices.count; ++slice) {
        const bool ends = slice + 1 == slices.count;
        const std::int64_t images = ends ? slices.last_images(p) : slices.images;
        char* const parts = outside + kAlignment;
        const Operand first(p.x, images, x, parts),
            second(p.y, images, dy, parts + part_bytes(p.x.count() / p.n() * images));
        split(stream, built, first, second, outside);
        const float beta = slice == 0 ? static_cast<float>(a.beta) : 1;  // adds to the slices before
        multiply(stream, built, p, ends ? last : plan, first, second, outside, a.w, alpha, beta);
        x = images_after(x, p.x, images);
        dy = images_after(dy, p.y, images);
      }
    };
  }

 private:
  static constexpr int kWide = 1, kNarrow = 3;  // of kWeightTiles
  static_assert(takes_parts(cuda::kWeightTiles[kWide]) && takes_parts(cuda::kWeightTiles[kNarrow]));

  static void multiply(Stream& stream, const Kernels& built, const Problem& p, const cuda::HopperWeights& plan,
                       const Operand& x, const Operand& dy, const char* outside, void* dw, float alpha, float beta) {
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
    a.partials = dy.parts + part_bytes(dy.size());
    Launch shape = launch_shape(kThreads, plan.blocks);
    shape.shared_bytes = static_cast<std::uint32_t>(plan.tile.stages * (plan.tile.rows() + plan.tile.columns) * 128 +
                                                    2 * plan.tile.stages * 8);
    launch(stream, *built[kProducts], shape, a);
    if (plan.shape.has_parts)
      gpu::add_partials(stream, *built[kAddPartials], {a.partials, dw, p.w.count(), plan.shape.groups}, alpha, beta);
  }
};

}  // namespace

std::unique_ptr<const SolverBase> cuda_hopper_split(const SolverInfo& info, Direction d) {
  if (d == Direction::kBackwardWeights) return std::make_unique<HopperSplitWeights>(info);
  return std::make_unique<HopperSplit>(info, d);
}

}  // namespace polymio::convolution
