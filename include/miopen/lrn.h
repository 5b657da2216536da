// Local response normalisation, across channels or within a channel.
// Not implemented yet: every function returns miopenStatusNotImplemented.
//   y = x / (K + alpha / n * sum of x^2 over the n neighbours) ^ beta
// SPDX-License-Identifier: MIT
#ifndef MIOPEN_LRN_H_
#define MIOPEN_LRN_H_

#include <miopen/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Which elements are neighbours.
typedef enum {
  miopenLRNWithinChannel = 0,  ///< an n x n window of the same channel
  miopenLRNCrossChannel = 1,   ///< n channels at the same position
} miopenLRNMode_t;

/// Creates a descriptor. Free it with miopenDestroyLRNDescriptor.
MIOPEN_EXPORT miopenStatus_t miopenCreateLRNDescriptor(miopenLRNDescriptor_t* lrnDesc);

/// Sets mode, window n (odd) and the factors alpha, beta and K of the formula.
MIOPEN_EXPORT miopenStatus_t miopenSetLRNDescriptor(const miopenLRNDescriptor_t lrnDesc, miopenLRNMode_t mode,
                                                    unsigned int lrnN, double lrnAlpha, double lrnBeta, double lrnK);

/// The values of a descriptor.
MIOPEN_EXPORT miopenStatus_t miopenGetLRNDescriptor(const miopenLRNDescriptor_t lrnDesc, miopenLRNMode_t* mode,
                                                    unsigned int* lrnN, double* lrnAlpha, double* lrnBeta,
                                                    double* lrnK);

/// Workspace bytes of a forward call with `do_backward`.
MIOPEN_EXPORT miopenStatus_t miopenLRNGetWorkSpaceSize(const miopenTensorDescriptor_t yDesc, size_t* workSpaceSize);

/// y from x. With `do_backward` the workspace receives the scale of each element, for
/// miopenLRNBackward; else it may be null.
MIOPEN_EXPORT miopenStatus_t miopenLRNForward(miopenHandle_t handle, const miopenLRNDescriptor_t lrnDesc,
                                              const void* alpha, const miopenTensorDescriptor_t xDesc, const void* x,
                                              const void* beta, const miopenTensorDescriptor_t yDesc, void* y,
                                              bool do_backward, void* workSpace);

/// dx from dy; x, y and the workspace are those of the forward call.
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
