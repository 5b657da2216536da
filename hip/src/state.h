// The state of the HIP layer: devices of the process, current device and last error of each thread, owners of memory.
// SPDX-License-Identifier: MIT
#pragma once
#include <hip/hip_runtime_api.h>
#include <miopen/polymio.h>

#include <new>
#include <string>
#include <vector>

#include "capi/polymio/runtime_access.h"

namespace polymio::hip_layer {

/// What ends a call: the code, and the text of polymioGetLastError if it is not there yet.
struct Failure {
  hipError_t code;
  std::string text;
};

template <class... Part>
[[noreturn]] void fail(hipError_t code, const Part&... parts) {
  std::string text;
  ((text += parts), ...);
  throw Failure{code, text};
}

/// Functions of libMIOpen; they throw their failures.
class Runtime {
 public:
  static Runtime& get();
  /// Numbers by polymioGetDeviceInfo of the devices that the program sees.
  const std::vector<int>& devices() const { return devices_; }

  template <class... Parameter, class... Argument>
  void call(miopenStatus_t (*polymioRuntime::*function)(Parameter...), Argument... arguments) const {
    check((table_->*function)(arguments...));
  }
  void free_mark(void* mark) const { table_->free_mark(mark); }
  void set_error(hipError_t code, const char* text) const;
  static void check(miopenStatus_t status);

 private:
  Runtime();
  const polymioRuntime* table_;
  std::vector<int> devices_;
  std::string absence_;  // why there are none
};

/// The number by polymioGetDeviceInfo of device `id`, by default the current one. Fails if there is none.
int device_number(int id);
int current_device();
int current_number();

/// Keeps an error of this thread; NotReady is returned only.
hipError_t keep(hipError_t code) noexcept;

/// An error of a kernel that has run meanwhile; hipSuccess if there is none. Clears it.
hipError_t launch_error() noexcept;

/// Every function is one call of guard().
template <class Body>
hipError_t guard(Body&& body) noexcept {
  try {
    body();
    return keep(launch_error());
  } catch (const Failure& f) {
    if (!f.text.empty()) Runtime::get().set_error(f.code, f.text.c_str());
    return keep(f.code);
  } catch (const std::bad_alloc&) {
    return keep(hipErrorOutOfMemory);
  } catch (...) {
    return keep(hipErrorUnknown);
  }
}

template <class T>
T* not_null(T* p, const char* name) {
  if (!p) fail(hipErrorInvalidValue, name, " is null");
  return p;
}

/// A stream with the number of its device; null is the default stream of the current device.
struct StreamPlace {
  int device;
  void* stream;
};
StreamPlace place_of(hipStream_t stream);

/// The allocation that an address is in.
struct Allocation {
  const char* start = nullptr;
  std::size_t bytes = 0;
  int device = -1;  // number by polymioGetDeviceInfo; -1: memory of the host
  bool managed = false;
};
Allocation allocation_of(const void* address);

}  // namespace polymio::hip_layer
