// Find 2.0: a problem describes what to compute, find returns solutions, a solution is run, saved and
// loaded. Implemented for convolutions, softmax, attention, batch normalisation, and fused problems of convolution,
// bias, batch normalisation and activation. Null and foreign objects are BadParm.
// SPDX-License-Identifier: MIT
#ifndef MIOPEN_FIND2_H_
#define MIOPEN_FIND2_H_

#include <miopen/batchnorm.h>
#include <miopen/convolution.h>
#include <miopen/softmax.h>
#include <miopen/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/// The result of an operation that is computed.
typedef enum {
  miopenProblemDirectionForward = 0,          ///< the result
  miopenProblemDirectionBackward = 1,         ///< the gradient of the input
  miopenProblemDirectionBackwardWeights = 2,  ///< the gradient of the weights
#ifdef MIOPEN_BETA_API
  miopenProblemDirectionInference = 4,  ///< the result, with given statistics (batch normalisation)
#endif
} miopenProblemDirection_t;

/// Names an argument of a problem: the tensors of a convolution (X, W and Y stand for the gradients
/// too), of multi-head attention, and so on. The highest bit marks scalars, whose buffer is host
/// memory.
MIOPEN_EXTENSION typedef enum {
  miopenTensorArgumentIdInvalid = 0,
  miopenTensorConvolutionX = 1,
  miopenTensorConvolutionW = 2,
  miopenTensorConvolutionY = 3,
  miopenTensorMhaK = 4,
  miopenTensorMhaQ = 5,
  miopenTensorMhaV = 6,
  miopenTensorMhaDescaleK = 7,
  miopenTensorMhaDescaleQ = 8,
  miopenTensorMhaDescaleV = 9,
  miopenTensorMhaDescaleS = 10,
  miopenTensorMhaScaleS = 11,
  miopenTensorMhaScaleO = 12,
  miopenTensorMhaDropoutProbability = 13,
  miopenTensorMhaDropoutSeed = 14,
  miopenTensorMhaDropoutOffset = 15,
  miopenTensorMhaO = 16,
  miopenTensorMhaAmaxO = 17,
  miopenTensorMhaAmaxS = 18,
  miopenTensorMhaM = 19,
  miopenTensorMhaZInv = 20,
  miopenTensorMhaDO = 21,
  miopenTensorMhaDescaleO = 22,
  miopenTensorMhaDescaleDO = 23,
  miopenTensorMhaDescaleDS = 24,
  miopenTensorMhaScaleDS = 25,
  miopenTensorMhaScaleDQ = 26,
  miopenTensorMhaScaleDK = 27,
  miopenTensorMhaScaleDV = 28,
  miopenTensorMhaDQ = 29,
  miopenTensorMhaDK = 30,
  miopenTensorMhaDV = 31,
  miopenTensorMhaAmaxDQ = 32,
  miopenTensorMhaAmaxDK = 33,
  miopenTensorMhaAmaxDV = 34,
  miopenTensorMhaAmaxDS = 35,
  miopenTensorMhaBias = 36,
#ifdef MIOPEN_BETA_API
  miopenTensorActivationX = 37,
  miopenTensorActivationY = 38,
  miopenTensorActivationDX = 39,
  miopenTensorActivationDY = 40,
  miopenTensorBiasX = 41,
  miopenTensorBiasY = 42,
  miopenTensorBias = 43,
  miopenTensorSoftmaxX = 44,
  miopenTensorSoftmaxY = 45,
  miopenTensorSoftmaxDX = 46,
  miopenTensorSoftmaxDY = 47,
  miopenTensorBatchnormX = 48,
  miopenTensorBatchnormY = 49,
  miopenTensorBatchnormRunningMean = 50,
  miopenTensorBatchnormRunningVariance = 51,
  miopenTensorBatchnormSavedMean = 52,
  miopenTensorBatchnormSavedVariance = 53,
  miopenTensorBatchnormScale = 54,
  miopenTensorBatchnormScaleDiff = 55,
  miopenTensorBatchnormEstimatedMean = 56,
  miopenTensorBatchnormEstimatedVariance = 57,
  miopenTensorBatchnormBias = 58,
  miopenTensorBatchnormBiasDiff = 59,
  miopenTensorBatchnormDX = 60,
  miopenTensorBatchnormDY = 61,
#endif
  miopenTensorArgumentIsScalar = 1u << 31,
  miopenTensorMhaMask = (1u << 31) | 1,
#ifdef MIOPEN_BETA_API
  miopenScalarBatchnormExpAvgFactor = (1u << 31) | 2,
  miopenScalarBatchnormEpsilon = (1u << 31) | 3,
#endif
} miopenTensorArgumentId_t;

