// The flags of batch norms.
// SPDX-License-Identifier: MIT
#pragma once

#include "driver/run/activ_args.h"
#include "reference/batch_norm.h"

namespace polymio::driver {

inline constexpr Choice kTypeNames[] = {
    {"usual", kNoType}, {"fp32", kFloat}, {"fp16", kHalf}, {"bf16", kBFloat16}, {"fp64", kDouble}};

struct BnormArgs {
  std::int64_t mode = 0, forward = 1, backward = 0, save = 0, run = 0, inverse = 0;
  double epsilon = 1e-5, factor = 0.1;
  int activation = 0;
  double activation_alpha = 0, activation_beta = 0, activation_gamma = 1;
  int grad_type = kNoType, scale_type = kNoType, bias_type = kNoType, stat_type = kNoType;
  std::string param_layout;
  std::vector<std::int64_t> param_strides;

  // With the scalars of the tensors, which MIOpen calls alpha and beta here.
  Flags rows(TensorArgs& tensors) {
    constexpr auto kShape = Part::kShape;
    constexpr auto kOption = Part::kOption;
    return {{"m", "mode", Integer{&mode, 0, 1}, "0 per activation, 1 spatial", kShape},
            {"F", "forw", Integer{&forward, 0, 2}, "1 training, 2 inference, 0 no forward pass", kShape},
            {"b", "back", Integer{&backward, 0, 1}, "1: backward pass", kOption},
            {"", "save", Integer{&save, 0, 1}, "1: training saves mean and inverse variance, backward takes them"},
            {"r", "run", Integer{&run, 0, 1}, "1: training keeps a running mean and variance"},
            {"", "inverse", Integer{&inverse, 0, 1}, "1: inference takes inverse deviations, not variances"},
            {"A", "alpha", Real{&tensors.scale}, "result = alpha * f + beta * result"},
            {"B", "beta", Real{&tensors.keep}, "see --alpha"},
            {"", "epsilon", Real{&epsilon}, "added to variances"},
            {"", "factor", Real{&factor}, "of the batch in running means"},
            {"", "activ", Name{&activation, kActivationModes, true}, "fused activation", kOption},
            {"", "activ_alpha", Real{&activation_alpha}, "alpha of the activation"},
            {"", "activ_beta", Real{&activation_beta}, "beta of the activation"},
            {"", "activ_gamma", Real{&activation_gamma}, "gamma of the activation"},
            {"", "grad_type", Name{&grad_type, kTypeNames}, "of dy and dx, usually that of x", kOption},
            {"", "scale_type", Name{&scale_type, kTypeNames}, "of the scale, usually fp32, with fp64 fp64", kOption},
            {"", "bias_type", Name{&bias_type, kTypeNames}, "of the bias and of gradients of parameters", kOption},
            {"", "stat_type", Name{&stat_type, kTypeNames}, "of means and variances", kOption},
            {"", "param_layout", Layout{&param_layout}, "of the parameters per activation", kOption},
            {"", "param_strides", Integers{&param_strides}, "element strides of the parameters", kOption}};
  }
  std::int64_t directions() const { return (forward != 0 ? kForward : 0) | (backward != 0 ? kBackwardData : 0); }

  // Of the tensors of a pass in the requested direction; backward the parameters are scaled as dx.
  reference::BatchNorm problem(const TensorArgs& t, bool is_forward) const {
    using Direction = reference::BatchNorm::Direction;
    const auto tensor = [](int given, DataType usual, const std::vector<std::int64_t>& lens,
                           const std::vector<std::int64_t>& strides) {
      return reference::Tensor(static_cast<reference::Type>(given == kNoType ? usual : given), lens, strides);
    };
    reference::BatchNorm p;
    p.direction = !is_forward ? Direction::kBackward : forward == 2 ? Direction::kInference : Direction::kTraining;
    p.spatial = mode == 1;
    p.activation.mode = static_cast<reference::ActivationMode>(activation);
    p.activation.alpha = activation_alpha;
    p.activation.beta = activation_beta;
    p.activation.gamma = activation_gamma;
    p.epsilon = epsilon;
    p.factor = factor;
    p.inverse = inverse != 0;
    p.scale = p.parameter_scale = t.scale;
    p.keep = p.parameter_keep = t.keep;
    p.x = tensor(kNoType, t.type, t.lens(), t.x_strides());
    if (!is_forward) p.dy = tensor(grad_type, t.type, t.lens(), t.dy_strides());
    p.out = is_forward ? tensor(kNoType, t.type, t.lens(), t.y_strides())
                       : tensor(grad_type, t.type, t.lens(), t.dx_strides());
    const std::vector<std::int64_t> lens = reference::parameter_lens(p);
    const auto parameter = [&](int type) {
      return tensor(type, t.type == kDouble ? kDouble : kFloat, lens,
                    tensor_strides(lens, param_layout, param_strides));
    };
    p.scales = parameter(scale_type);
    p.biases = parameter(bias_type);
    p.moments = parameter(stat_type);
    return p;
  }
};

}  // namespace polymio::driver
