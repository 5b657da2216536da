// ConvHopper: convolutions of channels-last tensors on the matrix units of NVIDIA's sm90: of 16 bits and of fp32 with
// products in TF32 in three directions, of 8-bit floats in two, of int8 forward. Pixels are gathered by the copy
// engine: no im2col matrix, and workspace only for partial gradients of the weights and for weights with swapped
// channels.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <memory>

#include "base/math.h"
#include "kernels/gpu/wgmma.h"
#include "primitives/convolution/cuda/hopper.h"
#include "primitives/convolution/cuda/hopper_plan.h"
#include "primitives/convolution/gpu/arguments.h"

namespace polymio::convolution {
namespace {

using cuda::HopperHalo;
using cuda::HopperHaloWeights;
using cuda::HopperProduct;
using cuda::HopperWeights;

constexpr std::int64_t kThreads = 384;                                         // as in the kernels
constexpr std::int64_t kSwapThreads = 256, kSwapTile32 = 32, kSwapTile8 = 64;  // as in swap_channels.cl

/// The arguments of ConvHalo.
struct HaloArguments {
  TensorMap weights, src, half_weights, half_src, dst, residual;
  kernels::ConvHaloShape shape;
  kernels::ConvChannelParameters parameters;
  void* dst_data;
};

/// The arguments of ConvWeights.
struct WeightsArguments {
  TensorMap x, dy;
  kernels::ConvWeightsShape shape;
  void *dw, *partials, *sums, *done;
};

std::string element_of(DataType t, Rounding rounding = Rounding::kStandard) {
  const bool dithers = rounding == Rounding::kStochastic;
  switch (t) {
    case DataType::kHalf: return "sm90::Half";
    case DataType::kBFloat16: return "sm90::Bfloat16";
    case DataType::kInt32: return "sm90::Int32";
    case DataType::kInt8: return "sm90::Signed8";
    case DataType::kFloat8E4m3fn: return fmt::format("sm90::Result8<4, false, {}>", dithers);
    case DataType::kFloat8E5m2: return fmt::format("sm90::Result8<5, false, {}>", dithers);
    case DataType::kFloat8Fnuz: return fmt::format("sm90::Result8<4, true, {}>", dithers);
    case DataType::kBFloat8Fnuz: return fmt::format("sm90::Result8<5, true, {}>", dithers);
    default: return "sm90::Tf32";
  }
}
/// Of forward and backward data.
std::string element_of(const Problem& p) {
  const std::string result = element_of(p.output().type, p.rounding);
  if (p.w.type == DataType::kInt8) return fmt::format("sm90::Int8<{}, {}>", result, p.scalars != Scalars::kDefault);
  if (is_fp8(p.w.type)) return fmt::format("sm90::Float8<{}>", result);
  return p.output().type == p.w.type ? result : fmt::format("sm90::Float16<{}>", result);
}

const char* wgmma_type(DataType t) {
  switch (t) {
    case DataType::kHalf: return "f16";
    case DataType::kBFloat16: return "bf16";
    case DataType::kInt8: return "s8";
    case DataType::kFloat8E4m3fn: return "e4m3";
    case DataType::kFloat8E5m2: return "e5m2";
    default: return "tf32";
  }
}

/// The arguments of ConvHaloWeights.
struct HaloWeightsArguments {
  TensorMap x, dy;
  kernels::ConvHaloWeightsShape shape;
  void *dw, *partials;
};

/// The workspace, aligned as the kernels need.
char* workspace_of(const Problem::Args& a) { return gpu::align_up(a.workspace, 16); }

class Hopper final : public GpuSolver<Problem> {
 public:
  Hopper(const SolverInfo& info, Direction d) : GpuSolver(info), direction_(d) {}

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    POLYMIO_REQUIRE(p.direction == direction_, "serves another direction");
    if (const Verdict v = cuda::hopper_runs_on(d); !v) return v;
    return cuda::hopper_serves(p);
  }

  ErrorClass error_class(const Problem& p) const override {
    const DataType t = p.first_input().type;
    return t == DataType::kInt8 ? ErrorClass::kExact : size_of(t) == 2 ? ErrorClass::kAccurate : ErrorClass::kReduced;
  }
  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    return cuda::hopper_estimate(d, p, point);
  }
  TuneSpace tune_space(const DeviceInfo&, const Problem& p) const override { return cuda::hopper_space(p); }
  bool is_valid(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    return cuda::hopper_takes(d, p, point);
  }
  TunePoint default_point(const DeviceInfo& d, const Problem& p) const override { return cuda::hopper_default(d, p); }