/// Order of the solutions that find returns.
typedef enum {
  miopenFindResultsOrderByTime = 0,           ///< fastest first
  miopenFindResultsOrderByWorkspaceSize = 1,  ///< least workspace first
} miopenFindResultsOrder_t;

/// Mask of an attention.
typedef enum {
  miopenMhaMaskNone = 0,    ///< every position sees all
  miopenMhaMaskCausal = 1,  ///< query i sees the keys 0 to i
} miopenMhaMask_t;

/// One argument of miopenRunSolution.
typedef struct miopenTensorArgument_t {
  miopenTensorArgumentId_t id;           ///< Which argument.
  miopenTensorDescriptor_t* descriptor;  ///< Replaces the descriptor of the problem; may be null.
  void* buffer;                          ///< The data; a host pointer if the id is a scalar.
} miopenTensorArgument_t;

/// Creates a problem: this convolution in this direction. The descriptor is copied. Add the tensors
/// with miopenSetProblemTensorDescriptor, free it with miopenDestroyProblem.
MIOPEN_EXPORT miopenStatus_t miopenCreateConvProblem(miopenProblem_t* problem,
                                                     miopenConvolutionDescriptor_t operatorDesc,
                                                     miopenProblemDirection_t direction);

/// Creates a multi-head attention problem, forward or backward. The descriptor is copied. Needs the tensors
/// miopenTensorMhaK, Q, V, O, M and ZInv, backward also DO, DQ, DK and DV; the scalars Descale*, Scale* and Dropout* of
/// its direction and its Amax* results, device memory of one fp32 (seed and offset: int64) each; Bias if there is one.
/// miopenTensorMhaMask is an optional argument of a run, host memory. Sizes, formulas and types: docs/attention.md.
/// Find fails with InvalidValue for a missing descriptor and NotImplemented for another direction; BadParm for a null
/// problem or descriptor.
MIOPEN_EXPORT miopenStatus_t miopenCreateMhaProblem(miopenProblem_t* problem, miopenMhaDescriptor_t operatorDesc,
                                                    miopenProblemDirection_t direction);

/// Creates an attention descriptor: scale 1. There is no function that frees it. BadParm for null.
MIOPEN_EXPORT miopenStatus_t miopenCreateMhaDescriptor(miopenMhaDescriptor_t* mhaDesc);

/// Sets the factor of the products of queries and keys, usually 1 / sqrt(head size). Problems that were made before
/// keep theirs.
MIOPEN_EXPORT miopenStatus_t miopenSetMhaDescriptor(miopenMhaDescriptor_t mhaDesc, float scale);

/// The factor. BadParm for null.
MIOPEN_EXPORT miopenStatus_t miopenGetMhaDescriptor(miopenMhaDescriptor_t mhaDesc, float* scale);

/// Creates a softmax descriptor: alpha 1, beta 0, ACCURATE, over channels. There is no function that frees it.
MIOPEN_EXPORT miopenStatus_t miopenCreateSoftmaxDescriptor(miopenSoftmaxDescriptor_t* softmaxDesc);

/// Sets the scaling factors, the algorithm and the mode; see softmax.h. BadParm for an unknown algorithm or mode.
MIOPEN_EXPORT miopenStatus_t miopenSetSoftmaxDescriptor(miopenSoftmaxDescriptor_t softmaxDesc, float alpha, float beta,
                                                        miopenSoftmaxAlgorithm_t algorithm, miopenSoftmaxMode_t mode);

/// The values of a softmax descriptor. Null outputs are skipped.
MIOPEN_EXPORT miopenStatus_t miopenGetSoftmaxDescriptor(const miopenSoftmaxDescriptor_t softmaxDesc, float* alpha,
                                                        float* beta, miopenSoftmaxAlgorithm_t* algorithm,
                                                        miopenSoftmaxMode_t* mode);

/// Frees a problem. BadParm if null.
MIOPEN_EXPORT miopenStatus_t miopenDestroyProblem(miopenProblem_t problem);

