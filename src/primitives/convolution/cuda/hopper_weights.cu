// The gradient of the weights as an implicit matrix product on sm90: rows are output channels (of dy), columns slabs of
// 64 input channels of a tap, summed over pixels. Both operands are contiguous along rows and columns (transposed);
// those of fp32 are multiplied by warps (warp_tile.cuh).
// Consecutive blocks, a group, have consecutive tiles and the same steps, so that they read the same pixels at the same
// time; the steps of all tiles of a group, one after another, are divided evenly among the groups (stream-K, Osama et
// al., 2023). The block that has the last step of a tile adds what blocks of other groups summed, in a fixed order.
// With few tiles, each block sums a part of the steps of one and writes fp32, which add_partials reduces in a fixed
// order.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/sm90/conv_exact.cuh"
#include "kernels/gpu/sm90/conv_gradient.cuh"
#include "kernels/gpu/sm90/parts.cuh"
#include "kernels/gpu/sm90/warp_tile.cuh"

namespace sm90 {

/// kRowBlocks: blocks of 64 rows of a consumer. kSlabs: slabs of a tile. kAlternate: both consumers have all rows and
/// take alternate steps; else each has half the rows. Operands of SplitFloat are tensors of parts, which only blocks
/// that write whole tiles or parts of their own multiply.
template <class Element, int kSpatial, int kRowBlocks, int kSlabs, int kStages, bool kAlternate>
struct ConvWeights {
  static constexpr int kThreads = 384, kResident = 1;

  using Stored = typename Element::Stored;
  static constexpr int kParts = Element::kParts;

  struct Arguments : ConvExactOperands<kParts> {
    TensorMap x[kParts], dy[kParts];
    ConvWeightsShape shape;
    Stored* dw;       // [outputs][taps][channels]
    float* partials;  // [parts][outputs][taps][channels], or none
    float4* sums;     // a tile of each block, and with kAlternate of its second consumer
    u32* done;        // of each block: 0 before, 1 when its sums are written
  };

 private:
  static constexpr int kConsumers = 2;
  static constexpr int kRowSlabs = kRowBlocks * (kAlternate ? 1 : kConsumers);  // of 64 output channels
  // A slab is boxes of pixels x 128 bytes, of 64 or 32 channels.
  static constexpr int kDepth = kRowBytes / Element::kOperandBytes, kBoxes = 64 / kDepth;
  static constexpr u32 kBoxBytes = kDepth * kRowBytes, kSlabBytes = kBoxes * kBoxBytes;
  static constexpr u32 kStageBytes = (kRowSlabs + kSlabs) * kSlabBytes;
  static constexpr bool kByWarps = Element::kOperandBytes == 4;
  using Tile = WarpTile<2 * kRowBlocks, 2 * kSlabs>;  // of a consumer, by warps
  static constexpr u32 kBarriersAt = kStages * kStageBytes;
  enum Meeting { kBoth = 1 };  // number of a barrier
  static_assert(!kAlternate || kStages % 2 == 0, "a slot belongs to one consumer");
  static_assert(!kAlternate || kParts == 1);

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
    int tile, first, last;

    DEVICE int row(const ConvWeightsShape& s) const { return tile % s.row_tiles; }
    DEVICE int column(const ConvWeightsShape& s) const { return tile / s.row_tiles % s.column_tiles; }
    DEVICE int group(const ConvWeightsShape& s) const { return tile / s.row_tiles / s.column_tiles; }
    /// Whether the block stores the tile, or its part of it.
    DEVICE bool ends(const ConvWeightsShape& s) const { return last == s.steps || s.has_parts; }
  };

  /// Where the steps of a group begin.
  static DEVICE int share(const ConvWeightsShape& s, int group) {
    return group * s.share_steps + group * s.longer_shares / s.groups;
  }

  /// The steps of a block, of tiles from the last to the first: what others wait for is written before the block waits.
  /// False when none are left.
  static DEVICE bool work_at(const ConvWeightsShape& s, int turn, Work& work) {
    const int group = blockIdx.x / s.group_blocks, number = blockIdx.x % s.group_blocks;
    // The last of the rounds of tiles may be without a tile for this block.
    const int tiles = s.row_tiles * s.column_tiles * s.channel_groups;
    const int rounds = (tiles - number + s.group_blocks - 1) / s.group_blocks;
    const int first = share(s, group), last = min(share(s, group + 1), rounds * s.steps);
    const int round = (last - 1) / s.steps - turn, start = round * s.steps;
    if (first >= last || start + s.steps <= first) return false;
    work = {int(round * s.group_blocks + number), max(first - start, 0), min(last - start, s.steps)};
    return true;
  }

