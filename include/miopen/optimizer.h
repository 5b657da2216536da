// Optimizer steps in one call: Adam and AdamW. All functions are beta.
// The functions with output read the tensors named In and write those named Out; the others work in
// place. All tensors of a call have the sizes of the parameters, except the step, the gradient
// scale and the flag, which have one element.
// SPDX-License-Identifier: MIT
#ifndef MIOPEN_OPTIMIZER_H_
#define MIOPEN_OPTIMIZER_H_

#include <miopen/types.h>

// Common to all. Parameters and running means are fp32, fp16, bf16 or fp64, all of one type; the gradient has this
// type, or is fp16 or bf16 with fp32 parameters. Strides may be any. `expAvg` and `expAvgSq` are the running means of
// the gradient and its square, with the factors `beta1` and `beta2`. Steps count from 1: `stateStep` (device memory,
// int32) has the steps made before and is increased by the call; if it is null, `state_step` is the number of this
// step. The gradient is divided by `*gradScale` (device memory, int32 or fp32) if that is not null. If `foundInf`
// (device memory, int8, int32 or fp32) is not null and not 0, the outputs are the inputs and the step is not counted.
// Null descriptors go with null buffers.
//
// BadParm, with nothing written: other types or sizes, outputs that overlap, `amsgrad` without `maxExpAvgSq`, betas
// outside [0, 1), step 0. Safe to call from several threads with different handles.

#ifdef __cplusplus
extern "C" {
#endif

#ifdef MIOPEN_BETA_API
/// One step of Adam, or of AdamW with `adamw` (the weight decay acts on the parameter, not on the
/// gradient). `amsgrad` uses the largest mean square so far, kept in `maxExpAvgSq`; `maximize` goes
/// up the gradient.
MIOPEN_EXPORT miopenStatus_t miopenFusedAdam(
    miopenHandle_t handle, const miopenTensorDescriptor_t paramDesc, void* param,
    const miopenTensorDescriptor_t gradDesc, const void* grad, const miopenTensorDescriptor_t expAvgDesc, void* expAvg,
    const miopenTensorDescriptor_t expAvgSqDesc, void* expAvgSq, const miopenTensorDescriptor_t maxExpAvgSqDesc,
    void* maxExpAvgSq, const miopenTensorDescriptor_t stateStepDesc, void* stateStep, const unsigned int state_step,
    const float lr, const float beta1, const float beta2, const float weight_decay, const float eps, const bool amsgrad,
    const bool maximize, const bool adamw, const miopenTensorDescriptor_t gradScaleDesc, const void* gradScale,
    const miopenTensorDescriptor_t foundInfDesc, const void* foundInf);

/// miopenFusedAdam with separate outputs. `paramOutFloat16`, if not null, receives the parameters
/// as miopenHalf too.
MIOPEN_EXPORT miopenStatus_t miopenFusedAdamWithOutput(
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
    const void* foundInf);

/// One step of AdamW as the Transformers library defines it; `correct_bias` divides the means by 1
/// - beta^step.
MIOPEN_EXPORT miopenStatus_t miopenTransformersAdamW(
    miopenHandle_t handle, const miopenTensorDescriptor_t paramDesc, void* param,
    const miopenTensorDescriptor_t gradDesc, const void* grad, const miopenTensorDescriptor_t expAvgDesc, void* expAvg,
    const miopenTensorDescriptor_t expAvgSqDesc, void* expAvgSq, const miopenTensorDescriptor_t stateStepDesc,
    void* stateStep, const unsigned int state_step, const float lr, const float beta1, const float beta2,
    const float weight_decay, const float eps, const bool correct_bias, const miopenTensorDescriptor_t gradScaleDesc,
    const void* gradScale, const miopenTensorDescriptor_t foundInfDesc, const void* foundInf);

/// miopenTransformersAdamW with separate outputs. `step_size`, if it is not negative, is used in
/// place of the size that `lr` and the step give.
MIOPEN_EXPORT miopenStatus_t miopenTransformersAdamWWithOutput(
    miopenHandle_t handle, const miopenTensorDescriptor_t paramInDesc, void* paramIn,
    const miopenTensorDescriptor_t paramOutDesc, void* paramOut, const miopenTensorDescriptor_t paramOutFloat16Desc,
    void* paramOutFloat16, const miopenTensorDescriptor_t gradInDesc, const void* gradIn,
    const miopenTensorDescriptor_t expAvgInDesc, void* expAvgIn, const miopenTensorDescriptor_t expAvgOutDesc,
    void* expAvgOut, const miopenTensorDescriptor_t expAvgSqInDesc, void* expAvgSqIn,
    const miopenTensorDescriptor_t expAvgSqOutDesc, void* expAvgSqOut, const miopenTensorDescriptor_t stateStepInDesc,
    void* stateStepIn, const miopenTensorDescriptor_t stateStepOutDesc, void* stateStepOut,
    const unsigned int state_step, const float lr, const float beta1, const float beta2, const float weight_decay,
    const float eps, const float step_size, const bool correct_bias, const miopenTensorDescriptor_t gradScaleDesc,
    const void* gradScale, const miopenTensorDescriptor_t foundInfDesc, const void* foundInf);
#endif

#ifdef __cplusplus
}
#endif

#endif  // MIOPEN_OPTIMIZER_H_
