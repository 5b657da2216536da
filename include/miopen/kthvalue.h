// The k-th smallest values along one dimension. Beta.
// SPDX-License-Identifier: MIT
#ifndef MIOPEN_KTHVALUE_H_
#define MIOPEN_KTHVALUE_H_

#include <miopen/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef MIOPEN_BETA_API
/// For each line of the input along `dim` (negative: counted from the end; -1, the last, by
/// default) the k-th smallest value, k from 1, and its position in the line (device memory, as
/// size_t). The outputs have size 1 along `dim` with `keepDim`, else no such dimension.
MIOPEN_EXPORT miopenStatus_t miopenKthvalueForward(miopenHandle_t handle, miopenTensorDescriptor_t inputDesc,
                                                   const void* input, miopenTensorDescriptor_t outputDesc, void* output,
                                                   miopenTensorDescriptor_t indicesDesc, size_t* indices, size_t k,
                                                   int32_t dim MIOPEN_DEFAULT_ARG(-1),
                                                   bool keepDim MIOPEN_DEFAULT_ARG(false));
#endif

#ifdef __cplusplus
}
#endif

#endif  // MIOPEN_KTHVALUE_H_
