// Device list and lookup by name; the stop time of each thread.
// SPDX-License-Identifier: MIT
#include "runtime/device.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "runtime/cpu/cpu.h"

namespace polymio {
namespace {
constexpr auto kNever = std::chrono::steady_clock::time_point::max();
thread_local std::chrono::steady_clock::time_point stop_at = kNever;
}  // namespace

StopAt::StopAt(std::chrono::steady_clock::time_point when) : outer_(stop_at) { stop_at = std::min(outer_, when); }
StopAt::~StopAt() { stop_at = outer_; }
std::chrono::steady_clock::time_point StopAt::current() { return stop_at; }
StopAt::Pause::Pause() : outer_(std::exchange(stop_at, kNever)) {}
StopAt::Pause::~Pause() { stop_at = outer_; }

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
