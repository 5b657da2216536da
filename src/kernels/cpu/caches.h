// What kernels assume about the caches that cores share.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

namespace polymio::kernels {

/// Bytes of results that whoever reads them next may find in a cache; larger ones are written past the caches. Half of a
/// third-level cache of 16 to 64 MiB, such as some cores share; 8 MiB with a smaller one, and with a larger one, which a
/// whole server shares.
std::int64_t result_caches();

}  // namespace polymio::kernels
