// Device memory that a plan keeps between its runs.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <map>

#include "base/error.h"
#include "base/function_ref.h"
#include "base/process_mutex.h"
#include "runtime/device.h"

namespace polymio {

/// One buffer for each of the caller's streams that the plan runs on. Commands of one stream run in order.
class StreamMemory {
 public:
  explicit StreamMemory(std::size_t bytes) : bytes_(bytes) {}
  StreamMemory(const StreamMemory&) = delete;
  StreamMemory& operator=(const StreamMemory&) = delete;
  ~StreamMemory() {
    for (const auto& [native, memory] : of_stream_) stream_->deallocate(memory);
  }

  std::size_t bytes() const { return bytes_; }
  /// Whether use() can have the buffer: a capture cannot allocate one.
  bool is_ready(Stream& stream) {
    const std::scoped_lock lock(mutex_);
    return of_stream_.contains(stream.native()) || !stream.capturing();
  }
  /// Calls `launch` with the buffer of the stream. Other threads wait, so that their commands do not come between.
  void use(Stream& stream, FunctionRef<void(void*)> launch) {
    const std::scoped_lock lock(mutex_);
    launch(get(stream));
  }

 private:
  void* get(Stream& stream) {
    const auto found = of_stream_.find(stream.native());
    if (found != of_stream_.end()) return found->second;
    if (stream.capturing())
      fail(Status::kNotInitialized,
           "this call needs memory, which a capture cannot allocate: run it on its stream before");
    stream_ = &stream;  // outlives the plans of its handle
    return of_stream_[stream.native()] = stream.allocate(bytes_);
  }

  const std::size_t bytes_;
  ProcessMutex mutex_;
  Stream* stream_ = nullptr;
  std::map<void*, void*> of_stream_;
};

}  // namespace polymio
