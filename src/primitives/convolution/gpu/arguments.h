// Kernel arguments, launch shapes and checks that the solvers for GPUs share.
// SPDX-License-Identifier: MIT
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/math.h"
#include "core/kernel_builder.h"
#include "kernels/gpu/portable/conv_args.h"
#include "kernels/gpu/portable/conv_shapes.h"
#include "primitives/convolution/convolution.h"

namespace polymio::convolution::gpu {

kernels::ConvSizes sizes_of(const Problem&);
kernels::ConvSteps steps_of(const Problem&);
kernels::ConvStrides strides_of(const Problem&);

/// A depthwise problem with two spatial dimensions. Backward data with stride 1 is described as a forward convolution
/// with the flipped filter, hence with its padding.
kernels::DepthwiseShape depthwise_shape(const Problem&);

/// What all portable kernels need: the device's arithmetic, no epilogue unless `fuses`.
Verdict check_device(const DeviceInfo&, const Problem&, bool fuses = false);

/// The same, and neither 8-bit floats nor casts.
Verdict check_types(const DeviceInfo&, const Problem&, bool fuses = false);

/// The same for the specialised kernels: all tensors fp32, fp16 or bf16, and check_sizes.
Verdict check_planes(const DeviceInfo&, const Problem&, Direction, bool fuses = false, int most_dimensions = 2);

/// Spatial dimensions, and sizes that fit the 32-bit indices of kernels.
Verdict check_sizes(const Problem&, int most_dimensions = 2);

inline int narrow(std::int64_t v) { return static_cast<int>(v); }

/// The first address in a workspace that is a multiple of `alignment` bytes.
inline char* align_up(void* workspace, std::int64_t alignment) {
  return reinterpret_cast<char*>(round_up(reinterpret_cast<std::intptr_t>(workspace), alignment));
}

/// Steps along the last two dimensions.
template <class Shape>
void set_steps(Shape& s, const kernels::ConvSteps& t) {
  s.stride_h = narrow(t.stride[1]);
  s.stride_w = narrow(t.stride[2]);
  s.dilation_h = narrow(t.dilation[1]);
  s.dilation_w = narrow(t.dilation[2]);
}

/// The only spatial dimension along which anything has more than one element, if there is one.
std::optional<int> long_dimension(const Problem&);

kernels::Divider divider(std::int64_t divisor);

/// Whether all three tensors begin at multiples of 16 bytes.
bool aligned(const Problem::Args&);

kernels::EpilogueScalars epilogue_scalars(const Problem::Args&);

/// Whether kernels that scale each channel, add a bias and apply an activation fuse the epilogue. `takes_norm`: their
/// scale and bias may be those of a batch norm, from its parameters.
Verdict check_channel_epilogue(const Problem&, bool takes_norm = false);

/// Adds the options of epilogue.h.
void add_epilogue_options(const Epilogue&, std::vector<std::string>* options);
/// Adds those of depthwise_epilogue.h: none without an epilogue.
void add_fused_options(const Epilogue&, std::vector<std::string>* options);

/// Per channel, for epilogue.h; the weights in place of what the epilogue does not have.
struct EpilogueOperands {
  Buffer bias, scale;
};
EpilogueOperands epilogue_operands(const Epilogue&, const Problem::Args&);

/// Calls `run` with the arguments that CHANNEL_PARAMETERS of epilogue.h lists.
template <class Run>
void with_channel_parameters(const Epilogue& e, const Problem::Args& a, const Run& run) {
  if (!e.norm) {
    const auto [bias, scale] = epilogue_operands(e, a);
    return run(bias, scale);
  }
  run(Buffer(a.bias ? a.bias : a.w), Buffer(a.norm_scale), Buffer(a.norm_bias), Buffer(a.norm_mean),
      Buffer(a.norm_variance), kernels::EpilogueNorm{static_cast<float>(a.norm_epsilon), a.bias != nullptr});
}

/// Bytes of the three tensors.
double tensor_bytes(const Problem&);

/// The options of conv_elements.h, and -DFP64.
std::vector<std::string> type_options(const DeviceInfo&, const Problem&);

/// The kernel `name` and, for weights, add_partials of the same source; then, if `unaligned`, both with -DUNALIGNED.
std::vector<KernelSpec> kernel_variants(const std::string& source, const std::string& name,
                                        std::vector<std::string> options, bool weights, bool unaligned = true);

/// Whether a kernel that begins with WAIT_FOR_EARLIER_KERNEL may be launched before the one that it waits for ends.
bool launches_early(const DeviceInfo&);

/// `parts` partial results of `count` fp32 elements, from element `sums_at` of `sums` on; result from `result_at` on.
struct Partials {
  Buffer sums, result;
  std::int64_t count;
  int parts;
  std::int64_t sums_at = 0, result_at = 0;
  std::optional<std::uint64_t> seed = {};  // of a kernel with DITHERS_OUT
};
/// result = alpha * their sum + beta * result, by add_partials (kernels/gpu/portable/partials.h).
void add_partials(Stream&, const Kernel&, const Partials&, float alpha, float beta);

/// Bytes of workspace for `count` fp32 sums: kernels align the workspace themselves.
constexpr std::size_t sum_bytes(std::int64_t count) {
  constexpr std::int64_t kSlack = 16;
  return count == 0 ? 0 : static_cast<std::size_t>(count * 4 + kSlack);
}

/// How kernel_variants() are launched. Backward weights: elements of w, and partial results of each.
struct Variants {
  Direction direction;
  std::int64_t weight_count;
  int parts;
  bool unaligned = true;
  Epilogue epilogue = {};  // of kernels that end with the parameters of depthwise_epilogue.h
};

/// Launches a kernel of kernel_variants() with the inputs, the output, `rest`, alpha and beta, and with the epilogue if
/// there is one; for weights with x, dy, the workspace and `rest`, then add_partials.
template <class... T>
void launch_variant(Stream& stream, const Kernels& built, const Variants& v, const Launch& shape,
                    const Problem::Args& a, const T&... rest) {
  const bool data = v.direction == Direction::kBackwardData, weights = v.direction == Direction::kBackwardWeights;
  const std::size_t first = !v.unaligned || aligned(a) ? 0 : weights ? 2 : 1;
  const auto alpha = static_cast<float>(a.alpha), beta = static_cast<float>(a.beta);
  const Buffer x(a.x), w(a.w), y(a.y), workspace(a.workspace);
  if (!v.epilogue.empty()) {
    return with_channel_parameters(v.epilogue, a, [&](const auto&... parameters) {
      launch(stream, *built[first], shape, x, w, y, rest..., alpha, beta, parameters..., epilogue_scalars(a));
    });
  }
  if (!weights) return launch(stream, *built[first], shape, data ? y : x, w, data ? x : y, rest..., alpha, beta);
  launch(stream, *built[first], shape, x, y, workspace, rest...);
  add_partials(stream, *built[first + 1], {workspace, w, v.weight_count, v.parts}, alpha, beta);
}

/// The two inputs and the output, in the order that kernels take them.
struct Operands {
  Buffer first, second, output;
};
Operands operands_of(const Problem&, const Problem::Args&);

}  // namespace polymio::convolution::gpu