  std::size_t workspace_size(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    if (direction_ != Direction::kBackwardWeights)
      return cuda::hopper_swaps_weights(p) ? gpu::sum_bytes(static_cast<std::int64_t>(p.w.bytes()) / 4) : 0;
    if (cuda::hopper_has_halo(p, point)) {
      const int parts = cuda::hopper_halo_weights(d, p).shape.parts;
      return parts == 1 ? 0 : gpu::sum_bytes(parts * p.w.count());
    }
    const HopperWeights plan = cuda::hopper_weights(d, p, point);
    return gpu::sum_bytes(plan.partials + plan.sums + plan.blocks);
  }

  std::vector<KernelSpec> kernel_specs(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    return direction_ == Direction::kBackwardWeights ? weights_specs(d, p, point) : product_specs(d, p, point);
  }

  Invoker assemble(const DeviceInfo& d, const Problem& p, const TunePoint& point, const Kernels& built) const override {
    const bool halo = cuda::hopper_has_halo(p, point);
    if (direction_ == Direction::kBackwardWeights)
      return halo ? assemble_halo_weights(d, p, built) : assemble_weights(d, p, point, built);
    if (halo) return assemble_halo(d, p, built);
    const HopperProduct plan = cuda::hopper_product(d, p, point);
    return plan.one_phase ? assemble_product<1>(d, p, plan, built)
                          : assemble_product<HopperProduct::kMaxPhases>(d, p, plan, built);
  }

 private:
  std::vector<KernelSpec> product_specs(const DeviceInfo& d, const Problem& p, const TunePoint& point) const {
    const bool transposed = cuda::hopper_transposes_weights(p);
    const std::size_t size = size_of(p.x.type);
    KernelSpec spec;
    if (cuda::hopper_has_halo(p, point)) {
      const HopperHalo plan = cuda::hopper_halo(p);
      spec = {"primitives/convolution/cuda/hopper_halo.cu", "conv_halo", {}};
      spec.generated = kernels::wgmma(plan.columns, wgmma_type(p.x.type), transposed, false);
      spec.instantiation =
          fmt::format("sm90::ConvHalo<{}, {}, {}, {}, {}, {}>", element_of(p.x.type), transposed, plan.columns,
                      HopperHalo::halos(size), HopperHalo::stages(size), cuda::hopper_epilogue(p));
    } else {
      const HopperProduct plan = cuda::hopper_product(d, p, point);
      const auto& tile = plan.tile;
      spec = {"primitives/convolution/cuda/hopper.cu", "conv_product", {}};
      spec.generated = size_of(p.w.type) == 1 ? kernels::wgmma_of_bytes(tile.columns, wgmma_type(p.first_input().type),
                                                                        wgmma_type(p.w.type))
                                              : kernels::wgmma(tile.columns, wgmma_type(p.w.type), false, transposed);
      spec.instantiation =
          fmt::format("sm90::ConvProduct<{}, {}, {}, {}, {}, {}, {}, {}, {}, {}>", element_of(p), p.spatial(),
                      transposed, tile.row_blocks, tile.columns, tile.stages, tile.apart, plan.split,
                      cuda::hopper_epilogue(p), plan.one_phase ? 1 : HopperProduct::kMaxPhases);
    }
    if (!cuda::hopper_swaps_weights(p)) return {spec};
    return {spec,
            {"primitives/convolution/cuda/swap_channels.cl",
             "swap_channels",
             {fmt::format("-DBYTES={}", size_of(p.w.type))}}};
  }

  static std::vector<KernelSpec> weights_specs(const DeviceInfo& d, const Problem& p, const TunePoint& point) {
    KernelSpec spec;
    bool has_partials = false;
    const bool by_warps = size_of(p.x.type) == 4;
    const std::string element =
        p.w.type == p.x.type ? element_of(p.x.type) : fmt::format("sm90::Float16<{}>", element_of(p.w.type));
    if (cuda::hopper_has_halo(p, point)) {
      const HopperHaloWeights plan = cuda::hopper_halo_weights(d, p);
      has_partials = plan.shape.parts > 1;
      spec = {"primitives/convolution/cuda/hopper_halo_weights.cu", "conv_halo_weights", {}};
      if (!by_warps) spec.generated = kernels::wgmma(64 * gpu::narrow(p.filter(1)), wgmma_type(p.x.type), true, true);
      spec.instantiation = fmt::format("sm90::ConvHaloWeights<{}, {}, {}, {}, {}>", element, p.filter(0), p.filter(1),
                                       plan.pixels, HopperHaloWeights::kStages);
    } else {
      const HopperWeights plan = cuda::hopper_weights(d, p, point);
      const auto& tile = plan.tile;
      has_partials = plan.partials > 0;
      spec = {"primitives/convolution/cuda/hopper_weights.cu", "conv_weights", {}};
      if (!by_warps) spec.generated = kernels::wgmma(tile.columns, wgmma_type(p.x.type), true, true);
      spec.instantiation = fmt::format("sm90::ConvWeights<{}, {}, {}, {}, {}, {}>", element, p.spatial(),
                                       tile.row_blocks, tile.columns / 64, tile.stages, tile.apart);
    }
    if (!has_partials) return {spec};
    const std::string type(name_of(p.w.type));
    return {spec,
            {"primitives/convolution/gpu/columns.cl", "add_partials", {"-DIN=" + type, "-DOUT=" + type, "-DWIDE=0"}}};
  }

