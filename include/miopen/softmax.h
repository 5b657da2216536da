// Softmax over the channels or over whole images. Tensors are fp32, fp16, bf16 or fp64, of rank 1 to 5 (N, C, ...; rank
// 1 is one image) with any strides, or of more dimensions that can be merged to 5 without mixing channels (or images)
// with others; all tensors of a call have the same type and sizes. Sums are fp32 or wider. alpha and beta point to
// floats, with fp64 tensors to doubles; beta 0 does not read the result. The result may be written over an input that
// has the same strides, but must not overlap one otherwise. A row with a NaN or an infinite maximum gives NaN.
// SPDX-License-Identifier: MIT
#ifndef MIOPEN_SOFTMAX_H_
#define MIOPEN_SOFTMAX_H_

#include <miopen/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/// How the result is computed.
typedef enum {
  MIOPEN_SOFTMAX_FAST = 0,      ///< as ACCURATE, which here is as fast and does not overflow
  MIOPEN_SOFTMAX_ACCURATE = 1,  ///< the maximum is subtracted first
  MIOPEN_SOFTMAX_LOG = 2,       ///< the logarithm of the result
} miopenSoftmaxAlgorithm_t;

/// The elements that add up to 1.
typedef enum {
  MIOPEN_SOFTMAX_MODE_INSTANCE = 0,  ///< C, H, W of each image
  MIOPEN_SOFTMAX_MODE_CHANNEL = 1,   ///< C at each N, H, W
} miopenSoftmaxMode_t;

/// y = alpha * e^(x - m) / sum of e^(x - m) + beta * y, where m is the maximum: ACCURATE, over the channels. BadParm if
/// an argument is null or the tensors do not fit together. With MIOPEN_FIND_ENFORCE the first call of a problem
/// measures and tunes, on private data.
MIOPEN_EXPORT miopenStatus_t miopenSoftmaxForward(miopenHandle_t handle, const void* alpha,
                                                  const miopenTensorDescriptor_t xDesc, const void* x, const void* beta,
                                                  const miopenTensorDescriptor_t yDesc, void* y);

/// dx from dy and the y of miopenSoftmaxForward: dx = alpha * y * (dy - sum of y * dy) + beta * dx.
MIOPEN_EXPORT miopenStatus_t miopenSoftmaxBackward(miopenHandle_t handle, const void* alpha,
                                                   const miopenTensorDescriptor_t yDesc, const void* y,
                                                   const miopenTensorDescriptor_t dyDesc, const void* dy,
                                                   const void* beta, const miopenTensorDescriptor_t dxDesc, void* dx);

/// miopenSoftmaxForward with the given algorithm and mode; LOG: y = alpha * (x - m - log of the sum) + beta * y.
/// BadParm for unknown ones.
MIOPEN_EXPORT miopenStatus_t miopenSoftmaxForward_V2(miopenHandle_t handle, const void* alpha,
                                                     const miopenTensorDescriptor_t xDesc, const void* x,
                                                     const void* beta, const miopenTensorDescriptor_t yDesc, void* y,
                                                     miopenSoftmaxAlgorithm_t algorithm, miopenSoftmaxMode_t mode);

/// miopenSoftmaxBackward with the algorithm and mode of the forward call; LOG: dx = alpha * (dy - e^y * sum of dy) +
/// beta * dx.
MIOPEN_EXPORT miopenStatus_t miopenSoftmaxBackward_V2(miopenHandle_t handle, const void* alpha,
                                                      const miopenTensorDescriptor_t yDesc, const void* y,
                                                      const miopenTensorDescriptor_t dyDesc, const void* dy,
                                                      const void* beta, const miopenTensorDescriptor_t dxDesc, void* dx,
                                                      miopenSoftmaxAlgorithm_t algorithm, miopenSoftmaxMode_t mode);

#ifdef __cplusplus
}
#endif

#endif  // MIOPEN_SOFTMAX_H_
