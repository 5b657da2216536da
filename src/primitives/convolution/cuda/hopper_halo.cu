// Forward convolution, and its gradient of data with unit strides, on sm90, for few channels: rows of the matrix
// product are output channels, columns the pixels of a tile of an image. The tile is loaded with its halo once for all
// taps of a slice (D) of the filter, with strides once for each phase: 64 channels of a pixel, or 32 of fp32, are a row
// of 128 bytes in shared memory, so that a tap is a shift of the operand by whole rows. If the last are half as many or
// fewer, their rows have half the length. Columns run over the rows of the halo; those beyond the tile's width are
// dropped. The consumers work on different tiles, so that one stores while the other multiplies.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/sm90/conv_epilogue.cuh"
#include "kernels/gpu/sm90/tensor_map.cuh"

namespace sm90 {

/// kTransposed: the weights are contiguous along output channels (backward data). kHalos: tiles with halo in shared
/// memory. kStages: taps of weights there; if all of a block's tiles fit, they are loaded once. kPlanes: the output's
/// channels are not innermost (and nothing is added to it).
template <class Element, bool kTransposed, int kColumns, int kHalos, int kStages, Addend kAddend, bool kBias,
          bool kScale, int kActivation, bool kPlanes>
struct ConvHalo {
  static constexpr int kThreads = 384, kResident = 1;
  using Stored = typename Element::Stored;

  struct Arguments {
    TensorMap weights, src, half_weights, half_src, dst, residual;  // half: of rows of 64 bytes
    ConvHaloShape shape;
    ConvChannelParameters parameters;
    Stored* dst_data;  // where planes are stored
  };

 private:
  static constexpr int kSize = sizeof(Stored);
  static_assert(!kPlanes || (kAddend == kNone && kSize == 2));
  static_assert(!kTransposed || kSize == 2);
  // The 64 channels of a tile are stored in parts that fill rows of shared memory.
  static constexpr int kConsumers = 2, kDepth = kRowBytes / kSize, kHalf = kDepth / 2, kParts = 64 / kDepth;
  static constexpr u32 kStageBytes = 64 * kRowBytes;
  enum Meeting { kStore = 1, kTurn = 3 };  // numbers of barriers, one per consumer

  // Weights, barriers, tiles.
  static constexpr u32 kBarriersAt = kStages * kStageBytes, kHalosAt = kBarriersAt + 1024;

  struct Tile {
    int image, slice, row, column, output;  // the first of each
    DEVICE int group(const ConvHaloShape& s) const { return s.groups > 1 ? slice : 0; }
  };

  static DEVICE unsigned char* shared() {
    extern __shared__ __align__(1024) unsigned char bytes[];
    return bytes;
  }
  static DEVICE Barrier& barrier(int i) { return reinterpret_cast<Barrier*>(shared() + kBarriersAt)[i]; }
  static DEVICE Barrier& full(int slot) { return barrier(slot); }
  static DEVICE Barrier& empty(int slot) { return barrier(kStages + slot); }
  static DEVICE Barrier& full_halo(int slot) { return barrier(2 * kStages + slot); }
  static DEVICE Barrier& empty_halo(int slot) { return barrier(2 * kStages + kHalos + slot); }
  static DEVICE Barrier& addend(int consumer) { return barrier(2 * (kStages + kHalos) + consumer); }
  static DEVICE u32 halo_at(const ConvHaloShape& s, int slot) {
    return shared_address(shared()) + kHalosAt + slot * s.halo_bytes;
  }

  static DEVICE Tile tile_at(const ConvHaloShape& s, int index) {
    const int output = index % s.output_tiles * 64;
    index /= s.output_tiles;
    const int slice = index % s.size[2];  // neighbours read the same slices
    index /= s.size[2];
    const int column = index % s.tiles_w * s.tile_w;
    index /= s.tiles_w;
    return {index / s.tiles_h, slice, index % s.tiles_h * s.tile_h, column, output};
  }

  static DEVICE int blocks_of(const ConvHaloShape& s) { return (s.reduced + kDepth - 1) / kDepth; }

  /// Tiles with halo that a tile of the output reads: of 64 channels for each slice of the filter and each phase.
  static DEVICE int halos_of(const ConvHaloShape& s) {
    return blocks_of(s) * s.taps[2] * min(s.step[1], s.taps[1]) * min(s.step[0], s.taps[0]);
  }

  /// Calls `each` with the slice of the filter, the first row and column of its taps, and the first channel of a halo.
  template <class Each>
  static DEVICE void for_each_halo(const ConvHaloShape& s, const Each& each) {
    NO_UNROLL
    for (int z = 0; z < s.taps[2]; ++z) NO_UNROLL
    for (int y = 0; y < min(s.step[1], s.taps[1]); ++y) NO_UNROLL
    for (int x = 0; x < min(s.step[0], s.taps[0]); ++x) NO_UNROLL
    for (int c = 0; c < s.reduced; c += kDepth) each(z, y, x, c);
  }

