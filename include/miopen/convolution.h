// Convolution: descriptor and attributes, find and run, immediate mode, bias.
//   y[n, k, p] = alpha * sum over c, r of x[n, c, p * stride + r * dilation - pad] * w[k, c, r]
//              + beta * y[n, k, p]
// with zeros outside x; backward data and backward weights are its adjoints. Spatial dimensions are
// 1, 2 or 3: p and r stand for [D,] [H,] W.
// SPDX-License-Identifier: MIT
#ifndef MIOPEN_CONVOLUTION_H_
#define MIOPEN_CONVOLUTION_H_

#include <miopen/types.h>

// Tensors. x and dx are (N, C, [D,] H, W), y and dy are (N, K, [P,] Q, S) with the sizes of
// miopenGetConvolutionNdForwardOutputDim, w and dw are (K, C / groups, [filter sizes]); group g
// maps its C / groups input channels to its K / groups output channels. Depthwise is groups == C.
// Any positive strides are accepted for each tensor, in every combination of layouts.
//
// Transposed mode. x and y change roles: a forward call computes what backward data computes in the
// normal mode, backward data what forward computes; w is (C, K / groups, [filter sizes]).
//
// Data types. x, w and y of one floating type: miopenFloat, miopenHalf, miopenBFloat16, miopenDouble, or an 8-bit
// float, miopenFloat8_fnuz, miopenBFloat8_fnuz, POLYMIO_FLOAT8_E4M3FN or POLYMIO_FLOAT8_E5M2, which may also be mixed
// with other floats; or x and w of miopenInt8 with y of miopenInt8, miopenInt32 or miopenFloat.
//
// Two ways to run. Find measures the algorithms for a problem once and returns the best; run then
// names the algorithm. The immediate mode lists solutions without measuring and runs one by its id.
// Both use the find database, which keeps results between processes. A run needs no find or query
// before it: the first call prepares what is missing and is slower.

