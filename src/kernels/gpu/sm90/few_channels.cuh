// Source pixels of ConvFewChannels: tiles of cells, and their copies in shared memory.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/sm90/async_copy.cuh"
#include "kernels/gpu/sm90/conv_shape.h"
#include "kernels/gpu/sm90/warpgroup.cuh"
#include "kernels/gpu/portable/portable.h"

namespace sm90 {

/// The number of the tap that result `r` of a cell multiplies with source point `j`, or something outside of the
/// filter.
DEVICE int few_channels_tap(const ConvFewChannelsShape& s, int i, int j, int r) {
  return s.tap_of_point[i] * j + s.tap_of_result[i] * r + s.first_tap[i];
}

/// How lanes take the source: pairs of channels from shared memory; matrices of eight channels of eight pixels from
/// there; 32 channels of a pixel, of which a lane has eight, from global memory (filters of one tap), or the same
/// element by element.
enum ConvFewChannelsSource { kPairs, kMatrices, kPixels, kElements };

/// n / divisor by a multiplication, where n * divisor is below 2^32.
struct Quotient {
  u32 reciprocal;
  explicit DEVICE Quotient(int divisor) : reciprocal(~0u / u32(divisor)) {}
  DEVICE int operator()(int n) const { return int((u64(n) + 1) * reciprocal >> 32); }
};

/// Row `m` of the product: an output channel of a result of a cell.
struct FewChannelsRow {
  int output, result[3];

  DEVICE FewChannelsRow(const ConvFewChannelsShape& s, int m) {
    int r = m / s.outputs;
    output = m - r * s.outputs;
    UNROLL
    for (int i = 0; i < 3; ++i) {
      result[i] = r % s.cell[i];
      r /= s.cell[i];
    }
  }
};

/// A tile of cells.
struct FewChannelsTile {
  int image, first[3];

  template <class Shape>
  DEVICE FewChannelsTile(const Shape& s, int tile) {
    UNROLL
    for (int i = 0; i < 3; ++i) {
      const int rest = tile / s.tiles[i];
      first[i] = (tile - rest * s.tiles[i]) << s.tile_log[i];
      tile = rest;
    }
    image = tile;
  }
  /// Of cell n of the tile, along a dimension.
  template <class Shape>
  DEVICE int cell(const Shape& s, int n, int i) const {
    return first[i] + within(s, n, i);
  }
  template <class Shape>
  static DEVICE int within(const Shape& s, int n, int i) {
    const int shift = (i > 0 ? s.tile_log[0] : 0) + (i > 1 ? s.tile_log[1] : 0);
    return (n >> shift) & ((1 << s.tile_log[i]) - 1);
  }
};

/// Copies the source pixels of tiles, with the halo, to shared memory. Shape: ConvFewChannelsShape or
/// ConvFewChannelsOperand.
template <int kThreads, ConvFewChannelsSource kSource, class Shape>
struct FewChannelsCopy {
  static constexpr int kWarps = kThreads / 32;

  /// The source pixels of the block's cells, of a chunk of channels; zeros outside of the image and of the channels.
  static DEVICE void load(const Shape& s, u32 to, const u16* source, const FewChannelsTile& tile, int channel) {
    const u16* const image = source + tile.image * s.source_image + channel * s.source_channel;
    const int channels = s.channels - channel;
    int first[3];
    UNROLL
    for (int i = 0; i < 3; ++i) first[i] = tile.first[i] * s.step[i] + s.origin[i];
    const int unit = u64(source) % 16 == 0 ? s.load_unit : 2;
    if (kSource == kMatrices && unit == 8) {
      if (s.source_channel == 1 && 32 % (s.chunk / 8) == 0)
        load_lines(s, to, image, first, channels);
      else if (s.source_channel == 1)
        load_units<8, true>(s, to, image, first, channels);
      else
        load_blocks(s, to, image, first, channels);
    } else if (kSource == kPairs && unit == 4) {
      load_units<4, true>(s, to, image, first, channels);
    } else if (s.source_channel == 1) {
      load_units<2, true>(s, to, image, first, channels);
    } else {
      load_units<2, false>(s, to, image, first, channels);
    }
  }

  /// The lines of a tile with halo, of which a warp takes 32 units at once.
  struct Lines {
    int rows, parts, count;
    Quotient by_parts, by_rows;

    DEVICE Lines(const Shape& s, int units)
        : rows(s.halo[1]),
          parts((units + 31) / 32),
          count(parts * s.halo[1] * s.halo[2]),
          by_parts(parts),
          by_rows(s.halo[1]) {}
    /// The lane's unit of a line, and the line's place.
    DEVICE int place(int item, int& h, int& d) const {
      const int line = by_parts(item);
      d = by_rows(line);
      h = line - d * rows;
      return (item - line * parts) * 32 + threadIdx.x % 32;
    }
  };
  static DEVICE int first_item() { return __shfl_sync(~0u, int(threadIdx.x / 32), 0); }

