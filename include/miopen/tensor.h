// Tensor descriptors and element-wise operations on tensors.
// A descriptor holds a data type, 1 or more sizes and as many strides, all positive, counted in
// elements. Sizes and strides are in the order N, C, [D,] H, W whatever the layout in memory. Any
// positive strides are accepted; a tensor may have more than 2^31 elements.
// SPDX-License-Identifier: MIT
#ifndef MIOPEN_TENSOR_H_
#define MIOPEN_TENSOR_H_

#include <miopen/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/// The binary operation of miopenOpTensor, element by element.
typedef enum {
  miopenTensorOpAdd = 0,  ///< a + b
  miopenTensorOpMul = 1,  ///< a * b
  miopenTensorOpMin = 2,  ///< the smaller
  miopenTensorOpMax = 3,  ///< the larger
} miopenTensorOp_t;

/// Creates an empty descriptor, to be filled by one of the set functions. Free it with
/// miopenDestroyTensorDescriptor.
MIOPEN_EXPORT miopenStatus_t miopenCreateTensorDescriptor(miopenTensorDescriptor_t* tensorDesc);

/// Describes a packed NCHW tensor. BadParm unless all sizes are at least 1, or all are 0: that makes the descriptor
/// empty again, and a later use of it is BadParm.
MIOPEN_EXPORT miopenStatus_t miopenSet4dTensorDescriptor(miopenTensorDescriptor_t tensorDesc, miopenDataType_t dataType,
                                                         int n, int c, int h, int w);

/// Describes a packed tensor of the given layout; `lens` holds `num_lens` sizes in the order N, C,
/// [D,] H, W. BadParm if the number of sizes does not fit the layout (4 for NCHW, NHWC, CHWN and
/// the vector layouts, 5 for NCDHW and NDHWC), or if C is no multiple of the vector length of a cX
/// layout. InvalidValue if `lens` is null or `num_lens` below 1.
MIOPEN_EXPORT miopenStatus_t miopenSetNdTensorDescriptorWithLayout(miopenTensorDescriptor_t tensorDesc,
                                                                   miopenDataType_t dataType,
                                                                   miopenTensorLayout_t tensorLayout, const int* lens,
                                                                   int num_lens);

/// Describes a 4-D tensor with explicit strides. BadParm unless all sizes and strides are at least
/// 1.
MIOPEN_EXPORT miopenStatus_t miopenSet4dTensorDescriptorEx(miopenTensorDescriptor_t tensorDesc,
                                                           miopenDataType_t dataType, int n, int c, int h, int w,
                                                           int nStride, int cStride, int hStride, int wStride);

/// Data type, sizes and strides of a 4-D tensor. Null outputs are skipped. BadParm if the tensor is
/// not 4-D or a value does not fit an int.
MIOPEN_EXPORT miopenStatus_t miopenGet4dTensorDescriptor(miopenTensorDescriptor_t tensorDesc,
                                                         miopenDataType_t* dataType, int* n, int* c, int* h, int* w,
                                                         int* nStride, int* cStride, int* hStride, int* wStride);

/// Describes a tensor of `nbDims` dimensions. Null strides mean packed, last dimension innermost.
/// InvalidValue if `dimsA` is null or `nbDims` below 1; BadParm unless all sizes and strides are at
/// least 1.
MIOPEN_EXPORT miopenStatus_t miopenSetTensorDescriptor(miopenTensorDescriptor_t tensorDesc, miopenDataType_t dataType,
                                                       int nbDims, const int* dimsA, const int* stridesA);

#ifdef MIOPEN_BETA_API
/// miopenSetTensorDescriptor with sizes and strides that may exceed an int.
MIOPEN_EXPORT miopenStatus_t miopenSetTensorDescriptorV2(miopenTensorDescriptor_t tensorDesc, miopenDataType_t dataType,
                                                         int nbDims, const size_t* dimsA, const size_t* stridesA);

/// Sets the type that elements are converted to before they are multiplied: miopenFloat8_fnuz, miopenBFloat8_fnuz,
/// POLYMIO_FLOAT8_E4M3FN, POLYMIO_FLOAT8_E5M2 (polymio.h), or the tensor's own type for no conversion. The data in
/// memory keep their type. Numbers beyond the largest become the largest. Infinities become NaN in the first two types.
/// Used by convolutions. BadParm for an integer tensor or one that is not set yet.
MIOPEN_EXPORT miopenStatus_t miopenSetTensorCastType(miopenTensorDescriptor_t tensorDesc, miopenDataType_t cast_type);

