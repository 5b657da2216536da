// Activation functions: every function answers that it is not implemented.
// SPDX-License-Identifier: MIT
#include <miopen/activation.h>

#include "capi/guard.h"

using polymio::capi::not_implemented;

miopenStatus_t miopenCreateActivationDescriptor(miopenActivationDescriptor_t*) {
  return not_implemented("miopenCreateActivationDescriptor");
}

miopenStatus_t miopenSetActivationDescriptor(const miopenActivationDescriptor_t, miopenActivationMode_t, double, double,
                                             double) {
  return not_implemented("miopenSetActivationDescriptor");
}

miopenStatus_t miopenGetActivationDescriptor(const miopenActivationDescriptor_t, miopenActivationMode_t*, double*,
                                             double*, double*) {
  return not_implemented("miopenGetActivationDescriptor");
}

miopenStatus_t miopenActivationForward(miopenHandle_t, const miopenActivationDescriptor_t, const void*,
                                       const miopenTensorDescriptor_t, const void*, const void*,
                                       const miopenTensorDescriptor_t, void*) {
  return not_implemented("miopenActivationForward");
}

miopenStatus_t miopenActivationBackward(miopenHandle_t, const miopenActivationDescriptor_t, const void*,
                                        const miopenTensorDescriptor_t, const void*, const miopenTensorDescriptor_t,
                                        const void*, const miopenTensorDescriptor_t, const void*, const void*,
                                        const miopenTensorDescriptor_t, void*) {
  return not_implemented("miopenActivationBackward");
}

miopenStatus_t miopenDestroyActivationDescriptor(miopenActivationDescriptor_t) {
  return not_implemented("miopenDestroyActivationDescriptor");
}

miopenStatus_t miopenGLUForward(miopenHandle_t, const miopenTensorDescriptor_t, const void*,
                                const miopenTensorDescriptor_t, void*, const uint32_t) {
  return not_implemented("miopenGLUForward");
}

miopenStatus_t miopenGLUBackward(miopenHandle_t, const miopenTensorDescriptor_t, const void*,
                                 const miopenTensorDescriptor_t, const void*, const miopenTensorDescriptor_t, void*,
                                 const uint32_t) {
  return not_implemented("miopenGLUBackward");
}
