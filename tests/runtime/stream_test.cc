// The CPU stream: parallel_for with its scratch, stop times, executors of the caller, memory, device list,
// calibration.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <ctime>
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
  const auto missing = absence(DeviceKind::kCuda).empty() ? Status::kBadParm : Status::kNotInitialized;
  expect_error(missing, "cuda:99", [] { create_stream("cuda:99", nullptr); });
  expect_error(Status::kBadParm, "cuda:x", [] { create_stream("cuda:x", nullptr); });
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

TEST(ParallelFor, AnExceptionPropagatesFromEveryExecutor) {
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

TEST(Calibration, IsSharedByStreamsWithAsManyThreadsAndOldReferencesStay) {
  int n = 5;  // calibrations live as long as the process
  while (stream(n)->info().calibrated) ++n;
  const auto first = stream(n), second = stream(n), other = stream(n + 1);
  const DeviceInfo& before = first->info();
  EXPECT_EQ(before.threads, n);
  EXPECT_GT(before.fp32_gflops, 0);
  EXPECT_GT(before.bandwidth_gbs, 0);
  EXPECT_EQ(before.units, devices()[0].units);
  first->calibrate({123, 45, n});
  const auto later = stream(n);
  for (const auto* s : {&first, &second, &later}) {
    const DeviceInfo& d = (*s)->info();
    EXPECT_TRUE(d.calibrated);
    EXPECT_EQ(d.fp32_gflops, 123);
    EXPECT_EQ(d.bandwidth_gbs, 45);
    EXPECT_EQ(d.threads, n);
    EXPECT_EQ(d.architecture, before.architecture);
  }
  EXPECT_FALSE(before.calibrated) << "who holds the old description keeps it";
  EXPECT_FALSE(other->info().calibrated);
  other->set_threads(n);
  EXPECT_EQ(other->info().fp32_gflops, 123);
  for (const DevicePeak& nonsense : {DevicePeak{0, 1, n}, DevicePeak{1, -1, n}, DevicePeak{NAN, 1, n},
                                     DevicePeak{1, INFINITY, n}, DevicePeak{1, 1, 0}})
    first->calibrate(nonsense);
  EXPECT_EQ(first->info().fp32_gflops, 123);
}

TEST(Calibration, ReadersDoNotDisturbWriters) {
  const auto s = stream(4);
  std::thread writer([&] {
    for (int i = 1; i <= 1000; ++i) s->calibrate({1.0 * i, 1.0 * i, 4});
  });
  for (int i = 0; i < 1000; ++i) {
    const DeviceInfo& d = s->info();
    if (d.calibrated) {
      EXPECT_EQ(d.fp32_gflops, d.bandwidth_gbs);
    }
  }
  writer.join();
  EXPECT_EQ(s->info().fp32_gflops, 1000);
}

TEST(Calibration, TheQuickPeakIsQuick) {
  const auto s = stream(0);
  const bool calibrated = s->info().calibrated;
  double best_ms = 1e9;
  for (int i = 0; i < 5; ++i) {
    // CPU time: wall time includes other users of the machine.
    const std::clock_t start = std::clock();
    const DevicePeak peak = s->quick_peak();
    best_ms = std::min(best_ms, 1e3 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC / s->info().units);
    EXPECT_EQ(peak.threads, s->threads());
    EXPECT_GT(peak.fp32_gflops, 0.1);
    EXPECT_LT(peak.fp32_gflops, 1e3 * s->info().units) << "no core is that fast";
    EXPECT_GT(peak.bandwidth_gbs, 0.1);
    EXPECT_LT(peak.bandwidth_gbs, 1e3 * s->info().units);
  }
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  EXPECT_LT(best_ms, 1000);
#else
  EXPECT_LT(best_ms, 50);
#endif
  EXPECT_EQ(s->info().calibrated, calibrated) << "measuring alone changes nothing";
}

/// Runs tasks of 2 ms, more than fit into the time; returns how many were started.
int run_until_stopped(Stream& s) {
  using namespace std::chrono_literals;
  std::atomic<int> runs{0};
  const auto begin = std::chrono::steady_clock::now();
  const StopAt stop(begin + 20ms);
  EXPECT_THROW(s.parallel_for(100'000, 64,
                              [&](std::size_t, void*) {
                                ++runs;
                                std::this_thread::sleep_for(2ms);
                              }),
               Stopped);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 20ms);
  return runs;
}

void spawn_a_thread_each(void*, std::size_t tasks, void (*task)(void*, std::size_t), void* context) {
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < tasks; ++i) threads.emplace_back([=] { task(context, i); });
  for (auto& t : threads) t.join();
}

TEST(Stopping, EndsBetweenTasksUnderEveryExecutor) {
  for (const int threads : {1, 3})
    for (const bool callers : {false, true}) {
      const auto s = stream(threads);
      if (callers) s->set_executor(spawn_a_thread_each, nullptr);
      const int runs = run_until_stopped(*s);
      EXPECT_GT(runs, 0);
      EXPECT_LE(runs, 11 * threads);
      std::atomic<int> after{0};
      s->parallel_for(50, 0, [&](std::size_t, void*) { ++after; });
      EXPECT_EQ(after, 50) << "no stop time is left";
    }
}

TEST(Stopping, TasksInTimeRunAndLateTasksDoNotStart) {
  using namespace std::chrono_literals;
  const auto now = std::chrono::steady_clock::now();
  for (const int threads : {1, 4}) {
    const auto s = stream(threads);
    std::atomic<int> runs{0};
    const auto count = [&](std::size_t, void*) { ++runs; };
    {
      const StopAt later(now + 1h);
      s->parallel_for(100, 0, count);
      EXPECT_EQ(runs, 100);
      {
        const StopAt past(now - 1ms), much_later(now + 2h);
        EXPECT_THROW(s->parallel_for(1, 0, count), Stopped);
        EXPECT_THROW(s->parallel_for(100, 0, count), Stopped);
        EXPECT_EQ(runs, 100) << "the earliest time counts";
      }
      s->parallel_for(100, 0, count);
      EXPECT_EQ(runs, 200);
    }
    // A task that was begun in time is finished, so the section may be complete.
    const StopAt soon(std::chrono::steady_clock::now() + 30ms);
    s->parallel_for(1, 0, [&](std::size_t, void*) { std::this_thread::sleep_for(40ms); });
  }
}

TEST(Stopping, DoesNotConcernOtherThreadsNorTheCallersExecutor) {
  const auto s = stream(2), other = stream(1);
  struct Context {
    Stream* other;
    int runs = 0;
  } context{other.get()};
  s->set_executor(
      [](void* c, std::size_t tasks, void (*task)(void*, std::size_t), void* task_context) {
        auto& self = *static_cast<Context*>(c);
        self.other->parallel_for(3, 0, [&](std::size_t, void*) { ++self.runs; });
        for (std::size_t i = 0; i < tasks; ++i) task(task_context, i);
      },
      &context);
  const StopAt past(std::chrono::steady_clock::now());
  EXPECT_THROW(s->parallel_for(10, 0, [](std::size_t, void*) {}), Stopped);
  EXPECT_EQ(context.runs, 3);
  std::thread([&] { other->parallel_for(3, 0, [&](std::size_t, void*) { ++context.runs; }); }).join();
  EXPECT_EQ(context.runs, 6);
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
