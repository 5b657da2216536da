// Dropout over contiguous elements.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "base/dtype.h"
#include "kernels/cpu/skeletons.h"

namespace polymio::kernels {

/// Numbers from `least` on keep their element.
struct Draws {
  std::uint32_t least = 0;
  bool any = true;  // else no number does
};

struct DropoutKernels {
  static constexpr bool kHasDotProducts = false;
  /// One step of n generators, the k-th number of whose states are at states[k * pitch]; a multiple of 64 may be read
  /// and written. mask[i] = 1 if the number keeps element i, else 0.
  void (*draw)(const Draws& draws, std::uint32_t* states, std::int64_t pitch, std::int64_t n, std::uint8_t* mask);
  /// out[0] = in[0] * scale where the byte of in[1] is not 0, else 0: fp32, fp16, bf16 or fp64.
  void (*apply)(DataType type, double scale, bool non_temporal, const Run& run);
};

}  // namespace polymio::kernels
