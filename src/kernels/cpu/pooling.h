// Pooling: fp32, fp64; fp16, bf16 and, forward, int8 are computed in fp32.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>

#include "base/dtype.h"
#include "kernels/cpu/window.h"

namespace polymio::kernels {

/// Planes whose elements at one place are in lanes of vectors together.
inline constexpr std::int64_t kPlanes = 16;

/// Forward: out = y from in = x; backward: out = dx from in = dy. out = scale * (...) + keep * out. Work is cut into
/// lines: with `planes` kPlanes of these; with across_channels the elements of all channels, else of one channel, at
/// one (image, depth, height) of out.
struct Pooling {
  DataType type = DataType::kFloat;
  bool maximum = true, inclusive = false;
  bool across_channels = false;  // vectors of channels, which are contiguous in every tensor; else vectors of a row
  std::int64_t planes = 0;       // of images and channels, each contiguous in every tensor; 0: not in lanes
  WindowDim dims[3];             // depth, height, width
  std::int64_t channels = 1;
  const void* in = nullptr;
  void* out = nullptr;
  const void* x = nullptr;  // backward of a maximum without indices
  void* index = nullptr;    // written forward, read backward
  WindowStrides in_at, out_at, x_at, index_at;
  int index_bytes = 0;  // 1, 2, 4, 8, or 0: none
  bool image_index = false;
  double scale = 1, keep = 0;
  bool non_temporal = false;
  bool prefetches = false;  // forward: the rows that the next line of windows reads first
};

/// How far apart elements of one window are counted, at most.
inline constexpr std::int64_t kMostPositions = std::int64_t{1} << 30;

struct PoolingKernels {
  static constexpr bool kHasDotProducts = false;
  /// Bytes that a call of `forward` or `backward` needs.
  std::size_t (*scratch)(const Pooling&, bool backward);
  /// Lines [first, end).
  void (*forward)(const Pooling&, std::int64_t first, std::int64_t end, void* scratch);
  void (*backward)(const Pooling&, std::int64_t first, std::int64_t end, void* scratch);
  /// The gradient of maxima with indices, planes [first, end) of the images' channels; ignores across_channels.
  std::size_t (*scatter_scratch)(const Pooling&);
  void (*scatter)(const Pooling&, std::int64_t first, std::int64_t end, void* scratch);
};

}  // namespace polymio::kernels
