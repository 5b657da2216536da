// Local response normalisation: every function answers that it is not implemented.
// SPDX-License-Identifier: MIT
#include <miopen/lrn.h>

#include "capi/guard.h"

using polymio::capi::not_implemented;

miopenStatus_t miopenCreateLRNDescriptor(miopenLRNDescriptor_t*) {
  return not_implemented("miopenCreateLRNDescriptor");
}

miopenStatus_t miopenSetLRNDescriptor(const miopenLRNDescriptor_t, miopenLRNMode_t, unsigned int, double, double,
                                      double) {
  return not_implemented("miopenSetLRNDescriptor");
}

miopenStatus_t miopenGetLRNDescriptor(const miopenLRNDescriptor_t, miopenLRNMode_t*, unsigned int*, double*, double*,
                                      double*) {
  return not_implemented("miopenGetLRNDescriptor");
}

miopenStatus_t miopenLRNGetWorkSpaceSize(const miopenTensorDescriptor_t, size_t*) {
  return not_implemented("miopenLRNGetWorkSpaceSize");
}

miopenStatus_t miopenLRNForward(miopenHandle_t, const miopenLRNDescriptor_t, const void*,
                                const miopenTensorDescriptor_t, const void*, const void*,
                                const miopenTensorDescriptor_t, void*, bool, void*) {
  return not_implemented("miopenLRNForward");
}

miopenStatus_t miopenLRNBackward(miopenHandle_t, const miopenLRNDescriptor_t, const void*,
                                 const miopenTensorDescriptor_t, const void*, const miopenTensorDescriptor_t,
                                 const void*, const miopenTensorDescriptor_t, const void*, const void*,
                                 const miopenTensorDescriptor_t, void*, const void*) {
  return not_implemented("miopenLRNBackward");
}

miopenStatus_t miopenDestroyLRNDescriptor(miopenLRNDescriptor_t) {
  return not_implemented("miopenDestroyLRNDescriptor");
}
