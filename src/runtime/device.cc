// Device list and lookup by name; the deadline of each thread.
// SPDX-License-Identifier: MIT
#include "runtime/device.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "base/env.h"
#include "base/error.h"
#include "runtime/cpu/cpu.h"
#include "runtime/cuda/cublaslt.h"
#include "runtime/cuda/cuda.h"
#include "runtime/hip/hip.h"
#include "runtime/opencl/opencl.h"

namespace polymio {
namespace {
constexpr auto kNever = std::chrono::steady_clock::time_point::max();
thread_local std::chrono::steady_clock::time_point stop_at = kNever;

/// The backends of GPUs: devices are named "<prefix>:<number>".
struct Backend {
  DeviceKind kind;
  std::string_view prefix;
  const gpu::DeviceList& (*list)();
  std::unique_ptr<Stream> (*create)(int index, void* native);
};
constexpr Backend kBackends[] = {{DeviceKind::kCuda, "cuda", cuda::devices, cuda::create_stream},
                                 {DeviceKind::kHip, "hip", hip::devices, hip::create_stream},
                                 {DeviceKind::kOpenCl, "opencl", opencl::devices, opencl::create_stream}};

/// The number after "<prefix>:", -1 for other names.
int number_in(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return -1;
  name.remove_prefix(prefix.size());
  if (name.empty()) return 0;  // "cuda" is "cuda:0"
  int number = -1;
  const auto [end, error] = std::from_chars(name.data() + 1, name.data() + name.size(), number);
  return name[0] == ':' && error == std::errc{} && end == name.data() + name.size() && number >= 0 ? number : -1;
}
}  // namespace

StopAt::StopAt(std::chrono::steady_clock::time_point when) : outer_(stop_at) { stop_at = std::min(outer_, when); }
StopAt::~StopAt() { stop_at = outer_; }
std::chrono::steady_clock::time_point StopAt::current() { return stop_at; }
StopAt::Pause::Pause() : outer_(std::exchange(stop_at, kNever)) {}
StopAt::Pause::~Pause() { stop_at = outer_; }

const std::vector<DeviceInfo>& devices() {
  static const std::vector<DeviceInfo> list = [] {
    std::vector<DeviceInfo> all = {cpu::info()};
    for (const Backend& b : kBackends) all.insert(all.end(), b.list().devices.begin(), b.list().devices.end());
    return all;
  }();
  return list;
}

bool has_multipliers(const DeviceInfo& device) { return device.kind == DeviceKind::kCuda && cuda::has_cublaslt(); }

const std::string& multiplier_note(const DeviceInfo& device) {
  static const std::string nothing;
  return device.kind == DeviceKind::kCuda ? cuda::cublaslt_note() : nothing;
}

const std::string& absence(DeviceKind kind) {
  static const std::string nothing;
  for (const Backend& b : kBackends)
    if (b.kind == kind) return b.list().absence;
  return nothing;
}

std::string default_device(void* native) {
  if (const auto named = env::text(env::kDevice)) return *named;
  const int used = cuda::device_in_use(native);
  return used < 0 ? "cpu" : fmt::format("cuda:{}", used);
}

std::unique_ptr<Stream> create_stream(const std::string& name, void* native) {
  if (name == "cpu") {
    require(!native, "a stream was given, but the device is the CPU, which has none (pass null)");
    return cpu::create_stream();
  }
  for (const Backend& b : kBackends) {
    const int number = number_in(name, b.prefix);
    if (number < 0) continue;
    const auto& list = b.list();
    if (!list.absence.empty()) fail(Status::kNotInitialized, "no device '{}': {}", name, list.absence);
    if (number < static_cast<int>(list.devices.size())) return b.create(number, native);
  }
  std::string known;
  for (const auto& d : devices()) known += (known.empty() ? "" : ", ") + d.name;
  fail(Status::kBadParm, "no device '{}': available here: {}", name, known);
}

DeviceInfo usual_device(const std::string& architecture) {
  const bool amd = architecture.starts_with("hip-");
  const int compute_capability = cuda::compute_capability(architecture);
  DeviceInfo device;
  device.kind = amd ? DeviceKind::kHip : DeviceKind::kCuda;
  device.architecture = architecture;
  device.units = compute_capability == 90 ? 132 : 108;
  device.fp32_gflops = 20'000;
  device.bandwidth_gbs = 1'500;
  device.gpu = {48u << 10, amd ? 64 : 32, 1024, true, true, compute_capability};
  return device;
}

std::unique_ptr<Compiler> create_compiler(const std::string& architecture) {
  if (cuda::compute_capability(architecture) > 0) return cuda::create_compiler(architecture);
  if (architecture.starts_with("hip-")) return hip::create_compiler(architecture);
  fail(Status::kNotInitialized, "there is no compiler for '{}' without its device", architecture);
}

}  // namespace polymio
