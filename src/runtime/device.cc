// Device list and lookup by name.
// SPDX-License-Identifier: MIT
#include "runtime/device.h"

#include "base/error.h"
#include "runtime/cpu/cpu.h"

namespace polymio {

const std::vector<DeviceInfo>& devices() {
  static const std::vector<DeviceInfo> list = {cpu::info()};
  return list;
}

std::unique_ptr<Stream> create_stream(const std::string& name, void* native) {
  if (name == "cpu") {
    require(!native, "a stream was given, but the device is the CPU, which has none (pass null)");
    return cpu::create_stream();
  }
  std::string known;
  for (const auto& d : devices()) known += (known.empty() ? "" : ", ") + d.name;
  fail(Status::kBadParm, "no device '{}': available here: {}", name, known);
}

}  // namespace polymio
