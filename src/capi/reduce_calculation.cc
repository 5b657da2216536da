// Sums and products along one dimension: every function answers that it is not implemented.
// SPDX-License-Identifier: MIT
#include <miopen/reduce_calculation.h>

#include "capi/guard.h"

using polymio::capi::not_implemented;

miopenStatus_t miopenGetReduceCalculationWorkspaceSize(miopenHandle_t, const miopenTensorDescriptor_t, const int32_t,
                                                       const miopenReduceCalculationOp_t,
                                                       const miopenTensorDescriptor_t, size_t*) {
  return not_implemented("miopenGetReduceCalculationWorkspaceSize");
}

miopenStatus_t miopenReduceCalculationForward(miopenHandle_t, miopenReduceCalculationNanPropagation_t, void*, size_t,
                                              const miopenTensorDescriptor_t, const void*, const int32_t,
                                              const miopenReduceCalculationOp_t, const miopenTensorDescriptor_t,
                                              void*) {
  return not_implemented("miopenReduceCalculationForward");
}
