// Times the layers of a small network, forward and backward, and checks them: C++11, one stream, MIOpen 1.
// SPDX-License-Identifier: MIT
#include "tensor.hpp"

#include <hipblas.h>

typedef std::map<std::string, double> Times;

static std::vector<float> numbers(int n, float scale) {
  std::vector<float> v(n);
  for (int i = 0; i < n; ++i) v[i] = scale * (float)((i * 37 + 11) % 17 - 8);
  return v;
}

static void expect_near(const std::vector<float>& got, const std::vector<float>& want, const char* what) {
  assert(got.size() == want.size());
  for (size_t i = 0; i < got.size(); ++i)
    if (std::fabs(got[i] - want[i]) > 1e-3f * (1 + std::fabs(want[i]))) {
      fprintf(stderr, "%s: element %zu is %g, expected %g\n", what, i, got[i], want[i]);
      exit(1);
    }
}

struct Conv {
  miopenConvolutionDescriptor_t desc;
  Tensor x, w, y, dx, dw, dy;
  float* workspace = nullptr;
  size_t workspace_bytes = 0;

  Conv(Dims in, int out_channels) {
    CHECK_MIO(miopenCreateConvolutionDescriptor(&desc));
    CHECK_MIO(miopenInitConvolutionDescriptor(desc, miopenConvolution, 1, 1, 1, 1, 1, 1));
    x.resize(in);
    w.resize({out_channels, in.c, 3, 3});
    Dims out;
    CHECK_MIO(miopenGetConvolutionForwardOutputDim(desc, x.desc, w.desc, &out.n, &out.c, &out.h, &out.w));
    y.resize(out);
    dx.resize(in);
    dw.resize(w.dims);
    dy.resize(out);
  }
  ~Conv() {
    CHECK_HIP(hipFree(workspace));
    CHECK_MIO(miopenDestroyConvolutionDescriptor(desc));
  }
  /// The query counts bytes, the program allocates whole floats: rounded down.
  void need(size_t bytes) {
    const size_t floats = bytes / sizeof(float);
    if (floats * sizeof(float) <= workspace_bytes && workspace) return;
    CHECK_HIP(hipFree(workspace));
    CHECK_HIP(hipMalloc(&workspace, floats * sizeof(float)));  // may be 0: then null is passed on
    workspace_bytes = floats * sizeof(float);
  }
  /// This program knows the algorithms 0 to 3 of MIOpen 1.
  template <typename Algo>
  static void known(Algo algo) {
    if ((int)algo > 3) throw std::runtime_error("unknown algorithm " + std::to_string((int)algo));
  }
  void run(Times& times) {
    miopenHandle_t h = Runtime::get().handle;
    const float alpha = 1, beta = 0;
    miopenConvAlgoPerf_t perfs[5];
    int count = 0;
    size_t bytes = 0;
    CHECK_MIO(miopenConvolutionForwardGetWorkSpaceSize(h, w.desc, x.desc, desc, y.desc, &bytes));
    need(bytes);
    CHECK_MIO(miopenFindConvolutionForwardAlgorithm(h, x.desc, x.data, w.desc, w.data, desc, y.desc, y.data, 4, &count,
                                                    perfs, workspace, workspace_bytes, false));
    assert(count >= 1);
    known(perfs[0].fwd_algo);
    // Find has overwritten nothing but outputs; weights come after it.
    w.set(numbers(w.dims.size(), 0.01f));
    CHECK_MIO(miopenConvolutionForward(h, &alpha, x.desc, x.data, w.desc, w.data, desc, perfs[0].fwd_algo, &beta,
                                       y.desc, y.data, workspace, perfs[0].memory));
    float ms = -1;
    CHECK_MIO(miopenGetKernelTime(h, &ms));
    assert(ms > 0);
    times["forward"] += ms;

    CHECK_MIO(miopenConvolutionBackwardWeightsGetWorkSpaceSize(h, dy.desc, x.desc, desc, dw.desc, &bytes));
    need(bytes);
    // The buffer of dx stands for x while algorithms are timed.
    CHECK_MIO(miopenFindConvolutionBackwardWeightsAlgorithm(h, dy.desc, dy.data, dx.desc, dx.data, desc, dw.desc,
                                                            dw.data, 5, &count, perfs, workspace, workspace_bytes,
                                                            false));
    known(perfs[0].bwd_weights_algo);
    CHECK_MIO(miopenConvolutionBackwardWeights(h, &alpha, dy.desc, dy.data, x.desc, x.data, desc,
                                               perfs[0].bwd_weights_algo, &beta, dw.desc, dw.data, workspace,
                                               perfs[0].memory));
    CHECK_MIO(miopenGetKernelTime(h, &ms));
    times["weights"] += ms;

    CHECK_MIO(miopenConvolutionBackwardDataGetWorkSpaceSize(h, dy.desc, w.desc, desc, dx.desc, &bytes));
    need(bytes);
    CHECK_MIO(miopenFindConvolutionBackwardDataAlgorithm(h, dy.desc, dy.data, w.desc, w.data, desc, dx.desc, dx.data, 1,
                                                         &count, perfs, workspace, workspace_bytes, false));
    known(perfs[0].bwd_data_algo);
    CHECK_MIO(miopenConvolutionBackwardData(h, &alpha, dy.desc, dy.data, w.desc, w.data, desc, perfs[0].bwd_data_algo,
                                            &beta, dx.desc, dx.data, workspace, perfs[0].memory));
    CHECK_HIP(hipDeviceSynchronize());
  }

