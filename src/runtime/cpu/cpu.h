// The CPU as a device: description, executors, stream.
// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>

#include "runtime/device.h"

namespace polymio::cpu {

/// This machine's CPU with all cores that this process may use; detected once. POLYMIO_CPU_ISA caps the instruction
/// set.
const DeviceInfo& info();

/// The current description of the CPU with `threads` threads. Neither slots nor descriptions are ever destroyed.
using InfoSlot = std::atomic<const DeviceInfo*>;
InfoSlot& info_slot(int threads);
void calibrate(const DevicePeak& peak);

/// BadParm if `native` is neither a queue of the CPU nor null.
std::unique_ptr<Stream> create_stream(void* native);

/// An executor on at most `threads` threads. `kind`: "tbb" (a oneTBB arena, composable with the caller's own use of
/// oneTBB) or "threads" (std::thread workers, visible to ThreadSanitizer). Null in a process that was forked from one
/// with executors: the worker threads of oneTBB do not survive a fork.
std::unique_ptr<Executor> make_executor(const std::string& kind, int threads);

/// Number of forks between the first executor and this process. An executor of an older generation has lost its
/// threads: it can neither run nor be destroyed.
int generation();

/// Durations in milliseconds and memory size of a measurement.
struct Effort {
  double fma, fma_round, bandwidth;
  std::size_t bytes;
};
DevicePeak measure_peak(Stream& stream, const Effort& effort);

}  // namespace polymio::cpu
