// The convolution layer of a training framework: descriptors for channels-first and channels-last tensors, algorithms
// found once by shape and used by every thread, one workspace that grows, streams that change between calls.
// SPDX-License-Identifier: MIT
#include <hip/hip_runtime_api.h>

#include "descriptors.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

inline void check(hipError_t error) {
  if (error != hipSuccess) throw std::runtime_error(std::string("HIP: ") + hipGetErrorString(error));
}

/// A handle per thread, kept while the process lives, on the stream that the caller uses now.
miopenHandle_t handle_on(hipStream_t stream) {
  struct Owner {
    miopenHandle_t handle = nullptr;
    Owner() { check(miopenCreate(&handle)); }
    ~Owner() { miopenDestroy(handle); }
  };
  thread_local Owner owner;
  check(miopenSetStream(owner.handle, stream));
  return owner.handle;
}

struct Array {
  float* data = nullptr;
  size_t count;
  Array(const std::vector<float>& values, hipStream_t stream) : count(values.size()) {
    check(hipMalloc(&data, count * sizeof(float)));
    check(hipMemcpyAsync(data, values.data(), count * sizeof(float), hipMemcpyHostToDevice, stream));
    check(hipStreamSynchronize(stream));
  }
  Array(size_t n, hipStream_t stream) : count(n) {
    check(hipMalloc(&data, count * sizeof(float)));
    check(hipMemsetAsync(data, 0, count * sizeof(float), stream));
  }
  Array(const Array&) = delete;
  ~Array() { hipFree(data); }
  std::vector<float> host(hipStream_t stream) const {
    std::vector<float> values(count);
    check(hipMemcpyAsync(values.data(), data, count * sizeof(float), hipMemcpyDeviceToHost, stream));
    check(hipStreamSynchronize(stream));
    return values;
  }
};

/// One buffer for all calls, passed whole; it only grows.
class Workspace {
 public:
  void* get(size_t bytes) {
    if (bytes <= size_) return data_;
    if (data_) check(hipFree(data_));
    data_ = nullptr;
    size_t free_bytes = 0, total = 0;
    check(hipMemGetInfo(&free_bytes, &total));
    if (total == 0 || free_bytes > total) throw std::runtime_error("hipMemGetInfo");
    check(hipMalloc(&data_, bytes));
    size_ = bytes;
    return data_;
  }
  size_t size() const { return size_; }
  ~Workspace() { hipFree(data_); }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
};

struct Shape {
  int n, c, h, w, k, r, groups;
  bool channels_last;
  bool operator<(const Shape& o) const {
    return std::make_pair(std::make_tuple(n, c, h, w), std::make_tuple(k, r, groups, channels_last)) <
           std::make_pair(std::make_tuple(o.n, o.c, o.h, o.w), std::make_tuple(o.k, o.r, o.groups, o.channels_last));
  }
};

std::mutex found_mutex;
std::map<Shape, miopenConvAlgoPerf_t> found;  // shared by threads and handles

struct Layer {
  Shape s;
  TensorDesc x, w, y;
  ConvDesc conv;

  explicit Layer(const Shape& shape) : s(shape) {
    describe(x, s.n, s.c, s.h, s.w);
    describe(w, s.k, s.c / s.groups, s.r, s.r);
    describe(y, s.n, s.k, s.h, s.w);
    int pads[] = {s.r / 2, s.r / 2}, ones[] = {1, 1};
    conv.set(depthwise() ? miopenDepthwise : miopenConvolution, 2, pads, ones, ones, s.groups, false);
  }
  bool depthwise() const { return s.groups > 1 && s.groups == s.c; }
  void describe(TensorDesc& d, int n, int c, int h, int w_) {
    int sizes[] = {n, c, h, w_}, strides[] = {c * h * w_, h * w_, w_, 1};
    if (s.channels_last) {
      const int last[] = {h * w_ * c, 1, w_ * c, c};
      std::copy(last, last + 4, strides);
    }
    // A dimension of one element may have any stride.
    for (int i = 0; i < 4; ++i)
      if (sizes[i] == 1) strides[i] = 1;
    d.set(miopenFloat, 4, sizes, strides);
  }
  size_t at(int n, int c, int h, int w_, int channels, int height, int width) const {
    return s.channels_last ? ((size_t(n) * height + h) * width + w_) * channels + c
                           : ((size_t(n) * channels + c) * height + h) * width + w_;
  }
  size_t x_size() const { return size_t(s.n) * s.c * s.h * s.w; }
  size_t w_size() const { return size_t(s.k) * (s.c / s.groups) * s.r * s.r; }
  size_t y_size() const { return size_t(s.n) * s.k * s.h * s.w; }

