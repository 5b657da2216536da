// Group `optimizer`.
// SPDX-License-Identifier: MIT
#include "primitives/optimizer/optimizer.h"

#include <miopen/optimizer.h>

#include "capi/common/arguments.h"
#include "capi/common/guard.h"
#include "capi/common/handle.h"
#include "capi/common/log_call.h"
#include "capi/common/tensor.h"

using namespace polymio;
using capi::guard;
using optimizer::Adam;
using optimizer::Algorithm;
using optimizer::Operand;

namespace {

Operand required(miopenTensorDescriptor_t desc, const void* data, const char* name) {
  return {&capi::described(desc, name), const_cast<void*>(capi::not_null(data, name))};
}

/// Absent if descriptor and buffer are null.
Operand optional(miopenTensorDescriptor_t desc, const void* data, const char* name) {
  if (!desc && !data) return {};
  require(desc && data, "{} has a {}, but no {}: give both or neither", name, desc ? "descriptor" : "buffer",
          desc ? "buffer" : "descriptor");
  return required(desc, data, name);
}

/// Nothing for parameters of more than five dimensions, which the driver has no flags for.
std::string command_of(const Adam& a) {
  constexpr int kMostRank = 5;
  const TensorDesc& t = *a.param.desc;
  if (t.rank > kMostRank) return "";
  static constexpr const char* kNames[] = {"adam", "adamw", "transformersadamw"};
  static constexpr const char* kScaledNames[] = {"ampadam", "ampadamw", "transformersampadamw"};
  const auto kind = static_cast<std::size_t>(a.algorithm);
  const bool transformers = a.algorithm == Algorithm::kTransformersAdamW;
  const int spatial = std::max(t.rank - 2, 0);
  std::string line =
      a.scale ? base_arg(kScaledNames[kind], DataType::kFloat, spatial) : base_arg(kNames[kind], t.type, spatial);
  line += size_flags(t) + (t.rank == 1 ? " -c 1" : layout_flags(t, "-I", "--in_strides"));
  line += fmt::format(" -l {} -1 {} -2 {} -e {} --weight_decay {} --step {} --in_place {:d}", a.rate, a.beta1, a.beta2,
                      a.eps, a.weight_decay, a.step, a.param.data == a.param_out.data);
  if (a.last_step) line += " --step_tensor 1";
  if (a.amsgrad) line += " --amsgrad 1";
  if (a.maximize) line += " --maximize 1";
  if (transformers && !a.correct_bias) line += " --correct_bias 0";
  if (transformers && a.step_size >= 0) line += fmt::format(" --step_size {}", a.step_size);
  return line;
}

void run(miopenHandle_t handle, const Adam& adam, const char* function) {
  capi::log_call(function, [&] { return command_of(adam); });
  capi::deref(handle).run([&](Stream& stream) { optimizer::run(stream, adam); });
}

}  // namespace

miopenStatus_t miopenFusedAdam(miopenHandle_t handle, const miopenTensorDescriptor_t paramDesc, void* param,
                               const miopenTensorDescriptor_t gradDesc, const void* grad,
                               const miopenTensorDescriptor_t expAvgDesc, void* expAvg,
                               const miopenTensorDescriptor_t expAvgSqDesc, void* expAvgSq,
                               const miopenTensorDescriptor_t maxExpAvgSqDesc, void* maxExpAvgSq,
                               const miopenTensorDescriptor_t stateStepDesc, void* stateStep,
                               const unsigned int state_step, const float lr, const float beta1, const float beta2,
                               const float weight_decay, const float eps, const bool amsgrad, const bool maximize,
                               const bool adamw, const miopenTensorDescriptor_t gradScaleDesc, const void* gradScale,
                               const miopenTensorDescriptor_t foundInfDesc, const void* foundInf) {
  return miopenFusedAdamWithOutput(handle, paramDesc, param, paramDesc, param, nullptr, nullptr, gradDesc, grad,
                                   expAvgDesc, expAvg, expAvgDesc, expAvg, expAvgSqDesc, expAvgSq, expAvgSqDesc,
                                   expAvgSq, maxExpAvgSqDesc, maxExpAvgSq, maxExpAvgSqDesc, maxExpAvgSq, stateStepDesc,
                                   stateStep, stateStepDesc, stateStep, state_step, lr, beta1, beta2, weight_decay, eps,
                                   amsgrad, maximize, adamw, gradScaleDesc, gradScale, foundInfDesc, foundInf);
}

