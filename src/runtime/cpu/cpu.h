// The CPU as a device: description, executors, stream.
// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>

#include "runtime/device.h"

namespace polymio::cpu {

/// This machine's CPU with all cores that may be used; detected once. POLYMIO_CPU_ISA caps the
/// instruction set.
const DeviceInfo& info();

/// What is known now of the CPU with so many threads. Lives as long as the process, with all that it
/// ever pointed to.
using InfoSlot = std::atomic<const DeviceInfo*>;
InfoSlot& info_slot(int threads);
void calibrate(const DevicePeak& peak);

std::unique_ptr<Stream> create_stream();

/// An executor on at most `threads` threads. `kind`: "tbb" (one oneTBB arena, composable with the
/// caller's own use of oneTBB) or "threads" (std::thread workers, visible to ThreadSanitizer). Null in
/// a process that was forked from one with executors: oneTBB would miss its threads.
std::unique_ptr<Executor> make_executor(const std::string& kind, int threads);

/// Counts the forks, since the first executor, that lead to this process. An executor that was made
/// before the last of them has lost its threads: it can neither run nor be destroyed.
int generation();

/// How long to measure, in milliseconds, and on how much memory.
struct Effort {
  double fma, fma_round, bandwidth;
  std::size_t bytes;
};
DevicePeak measure_peak(Stream& stream, const Effort& effort);

}  // namespace polymio::cpu
