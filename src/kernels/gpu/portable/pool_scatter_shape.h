// The tiles of a launch of scatter.cl. Shared with the host.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/portable/window_shape.h"
#ifndef KERNEL
namespace polymio::kernels {
#endif

enum { kScatterThreads = 128, kScatterElements = 4096, kScatterUnit = 4 };

/// A tile has box[] elements along D, H, W of `channels` channels; one at an end may have fewer. Windows that are
/// classes[] apart do not overlap.
typedef struct ScatterShape {
  Divider tiles[4];  // W, H, D, channels; images last
  int box[3], channels, all_channels;
  int classes[3];
  int rounds;  // in which the threads of a block take all windows of a class
} ScatterShape;

/// How threads take windows of a class, and elements in units of `unit`: fastest W, H, D, then channels, or channels,
/// W, H, then D. `position`: positions along W and H.
typedef struct ScatterOrder {
  Divider windows[3], elements[3], position[2];
  int unit, image;
} ScatterOrder;

#ifndef KERNEL
}  // namespace polymio::kernels
#endif
