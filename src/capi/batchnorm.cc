// Batch normalisation: every function answers that it is not implemented.
// SPDX-License-Identifier: MIT
#include <miopen/batchnorm.h>

#include "capi/guard.h"

using polymio::capi::not_implemented;

miopenStatus_t miopenDeriveBNTensorDescriptor(miopenTensorDescriptor_t, const miopenTensorDescriptor_t,
                                              miopenBatchNormMode_t) {
  return not_implemented("miopenDeriveBNTensorDescriptor");
}

miopenStatus_t miopenBatchNormalizationForwardTraining(miopenHandle_t, miopenBatchNormMode_t, void*, void*,
                                                       const miopenTensorDescriptor_t, const void*,
                                                       const miopenTensorDescriptor_t, void*,
                                                       const miopenTensorDescriptor_t, void*, void*, double, void*,
                                                       void*, double, void*, void*) {
  return not_implemented("miopenBatchNormalizationForwardTraining");
}

miopenStatus_t miopenBatchNormalizationForwardTraining_V2(
    miopenHandle_t, miopenBatchNormMode_t, void*, void*, const miopenTensorDescriptor_t, const void*,
    const miopenTensorDescriptor_t, void*, const miopenTensorDescriptor_t, const miopenTensorDescriptor_t,
    const miopenTensorDescriptor_t, const miopenTensorDescriptor_t, void*, void*, double, void*, void*, double, void*,
    void*) {
  return not_implemented("miopenBatchNormalizationForwardTraining_V2");
}

miopenStatus_t miopenBatchNormalizationForwardInference(miopenHandle_t, miopenBatchNormMode_t, void*, void*,
                                                        const miopenTensorDescriptor_t, const void*,
                                                        const miopenTensorDescriptor_t, void*,
                                                        const miopenTensorDescriptor_t, void*, void*, void*, void*,
                                                        double) {
  return not_implemented("miopenBatchNormalizationForwardInference");
}

miopenStatus_t miopenBatchNormalizationForwardInference_V2(
    miopenHandle_t, miopenBatchNormMode_t, void*, void*, const miopenTensorDescriptor_t, const void*,
    const miopenTensorDescriptor_t, void*, const miopenTensorDescriptor_t, const miopenTensorDescriptor_t,
    const miopenTensorDescriptor_t, const miopenTensorDescriptor_t, void*, void*, void*, void*, double) {
  return not_implemented("miopenBatchNormalizationForwardInference_V2");
}

miopenStatus_t miopenBatchNormalizationBackward(miopenHandle_t, miopenBatchNormMode_t, const void*, const void*,
                                                const void*, const void*, const miopenTensorDescriptor_t, const void*,
                                                const miopenTensorDescriptor_t, const void*,
                                                const miopenTensorDescriptor_t, void*, const miopenTensorDescriptor_t,
                                                const void*, void*, void*, double, const void*, const void*) {
  return not_implemented("miopenBatchNormalizationBackward");
}

miopenStatus_t miopenBatchNormalizationBackward_V2(miopenHandle_t, miopenBatchNormMode_t, const void*, const void*,
                                                   const void*, const void*, const miopenTensorDescriptor_t,
                                                   const void*, const miopenTensorDescriptor_t, const void*,
                                                   const miopenTensorDescriptor_t, void*,
                                                   const miopenTensorDescriptor_t, const miopenTensorDescriptor_t,
                                                   const miopenTensorDescriptor_t, const miopenTensorDescriptor_t,
                                                   const void*, void*, void*, double, const void*, const void*) {
  return not_implemented("miopenBatchNormalizationBackward_V2");
}
