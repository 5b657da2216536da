// Rotary position embeddings: every function answers that it is not implemented.
// SPDX-License-Identifier: MIT
#include <miopen/rope.h>

#include "capi/guard.h"

using polymio::capi::not_implemented;

miopenStatus_t miopenRoPEForward(miopenHandle_t, const miopenTensorDescriptor_t, const void*,
                                 const miopenTensorDescriptor_t, const void*, const miopenTensorDescriptor_t,
                                 const void*, const miopenTensorDescriptor_t, void*) {
  return not_implemented("miopenRoPEForward");
}

miopenStatus_t miopenRoPEBackward(miopenHandle_t, const miopenTensorDescriptor_t, const void*,
                                  const miopenTensorDescriptor_t, const void*, const miopenTensorDescriptor_t,
                                  const void*, const miopenTensorDescriptor_t, void*) {
  return not_implemented("miopenRoPEBackward");
}
