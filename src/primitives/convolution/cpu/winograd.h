// Shared by the Winograd solvers: applicability, cuts of channels and tiles, cost of the transforms.
// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <vector>

#include "base/math.h"
#include "primitives/convolution/convolution.h"

namespace polymio::convolution {

inline constexpr std::int64_t kMostWinogradScratch = 2 << 20;
inline constexpr std::int64_t kWinogradBlock = 64;  // channels per block

/// Accepts stride 1, any dilation, filters of 3 to 12 taps in the last two dimensions, 16 or more channels per group,
/// and tensors whose width or channels are contiguous.
Verdict check_winograd(const Problem&);

/// Output tile sizes m for a problem's filter, F(m x m, r x r), with m + r - 1 = 4 or 6 points, or 8 if `large`; and
/// the taps r of a tile size.
std::vector<int> winograd_tiles(const Problem&, bool large);
int winograd_taps(const Problem&, bool large, int tile);

/// The block size when `size` channels are cut into equal blocks of about `most`: a multiple of `unit`, at most `size`.
std::int64_t equal_blocks(std::int64_t size, std::int64_t most, std::int64_t unit);

/// Cuts the tiles into equal blocks of whole bands, of at most `tiles` tiles, and shrinks them until scratch(job) fits.
template <class Job, class Scratch>
void cut_tiles(Job& job, std::int64_t tiles, const Scratch& scratch) {
  const std::int64_t band = job.band(), all = std::max<std::int64_t>(job.all_tiles() / band, 1);
  std::int64_t bands = ceil_div(all, ceil_div(all, std::max<std::int64_t>(tiles / band, 1)));
  job.tiles = bands * band;
  while (bands > 1 && static_cast<std::int64_t>(scratch(job)) > kMostWinogradScratch) {
    bands = (bands + 1) / 2;
    job.tiles = bands * band;
  }
}

/// Cycles (see Machine) of the transforms: input, output and gradient per tile and vector of channels, filter per input
/// channel and vector of output channels. Measured for 3x3 filters, scaled by the number of operations for others
/// (machine and command were not recorded).
struct WinogradCycles {
  double input, filter, output;
  double gradient;  // of a tile of dy
};
/// Time of whole layers over the sum of transforms and products, which evict each other from the caches; measured
/// (docs/kernels/winograd.md).
inline constexpr double kWinogradStalls = 1.4;
WinogradCycles winograd_cycles(int tile, int taps);

/// The backward weights solver, with 4 and 6 points or, `large`, with 8.
const Solver<Problem>& cpu_winograd_weights(bool large);

}  // namespace polymio::convolution
