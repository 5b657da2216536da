// Hashes: a 64-bit content hash (xxHash) and a cheap mixer for hot-path keys.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string_view>

namespace polymio {

/// XXH3 of the bytes; stable across machines and releases (used in files).
std::uint64_t content_hash(std::string_view bytes);

/// Mixes `value` into `seed`: multiply and xor-shift, as wyhash does.
constexpr std::uint64_t mix(std::uint64_t seed, std::uint64_t value) {
  std::uint64_t h = (seed ^ value) * 0x9e3779b97f4a7c15ull;
  return h ^ (h >> 29);
}

}  // namespace polymio
