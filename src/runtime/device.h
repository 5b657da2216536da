// The device interface: everything that the rest of the library uses of a device. The backends in runtime/<name>/ are
// private.
// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/cpu_isa.h"
#include "base/dtype.h"
#include "base/function_ref.h"
#include "runtime/tensor_map.h"

namespace polymio {

/// Numbers equal polymioDeviceKind_t; solvers OR them together.
enum class DeviceKind : unsigned { kCpu = 1, kCuda = 2, kOpenCl = 4, kHip = 8 };

/// Version of the solvers' time estimates: a learned model corrects only the version it was trained on.
inline constexpr int kEstimates = 2;

struct DeviceInfo {
  DeviceKind kind = DeviceKind::kCpu;
  std::string name;          // as POLYMIO_DEVICE takes it: "cpu", "cuda:0"
  std::string model;         // product name of the vendor
  std::string architecture;  // the database's device class: "cpu-intel-6-207", "cuda-sm90"
  int units = 1;             // cores that this process may use, or multiprocessors
  std::size_t memory_bytes = 0;
  std::array<std::size_t, 3> cache_bytes{};  // L1 data, L2 (per core), L3 (shared)
  CpuIsa isa = CpuIsa::kGeneric;             // the highest that CPU kernels may use
  int threads = 1;                           // that the stream may use
  double fp32_gflops = 0;                    // peak with these threads: measured once calibrated, else nominal
  double bandwidth_gbs = 0;                  // memory bandwidth with these threads, likewise
  bool calibrated = false;
  struct Gpu {
    std::size_t shared_bytes = 0;         // per block, without opting in to more
    int warp = 1;                         // threads per warp
    int block_threads = 1;                // most threads per block
    bool fp64 = false;                    // arithmetic in double
    bool capture = false;                 // streams may be recorded into graphs
    int compute_capability = 0;           // NVIDIA's, 90 for sm90; 0: another vendor's
    std::size_t shared_opt_in_bytes = 0;  // per block, on request
    double clock_ghz = 0;                 // 0: unknown
    struct MatrixFlops {
      int bits16, tf32, bits8;
    } matrix_flops{};  // of dense products with 32-bit sums, per multiprocessor and clock; 0: unknown
  } gpu;
};

/// Measured peaks with `threads` threads.
struct DevicePeak {
  double fp32_gflops = 0;
  double bandwidth_gbs = 0;
  int threads = 0;
};

using TaskRef = FunctionRef<void(std::size_t index)>;

/// Runs a batch of independent tasks and returns when all are done.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual void run(std::size_t tasks, TaskRef task) = 0;
};

using ExecutorFunction = void (*)(void* context, std::size_t tasks, void (*task)(void* task_context, std::size_t index),
                                  void* task_context);

/// Device memory: a pointer or, on devices without pointers, a memory object; and an offset in bytes.
struct Buffer {
  Buffer(const void* p, std::size_t offset_bytes = 0) : handle(const_cast<void*>(p)), offset(offset_bytes) {}
  void* address() const { return static_cast<char*>(handle) + offset; }
  void* handle;
  std::size_t offset;
};

/// An entry point of a GPU program. Safe to launch from several threads.
class Kernel {
 public:
  virtual ~Kernel() = default;
};

/// A loaded program. Its kernels keep it alive.
class Module {
 public:
  virtual ~Module() = default;
  virtual std::shared_ptr<const Kernel> kernel(const std::string& entry) = 0;  // a new object each time
};

/// A point in the command sequence of a stream.
class Event {
 public:
  virtual ~Event() = default;
};

/// Compiles kernel sources for one architecture. Thread-safe.
class Compiler {
 public:
  virtual ~Compiler() = default;
  /// Everything besides source and options that determines the binary: compiler, version, target.
  virtual std::string identity() const = 0;
  /// The binary; `log` receives the output of the compiler. Throws InternalError with that text on failure.
  virtual std::string compile(const std::string& source, const std::vector<std::string>& options,
                              std::string& log) const = 0;
};

struct Argument {
  enum class Kind { kBuffer, kValue } kind;
  const void* data;  // a Buffer, or a value
  std::size_t bytes;
};

