// Fusion: several operations that run as one. A plan is a list of operations on a tensor (convolution, bias, batch
// normalisation, activation), in any order, compiled once for each handle and run with arguments, which may change
// between runs. Null and foreign objects, and operations that cannot follow, are BadParm. Plans and arguments must not
// be changed while other threads use them; several threads may execute a compiled plan.
// SPDX-License-Identifier: MIT
#ifndef MIOPEN_FUSION_H_
#define MIOPEN_FUSION_H_

#include <miopen/activation.h>
#include <miopen/batchnorm.h>
#include <miopen/convolution.h>
#include <miopen/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/// How operations are fused.
typedef enum {
  miopenVerticalFusion = 0,    ///< each takes the result of the one before
  miopenHorizontalFusion = 1,  ///< side by side; not available
} miopenFusionDirection_t;

/// Creates an empty plan for inputs like `inputDesc`. Free it with miopenDestroyFusionPlan.
MIOPEN_EXPORT miopenStatus_t miopenCreateFusionPlan(miopenFusionPlanDescriptor_t* fusePlanDesc,
                                                    const miopenFusionDirection_t fuseDirection,
                                                    const miopenTensorDescriptor_t inputDesc);

/// Frees a plan with its operations. BadParm if null.
MIOPEN_EXPORT miopenStatus_t miopenDestroyFusionPlan(miopenFusionPlanDescriptor_t fusePlanDesc);

/// Prepares the plan for the handle: chooses solvers without running any, and allocates the memory that executions
/// need, which lives as long as the plan and the handle. Cheap if nothing has changed. UnsupportedOp if the operations
/// make no sense or refuse the tensors, UnknownError without operations, NotImplemented for horizontal fusion.
MIOPEN_EXPORT miopenStatus_t miopenCompileFusionPlan(miopenHandle_t handle, miopenFusionPlanDescriptor_t fusePlanDesc);

/// The operation at `op_idx`, counted from 0 in the order of creation. It belongs to the plan. BadParm if there is
/// none.
MIOPEN_EXPORT miopenStatus_t miopenFusionPlanGetOp(miopenFusionPlanDescriptor_t fusePlanDesc, const int op_idx,
                                                   miopenFusionOpDescriptor_t* op);

/// Workspace bytes of an execution: 0, since a compiled plan owns what it needs.
MIOPEN_EXPORT miopenStatus_t miopenFusionPlanGetWorkSpaceSize(miopenHandle_t handle,
                                                              miopenFusionPlanDescriptor_t fusePlanDesc,
                                                              size_t* workSpaceSize, miopenConvFwdAlgorithm_t algo);

/// Up to `requestAlgoCount` algorithms that the convolution of the plan can use; none without a convolution.
MIOPEN_EXPORT miopenStatus_t miopenFusionPlanConvolutionGetAlgo(miopenFusionPlanDescriptor_t fusePlanDesc,
                                                                const int requestAlgoCount, int* returnedAlgoCount,
                                                                miopenConvFwdAlgorithm_t* returnedAlgos);

/// Restricts the convolutions of the plan to one algorithm, where a solver has it. The plan must be compiled again.
MIOPEN_EXPORT miopenStatus_t miopenFusionPlanConvolutionSetAlgo(miopenFusionPlanDescriptor_t fusePlanDesc,
                                                                miopenConvFwdAlgorithm_t algo);

/// Appends a forward convolution with filters like `wDesc`, whose result is dense and has the layout of its input. The
/// operation belongs to the plan, as with all create functions below.
MIOPEN_EXPORT miopenStatus_t miopenCreateOpConvForward(miopenFusionPlanDescriptor_t fusePlanDesc,
                                                       miopenFusionOpDescriptor_t* convOp,
                                                       miopenConvolutionDescriptor_t convDesc,
                                                       const miopenTensorDescriptor_t wDesc);

/// Appends an activation.
MIOPEN_EXPORT miopenStatus_t miopenCreateOpActivationForward(miopenFusionPlanDescriptor_t fusePlanDesc,
                                                             miopenFusionOpDescriptor_t* activFwdOp,
                                                             miopenActivationMode_t mode);

