// After fork, while other threads work: the child finds, runs and destroys on its calling thread, with inherited
// handles and with its own.
// SPDX-License-Identifier: MIT
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <thread>

#include "../convolution/job.h"

namespace polymio::test {
namespace {

/// The child's exit status, 0 on success, or a negated signal number if it hung.
template <class Body>
int in_child(Body body) {
  std::fflush(stdout);  // the child would print it again
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    body();
#if defined(__SANITIZE_ADDRESS__)
    _exit(testing::Test::HasFailure());  // executors of the parent are leaked on purpose
#else
    std::exit(testing::Test::HasFailure());
#endif
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child) return -1000;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/// Whether a child that is forked while another thread allocates can allocate. GCC's address sanitizer does not
/// lock its allocator during fork, as the C library does with its own: such a child may hang in operator new.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kAllocatorSurvivesFork = false;
#else
constexpr bool kAllocatorSurvivesFork = true;
#endif

class Fork : public testing::TestWithParam<const char*> {
 protected:
  Fork() { setenv("POLYMIO_EXECUTOR", GetParam(), 1); }
  ~Fork() override { unsetenv("POLYMIO_EXECUTOR"); }
};

TEST_P(Fork, TheChildFindsRunsAndDestroysWhileOthersWork) {
  if (!kAllocatorSurvivesFork) GTEST_SKIP() << "the sanitizer's allocator may be locked in the child";
  const Handle own;
  expect_ok(polymioSetThreadCap(own, 3));
  Convolution work(own, {{2, 16, 28, 28}, {16, 16, 3, 3}, {1, 1}});
  work.provide_workspace(std::size_t{4} << 20);
  std::atomic<bool> done{false};
  std::atomic<int> rounds{0}, failures{0};
  // Does not use the test framework, whose lock a child could inherit.
  std::thread other([&] {
    for (; !done; ++rounds)
      for (const auto d : kDirections) {
        int count = 0;
        miopenConvAlgoPerf_t perf[5];
        failures += work.call.find(d, 5, &count, perf) != miopenStatusSuccess;
        for (int i = 0; i < count; ++i) failures += work.call.run(d, perf[i].fwd_algo) != miopenStatusSuccess;
      }
  });
  std::optional<Handle> handle(std::in_place);
  expect_ok(polymioSetThreadCap(*handle, 3));
  std::optional<Job> warm(std::in_place, *handle, 1);
  for (const auto d : kDirections) warm->do_everything(d);
  while (rounds == 0) std::this_thread::yield();
  for (int repetition = 0; repetition < 20; ++repetition) {
    EXPECT_EQ(in_child([&] {
                for (const auto d : kDirections) warm->do_everything(d);
                Job(*handle, repetition % 4).do_everything(kDirections[repetition % 3]);
                const Handle fresh;
                Job(fresh, repetition % 4).find_and_run(Direction::kForward);
                warm.reset();
                handle.reset();
              }),
              0)
        << "repetition " << repetition;
  }
  warm->do_everything(Direction::kForward);
  done = true;
  other.join();
  EXPECT_EQ(failures, 0);
}

TEST_P(Fork, AHandleOfTheChildCanHaveAnExecutorOfItsCaller) {
  const Handle handle;
  Job job(handle, 0);
  job.do_everything(Direction::kForward);
  EXPECT_EQ(in_child([&] {
              int batches = 0;
              expect_ok(polymioSetThreadCap(handle, 2));
              expect_ok(polymioSetExecutor(
                  handle,
                  [](void* context, std::size_t tasks, void (*task)(void*, std::size_t), void* task_context) {
                    ++*static_cast<int*>(context);
                    for (std::size_t i = 0; i < tasks; ++i) task(task_context, i);
                  },
                  &batches));
              for (const auto d : kDirections) job.do_everything(d);
              EXPECT_GT(batches, 0);
              int threads = 0;
              expect_ok(polymioGetThreadCap(handle, &threads));
              EXPECT_EQ(threads, 2);
              expect_ok(polymioSetExecutor(handle, nullptr, nullptr));
              expect_ok(polymioGetThreadCap(handle, &threads));
              EXPECT_EQ(threads, 1) << "without one the child is alone";
            }),
            0);
}

TEST_P(Fork, BackgroundWorkOfAHandleDoesNotHangTheChild) {
  if (!kAllocatorSurvivesFork) GTEST_SKIP() << "the sanitizer's allocator may be locked in the child";
  for (int threads = 2; threads < 12; ++threads) {
    std::optional<Handle> handle(std::in_place);
    expect_ok(polymioSetThreadCap(*handle, threads));
    expect_ok(polymioSetFindBudget(*handle, 1));  // a thread measures the machine in the background
    std::optional<Job> job(std::in_place, *handle, threads % 4);
    job->find_and_run(Direction::kForward);
    EXPECT_EQ(in_child([&] {
                job->do_everything(Direction::kForward);
                job.reset();
                handle.reset();
              }),
              0);
  }
}

INSTANTIATE_TEST_SUITE_P(Executors, Fork, testing::Values("tbb", "threads"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace polymio::test
