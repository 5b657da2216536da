// Batch normalisation: training, inference and backward.
//   y = (x - mean) * inverse_std * scale + bias, inverse_std = 1 / sqrt(variance + epsilon)
// Tensors of rank 2 to 5 with any strides, fp32, fp16, bf16 and fp64. Alpha and beta point to floats for every type;
// data gradients become alpha * gradient + beta * old, and so do those of the parameters. Parameters are fp32, fp16,
// bf16 or fp64 without gaps, with equal strides; those of a 5-D tensor may be described as (1, C, D * H, W). The V1
// functions take one descriptor for scale, bias, mean and variance, the V2 functions one for each. If V1's is of 16
// bits and x has its channels last, mean, variance and the gradients of the parameters are fp32 all the same. y may be
// x, and dx may be x or dy, with equal strides. Asynchronous on the handle's stream, as safe for threads as the handle.
// BadParm: a null pointer that is not declared optional, or descriptors that do not fit together.
// SPDX-License-Identifier: MIT
#ifndef MIOPEN_BATCHNORM_H_
#define MIOPEN_BATCHNORM_H_

#include <miopen/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Which elements share a mean and a variance.
typedef enum {
  miopenBNPerActivation = 0,  ///< those of all N; parameters are (1, C, [D,] H, W)
  miopenBNSpatial = 1,        ///< those of a channel; parameters are (1, C, 1, 1[, 1])
} miopenBatchNormMode_t;

/// Fills `derivedBnDesc`, a created descriptor, with the sizes of the parameters for x in this
/// mode. Their type is miopenFloat for every x. BadParm unless x has rank 4 or 5.
MIOPEN_EXPORT miopenStatus_t miopenDeriveBNTensorDescriptor(miopenTensorDescriptor_t derivedBnDesc,
                                                            const miopenTensorDescriptor_t xDesc,
                                                            miopenBatchNormMode_t bn_mode);

/// Normalises x by the mean and variance of this batch. If the running pointers are not null, they
/// become (1 - expAvgFactor) * running + expAvgFactor * batch. If the save pointers are not null,
/// they receive the mean and the inverse standard deviation for the backward pass.
MIOPEN_EXPORT miopenStatus_t miopenBatchNormalizationForwardTraining(
    miopenHandle_t handle, miopenBatchNormMode_t bn_mode, void* alpha, void* beta, const miopenTensorDescriptor_t xDesc,
    const void* x, const miopenTensorDescriptor_t yDesc, void* y, const miopenTensorDescriptor_t bnScaleBiasMeanVarDesc,
    void* bnScale, void* bnBias, double expAvgFactor, void* resultRunningMean, void* resultRunningVariance,
    double epsilon, void* resultSaveMean, void* resultSaveInvVariance);

/// miopenBatchNormalizationForwardTraining with a descriptor for each parameter.
MIOPEN_EXPORT miopenStatus_t miopenBatchNormalizationForwardTraining_V2(
    miopenHandle_t handle, miopenBatchNormMode_t bn_mode, void* alpha, void* beta, const miopenTensorDescriptor_t xDesc,
    const void* x, const miopenTensorDescriptor_t yDesc, void* y, const miopenTensorDescriptor_t scaleDesc,
    const miopenTensorDescriptor_t biasVarDesc, const miopenTensorDescriptor_t savedMeanDesc,
    const miopenTensorDescriptor_t savedVarDesc, void* bnScale, void* bnBias, double expAvgFactor,
    void* resultRunningMean, void* resultRunningVariance, double epsilon, void* resultSaveMean,
    void* resultSaveInvVariance);

/// Normalises x by the given mean and variance.
MIOPEN_EXPORT miopenStatus_t miopenBatchNormalizationForwardInference(
    miopenHandle_t handle, miopenBatchNormMode_t bn_mode, void* alpha, void* beta, const miopenTensorDescriptor_t xDesc,
    const void* x, const miopenTensorDescriptor_t yDesc, void* y, const miopenTensorDescriptor_t bnScaleBiasMeanVarDesc,
    void* bnScale, void* bnBias, void* estimatedMean, void* estimatedVariance, double epsilon);

