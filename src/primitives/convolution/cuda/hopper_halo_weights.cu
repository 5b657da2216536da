// The gradient of the weights of a convolution with unit strides and a small filter on sm90, from tiles of an image
// with their halo: rows of the matrix product are 64 output channels, columns 64 input channels of every tap, summed
// over pixels. A pixel's 64 channels are a row of 128 bytes in shared memory, so that a tap is a shift of x by whole
// rows; the taps of a row of the filter are one operand. Pixels run over the rows of the halo: where they are beyond
// the tile's width, dy is zero. Each consumer has a row of the filter. Of fp32, a pixel's 64 channels are in two boxes,
// which warps multiply (warp_tile.cuh).
// SPDX-License-Identifier: MIT
#include "kernels/gpu/sm90/conv_gradient.cuh"
#include "kernels/gpu/sm90/tensor_map.cuh"
#include "kernels/gpu/sm90/warp_tile.cuh"

namespace sm90 {

/// kTapsH, kTapsW: the filter. kPixels: of a tile, a multiple of 16, of fp32 of 8, those beyond the tile's width
/// included.
template <class Element, int kTapsH, int kTapsW, int kPixels, int kStages>
struct ConvHaloWeights {
  static constexpr int kThreads = 128 * (1 + kTapsH), kResident = 1;

  struct Arguments {
    TensorMap x, dy;
    ConvHaloWeightsShape shape;
    typename Element::Stored* dw;  // [outputs][taps][channels]
    float* partials;               // [parts][outputs][taps][channels]; not used for one part
  };

 private:
  static constexpr int kBoxChannels = kRowBytes / Element::kOperandBytes, kBoxes = 64 / kBoxChannels;
  static constexpr u32 kPixelBytes = kPixels * kRowBytes;  // of a box of dy; x follows

  static DEVICE unsigned char* shared() {
    extern __shared__ __align__(1024) unsigned char bytes[];
    return bytes;
  }
  static DEVICE Barrier& full(int slot) { return reinterpret_cast<Barrier*>(shared())[slot]; }
  static DEVICE Barrier& empty(int slot) { return full(kStages + slot); }
  static DEVICE u32 stage(const ConvHaloWeightsShape& s, int slot) {
    return shared_address(shared()) + 1024 + slot * s.stage_bytes;
  }

  static DEVICE u32 bytes_of_x(const ConvHaloWeightsShape& s) { return s.stage_bytes / kBoxes - kPixelBytes; }

  /// A part of the tiles of the images for a pair of channel blocks of a group.
  struct Work {
    int part, first, last;
    int output, channel, output_end, channel_end;  // of all channels; of the group's, the end

    DEVICE Work(const ConvHaloWeightsShape& s, int index) {
      const int pairs = s.works / s.parts, blocks = (s.channels + 63) / 64, output_blocks = (s.outputs + 63) / 64;
      const int pair = index % pairs;  // consecutive blocks read the same pixels
      const int group = pair / (blocks * output_blocks);
      part = index / pairs;
      channel = group * s.channels + pair % blocks * 64;
      channel_end = (group + 1) * s.channels;
      output = group * s.outputs + pair / blocks % output_blocks * 64;
      output_end = (group + 1) * s.outputs;
      first = int(i64(part) * s.tiles / s.parts);
      last = int(i64(part + 1) * s.tiles / s.parts);
    }
  };

  static DEVICE void produce(const Arguments& a) {
    const ConvHaloWeightsShape& s = a.shape;
    RingPosition<kStages> at;
    NO_UNROLL
    for (int index = blockIdx.x; index < s.works; index += gridDim.x) {
      const Work work(s, index);
      const auto boxes_of = [](int channels) { return min((channels + kBoxChannels - 1) / kBoxChannels, kBoxes); };
      const int x_boxes = boxes_of(work.channel_end - work.channel), dy_boxes = boxes_of(work.output_end - work.output);
      NO_UNROLL
      for (int tile = work.first; tile < work.last; ++tile) {
        const int column = tile % s.tiles_w * s.tile_w, rest = tile / s.tiles_w;
        const int row = rest % s.tiles_h * s.tile_h, image = rest / s.tiles_h;
        empty(at.slot).wait(at.parity ^ 1);
        full(at.slot).arrive_and_expect(x_boxes * s.box_bytes + dy_boxes * s.tile_h * s.tile_w * kRowBytes);
        const u32 dy = stage(s, at.slot), x = dy + kBoxes * kPixelBytes;
        NO_UNROLL
        for (int box = 0; box < x_boxes; ++box)
          load_box(x + box * bytes_of_x(s), a.x, full(at.slot), work.channel + box * kBoxChannels, column - s.pad[0],
                   row - s.pad[1], image);
        NO_UNROLL
        for (int box = 0; box < dy_boxes; ++box) NO_UNROLL
        for (int i = 0; i < s.tile_h; ++i)
          load_box(dy + box * kPixelBytes + i * s.halo_w * kRowBytes, a.dy, full(at.slot),
                   work.output + box * kBoxChannels, column, row + i, image);
        at.advance();
      }
    }
  }

  using Sums = float[1][32 * kTapsW];
  using Tile = WarpTile<2, 2 * kTapsW>;  // by warps; columns: the taps of a box, then of the other

