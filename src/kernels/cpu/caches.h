// What kernels assume about the caches that cores share.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

namespace polymio::kernels {

/// Bytes of results that whoever reads them next may find in a cache; larger ones are written past the caches. Best of
/// those measured on a Zen 5 with 32 MiB of third-level cache for two cores, and on a Xeon with 300 MiB for a server's.
inline constexpr std::int64_t kResultCaches = 8 << 20;

/// Whether kernels prefetch what they read in many streams at once. AMD's hardware prefetchers follow few streams (Zen
/// 5: 1.2 to 3 times as fast); a Xeon's follow them all (0.85 times). Others were not measured.
bool fetches_streams();

/// Whether vectors are permuted and transposed while others are multiplied: Intel's processors do both by the same
/// unit.
bool permutes_beside_products();

}  // namespace polymio::kernels
