// Loss functions: every function answers that it is not implemented.
// SPDX-License-Identifier: MIT
#include <miopen/loss.h>

#include "capi/guard.h"

using polymio::capi::not_implemented;

miopenStatus_t miopenCreateCTCLossDescriptor(miopenCTCLossDescriptor_t*) {
  return not_implemented("miopenCreateCTCLossDescriptor");
}

miopenStatus_t miopenGetCTCLossDescriptor(miopenCTCLossDescriptor_t, miopenDataType_t*, int*, bool*) {
  return not_implemented("miopenGetCTCLossDescriptor");
}

miopenStatus_t miopenDestroyCTCLossDescriptor(miopenCTCLossDescriptor_t) {
  return not_implemented("miopenDestroyCTCLossDescriptor");
}

miopenStatus_t miopenSetCTCLossDescriptor(miopenCTCLossDescriptor_t, miopenDataType_t, const int, bool) {
  return not_implemented("miopenSetCTCLossDescriptor");
}

miopenStatus_t miopenGetCTCLossWorkspaceSize(miopenHandle_t, const miopenTensorDescriptor_t,
                                             const miopenTensorDescriptor_t, const int*, const int*, const int*,
                                             miopenCTCLossAlgo_t, const miopenCTCLossDescriptor_t, size_t*) {
  return not_implemented("miopenGetCTCLossWorkspaceSize");
}

miopenStatus_t miopenCTCLoss(miopenHandle_t, const miopenTensorDescriptor_t, const void*, const int*, const int*,
                             const int*, void*, const miopenTensorDescriptor_t, void*, miopenCTCLossAlgo_t,
                             const miopenCTCLossDescriptor_t, void*, size_t) {
  return not_implemented("miopenCTCLoss");
}

miopenStatus_t miopenGetSoftMarginLossForwardWorkspaceSize(miopenHandle_t, miopenTensorDescriptor_t,
                                                           miopenTensorDescriptor_t, miopenTensorDescriptor_t,
                                                           miopenLossReductionMode_t, size_t*) {
  return not_implemented("miopenGetSoftMarginLossForwardWorkspaceSize");
}

miopenStatus_t miopenSoftMarginLossForward(miopenHandle_t, miopenTensorDescriptor_t, const void*,
                                           miopenTensorDescriptor_t, const void*, miopenTensorDescriptor_t, void*,
                                           miopenLossReductionMode_t, void*, size_t) {
  return not_implemented("miopenSoftMarginLossForward");
}

miopenStatus_t miopenSoftMarginLossBackward(miopenHandle_t, miopenTensorDescriptor_t, const void*,
                                            miopenTensorDescriptor_t, const void*, miopenTensorDescriptor_t,
                                            const void*, miopenTensorDescriptor_t, void*, miopenLossReductionMode_t) {
  return not_implemented("miopenSoftMarginLossBackward");
}

miopenStatus_t miopenGetMultiMarginLossForwardWorkspaceSize(miopenHandle_t, miopenTensorDescriptor_t,
                                                            miopenTensorDescriptor_t, miopenTensorDescriptor_t,
                                                            miopenTensorDescriptor_t, long, float,
                                                            miopenLossReductionMode_t, size_t*) {
  return not_implemented("miopenGetMultiMarginLossForwardWorkspaceSize");
}

miopenStatus_t miopenMultiMarginLossForward(miopenHandle_t, miopenTensorDescriptor_t, const void*,
                                            miopenTensorDescriptor_t, const void*, miopenTensorDescriptor_t,
                                            const void*, miopenTensorDescriptor_t, void*, long, float,
                                            miopenLossReductionMode_t, void*, size_t) {
  return not_implemented("miopenMultiMarginLossForward");
}