  /// A slab of 64 channels of a tap.
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
    }
  };

  static DEVICE int taps_of(const ConvWeightsShape& s) {
    int taps = 1;
    UNROLL
    for (int i = 0; i < kSpatial; ++i) taps *= s.taps[i];
    return taps;
  }
  static DEVICE int slabs_of(const ConvWeightsShape& s) { return taps_of(s) * ((s.channels + 63) / 64); }

  static DEVICE void load_steps(const Arguments& a, const Work& work, RingPosition<kStages>& at) {
    const ConvWeightsShape& s = a.shape;
    const u32 base = shared_address(shared());
    const int row = work.row(s) * kRowSlabs * 64, first_output = work.group(s) * s.outputs + row;
    Pixel<kSpatial> out = pixel_at<kSpatial>(s, work.first * kDepth);
    const Pixel<kSpatial> advance = pixel_at<kSpatial>(s, kDepth);  // to the pixels of the next step
    Slab slabs[kSlabs];
    UNROLL
    for (int i = 0; i < kSlabs; ++i) slabs[i] = Slab(s, work.column(s) * kSlabs + i);
    // What is beyond the last channel or slab is not loaded: its sums are not stored.
    constexpr int kRowBoxes = kRowSlabs * kBoxes;
    int boxes = min((s.outputs - row + kDepth - 1) / kDepth, kRowBoxes);
    u32 exist = (1u << boxes) - 1;  // a bit for each box of dy, then of x
    UNROLL
    for (int i = 0; i < kSlabs * kBoxes; ++i) {
      const Slab& slab = slabs[i / kBoxes];
      const bool exists = slab.tap < taps_of(s) && slab.channel + i % kBoxes * kDepth < s.channels;
      boxes += exists;
      exist |= u32(exists) << (kRowBoxes + i);
    }
    UNROLL
    for (int i = 0; i < kSlabs; ++i) slabs[i].channel += work.group(s) * s.channels;
    NO_UNROLL
    for (int step = work.first; step < work.last; ++step) {
      Pixel<kSpatial> in;
      UNROLL
      for (int i = 0; i < kSpatial; ++i) in.at[i] = out.at[i] * s.step[i] + s.base[i];
      in.image = out.image;
      NO_UNROLL
      for (int part = 0; part < kParts; ++part) {
        empty(at.slot).wait(at.parity ^ 1);
        const Barrier& bar = full(at.slot);
        full(at.slot).arrive_and_expect(boxes * kBoxBytes);
        u32 to = base + at.slot * kStageBytes;
        constexpr int kNowhere[kSpatial] = {};
        UNROLL
        for (int i = 0; i < kRowBoxes; ++i, to += kBoxBytes)
          if (exist >> i & 1) load_pixels<kSpatial>(to, a.dy[part], bar, first_output + i * kDepth, out, kNowhere);
        UNROLL
        for (int i = 0; i < kSlabs * kBoxes; ++i, to += kBoxBytes) {
          const Slab& slab = slabs[i / kBoxes];
          if (exist >> (kRowBoxes + i) & 1)
            load_pixels<kSpatial>(to, a.x[part], bar, slab.channel + i % kBoxes * kDepth, in, slab.offset);
        }
        at.advance();
      }
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
    Work work;
    NO_UNROLL
    for (int turn = 0; work_at(a.shape, turn, work); ++turn) load_steps(a, work, at);
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

  // A slot of the ring, and so a step, belongs to one of the consumers that alternate.
  static constexpr int kStride = kAlternate ? kConsumers : 1;

  static DEVICE void multiply_steps(Sums& d, int consumer, const Work& work, RingPosition<kStages>& at) {
    const u32 base = shared_address(shared());
    const u32 rows = base + (kAlternate ? 0 : consumer * kRowBlocks * kSlabBytes);
    const u32 columns = base + kRowSlabs * kSlabBytes;
    const int count = work.last - work.first, skipped = kAlternate ? (at.slot + consumer) % kConsumers : 0;
    if (kAlternate && count <= skipped) {
      clear(d);
      at.skip(count);
      return;
    }
    at.skip(skipped);
    if constexpr (kByWarps)
      multiply_by_warps(d, rows, columns, skipped, count, at);
    else
      multiply_by_group(d, operand(rows, kSlabBytes), operand(columns, kSlabBytes), skipped, count, at);
  }

  static DEVICE void multiply_by_group(Sums& d, u64 a0, u64 b0, int skipped, int count, RingPosition<kStages>& at) {
    const bool first_lane = threadIdx.x % 32 == 0;
    int before = -1;
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

  /// Warps read the operands of the next 8 pixels while they multiply.
  static DEVICE void multiply_by_warps(Sums& d, u32 rows, u32 columns, int skipped, int count,
                                       RingPosition<kStages>& at) {
    const typename Tile::Rows::Lane first_dy(rows + Tile::first_row_box() * kBoxBytes, 0);
    const typename Tile::Columns::Lane first_x(columns + Tile::first_column_box() * kBoxBytes, 0);
    typename Tile::Rows::Lane from_dy = first_dy;
    typename Tile::Columns::Lane from_x = first_x;
    typename Tile::Rows dy[2];
    typename Tile::Columns x;
    const auto await = [&] {
      full(at.slot).wait(at.parity);
      from_dy = first_dy;
      from_x = first_x;
      from_dy.advance(at.slot * kStageBytes);
      from_x.advance(at.slot * kStageBytes);
    };
    clear(d);
    await();
    UNROLL
    for (int r = 0; r < Tile::kRows; ++r) dy[0].load(r, from_dy, r * kBoxBytes);
    UNROLL
    for (int c = 0; c < Tile::kColumns; ++c) x.load(c, from_x, c * kBoxBytes);
    NO_UNROLL
    for (int step = skipped; step < count; step += kStride) {
      const int slot = at.slot;
      at.skip(min(kStride, count - step));
      constexpr int kGroups = kDepth / 8;
      UNROLL
      for (int k = 1; k <= kGroups; ++k) {
        const bool more = k < kGroups || step + kStride < count;
        if (k == kGroups && more) await();
        const u32 next = k % kGroups * (8 * kRowBytes);
        UNROLL
        for (int r = 0; r < Tile::kRows; ++r)
          if (more) dy[k % 2].load(r, from_dy, next + r * kBoxBytes);
        UNROLL
        for (int c = 0; c < Tile::kColumns; ++c) {
          Tile::multiply(d, dy[(k + 1) % 2], x, c);
          if (more) x.load(c, from_x, next + c * kBoxBytes);
        }
      }
      __syncwarp();
      if (threadIdx.x % 32 == 0) empty(slot).arrive();
    }
  }

  static DEVICE void multiply_steps_of_parts(Sums& sums, int consumer, const Work& work, RingPosition<kStages>& at) {
    const u32 base = shared_address(shared());
    const u64 a0 = operand(base + consumer * kRowBlocks * kSlabBytes, kSlabBytes);
    const u64 b0 = operand(base + kRowSlabs * kSlabBytes, kSlabBytes);
    multiply_parts<kStageBytes / 16>(sums, work.last - work.first, at, &full(0),
                                     [&](Sums& d, u32 x, u32 y, bool first) {
                                       UNROLL
                                       for (int k = 0; k < kDepth / 16; ++k) UNROLL
                                       for (int b = 0; b < kRowBlocks; ++b)
                                         multiply(d[b], a0 + x + b * (kSlabBytes / 16) + 16 * kRowBytes / 16 * k,
                                                  b0 + y + 16 * kRowBytes / 16 * k, !first || k > 0);
                                     });
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
    const int start = work.tile / s.group_blocks * s.steps;
    int block = blockIdx.x;
    while (block >= s.group_blocks && share(s, block / s.group_blocks) > start) {
      block -= s.group_blocks;
      while (load_acquired(a.done + block) == 0) __nanosleep(100);
      add_sums(d, sums_of(a, block, consumer));
    }
  }

  /// Where the block's part of the sums begins.
  static DEVICE int part_at(const ConvWeightsShape& s, int pitch) {
    return int(blockIdx.x / s.group_blocks) * s.channel_groups * s.outputs * pitch;
  }

  static DEVICE void store_tile(const Arguments& a, const Work& work, int consumer, const Sums& d) {
    if constexpr (kByWarps)
      store_by_warps(a, work, consumer, d);
    else
      store_by_group(a, work, consumer, d);
  }

  static DEVICE void store_by_warps(const Arguments& a, const Work& work, int consumer, const Sums& d) {
    const ConvWeightsShape& s = a.shape;
    const int pitch = taps_of(s) * s.channels;
    const int row = (work.row(s) * kRowSlabs + (kAlternate ? 0 : consumer * kRowBlocks)) * 64 +
                    Tile::first_row_box() * kDepth + threadIdx.x % 32 / 4 * 2;
    const int group = work.group(s) * s.outputs * pitch;
    float* const to = group + (s.has_parts ? a.partials + part_at(s, pitch) : a.dw);
    const float alpha = s.has_parts ? 1 : s.alpha, beta = s.has_parts ? 0 : s.beta;
    UNROLL
    for (int j = 0; j < Tile::kColumns; ++j) {
      const int box = work.column(s) * kSlabs * kBoxes + Tile::first_column_box() + j;
      if (box / kBoxes >= slabs_of(s)) continue;
      const Slab slab(s, box / kBoxes);
      const int channel = slab.channel + box % kBoxes * kDepth, first = row * pitch + slab.tap * s.channels + channel;
      UNROLL
      for (int i = 0; i < Tile::kRows * 4; ++i) {
        const int next = i / 2 * 16 + i % 2;
        if (row + next >= s.outputs) continue;
        store_elements<Element, kDepth>(to + (first + next * pitch), s.channels - channel,
                                        Tile::sums_of(d, i / 2, 4 * j) + i % 2 * 2, alpha, beta);
      }
    }
  }

  static DEVICE void store_by_group(const Arguments& a, const Work& work, int consumer, const Sums& d) {
    const ConvWeightsShape& s = a.shape;
    const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
    const int pitch = taps_of(s) * s.channels, slabs = slabs_of(s);  // pitch of rows
    const int group = work.group(s) * s.outputs * pitch;
    const int row = (work.row(s) * kRowSlabs + (kAlternate ? 0 : consumer * kRowBlocks)) * 64 + 16 * warp + lane / 4;
    UNROLL
    for (int j = 0; j < kSlabs; ++j) {
      if (work.column(s) * kSlabs + j >= slabs) continue;
      const Slab slab(s, work.column(s) * kSlabs + j);
      const int first = group + row * pitch + slab.tap * s.channels + slab.channel, left = s.channels - slab.channel;
      UNROLL
      for (int b = 0; b < kRowBlocks; ++b) {
        UNROLL
        for (int h = 0; h < 2; ++h) {
          const int next = 64 * b + 8 * h, at = first + next * pitch;
          if (row + next >= s.outputs) continue;
          const float* const from = &d[b][32 * j + 2 * h];
          if (s.has_parts)
            store_partials(a.partials + (part_at(s, pitch) + at), left, from);
          else
            store_elements<Element>(a.dw + at, left, from, s.alpha, s.beta);
        }
      }
    }
  }

  static DEVICE void consume(const Arguments& a, int consumer) {
    RingPosition<kStages> at;
    Work work;
    NO_UNROLL
    for (int turn = 0; work_at(a.shape, turn, work); ++turn) {
      Sums d;
      if constexpr (kParts > 1)
        multiply_steps_of_parts(d, consumer, work, at);
      else
        multiply_steps(d, consumer, work, at);
      if (!work.ends(a.shape)) {
        write_sums(sums_of(a, blockIdx.x, consumer), d);
        __threadfence();
        meet(kBoth, kConsumers * 128);
        if (threadIdx.x == 128) atomicExch(a.done + blockIdx.x, 1);
        continue;
      }
      if (!a.shape.has_parts && work.first > 0) add_others(a, d, consumer, work);
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

  /// What parts cannot represent: products of fp32, by threads.
  static DEVICE void run_exactly(const Arguments& a) {
    const ConvWeightsShape& s = a.shape;
    const int pitch = taps_of(s) * s.channels;
    Work work;
    NO_UNROLL
    for (int turn = 0; work_at(s, turn, work); ++turn) {
      float* const partials = s.has_parts ? a.partials + part_at(s, pitch) : nullptr;
      const int row = work.row(s) * kRowSlabs * 64, column = work.column(s) * kSlabs;
      NO_UNROLL
      for (int i = 0; i < kRowSlabs * kSlabs; ++i) {
        const int output = row + i / kSlabs * 64, index = column + i % kSlabs;
        if (output >= s.outputs || index >= slabs_of(s)) continue;
        const Slab slab(s, index);
        ConvExactWeights<kSpatial>::run(a, output, slab.channel, slab.offset, work.first * kDepth, work.last * kDepth,
                                        partials, slab.tap * s.channels + slab.channel, pitch,
                                        reinterpret_cast<float*>(shared()));
      }
    }
  }

 public:
  static DEVICE void run(const Arguments& a) {
    if constexpr (kParts > 1)
      if (*a.outside != 0) return run_exactly(a);
    const int warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0);  // the same for all threads of a warp
    if (threadIdx.x == 0) {
      for (int i = 0; i < kStages; ++i) {
        full(i).init(1);
        empty(i).init(kAlternate ? 4 : 4 * kConsumers);  // a warp each
      }
      publish_barriers();
    }
    __syncthreads();
    BEGIN_NEXT_KERNEL();
    if (warpgroup == 0) {
      give_registers<56>();
      if (threadIdx.x < 32 && elected()) produce(a);
    } else {
      take_registers<224>();
      consume(a, warpgroup - 1);
    }
  }
};

}  // namespace sm90
