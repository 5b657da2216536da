// Handles through the C API: versions, names of statuses, streams, allocator, profiling, error text.
// SPDX-License-Identifier: MIT
#include <cstdlib>
#include <thread>

#include "api.h"

namespace polymio::test {
namespace {

TEST(Version, IsTheLevelOfTheApi) {
  std::size_t major = 0, minor = 0, patch = 9;
  expect_ok(miopenGetVersion(&major, &minor, &patch));
  EXPECT_EQ(major, 3u);
  EXPECT_EQ(minor, 3u);
  EXPECT_EQ(patch, 0u);
  expect_ok(miopenGetVersion(nullptr, nullptr, nullptr));
  minor = 0;
  expect_ok(miopenGetVersion(nullptr, &minor, nullptr));
  EXPECT_EQ(minor, 3u);
}

TEST(ErrorString, IsTheNameOfTheEnumerator) {
  const char* const names[] = {"miopenStatusSuccess",        "miopenStatusNotInitialized",
                               "miopenStatusInvalidValue",   "miopenStatusBadParm",
                               "miopenStatusAllocFailed",    "miopenStatusInternalError",
                               "miopenStatusNotImplemented", "miopenStatusUnknownError",
                               "miopenStatusUnsupportedOp",  "miopenStatusGpuOperationsSkipped",
                               "miopenStatusVersionMismatch"};
  for (int i = 0; i < 11; ++i) EXPECT_STREQ(miopenGetErrorString(static_cast<miopenStatus_t>(i)), names[i]);
  for (const int i : {11, 15})
    EXPECT_STREQ(miopenGetErrorString(static_cast<miopenStatus_t>(i)), "Unknown error status");
}

TEST(HandleObject, CreateAndDestroy) {
  expect_bad(miopenCreate(nullptr), {"handle is null"});
  expect_bad(miopenCreateWithStream(nullptr, nullptr), {"handle is null"});
  expect_bad(miopenDestroy(nullptr), {"handle is null"});
  miopenHandle_t a = nullptr, b = nullptr;
  expect_ok(miopenCreate(&a));
  expect_ok(miopenCreateWithStream(&b, nullptr));
  EXPECT_TRUE(a && b && a != b);
  expect_ok(miopenDestroy(a));
  expect_ok(miopenDestroy(b));
}

TEST(HandleObject, EveryFunctionRefusesNullAndForeignObjects) {
  const Tensor tensor(miopenFloat, {1});
  const miopenHandle_t bad[] = {nullptr,
                                reinterpret_cast<miopenHandle_t>(static_cast<miopenTensorDescriptor_t>(tensor))};
  miopenAcceleratorQueue_t stream = nullptr;
  float ms = 0;
  for (const auto h : bad) {
    const char* why = h ? "not a live handle" : "handle is null";
    expect_bad(miopenSetStream(h, nullptr), {why});
    expect_bad(miopenGetStream(h, &stream), {why});
    expect_bad(miopenSetAllocator(h, nullptr, nullptr, nullptr), {why});
    expect_bad(miopenGetKernelTime(h, &ms), {why});
    expect_bad(miopenEnableProfiling(h, true), {why});
    expect_bad(miopenDestroy(h), {why});
  }
}

TEST(HandleObject, ADestroyedOneIsRefused) {
  miopenHandle_t h = nullptr;
  expect_ok(miopenCreate(&h));
  expect_ok(miopenDestroy(h));
  expect_bad(miopenDestroy(h), {"not a live handle"});
}

TEST(Objects, DestroyedOnesOfEveryKindAreRefused) {
  const Handle handle;
  Convolution c(handle, {{1, 1, 4, 4}, {1, 1, 3, 3}});
  miopenTensorDescriptor_t tensor = nullptr;
  miopenSeqTensorDescriptor_t sequence = nullptr;
  miopenActivationDescriptor_t activation = nullptr;
  miopenFindOptions_t options = nullptr;
  miopenProblem_t problem = nullptr;
  miopenSolution_t solution = nullptr;
  polymioPackedWeights_t packed = nullptr;
  expect_ok(miopenCreateTensorDescriptor(&tensor));
  expect_ok(miopenCreateSeqTensorDescriptor(&sequence));
  expect_ok(miopenCreateActivationDescriptor(&activation));
  expect_ok(miopenCreateFindOptions(&options));
  expect_ok(miopenCreateConvProblem(&problem, c.conv, miopenProblemDirectionForward));
  expect_ok(miopenSetProblemTensorDescriptor(problem, miopenTensorConvolutionX, c.x));
  expect_ok(miopenSetProblemTensorDescriptor(problem, miopenTensorConvolutionW, c.w));
  expect_ok(miopenSetProblemTensorDescriptor(problem, miopenTensorConvolutionY, c.y));
  std::size_t count = 0;
  expect_ok(miopenFindSolutions(handle, problem, nullptr, &solution, &count, 1));
  ASSERT_EQ(count, 1u);
  expect_ok(polymioPackWeights(handle, problem, c.w_data.data(), &packed));
  expect_ok(polymioDestroyPackedWeights(packed));
  for (const bool again : {false, true}) {
    const auto expect = [&](miopenStatus_t status, const char* kind) {
      again ? expect_bad(status, {"not a live", kind}) : expect_ok(status);
    };
    expect(miopenDestroyTensorDescriptor(tensor), "tensor descriptor");
    expect(miopenDestroySeqTensorDescriptor(sequence), "sequence tensor descriptor");
    expect(miopenDestroyActivationDescriptor(activation), "activation descriptor");
    expect(miopenDestroyFindOptions(options), "find options");
    expect(miopenDestroyProblem(problem), "problem");
    expect(miopenDestroySolution(solution), "solution");
  }
  expect_bad(polymioDestroyPackedWeights(packed), {"not a live packed weights"});
}

TEST(Streams, ACpuRefusesOthersThanTheHipLayers) {
  int queue = 0;
  miopenHandle_t h = reinterpret_cast<miopenHandle_t>(&queue);
  expect_bad(miopenCreateWithStream(&h, static_cast<miopenAcceleratorQueue_t>(&queue)), {"stream", "CPU", "hipStreamCreate", "null"});
  EXPECT_EQ(h, nullptr) << "a failed creation gives no handle";
  const Handle handle;
  expect_ok(miopenSetStream(handle, nullptr));
  expect_bad(miopenSetStream(handle, static_cast<miopenAcceleratorQueue_t>(&queue)), {"stream", "CPU", "hipStreamCreate", "null"});
  miopenAcceleratorQueue_t stream = static_cast<miopenAcceleratorQueue_t>(&queue);
  expect_ok(miopenGetStream(handle, &stream));
  EXPECT_EQ(stream, nullptr);
  expect_bad(miopenGetStream(handle, nullptr), {"streamID is null"});
}

/// Counts the memory that a handle allocates from the caller.
struct Pool {
  int allocations = 0, frees = 0;
  static void* allocate(void* pool, std::size_t bytes) {
    ++static_cast<Pool*>(pool)->allocations;
    return std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  }
  static void deallocate(void* pool, void* memory) {
    ++static_cast<Pool*>(pool)->frees;
    std::free(memory);
  }
};

TEST(Allocator, BothFunctionsOrNone) {
  const Handle handle;
  Pool pool;
  expect_bad(miopenSetAllocator(handle, Pool::allocate, nullptr, &pool), {"allocator", "deallocator", "both"});
  expect_bad(miopenSetAllocator(handle, nullptr, Pool::deallocate, &pool), {"allocator", "deallocator", "both"});
  expect_ok(miopenSetAllocator(handle, Pool::allocate, Pool::deallocate, &pool));
  expect_ok(miopenSetAllocator(handle, nullptr, nullptr, nullptr));
}

TEST(Allocator, EveryAllocationIsFreed) {
  Pool pool;
  {
    const Handle handle;
    expect_ok(miopenSetAllocator(handle, Pool::allocate, Pool::deallocate, &pool));
    Convolution c(handle, {{1, 4, 8, 8}, {4, 4, 3, 3}});
    int count = 0;
    miopenConvAlgoPerf_t perf[4];
    c.provide_workspace(Direction::kForward);
    expect_ok(c.call.find(Direction::kForward, 4, &count, perf));
    expect_ok(c.call.run(Direction::kForward, perf[0].fwd_algo));
    expect_ok(miopenSetAllocator(handle, nullptr, nullptr, nullptr));
    expect_ok(c.call.run(Direction::kForward, perf[0].fwd_algo));
  }
  EXPECT_EQ(pool.allocations, pool.frees);
}

class Profiling : public testing::Test {
 protected:
  float kernel_ms() const {
    float ms = -1;
    expect_ok(miopenGetKernelTime(handle, &ms));
    return ms;
  }
  void work(bool find_first) {
    int count = 0;
    miopenConvAlgoPerf_t perf{};
    if (find_first) {
      c.provide_workspace(Direction::kForward);
      expect_ok(c.call.find(Direction::kForward, 1, &count, &perf));
      expect_ok(c.call.run(Direction::kForward, perf.fwd_algo));
    } else {
      expect_ok(c.call.immediate(Direction::kForward, c.solutions(Direction::kForward).back().solution_id));
    }
  }
  Handle handle;
  Convolution c{handle, {{1, 8, 16, 16}, {8, 8, 3, 3}}};
};

TEST_F(Profiling, TimeIsZeroWhileItIsOff) {
  EXPECT_EQ(kernel_ms(), 0);
  work(true);
  EXPECT_EQ(kernel_ms(), 0);
  work(false);
  EXPECT_EQ(kernel_ms(), 0);
}

TEST_F(Profiling, TimeIsThatOfTheLastCallWhileItIsOn) {
  expect_ok(miopenEnableProfiling(handle, true));
  work(true);
  EXPECT_GT(kernel_ms(), 0);
  EXPECT_LT(kernel_ms(), 60e3);
  expect_ok(miopenEnableProfiling(handle, false));
  EXPECT_EQ(kernel_ms(), 0);
  expect_ok(miopenEnableProfiling(handle, true));
  EXPECT_EQ(kernel_ms(), 0) << "no call since then";
  work(false);
  EXPECT_GT(kernel_ms(), 0);
  expect_bad(miopenGetKernelTime(handle, nullptr), {"time is null"});
}

TEST(LastError, BelongsToTheThreadAndStaysUntilTheNextFailure) {
  expect_bad(miopenCreate(nullptr), {"handle is null"});
  const std::string before = polymioGetLastError();
  std::string fresh = "unset", other;
  std::thread([&] {
    fresh = polymioGetLastError();
    miopenDestroyTensorDescriptor(nullptr);
    other = polymioGetLastError();
  }).join();
  EXPECT_EQ(fresh, "");
  EXPECT_NE(other.find("tensor descriptor is null"), std::string::npos) << other;
  EXPECT_EQ(polymioGetLastError(), before);
  { const Handle handle; }
  EXPECT_EQ(polymioGetLastError(), before) << "success keeps the text";
  expect_bad(miopenDestroyTensorDescriptor(nullptr), {"tensor descriptor is null"});
}

TEST(NotImplemented, IsSaidByName) {
  miopenMhaDescriptor_t attention = nullptr;
  expect_error(miopenCreateMhaDescriptor(&attention), miopenStatusNotImplemented,
               {"miopenCreateMhaDescriptor", "not implemented"});
}

}  // namespace
}  // namespace polymio::test