/// miopenGetTensorDescriptor with sizes and strides that may exceed an int.
MIOPEN_EXPORT miopenStatus_t miopenGetTensorDescriptorV2(miopenTensorDescriptor_t tensorDesc,
                                                         miopenDataType_t* dataType, size_t* dimsA, size_t* stridesA);
#endif

/// The number of dimensions.
MIOPEN_EXPORT miopenStatus_t miopenGetTensorDescriptorSize(miopenTensorDescriptor_t tensorDesc, int* size);

/// Data type, sizes and strides; the arrays have room for miopenGetTensorDescriptorSize values.
/// Null outputs are skipped. BadParm if a value does not fit an int.
MIOPEN_EXPORT miopenStatus_t miopenGetTensorDescriptor(miopenTensorDescriptor_t tensorDesc, miopenDataType_t* dataType,
                                                       int* dimsA, int* stridesA);

/// The layout that was set, else the first of miopenTensorLayout_t in which a tensor of these sizes and strides is
/// packed. NotImplemented if there is none, BadParm if the descriptor is empty.
MIOPEN_EXPORT miopenStatus_t miopenGetTensorLayout(miopenTensorDescriptor_t tensorDesc, miopenTensorLayout_t* layout);

/// Elements from the first to the last, gaps between them included; 0 if the descriptor is empty.
MIOPEN_EXPORT miopenStatus_t miopenGetTensorElementSpace(miopenTensorDescriptor_t tensorDesc, size_t* elementSpace);

/// Whether there are no gaps between the elements. BadParm if the descriptor is empty.
MIOPEN_EXPORT miopenStatus_t miopenIsTensorPacked(miopenTensorDescriptor_t tensorDesc, bool* isPacked);

/// How many channels are packed together: 4 or 8 in a layout with that suffix, else 1.
MIOPEN_EXPORT miopenStatus_t miopenGetTensorVectorLength(miopenTensorDescriptor_t tensorDesc, size_t* vectorLength);

/// Frees a descriptor. BadParm if null.
MIOPEN_EXPORT miopenStatus_t miopenDestroyTensorDescriptor(miopenTensorDescriptor_t tensorDesc);

/// Creates an empty sequence descriptor, to be filled by miopenSetRNNDataSeqTensorDescriptor. Free
/// it with miopenDestroySeqTensorDescriptor.
MIOPEN_EXPORT miopenStatus_t miopenCreateSeqTensorDescriptor(miopenSeqTensorDescriptor_t* tensorDesc);

/// Frees a sequence descriptor. BadParm if null.
MIOPEN_EXPORT miopenStatus_t miopenDestroySeqTensorDescriptor(miopenSeqTensorDescriptor_t tensorDesc);

/// C = op(alpha1 * A, alpha2 * B) + beta * C. A and C have the same sizes; each size of B is that
/// of C, or 1 and then B is repeated along it. Up to 5 dimensions, any strides, one data type. C
/// may be the same memory as A or B if the descriptors are equal.
MIOPEN_EXPORT miopenStatus_t miopenOpTensor(miopenHandle_t handle, miopenTensorOp_t tensorOp, const void* alpha1,
                                            const miopenTensorDescriptor_t aDesc, const void* A, const void* alpha2,
                                            const miopenTensorDescriptor_t bDesc, const void* B, const void* beta,
                                            const miopenTensorDescriptor_t cDesc, void* C);

/// Writes `*alpha` to every element of y. `alpha` points to one host value of the data type of y.
MIOPEN_EXPORT miopenStatus_t miopenSetTensor(miopenHandle_t handle, const miopenTensorDescriptor_t yDesc, void* y,
                                             const void* alpha);

/// y = alpha * y. `alpha` points to one host value of the data type of y.
MIOPEN_EXPORT miopenStatus_t miopenScaleTensor(miopenHandle_t handle, const miopenTensorDescriptor_t yDesc, void* y,
                                               const void* alpha);

/// Bytes from the first to the last element, gaps between them included: what a buffer for the
/// tensor must hold.
MIOPEN_EXPORT miopenStatus_t miopenGetTensorNumBytes(miopenTensorDescriptor_t tensorDesc, size_t* numBytes);

/// y = alpha * x + beta * y, for two tensors of the same sizes with any strides and data types:
/// copies, changes the layout and converts. Integers are rounded to nearest and limited to their
/// range. x and y must not overlap unless they are the same tensor.
MIOPEN_EXPORT miopenStatus_t miopenTransformTensor(miopenHandle_t handle, const void* alpha,
                                                   const miopenTensorDescriptor_t xDesc, const void* x,
                                                   const void* beta, const miopenTensorDescriptor_t yDesc, void* y);

#ifdef __cplusplus
}
#endif

#endif  // MIOPEN_TENSOR_H_
