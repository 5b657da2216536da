// Backward of indexing a tensor with index tensors and slices. Beta.
// Not implemented yet: every function returns miopenStatusNotImplemented.
// SPDX-License-Identifier: MIT
#ifndef MIOPEN_GETITEM_H_
#define MIOPEN_GETITEM_H_

#include <miopen/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef MIOPEN_BETA_API
/// Workspace bytes of miopenGetitemBackward with these index tensors.
MIOPEN_EXPORT miopenStatus_t miopenGetGetitemWorkspaceSize(miopenHandle_t handle, uint32_t indexCount,
                                                           const miopenTensorDescriptor_t* indexDescs,
                                                           size_t* sizeInBytes);

/// Adds dy to the elements of dx that the forward indexing read. `indexs` are `indexCount` device
/// arrays of miopenInt32 indices, one for each of the `dimCount` dimensions in `dims`; negative
/// indices count from the end. `slices` holds `sliceCount` numbers, and `offset` is the first
/// element of the slice in dx. An index that is outside sets its element of `error` to -1. The
/// arrays of descriptors and pointers are host memory.
MIOPEN_EXPORT miopenStatus_t miopenGetitemBackward(miopenHandle_t handle, void* workspace, size_t workspaceSizeInBytes,
                                                   const miopenTensorDescriptor_t dyDesc, const void* dy,
                                                   uint32_t indexCount, const miopenTensorDescriptor_t* indexDescs,
                                                   const void* const* indexs, const miopenTensorDescriptor_t dxDesc,
                                                   void* dx, const miopenTensorDescriptor_t errorDesc, void* error,
                                                   uint32_t dimCount, const int32_t* dims, uint32_t sliceCount,
                                                   const int32_t* slices, uint32_t offset);
#endif

#ifdef __cplusplus
}
#endif

#endif  // MIOPEN_GETITEM_H_
