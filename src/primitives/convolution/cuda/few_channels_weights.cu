// The gradient of the weights of 16-bit floats with few channels in or out, on NVIDIA's matrix units (mma.sync). A
// block copies tiles of x and dy to shared memory, the one with the filter's halo, and lanes take their fragments from
// there: rows are channels of the one, columns are channels of the other at each tap, summed over pixels. Few channels
// of the second operand stand beside those of the next pixels, so that a block of eight columns has several taps.
// Blocks add different tiles and write partial sums.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/sm90/conv_epilogue.cuh"
#include "kernels/gpu/sm90/few_channels.cuh"
#include "kernels/gpu/sm90/warp.cuh"

namespace sm90 {

/// kWarps: 4, or 8 with two tiles in shared memory; kRows: blocks of 16 rows; kColumns: blocks of 8 columns of a warp,
/// an even number. kPlanes: the rows' operand has pixels contiguous, also in shared memory. kSlots: the columns'
/// operand has few channels.
template <class Element, int kWarps, int kRows, int kColumns, bool kPlanes, bool kSlots>
struct ConvFewChannelsWeights {
  static constexpr int kThreads = 32 * kWarps, kStages = kWarps / 4;
  static constexpr int kOfRegisters = kRows * kColumns <= 12 ? 4 : kRows * kColumns <= 20 ? 3 : 2;  // of four warps
  static constexpr int kResident = kOfRegisters / kStages;
  struct Arguments {
    const u16 *rows, *columns;
    float* partials;
    ConvFewChannelsWeightsShape shape;
  };

 private:
  using Shape = ConvFewChannelsWeightsShape;
  using Operand = ConvFewChannelsOperand;
  using Place = FewChannelsTile;
  using Copy = FewChannelsCopy<kThreads, kMatrices, Operand>;
  using Sums = float[kRows][kColumns][4];

  static DEVICE u32 shared() {
    extern __shared__ __align__(1024) unsigned char bytes[];
    return shared_address(bytes);
  }

  /// Which part of the product a warp has.
  struct Part {
    int split, first_row, chunk, first_block, pixels;

    DEVICE explicit Part(const Shape& s) {
      const int parts = s.row_tiles * s.chunks * s.column_tiles, warp = threadIdx.x / 32;
      split = blockIdx.x / parts;
      const int part = blockIdx.x % parts, tile = part / s.row_tiles;
      first_row = part % s.row_tiles * 16 * kRows;
      chunk = tile / s.column_tiles;
      first_block = (tile % s.column_tiles * s.column_warps + warp % s.column_warps) * kColumns;
      pixels = warp / s.column_warps;
    }
  };

  /// Where a block of columns is: its first tap and the first of its channels in the chunk.
  struct Columns {
    int tap[3], channel;

    DEVICE Columns(const Shape& s, int block) {
      const int channels = kSlots ? 1 : s.columns.chunk / 8;
      int rest = block / channels;
      channel = (block - rest * channels) * 8;
      tap[0] = rest % s.tap_blocks * (kSlots ? s.slot_taps : 1);
      rest /= s.tap_blocks;
      tap[1] = rest % s.taps[1];
      tap[2] = rest / s.taps[1];
    }
  };

 public:
  static DEVICE void run(const Arguments& a) {
    const Shape& s = a.shape;
    const Part part(s);
    const u32 zeros = shared() + kStages * s.stage_bytes;
    if (threadIdx.x < 4) store_shared(zeros + threadIdx.x * 4, 0u);
    u32 places[kColumns / 2];
    UNROLL
    for (int j = 0; j < kColumns / 2; ++j) {
      const int block = part.first_block + 2 * j + int(threadIdx.x % 32 / 16);
      const Columns c(s, block < s.blocks ? block : 0);
      places[j] = ((c.tap[2] * s.distance[2] * s.columns.halo[1] + c.tap[1] * s.distance[1]) * s.columns.halo[0] +
                   c.tap[0] * s.distance[0]) *
                      s.columns.pitch +
                  c.channel * 2;
    }
    Sums sums;
    UNROLL
    for (int i = 0; i < kRows * kColumns * 4; ++i) sums[i / 4 / kColumns][i / 4 % kColumns][i % 4] = 0;
    u32 stage = shared(), other = shared() + (kStages - 1) * s.stage_bytes;
    load(a, part, stage, part.split);
    NO_UNROLL
    for (int tile = part.split; tile < s.all_tiles; tile += s.splits) {
      wait_for_copies<0>();
      __syncthreads();
      if (kStages > 1) load(a, part, other, tile + s.splits);  // these copies are on their way during products
      const Place place(s, tile);
      NO_UNROLL
      for (int step = part.pixels; step < s.steps; step += s.pixel_warps)
        multiply(s, place, stage, zeros, places, step, sums);
      if (kStages == 1) {
        __syncthreads();
        load(a, part, stage, tile + s.splits);
      } else {
        const u32 done = stage;
        stage = other;
        other = done;
      }
    }
    BEGIN_NEXT_KERNEL();
    __syncthreads();
    add_warps(s, part, sums);
    if (part.pixels == 0) store(a, part, sums);
  }

