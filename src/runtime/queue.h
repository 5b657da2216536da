// Queues and memory of devices without a handle: what the HIP layer is made of. Its streams are queues, and handles
// take them by their native pointers.
// SPDX-License-Identifier: MIT
#pragma once
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/device.h"

namespace polymio {

/// A point in a queue. Safe to use from several threads.
class Mark {
 public:
  virtual ~Mark() = default;
  virtual bool reached() = 0;
  virtual void wait() = 0;
  /// Milliseconds from this mark to a later one of the same device, once both are reached.
  virtual double ms_until(Mark& later) = 0;
};

enum class Direction { kHostToHost, kHostToDevice, kDeviceToHost, kDeviceToDevice, kAny };

/// An ordered sequence of commands, which may run when the calls have returned. Safe to use from several threads. The
/// default queue of a device begins a command when all blocking queues of the device are done, and they begin theirs
/// after its own.
class Queue {
 public:
  virtual ~Queue() = default;
  virtual void* native() const = 0;  // a pointer that no other live queue has; null: the default queue
  virtual void copy(void* dst, const void* src, std::size_t bytes, Direction) = 0;
  virtual void fill(void* dst, int byte, std::size_t bytes) = 0;
  /// Runs a function on a thread of the host, after the commands before it; here in the caller.
  virtual void call(std::function<void()> function) {
    synchronize();
    function();
  }
  virtual void synchronize() = 0;
  virtual bool idle() = 0;
  virtual std::shared_ptr<Mark> record() = 0;
  virtual void wait(const std::shared_ptr<Mark>&) = 0;  // later commands begin when it is reached
};

/// Memory and queues of one device. Thread-safe.
class DeviceAccess {
 public:
  struct MemoryInfo {
    std::size_t free, total;
  };
  virtual ~DeviceAccess() = default;
  virtual void* allocate(std::size_t bytes) = 0;  // throws AllocFailed
  virtual void deallocate(void* p) = 0;           // waits for the device
  virtual MemoryInfo memory() = 0;
  virtual std::shared_ptr<Queue> create_queue(bool blocking) = 0;
  virtual Queue& default_queue() = 0;
  virtual void synchronize() = 0;  // waits for all queues
};

/// The access to device `index` of devices(), which lives as long as the process. BadParm if there is no such device,
/// NotImplemented if the HIP layer does not drive devices of its kind.
DeviceAccess& device_access(int index);
std::unique_ptr<DeviceAccess> create_access(int index);

/// Creates a queue that handles know by its native pointer until destroy_queue; a handle that uses it keeps it alive.
Queue& create_queue(int device, bool blocking);
void destroy_queue(void* native);

/// The queue with this native pointer and its device; null if create_queue has made no such queue.
struct KnownQueue {
  std::shared_ptr<Queue> queue;
  int device = -1;
};
KnownQueue known_queue(void* native);

/// The queue that a stream of the device `name` shall use; null for streams from elsewhere. BadParm if it is a queue of
/// another device.
std::shared_ptr<Queue> queue_for(const std::string& name, void* native);

/// All queues of create_queue that live on a device.
std::vector<std::shared_ptr<Queue>> queues_of(int device);

/// On the CPU, whose streams run commands in the caller: waits for what was queued before.
void wait_for_queues(Stream&);

/// The position of a device in devices(), their number if there is none of this name.
int device_number(const std::string& name);

/// Makes handles that name no device use the device with this number, if it is not negative.
void set_current_device(int (*number)());

}  // namespace polymio
