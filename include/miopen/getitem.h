// Backward of indexing a tensor with index tensors and slices. Beta.
// SPDX-License-Identifier: MIT
#ifndef MIOPEN_GETITEM_H_
#define MIOPEN_GETITEM_H_

#include <miopen/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef MIOPEN_BETA_API
/// Workspace bytes of miopenGetitemBackward with these index tensors: 0 without index tensors.
MIOPEN_EXPORT miopenStatus_t miopenGetGetitemWorkspaceSize(miopenHandle_t handle, uint32_t indexCount,
                                                           const miopenTensorDescriptor_t* indexDescs,
                                                           size_t* sizeInBytes);

/// Adds dy to the elements of dx that the forward indexing read; dx keeps its other contents. `slices` are `sliceCount`
/// quadruples of dimension, begin, end and step, which give a view of dx; its first element is element `offset` of dx.
/// `indexs` are `indexCount` device arrays of miopenInt32 indices, of equal sizes, one for each of the `dimCount`
/// consecutive dimensions of the view in `dims`, which their sizes replace in dy; negative indices count from the end.
/// An index that is outside is skipped and sets the element of `error` (device memory, int32, `indexCount` elements, or
/// null with a null descriptor) of its tensor to -1. fp32, fp16, bf16 or fp64, any strides. Results are the same in
/// every run. The arrays of descriptors, pointers, dimensions and slices are host memory. BadParm, with nothing
/// written, for other types or sizes, slices beyond dx and too small a workspace. Safe to call from several threads
/// with different handles.
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