/// miopenBatchNormalizationForwardInference with a descriptor for each parameter.
MIOPEN_EXPORT miopenStatus_t miopenBatchNormalizationForwardInference_V2(
    miopenHandle_t handle, miopenBatchNormMode_t bn_mode, void* alpha, void* beta, const miopenTensorDescriptor_t xDesc,
    const void* x, const miopenTensorDescriptor_t yDesc, void* y, const miopenTensorDescriptor_t scaleDesc,
    const miopenTensorDescriptor_t biasDesc, const miopenTensorDescriptor_t estMeanDesc,
    const miopenTensorDescriptor_t estVarianceDesc, void* bnScale, void* bnBias, void* estimatedMean,
    void* estimatedVariance, double epsilon);

/// dx, and the gradients of scale and bias, from dy. `savedMean` and `savedInvVariance` are those
/// of the forward call; if they are null they are computed again from x.
MIOPEN_EXPORT miopenStatus_t miopenBatchNormalizationBackward(
    miopenHandle_t handle, miopenBatchNormMode_t bn_mode, const void* alphaDataDiff, const void* betaDataDiff,
    const void* alphaParamDiff, const void* betaParamDiff, const miopenTensorDescriptor_t xDesc, const void* x,
    const miopenTensorDescriptor_t dyDesc, const void* dy, const miopenTensorDescriptor_t dxDesc, void* dx,
    const miopenTensorDescriptor_t bnScaleBiasDiffDesc, const void* bnScale, void* resultBnScaleDiff,
    void* resultBnBiasDiff, double epsilon, const void* savedMean, const void* savedInvVariance);

/// miopenBatchNormalizationBackward with a descriptor for each parameter.
MIOPEN_EXPORT miopenStatus_t miopenBatchNormalizationBackward_V2(
    miopenHandle_t handle, miopenBatchNormMode_t bn_mode, const void* alphaDataDiff, const void* betaDataDiff,
    const void* alphaParamDiff, const void* betaParamDiff, const miopenTensorDescriptor_t xDesc, const void* x,
    const miopenTensorDescriptor_t dyDesc, const void* dy, const miopenTensorDescriptor_t dxDesc, void* dx,
    const miopenTensorDescriptor_t scaleDesc, const miopenTensorDescriptor_t biasDesc,
    const miopenTensorDescriptor_t savedMeanDesc, const miopenTensorDescriptor_t savedVarDesc, const void* bnScale,
    void* resultBnScaleDiff, void* resultBnBiasDiff, double epsilon, const void* savedMean,
    const void* savedInvVariance);

// The functions below belong to MIOpen 3.5. `activDesc` names an activation of the result; null is none. RELU,
// CLIPPEDRELU and CLAMP are computed with the norm, others in passes of their own.

/// miopenBatchNormalizationForwardTraining_V2 that reads the running statistics from `prev` and writes them to `next`;
/// both may be the same.
MIOPEN_EXPORT miopenStatus_t miopenBatchNormalizationForwardTraining_V3(
    miopenHandle_t handle, miopenBatchNormMode_t bn_mode, void* alpha, void* beta, const miopenTensorDescriptor_t xDesc,
    const void* x, const miopenTensorDescriptor_t yDesc, void* y, const miopenTensorDescriptor_t scaleDesc,
    const miopenTensorDescriptor_t biasVarDesc, const miopenTensorDescriptor_t savedMeanDesc,
    const miopenTensorDescriptor_t savedVarDesc, void* bnScale, void* bnBias, double expAvgFactor,
    const void* prevResultRunningMean, const void* prevResultRunningVariance, void* nextResultRunningMean,
    void* nextResultRunningVariance, double epsilon, void* resultSaveMean, void* resultSaveInvVariance);

/// miopenBatchNormalizationForwardTraining_V2 with an activation of y.
MIOPEN_EXPORT miopenStatus_t miopenBatchNormForwardTrainingActivation(
    miopenHandle_t handle, miopenBatchNormMode_t bn_mode, void* alpha, void* beta, const miopenTensorDescriptor_t xDesc,
    const void* x, const miopenTensorDescriptor_t yDesc, void* y, const miopenTensorDescriptor_t scaleDesc,
    const miopenTensorDescriptor_t biasVarDesc, const miopenTensorDescriptor_t savedMeanDesc,
    const miopenTensorDescriptor_t savedVarDesc, void* bnScale, void* bnBias, double expAvgFactor,
    void* resultRunningMean, void* resultRunningVariance, double epsilon, void* resultSaveMean,
    void* resultSaveInvVariance, const miopenActivationDescriptor_t activDesc);

