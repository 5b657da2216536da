// The gradient of the weights as an implicit matrix product on sm90: rows are output channels (of dy), columns slabs of
// 64 input channels of a tap, summed over pixels. Both operands are contiguous along rows and columns (transposed).
// With many tiles, the steps of all of them, one after another, are divided evenly among the blocks (stream-K, Osama et
// al., 2023): the block that has the last step of a tile adds what other blocks summed, in a fixed order. With few,
// each block sums a part of the steps of a tile and writes fp32, which add_partials reduces in a fixed order.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/sm90/conv_gradient.cuh"
#include "kernels/gpu/sm90/tensor_map.cuh"

namespace sm90 {

/// kRowBlocks: blocks of 64 rows of a consumer. kSlabs: slabs of a tile. kAlternate: both consumers have all rows and
/// take alternate steps; else each has half the rows.
template <class Element, int kSpatial, int kRowBlocks, int kSlabs, int kStages, bool kAlternate>
struct ConvWeights {
  static constexpr int kThreads = 384, kResident = 1;

  struct Arguments {
    TensorMap x, dy;
    ConvWeightsShape shape;
    u16* dw;          // [outputs][taps][channels]
    float* partials;  // [parts][outputs][taps][channels], or none
    float4* sums;     // a tile of each block, and with kAlternate of its second consumer
    u32* done;        // of each block: 0 before, 1 when its sums are written
  };

 private:
  static constexpr int kConsumers = 2, kDepth = 64;
  static constexpr int kRowSlabs = kRowBlocks * (kAlternate ? 1 : kConsumers);  // of 64 output channels
  static constexpr u32 kSlabBytes = kDepth * kRowBytes, kStageBytes = (kRowSlabs + kSlabs) * kSlabBytes;
  static constexpr u32 kBarriersAt = kStages * kStageBytes;
  enum Meeting { kBoth = 1 };  // number of a barrier
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

  /// A run of steps of a tile.
  struct Work {
    int row, column, first, last;
    bool ends;  // the block stores the tile, or its part of it
  };

  /// The steps of a block, from the last to the first: what others wait for is written before the block waits.
  struct Steps {
    i64 first, last;

    DEVICE Steps(const ConvWeightsShape& s) {
      if (s.parts > 0) {
        const i64 start = i64(blockIdx.x / s.parts) * s.steps, part = blockIdx.x % s.parts;
        first = start + part * s.steps / s.parts;
        last = start + (part + 1) * s.steps / s.parts;
      } else {
        const i64 all = i64(s.row_tiles) * s.column_tiles * s.steps;
        first = all * blockIdx.x / gridDim.x;
        last = all * (blockIdx.x + 1) / gridDim.x;
      }
    }
    /// False when there are none left.
    DEVICE bool next(const ConvWeightsShape& s, Work& work) {
      if (first >= last) return false;
      const int tile = int((last - 1) / s.steps);
      const i64 start = i64(tile) * s.steps;
      work.row = tile % s.row_tiles;
      work.column = tile / s.row_tiles;
      work.last = int(last - start);
      work.first = int(max(first, start) - start);
      work.ends = work.last == s.steps || s.parts > 0;
      last = max(first, start);
      return true;
    }
  };

  /// A slab of 64 channels of a tap; beyond the last, of no channels.
  struct Slab {
    int tap, channel;
    int offset[kSpatial];

    Slab() = default;
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

  static DEVICE Pixel<kSpatial> pixel_at(const ConvWeightsShape& s, int index) {
    Pixel<kSpatial> pixel;
    UNROLL
    for (int i = 0; i < kSpatial; ++i) {
      pixel.at[i] = index % s.size[i];
      index /= s.size[i];
    }
    pixel.image = index;
    return pixel;
  }

