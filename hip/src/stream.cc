// Streams and events.
// SPDX-License-Identifier: MIT
#include <memory>
#include <mutex>

#include "live.h"

using namespace polymio::hip_layer;

/// What hipEvent_t points to.
struct ihipEvent_t {
  bool timed;
  std::mutex mutex;
  std::shared_ptr<void> mark;  // null until it is recorded
  int device = -1;             // that it was recorded on
};

namespace {

Live<ihipEvent_t>& events() {
  static auto& all = *new Live<ihipEvent_t>("event");  // never destroyed: programs use events after main
  return all;
}

struct Recorded {
  std::shared_ptr<void> mark;
  int device;
};

Recorded recorded(hipEvent_t event) {
  const auto e = events().get(event);
  const std::scoped_lock lock(e->mutex);
  return {e->mark, e->device};
}

bool is_reached(const Recorded& event) {
  bool reached = true;
  if (event.mark) Runtime::get().call(&polymioRuntime::is_reached, event.mark.get(), &reached);
  return reached;
}

void create(hipStream_t* stream, unsigned flags) {
  *not_null(stream, "stream") = nullptr;
  if (flags > hipStreamNonBlocking)
    fail(hipErrorInvalidValue, "flags are ", std::to_string(flags), ": allowed are 0 and hipStreamNonBlocking");
  void* made = nullptr;
  Runtime::get().call(&polymioRuntime::create_stream, current_number(), flags != hipStreamNonBlocking, &made);
  *stream = static_cast<hipStream_t>(made);
}

/// A function of the host and what it needs.
struct HostCall {
  hipHostFn_t function;
  hipStreamCallback_t callback;
  hipStream_t stream;
  void* data;
  static void run(void* p) {
    const std::unique_ptr<HostCall> call(static_cast<HostCall*>(p));
    if (call->function) call->function(call->data);
    if (call->callback) call->callback(call->stream, hipSuccess, call->data);
  }
};

void call_on_host(const HostCall& call) {
  const StreamPlace at = place_of(call.stream);
  auto kept = std::make_unique<HostCall>(call);
  Runtime::get().call(&polymioRuntime::call, at.device, at.stream, &HostCall::run, kept.get());
  static_cast<void>(kept.release());  // run() owns it
}

}  // namespace

hipError_t hipStreamCreate(hipStream_t* stream) {
  return guard([&] { create(stream, hipStreamDefault); });
}

hipError_t hipStreamCreateWithFlags(hipStream_t* stream, unsigned flags) {
  return guard([&] { create(stream, flags); });
}

hipError_t hipStreamCreateWithPriority(hipStream_t* stream, unsigned flags, int) {
  return guard([&] { create(stream, flags); });
}

hipError_t hipDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return guard([&] {
    if (least) *least = 0;
    if (greatest) *greatest = 0;
  });
}

hipError_t hipStreamDestroy(hipStream_t stream) {
  return guard([&] {
    const StreamPlace at = place_of(not_null(stream, "stream"));
    Runtime::get().call(&polymioRuntime::synchronize, at.device, at.stream);
    Runtime::get().call(&polymioRuntime::destroy_stream, at.stream);
  });
}

hipError_t hipStreamSynchronize(hipStream_t stream) {
  return guard([&] {
    const StreamPlace at = place_of(stream);
    Runtime::get().call(&polymioRuntime::synchronize, at.device, at.stream);
  });
}

hipError_t hipStreamQuery(hipStream_t stream) {
  return guard([&] {
    const StreamPlace at = place_of(stream);
    bool idle = false;
    Runtime::get().call(&polymioRuntime::is_idle, at.device, at.stream, &idle);
    if (!idle) fail(hipErrorNotReady);
  });
}

hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned) {
  return guard([&] {
    const StreamPlace at = place_of(stream);
    const Recorded earlier = recorded(event);
    if (!earlier.mark) return;
    if (earlier.device == at.device)
      Runtime::get().call(&polymioRuntime::stream_wait, at.device, at.stream, earlier.mark.get());
    else
      Runtime::get().call(&polymioRuntime::wait_mark, earlier.mark.get());
  });
}

hipError_t hipStreamGetDevice(hipStream_t stream, hipDevice_t* device) {
  return guard([&] {
    const StreamPlace at = place_of(stream);
    const auto& devices = Runtime::get().devices();
    for (std::size_t i = 0; i < devices.size(); ++i)
      if (devices[i] == at.device) *not_null(device, "device") = static_cast<int>(i);
  });
}

hipError_t hipStreamAddCallback(hipStream_t stream, hipStreamCallback_t callback, void* data, unsigned) {
  return guard([&] { call_on_host({nullptr, not_null(callback, "callback"), stream, data}); });
}

hipError_t hipLaunchHostFunc(hipStream_t stream, hipHostFn_t function, void* data) {
  return guard([&] { call_on_host({not_null(function, "function"), nullptr, stream, data}); });
}

hipError_t hipEventCreateWithFlags(hipEvent_t* event, unsigned flags) {
  return guard([&] {
    *not_null(event, "event") = nullptr;
    auto made = std::make_shared<ihipEvent_t>();
    made->timed = !(flags & hipEventDisableTiming);
    *event = static_cast<hipEvent_t>(events().add(std::move(made)));
  });
}

hipError_t hipEventCreate(hipEvent_t* event) { return hipEventCreateWithFlags(event, hipEventDefault); }

hipError_t hipEventDestroy(hipEvent_t event) {
  return guard([&] { events().remove(event); });
}

hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream) {
  return guard([&] {
    const auto e = events().get(event);
    const StreamPlace at = place_of(stream);
    void* mark = nullptr;
    Runtime::get().call(&polymioRuntime::record, at.device, at.stream, &mark);
    std::shared_ptr<void> owned(mark, [](void* m) { Runtime::get().free_mark(m); });
    const std::scoped_lock lock(e->mutex);
    e->mark = std::move(owned);
    e->device = at.device;
  });
}

hipError_t hipEventSynchronize(hipEvent_t event) {
  return guard([&] {
    const Recorded r = recorded(event);
    if (r.mark) Runtime::get().call(&polymioRuntime::wait_mark, r.mark.get());
  });
}

hipError_t hipEventQuery(hipEvent_t event) {
  return guard([&] {
    if (!is_reached(recorded(event))) fail(hipErrorNotReady);
  });
}

hipError_t hipEventElapsedTime(float* ms, hipEvent_t start, hipEvent_t stop) {
  return guard([&] {
    not_null(ms, "ms");
    if (!events().get(start)->timed || !events().get(stop)->timed)
      fail(hipErrorInvalidHandle, "an event of hipEventDisableTiming has no time");
    const Recorded from = recorded(start), to = recorded(stop);
    if (!from.mark || !to.mark) fail(hipErrorInvalidHandle, "an event was never recorded");
    if (from.device != to.device) fail(hipErrorInvalidHandle, "the events are of different devices");
    if (!is_reached(from) || !is_reached(to)) fail(hipErrorNotReady);
    Runtime::get().call(&polymioRuntime::elapsed, from.mark.get(), to.mark.get(), ms);
  });
}
