// The flags of normalizations, whose base arguments name the kind.
// SPDX-License-Identifier: MIT
#pragma once

#include "driver/run/tensor_args.h"
#include "reference/norm.h"

namespace polymio::driver {

inline constexpr std::string_view kNormNames[] = {"layernorm", "addlayernorm", "t5layernorm", "groupnorm"};
inline constexpr Choice kNormTypes[] = {{"fp16", kHalf}, {"fp32", kFloat}, {"bf16", kBFloat16}, {"fp64", kDouble}};

struct NormArgs {
  reference::NormKind kind = reference::NormKind::kLayer;
  std::int64_t normalized_dim = 3, groups = 1, mode = 0;
  double epsilon = 1e-5;
  int param_type = kNoType, stat_type = kNoType;
  std::vector<std::int64_t> in2_strides;

  // `primitive` is one of kNormNames.
  explicit NormArgs(std::string_view primitive) {
    for (int k = 0; k < 4; ++k)
      if (primitive == kNormNames[k]) kind = static_cast<reference::NormKind>(k);
    mode = first_mode();
  }
  std::int64_t first_mode() const {
    using reference::NormKind;
    return kind == NormKind::kAddLayer ? 2 : kind == NormKind::kRms ? 4 : 0;
  }
  bool has_backward() const { return kind == reference::NormKind::kLayer || kind == reference::NormKind::kRms; }

  Flags rows() {
    using reference::NormKind;
    constexpr auto kShape = Part::kShape, kOption = Part::kOption;
    Flags all;
    if (kind == NormKind::kGroup)
      all.push_back({"g", "num_groups", Integer{&groups, 1, kMaxInt}, "groups of channels", kShape});
    else if (kind != NormKind::kRms)
      all.push_back({"o", "normalized_dim", Integer{&normalized_dim, 0, 5}, "first normalized dimension", kShape});
    const Integer modes{&mode, first_mode(), first_mode() + 1};
    all.push_back({"m", "mode", modes, "the lower: without weight and bias, the higher: with them", kShape});
    all.push_back({"e", "eps", Real{&epsilon}, "added to the variance", kOption});
    all.push_back(
        {"", "param_type", Name{&param_type, kNormTypes}, "of weight and bias (default: that of x)", kOption});
    all.push_back({"", "stat_type", Name{&stat_type, kNormTypes}, "of mean and rstd (default: that of x)", kOption});
    if (kind == NormKind::kAddLayer)
      all.push_back(
          {"", "in2_strides", Integers{&in2_strides}, "element strides of x2 (default: those of x)", kOption});
    return all;
  }

  // Throws ArgError.
  void check(const TensorArgs& tensors) {
    const auto rank = static_cast<std::int64_t>(tensors.lens().size());
    if ((kind == reference::NormKind::kLayer || kind == reference::NormKind::kAddLayer) && normalized_dim > rank) {
      const Flags all = rows();
      const Flag& flag = find_row(all, "normalized_dim");
      refuse_value(flag, value_text(flag), "0 to " + std::to_string(rank) + ", the rank of x");
    }
  }

  // The problem; `tensors` have been completed.
  reference::Norm problem(const TensorArgs& tensors, bool backward) const {
    const auto type = static_cast<reference::Type>(tensors.type);
    const auto tensor = [&](const std::vector<std::int64_t>& strides) {
      return reference::Tensor(type, tensors.lens(), strides);
    };
    reference::Norm p;
    p.kind = kind;
    p.affine = mode != first_mode();
    p.first = normalized_dim;
    p.groups = groups;
    p.epsilon = static_cast<float>(epsilon);
    p.x = tensor(tensors.x_strides());
    p.x2 = tensor(in2_strides.empty() ? tensors.x_strides() : in2_strides);
    p.dy = tensor(tensors.dy_strides());
    p.out = tensor(backward ? tensors.dx_strides() : tensors.y_strides());
    p.parameters = param_type == kNoType ? type : static_cast<reference::Type>(param_type);
    p.statistics = stat_type == kNoType ? type : static_cast<reference::Type>(stat_type);
    return p;
  }
};

}  // namespace polymio::driver
