// Device list and lookup by name; the deadline of each thread.
// SPDX-License-Identifier: MIT
#include "runtime/device.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <string_view>
#include <utility>

#include "base/env.h"
#include "base/error.h"
#include "runtime/cpu/cpu.h"
#include "runtime/cpu/queue.h"
#include "runtime/cuda/cublaslt.h"
#include "runtime/cuda/cuda.h"
#include "runtime/hip/hip.h"
#include "runtime/opencl/opencl.h"
#include "runtime/queue.h"

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
  std::unique_ptr<DeviceAccess> (*access)(int index);  // may be null
};
constexpr Backend kBackends[] = {
    {DeviceKind::kCuda, "cuda", cuda::devices, cuda::create_stream, cuda::create_access},
    {DeviceKind::kHip, "hip", hip::devices, hip::create_stream, nullptr},
    {DeviceKind::kOpenCl, "opencl", opencl::devices, opencl::create_stream, opencl::create_access}};

std::atomic<int (*)()> current_device{nullptr};  // number of the device that handles shall use

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

TensorMap Stream::tensor_map(const TensorMapSpec&, Buffer) const {
  fail(Status::kNotImplemented, "{} has no tensor maps", info().name);
}

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
  const auto current = current_device.load();
  const int queue_device = known_queue(native).device, number = queue_device < 0 && current ? current() : queue_device;
  if (number >= 0) return devices()[static_cast<std::size_t>(number)].name;
  const int used = cuda::device_in_use(native);
  return used < 0 ? "cpu" : fmt::format("cuda:{}", used);
}

std::unique_ptr<Stream> create_stream(const std::string& name, void* native) {
  if (name == "cpu") return cpu::create_stream(native);
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

int device_number(const std::string& name) {
  const auto& all = devices();
  const auto named = [&](const DeviceInfo& d) { return d.name == name || d.name == name + ":0"; };
  return static_cast<int>(std::find_if(all.begin(), all.end(), named) - all.begin());
}

void set_current_device(int (*number)()) { current_device = number; }

std::unique_ptr<DeviceAccess> create_access(int index) {
  const auto& all = devices();
  require(index >= 0 && index < static_cast<int>(all.size()), "device {} is out of range: there are {} devices", index,
          all.size());
  if (index == 0) return cpu::create_access(index);
  const std::string& name = all[static_cast<std::size_t>(index)].name;
  for (const Backend& b : kBackends)
    if (const int number = number_in(name, b.prefix); number >= 0 && b.access) return b.access(number);
  fail(Status::kNotImplemented, "the HIP layer drives CPUs, CUDA and OpenCL devices, not {}", name);
}

DeviceInfo usual_device(const std::string& architecture) {
  if (cuda::compute_capability(architecture) > 0) return cuda::usual_device(architecture);
  DeviceInfo device;
  device.kind = DeviceKind::kHip;
  device.architecture = architecture;
  device.units = 108;
  device.fp32_gflops = 20'000;
  device.bandwidth_gbs = 1'500;
  device.gpu = {.shared_bytes = 48u << 10, .warp = 64, .block_threads = 1024, .fp64 = true, .capture = true};
  return device;
}

std::unique_ptr<Compiler> create_compiler(const std::string& architecture) {
  if (cuda::compute_capability(architecture) > 0) return cuda::create_compiler(architecture);
  if (architecture.starts_with("hip-")) return hip::create_compiler(architecture);
  fail(Status::kNotInitialized, "there is no compiler for '{}' without its device", architecture);
}

}  // namespace polymio
