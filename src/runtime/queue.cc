// The queues that handles know, and the access to each device.
// SPDX-License-Identifier: MIT
#include "runtime/queue.h"

#include <atomic>
#include <map>
#include <mutex>

#include "base/error.h"

namespace polymio {
namespace {

struct Queues {
  std::mutex mutex;
  std::map<void*, KnownQueue> known;  // by native pointer
  std::atomic<std::size_t> count{0};
};

Queues& queues() {
  static Queues& all = *new Queues;  // never destroyed: handles may outlive static objects
  return all;
}

}  // namespace

DeviceAccess& device_access(int index) {
  static std::mutex& mutex = *new std::mutex;
  static auto& made = *new std::map<int, std::unique_ptr<DeviceAccess>>;
  const std::scoped_lock lock(mutex);
  auto& access = made[index];
  if (!access) access = create_access(index);
  return *access;
}

Queue& create_queue(int device, bool blocking) {
  auto queue = device_access(device).create_queue(blocking);
  Queue& made = *queue;
  Queues& all = queues();
  const std::scoped_lock lock(all.mutex);
  all.known[made.native()] = {std::move(queue), device};
  all.count = all.known.size();
  return made;
}

void destroy_queue(void* native) {
  Queues& all = queues();
  KnownQueue last;  // its destructor may wait for the queue
  const std::scoped_lock lock(all.mutex);
  const auto it = all.known.find(native);
  require(it != all.known.end(), "the given stream is not one of hipStreamCreate, or was destroyed before");
  last = std::move(it->second);
  all.known.erase(it);
  all.count = all.known.size();
}

KnownQueue known_queue(void* native) {
  Queues& all = queues();
  if (!native || all.count == 0) return {};
  const std::scoped_lock lock(all.mutex);
  const auto it = all.known.find(native);
  return it == all.known.end() ? KnownQueue{} : it->second;
}

std::shared_ptr<Queue> queue_for(const std::string& name, void* native) {
  KnownQueue known = known_queue(native);
  if (!known.queue) return nullptr;
  const std::string& owner = devices()[static_cast<std::size_t>(known.device)].name;
  require(owner == name, "the given stream is one of {}, but the handle's device is {}", owner, name);
  return std::move(known.queue);
}

std::vector<std::shared_ptr<Queue>> queues_of(int device) {
  std::vector<std::shared_ptr<Queue>> found;
  Queues& all = queues();
  if (all.count == 0) return found;
  const std::scoped_lock lock(all.mutex);
  for (const auto& [native, known] : all.known)
    if (known.device == device) found.push_back(known.queue);
  return found;
}

void wait_for_queues(Stream& stream) {
  if (stream.info().kind == DeviceKind::kCpu && queues().count != 0) stream.synchronize();
}

}  // namespace polymio
