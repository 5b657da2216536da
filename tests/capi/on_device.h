// A handle on the device of the API tests, and host buffers on that device for the duration of a call.
// SPDX-License-Identifier: MIT
#pragma once
#include "../device.h"
#include "api.h"

namespace polymio::test {

inline miopenStatus_t create_there(miopenHandle_t* handle) {
  return polymioCreateOnDevice(handle, device_name().c_str());
}
using DeviceHandle = Owned<miopenHandle_t, create_there, miopenDestroy>;

inline miopenStatus_t create_on_cpu(miopenHandle_t* handle) { return polymioCreateOnDevice(handle, "cpu"); }
using CpuHandle = Owned<miopenHandle_t, create_on_cpu, miopenDestroy>;

/// A host buffer on the device: on the CPU itself, else a copy, which the destructor copies back. Its address is a
/// multiple of 64 plus `shift` bytes.
class There {
 public:
  There(miopenHandle_t handle, const void* host, std::size_t bytes, std::size_t shift = 0)
      : handle_(handle), host_(const_cast<void*>(host)), bytes_(bytes), shift_(shift) {
    if (on_cpu()) return;
    expect_ok(polymioMalloc(handle_, &memory_, bytes_ + shift_));
    upload();
  }
  template <class Container>
  There(miopenHandle_t handle, Container& host)
      : There(handle, host.data(), host.size() * sizeof(typename Container::value_type)) {}
  There(const There&) = delete;
  There& operator=(const There&) = delete;
  ~There() {
    if (on_cpu()) return;
    fetch();
    expect_ok(polymioFree(handle_, memory_));
  }
  void upload() const {
    if (!on_cpu()) expect_ok(polymioCopy(handle_, address(), host_, bytes_, polymioCopyHostToDevice));
  }
  /// Copies the buffer back now.
  void fetch() const {
    if (!on_cpu()) expect_ok(polymioCopy(handle_, host_, address(), bytes_, polymioCopyDeviceToHost));
  }
  operator void*() const { return on_cpu() ? host_ : address(); }  // NOLINT: passes to the API as it is

 private:
  void* address() const { return static_cast<char*>(memory_) + shift_; }

  miopenHandle_t handle_;
  void* host_;
  void* memory_ = nullptr;
  std::size_t bytes_, shift_;
};

}  // namespace polymio::test
