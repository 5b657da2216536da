// Devices, memory and queues for the HIP layer.
// SPDX-License-Identifier: MIT
#include "capi/polymio/runtime_access.h"

#include "base/env.h"
#include "capi/common/arguments.h"
#include "capi/common/guard.h"
#include "runtime/queue.h"

using namespace polymio;
using capi::guard;

namespace {

using MarkPointer = std::shared_ptr<Mark>;

MarkPointer& mark(void* pointer) { return *static_cast<MarkPointer*>(pointer); }

/// Calls `use` with the queue, which lives as long.
template <class Use>
miopenStatus_t with_queue(int device, void* stream, Use use) {
  return guard([&] {
    if (!stream) return use(device_access(device).default_queue());
    const KnownQueue known = known_queue(stream);
    require(known.queue != nullptr, "the given stream is not one of hipStreamCreate, or was destroyed before");
    use(*known.queue);
  });
}

constexpr polymioRuntime kRuntime = {
    .named_device =
        [](int* device) {
          return guard([&] {
            const auto name = env::text(env::kDevice);
            *device = name ? device_number(*name) : -1;
            if (name && *device == static_cast<int>(devices().size())) create_stream(*name, nullptr);  // says why
          });
        },
    .properties =
        [](int device, polymioRuntime::Properties* out) {
          return guard([&] {
            const DeviceInfo& d = devices().at(static_cast<std::size_t>(device));
            const int lanes = d.kind == DeviceKind::kCpu ? 0 : d.kind == DeviceKind::kCuda ? 128 : 64;  // per unit
            const double clock = lanes ? 1e3 * d.fp32_gflops / (2 * lanes * d.units) : 0;
            *out = {d.gpu.block_threads,     d.gpu.warp,      d.gpu.compute_capability,
                    static_cast<int>(clock), d.bandwidth_gbs, d.gpu.shared_bytes};
          });
        },
    .memory =
        [](int device, std::size_t* free, std::size_t* total) {
          return guard([&] {
            const auto found = device_access(device).memory();
            *free = found.free;
            *total = found.total;
          });
        },
    .set_current = [](int (*current)()) { return guard([&] { set_current_device(current); }); },
    .synchronize_device = [](int device) { return guard([&] { device_access(device).synchronize(); }); },
    .allocate = [](int device, void** memory,
                   std::size_t bytes) { return guard([&] { *memory = device_access(device).allocate(bytes); }); },
    .deallocate = [](int device, void* memory) { return guard([&] { device_access(device).deallocate(memory); }); },
    .create_stream = [](int device, bool blocking,
                        void** stream) { return guard([&] { *stream = create_queue(device, blocking).native(); }); },
    .destroy_stream = [](void* stream) { return guard([&] { destroy_queue(stream); }); },
    .stream_device = [](void* stream, int* device) { return guard([&] { *device = known_queue(stream).device; }); },
    .copy =
        [](int device, void* stream, void* dst, const void* src, std::size_t bytes, int direction) {
          return with_queue(device, stream,
                            [&](Queue& q) { q.copy(dst, src, bytes, static_cast<Direction>(direction)); });
        },
    .fill = [](int device, void* stream, void* dst, int byte,
               std::size_t bytes) { return with_queue(device, stream, [&](Queue& q) { q.fill(dst, byte, bytes); }); },
    .call = [](int device, void* stream, void (*function)(void*),
               void* data) { return with_queue(device, stream, [&](Queue& q) { q.call([=] { function(data); }); }); },
    .synchronize = [](int device,
                      void* stream) { return with_queue(device, stream, [](Queue& q) { q.synchronize(); }); },
    .is_idle = [](int device, void* stream,
                  bool* idle) { return with_queue(device, stream, [&](Queue& q) { *idle = q.idle(); }); },
    .record =
        [](int device, void* stream, void** made) {
          return with_queue(device, stream, [&](Queue& q) { *made = new MarkPointer(q.record()); });
        },
    .is_reached = [](void* m, bool* reached) { return guard([&] { *reached = mark(m)->reached(); }); },
    .wait_mark = [](void* m) { return guard([&] { mark(m)->wait(); }); },
    .stream_wait = [](int device, void* stream,
                      void* m) { return with_queue(device, stream, [&](Queue& q) { q.wait(mark(m)); }); },
    .elapsed = [](void* from, void* to,
                  float* ms) { return guard([&] { *ms = static_cast<float>(mark(from)->ms_until(*mark(to))); }); },
    .free_mark = [](void* m) { delete static_cast<MarkPointer*>(m); },
    .set_error = [](miopenStatus_t status, const char* text) { capi::keep_error(static_cast<Status>(status), text); },
};

}  // namespace

const polymioRuntime* polymioRuntimeAccess(int version) {
  return version == kPolymioRuntimeVersion ? &kRuntime : nullptr;
}
