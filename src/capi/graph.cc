// The operation graph API: every function answers that it is not implemented.
// SPDX-License-Identifier: MIT
#include <miopen/graph.h>

#include "capi/guard.h"

using polymio::capi::not_implemented;

miopenStatus_t miopenBackendCreateDescriptor(miopenBackendDescriptorType_t, miopenBackendDescriptor_t*) {
  return not_implemented("miopenBackendCreateDescriptor");
}

miopenStatus_t miopenBackendSetAttribute(miopenBackendDescriptor_t, miopenBackendAttributeName_t,
                                         miopenBackendAttributeType_t, int64_t, void*) {
  return not_implemented("miopenBackendSetAttribute");
}

miopenStatus_t miopenBackendFinalize(miopenBackendDescriptor_t) { return not_implemented("miopenBackendFinalize"); }

miopenStatus_t miopenBackendGetAttribute(miopenBackendDescriptor_t, miopenBackendAttributeName_t,
                                         miopenBackendAttributeType_t, int64_t, int64_t*, void*) {
  return not_implemented("miopenBackendGetAttribute");
}

miopenStatus_t miopenBackendExecute(miopenHandle_t, miopenBackendDescriptor_t, miopenBackendDescriptor_t) {
  return not_implemented("miopenBackendExecute");
}

miopenStatus_t miopenBackendDestroyDescriptor(miopenBackendDescriptor_t) {
  return not_implemented("miopenBackendDestroyDescriptor");
}

miopenStatus_t miopenBackendInitialize(miopenBackendDescriptor_t, miopenBackendDescriptorType_t, size_t) {
  return not_implemented("miopenBackendInitialize");
}
