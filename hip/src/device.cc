// Properties of devices; waiting for all of a device.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstring>
#include <fstream>

#include "state.h"

using namespace polymio::hip_layer;

namespace {

/// Of the host's first core; 0 if it is unknown.
int host_clock_khz() {
  double khz = 0;
  std::ifstream limit("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq");
  if (limit >> khz) return static_cast<int>(khz);
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("cpu MHz"))
      return static_cast<int>(1e3 * std::strtod(line.c_str() + line.find(':') + 1, nullptr));
  return 0;
}

hipDeviceProp_t properties(int id) {
  const int device = device_number(id);
  polymioDeviceInfo_t info{};
  info.size = sizeof info;
  Runtime::check(polymioGetDeviceInfo(device, &info));
  polymioRuntime::Properties more{};
  Runtime::get().call(&polymioRuntime::properties, device, &more);
  const bool cpu = info.kind == polymioDeviceCpu;
  constexpr int kBusBits = 512;
  hipDeviceProp_t p{};
  std::strncpy(p.name, info.model, sizeof p.name - 1);
  std::strncpy(p.gcnArchName, info.architecture, sizeof p.gcnArchName - 1);
  p.totalGlobalMem = info.memory_bytes;
  p.sharedMemPerBlock = more.shared_bytes;
  p.maxSharedMemoryPerMultiProcessor = more.shared_bytes;
  p.warpSize = more.warp;
  p.maxThreadsPerBlock = cpu ? 1024 : more.threads_per_block;
  std::fill_n(p.maxThreadsDim, 3, p.maxThreadsPerBlock);
  const int grid[] = {0x7fffffff, 65535, 65535};
  std::copy_n(grid, 3, p.maxGridSize);
  p.clockRate = cpu ? host_clock_khz() : 1000 * more.clock_mhz;
  p.memoryBusWidth = kBusBits;
  p.memoryClockRate = static_cast<int>(1e6 * more.bandwidth_gbs / (2 * kBusBits / 8));
  p.major = more.compute_capability ? more.compute_capability / 10 : 1;
  p.minor = more.compute_capability % 10;
  p.multiProcessorCount = info.units;
  p.l2CacheSize = static_cast<int>(info.cache_bytes[1]);
  p.maxThreadsPerMultiProcessor = p.maxThreadsPerBlock;
  p.concurrentKernels = 1;
  p.canMapHostMemory = cpu;
  p.integrated = cpu;
  p.managedMemory = cpu;
  p.unifiedAddressing = cpu || info.kind == polymioDeviceCuda;
  return p;
}

}  // namespace

hipError_t hipGetDeviceProperties(hipDeviceProp_t* prop, int id) {
  return guard([&] { *not_null(prop, "prop") = properties(id); });
}

hipError_t hipDeviceGetAttribute(int* value, hipDeviceAttribute_t attribute, int id) {
  return guard([&] {
    const hipDeviceProp_t p = properties(id);
    int& out = *not_null(value, "value");
    switch (attribute) {
      case hipDeviceAttributeClockRate: out = p.clockRate; return;
      case hipDeviceAttributeComputeCapabilityMajor: out = p.major; return;
      case hipDeviceAttributeComputeCapabilityMinor: out = p.minor; return;
      case hipDeviceAttributeL2CacheSize: out = p.l2CacheSize; return;
      case hipDeviceAttributeMaxThreadsPerBlock: out = p.maxThreadsPerBlock; return;
      case hipDeviceAttributeMemoryBusWidth: out = p.memoryBusWidth; return;
      case hipDeviceAttributeMemoryClockRate: out = p.memoryClockRate; return;
      case hipDeviceAttributeMultiprocessorCount: out = p.multiProcessorCount; return;
      case hipDeviceAttributeMaxSharedMemoryPerBlock: out = static_cast<int>(p.sharedMemPerBlock); return;
      case hipDeviceAttributeWarpSize: out = p.warpSize; return;
    }
    fail(hipErrorInvalidValue, "attribute ", std::to_string(attribute), " is none that devices have here");
  });
}

hipError_t hipDeviceGet(hipDevice_t* device, int ordinal) {
  return guard([&] {
    device_number(ordinal);
    *not_null(device, "device") = ordinal;
  });
}

hipError_t hipDeviceGetName(char* name, int length, hipDevice_t device) {
  return guard([&] {
    const hipDeviceProp_t p = properties(device);
    if (length < 1) fail(hipErrorInvalidValue, "length is ", std::to_string(length));
    std::memset(not_null(name, "name"), 0, static_cast<std::size_t>(length));
    std::strncpy(name, p.name, static_cast<std::size_t>(length) - 1);
  });
}

hipError_t hipDeviceTotalMem(size_t* bytes, hipDevice_t device) {
  return guard([&] { *not_null(bytes, "bytes") = properties(device).totalGlobalMem; });
}

hipError_t hipDeviceGetPCIBusId(char* id, int length, int device) {
  return guard([&] {
    const hipDeviceProp_t p = properties(device);
    constexpr int kLength = 13;  // with the NUL
    if (length < kLength) fail(hipErrorInvalidValue, "length is ", std::to_string(length), ", at least 13 is needed");
    std::snprintf(not_null(id, "pciBusId"), kLength, "%04x:%02x:%02x.0", p.pciDomainID & 0xffff, p.pciBusID & 0xff,
                  p.pciDeviceID & 0xff);
  });
}

hipError_t hipSetDeviceFlags(unsigned) {
  return guard([] { current_number(); });
}

hipError_t hipDeviceSynchronize(void) {
  return guard([] { Runtime::get().call(&polymioRuntime::synchronize_device, current_number()); });
}

hipError_t hipDeviceReset(void) { return hipDeviceSynchronize(); }

hipError_t hipDeviceCanAccessPeer(int* can, int device, int other) {
  return guard([&] {
    device_number(device);
    device_number(other);
    *not_null(can, "canAccessPeer") = 0;
  });
}