miopenStatus_t miopenFusedAdamWithOutput(
    miopenHandle_t handle, const miopenTensorDescriptor_t paramInDesc, void* paramIn,
    const miopenTensorDescriptor_t paramOutDesc, void* paramOut, const miopenTensorDescriptor_t paramOutFloat16Desc,
    void* paramOutFloat16, const miopenTensorDescriptor_t gradInDesc, const void* gradIn,
    const miopenTensorDescriptor_t expAvgInDesc, void* expAvgIn, const miopenTensorDescriptor_t expAvgOutDesc,
    void* expAvgOut, const miopenTensorDescriptor_t expAvgSqInDesc, void* expAvgSqIn,
    const miopenTensorDescriptor_t expAvgSqOutDesc, void* expAvgSqOut, const miopenTensorDescriptor_t maxExpAvgSqInDesc,
    void* maxExpAvgSqIn, const miopenTensorDescriptor_t maxExpAvgSqOutDesc, void* maxExpAvgSqOut,
    const miopenTensorDescriptor_t stateStepInDesc, void* stateStepIn, const miopenTensorDescriptor_t stateStepOutDesc,
    void* stateStepOut, const unsigned int state_step, const float lr, const float beta1, const float beta2,
    const float weight_decay, const float eps, const bool amsgrad, const bool maximize, const bool adamw,
    const miopenTensorDescriptor_t gradScaleDesc, const void* gradScale, const miopenTensorDescriptor_t foundInfDesc,
    const void* foundInf) {
  return guard([&] {
    Adam a;
    a.algorithm = adamw ? Algorithm::kAdamW : Algorithm::kAdam;
    a.param = required(paramInDesc, paramIn, "param");
    a.param_out = required(paramOutDesc, paramOut, "paramOut");
    a.copy = optional(paramOutFloat16Desc, paramOutFloat16, "paramOutFloat16");
    a.gradient = required(gradInDesc, gradIn, "grad");
    a.mean = required(expAvgInDesc, expAvgIn, "expAvg");
    a.mean_out = required(expAvgOutDesc, expAvgOut, "expAvgOut");
    a.square = required(expAvgSqInDesc, expAvgSqIn, "expAvgSq");
    a.square_out = required(expAvgSqOutDesc, expAvgSqOut, "expAvgSqOut");
    a.max = optional(maxExpAvgSqInDesc, maxExpAvgSqIn, "maxExpAvgSq");
    a.max_out = optional(maxExpAvgSqOutDesc, maxExpAvgSqOut, "maxExpAvgSqOut");
    a.last_step = optional(stateStepInDesc, stateStepIn, "stateStep");
    a.step_out = optional(stateStepOutDesc, stateStepOut, "stateStepOut");
    a.scale = optional(gradScaleDesc, gradScale, "gradScale");
    a.found = optional(foundInfDesc, foundInf, "foundInf");
    a.step = state_step;
    a.rate = lr;
    a.beta1 = beta1;
    a.beta2 = beta2;
    a.weight_decay = weight_decay;
    a.eps = eps;
    a.amsgrad = amsgrad;
    a.maximize = maximize;
    run(handle, a, "miopenFusedAdamWithOutput");
  });
}

