// The k-th smallest values: every function answers that it is not implemented.
// SPDX-License-Identifier: MIT
#include <miopen/kthvalue.h>

#include "capi/guard.h"

using polymio::capi::not_implemented;

miopenStatus_t miopenKthvalueForward(miopenHandle_t, miopenTensorDescriptor_t, const void*, miopenTensorDescriptor_t,
                                     void*, miopenTensorDescriptor_t, size_t*, size_t, int32_t, bool) {
  return not_implemented("miopenKthvalueForward");
}
