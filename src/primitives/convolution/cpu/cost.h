// The roofline model of all CPU solvers: compute cycles, divided among threads, plus the time of memory traffic.
// SPDX-License-Identifier: MIT
#pragma once
#include <cmath>

#include "primitives/convolution/convolution.h"

namespace polymio::convolution {

/// Cycles of copying a vector of contiguous elements.
inline constexpr double kCopyVectorCycles = 2.5;
/// Bytes of a cache line.
inline constexpr double kLineBytes = 64;

/// a / b rounded up.
inline double ceil_ratio(double a, double b) { return std::ceil(a / b); }

/// The cost of a parallel loop over independent pieces.
struct Work {
  double cycles = 0;   // of all pieces together
  double largest = 0;  // cycles of the largest piece
  double pieces = 1;
  double bytes = 0;  // memory traffic
  void add(const Work& other);
};

/// The device in units of the kernels. A cycle is the time of two vector multiply-adds of a core at its measured fp32
/// peak, which need not be a clock cycle.
class Machine {
 public:
  explicit Machine(const DeviceInfo&);

  /// Elements per vector of the type that `t` is computed in: fp64 or fp32.
  double lanes(DataType t) const { return t == DataType::kDouble ? vector_bytes_ / 8 : vector_bytes_ / 4; }
  /// Whether the instruction set has masked loads and stores (AVX2 and later).
  bool masked() const { return vector_bytes_ >= 32; }

  /// Microseconds of one parallel loop. `footprint`: bytes that every call uses again; the smaller they are, the more
  /// of them stay in the second-level caches.
  double loop_us(const Work&, double footprint) const;
  /// Whether this many bytes stay in the second-level cache of one core.
  bool fits_cache(double bytes) const { return bytes <= core_cache_; }

  /// Cycles of one depth step of a register tile of `rows` x `vectors` sums.
  static double tile_step(double rows, double vectors);

 private:
  double vector_bytes_, cycle_us_, threads_, bytes_us_, core_cache_, all_caches_;
};

/// `bytes` of memory traffic in separate chunks of `chunk` bytes, as the number of contiguous bytes that takes as long.
double effective_bytes(double bytes, double chunk);

/// Cycles of converting one element of a 16-bit type from or to fp32; of copying it for larger types.
double convert_cycles(DataType);

/// Cycles of copying a run of `length` elements with stride `stride` to contiguous memory, or back. `bounded`: parts of
/// it may be in the padding.
double run_cycles(const Machine&, DataType, double length, std::int64_t stride, bool bounded);

}  // namespace polymio::convolution
