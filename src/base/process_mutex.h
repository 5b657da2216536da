// Process-wide mutexes that fork() respects: it waits until no other thread holds one, so that a child, which only has
// the calling thread, finds all of them free and the guarded state consistent. State of a handle needs none: a child
// may use only handles that no other thread was using.
// SPDX-License-Identifier: MIT
#pragma once
#include <mutex>

namespace polymio {

/// For std::scoped_lock. No callback of the application may run while one is held. Static ones must be constructed when
/// the library is loaded, not on first use: a child would wait for an unfinished construction.
class ProcessMutex {
 public:
  ProcessMutex();
  ~ProcessMutex();
  ProcessMutex(const ProcessMutex&) = delete;
  ProcessMutex& operator=(const ProcessMutex&) = delete;
  void lock() { mutex_.lock(); }
  bool try_lock() { return mutex_.try_lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

}  // namespace polymio
