// Softmax: every function answers that it is not implemented.
// SPDX-License-Identifier: MIT
#include <miopen/softmax.h>

#include "capi/guard.h"

using polymio::capi::not_implemented;

miopenStatus_t miopenSoftmaxForward(miopenHandle_t, const void*, const miopenTensorDescriptor_t, const void*,
                                    const void*, const miopenTensorDescriptor_t, void*) {
  return not_implemented("miopenSoftmaxForward");
}

miopenStatus_t miopenSoftmaxBackward(miopenHandle_t, const void*, const miopenTensorDescriptor_t, const void*,
                                     const miopenTensorDescriptor_t, const void*, const void*,
                                     const miopenTensorDescriptor_t, void*) {
  return not_implemented("miopenSoftmaxBackward");
}

miopenStatus_t miopenSoftmaxForward_V2(miopenHandle_t, const void*, const miopenTensorDescriptor_t, const void*,
                                       const void*, const miopenTensorDescriptor_t, void*, miopenSoftmaxAlgorithm_t,
                                       miopenSoftmaxMode_t) {
  return not_implemented("miopenSoftmaxForward_V2");
}

miopenStatus_t miopenSoftmaxBackward_V2(miopenHandle_t, const void*, const miopenTensorDescriptor_t, const void*,
                                        const miopenTensorDescriptor_t, const void*, const void*,
                                        const miopenTensorDescriptor_t, void*, miopenSoftmaxAlgorithm_t,
                                        miopenSoftmaxMode_t) {
  return not_implemented("miopenSoftmaxBackward_V2");
}
