// The CPU as a device: description, executors, stream.
// SPDX-License-Identifier: MIT
#pragma once
#include "runtime/device.h"

namespace polymio::cpu {

/// This machine's CPU; detected once. POLYMIO_CPU_ISA caps the instruction set.
const DeviceInfo& info();

std::unique_ptr<Stream> create_stream();

/// An executor on at most `threads` threads. `kind`: "tbb" (one oneTBB arena, composable with the
/// caller's own use of oneTBB) or "threads" (std::thread workers, visible to ThreadSanitizer).
std::unique_ptr<Executor> make_executor(const std::string& kind, int threads);

/// Multiplies and adds on this thread for about `milliseconds`; returns the operations done.
double run_fma(CpuIsa isa, double milliseconds);

}  // namespace polymio::cpu
