// Softmax over the channel or over the whole image.
// Not implemented yet: every function returns miopenStatusNotImplemented.
//   y = alpha * softmax(x) + beta * y
// x and y are (N, C, H, W) of the same sizes.
// SPDX-License-Identifier: MIT
#ifndef MIOPEN_SOFTMAX_H_
#define MIOPEN_SOFTMAX_H_

#include <miopen/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/// How the result is computed.
typedef enum {
  MIOPEN_SOFTMAX_FAST = 0,      ///< without subtracting the maximum: may overflow
  MIOPEN_SOFTMAX_ACCURATE = 1,  ///< the maximum is subtracted first
  MIOPEN_SOFTMAX_LOG = 2,       ///< the logarithm of the result
} miopenSoftmaxAlgorithm_t;

/// The elements that add up to 1.
typedef enum {
  MIOPEN_SOFTMAX_MODE_INSTANCE = 0,  ///< C, H, W of each image
  MIOPEN_SOFTMAX_MODE_CHANNEL = 1,   ///< C at each N, H, W
} miopenSoftmaxMode_t;

/// y from x: accurate, over the channels.
MIOPEN_EXPORT miopenStatus_t miopenSoftmaxForward(miopenHandle_t handle, const void* alpha,
                                                  const miopenTensorDescriptor_t xDesc, const void* x, const void* beta,
                                                  const miopenTensorDescriptor_t yDesc, void* y);

/// dx from dy and the y of miopenSoftmaxForward: dx = alpha * y * (dy - sum of y * dy) + beta * dx.
MIOPEN_EXPORT miopenStatus_t miopenSoftmaxBackward(miopenHandle_t handle, const void* alpha,
                                                   const miopenTensorDescriptor_t yDesc, const void* y,
                                                   const miopenTensorDescriptor_t dyDesc, const void* dy,
                                                   const void* beta, const miopenTensorDescriptor_t dxDesc, void* dx);

/// miopenSoftmaxForward with the given algorithm and mode.
MIOPEN_EXPORT miopenStatus_t miopenSoftmaxForward_V2(miopenHandle_t handle, const void* alpha,
                                                     const miopenTensorDescriptor_t xDesc, const void* x,
                                                     const void* beta, const miopenTensorDescriptor_t yDesc, void* y,
                                                     miopenSoftmaxAlgorithm_t algorithm, miopenSoftmaxMode_t mode);

/// miopenSoftmaxBackward with the algorithm and mode of the forward call.
MIOPEN_EXPORT miopenStatus_t miopenSoftmaxBackward_V2(miopenHandle_t handle, const void* alpha,
                                                      const miopenTensorDescriptor_t yDesc, const void* y,
                                                      const miopenTensorDescriptor_t dyDesc, const void* dy,
                                                      const void* beta, const miopenTensorDescriptor_t dxDesc, void* dx,
                                                      miopenSoftmaxAlgorithm_t algorithm, miopenSoftmaxMode_t mode);

#ifdef __cplusplus
}
#endif

#endif  // MIOPEN_SOFTMAX_H_
