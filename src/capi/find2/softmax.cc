// SPDX-License-Identifier: MIT
#include "capi/find2/softmax.h"

namespace polymio::capi {

SoftmaxCall make_call(const SoftmaxOperation& operation, const ProblemState& p, Status missing) {
  const auto& [alpha, beta, algorithm, mode] = operation.descriptor;
  const auto desc = [&](miopenTensorArgumentId_t id) -> const TensorDesc& { return tensor(p, id, missing); };
  if (p.direction == miopenProblemDirectionForward)
    return {softmax::forward_problem(algorithm, mode, desc(miopenTensorSoftmaxX), desc(miopenTensorSoftmaxY))};
  if (p.direction != miopenProblemDirectionBackward)
    fail(Status::kNotImplemented, "direction {} is not one of softmax: 0 (forward), 1 (backward)",
         static_cast<int>(p.direction));
  return {softmax::backward_problem(algorithm, mode, desc(miopenTensorSoftmaxY), desc(miopenTensorSoftmaxDY),
                                    desc(miopenTensorSoftmaxDX))};
}

std::array<TensorBuffer, 3> tensors_of(const ProblemState&, const SoftmaxCall& c) {
  const softmax::Problem& p = c.problem;
  if (p.forward())
    return {{{miopenTensorSoftmaxX, &p.in}, {miopenTensorSoftmaxY, &p.out}, {miopenTensorSoftmaxDY, nullptr}}};
  return {{{miopenTensorSoftmaxY, &p.in}, {miopenTensorSoftmaxDX, &p.out}, {miopenTensorSoftmaxDY, &p.dy}}};
}

softmax::Problem::Args arguments(const ProblemState& p, const SoftmaxCall&, std::span<const TensorBuffer, 3> tensors,
                                 void*, std::size_t) {
  const auto& descriptor = p.find<SoftmaxOperation>()->descriptor;
  return {tensors[0].data, tensors[2].data, tensors[1].data, descriptor.alpha, descriptor.beta};
}

}  // namespace polymio::capi