  static DEVICE void load_steps(const Arguments& a, const Work& work, RingPosition<kStages>& at) {
    const ConvWeightsShape& s = a.shape;
    const u32 base = shared_address(shared());
    Pixel<kSpatial> out = pixel_at(s, work.first * kDepth);
    const Pixel<kSpatial> advance = pixel_at(s, kDepth);  // to the pixels of the next step
    Slab slabs[kSlabs];
    UNROLL
    for (int i = 0; i < kSlabs; ++i) slabs[i] = Slab(s, work.column * kSlabs + i);
    NO_UNROLL
    for (int step = work.first; step < work.last; ++step) {
      Pixel<kSpatial> in;
      UNROLL
      for (int i = 0; i < kSpatial; ++i) in.at[i] = out.at[i] * s.step[i] + s.base[i];
      in.image = out.image;
      empty(at.slot).wait(at.parity ^ 1);
      const Barrier& bar = full(at.slot);
      full(at.slot).arrive_and_expect(kStageBytes);
      u32 to = base + at.slot * kStageBytes;
      constexpr int kNowhere[kSpatial] = {};
      UNROLL
      for (int i = 0; i < kRowSlabs; ++i, to += kSlabBytes)
        load_pixels<kSpatial>(to, a.dy, bar, (work.row * kRowSlabs + i) * 64, out, kNowhere);
      UNROLL
      for (int i = 0; i < kSlabs; ++i, to += kSlabBytes)
        load_pixels<kSpatial>(to, a.x, bar, slabs[i].channel, in, slabs[i].offset);
      at.advance();
      int carry = 0;
      UNROLL
      for (int i = 0; i < kSpatial; ++i) {
        out.at[i] += advance.at[i] + carry;
        carry = out.at[i] >= s.size[i];
        out.at[i] -= carry ? s.size[i] : 0;
      }
      out.image += advance.image + carry;
    }
  }

  static DEVICE void produce(const Arguments& a) {
    RingPosition<kStages> at;
    Steps steps(a.shape);
    Work work;
    while (steps.next(a.shape, work)) load_steps(a, work, at);
  }

  using Sums = float[kRowBlocks][32 * kSlabs];
  static constexpr int kQuads = kRowBlocks * 8 * kSlabs;  // of sums of a thread

  static DEVICE void clear(Sums& d) {
    UNROLL
    for (int b = 0; b < kRowBlocks; ++b) {
      UNROLL
      for (int i = 0; i < 32 * kSlabs; ++i) d[b][i] = 0;
    }
  }

  static DEVICE void multiply_steps(Sums& d, int consumer, const Work& work, RingPosition<kStages>& at) {
    const u32 base = shared_address(shared());
    const u64 a0 = operand(base + (kAlternate ? 0 : consumer * kRowBlocks * kSlabBytes), kSlabBytes);
    const u64 b0 = operand(base + kRowSlabs * kSlabBytes, kSlabBytes);
    const bool first_lane = threadIdx.x % 32 == 0;
    // A slot of the ring, and so a step, belongs to one of the consumers that alternate.
    constexpr int kStride = kAlternate ? kConsumers : 1;
    const int count = work.last - work.first, skipped = kAlternate ? (at.slot + consumer) % kConsumers : 0;
    int before = -1;
    if (kAlternate && count <= skipped) {
      clear(d);
      at.skip(count);
      return;
    }
    at.skip(skipped);
    NO_UNROLL
    for (int step = skipped; step < count; step += kStride) {
      full(at.slot).wait(at.parity);
      const u64 da = a0 + at.slot * (kStageBytes / 16), db = b0 + at.slot * (kStageBytes / 16);
      begin_products();
      UNROLL
      for (int k = 0; k < kDepth / 16; ++k) {
        UNROLL
        for (int b = 0; b < kRowBlocks; ++b)
          multiply(d[b], da + b * (kSlabBytes / 16) + 16 * kRowBytes / 16 * k, db + 16 * kRowBytes / 16 * k,
                   (step - skipped) | k);
      }
      commit_products();
      wait_for_products<1>();  // those of the step before have read their stage
      if (before >= 0 && first_lane) empty(before).arrive();
      before = at.slot;
      at.skip(min(kStride, count - step));
    }
    wait_for_products<0>();
    if (first_lane) empty(before).arrive();
  }

