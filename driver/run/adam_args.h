// The flags of optimizers.
// SPDX-License-Identifier: MIT
#pragma once

#include <string_view>

#include "driver/run/tensor_args.h"
#include "reference/optimizer.h"

namespace polymio::driver {

struct AdamArgs {
  double rate = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0, step_size = -1;
  std::int64_t amsgrad = 0, maximize = 0, found_inf = 0, scale = 65536, step = 1, step_tensor = 0, correct_bias = 1,
               in_place = 0;
  reference::Optimizer kind = reference::Optimizer::kAdam;
  bool amp = false;  // fp16 gradient, scaled, and the flag of infinite ones

  explicit AdamArgs(std::string_view base)
      : kind(base.starts_with("transformers")  ? reference::Optimizer::kTransformersAdamW
             : base.find("adamw") != base.npos ? reference::Optimizer::kAdamW
                                               : reference::Optimizer::kAdam),
        amp(base.find("amp") != base.npos) {}

  Flags rows() {
    constexpr auto kOption = Part::kOption;
    const auto bit = [](std::int64_t* variable) { return Integer{variable, 0, 1}; };
    return {{"l", "lr", Real{&rate}, "learning rate", kOption},
            {"1", "beta1", Real{&beta1}, "factor of the mean", kOption},
            {"2", "beta2", Real{&beta2}, "factor of the mean square", kOption},
            {"e", "eps", Real{&eps}, "added to the root of the mean square", kOption},
            {"", "weight_decay", Real{&weight_decay}, "weight decay", kOption},
            {"a", "amsgrad", bit(&amsgrad), "1: uses the largest mean square (adam, adamw)", kOption},
            {"m", "maximize", bit(&maximize), "1: goes up the gradient (adam, adamw)", kOption},
            {"f", "found_inf", bit(&found_inf), "1: the flag of infinite gradients is set (amp)", kOption},
            {"", "scale", Integer{&scale, 1, kMaxInt}, "divisor of the gradient (amp)", kOption},
            {"", "step", Integer{&step, 1, kMaxInt}, "number of the step", kOption},
            {"", "step_tensor", bit(&step_tensor), "1: device memory has the number of the last step", kOption},
            {"", "correct_bias", bit(&correct_bias), "1: corrects the bias of the means (transformers)", kOption},
            {"", "step_size", Real{&step_size}, "of the step, unless negative (transformers, not in place)", kOption},
            {"", "in_place", bit(&in_place), "1: the state is written over itself", kOption}};
  }

  reference::Adam problem(const reference::Tensor& parameters, reference::Tensor gradient) const {
    const auto rounded = [](double v) { return static_cast<double>(static_cast<float>(v)); };
    const bool transformers = kind == reference::Optimizer::kTransformersAdamW;
    reference::Adam a;
    a.kind = kind;
    a.rate = rounded(rate);
    a.beta1 = rounded(beta1);
    a.beta2 = rounded(beta2);
    a.eps = rounded(eps);
    a.weight_decay = rounded(weight_decay);
    a.step_size = in_place != 0 ? -1 : rounded(step_size);
    a.step = static_cast<double>(step);
    a.scale = amp ? static_cast<double>(scale) : 1;
    a.maximize = maximize != 0 && !transformers;
    a.skip = amp && found_inf != 0;
    a.correct_bias = correct_bias != 0;
    a.state = reference::adam_state(parameters, amsgrad != 0 && !transformers ? 4 : 3);
    if (amp) gradient = {reference::Type::kHalf, gradient.lens, gradient.strides};
    a.gradient = gradient;
    return a;
  }
};

}  // namespace polymio::driver