#ifdef __cplusplus
extern "C" {
#endif

/// Kind of a convolution.
typedef enum {
  miopenConvolution = 0,  ///< cross-correlation, with groups
  miopenTranspose = 1,    ///< transposed ("deconvolution")
  miopenGroupConv = 2,    ///< deprecated; the same as miopenConvolution
  miopenDepthwise = 3,    ///< deprecated; the same as miopenConvolution
} miopenConvolutionMode_t;

/// How pads are determined. Descriptors always use the default: the given pads.
typedef enum {
  miopenPaddingDefault = 0,
  miopenPaddingSame = 1,
  miopenPaddingValid = 2,
} miopenPaddingMode_t;

/// Integer options of a convolution descriptor.
typedef enum {
  /// -1 (default), 0, 1: stored and reported only, no effect here
  MIOPEN_CONVOLUTION_ATTRIB_FP16_ALT_IMPL = 0,
  /// 1: only solvers that give the same bits every time; 0 by default
  MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC = 1,
#ifdef MIOPEN_BETA_API
  MIOPEN_CONVOLUTION_ATTRIB_FP8_ROUNDING_MODE = 2,  ///< one of miopenF8RoundingMode_t
#endif
  MIOPEN_CONVOLUTION_ATTRIB_MATH_TYPE = 3,  ///< one of miopenMathType_t; pedantic by default
} miopenConvolutionAttrib_t;

/// Products of fp32 tensors. polymioSetConvolutionMathMode (polymio.h) has more choices; the two combine as it says.
typedef enum {
  miopenMathDefault = 0,   ///< may be rounded to tf32 on devices that multiply it, else as pedantic
  miopenMathPedantic = 1,  ///< fp32
} miopenMathType_t;

/// How a find function obtains its results.
typedef enum {
  miopenConvolutionFindModeNormal = 1,  ///< Always measures every applicable solver.
  miopenConvolutionFindModeFast = 2,    ///< The find database, else predictions.
  miopenConvolutionFindModeHybrid = 3,  ///< The find database, else as normal.
  /// As hybrid, but measures only solvers that are not specialised on N, H and W.
  miopenConvolutionFindModeDynamicHybrid = 5,
  /// A record of the user's find database, as it is. Else the best two of the system's database or of the predictions
  /// are measured once: they are stored as the user's and used if the record's time holds within
  /// MIOPEN_VERIFY_TOLERANCE_PCT percent, or if the first prediction is not slower than the second. If not, the solvers
  /// of dynamic hybrid are tuned, each for at most a second, and measured.
  miopenConvolutionFindModeTrustVerify = 6,
  miopenConvolutionFindModeTrustVerifyFull = 7,  ///< The same, but tunes every solver, with the usual limits.
  miopenConvolutionFindModeDefault = miopenConvolutionFindModeDynamicHybrid,
} miopenConvolutionFindMode_t;

#ifdef MIOPEN_BETA_API
/// Rounding of values converted to an 8-bit float.
typedef enum {
  miopenF8RoundingModeStandard = 0,    ///< to nearest even
  miopenF8RoundingModeStochastic = 1,  ///< up or down at random, right on average; default
} miopenF8RoundingMode_t;

/// Class of a pair (alpha, beta).
typedef enum {
  DEFAULT = 0,      ///< alpha 1, beta 0
  SCALE = 1,        ///< alpha other than 1, beta 0
  BILINEAR = 2,     ///< alpha and beta other than 0
  ERROR_STATE = 3,  ///< alpha 0, beta other than 0
} miopenAlphaBetaCase_t;
#endif

/// Algorithm families of forward convolution. Equal names have equal values in the four enums.
typedef enum {
  miopenConvolutionFwdAlgoGEMM = 0,
  miopenConvolutionFwdAlgoDirect = 1,
  miopenConvolutionFwdAlgoFFT = 2,
  miopenConvolutionFwdAlgoWinograd = 3,
  miopenConvolutionFwdAlgoImplicitGEMM = 5,
} miopenConvFwdAlgorithm_t;

/// An algorithm of MIOpen 2 that no find reports. A macro, so that a `switch` over the algorithms needs no case.
#define miopenConvolutionFwdAlgoStaticCompiledGEMM ((miopenConvFwdAlgorithm_t)4)

/// Algorithm families of backward weights.
typedef enum {
  miopenConvolutionBwdWeightsAlgoGEMM = 0,
  miopenConvolutionBwdWeightsAlgoDirect = 1,
  miopenConvolutionBwdWeightsAlgoWinograd = 3,
  miopenConvolutionBwdWeightsAlgoImplicitGEMM = 5,
} miopenConvBwdWeightsAlgorithm_t;

/// Algorithm families of backward data.
typedef enum {
  miopenConvolutionBwdDataAlgoGEMM = 0,
  miopenConvolutionBwdDataAlgoDirect = 1,
  miopenConvolutionBwdDataAlgoFFT = 2,
  miopenConvolutionBwdDataAlgoWinograd = 3,
  miopenTransposeBwdDataAlgoGEMM = 4,  ///< deprecated; the same as GEMM
  miopenConvolutionBwdDataAlgoImplicitGEMM = 5,
} miopenConvBwdDataAlgorithm_t;

/// Algorithm families of all directions.
typedef enum {
  miopenConvolutionAlgoGEMM = 0,
  miopenConvolutionAlgoDirect = 1,
  miopenConvolutionAlgoFFT = 2,
  miopenConvolutionAlgoWinograd = 3,
  miopenConvolutionAlgoImplicitGEMM = 5,
} miopenConvAlgorithm_t;

/// Result of find for one algorithm. 16 bytes.
typedef struct miopenConvAlgoPerf_t {
  union {
    miopenConvFwdAlgorithm_t fwd_algo;                 ///< After a forward find.
    miopenConvBwdWeightsAlgorithm_t bwd_weights_algo;  ///< After a backward weights find.
    miopenConvBwdDataAlgorithm_t bwd_data_algo;        ///< After a backward data find.
  };
  float time;     ///< Milliseconds of one run.
  size_t memory;  ///< Bytes of workspace for the run.
} miopenConvAlgoPerf_t;

/// A solution of the immediate mode. 32 bytes.
typedef struct miopenConvSolution_t {
  float time;                       ///< Milliseconds of one run: measured, or predicted if no find was made.
  size_t workspace_size;            ///< Bytes of workspace for the run.
  uint64_t solution_id;             ///< Never 0; the same in every process and version.
  miopenConvAlgorithm_t algorithm;  ///< The family it belongs to.
} miopenConvSolution_t;

/// Creates a descriptor: 2-D, pads 0, strides 1, dilations 1, one group, default attributes. Free
/// it with miopenDestroyConvolutionDescriptor.
MIOPEN_EXPORT miopenStatus_t miopenCreateConvolutionDescriptor(miopenConvolutionDescriptor_t* convDesc);

/// Sets a 2-D convolution. Group count, output pads, attributes and find mode return to their
/// defaults; the math mode (polymio.h) stays. BadParm unless pads are at least 0, strides and
/// dilations at least 1 and the mode is known.
MIOPEN_EXPORT miopenStatus_t miopenInitConvolutionDescriptor(miopenConvolutionDescriptor_t convDesc,
                                                             miopenConvolutionMode_t c_mode, int pad_h, int pad_w,
                                                             int stride_h, int stride_w, int dilation_h,
                                                             int dilation_w);

/// Sets a convolution of `spatialDim` spatial dimensions, in the order [D,] [H,] W; otherwise as
/// miopenInitConvolutionDescriptor.
MIOPEN_EXPORT miopenStatus_t miopenInitConvolutionNdDescriptor(miopenConvolutionDescriptor_t convDesc, int spatialDim,
                                                               const int* padA, const int* strideA,
                                                               const int* dilationA, miopenConvolutionMode_t c_mode);

/// The number of spatial dimensions.
MIOPEN_EXPORT miopenStatus_t miopenGetConvolutionSpatialDim(miopenConvolutionDescriptor_t convDesc, int* spatialDim);

/// The values of a 2-D convolution. Null outputs are skipped. UnknownError if it is not 2-D.
MIOPEN_EXPORT miopenStatus_t miopenGetConvolutionDescriptor(miopenConvolutionDescriptor_t convDesc,
                                                            miopenConvolutionMode_t* c_mode, int* pad_h, int* pad_w,
                                                            int* stride_h, int* stride_w, int* dilation_h,
                                                            int* dilation_w);

/// The values of a convolution: the first `requestedSpatialDim` of each array are written, which
/// may be 0 and must not exceed the number of spatial dimensions. `*spatialDim` is that number.
/// Null outputs are skipped.
MIOPEN_EXPORT miopenStatus_t miopenGetConvolutionNdDescriptor(miopenConvolutionDescriptor_t convDesc,
                                                              int requestedSpatialDim, int* spatialDim, int* padA,
                                                              int* strideA, int* dilationA,
                                                              miopenConvolutionMode_t* c_mode);

/// The number of groups.
MIOPEN_EXPORT miopenStatus_t miopenGetConvolutionGroupCount(miopenConvolutionDescriptor_t convDesc, int* groupCount);

/// Sets the number of groups. It is checked where it is used: it must be at least 1, and C and K
/// must be multiples of it.
MIOPEN_EXPORT miopenStatus_t miopenSetConvolutionGroupCount(miopenConvolutionDescriptor_t convDesc, int groupCount);

/// Adds `adj_h` and `adj_w` to the output size of a 2-D transposed convolution. Each must be at
/// least 0 and smaller than the stride, which is checked where the output size is used.
/// UnknownError if the descriptor is not 2-D.
MIOPEN_EXPORT miopenStatus_t miopenSetTransposeConvOutputPadding(miopenConvolutionDescriptor_t convDesc, int adj_h,
                                                                 int adj_w);

/// miopenSetTransposeConvOutputPadding for `spatialDim` dimensions. UnknownError if that is not the
/// number of spatial dimensions of the descriptor.
MIOPEN_EXPORT miopenStatus_t miopenSetTransposeConvNdOutputPadding(miopenConvolutionDescriptor_t convDesc,
                                                                   int spatialDim, const int* adjA);

/// Output sizes of a 2-D convolution of this input with this filter. Each spatial size is
///   normal:     max(1, (in + 2 * pad - 1 - dilation * (filter - 1)) / stride + 1), rounded down
///   transposed: max(1, stride * (in - 1) + 1 + dilation * (filter - 1) - 2 * pad + output pad)
/// UnknownError if it is not 2-D; BadParm if an output is null, or if channels, groups or data
/// types of the two tensors do not fit.
MIOPEN_EXPORT miopenStatus_t miopenGetConvolutionForwardOutputDim(miopenConvolutionDescriptor_t convDesc,
                                                                  const miopenTensorDescriptor_t inputTensorDesc,
                                                                  const miopenTensorDescriptor_t filterDesc, int* n,
                                                                  int* c, int* h, int* w);

/// Output sizes for any number of dimensions, as miopenGetConvolutionForwardOutputDim computes
/// them. `*nDim` becomes the number of sizes, 2 more than the spatial dimensions;
/// `outputTensorDimA` has room for them.
MIOPEN_EXPORT miopenStatus_t miopenGetConvolutionNdForwardOutputDim(miopenConvolutionDescriptor_t convDesc,
                                                                    const miopenTensorDescriptor_t inputTensorDesc,
                                                                    const miopenTensorDescriptor_t filterDesc,
                                                                    int* nDim, int* outputTensorDimA);

/// Sets the find mode of a convolution; until then it is that of MIOPEN_FIND_MODE, else dynamic hybrid. BadParm for
/// other values. A tuning policy (handle.h) other than none, or MIOPEN_FIND_ENFORCE, makes every mode normal.
MIOPEN_EXPORT miopenStatus_t miopenSetConvolutionFindMode(miopenConvolutionDescriptor_t convDesc,
                                                          miopenConvolutionFindMode_t findMode);

/// The find mode of a convolution.
MIOPEN_EXPORT miopenStatus_t miopenGetConvolutionFindMode(const miopenConvolutionDescriptor_t convDesc,
                                                          miopenConvolutionFindMode_t* findMode);

/// Frees a descriptor. BadParm if null.
MIOPEN_EXPORT miopenStatus_t miopenDestroyConvolutionDescriptor(miopenConvolutionDescriptor_t convDesc);

/// Sets an attribute. BadParm if the attribute or the value is unknown. An environment variable
/// (MIOPEN_DEBUG_CONVOLUTION_DETERMINISTIC and MIOPEN_DEBUG_CONVOLUTION_ATTRIB_*) takes precedence.
MIOPEN_EXPORT miopenStatus_t miopenSetConvolutionAttribute(miopenConvolutionDescriptor_t convDesc,
                                                           const miopenConvolutionAttrib_t attr, int value);

/// The value that was set; ignores the environment.
MIOPEN_EXPORT miopenStatus_t miopenGetConvolutionAttribute(miopenConvolutionDescriptor_t convDesc,
                                                           const miopenConvolutionAttrib_t attr, int* value);

/// How many solutions miopenConvolutionForwardGetSolution can return, at most 10: those measured
/// earlier if the database has any, else those predicted. NotImplemented if no solver applies.
MIOPEN_EXPORT miopenStatus_t miopenConvolutionForwardGetSolutionCount(
    miopenHandle_t handle, const miopenTensorDescriptor_t wDesc, const miopenTensorDescriptor_t xDesc,
    const miopenConvolutionDescriptor_t convDesc, const miopenTensorDescriptor_t yDesc, size_t* solutionCount);

/// Up to `maxSolutionCount` solutions, fastest first, but the reference solver always last;
/// `*solutionCount` is how many were written. Both outputs may be null. No solution is Success with a count of 0.
/// Nothing is measured.
MIOPEN_EXPORT miopenStatus_t miopenConvolutionForwardGetSolution(
    miopenHandle_t handle, const miopenTensorDescriptor_t wDesc, const miopenTensorDescriptor_t xDesc,
    const miopenConvolutionDescriptor_t convDesc, const miopenTensorDescriptor_t yDesc, const size_t maxSolutionCount,
    size_t* solutionCount, miopenConvSolution_t* solutions);

/// Workspace bytes of one solution for this problem. BadParm if the id is unknown or its solver
/// does not apply.
MIOPEN_EXPORT miopenStatus_t miopenConvolutionForwardGetSolutionWorkspaceSize(
    miopenHandle_t handle, const miopenTensorDescriptor_t wDesc, const miopenTensorDescriptor_t xDesc,
    const miopenConvolutionDescriptor_t convDesc, const miopenTensorDescriptor_t yDesc, const uint64_t solution_id,
    size_t* workSpaceSize);

/// Prepares a solution, so that the first run is as fast as the others. BadParm as above.
MIOPEN_EXPORT miopenStatus_t miopenConvolutionForwardCompileSolution(
    miopenHandle_t handle, const miopenTensorDescriptor_t wDesc, const miopenTensorDescriptor_t xDesc,
    const miopenConvolutionDescriptor_t convDesc, const miopenTensorDescriptor_t yDesc, const uint64_t solution_id);

/// Runs a solution: y = the convolution of x with w (alpha 1, beta 0). The order of arguments is w
/// before x. Prepares the solution if necessary. `workSpace` may be null if the solution needs none;
/// BadParm if it is too small, if the id is unknown or if its solver does not apply.
MIOPEN_EXPORT miopenStatus_t miopenConvolutionForwardImmediate(
    miopenHandle_t handle, const miopenTensorDescriptor_t wDesc, const void* w, const miopenTensorDescriptor_t xDesc,
    const void* x, const miopenConvolutionDescriptor_t convDesc, const miopenTensorDescriptor_t yDesc, void* y,
    void* workSpace, size_t workSpaceSize, const uint64_t solution_id);

/// The count for backward data; see miopenConvolutionForwardGetSolutionCount.
MIOPEN_EXPORT miopenStatus_t miopenConvolutionBackwardDataGetSolutionCount(
    miopenHandle_t handle, const miopenTensorDescriptor_t dyDesc, const miopenTensorDescriptor_t wDesc,
    const miopenConvolutionDescriptor_t convDesc, const miopenTensorDescriptor_t dxDesc, size_t* solutionCount);

/// The solutions for backward data; see miopenConvolutionForwardGetSolution.
MIOPEN_EXPORT miopenStatus_t miopenConvolutionBackwardDataGetSolution(
    miopenHandle_t handle, const miopenTensorDescriptor_t dyDesc, const miopenTensorDescriptor_t wDesc,
    const miopenConvolutionDescriptor_t convDesc, const miopenTensorDescriptor_t dxDesc, const size_t maxSolutionCount,
    size_t* solutionCount, miopenConvSolution_t* solutions);

/// Workspace bytes of one backward data solution; see
/// miopenConvolutionForwardGetSolutionWorkspaceSize.
MIOPEN_EXPORT miopenStatus_t miopenConvolutionBackwardDataGetSolutionWorkspaceSize(
    miopenHandle_t handle, const miopenTensorDescriptor_t dyDesc, const miopenTensorDescriptor_t wDesc,
    const miopenConvolutionDescriptor_t convDesc, const miopenTensorDescriptor_t dxDesc, const uint64_t solution_id,
    size_t* workSpaceSize);

/// Prepares a backward data solution; see miopenConvolutionForwardCompileSolution.
MIOPEN_EXPORT miopenStatus_t miopenConvolutionBackwardDataCompileSolution(
    miopenHandle_t handle, const miopenTensorDescriptor_t dyDesc, const miopenTensorDescriptor_t wDesc,
    const miopenConvolutionDescriptor_t convDesc, const miopenTensorDescriptor_t dxDesc, const uint64_t solution_id);

/// Runs a backward data solution: dx from dy and w, all of dx is written. Otherwise as
/// miopenConvolutionForwardImmediate.
MIOPEN_EXPORT miopenStatus_t miopenConvolutionBackwardDataImmediate(
    miopenHandle_t handle, const miopenTensorDescriptor_t dyDesc, const void* dy, const miopenTensorDescriptor_t wDesc,
    const void* w, const miopenConvolutionDescriptor_t convDesc, const miopenTensorDescriptor_t dxDesc, void* dx,
    void* workSpace, size_t workSpaceSize, const uint64_t solution_id);

/// The count for backward weights; see miopenConvolutionForwardGetSolutionCount.
MIOPEN_EXPORT miopenStatus_t miopenConvolutionBackwardWeightsGetSolutionCount(
    miopenHandle_t handle, const miopenTensorDescriptor_t dyDesc, const miopenTensorDescriptor_t xDesc,
    const miopenConvolutionDescriptor_t convDesc, const miopenTensorDescriptor_t dwDesc, size_t* solutionCount);

/// The solutions for backward weights; see miopenConvolutionForwardGetSolution.
MIOPEN_EXPORT miopenStatus_t miopenConvolutionBackwardWeightsGetSolution(
    miopenHandle_t handle, const miopenTensorDescriptor_t dyDesc, const miopenTensorDescriptor_t xDesc,
    const miopenConvolutionDescriptor_t convDesc, const miopenTensorDescriptor_t dwDesc, const size_t maxSolutionCount,
    size_t* solutionCount, miopenConvSolution_t* solutions);

/// Workspace bytes of one backward weights solution; see
/// miopenConvolutionForwardGetSolutionWorkspaceSize.
MIOPEN_EXPORT miopenStatus_t miopenConvolutionBackwardWeightsGetSolutionWorkspaceSize(
    miopenHandle_t handle, const miopenTensorDescriptor_t dyDesc, const miopenTensorDescriptor_t xDesc,
    const miopenConvolutionDescriptor_t convDesc, const miopenTensorDescriptor_t dwDesc, const uint64_t solution_id,
    size_t* workSpaceSize);

/// Prepares a backward weights solution; see miopenConvolutionForwardCompileSolution.
MIOPEN_EXPORT miopenStatus_t miopenConvolutionBackwardWeightsCompileSolution(
    miopenHandle_t handle, const miopenTensorDescriptor_t dyDesc, const miopenTensorDescriptor_t xDesc,
    const miopenConvolutionDescriptor_t convDesc, const miopenTensorDescriptor_t dwDesc, const uint64_t solution_id);

/// Runs a backward weights solution: dw from dy and x, all of dw is written. Otherwise as
/// miopenConvolutionForwardImmediate.
MIOPEN_EXPORT miopenStatus_t miopenConvolutionBackwardWeightsImmediate(
    miopenHandle_t handle, const miopenTensorDescriptor_t dyDesc, const void* dy, const miopenTensorDescriptor_t xDesc,
    const void* x, const miopenConvolutionDescriptor_t convDesc, const miopenTensorDescriptor_t dwDesc, void* dw,
    void* workSpace, size_t workSpaceSize, const uint64_t solution_id);

/// Workspace bytes to give to miopenFindConvolutionForwardAlgorithm: enough for every solver that
/// it would consider. With less, solvers that need more are left out. The run may need less;
/// see miopenConvAlgoPerf_t.
MIOPEN_EXPORT miopenStatus_t miopenConvolutionForwardGetWorkSpaceSize(
    miopenHandle_t handle, const miopenTensorDescriptor_t wDesc, const miopenTensorDescriptor_t xDesc,
    const miopenConvolutionDescriptor_t convDesc, const miopenTensorDescriptor_t yDesc, size_t* workSpaceSize);

/// Finds the fastest solver of each algorithm family and returns up to `requestAlgoCount` (at least
/// 1) of them, fastest first. Answers from the find database if it can; else it runs the candidates on the given
/// buffers: y is overwritten, x and w are read and should hold typical data. `exhaustiveSearch` asks to tune the
/// solvers' parameters, where something is measured. NotImplemented if no solver applies; BadParm if all of them need
/// more workspace.
MIOPEN_EXPORT miopenStatus_t miopenFindConvolutionForwardAlgorithm(
    miopenHandle_t handle, const miopenTensorDescriptor_t xDesc, const void* x, const miopenTensorDescriptor_t wDesc,
    const void* w, const miopenConvolutionDescriptor_t convDesc, const miopenTensorDescriptor_t yDesc, void* y,
    const int requestAlgoCount, int* returnedAlgoCount, miopenConvAlgoPerf_t* perfResults, void* workSpace,
    size_t workSpaceSize, bool exhaustiveSearch);

/// Computes y by the best known solver of the family `algo`, with or without a find before. Alpha and beta
/// are host pointers; null is BadParm. BadParm also if the sizes do not fit together, or if the
/// workspace is too small for every such solver (the text gives both numbers); NotImplemented
/// if no solver of the family applies.
MIOPEN_EXPORT miopenStatus_t miopenConvolutionForward(miopenHandle_t handle, const void* alpha,
                                                      const miopenTensorDescriptor_t xDesc, const void* x,
                                                      const miopenTensorDescriptor_t wDesc, const void* w,
                                                      const miopenConvolutionDescriptor_t convDesc,
                                                      miopenConvFwdAlgorithm_t algo, const void* beta,
                                                      const miopenTensorDescriptor_t yDesc, void* y, void* workSpace,
                                                      size_t workSpaceSize);

/// y = alpha * (y + b) + beta * y: adds one bias per channel, b is (1, K, 1, 1[, 1]). y is read
/// even if beta is 0. Every data type and layout.
MIOPEN_EXPORT miopenStatus_t miopenConvolutionForwardBias(miopenHandle_t handle, const void* alpha,
                                                          const miopenTensorDescriptor_t bDesc, const void* b,
                                                          const void* beta, const miopenTensorDescriptor_t yDesc,
                                                          void* y);

/// Workspace bytes for miopenFindConvolutionBackwardDataAlgorithm; see
/// miopenConvolutionForwardGetWorkSpaceSize.
MIOPEN_EXPORT miopenStatus_t miopenConvolutionBackwardDataGetWorkSpaceSize(
    miopenHandle_t handle, const miopenTensorDescriptor_t dyDesc, const miopenTensorDescriptor_t wDesc,
    const miopenConvolutionDescriptor_t convDesc, const miopenTensorDescriptor_t dxDesc, size_t* workSpaceSize);

/// Finds algorithms for backward data; dx is overwritten. See
/// miopenFindConvolutionForwardAlgorithm.
MIOPEN_EXPORT miopenStatus_t miopenFindConvolutionBackwardDataAlgorithm(
    miopenHandle_t handle, const miopenTensorDescriptor_t dyDesc, const void* dy, const miopenTensorDescriptor_t wDesc,
    const void* w, const miopenConvolutionDescriptor_t convDesc, const miopenTensorDescriptor_t dxDesc, void* dx,
    const int requestAlgoCount, int* returnedAlgoCount, miopenConvAlgoPerf_t* perfResults, void* workSpace,
    size_t workSpaceSize, bool exhaustiveSearch);

/// Computes dx from dy and w; see miopenConvolutionForward.
MIOPEN_EXPORT miopenStatus_t miopenConvolutionBackwardData(miopenHandle_t handle, const void* alpha,
                                                           const miopenTensorDescriptor_t dyDesc, const void* dy,
                                                           const miopenTensorDescriptor_t wDesc, const void* w,
                                                           const miopenConvolutionDescriptor_t convDesc,
                                                           miopenConvBwdDataAlgorithm_t algo, const void* beta,
                                                           const miopenTensorDescriptor_t dxDesc, void* dx,
                                                           void* workSpace, size_t workSpaceSize);

/// Workspace bytes for miopenFindConvolutionBackwardWeightsAlgorithm; see
/// miopenConvolutionForwardGetWorkSpaceSize.
MIOPEN_EXPORT miopenStatus_t miopenConvolutionBackwardWeightsGetWorkSpaceSize(
    miopenHandle_t handle, const miopenTensorDescriptor_t dyDesc, const miopenTensorDescriptor_t xDesc,
    const miopenConvolutionDescriptor_t convDesc, const miopenTensorDescriptor_t dwDesc, size_t* workSpaceSize);

/// Finds algorithms for backward weights; dw is overwritten. See
/// miopenFindConvolutionForwardAlgorithm.
MIOPEN_EXPORT miopenStatus_t miopenFindConvolutionBackwardWeightsAlgorithm(
    miopenHandle_t handle, const miopenTensorDescriptor_t dyDesc, const void* dy, const miopenTensorDescriptor_t xDesc,
    const void* x, const miopenConvolutionDescriptor_t convDesc, const miopenTensorDescriptor_t dwDesc, void* dw,
    const int requestAlgoCount, int* returnedAlgoCount, miopenConvAlgoPerf_t* perfResults, void* workSpace,
    size_t workSpaceSize, bool exhaustiveSearch);

/// Computes dw from dy and x; see miopenConvolutionForward.
MIOPEN_EXPORT miopenStatus_t miopenConvolutionBackwardWeights(miopenHandle_t handle, const void* alpha,
                                                              const miopenTensorDescriptor_t dyDesc, const void* dy,
                                                              const miopenTensorDescriptor_t xDesc, const void* x,
                                                              const miopenConvolutionDescriptor_t convDesc,
                                                              miopenConvBwdWeightsAlgorithm_t algo, const void* beta,
                                                              const miopenTensorDescriptor_t dwDesc, void* dw,
                                                              void* workSpace, size_t workSpaceSize);

/// db = alpha * (sum of dy over all dimensions but the channel) + beta * db; db is (1, K, 1, 1[,
/// 1]). Every data type and layout.
MIOPEN_EXPORT miopenStatus_t miopenConvolutionBackwardBias(miopenHandle_t handle, const void* alpha,
                                                           const miopenTensorDescriptor_t dyDesc, const void* dy,
                                                           const void* beta, const miopenTensorDescriptor_t dbDesc,
                                                           void* db);

#ifdef __cplusplus
}
#endif

#endif  // MIOPEN_CONVOLUTION_H_
