// The device in units of the kernels, and the cost of copies that all solvers make. Costs in cycles (see Machine) were
// measured on a Xeon (Sapphire Rapids) with AVX-512; only their ratios matter.
// SPDX-License-Identifier: MIT
#include "primitives/convolution/cpu/cost.h"

#include <algorithm>
#include <cmath>

namespace polymio::convolution {
namespace {

constexpr double kLoopUs = 0.02;       // a parallel loop that runs inline
constexpr double kWakeUs = 3;          // a parallel loop that wakes other threads
constexpr double kRunCycles = 10;      // packing: set-up of a run of elements with one stride
constexpr double kClipCycles = 10;     // clipping a run against the padding
constexpr double kConvertCycles = 2;   // converting a vector from or to a 16-bit type
constexpr double kStride2Cycles = 5;   // copying a vector of elements with stride 2
constexpr double kElementCycles = 1;   // copying or converting a single element
constexpr double kFp16Cycles = 1.8;    // the same for fp16
constexpr double kCacheSpeed = 6;      // bandwidth of the second-level cache over that of memory
constexpr double kLatencyBytes = 100;  // contiguous bytes that take as long as the access to a new chunk

}  // namespace

void Work::add(const Work& other) {
  cycles += other.cycles;
  largest = std::max(largest, other.largest);
  pieces += other.pieces;
  bytes += other.bytes;
}

Machine::Machine(const DeviceInfo& d) {
  vector_bytes_ = d.isa >= CpuIsa::kAvx512 ? 64 : d.isa == CpuIsa::kAvx2 ? 32 : 16;
  threads_ = std::max(d.threads, 1);
  // Operations per cycle; SSE2 has no fused multiply-add.
  const double flops = vector_bytes_ / 4 * (d.isa == CpuIsa::kGeneric ? 2 : 4);
  cycle_us_ = flops * 1e-3 * threads_ / std::max(d.fp32_gflops, 0.1);
  bytes_us_ = std::max(d.bandwidth_gbs, 0.1) * 1e3;
  core_cache_ = 0.75 * static_cast<double>(d.cache_bytes[1]);
  all_caches_ = core_cache_ * std::min(threads_, static_cast<double>(d.units));
}

double Machine::loop_us(const Work& w, double footprint) const {
  const double rounds = w.pieces / threads_;
  const double compute = (w.cycles / threads_ + w.largest * (std::ceil(rounds) - rounds)) * cycle_us_;
  // The larger the footprint, the smaller the part of it that is still in a cache.
  const double cache_factor =
      std::clamp(kCacheSpeed * std::sqrt(all_caches_ / std::max(footprint, 1.0)), 1.0, kCacheSpeed);
  const double memory = w.bytes / (bytes_us_ * std::min(1.0, rounds) * cache_factor);
  // Packing waits for memory: the sum is closer to measured times than the maximum of the two.
  return compute + memory + (std::min(w.pieces, threads_) > 1 ? kWakeUs : kLoopUs);
}

double Machine::tile_step(double rows, double vectors) {
  // 2 multiply-adds and 2 loads per cycle; a multiply-add has a latency of 4 cycles.
  return std::max({rows * vectors / 2, (rows + vectors) / 2, 4.0});
}

double effective_bytes(double bytes, double chunk) { return bytes * (1 + kLatencyBytes / std::max(chunk, kLineBytes)); }

double convert_cycles(DataType type) { return type == DataType::kHalf ? kFp16Cycles : kElementCycles; }

double run_cycles(const Machine& m, DataType type, double length, std::int64_t stride, bool bounded) {
  const double start = kRunCycles + (bounded ? kClipCycles : 0), vectors = ceil_ratio(length, m.lanes(type));
  const bool converts = size_of(type) <= 2;
  if (stride == 1 && (!converts || m.masked()))
    return start + vectors * (kCopyVectorCycles + (converts ? kConvertCycles : 0));
  if (!converts && stride == 2 && m.masked()) return start + vectors * kStride2Cycles;
  return start + length * convert_cycles(type);
}

}  // namespace polymio::convolution