  miopenConvAlgoPerf_t algorithm(miopenHandle_t h, const Array& dx, const Array& dw, Array& dy, Workspace& ws) {
    const std::lock_guard<std::mutex> lock(found_mutex);
    const auto it = found.find(s);
    if (it != found.end()) return it->second;
    size_t bytes = 0;
    miopenConvolutionForwardGetWorkSpaceSize(h, w.get(), x.get(), conv.get(), y.get(), &bytes);  // status ignored
    void* const space = ws.get(bytes);
    miopenConvAlgoPerf_t perf;
    int count = 0;
    check(miopenFindConvolutionForwardAlgorithm(h, x.get(), dx.data, w.get(), dw.data, conv.get(), y.get(), dy.data, 1,
                                                &count, &perf, space, ws.size(), true));
    return found[s] = perf;
  }
  template <class Visit>
  void each(Visit visit) const {
    const int cg = s.c / s.groups, kg = s.k / s.groups, pad = s.r / 2;
    for (int n = 0; n < s.n; ++n)
      for (int k = 0; k < s.k; ++k)
        for (int i = 0; i < s.h; ++i)
          for (int j = 0; j < s.w; ++j)
            for (int c = 0; c < cg; ++c)
              for (int a = 0; a < s.r; ++a)
                for (int b = 0; b < s.r; ++b) {
                  const int h = i + a - pad, v = j + b - pad;
                  if (h >= 0 && v >= 0 && h < s.h && v < s.w)
                    visit(at(n, k / kg * cg + c, h, v, s.c, s.h, s.w), at(k, c, a, b, cg, s.r, s.r),
                          at(n, k, i, j, s.k, s.h, s.w));
                }
  }
};

std::vector<float> numbers(size_t n, unsigned seed) {
  std::vector<float> v(n);
  for (float& f : v) f = static_cast<float>(static_cast<int>((seed = seed * 1103515245u + 12345u) >> 16 & 15) - 8) / 8;
  return v;
}

void expect(const std::vector<float>& got, const std::vector<float>& want, const char* what) {
  for (size_t i = 0; i < want.size(); ++i)
    if (std::fabs(got[i] - want[i]) > 1e-3f * (1 + std::fabs(want[i])))
      throw std::runtime_error(std::string(what) + ": element " + std::to_string(i) + " is " + std::to_string(got[i]) +
                               ", expected " + std::to_string(want[i]));
}

