// What the fast kernels of convolution are told of a problem with two spatial dimensions, in structs of at most 128
// bytes. The host reads this file, too. "src" is what is gathered (x, or dy for backward data), "dst" what it is
// gathered for; for the weights' gradient they are x and dy.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/divider.h"
#ifndef KERNEL
namespace polymio::kernels {
using i64 = std::int64_t;
#endif

/// Of the implicit GEMM. Strides are in elements, channels are those of a group.
typedef struct ProductShape {
  i64 src_image, dst_image;
  int src_channel, src_row, src_col, src_h, src_w;
  int dst_channel, dst_row, dst_col, dst_h, dst_w;
  int images, filter_h, filter_w, pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w;
  int tap_step_h, tap_step_w;  // backward data: taps of one phase are this far apart
  int reduced, outputs;        // sizes of K (channels only) and N; for weights of N (channels only) and M
  int reduced_padded, outputs_padded;
  int splits, store_quads;
} ProductShape;

/// Of the depthwise kernels, for packed tensors.
typedef struct DepthwiseShape {
  int images, channels, src_h, src_w, dst_h, dst_w, pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w;
  int vectors;       // channels innermost: vectors of channels that a block owns
  int planes, band;  // rows innermost: planes of a block, and rows of dst of each
  Divider by_width;  // by dst_w
} DepthwiseShape;

/// Of the grouped kernels, for packed tensors. Channels are a group's: `reduced` of src and `outputs` of dst. A block
/// takes `units` units of work at a time, or walks down `band` rows.
typedef struct GroupedShape {
  int images, groups, reduced, outputs, src_h, src_w, dst_h, dst_w, pad_h, pad_w, stride_h, stride_w;
  int dilation_h, dilation_w, units, band;
} GroupedShape;

/// Of the copies of single pixels for a pointwise convolution with strides: planes of x and of y's size, of each image
/// and channel, or with channels innermost of each image, where a pixel is `vectors` units.
typedef struct PixelShape {
  i64 planes;
  int vectors, in_d, in_h, in_w, out_d, out_h, out_w, stride_d, stride_h, stride_w;
} PixelShape;

#ifndef KERNEL
}  // namespace polymio::kernels
#endif
