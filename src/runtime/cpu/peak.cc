// Peak arithmetic and memory bandwidth of a stream: the best of many short rounds, because the scheduler may take tens
// of milliseconds to distribute the threads, and other processes use the machine, too.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <chrono>
#include <memory>
#include <new>

#include "base/built_isas.h"
#include "base/error.h"
#include "runtime/cpu/cpu.h"

namespace polymio::cpu {

#define DECLARE(id, name, here)                   \
  namespace name {                                \
  double fma_flops(long iterations, float* sink); \
  }
POLYMIO_BUILT_ISAS(DECLARE)
#undef DECLARE

namespace {

double fma_flops(CpuIsa isa, long iterations, float* sink) {
  double (*least)(long, float*) = nullptr;
#define CHOOSE(id, name, here) \
  least = name::fma_flops;     \
  if (isa >= CpuIsa::id) return least(iterations, sink);
  POLYMIO_BUILT_ISAS(CHOOSE)
#undef CHOOSE
  return least(iterations, sink);
}

class Clock {
 public:
  double ms() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// The best rate, in units of work per second of wall time. Calls `round`, which returns its units of work, until the
/// time is over and at least twice; the first call warms up.
template <class Round>
double best_rate(double milliseconds, Round round) {
  const Clock all;
  round();
  double best = 0;
  do {
    const Clock one;
    const double done = round();
    best = std::max(best, done / one.ms() * 1e3);
  } while (all.ms() < milliseconds);
  return best;
}

double fma_rate(Stream& stream, const Effort& effort) {
  const DeviceInfo& device = stream.info();
  std::vector<double> flops(static_cast<std::size_t>(std::min(device.threads, device.units)));
  std::vector<float> sinks(flops.size());
  return best_rate(effort.fma, [&] {
    stream.parallel_for(flops.size(), 0, [&](std::size_t i, void*) {
      const Clock clock;
      for (flops[i] = 0; clock.ms() < effort.fma_round;) flops[i] += fma_flops(device.isa, 20000, &sinks[i]);
    });
    double sum = 0;
    for (std::size_t i = 0; i < flops.size(); ++i) sum += sinks[i] >= 0 ? flops[i] : 0;
    return sum;
  });
}

/// Bytes per second of summing a buffer that should exceed the caches, in two parts per thread.
double read_rate(Stream& stream, const Effort& effort) {
  const std::size_t pieces = 2 * static_cast<std::size_t>(stream.threads());
  const std::size_t piece = effort.bytes / sizeof(double) / pieces / 8 * 8;
  const std::unique_ptr<double[]> data(new (std::nothrow) double[pieces * piece]);
  if (!data) fail(Status::kAllocFailed, "cannot allocate {} bytes to measure the memory bandwidth", effort.bytes);
  std::vector<double> sums(pieces);
  // First touch: pages are allocated when they are written.
  stream.parallel_for(pieces, 0, [&](std::size_t t, void*) { std::fill_n(data.get() + t * piece, piece, 1.0); });
  return best_rate(effort.bandwidth, [&] {
    stream.parallel_for(pieces, 0, [&](std::size_t t, void*) {
      double s[8] = {};
      const double* p = data.get() + t * piece;
      for (std::size_t i = 0; i < piece; i += 8)
        for (std::size_t j = 0; j < 8; ++j) s[j] += p[i + j];
      sums[t] = s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7];
    });
    return sums[0] > 0 ? static_cast<double>(pieces * piece * sizeof(double)) : 0;
  });
}

}  // namespace

DevicePeak measure_peak(Stream& stream, const Effort& effort) {
  const int threads = stream.threads();
  return {fma_rate(stream, effort) * 1e-9, read_rate(stream, effort) * 1e-9, threads};
}

}  // namespace polymio::cpu
