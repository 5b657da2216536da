// Rotary position embeddings. Beta.
// The innermost dimension is a row of pairs (x0, x1), each rotated by the angle of its position.
// SPDX-License-Identifier: MIT
#ifndef MIOPEN_ROPE_H_
#define MIOPEN_ROPE_H_

#include <miopen/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef MIOPEN_BETA_API
/// y = x * cos + rotate(x) * sin, where rotate maps each pair (x0, x1) to (-x1, x0). cos and sin
/// have the innermost sizes of x and are repeated over the outer ones.
MIOPEN_EXPORT miopenStatus_t miopenRoPEForward(miopenHandle_t handle, const miopenTensorDescriptor_t xDesc,
                                               const void* x, const miopenTensorDescriptor_t cosDesc, const void* cos,
                                               const miopenTensorDescriptor_t sinDesc, const void* sin,
                                               const miopenTensorDescriptor_t yDesc, void* y);

/// dx from dy; cos and sin are those of the forward call.
MIOPEN_EXPORT miopenStatus_t miopenRoPEBackward(miopenHandle_t handle, const miopenTensorDescriptor_t dyDesc,
                                                const void* dy, const miopenTensorDescriptor_t cosDesc, const void* cos,
                                                const miopenTensorDescriptor_t sinDesc, const void* sin,
                                                const miopenTensorDescriptor_t dxDesc, void* dx);
#endif

#ifdef __cplusplus
}
#endif

#endif  // MIOPEN_ROPE_H_
