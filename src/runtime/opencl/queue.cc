// Memory and queues of an OpenCL device.
// SPDX-License-Identifier: MIT
#include "runtime/queue.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "runtime/opencl/devices.h"
#include "runtime/opencl/opencl.h"

namespace polymio::opencl {
namespace {

using CommandQueue = Queue;  // of OpenCL; the base class has the same name

constexpr unsigned kBlocking = 1, kNotBlocking = 0;
constexpr unsigned kCommandEnd = 0x1283, kExecutionStatus = 0x11d3;

struct EventMark final : Mark {
  const Api& api;
  EventHandle* event = nullptr;
  explicit EventMark(const Api& a) : api(a) {}
  EventMark(const EventMark&) = delete;
  EventMark& operator=(const EventMark&) = delete;
  ~EventMark() override {
    if (event) api.release_event(event);
  }
  bool reached() override {
    Code status = 1;  // 0: complete, negative: failed
    check(api.event_info(event, kExecutionStatus, sizeof status, &status, nullptr), "asking for an event");
    return status <= 0;
  }
  void wait() override { check(api.wait(1, &event), "waiting for the device"); }
  double ms_until(Mark& later) override { return 1e-6 * (static_cast<EventMark&>(later).end_ns() - end_ns()); }
  double end_ns() const {
    Bits ns = 0;
    check(api.profile(event, kCommandEnd, sizeof ns, &ns, nullptr), "timing");
    return static_cast<double>(ns);
  }
};

/// How the default queue and the blocking ones are ordered: each waits for the other kind before it takes a command.
enum class Order { kDefault, kBlocking, kFree };

class ClQueue final : public polymio::Queue {
 public:
  ClQueue(Scope& scope, CommandQueue* queue, int device, Order order)
      : scope_(scope), queue_(queue), device_(device), order_(order) {}
  ClQueue(const ClQueue&) = delete;
  ClQueue& operator=(const ClQueue&) = delete;
  ~ClQueue() override {
    api().finish(queue_);
    api().release_queue(queue_);
  }
  void* native() const override { return order_ == Order::kDefault ? nullptr : queue_; }
  bool blocking() const { return order_ == Order::kBlocking; }
  void copy(void* dst, const void* src, std::size_t bytes, Direction) override;
  void fill(void* dst, int byte, std::size_t bytes) override;
  void synchronize() override {
    wait_for_others();
    check(api().finish(queue_), "waiting for the device");
  }
  bool idle() override {
    // Within which a free queue reaches a mark, on a busy host, too.
    constexpr auto kPatience = std::chrono::milliseconds(50);
    const std::scoped_lock lock(mutex_);
    if (asked_ && !asked_->reached()) return false;
    asked_ = next_mark();
    const auto stop = std::chrono::steady_clock::now() + kPatience;
    while (!asked_->reached() && std::chrono::steady_clock::now() < stop) std::this_thread::yield();
    return asked_->reached();
  }
  std::shared_ptr<Mark> record() override {
    wait_for_others();
    return next_mark();
  }
  void wait(const std::shared_ptr<Mark>& mark) override {
    check(api().barrier(queue_, 1, &static_cast<EventMark&>(*mark).event, nullptr), "waiting for an event");
  }

 private:
  const Api& api() const { return scope_.api; }
  void wait_for_others();
  std::shared_ptr<Mark> next_mark() {
    auto mark = std::make_shared<EventMark>(api());
    check(api().marker(queue_, 0, nullptr, &mark->event), "recording an event");
    check(api().flush(queue_), "recording an event");
    return mark;
  }

