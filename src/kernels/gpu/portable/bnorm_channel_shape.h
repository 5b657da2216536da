// The channels of a launch of channels.cl or inference.cl. Shared with the host.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/portable/divider.h"
#ifndef KERNEL
namespace polymio::kernels {
using i64 = std::int64_t;
#endif

/// Where the elements of a channel are, in elements: an image has a contiguous run of them.
typedef struct ChannelAt {
  i64 first, channel, image;
} ChannelAt;

/// Units of a channel in an image; for inference.cl also those of all channels of an image, and where units are vectors
/// of channels, pixels are the images. x, dy, the result, the parameters (of no images).
typedef struct ChannelShape {
  int units;    // of a channel in all images
  int aligned;  // whether all units are
  Divider per_channel, per_image;
  ChannelAt at[4];
} ChannelShape;

#ifndef KERNEL
}  // namespace polymio::kernels
#endif
