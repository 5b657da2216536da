// Functions outside the stable API that existing programs use: the find mode of a convolution, under
// two names, and one workspace query. miopen.h does not include this header.
// SPDX-License-Identifier: MIT
#ifndef MIOPEN_MIOPEN_INTERNAL_H_
#define MIOPEN_MIOPEN_INTERNAL_H_

#include <miopen/convolution.h>

/// The version of the functions below.
#define MIOPEN_API_VERSION_CONVOLUTION_FIND_MODE 1

#ifdef __cplusplus
extern "C" {
#endif

/// How a find function obtains its results.
typedef enum {
  miopenConvolutionFindModeNormal = 1,      ///< Always measures every applicable solver.
  miopenConvolutionFindModeFast = 2,        ///< The find database, else predictions.
  miopenConvolutionFindModeHybrid = 3,      ///< The find database, else as normal.
  miopenConvolutionFindModeReserved_4 = 4,  ///< Accepted; the same as normal.
  /// As hybrid, but measures only solvers that are not specialised on N, H and W.
  miopenConvolutionFindModeDynamicHybrid = 5,
} miopenConvolutionFindMode_t;

/// Sets the find mode of a convolution; until then it is that of MIOPEN_FIND_MODE, else dynamic hybrid. BadParm for
/// other values.
MIOPEN_EXPORT miopenStatus_t miopenSetConvolutionFindMode(miopenConvolutionDescriptor_t convDesc,
                                                          miopenConvolutionFindMode_t findMode);

/// The find mode of a convolution.
MIOPEN_EXPORT miopenStatus_t miopenGetConvolutionFindMode(const miopenConvolutionDescriptor_t convDesc,
                                                          miopenConvolutionFindMode_t* findMode);

/// miopenSetConvolutionFindMode with a plain int, for programs that declare it themselves.
MIOPEN_EXPORT miopenStatus_t miopenHiddenSetConvolutionFindMode(miopenConvolutionDescriptor_t convDesc, int findMode);

/// miopenGetConvolutionFindMode with a plain int.
MIOPEN_EXPORT miopenStatus_t miopenHiddenGetConvolutionFindMode(const miopenConvolutionDescriptor_t convDesc,
                                                                int* findMode);

#ifdef MIOPEN_BETA_API
/// Bytes of extra workspace that backward weights needs for this class of alpha and beta.
/// miopenConvolutionBackwardWeightsGetWorkSpaceSize already counts them.
MIOPEN_EXPORT miopenStatus_t miopenConvolutionABBackwardWeightsGetWorkSpaceSize(
    const miopenAlphaBetaCase_t alpha_beta_case, const miopenTensorDescriptor_t inputTensorDesc,
    const miopenTensorDescriptor_t outputTensorDesc, const miopenConvolutionDescriptor_t convDesc, size_t* buffer_size);
#endif

#ifdef __cplusplus
}
#endif

#endif  // MIOPEN_MIOPEN_INTERNAL_H_
