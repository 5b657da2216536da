// The product of fp32 matrices under rocBLAS's names. C99 and C++11.
// SPDX-License-Identifier: MIT
#ifndef ROCBLAS_ROCBLAS_H
#define ROCBLAS_ROCBLAS_H

#include <hip/hip_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct _rocblas_handle* rocblas_handle;
typedef int32_t rocblas_int;

typedef enum rocblas_status_ {
  rocblas_status_success = 0,
  rocblas_status_invalid_handle = 1,
  rocblas_status_not_implemented = 2,
  rocblas_status_invalid_pointer = 3,
  rocblas_status_invalid_size = 4,
  rocblas_status_memory_error = 5,
  rocblas_status_internal_error = 6,
  rocblas_status_invalid_value = 11
} rocblas_status;

typedef enum rocblas_operation_ {
  rocblas_operation_none = 111,
  rocblas_operation_transpose = 112,
  rocblas_operation_conjugate_transpose = 113
} rocblas_operation;

/// A handle on the current device. Not for several threads at the same time.
HIP_PUBLIC_API rocblas_status rocblas_create_handle(rocblas_handle* handle);
HIP_PUBLIC_API rocblas_status rocblas_destroy_handle(rocblas_handle handle);
HIP_PUBLIC_API rocblas_status rocblas_set_stream(rocblas_handle handle, hipStream_t stream);
HIP_PUBLIC_API rocblas_status rocblas_get_stream(rocblas_handle handle, hipStream_t* stream);
/// Nothing to do.
HIP_PUBLIC_API void rocblas_initialize(void);

/// C = alpha * op(A) * op(B) + beta * C: op(A) is m x k, op(B) k x n, all column-major. alpha and beta are on the host;
/// with beta 0 C is not read.
HIP_PUBLIC_API rocblas_status rocblas_sgemm(rocblas_handle handle, rocblas_operation transA, rocblas_operation transB,
                                            rocblas_int m, rocblas_int n, rocblas_int k, const float* alpha,
                                            const float* A, rocblas_int lda, const float* B, rocblas_int ldb,
                                            const float* beta, float* C, rocblas_int ldc);

#ifdef __cplusplus
}
#endif

#endif  // ROCBLAS_ROCBLAS_H
