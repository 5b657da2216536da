// Concatenation: every function answers that it is not implemented.
// SPDX-License-Identifier: MIT
#include <miopen/cat.h>

#include "capi/guard.h"

using polymio::capi::not_implemented;

miopenStatus_t miopenCatForward(miopenHandle_t, const int32_t, const miopenTensorDescriptor_t*, const void* const*,
                                const miopenTensorDescriptor_t, void*, const int32_t) {
  return not_implemented("miopenCatForward");
}
