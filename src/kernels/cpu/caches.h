// What kernels assume about the caches that cores share.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

namespace polymio::kernels {

/// Bytes of results that whoever reads them next finds in a cache: half of the third-level cache, if it belongs to a few
/// cores. One of more than 64 MiB is a whole server's, of which a core's share is small: 8 MiB. Larger results are written
/// past the caches.
std::int64_t result_caches();

}  // namespace polymio::kernels
