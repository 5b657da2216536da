// Base of the streams of all GPUs: host work runs on the calling thread, and peaks are derived from the device's
// clocks.
// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/device.h"

namespace polymio::gpu {

/// The devices of one kind, or why there are none.
struct DeviceList {
  std::vector<DeviceInfo> devices;
  std::string absence;
};

class GpuStream : public Stream {
 public:
  void parallel_for(std::size_t tasks, std::size_t scratch_bytes, Task task) final {
    std::vector<Line> scratch((scratch_bytes + sizeof(Line) - 1) / sizeof(Line));
    for (std::size_t i = 0; i < tasks; ++i) task(i, scratch.empty() ? nullptr : scratch.data());
  }
  int threads() const final { return 1; }
  void set_threads(int cap) final {
    require(cap >= 0, "thread cap {}: allowed are 0 (all cores) and positive numbers", cap);
  }
  void set_executor(ExecutorFunction function, void*) final {
    require(!function, "an executor was given, but {} does no work on the CPU's threads", info().name);
  }
  void reserve_scratch(std::size_t) final {}
  DevicePeak measure_peak() final { return quick_peak(); }
  DevicePeak quick_peak() final { return {info().fp32_gflops, info().bandwidth_gbs, 1}; }
  void calibrate(const DevicePeak&) final {}

 private:
  struct alignas(64) Line {
    char bytes[64];
  };
};

}  // namespace polymio::gpu
