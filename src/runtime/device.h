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
#include <string>
#include <vector>

#include "base/function_ref.h"

namespace polymio {

/// Numbers equal polymioDeviceKind_t; solvers OR them together.
enum class DeviceKind : unsigned { kCpu = 1, kCuda = 2, kOpenCl = 4, kHip = 8 };

/// Highest instruction set that CPU kernels may use, weakest first.
enum class CpuIsa : int { kGeneric = 0, kAvx2 = 1, kAvx512 = 2, kAvx512Bf16 = 3 };

struct DeviceInfo {
  DeviceKind kind = DeviceKind::kCpu;
  std::string name;          // as POLYMIO_DEVICE takes it: "cpu"
  std::string model;         // what the maker calls it
  std::string architecture;  // the database's device class: "cpu-intel-6-207"
  int units = 1;             // cores this process may use, or multiprocessors
  std::size_t memory_bytes = 0;
  std::array<std::size_t, 3> cache_bytes{};  // L1 data, L2 (per core), L3 (shared)
  CpuIsa isa = CpuIsa::kGeneric;
  int threads = 1;           // that work of the stream may use
  double fp32_gflops = 0;    // peak with these threads: measured once calibrated, else nominal
  double bandwidth_gbs = 0;  // memory bandwidth with these threads, likewise
  bool calibrated = false;
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

/// One in-order queue of work on a device. On the CPU work is done when the call returns.
class Stream {
 public:
  virtual ~Stream() = default;
  /// Changes with the thread cap and with calibration; a reference stays valid for the process.
  virtual const DeviceInfo& info() const = 0;
  virtual void* native() const = 0;  // the caller's stream handle, null for the default one
  virtual void synchronize() = 0;
  virtual void copy(void* dst, const void* src, std::size_t bytes) = 0;
  virtual void* allocate(std::size_t bytes) = 0;  // 64-byte aligned; throws AllocFailed
  virtual void deallocate(void* p) noexcept = 0;

  /// CPU only. Tasks [0, tasks) run on at most threads() threads, in any order. Each gets scratch of
  /// at least `scratch_bytes` (64-byte aligned, private to the running thread, contents undefined).
  /// One task runs inline on the caller's thread. An exception of a task is rethrown here. In a forked
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

/// Every device of this machine, CPU first.
const std::vector<DeviceInfo>& devices();

/// A stream on the device called `name` ("cpu"); throws BadParm listing the devices otherwise.
std::unique_ptr<Stream> create_stream(const std::string& name, void* native);

}  // namespace polymio
