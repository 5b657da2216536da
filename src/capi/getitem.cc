// Backward of indexing: every function answers that it is not implemented.
// SPDX-License-Identifier: MIT
#include <miopen/getitem.h>

#include "capi/guard.h"

using polymio::capi::not_implemented;

miopenStatus_t miopenGetGetitemWorkspaceSize(miopenHandle_t, uint32_t, const miopenTensorDescriptor_t*, size_t*) {
  return not_implemented("miopenGetGetitemWorkspaceSize");
}

miopenStatus_t miopenGetitemBackward(miopenHandle_t, void*, size_t, const miopenTensorDescriptor_t, const void*,
                                     uint32_t, const miopenTensorDescriptor_t*, const void* const*,
                                     const miopenTensorDescriptor_t, void*, const miopenTensorDescriptor_t, void*,
                                     uint32_t, const int32_t*, uint32_t, const int32_t*, uint32_t) {
  return not_implemented("miopenGetitemBackward");
}
