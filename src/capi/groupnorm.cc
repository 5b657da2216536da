// Group normalisation: every function answers that it is not implemented.
// SPDX-License-Identifier: MIT
#include <miopen/groupnorm.h>

#include "capi/guard.h"

using polymio::capi::not_implemented;

miopenStatus_t miopenGroupNormForward(miopenHandle_t, miopenNormMode_t, const miopenTensorDescriptor_t, const void*,
                                      const miopenTensorDescriptor_t, const void*, const miopenTensorDescriptor_t,
                                      const void*, const uint64_t, const float, const miopenTensorDescriptor_t, void*,
                                      const miopenTensorDescriptor_t, void*, const miopenTensorDescriptor_t, void*) {
  return not_implemented("miopenGroupNormForward");
}
