// The tiled matrix product of implicit_gemm.cl, shared by solvers: on the tensors of a problem, or on matrices in the
// workspace that a solver describes as a 1x1 convolution.
// SPDX-License-Identifier: MIT
#pragma once
#include <vector>

#include "core/kernel_builder.h"
#include "primitives/convolution/gpu/arguments.h"

namespace polymio::convolution::gpu {

class Product {
 public:
  /// best_tile() chooses among the first kDefaultTiles tiles; the others are for tuning.
  static constexpr int kTiles = 5, kDefaultTiles = 3;

  Product(const DeviceInfo&, const Problem&, int tile);
  /// The tile with the least predicted time.
  static int best_tile(const DeviceInfo&, const Problem&);

  Verdict check() const;          // whether 32-bit indices suffice
  std::size_t workspace() const;  // bytes, at the beginning of the workspace
  double predict(const DeviceInfo&) const;
  std::vector<KernelSpec> kernels() const;

  /// Buffers and the element offsets of the tensors in them.
  struct Call {
    Operands tensors;
    Buffer workspace;
    float alpha, beta;
    bool aligned;  // all tensors, to 16 bytes
    std::int64_t first_at = 0, second_at = 0, output_at = 0;
  };
  /// built[first] and the following are kernels().
  void run(Stream&, const Kernels& built, std::size_t first, const Call&) const;

 private:
  struct Tile {
    int m, n, k, thread_m, thread_n, resident;
    double efficiency;
    std::int64_t threads() const { return std::int64_t{m / thread_m} * (n / thread_n); }
  };
  static const Tile kTileTable[kTiles];

  bool weights() const { return packed_ == 0; }
  std::size_t kernels_per_variant() const { return weights() ? 2 : 3; }
  std::int64_t sums() const { return packed_ + (shape_.splits > 1 ? shape_.splits * result_ : 0); }
  void set_shape(const Problem&);
  void plan_weights(const DeviceInfo&, const Problem&);
  void plan_data(const DeviceInfo&, const Problem&);
  int splits_for(const DeviceInfo&) const;
  void pack(Stream&, const Kernel&, const Call&) const;

  Tile tile_;
  Direction direction_;
  DataType in_, out_;
  double tensor_bytes_;
  kernels::ProductShape shape_{};
  bool fast_n_ = false, quads_ = false, flat_ = false, fast_channel_ = false;
  std::int64_t groups_ = 1, taps_ = 1, blocks_ = 0, steps_ = 0;
  std::int64_t rows_ = 0, packed_ = 0, result_ = 0;  // packed weights: rows and elements; elements of the result
  std::int64_t weight_group_ = 0, weight_reduced_ = 0, weight_output_ = 0, weight_row_ = 0, weight_col_ = 0;
};

}  // namespace polymio::convolution::gpu
