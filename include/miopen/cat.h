// Concatenation of tensors along one dimension. Beta.
// Not implemented yet: every function returns miopenStatusNotImplemented.
// SPDX-License-Identifier: MIT
#ifndef MIOPEN_CAT_H_
#define MIOPEN_CAT_H_

#include <miopen/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef MIOPEN_BETA_API
/// Joins the `xCount` tensors xs, in order, along dimension `dim` (0 is the outermost) into y.
/// Their other sizes are equal, and their sizes along `dim` add up to that of y. The arrays are in
/// host memory and read during the call; each xs is a device pointer.
MIOPEN_EXPORT miopenStatus_t miopenCatForward(miopenHandle_t handle, const int32_t xCount,
                                              const miopenTensorDescriptor_t* xDescs, const void* const* xs,
                                              const miopenTensorDescriptor_t yDesc, void* y, const int32_t dim);
#endif

#ifdef __cplusplus
}
#endif

#endif  // MIOPEN_CAT_H_
