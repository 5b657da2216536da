// The products of hipBLAS and rocBLAS as convolutions with 1x1 filters: in the column-major C = A * B a column of A is
// a channel of one row of m pixels, a column of B is a filter, a column of C a channel of the output. Strides of the
// tensors are the leading dimensions, so that nothing is copied.
// SPDX-License-Identifier: MIT
#define MIOPEN_BETA_API  // miopenSetTensorDescriptorV2
#include <hipblas/hipblas.h>
#include <miopen/miopen.h>
#include <rocblas/rocblas.h>

#include <array>
#include <memory>

#include "live.h"

using namespace polymio::hip_layer;

namespace {

using TensorDesc = std::unique_ptr<miopenTensorDescriptor, decltype(&miopenDestroyTensorDescriptor)>;
using ConvDesc = std::unique_ptr<miopenConvolutionDescriptor, decltype(&miopenDestroyConvolutionDescriptor)>;

struct Blas {
  miopenHandle_t handle = nullptr;
  void* workspace = nullptr;  // of polymioMalloc
  std::size_t workspace_bytes = 0;

  Blas() {
    current_number();  // starts the layer, so that the handle is on the current device
    Runtime::check(miopenCreate(&handle));
  }
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;
  ~Blas() {
    polymioFree(handle, workspace);
    miopenDestroy(handle);
  }
  void* get(std::size_t bytes) {
    if (bytes > workspace_bytes) {
      Runtime::check(polymioFree(handle, workspace));
      workspace = nullptr;
      workspace_bytes = 0;
      Runtime::check(polymioMalloc(handle, &workspace, bytes));
      workspace_bytes = bytes;
    }
    return workspace;
  }
};

/// A matrix of column-major storage, or its transpose.
struct Matrix {
  const float* data;
  int step;  // leading dimension
  bool transposed;
  std::size_t row_stride() const { return transposed ? leading() : 1; }
  std::size_t column_stride() const { return transposed ? 1 : leading(); }
  std::size_t leading() const { return static_cast<std::size_t>(step); }
};

using Sizes = std::array<std::size_t, 4>;

TensorDesc tensor(const Sizes& sizes, const Sizes& strides) {
  miopenTensorDescriptor_t made = nullptr;
  Runtime::check(miopenCreateTensorDescriptor(&made));
  TensorDesc owner(made, miopenDestroyTensorDescriptor);
  Runtime::check(miopenSetTensorDescriptorV2(made, miopenFloat, 4, sizes.data(), strides.data()));
  return owner;
}

ConvDesc pointwise() {
  miopenConvolutionDescriptor_t made = nullptr;
  Runtime::check(miopenCreateConvolutionDescriptor(&made));
  ConvDesc owner(made, miopenDestroyConvolutionDescriptor);
  Runtime::check(miopenInitConvolutionDescriptor(made, miopenConvolution, 0, 0, 1, 1, 1, 1));
  return owner;
}

void check_matrix(const char* name, const Matrix& matrix, int rows, int columns) {
  const int least = std::max(1, matrix.transposed ? columns : rows);
  if (matrix.step < least)
    fail(hipErrorInvalidValue, "the leading dimension of ", name, " is ", std::to_string(matrix.step), ", at least ",
         std::to_string(least), " is needed");
}

void multiply(Blas& blas, int m, int n, int k, const float* alpha, const Matrix& a, const Matrix& b, const float* beta,
              const Matrix& c) {
  if (m < 0 || n < 0 || k < 0)
    fail(hipErrorInvalidValue, "sizes are ", std::to_string(m), ", ", std::to_string(n), ", ", std::to_string(k));
  check_matrix("A", a, m, k);
  check_matrix("B", b, k, n);
  check_matrix("C", c, m, n);
  if (m == 0 || n == 0) return;
  const auto rows = static_cast<std::size_t>(m), columns = static_cast<std::size_t>(n),
             inner = static_cast<std::size_t>(k);
  not_null(c.data, "C");
  not_null(alpha, "alpha");
  not_null(beta, "beta");
  const auto y = tensor({1, columns, 1, rows}, {columns * c.leading(), c.leading(), rows, 1});
  auto* const out = const_cast<float*>(c.data);
  if (k == 0 || *alpha == 0) return Runtime::check(miopenScaleTensor(blas.handle, y.get(), out, beta));
  not_null(a.data, "A");
  not_null(b.data, "B");
  const std::size_t image = a.leading() * std::max(rows, inner), filter = b.leading() * std::max(columns, inner);
  const auto x = tensor({1, inner, 1, rows}, {image, a.column_stride(), image, a.row_stride()});
  const auto w = tensor({columns, inner, 1, 1}, {b.column_stride(), b.row_stride(), filter, filter});
  const auto conv = pointwise();
  miopenConvSolution_t best{};
  std::size_t count = 0;
  Runtime::check(
      miopenConvolutionForwardGetSolution(blas.handle, w.get(), x.get(), conv.get(), y.get(), 1, &count, &best));
  Runtime::check(miopenConvolutionForward(blas.handle, alpha, x.get(), a.data, w.get(), b.data, conv.get(),
                                          static_cast<miopenConvFwdAlgorithm_t>(best.algorithm), beta, y.get(), out,
                                          blas.get(best.workspace_size), best.workspace_size));
}

template <class Operation>
bool is_transposed(Operation operation) {
  const int code = operation;
  if (code < HIPBLAS_OP_N || code > HIPBLAS_OP_C)
    fail(hipErrorInvalidValue, "operation ", std::to_string(code), ": allowed are 111, 112 and 113");
  return code != HIPBLAS_OP_N;
}

Live<Blas>& handles() {
  static auto& all = *new Live<Blas>("handle");  // never destroyed: programs use handles after main
  return all;
}

hipError_t create(void** handle) {
  return guard([&] {
    *not_null(handle, "handle") = nullptr;
    *handle = handles().add(std::make_shared<Blas>());
  });
}

hipError_t destroy(void* handle) {
  return guard([&] { handles().remove(handle); });
}

hipError_t set_stream(void* handle, hipStream_t stream) {
  return guard([&] { Runtime::check(miopenSetStream(handles().get(handle)->handle, stream)); });
}

hipError_t get_stream(void* handle, hipStream_t* stream) {
  return guard([&] {
    miopenAcceleratorQueue_t found{};
    Runtime::check(miopenGetStream(handles().get(handle)->handle, &found));
    *not_null(stream, "stream") = static_cast<hipStream_t>(found);
  });
}

hipblasStatus_t hipblas_status(hipError_t code) {
  switch (code) {
    case hipSuccess: return HIPBLAS_STATUS_SUCCESS;
    case hipErrorOutOfMemory: return HIPBLAS_STATUS_ALLOC_FAILED;
    case hipErrorInvalidValue: return HIPBLAS_STATUS_INVALID_VALUE;
    case hipErrorInvalidHandle: return HIPBLAS_STATUS_NOT_INITIALIZED;
    case hipErrorNotSupported: return HIPBLAS_STATUS_NOT_SUPPORTED;
    default: return HIPBLAS_STATUS_INTERNAL_ERROR;
  }
}

rocblas_status rocblas_status_of(hipError_t code) {
  switch (code) {
    case hipSuccess: return rocblas_status_success;
    case hipErrorOutOfMemory: return rocblas_status_memory_error;
    case hipErrorInvalidValue: return rocblas_status_invalid_value;
    case hipErrorInvalidHandle: return rocblas_status_invalid_handle;
    case hipErrorNotSupported: return rocblas_status_not_implemented;
    default: return rocblas_status_internal_error;
  }
}

}  // namespace

