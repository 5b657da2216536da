// Memory of devices and of the host, copies and fills.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <shared_mutex>

#include "state.h"

using namespace polymio::hip_layer;

namespace {

constexpr std::size_t kAlign = 256;  // of host memory

struct Allocations {
  std::shared_mutex mutex;
  std::map<const char*, Allocation> by_start;
};

Allocations& allocations() {
  static Allocations& all = *new Allocations;  // never destroyed: programs free memory after main
  return all;
}

void* add(void* p, std::size_t bytes, int device, bool managed) {
  Allocations& all = allocations();
  const std::unique_lock lock(all.mutex);
  const auto* const start = static_cast<const char*>(p);
  all.by_start[start] = {start, bytes, device, managed};
  return p;
}

void allocate(void** out, std::size_t bytes, bool managed) {
  *not_null(out, "ptr") = nullptr;
  const int device = current_number();
  if (managed && device != 0) fail(hipErrorNotSupported, "managed memory: there is none on this device");
  if (bytes == 0) return;
  void* made = nullptr;
  Runtime::get().call(&polymioRuntime::allocate, device, &made, bytes);
  *out = add(made, bytes, device, managed);
}

void allocate_host(void** out, std::size_t bytes) {
  *not_null(out, "ptr") = nullptr;
  if (bytes == 0) return;
  const std::size_t rounded = (bytes + kAlign - 1) / kAlign * kAlign;
  void* const made = rounded < bytes ? nullptr : std::aligned_alloc(kAlign, rounded);
  if (!made) fail(hipErrorOutOfMemory, "cannot allocate ", std::to_string(bytes), " bytes of the host's memory");
  *out = add(made, bytes, -1, false);
}

void release(void* p, bool host) {
  if (!p) {
    current_number();  // starts the runtime
    return;
  }
  Allocations& all = allocations();
  Allocation found;
  {
    const std::unique_lock lock(all.mutex);
    const auto it = all.by_start.find(static_cast<const char*>(p));
    const bool known = it != all.by_start.end() && (it->second.device < 0) == host;
    if (!known)
      fail(hipErrorInvalidValue, "the pointer is not one of ", host ? "hipHostMalloc" : "hipMalloc",
           ", or was freed before");
    found = it->second;
    all.by_start.erase(it);
  }
  if (host)
    std::free(p);
  else
    Runtime::get().call(&polymioRuntime::deallocate, found.device, p);
}

enum class Wait { kNo, kYes };

void synchronize(const StreamPlace& at) { Runtime::get().call(&polymioRuntime::synchronize, at.device, at.stream); }

/// Between two devices that both have memory of their own: through the host.
void copy_between(const Allocation& to, void* dst, const Allocation& from, const void* src, std::size_t bytes) {
  const auto& runtime = Runtime::get();
  std::vector<char> staging(bytes);
  void* const none = nullptr;
  const void* const held = staging.data();
  runtime.call(&polymioRuntime::copy, from.device, none, static_cast<void*>(staging.data()), src, bytes,
               static_cast<int>(hipMemcpyDeviceToHost));
  synchronize({from.device, nullptr});
  runtime.call(&polymioRuntime::copy, to.device, none, dst, held, bytes, static_cast<int>(hipMemcpyHostToDevice));
  synchronize({to.device, nullptr});
}

void copy(void* dst, const void* src, std::size_t bytes, hipMemcpyKind kind, hipStream_t stream, Wait wait) {
  if (kind < hipMemcpyHostToHost || kind > hipMemcpyDefault)
    fail(hipErrorInvalidMemcpyDirection, "copy kind ", std::to_string(kind), ": allowed are 0 to 4");
  StreamPlace at = place_of(stream);
  if (bytes == 0) return;
  not_null(dst, "dst");
  not_null(src, "src");
  const Allocation to = allocation_of(dst), from = allocation_of(src);
  if (to.device > 0 && from.device > 0 && to.device != from.device) {
    synchronize(at);
    return copy_between(to, dst, from, src, bytes);
  }
  // The default stream is that of the device that has the memory; a CPU's memory is memory of the host for others.
  const int owner = std::max(to.device, from.device);
  if (!stream && owner >= 0) at.device = owner;
  if (owner <= 0 && at.device != 0) {  // no memory of a GPU, as far as it is known
    if (kind == hipMemcpyHostToHost || (to.start && from.start)) {
      synchronize(at);
      at = {0, nullptr};
    }
  }
  Runtime::get().call(&polymioRuntime::copy, at.device, at.stream, dst, src, bytes, static_cast<int>(kind));
  if (wait == Wait::kYes) synchronize(at);
}

void fill(void* dst, int value, std::size_t bytes, hipStream_t stream, Wait wait) {
  StreamPlace at = place_of(stream);
  if (bytes == 0) return;
  const Allocation to = allocation_of(not_null(dst, "dst"));
  if (!stream && to.device >= 0) at.device = to.device;
  Runtime::get().call(&polymioRuntime::fill, at.device, at.stream, dst, value, bytes);
  if (wait == Wait::kYes) synchronize(at);
}

}  // namespace

