// The CPU stream: parallel_for with its scratch, executors of the caller, memory, device list.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <set>
#include <stdexcept>
#include <thread>

#include "base/error.h"
#include "runtime/device.h"

namespace polymio {
namespace {

std::unique_ptr<Stream> stream(int threads) {
  auto s = create_stream("cpu", nullptr);
  s->set_threads(threads);
  return s;
}

template <class Action>
void expect_error(Status status, const char* part, Action action) {
  try {
    action();
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.status, status) << e.what();
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
  }
}

TEST(Devices, TheCpuIsFirstAndDescribed) {
  ASSERT_FALSE(devices().empty());
  const DeviceInfo& d = devices()[0];
  EXPECT_EQ(d.kind, DeviceKind::kCpu);
  EXPECT_EQ(d.name, "cpu");
  EXPECT_EQ(d.architecture.rfind("cpu-", 0), 0u) << d.architecture;
  EXPECT_FALSE(d.model.empty());
  EXPECT_GE(d.units, 1);
  EXPECT_GT(d.memory_bytes, std::size_t{64} << 20);
  EXPECT_GT(d.cache_bytes[0], 0u);
}

TEST(Devices, UnknownNamesAndForeignStreamsAreRefused) {
  expect_error(Status::kBadParm, "cuda:99", [] { create_stream("cuda:99", nullptr); });
  expect_error(Status::kBadParm, "cpu", [] { create_stream("", nullptr); });
  int queue = 0;
  expect_error(Status::kBadParm, "stream", [&] { create_stream("cpu", &queue); });
}

TEST(ParallelFor, EveryTaskRunsOnceOnAtMostAllThreads) {
  for (const int threads : {1, 2, 7}) {
    const auto s = stream(threads);
    EXPECT_EQ(s->threads(), threads);
    for (const std::size_t tasks : {0u, 1u, 2u, 500u}) {
      std::vector<std::atomic<int>> runs(tasks);
      std::atomic<int> now{0}, most{0};
      s->parallel_for(tasks, 0, [&](std::size_t i, void*) {
        const int n = ++now;
        for (int seen = most; n > seen && !most.compare_exchange_weak(seen, n);) {
        }
        ++runs[i];
        --now;
      });
      for (std::size_t i = 0; i < tasks; ++i) ASSERT_EQ(runs[i], 1) << i;
      EXPECT_LE(most, threads);
    }
  }
}

TEST(ParallelFor, OneTaskRunsInlineOnTheCaller) {
  const auto s = stream(4);
  std::thread::id where;
  s->parallel_for(1, 64, [&](std::size_t, void*) { where = std::this_thread::get_id(); });
  EXPECT_EQ(where, std::this_thread::get_id());
}

TEST(ParallelFor, ScratchIsAlignedLargeEnoughAndPrivate) {
  const auto s = stream(4);
  for (const std::size_t bytes : {1u, 64u, 1000u, 100000u}) {
    std::atomic<int> clashes{0};
    s->parallel_for(200, bytes, [&](std::size_t i, void* scratch) {
      if (!scratch || reinterpret_cast<std::uintptr_t>(scratch) % 64 != 0) ++clashes;
      auto* p = static_cast<unsigned char*>(scratch);
      const auto mark = static_cast<unsigned char>(i);
      std::memset(p, mark, bytes);
      std::this_thread::yield();
      for (std::size_t b = 0; b < bytes; ++b) clashes += p[b] != mark;
    });
    EXPECT_EQ(clashes, 0) << bytes;
  }
}

TEST(ParallelFor, ConcurrentCallsHaveTheirOwnScratch) {
  const auto s = stream(2);
  s->reserve_scratch(4096);
  std::atomic<int> clashes{0};
  const auto caller = [&](unsigned char mark) {
    for (int round = 0; round < 100; ++round)
      s->parallel_for(4, 4096, [&](std::size_t i, void* scratch) {
        auto* p = static_cast<unsigned char*>(scratch);
        const auto own = static_cast<unsigned char>(mark + i);
        std::memset(p, own, 4096);
        std::this_thread::yield();
        for (std::size_t b = 0; b < 4096; ++b) clashes += p[b] != own;
      });
  };
  std::thread other(caller, 100);
  caller(200);
  other.join();
  EXPECT_EQ(clashes, 0);
}

TEST(ParallelFor, AnExceptionComesBackUnderEveryExecutor) {
  const auto throwing = [](std::size_t i, void*) {
    if (i == 3) throw Error(Status::kInternalError, "task 3");
  };
  const auto s = stream(3);
  expect_error(Status::kInternalError, "task 3", [&] { s->parallel_for(50, 0, throwing); });
  s->set_executor(
      [](void*, std::size_t tasks, void (*task)(void*, std::size_t), void* context) {
        for (std::size_t i = 0; i < tasks; ++i) task(context, i);
      },
      nullptr);
  expect_error(Status::kInternalError, "task 3", [&] { s->parallel_for(50, 0, throwing); });
  std::atomic<int> runs{0};
  s->parallel_for(50, 0, [&](std::size_t, void*) { ++runs; });
  EXPECT_EQ(runs, 50);
}

TEST(ParallelFor, NestedCallsFinish) {
  const auto s = stream(3);
  std::atomic<int> runs{0};
  s->parallel_for(8, 64, [&](std::size_t, void*) { s->parallel_for(8, 64, [&](std::size_t, void*) { ++runs; }); });
  EXPECT_EQ(runs, 64);
}

TEST(CallerExecutor, AnExecutorThatRunsNothingIsAnError) {
  const auto s = stream(4);
  s->set_executor([](void*, std::size_t, void (*)(void*, std::size_t), void*) {}, nullptr);
  expect_error(Status::kInternalError, "executor", [&] { s->parallel_for(10, 0, [](std::size_t, void*) {}); });
  s->set_executor(nullptr, nullptr);
  std::atomic<int> runs{0};
  s->parallel_for(10, 0, [&](std::size_t, void*) { ++runs; });
  EXPECT_EQ(runs, 10);
}

TEST(CallerExecutor, StaysWhenTheThreadCapChanges) {
  const auto s = stream(4);
  int calls = 0;
  s->set_executor(
      [](void* context, std::size_t tasks, void (*task)(void*, std::size_t), void* task_context) {
        ++*static_cast<int*>(context);
        for (std::size_t i = tasks; i-- > 0;) task(task_context, i);
      },
      &calls);
  s->set_threads(2);
  int runs = 0;
  s->parallel_for(10, 0, [&](std::size_t, void*) { ++runs; });
  EXPECT_EQ(runs, 10);
  EXPECT_EQ(calls, 1);
}

TEST(Threads, CapsAreChecked) {
  const auto s = stream(0);
  EXPECT_EQ(s->threads(), s->info().units);
  expect_error(Status::kBadParm, "-1", [&] { s->set_threads(-1); });
  EXPECT_EQ(s->threads(), s->info().units);
}

TEST(Memory, IsAlignedAndCopied) {
  const auto s = stream(1);
  std::set<void*> seen;
  for (const std::size_t bytes : {0u, 1u, 63u, 64u, 100000u}) {
    void* p = s->allocate(bytes);
    ASSERT_NE(p, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % 64, 0u);
    EXPECT_TRUE(seen.insert(p).second);
    std::memset(p, 1, bytes);
  }
  for (void* p : seen) s->deallocate(p);
  s->deallocate(nullptr);
  const char text[] = "copied";
  char to[sizeof text] = "";
  s->copy(to, text, sizeof text);
  EXPECT_STREQ(to, text);
}

TEST(Memory, TooMuchIsAllocFailed) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer's allocator ends the process instead";
#endif
  const auto s = stream(1);
  for (const std::size_t bytes : {SIZE_MAX, SIZE_MAX - 70, SIZE_MAX / 2})
    expect_error(Status::kAllocFailed, "bytes", [&] { s->deallocate(s->allocate(bytes)); });
}

}  // namespace
}  // namespace polymio
