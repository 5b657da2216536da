// What the solvers of direct convolution share: shapes, sides of tiles, limits and local memory.
// SPDX-License-Identifier: MIT
#pragma once
#include "primitives/convolution/gpu/arguments.h"

namespace polymio::convolution::gpu {

// As in the kernels.
constexpr std::int64_t kDirectThreads = 256, kDirectRun = 4;

/// A problem as a forward convolution from a source to a result: of x and y, or, if it mirrors the taps, y and x.
struct DirectProblem {
  kernels::DirectShape shape{};
  kernels::DirectWeights weights{};
  std::int64_t taps = 1, images = 1;

  DirectProblem(const Problem&, bool mirrors);

  bool source_is_last() const { return shape.src_channel == 1 && shape.channels > 1; }
  bool result_is_last() const { return shape.dst_channel == 1 && shape.outputs > 1; }

  /// Whether the result has quads along its innermost dimension where a thread has so many outputs.
  bool has_vectors(std::int64_t outputs) const;

  /// A tile of the result with sides of 2^log pixels, and its halo. False if a side is longer than the result needs.
  bool set_sides(kernels::DirectTile&, const int (&log)[3]) const;
  std::int64_t count(const kernels::DirectTile&) const;  // of tiles

  /// The distance of neighbouring channels of the source in local memory, which are copied at once, in other banks.
  std::int64_t plane_of(std::int64_t floats) const;

  /// Sets how many threads copy a row of the tile.
  void set_lanes(kernels::DirectTile&) const;
};

/// Whether a launch sizes local memory, not the program.
bool sizes_local_memory(const DeviceInfo&);

/// Floats of local memory for a block, of which two fit a multiprocessor of CUDA.
std::int64_t most_direct_floats(const DeviceInfo&);

/// What a block takes that needs so many: few sizes where programs declare them.
std::int64_t direct_floats(const DeviceInfo&, std::int64_t floats);

/// Types, channels on the side that has fewer, and what fits the 32-bit indices of kernels.
Verdict check_direct(const DeviceInfo&, const Problem&, bool mirrors, bool fuses);

}  // namespace polymio::convolution::gpu