 private:
  /// Begins the copies of a tile, if it exists.
  static DEVICE void load(const Arguments& a, const Part& part, u32 to, int tile) {
    const Shape& s = a.shape;
    if (tile >= s.all_tiles) return;
    const Place place(s, tile);
    if constexpr (kPlanes)
      load_planes(s, to, a.rows, place, part.first_row);
    else
      Copy::load(s.rows, to, a.rows, place, part.first_row);
    if constexpr (kSlots)
      load_slots(s, to + s.columns_at, a.columns, place);
    else
      Copy::load(s.columns, to + s.columns_at, a.columns, place, part.chunk * s.columns.chunk);
    commit_copies();
  }

  /// Adds the products of 16 pixels.
  static DEVICE void multiply(const Shape& s, const Place& place, u32 rows, u32 zeros,
                              const u32 (&places)[kColumns / 2], int step, Sums& sums) {
    const u32 columns = rows + s.columns_at;
    const int lane = threadIdx.x % 32;
    u32 a[kRows][4];
    UNROLL
    for (int i = 0; i < kRows; ++i) {
      if constexpr (kPlanes) {
        load_matrices(rows + (i * 16 + lane % 16) * s.rows.pitch + (step * 2 + lane / 16) * 16, a[i]);
      } else {
        const int channel = min(i * 16 + lane / 8 % 2 * 8, s.rows.chunk - 8);
        load_matrices_transposed(rows + (step * 16 + lane % 8 + lane / 16 * 8) * s.rows.pitch + channel * 2, a[i]);
      }
    }
    // A pixel outside of the image has zeros in both operands: its other elements may be infinite.
    const int pixel = step * 16 + lane % 16;
    int at[3];
    bool exists = true;
    UNROLL
    for (int i = 0; i < 3; ++i) {
      const int within = Place::within(s, pixel, i);
      exists = exists && place.first[i] + within < s.size[i];
      at[i] = within * s.columns.step[i];
    }
    const u32 from = columns + ((at[2] * s.columns.halo[1] + at[1]) * s.columns.halo[0] + at[0]) * s.columns.pitch;
    u32 b[2][4];  // the next ones are on their way during products
    load_matrices_transposed(exists ? from + places[0] : zeros, b[0]);
    UNROLL
    for (int j = 0; j < kColumns / 2; ++j) {
      if (j + 1 < kColumns / 2) load_matrices_transposed(exists ? from + places[j + 1] : zeros, b[(j + 1) % 2]);
      const u32(&v)[4] = b[j % 2];
      const u32 first[2] = {v[0], v[1]}, second[2] = {v[2], v[3]};
      UNROLL
      for (int i = 0; i < kRows; ++i) {
        multiply_by_warp<Element>(sums[i][2 * j], a[i], first);
        multiply_by_warp<Element>(sums[i][2 * j + 1], a[i], second);
      }
    }
  }

