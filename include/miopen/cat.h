// Concatenation of tensors along one dimension. Beta.
// SPDX-License-Identifier: MIT
#ifndef MIOPEN_CAT_H_
#define MIOPEN_CAT_H_

#include <miopen/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef MIOPEN_BETA_API
/// Joins the `xCount` tensors xs, in order, along dimension `dim` (0 is the outermost, -1 the last) into y. Their other
/// sizes are equal, and their sizes along `dim` add up to that of y. One data type of any size; strides may be any. An
/// input whose descriptor has sizes of 0 is left out. The arrays are in host memory and read during the call; each xs
/// is a device pointer. BadParm, with nothing written, for other types or sizes and for inputs that overlap y, except
/// an input that is its own part of y. Safe to call from several threads with different handles.
MIOPEN_EXPORT miopenStatus_t miopenCatForward(miopenHandle_t handle, const int32_t xCount,
                                              const miopenTensorDescriptor_t* xDescs, const void* const* xs,
                                              const miopenTensorDescriptor_t yDesc, void* y, const int32_t dim);
#endif

#ifdef __cplusplus
}
#endif

#endif  // MIOPEN_CAT_H_
