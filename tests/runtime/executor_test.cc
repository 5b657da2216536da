// Executors: every task runs once, exceptions propagate, nested and concurrent use works.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "base/error.h"
#include "runtime/cpu/cpu.h"

namespace polymio::cpu {
namespace {

std::vector<std::string> kinds() {
#if defined(__SANITIZE_THREAD__)
  return {"threads"};  // the sanitizer cannot see into the packaged oneTBB
#else
  return {"tbb", "threads"};
#endif
}

class Executors : public testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Executor> make(int threads) const { return make_executor(GetParam(), threads); }
};

TEST_P(Executors, EveryTaskRunsOnce) {
  for (const int threads : {1, 2, 5}) {
    const auto executor = make(threads);
    for (const std::size_t tasks : {0u, 1u, 2u, 3u, 1000u}) {
      std::vector<std::atomic<int>> runs(tasks);
      auto task = [&](std::size_t i) { ++runs[i]; };
      executor->run(tasks, TaskRef(task));
      for (std::size_t i = 0; i < tasks; ++i)
        ASSERT_EQ(runs[i], 1) << i << " of " << tasks << ", " << threads << " threads";
    }
  }
}

TEST_P(Executors, ManyBatchesInARow) {
  const auto executor = make(4);
  std::atomic<int> sum{0};
  auto task = [&](std::size_t) { ++sum; };
  for (int i = 0; i < 2000; ++i) executor->run(3, TaskRef(task));
  EXPECT_EQ(sum, 6000);
}

TEST_P(Executors, AnExceptionPropagatesAndTheExecutorStaysUsable) {
  const auto executor = make(3);
  auto bad = [](std::size_t i) {
    if (i == 17) throw std::runtime_error("task 17");
  };
  try {
    executor->run(100, TaskRef(bad));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const std::runtime_error& e) {
    EXPECT_STREQ(e.what(), "task 17");
  }
  std::atomic<int> runs{0};
  auto good = [&](std::size_t) { ++runs; };
  executor->run(10, TaskRef(good));
  EXPECT_EQ(runs, 10);
}

TEST_P(Executors, TasksMayRunBatchesThemselves) {
  const auto executor = make(3);
  std::atomic<int> runs{0};
  auto inner = [&](std::size_t) { ++runs; };
  auto outer = [&](std::size_t) { executor->run(10, TaskRef(inner)); };
  executor->run(10, TaskRef(outer));
  EXPECT_EQ(runs, 100);
}

TEST_P(Executors, SeveralCallersAtTheSameTime) {
  const auto executor = make(2);
  std::vector<std::thread> callers;
  std::vector<std::atomic<int>> runs(4);
  for (std::size_t c = 0; c < runs.size(); ++c)
    callers.emplace_back([&, c] {
      auto task = [&](std::size_t) { ++runs[c]; };
      for (int i = 0; i < 200; ++i) executor->run(5, TaskRef(task));
    });
  for (auto& t : callers) t.join();
  for (const auto& r : runs) EXPECT_EQ(r, 1000);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Executors, testing::ValuesIn(kinds()), [](const auto& info) { return info.param; });

TEST(MakeExecutor, UnknownKindsAreRefusedByName) {
  try {
    make_executor("fibers", 2);
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.status, Status::kBadParm);
    const std::string text = e.what();
    for (const char* part : {"fibers", "tbb", "threads"}) EXPECT_NE(text.find(part), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace polymio::cpu
