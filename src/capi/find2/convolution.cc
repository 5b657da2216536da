// SPDX-License-Identifier: MIT
#include "capi/find2/convolution.h"

namespace polymio::capi {

std::array<Role, 4> roles(const ProblemState& p, const ConvolutionCall& c, ProblemBuffers& b) {
  const auto& q = c.problem;
  return {{{miopenTensorConvolutionX, c.swapped ? &q.y : &q.x, &b.x},
           {miopenTensorConvolutionW, &q.w, &b.w},
           {output_id(p), c.swapped ? &q.x : &q.y, &b.y},
           {miopenTensorBias, p.has_bias ? &p.tensors.at(miopenTensorBias) : nullptr, &b.bias}}};
}

convolution::Problem::Args arguments(const ProblemState& p, const ConvolutionCall& c, const ProblemBuffers& b,
                                     void* workspace, std::size_t bytes) {
  auto args = arguments(c, {b.x, b.w, b.y}, workspace, bytes);
  args.bias = b.bias;
  args.activation_alpha = p.activation.alpha;
  args.activation_beta = p.activation.beta;
  args.activation_gamma = p.activation.gamma;
  return args;
}

}  // namespace polymio::capi
