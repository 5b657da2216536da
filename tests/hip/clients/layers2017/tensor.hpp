// A tensor on the device, and the element-wise kernels that every file of the program includes.
// SPDX-License-Identifier: MIT
#pragma once
#include <hip/hip_runtime.h>
#include <miopen/miopen.h>

#define CHECK_HIP(call)                                                                        \
  do {                                                                                         \
    hipError_t code = (call);                                                                  \
    if (code != hipSuccess) {                                                                  \
      fprintf(stderr, "%s:%d: HIP error %d: %s\n", __FILE__, __LINE__, code, hipGetErrorString(code)); \
      exit(1);                                                                                 \
    }                                                                                          \
  } while (0)

#define CHECK_MIO(call)                                                                        \
  do {                                                                                         \
    miopenStatus_t code = (call);                                                              \
    if (code != miopenStatusSuccess) {                                                         \
      std::cerr << __FILE__ << ":" << __LINE__ << ": " << miopenGetErrorString(code) << std::endl; \
      exit(1);                                                                                 \
    }                                                                                          \
  } while (0)

#include <iostream>

/// One handle for the program; destroyed after main, when its stream is gone.
struct Runtime {
  miopenHandle_t handle = nullptr;
  hipStream_t stream = nullptr;
  static Runtime& get() {
    static Runtime runtime;
    return runtime;
  }
  ~Runtime() { CHECK_MIO(miopenDestroy(handle)); }

 private:
  Runtime() {
    CHECK_HIP(hipStreamCreate(&stream));
    CHECK_MIO(miopenCreateWithStream(&handle, stream));
  }
};

struct Dims {
  int n, c, h, w;
  int size() const { return n * c * h * w; }
};

struct Tensor {
  miopenTensorDescriptor_t desc;
  Dims dims;
  float* data = nullptr;

  Tensor() : dims{0, 0, 0, 0} {
    CHECK_MIO(miopenCreateTensorDescriptor(&desc));
    CHECK_MIO(miopenSet4dTensorDescriptor(desc, miopenFloat, 0, 0, 0, 0));  // replaced by resize
  }
  Tensor(const Tensor&) = delete;
  ~Tensor() {
    CHECK_HIP(hipFree(data));
    CHECK_MIO(miopenDestroyTensorDescriptor(desc));
  }
  void resize(Dims d) {
    dims = d;
    CHECK_MIO(miopenSet4dTensorDescriptor(desc, miopenFloat, d.n, d.c, d.h, d.w));
    CHECK_HIP(hipFree(data));
    CHECK_HIP(hipMalloc(&data, d.size() * sizeof(float)));
  }
  void set(const std::vector<float>& values) {
    assert((int)values.size() == dims.size());
    CHECK_HIP(hipMemcpy(data, values.data(), values.size() * sizeof(float), hipMemcpyHostToDevice));
  }
  std::vector<float> get() const {
    std::vector<float> values(dims.size());
    CHECK_HIP(hipMemcpy(values.data(), data, values.size() * sizeof(float), hipMemcpyDeviceToHost));
    return values;
  }
};

/// y = a * x + b, with the launch syntax of the first HIP releases.
template <typename T>
__global__ void affine(hipLaunchParm lp, int n, T a, T b, const T* x, T* y) {
  for (int i = hipBlockIdx_x * hipBlockDim_x + hipThreadIdx_x; i < n; i += hipBlockDim_x * hipGridDim_x)
    y[i] = a * x[i] + b;
}

/// Never launched: it only has to compile.
template <typename T>
__global__ void block_sum(hipLaunchParm lp, int n, const T* x, T* sums) {
  __shared__ T part[64];
  part[hipThreadIdx_x] = hipThreadIdx_x < n ? x[hipThreadIdx_x] : T(0);
  __syncthreads();
  for (int step = 32; step > 0; step /= 2) {
    if (hipThreadIdx_x < step) part[hipThreadIdx_x] += part[hipThreadIdx_x + step];
    __syncthreads();
  }
  if (hipThreadIdx_x == 0) sums[hipBlockIdx_x] = part[0];
}

void relu(const Tensor& x, Tensor& y);