namespace polymio::hip_layer {

Allocation allocation_of(const void* address) {
  Allocations& all = allocations();
  const auto* const p = static_cast<const char*>(address);
  const std::shared_lock lock(all.mutex);
  auto after = all.by_start.upper_bound(p);
  if (after == all.by_start.begin()) return {};
  --after;
  return p < after->first + after->second.bytes ? after->second : Allocation{};
}

}  // namespace polymio::hip_layer

hipError_t hipMalloc(void** ptr, size_t size) {
  return guard([&] { allocate(ptr, size, false); });
}

hipError_t hipMallocAsync(void** ptr, size_t size, hipStream_t stream) {
  return guard([&] {
    place_of(stream);
    allocate(ptr, size, false);
  });
}

hipError_t hipMallocManaged(void** ptr, size_t size, unsigned) {
  return guard([&] { allocate(ptr, size, true); });
}

hipError_t hipFree(void* ptr) {
  return guard([&] { release(ptr, false); });
}

hipError_t hipFreeAsync(void* ptr, hipStream_t stream) {
  return guard([&] {
    synchronize(place_of(stream));
    release(ptr, false);
  });
}

hipError_t hipHostMalloc(void** ptr, size_t size, unsigned) {
  return guard([&] { allocate_host(ptr, size); });
}

hipError_t hipHostAlloc(void** ptr, size_t size, unsigned flags) { return hipHostMalloc(ptr, size, flags); }
hipError_t hipMallocHost(void** ptr, size_t size) { return hipHostMalloc(ptr, size, hipHostMallocDefault); }

hipError_t hipHostFree(void* ptr) {
  return guard([&] { release(ptr, true); });
}

hipError_t hipFreeHost(void* ptr) { return hipHostFree(ptr); }

hipError_t hipMemGetInfo(size_t* free, size_t* total) {
  return guard([&] {
    Runtime::get().call(&polymioRuntime::memory, current_number(), not_null(free, "free"), not_null(total, "total"));
  });
}

hipError_t hipPointerGetAttributes(hipPointerAttribute_t* attributes, const void* ptr) {
  return guard([&] {
    *not_null(attributes, "attributes") = {};
    const Allocation found = allocation_of(ptr);
    if (!found.start) fail(hipErrorInvalidValue, "the pointer is in no memory of hipMalloc or hipHostMalloc");
    const bool host = found.device < 0;
    attributes->type = host ? hipMemoryTypeHost : found.managed ? hipMemoryTypeManaged : hipMemoryTypeDevice;
    const auto& devices = Runtime::get().devices();
    for (std::size_t i = 0; i < devices.size(); ++i)
      if (devices[i] == found.device) attributes->device = static_cast<int>(i);
    void* const address = const_cast<void*>(ptr);
    attributes->devicePointer = host && current_number() != 0 ? nullptr : address;
    attributes->hostPointer = found.device <= 0 ? address : nullptr;
    attributes->isManaged = found.managed;
  });
}

hipError_t hipMemcpy(void* dst, const void* src, size_t bytes, hipMemcpyKind kind) {
  return guard([&] { copy(dst, src, bytes, kind, nullptr, Wait::kYes); });
}

hipError_t hipMemcpyAsync(void* dst, const void* src, size_t bytes, hipMemcpyKind kind, hipStream_t stream) {
  return guard([&] { copy(dst, src, bytes, kind, stream, Wait::kNo); });
}

hipError_t hipMemcpyWithStream(void* dst, const void* src, size_t bytes, hipMemcpyKind kind, hipStream_t stream) {
  return guard([&] { copy(dst, src, bytes, kind, stream, Wait::kYes); });
}

hipError_t hipMemcpyHtoD(hipDeviceptr_t dst, void* src, size_t bytes) {
  return hipMemcpy(dst, src, bytes, hipMemcpyHostToDevice);
}
hipError_t hipMemcpyDtoH(void* dst, hipDeviceptr_t src, size_t bytes) {
  return hipMemcpy(dst, src, bytes, hipMemcpyDeviceToHost);
}
hipError_t hipMemcpyDtoD(hipDeviceptr_t dst, hipDeviceptr_t src, size_t bytes) {
  return hipMemcpy(dst, src, bytes, hipMemcpyDeviceToDevice);
}
hipError_t hipMemcpyHtoDAsync(hipDeviceptr_t dst, void* src, size_t bytes, hipStream_t stream) {
  return hipMemcpyAsync(dst, src, bytes, hipMemcpyHostToDevice, stream);
}
hipError_t hipMemcpyDtoHAsync(void* dst, hipDeviceptr_t src, size_t bytes, hipStream_t stream) {
  return hipMemcpyAsync(dst, src, bytes, hipMemcpyDeviceToHost, stream);
}
hipError_t hipMemcpyDtoDAsync(hipDeviceptr_t dst, hipDeviceptr_t src, size_t bytes, hipStream_t stream) {
  return hipMemcpyAsync(dst, src, bytes, hipMemcpyDeviceToDevice, stream);
}

hipError_t hipMemset(void* dst, int value, size_t bytes) {
  return guard([&] { fill(dst, value, bytes, nullptr, Wait::kYes); });
}

hipError_t hipMemsetAsync(void* dst, int value, size_t bytes, hipStream_t stream) {
  return guard([&] { fill(dst, value, bytes, stream, Wait::kNo); });
}

hipError_t hipMemsetD8(hipDeviceptr_t dst, unsigned char value, size_t count) { return hipMemset(dst, value, count); }
