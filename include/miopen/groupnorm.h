// Group normalisation. Beta.
// x and y have any strides (NCHW, NHWC); weight, bias, mean and rstd are dense.
// SPDX-License-Identifier: MIT
#ifndef MIOPEN_GROUPNORM_H_
#define MIOPEN_GROUPNORM_H_

#include <miopen/layernorm.h>
#include <miopen/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef MIOPEN_BETA_API
/// y = (x - mean) * rstd * weight + bias, rstd = 1 / sqrt(variance + epsilon), where mean and
/// variance are those of one image and one of `num_groups` groups of channels. x and y are (N, C,
/// ...) and C is a multiple of `num_groups`; weight and bias have C elements, mean and rstd are (N,
/// num_groups). A null mean or rstd is not written.
MIOPEN_EXPORT miopenStatus_t miopenGroupNormForward(
    miopenHandle_t handle, miopenNormMode_t mode, const miopenTensorDescriptor_t xDesc, const void* x,
    const miopenTensorDescriptor_t weightDesc, const void* weight, const miopenTensorDescriptor_t biasDesc,
    const void* bias, const uint64_t num_groups, const float epsilon, const miopenTensorDescriptor_t yDesc, void* y,
    const miopenTensorDescriptor_t meanDesc, void* mean, const miopenTensorDescriptor_t rstdDesc, void* rstd);
#endif

#ifdef __cplusplus
}
#endif

#endif  // MIOPEN_GROUPNORM_H_
