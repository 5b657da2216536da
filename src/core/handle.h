// Per-handle state: the stream, the plans built for it, profiling, the caller's allocator.
// Safe for concurrent calls; thread cap, executor and profiling are not meant to change while others work.
// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "core/plan_cache.h"
#include "runtime/device.h"

namespace polymio {

using AllocatorFunction = void* (*)(void* context, std::size_t bytes);
using DeallocatorFunction = void (*)(void* context, void* memory);

class Handle {
 public:
  Handle(const std::string& device, void* native_stream) : stream_(create_stream(device, native_stream)) {}

  Stream& stream() { return *stream_; }
  const DeviceInfo& device() const { return stream_->info(); }
  PlanCache& plans() { return plans_; }

  void set_allocator(AllocatorFunction a, DeallocatorFunction d, void* context);
  /// Memory from the caller's allocator, else the device's; null results throw AllocFailed.
  void* allocate(std::size_t bytes);
  /// Frees by the function that belonged to the memory, whatever has been set since.
  void deallocate(void* memory);

  void enable_profiling(bool on) {
    profiling_ = on;
    kernel_ms_ = 0;
  }
  bool profiling() const { return profiling_; }
  float kernel_ms() const { return profiling_ ? kernel_ms_.load() : 0.0f; }

  /// Calls `work` on the stream, timing it when profiling is on.
  void run(FunctionRef<void(Stream&)> work);
  void run(const Plan& plan, const void* args) {
    run([&](Stream& stream) { plan.invoke(stream, args); });
  }

 private:
  std::unique_ptr<Stream> stream_;
  PlanCache plans_;
  struct CallerAllocator {
    AllocatorFunction allocate = nullptr;
    DeallocatorFunction deallocate = nullptr;
    void* context = nullptr;
  };
  std::mutex allocator_mutex_;
  CallerAllocator allocator_;
  std::unordered_map<void*, CallerAllocator> callers_memory_;
  std::atomic<bool> profiling_{false};
  std::atomic<float> kernel_ms_{0};
};

}  // namespace polymio
