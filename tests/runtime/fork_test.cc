// After fork: the child of a process with executors works on its calling thread, and inherited streams and
// process-wide mutexes do not hang it.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <mutex>
#include <thread>

#include "base/process_mutex.h"
#include "runtime/device.h"

namespace polymio {
namespace {

std::vector<std::string> kinds() {
#if defined(__SANITIZE_THREAD__)
  return {"threads"};  // the sanitizer cannot see into the packaged oneTBB
#else
  return {"tbb", "threads"};
#endif
}

/// A stream with the executor of this kind.
std::unique_ptr<Stream> stream(const std::string& kind, int threads) {
  setenv("POLYMIO_EXECUTOR", kind.c_str(), 1);
  auto s = create_stream("cpu", nullptr);
  unsetenv("POLYMIO_EXECUTOR");
  s->set_threads(threads);
  return s;
}

/// Exit status of the child: 0 if `body` returned true, 1 if not, a negated signal number if it hung.
int in_child(const std::function<bool()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    _exit(body() ? 0 : 1);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child) return -1000;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/// Whether every task runs once, on the calling thread.
bool runs_inline(Stream& s) {
  const auto caller = std::this_thread::get_id();
  std::vector<int> runs(100);
  bool here = true;
  s.parallel_for(runs.size(), 128, [&](std::size_t i, void* scratch) {
    static_cast<char*>(scratch)[127] = 1;
    ++runs[i];
    here = here && std::this_thread::get_id() == caller;
  });
  return here && s.threads() == 1 && s.info().threads == 1 && runs == std::vector<int>(100, 1);
}

class Forking : public testing::TestWithParam<std::string> {};

TEST_P(Forking, InheritedStreamsWorkInlineAndCanBeDestroyed) {
  std::atomic<bool> done{false};
  // Another thread runs tasks during every fork.
  const auto own = stream(GetParam(), 3);
  auto s = stream(GetParam(), 3);
  std::thread other([&] {
    while (!done) own->parallel_for(16, 64, [](std::size_t, void*) { std::this_thread::yield(); });
  });
  for (int round = 0; round < 20; ++round) {
    s->parallel_for(20, 0, [](std::size_t, void*) {});
    EXPECT_EQ(in_child([&] {
                bool good = runs_inline(*s);
                s->set_threads(2);
                good = good && runs_inline(*s);
                s.reset();
                return good;
              }),
              0);
  }
  done = true;
  other.join();
  EXPECT_EQ(s->threads(), 3) << "the parent notices nothing";
}

TEST_P(Forking, StreamsOfTheChildAndExecutorsOfItsCallerWork) {
  const auto s = stream(GetParam(), 3);
  s->parallel_for(20, 0, [](std::size_t, void*) {});
  EXPECT_EQ(in_child([&] { return runs_inline(*stream(GetParam(), 3)); }), 0);
  EXPECT_EQ(in_child([&] {
              int batches = 0;
              std::atomic<int> runs{0};
              s->set_executor(
                  [](void* context, std::size_t tasks, void (*task)(void*, std::size_t), void* task_context) {
                    ++*static_cast<int*>(context);
                    for (std::size_t i = 0; i < tasks; ++i) task(task_context, i);
                  },
                  &batches);
              s->parallel_for(10, 0, [&](std::size_t, void*) { ++runs; });
              s->set_executor(nullptr, nullptr);
              return batches == 1 && runs == 10 && runs_inline(*s);
            }),
            0);
  // A caller's executor from before the fork may have lost its threads too.
  s->set_executor([](void*, std::size_t, void (*)(void*, std::size_t), void*) { _exit(9); }, nullptr);
  EXPECT_EQ(in_child([&] { return runs_inline(*s); }), 0);
}

TEST_P(Forking, TheChildOfAChildWorksToo) {
  const auto s = stream(GetParam(), 2);
  EXPECT_EQ(in_child([&] { return runs_inline(*s) && in_child([&] { return runs_inline(*s); }) == 0; }), 0);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Forking, testing::ValuesIn(kinds()), [](const auto& info) { return info.param; });

TEST(ForkLog, DISABLED_Child) {
  const auto s = stream("threads", 2);
  EXPECT_EQ(in_child([&] {
              for (int i = 0; i < 3; ++i) runs_inline(*s);
              return runs_inline(*stream("threads", 2));
            }),
            0);
}

/// The stderr of the test above in a process with this log level.
std::string log_of_child(const char* level) {
  const std::string command = std::string("exec 3>&1; MIOPEN_LOG_LEVEL=") + level + " '" +
                              std::filesystem::read_symlink("/proc/self/exe").string() +
                              "' --gtest_also_run_disabled_tests --gtest_filter=ForkLog.DISABLED_Child 2>&3 >/dev/null";
  std::string text;
  FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) return "no pipe";
  for (int c; (c = std::fgetc(pipe)) != EOF;) text += static_cast<char>(c);
  return pclose(pipe) == 0 ? text : "failed: " + text;
}

TEST(ForkLog, SaysSoOnceAtInfoLevel) {
  EXPECT_EQ(log_of_child("4"), "");
  const std::string text = log_of_child("5");
  const std::string line = "MIOpen(info): this process was forked";
  const auto at = text.find(line);
  EXPECT_NE(at, std::string::npos) << text;
  EXPECT_EQ(text.find(line, at + 1), std::string::npos) << text;
}

TEST(ProcessMutexes, AreFreeAndConsistentInEveryChild) {
  ProcessMutex outer, inner;
  int first = 0, second = 0;
  std::atomic<bool> done{false};
  std::thread other([&] {
    for (; !done; std::this_thread::yield()) {
      const std::scoped_lock a(outer), b(inner);
      ++first;
      std::this_thread::yield();
      ++second;
    }
  });
  for (int round = 0; round < 50; ++round)
    EXPECT_EQ(in_child([&] {
                const std::scoped_lock b(inner), a(outer);
                return first == second;
              }),
              0);
  done = true;
  other.join();
}

TEST(ProcessMutexes, AreCreatedAndDestroyedWhileOthersFork) {
  std::atomic<bool> done{false};
  std::thread other([&] {
    while (!done) {
      ProcessMutex mutex;
      const std::scoped_lock lock(mutex);
    }
  });
  for (int round = 0; round < 50; ++round)
    EXPECT_EQ(in_child([] {
                ProcessMutex mutex;
                const std::scoped_lock lock(mutex);
                return true;
              }),
              0);
  done = true;
  other.join();
}

}  // namespace
}  // namespace polymio