  static DEVICE void produce(const Arguments& a) {
    const ConvHaloShape& s = a.shape;
    RingPosition<kStages> at;
    RingPosition<kHalos> halo;
    bool loads = true;
    NO_UNROLL
    for (int index = blockIdx.x; index < s.tiles; index += gridDim.x) {
      const Tile t = tile_at(s, index);
      for_each_halo(s, [&](int z, int y, int x, int c) {
        empty_halo(halo.slot).wait(halo.parity ^ 1);
        const bool half = s.reduced - c <= kHalf;
        full_halo(halo.slot).arrive_and_expect(half ? s.box_bytes / 2 : s.box_bytes);
        load_box(halo_at(s, halo.slot), half ? a.half_src : a.src, full_halo(halo.slot), c,
                 t.column * s.step[0] + s.base[0] + x, t.row * s.step[1] + s.base[1] + y,
                 t.slice * s.step[2] + s.base[2] + s.offset[2] + z * s.offset_step[2], t.image);
        halo.advance();
        if (!loads) return;
        NO_UNROLL
        for (int r = y; r < s.taps[1]; r += s.step[1]) NO_UNROLL
        for (int q = x; q < s.taps[0]; q += s.step[0]) {
          empty(at.slot).wait(at.parity ^ 1);
          full(at.slot).arrive_and_expect(half ? kStageBytes / 2 : kStageBytes);
          const u32 to = shared_address(shared()) + at.slot * kStageBytes;
          load_box(to, half ? a.half_weights : a.weights, full(at.slot), kTransposed ? t.output : c,
                   (z * s.taps[1] + r) * s.taps[0] + q, kTransposed ? c : t.output, t.group(s));
          at.advance();
        }
      });
      if (s.resident) loads = false;
    }
  }

  using Sums = float[kColumns / 2];

  /// The product of a tap, of rows of kBytes.
  template <int kBytes>
  static DEVICE void multiply_tap(Sums& d, u64 da, u64 db, int accumulate) {
    constexpr u64 kNextDepth = kTransposed ? 16 * kRowBytes / 16 : 2;  // of a, for the next 32 bytes of the depth
    begin_products();
    UNROLL
    for (int k = 0; k < kBytes / 32; ++k) multiply(d, da + k * kNextDepth, db + 2 * k, accumulate | k);
    commit_products();
  }

  /// Leaves the slot of the last halo unreleased, and `halo` at it.
  static DEVICE void multiply_tile(const ConvHaloShape& s, Sums& d, RingPosition<kStages>& at,
                                   RingPosition<kHalos>& halo) {
    const u32 weights = shared_address(shared());
    const bool first_lane = threadIdx.x % 32 == 0;
    int before = -1, accumulate = 0;
    for_each_halo(s, [&](int, int y, int x, int c) {
      const int last = before < 0 ? -1 : halo.slot;  // the slot that the products before read
      if (last >= 0) halo.advance();
      full_halo(halo.slot).wait(halo.parity);
      const bool half = s.reduced - c <= kHalf;
      const u64 a0 = half && !kTransposed ? operand<kRowBytes / 2>(weights) : operand(weights);
      const u64 b0 = half ? operand<kRowBytes / 2>(halo_at(s, halo.slot)) : operand(halo_at(s, halo.slot));
      const int row = (half ? kRowBytes / 2 : kRowBytes) / 16;
      bool releases = last >= 0;
      int halo_row = s.offset[1];
      NO_UNROLL
      for (int r = y; r < s.taps[1]; r += s.step[1], halo_row += s.offset_step[1]) {
        u64 db = b0 + u64((halo_row * s.halo_w + s.offset[0]) * row);
        NO_UNROLL
        for (int q = x; q < s.taps[0]; q += s.step[0]) {
          full(at.slot).wait(at.parity);
          const u64 da = a0 + at.slot * (kStageBytes / 16);
          if (half)
            multiply_tap<kRowBytes / 2>(d, da, db, accumulate);
          else
            multiply_tap<kRowBytes>(d, da, db, accumulate);
          wait_for_products<1>();  // those of the tap before have read their operands
          accumulate = 1;
          if (first_lane && before >= 0 && !s.resident) empty(before).arrive();
          if (first_lane && releases) empty_halo(last).arrive();
          releases = false;
          before = at.slot;
          at.advance();
          db += s.offset_step[0] * row;
        }
      }
    });
    wait_for_products<0>();
    if (first_lane && !s.resident) empty(before).arrive();
    if (s.resident) at = {};
  }

