// Properties of caches, prefetchers and ports that kernels and planners assume.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

namespace polymio::kernels {

/// Kernels write results larger than this many bytes with non-temporal stores. The best of the values measured on a
/// Zen 5 with 32 MiB of third-level cache for two cores and on a Xeon with 300 MiB for all cores of a server
/// (docs/kernels/overview.md).
inline constexpr std::int64_t kResultCaches = 8 << 20;

/// Whether kernels that read many streams at once prefetch in software. AMD's hardware prefetchers follow few streams
/// (Zen 5: 1.2 to 3 times as fast with software prefetch); a Xeon's follow all of them (0.85 times). Other processors
/// were not measured.
bool fetches_streams();

/// The same of kernels that only reduce rows, and merge the lanes of some at once. Without, a Zen 4 reads rows of 1 to
/// 4 KiB from memory 1.1 to 1.4 times as fast, longer and shorter ones 0.86 to 1.1 times. Other processors: as
/// fetches_streams().
bool fetches_merged_rows();

/// Whether shuffles execute in parallel with multiply-adds. On Intel's processors both need the same port.
bool permutes_beside_products();

}  // namespace polymio::kernels