  static DEVICE void consume(const Arguments& a, int tap_row) {
    const ConvHaloWeightsShape& s = a.shape;
    const int lane = threadIdx.x % 32;
    RingPosition<kStages> at;
    NO_UNROLL
    for (int index = blockIdx.x; index < s.works; index += gridDim.x) {
      const Work work(s, index);
      Sums d;
      if constexpr (kBoxes == 1)
        multiply_by_group(s, d, tap_row, work, at);
      else
        multiply_by_warps(s, d, tap_row, work, at);
      UNROLL
      for (int i = 0; i < (kBoxes == 1 ? 2 : 4 * Tile::kRows); ++i) {
        const int row = work.output + (kBoxes == 1 ? threadIdx.x % 128 / 32 * 16 + lane / 4 + 8 * i
                                                   : Tile::first_row_box() * 32 + lane / 4 * 2 + i / 2 * 16 + i % 2);
        if (row >= work.output_end) continue;
        const int left = work.channel_end - work.channel - (kBoxes == 1 ? 0 : threadIdx.x / 32 % 2 * 32);
        UNROLL
        for (int q = 0; q < kTapsW; ++q) {
          const i64 place = (i64(row) * (kTapsH * kTapsW) + tap_row * kTapsW + q + 1) * s.channels - left;
          const float* const from = kBoxes == 1 ? &d[0][32 * q + 2 * i] : Tile::sums_of(d, i / 2, 4 * q) + i % 2 * 2;
          if (s.parts > 1)
            store_partials<kBoxChannels>(
                a.partials + work.part * (i64(s.groups * s.outputs) * kTapsH * kTapsW * s.channels) + place, left,
                from);
          else
            store_elements<Element, kBoxChannels>(a.dw + place, left, from, s.alpha, s.beta);
        }
      }
    }
  }

  static DEVICE void multiply_by_group(const ConvHaloWeightsShape& s, Sums& d, int tap_row, const Work& work,
                                       RingPosition<kStages>& at) {
    const bool first_lane = threadIdx.x % 32 == 0;
    int before = -1;
    NO_UNROLL
    for (int tile = work.first; tile < work.last; ++tile) {
      full(at.slot).wait(at.parity);
      const u32 dy = stage(s, at.slot);
      const u64 da = operand(dy);
      const u64 db =
          operand(dy + kPixelBytes + tap_row * s.dilation[1] * s.halo_w * kRowBytes, s.dilation[0] * kRowBytes);
      begin_products();
      UNROLL
      for (int k = 0; k < kPixels / 16; ++k)
        multiply(d[0], da + 16 * kRowBytes / 16 * k, db + 16 * kRowBytes / 16 * k, (tile - work.first) | k);
      commit_products();
      wait_for_products<1>();  // those of the tile before have read their stage
      if (before >= 0 && first_lane) empty(before).arrive();
      before = at.slot;
      at.advance();
    }
    wait_for_products<0>();
    if (first_lane) empty(before).arrive();
  }

  static DEVICE void multiply_by_warps(const ConvHaloWeightsShape& s, Sums& d, int tap_row, const Work& work,
                                       RingPosition<kStages>& at) {
    UNROLL
    for (int i = 0; i < 32 * kTapsW; ++i) d[0][i] = 0;
    NO_UNROLL
    for (int tile = work.first; tile < work.last; ++tile) {
      const u32 dy = stage(s, at.slot);
      const u32 x = dy + kBoxes * kPixelBytes + threadIdx.x / 32 % 2 * bytes_of_x(s);
      typename Tile::Rows::Lane from_dy(dy + Tile::first_row_box() * kPixelBytes, 0);
      typename Tile::Columns::Lane from_x[kTapsW];
      UNROLL
      for (int tap = 0; tap < kTapsW; ++tap)
        from_x[tap] = {x, tap_row * s.dilation[1] * s.halo_w + tap * s.dilation[0]};
      full(at.slot).wait(at.parity);
      NO_UNROLL
      for (int i = 0; i < kPixels; i += 8) {
        typename Tile::Rows rows;
        typename Tile::Columns columns;
        rows.load(0, from_dy, 0);
        from_dy.advance(8 * kRowBytes);
        UNROLL
        for (int tap = 0; tap < kTapsW; ++tap) {
          columns.load(tap, from_x[tap], 0);
          from_x[tap].advance(8 * kRowBytes);
        }
        UNROLL
        for (int tap = 0; tap < kTapsW; ++tap) Tile::multiply(d, rows, columns, tap);
      }
      __syncwarp();
      if (threadIdx.x % 32 == 0) empty(at.slot).arrive();
      at.advance();
    }
  }

 public:
  static DEVICE void run(const Arguments& a) {
    const ConvHaloWeightsShape& s = a.shape;
    const int warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0);  // the same for all threads of a warp
    // What is never loaded is zero: dy beyond the tile's width, both beyond the last row.
    for (int i = threadIdx.x; i < kStages * s.stage_bytes / 16; i += kThreads)
      reinterpret_cast<uint4*>(shared() + 1024)[i] = make_uint4(0, 0, 0, 0);
    publish_writes();
    if (threadIdx.x == 0) {
      for (int i = 0; i < kStages; ++i) {
        full(i).init(1);
        empty(i).init(4 * kTapsH);  // a warp each
      }
      publish_barriers();
    }
    __syncthreads();
    if (warpgroup == 0) {
      give_registers<kTapsH == 4 ? 24 : kTapsH == 3 ? 32 : 40>();
      if (threadIdx.x < 32 && elected()) produce(a);
    } else {
      take_registers<kTapsH == 4 ? 112 : kTapsH == 3 ? 160 : 232>();
      consume(a, warpgroup - 1);
    }
  }
};

}  // namespace sm90