  std::vector<float> expected() {
    const std::vector<float> xs = x.get(), ws = w.get();
    std::vector<float> out(y.dims.size(), 0.f);
    for (int n = 0; n < y.dims.n; ++n)
      for (int k = 0; k < y.dims.c; ++k)
        for (int i = 0; i < y.dims.h; ++i)
          for (int j = 0; j < y.dims.w; ++j)
            for (int c = 0; c < x.dims.c; ++c)
              for (int r = 0; r < 3; ++r)
                for (int s = 0; s < 3; ++s) {
                  const int h = i + r - 1, v = j + s - 1;
                  if (h < 0 || v < 0 || h >= x.dims.h || v >= x.dims.w) continue;
                  out[((n * y.dims.c + k) * y.dims.h + i) * y.dims.w + j] +=
                      xs[((n * x.dims.c + c) * x.dims.h + h) * x.dims.w + v] * ws[((k * x.dims.c + c) * 3 + r) * 3 + s];
                }
    return out;
  }
};

static void check_device() {
  int count = 0, current = -1;
  CHECK_HIP(hipGetDeviceCount(&count));
  if (count < 1) exit(1);
  CHECK_HIP(hipSetDevice(0));
  CHECK_HIP(hipGetDevice(&current));
  hipDeviceProp_t props;
  CHECK_HIP(hipGetDeviceProperties(&props, current));
  printf("%s: %zu MiB, %d units, gfx%d, %d threads per warp, %.1f GHz\n", props.name, props.totalGlobalMem >> 20,
         props.multiProcessorCount, props.gcnArch, props.warpSize, props.clockRate * 1e-6);
}

/// c = a * b, column-major.
static void check_product() {
  const int m = 5, n = 3, k = 4;
  const std::vector<float> a = numbers(m * k, 0.5f), b = numbers(n * k, 0.25f);  // b is transposed
  Tensor da, db, dc;
  da.resize({1, 1, k, m});
  db.resize({1, 1, k, n});
  dc.resize({1, 1, n, m});
  da.set(a);
  db.set(b);
  hipblasHandle_t blas;
  if (hipblasCreate(&blas) != HIPBLAS_STATUS_SUCCESS) exit(1);
  const float alpha = 2, beta = 0;
  if (hipblasSgemm(blas, HIPBLAS_OP_N, HIPBLAS_OP_T, m, n, k, &alpha, da.data, m, db.data, n, &beta, dc.data, m) !=
      HIPBLAS_STATUS_SUCCESS)
    exit(1);
  std::vector<float> want(m * n, 0.f);
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < m; ++i)
      for (int l = 0; l < k; ++l) want[j * m + i] += 2 * a[l * m + i] * b[l * n + j];
  expect_near(dc.get(), want, "hipblasSgemm");
  hipblasDestroy(blas);
}

int main() {
  CHECK_HIP(hipFree(0));  // starts the runtime
  check_device();
  CHECK_MIO(miopenEnableProfiling(Runtime::get().handle, true));
  Times times;
  Conv conv({2, 6, 9, 8}, 5);
  conv.x.set(numbers(conv.x.dims.size(), 0.1f));
  conv.w.set(numbers(conv.w.dims.size(), 0.01f));
  conv.dy.set(numbers(conv.dy.dims.size(), 0.1f));
  conv.run(times);
  expect_near(conv.y.get(), conv.expected(), "convolution");

  Tensor z;
  z.resize(conv.y.dims);
  hipLaunchKernel(HIP_KERNEL_NAME(affine<float>), dim3(4), dim3(64), 0, 0, z.dims.size(), 2.f, 1.f,
                  (const float*)conv.y.data, z.data);
  if (hipGetLastError() == hipSuccess) {  // only some devices run kernels of the program
    std::vector<float> want = conv.y.get();
    for (float& v : want) v = 2 * v + 1;
    CHECK_HIP(hipDeviceSynchronize());
    expect_near(z.get(), want, "affine");
  }
  relu(conv.y, z);
  std::vector<float> want = conv.y.get();
  for (float& v : want) v = std::max(v, 0.f);
  expect_near(z.get(), want, "relu");

  CHECK_HIP(hipMemset(z.data, 0, z.dims.size() * sizeof(float)));
  expect_near(z.get(), std::vector<float>(z.dims.size(), 0.f), "hipMemset");
  check_product();
  CHECK_MIO(miopenEnableProfiling(Runtime::get().handle, false));
  float ms = -1;
  CHECK_MIO(miopenGetKernelTime(Runtime::get().handle, &ms));
  assert(ms == 0);
  for (Times::iterator t = times.begin(); t != times.end(); ++t) printf("%s: %.3f ms\n", t->first.c_str(), t->second);
  CHECK_HIP(hipStreamDestroy(Runtime::get().stream));  // the handle lives on, until after main
  puts("layers: passed");
  return 0;
}