  /// The address of a 16-byte piece of a channel's columns, rotated by the channel: eight channels are in different
  /// banks.
  static DEVICE u32 plane_piece(u32 tile, int channel, int piece) {
    constexpr int kPieces = kColumns / 8, kRotations = kPieces < 8 ? kPieces : 8;
    int at = piece + channel % kRotations;
    if (at >= kPieces) at -= kPieces;
    return tile + (channel * kPieces + at) * 16;
  }

  static DEVICE void store_planes(const Arguments& a, const Tile& t, int consumer, const Sums& d, int slot,
                                  const float (&bias)[2], const float (&scale)[2]) {
    const ConvHaloShape& s = a.shape;
    const int thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32;
    const u32 tile = halo_at(s, slot);  // now of 64 channels x kColumns
    UNROLL
    for (int j = 0; j < kColumns / 8; j += 2) {
      u32 packed[4] = {};
      UNROLL
      for (int m = 0; m < 4; ++m) {  // an 8x8 matrix: channels 8 (m % 2), columns 8 (m / 2)
        if (j + m / 2 >= kColumns / 8) continue;
        const float* const sums = &d[4 * (j + m / 2) + 2 * (m % 2)];
        packed[m] =
            Element::pack(finish<kNone, kBias, kScale, kActivation>(s.scalars, sums[0], scale[m % 2], bias[m % 2], 0),
                          finish<kNone, kBias, kScale, kActivation>(s.scalars, sums[1], scale[m % 2], bias[m % 2], 0));
      }
      // Of an odd number of pieces the last matrices repeat the first address, of the same values.
      const bool last = j + 1 == kColumns / 8;
      if (last) {
        packed[2] = packed[0];
        packed[3] = packed[1];
      }
      store_matrices(plane_piece(tile, 16 * warp + lane / 8 % 2 * 8 + lane % 8, last ? j : j + lane / 16), packed);
    }
    meet(kStore + consumer, 128);
    const int channels = min(64, s.outputs - t.output);
    u16* const to = a.dst_data + t.image * s.dst_image + t.output * s.dst_channel + t.slice * s.dst_slice;
    NO_UNROLL
    for (int column = thread; column < kColumns; column += 128) {
      const int y = column / s.halo_w, x = column - y * s.halo_w;
      if (x >= s.tile_w || y >= s.tile_h || t.row + y >= s.size[1] || t.column + x >= s.size[0]) continue;
      u16* const plane = to + (t.row + y) * s.dst_row + t.column + x;
      constexpr int kBatch = 16;  // loads that are under way before the first store
      NO_UNROLL
      for (int first = 0; first < channels; first += kBatch) {
        u16 v[kBatch];
        UNROLL
        for (int c = 0; c < kBatch; ++c)
          v[c] = load_shared<u16>(plane_piece(tile, first + c, column / 8) + column % 8 * 2);
        u16* const batch = plane + first * s.dst_channel;
        UNROLL
        for (int c = 0; c < kBatch; ++c)
          if (first + c < channels) batch[c * s.dst_channel] = v[c];
      }
    }
    publish_writes();  // the copy engine writes the slot next
    meet(kStore + consumer, 128);
    if (thread == 0)
      for (int i = 0; i < 4; ++i) empty_halo(slot).arrive();
  }

  static DEVICE void store_tile(const Arguments& a, const Tile& t, int consumer, const Sums& d, int slot,
                                u32& addends) {
    const ConvHaloShape& s = a.shape;
    const int thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32;
    const u32 tile = halo_at(s, slot);  // now of tile_h * tile_w pixels x kDepth channels
    float bias[2] = {}, scale[2] = {1, 1};
    UNROLL
    for (int h = 0; h < 2; ++h) {
      int channel = t.output + 16 * warp + lane / 4 + 8 * h;
      if (channel >= s.outputs) continue;
      channel += t.group(s) * s.outputs;
      const ScaleAndBias of = scale_and_bias<Element, kBias, kScale>(a.parameters, channel);
      bias[h] = of.bias;
      scale[h] = of.scale;
    }
    UNROLL
    for (int part = 0; part < kParts; ++part) {
      const int output = t.output + part * kDepth;
      if (part > 0 && output >= s.outputs) break;
      meet(kStore + consumer, 128);  // all products have read the halo, the copy engine has read the part before
      if constexpr (kAddend != kNone) {
        if (thread == 0) {
          addend(consumer).arrive_and_expect(s.tile_w * s.tile_h * kRowBytes);
          load_box(tile, kAddend == kOld ? a.dst : a.residual, addend(consumer), output, t.column, t.row, t.slice,
                   t.image);
        }
        addend(consumer).wait(addends & 1);
        ++addends;
      }
      if constexpr (kPlanes) return store_planes(a, t, consumer, d, slot, bias, scale);
      if (warp / (4 / kParts) == part) fill_part(s, tile, warp % (4 / kParts), d, bias, scale);
      publish_writes();
      meet(kStore + consumer, 128);
      if (thread == 0) {
        store_box(a.dst, tile, output, t.column, t.row, t.slice, t.image);
        commit_stores();
        wait_for_reads<0>();
      }
    }
    if (thread == 0)
      for (int i = 0; i < 4; ++i) empty_halo(slot).arrive();
  }

