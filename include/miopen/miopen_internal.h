// Functions outside the stable API that existing programs use: the find mode of a convolution under a second name, and
// one workspace query. miopen.h does not include this header.
// SPDX-License-Identifier: MIT
#ifndef MIOPEN_MIOPEN_INTERNAL_H_
#define MIOPEN_MIOPEN_INTERNAL_H_

#include <miopen/convolution.h>

/// The version of the functions below.
#define MIOPEN_API_VERSION_CONVOLUTION_FIND_MODE 1

#ifdef __cplusplus
extern "C" {
#endif

/// A find mode of older releases: accepted; the same as normal.
#define miopenConvolutionFindModeReserved_4 ((miopenConvolutionFindMode_t)4)

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
