// Loads libamdhip64 and libhiprtc at run time and describes devices.
// SPDX-License-Identifier: MIT
#include "runtime/hip/hip.h"

#include <cctype>
#include <deque>
#include <mutex>

#include "base/dynlib.h"
#include "runtime/gpu/driver.h"

namespace polymio::hip {
namespace {

using gpu::check;

// Device attributes.
constexpr int kClockKhz = 5, kL2Bytes = 19, kBlockThreads = 56, kBusBits = 59, kMemoryClockKhz = 60, kUnits = 63,
              kSharedBytes = 74, kWarp = 87;

struct Hip {
  gpu::Driver driver{};
  DynamicLibrary library{"libamdhip64.so.6", "libamdhip64.so.7", "libamdhip64.so.5"};
  int (*properties)(void*, int) = nullptr;
  gpu::DeviceList list;
  std::deque<DeviceInfo> infos;  // owns the descriptions, by device number
  std::deque<void*> contexts;
  std::mutex mutex;  // guards contexts

  Hip() { list.absence = open(); }

  std::string open();
  std::string add_devices();
  DeviceInfo describe(int index) const;
  std::string architecture(int index) const;
  void* context(int index);
};

std::string Hip::open() {
  if (!library) return "no HIP: " + library.problem();
  bool complete = true;
  const auto get = [&](auto& function, const char* name) { complete = library.find(function, name) && complete; };
  auto& d = driver;
  get(d.initialise, "hipInit");
  get(d.device_count, "hipGetDeviceCount");
  get(d.device, "hipDeviceGet");
  get(d.device_name, "hipDeviceGetName");
  get(d.total_memory, "hipDeviceTotalMem");
  get(d.attribute, "hipDeviceGetAttribute");
  get(d.retain_context, "hipDevicePrimaryCtxRetain");
  get(d.context_state, "hipDevicePrimaryCtxGetState");
  get(d.current_context, "hipCtxGetCurrent");
  get(d.set_context, "hipCtxSetCurrent");
  get(d.allocate, "hipMalloc");
  get(d.free, "hipFree");
  get(d.upload, "hipMemcpyHtoDAsync");
  get(d.download, "hipMemcpyDtoHAsync");
  get(d.copy, "hipMemcpyDtoDAsync");
  get(d.clear, "hipMemsetD8Async");
  get(d.synchronize, "hipStreamSynchronize");
  get(d.is_capturing, "hipStreamIsCapturing");
  get(d.create_event, "hipEventCreateWithFlags");
  get(d.record, "hipEventRecord");
  get(d.wait, "hipEventSynchronize");
  get(d.elapsed, "hipEventElapsedTime");
  get(d.destroy_event, "hipEventDestroy");
  get(d.load, "hipModuleLoadData");
  get(d.unload, "hipModuleUnload");
  get(d.function, "hipModuleGetFunction");
  get(d.launch, "hipModuleLaunchKernel");
  get(d.pointer_attribute, "hipPointerGetAttribute");
  get(d.error_text, "hipDrvGetErrorString");
  if (!library.find(properties, "hipGetDevicePropertiesR0600")) get(properties, "hipGetDeviceProperties");
  return complete ? add_devices() : "HIP is too old: " + library.problem();
}

std::string Hip::add_devices() {
  int count = 0;
  if (driver.initialise(0) != 0 || driver.device_count(&count) != 0 || count == 0) return "HIP sees no device";
  for (int i = 0; i < count; ++i) infos.push_back(describe(i));
  list.devices.assign(infos.begin(), infos.end());
  contexts.resize(infos.size());
  return "";
}

/// "gfx90a". Its offset in the properties depends on the HIP version, so it is searched for.
std::string Hip::architecture(int index) const {
  std::string bytes(16384, '\0');
  if (properties(bytes.data(), index) != 0) return "unknown";
  constexpr std::size_t kNameBytes = 256;
  const std::size_t at = bytes.find("gfx", kNameBytes);
  if (at == std::string::npos) return "unknown";
  std::size_t end = at;
  while (std::isalnum(static_cast<unsigned char>(bytes[end]))) ++end;
  return bytes.substr(at, end - at);
}

DeviceInfo Hip::describe(int index) const {
  int device = 0;
  check(driver, driver.device(&device, index), "opening a device");
  const auto get = [&](int attribute) {
    int value = 0;
    driver.attribute(&value, attribute, device);
    return value;
  };
  DeviceInfo d;
  d.kind = DeviceKind::kHip;
  d.name = fmt::format("hip:{}", index);
  char model[256] = "";
  driver.device_name(model, sizeof model, device);
  d.model = model;
  d.architecture = "hip-" + architecture(index);
  d.units = get(kUnits);
  driver.total_memory(&d.memory_bytes, device);
  d.cache_bytes = {0, static_cast<std::size_t>(get(kL2Bytes)), 0};
  d.fp32_gflops = 128.0 * d.units * get(kClockKhz) * 1e-6;  // 64 FMA lanes per compute unit
  d.bandwidth_gbs = 2.0 * get(kMemoryClockKhz) * 1e3 * get(kBusBits) / 8 * 1e-9;
  d.calibrated = true;
  d.gpu = {static_cast<std::size_t>(get(kSharedBytes)), get(kWarp), get(kBlockThreads), true, true};
  return d;
}

void* Hip::context(int index) {
  const std::scoped_lock lock(mutex);
  void*& context = contexts[static_cast<std::size_t>(index)];
  if (context) return context;
  int device = 0;
  check(driver, driver.device(&device, index), "opening a device");
  check(driver, driver.retain_context(&context, device), "opening the device's primary context");
  return context;
}

Hip& hip() {
  static Hip& all = *new Hip;  // never destroyed: streams may outlive static objects
  return all;
}

}  // namespace

const gpu::DeviceList& devices() { return hip().list; }

std::unique_ptr<Stream> create_stream(int index, void* native) {
  Hip& all = hip();
  return gpu::make_stream(all.driver, all.infos[static_cast<std::size_t>(index)], all.context(index), native,
                          create_compiler);
}

std::unique_ptr<Compiler> create_compiler(const std::string& architecture) {
  struct Opened {
    gpu::RuntimeCompiler rtc{};
    DynamicLibrary library{"libhiprtc.so.6", "libhiprtc.so.7", "libhiprtc.so.5"};
    bool usable;
    Opened() {
      rtc.name = "hipRTC";
      usable = library.find(rtc.version, "hiprtcVersion") && library.find(rtc.create, "hiprtcCreateProgram") &&
               library.find(rtc.compile, "hiprtcCompileProgram") && library.find(rtc.code_size, "hiprtcGetCodeSize") &&
               library.find(rtc.code, "hiprtcGetCode") && library.find(rtc.log_size, "hiprtcGetProgramLogSize") &&
               library.find(rtc.log, "hiprtcGetProgramLog") && library.find(rtc.destroy, "hiprtcDestroyProgram");
    }
  };
  static Opened& opened = *new Opened;
  if (!opened.usable)
    fail(Status::kNotInitialized, "kernels cannot be compiled, since there is no hipRTC: {}", opened.library.problem());
  constexpr std::string_view kPrefix = "hip-";
  return gpu::make_compiler(opened.rtc, "--offload-arch=" + architecture.substr(kPrefix.size()));
}

}  // namespace polymio::hip
