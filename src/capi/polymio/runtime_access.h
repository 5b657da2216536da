// What libpolymio_hip uses of this library beside the public functions: devices, memory and queues without a handle. No
// header for users: both libraries are of one build.
// SPDX-License-Identifier: MIT
#pragma once
#include <miopen/types.h>

#include <cstddef>

/// Devices are numbered as by polymioGetDeviceInfo. A null stream is the device's default one. Every function sets the
/// text of polymioGetLastError when it fails.
struct polymioRuntime {
  struct Properties {
    int threads_per_block, warp, compute_capability;  // of a CPU: 1, 1 and 0
    int clock_mhz;                                    // 0: unknown
    double bandwidth_gbs;
    std::size_t shared_bytes;
  };
  /// The device that POLYMIO_DEVICE names, -1 if it is not set.
  miopenStatus_t (*named_device)(int* device);
  miopenStatus_t (*properties)(int device, Properties* properties);
  miopenStatus_t (*memory)(int device, std::size_t* free, std::size_t* total);
  /// Handles that name no device use the one that this function returns.
  miopenStatus_t (*set_current)(int (*current)());
  miopenStatus_t (*synchronize_device)(int device);
  miopenStatus_t (*allocate)(int device, void** memory, std::size_t bytes);
  miopenStatus_t (*deallocate)(int device, void* memory);

  miopenStatus_t (*create_stream)(int device, bool blocking, void** stream);
  miopenStatus_t (*destroy_stream)(void* stream);
  /// -1 if no stream of create_stream.
  miopenStatus_t (*stream_device)(void* stream, int* device);
  /// Direction: 0 host to host, 1 to device, 2 from device, 3 device to device, 4 any.
  miopenStatus_t (*copy)(int device, void* stream, void* dst, const void* src, std::size_t bytes, int direction);
  miopenStatus_t (*fill)(int device, void* stream, void* dst, int byte, std::size_t bytes);
  /// Runs `function(data)` once on the host, in order with the stream. It must not throw.
  miopenStatus_t (*call)(int device, void* stream, void (*function)(void* data), void* data);
  miopenStatus_t (*synchronize)(int device, void* stream);
  miopenStatus_t (*is_idle)(int device, void* stream, bool* idle);

  /// Marks are freed by free_mark.
  miopenStatus_t (*record)(int device, void* stream, void** mark);
  miopenStatus_t (*is_reached)(void* mark, bool* reached);
  miopenStatus_t (*wait_mark)(void* mark);
  miopenStatus_t (*stream_wait)(int device, void* stream, void* mark);
  miopenStatus_t (*elapsed)(void* from, void* to, float* ms);
  void (*free_mark)(void* mark);

  /// Sets the text of polymioGetLastError.
  void (*set_error)(miopenStatus_t status, const char* text);
};

constexpr int kPolymioRuntimeVersion = 1;

/// The functions; null for another version.
extern "C" MIOPEN_EXPORT const polymioRuntime* polymioRuntimeAccess(int version);