  /// The weights as the kernel reads them, in the workspace if their channels are swapped.
  static const void* weights_of(Stream& stream, const Problem& p, const Args& a, const Kernels& built) {
    if (!cuda::hopper_swaps_weights(p)) return a.w;
    const std::int64_t taps = cuda::hopper_taps(p), outputs = p.k() / p.groups(), channels = p.c() / p.groups();
    const std::int64_t tile = size_of(p.w.type) == 1 ? kSwapTile8 : kSwapTile32,
                       tiles = p.groups() * ceil_div(outputs, tile) * ceil_div(channels, tile) * taps;
    const Buffer swapped(workspace_of(a));
    launch(stream, *built[1], launch_shape(kSwapThreads, tiles), Buffer(a.w), swapped, gpu::narrow(outputs),
           gpu::narrow(taps), gpu::narrow(channels));
    return swapped.handle;
  }

  template <int kPhases>
  Invoker assemble_product(const DeviceInfo& d, const Problem& p, const HopperProduct& plan,
                           const Kernels& built) const {
    const bool data = direction_ == Direction::kBackwardData;
    Launch shape = launch_shape(
        kThreads, plan.split > 1 ? plan.shape.tiles * plan.split : std::min<std::int64_t>(plan.shape.tiles, d.units));
    shape.cluster = static_cast<std::uint32_t>(plan.split);
    shape.shared_bytes =
        static_cast<std::uint32_t>(cuda::hopper_shared_bytes(p, plan.tile, plan.split, size_of(p.output().type)));
    const bool planes = cuda::hopper_writes_planes(p);
    return [p, plan, built, shape, data, planes](Stream& stream, const Args& a) {
      void* const dst = data ? a.x : a.y;
      cuda::HopperProductArguments<kPhases> arguments;
      arguments.weights = stream.tensor_map(plan.weights, weights_of(stream, p, a, built));
      arguments.residual = p.epilogue.residual ? stream.tensor_map(plan.dst[0], a.residual) : arguments.weights;
      if constexpr (kPhases == 1) {
        if (plan.shape.halves) {
          arguments.half_weights = stream.tensor_map(plan.half_weights, a.w);
          arguments.half_src = stream.tensor_map(plan.half_src, data ? a.y : a.x);
        }
      }
      for (std::size_t i = 0; i < plan.phases.size(); ++i) {
        arguments.src[i] = stream.tensor_map(plan.src[i], data ? a.y : a.x);
        if (!planes)
          arguments.dst[i] =
              stream.tensor_map(plan.dst[i], static_cast<char*>(dst) +
                                                 plan.dst_at[i] * static_cast<std::int64_t>(size_of(p.output().type)));
        arguments.phase[i] = plan.phases[i];
      }
      arguments.shape = plan.shape;
      arguments.shape.scalars = cuda::hopper_scalars(a);
      arguments.parameters = cuda::hopper_parameters(p, a);
      arguments.dst_data = dst;
      arguments.residual_data = a.residual;
      launch(stream, *built[0], shape, arguments);
    };
  }

  Invoker assemble_halo(const DeviceInfo& d, const Problem& p, const Kernels& built) const {
    const HopperHalo plan = cuda::hopper_halo(d, p);
    const std::size_t size = size_of(p.x.type);
    Launch shape = launch_shape(kThreads, plan.blocks);
    shape.shared_bytes = static_cast<std::uint32_t>(HopperHalo::stages(size) * 8192 + 1024 +
                                                    HopperHalo::halos(size) * plan.shape.halo_bytes);
    const bool data = direction_ == Direction::kBackwardData;
    const bool planes = cuda::hopper_writes_planes(p);
    return [p, plan, built, shape, data, planes](Stream& stream, const Args& a) {
      void* const dst = data ? a.x : a.y;
      void* const src = data ? a.y : a.x;
      const void* const weights = weights_of(stream, p, a, built);
      HaloArguments arguments{stream.tensor_map(plan.weights, weights),
                              stream.tensor_map(plan.src, src),
                              {},
                              {},
                              planes ? TensorMap{} : stream.tensor_map(plan.dst, dst),
                              {},
                              plan.shape,
                              cuda::hopper_parameters(p, a),
                              dst};
      if (plan.half_src.rank > 0) {
        arguments.half_weights = stream.tensor_map(plan.half_weights, weights);
        arguments.half_src = stream.tensor_map(plan.half_src, src);
      }
      if (p.epilogue.residual) arguments.residual = stream.tensor_map(plan.dst, a.residual);
      arguments.shape.scalars = cuda::hopper_scalars(a);
      launch(stream, *built[0], shape, arguments);
    };
  }

