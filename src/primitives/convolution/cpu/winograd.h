// What the Winograd solvers share: what they take on, how they cut channels, what transforms cost.
// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <vector>

#include "primitives/convolution/convolution.h"

namespace polymio::convolution {

inline constexpr std::int64_t kMostWinogradScratch = 2 << 20;
inline constexpr std::int64_t kWinogradBlock = 64;  // channels of blocks

/// Stride 1, any dilation, filters that are large enough but not huge, enough channels, layouts that can be read in
/// vectors.
Verdict check_winograd(const Problem&);

/// The tiles that suit a problem's filter, of 4 and 6 points across or, large, of 8; the taps that go with one.
std::vector<int> winograd_tiles(const Problem&, bool large);
int winograd_taps(const Problem&, bool large, int tile);

/// Blocks of equal size, multiples of `unit`, at most `most`.
std::int64_t equal_blocks(std::int64_t size, std::int64_t most, std::int64_t unit);

/// Cuts all tiles into equal blocks of at most `tiles`, whole bands, and shrinks them until scratch(job) fits.
template <class Job, class Scratch>
void cut_tiles(Job& job, std::int64_t tiles, const Scratch& scratch) {
  const auto parts = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  const std::int64_t band = job.band(), all = std::max<std::int64_t>(job.all_tiles() / band, 1);
  std::int64_t bands = parts(all, parts(all, std::max<std::int64_t>(tiles / band, 1)));
  job.tiles = bands * band;
  while (bands > 1 && static_cast<std::int64_t>(scratch(job)) > kMostWinogradScratch) {
    bands = (bands + 1) / 2;
    job.tiles = bands * band;
  }
}

/// Cycles of transforms: of one tile and a vector of channels, of one input channel and a vector of outputs.
/// Measured for 3x3 filters and scaled by operations for others, as kWinogradStalls is on whole layers: what transforms
/// and products lose to each other in the caches.
struct WinogradCycles {
  double input, filter, output, slopes;  // slopes: of dy
};
inline constexpr double kWinogradStalls = 1.4;
WinogradCycles winograd_cycles(int tile, int taps);

/// Backward weights, with 4 and 6 points across or with 8.
const Solver<Problem>& cpu_winograd_weights(bool large);

}  // namespace polymio::convolution
