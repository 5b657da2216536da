// Steps of Adam and AdamW: the interface of this folder. One pass over memory, without find or plan.
// SPDX-License-Identifier: MIT
#pragma once
#include <vector>

#include "core/solver.h"
#include "core/tensor.h"
#include "runtime/device.h"

namespace polymio::optimizer {

/// A tensor of a call; absent if `desc` is null.
struct Operand {
  const TensorDesc* desc = nullptr;
  void* data = nullptr;
  explicit operator bool() const { return desc != nullptr; }
};

enum class Algorithm { kAdam, kAdamW, kTransformersAdamW };

/// One step. An output may be the memory of an input.
struct Adam {
  Algorithm algorithm = Algorithm::kAdam;
  Operand param, gradient, mean, square, max;              // max: with `amsgrad`, else not used
  Operand param_out, mean_out, square_out, max_out, copy;  // copy: the parameters in fp16, optional
  Operand last_step, step_out;                             // int32, one element, optional: steps before and after
  Operand scale;                                           // int32 or fp32, one element, optional: divides the gradient
  Operand found;      // int8, int32 or fp32, one element, optional: if not 0, the outputs are the inputs
  unsigned step = 0;  // number of this step, from 1, unless there is last_step
  float rate = 0, beta1 = 0, beta2 = 0, weight_decay = 0, eps = 0;
  float step_size = -1;  // of TransformersAdamW: replaces what rate and step give, unless negative
  bool amsgrad = false, maximize = false;
  bool correct_bias = true;  // of TransformersAdamW
};

/// Throws BadParm for arguments that do not fit together; nothing is written then.
void run(Stream&, const Adam&);

/// The programs that a GPU needs for parameters of this type.
std::vector<KernelSpec> programs(const DeviceInfo&, DataType parameter);

}  // namespace polymio::optimizer
