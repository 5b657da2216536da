// SPDX-License-Identifier: MIT
#include "capi/find2/convolution.h"

namespace polymio::capi {
namespace {

/// The results of a fused problem's operations in order; only the last one is stored.
constexpr miopenTensorArgumentId_t kResults[] = {miopenTensorConvolutionY, miopenTensorBiasX, miopenTensorBiasY,
                                                 miopenTensorActivationX, miopenTensorActivationY};

/// The argument that the last operation of the problem writes.
miopenTensorArgumentId_t output_id(const ProblemState& p) {
  if (p.find<ActivationOperation>()) return miopenTensorActivationY;
  return p.find<BiasOperation>() ? miopenTensorBiasY : miopenTensorConvolutionY;
}

/// The output of the last operation: the last given descriptor, else a dense tensor in the layout of x.
TensorDesc fused_output(const ProblemState& p, const ConvolutionObject::State& c, const TensorDesc& x,
                        const TensorDesc& w) {
  TensorDesc y = output_like(c, x, w);
  const TensorDesc first = y;
  for (const auto id : kResults) {
    const auto it = p.tensors.find(id);
    if (it == p.tensors.end()) continue;
    y = it->second;
    require(y.type == first.type && y.rank == first.rank && y.lens == first.lens,
            "the descriptor of {} is {} [{}], but the convolution gives {} [{}]", name_of(id), polymio::name_of(y.type),
            fmt::join(y.sizes(), ", "), polymio::name_of(first.type), fmt::join(first.sizes(), ", "));
  }
  return y;
}

void check_bias(const TensorDesc& bias, const TensorDesc& y) {
  const auto channel = static_cast<std::size_t>(bias.rank > 1);
  require(bias.type == y.type && bias.count() == y.lens[1] && bias.lens[channel] == y.lens[1] && bias.packed(),
          "the bias is {} [{}]: it must be {}, packed, with one value for each of the {} channels: [1, {}, 1, ...]",
          polymio::name_of(bias.type), fmt::join(bias.sizes(), ", "), polymio::name_of(y.type), y.lens[1], y.lens[1]);
}

}  // namespace

ConvolutionCall make_call(const ConvolutionOperation& convolution, const ProblemState& p, Status missing) {
  const ConvolutionObject::State& c = convolution.descriptor;
  const auto direction = static_cast<convolution::Direction>(p.direction);
  const TensorDesc& x = tensor(p, miopenTensorConvolutionX, missing);
  const TensorDesc& w = tensor(p, miopenTensorConvolutionW, missing);
  if (!p.fused()) return make_call(c, direction, x, w, tensor(p, miopenTensorConvolutionY, missing));
  if (c.transposed) fail(Status::kUnsupportedOp, "a transposed convolution cannot be fused with other operations");
  const TensorDesc y = fused_output(p, c, x, w);
  auto call = make_call(c, direction, x, w, y);
  const bool bias = p.find<BiasOperation>();
  if (bias) check_bias(tensor(p, miopenTensorBias, missing), y);
  const auto* activation = p.find<ActivationOperation>();
  call.problem.epilogue = {bias, activation ? static_cast<int>(activation->mode) : 0};
  return call;
}

std::array<TensorBuffer, 4> tensors_of(const ProblemState& p, const ConvolutionCall& c) {
  const convolution::Problem& q = c.problem;
  return {{{miopenTensorConvolutionX, c.swapped ? &q.y : &q.x},
           {miopenTensorConvolutionW, &q.w},
           {output_id(p), c.swapped ? &q.x : &q.y},
           {miopenTensorBias, p.find<BiasOperation>() ? &p.tensors.at(miopenTensorBias) : nullptr}}};
}

convolution::Problem::Args arguments(const ProblemState& p, const ConvolutionCall& c,
                                     std::span<const TensorBuffer, 4> tensors, void* workspace, std::size_t bytes) {
  auto args = arguments(c, {tensors[0].data, tensors[1].data, tensors[2].data}, workspace, bytes);
  args.bias = tensors[3].data;
  if (const auto* activation = p.find<ActivationOperation>()) {
    args.activation_alpha = activation->parameters.alpha;
    args.activation_beta = activation->parameters.beta;
    args.activation_gamma = activation->parameters.gamma;
  }
  return args;
}

}  // namespace polymio::capi
