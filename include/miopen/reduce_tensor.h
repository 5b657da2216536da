// Reduction of a tensor over any set of dimensions.
//   C = alpha * reduce(A) + beta * C
// A is reduced over every dimension in which C has size 1; in the others the sizes are equal.
// SPDX-License-Identifier: MIT
#ifndef MIOPEN_REDUCE_TENSOR_H_
#define MIOPEN_REDUCE_TENSOR_H_

#include <miopen/types.h>

/// The version of the functions below.
#define MIOPEN_API_VERSION_REDUCE_TENSOR 1

#ifdef __cplusplus
extern "C" {
#endif

/// The operation.
typedef enum {
  MIOPEN_REDUCE_TENSOR_ADD = 0,    ///< sum
  MIOPEN_REDUCE_TENSOR_MUL = 1,    ///< product
  MIOPEN_REDUCE_TENSOR_MIN = 2,    ///< smallest
  MIOPEN_REDUCE_TENSOR_MAX = 3,    ///< largest
  MIOPEN_REDUCE_TENSOR_AMAX = 4,   ///< largest magnitude
  MIOPEN_REDUCE_TENSOR_AVG = 5,    ///< mean
  MIOPEN_REDUCE_TENSOR_NORM1 = 6,  ///< sum of magnitudes
  MIOPEN_REDUCE_TENSOR_NORM2 = 7,  ///< square root of the sum of squares
} miopenReduceTensorOp_t;

/// What happens to NaN elements.
typedef enum {
  MIOPEN_NOT_PROPAGATE_NAN = 0,  ///< they are ignored
  MIOPEN_PROPAGATE_NAN = 1,      ///< they make the result NaN
} miopenNanPropagation_t;

/// Whether the positions of minimum, maximum and largest magnitude are written.
typedef enum {
  MIOPEN_REDUCE_TENSOR_NO_INDICES = 0,  ///< no
  /// counted over the reduced dimensions, the last fastest
  MIOPEN_REDUCE_TENSOR_FLATTENED_INDICES = 1,
} miopenReduceTensorIndices_t;

/// Type of the positions; only 32 bits are written.
typedef enum {
  MIOPEN_32BIT_INDICES = 0,
  MIOPEN_64BIT_INDICES = 1,
  MIOPEN_16BIT_INDICES = 2,
  MIOPEN_8BIT_INDICES = 3,
} miopenIndicesType_t;

/// Creates a descriptor. Free it with miopenDestroyReduceTensorDescriptor.
MIOPEN_EXPORT miopenStatus_t miopenCreateReduceTensorDescriptor(miopenReduceTensorDescriptor_t* reduceTensorDesc);

/// Frees a descriptor. BadParm if null.
MIOPEN_EXPORT miopenStatus_t miopenDestroyReduceTensorDescriptor(miopenReduceTensorDescriptor_t reduceTensorDesc);

/// Sets the operation, the type in which it is computed (miopenFloat, miopenDouble, or miopenHalf
/// where nothing adds up) and what happens to NaNs and positions.
MIOPEN_EXPORT miopenStatus_t miopenSetReduceTensorDescriptor(miopenReduceTensorDescriptor_t reduceTensorDesc,
                                                             miopenReduceTensorOp_t reduceTensorOp,
                                                             miopenDataType_t reduceTensorCompType,
                                                             miopenNanPropagation_t reduceTensorNanOpt,
                                                             miopenReduceTensorIndices_t reduceTensorIndices,
                                                             miopenIndicesType_t reduceTensorIndicesType);

/// The values of a descriptor.
MIOPEN_EXPORT miopenStatus_t miopenGetReduceTensorDescriptor(const miopenReduceTensorDescriptor_t reduceTensorDesc,
                                                             miopenReduceTensorOp_t* reduceTensorOp,
                                                             miopenDataType_t* reduceTensorCompType,
                                                             miopenNanPropagation_t* reduceTensorNanOpt,
                                                             miopenReduceTensorIndices_t* reduceTensorIndices,
                                                             miopenIndicesType_t* reduceTensorIndicesType);

/// Bytes of the positions of a reduction of A to C; 0 if none are written.
MIOPEN_EXPORT miopenStatus_t miopenGetReductionIndicesSize(miopenHandle_t handle,
                                                           const miopenReduceTensorDescriptor_t reduceTensorDesc,
                                                           const miopenTensorDescriptor_t aDesc,
                                                           const miopenTensorDescriptor_t cDesc, size_t* sizeInBytes);

/// Workspace bytes of a reduction of A to C.
MIOPEN_EXPORT miopenStatus_t miopenGetReductionWorkspaceSize(miopenHandle_t handle,
                                                             const miopenReduceTensorDescriptor_t reduceTensorDesc,
                                                             const miopenTensorDescriptor_t aDesc,
                                                             const miopenTensorDescriptor_t cDesc, size_t* sizeInBytes);

/// Reduces A to C. `indices` and `workspace` are device memory of the sizes that the functions
/// above give, and may be null if these are 0.
MIOPEN_EXPORT miopenStatus_t miopenReduceTensor(miopenHandle_t handle,
                                                const miopenReduceTensorDescriptor_t reduceTensorDesc, void* indices,
                                                size_t indicesSizeInBytes, void* workspace, size_t workspaceSizeInBytes,
                                                const void* alpha, const miopenTensorDescriptor_t aDesc, const void* A,
                                                const void* beta, const miopenTensorDescriptor_t cDesc, void* C);

#ifdef __cplusplus
}
#endif

#endif  // MIOPEN_REDUCE_TENSOR_H_
