// Layer normalisation: every function answers that it is not implemented.
// SPDX-License-Identifier: MIT
#include <miopen/layernorm.h>

#include "capi/guard.h"

using polymio::capi::not_implemented;

miopenStatus_t miopenLayerNormForward(miopenHandle_t, miopenNormMode_t, const miopenTensorDescriptor_t, const void*,
                                      const miopenTensorDescriptor_t, const void*, const miopenTensorDescriptor_t,
                                      const void*, const float, const int32_t, const miopenTensorDescriptor_t, void*,
                                      const miopenTensorDescriptor_t, void*, const miopenTensorDescriptor_t, void*) {
  return not_implemented("miopenLayerNormForward");
}

miopenStatus_t miopenAddLayerNormForward(miopenHandle_t, miopenNormMode_t, const miopenTensorDescriptor_t, const void*,
                                         const miopenTensorDescriptor_t, const void*, const miopenTensorDescriptor_t,
                                         const void*, const miopenTensorDescriptor_t, const void*, const float,
                                         const int32_t, const miopenTensorDescriptor_t, void*,
                                         const miopenTensorDescriptor_t, void*, const miopenTensorDescriptor_t, void*) {
  return not_implemented("miopenAddLayerNormForward");
}

miopenStatus_t miopenT5LayerNormForward(miopenHandle_t, miopenNormMode_t, const miopenTensorDescriptor_t, const void*,
                                        const miopenTensorDescriptor_t, const void*, const float,
                                        const miopenTensorDescriptor_t, void*, const miopenTensorDescriptor_t, void*) {
  return not_implemented("miopenT5LayerNormForward");
}

miopenStatus_t miopenGetT5LayerNormBackwardWorkspaceSize(miopenHandle_t, miopenNormMode_t,
                                                         const miopenTensorDescriptor_t, const miopenTensorDescriptor_t,
                                                         const miopenTensorDescriptor_t, const miopenTensorDescriptor_t,
                                                         const miopenTensorDescriptor_t, const miopenTensorDescriptor_t,
                                                         size_t*) {
  return not_implemented("miopenGetT5LayerNormBackwardWorkspaceSize");
}

miopenStatus_t miopenT5LayerNormBackward(miopenHandle_t, miopenNormMode_t, void*, size_t,
                                         const miopenTensorDescriptor_t, const void*, const miopenTensorDescriptor_t,
                                         const void*, const miopenTensorDescriptor_t, const void*,
                                         const miopenTensorDescriptor_t, const void*, const miopenTensorDescriptor_t,
                                         void*, const miopenTensorDescriptor_t, void*) {
  return not_implemented("miopenT5LayerNormBackward");
}
