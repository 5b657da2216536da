// The roofline that all CPU solvers predict with: cycles of the work, shared among threads, and the bytes
// that must move.
// SPDX-License-Identifier: MIT
#pragma once
#include <cmath>

#include "primitives/convolution/convolution.h"
#include "primitives/convolution/cpu/products.h"

namespace polymio::convolution {

/// a / b rounded up.
inline double ceil_ratio(double a, double b) { return std::ceil(a / b); }

/// Work that is cut into independent pieces.
struct Work {
  double cycles = 0;   // of all pieces
  double largest = 0;  // of one piece
  double pieces = 1;
  double bytes = 0;  // that must come from memory or go there
  void add(const Work& other);
};

/// The device as the kernels see it. A cycle is the time in which a core at its peak multiplies and adds two
/// vectors, whatever its clock is.
class Machine {
 public:
  explicit Machine(const DeviceInfo&);

  /// Elements of a vector in the type that `t` is computed in.
  double lanes(DataType t) const { return t == DataType::kDouble ? vector_bytes_ / 8 : vector_bytes_ / 4; }
  bool masked() const { return vector_bytes_ >= 32; }
  std::int64_t tile_rows() const { return vector_bytes_ == 64 ? 8 : 4; }

  /// Microseconds of one parallel loop. `footprint` bytes are used again by each call: what fits the
  /// second-level caches is not read from memory.
  double loop_us(const Work&, double footprint) const;
  /// Whether so much stays in the second-level cache of one core.
  bool fits_cache(double bytes) const { return bytes <= core_cache_; }

  /// Cycles of one step of a register tile: `rows` times `vectors` sums.
  static double tile_step(double rows, double vectors);

 private:
  double vector_bytes_, cycle_us_, threads_, bytes_us_, core_cache_, all_caches_;
};

/// Bytes that could be read in order while `bytes` are read or written in chunks that lie apart.
double jump_bytes(double bytes, double chunk);

/// Cycles of narrowing or widening one element of a type, of a plain copy for the wide ones.
double convert_cycles(DataType);

/// Bytes of the tensors that products read, by kernels::ConvTensor.
struct TensorBytes {
  double of[3];
};

/// One parallel loop over all pieces of the products, as they will be cut.
Work products_work(const Machine&, const std::vector<kernels::ConvProduct>&, std::int64_t groups,
                   const kernels::TileShape&, int threads, const ProductTuning&, const TensorBytes&);

/// Microseconds of products_invoker.
double own_products_us(const DeviceInfo&, const Problem&, const ProductTuning&);

/// Cycles of copying `length` elements that are `stride` apart into a line, or back; a `run` of them.
double run_cycles(const Machine&, DataType, double length, std::int64_t stride, bool bounded);

}  // namespace polymio::convolution
