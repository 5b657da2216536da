// The device seam: all that the rest of the library may ask of a device. Backends live in
// runtime/<name>/ and are seen by nobody else.
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

#include "base/dtype.h"
#include "base/function_ref.h"

namespace polymio {

/// Numbers equal polymioDeviceKind_t; solvers OR them together.
enum class DeviceKind : unsigned { kCpu = 1, kCuda = 2, kOpenCl = 4, kHip = 8 };

/// Highest instruction set that CPU kernels may use, weakest first.
enum class CpuIsa : int { kGeneric = 0, kAvx2 = 1, kAvx512 = 2, kAvx512Bf16 = 3, kAvx512Amx = 4 };

/// The version of the solvers' estimates: a learned model corrects those of its training, and no others.
inline constexpr int kEstimates = 2;

struct DeviceInfo {
  DeviceKind kind = DeviceKind::kCpu;
  std::string name;          // as POLYMIO_DEVICE takes it: "cpu", "cuda:0"
  std::string model;         // what the maker calls it
  std::string architecture;  // the database's device class: "cpu-intel-6-207", "cuda-sm90"
  int units = 1;             // cores this process may use, or multiprocessors
  std::size_t memory_bytes = 0;
  std::array<std::size_t, 3> cache_bytes{};  // L1 data, L2 (per core), L3 (shared)
  CpuIsa isa = CpuIsa::kGeneric;
  int threads = 1;           // that work of the stream may use
  double fp32_gflops = 0;    // peak with these threads: measured once calibrated, else nominal
  double bandwidth_gbs = 0;  // memory bandwidth with these threads, likewise
  bool calibrated = false;
  struct Gpu {
    std::size_t shared_bytes = 0;  // of a block, without asking for more
    int warp = 1;                  // threads that run in step
    int block_threads = 1;         // at most
    bool fp64 = false;             // arithmetic in double
    bool capture = false;          // streams may be recorded into graphs
  } gpu;
};

/// What a short measurement found, with `threads` threads.
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

/// Device memory: a pointer, or where the device has none a memory object, and the bytes behind it.
struct Buffer {
  Buffer(const void* p, std::size_t bytes_behind = 0) : handle(const_cast<void*>(p)), offset(bytes_behind) {}
  void* address() const { return static_cast<char*>(handle) + offset; }
  void* handle;
  std::size_t offset;
};

/// One function of a program that a GPU runs. Safe to launch from several threads.
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

/// A point in the work of a stream.
class Event {
 public:
  virtual ~Event() = default;
};

/// Translates kernel sources for one architecture. Thread-safe.
class Compiler {
 public:
  virtual ~Compiler() = default;
  /// All besides source and options that the result depends on: compiler, version, target.
  virtual std::string identity() const = 0;
  /// The program; `log` gets what the compiler says. Throws InternalError with that text when it fails.
  virtual std::string compile(const std::string& source, const std::vector<std::string>& options,
                              std::string& log) const = 0;
};

struct Argument {
  enum class Kind { kBuffer, kValue } kind;
  const void* data;  // a Buffer, or a value of at most 128 bytes
  std::size_t bytes;
};

struct Launch {
  std::array<std::uint32_t, 3> blocks{1, 1, 1}, threads{1, 1, 1};
  std::uint32_t shared_bytes = 0;  // beside what the kernel declares
  std::uint32_t cluster = 1;       // blocks along x that run together; CUDA only
  bool programmatic = false;       // may begin before the kernel ahead of it ends; CUDA only
};

/// c = alpha * op(a) * op(b) + beta * c for `batch` matrices at a time, all stored by columns `step` elements apart;
/// c has m rows and n columns, op may transpose. Sums are in single precision, products too unless tf32 is allowed.
struct MatrixProduct {
  DataType in, out;
  bool tf32, transpose_a, transpose_b;
  std::int64_t m, n, k, step_a, step_b, step_c;
  std::int64_t batch, batch_step_a, batch_step_b, batch_step_c;
  int alignment;          // of the matrices in memory, in bytes
  std::size_t workspace;  // bytes it may use
};

class Stream;

/// A product by the library of the device's maker. Safe to run from several threads, and in a capture.
class Multiplier {
 public:
  struct Operands {
    const void *a, *b;
    void *c, *workspace;  // of the bytes that the product was made for
    float alpha, beta;
  };
  virtual ~Multiplier() = default;
  virtual void run(Stream&, const Operands&) const = 0;
};

/// One in-order queue of work on a device. On the CPU work is done when the call returns.
class Stream {
 public:
  virtual ~Stream() = default;
  /// Changes with the thread cap and with calibration; a reference stays valid for the process.
  virtual const DeviceInfo& info() const = 0;
  virtual const void* context() const = 0;  // programs and memory are those of streams with the same
  virtual void* native() const = 0;         // the caller's stream handle, null for the default one
  virtual void set_native(void*) = 0;       // work goes there from now on; BadParm where there is no such thing
  virtual void synchronize() = 0;
  /// On the device, in order. Host memory is the stream's own business on the CPU only.
  virtual void copy(Buffer dst, Buffer src, std::size_t bytes) = 0;
  /// From and to host memory, which may be reused or read when the call returns.
  virtual void upload(Buffer dst, const void* src, std::size_t bytes) = 0;
  virtual void download(void* dst, Buffer src, std::size_t bytes) = 0;
  virtual void* allocate(std::size_t bytes) = 0;  // 64-byte aligned; throws AllocFailed
  virtual void deallocate(void* p) noexcept = 0;
  virtual std::unique_ptr<Event> record() = 0;
  /// Waits for both. Of the same stream.
  virtual double elapsed_us(const Event& from, const Event& to) = 0;
  /// BadParm when the pointer is certainly not memory of this device. For cold paths.
  virtual void check_memory(const void* pointer, const char* what) const = 0;