/// Gives the descriptor of one tensor of the problem; it is copied, and replaces one given before.
/// A convolution needs miopenTensorConvolutionX, W and Y in every direction. BadParm if the problem
/// has no such tensor.
MIOPEN_EXPORT miopenStatus_t miopenSetProblemTensorDescriptor(miopenProblem_t problem, miopenTensorArgumentId_t id,
                                                              const miopenTensorDescriptor_t descriptor);

/// Creates options: no tuning, fastest first, no workspace limit, nothing preallocated. Free them
/// with miopenDestroyFindOptions.
MIOPEN_EXPORT miopenStatus_t miopenCreateFindOptions(miopenFindOptions_t* options);

/// Frees options, not the buffers given to them. BadParm if null.
MIOPEN_EXPORT miopenStatus_t miopenDestroyFindOptions(miopenFindOptions_t options);

/// Not 0: find also tunes the parameters of each solver.
MIOPEN_EXPORT miopenStatus_t miopenSetFindOptionTuning(miopenFindOptions_t options, int value);

/// Sets the order of the results; by time is the default.
MIOPEN_EXPORT miopenStatus_t miopenSetFindOptionResultsOrder(miopenFindOptions_t options,
                                                             miopenFindResultsOrder_t value);

/// Leaves out solutions that need more workspace bytes. SIZE_MAX, the default, is no limit but the handle's
/// (polymioSetWorkspaceLimit).
MIOPEN_EXPORT miopenStatus_t miopenSetFindOptionWorkspaceLimit(miopenFindOptions_t options, size_t value);

/// Gives find a workspace to measure with; it belongs to the caller. Solutions that need more are left out; a null
/// buffer of size 0 leaves out all that need workspace.
MIOPEN_EXPORT miopenStatus_t miopenSetFindOptionPreallocatedWorkspace(miopenFindOptions_t options, void* buffer,
                                                                      size_t size);

/// Gives find a buffer for one tensor. Outputs are overwritten, inputs should hold typical data. A find that measures
/// allocates missing buffers from the handle's allocator and fills them with random values. Tensors that a problem does
/// not have are ignored.
MIOPEN_EXPORT miopenStatus_t miopenSetFindOptionPreallocatedTensor(miopenFindOptions_t options,
                                                                   miopenTensorArgumentId_t id, void* buffer);

/// Accepted without effect: saved solutions never contain compiled kernels, which the kernel cache keeps. BadParm if
/// not 0 or 1.
MIOPEN_EXPORT miopenStatus_t miopenSetFindOptionAttachBinaries(miopenFindOptions_t options, unsigned attach);

/// Finds up to `maxSolutions` solutions, at most one for each algorithm family, in the order of the
/// options; these may be null. `*numSolutions`, unless null, is how many were written; free each with
/// miopenDestroySolution. The find mode of the convolution applies: on a database hit there may be only one solution. A
/// find that runs nothing (a hit, FAST) allocates nothing. Otherwise tensors and workspace are within the limit of the
/// handle: BadParm if the tensors alone exceed it. If the find budget is too short to allocate and fill them, the
/// solutions are predictions. InvalidValue if a tensor descriptor is missing, NotImplemented with reasons if no solver
/// applies. A solution does not refer to the problem, the options or the handle.
MIOPEN_EXPORT miopenStatus_t miopenFindSolutions(miopenHandle_t handle, miopenProblem_t problem,
                                                 miopenFindOptions_t options, miopenSolution_t* solutions,
                                                 size_t* numSolutions, size_t maxSolutions);

/// Runs a solution with the given arguments, in any order. The output of a fused problem is that of its last
/// operation (miopenTensorBiasY or miopenTensorActivationY); buffers of results in between are ignored. With a
/// descriptor that differs from the problem's, the same solver computes that other problem; it may then need
/// other workspace. Several threads may run one solution. InvalidValue if an argument is missing, BadParm if
/// the workspace is too small.
MIOPEN_EXPORT miopenStatus_t miopenRunSolution(miopenHandle_t handle, miopenSolution_t solution, size_t nInputs,
                                               const miopenTensorArgument_t* tensors, void* workspace,
                                               size_t workspaceSize);

/// Frees a solution. BadParm if null.
MIOPEN_EXPORT miopenStatus_t miopenDestroySolution(miopenSolution_t solution);

/// Creates a solution from saved bytes; nothing runs. InvalidValue if they are no solution or damaged,
/// VersionMismatch if they are in another format or for a solver that this version does not have. If the
/// solver has changed since, its tuned parameters are dropped.
MIOPEN_EXPORT miopenStatus_t miopenLoadSolution(miopenSolution_t* solution, const char* data, size_t size);

