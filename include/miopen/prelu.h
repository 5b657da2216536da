// Backward of the parametric ReLU. Beta.
//   y = x > 0 ? x : weight * x, with one weight, or one for each channel
// SPDX-License-Identifier: MIT
#ifndef MIOPEN_PRELU_H_
#define MIOPEN_PRELU_H_

#include <miopen/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef MIOPEN_BETA_API
/// Workspace bytes of miopenPReLUBackward.
MIOPEN_EXPORT miopenStatus_t miopenGetPReLUBackwardWorkspaceSize(miopenHandle_t handle,
                                                                 miopenTensorDescriptor_t inputDesc,
                                                                 miopenTensorDescriptor_t weightDesc,
                                                                 size_t* sizeInBytes);

/// The gradients of the input and of the weight from that of the output (`doutput`).
MIOPEN_EXPORT miopenStatus_t miopenPReLUBackward(miopenHandle_t handle, void* workspace, size_t workspaceSizeInBytes,
                                                 miopenTensorDescriptor_t inputDesc, const void* input,
                                                 miopenTensorDescriptor_t weightDesc, const void* weight,
                                                 miopenTensorDescriptor_t doutputDesc, const void* doutput,
                                                 miopenTensorDescriptor_t dinputDesc, void* dinput,
                                                 miopenTensorDescriptor_t dweightDesc, void* dweight);
#endif

#ifdef __cplusplus
}
#endif

#endif  // MIOPEN_PRELU_H_