/// miopenBatchNormalizationForwardTraining_V3 with an activation of y.
MIOPEN_EXPORT miopenStatus_t miopenBatchNormForwardTrainingActivation_V2(
    miopenHandle_t handle, miopenBatchNormMode_t bn_mode, void* alpha, void* beta, const miopenTensorDescriptor_t xDesc,
    const void* x, const miopenTensorDescriptor_t yDesc, void* y, const miopenTensorDescriptor_t scaleDesc,
    const miopenTensorDescriptor_t biasVarDesc, const miopenTensorDescriptor_t savedMeanDesc,
    const miopenTensorDescriptor_t savedVarDesc, void* bnScale, void* bnBias, double expAvgFactor,
    const void* prevResultRunningMean, const void* prevResultRunningVariance, void* nextResultRunningMean,
    void* nextResultRunningVariance, double epsilon, void* resultSaveMean, void* resultSaveInvVariance,
    const miopenActivationDescriptor_t activDesc);

/// miopenBatchNormalizationForwardInference_V2 of the inverse standard deviation instead of the variance.
MIOPEN_EXPORT miopenStatus_t miopenBatchNormalizationForwardInferenceInvVariance(
    miopenHandle_t handle, miopenBatchNormMode_t bn_mode, void* alpha, void* beta, const miopenTensorDescriptor_t xDesc,
    const void* x, const miopenTensorDescriptor_t yDesc, void* y, const miopenTensorDescriptor_t scaleDesc,
    const miopenTensorDescriptor_t biasDesc, const miopenTensorDescriptor_t estMeanDesc,
    const miopenTensorDescriptor_t estInvVarianceDesc, void* bnScale, void* bnBias, void* estimatedMean,
    void* estimatedInvVariance);

/// The same with an activation of y.
MIOPEN_EXPORT miopenStatus_t miopenBatchNormForwardInferenceActivationInvVariance(
    miopenHandle_t handle, miopenBatchNormMode_t bn_mode, void* alpha, void* beta, const miopenTensorDescriptor_t xDesc,
    const void* x, const miopenTensorDescriptor_t yDesc, void* y, const miopenTensorDescriptor_t scaleDesc,
    const miopenTensorDescriptor_t biasDesc, const miopenTensorDescriptor_t estMeanDesc,
    const miopenTensorDescriptor_t estInvVarianceDesc, void* bnScale, void* bnBias, void* estimatedMean,
    void* estimatedInvVariance, const miopenActivationDescriptor_t activDesc);

/// miopenBatchNormalizationForwardInference_V2 with an activation of y.
MIOPEN_EXPORT miopenStatus_t miopenBatchNormForwardInferenceActivation(
    miopenHandle_t handle, miopenBatchNormMode_t bn_mode, void* alpha, void* beta, const miopenTensorDescriptor_t xDesc,
    const void* x, const miopenTensorDescriptor_t yDesc, void* y, const miopenTensorDescriptor_t scaleDesc,
    const miopenTensorDescriptor_t biasDesc, const miopenTensorDescriptor_t estMeanDesc,
    const miopenTensorDescriptor_t estVarianceDesc, void* bnScale, void* bnBias, void* estimatedMean,
    void* estimatedVariance, double epsilon, const miopenActivationDescriptor_t activDesc);

/// miopenBatchNormalizationBackward_V2 through the activation, whose input is computed again from x, scale and bias.
MIOPEN_EXPORT miopenStatus_t miopenBatchNormBackwardActivation(
    miopenHandle_t handle, miopenBatchNormMode_t bn_mode, const void* alphaDataDiff, const void* betaDataDiff,
    const void* alphaParamDiff, const void* betaParamDiff, const miopenTensorDescriptor_t xDesc, const void* x,
    const miopenTensorDescriptor_t dyDesc, const void* dy, const miopenTensorDescriptor_t dxDesc, void* dx,
    const miopenTensorDescriptor_t scaleDesc, const miopenTensorDescriptor_t biasDesc,
    const miopenTensorDescriptor_t savedMeanDesc, const miopenTensorDescriptor_t savedVarianceDesc, const void* bnScale,
    const void* bnBias, void* resultBnScaleDiff, void* resultBnBiasDiff, double epsilon, const void* savedMean,
    const void* savedInvVariance, const miopenActivationDescriptor_t activDesc);

#ifdef __cplusplus
}
#endif

#endif  // MIOPEN_BATCHNORM_H_