  static Invoker assemble_halo_weights(const DeviceInfo& d, const Problem& p, const Kernels& built) {
    const HopperHaloWeights plan = cuda::hopper_halo_weights(d, p);
    Launch shape = launch_shape(128 * (1 + p.filter(0)), std::min(plan.shape.works, d.units));
    shape.shared_bytes = static_cast<std::uint32_t>(1024 + HopperHaloWeights::kStages * plan.shape.stage_bytes);
    return [p, plan, built, shape](Stream& stream, const Args& a) {
      HaloWeightsArguments arguments{stream.tensor_map(plan.x, a.x), stream.tensor_map(plan.dy, a.y), plan.shape, a.w,
                                     workspace_of(a)};
      const auto alpha = static_cast<float>(a.alpha), beta = static_cast<float>(a.beta);
      arguments.shape.alpha = alpha;
      arguments.shape.beta = beta;
      launch(stream, *built[0], shape, arguments);
      if (plan.shape.parts > 1)
        gpu::add_partials(stream, *built[1], {a.workspace, a.w, p.w.count(), plan.shape.parts}, alpha, beta);
    };
  }

  static Invoker assemble_weights(const DeviceInfo& d, const Problem& p, const TunePoint& point, const Kernels& built) {
    const HopperWeights plan = cuda::hopper_weights(d, p, point);
    Launch shape = launch_shape(kThreads, plan.blocks);
    shape.shared_bytes = static_cast<std::uint32_t>(plan.tile.stages * (plan.tile.rows() + plan.tile.columns) * 128 +
                                                    2 * plan.tile.stages * 8);
    return [p, plan, built, shape](Stream& stream, const Args& a) {
      char* const partials = workspace_of(a);
      char *const sums = partials + plan.partials * 4, *const done = sums + plan.sums * 4;
      WeightsArguments arguments{
          stream.tensor_map(plan.x, a.x), stream.tensor_map(plan.dy, a.y), plan.shape, a.w, partials, sums, done};
      const auto alpha = static_cast<float>(a.alpha), beta = static_cast<float>(a.beta);
      arguments.shape.alpha = alpha;
      arguments.shape.beta = beta;
      if (!plan.shape.has_parts && plan.shape.groups > 1) stream.clear(done, static_cast<std::size_t>(plan.blocks) * 4);
      launch(stream, *built[0], shape, arguments);
      if (plan.shape.has_parts)
        gpu::add_partials(stream, *built[1], {a.workspace, a.w, p.w.count(), plan.shape.groups}, alpha, beta);
    };
  }

  Direction direction_;
};

}  // namespace

std::string cuda::hopper_epilogue(const Problem& p) {
  const char* const addend = p.epilogue.residual               ? "sm90::kResidual"
                             : p.scalars == Scalars::kBilinear ? "sm90::kOld"
                                                               : "sm90::kNone";
  return fmt::format("{}, {}, {}, {}, {}", addend, p.epilogue.bias, p.epilogue.scale, p.epilogue.activation,
                     hopper_writes_planes(p));
}

kernels::ConvChannelParameters cuda::hopper_parameters(const Problem& p, const Problem::Args& a) {
  const auto floats = [](const void* v) { return static_cast<const float*>(v); };
  const int channels = gpu::narrow(a.parameter_channels > 0 ? a.parameter_channels : p.k());
  if (!p.epilogue.norm) return {a.bias, floats(a.scale), nullptr, nullptr, nullptr, 0, channels};
  return {a.bias,
          floats(a.norm_scale),
          floats(a.norm_bias),
          floats(a.norm_mean),
          floats(a.norm_variance),
          static_cast<float>(a.norm_epsilon),
          channels};
}

kernels::ConvScalars cuda::hopper_scalars(const Problem::Args& a) {
  const auto narrow = [](double v) { return static_cast<float>(v); };
  return {narrow(a.alpha),
          narrow(a.beta),
          narrow(a.residual_alpha),
          narrow(a.activation_alpha),
          narrow(a.activation_beta),
          narrow(a.activation_gamma),
          a.alpha,
          a.beta,
          a.seed};
}

std::unique_ptr<const GpuSolver<Problem>> cuda::make_hopper(const SolverInfo& info, Direction d) {
  return std::make_unique<Hopper>(info, d);
}

std::unique_ptr<const SolverBase> cuda_hopper(const SolverInfo& info, Direction d) {
  return cuda::make_hopper(info, d);
}

}  // namespace polymio::convolution