/// Appends the backward pass of an activation. Together with a backward batch normalisation, before or after it, the
/// gradient is that of the activation behind the normalisation; alone it is computed from the forward result.
MIOPEN_EXPORT miopenStatus_t miopenCreateOpActivationBackward(miopenFusionPlanDescriptor_t fusePlanDesc,
                                                              miopenFusionOpDescriptor_t* activBwdOp,
                                                              miopenActivationMode_t mode);

/// Appends a bias per channel: `bDesc` is (1, K, 1, 1[, 1]), packed, in the type of the plan's tensors.
MIOPEN_EXPORT miopenStatus_t miopenCreateOpBiasForward(miopenFusionPlanDescriptor_t fusePlanDesc,
                                                       miopenFusionOpDescriptor_t* biasOp,
                                                       const miopenTensorDescriptor_t bDesc);

/// Appends a batch normalisation by given mean and variance.
MIOPEN_EXPORT miopenStatus_t miopenCreateOpBatchNormInference(miopenFusionPlanDescriptor_t fusePlanDesc,
                                                              miopenFusionOpDescriptor_t* bnOp,
                                                              const miopenBatchNormMode_t bn_mode,
                                                              const miopenTensorDescriptor_t bnScaleBiasMeanVarDesc);

/// Appends a batch normalisation by the mean and variance of the batch; `runningMeanVariance` also
/// updates the running ones.
MIOPEN_EXPORT miopenStatus_t miopenCreateOpBatchNormForward(miopenFusionPlanDescriptor_t fusePlanDesc,
                                                            miopenFusionOpDescriptor_t* bnFwdOp,
                                                            const miopenBatchNormMode_t bn_mode,
                                                            bool runningMeanVariance);

/// Appends the backward pass of a batch normalisation.
MIOPEN_EXPORT miopenStatus_t miopenCreateOpBatchNormBackward(miopenFusionPlanDescriptor_t fusePlanDesc,
                                                             miopenFusionOpDescriptor_t* bnBwdOp,
                                                             const miopenBatchNormMode_t bn_mode);

/// Creates an empty set of run-time arguments. Free it with miopenDestroyOperatorArgs. The set
/// functions below store pointers, which must be valid when the plan is executed, for the place of an operation in its
/// plan; they are UnknownError for an operation of another kind. Scaling factors may be null; those of a convolution
/// must be 1 and 0, the others are not read.
MIOPEN_EXPORT miopenStatus_t miopenCreateOperatorArgs(miopenOperatorArgs_t* args);

/// Frees a set of arguments. BadParm if null.
MIOPEN_EXPORT miopenStatus_t miopenDestroyOperatorArgs(miopenOperatorArgs_t args);

/// Sets the filter of a convolution.
MIOPEN_EXPORT miopenStatus_t miopenSetOpArgsConvForward(miopenOperatorArgs_t args,
                                                        const miopenFusionOpDescriptor_t convOp, const void* alpha,
                                                        const void* beta, const void* w);

/// Sets the parameters of an activation; see miopenActivationMode_t.
MIOPEN_EXPORT miopenStatus_t miopenSetOpArgsActivForward(miopenOperatorArgs_t args,
                                                         const miopenFusionOpDescriptor_t activFwdOp, const void* alpha,
                                                         const void* beta, double activAlpha, double activBeta,
                                                         double activGamma);

/// Sets the forward result y and the parameters of a backward activation. `reserved` is null.
MIOPEN_EXPORT miopenStatus_t miopenSetOpArgsActivBackward(miopenOperatorArgs_t args,
                                                          const miopenFusionOpDescriptor_t activBwdOp,
                                                          const void* alpha, const void* beta, const void* y,
                                                          const void* reserved, double activAlpha, double activBeta,
                                                          double activGamma);

