// What the caches of a CPU keep of a problem's tensors until the next call.
// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstdint>

#include "kernels/cpu/caches.h"
#include "runtime/device.h"

namespace polymio::common {

/// Whether the caches do not keep `bytes`, read and written, so that non-temporal stores pay. A virtual machine reports
/// the L3 cache of a whole server, most of which other machines use: as much is assumed as kernels assume for results,
/// and for the operands that they are computed from.
inline bool exceeds_caches(const DeviceInfo& d, double bytes) {
  constexpr std::size_t kKept = 2 * kernels::kResultCaches;
  return bytes > static_cast<double>(std::min(d.cache_bytes[2], kKept));
}

constexpr std::int64_t kCacheLine = 64;  // bytes

/// Whether kernels that read some rows of so many bytes at once prefetch the next ones, which the caches do not keep;
/// the hardware prefetches shorter rows. Without, a Zen 5 takes 1.5 times as long with rows of 400 bytes and 0.7 times
/// as long with 128.
inline bool prefetches_rows(std::int64_t row) { return kernels::fetches_streams() && row > 2 * kCacheLine; }

/// Whether non-temporal stores suit contiguous runs of so many bytes: few of them are to a part of a cache line. The
/// shortest runs are results in copies, which must stay in the caches.
constexpr bool fills_lines(std::int64_t run) {
  constexpr std::int64_t kLeastRun = 1024;
  return run >= kLeastRun || (run % kCacheLine == 0 && run > kCacheLine);
}

}  // namespace polymio::common
