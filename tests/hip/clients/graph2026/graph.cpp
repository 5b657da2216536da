// A graph compiler's use of Find 2.0: it finds solutions at compile time with buffers of its own, saves them, and runs
// them later on another handle and stream. C++20, half precision.
// SPDX-License-Identifier: MIT
#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>
#include <miopen/miopen.h>
#include <rocblas/rocblas.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <memory>
#include <source_location>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

template <class Status>
void ok(Status status, std::source_location where = std::source_location::current()) {
  if (static_cast<int>(status) != 0)
    throw std::runtime_error("line " + std::to_string(where.line()) + ": status " +
                             std::to_string(static_cast<int>(status)));
}

template <class F, F f>
struct Free {
  template <class T>
  void operator()(T* p) const {
    f(p);
  }
};
template <class P, auto F>
using Managed = std::unique_ptr<std::remove_pointer_t<P>, Free<std::remove_const_t<decltype(F)>, F>>;

using Handle = Managed<miopenHandle_t, miopenDestroy>;
using TensorDesc = Managed<miopenTensorDescriptor_t, miopenDestroyTensorDescriptor>;
using ConvDesc = Managed<miopenConvolutionDescriptor_t, miopenDestroyConvolutionDescriptor>;
using Problem = Managed<miopenProblem_t, miopenDestroyProblem>;
using Options = Managed<miopenFindOptions_t, miopenDestroyFindOptions>;
using Solution = Managed<miopenSolution_t, miopenDestroySolution>;
using Stream = Managed<hipStream_t, hipStreamDestroy>;
using Event = Managed<hipEvent_t, hipEventDestroy>;

template <class M, class F, class... A>
M make(F create, A... arguments) {
  typename M::pointer p = nullptr;
  ok(create(&p, arguments...));
  return M(p);
}

struct DeviceMemory {
  void* p = nullptr;
  explicit DeviceMemory(size_t bytes) { ok(hipMalloc(&p, bytes)); }
  DeviceMemory(const DeviceMemory&) = delete;
  ~DeviceMemory() { static_cast<void>(hipFree(p)); }
};