struct Launch {
  std::array<std::uint32_t, 3> blocks{1, 1, 1}, threads{1, 1, 1};
  std::uint32_t shared_bytes = 0;  // dynamic, in addition to what the kernel declares
  std::uint32_t cluster = 1;       // blocks per cluster along x; CUDA only
  bool programmatic = false;  // programmatic dependent launch: may begin before the previous kernel ends; CUDA only
  bool cooperative = false;   // all blocks are resident at once, so that they can wait for each other; CUDA only
};

/// Blocks along three dimensions, threads along one.
inline Launch launch_shape(std::int64_t threads, std::int64_t x, std::int64_t y = 1, std::int64_t z = 1) {
  const auto size = [](std::int64_t v) { return static_cast<std::uint32_t>(v); };
  return {.blocks = {size(x), size(y), size(z)}, .threads = {size(threads), 1, 1}};
}

/// c = alpha * op(a) * op(b) + beta * c for `batch` column-major matrices with leading dimension `step`; c is m x n, op
/// may transpose. Computes in fp32, products in TF32 if tf32.
struct MatrixProduct {
  DataType in, out;
  bool tf32, transpose_a, transpose_b;
  std::int64_t m, n, k, step_a, step_b, step_c;
  std::int64_t batch, batch_step_a, batch_step_b, batch_step_c;
  int alignment;          // of the matrices in memory, in bytes
  std::size_t workspace;  // bytes it may use
  bool bias = false;      // adds an element per row of c, of c's type
  bool relu = false;      // then replaces negative results by 0
};

class Stream;

/// A matrix product of the vendor's library. Safe to run from several threads and in a capture.
class Multiplier {
 public:
  struct Operands {
    const void *a, *b;
    void *c, *workspace;  // of MatrixProduct::workspace bytes
    float alpha, beta;
    const void* bias = nullptr;
  };
  virtual ~Multiplier() = default;
  virtual void run(Stream&, const Operands&) const = 0;
};

/// An in-order command queue of a device. On the CPU commands are complete when the call returns.
class Stream {
 public:
  virtual ~Stream() = default;
  /// Changes with the thread cap and with calibration; references stay valid until the process ends.
  virtual const DeviceInfo& info() const = 0;
  virtual const void* context() const = 0;  // streams with equal contexts share programs and memory
  virtual void* native() const = 0;         // the caller's stream handle; null: the default stream
  virtual void set_native(void*) = 0;       // uses this stream; BadParm if the device has none
  virtual void synchronize() = 0;
  /// Device to device, in order. Host memory is allowed on the CPU only.
  virtual void copy(Buffer dst, Buffer src, std::size_t bytes) = 0;
  virtual void clear(Buffer dst, std::size_t bytes) = 0;  // sets the bytes to zero, in order
  /// From and to host memory. The copies are complete when the call returns.
  virtual void upload(Buffer dst, const void* src, std::size_t bytes) = 0;
  virtual void download(void* dst, Buffer src, std::size_t bytes) = 0;
  virtual void* allocate(std::size_t bytes) = 0;  // 64-byte aligned; throws AllocFailed
  virtual void deallocate(void* p) noexcept = 0;
  virtual std::unique_ptr<Event> record() = 0;
  /// Waits for both events, which must be of this stream.
  virtual double elapsed_us(const Event& from, const Event& to) = 0;
  /// BadParm if the pointer is certainly not memory of this device. Slow.
  virtual void check_memory(const void* pointer, const char* what) const = 0;
  /// Whether the pointer is certainly the device's own memory, which the host may not read. Slow.
  virtual bool is_device_memory(const void* pointer) const {
    (void)pointer;
    return false;
  }

  /// GPUs only; an error on the CPU.
  virtual const Compiler& compiler() const = 0;
  virtual std::shared_ptr<Module> load(const std::string& program) = 0;  // null if it is corrupt
  virtual void launch(const Kernel&, const Launch&, std::span<const Argument>) = 0;
  /// The map of a tensor at this address. Allowed in a capture. InternalError for what the driver refuses,
  /// NotImplemented on devices without tensor maps.
  virtual TensorMap tensor_map(const TensorMapSpec&, Buffer) const;
  /// With the algorithm that the library ranks `choice`-th, or the last one; null without a library or algorithm.
  virtual std::unique_ptr<Multiplier> multiplier(const MatrixProduct&, int choice) {
    (void)choice;
    return nullptr;
  }
  /// During a capture nothing may be allocated, compiled or synchronized.
  virtual bool capturing() const = 0;

