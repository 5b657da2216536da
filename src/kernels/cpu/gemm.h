// Matrix multiplication over implicit operands: C = alpha * A * B + beta * C.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/operand.h"

namespace polymio::kernels {

/// The most depths per block: the depth is summed in equal blocks, and the blocks' sums are added in order. (Dot
/// products of few lanes: vectors per block.)
inline constexpr std::int64_t kGemmDepthBlock = 512;

struct Epilogue;

/// One product; k == 0 is allowed (C = beta * C). Types: all three fp64, or each of them
/// fp32, fp16 or bf16 (converted to fp32 when loaded, rounded once when stored).
struct Gemm {
  std::int64_t m = 0, n = 0, k = 0;
  Operand a, b;
  Output c;
  double alpha = 1, beta = 0;                  // beta == 0: C is never read
  std::int64_t depth_block = kGemmDepthBlock;  // determines the order of summation
  const Epilogue* epilogue = nullptr;          // of C, which is its `y`; applied once sums are complete
  /// Depths per block; blocks are equal except for a smaller last one.
  std::int64_t depth_step() const;
};

/// Register tile of a product: C that is cut into multiples of rows x columns has no edge tiles.
struct TileShape {
  std::int64_t rows = 1, columns = 1;  // register tile
  std::int64_t lanes = 1;              // columns are computed in multiples of it
  bool pairs = false, amx = false;     // dot operands are pairs; AMX tile registers
};

/// The most rows per call whose scratch fits the second-level cache if A is copied, the depth block is kGemmDepthBlock
/// and elements have four bytes.
inline constexpr std::int64_t kGemmRowBlock = 512;

struct GemmKernels {
  static constexpr bool kHasDotProducts = true;
  /// Register tile for a type of C; DataType::kDouble or any 32/16-bit float.
  TileShape (*tile)(DataType type);
  /// Scratch bytes of a call on `rows` x `columns` of C.
  std::size_t (*scratch)(const Gemm& gemm, std::int64_t rows, std::int64_t columns);
  /// Computes rows [m0, m1) x columns [n0, n1) of C over all of k. Results do not depend on how C is cut.
  void (*run)(const Gemm& gemm, std::int64_t m0, std::int64_t m1, std::int64_t n0, std::int64_t n1, void* scratch);
};

}  // namespace polymio::kernels
