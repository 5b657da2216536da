// Executes a graph of convolutions as an inference runtime does: a workspace of fixed size whatever is asked for,
// one-dimensional convolutions as two-dimensional ones, functions looked up at run time, one handle per thread.
// SPDX-License-Identifier: MIT
#include <dlfcn.h>
#include <miopen/miopen.h>

#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <optional>
#include <thread>
#include <vector>

template <class Code>
void must(Code code, const char* what) {
  if (static_cast<int>(code) == 0) return;
  std::cerr << what << ": " << code << '\n';
  std::exit(1);
}
#define MUST(call) must((call), #call)

constexpr size_t kWorkspace = 32 << 20;

struct Device {
  miopenHandle_t handle{};
  hipStream_t stream{};
  void* workspace{};
  Device() {
    MUST(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    MUST(miopenCreate(&handle));
    MUST(miopenSetStream(handle, stream));
    MUST(hipMalloc(&workspace, kWorkspace));
  }
  ~Device() {
    MUST(hipStreamSynchronize(stream));
    MUST(hipFree(workspace));
    MUST(miopenDestroy(handle));
    MUST(hipStreamDestroy(stream));
  }
};

struct Buffer {
  float* p{};
  explicit Buffer(const std::vector<float>& v) {
    MUST(hipMalloc(reinterpret_cast<void**>(&p), v.size() * sizeof(float)));
    MUST(hipMemcpy(p, v.data(), v.size() * sizeof(float), hipMemcpyDefault));
  }
  Buffer(const Buffer&) = delete;
  ~Buffer() { MUST(hipFree(p)); }
};

struct Shape {
  miopenTensorDescriptor_t desc{};
  explicit Shape(std::vector<int> dims, bool with_strides = true) {
    MUST(miopenCreateTensorDescriptor(&desc));
    std::vector<int> strides(dims.size(), 1);
    for (size_t i = dims.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * dims[i];
    MUST(miopenSetTensorDescriptor(desc, miopenFloat, static_cast<int>(dims.size()), dims.data(),
                                   with_strides ? strides.data() : nullptr));
  }
  Shape(const Shape&) = delete;
  ~Shape() { MUST(miopenDestroyTensorDescriptor(desc)); }
};

std::vector<float> numbers(size_t n) {
  std::vector<float> v(n);
  for (size_t i = 0; i < n; ++i) v[i] = static_cast<float>((i * 13) % 9) - 4;
  return v;
}

/// A 1-D convolution of [batch, channels, width] with kernel 3, the extra dimension at the end; transposed ones have it
/// in front.
void conv1d(Device& device, bool transposed) {
  const int n = 2, c = 3, k = 4, width = 10, out = transposed ? 12 : 8;
  const auto dims = [&](int a, int b, int w) {
    return transposed ? std::vector<int>{a, b, 1, w} : std::vector<int>{a, b, w, 1};
  };
  const Shape x(dims(n, c, width)), y(dims(n, k, out));
  const Shape w(transposed ? dims(c, k, 3) : dims(k, c, 3), false);  // strides null: packed
  const std::vector<float> xs = numbers(n * c * width), ws = numbers(k * c * 3), bias = {1, -1, 0.5f, 2};
  const Buffer dx(xs), dw(ws), dy(std::vector<float>(n * k * out)), db(bias);
  miopenConvolutionDescriptor_t conv;
  MUST(miopenCreateConvolutionDescriptor(&conv));
  const int pads[] = {0, 0}, ones[] = {1, 1};
  MUST(miopenInitConvolutionNdDescriptor(conv, 2, const_cast<int*>(pads), const_cast<int*>(ones),
                                         const_cast<int*>(ones), transposed ? miopenTranspose : miopenConvolution));
  MUST(miopenSetConvolutionGroupCount(conv, 1));
  miopenConvAlgoPerf_t perf;
  int count = 0;
  MUST(miopenFindConvolutionForwardAlgorithm(device.handle, x.desc, dx.p, w.desc, dw.p, conv, y.desc, dy.p, 1, &count,
                                             &perf, device.workspace, kWorkspace, false));
  const float one = 1, zero = 0;
  MUST(miopenConvolutionForward(device.handle, &one, x.desc, dx.p, w.desc, dw.p, conv, perf.fwd_algo, &zero, y.desc,
                                dy.p, device.workspace, perf.memory));
  const Shape b({1, k, 1, 1});
  MUST(miopenConvolutionForwardBias(device.handle, &one, b.desc, db.p, &zero, y.desc, dy.p));  // y += b
  std::vector<float> got(n * k * out), want(n * k * out);
  MUST(hipMemcpyAsync(got.data(), dy.p, got.size() * sizeof(float), hipMemcpyDeviceToHost, device.stream));
  MUST(hipStreamSynchronize(device.stream));
  for (int i = 0; i < n * k * out; ++i) want[i] = bias[i / out % k];
  for (int i = 0; i < n; ++i)
    for (int f = 0; f < k; ++f)
      for (int ch = 0; ch < c; ++ch)
        for (int tap = 0; tap < 3; ++tap)
          for (int p = 0; p < (transposed ? width : out); ++p) {
            const int from = transposed ? p : p + tap, to = transposed ? p + tap : p;
            const float weight = transposed ? ws[(ch * k + f) * 3 + tap] : ws[(f * c + ch) * 3 + tap];
            want[(i * k + f) * out + to] += xs[(i * c + ch) * width + from] * weight;
          }
  for (size_t i = 0; i < got.size(); ++i)
    if (std::abs(got[i] - want[i]) > 1e-3f) {
      std::cerr << (transposed ? "transposed " : "") << "conv1d, element " << i << ": " << got[i] << ", expected "
                << want[i] << '\n';
      std::exit(1);
    }
  MUST(miopenDestroyConvolutionDescriptor(conv));
}

/// Functions by name, as programs without the library at link time find them.
void activation_by_name(Device& device) {
  void* const library = dlopen("libMIOpen.so.1", RTLD_NOW);
  if (!library) std::exit((std::cerr << dlerror() << '\n', 1));
  const auto forward = reinterpret_cast<decltype(&miopenActivationForward)>(dlsym(library, "miopenActivationForward"));
  if (!forward) std::exit(1);
  const std::vector<float> xs = {-2, -1, 0, 1, 2, 3};
  const Shape shape({1, 1, 2, 3});
  const Buffer x(xs), y(xs);
  miopenActivationDescriptor_t desc;
  MUST(miopenCreateActivationDescriptor(&desc));
  MUST(miopenSetActivationDescriptor(desc, miopenActivationTANH, 1, 1, 0));
  const float one = 1, zero = 0;
  MUST(miopenSetStream(device.handle, nullptr));  // before each call, null too
  MUST(forward(device.handle, desc, &one, shape.desc, x.p, &zero, shape.desc, y.p));
  std::vector<float> got(xs.size());
  MUST(hipMemcpy(got.data(), y.p, got.size() * sizeof(float), hipMemcpyDeviceToHost));
  MUST(miopenSetStream(device.handle, device.stream));
  for (size_t i = 0; i < xs.size(); ++i)
    if (std::abs(got[i] - std::tanh(xs[i])) > 1e-4f) std::exit((std::cerr << "tanh\n", 1));
  MUST(miopenDestroyActivationDescriptor(desc));
}

int main() {
  int devices = 0;
  if (hipGetDeviceCount(&devices) != hipSuccess || devices == 0) return 1;
  // Variables are read when they are needed, not when the library is loaded.
  setenv("MIOPEN_FIND_MODE", "NORMAL", 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([t] {
      MUST(hipSetDevice(0));  // the current device is one of each thread
      Device device;
      conv1d(device, t == 1);
      activation_by_name(device);
    });
  for (auto& t : threads) t.join();
  std::cout << "session: passed\n";
}
