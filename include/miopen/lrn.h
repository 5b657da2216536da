// Local response normalisation, across channels or within a channel.
//   y = x / scale ^ beta, scale = K + alpha / n * sum of x^2 over the n neighbours (n^2 in a plane, n^3 in a volume)
// Tensors have 2 to 5 dimensions, fp32, fp16, bf16 or fp64, and any strides. The arguments alpha and beta of the run
// functions are ignored, as by MIOpen: results are overwritten.
// SPDX-License-Identifier: MIT
#ifndef MIOPEN_LRN_H_
#define MIOPEN_LRN_H_

#include <miopen/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Which elements are neighbours.
typedef enum {
  miopenLRNWithinChannel = 0,  ///< n elements of each spatial dimension, in the same channel
  miopenLRNCrossChannel = 1,   ///< n channels at the same position
} miopenLRNMode_t;

/// Creates a descriptor. Free it with miopenDestroyLRNDescriptor.
MIOPEN_EXPORT miopenStatus_t miopenCreateLRNDescriptor(miopenLRNDescriptor_t* lrnDesc);

/// Sets the mode, the window and the factors of the formula. The window of an element has the (n - 1) / 2 elements
/// before it and the n / 2 after it. BadParm for n of 0. Within a channel, n of 1 stands for an alpha of 1.
MIOPEN_EXPORT miopenStatus_t miopenSetLRNDescriptor(const miopenLRNDescriptor_t lrnDesc, miopenLRNMode_t mode,
                                                    unsigned int lrnN, double lrnAlpha, double lrnBeta, double lrnK);

/// The values of a descriptor. BadParm if an output is null.
MIOPEN_EXPORT miopenStatus_t miopenGetLRNDescriptor(const miopenLRNDescriptor_t lrnDesc, miopenLRNMode_t* mode,
                                                    unsigned int* lrnN, double* lrnAlpha, double* lrnBeta,
                                                    double* lrnK);

/// Workspace bytes of a forward call with `do_backward`: 4 (fp64: 8) for each element of y and of the gaps between
/// them.
MIOPEN_EXPORT miopenStatus_t miopenLRNGetWorkSpaceSize(const miopenTensorDescriptor_t yDesc, size_t* workSpaceSize);

/// y from x. With `do_backward` the workspace receives the scale of each element, with the type and strides of y, for
/// miopenLRNBackward; else it is not used and may be null. BadParm if x and y overlap; UnknownError if K is 0.
MIOPEN_EXPORT miopenStatus_t miopenLRNForward(miopenHandle_t handle, const miopenLRNDescriptor_t lrnDesc,
                                              const void* alpha, const miopenTensorDescriptor_t xDesc, const void* x,
                                              const void* beta, const miopenTensorDescriptor_t yDesc, void* y,
                                              bool do_backward, void* workSpace);

/// dx from dy; x, y and the workspace are those of the forward call. Without a workspace (null) the scales are computed
/// from x again. BadParm if dx overlaps an input; UnknownError if K is 0.
MIOPEN_EXPORT miopenStatus_t miopenLRNBackward(miopenHandle_t handle, const miopenLRNDescriptor_t lrnDesc,
                                               const void* alpha, const miopenTensorDescriptor_t yDesc, const void* y,
                                               const miopenTensorDescriptor_t dyDesc, const void* dy,
                                               const miopenTensorDescriptor_t xDesc, const void* x, const void* beta,
                                               const miopenTensorDescriptor_t dxDesc, void* dx, const void* workSpace);

/// Frees a descriptor. BadParm if null.
MIOPEN_EXPORT miopenStatus_t miopenDestroyLRNDescriptor(miopenLRNDescriptor_t lrnDesc);

#ifdef __cplusplus
}
#endif

#endif  // MIOPEN_LRN_H_
