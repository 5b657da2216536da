// The two built-in executors: an arena of oneTBB, and plain std::thread workers.
// SPDX-License-Identifier: MIT
#include <pthread.h>
#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <latch>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "base/threads.h"
#include "runtime/cpu/cpu.h"

namespace polymio::cpu {
namespace {

class TbbExecutor final : public Executor {
 public:
  // oneTBB warns on stderr when an arena asks for more threads than the machine has.
  explicit TbbExecutor(int threads) : arena_(std::min(threads, tbb::info::default_concurrency())) { keep_workers(); }

  void run(std::size_t tasks, TaskRef task) override {
    std::atomic<std::size_t> next{0};
    std::atomic<bool> failed{false};
    std::exception_ptr error;
    const auto run_next = [&] {
      try {
        task(next++);
      } catch (...) {
        if (!failed.exchange(true)) error = std::current_exception();
      }
    };
    try {
      arena_.execute([&] {
        tbb::parallel_for(
            std::size_t{0}, tasks, [&](std::size_t) { run_next(); }, tbb::simple_partitioner());
      });
    } catch (
        const std::exception& e) {  // thrown by oneTBB: a thread did not start, and the remaining tasks were dropped
      log::info("oneTBB: {}: the calling thread does the rest", e.what());
      while (next < tasks) run_next();
    }
    if (failed) std::rethrow_exception(error);
  }

 private:
  /// Keeps oneTBB's workers alive until the process ends: otherwise the exit handler of oneTBB in a forked child may
  /// detach threads that do not exist there, and crash.
  static void keep_workers() {
    static tbb::task_arena& forever = *new tbb::task_arena;
    forever.initialize();
  }

  tbb::task_arena arena_;
};

/// Workers wait for a batch; the calling thread works, too. A concurrent second caller runs its batch inline instead of
/// waiting, so nested and concurrent use cannot deadlock.
class ThreadExecutor final : public Executor {
 public:
  /// Has fewer threads if the system cannot start them; the calling thread always works.
  explicit ThreadExecutor(int threads) {
    start_threads(workers_, static_cast<std::size_t>(std::max(threads, 1) - 1), [this](std::size_t) { work(); });
  }
  int threads() const { return static_cast<int>(workers_.size()) + 1; }
  ~ThreadExecutor() override { stop(); }

  void run(std::size_t tasks, TaskRef task) override {
    const std::unique_lock owner(owner_, std::try_to_lock);
    if (!owner || workers_.empty()) {
      for (std::size_t i = 0; i < tasks; ++i) task(i);
      return;
    }
    Batch batch{task, tasks};
    {
      const std::scoped_lock lock(mutex_);
      batch_ = &batch;
      ++generation_;
    }
    wake_.notify_all();
    batch.drain();
    std::unique_lock lock(mutex_);
    batch_ = nullptr;  // no more workers join; wait for those inside
    done_.wait(lock, [&] { return inside_ == 0; });
    if (batch.error) std::rethrow_exception(batch.error);
  }

 private:
  struct Batch {
    TaskRef task;
    std::size_t tasks;
    std::atomic<std::size_t> next{0};
    std::mutex error_mutex{};
    std::exception_ptr error{};

    void drain() {
      for (std::size_t i = next++; i < tasks; i = next++) {
        try {
          task(i);
        } catch (...) {
          const std::scoped_lock lock(error_mutex);
          if (!error) error = std::current_exception();
        }
      }
    }
  };

  void stop() {
    {
      const std::scoped_lock lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (auto& w : workers_) w.join();
  }

  void work() {
    std::uint64_t seen = 0;
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return stop_ || generation_ != seen; });
      if (stop_) return;
      seen = generation_;
      Batch* batch = batch_;
      if (!batch) continue;
      ++inside_;
      lock.unlock();
      batch->drain();
      lock.lock();
      if (--inside_ == 0) done_.notify_all();
    }
  }

  std::mutex owner_, mutex_;
  std::condition_variable wake_, done_;
  std::vector<std::thread> workers_;
  Batch* batch_ = nullptr;
  std::uint64_t generation_ = 0;
  int inside_ = 0;
  bool stop_ = false;
};

/// Whether `threads` threads can run at once besides the caller's. Checked before oneTBB starts its workers lazily: it
/// neither reports nor survives a failed thread start.
bool can_start(int threads) {
  static std::atomic<int> startable{0};
  if (threads <= startable) return true;
  const auto count = static_cast<std::size_t>(threads);
  std::latch release(1);
  std::vector<std::thread> started;
  const bool all = start_threads(started, count, [&](std::size_t) { release.wait(); }) == count;
  release.count_down();
  for (auto& t : started) t.join();
  if (all) startable = threads;
  return all;
}

std::atomic<int> forks{0};

}  // namespace

int generation() { return forks.load(std::memory_order_relaxed); }

std::unique_ptr<Executor> make_executor(const std::string& kind, int threads) {
  require(kind == "tbb" || kind == "threads", "POLYMIO_EXECUTOR={}: allowed are tbb and threads", kind);
  // Forks are counted from the first executor on: a child process lacks its threads.
  static const int registered = pthread_atfork(nullptr, nullptr, [] { ++forks; });
  static_cast<void>(registered);
  if (generation() > 0) return nullptr;
  const bool arena = kind == "tbb";
  const int requested = arena ? std::min(threads, tbb::info::default_concurrency()) : threads;
  if (arena && can_start(requested - 1)) return std::make_unique<TbbExecutor>(threads);
  auto made = std::make_unique<ThreadExecutor>(requested);
  if (made->threads() < requested)
    log::warn_once("threads", "{} of {} threads could be started: a limit on processes (ulimit -u, pids.max) or memory",
                   made->threads() - 1, requested - 1);
  return made;
}

}  // namespace polymio::cpu
