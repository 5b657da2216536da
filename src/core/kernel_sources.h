// The kernel sources that the build embeds in the library.
// SPDX-License-Identifier: MIT
#pragma once
#include <span>

namespace polymio {

struct KernelSource {
  const char* path;  // below src/
  const char* text;
};

/// Sorted by path.
std::span<const KernelSource> embedded_sources();

}  // namespace polymio