  /// The sums of a consumer of a block, as its threads have them.
  static DEVICE float4* sums_of(const Arguments& a, int block, int consumer) {
    return a.sums + (i64(block) * kConsumers + consumer) * (kQuads * 128) + threadIdx.x % 128;
  }
  static DEVICE void write_sums(float4* to, const Sums& d) {
    UNROLL
    for (int q = 0; q < kQuads; ++q) {
      const float* const v = &d[q / (8 * kSlabs)][q % (8 * kSlabs) * 4];
      __stcg(to + q * 128, make_float4(v[0], v[1], v[2], v[3]));
    }
  }
  static DEVICE void add_sums(Sums& d, const float4* from) {
    UNROLL
    for (int q = 0; q < kQuads; ++q) {
      float* const v = &d[q / (8 * kSlabs)][q % (8 * kSlabs) * 4];
      const float4 other = __ldcg(from + q * 128);
      v[0] += other.x;
      v[1] += other.y;
      v[2] += other.z;
      v[3] += other.w;
    }
  }

  /// Adds the sums of the blocks before this one that have steps of the tile.
  static DEVICE void add_others(const Arguments& a, Sums& d, int consumer, const Work& work) {
    const ConvWeightsShape& s = a.shape;
    const i64 start = (i64(work.column) * s.row_tiles + work.row) * s.steps,
              all = i64(s.row_tiles) * s.column_tiles * s.steps;
    for (int block = blockIdx.x - 1; block >= 0 && all * (block + 1) / gridDim.x > start; --block) {
      while (load_acquired(a.done + block) == 0) __nanosleep(100);
      add_sums(d, sums_of(a, block, consumer));
    }
  }

  static DEVICE void store_tile(const Arguments& a, const Work& work, int consumer, const Sums& d) {
    const ConvWeightsShape& s = a.shape;
    const int thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32;
    int taps = 1;
    UNROLL
    for (int i = 0; i < kSpatial; ++i) taps *= s.taps[i];
    UNROLL
    for (int j = 0; j < kSlabs; ++j) {
      const Slab slab(s, work.column * kSlabs + j);
      if (slab.tap < 0) continue;
      UNROLL
      for (int b = 0; b < kRowBlocks; ++b) {
        UNROLL
        for (int h = 0; h < 2; ++h) {
          const int block = work.row * kRowSlabs + (kAlternate ? 0 : consumer * kRowBlocks) + b;
          const int row = block * 64 + 16 * warp + lane / 4 + 8 * h;
          if (row >= s.outputs) continue;
          const i64 at = (i64(row) * taps + slab.tap) * s.channels + slab.channel;
          const int left = s.channels - slab.channel;
          const float* const from = &d[b][32 * j + 2 * h];
          if (s.parts > 0)
            store_partials(a.partials + blockIdx.x % s.parts * (i64(s.outputs) * taps * s.channels) + at, left, from);
          else
            store_elements<Element>(a.dw + at, left, from, s.alpha, s.beta);
        }
      }
    }
  }

  static DEVICE void consume(const Arguments& a, int consumer) {
    RingPosition<kStages> at;
    Steps steps(a.shape);
    Work work;
    while (steps.next(a.shape, work)) {
      Sums d;
      multiply_steps(d, consumer, work, at);
      if (!work.ends) {
        write_sums(sums_of(a, blockIdx.x, consumer), d);
        __threadfence();
        meet(kBoth, kConsumers * 128);
        if (threadIdx.x == 128) atomicExch(a.done + blockIdx.x, 1);
        continue;
      }
      if (a.shape.parts == 0) add_others(a, d, consumer, work);
      if constexpr (kAlternate) {
        // The second consumer's part of the tile, after its own sums of the block.
        float4* const passed = a.sums + (i64(kConsumers) * gridDim.x + blockIdx.x) * (kQuads * 128) + threadIdx.x % 128;
        if (consumer == 1) write_sums(passed, d);
        __threadfence_block();
        meet(kBoth, kConsumers * 128);
        if (consumer == 0) add_sums(d, passed);
        meet(kBoth, kConsumers * 128);  // `passed` may be written again
        if (consumer == 1) continue;
      }
      store_tile(a, work, consumer, d);
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
    if (warpgroup == 0) {
      give_registers<24>();
      if (threadIdx.x < 32 && elected()) produce(a);
    } else {
      take_registers<240>();
      consume(a, warpgroup - 1);
    }
  }
};

}  // namespace sm90
