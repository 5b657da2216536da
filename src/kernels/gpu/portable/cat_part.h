// The copies of a launch of cat.cl. Shared with the host.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/portable/divider.h"
#ifndef KERNEL
namespace polymio::kernels {
using i64 = std::int64_t;
#endif

enum { kCatParts = 8, kCatDims = 3, kCatThreads = 256 };

/// Units of a thread: several small ones are in flight.
#define CAT_UNITS(bytes) ((bytes) < 8 ? 4 : 1)

/// A tensor and its part of the result, in units of `bytes`, a power of two up to 16. Strides are in bytes, the fastest
/// dimension first; the last one of `rank` has no divider.
typedef struct CatPart {
  int first_block, units, bytes, rank;
  Divider size[kCatDims - 1];
  i64 from[kCatDims], to[kCatDims];
} CatPart;

#ifndef KERNEL
}  // namespace polymio::kernels
#endif