TensorDesc tensor(std::vector<std::size_t> lengths, miopenDataType_t type) {
  auto desc = make<TensorDesc>(miopenCreateTensorDescriptor);
  std::vector<int> sizes(lengths.begin(), lengths.end()), strides(lengths.size(), 1);
  for (size_t i = sizes.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * sizes[i];
  ok(miopenSetTensorDescriptor(desc.get(), type, static_cast<int>(sizes.size()), sizes.data(), strides.data()));
  return desc;
}

/// A convolution with as many values as there are spatial dimensions, filled up to two from the left.
ConvDesc convolution(std::vector<int> pads, std::vector<int> strides, int groups, miopenConvolutionMode_t mode) {
  auto desc = make<ConvDesc>(miopenCreateConvolutionDescriptor);
  std::vector<int> dilations(pads.size(), 1);
  const auto fill = [](std::vector<int>& v, int value) { v.insert(v.begin(), 2 - std::min<size_t>(2, v.size()), value); };
  fill(pads, 0);
  fill(strides, 1);
  fill(dilations, 1);
  ok(miopenInitConvolutionNdDescriptor(desc.get(), static_cast<int>(pads.size()), pads.data(), strides.data(),
                                       dilations.data(), mode));
  if (groups > 1) ok(miopenSetConvolutionGroupCount(desc.get(), groups));
  return desc;
}

/// Grouped 1-D convolution in fp16: kernel 3, pad 1.
void compile_and_run() {
  constexpr int n = 2, c = 4, k = 6, width = 12, groups = 2, cg = c / groups, kg = k / groups;
  const auto x = tensor({n, c, 1, width}, miopenHalf), w = tensor({k, cg, 1, 3}, miopenHalf),
             y = tensor({n, k, 1, width}, miopenHalf);
  const auto conv = convolution({1}, {1}, groups, miopenGroupConv);
  std::vector<__half> xs(n * c * width), ws(k * cg * 3);
  for (size_t i = 0; i < xs.size(); ++i) xs[i] = __float2half(static_cast<float>(i % 11) / 4 - 1);
  for (size_t i = 0; i < ws.size(); ++i) ws[i] = __float2half(static_cast<float>(i % 5) / 4 - 0.5f);
  const DeviceMemory dx(xs.size() * sizeof(__half)), dw(ws.size() * sizeof(__half)),
      dy(n * k * width * sizeof(__half));
  ok(hipMemcpy(dx.p, xs.data(), xs.size() * sizeof(__half), hipMemcpyHostToDevice));
  ok(hipMemcpy(dw.p, ws.data(), ws.size() * sizeof(__half), hipMemcpyHostToDevice));

  std::vector<char> saved;
  {  // compile time
    const auto handle = make<Handle>(miopenCreate);
    const auto problem = make<Problem>(miopenCreateConvProblem, conv.get(), miopenProblemDirectionForward);
    ok(miopenSetProblemTensorDescriptor(problem.get(), miopenTensorConvolutionX, x.get()));
    ok(miopenSetProblemTensorDescriptor(problem.get(), miopenTensorConvolutionW, w.get()));
    ok(miopenSetProblemTensorDescriptor(problem.get(), miopenTensorConvolutionY, y.get()));
    const auto options = make<Options>(miopenCreateFindOptions);
    ok(miopenSetFindOptionTuning(options.get(), 0));
    size_t bytes = 0;
    ok(miopenConvolutionForwardGetWorkSpaceSize(handle.get(), w.get(), x.get(), conv.get(), y.get(), &bytes));
    const DeviceMemory workspace(bytes);
    ok(miopenSetFindOptionPreallocatedTensor(options.get(), miopenTensorConvolutionX, dx.p));
    ok(miopenSetFindOptionPreallocatedTensor(options.get(), miopenTensorConvolutionW, dw.p));
    ok(miopenSetFindOptionPreallocatedTensor(options.get(), miopenTensorConvolutionY, dy.p));
    ok(miopenSetFindOptionPreallocatedWorkspace(options.get(), workspace.p, bytes));
    miopenSolution_t raw = nullptr;
    size_t found = 0;
    ok(miopenFindSolutions(handle.get(), problem.get(), options.get(), &raw, &found, 1));
    if (found != 1) throw std::runtime_error("no solution");
    const Solution solution(raw);
    size_t size = 0;
    ok(miopenGetSolutionSize(solution.get(), &size));
    saved.resize(size);
    ok(miopenSaveSolution(solution.get(), saved.data()));
  }

  // Run time: another handle, on a stream of its own, that is gone before the handle.
  auto stream = make<Stream>(hipStreamCreateWithFlags, static_cast<unsigned>(hipStreamNonBlocking));
  const auto handle = make<Handle>(miopenCreateWithStream, stream.get());
  const auto solution = make<Solution>([&](miopenSolution_t* s) {
    return miopenLoadSolution(s, saved.data(), saved.size());
  });
  size_t bytes = 0;
  ok(miopenGetSolutionWorkspaceSize(solution.get(), &bytes));
  const DeviceMemory workspace(bytes);
  auto xd = x.get(), wd = w.get(), yd = y.get();
  const std::array<miopenTensorArgument_t, 3> arguments = {{{miopenTensorConvolutionX, &xd, dx.p},
                                                            {miopenTensorConvolutionW, &wd, dw.p},
                                                            {miopenTensorConvolutionY, &yd, dy.p}}};
  const auto start = make<Event>(hipEventCreate), stop = make<Event>(hipEventCreateWithFlags, 0u);
  ok(hipEventRecord(start.get(), stream.get()));
  ok(miopenRunSolution(handle.get(), solution.get(), arguments.size(), arguments.data(), workspace.p, bytes));
  ok(hipEventRecord(stop.get(), stream.get()));
  while (hipEventQuery(stop.get()) == hipErrorNotReady) {
  }
  float ms = -1;
  ok(hipEventElapsedTime(&ms, start.get(), stop.get()));
  std::vector<__half> ys(n * k * width);
  ok(hipMemcpyAsync(ys.data(), dy.p, ys.size() * sizeof(__half), hipMemcpyDeviceToHost, stream.get()));
  ok(hipStreamSynchronize(stream.get()));
  if (hipStreamQuery(stream.get()) != hipSuccess) throw std::runtime_error("the stream is not done");
  for (int i = 0; i < n * k * width; ++i) {
    const int f = i / width % k, p = i % width, b = i / width / k;
    float want = 0;
    for (int ch = 0; ch < cg; ++ch)
      for (int tap = 0; tap < 3; ++tap)
        if (const int at = p + tap - 1; at >= 0 && at < width)
          want += __half2float(xs[(b * c + f / kg * cg + ch) * width + at]) * __half2float(ws[(f * cg + ch) * 3 + tap]);
    if (std::abs(__half2float(ys[i]) - want) > 0.01f) throw std::runtime_error("element " + std::to_string(i));
  }
  stream.reset();
}

/// A kernel of the program: y[i] += x[i].
__global__ void add(const float* x, float* y, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += x[i];
}

void product_and_kernel() {
  constexpr int m = 4, n = 3, k = 2;
  std::vector<float> a(m * k), b(k * n), c(m * n, 1.f);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i);
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i) - 2;
  const DeviceMemory da(a.size() * 4), db(b.size() * 4), dc(c.size() * 4);
  const auto stream = make<Stream>(hipStreamCreate);
  ok(hipMemcpyAsync(da.p, a.data(), a.size() * 4, hipMemcpyHostToDevice, stream.get()));
  ok(hipMemcpyAsync(db.p, b.data(), b.size() * 4, hipMemcpyHostToDevice, stream.get()));
  ok(hipMemcpyAsync(dc.p, c.data(), c.size() * 4, hipMemcpyHostToDevice, stream.get()));
  rocblas_handle blas{};
  ok(rocblas_create_handle(&blas));
  ok(rocblas_set_stream(blas, stream.get()));
  const float alpha = 1, beta = 2;
  ok(rocblas_sgemm(blas, rocblas_operation_none, rocblas_operation_none, m, n, k, &alpha, static_cast<float*>(da.p), m,
                   static_cast<float*>(db.p), k, &beta, static_cast<float*>(dc.p), m));
  hipLaunchKernelGGL(add, dim3(2), dim3(8), 0, stream.get(), static_cast<float*>(dc.p), static_cast<float*>(dc.p),
                     static_cast<unsigned>(c.size()));
  const bool launched = hipGetLastError() == hipSuccess;  // only some devices run kernels of the program
  std::vector<float> got(c.size());
  ok(hipMemcpyAsync(got.data(), dc.p, got.size() * 4, hipMemcpyDeviceToHost, stream.get()));
  ok(hipStreamSynchronize(stream.get()));
  ok(rocblas_destroy_handle(blas));
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < m; ++i) {
      float want = 2;
      for (int l = 0; l < k; ++l) want += a[l * m + i] * b[j * k + l];
      if (launched) want *= 2;
      if (std::abs(got[j * m + i] - want) > 1e-3f) throw std::runtime_error("product, element " + std::to_string(i));
    }
}

int main() try {
  hipDeviceProp_t props{};
  ok(hipGetDeviceProperties(&props, 0));
  std::printf("%s (%s), %d.%d\n", props.name, props.gcnArchName, props.major, props.minor);
  compile_and_run();
  product_and_kernel();
  std::puts("graph: passed");
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
