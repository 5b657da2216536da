// SPDX-License-Identifier: MIT
#include "state.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace polymio::hip_layer {
namespace {

thread_local hipError_t last_error = hipSuccess;
thread_local int current = 0;  // position in Runtime::devices()
std::atomic<hipError_t> kernel_error{hipSuccess};

/// The GPUs that HIP_VISIBLE_DEVICES names, in its order, up to the first entry that is no number of one; all if it is
/// not set.
std::vector<int> visible(const std::vector<int>& gpus) {
  const char* const value = std::getenv("HIP_VISIBLE_DEVICES");
  if (!value) return gpus;
  std::vector<int> named;
  for (std::string_view rest = value; !rest.empty();) {
    const std::string_view entry = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(entry.size() + 1, rest.size()));
    std::size_t number = 0;
    const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), number);
    if (error != std::errc{} || end != entry.data() + entry.size() || number >= gpus.size()) break;
    named.push_back(gpus[number]);
  }
  return named;
}

int current_for_handles() {
  const auto& devices = Runtime::get().devices();
  return devices.empty() ? -1 : devices[static_cast<std::size_t>(current)];
}

hipError_t code_of(miopenStatus_t status) {
  switch (status) {
    case miopenStatusSuccess: return hipSuccess;
    case miopenStatusAllocFailed: return hipErrorOutOfMemory;
    case miopenStatusBadParm:
    case miopenStatusInvalidValue: return hipErrorInvalidValue;
    case miopenStatusNotInitialized: return hipErrorNotInitialized;
    case miopenStatusNotImplemented:
    case miopenStatusUnsupportedOp: return hipErrorNotSupported;
    default: return hipErrorUnknown;
  }
}

}  // namespace

Runtime& Runtime::get() {
  static Runtime& runtime = *new Runtime;  // never destroyed: programs free memory after main
  return runtime;
}

Runtime::Runtime() : table_(polymioRuntimeAccess(kPolymioRuntimeVersion)) {
  if (!table_) return;
  int named = -1, count = 0;
  if (table_->named_device(&named) != miopenStatusSuccess || polymioGetDeviceCount(&count) != miopenStatusSuccess)
    return;
  std::vector<int> gpus;
  for (int i = 0; i < count; ++i) {
    polymioDeviceInfo_t info{};
    info.size = sizeof info;
    if (polymioGetDeviceInfo(i, &info) != miopenStatusSuccess || info.kind == polymioDeviceHip) continue;
    if (named == i || (named < 0 && info.kind == polymioDeviceCpu)) devices_.push_back(i);
    if (named < 0 && info.kind != polymioDeviceCpu) gpus.push_back(i);
  }
  for (const int gpu : visible(gpus)) devices_.push_back(gpu);
  table_->set_current(current_for_handles);
}

void Runtime::check(miopenStatus_t status) {
  if (status != miopenStatusSuccess) fail(code_of(status));
}

void Runtime::set_error(hipError_t code, const char* text) const {
  if (table_) table_->set_error(code == hipErrorOutOfMemory ? miopenStatusAllocFailed : miopenStatusBadParm, text);
}

int device_number(int id) {
  const auto& devices = Runtime::get().devices();
  if (devices.empty()) fail(hipErrorNoDevice);
  const auto count = static_cast<int>(devices.size());
  if (id < 0 || id >= count)
    fail(hipErrorInvalidDevice, "device ", std::to_string(id), " does not exist: there are ", std::to_string(count));
  return devices[static_cast<std::size_t>(id)];
}

int current_device() { return current; }
int current_number() { return device_number(current); }

hipError_t keep(hipError_t code) noexcept {
  if (code != hipSuccess && code != hipErrorNotReady) last_error = code;
  return code;
}

hipError_t launch_error() noexcept { return kernel_error.exchange(hipSuccess); }

StreamPlace place_of(hipStream_t stream) {
  if (!stream) return {current_number(), nullptr};
  int device = -1;
  Runtime::get().call(&polymioRuntime::stream_device, static_cast<void*>(stream), &device);
  if (device < 0) fail(hipErrorInvalidHandle, "the stream is not one of hipStreamCreate, or was destroyed before");
  return {device, stream};
}

}  // namespace polymio::hip_layer

using namespace polymio::hip_layer;

hipError_t hipInit(unsigned flags) {
  return guard([&] {
    if (flags != 0) fail(hipErrorInvalidValue, "flags are ", std::to_string(flags), ", only 0 is allowed");
    current_number();
  });
}

hipError_t hipDriverGetVersion(int* version) {
  return guard([&] { *not_null(version, "driverVersion") = HIP_VERSION; });
}

hipError_t hipRuntimeGetVersion(int* version) {
  return guard([&] { *not_null(version, "runtimeVersion") = HIP_VERSION; });
}

hipError_t hipGetLastError(void) {
  keep(launch_error());
  return std::exchange(last_error, hipSuccess);
}

hipError_t hipPeekAtLastError(void) {
  keep(launch_error());
  return last_error;
}

hipError_t hipGetDeviceCount(int* count) {
  return guard([&] {
    *not_null(count, "count") = static_cast<int>(Runtime::get().devices().size());
    if (*count == 0) fail(hipErrorNoDevice);
  });
}

hipError_t hipSetDevice(int id) {
  return guard([&] {
    device_number(id);
    current = id;
  });
}

hipError_t hipGetDevice(int* id) {
  return guard([&] {
    current_number();
    *not_null(id, "deviceId") = current;
  });
}

// Kernels report here, on whatever thread they run.
extern "C" __attribute__((visibility("hidden"))) void polymioHipKeepLaunchError(hipError_t code) {
  kernel_error = code;
}
