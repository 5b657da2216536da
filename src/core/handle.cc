// SPDX-License-Identifier: MIT
#include "core/handle.h"

#include <chrono>

#include "base/error.h"

namespace polymio {

void Handle::set_allocator(AllocatorFunction a, DeallocatorFunction d, void* context) {
  require(!a == !d, "give both an allocator and a deallocator, or neither to restore the default");
  const std::scoped_lock lock(allocator_mutex_);
  allocator_ = {a, d, context};
}

void* Handle::allocate(std::size_t bytes) {
  const std::scoped_lock lock(allocator_mutex_);
  if (!allocator_.allocate) return stream_->allocate(bytes);
  void* memory = allocator_.allocate(allocator_.context, bytes);
  if (!memory) fail(Status::kAllocFailed, "the caller's allocator gave no memory for {} bytes", bytes);
  callers_memory_[memory] = allocator_;
  return memory;
}

void Handle::deallocate(void* memory) {
  const std::scoped_lock lock(allocator_mutex_);
  const auto it = callers_memory_.find(memory);
  if (it == callers_memory_.end()) return stream_->deallocate(memory);
  const CallerAllocator owner = it->second;
  callers_memory_.erase(it);
  owner.deallocate(owner.context, memory);
}

void Handle::run(FunctionRef<void(Stream&)> work) {
  if (!profiling_) {
    work(*stream_);
    return;
  }
  stream_->synchronize();
  const auto start = std::chrono::steady_clock::now();
  work(*stream_);
  stream_->synchronize();
  kernel_ms_ = std::chrono::duration<float, std::milli>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace polymio