  /// The pixels of a warp's 16 channels, of which those of the part before it are 16 * `before`.
  static DEVICE void fill_part(const ConvHaloShape& s, u32 tile, int before, const Sums& d, const float (&bias)[2],
                               const float (&scale)[2]) {
    const int lane = threadIdx.x % 32;
    // The row of the tile that this lane addresses: that of column 8 (lane / 16) + lane % 8 of the product.
    int x = lane / 16 * 8 + lane % 8, y = 0;
    const int piece = 2 * before + lane / 8 % 2, dropped = s.tile_w * s.tile_h;
    UNROLL
    for (int j = 0; j < kColumns / 8; j += 2) {
      while (x >= s.halo_w) {
        x -= s.halo_w;
        ++y;
      }
      const int row = x < s.tile_w && y < s.tile_h ? y * s.tile_w + x : dropped;
      const u32 first = swizzled(tile, row, 0);
      u32 packed[4] = {};
      UNROLL
      for (int h = 0; h < 2; ++h) {  // columns 8 h
        if (j + h >= kColumns / 8) continue;
        u32 at[2];
        if constexpr (kAddend != kNone || kSize == 4) {
          // The lane that addresses column 8 h + 2 (lane % 4) + e knows where its row begins.
          UNROLL
          for (int e = 0; e < 2; ++e) at[e] = __shfl_sync(~0u, first, 16 * h + 2 * (lane % 4) + e);
        }
        UNROLL
        for (int c = 0; c < 2; ++c) {  // channels 8 c: an 8x8 matrix
          const u32 channel_at = (16 * before + 8 * c + lane / 4) * kSize;
          float v[2], added[2] = {};
          UNROLL
          for (int e = 0; e < 2; ++e) {
            if constexpr (kAddend != kNone) added[e] = Element::of(load_shared<Stored>(at[e] ^ channel_at));
            v[e] = finish<kAddend, kBias, kScale, kActivation>(s.scalars, d[4 * (j + h) + 2 * c + e], scale[c], bias[c],
                                                               added[e]);
            if constexpr (kSize == 4) store_shared(at[e] ^ channel_at, v[e]);
          }
          if constexpr (kSize == 2) packed[2 * h + c] = Element::pack(v[0], v[1]);
        }
      }
      if constexpr (kSize == 2) {
        if constexpr (kAddend != kNone) __syncwarp();
        store_matrices_transposed(swizzled(tile, row, piece), packed);
      }
      x += 16;
    }
  }

  static DEVICE void consume(const Arguments& a, int consumer) {
    const ConvHaloShape& s = a.shape;
    RingPosition<kStages> at;
    RingPosition<kHalos> halo;
    u32 addends = 0;
    const int halos = halos_of(s), steps = s.resident ? 0 : blocks_of(s) * s.taps[0] * s.taps[1] * s.taps[2];
    int turn = 0;  // of the tile, among those of the block
    NO_UNROLL
    for (int index = blockIdx.x; index < s.tiles; index += gridDim.x, ++turn) {
      if (turn % kConsumers != consumer) {
        at.skip(steps);
        halo.skip(halos);
        continue;
      }
      const Tile t = tile_at(s, index);
      Sums d;
      if (turn > 0) meet(kTurn + consumer, 256);
      multiply_tile(s, d, at, halo);
      if (index + int(gridDim.x) < s.tiles) signal(kTurn + 1 - consumer, 256);
      store_tile(a, t, consumer, d, halo.slot, addends);
      halo.advance();
    }
    if (!kPlanes && threadIdx.x % 128 == 0) wait_for_stores();
  }

 public:
  static DEVICE void run(const Arguments& a) {
    const int warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0);  // the same for all threads of a warp
    if (threadIdx.x == 0) {
      for (int i = 0; i < kStages; ++i) {
        full(i).init(1);
        empty(i).init(4);  // a warp each
      }
      for (int i = 0; i < kHalos; ++i) {
        full_halo(i).init(1);
        empty_halo(i).init(4);
      }
      for (int i = 0; i < kConsumers; ++i) addend(i).init(1);
      publish_barriers();
    }
    __syncthreads();
    if (warpgroup == 0) {
      give_registers<40>();
      if (threadIdx.x < 32 && elected()) produce(a);
    } else {
      take_registers<232>();
      consume(a, warpgroup - 1);
    }
  }
};

}  // namespace sm90
