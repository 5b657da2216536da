// Group `tensor`, sequence descriptors: create and destroy.
// SPDX-License-Identifier: MIT
#include "capi/guard.h"
#include "capi/translate.h"

using namespace polymio;
using capi::guard;
using capi::not_null;

miopenStatus_t miopenCreateSeqTensorDescriptor(miopenSeqTensorDescriptor_t* tensorDesc) {
  return guard([&] {
    not_null(tensorDesc, "tensorDesc");
    *tensorDesc = new capi::SeqTensorObject;
  });
}

miopenStatus_t miopenDestroySeqTensorDescriptor(miopenSeqTensorDescriptor_t tensorDesc) {
  return guard([&] { delete &capi::checked<capi::SeqTensorObject>(tensorDesc); });
}
