// Objects behind handles that programs hold.
// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <mutex>
#include <unordered_map>

#include "state.h"

namespace polymio::hip_layer {

/// A call keeps its object alive while another thread destroys the handle. Handles are addresses, looked up before
/// they are used, so that a wrong one is an error. Thread-safe.
template <class Object>
class Live {
 public:
  /// `what` a handle is, in texts of errors.
  explicit Live(const char* what) : what_(what) {}

  void* add(std::shared_ptr<Object> object) {
    void* const handle = object.get();
    const std::scoped_lock lock(mutex_);
    objects_[handle] = std::move(object);
    return handle;
  }

  std::shared_ptr<Object> get(const void* handle) const {
    const std::scoped_lock lock(mutex_);
    const auto found = objects_.find(handle);
    if (found == objects_.end()) refuse(handle);
    return found->second;
  }

  void remove(const void* handle) {
    const std::shared_ptr<Object> last = [&] {
      const std::scoped_lock lock(mutex_);
      const auto node = objects_.extract(handle);
      if (node.empty()) refuse(handle);
      return node.mapped();
    }();  // destroyed without the lock
  }

 private:
  [[noreturn]] void refuse(const void* handle) const {
    if (!handle) fail(hipErrorInvalidHandle, "the ", what_, " is null");
    fail(hipErrorInvalidHandle, "the ", what_, " was not created, or was destroyed");
  }

  const char* what_;
  mutable std::mutex mutex_;
  std::unordered_map<const void*, std::shared_ptr<Object>> objects_;
};

}  // namespace polymio::hip_layer