  /// GPUs only; an error on the CPU.
  virtual const Compiler& compiler() const = 0;
  virtual std::shared_ptr<Module> load(const std::string& program) = 0;  // null when it is damaged
  virtual void launch(const Kernel&, const Launch&, std::span<const Argument>) = 0;
  /// The library's `choice`-th best way, or its last; null without a library, and when it has none.
  virtual std::unique_ptr<Multiplier> multiplier(const MatrixProduct&, int choice) {
    (void)choice;
    return nullptr;
  }
  /// While true nothing may be allocated, compiled or waited for.
  virtual bool capturing() const = 0;

  /// Work of the host; without threads on a GPU's stream. Tasks [0, tasks) run on at most threads() threads, in any
  /// order. Each gets scratch of at least `scratch_bytes` (64-byte aligned, private to the running thread, contents
  /// undefined). One task runs inline on the caller's thread. An exception of a task is rethrown here. In a forked
  /// child of the process that made the stream, threads() is 1 and every task runs inline.
  using Task = FunctionRef<void(std::size_t index, void* scratch)>;
  virtual void parallel_for(std::size_t tasks, std::size_t scratch_bytes, Task task) = 0;
  virtual int threads() const = 0;
  virtual void set_threads(int cap) = 0;                                    // 0: every core this process may use
  virtual void set_executor(ExecutorFunction function, void* context) = 0;  // null: the default
  /// Makes scratch for later calls now, so that they allocate nothing.
  virtual void reserve_scratch(std::size_t bytes_per_thread) = 0;
  virtual DevicePeak measure_peak() = 0;

  /// Peak and bandwidth in less than 50 ms, less precise than measure_peak.
  virtual DevicePeak quick_peak() = 0;
  /// Makes info() say so from now on, in every stream of the device with so many threads. Numbers that
  /// are not positive and finite are ignored: they may come from a file.
  virtual void calibrate(const DevicePeak&) = 0;
};

/// Launches with these arguments: Buffers, and values that kernels take as they are.
template <class... T>
void launch(Stream& stream, const Kernel& kernel, const Launch& shape, const T&... values) {
  constexpr auto kKind = []<class V>(const V*) {
    static_assert(std::is_trivially_copyable_v<V> && sizeof(V) <= 128);
    return std::is_same_v<V, Buffer> ? Argument::Kind::kBuffer : Argument::Kind::kValue;
  };
  const std::array arguments = {Argument{kKind(&values), &values, sizeof(values)}...};
  stream.launch(kernel, shape, arguments);
}

/// While one lives, work that this thread starts stops between tasks once `when` has passed; the call
/// that was running throws Stopped. Nests: the earliest counts. The outputs are then undefined.
class StopAt {
 public:
  explicit StopAt(std::chrono::steady_clock::time_point when);
  ~StopAt();
  StopAt(const StopAt&) = delete;
  StopAt& operator=(const StopAt&) = delete;
  /// The time that counts on this thread; time_point::max() without any.
  static std::chrono::steady_clock::time_point current();

  /// While one lives, this thread has no stop time: around foreign code.
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

/// Every device of this machine, CPU first. Opens the GPU's drivers.
const std::vector<DeviceInfo>& devices();

/// Whether there is a library of matrix products for the device. The first call opens it.
bool has_multipliers(const DeviceInfo&);

/// That library, or why it is not used; "" for devices that have none. The first call opens it.
const std::string& multiplier_note(const DeviceInfo&);

/// Why there is no device of this kind, "" if there is one.
const std::string& absence(DeviceKind);

/// The device of handles that name none: POLYMIO_DEVICE; else a CUDA device whose primary context is in use
/// or whose stream is given; else the CPU.
std::string default_device(void* native);

/// A stream on the device called `name` ("cpu", "cuda:0"); throws BadParm listing the devices otherwise.
std::unique_ptr<Stream> create_stream(const std::string& name, void* native);

/// A usual device of an architecture ("cuda-sm90", "hip-gfx90a"), to compile for where there is none.
DeviceInfo usual_device(const std::string& architecture);

/// A compiler for an architecture ("cuda-sm90") whose device need not be there; NotInitialized, with the
/// reason, when the compiler is not.
std::unique_ptr<Compiler> create_compiler(const std::string& architecture);

}  // namespace polymio
