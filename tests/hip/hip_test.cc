// The HIP layer on the device that POLYMIO_DEVICE names: memory, copies, streams, events, errors, kernels, products;
// and its streams in handles.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <hip/hip_bfloat16.h>
#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>
#include <hipblas.h>
#include <miopen/miopen.h>
#include <miopen/polymio.h>
#include <rocblas.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <thread>

/// Only compiled: nothing defines `any`.
__global__ void dynamic(const float* in, float* out) {
  extern __shared__ float any[];
  any[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = any[0];
}

namespace {

using namespace std::chrono_literals;

bool on_cpu() {
  const char* const name = std::getenv("POLYMIO_DEVICE");
  return !name || std::string(name) == "cpu";
}

#define OK(call) ASSERT_EQ(call, hipSuccess) << polymioGetLastError()
#define MIO(call) ASSERT_EQ(call, miopenStatusSuccess) << polymioGetLastError()

/// Expects the code, a text with this part, and that the error is kept and cleared.
void expect_error(hipError_t got, hipError_t want, const std::string& part) {
  EXPECT_EQ(got, want);
  EXPECT_NE(std::string(polymioGetLastError()).find(part), std::string::npos) << polymioGetLastError();
  EXPECT_EQ(hipPeekAtLastError(), want);
  EXPECT_EQ(hipGetLastError(), want);
  EXPECT_EQ(hipGetLastError(), hipSuccess);
}

struct Memory {
  float* p = nullptr;
  explicit Memory(std::size_t floats) { EXPECT_EQ(hipMalloc(&p, floats * sizeof(float)), hipSuccess); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { EXPECT_EQ(hipFree(p), hipSuccess); }
};

struct Stream {
  hipStream_t s = nullptr;
  explicit Stream(unsigned flags = hipStreamDefault) { EXPECT_EQ(hipStreamCreateWithFlags(&s, flags), hipSuccess); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { EXPECT_EQ(hipStreamDestroy(s), hipSuccess); }
};

struct Event {
  hipEvent_t e = nullptr;
  Event() { EXPECT_EQ(hipEventCreate(&e), hipSuccess); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { EXPECT_EQ(hipEventDestroy(e), hipSuccess); }
};

std::vector<float> numbers(std::size_t n, float first = 0) {
  std::vector<float> v(n);
  std::iota(v.begin(), v.end(), first);
  return v;
}

/// Holds a stream of the CPU until it is opened.
struct Gate {
  std::atomic<bool> open{false}, reached{false};
  static void wait(void* gate) {
    auto& g = *static_cast<Gate*>(gate);
    g.reached = true;
    while (!g.open) std::this_thread::sleep_for(100us);
  }
};

TEST(HipDevices, TheNamedOneIsDevice0) {
  int count = 0, current = -1;
  OK(hipInit(0));
  OK(hipGetDeviceCount(&count));
  EXPECT_GE(count, 1);
  if (std::getenv("POLYMIO_DEVICE")) {
    EXPECT_EQ(count, 1);
  }
  OK(hipSetDevice(0));
  OK(hipGetDevice(&current));
  EXPECT_EQ(current, 0);
  expect_error(hipSetDevice(count), hipErrorInvalidDevice, "does not exist");
  expect_error(hipSetDevice(-1), hipErrorInvalidDevice, "-1");
  expect_error(hipInit(7), hipErrorInvalidValue, "flags are 7");
  hipDeviceProp_t p;
  OK(hipGetDeviceProperties(&p, 0));
  EXPECT_GT(std::strlen(p.name), 0u);
  EXPECT_GT(p.totalGlobalMem, 0u);
  EXPECT_GT(p.multiProcessorCount, 0);
  EXPECT_GT(p.maxThreadsPerBlock, 0);
  EXPECT_NE(p.major, 9999);
  int warp = 0;
  OK(hipDeviceGetAttribute(&warp, hipDeviceAttributeWarpSize, 0));
  EXPECT_EQ(warp, p.warpSize);
  std::size_t free = 0, total = 0;
  OK(hipMemGetInfo(&free, &total));
  EXPECT_GT(total, 0u);
  EXPECT_LE(free, total);
  char id[16];
  OK(hipDeviceGetPCIBusId(id, sizeof id, 0));
  expect_error(hipDeviceGetPCIBusId(id, 3, 0), hipErrorInvalidValue, "13");
}

TEST(HipDevices, AListOfVisibleOnesEndsAtAWrongNumber) {
  const char* const list = std::getenv("HIP_VISIBLE_DEVICES");
  if (!list || std::string(list) != "9999,0" || std::getenv("POLYMIO_DEVICE"))
    GTEST_SKIP() << "needs HIP_VISIBLE_DEVICES=9999,0";
  int count = 0;
  OK(hipGetDeviceCount(&count));
  EXPECT_EQ(count, 1) << "the CPU";
}

TEST(HipErrors, HaveNamesAndTexts) {
  EXPECT_STREQ(hipGetErrorName(hipErrorOutOfMemory), "hipErrorOutOfMemory");
  EXPECT_STREQ(hipGetErrorString(hipErrorOutOfMemory), "out of memory");
  EXPECT_STREQ(hipGetErrorString(static_cast<hipError_t>(12345)), "unknown error");
  expect_error(hipGetDevice(nullptr), hipErrorInvalidValue, "deviceId is null");
  EXPECT_EQ(hipGetDevice(nullptr), hipErrorInvalidValue);
  std::thread([] { EXPECT_EQ(hipGetLastError(), hipSuccess) << "errors belong to their threads"; }).join();
  EXPECT_EQ(hipGetLastError(), hipErrorInvalidValue);
}

TEST(HipMemory, AllocatesAndFrees) {
  OK(hipFree(nullptr));
  void* p = &p;
  OK(hipMalloc(&p, 0));
  EXPECT_EQ(p, nullptr);
  OK(hipMalloc(&p, 100));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % 64, 0u);
  hipPointerAttribute_t about;
  OK(hipPointerGetAttributes(&about, static_cast<char*>(p) + 99));
  EXPECT_EQ(about.type, hipMemoryTypeDevice);
  OK(hipFree(p));
  expect_error(hipFree(p), hipErrorInvalidValue, "hipMalloc");
  expect_error(hipPointerGetAttributes(&about, p), hipErrorInvalidValue, "hipMalloc");
  expect_error(hipMalloc(&p, std::numeric_limits<std::size_t>::max() / 2), hipErrorOutOfMemory, "cannot allocate");
  EXPECT_EQ(p, nullptr);
  expect_error(hipMalloc(static_cast<void**>(nullptr), 4), hipErrorInvalidValue, "ptr is null");
  float* host = nullptr;
  OK(hipHostMalloc(&host, 64));
  expect_error(hipFree(host), hipErrorInvalidValue, "hipMalloc");
  OK(hipHostFree(host));
}

TEST(HipMemory, CopiesAndFills) {
  const std::size_t n = 1000, bytes = n * sizeof(float);
  std::vector<float> in = numbers(n), out(n);
  const Memory a(n), b(n);
  OK(hipMemcpyHtoD(a.p, in.data(), bytes));
  OK(hipMemcpyDtoD(b.p, a.p, bytes));
  OK(hipMemcpyDtoH(out.data(), b.p, bytes));
  EXPECT_EQ(out, in);
  OK(hipMemcpy(b.p + 10, in.data(), 5 * sizeof(float), hipMemcpyDefault));
  OK(hipMemcpy(out.data(), b.p, bytes, hipMemcpyDefault));
  EXPECT_EQ(out[9], 9);
  EXPECT_EQ(out[10], 0);
  EXPECT_EQ(out[14], 4);
  OK(hipMemset(b.p, 0xff, 8));
  OK(hipMemcpy(out.data(), b.p, bytes, hipMemcpyDeviceToHost));
  EXPECT_TRUE(std::isnan(out[1]));
  EXPECT_EQ(out[2], 2);
  OK(hipMemcpy(out.data(), in.data(), bytes, hipMemcpyHostToHost));
  EXPECT_EQ(out, in);
  OK(hipMemcpy(nullptr, nullptr, 0, hipMemcpyHostToDevice));
  OK(hipMemset(nullptr, 0, 0));
  expect_error(hipMemcpy(nullptr, a.p, 4, hipMemcpyDeviceToHost), hipErrorInvalidValue, "dst is null");
  expect_error(hipMemcpy(a.p, nullptr, 4, hipMemcpyHostToDevice), hipErrorInvalidValue, "src is null");
  expect_error(hipMemset(nullptr, 0, 4), hipErrorInvalidValue, "dst is null");
  expect_error(hipMemcpy(a.p, b.p, 4, static_cast<hipMemcpyKind>(9)), hipErrorInvalidMemcpyDirection, "copy kind 9");
}

TEST(HipStreams, KeepTheirOrder) {
  const std::size_t n = 1 << 16, bytes = n * sizeof(float);
  const std::vector<float> in = numbers(n);
  std::vector<float> out(n);
  const Memory a(n), b(n);
  const Stream one, two(hipStreamNonBlocking);
  const Event copied;
  OK(hipMemcpyAsync(a.p, in.data(), bytes, hipMemcpyHostToDevice, one.s));
  OK(hipMemsetAsync(a.p, 0, 4, one.s));
  OK(hipEventRecord(copied.e, one.s));
  OK(hipStreamWaitEvent(two.s, copied.e, 0));
  OK(hipMemcpyAsync(b.p, a.p, bytes, hipMemcpyDeviceToDevice, two.s));
  OK(hipMemcpyAsync(out.data(), b.p, bytes, hipMemcpyDeviceToHost, two.s));
  OK(hipStreamSynchronize(two.s));
  EXPECT_EQ(out, in);
  OK(hipStreamQuery(two.s));
  OK(hipEventQuery(copied.e));
  OK(hipMemcpyAsync(a.p, in.data(), bytes, hipMemcpyHostToDevice, one.s));
  OK(hipMemcpy(out.data(), a.p, bytes, hipMemcpyDeviceToHost));  // the default stream waits for blocking ones
  EXPECT_EQ(out, in);
  OK(hipDeviceSynchronize());
}

TEST(HipStreams, RefuseWhatIsNoStream) {
  int number = 0;
  const auto wrong = reinterpret_cast<hipStream_t>(&number);
  expect_error(hipStreamSynchronize(wrong), hipErrorInvalidHandle, "hipStreamCreate");
  expect_error(hipStreamDestroy(nullptr), hipErrorInvalidValue, "stream is null");
  hipStream_t s = nullptr;
  expect_error(hipStreamCreateWithFlags(&s, 77), hipErrorInvalidValue, "flags are 77");
  OK(hipStreamCreate(&s));
  OK(hipStreamDestroy(s));
  expect_error(hipStreamDestroy(s), hipErrorInvalidHandle, "destroyed before");
}

TEST(HipEvents, MeasureTime) {
  const Event a, b;
  const Stream s;
  float ms = -1;
  OK(hipEventQuery(a.e));
  OK(hipEventSynchronize(a.e));
  expect_error(hipEventElapsedTime(&ms, a.e, b.e), hipErrorInvalidHandle, "never recorded");
  OK(hipEventRecord(a.e, s.s));
  OK(hipEventSynchronize(a.e));  // the stream's thread starts with its first command
  std::this_thread::sleep_for(20ms);
  OK(hipEventRecord(b.e, s.s));
  OK(hipEventSynchronize(b.e));
  OK(hipEventElapsedTime(&ms, a.e, b.e));
  EXPECT_GE(ms, on_cpu() ? 19 : 0);
  EXPECT_LT(ms, 10'000);
  hipEvent_t untimed = nullptr;
  OK(hipEventCreateWithFlags(&untimed, hipEventDisableTiming));
  OK(hipEventRecord(untimed, s.s));
  expect_error(hipEventElapsedTime(&ms, a.e, untimed), hipErrorInvalidHandle, "hipEventDisableTiming");
  OK(hipEventDestroy(untimed));
  expect_error(hipEventDestroy(untimed), hipErrorInvalidHandle, "destroyed");
}

TEST(HipEvents, AreDestroyedBesideCalls) {
  for (int i = 0; i < 200; ++i) {
    hipEvent_t event = nullptr;
    ASSERT_EQ(hipEventCreate(&event), hipSuccess);
    std::atomic<bool> started = false;
    std::thread user([&] {
      hipError_t last = hipSuccess;
      do {
        last = hipEventRecord(event, nullptr);
        started = true;
      } while (last == hipSuccess);
      EXPECT_EQ(last, hipErrorInvalidHandle);
    });
    while (!started) std::this_thread::yield();
    EXPECT_EQ(hipEventDestroy(event), hipSuccess);
    user.join();
  }
}

TEST(HipStreams, RunSideBySideOnACpu) {
  if (!on_cpu()) GTEST_SKIP() << "not this test's device: host functions of other devices run in the caller";
  Gate gate;
  const Stream held(hipStreamNonBlocking), other(hipStreamNonBlocking);
  const Event before, after;
  OK(hipLaunchHostFunc(held.s, Gate::wait, &gate));
  OK(hipEventRecord(after.e, held.s));
  EXPECT_EQ(hipStreamQuery(held.s), hipErrorNotReady);
  EXPECT_EQ(hipEventQuery(after.e), hipErrorNotReady);
  EXPECT_EQ(hipGetLastError(), hipSuccess) << "NotReady is not kept";
  float x = 1, y = 0;
  OK(hipMemcpyAsync(&y, &x, sizeof x, hipMemcpyDefault, other.s));
  OK(hipStreamSynchronize(other.s));
  OK(hipMemcpy(&y, &x, sizeof x, hipMemcpyDefault));
  EXPECT_EQ(y, 1);
  gate.open = true;
  OK(hipDeviceSynchronize());
  OK(hipStreamQuery(held.s));
}

TEST(HipStreams, CallBack) {
  const Stream s;
  int calls = 0;
  OK(hipStreamAddCallback(
      s.s, [](hipStream_t, hipError_t status, void* n) { *static_cast<int*>(n) += status == hipSuccess; }, &calls, 0));
  OK(hipStreamSynchronize(s.s));
  EXPECT_EQ(calls, 1);
}

// Streams in handles.

struct Activation {
  miopenTensorDescriptor_t x = nullptr;
  miopenActivationDescriptor_t relu = nullptr;
  explicit Activation(int n) {
    EXPECT_EQ(miopenCreateTensorDescriptor(&x), miopenStatusSuccess);
    EXPECT_EQ(miopenSet4dTensorDescriptor(x, miopenFloat, 1, 1, 1, n), miopenStatusSuccess);
    EXPECT_EQ(miopenCreateActivationDescriptor(&relu), miopenStatusSuccess);
    EXPECT_EQ(miopenSetActivationDescriptor(relu, miopenActivationRELU, 0, 0, 0), miopenStatusSuccess);
  }
  Activation(const Activation&) = delete;
  Activation& operator=(const Activation&) = delete;
  ~Activation() {
    miopenDestroyTensorDescriptor(x);
    miopenDestroyActivationDescriptor(relu);
  }
  miopenStatus_t run(miopenHandle_t h, const float* in, float* out) const {
    const float one = 1, zero = 0;
    return miopenActivationForward(h, relu, &one, x, in, &zero, x, out);
  }
};

TEST(HipHandles, TakeSeveralStreams) {
  const int n = 1000;
  const std::size_t bytes = n * sizeof(float);
  std::vector<float> in = numbers(n, -500), out(n), want = in;
  for (float& v : want) v = std::max(v, 0.f);
  const Activation relu(n);
  const Memory x(n), y(n);
  const Stream one, two(hipStreamNonBlocking);
  miopenHandle_t h = nullptr;
  MIO(miopenCreateWithStream(&h, one.s));
  hipStream_t first = nullptr;
  MIO(miopenGetStream(h, &first));
  EXPECT_EQ(first, one.s);
  for (hipStream_t s : {one.s, two.s, static_cast<hipStream_t>(nullptr), one.s}) {
    MIO(miopenSetStream(h, s));
    hipStream_t now = nullptr;
    MIO(miopenGetStream(h, &now));
    EXPECT_EQ(now, s);
    OK(hipMemsetAsync(x.p, 0, bytes, s));
    OK(hipMemcpyAsync(x.p, in.data(), bytes, hipMemcpyHostToDevice, s));
    MIO(relu.run(h, x.p, y.p));
    OK(hipMemcpyAsync(out.data(), y.p, bytes, hipMemcpyDeviceToHost, s));
    OK(hipStreamSynchronize(s));
    EXPECT_EQ(out, want);
  }
  MIO(miopenDestroy(h));
}

TEST(HipHandles, WaitForEarlierWork) {
  if (!on_cpu()) GTEST_SKIP() << "not this test's device: host functions of other devices run in the caller";
  const Activation relu(4);
  const Memory x(4), y(4);
  std::vector<float> in = {-1, 2, -3, 4}, out(4);
  for (const bool on_default : {false, true}) {
    Gate gate;
    const Stream s;
    miopenHandle_t h = nullptr;
    MIO(miopenCreateWithStream(&h, on_default ? nullptr : s.s));
    OK(hipMemset(x.p, 0, 16));
    OK(hipLaunchHostFunc(s.s, Gate::wait, &gate));
    OK(hipMemcpyAsync(x.p, in.data(), 16, hipMemcpyHostToDevice, s.s));
    std::thread opener([&] {
      std::this_thread::sleep_for(20ms);
      gate.open = true;
    });
    MIO(relu.run(h, x.p, y.p));
    opener.join();
    OK(hipMemcpy(out.data(), y.p, 16, hipMemcpyDeviceToHost));
    EXPECT_EQ(out, (std::vector<float>{0, 2, 0, 4}));
    MIO(miopenDestroy(h));
  }
}

TEST(HipHandles, OutliveTheirStream) {
  const Activation relu(4);
  const Memory x(4), y(4);
  std::vector<float> in = {-1, 2, -3, 4}, out(4);
  hipStream_t s = nullptr;
  OK(hipStreamCreate(&s));
  miopenHandle_t h = nullptr;
  MIO(miopenCreateWithStream(&h, s));
  OK(hipMemcpyAsync(x.p, in.data(), 16, hipMemcpyHostToDevice, s));
  OK(hipStreamDestroy(s));
  MIO(relu.run(h, x.p, y.p));
  MIO(polymioSynchronize(h));
  OK(hipMemcpy(out.data(), y.p, 16, hipMemcpyDeviceToHost));
  EXPECT_EQ(out, (std::vector<float>{0, 2, 0, 4}));
  MIO(miopenDestroy(h));
}

TEST(HipHandles, UseTheCurrentDevice) {
  miopenHandle_t h = nullptr;
  OK(hipSetDevice(0));
  MIO(miopenCreate(&h));
  polymioDeviceInfo_t info{};
  info.size = sizeof info;
  MIO(polymioGetHandleDevice(h, &info));
  const char* const name = std::getenv("POLYMIO_DEVICE");
  EXPECT_STREQ(info.name, name ? name : "cpu");
  MIO(miopenDestroy(h));
}

TEST(HipHandles, WorkInAForkedChild) {
  if (!on_cpu()) GTEST_SKIP() << "not this test's device: drivers of GPUs do not survive a fork";
  const Stream s;
  OK(hipMemsetAsync(nullptr, 0, 0, s.s));
  float x = 0;
  OK(hipMemsetAsync(&x, 0, 4, s.s));
  OK(hipStreamSynchronize(s.s));
  const pid_t child = fork();
  if (child == 0) {
    const float one = 1;
    const bool good = hipMemcpyAsync(&x, &one, 4, hipMemcpyDefault, s.s) == hipSuccess &&
                      hipStreamSynchronize(s.s) == hipSuccess && x == 1 && hipStreamDestroy(s.s) == hipSuccess;
    _exit(good ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// Kernels of the program.

__global__ void place(unsigned* out) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  out[block * blockDim.x * blockDim.y * blockDim.z + thread] = 100 * block + thread;
}

__global__ void reverse(const float* in, float* out) {
  __shared__ float tile[64];
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}

TEST(HipKernels, RunOnACpu) {
  std::vector<unsigned> out(2 * 3 * 4 * 5);
  const Stream s;
  hipLaunchKernelGGL(place, dim3(2, 1, 3), dim3(4, 5), 0, s.s, out.data());
  if (!on_cpu()) return expect_error(hipPeekAtLastError(), hipErrorNotSupported, "CPU device only");
  OK(hipGetLastError());
  OK(hipStreamSynchronize(s.s));
  for (unsigned i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], 100 * (i / 20) + i % 20);
  hipLaunchKernelGGL(place, dim3(0), dim3(4), 0, s.s, out.data());
  expect_error(hipPeekAtLastError(), hipErrorInvalidConfiguration, "0 x 1 x 1 blocks");
  hipLaunchKernelGGL(place, dim3(1), dim3(1025), 0, s.s, out.data());
  expect_error(hipPeekAtLastError(), hipErrorInvalidConfiguration, "at most 1024");
  hipLaunchKernelGGL(place, dim3(1), dim3(1), 64, s.s, out.data());
  expect_error(hipPeekAtLastError(), hipErrorNotSupported, "64 bytes of shared memory");
}

TEST(HipKernels, SayThatThereAreNoBarriers) {
  if (!on_cpu()) GTEST_SKIP() << "not this test's device: it runs no kernels of the program";
  float in[2] = {1, 2}, out[2] = {};
  testing::internal::CaptureStderr();
  hipLaunchKernelGGL(reverse, 1, 2, 0, 0, in, out);
  EXPECT_EQ(hipGetLastError(), hipErrorNotSupported);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("__syncthreads"), std::string::npos);
}

// Products.

TEST(HipBlas, EveryPairOfOperations) {
  const int m = 7, n = 5, k = 6, lda = 9, ldb = 8, ldc = 10;
  const std::vector<float> a = numbers(lda * 9, -40), b = numbers(ldb * 8, -30), c = numbers(ldc * n);
  const Memory da(a.size()), db(b.size()), dc(c.size());
  OK(hipMemcpy(da.p, a.data(), a.size() * 4, hipMemcpyHostToDevice));
  OK(hipMemcpy(db.p, b.data(), b.size() * 4, hipMemcpyHostToDevice));
  hipblasHandle_t h = nullptr;
  ASSERT_EQ(hipblasCreate(&h), HIPBLAS_STATUS_SUCCESS) << polymioGetLastError();
  const Stream s;
  ASSERT_EQ(hipblasSetStream(h, s.s), HIPBLAS_STATUS_SUCCESS);
  for (const auto ta : {HIPBLAS_OP_N, HIPBLAS_OP_T})
    for (const auto tb : {HIPBLAS_OP_N, HIPBLAS_OP_T})
      for (const float beta : {0.f, 0.5f}) {
        const float alpha = 2;
        std::vector<float> got = c, want = c;
        OK(hipMemcpyAsync(dc.p, c.data(), c.size() * 4, hipMemcpyHostToDevice, s.s));
        ASSERT_EQ(hipblasSgemm(h, ta, tb, m, n, k, &alpha, da.p, lda, db.p, ldb, &beta, dc.p, ldc),
                  HIPBLAS_STATUS_SUCCESS)
            << polymioGetLastError();
        OK(hipMemcpyAsync(got.data(), dc.p, c.size() * 4, hipMemcpyDeviceToHost, s.s));
        OK(hipStreamSynchronize(s.s));
        for (int j = 0; j < n; ++j)
          for (int i = 0; i < m; ++i) {
            float sum = 0;
            for (int l = 0; l < k; ++l)
              sum += (ta == HIPBLAS_OP_N ? a[l * lda + i] : a[i * lda + l]) *
                     (tb == HIPBLAS_OP_N ? b[j * ldb + l] : b[l * ldb + j]);
            want[j * ldc + i] = alpha * sum + beta * c[j * ldc + i];
          }
        for (std::size_t i = 0; i < want.size(); ++i)
          EXPECT_NEAR(got[i], want[i], 1e-5f * (1 + std::abs(want[i]))) << ta << tb << beta << " element " << i;
      }
  const float one = 1;
  EXPECT_EQ(hipblasSgemm(h, HIPBLAS_OP_N, HIPBLAS_OP_N, m, n, k, &one, da.p, m - 1, db.p, ldb, &one, dc.p, ldc),
            HIPBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(hipblasSgemm(nullptr, HIPBLAS_OP_N, HIPBLAS_OP_N, m, n, k, &one, da.p, lda, db.p, ldb, &one, dc.p, ldc),
            HIPBLAS_STATUS_NOT_INITIALIZED);
  ASSERT_EQ(hipblasDestroy(h), HIPBLAS_STATUS_SUCCESS);
  EXPECT_EQ(hipblasSetStream(h, s.s), HIPBLAS_STATUS_NOT_INITIALIZED);
  EXPECT_EQ(hipblasDestroy(h), HIPBLAS_STATUS_NOT_INITIALIZED);
  EXPECT_NE(std::string(polymioGetLastError()).find("the handle was not created, or was destroyed"), std::string::npos);
  rocblas_handle r = nullptr;
  ASSERT_EQ(rocblas_create_handle(&r), rocblas_status_success);
  hipStream_t now = s.s;
  ASSERT_EQ(rocblas_get_stream(r, &now), rocblas_status_success);
  EXPECT_EQ(now, nullptr);
  EXPECT_EQ(rocblas_sgemm(r, rocblas_operation_none, rocblas_operation_none, m, n, 0, &one, da.p, lda, db.p, ldb, &one,
                          dc.p, ldc),
            rocblas_status_success)
      << polymioGetLastError();
  ASSERT_EQ(rocblas_destroy_handle(r), rocblas_status_success);
  EXPECT_EQ(rocblas_destroy_handle(r), rocblas_status_invalid_handle);
}

// Numbers.

TEST(HipNumbers, Halves) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const float value = polymio_hip_half_value(static_cast<unsigned short>(bits));
    if (std::isnan(value))
      EXPECT_EQ(bits & 0x7c00, 0x7c00u);
    else
      EXPECT_EQ(polymio_hip_half_bits(value), bits);
  }
  EXPECT_EQ(float(__half(65519.f)), 65504.f);
  EXPECT_TRUE(std::isinf(float(__half(65520.f))));
  EXPECT_EQ(float(__half(1.00048828125f)), 1.f) << "ties to even";
  EXPECT_EQ(float(__half(0x1p-25f)), 0.f);
  EXPECT_EQ(float(__half(0x1.8p-25f)), 0x1p-24f);
  EXPECT_EQ(float(__half(1.5f) * __half(2.f) + __half(1.f)), 4.f);
  EXPECT_EQ(float(hip_bfloat16(1.00390625f)), 1.f) << "ties to even";
  EXPECT_EQ(float(hip_bfloat16(3.f) / hip_bfloat16(2.f)), 1.5f);
  EXPECT_TRUE(std::isnan(float(hip_bfloat16(NAN))));
}

}  // namespace
