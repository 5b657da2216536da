// A table of polymioGetDeviceInfo and polymioGetDeviceAbsence.
// SPDX-License-Identifier: MIT
#include "driver/devices.h"

#include <fmt/format.h>

#include <utility>

#include "driver/library.h"
#include "driver/words.h"

namespace polymio::driver {

int run_devices(std::span<const std::string> words) {
  constexpr Command kCommand{"devices", "", "Lists the devices, and why there is none of a kind.", {}, 0, 0};
  if (Words(kCommand, words).help()) {
    fmt::print("{}", help_of(kCommand));
    return 0;
  }
  int count = 0;
  check(polymioGetDeviceCount(&count), "polymioGetDeviceCount");
  for (int i = 0; i < count; ++i) {
    polymioDeviceInfo_t info{};
    info.size = sizeof(info);
    check(polymioGetDeviceInfo(i, &info), "polymioGetDeviceInfo");
    fmt::print("{:<10} {}, {} units, {:.1f} GiB, class {}\n", info.name, info.model, info.units,
               static_cast<double>(info.memory_bytes) / (1 << 30), info.architecture);
  }
  for (const auto& [kind, name] : {std::pair{polymioDeviceCuda, "cuda"}, std::pair{polymioDeviceHip, "hip"},
                                   std::pair{polymioDeviceOpenCl, "opencl"}}) {
    const char* reason = nullptr;
    check(polymioGetDeviceAbsence(kind, &reason), "polymioGetDeviceAbsence");
    if (*reason != '\0') fmt::print("{:<10} none: {}\n", name, reason);
  }
  return 0;
}

}  // namespace polymio::driver
