// SPDX-License-Identifier: MIT
#include "base/process_mutex.h"

#include <pthread.h>

#include <algorithm>
#include <thread>
#include <vector>

namespace polymio {
namespace {

struct Registry {
  std::mutex mutex;
  std::vector<ProcessMutex*> all;
};

Registry& registry();

/// Locks all mutexes: tries each, and releases all and starts again if one is taken. No deadlock, in whatever order
/// other threads lock them.
void before_fork() {
  Registry& r = registry();
  for (;;) {
    r.mutex.lock();
    std::size_t held = 0;
    while (held < r.all.size() && r.all[held]->try_lock()) ++held;
    if (held == r.all.size()) return;
    while (held > 0) r.all[--held]->unlock();
    r.mutex.unlock();
    std::this_thread::yield();
  }
}

void after_fork() {
  Registry& r = registry();
  for (ProcessMutex* m : r.all) m->unlock();
  r.mutex.unlock();
}

Registry& registry() {
  // Never destroyed: static mutexes may be destroyed later than a static list.
  static Registry& r = [&]() -> Registry& {
    pthread_atfork(before_fork, after_fork, after_fork);
    return *new Registry;
  }();
  return r;
}

}  // namespace

ProcessMutex::ProcessMutex() {
  Registry& r = registry();
  const std::scoped_lock lock(r.mutex);
  r.all.push_back(this);
}

ProcessMutex::~ProcessMutex() {
  Registry& r = registry();
  const std::scoped_lock lock(r.mutex);
  std::erase(r.all, this);
}

}  // namespace polymio