  Scope& scope_;
  CommandQueue* const queue_;
  const int device_;
  const Order order_;
  std::mutex mutex_;
  std::shared_ptr<Mark> asked_;  // where the queue stood when last asked whether it was idle
};

void ClQueue::wait_for_others() {
  if (order_ == Order::kBlocking) check(api().finish(scope_.default_queue()), "waiting for the device");
  if (order_ == Order::kDefault) finish_blocking_queues(device_);
}

void ClQueue::copy(void* dst, const void* src, std::size_t bytes, Direction direction) {
  wait_for_others();
  const bool to = scope_.is_address(dst), from = scope_.is_address(src);
  if (to || from) {
    check(api().svm_copy(queue_, kNotBlocking, dst, src, bytes, 0, nullptr, nullptr), "copying");
  } else if (scope_.has_addresses() || direction == Direction::kAny || direction == Direction::kHostToHost) {
    fail(Status::kBadParm, "a copy from {} to {}, but neither is memory of {}", src, dst, scope_.info.name);
  } else if (direction == Direction::kHostToDevice) {
    check(api().write(queue_, static_cast<Memory*>(dst), kBlocking, 0, bytes, src, 0, nullptr, nullptr), "copying");
  } else if (direction == Direction::kDeviceToHost) {
    auto* const memory = static_cast<Memory*>(const_cast<void*>(src));
    check(api().read(queue_, memory, kBlocking, 0, bytes, dst, 0, nullptr, nullptr), "copying");
  } else {
    auto* const memory = static_cast<Memory*>(const_cast<void*>(src));
    check(api().copy(queue_, memory, static_cast<Memory*>(dst), 0, 0, bytes, 0, nullptr, nullptr), "copying");
  }
  check(api().flush(queue_), "copying");
}

void ClQueue::fill(void* dst, int byte, std::size_t bytes) {
  wait_for_others();
  const auto value = static_cast<unsigned char>(byte);
  const bool address = scope_.is_address(dst);
  require(address || !scope_.has_addresses(), "{} is no memory of {}", dst, scope_.info.name);
  check(address ? api().svm_fill(queue_, dst, &value, 1, bytes, 0, nullptr, nullptr)
                : api().fill(queue_, static_cast<Memory*>(dst), &value, 1, 0, bytes, 0, nullptr, nullptr),
        "filling");
  check(api().flush(queue_), "filling");
}

class ClAccess final : public DeviceAccess {
 public:
  ClAccess(Scope& scope, int device)
      : scope_(scope), device_(device), default_(scope, retained(scope), device, Order::kDefault) {}
  void* allocate(std::size_t bytes) override {
    if (bytes > scope_.info.memory_bytes)
      fail(Status::kAllocFailed, "cannot allocate {} bytes on {}", bytes, scope_.info.name);
    void* const p = scope_.allocate(bytes);
    const std::scoped_lock lock(mutex_);
    sizes_[p] = bytes;
    used_ += bytes;
    return p;
  }
  void deallocate(void* p) override {
    synchronize();
    {
      const std::scoped_lock lock(mutex_);
      used_ -= sizes_[p];
      sizes_.erase(p);
    }
    scope_.deallocate(p);
  }
  MemoryInfo memory() override {
    const std::scoped_lock lock(mutex_);
    const std::size_t total = scope_.info.memory_bytes;
    return {total - std::min(total, used_), total};
  }
  std::shared_ptr<polymio::Queue> create_queue(bool blocking) override {
    Code code = 0;
    CommandQueue* const made = scope_.api.create_queue(scope_.context, scope_.device, kProfiling, &code);
    check(code, "making a command queue");
    return std::make_shared<ClQueue>(scope_, made, device_, blocking ? Order::kBlocking : Order::kFree);
  }
  polymio::Queue& default_queue() override { return default_; }
  void synchronize() override {
    for (const auto& queue : queues_of(device_)) queue->synchronize();
    default_.synchronize();
  }

 private:
  static CommandQueue* retained(Scope& scope) {
    check(scope.api.retain_queue(scope.default_queue()), "taking a queue");
    return scope.default_queue();
  }

  Scope& scope_;
  const int device_;
  ClQueue default_;
  std::mutex mutex_;
  std::map<void*, std::size_t> sizes_;
  std::size_t used_ = 0;
};

}  // namespace

void finish_blocking_queues(int device) {
  for (const auto& queue : queues_of(device))
    if (static_cast<ClQueue&>(*queue).blocking()) queue->synchronize();
}

std::unique_ptr<DeviceAccess> create_access(int index) {
  Scope& scope = shared_scope(index);
  return std::make_unique<ClAccess>(scope, device_number(scope.info.name));
}

}  // namespace polymio::opencl
