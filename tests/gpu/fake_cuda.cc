// A CUDA driver without a GPU, to inject faults: memory is host memory, kernels do
// nothing. Built as libcuda.so.1. The environment variable FAKE_CUDA selects a fault: no-device, memory, load, launch;
// or stream capture: capture.
// SPDX-License-Identifier: MIT
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

constexpr int kInvalid = 1, kOutOfMemory = 2, kNoDevice = 100, kBadImage = 200, kCaptured = 900, kFailed = 719;

bool is(const char* what) {
  const char* mode = std::getenv("FAKE_CUDA");
  return mode && std::strcmp(mode, what) == 0;
}

struct Counts {
  int launches, violations;  // violations: calls that would end a capture
} counts;

/// For calls that invalidate a capture.
int outside_capture(int code = 0) {
  if (!is("capture")) return code;
  ++counts.violations;
  return kCaptured;
}

int context;  // its address is the handle
void* current = nullptr;

int initialise(unsigned) { return is("no-device") ? kNoDevice : 0; }
int version(int* v) {
  *v = 13000;
  return 0;
}
int device_count(int* n) {
  *n = 1;
  return 0;
}
int device(int* d, int) {
  *d = 0;
  return 0;
}
int device_name(char* name, int size, int) {
  std::strncpy(name, "Fake GPU", static_cast<std::size_t>(size));
  return 0;
}
int total_memory(std::size_t* n, int) { return *n = std::size_t{1} << 30, 0; }
int attribute(int* value, int which, int) {
  constexpr int kBlockThreads = 1, kShared = 8, kWarp = 10, kClock = 13, kUnits = 16, kL2 = 38, kMajor = 75,
                kSharedOptIn = 97;
  *value = which == kBlockThreads  ? 1024
           : which == kShared      ? 48 << 10
           : which == kWarp        ? 32
           : which == kClock       ? 1'980'000
           : which == kUnits       ? 132
           : which == kL2          ? 50 << 20
           : which == kMajor       ? 9
           : which == kSharedOptIn ? 227 << 10
                                   : 0;
  return 0;
}
int retain_context(void** c, int) {
  *c = &context;
  return 0;
}
int context_state(int, unsigned* flags, int* active) {
  *flags = 0;
  *active = 0;
  return 0;
}
int current_context(void** c) {
  *c = current;
  return 0;
}
int set_context(void* c) {
  current = c;
  return 0;
}
int context_device(int* d) {
  *d = 0;
  return 0;
}
int allocate(unsigned long long* p, std::size_t bytes) {
  if (is("memory")) return kOutOfMemory;
  *p = reinterpret_cast<unsigned long long>(std::aligned_alloc(256, (bytes + 256) / 256 * 256));
  return outside_capture();
}
int release(unsigned long long p) {
  std::free(reinterpret_cast<void*>(p));
  return outside_capture();
}
int upload(unsigned long long to, const void* from, std::size_t n, void*) {
  std::memcpy(reinterpret_cast<void*>(to), from, n);
  return 0;
}
int download(void* to, unsigned long long from, std::size_t n, void*) {
  std::memcpy(to, reinterpret_cast<const void*>(from), n);
  return 0;
}
int copy(unsigned long long to, unsigned long long from, std::size_t n, void*) {
  std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), n);
  return 0;
}
int clear(unsigned long long to, unsigned char value, std::size_t n, void*) {
  std::memset(reinterpret_cast<void*>(to), value, n);
  return 0;
}
int synchronize(void*) { return outside_capture(); }
int is_capturing(void*, int* status) {
  *status = is("capture");
  return 0;
}
int create_event(void** e, unsigned) {
  *e = new double(0);
  return 0;
}
int record(void* e, void*) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return *static_cast<double*>(e) = std::chrono::duration<double, std::milli>(now).count(), 0;
}
int wait(void*) { return outside_capture(); }
int elapsed(float* ms, void* from, void* to) {
  *ms = static_cast<float>(*static_cast<double*>(to) - *static_cast<double*>(from));
  return 0;
}
int destroy_event(void* e) { return delete static_cast<double*>(e), 0; }
int load(void** module, const void*) {
  if (is("load")) return kOutOfMemory;
  *module = new int(0);
  return outside_capture();
}
int unload(void* module) { return delete static_cast<int*>(module), outside_capture(); }
int function(void** f, void* module, const char*) {
  *f = module;
  return 0;
}
int function_attribute(void*, int, int) { return 0; }
int launch(void*, unsigned x, unsigned y, unsigned z, unsigned, unsigned, unsigned, unsigned, void*, void**, void**) {
  if (x == 0 || y == 0 || z == 0) return kInvalid;
  if (is("launch")) return kFailed;
  ++counts.launches;
  return 0;
}
int launch_with(const void*, void*, void**, void**) { return is("launch") ? kFailed : (++counts.launches, 0); }
int pointer_attribute(void* value, int, unsigned long long p) {
  *static_cast<int*>(value) = 2;
  return p == 0 ? kInvalid : 0;
}
int error_text(int code, const char** text) {
  *text = code == kOutOfMemory ? "out of memory"
          : code == kNoDevice  ? "no CUDA-capable device is detected"
          : code == kBadImage  ? "device kernel image is invalid"
          : code == kFailed    ? "unspecified launch failure"
          : code == kCaptured  ? "operation not permitted when stream is capturing"
                               : "another error";
  return 0;
}
int stream_context(void*, void** c) {
  *c = &context;
  return 0;
}

