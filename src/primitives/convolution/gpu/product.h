// The tiled product of implicit_gemm.cl as a part of solvers: on the tensors of a problem, or on matrices that a solver
// keeps in the workspace and describes as those of a 1x1 convolution.
// SPDX-License-Identifier: MIT
#pragma once
#include <vector>

#include "core/kernel_builder.h"
#include "primitives/convolution/gpu/arguments.h"

namespace polymio::convolution::gpu {

class Product {
 public:
  /// Tiles, the first kDefaultTiles of which serve most shapes.
  static constexpr int kTiles = 5, kDefaultTiles = 3;

  Product(const DeviceInfo&, const Problem&, int tile);
  /// With the tile that is predicted to be the fastest.
  static int best_tile(const DeviceInfo&, const Problem&);

  Verdict check() const;          // whether the kernel can count so far
  std::size_t workspace() const;  // bytes, from its beginning on
  double predict(const DeviceInfo&) const;
  std::vector<KernelSpec> kernels() const;

  /// Buffers, and where in them the tensors begin, in elements.
  struct Call {
    Operands tensors;
    Buffer workspace;
    float alpha, beta;
    bool aligned;  // all of them, to 16 bytes
    std::int64_t first_at = 0, second_at = 0, output_at = 0;
  };
  /// `built` holds kernels() from `first` on.
  void run(Stream&, const Kernels& built, std::size_t first, const Call&) const;

 private:
  struct Tile {
    int m, n, k, thread_m, thread_n, resident;
    double efficiency;
    std::int64_t threads() const { return std::int64_t{m / thread_m} * (n / thread_n); }
  };
  static const Tile kTileTable[kTiles];

  bool weights() const { return packed_ == 0; }
  std::size_t programs_kernels() const { return weights() ? 2 : 3; }
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
  std::int64_t rows_ = 0, packed_ = 0, result_ = 0;  // rows and elements of packed weights; elements of the result
  std::int64_t weight_group_ = 0, weight_reduced_ = 0, weight_output_ = 0, weight_row_ = 0, weight_col_ = 0;
};

}  // namespace polymio::convolution::gpu
