// Handles through the C API: versions, names of statuses, streams, allocator, tuning policy, debug flags, profiling,
// error text; names of solvers.
// SPDX-License-Identifier: MIT
#include <cstdlib>
#include <new>
#include <thread>

#include "api.h"

namespace polymio::test {
namespace {

TEST(Version, IsTheLevelOfTheApi) {
  std::size_t major = 0, minor = 0, patch = 9;
  expect_ok(miopenGetVersion(&major, &minor, &patch));
  EXPECT_EQ(major, 3u);
  EXPECT_EQ(minor, 5u);
  EXPECT_EQ(patch, 2u);
  expect_ok(miopenGetVersion(nullptr, nullptr, nullptr));
  minor = 0;
  expect_ok(miopenGetVersion(nullptr, &minor, nullptr));
  EXPECT_EQ(minor, 5u);
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
  miopenTuningPolicy_t policy{};
  float ms = 0;
  for (const auto h : bad) {
    const char* why = h ? "not a live handle" : "handle is null";
    expect_bad(miopenSetStream(h, nullptr), {why});
    expect_bad(miopenGetStream(h, &stream), {why});
    expect_bad(miopenSetAllocator(h, nullptr, nullptr, nullptr), {why});
    expect_bad(miopenGetKernelTime(h, &ms), {why});
    expect_bad(miopenEnableProfiling(h, true), {why});
    expect_bad(miopenSetTuningPolicy(h, miopenTuningPolicySearch), {why});
    expect_bad(miopenGetTuningPolicy(h, &policy), {why});
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
  expect_bad(miopenCreateWithStream(&h, reinterpret_cast<miopenAcceleratorQueue_t>(&queue)),
             {"stream", "CPU", "hipStreamCreate", "null"});
  EXPECT_EQ(h, nullptr) << "a failed creation gives no handle";
  const Handle handle;
  expect_ok(miopenSetStream(handle, nullptr));
  expect_bad(miopenSetStream(handle, reinterpret_cast<miopenAcceleratorQueue_t>(&queue)),
             {"stream", "CPU", "hipStreamCreate", "null"});
  miopenAcceleratorQueue_t stream = reinterpret_cast<miopenAcceleratorQueue_t>(&queue);
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

/// Memory that each of the two may free: the sanitizer compares the functions.
struct AlignedPool : Pool {
  static void* allocate(void* pool, std::size_t bytes) {
    ++static_cast<AlignedPool*>(pool)->allocations;
    return ::operator new (bytes, std::align_val_t{64});
  }
  static void deallocate(void* pool, void* memory) {
    ++static_cast<AlignedPool*>(pool)->frees;
    ::operator delete (memory, std::align_val_t{64});
  }
};

TEST(Allocator, EachFunctionHasItsOwnDefault) {
  const Handle handle;
  const auto use = [&](miopenAllocatorFunction allocate, miopenDeallocatorFunction deallocate) {
    AlignedPool pool;
    expect_ok(miopenSetAllocator(handle, allocate, deallocate, &pool));
    void* memory = nullptr;
    expect_ok(polymioMalloc(handle, &memory, 1000));
    EXPECT_NE(memory, nullptr);
    expect_ok(polymioFree(handle, memory));
    return std::pair(pool.allocations, pool.frees);
  };
  using Counts = std::pair<int, int>;
  EXPECT_EQ(use(AlignedPool::allocate, AlignedPool::deallocate), Counts(1, 1));
  EXPECT_EQ(use(AlignedPool::allocate, nullptr), Counts(1, 0));
  EXPECT_EQ(use(nullptr, AlignedPool::deallocate), Counts(0, 1));
  EXPECT_EQ(use(nullptr, nullptr), Counts(0, 0));
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

TEST(TuningPolicy, IsOfOneHandleAndRefusesOtherValues) {
  const Handle handle, other;
  auto policy = miopenTuningPolicyDbClean;
  expect_ok(miopenGetTuningPolicy(handle, &policy));
  EXPECT_EQ(policy, miopenTuningPolicyNone);
  for (const auto set : {miopenTuningPolicyDbUpdate, miopenTuningPolicySearch, miopenTuningPolicySearchDbUpdate,
                         miopenTuningPolicyDbClean}) {
    expect_ok(miopenSetTuningPolicy(handle, set));
    for (const int bad : {0, 6, 7}) {
      const std::string number = "tuning policy " + std::to_string(bad);
      expect_bad(miopenSetTuningPolicy(handle, static_cast<miopenTuningPolicy_t>(bad)), {number.c_str(), "1", "5"});
    }
    expect_ok(miopenGetTuningPolicy(handle, &policy));
    EXPECT_EQ(policy, set);
    expect_ok(miopenGetTuningPolicy(other, &policy));
    EXPECT_EQ(policy, miopenTuningPolicyNone);
  }
  expect_bad(miopenGetTuningPolicy(handle, nullptr), {"value is null"});
}

/// The numbers and the text of the last find of the problem with this policy.
std::string report_with(miopenTuningPolicy_t policy) {
  const Handle handle;
  Convolution c(handle, {{1, 8, 9, 13}, {8, 8, 3, 3}});
  expect_ok(miopenSetTuningPolicy(handle, policy));
  c.provide_workspace(Direction::kForward);
  int count = 0;
  miopenConvAlgoPerf_t perf[5];
  expect_ok(c.call.find(Direction::kForward, 5, &count, perf));
  return polymioGetLastFindReport();
}

TEST(TuningPolicy, ActsOnFinds) {
  const auto tunes = [](miopenTuningPolicy_t policy) {
    return report_with(policy).find("tuned ConvCpu") != std::string::npos;
  };
  const auto measures = [](miopenTuningPolicy_t policy) {
    return report_with(policy).find("measured ConvCpu") != std::string::npos;
  };
  EXPECT_TRUE(tunes(miopenTuningPolicySearchDbUpdate));
  EXPECT_FALSE(measures(miopenTuningPolicyNone)) << "what was tuned is in the database";
  EXPECT_TRUE(tunes(miopenTuningPolicySearchDbUpdate)) << "again";
  EXPECT_FALSE(tunes(miopenTuningPolicySearch)) << "it is tuned already";
  EXPECT_FALSE(tunes(miopenTuningPolicyDbUpdate)) << "nobody asked for it";
  EXPECT_FALSE(tunes(miopenTuningPolicyDbClean));
  EXPECT_TRUE(tunes(miopenTuningPolicySearch)) << "the tuned records are gone";
}

TEST(DebugFlags, AreOfTheProcess) {
  for (int number = 0; number < 4; ++number) {
    const auto flag = static_cast<miopenDebugFlag_t>(number);
    bool value = true;
    expect_ok(miopenGetDebugFlag(flag, &value));
    EXPECT_FALSE(value);
    expect_ok(miopenSetDebugFlag(flag, true));
    expect_ok(miopenGetDebugFlag(flag, &value));
    EXPECT_TRUE(value);
    expect_bad(miopenGetDebugFlag(flag, nullptr), {"value is null"});
    expect_ok(miopenSetDebugFlag(flag, false));
  }
  miopenDebugFlag_t unknown;
  const int four = 4;
  std::memcpy(&unknown, &four, sizeof unknown);
  bool value = false;
  expect_bad(miopenSetDebugFlag(unknown, true), {"debug flag 4", "0 (quiet logging)"});
  expect_bad(miopenGetDebugFlag(unknown, &value), {"debug flag 4"});
}

TEST(DebugFlags, DisableEnforcedTuning) {
  expect_ok(miopenSetDebugFlag(miopenDebugFindEnforceDisable, true));
  const std::string report = report_with(miopenTuningPolicySearchDbUpdate);
  expect_ok(miopenSetDebugFlag(miopenDebugFindEnforceDisable, false));
  EXPECT_EQ(report.find("tuned"), std::string::npos) << report;
}

TEST(Solvers, NamesAndIds) {
  char name[64] = "";
  expect_ok(miopenGetSolverName(4, name, sizeof name));
  EXPECT_STREQ(name, "ConvCpuGemmFwd");
  std::uint64_t id = 77;
  expect_ok(miopenGetSolverIdByName("ConvCpuGemmFwd", &id));
  EXPECT_EQ(id, 4u);
  for (const char* unknown : {"", "4", "ConvCpuGemm", "convcpugemmfwd"}) {
    id = 77;
    expect_ok(miopenGetSolverIdByName(unknown, &id));
    EXPECT_EQ(id, 0u) << unknown;
  }
  expect_ok(miopenGetSolverName(999999, name, sizeof name));
  EXPECT_STREQ(name, "INVALID_SOLVER_ID_999999");
  expect_ok(miopenGetSolverName(4, name, sizeof "ConvCpuGemmFwd"));
  expect_bad(miopenGetSolverName(4, name, sizeof "ConvCpuGemmFwd" - 1), {"14 bytes", "15"});
  expect_bad(miopenGetSolverName(4, name, 0), {"0 bytes"});
  expect_bad(miopenGetSolverName(4, nullptr, 64), {"nameBuf is null"});
  expect_bad(miopenGetSolverIdByName(nullptr, &id), {"solverName is null"});
  expect_bad(miopenGetSolverIdByName("x", nullptr), {"solverId is null"});
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

}  // namespace
}  // namespace polymio::test
