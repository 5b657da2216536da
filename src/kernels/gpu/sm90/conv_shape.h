// Arguments of the convolution kernels that are C++ templates (primitives/convolution/cuda/*.cu), shared with the host,
// which includes runtime/device.h before. Spatial dimensions are in the order of tensor maps: W, H, D; missing ones
// have size 1. Strides are in elements.
// SPDX-License-Identifier: MIT
#pragma once
#ifdef __CUDACC_RTC__
namespace sm90 {
#else
namespace polymio::kernels {
#endif

/// Output pixels that are evenly spaced and use the same taps of the filter: a forward convolution is one phase;
/// backward data has one per remainder of a pixel's position by the strides. The source pixel of output pixel p and the
/// i-th tap of the phase along a dimension is p * step + base + offset + i * offset_step, the tap's number in the
/// filter tap + i * tap_step, summed over dimensions.
struct ConvPhase {
  int size[3];                    // output pixels
  int taps[3];                    // none along a dimension: the outputs are zero
  int step[3], base[3];           // base + offset is what the tensor map of the phase counts from its lower corner
  int offset[3], offset_step[3];  // offset is never negative
  int tap, tap_step[3];
  int first_tile, row_tiles;
  long long dst;  // the first output pixel
};

/// Of the convolution, and the parameters of the activation (sm90/conv_epilogue.cuh).
struct ConvScalars {
  float alpha, beta, residual_alpha, act_alpha, act_beta, act_gamma;
  double exact_alpha, exact_beta;  // for integers
  unsigned long long seed;         // of stochastic rounding
};

/// What an epilogue takes of each channel: a bias (an element, or fp32 with a scale) and a scale. With `mean` they are
/// those of a batch norm of given moments that follows the bias, if there is one:
/// scale / sqrt(variance + epsilon) and (bias - mean) * that + shift. Channels behind `channels` have none.
struct ConvChannelParameters {
  const void* bias;
  const float *scale, *shift, *mean, *variance;
  float epsilon;
  int channels;
};

/// Sizes and scalars of ConvProduct. A step of the product is a tap and 64 channels.
struct ConvProductShape {
  int images, reduced, outputs;                  // channels: of a group, that are summed over; all that are written
  int phases, tiles, column_tiles, group_tiles;  // group_tiles: of the column tiles, those of a group of channels
  int raster;                                    // row tiles that share a column tile in the order of tiles
  int interleaved;     // tiles of all phases that read the same pixels follow each other, else phases do
  int taps_innermost;  // order of steps: taps of 64 channels, or channels of a tap
  int halves;          // the last channels are half as many as those of a step, or fewer, and have maps of their own
  ConvScalars scalars;
  long long dst_step[3], dst_image, dst_channel;  // between output pixels of a phase
  int unit;  // planes: pixels of an image that are stored at once, 8, 4 or 1; a phase's are contiguous unless it is 1
};

/// An operand that was split into parts, as it is. Strides in elements.
struct ConvFloats {
  const float* data;
  long long outer, channel, step[3];  // between images or output channels, channels, pixels or taps
};

/// Both: x or dy; the weights, or dy for their gradient.
struct ConvUnsplit {
  const unsigned* outside;  // not 0: parts cannot represent them
  ConvFloats first, second;
  int size[3];  // of an image of the first
};

/// Sizes of ConvHalo. A tile is of one slice (D) of an image, or of one group of channels; with its halo it begins at
/// `base` from its first output pixel. With strides there is a halo for each phase of the source.
struct ConvHaloShape {
  int reduced, outputs;  // of a group
  int groups;            // if more than one, in the place of slices: size[2] is their number
  int tiles, tiles_w, tiles_h, output_tiles;
  int tile_w, tile_h, halo_w;
  int halo_bytes, box_bytes;  // of a tile with halo in shared memory, and of what is loaded there
  int size[3];                // output pixels of an image
  int taps[3], step[3], base[3], offset[3], offset_step[3];  // step: the strides
  int resident;  // weights stay in shared memory: all tiles of a block have the same
  ConvScalars scalars;
  long long dst_image, dst_channel, dst_slice, dst_row;  // planes: strides of the output
};

/// Sizes of ConvWeights: 64 pixels a step. Channels, outputs and tiles are those of a group of channels.
struct ConvWeightsShape {
  int images, channel_groups, channels, outputs, size[3], taps[3];
  int step[3], base[3], offset_step[3];
  int row_tiles, column_tiles, steps;  // steps of a tile
  int groups, group_blocks;            // blocks with the same steps of different tiles
  int share_steps, longer_shares;      // of a group, of its tiles one after another; so many shares have a step more
  int has_parts;                       // each block writes a part of the sums of a tile
  float alpha, beta;
};

/// Sizes of ConvHaloWeights: W, H. A work is a part of the tiles of all images, for 64 x 64 channels of a group.
struct ConvHaloWeightsShape {
  int groups, channels, outputs;
  int tiles, tiles_w, tiles_h, works, parts;
  int tile_w, tile_h, halo_w;
  int stage_bytes, box_bytes;  // in shared memory: of a tile of dy and of x, and what is loaded of x
  int pad[2], dilation[2];
  float alpha, beta;
};

/// Sizes of ConvLongFilters, along the dimension of the filter. `source` is x or dy; `tap` the filter or, for its
/// gradient, dy. Strides between images, channels, and elements.
struct ConvLongFiltersShape {
  int images, channels, tiles;  // tiles of the results of a channel
  int source_size, taps, results;
  int first;  // of the source, that result 0 multiplies by tap 0
  int chunk;  // elements of a sum that pass through shared memory at once, a multiple of 128
  long long source_image, source_channel, source_step;
  long long tap_image, tap_channel, tap_step;
  long long result_image, result_channel, result_step;
  float alpha, beta;
};

/// Sizes of the kernels of sm90/depthwise_1d.cuh, along the dimension of the filter. `source` is x or dy; `result` y or
/// dx or, for the gradient of the filter, dy. Strides between images, channels, and elements.
struct ConvDepthwise1dShape {
  int images, channels, source_size, results, taps;
  int first;          // of the source, that result 0 multiplies by tap 0
  int pieces, piece;  // of the results of a line, and results of a piece
  int parts;          // so many blocks share the pieces of a channel
  long long source_image, source_channel, source_step;
  long long result_image, result_channel, result_step;
  ConvScalars scalars;
};

/// Sizes of ConvFewChannels. `source` is x or dy, `result` y or dx. The
/// rows of the product are the output channels of all results of a cell, which use the same source points, `distance`
/// apart; the columns are cells, `step` source elements apart. The tap of point j and result r of a cell along a
/// dimension is tap_of_point * j + tap_of_result * r + first_tap, if the filter has it.
struct ConvFewChannelsShape {
  int images, channels, outputs;  // channels: that are summed over
  int size[3], source_size[3];
  int cells, rows;  // results of a cell; of all its output channels
  int cell[3], cell_log[3], step[3], origin[3], points[3], distance[3];
  int taps[3], tap_of_point[3], tap_of_result[3], first_tap[3];
  int tiles[3], tile_log[3], halo[3];  // cells of a tile, and its source pixels
  int all_tiles;                       // of all images
  int groups, row_blocks;              // 64 cells each, of a tile; of as many rows as a block has
  int chunk, chunks, steps;            // channels in shared memory at once, and steps of 16 products
  int keeps_weights;                   // of all chunks in shared memory
  int takes_pixels;                    // from global memory, 32 channels at once
  unsigned pitch, table_bytes, source_bytes, staged_bytes;  // in shared memory: of a pixel, and of its parts
  int load_unit, store_unit;                                // elements
  int width_log, by_elements;  // of the pixels of 64 cells along the first dimension; a cell is no power of two
  long long source_image, source_channel, source_step[3];
  long long result_image, result_channel, result_step[3];
  long long weight_output, weight_channel, weight_tap[3];
  ConvScalars scalars;
};

/// An operand of ConvFewChannelsWeights: x or dy, and a tile of it in shared memory, with the halo.
struct ConvFewChannelsOperand {
  int channels, chunk, load_unit;  // chunk: channels in shared memory at once
  int source_size[3], step[3], origin[3], halo[3];
  unsigned pitch;  // bytes of a pixel
  long long source_image, source_channel, source_step[3];
};

/// Sizes of ConvFewChannelsWeights. The rows of the product are channels of `rows`; its columns, in blocks of eight,
/// are channels of `columns` at a tap, or few channels at `slot_taps` neighbouring taps of `slot` columns each; both
/// are summed over pixels of the rows' operand, those of a tile at once.
struct ConvFewChannelsWeightsShape {
  int images, size[3], tiles[3], tile_log[3], all_tiles, steps;  // steps: of 16 pixels of a tile
  ConvFewChannelsOperand rows, columns;
  int taps[3], distance[3], tap_blocks, slot, slot_taps;      // tap_blocks: along W
  int blocks;                                                 // of columns, of a chunk
  int row_tiles, chunks, column_tiles;                        // of the product; column_tiles: of a chunk
  int column_warps, pixel_warps;                              // that share columns, and pixels, of a tile
  int splits;                                                 // of the tiles of pixels
  unsigned columns_at, stage_bytes;                           // in shared memory: of a tile
  long long result_row, result_column, result_tap[3], first;  // strides of the filter
  long long count;                                            // elements of it
};

}  // namespace
