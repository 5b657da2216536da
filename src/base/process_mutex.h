// Mutexes of the whole process, which fork() respects: it waits until nobody else holds one, so that a
// child, whose only thread is the caller's, finds every one free and what it guards complete. State of
// one handle needs none: a child may use only handles that no other thread was using.
// SPDX-License-Identifier: MIT
#pragma once
#include <mutex>

namespace polymio {

/// For std::scoped_lock. No code of the caller may run while one is held. Construct those of static
/// storage with the library, not on first use: a child would wait for a half-done construction.
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
