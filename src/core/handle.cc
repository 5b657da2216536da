// SPDX-License-Identifier: MIT
#include "core/handle.h"

#include "base/error.h"

namespace polymio {

void Handle::set_allocator(AllocatorFunction a, DeallocatorFunction d, void* context) {
  require(!a == !d, "give both an allocator and a deallocator, or neither to restore the default");
  allocator_ = a;
  deallocator_ = d;
  allocator_context_ = context;
}

void* Handle::allocate(std::size_t bytes) {
  if (!allocator_) return stream_->allocate(bytes);
  void* memory = allocator_(allocator_context_, bytes);
  if (!memory) fail(Status::kAllocFailed, "the caller's allocator gave no memory for {} bytes", bytes);
  return memory;
}

void Handle::deallocate(void* memory) noexcept {
  if (deallocator_)
    deallocator_(allocator_context_, memory);
  else
    stream_->deallocate(memory);
}

void Handle::run(const Plan& plan, const void* args) {
  if (!profiling_) {
    plan.invoke(*stream_, args);
    return;
  }
  stream_->synchronize();
  const auto start = std::chrono::steady_clock::now();
  plan.invoke(*stream_, args);
  stream_->synchronize();
  kernel_ms_ = std::chrono::duration<float, std::milli>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace polymio
