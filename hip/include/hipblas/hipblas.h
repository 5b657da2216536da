// The product of fp32 matrices under hipBLAS's names. C99 and C++11.
// SPDX-License-Identifier: MIT
#ifndef HIPBLAS_HIPBLAS_H
#define HIPBLAS_HIPBLAS_H

#include <hip/hip_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef void* hipblasHandle_t;

typedef enum {
  HIPBLAS_STATUS_SUCCESS = 0,
  HIPBLAS_STATUS_NOT_INITIALIZED = 1,
  HIPBLAS_STATUS_ALLOC_FAILED = 2,
  HIPBLAS_STATUS_INVALID_VALUE = 3,
  HIPBLAS_STATUS_MAPPING_ERROR = 4,
  HIPBLAS_STATUS_EXECUTION_FAILED = 5,
  HIPBLAS_STATUS_INTERNAL_ERROR = 6,
  HIPBLAS_STATUS_NOT_SUPPORTED = 7,
  HIPBLAS_STATUS_ARCH_MISMATCH = 8,
  HIPBLAS_STATUS_HANDLE_IS_NULLPTR = 9,
  HIPBLAS_STATUS_INVALID_ENUM = 10,
  HIPBLAS_STATUS_UNKNOWN = 11
} hipblasStatus_t;

typedef enum { HIPBLAS_OP_N = 111, HIPBLAS_OP_T = 112, HIPBLAS_OP_C = 113 } hipblasOperation_t;

/// A handle on the current device. Not for several threads at the same time.
HIP_PUBLIC_API hipblasStatus_t hipblasCreate(hipblasHandle_t* handle);
HIP_PUBLIC_API hipblasStatus_t hipblasDestroy(hipblasHandle_t handle);
HIP_PUBLIC_API hipblasStatus_t hipblasSetStream(hipblasHandle_t handle, hipStream_t stream);
HIP_PUBLIC_API hipblasStatus_t hipblasGetStream(hipblasHandle_t handle, hipStream_t* stream);

/// C = alpha * op(A) * op(B) + beta * C: op(A) is m x k, op(B) k x n, all column-major. alpha and beta are on the host;
/// with beta 0 C is not read.
HIP_PUBLIC_API hipblasStatus_t hipblasSgemm(hipblasHandle_t handle, hipblasOperation_t transA,
                                            hipblasOperation_t transB, int m, int n, int k, const float* alpha,
                                            const float* A, int lda, const float* B, int ldb, const float* beta,
                                            float* C, int ldc);

#ifdef __cplusplus
}
#endif

#endif  // HIPBLAS_HIPBLAS_H