void step(const Shape& shape, hipStream_t stream) {
  Layer layer(shape);
  Workspace ws;
  const auto xs = numbers(layer.x_size(), 1), weights = numbers(layer.w_size(), 2), dys = numbers(layer.y_size(), 3);
  Array x(xs, stream), w(weights, stream), dy(dys, stream), y(layer.y_size(), stream), dx(layer.x_size(), stream),
      dw(layer.w_size(), stream);
  const float one = 1, zero = 0;
  const miopenHandle_t h = handle_on(stream);
  const auto perf = layer.algorithm(h, x, w, y, ws);
  check(miopenConvolutionForward(handle_on(stream), &one, layer.x.get(), x.data, layer.w.get(), w.data,
                                 layer.conv.get(), perf.fwd_algo, &zero, layer.y.get(), y.data, ws.get(perf.memory),
                                 perf.memory));
  // The deterministic default of the backward passes is GEMM, without a find; depthwise layers are measured.
  auto data_algorithm = miopenConvolutionBwdDataAlgoGEMM;
  auto weights_algorithm = miopenConvolutionBwdWeightsAlgoGEMM;
  size_t bytes = 0;
  check(miopenConvolutionBackwardDataGetWorkSpaceSize(h, layer.y.get(), layer.w.get(), layer.conv.get(), layer.x.get(),
                                                      &bytes));
  void* space = ws.get(bytes);
  miopenConvAlgoPerf_t perfs[4];
  int count = 0;
  if (layer.depthwise()) {
    check(miopenFindConvolutionBackwardDataAlgorithm(h, layer.y.get(), dy.data, layer.w.get(), w.data, layer.conv.get(),
                                                     layer.x.get(), dx.data, 4, &count, perfs, space, ws.size(), false));
    data_algorithm = perfs[0].bwd_data_algo;
  }
  check(miopenConvolutionBackwardData(h, &one, layer.y.get(), dy.data, layer.w.get(), w.data, layer.conv.get(),
                                      data_algorithm, &zero, layer.x.get(), dx.data, space, ws.size()));
  check(miopenConvolutionBackwardWeightsGetWorkSpaceSize(h, layer.y.get(), layer.x.get(), layer.conv.get(),
                                                         layer.w.get(), &bytes));
  space = ws.get(bytes);
  if (layer.depthwise()) {
    check(miopenFindConvolutionBackwardWeightsAlgorithm(h, layer.y.get(), dy.data, layer.x.get(), x.data,
                                                        layer.conv.get(), layer.w.get(), dw.data, 4, &count, perfs,
                                                        space, ws.size(), false));
    weights_algorithm = perfs[0].bwd_weights_algo;
  }
  check(miopenConvolutionBackwardWeights(h, &one, layer.y.get(), dy.data, layer.x.get(), x.data, layer.conv.get(),
                                         weights_algorithm, &zero, layer.w.get(), dw.data, space, ws.size()));
  std::vector<float> want_y(layer.y_size()), want_dx(layer.x_size()), want_dw(layer.w_size());
  layer.each([&](size_t i, size_t f, size_t o) {
    want_y[o] += xs[i] * weights[f];
    want_dx[i] += dys[o] * weights[f];
    want_dw[f] += dys[o] * xs[i];
  });
  expect(y.host(stream), want_y, "y");
  expect(dx.host(stream), want_dx, "dx");
  expect(dw.host(stream), want_dw, "dw");
}

int main() try {
  check(hipSetDevice(0));
  // Hidden states of recurrent layers have padding dimensions of stride 1.
  TensorDesc hidden;
  int sizes[] = {4, 8, 1, 1, 1}, strides[] = {8, 1, 1, 1, 1};
  hidden.set(miopenFloat, 5, sizes, strides);

  void* too_much = nullptr;
  if (hipMalloc(&too_much, ~size_t(0) / 4) != hipErrorOutOfMemory) return 1;
  if (hipGetLastError() != hipErrorOutOfMemory || hipGetLastError() != hipSuccess) return 1;  // read, then cleared

  const Shape shapes[] = {{2, 4, 6, 5, 8, 3, 1, false}, {1, 6, 5, 5, 6, 3, 6, false}, {2, 8, 1, 7, 4, 1, 2, true}};
  hipStream_t streams[2];
  for (auto& s : streams) check(hipStreamCreate(&s));
  for (const Shape& s : shapes) step(s, streams[0]);
  // Results of the first thread on a handle of another, with other pointers and another stream.
  std::string failure;
  std::thread other([&] {
    try {
      check(hipSetDevice(0));
      for (const Shape& s : shapes) step(s, streams[1]);
      step(shapes[0], nullptr);
    } catch (const std::exception& e) {
      failure = e.what();
    }
  });
  other.join();
  if (!failure.empty()) throw std::runtime_error(failure);
  for (auto& s : streams) check(hipStreamDestroy(s));
  std::puts("trainer: passed");
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
