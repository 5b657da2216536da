// Layer normalisation: plain, of a sum, and without mean (T5). All functions are beta.
// Tensors have any strides; weight, bias, mean, rstd and the gradients dw and db are dense.
//   y = (x - mean) * rstd * weight + bias, rstd = 1 / sqrt(variance + epsilon)
// over the dimensions of x from `normalized_dim` to the last: those of weight and bias; mean and
// rstd have the others.
// SPDX-License-Identifier: MIT
#ifndef MIOPEN_LAYERNORM_H_
#define MIOPEN_LAYERNORM_H_

#include <miopen/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef MIOPEN_BETA_API
/// Whether weight and bias are used: without them they count as 1 and 0. The suffix names the
/// function.
typedef enum {
  MIOPEN_ELEMENTWISE_AFFINE = 0,            ///< no weight, no bias
  MIOPEN_WEIGHT_BIAS = 1,                   ///< with weight and bias
  MIOPEN_ELEMENTWISE_AFFINE_FUSED_ADD = 2,  ///< the first, for miopenAddLayerNormForward
  MIOPEN_WEIGHT_BIAS_FUSED_ADD = 3,         ///< the second, for miopenAddLayerNormForward
  MIOPEN_ELEMENTWISE_AFFINE_T5 = 4,         ///< the first, for the T5 functions
  MIOPEN_WEIGHT_BIAS_T5 = 5,                ///< the second, for the T5 functions; no bias
} miopenNormMode_t;

/// y, mean and rstd from x. A null mean or rstd is not written.
MIOPEN_EXPORT miopenStatus_t miopenLayerNormForward(
    miopenHandle_t handle, miopenNormMode_t mode, const miopenTensorDescriptor_t xDesc, const void* x,
    const miopenTensorDescriptor_t weightDesc, const void* weight, const miopenTensorDescriptor_t biasDesc,
    const void* bias, const float epsilon, const int32_t normalized_dim, const miopenTensorDescriptor_t yDesc, void* y,
    const miopenTensorDescriptor_t meanDesc, void* mean, const miopenTensorDescriptor_t rstdDesc, void* rstd);

/// miopenLayerNormForward of x + x2; both have the same sizes.
MIOPEN_EXPORT miopenStatus_t miopenAddLayerNormForward(
    miopenHandle_t handle, miopenNormMode_t mode, const miopenTensorDescriptor_t xDesc, const void* x,
    const miopenTensorDescriptor_t x2Desc, const void* x2, const miopenTensorDescriptor_t weightDesc,
    const void* weight, const miopenTensorDescriptor_t biasDesc, const void* bias, const float epsilon,
    const int32_t normalized_dim, const miopenTensorDescriptor_t yDesc, void* y,
    const miopenTensorDescriptor_t meanDesc, void* mean, const miopenTensorDescriptor_t rstdDesc, void* rstd);

/// y = x * rstd * weight with rstd = 1 / sqrt(mean of x^2 + epsilon), over the innermost dimension;
/// rstd has the others.
MIOPEN_EXPORT miopenStatus_t miopenT5LayerNormForward(miopenHandle_t handle, miopenNormMode_t mode,
                                                      const miopenTensorDescriptor_t xDesc, const void* x,
                                                      const miopenTensorDescriptor_t weightDesc, const void* weight,
                                                      const float epsilon, const miopenTensorDescriptor_t yDesc,
                                                      void* y, const miopenTensorDescriptor_t rstdDesc, void* rstd);

/// Workspace bytes of miopenT5LayerNormBackward.
MIOPEN_EXPORT miopenStatus_t miopenGetT5LayerNormBackwardWorkspaceSize(
    miopenHandle_t handle, miopenNormMode_t mode, const miopenTensorDescriptor_t dyDesc,
    const miopenTensorDescriptor_t xDesc, const miopenTensorDescriptor_t weightDesc,
    const miopenTensorDescriptor_t rstdDesc, const miopenTensorDescriptor_t dxDesc,
    const miopenTensorDescriptor_t dwDesc, size_t* sizeInBytes);

/// dx and dw from dy; x, weight and rstd are those of the forward call.
MIOPEN_EXPORT miopenStatus_t miopenT5LayerNormBackward(
    miopenHandle_t handle, miopenNormMode_t mode, void* workspace, size_t workspaceSizeInBytes,
    const miopenTensorDescriptor_t dyDesc, const void* dy, const miopenTensorDescriptor_t xDesc, const void* x,
    const miopenTensorDescriptor_t weightDesc, const void* weight, const miopenTensorDescriptor_t rstdDesc,
    const void* rstd, const miopenTensorDescriptor_t dxDesc, void* dx, const miopenTensorDescriptor_t dwDesc, void* dw);

/// Workspace bytes of miopenLayerNormBackward.
MIOPEN_EXPORT miopenStatus_t miopenGetLayerNormBackwardWorkspaceSize(
    miopenHandle_t handle, miopenNormMode_t mode, const miopenTensorDescriptor_t dyDesc,
    const miopenTensorDescriptor_t xDesc, const miopenTensorDescriptor_t weightDesc,
    const miopenTensorDescriptor_t meanDesc, const miopenTensorDescriptor_t rstdDesc, const int32_t normalized_dim,
    const miopenTensorDescriptor_t dxDesc, const miopenTensorDescriptor_t dwDesc, const miopenTensorDescriptor_t dbDesc,
    size_t* sizeInBytes);

/// dx, dw and db of miopenLayerNormForward from dy; x, weight, mean and rstd are those of the forward call.
MIOPEN_EXPORT miopenStatus_t miopenLayerNormBackward(
    miopenHandle_t handle, miopenNormMode_t mode, void* workspace, size_t workspaceSizeInBytes,
    const miopenTensorDescriptor_t dyDesc, const void* dy, const miopenTensorDescriptor_t xDesc, const void* x,
    const miopenTensorDescriptor_t weightDesc, const void* weight, const miopenTensorDescriptor_t meanDesc,
    const void* mean, const miopenTensorDescriptor_t rstdDesc, const void* rstd, const int32_t normalized_dim,
    const miopenTensorDescriptor_t dxDesc, void* dx, const miopenTensorDescriptor_t dwDesc, void* dw,
    const miopenTensorDescriptor_t dbDesc, void* db);
#endif

#ifdef __cplusplus
}
#endif

#endif  // MIOPEN_LAYERNORM_H_
