// Arguments of the specialised convolution kernels (of two spatial dimensions but for DepthwiseVolume and DirectShape),
// in structs of at most 128 bytes. Shared with the host. "src" is the tensor that a kernel gathers (x, or dy for
// backward data), "dst" the one that it writes; in backward weights they are x and dy.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/portable/divider.h"
#ifndef KERNEL
namespace polymio::kernels {
using i64 = std::int64_t;
#endif

/// Implicit GEMM. Strides are in elements, channels are those of a group.
typedef struct ProductShape {
  i64 src_image, dst_image;
  int src_channel, src_row, src_col, src_h, src_w;
  int dst_channel, dst_row, dst_col, dst_h, dst_w;
  int images, filter_h, filter_w, pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w;
  int tap_step_h, tap_step_w;  // backward data: distance between the taps of a phase
  int reduced, outputs;        // K (channels only) and N; backward weights: N (channels only) and M
  int reduced_padded, outputs_padded;
  int splits, store_quads;
} ProductShape;

/// Depthwise kernels, packed tensors.
typedef struct DepthwiseShape {
  int images, channels, src_h, src_w, dst_h, dst_w, pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w;
  int vectors;       // NHWC: vectors of channels per block
  int planes, band;  // NCHW: planes per block, rows of dst per plane
  Divider by_width;  // divides by dst_w
} DepthwiseShape;

/// Depthwise kernels for filters of any size. Strides of src and dst are in elements.
typedef struct DepthwiseWindowShape {
  i64 src_image, dst_image;
  int src_channel, src_row, src_col, dst_channel, dst_row, dst_col;
  int images, channels, src_h, src_w, dst_h, dst_w;
  int filter_h, pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w;
  int tap_step_h, tap_step_w;                        // strided backward data: distance between the taps of a residue
  int planes, tile_h, tile_w, src_pitch, dst_pitch;  // columns innermost: see depthwise_window_planes.cl
  int lanes;                                         // channels (or vectors of them) per block
} DepthwiseWindowShape;

/// What depthwise_taps needs besides: the first of three dimensions, and output channels per input channel.
typedef struct DepthwiseVolume {
  int src_depth, dst_depth;  // strides
  int src_d, dst_d, pad_d, stride_d, dilation_d, tap_step_d;
  int multiplier;
} DepthwiseVolume;

/// Grouped kernels, packed tensors. `reduced` and `outputs` are the channels of src and dst per group. A block
/// processes `units` units of work at a time, or column tiles of `band` rows.
typedef struct GroupedShape {
  int images, groups, reduced, outputs, src_h, src_w, dst_h, dst_w, pad_h, pad_w, stride_h, stride_w;
  int dilation_h, dilation_w, units, band;
} GroupedShape;

/// Direct convolution (direct.cl). Dimensions are W, H and D; images are D where there are fewer than three. Backward
/// data is the forward convolution with mirrored taps. Strides of tensors are in elements.
typedef struct DirectShape {
  int channels, outputs;  // of src and dst
  int src_image, src_channel, src_step[3], dst_image, dst_channel, dst_step[3];
  int src_size[3], dst_size[3], taps[3], pad[3], stride[3], dilation[3];
} DirectShape;

/// Its tiles of dst, and those of src with their halo in local memory.
typedef struct DirectTile {
  int log[3], tiles[3], output_tiles, output_warps, halo[3];
  int phase, row, slice, plane;  // floats: of columns with a remainder by the stride; of a row, slice and channel
  int chunk, lanes_log;          // channels; threads that copy a row
  Divider by_halo_h, by_halo_d, by_chunk;
} DirectTile;

/// The part of its weights in local memory, as [channel][tap][output] with `pitch` floats per tap.
typedef struct DirectWeights {
  int output, channel, tap, first;  // strides of w, and its element for the first tap
  int order;                        // of w: outputs are outermost and taps innermost (0), channels (1), the reverse (2)
  int pitch;
  Divider by_inner, by_middle;
} DirectWeights;

/// The sums of its gradient of weights (direct_weights.cl). A block has output_groups x line_groups units, which
/// pixel_groups groups of threads share; blocks are output_tiles x line_tiles parts of the weights x splits of the
/// tiles.
typedef struct DirectSums {
  int output_groups, line_groups, pixel_groups, output_tiles, line_tiles, splits, all_tiles, lines;
  int pitch;                               // of outputs of dst in local memory, or of pixels
  int count;                               // elements of w
  Divider by_units, by_outputs, by_width;  // units; output_groups; units of outputs that are copied
  Divider by_channel, by_slice, by_row;    // lines
} DirectSums;

/// Copies of the pixels that a strided pointwise convolution reads: `planes` planes, one per image and channel (NCHW)
/// or one per image (NHWC), where a pixel has `vectors` units. x begins at element `x_at`.
typedef struct PixelShape {
  i64 planes, x_at;
  int vectors, in_d, in_h, in_w, out_d, out_h, out_w, stride_d, stride_h, stride_w;
} PixelShape;

/// Copies between x and the im2col matrix of filters that do not overlap: `planes` planes of in_h rows, one per image,
/// channel (NCHW) and depth. Rows, runs (rows of a filter) and steps between filters of a row are in units of a copy,
/// in NHWC with all channels. They begin at element x_at.
typedef struct PatchShape {
  i64 x_at;
  int planes;    // of all images
  int channels;  // planes per image and depth
  int in_d, in_h, row, filter_d, filter_h, run, step_d, step_h, step, out_d, out_h, out_w;
  int pitch;  // of the matrix, at least the elements of a patch; zeros follow these
} PatchShape;

/// Copies between a tensor (image, channel, row, column; strides in elements) and folded pixels: images x rows x
/// columns of `depth` elements, a multiple of 8. Element (fx * fold_h + fy) * fold_c + c of pixel (y, x) is the
/// tensor's channel c at row y * fold_h + fy - pad_h and column x * fold_w + fx - pad_w; where there is none it is 0.
typedef struct FoldShape {
  i64 image, folded_image;
  int channel, row, column;          // strides of the tensor
  int folded_row, folded_column;     // strides of the folded pixels
  int images, rows, columns, depth;  // of the folded pixels
  int tensor_images, channels, height, width;
  int fold_h, fold_w, fold_c, pad_h, pad_w;
} FoldShape;

/// Weights for folded pixels of the input's gradient: folded (row f, taps, depth) = w(k, c, r, s), where f is
/// (fx * fold_h + fy) * channels + c, k the element of depth, r = fy + first_h - tap_h * step_h, s likewise.
typedef struct FoldedWeightsShape {
  int output, channel, row, column;  // strides of w
  int rows, taps_h, taps_w, depth;
  int outputs, channels, filter_h, filter_w;
  int fold_h, fold_w, first_h, first_w, step_h, step_w;
} FoldedWeightsShape;

/// Copies between the weights of groups, `outputs` x `channels` x `taps` each, and those of fewer groups, each of which
/// has `merged` of them as blocks with zeros between them. The latter are packed: (k, tap, channel of a merged group).
typedef struct MergedGroupsShape {
  int all_outputs, outputs, channels, taps, merged;
  int channel_step, tap_step;  // of the weights that are not merged
} MergedGroupsShape;

/// Scalars of an epilogue (epilogue.h): those of the operation, and the parameters of the activation.
typedef struct EpilogueScalars {
  float alpha, beta, act_alpha, act_beta, act_gamma;
} EpilogueScalars;

/// Of a batch norm in an epilogue, which may follow a bias.
typedef struct EpilogueNorm {
  float epsilon;
  int has_bias;
} EpilogueNorm;

#ifndef KERNEL
}  // namespace polymio::kernels
#endif
