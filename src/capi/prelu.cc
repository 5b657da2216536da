// Parametric ReLU: every function answers that it is not implemented.
// SPDX-License-Identifier: MIT
#include <miopen/prelu.h>

#include "capi/guard.h"

using polymio::capi::not_implemented;

miopenStatus_t miopenGetPReLUBackwardWorkspaceSize(miopenHandle_t, miopenTensorDescriptor_t, miopenTensorDescriptor_t,
                                                   size_t*) {
  return not_implemented("miopenGetPReLUBackwardWorkspaceSize");
}

miopenStatus_t miopenPReLUBackward(miopenHandle_t, void*, size_t, miopenTensorDescriptor_t, const void*,
                                   miopenTensorDescriptor_t, const void*, miopenTensorDescriptor_t, const void*,
                                   miopenTensorDescriptor_t, void*, miopenTensorDescriptor_t, void*) {
  return not_implemented("miopenPReLUBackward");
}
