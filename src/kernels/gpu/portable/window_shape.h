// The windows of a launch. Shared with the host.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/portable/divider.h"
#ifndef KERNEL
namespace polymio::kernels {
using i64 = std::int64_t;
#endif

/// Window o covers those of the elements [o * stride - pad, o * stride - pad + length) that exist.
typedef struct WindowAxis {
  int size, windows, length, stride, pad;
} WindowAxis;

/// Results of a launch, in units of neighbouring channels; fastest dimension first: channels, W, H, D where they are
/// contiguous, else W, H, D, channels; images last. The axes are D, H, W.
typedef struct WindowShape {
  int count;
  Divider size[4];
  WindowAxis axis[3];
} WindowShape;

/// Element strides of a tensor and the offset of its first element.
typedef struct WindowAt {
  i64 first, image, channel, axis[3];
} WindowAt;

#ifndef KERNEL
}  // namespace polymio::kernels
#endif
