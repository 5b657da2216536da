// Runs the FMA loop of the chosen ISA on one thread.
// SPDX-License-Identifier: MIT
#include <chrono>

#include "runtime/cpu/cpu.h"

namespace polymio::cpu {

namespace generic {
double fma_flops(long iterations, float* sink);
}
#if defined(__x86_64__)
namespace avx2 {
double fma_flops(long iterations, float* sink);
}
namespace avx512 {
double fma_flops(long iterations, float* sink);
}
#endif

namespace {

double run(CpuIsa isa, long iterations, float* sink) {
#if defined(__x86_64__)
  if (isa == CpuIsa::kAvx512) return avx512::fma_flops(iterations, sink);
  if (isa == CpuIsa::kAvx2) return avx2::fma_flops(iterations, sink);
#endif
  static_cast<void>(isa);
  return generic::fma_flops(iterations, sink);
}

}  // namespace

double run_fma(CpuIsa isa, double milliseconds) {
  using Clock = std::chrono::steady_clock;
  float sink = 0;
  double flops = 0;
  const auto start = Clock::now();
  do {
    flops += run(isa, 20000, &sink);
  } while (std::chrono::duration<double, std::milli>(Clock::now() - start).count() < milliseconds);
  return sink >= 0 ? flops : 0;
}

}  // namespace polymio::cpu