miopenStatus_t miopenTransformersAdamW(
    miopenHandle_t handle, const miopenTensorDescriptor_t paramDesc, void* param,
    const miopenTensorDescriptor_t gradDesc, const void* grad, const miopenTensorDescriptor_t expAvgDesc, void* expAvg,
    const miopenTensorDescriptor_t expAvgSqDesc, void* expAvgSq, const miopenTensorDescriptor_t stateStepDesc,
    void* stateStep, const unsigned int state_step, const float lr, const float beta1, const float beta2,
    const float weight_decay, const float eps, const bool correct_bias, const miopenTensorDescriptor_t gradScaleDesc,
    const void* gradScale, const miopenTensorDescriptor_t foundInfDesc, const void* foundInf) {
  return miopenTransformersAdamWWithOutput(handle, paramDesc, param, paramDesc, param, nullptr, nullptr, gradDesc, grad,
                                           expAvgDesc, expAvg, expAvgDesc, expAvg, expAvgSqDesc, expAvgSq, expAvgSqDesc,
                                           expAvgSq, stateStepDesc, stateStep, stateStepDesc, stateStep, state_step, lr,
                                           beta1, beta2, weight_decay, eps, -1, correct_bias, gradScaleDesc, gradScale,
                                           foundInfDesc, foundInf);
}

miopenStatus_t miopenTransformersAdamWWithOutput(
    miopenHandle_t handle, const miopenTensorDescriptor_t paramInDesc, void* paramIn,
    const miopenTensorDescriptor_t paramOutDesc, void* paramOut, const miopenTensorDescriptor_t paramOutFloat16Desc,
    void* paramOutFloat16, const miopenTensorDescriptor_t gradInDesc, const void* gradIn,
    const miopenTensorDescriptor_t expAvgInDesc, void* expAvgIn, const miopenTensorDescriptor_t expAvgOutDesc,
    void* expAvgOut, const miopenTensorDescriptor_t expAvgSqInDesc, void* expAvgSqIn,
    const miopenTensorDescriptor_t expAvgSqOutDesc, void* expAvgSqOut, const miopenTensorDescriptor_t stateStepInDesc,
    void* stateStepIn, const miopenTensorDescriptor_t stateStepOutDesc, void* stateStepOut,
    const unsigned int state_step, const float lr, const float beta1, const float beta2, const float weight_decay,
    const float eps, const float step_size, const bool correct_bias, const miopenTensorDescriptor_t gradScaleDesc,
    const void* gradScale, const miopenTensorDescriptor_t foundInfDesc, const void* foundInf) {
  return guard([&] {
    Adam a;
    a.algorithm = Algorithm::kTransformersAdamW;
    a.param = required(paramInDesc, paramIn, "param");
    a.param_out = required(paramOutDesc, paramOut, "paramOut");
    a.copy = optional(paramOutFloat16Desc, paramOutFloat16, "paramOutFloat16");
    a.gradient = required(gradInDesc, gradIn, "grad");
    a.mean = required(expAvgInDesc, expAvgIn, "expAvg");
    a.mean_out = required(expAvgOutDesc, expAvgOut, "expAvgOut");
    a.square = required(expAvgSqInDesc, expAvgSqIn, "expAvgSq");
    a.square_out = required(expAvgSqOutDesc, expAvgSqOut, "expAvgSqOut");
    a.last_step = optional(stateStepInDesc, stateStepIn, "stateStep");
    a.step_out = optional(stateStepOutDesc, stateStepOut, "stateStepOut");
    a.scale = optional(gradScaleDesc, gradScale, "gradScale");
    a.found = optional(foundInfDesc, foundInf, "foundInf");
    a.step = state_step;
    a.rate = lr;
    a.beta1 = beta1;
    a.beta2 = beta2;
    a.weight_decay = weight_decay;
    a.eps = eps;
    a.step_size = step_size;
    a.correct_bias = correct_bias;
    run(handle, a, "miopenTransformersAdamWWithOutput");
  });
}
