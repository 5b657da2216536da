// Operands of matrix products (wgmma) in shared memory.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/sm90/entry.cuh"

namespace sm90 {

/// Bytes of a row of an operand in shared memory, in which 16-byte pieces are swizzled as maps with a swizzle of 128
/// bytes do: piece ^= row % 8. Operands begin at multiples of 1024 bytes.
constexpr int kRowBytes = 128;

/// The descriptor of an operand at this address, in units of 16 bytes in its low bits: an offset is added as
/// bytes / 16. `box` is the distance in bytes between boxes of 64 rows or columns of an operand that is contiguous
/// along them (transposed); others have none. With kRow = 64 rows are half as long, and so is the swizzle.
template <int kRow = kRowBytes>
DEVICE u64 operand(u32 shared, u32 box = 16) {
  static_assert(kRow == 128 || kRow == 64);
  constexpr u64 kSwizzle = u64(kRow == 128 ? 1 : 2) << 62, kEightRows = 8 * kRow;
  constexpr u32 kOfBlock = 0x3ffff;  // the other bits of an address are the block's in its cluster
  return ((shared & kOfBlock) >> 4) | u64(box >> 4) << 16 | (kEightRows >> 4) << 32 | kSwizzle;
}

/// Results that are rounded to nearest.
struct Nearest {
  static constexpr bool kDithers = false;
};

/// Operands of kBytes whose sums are fp32.
template <int kBytes>
struct Operands : Nearest {
  using Sum = float;
  static constexpr int kOperandBytes = kBytes, kParts = 1;
  static constexpr bool kAddsSteps = false;
};

/// Floats of 8 bits (e4m3 or e5m2, which multiply() knows) with another type of results. The matrix unit's sums have
/// about 14 bits, so that those of every step are added to sums of fp32.
template <class Result>
struct Float8 : Result {
  using Sum = float;
  static constexpr int kOperandBytes = 1, kParts = 1;
  static constexpr bool kAddsSteps = true;
};

/// Floats of 16 bits, likewise.
template <class Result>
struct Float16 : Result {
  using Sum = float;
  static constexpr int kOperandBytes = 2, kParts = 1;
  static constexpr bool kAddsSteps = false;
};

/// Integers, likewise. kScales: the sums are multiplied by alpha and beta times the old result is added.
template <class Result, bool kScales>
struct Int8 : Result {
  using Sum = int;
  static constexpr int kOperandBytes = 1, kParts = 1;
  static constexpr bool kAddsSteps = false, kScaled = kScales;
};

}  // namespace sm90