hipblasStatus_t hipblasCreate(hipblasHandle_t* handle) { return hipblas_status(create(handle)); }
hipblasStatus_t hipblasDestroy(hipblasHandle_t handle) { return hipblas_status(destroy(handle)); }
hipblasStatus_t hipblasSetStream(hipblasHandle_t handle, hipStream_t stream) {
  return hipblas_status(set_stream(handle, stream));
}
hipblasStatus_t hipblasGetStream(hipblasHandle_t handle, hipStream_t* stream) {
  return hipblas_status(get_stream(handle, stream));
}

hipblasStatus_t hipblasSgemm(hipblasHandle_t handle, hipblasOperation_t transA, hipblasOperation_t transB, int m, int n,
                             int k, const float* alpha, const float* A, int lda, const float* B, int ldb,
                             const float* beta, float* C, int ldc) {
  return hipblas_status(guard([&] {
    multiply(*handles().get(handle), m, n, k, alpha, {A, lda, is_transposed(transA)}, {B, ldb, is_transposed(transB)},
             beta, {C, ldc, false});
  }));
}

rocblas_status rocblas_create_handle(rocblas_handle* handle) {
  void* made = nullptr;
  const hipError_t code = handle ? create(&made) : create(nullptr);
  if (handle) *handle = static_cast<rocblas_handle>(made);
  return rocblas_status_of(code);
}
rocblas_status rocblas_destroy_handle(rocblas_handle handle) { return rocblas_status_of(destroy(handle)); }
rocblas_status rocblas_set_stream(rocblas_handle handle, hipStream_t stream) {
  return rocblas_status_of(set_stream(handle, stream));
}
rocblas_status rocblas_get_stream(rocblas_handle handle, hipStream_t* stream) {
  return rocblas_status_of(get_stream(handle, stream));
}
void rocblas_initialize(void) {}

rocblas_status rocblas_sgemm(rocblas_handle handle, rocblas_operation transA, rocblas_operation transB, rocblas_int m,
                             rocblas_int n, rocblas_int k, const float* alpha, const float* A, rocblas_int lda,
                             const float* B, rocblas_int ldb, const float* beta, float* C, rocblas_int ldc) {
  return rocblas_status_of(guard([&] {
    multiply(*handles().get(handle), m, n, k, alpha, {A, lda, is_transposed(transA)}, {B, ldb, is_transposed(transB)},
             beta, {C, ldc, false});
  }));
}
