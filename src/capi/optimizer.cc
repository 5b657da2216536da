// Optimizer steps: every function answers that it is not implemented.
// SPDX-License-Identifier: MIT
#include <miopen/optimizer.h>

#include "capi/guard.h"

using polymio::capi::not_implemented;

miopenStatus_t miopenFusedAdam(miopenHandle_t, const miopenTensorDescriptor_t, void*, const miopenTensorDescriptor_t,
                               const void*, const miopenTensorDescriptor_t, void*, const miopenTensorDescriptor_t,
                               void*, const miopenTensorDescriptor_t, void*, const miopenTensorDescriptor_t, void*,
                               const unsigned int, const float, const float, const float, const float, const float,
                               const bool, const bool, const bool, const miopenTensorDescriptor_t, const void*,
                               const miopenTensorDescriptor_t, const void*) {
  return not_implemented("miopenFusedAdam");
}

miopenStatus_t miopenFusedAdamWithOutput(miopenHandle_t, const miopenTensorDescriptor_t, void*,
                                         const miopenTensorDescriptor_t, void*, const miopenTensorDescriptor_t, void*,
                                         const miopenTensorDescriptor_t, const void*, const miopenTensorDescriptor_t,
                                         void*, const miopenTensorDescriptor_t, void*, const miopenTensorDescriptor_t,
                                         void*, const miopenTensorDescriptor_t, void*, const miopenTensorDescriptor_t,
                                         void*, const miopenTensorDescriptor_t, void*, const miopenTensorDescriptor_t,
                                         void*, const miopenTensorDescriptor_t, void*, const unsigned int, const float,
                                         const float, const float, const float, const float, const bool, const bool,
                                         const bool, const miopenTensorDescriptor_t, const void*,
                                         const miopenTensorDescriptor_t, const void*) {
  return not_implemented("miopenFusedAdamWithOutput");
}

miopenStatus_t miopenTransformersAdamW(miopenHandle_t, const miopenTensorDescriptor_t, void*,
                                       const miopenTensorDescriptor_t, const void*, const miopenTensorDescriptor_t,
                                       void*, const miopenTensorDescriptor_t, void*, const miopenTensorDescriptor_t,
                                       void*, const unsigned int, const float, const float, const float, const float,
                                       const float, const bool, const miopenTensorDescriptor_t, const void*,
                                       const miopenTensorDescriptor_t, const void*) {
  return not_implemented("miopenTransformersAdamW");
}

miopenStatus_t miopenTransformersAdamWWithOutput(
    miopenHandle_t, const miopenTensorDescriptor_t, void*, const miopenTensorDescriptor_t, void*,
    const miopenTensorDescriptor_t, void*, const miopenTensorDescriptor_t, const void*, const miopenTensorDescriptor_t,
    void*, const miopenTensorDescriptor_t, void*, const miopenTensorDescriptor_t, void*, const miopenTensorDescriptor_t,
    void*, const miopenTensorDescriptor_t, void*, const miopenTensorDescriptor_t, void*, const unsigned int,
    const float, const float, const float, const float, const float, const float, const bool,
    const miopenTensorDescriptor_t, const void*, const miopenTensorDescriptor_t, const void*) {
  return not_implemented("miopenTransformersAdamWWithOutput");
}
