// Fusion plans: every function answers that it is not implemented.
// SPDX-License-Identifier: MIT
#include <miopen/fusion.h>

#include "capi/guard.h"

using polymio::capi::not_implemented;

miopenStatus_t miopenCreateFusionPlan(miopenFusionPlanDescriptor_t*, const miopenFusionDirection_t,
                                      const miopenTensorDescriptor_t) {
  return not_implemented("miopenCreateFusionPlan");
}

miopenStatus_t miopenDestroyFusionPlan(miopenFusionPlanDescriptor_t) {
  return not_implemented("miopenDestroyFusionPlan");
}

miopenStatus_t miopenCompileFusionPlan(miopenHandle_t, miopenFusionPlanDescriptor_t) {
  return not_implemented("miopenCompileFusionPlan");
}

miopenStatus_t miopenFusionPlanGetOp(miopenFusionPlanDescriptor_t, const int, miopenFusionOpDescriptor_t*) {
  return not_implemented("miopenFusionPlanGetOp");
}

miopenStatus_t miopenFusionPlanGetWorkSpaceSize(miopenHandle_t, miopenFusionPlanDescriptor_t, size_t*,
                                                miopenConvFwdAlgorithm_t) {
  return not_implemented("miopenFusionPlanGetWorkSpaceSize");
}

miopenStatus_t miopenFusionPlanConvolutionGetAlgo(miopenFusionPlanDescriptor_t, const int, int*,
                                                  miopenConvFwdAlgorithm_t*) {
  return not_implemented("miopenFusionPlanConvolutionGetAlgo");
}

miopenStatus_t miopenFusionPlanConvolutionSetAlgo(miopenFusionPlanDescriptor_t, miopenConvFwdAlgorithm_t) {
  return not_implemented("miopenFusionPlanConvolutionSetAlgo");
}

miopenStatus_t miopenCreateOpConvForward(miopenFusionPlanDescriptor_t, miopenFusionOpDescriptor_t*,
                                         miopenConvolutionDescriptor_t, const miopenTensorDescriptor_t) {
  return not_implemented("miopenCreateOpConvForward");
}

miopenStatus_t miopenCreateOpActivationForward(miopenFusionPlanDescriptor_t, miopenFusionOpDescriptor_t*,
                                               miopenActivationMode_t) {
  return not_implemented("miopenCreateOpActivationForward");
}

miopenStatus_t miopenCreateOpActivationBackward(miopenFusionPlanDescriptor_t, miopenFusionOpDescriptor_t*,
                                                miopenActivationMode_t) {
  return not_implemented("miopenCreateOpActivationBackward");
}

miopenStatus_t miopenCreateOpBiasForward(miopenFusionPlanDescriptor_t, miopenFusionOpDescriptor_t*,
                                         const miopenTensorDescriptor_t) {
  return not_implemented("miopenCreateOpBiasForward");
}

miopenStatus_t miopenCreateOpBatchNormInference(miopenFusionPlanDescriptor_t, miopenFusionOpDescriptor_t*,
                                                const miopenBatchNormMode_t, const miopenTensorDescriptor_t) {
  return not_implemented("miopenCreateOpBatchNormInference");
}

miopenStatus_t miopenCreateOpBatchNormForward(miopenFusionPlanDescriptor_t, miopenFusionOpDescriptor_t*,
                                              const miopenBatchNormMode_t, bool) {
  return not_implemented("miopenCreateOpBatchNormForward");
}

miopenStatus_t miopenCreateOpBatchNormBackward(miopenFusionPlanDescriptor_t, miopenFusionOpDescriptor_t*,
                                               const miopenBatchNormMode_t) {
  return not_implemented("miopenCreateOpBatchNormBackward");
}

miopenStatus_t miopenCreateOperatorArgs(miopenOperatorArgs_t*) { return not_implemented("miopenCreateOperatorArgs"); }

miopenStatus_t miopenDestroyOperatorArgs(miopenOperatorArgs_t) { return not_implemented("miopenDestroyOperatorArgs"); }

miopenStatus_t miopenSetOpArgsConvForward(miopenOperatorArgs_t, const miopenFusionOpDescriptor_t, const void*,
                                          const void*, const void*) {
  return not_implemented("miopenSetOpArgsConvForward");
}

miopenStatus_t miopenSetOpArgsActivForward(miopenOperatorArgs_t, const miopenFusionOpDescriptor_t, const void*,
                                           const void*, double, double, double) {
  return not_implemented("miopenSetOpArgsActivForward");
}

miopenStatus_t miopenSetOpArgsActivBackward(miopenOperatorArgs_t, const miopenFusionOpDescriptor_t, const void*,
                                            const void*, const void*, const void*, double, double, double) {
  return not_implemented("miopenSetOpArgsActivBackward");
}

miopenStatus_t miopenSetOpArgsBatchNormInference(miopenOperatorArgs_t, const miopenFusionOpDescriptor_t, const void*,
                                                 const void*, const void*, const void*, const void*, const void*,
                                                 double) {
  return not_implemented("miopenSetOpArgsBatchNormInference");
}

miopenStatus_t miopenSetOpArgsBatchNormForward(miopenOperatorArgs_t, const miopenFusionOpDescriptor_t, const void*,
                                               const void*, const void*, const void*, void*, void*, void*, void*,
                                               double, double) {
  return not_implemented("miopenSetOpArgsBatchNormForward");
}

miopenStatus_t miopenSetOpArgsBatchNormBackward(miopenOperatorArgs_t, const miopenFusionOpDescriptor_t, const void*,
                                                const void*, const void*, const void*, const void*, void*, void*,
                                                const void*, const void*) {
  return not_implemented("miopenSetOpArgsBatchNormBackward");
}

miopenStatus_t miopenSetOpArgsBiasForward(miopenOperatorArgs_t, const miopenFusionOpDescriptor_t, const void*,
                                          const void*, const void*) {
  return not_implemented("miopenSetOpArgsBiasForward");
}

miopenStatus_t miopenExecuteFusionPlan(const miopenHandle_t, const miopenFusionPlanDescriptor_t,
                                       const miopenTensorDescriptor_t, const void*, const miopenTensorDescriptor_t,
                                       void*, miopenOperatorArgs_t) {
  return not_implemented("miopenExecuteFusionPlan");
}

miopenStatus_t miopenConvolutionBiasActivationForward(miopenHandle_t, const void*, const miopenTensorDescriptor_t,
                                                      const void*, const miopenTensorDescriptor_t, const void*,
                                                      const miopenConvolutionDescriptor_t, miopenConvFwdAlgorithm_t,
                                                      void*, size_t, const void*, const miopenTensorDescriptor_t,
                                                      const void*, const miopenTensorDescriptor_t, const void*,
                                                      const miopenActivationDescriptor_t,
                                                      const miopenTensorDescriptor_t, void*) {
  return not_implemented("miopenConvolutionBiasActivationForward");
}
