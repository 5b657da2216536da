// Extremes along one dimension: every function answers that it is not implemented.
// SPDX-License-Identifier: MIT
#include <miopen/reduce_extreme.h>

#include "capi/guard.h"

using polymio::capi::not_implemented;

miopenStatus_t miopenReduceExtremeForward(miopenHandle_t, const miopenTensorDescriptor_t, const void*, const int32_t,
                                          const miopenReduceExtremeOp_t, const miopenTensorDescriptor_t, void*,
                                          const miopenTensorDescriptor_t, void*) {
  return not_implemented("miopenReduceExtremeForward");
}