/// Writes a solution to `data`, which has room for miopenGetSolutionSize bytes.
MIOPEN_EXPORT miopenStatus_t miopenSaveSolution(miopenSolution_t solution, char* data);

/// Bytes of a saved solution.
MIOPEN_EXPORT miopenStatus_t miopenGetSolutionSize(miopenSolution_t solution, size_t* size);

/// Workspace bytes of a run.
MIOPEN_EXPORT miopenStatus_t miopenGetSolutionWorkspaceSize(miopenSolution_t solution, size_t* workspaceSize);

/// Milliseconds of a run, as find measured or predicted it (polymioGetFoundSolutionSource).
MIOPEN_EXPORT miopenStatus_t miopenGetSolutionTime(miopenSolution_t solution, float* time);

/// The id of the solver, as in the immediate mode.
MIOPEN_EXPORT miopenStatus_t miopenGetSolutionSolverId(miopenSolution_t solution, uint64_t* solverId);

/// The algorithm family of a solver. InvalidValue if it is no convolution solver.
MIOPEN_EXPORT miopenStatus_t miopenGetSolverIdConvAlgorithm(uint64_t solverId, miopenConvAlgorithm_t* result);

#ifdef MIOPEN_BETA_API
/// Creates an activation problem, alone or to be fused with others. The descriptor is copied. Backward, alone, needs
/// miopenTensorActivationX, DY and DX; Y matters if it is the buffer of X, which then holds y.
MIOPEN_EXPORT miopenStatus_t miopenCreateActivationProblem(miopenProblem_t* problem,
                                                           miopenActivationDescriptor_t operatorDesc,
                                                           miopenProblemDirection_t direction);

/// Creates a batch normalisation problem: forward (training), backward or inference, else BadParm;
/// `runningMeanVariance`: training also updates the running mean and variance. Its tensors: X, Y, Scale and Bias;
/// inference also EstimatedMean and EstimatedVariance; training RunningMean and RunningVariance if it updates them, and
/// SavedMean and SavedVariance if they have descriptors; backward X, DY, DX, Scale, ScaleDiff, BiasDiff, SavedMean,
/// SavedVariance, and Bias if fused with an activation. Bias, ScaleDiff and BiasDiff have one type and layout, by
/// default those of the scale; so have means and variances, by default fp32, or fp64 for X of fp64. A run forward needs
/// miopenScalarBatchnormEpsilon, training also miopenScalarBatchnormExpAvgFactor: a host double, without a descriptor.
MIOPEN_EXPORT miopenStatus_t miopenCreateBatchnormProblem(miopenProblem_t* problem, miopenBatchNormMode_t mode,
                                                          bool runningMeanVariance, miopenProblemDirection_t direction);

/// Appends problem2 to problem1: the output of the first becomes the input of the second. problem2 does not change. Set
/// tensors before: the input of the first operation, W of a convolution, miopenTensorBias and the scale of a batch
/// normalisation are required; an output without descriptor has the computed sizes and the layout of X. Any order of
/// forward problems, at most one of each kind, but no bias in front of a convolution; or the gradients of a batch
/// normalisation and an activation, from the activation's DY to the normalisation's DX. Else UnsupportedOp;
/// NotImplemented for softmax.
MIOPEN_EXPORT miopenStatus_t miopenFuseProblems(miopenProblem_t problem1, miopenProblem_t problem2);

/// Creates a problem that adds one bias per channel, alone or to be fused with others. miopenTensorBias is
/// packed, [1, channels, 1, ...], in the type of the output. NotImplemented backward: no tensor id names the gradient.
MIOPEN_EXPORT miopenStatus_t miopenCreateBiasProblem(miopenProblem_t* problem, miopenProblemDirection_t direction);

/// Creates a softmax problem. The descriptor is copied. Forward needs miopenTensorSoftmaxX and Y, backward Y, DY and
/// DX: miopenFindSolutions and miopenRunSolution answer InvalidValue if one is missing, and NotImplemented for other
/// directions. Solutions need no workspace. It cannot be fused.
MIOPEN_EXPORT miopenStatus_t miopenCreateSoftmaxProblem(miopenProblem_t* problem,
                                                        miopenSoftmaxDescriptor_t operatorDesc,
                                                        miopenProblemDirection_t direction);
#endif

#ifdef __cplusplus
}
#endif

#endif  // MIOPEN_FIND2_H_
