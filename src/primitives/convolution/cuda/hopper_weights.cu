// The gradient of the weights as an implicit matrix product on sm90: rows are output channels (of dy), columns slabs of
// 64 input channels of a tap, summed over pixels. Both operands are contiguous along rows and columns (transposed).
// Each block sums a part of the pixels and writes fp32, which add_partials reduces in a fixed order.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/sm90/conv_shape.h"
#include "kernels/gpu/sm90/tensor_map.cuh"
#include "kernels/gpu/sm90/warpgroup.cuh"
#include "kernels/gpu/portable/portable.h"

namespace sm90 {

/// kRowBlocks: blocks of 64 rows of a consumer. kSlabs: slabs of a tile. kAlternate: both consumers have all rows and
/// take alternate steps; else each has half the rows.
template <int kSpatial, int kRowBlocks, int kSlabs, int kStages, bool kAlternate>
struct ConvWeights {
  static constexpr int kThreads = 384, kResident = 1;

  struct Arguments {
    TensorMap x, dy;
    ConvWeightsShape shape;
    float* sums;  // [parts or, if kAlternate, 2 parts][outputs][taps][channels]
  };

 private:
  static constexpr int kConsumers = 2, kDepth = 64;
  static constexpr int kRowSlabs = kRowBlocks * (kAlternate ? 1 : kConsumers);  // of 64 output channels
  static constexpr u32 kSlabBytes = kDepth * kRowBytes, kStageBytes = (kRowSlabs + kSlabs) * kSlabBytes;
  static constexpr u32 kBarriersAt = kStages * kStageBytes;
  static_assert(!kAlternate || kStages % 2 == 0, "a slot belongs to one consumer");

 public:
  static constexpr u32 kSharedBytes = kBarriersAt + 2 * kStages * 8;

 private:
  static DEVICE unsigned char* shared() {
    extern __shared__ __align__(1024) unsigned char bytes[];
    return bytes;
  }
  static DEVICE Barrier& full(int slot) { return reinterpret_cast<Barrier*>(shared() + kBarriersAt)[slot]; }
  static DEVICE Barrier& empty(int slot) { return full(kStages + slot); }

  /// The part of the pixels and the tile of a block.
  struct Work {
    int part, row, column, first, last;

    DEVICE Work(const ConvWeightsShape& s) {
      const int tile = blockIdx.x / s.parts;
      part = blockIdx.x % s.parts;
      row = tile % s.row_tiles;
      column = tile / s.row_tiles;
      first = int(i64(part) * s.steps / s.parts);
      last = int(i64(part + 1) * s.steps / s.parts);
    }
  };

  /// A slab of 64 channels of a tap; beyond the last, of no channels.
  struct Slab {
    int tap, channel;
    int offset[kSpatial];

    DEVICE Slab(const ConvWeightsShape& s, int index) {
      const int blocks = (s.channels + 63) / 64;
      tap = index / blocks;
      channel = index % blocks * 64;
      int rest = tap;
      UNROLL
      for (int i = 0; i < kSpatial; ++i) {
        offset[i] = rest % s.taps[i] * s.offset_step[i];
        rest /= s.taps[i];
      }
      if (rest == 0) return;
      tap = -1;
      channel = s.channels;
      UNROLL
      for (int i = 0; i < kSpatial; ++i) offset[i] = 0;
    }
  };

  static DEVICE void produce(const Arguments& a, const Work& work) {
    const ConvWeightsShape& s = a.shape;
    RingPosition<kStages> at;
    const u32 base = shared_address(shared());
    NO_UNROLL
    for (int step = work.first; step < work.last; ++step) {
      Pixel<kSpatial> out, in;
      int rest = step * kDepth;
      UNROLL
      for (int i = 0; i < kSpatial; ++i) {
        out.at[i] = rest % s.size[i];
        rest /= s.size[i];
        in.at[i] = out.at[i] * s.step[i] + s.base[i];
      }
      out.image = in.image = rest;
      empty(at.slot).wait(at.parity ^ 1);
      const Barrier& bar = full(at.slot);
      full(at.slot).arrive_and_expect(kStageBytes);
      u32 to = base + at.slot * kStageBytes;
      constexpr int kNowhere[kSpatial] = {};
      UNROLL
      for (int i = 0; i < kRowSlabs; ++i, to += kSlabBytes)
        load_pixels<kSpatial>(to, a.dy, bar, (work.row * kRowSlabs + i) * 64, out, kNowhere);
      NO_UNROLL
      for (int i = 0; i < kSlabs; ++i, to += kSlabBytes) {
        const Slab slab(s, work.column * kSlabs + i);
        load_pixels<kSpatial>(to, a.x, bar, slab.channel, in, slab.offset);
      }
      at.advance();
    }
  }