/// Sets the parameters of a batch normalisation by given mean and variance.
MIOPEN_EXPORT miopenStatus_t miopenSetOpArgsBatchNormInference(miopenOperatorArgs_t args,
                                                               const miopenFusionOpDescriptor_t bnOp, const void* alpha,
                                                               const void* beta, const void* bnScale,
                                                               const void* bnBias, const void* estimatedMean,
                                                               const void* estimatedVariance, double epsilon);

/// Sets the parameters and outputs of a batch normalisation in training; see
/// miopenBatchNormalizationForwardTraining.
MIOPEN_EXPORT miopenStatus_t miopenSetOpArgsBatchNormForward(miopenOperatorArgs_t args,
                                                             const miopenFusionOpDescriptor_t bnOp, const void* alpha,
                                                             const void* beta, const void* bnScale, const void* bnBias,
                                                             void* savedMean, void* savedInvVariance, void* runningMean,
                                                             void* runningVariance, double expAvgFactor,
                                                             double epsilon);

/// Sets the inputs and outputs of a backward batch normalisation; see
/// miopenBatchNormalizationBackward.
MIOPEN_EXPORT miopenStatus_t miopenSetOpArgsBatchNormBackward(miopenOperatorArgs_t args,
                                                              const miopenFusionOpDescriptor_t bnOp, const void* alpha,
                                                              const void* beta, const void* x, const void* bnScale,
                                                              const void* bnBias, void* resultBnScaleDiff,
                                                              void* resultBnBiasDiff, const void* savedMean,
                                                              const void* savedInvVariance);

/// Sets the bias.
MIOPEN_EXPORT miopenStatus_t miopenSetOpArgsBiasForward(miopenOperatorArgs_t args,
                                                        const miopenFusionOpDescriptor_t biasOp, const void* alpha,
                                                        const void* beta, const void* bias);

/// Runs a compiled plan on `input`, on the stream of the handle. The descriptors must be those of the plan, with equal
/// strides, and all arguments must have been set: else BadParm. `output` may be `input` if there is no convolution.
MIOPEN_EXPORT miopenStatus_t miopenExecuteFusionPlan(const miopenHandle_t handle,
                                                     const miopenFusionPlanDescriptor_t fusePlanDesc,
                                                     const miopenTensorDescriptor_t inputDesc, const void* input,
                                                     const miopenTensorDescriptor_t outputDesc, void* output,
                                                     miopenOperatorArgs_t args);

/// miopenExecuteFusionPlan with a workspace, which is not used.
MIOPEN_EXPORT miopenStatus_t miopenExecuteFusionPlan_v2(const miopenHandle_t handle,
                                                        const miopenFusionPlanDescriptor_t fusePlanDesc,
                                                        const miopenTensorDescriptor_t inputDesc, const void* input,
                                                        const miopenTensorDescriptor_t outputDesc, void* output,
                                                        miopenOperatorArgs_t args, void* workspace,
                                                        size_t workspaceSize);

/// y = activation(alpha1 * convolution(x, w) + alpha2 * z + bias). z has the type and the sizes of y, and is y or does
/// not overlap it; the bias is (1, K, 1, 1[, 1]). z and the bias may be null, the factors too: 1. The fastest known
/// solver within the workspace runs; on GPUs, if that is null, with up to 32 MiB that the handle keeps: a call in a
/// capture must have run on its stream before. `algo` is not used.
MIOPEN_EXPORT miopenStatus_t miopenConvolutionBiasActivationForward(
    miopenHandle_t handle, const void* alpha1, const miopenTensorDescriptor_t xDesc, const void* x,
    const miopenTensorDescriptor_t wDesc, const void* w, const miopenConvolutionDescriptor_t convDesc,
    miopenConvFwdAlgorithm_t algo, void* workspace, size_t workspaceSizeInBytes, const void* alpha2,
    const miopenTensorDescriptor_t zDesc, const void* z, const miopenTensorDescriptor_t biasDesc, const void* bias,
    const miopenActivationDescriptor_t activationDesc, const miopenTensorDescriptor_t yDesc, void* y);

#ifdef __cplusplus
}
#endif

#endif  // MIOPEN_FUSION_H_
