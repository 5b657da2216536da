// The flags of fused convolutions.
// SPDX-License-Identifier: MIT
#pragma once

#include "driver/run/activ_args.h"
#include "reference/fusion.h"

namespace polymio::driver {

// Numbers as MIOpenDriver has them. C: convolution, B: bias, N: batch norm, A: activation.
enum FusionMode { kCBNA, kCNA, kNA, kCN, kCBA, kCA, kCB };

struct FusionArgs {
  std::int64_t fusion_mode = kCBNA, filters = 32, groups = 1, norm_mode = 0;
  std::int64_t window[3] = {3, 3, 3}, pad[3] = {}, stride[3] = {1, 1, 1}, dilation[3] = {1, 1, 1};
  int activation = 3;
  double alpha = 1, beta = 0, gamma = 1, epsilon = 1e-5;

  Flags rows() {
    constexpr auto kShape = Part::kShape;
    constexpr auto kOption = Part::kOption;
    return {{"k", "out_channels", Integer{&filters, 1, kMaxInt}, "output channels", kShape},
            {"@", "fil_d", Integer{&window[0], 1, kMaxInt}, "filter depth", kShape, 0},
            {"y", "fil_h", Integer{&window[1], 1, kMaxInt}, "filter height", kShape, 1},
            {"x", "fil_w", Integer{&window[2], 1, kMaxInt}, "filter width", kShape, 2},
            {"$", "pad_d", Integer{&pad[0], 0, kMaxInt}, "padding, depth", kShape, 0},
            {"p", "pad_h", Integer{&pad[1], 0, kMaxInt}, "padding, height", kShape, 1},
            {"q", "pad_w", Integer{&pad[2], 0, kMaxInt}, "padding, width", kShape, 2},
            {"#", "conv_stride_d", Integer{&stride[0], 1, kMaxInt}, "stride, depth", kShape, 0},
            {"u", "conv_stride_h", Integer{&stride[1], 1, kMaxInt}, "stride, height", kShape, 1},
            {"v", "conv_stride_w", Integer{&stride[2], 1, kMaxInt}, "stride, width", kShape, 2},
            {"^", "dilation_d", Integer{&dilation[0], 1, kMaxInt}, "dilation, depth", kShape, 0},
            {"l", "dilation_h", Integer{&dilation[1], 1, kMaxInt}, "dilation, height", kShape, 1},
            {"j", "dilation_w", Integer{&dilation[2], 1, kMaxInt}, "dilation, width", kShape, 2},
            {"g", "group_count", Integer{&groups, 1, kMaxInt}, "groups", kShape},
            {"J", "fusion_mode", Integer{&fusion_mode, 0, 6}, "0 cbna, 1 cna, 2 na, 3 cn, 4 cba, 5 ca, 6 cb", kShape},
            {"M", "bnMode", Integer{&norm_mode, 0, 1}, "batch norm: 0 per activation, 1 spatial", kShape},
            {"m", "activMode", Name{&activation, kActivationModes, true}, "activation", kShape},
            {"A", "alpha", Real{&alpha}, "alpha of the activation"},
            {"B", "beta", Real{&beta}, "beta of the activation"},
            {"G", "gamma", Real{&gamma}, "gamma of the activation"},
            {"", "epsilon", Real{&epsilon}, "added to variances", kOption}};
  }

  // The problem on the tensors of `t`; y has the layout of x.
  reference::Fusion problem(const TensorArgs& t) const {
    const auto last = [&](const std::int64_t(&all)[3]) { return last_axes(t.spatial_dim, all[0], all[1], all[2]); };
    const auto type = static_cast<reference::Type>(t.type);
    reference::Fusion p;
    p.has_convolution = fusion_mode != kNA;
    p.has_bias = fusion_mode == kCBNA || fusion_mode == kCBA || fusion_mode == kCB;
    p.has_norm = fusion_mode <= kCN;
    p.has_activation = fusion_mode != kCN && fusion_mode != kCB;
    reference::Convolution& c = p.convolution;
    c.pad = last(pad);
    c.stride = last(stride);
    c.dilation = last(dilation);
    c.groups = groups;
    c.x = {type, t.lens(), t.x_strides()};
    std::vector<std::int64_t> w{filters, t.channels / groups}, y{t.batch, p.has_convolution ? filters : t.channels};
    for (const std::int64_t size : last(window)) w.push_back(size);
    for (std::size_t d = 0; d < c.pad.size(); ++d) {
      const std::int64_t room = c.x.lens[d + 2] + 2 * c.pad[d] - (w[d + 2] - 1) * c.dilation[d] - 1;
      y.push_back(p.has_convolution ? std::max<std::int64_t>(1, room / c.stride[d] + 1) : c.x.lens[d + 2]);
    }
    c.w = {type, w, tensor_strides(w, t.in_layout, {})};
    c.y = {type, y, tensor_strides(y, t.in_layout, {})};
    std::vector<std::int64_t> channels(y.size(), 1);
    channels[1] = y[1];
    p.bias = {type, channels};
    p.norm.spatial = norm_mode == 1;
    p.norm.epsilon = epsilon;
    std::vector<std::int64_t> parameters = p.norm.spatial ? channels : y;
    parameters[0] = 1;
    p.norm.scales = p.norm.biases =
        p.norm.moments = {t.type == kDouble ? reference::Type::kDouble : reference::Type::kFloat, parameters};
    p.activation.mode = static_cast<reference::ActivationMode>(activation);
    return p;
  }
};

}  // namespace polymio::driver
