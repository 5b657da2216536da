// Extensions: error text, devices, memory, threads.
// SPDX-License-Identifier: MIT
#include <miopen/polymio.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "capi/common/arguments.h"
#include "capi/common/guard.h"
#include "capi/common/handle.h"

using namespace polymio;
using capi::deref;
using capi::guard;
using capi::not_null;

namespace {

void put(char* field, std::size_t capacity, const std::string& text) {
  std::memset(field, 0, capacity);
  std::memcpy(field, text.data(), std::min(text.size(), capacity - 1));
}

void put_device(polymioDeviceInfo_t* out, const DeviceInfo& d) {
  polymioDeviceInfo_t value{};
  put(value.name, sizeof value.name, d.name);
  put(value.model, sizeof value.model, d.model);
  put(value.architecture, sizeof value.architecture, d.architecture);
  value.kind = static_cast<int>(d.kind);
  value.units = d.units;
  value.memory_bytes = d.memory_bytes;
  std::copy(d.cache_bytes.begin(), d.cache_bytes.end(), value.cache_bytes);
  capi::put_sized(out, value, "info");
}

const DeviceInfo& device_at(int index) {
  const auto& list = devices();
  require(index >= 0 && index < static_cast<int>(list.size()), "device index {} is out of range: there are {} devices",
          index, list.size());
  return list[static_cast<std::size_t>(index)];
}

}  // namespace

const char* polymioGetLastError(void) { return capi::last_error(); }

miopenStatus_t polymioGetVersion(size_t* major, size_t* minor, size_t* patch) {
  if (major) *major = POLYMIO_VERSION_MAJOR;
  if (minor) *minor = POLYMIO_VERSION_MINOR;
  if (patch) *patch = POLYMIO_VERSION_PATCH;
  return miopenStatusSuccess;
}

miopenStatus_t polymioGetDeviceCount(int* count) {
  return guard([&] { *not_null(count, "count") = static_cast<int>(devices().size()); });
}

miopenStatus_t polymioGetDeviceInfo(int index, polymioDeviceInfo_t* info) {
  return guard([&] { put_device(info, device_at(index)); });
}

miopenStatus_t polymioGetMatrixLibrary(int index, const char** text) {
  return guard([&] { *not_null(text, "text") = multiplier_note(device_at(index)).c_str(); });
}

miopenStatus_t polymioGetDeviceAbsence(polymioDeviceKind_t kind, const char** reason) {
  return guard([&] {
    require(kind == polymioDeviceCpu || kind == polymioDeviceCuda || kind == polymioDeviceOpenCl ||
                kind == polymioDeviceHip,
            "device kind {} is unknown: allowed are 1 (CPU), 2 (CUDA), 4 (OpenCL), 8 (HIP)", static_cast<int>(kind));
    *not_null(reason, "reason") = absence(static_cast<DeviceKind>(kind)).c_str();
  });
}

miopenStatus_t polymioCreateOnDevice(miopenHandle_t* handle, const char* device) {
  return guard([&] {
    *not_null(handle, "handle") = nullptr;
    *handle = new capi::HandleObject(not_null(device, "device"), nullptr);
  });
}

miopenStatus_t polymioCreateCollector(miopenHandle_t* handle) {
  return guard([&] {
    *not_null(handle, "handle") = nullptr;
    auto object = std::make_unique<capi::HandleObject>("cpu", nullptr);
    object->handle.collect_problems();
    *handle = object.release();
  });
}

miopenStatus_t polymioGetHandleDevice(miopenHandle_t handle, polymioDeviceInfo_t* info) {
  return guard([&] { put_device(info, deref(handle).device()); });
}

miopenStatus_t polymioMeasureDevice(miopenHandle_t handle, polymioDevicePeak_t* peak) {
  return guard([&] {
    Handle& h = deref(handle);
    capi::struct_size(*not_null(peak, "peak"), "peak");  // before the measurement, which takes 0.15 s
    const DevicePeak p = h.stream().measure_peak();
    capi::put_sized(peak, {0, p.fp32_gflops, p.bandwidth_gbs, p.threads}, "peak");
  });
}

miopenStatus_t polymioMalloc(miopenHandle_t handle, void** memory, size_t bytes) {
  return guard([&] {
    *not_null(memory, "memory") = nullptr;
    *memory = deref(handle).allocate(bytes);
  });
}

miopenStatus_t polymioFree(miopenHandle_t handle, void* memory) {
  return guard([&] {
    Handle& h = deref(handle);
    if (memory) h.deallocate(memory);
  });
}

miopenStatus_t polymioCopy(miopenHandle_t handle, void* dst, const void* src, size_t bytes, polymioCopyKind_t kind) {
  return guard([&] {
    Stream& stream = deref(handle).stream();
    require(kind >= polymioCopyHostToDevice && kind <= polymioCopyDeviceToDevice,
            "copy kind {} is unknown: allowed are 0 (host to device), 1 (device to host), 2 (device to device)",
            static_cast<int>(kind));
    if (bytes == 0) return;
    not_null(dst, "dst");
    not_null(src, "src");
    if (kind == polymioCopyHostToDevice)
      stream.upload(dst, src, bytes);
    else if (kind == polymioCopyDeviceToHost)
      stream.download(dst, src, bytes);
    else
      stream.copy(dst, src, bytes);
  });
}

miopenStatus_t polymioSynchronize(miopenHandle_t handle) {
  return guard([&] { deref(handle).stream().synchronize(); });
}

miopenStatus_t polymioSetThreadCap(miopenHandle_t handle, int threads) {
  return guard([&] { deref(handle).stream().set_threads(threads); });
}

miopenStatus_t polymioGetThreadCap(miopenHandle_t handle, int* threads) {
  return guard([&] { *not_null(threads, "threads") = deref(handle).stream().threads(); });
}

miopenStatus_t polymioSetExecutor(miopenHandle_t handle, polymioExecutorFunction function, void* context) {
  return guard([&] { deref(handle).stream().set_executor(function, context); });
}
