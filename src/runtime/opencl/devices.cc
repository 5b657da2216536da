// Finds and describes devices and compiles programs for them.
// SPDX-License-Identifier: MIT
#include "runtime/opencl/devices.h"

#include <fmt/format.h>

#include <cctype>
#include <cstdlib>
#include <deque>
#include <mutex>

#include "base/error.h"
#include "runtime/opencl/opencl.h"

namespace polymio::opencl {
namespace {

constexpr Bits kEveryType = 0xffffffff;
constexpr unsigned kUnits = 0x1002, kGroupSize = 0x1004, kClockMhz = 0x100c, kCacheBytes = 0x101e, kMemory = 0x101f,
                   kLocalBytes = 0x1023, kName = 0x102b, kVendor = 0x102c, kDriverVersion = 0x102d, kVersion = 0x102f,
                   kPlatform = 0x1031, kDouble = 0x1032, kSvm = 0x1053;  // device properties
constexpr std::intptr_t kContextPlatform = 0x1084;
constexpr unsigned kQueueContext = 0x1090, kQueueDevice = 0x1091;
constexpr unsigned kBinarySizes = 0x1165, kBinaries = 0x1166, kBuildLog = 0x1183;

template <class T>
T number_of(const Api& api, Device* device, unsigned what) {
  T value{};
  return api.device_info(device, what, sizeof value, &value, nullptr) == 0 ? value : T{};
}

/// Lower-case letters and digits, single dashes for everything else: usable in file names.
std::string slug(const std::string& text, std::size_t most) {
  std::string made;
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (std::isalnum(u))
      made += static_cast<char>(std::tolower(u));
    else if (!made.empty() && made.back() != '-')
      made += '-';
  }
  made.resize(std::min(made.size(), most));
  while (!made.empty() && made.back() == '-') made.pop_back();
  return made;
}

/// The major version of PoCL, 0 for other platforms.
int pocl_version(const Api& api, Device* device) {
  const bool pocl = text_of(api, device, kVersion).find("PoCL") != std::string::npos;
  return pocl ? std::atoi(text_of(api, device, kDriverVersion).c_str()) : 0;
}

/// PoCL 5.0 gives all work items the address of one where they use it before and after a barrier; 4 has the same
/// analysis. 3.1 and 6.0 are right.
bool computes_wrong(const Api& api, Device* device) {
  const int version = pocl_version(api, device);
  return version == 4 || version == 5;
}

struct OpenCl {
  const Api* api = nullptr;
  gpu::DeviceList list;
  std::deque<DeviceInfo> infos;  // owns the descriptions, by device number
  std::vector<Device*> handles;
  std::mutex mutex;                                      // guards the members below
  std::map<std::pair<Context*, Device*>, Scope> scopes;  // including contexts of callers
  std::vector<Context*> contexts;                        // our own, by device number

  OpenCl() {
    api = opencl::api(list.absence);
    if (!api) return;
    find_devices();
    contexts.resize(handles.size());
    list.devices.assign(infos.begin(), infos.end());
    if (handles.empty() && list.absence.empty())
      list.absence = "OpenCL's loader finds no device: no platform is installed";
  }

 private:
  void find_devices() {
    unsigned count = 0;
    if (api->platforms(0, nullptr, &count) != 0) return;
    std::vector<Platform*> platforms(count);
    if (count == 0 || api->platforms(count, platforms.data(), nullptr) != 0) return;
    for (Platform* p : platforms) {
      if (api->devices(p, kEveryType, 0, nullptr, &count) != 0 || count == 0) continue;
      std::vector<Device*> found(count);
      if (api->devices(p, kEveryType, count, found.data(), nullptr) != 0) continue;
      for (Device* d : found) {
        if (computes_wrong(*api, d)) {
          list.absence =
              "PoCL 4 and 5 compute wrong results with barriers and are not used: allowed are 3.1 and from 6.0 on";
          continue;
        }
        infos.push_back(describe(d, handles.size()));
        handles.push_back(d);
      }
    }
  }