  /// Pixels of planes, eight at once, as [channel][pixel]: a thread has eight pixels of some channels.
  static DEVICE void load_planes(const Shape& s, u32 to, const u16* source, const Place& place, int channel) {
    const Operand& o = s.rows;
    const int groups = s.steps * 2, group = threadIdx.x & (groups - 1), channels = o.channels - channel;
    const u16* from = source + (place.image * o.source_image + channel * o.source_channel);
    bool exists = true;
    UNROLL
    for (int d = 0; d < 3; ++d) {
      const int p = place.cell(s, group * 8, d);
      exists = exists && p < s.size[d];
      from += p * o.source_step[d];
    }
    const int distance = kThreads / groups;
    _Pragma("unroll 4") for (int c = threadIdx.x / groups; c < 16 * kRows; c += distance) {
      const bool is_channel = exists && c < channels;
      copy_async(to + c * o.pitch + group * 16, is_channel ? from + c * o.source_channel : source, is_channel ? 16 : 0);
    }
  }

  /// Few channels: `slot` elements of a pixel, then those of the next ones, `distance` apart.
  static DEVICE void load_slots(const Shape& s, u32 to, const u16* source, const Place& place) {
    const Operand& o = s.columns;
    const u16* const image = source + place.image * o.source_image;
    const int unit = u64(source) % 16 == 0 ? o.load_unit : 1;
    if (unit == 8)
      load_blocks(s, to, image, place);
    else if (unit == 4)
      load_units<4>(s, to, image, place);
    else if (unit == 2)
      load_units<2>(s, to, image, place);
    else
      load_units<1>(s, to, image, place);
  }

  /// The element of a pixel of a line with halo, at each of its taps.
  template <class Unit>
  static DEVICE void store_slots(const Shape& s, u32 line, int pixel, Unit v) {
    NO_UNROLL
    for (int tap = 0; tap < s.slot_taps; ++tap) {
      const int row = pixel - tap * s.distance[0];
      if (u32(row) < u32(s.columns.halo[0])) store_shared(line + row * s.columns.pitch + tap * s.slot * 2, v);
    }
  }

  /// Of planes: eight pixels, which begin at a multiple of eight, of a channel at once.
  static DEVICE void load_blocks(const Shape& s, u32 to, const u16* image, const Place& place) {
    const Operand& o = s.columns;
    int first[3];
    UNROLL
    for (int i = 0; i < 3; ++i) first[i] = place.first[i] * o.step[i] + o.origin[i];
    const int pixels = o.halo[0] + (s.slot_taps - 1) * s.distance[0], first_block = first[0] >> 3,
              blocks = ((first[0] + pixels - 1) >> 3) - first_block + 1;
    const typename Copy::Lines lines(o, o.channels * blocks);
    const Quotient by_blocks(blocks);
    NO_UNROLL
    for (int i = Copy::first_item(); i < lines.count; i += kWarps) {
      int h, d;
      const int at = lines.place(i, h, d), c = by_blocks(at), block = at - c * blocks;
      const int x = (first_block + block) * 8, y = first[1] + h, z = first[2] + d;
      if (c >= o.channels) continue;
      const bool is_inside =
          u32(x) < u32(o.source_size[0]) && u32(y) < u32(o.source_size[1]) && u32(z) < u32(o.source_size[2]);
      const u16* const from = image + (y * o.source_step[1] + z * o.source_step[2] + x + c * o.source_channel);
      const uint4 v = is_inside ? *reinterpret_cast<const uint4*>(from) : make_uint4(0, 0, 0, 0);
      const u32 line = to + (d * o.halo[1] + h) * o.halo[0] * o.pitch + c * 2, pairs[4] = {v.x, v.y, v.z, v.w};
      UNROLL
      for (int e = 0; e < 8; ++e) store_slots(s, line, x - first[0] + e, u16(pairs[e / 2] >> e % 2 * 16));
    }
  }

