// The windows of a launch. Shared with the host.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/portable/divider.h"
#ifndef KERNEL
namespace polymio::kernels {
using i64 = std::int64_t;
#endif

enum { kWindowThreads = 256, kWindowRun = 4 };

/// Results of a launch, in units of neighbouring channels; fastest dimension first: channels, W, H, D where they are
/// contiguous, else W, H, D, channels; images last. `lanes` threads share a result.
typedef struct WindowShape {
  int count, lanes;
  Divider size[4];
} WindowShape;

/// Window o covers those of the elements [o * stride - pad, o * stride - pad + length) that exist.
typedef struct WindowAxis {
  int size, windows, length, pad;
  Divider stride;
} WindowAxis;

/// D, H, W.
typedef struct WindowAxes {
  WindowAxis axis[3];
} WindowAxes;

/// Element strides of a tensor and the offset of its first element.
typedef struct WindowAt {
  i64 first, image, channel, axis[3];
} WindowAt;

#ifndef KERNEL
}  // namespace polymio::kernels
#endif
