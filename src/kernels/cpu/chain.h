// Elementwise operations on blocks of floats, of which chains of pointwise nodes are made.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "base/dtype.h"

namespace polymio::kernels {

/// Result from a, b and c. Comparisons give 1 or 0.
enum class ChainOp : std::uint8_t {
  kConstant,  // shift
  kAffine,    // a * scale + shift
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMin,  // NaN if either is NaN
  kMax,
  kMinNumber,  // the other one if either is NaN
  kMaxNumber,
  kLess,
  kLessEqual,
  kEqual,
  kSelect,  // a != 0 ? b : c
  kAbs,
  kExp,
  kExpm1,  // e^a - 1 for a <= 0
  kLog,
  kLog1p,  // log(1 + a) for 0 <= a <= 1
  kTanh,
  kErf,
  // Those below have no vector kernel.
  kSqrt,
  kFloor,
  kCeil,
  kSin,
  kCos,
  kTan,
  kPow,
  kMod,  // the remainder of a / b with the sign of a
};

inline constexpr ChainOp kLastVectorOp = ChainOp::kErf;
inline constexpr std::int64_t kChainBlock = 256;  // elements of a block: a multiple of every vector's

template <class T>
struct ChainStep {
  ChainOp op = ChainOp::kConstant;
  const T *a = nullptr, *b = nullptr, *c = nullptr;
  T* out = nullptr;  // may be a, b or c
  T scale = 1, shift = 0;
};

struct ChainKernels {
  static constexpr bool kHasDotProducts = false;
  /// A block of kChainBlock elements; operations up to kLastVectorOp.
  void (*apply)(const ChainStep<float>& step);
  /// n elements of fp16 or bf16 to and from floats.
  void (*load)(DataType type, const void* from, float* to, std::int64_t n);
  void (*store)(DataType type, const float* from, void* to, std::int64_t n);
};

}  // namespace polymio::kernels