  /// Host work; single-threaded on the streams of GPUs. Tasks [0, tasks) run on at most threads() threads, in any
  /// order. Each gets scratch of at least `scratch_bytes` (64-byte aligned, private to the running thread, contents
  /// undefined). One task runs inline on the caller's thread. An exception of a task is rethrown here. In a forked
  /// child of the process that made the stream, threads() is 1 and every task runs inline.
  using Task = FunctionRef<void(std::size_t index, void* scratch)>;
  virtual void parallel_for(std::size_t tasks, std::size_t scratch_bytes, Task task) = 0;
  virtual int threads() const = 0;
  virtual void set_threads(int cap) = 0;                                    // 0: every core this process may use
  virtual void set_executor(ExecutorFunction function, void* context) = 0;  // null: the default
  /// Allocates the scratch of later calls, so that they allocate nothing.
  virtual void reserve_scratch(std::size_t bytes_per_thread) = 0;
  virtual DevicePeak measure_peak() = 0;

  /// Peak and bandwidth in less than 50 ms, less precise than measure_peak.
  virtual DevicePeak quick_peak() = 0;
  /// Sets the peaks that info() returns in all streams of the device with as many threads. Ignores values that are not
  /// positive and finite: they may come from a file.
  virtual void calibrate(const DevicePeak&) = 0;
};

/// Launches with these arguments: Buffers, or values that kernels take by value, of 4 KiB in all.
template <class... T>
void launch(Stream& stream, const Kernel& kernel, const Launch& shape, const T&... values) {
  constexpr auto kKind = []<class V>(const V*) {
    static_assert(std::is_trivially_copyable_v<V> && sizeof(V) <= 4096);
    return std::is_same_v<V, Buffer> ? Argument::Kind::kBuffer : Argument::Kind::kValue;
  };
  const std::array arguments = {Argument{kKind(&values), &values, sizeof(values)}...};
  stream.launch(kernel, shape, arguments);
}

/// Deadline of a scope: work that this thread starts stops between tasks once `when` has passed, and the running call
/// throws Stopped, leaving its outputs undefined. Nested deadlines: the earliest applies.
class StopAt {
 public:
  explicit StopAt(std::chrono::steady_clock::time_point when);
  ~StopAt();
  StopAt(const StopAt&) = delete;
  StopAt& operator=(const StopAt&) = delete;
  /// The deadline of this thread; time_point::max() if there is none.
  static std::chrono::steady_clock::time_point current();

  /// Suspends the deadline of this thread for a scope that calls foreign code.
  class Pause {
   public:
    Pause();
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    std::chrono::steady_clock::time_point outer_;
  };

 private:
  std::chrono::steady_clock::time_point outer_;
};
struct Stopped : std::exception {
  const char* what() const noexcept override { return "stopped: the time allowed for it is over"; }
};

/// All devices of this machine, CPU first. Opens the drivers of GPUs.
const std::vector<DeviceInfo>& devices();

/// Whether there is a matrix product library for the device. The first call opens it.
bool has_multipliers(const DeviceInfo&);

/// Name and version of that library, or why it is not used; "" for devices that have none. The first call opens it.
const std::string& multiplier_note(const DeviceInfo&);

/// Why there is no device of this kind, "" if there is one.
const std::string& absence(DeviceKind);

/// The device of handles that name none: POLYMIO_DEVICE; else the CUDA device of the given stream or of a primary
/// context in use; else the CPU.
std::string default_device(void* native);

/// A stream on the device called `name` ("cpu", "cuda:0"); throws BadParm listing the devices otherwise.
std::unique_ptr<Stream> create_stream(const std::string& name, void* native);

/// A typical device of an architecture ("cuda-sm90", "hip-gfx90a"), for compiling without the device.
DeviceInfo usual_device(const std::string& architecture);

/// A compiler for an architecture ("cuda-sm90") whose device need not exist; NotInitialized, with the reason, if there
/// is no compiler.
std::unique_ptr<Compiler> create_compiler(const std::string& architecture);

}  // namespace polymio