// What the driver requires of a tensor map, by the documentation of cuTensorMapEncodeTiled and ...Im2col.
template <class T>
bool within(T value, T low, T high) {
  return value >= low && value <= high;
}

/// 0 for types that Polymio does not use.
int element_bytes(int element) {
  constexpr int kUint8 = 0, kFloat16 = 6, kFloat32 = 7, kBfloat16 = 9, kTf32 = 11;
  return element == kUint8                             ? 1
         : element == kFloat16 || element == kBfloat16 ? 2
         : element == kFloat32 || element == kTf32     ? 4
                                                       : 0;
}

/// `inner`: elements of the innermost dimension that a box holds.
bool is_tensor(const void* map, int element, unsigned rank, const void* address, const std::uint64_t* sizes,
               const std::uint64_t* strides, unsigned inner, const unsigned* steps, int interleave, int swizzle,
               int promotion, int fill) {
  const auto misaligned = [](const void* p, std::uintptr_t bytes) {
    return reinterpret_cast<std::uintptr_t>(p) % bytes != 0;
  };
  const unsigned inner_bytes = inner * static_cast<unsigned>(element_bytes(element));
  if (misaligned(map, 64) || misaligned(address, 16) || inner_bytes == 0 || inner_bytes % 16 != 0) return false;
  if (interleave != 0 || fill != 0 || !within(promotion, 0, 3) || !within(swizzle, 0, 3)) return false;
  if (swizzle != 0 && inner_bytes > 16u << swizzle) return false;
  for (unsigned d = 0; d < rank; ++d) {
    if (!within(sizes[d], std::uint64_t{1}, std::uint64_t{1} << 32) || !within(steps[d], 1u, 8u)) return false;
    if (d > 0 && (strides[d - 1] % 16 != 0 || strides[d - 1] >= std::uint64_t{1} << 40)) return false;
  }
  return true;
}

/// Among them is the bit that drivers to 13.1 set wrongly.
int encoded(void* map, const void* address) {
  auto* const bits = static_cast<std::uint64_t*>(map);
  bits[0] = reinterpret_cast<std::uintptr_t>(address);
  bits[1] = ~std::uint64_t{0};
  return 0;
}