  template <int kUnit>
  static DEVICE void load_units(const Shape& s, u32 to, const u16* image, const Place& place) {
    constexpr int kAtOnce = 6;
    const Operand& o = s.columns;
    const bool last = o.source_channel == 1;
    const int pixels = o.halo[0] + (s.slot_taps - 1) * s.distance[0], units = o.channels / kUnit,
              width = pixels * units, fast = last ? units : pixels;
    const typename Copy::Lines lines(o, width);
    const Quotient by_fast(fast);
    NO_UNROLL
    for (int i = Copy::first_item(); i < lines.count; i += kAtOnce * kWarps) {
      uint2 v[kAtOnce];
      int pixel[kAtOnce];
      u32 line[kAtOnce];
      UNROLL
      for (int j = 0; j < kAtOnce; ++j) {
        int h, d;
        const int at = lines.place(i + j * kWarps, h, d), slow = by_fast(at), rest = at - slow * fast;
        const int c = (last ? rest : slow) * kUnit;
        const bool is_unit = at < width && i + j * kWarps < lines.count;
        pixel[j] = is_unit ? (last ? slow : rest) : -1;
        line[j] = to + (d * o.halo[1] + h) * o.halo[0] * o.pitch + c * 2;
        const int x = place.first[0] * o.step[0] + o.origin[0] + pixel[j],
                  y = place.first[1] * o.step[1] + o.origin[1] + h, z = place.first[2] * o.step[2] + o.origin[2] + d;
        const bool is_inside = is_unit && u32(x) < u32(o.source_size[0]) && u32(y) < u32(o.source_size[1]) &&
                               u32(z) < u32(o.source_size[2]);
        const u16* const from =
            image + (x * o.source_step[0] + y * o.source_step[1] + z * o.source_step[2] + c * o.source_channel);
        v[j] = uint2{0, 0};
        if (kUnit == 4 && is_inside) v[j] = *reinterpret_cast<const uint2*>(from);
        if (kUnit == 2 && is_inside) v[j].x = *reinterpret_cast<const u32*>(from);
        if (kUnit == 1 && is_inside) v[j].x = *from;
      }
      UNROLL
      for (int j = 0; j < kAtOnce; ++j) {
        if (pixel[j] < 0) continue;
        if constexpr (kUnit == 4)
          store_slots(s, line[j], pixel[j], v[j]);
        else if constexpr (kUnit == 2)
          store_slots(s, line[j], pixel[j], v[j].x);
        else
          store_slots(s, line[j], pixel[j], u16(v[j].x));
      }
    }
  }

  /// Adds the sums of the warps that share pixels to those of the first one, in their order.
  static DEVICE void add_warps(const Shape& s, const Part& part, Sums& sums) {
    constexpr u32 kPitch = 512;  // of four warps at most
    const u32 at = shared() + threadIdx.x % (s.column_warps * 32) * 4;
    NO_UNROLL
    for (int other = 1; other < s.pixel_warps; ++other) {
      UNROLL
      for (int i = 0; i < kRows * kColumns * 4; ++i)
        if (part.pixels == other) store_shared(at + i * kPitch, sums[i / 4 / kColumns][i / 4 % kColumns][i % 4]);
      __syncthreads();
      UNROLL
      for (int i = 0; i < kRows * kColumns * 4; ++i)
        if (part.pixels == 0) sums[i / 4 / kColumns][i / 4 % kColumns][i % 4] += load_shared<float>(at + i * kPitch);
      __syncthreads();
    }
  }

  static DEVICE void store(const Arguments& a, const Part& part, const Sums& sums) {
    const Shape& s = a.shape;
    const int lane = threadIdx.x % 32;
    float* const partials = a.partials + part.split * s.count;
    UNROLL
    for (int j = 0; j < kColumns; ++j) {
      const Columns c(s, part.first_block + j);
      UNROLL
      for (int e = 0; e < 2; ++e) {
        const int slot = lane % 4 * 2 + e, tap = c.tap[0] + (kSlots ? slot / s.slot : 0);
        const int channel = kSlots ? slot % s.slot : part.chunk * s.columns.chunk + c.channel + slot;
        const bool exists = part.first_block + j < s.blocks && tap < s.taps[0] && channel < s.columns.channels &&
                            (!kSlots || slot / s.slot < s.slot_taps);
        const i64 to = s.first + tap * s.result_tap[0] + c.tap[1] * s.result_tap[1] + c.tap[2] * s.result_tap[2] +
                       channel * s.result_column;
        UNROLL
        for (int i = 0; i < 2 * kRows; ++i) {
          const int row = part.first_row + i * 8 + lane / 4;
          if (exists && row < s.rows.channels) partials[to + row * s.result_row] = sums[i / 2][j][i % 2 * 2 + e];
        }
      }
    }
  }
};

}  // namespace sm90
