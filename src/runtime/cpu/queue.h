// The CPU's queues: a thread for each, which runs its commands in order.
// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>

#include "runtime/queue.h"

namespace polymio::cpu {

/// What is queued here runs on a thread that the first command starts. In a forked child, which lacks the thread,
/// commands run in the caller.
class HostQueue final : public Queue {
 public:
  explicit HostQueue(bool blocking) : blocking_(blocking) {}
  HostQueue(const HostQueue&) = delete;
  HostQueue& operator=(const HostQueue&) = delete;
  ~HostQueue() override;  // after the last command

  void* native() const override { return const_cast<HostQueue*>(this); }
  void copy(void* dst, const void* src, std::size_t bytes, Direction) override;
  void fill(void* dst, int byte, std::size_t bytes) override;
  void call(std::function<void()> function) override;
  /// Waits for the commands queued so far, except on the thread of the queue. Throws what one of them threw.
  void synchronize() override;
  bool idle() override;
  std::shared_ptr<Mark> record() override;
  void wait(const std::shared_ptr<Mark>&) override;
  bool blocking() const { return blocking_; }

 private:
  void work();
  bool lacks_thread() const;
  bool on_own_thread() const { return thread_ && thread_->get_id() == std::this_thread::get_id(); }

  const bool blocking_;
  std::mutex mutex_;
  std::unique_ptr<std::condition_variable> changed_ = std::make_unique<std::condition_variable>();
  std::deque<std::function<void()>> commands_;
  std::uint64_t queued_ = 0, done_ = 0;  // numbers of commands
  bool stop_ = false;
  std::exception_ptr error_;
  std::unique_ptr<std::thread> thread_;
  std::atomic<int> process_{0};  // that started the thread
};

/// Waits for the blocking queues of the CPU.
void wait_for_blocking_queues();

std::unique_ptr<DeviceAccess> create_access(int index);

}  // namespace polymio::cpu