  DeviceInfo describe(Device* device, std::size_t index) const {
    DeviceInfo d;
    d.kind = DeviceKind::kOpenCl;
    d.name = fmt::format("opencl:{}", index);
    d.model = text_of(*api, device, kName);
    constexpr std::size_t kMax = 24;
    d.architecture = "opencl-" + slug(text_of(*api, device, kVendor), kMax) + "-" + slug(d.model, kMax);
    d.units = static_cast<int>(number_of<unsigned>(*api, device, kUnits));
    d.memory_bytes = number_of<Bits>(*api, device, kMemory);
    d.cache_bytes = {0, number_of<Bits>(*api, device, kCacheBytes), 0};
    // OpenCL reports no more: assume 64 FMAs per clock and unit, 50 GB/s.
    d.fp32_gflops = 0.128 * d.units * number_of<unsigned>(*api, device, kClockMhz);
    d.bandwidth_gbs = 50;
    d.calibrated = true;
    d.gpu.shared_bytes = number_of<Bits>(*api, device, kLocalBytes);
    d.gpu.block_threads = static_cast<int>(number_of<Size>(*api, device, kGroupSize));
    d.gpu.fp64 = number_of<Bits>(*api, device, kDouble) != 0;
    return d;
  }
};

OpenCl& opencl() {
  static OpenCl& all = *new OpenCl;
  return all;
}

using ProgramPointer = std::unique_ptr<Program, Code (*)(Program*)>;

// All that kernels call, for PoCL 3: its header declares 900 KB of functions, which take longer to parse than a kernel
// to compile. kOwnDeclarations defines the guard of that header.
constexpr std::string_view kDeclarations = R"(
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef __SIZE_TYPE__ size_t;
typedef uint uint4 __attribute__((ext_vector_type(4)));
#define as_uint(x) __builtin_astype(x, uint)
#define as_float(x) __builtin_astype(x, float)
#define as_ulong(x) __builtin_astype(x, ulong)
#define as_double(x) __builtin_astype(x, double)
#define CLK_LOCAL_MEM_FENCE 1
#define CLK_GLOBAL_MEM_FENCE 2
#define DECLARE(result) result __attribute__((overloadable))
#define DECLARE_CONST(result) DECLARE(result) __attribute__((const))
#define DECLARE_PURE(result) DECLARE(result) __attribute__((pure))
DECLARE_CONST(size_t) get_group_id(uint);
DECLARE_CONST(size_t) get_num_groups(uint);
DECLARE_CONST(size_t) get_local_id(uint);
DECLARE(void) barrier(uint) __attribute__((convergent));
DECLARE_PURE(float) vload_half(size_t, const half*);
DECLARE_PURE(float) vload_half(size_t, const global half*);
DECLARE(void) vstore_half_rte(float, size_t, half*);
DECLARE(void) vstore_half_rte(float, size_t, global half*);
DECLARE_CONST(float) fma(float, float, float);
DECLARE_CONST(float) rint(float);
DECLARE_CONST(float) sqrt(float);
#ifdef cl_khr_fp64
DECLARE_CONST(double) fma(double, double, double);
DECLARE_CONST(double) rint(double);
DECLARE_CONST(double) sqrt(double);
#endif
#line 1
)";
constexpr const char* kOwnDeclarations = " -D_OPENCL_H_";
constexpr std::string_view kSource = "OpenCL source, options: ";  // begins what compile() returns for PoCL 3

Scope& scope(Context* context, int index) {
  OpenCl& all = opencl();
  const auto i = static_cast<std::size_t>(index);
  return all.scopes.try_emplace({context, all.handles[i]}, *all.api, all.handles[i], context, all.infos[i])
      .first->second;
}

}  // namespace

std::string text_of(const Api& api, Device* device, unsigned what) {
  Size bytes = 0;
  if (api.device_info(device, what, 0, nullptr, &bytes) != 0) return "";
  std::string text(bytes, '\0');
  if (api.device_info(device, what, bytes, text.data(), nullptr) != 0) return "";
  return text.substr(0, text.find('\0'));
}

const gpu::DeviceList& devices() { return opencl().list; }

Scope& shared_scope(int index) {
  OpenCl& all = opencl();
  const std::scoped_lock lock(all.mutex);
  const auto i = static_cast<std::size_t>(index);
  if (!all.contexts[i]) {
    const auto platform = number_of<std::intptr_t>(*all.api, all.handles[i], kPlatform);
    const std::intptr_t properties[] = {kContextPlatform, platform, 0};
    Code code = 0;
    all.contexts[i] = all.api->create_context(properties, 1, &all.handles[i], nullptr, nullptr, &code);
    check(code, "opening the device");
  }
  return scope(all.contexts[i], index);
}

Scope& scope_of(Queue* queue, int index) {
  OpenCl& all = opencl();
  Context* context = nullptr;
  Device* device = nullptr;
  const bool known = all.api->queue_info(queue, kQueueContext, sizeof context, &context, nullptr) == 0 &&
                     all.api->queue_info(queue, kQueueDevice, sizeof device, &device, nullptr) == 0;
  const auto i = static_cast<std::size_t>(index);
  require(known && device == all.handles[i], "the given command queue is not one of {}", all.infos[i].name);
  const std::scoped_lock lock(all.mutex);
  return scope(context, index);
}

std::string Scope::base_options() const {
  // The optimizer of PoCL 6.0 (LLVM 18) ends the process on kernels with sums in local memory; 3.1's is right.
  constexpr int kFirstWithout = 6;
  return pocl_version(api, device) >= kFirstWithout ? "-cl-std=CL1.2 -w -cl-opt-disable" : "-cl-std=CL1.2 -w";
}