int encode_tiled(void* map, int element, unsigned rank, void* address, const std::uint64_t* sizes,
                 const std::uint64_t* strides, const unsigned* box, const unsigned* steps, int interleave, int swizzle,
                 int promotion, int fill) {
  bool good = within(rank, 1u, 5u);
  for (unsigned d = 0; good && d < rank; ++d) good = within(box[d], 1u, 256u);
  good = good &&
         is_tensor(map, element, rank, address, sizes, strides, box[0], steps, interleave, swizzle, promotion, fill);
  return good ? encoded(map, address) : kInvalid;
}

int encode_im2col(void* map, int element, unsigned rank, void* address, const std::uint64_t* sizes,
                  const std::uint64_t* strides, const int* lower, const int* upper, unsigned channels, unsigned pixels,
                  const unsigned* steps, int interleave, int swizzle, int promotion, int fill) {
  bool good = within(rank, 3u, 5u) && within(channels, 1u, 256u) && within(pixels, 1u, 1024u);
  const int corner = rank == 3 ? 1 << 15 : rank == 4 ? 128 : 16;
  for (unsigned d = 0; good && d < rank - 2; ++d) {
    good = within(lower[d], -corner, corner - 1) && within(upper[d], -corner, corner - 1) &&
           static_cast<std::int64_t>(sizes[d + 1]) + upper[d] > lower[d];
  }
  good = good &&
         is_tensor(map, element, rank, address, sizes, strides, channels, steps, interleave, swizzle, promotion, fill);
  return good ? encoded(map, address) : kInvalid;
}

struct Entry {
  const char* name;
  void* address;
};
template <class F>
Entry entry(const char* name, F* f) {
  return {name, reinterpret_cast<void*>(f)};
}

const Entry kEntries[] = {entry("cuDriverGetVersion", version),
                          entry("cuInit", initialise),
                          entry("cuDeviceGetCount", device_count),
                          entry("cuDeviceGet", device),
                          entry("cuDeviceGetName", device_name),
                          entry("cuDeviceTotalMem", total_memory),
                          entry("cuDeviceGetAttribute", attribute),
                          entry("cuDevicePrimaryCtxRetain", retain_context),
                          entry("cuDevicePrimaryCtxGetState", context_state),
                          entry("cuCtxGetCurrent", current_context),
                          entry("cuCtxSetCurrent", set_context),
                          entry("cuCtxGetDevice", context_device),
                          entry("cuMemAlloc", allocate),
                          entry("cuMemFree", release),
                          entry("cuMemcpyHtoDAsync", upload),
                          entry("cuMemcpyDtoHAsync", download),
                          entry("cuMemcpyDtoDAsync", copy),
                          entry("cuMemsetD8Async", clear),
                          entry("cuTensorMapEncodeTiled", encode_tiled),
                          entry("cuTensorMapEncodeIm2col", encode_im2col),
                          entry("cuStreamSynchronize", synchronize),
                          entry("cuStreamIsCapturing", is_capturing),
                          entry("cuStreamGetCtx", stream_context),
                          entry("cuEventCreate", create_event),
                          entry("cuEventRecord", record),
                          entry("cuEventSynchronize", wait),
                          entry("cuEventElapsedTime", elapsed),
                          entry("cuEventDestroy", destroy_event),
                          entry("cuModuleLoadData", load),
                          entry("cuModuleUnload", unload),
                          entry("cuModuleGetFunction", function),
                          entry("cuFuncSetAttribute", function_attribute),
                          entry("cuLaunchKernel", launch),
                          entry("cuLaunchKernelEx", launch_with),
                          entry("cuPointerGetAttribute", pointer_attribute),
                          entry("cuGetErrorString", error_text)};

}  // namespace

extern "C" int cuGetProcAddress_v2(const char* name, void** address, int, unsigned long long, int* status) {
  *address = nullptr;
  for (const Entry& e : kEntries)
    if (std::strcmp(e.name, name) == 0) *address = e.address;
  *status = *address ? 0 : 1;
  return *address ? 0 : kInvalid;
}

/// Launches so far, and calls so far that invalidate a capture.
extern "C" void fake_counts(int* launches, int* violations) {
  *launches = counts.launches;
  *violations = counts.violations;
}
