// Memory and queues of a CUDA device.
// SPDX-License-Identifier: MIT
#include <algorithm>

#include "base/error.h"
#include "runtime/gpu/driver.h"

namespace polymio::gpu {
namespace {

constexpr int kNotReady = 600, kOutOfMemory = 2;
constexpr unsigned kNonBlocking = 1;

Address address(const void* p) { return reinterpret_cast<Address>(p); }

/// Whether what was asked for is done; other errors are thrown.
bool is_ready(const Driver& driver, int code, const char* what) {
  if (code == kNotReady) return false;
  check(driver, code, what);
  return true;
}

struct DriverMark final : Mark {
  const Driver& driver;
  void* const context;
  void* event = nullptr;
  DriverMark(const Driver& d, void* c) : driver(d), context(c) {
    check(driver, driver.create_event(&event, 0), "making an event");
  }
  DriverMark(const DriverMark&) = delete;
  DriverMark& operator=(const DriverMark&) = delete;
  ~DriverMark() override { driver.destroy_event(event); }
  bool reached() override {
    const Current current(driver, context);
    return is_ready(driver, driver.queues.event_ready(event), "asking for an event");
  }
  void wait() override {
    const Current current(driver, context);
    check(driver, driver.wait(event), "waiting for the device");
  }
  double ms_until(Mark& later) override {
    const Current current(driver, context);
    float ms = 0;
    check(driver, driver.elapsed(&ms, event, static_cast<DriverMark&>(later).event), "timing");
    return static_cast<double>(ms);
  }
};

class DriverQueue final : public Queue {
 public:
  DriverQueue(const Driver& driver, void* context, void* stream)
      : driver_(driver), context_(context), stream_(stream) {}
  DriverQueue(const DriverQueue&) = delete;
  DriverQueue& operator=(const DriverQueue&) = delete;
  ~DriverQueue() override {
    if (stream_) driver_.queues.destroy(stream_);
  }
  void* native() const override { return stream_; }
  void copy(void* dst, const void* src, std::size_t bytes, Direction) override {
    const Current current(driver_, context_);  // addresses tell which memory is whose
    check(driver_, driver_.queues.copy(address(dst), address(src), bytes, stream_), "copying");
  }
  void fill(void* dst, int byte, std::size_t bytes) override {
    const Current current(driver_, context_);
    check(driver_, driver_.queues.fill(address(dst), static_cast<unsigned char>(byte), bytes, stream_), "filling");
  }
  void synchronize() override {
    const Current current(driver_, context_);
    check(driver_, driver_.synchronize(stream_), "waiting for the device");
  }
  bool idle() override {
    const Current current(driver_, context_);
    return is_ready(driver_, driver_.queues.ready(stream_), "asking for a stream");
  }
  std::shared_ptr<Mark> record() override {
    const Current current(driver_, context_);
    auto mark = std::make_shared<DriverMark>(driver_, context_);
    check(driver_, driver_.record(mark->event, stream_), "recording an event");
    return mark;
  }
  void wait(const std::shared_ptr<Mark>& mark) override {
    const Current current(driver_, context_);
    check(driver_, driver_.queues.wait(stream_, static_cast<DriverMark&>(*mark).event, 0), "waiting for an event");
  }

 private:
  const Driver& driver_;
  void* const context_;
  void* const stream_;
};

class DriverAccess final : public DeviceAccess {
 public:
  DriverAccess(const Driver& driver, void* context, const DeviceInfo& info)
      : driver_(driver), context_(context), info_(info), default_(driver, context, nullptr) {}
  void* allocate(std::size_t bytes) override {
    const Current current(driver_, context_);
    Address made = 0;
    const int code = driver_.allocate(&made, bytes);
    if (code == kOutOfMemory) fail(Status::kAllocFailed, "cannot allocate {} bytes on {}", bytes, info_.name);
    check(driver_, code, "allocating memory");
    return reinterpret_cast<void*>(made);
  }
  void deallocate(void* p) override {
    const Current current(driver_, context_);
    check(driver_, driver_.free(address(p)), "freeing memory");  // waits for the device
  }
  MemoryInfo memory() override {
    const Current current(driver_, context_);
    MemoryInfo found{};
    check(driver_, driver_.queues.memory(&found.free, &found.total), "asking for memory");
    return found;
  }
  std::shared_ptr<Queue> create_queue(bool blocking) override {
    const Current current(driver_, context_);
    void* stream = nullptr;
    check(driver_, driver_.queues.create(&stream, blocking ? 0 : kNonBlocking), "making a stream");
    return std::make_shared<DriverQueue>(driver_, context_, stream);
  }
  Queue& default_queue() override { return default_; }
  void synchronize() override {
    const Current current(driver_, context_);
    check(driver_, driver_.queues.synchronize_all(), "waiting for the device");
  }

 private:
  const Driver& driver_;
  void* const context_;
  const DeviceInfo& info_;
  DriverQueue default_;
};

}  // namespace

std::unique_ptr<DeviceAccess> make_access(const Driver& driver, const DeviceInfo& info, void* context) {
  const auto& q = driver.queues;
  const bool complete =
      q.create && q.destroy && q.ready && q.event_ready && q.wait && q.copy && q.fill && q.memory && q.synchronize_all;
  if (!complete) fail(Status::kNotInitialized, "the driver of {} lacks functions for streams", info.name);
  return std::make_unique<DriverAccess>(driver, context, info);
}

}  // namespace polymio::gpu
