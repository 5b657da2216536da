// Pooling over windows of 1-D to 3-D tensors: maximum or average; fp32, fp16, bf16, fp64, forward int8; any strides.
// x and dx are (N, C, [D, [H,]] W); y and dy have the same N and C and usually the spatial sizes of
// miopenGetPoolingNdForwardOutputDim; windows of further elements are cut off. alpha and beta: doubles for fp64, else
// floats. Setters keep any value; the functions that use a descriptor answer BadParm for invalid ones.
// SPDX-License-Identifier: MIT
#ifndef MIOPEN_POOLING_H_
#define MIOPEN_POOLING_H_

#include <miopen/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Integer type of the indices that a maximum pooling keeps for its backward pass.
typedef enum {
  miopenIndexUint8 = 0,
  miopenIndexUint16 = 1,
  miopenIndexUint32 = 2,
  miopenIndexUint64 = 3,
} miopenIndexType_t;

/// The function of each window.
typedef enum {
  miopenPoolingMax = 0,               ///< the largest element
  miopenPoolingAverage = 1,           ///< the mean of the elements inside the image
  miopenPoolingAverageInclusive = 2,  ///< the mean with the padded zeros counted
} miopenPoolingMode_t;

/// What an index counts.
typedef enum {
  miopenPoolingWorkspaceIndexMask = 0,   ///< the position in the window
  miopenPoolingWorkspaceIndexImage = 1,  ///< the position in the image
} miopenPoolingWorkspaceIndexMode_t;

/// Creates a descriptor: 8-bit indices, positions in the window. Free it with
/// miopenDestroyPoolingDescriptor.
MIOPEN_EXPORT miopenStatus_t miopenCreatePoolingDescriptor(miopenPoolingDescriptor_t* poolDesc);

/// Sets the index type. It must hold all positions of the window, or of the image.
MIOPEN_EXPORT miopenStatus_t miopenSetPoolingIndexType(miopenPoolingDescriptor_t poolDesc,
                                                       miopenIndexType_t index_type);

/// The index type.
MIOPEN_EXPORT miopenStatus_t miopenGetPoolingIndexType(miopenPoolingDescriptor_t poolDesc,
                                                       miopenIndexType_t* index_type);

/// Sets what an index counts.
MIOPEN_EXPORT miopenStatus_t miopenSetPoolingWorkSpaceIndexMode(miopenPoolingDescriptor_t poolDesc,
                                                                miopenPoolingWorkspaceIndexMode_t workspace_index);

/// What an index counts.
MIOPEN_EXPORT miopenStatus_t miopenGetPoolingWorkSpaceIndexMode(miopenPoolingDescriptor_t poolDesc,
                                                                miopenPoolingWorkspaceIndexMode_t* workspace_index);

/// Sets a 2-D pooling, 8-bit indices, positions in the window. A use needs windows and strides >= 1 and pads >= 0.
MIOPEN_EXPORT miopenStatus_t miopenSet2dPoolingDescriptor(miopenPoolingDescriptor_t poolDesc, miopenPoolingMode_t mode,
                                                          int windowHeight, int windowWidth, int pad_h, int pad_w,
                                                          int stride_h, int stride_w);

/// The values of a 2-D pooling. BadParm if it is not 2-D.
MIOPEN_EXPORT miopenStatus_t miopenGet2dPoolingDescriptor(const miopenPoolingDescriptor_t poolDesc,
                                                          miopenPoolingMode_t* mode, int* windowHeight,
                                                          int* windowWidth, int* pad_h, int* pad_w, int* stride_h,
                                                          int* stride_w);

/// Output sizes of a 2-D pooling; each spatial size is max(1, (in + 2 * pad - window) / stride +
/// 1).
MIOPEN_EXPORT miopenStatus_t miopenGetPoolingForwardOutputDim(const miopenPoolingDescriptor_t poolDesc,
                                                              const miopenTensorDescriptor_t tensorDesc, int* n, int* c,
                                                              int* h, int* w);

/// Sets a pooling over `nbDims` dimensions, 1 to 3, in the order [D,] [H,] W; 8-bit indices, positions of 3-D: image.
MIOPEN_EXPORT miopenStatus_t miopenSetNdPoolingDescriptor(miopenPoolingDescriptor_t poolDesc,
                                                          const miopenPoolingMode_t mode, int nbDims,
                                                          const int* windowDimA, const int* padA, const int* stridesA);

/// The values of a pooling. The arrays have room for `nbDimsRequested` values; `*nbDims` is the
/// number of spatial dimensions.
MIOPEN_EXPORT miopenStatus_t miopenGetNdPoolingDescriptor(const miopenPoolingDescriptor_t poolDesc, int nbDimsRequested,
                                                          miopenPoolingMode_t* mode, int* nbDims, int* windowDimA,
                                                          int* padA, int* stridesA);

/// Output sizes, N and C included; `dims` is their number and `tensorDimArr` has room for them.
MIOPEN_EXPORT miopenStatus_t miopenGetPoolingNdForwardOutputDim(const miopenPoolingDescriptor_t poolDesc,
                                                                const miopenTensorDescriptor_t tensorDesc, int dims,
                                                                int* tensorDimArr);

/// Workspace bytes of a maximum pooling with 8-bit indices. Prefer the V2 function.
MIOPEN_EXPORT miopenStatus_t miopenPoolingGetWorkSpaceSize(const miopenTensorDescriptor_t yDesc, size_t* workSpaceSize);

/// Workspace bytes of a forward call with `do_backward`: the indices of a maximum pooling.
MIOPEN_EXPORT miopenStatus_t miopenPoolingGetWorkSpaceSizeV2(const miopenPoolingDescriptor_t poolDesc,
                                                             const miopenTensorDescriptor_t yDesc,
                                                             size_t* workSpaceSize);

/// y = alpha * pooling of x + beta * y. With `do_backward` a maximum pooling writes the indices, in y's order, to the
/// workspace, for miopenPoolingBackward; else the workspace may be null. A `workSpaceSize` of 0 is not checked.
MIOPEN_EXPORT miopenStatus_t miopenPoolingForward(miopenHandle_t handle, const miopenPoolingDescriptor_t poolDesc,
                                                  const void* alpha, const miopenTensorDescriptor_t xDesc,
                                                  const void* x, const void* beta, const miopenTensorDescriptor_t yDesc,
                                                  void* y, bool do_backward, void* workSpace, size_t workSpaceSize);

/// dx = alpha * gradient + beta * dx. A maximum pooling reads the indices that the forward call wrote, or, with a null
/// workspace, finds them in x; nothing else reads x, and y is not read: these may be null.
MIOPEN_EXPORT miopenStatus_t miopenPoolingBackward(miopenHandle_t handle, const miopenPoolingDescriptor_t poolDesc,
                                                   const void* alpha, const miopenTensorDescriptor_t yDesc,
                                                   const void* y, const miopenTensorDescriptor_t dyDesc, const void* dy,
                                                   const miopenTensorDescriptor_t xDesc, const void* x,
                                                   const void* beta, const miopenTensorDescriptor_t dxDesc, void* dx,
                                                   void* workSpace);

/// Frees a descriptor. BadParm if null.
MIOPEN_EXPORT miopenStatus_t miopenDestroyPoolingDescriptor(miopenPoolingDescriptor_t poolDesc);

#ifdef __cplusplus
}
#endif

#endif  // MIOPEN_POOLING_H_
