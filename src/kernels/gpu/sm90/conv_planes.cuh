// Stores of ConvProduct to tensors whose channels are not innermost, from slabs of channels x 64 pixels.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/sm90/conv_epilogue.cuh"
#include "kernels/gpu/sm90/conv_pixel.cuh"

namespace sm90 {

/// The address of 16 bytes of the pixels of a channel in a slab of elements of kSize bytes.
template <int kSize>
DEVICE u32 plane_piece(u32 slab, int channel, int piece) {
  if constexpr (kSize == 2) return swizzled(slab, channel, piece);
  return slab + channel * 64 * kSize + ((piece ^ (channel / 2 % 4 * 2)) << 4);
}

/// The pixels that a thread of 128 stores of 64 rows: units of 8, 4 or 1.
template <class Stored, int kSpatial, int kChannels>
struct PlanePart {
  DEVICE void select(const ConvProductShape& s, const ConvPhase& p, int row) {
    const int thread = threadIdx.x % 128, unit = s.unit, units = 64 / unit;
    piece = thread % units;
    first = thread / units;
    step = 128 / units;
    const Pixel<kSpatial> pixel = pixel_at<kSpatial>(p, row + piece * unit);
    place = place_of(s, p, pixel);
    if (pixel.image >= s.images) place = -1;
  }

  /// `channel`: the slab's first one.
  DEVICE void store(const ConvProductShape& s, u32 slab, int channel, Stored* dst) const {
    if (place < 0) return;
    const int channels = min(kChannels, s.outputs - channel);
    Stored* const to = dst + place + channel * s.dst_channel;
    if (s.unit * kSize == 16)
      store_units<uint4>(s, slab, to, channels);
    else if (kSize == 2 && s.unit == 4)
      store_units<uint2>(s, slab, to, channels);
    else
      store_units<Stored>(s, slab, to, channels);
  }

 private:
  static constexpr int kSize = sizeof(Stored);
  int piece, first, step;  // of the rows in units; the first channel, and from one to the next
  i64 place;               // of the first pixel in a plane, or -1

  template <class Unit>
  DEVICE void store_units(const ConvProductShape& s, u32 slab, Stored* to, int channels) const {
    constexpr int kUnit = sizeof(Unit) / kSize, kInPiece = 16 / sizeof(Unit);
    constexpr int kUnits = kChannels * 64 / kUnit / 128, kBatch = kUnits < 8 ? kUnits : 8;
    NO_UNROLL
    for (int i = 0; i < kUnits; i += kBatch) {
      Unit v[kBatch];  // loads that are under way before the first store
      UNROLL
      for (int n = 0; n < kBatch; ++n)
        v[n] = load_shared<Unit>(plane_piece<kSize>(slab, first + (i + n) * step, piece / kInPiece) +
                                 piece % kInPiece * sizeof(Unit));
      UNROLL
      for (int n = 0; n < kBatch; ++n) {
        const int c = first + (i + n) * step;
        if (c < channels) *reinterpret_cast<Unit*>(to + c * s.dst_channel) = v[n];
      }
    }
  }
};

}  // namespace sm90
