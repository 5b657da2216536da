// Loads libcuda and libnvrtc at run time and describes devices.
// SPDX-License-Identifier: MIT
#include "runtime/cuda/cuda.h"

#include <charconv>
#include <deque>
#include <mutex>

#include "base/dynlib.h"
#include "runtime/cuda/cublaslt.h"
#include "runtime/gpu/driver.h"

namespace polymio::cuda {
namespace {

using gpu::check;

constexpr int kVersion = 12000;  // ABI version of the driver functions to look up
constexpr const char* kDriverName = "libcuda.so.1";
constexpr std::string_view kArchitecture = "cuda-sm";  // before the compute capability

// Device attributes.
constexpr int kBlockThreads = 1, kSharedBytes = 8, kWarp = 10, kClockKhz = 13, kUnits = 16, kMemoryClockKhz = 36,
              kBusBits = 37, kL2Bytes = 38, kMajor = 75, kMinor = 76, kSharedOptInBytes = 97;

constexpr std::size_t kKiB = 1024, kMiB = 1024 * kKiB;

/// What the driver does not tell of a compute capability, and the data sheet of one device.
struct Model {
  int compute_capability, units;
  double clock_ghz, bandwidth_gbs;
  std::size_t l2_bytes, shared_opt_in_bytes;
  DeviceInfo::Gpu::MatrixFlops matrix_flops;
};
constexpr Model kModels[] = {{80, 108, 1.41, 1555, 40 * kMiB, 163 * kKiB, {2048, 1024, 4096}},   // A100
                             {86, 84, 1.74, 696, 6 * kMiB, 99 * kKiB, {1024, 512, 2048}},        // A40
                             {89, 142, 2.52, 864, 96 * kMiB, 99 * kKiB, {1024, 512, 2048}},      // L40S
                             {90, 132, 1.98, 3352, 50 * kMiB, 227 * kKiB, {4096, 2048, 8192}}};  // H100
constexpr Model kOtherModel = {0, 80, 1.5, 500, 0, 48 * kKiB, {}};

const Model& model_of(int compute_capability) {
  for (const Model& m : kModels)
    if (m.compute_capability == compute_capability) return m;
  return kOtherModel;
}

/// 128 FMA lanes per multiprocessor.
double fp32_gflops(int units, double clock_ghz) { return 256 * units * clock_ghz; }

struct Cuda {
  gpu::Driver driver{};
  int (*context_device)(int*) = nullptr;
  int driver_version = 0;
  gpu::DeviceList list;
  std::deque<DeviceInfo> infos;  // owns the descriptions, by device number
  std::deque<void*> contexts;
  std::mutex mutex;  // guards contexts

  Cuda() { list.absence = open(); }

