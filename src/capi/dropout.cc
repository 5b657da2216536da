// Dropout: every function answers that it is not implemented.
// SPDX-License-Identifier: MIT
#include <miopen/dropout.h>

#include "capi/guard.h"

using polymio::capi::not_implemented;

miopenStatus_t miopenCreateDropoutDescriptor(miopenDropoutDescriptor_t*) {
  return not_implemented("miopenCreateDropoutDescriptor");
}

miopenStatus_t miopenDestroyDropoutDescriptor(miopenDropoutDescriptor_t) {
  return not_implemented("miopenDestroyDropoutDescriptor");
}

miopenStatus_t miopenDropoutGetReserveSpaceSize(const miopenTensorDescriptor_t, size_t*) {
  return not_implemented("miopenDropoutGetReserveSpaceSize");
}

miopenStatus_t miopenDropoutGetStatesSize(miopenHandle_t, size_t*) {
  return not_implemented("miopenDropoutGetStatesSize");
}

miopenStatus_t miopenGetDropoutDescriptor(miopenDropoutDescriptor_t, miopenHandle_t, float*, void**,
                                          unsigned long long*, bool*, bool*, miopenRNGType_t*) {
  return not_implemented("miopenGetDropoutDescriptor");
}

miopenStatus_t miopenRestoreDropoutDescriptor(miopenDropoutDescriptor_t, miopenHandle_t, float, void*, size_t,
                                              unsigned long long, bool, bool, miopenRNGType_t) {
  return not_implemented("miopenRestoreDropoutDescriptor");
}

miopenStatus_t miopenSetDropoutDescriptor(miopenDropoutDescriptor_t, miopenHandle_t, float, void*, size_t,
                                          unsigned long long, bool, bool, miopenRNGType_t) {
  return not_implemented("miopenSetDropoutDescriptor");
}

miopenStatus_t miopenDropoutForward(miopenHandle_t, const miopenDropoutDescriptor_t, const miopenTensorDescriptor_t,
                                    const miopenTensorDescriptor_t, const void*, const miopenTensorDescriptor_t, void*,
                                    void*, size_t) {
  return not_implemented("miopenDropoutForward");
}

miopenStatus_t miopenDropoutBackward(miopenHandle_t, const miopenDropoutDescriptor_t, const miopenTensorDescriptor_t,
                                     const miopenTensorDescriptor_t, const void*, const miopenTensorDescriptor_t, void*,
                                     void*, size_t) {
  return not_implemented("miopenDropoutBackward");
}