std::string Scope::identity() const {
  return fmt::format("{} / {} / {} / {} / {}", text_of(api, device, kVendor), info.model,
                     text_of(api, device, kVersion), text_of(api, device, kDriverVersion), base_options());
}

Program* Scope::program_of(const std::string& source, const std::string& options, std::string& log) const {
  const bool declare = pocl_version(api, device) == 3;
  const std::string text = (declare ? std::string(kDeclarations) : "") + source;
  const char* start = text.c_str();
  const Size length = text.size();
  Code code = 0;
  ProgramPointer program(api.program_of_source(context, 1, &start, &length, &code), api.release_program);
  check(code, "making a program");
  const std::string all_options = options + (declare ? kOwnDeclarations : "");
  code = api.build(program.get(), 1, &device, all_options.c_str(), nullptr, nullptr);
  Size bytes = 0;
  if (api.build_info(program.get(), device, kBuildLog, 0, nullptr, &bytes) == 0 && bytes > 0) {
    log.resize(bytes);
    if (api.build_info(program.get(), device, kBuildLog, bytes, log.data(), nullptr) != 0) log.clear();
  }
  return code == 0 ? program.release() : nullptr;
}

std::string Scope::compile(const std::string& source, const std::vector<std::string>& options, std::string& log) const {
  const std::string arguments = fmt::format("{} {}", base_options(), fmt::join(options, " "));
  const ProgramPointer program(program_of(source, arguments, log), api.release_program);
  if (!program) fail(Status::kInternalError, "{} could not compile a kernel:\n{}", info.name, log);
  // A binary of PoCL 3 has every kernel compiled for unknown numbers of work items, and it compiles them again for
  // those of a launch; it keeps both on disk. From source it compiles the latter only.
  if (pocl_version(api, device) == 3) return fmt::format("{}{}\n{}", kSource, arguments, source);
  Size bytes = 0;
  check(api.program_info(program.get(), kBinarySizes, sizeof bytes, &bytes, nullptr), "reading a program");
  std::string binary(bytes, '\0');
  char* where = binary.data();
  check(api.program_info(program.get(), kBinaries, sizeof where, &where, nullptr), "reading a program");
  return binary;
}

Program* Scope::load(const std::string& compiled) const {
  if (compiled.starts_with(kSource)) {
    const std::size_t end = std::min(compiled.find('\n'), compiled.size());
    std::string log;
    return program_of(compiled.substr(end), compiled.substr(kSource.size(), end - kSource.size()), log);
  }
  const Size bytes = compiled.size();
  const auto* data = reinterpret_cast<const unsigned char*>(compiled.data());
  Code status = 0, code = 0;
  ProgramPointer program(api.program_of_binary(context, 1, &device, &bytes, &data, &status, &code),
                         api.release_program);
  const bool good =
      program && code == 0 && status == 0 && api.build(program.get(), 1, &device, "", nullptr, nullptr) == 0;
  return good ? program.release() : nullptr;
}

Queue* Scope::default_queue() {
  const std::unique_lock lock(mutex_);
  Code code = 0;
  if (!default_queue_) default_queue_ = api.create_queue(context, device, kProfiling, &code);
  check(code, "making a command queue");
  return default_queue_;
}

bool Scope::has_addresses() const { return api.svm_allocate && number_of<Bits>(api, device, kSvm) != 0; }

void* Scope::allocate(std::size_t bytes) {
  constexpr Bits kReadWrite = 1;
  bytes = std::max<std::size_t>(bytes, 1);
  if (has_addresses()) {
    constexpr unsigned kAlign = 64;
    void* const p = api.svm_allocate(context, kReadWrite, bytes, kAlign);
    if (!p) fail(Status::kAllocFailed, "cannot allocate {} bytes on {}", bytes, info.name);
    const std::unique_lock lock(mutex_);
    addresses_[static_cast<const char*>(p)] = bytes;
    return p;
  }
  Code code = 0;
  Memory* const memory = api.create_buffer(context, kReadWrite, bytes, nullptr, &code);
  if (code != 0) fail(Status::kAllocFailed, "cannot allocate {} bytes on {}: error {}", bytes, info.name, code);
  return memory;
}

void Scope::deallocate(void* p) noexcept {
  {
    const std::unique_lock lock(mutex_);
    if (addresses_.erase(static_cast<const char*>(p)) == 0) {
      api.release_memory(static_cast<Memory*>(p));
      return;
    }
  }
  api.svm_free(context, p);
}

bool Scope::is_address(const void* p) const {
  const std::shared_lock lock(mutex_);
  auto after = addresses_.upper_bound(static_cast<const char*>(p));
  if (after == addresses_.begin()) return false;
  --after;
  return static_cast<const char*>(p) <= after->first + after->second;
}

}  // namespace polymio::opencl
