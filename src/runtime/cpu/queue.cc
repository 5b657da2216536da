// SPDX-License-Identifier: MIT
#include "runtime/cpu/queue.h"

#include <unistd.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <new>
#include <utility>

#include "base/error.h"
#include "runtime/cpu/cpu.h"

namespace polymio::cpu {
namespace {

constexpr int kDevice = 0;          // number of the CPU in devices()
constexpr std::size_t kAlign = 64;  // of memory

class HostMark final : public Mark {
 public:
  void set() {
    {
      const std::scoped_lock lock(mutex_);
      time_ = std::chrono::steady_clock::now();
      reached_ = true;
    }
    changed_.notify_all();
  }
  bool reached() override {
    const std::scoped_lock lock(mutex_);
    return reached_;
  }
  void wait() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return reached_; });
  }
  double ms_until(Mark& later) override {
    return std::chrono::duration<double, std::milli>(static_cast<HostMark&>(later).time_ - time_).count();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool reached_ = false;
  std::chrono::steady_clock::time_point time_;
};

/// Its commands run in the caller, after those of the blocking queues.
class DefaultQueue final : public Queue {
 public:
  void* native() const override { return nullptr; }
  void copy(void* dst, const void* src, std::size_t bytes, Direction) override {
    synchronize();
    std::memmove(dst, src, bytes);
  }
  void fill(void* dst, int byte, std::size_t bytes) override {
    synchronize();
    std::memset(dst, byte, bytes);
  }
  void synchronize() override { wait_for_blocking_queues(); }
  bool idle() override {
    for (const auto& queue : queues_of(kDevice))
      if (static_cast<HostQueue&>(*queue).blocking() && !queue->idle()) return false;
    return true;
  }
  std::shared_ptr<Mark> record() override {
    synchronize();
    auto mark = std::make_shared<HostMark>();
    mark->set();
    return mark;
  }
  void wait(const std::shared_ptr<Mark>& mark) override { mark->wait(); }
};

class HostAccess final : public DeviceAccess {
 public:
  void* allocate(std::size_t bytes) override {
    const std::size_t rounded = (bytes + kAlign - 1) / kAlign * kAlign;
    const bool possible = rounded >= bytes && bytes <= info().memory_bytes;
    void* const p = possible ? ::operator new (rounded, std::align_val_t{kAlign}, std::nothrow) : nullptr;
    if (!p) fail(Status::kAllocFailed, "cannot allocate {} bytes of memory", bytes);
    return p;
  }
  void deallocate(void* p) override {
    synchronize();
    ::operator delete (p, std::align_val_t{kAlign});
  }
  MemoryInfo memory() override {
    MemoryInfo found{info().memory_bytes, info().memory_bytes};
    std::ifstream file("/proc/meminfo");
    std::string name, unit;
    std::size_t kib = 0;
    while (file >> name >> kib && std::getline(file, unit))
      if (name == "MemAvailable:") found.free = std::min(kib << 10, found.total);
    return found;
  }
  std::shared_ptr<Queue> create_queue(bool blocking) override { return std::make_shared<HostQueue>(blocking); }
  Queue& default_queue() override { return default_; }
  void synchronize() override {
    for (const auto& queue : queues_of(kDevice)) queue->synchronize();
  }

 private:
  DefaultQueue default_;
};

}  // namespace

HostQueue::~HostQueue() {
  if (!thread_) return;
  if (lacks_thread()) {
    static_cast<void>(thread_.release());   // one of the parent process: no join or detach from here
    static_cast<void>(changed_.release());  // whose destructor would wait for that thread
    return;
  }
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  changed_->notify_all();
  thread_->join();
}

bool HostQueue::lacks_thread() const { return process_ != 0 && process_ != ::getpid(); }

void HostQueue::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_->wait(lock, [this] { return stop_ || !commands_.empty(); });
    if (commands_.empty()) return;
    std::function<void()> command = std::move(commands_.front());
    commands_.pop_front();
    lock.unlock();
    std::exception_ptr error;
    try {
      command();
    } catch (...) {
      error = std::current_exception();
    }
    command = nullptr;
    lock.lock();
    if (error && !error_) error_ = error;
    ++done_;
    changed_->notify_all();
  }
}

void HostQueue::call(std::function<void()> function) {
  if (lacks_thread()) return function();
  {
    const std::scoped_lock lock(mutex_);
    if (process_ == 0) {  // before the command is queued, since it may fail
      thread_ = std::make_unique<std::thread>([this] { work(); });
      process_ = ::getpid();
    }
    commands_.push_back(std::move(function));
    ++queued_;
  }
  changed_->notify_all();
}

void HostQueue::copy(void* dst, const void* src, std::size_t bytes, Direction) {
  call([=] { std::memmove(dst, src, bytes); });
}

void HostQueue::fill(void* dst, int byte, std::size_t bytes) {
  call([=] { std::memset(dst, byte, bytes); });
}

void HostQueue::synchronize() {
  if (lacks_thread()) return;
  std::unique_lock lock(mutex_);
  if (on_own_thread()) return;
  const std::uint64_t last = queued_;
  changed_->wait(lock, [&] { return done_ >= last; });
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

bool HostQueue::idle() {
  if (lacks_thread()) return true;
  const std::scoped_lock lock(mutex_);
  return done_ == queued_;
}

std::shared_ptr<Mark> HostQueue::record() {
  auto mark = std::make_shared<HostMark>();
  call([mark] { mark->set(); });
  return mark;
}

void HostQueue::wait(const std::shared_ptr<Mark>& mark) {
  call([mark] { mark->wait(); });
}

void wait_for_blocking_queues() {
  for (const auto& queue : queues_of(kDevice))
    if (static_cast<HostQueue&>(*queue).blocking()) queue->synchronize();
}

std::unique_ptr<DeviceAccess> create_access(int) { return std::make_unique<HostAccess>(); }

}  // namespace polymio::cpu