  using Sums = float[kRowBlocks][32 * kSlabs];

  static DEVICE void multiply_part(Sums& d, int consumer, const Work& work) {
    RingPosition<kStages> at;
    const u32 base = shared_address(shared());
    const u64 a0 = operand(base + (kAlternate ? 0 : consumer * kRowBlocks * kSlabBytes), kSlabBytes);
    const u64 b0 = operand(base + kRowSlabs * kSlabBytes, kSlabBytes);
    const bool first_lane = threadIdx.x % 32 == 0;
    const int first = work.first + (kAlternate ? consumer : 0);
    constexpr int kStride = kAlternate ? kConsumers : 1;
    if (kAlternate && consumer == 1) at.advance();
    int before = 0;
    NO_UNROLL
    for (int step = first; step < work.last; step += kStride) {
      full(at.slot).wait(at.parity);
      const u64 da = a0 + at.slot * (kStageBytes / 16), db = b0 + at.slot * (kStageBytes / 16);
      begin_products();
      UNROLL
      for (int k = 0; k < kDepth / 16; ++k)
        UNROLL
        for (int b = 0; b < kRowBlocks; ++b)
          multiply(d[b], da + b * (kSlabBytes / 16) + 16 * kRowBytes / 16 * k, db + 16 * kRowBytes / 16 * k,
                   (step - first) | k);
      commit_products();
      wait_for_products<1>();  // those of the step before have read their stage
      if (step > first && first_lane) empty(before).arrive();
      before = at.slot;
      at.skip(kStride);
    }
    wait_for_products<0>();
  }

  static DEVICE void store_part(const Arguments& a, const Work& work, int consumer, const Sums& d) {
    const ConvWeightsShape& s = a.shape;
    const int thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32;
    int taps = 1;
    UNROLL
    for (int i = 0; i < kSpatial; ++i) taps *= s.taps[i];
    const int part = kAlternate ? work.part * kConsumers + consumer : work.part;
    const i64 row_elements = i64(taps) * s.channels;
    float* const sums = a.sums + part * (i64(s.outputs) * row_elements);
    UNROLL
    for (int b = 0; b < kRowBlocks; ++b)
      UNROLL
      for (int h = 0; h < 2; ++h) {
        const int row = (work.row * kRowSlabs + (kAlternate ? 0 : consumer * kRowBlocks) + b) * 64 + 16 * warp + lane / 4 + 8 * h;
        if (row >= s.outputs) continue;
        UNROLL
        for (int j = 0; j < kSlabs; ++j) {
          const Slab slab(s, work.column * kSlabs + j);
          if (slab.tap < 0) continue;
          float* const to = sums + row * row_elements + i64(slab.tap) * s.channels;
          UNROLL
          for (int c = 0; c < 8; ++c) {
            const int channel = slab.channel + 8 * c + 2 * (lane % 4);
            const float* const from = &d[b][32 * j + 4 * c + 2 * h];
            if (channel < s.channels) *reinterpret_cast<float2*>(to + channel) = make_float2(from[0], from[1]);
          }
        }
      }
  }

 public:
  static DEVICE void run(const Arguments& a) {
    const int warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0);  // the same for all threads of a warp
    if (threadIdx.x == 0) {
      for (int i = 0; i < kStages; ++i) {
        full(i).init(1);
        empty(i).init(kAlternate ? 4 : 4 * kConsumers);  // a warp each
      }
      publish_barriers();
    }
    __syncthreads();
    const Work work(a.shape);
    constexpr bool kMany = kRowBlocks * kSlabs * 32 > 128;
    if (warpgroup == 0) {
      give_registers<kMany ? 24 : 40>();
      if (threadIdx.x < 32 && elected()) produce(a, work);
      return;
    }
    take_registers<kMany ? 240 : 232>();
    const int consumer = warpgroup - 1;
    Sums d;
    if (kAlternate && work.first + consumer >= work.last) {
      UNROLL
      for (int b = 0; b < kRowBlocks; ++b)
        UNROLL
        for (int i = 0; i < 32 * kSlabs; ++i) d[b][i] = 0;
    } else {
      multiply_part(d, consumer, work);
    }
    store_part(a, work, consumer, d);
  }
};

}  // namespace sm90