  std::string open();
  std::string add_devices();
  DeviceInfo describe(int index) const;
  void* context(int index);
};

std::string Cuda::open() {
  static DynamicLibrary library{kDriverName};
  int (*address)(const char*, void**, int, unsigned long long, int*) = nullptr;
  if (!library.find(address, "cuGetProcAddress_v2")) return "no NVIDIA driver: " + library.problem();
  std::string missing;
  const auto get = [&](auto& function, const char* name) {
    void* found = nullptr;
    int status = 0;
    if (address(name, &found, kVersion, 0, &status) != 0 || !found) missing = name;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
  };
  auto& d = driver;
  int (*version)(int*) = nullptr;
  get(version, "cuDriverGetVersion");
  get(d.initialise, "cuInit");
  get(d.device_count, "cuDeviceGetCount");
  get(d.device, "cuDeviceGet");
  get(d.device_name, "cuDeviceGetName");
  get(d.total_memory, "cuDeviceTotalMem");
  get(d.attribute, "cuDeviceGetAttribute");
  get(d.retain_context, "cuDevicePrimaryCtxRetain");
  get(d.context_state, "cuDevicePrimaryCtxGetState");
  get(d.current_context, "cuCtxGetCurrent");
  get(d.set_context, "cuCtxSetCurrent");
  get(d.allocate, "cuMemAlloc");
  get(d.free, "cuMemFree");
  get(d.upload, "cuMemcpyHtoDAsync");
  get(d.download, "cuMemcpyDtoHAsync");
  get(d.copy, "cuMemcpyDtoDAsync");
  get(d.clear, "cuMemsetD8Async");
  get(d.synchronize, "cuStreamSynchronize");
  get(d.is_capturing, "cuStreamIsCapturing");
  get(d.create_event, "cuEventCreate");
  get(d.record, "cuEventRecord");
  get(d.wait, "cuEventSynchronize");
  get(d.elapsed, "cuEventElapsedTime");
  get(d.destroy_event, "cuEventDestroy");
  get(d.load, "cuModuleLoadData");
  get(d.unload, "cuModuleUnload");
  get(d.function, "cuModuleGetFunction");
  get(d.function_attribute, "cuFuncSetAttribute");
  get(d.launch, "cuLaunchKernel");
  get(d.launch_with, "cuLaunchKernelEx");
  get(d.pointer_attribute, "cuPointerGetAttribute");
  get(d.error_text, "cuGetErrorString");
  get(d.stream_context, "cuStreamGetCtx");
  get(context_device, "cuCtxGetDevice");
  const std::string needed = missing;  // the HIP layer and the newest devices alone need what follows
  get(d.queues.create, "cuStreamCreate");
  get(d.queues.destroy, "cuStreamDestroy");
  get(d.queues.ready, "cuStreamQuery");
  get(d.queues.wait, "cuStreamWaitEvent");
  get(d.queues.event_ready, "cuEventQuery");
  get(d.queues.copy, "cuMemcpyAsync");
  d.queues.fill = d.clear;
  get(d.queues.memory, "cuMemGetInfo");
  get(d.queues.synchronize_all, "cuCtxSynchronize");
  get(d.tensor_maps.tiled, "cuTensorMapEncodeTiled");
  get(d.tensor_maps.im2col, "cuTensorMapEncodeIm2col");
  missing = needed;
  if (!missing.empty()) return "the NVIDIA driver is too old: it lacks " + missing;
  version(&driver_version);
  d.tensor_maps.small_are_wrong = driver_version <= 13010;
  d.multiplier = make_multiplier;
  return add_devices();
}

std::string Cuda::add_devices() {
  const char* text = "";
  if (const int code = driver.initialise(0); code != 0) {
    if (driver.error_text(code, &text) != 0 || !text) text = "unknown error";
    return std::string("the NVIDIA driver does not start: ") + text;
  }
  int count = 0;
  if (driver.device_count(&count) != 0 || count == 0) return "the NVIDIA driver finds no device";
  for (int i = 0; i < count; ++i) infos.push_back(describe(i));
  list.devices.assign(infos.begin(), infos.end());
  contexts.resize(infos.size());
  return "";
}

DeviceInfo Cuda::describe(int index) const {
  int device = 0;
  check(driver, driver.device(&device, index), "opening a device");
  const auto get = [&](int attribute) {
    int value = 0;
    driver.attribute(&value, attribute, device);
    return value;
  };
  DeviceInfo d;
  d.kind = DeviceKind::kCuda;
  d.name = fmt::format("cuda:{}", index);
  char model[256] = "";
  driver.device_name(model, sizeof model, device);
  d.model = model;
  const int compute_capability = 10 * get(kMajor) + get(kMinor);
  d.architecture = fmt::format("{}{}", kArchitecture, compute_capability);
  d.units = get(kUnits);
  driver.total_memory(&d.memory_bytes, device);
  d.cache_bytes = {0, static_cast<std::size_t>(get(kL2Bytes)), 0};
  const Model& usual = model_of(compute_capability);
  d.gpu = {static_cast<std::size_t>(get(kSharedBytes)),
           get(kWarp),
           get(kBlockThreads),
           true,
           true,
           compute_capability,
           static_cast<std::size_t>(get(kSharedOptInBytes)),
           get(kClockKhz) * 1e-6,
           usual.matrix_flops};
  d.fp32_gflops = fp32_gflops(d.units, d.gpu.clock_ghz);
  // Two memory transfers per clock. Newer drivers report no memory clock.
  const double bandwidth = 2.0 * get(kMemoryClockKhz) * 1e3 * get(kBusBits) / 8 * 1e-9;
  d.bandwidth_gbs = bandwidth > 0 ? bandwidth : usual.bandwidth_gbs;
  d.calibrated = true;
  return d;
}

void* Cuda::context(int index) {
  const std::scoped_lock lock(mutex);
  void*& context = contexts[static_cast<std::size_t>(index)];
  if (context) return context;
  int device = 0;
  check(driver, driver.device(&device, index), "opening a device");
  check(driver, driver.retain_context(&context, device), "opening the device's primary context");
  return context;
}

Cuda& cuda() {
  static Cuda& all = *new Cuda;  // never destroyed: streams may outlive static objects
  return all;
}

/// NVRTC, no newer than the driver, which could not load its programs otherwise. Null, with the reason, if there is
/// none.
const gpu::RuntimeCompiler* compiler(int driver_version, std::string& problem) {
  struct Nvrtc {
    gpu::RuntimeCompiler rtc{};
    DynamicLibrary library;
    bool usable;
    explicit Nvrtc(std::initializer_list<const char*> names) : library(names) {
      rtc.name = "NVRTC";
      rtc.spill_option = "--ptxas-options=-warn-spills";
      usable = library.find(rtc.version, "nvrtcVersion") && library.find(rtc.create, "nvrtcCreateProgram") &&
               library.find(rtc.compile, "nvrtcCompileProgram") && library.find(rtc.code_size, "nvrtcGetCUBINSize") &&
               library.find(rtc.code, "nvrtcGetCUBIN") && library.find(rtc.log_size, "nvrtcGetProgramLogSize") &&
               library.find(rtc.log, "nvrtcGetProgramLog") && library.find(rtc.destroy, "nvrtcDestroyProgram");
    }
  };
  static Nvrtc& newer =
      *new Nvrtc{"libnvrtc.so.13", "/usr/local/cuda-13/lib64/libnvrtc.so.13", "/usr/local/cuda/lib64/libnvrtc.so.13"};
  if (newer.usable && (driver_version == 0 || driver_version >= 13000)) return &newer.rtc;
  static Nvrtc& older =
      *new Nvrtc{"libnvrtc.so.12", "/usr/local/cuda-12/lib64/libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so.12"};
  if (older.usable) return &older.rtc;
  problem = newer.library.problem() + "; " + older.library.problem();
  return nullptr;
}

}  // namespace

const gpu::DeviceList& devices() { return cuda().list; }

int driver_version() { return cuda().driver_version; }

std::unique_ptr<Stream> create_stream(int index, void* native) {
  Cuda& all = cuda();
  return gpu::make_stream(all.driver, all.infos[static_cast<std::size_t>(index)], all.context(index), native,
                          create_compiler);
}

std::unique_ptr<DeviceAccess> create_access(int index) {
  Cuda& all = cuda();
  return gpu::make_access(all.driver, all.infos[static_cast<std::size_t>(index)], all.context(index));
}

int device_in_use(void* native) {
  if (!is_loaded(kDriverName) || cuda().list.devices.empty()) return -1;
  Cuda& all = cuda();
  const auto device_of = [&](void* context) {
    int device = -1;
    const gpu::Current current(all.driver, context);
    return context && all.context_device(&device) == 0 ? device : -1;
  };
  void* context = nullptr;
  if (native && all.driver.stream_context(native, &context) == 0) return device_of(context);
  if (all.driver.current_context(&context) == 0 && context) return device_of(context);
  for (int i = 0; i < static_cast<int>(all.infos.size()); ++i) {
    unsigned flags = 0;
    int active = 0, device = 0;
    if (all.driver.device(&device, i) == 0 && all.driver.context_state(device, &flags, &active) == 0 && active)
      return i;
  }
  return -1;
}

int compute_capability(const std::string& architecture) {
  int number = 0;
  if (architecture.starts_with(kArchitecture))
    std::from_chars(architecture.data() + kArchitecture.size(), architecture.data() + architecture.size(), number);
  return number;
}

DeviceInfo usual_device(const std::string& architecture) {
  const Model& model = model_of(compute_capability(architecture));
  DeviceInfo d;
  d.kind = DeviceKind::kCuda;
  d.architecture = architecture;
  d.units = model.units;
  d.cache_bytes = {0, model.l2_bytes, 0};
  d.fp32_gflops = fp32_gflops(d.units, model.clock_ghz);
  d.bandwidth_gbs = model.bandwidth_gbs;
  d.calibrated = true;
  d.gpu = {48 * kKiB,
           32,
           1024,
           true,
           true,
           compute_capability(architecture),
           model.shared_opt_in_bytes,
           model.clock_ghz,
           model.matrix_flops};
  return d;
}

std::unique_ptr<Compiler> create_compiler(const std::string& architecture) {
  const int number = compute_capability(architecture);
  const char* const specific = number >= 90 ? "a" : "";  // architecture-specific instructions
  std::string problem;
  const bool has_driver = is_loaded(kDriverName);
  const gpu::RuntimeCompiler* rtc = compiler(has_driver ? cuda().driver_version : 0, problem);
  if (!rtc) fail(Status::kNotInitialized, "kernels cannot be compiled, since there is no NVRTC: {}", problem);
  return gpu::make_compiler(*rtc, fmt::format("--gpu-architecture=sm_{}{}", number, specific));
}

}  // namespace polymio::cuda