  /// Eight channels at once, where the lanes of a warp have all channels of some pixels: it goes along a line of them.
  static DEVICE void load_lines(const Shape& s, u32 to, const u16* image, const int (&first)[3], int channels) {
    const int lane = threadIdx.x % 32, units = s.chunk / 8, log = __popc(units - 1), pixels = 32 >> log;
    const int pixel = lane >> log, c = (lane & (units - 1)) * 8, lines = s.halo[1] * s.halo[2];
    const i64 distance = pixels * s.source_step[0];
    const u32 place_distance = pixels * s.pitch;
    const Quotient by_rows(s.halo[1]);
    NO_UNROLL
    for (int line = first_item(); line < lines; line += kWarps) {
      const int d = by_rows(line), y = first[1] + line - d * s.halo[1], z = first[2] + d;
      const bool is_inside = u32(y) < u32(s.source_size[1]) && u32(z) < u32(s.source_size[2]) && c < channels;
      const u16* from =
          image + (y * s.source_step[1] + z * s.source_step[2] + (first[0] + pixel) * s.source_step[0] + c);
      u32 place = to + (line * s.halo[0] + pixel) * s.pitch + c * 2;
      _Pragma("unroll 4") for (int w = pixel; w < s.halo[0]; w += pixels) {
        const bool exists = is_inside && u32(first[0] + w) < u32(s.source_size[0]);
        copy_async(place, exists ? from : image, exists ? 16 : 0);
        from += distance;
        place += place_distance;
      }
    }
  }

  /// kUnit channels at once; pairs element by element. kChannelsFirst: lanes take channels first, else pixels.
  template <int kUnit, bool kChannelsFirst>
  static DEVICE void load_units(const Shape& s, u32 to, const u16* image, const int (&first)[3], int channels) {
    constexpr int kAtOnce = kUnit > 2 ? 1 : 6;
    const int units = s.chunk / kUnit, width = s.halo[0] * units, fast = kChannelsFirst ? units : s.halo[0];
    const Lines lines(s, width);
    const Quotient by_fast(fast);
    NO_UNROLL
    for (int i = first_item(); i < lines.count; i += kAtOnce * kWarps) {
      u32 v[kAtOnce], places[kAtOnce];
      UNROLL
      for (int j = 0; j < kAtOnce; ++j) {
        int h, d;
        const int at = lines.place(i + j * kWarps, h, d), slow = by_fast(at), rest = at - slow * fast;
        const int w = kChannelsFirst ? slow : rest, c = (kChannelsFirst ? rest : slow) * kUnit;
        const int x = first[0] + w, y = first[1] + h, z = first[2] + d;
        const bool is_unit = at < width && i + j * kWarps < lines.count;
        const bool is_inside = u32(x) < u32(s.source_size[0]) && u32(y) < u32(s.source_size[1]) &&
                               u32(z) < u32(s.source_size[2]) && is_unit;
        const u16* const from = image + (y * s.source_step[1] + z * s.source_step[2] + x * s.source_step[0]) +
                                c * (kChannelsFirst ? 1 : s.source_channel);
        const int left = is_inside ? channels - c : 0;
        places[j] = is_unit ? to + ((d * s.halo[1] + h) * s.halo[0] + w) * s.pitch + c * 2 : 0;
        if constexpr (kUnit == 8) {
          if (is_unit) copy_async(places[j], left > 0 ? from : image, left > 0 ? 16 : 0);
        } else if constexpr (kUnit == 4) {
          if (is_unit) copy_async_8(places[j], left > 0 ? from : image, left > 0 ? 8 : 0);
        } else {
          v[j] = (left > 0 ? from[0] : 0u) | (left > 1 ? u32(from[kChannelsFirst ? 1 : s.source_channel]) : 0u) << 16;
        }
      }
      UNROLL
      for (int j = 0; kUnit == 2 && j < kAtOnce; ++j)
        if (places[j] != 0) store_shared(places[j], v[j]);
    }
  }

  /// Of planes: eight pixels, which begin at a multiple of eight, of two channels at once.
  static DEVICE void load_blocks(const Shape& s, u32 to, const u16* image, const int (&first)[3], int channels) {
    constexpr int kBlock = 8;
    const int pairs = s.chunk / 2, first_block = first[0] >> 3,
              blocks = ((first[0] + s.halo[0] - 1) >> 3) - first_block + 1;
    const Lines lines(s, pairs * blocks);
    const Quotient by_pairs(pairs);
    NO_UNROLL
    for (int i = first_item(); i < lines.count; i += kWarps) {
      int h, d;
      const int at = lines.place(i, h, d), block = by_pairs(at), c = (at - block * pairs) * 2;
      const int x = (first_block + block) * kBlock, y = first[1] + h, z = first[2] + d, w = x - first[0];
      if (block >= blocks) continue;
      const bool is_inside =
          u32(x) < u32(s.source_size[0]) && u32(y) < u32(s.source_size[1]) && u32(z) < u32(s.source_size[2]);
      const u16* const from = image + (y * s.source_step[1] + z * s.source_step[2] + x + c * s.source_channel);
      const u32 place = to + ((d * s.halo[1] + h) * s.halo[0] + w) * s.pitch + c * 2;
      u32 v[2][4];
      UNROLL
      for (int e = 0; e < 2; ++e) {
        const uint4 four = is_inside && c + e < channels ? *reinterpret_cast<const uint4*>(from + e * s.source_channel)
                                                         : make_uint4(0, 0, 0, 0);
        v[e][0] = four.x;
        v[e][1] = four.y;
        v[e][2] = four.z;
        v[e][3] = four.w;
      }
      UNROLL
      for (int e = 0; e < kBlock; ++e)
        if (u32(w + e) < u32(s.halo[0]))
          store_shared(place + e * s.pitch, __byte_perm(v[0][e / 2], v[1][e / 2], e % 2 ? 0x7632 : 0x5410));
    }
  }
};

}  // namespace sm90
