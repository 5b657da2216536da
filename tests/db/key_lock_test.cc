// Mutual exclusion of processes by key: waiting, timeouts, killed holders, unusable folders.
// SPDX-License-Identifier: MIT
#include "db/key_lock.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <new>
#include <thread>

#include "scratch.h"

namespace polymio {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

class KeyLockTest : public ScratchTest {
 protected:
  void SetUp() override {
    ScratchTest::SetUp();
    std::filesystem::create_directory(user_);
  }
  bool no_file_left() const { return std::filesystem::is_empty(user_); }

  /// A process that holds the lock until it is killed; returns when it does.
  pid_t hold(const std::string& key) const {
    int ends[2];
    if (::pipe(ends) != 0) return -1;
    const pid_t child = ::fork();
    if (child == 0) {
      const KeyLock lock(user_, key, milliseconds(0));
      if (lock.held() && ::write(ends[1], "x", 1) == 1)
        for (;;) ::pause();
      ::_exit(1);
    }
    ::close(ends[1]);
    char c;
    EXPECT_EQ(::read(ends[0], &c, 1), 1);
    ::close(ends[0]);
    return child;
  }
  static void kill(pid_t child) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
};

TEST_F(KeyLockTest, FreeKeysAreTakenAtOnceAndLeaveNothing) {
  {
    const KeyLock one(user_, "one", milliseconds(0)), other(user_, "other", milliseconds(0));
    EXPECT_TRUE(one.held() && other.held());
    EXPECT_FALSE(one.waited() || other.waited());
    EXPECT_FALSE(no_file_left());
  }
  EXPECT_TRUE(no_file_left());
}

TEST_F(KeyLockTest, WaitingIsBounded) {
  const pid_t holder = hold("key");
  const auto start = Clock::now();
  {
    const KeyLock lock(user_, "key", milliseconds(60));
    EXPECT_FALSE(lock.held());
    EXPECT_TRUE(lock.waited());
  }
  const auto took = Clock::now() - start;
  EXPECT_GE(took, milliseconds(60));
  EXPECT_LT(took, std::chrono::seconds(5));
  const KeyLock other(user_, "another key", milliseconds(0));
  EXPECT_TRUE(other.held());
  kill(holder);
}

TEST_F(KeyLockTest, WaiterProceedsWhenTheHolderEnds) {
  auto first = std::make_unique<KeyLock>(user_, "key", milliseconds(0));
  ASSERT_TRUE(first->held());
  std::thread release([&] {
    std::this_thread::sleep_for(milliseconds(30));
    first.reset();
  });
  {
    const KeyLock second(user_, "key", std::chrono::seconds(60));
    EXPECT_TRUE(second.held());
    EXPECT_TRUE(second.waited());
  }
  release.join();
  EXPECT_TRUE(no_file_left());
}

// The holder ends, and another process takes the lock, between the waiter's open and its lock.
TEST_F(KeyLockTest, RemovedFileIsNoLock) {
  auto first = std::make_unique<KeyLock>(user_, "key", milliseconds(0));
  std::unique_ptr<KeyLock> next;
  g_before_flock = [&] {
    first.reset();
    next = std::make_unique<KeyLock>(user_, "key", milliseconds(0));
  };
  {
    const KeyLock late(user_, "key", milliseconds(0));
    ASSERT_TRUE(next && next->held());
    EXPECT_FALSE(late.held());
    EXPECT_TRUE(late.waited());
  }
  next.reset();
  EXPECT_TRUE(no_file_left());
}

TEST_F(KeyLockTest, KilledHolderReleases) {
  const pid_t holder = hold("key");
  kill(holder);
  {
    const KeyLock lock(user_, "key", milliseconds(0));
    EXPECT_TRUE(lock.held());
    EXPECT_FALSE(lock.waited());
  }
  EXPECT_TRUE(no_file_left()) << "the file of the dead is taken over and removed";
}

TEST_F(KeyLockTest, ChildOfAForkDoesNotKeepIt) {
  pid_t child = -1;
  {
    const KeyLock lock(user_, "key", milliseconds(0));
    child = ::fork();
    if (child == 0)
      for (;;) ::pause();
  }
  const KeyLock again(user_, "key", milliseconds(0));
  EXPECT_TRUE(again.held());
  kill(child);
}

TEST_F(KeyLockTest, UnusableFolderMeansNoLocking) {
  append(folder_ / "file", "x");
  ::testing::internal::CaptureStderr();
  for (const auto& folder : {folder_ / "file", std::filesystem::path("/proc/polymio"), std::filesystem::path()}) {
    const KeyLock lock(folder, "key", std::chrono::seconds(60));
    EXPECT_FALSE(lock.held());
    EXPECT_FALSE(lock.waited());
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST_F(KeyLockTest, NeverTwoHolders) {
  constexpr int kProcesses = 16, kRounds = 20;
  struct Shared {
    std::atomic<int> inside, acquisitions, collisions;
  };
  void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  Shared& shared = *new (memory) Shared{};
  for (int p = 0; p < kProcesses; ++p) {
    if (::fork() != 0) continue;
    for (int turn = 0; turn < kRounds; ++turn) {
      const KeyLock lock(user_, "key", std::chrono::seconds(60));
      if (!lock.held() || shared.inside.fetch_add(1) != 0) ++shared.collisions;
      ++shared.acquisitions;
      --shared.inside;
    }
    ::_exit(0);
  }
  for (int p = 0; p < kProcesses; ++p) ::wait(nullptr);
  EXPECT_EQ(shared.collisions, 0);
  EXPECT_EQ(shared.acquisitions, kProcesses * kRounds);
  EXPECT_TRUE(no_file_left());
  ::munmap(memory, sizeof(Shared));
}

}  // namespace
}  // namespace polymio
