// Depthwise convolution of long filters along one dimension on NVIDIA's matrix units (mma.sync). With rows of 64
// results, result 64 i + j of a tile is the sum over m of source[64 i + m] * taps[m - j]: the product of a matrix whose
// rows begin 64 elements apart in one sequence, and of a Toeplitz matrix, of which eight more m add one fragment.
// Backward data reads dy, and the taps reversed. The gradient of the filter reads x, takes dy for taps, and adds
// images. Tensors may have any strides.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/sm90/barrier.cuh"
#include "kernels/gpu/sm90/conv_shape.h"
#include "kernels/gpu/sm90/warp.cuh"
#include "kernels/gpu/sm90/warpgroup.cuh"

namespace sm90 {

/// The bits of the exponents of two elements.
template <class Element>
constexpr u32 kExponents = 0x7f807f80;
template <>
constexpr u32 kExponents<Half> = 0x7c007c00;

/// kWarps: of a block, each with kRowBlocks blocks of 16 rows. kChannels: of a block, 1, or 8 that are contiguous
/// except in the filter or its gradient. kReversed: the order of the taps. kAddsImages: the taps differ between images,
/// whose results add up.
template <class Element, int kWarps, int kRowBlocks, int kChannels, bool kReversed, bool kAddsImages>
struct ConvLongFilters {
  static constexpr int kThreads = 32 * kWarps, kResident = (kRowBlocks > 1 ? 12 : 16) / kWarps;  // by registers

  struct Arguments {
    const u16 *source, *taps;
    u16* result;
    ConvLongFiltersShape shape;
  };

 private:
  static constexpr int kRow = 64, kDepth = 16, kUnit = 8;                // elements
  static constexpr int kColumnBlocks = kRow / kUnit;                     // of 8 results of a row
  static constexpr int kStepsAtOnce = 8, kFragments = 2 * kStepsAtOnce;  // those of a step are two of a ring's
  static constexpr int kAtOnce = kStepsAtOnce * kDepth;
  static constexpr int kWarpsOfChannel = kWarps / kChannels;
  static constexpr int kWarpResults = kRowBlocks * 16 * kRow, kResults = kWarpsOfChannel * kWarpResults;
  static_assert(kChannels == 1 || kChannels == kUnit);

  /// A channel's sequences in shared memory: the source, and the taps in pairs that begin at even ones and, in other
  /// banks, at odd ones.
  struct Sequences {
    u32 source, even, odd, channel_bytes;
    u32 flag;  // of the block: not 0 from when it met an infinity or NaN in the source

    explicit DEVICE Sequences(int chunk) {
      extern __shared__ __align__(1024) unsigned char bytes[];
      source = shared_address(bytes);
      even = source + (kResults - kRow + chunk) * 2;
      odd = even + (chunk + kRow) * 2 + 64;
      channel_bytes = odd + (chunk + kRow) * 2 + 16 - source;
      flag = source + kChannels * channel_bytes;
    }
    DEVICE Sequences of(int channel) const {
      Sequences s = *this;
      s.source += channel * channel_bytes;
      s.even += channel * channel_bytes;
      s.odd += channel * channel_bytes;
      return s;
    }
  };

  /// Units of 16 bytes are swizzled, so that those of eight rows are in different banks.
  static DEVICE u32 swizzled(u32 unit) { return (unit & ~7u) | ((unit ^ unit >> 3) & 7); }

  static DEVICE u32 element(const u16* from, int at, int size, i64 step) {
    return u32(at) < u32(size) ? from[at * step] : 0;
  }

  static DEVICE u32 pair(const u16* source, int at, const ConvLongFiltersShape& s) {
    return element(source, at, s.source_size, s.source_step) | element(source, at + 1, s.source_size, s.source_step)
                                                                   << 16;
  }

  /// Element `at` of eight channels.
  static DEVICE uint4 elements(const u16* from, int at, int size, i64 step) {
    if (u32(at) >= u32(size)) return make_uint4(0, 0, 0, 0);
    const u16* const v = from + at * step;
    if (u64(v) % 16 == 0) return *reinterpret_cast<const uint4*>(v);
    return make_uint4(v[0] | u32(v[1]) << 16, v[2] | u32(v[3]) << 16, v[4] | u32(v[5]) << 16, v[6] | u32(v[7]) << 16);
  }

  /// Carries into the sign of an infinity or NaN.
  static DEVICE u32 exponents_and_one(u32 pair) {
    constexpr u32 kMask = kExponents<Element>, kOne = kMask & ~(kMask << 1);
    return kOne + (pair & kMask);
  }

  /// `count` elements from from[first] on, of eight channels. Returns the bits of exponents_and_one().
  static DEVICE u32 load_channels(const Sequences& to, const u16* from, int first, int count, int size, i64 step) {
    u32 found = 0;
    for (int i = threadIdx.x * 2; i < count; i += kThreads * 2) {
      const uint4 one = elements(from, first + i, size, step), next = elements(from, first + i + 1, size, step);
      const u32 low[4] = {one.x, one.y, one.z, one.w}, high[4] = {next.x, next.y, next.z, next.w};
      UNROLL
      for (int c = 0; c < kUnit; ++c) {
        const u32 bits =
            c % 2 ? low[c / 2] >> 16 | (high[c / 2] & 0xffff0000u) : (low[c / 2] & 0xffff) | high[c / 2] << 16;
        found |= exponents_and_one(bits);
        store_shared(to.of(c).source + swizzled(i / kUnit) * 16 + i % kUnit * 2, bits);
      }
    }
    return found;
  }

  /// `count` elements from source[first] on.
  static DEVICE void load_source(const Sequences& to, const u16* from, const ConvLongFiltersShape& s, int first,
                                 int count) {
    u32 found = 0;
    if constexpr (kChannels > 1) {
      found = load_channels(to, from, first, count, s.source_size, s.source_step);
    } else {
      for (int unit = threadIdx.x; unit < count / kUnit; unit += kThreads) {
        const int at = first + unit * kUnit;
        uint4 v;
        if (s.source_step == 1 && u64(from + at) % 16 == 0 && at >= 0 && at + kUnit <= s.source_size)
          v = *reinterpret_cast<const uint4*>(from + at);
        else
          v = make_uint4(pair(from, at, s), pair(from, at + 2, s), pair(from, at + 4, s), pair(from, at + 6, s));
        found |= exponents_and_one(v.x) | exponents_and_one(v.y) | exponents_and_one(v.z) | exponents_and_one(v.w);
        store_shared(to.source + swizzled(unit) * 16, v);
      }
    }
    if (found & 0x80008000u) store_shared(to.flag, 1u);
  }

  static DEVICE void store_tap(const Sequences& to, int i, u32 tap) {
    store_shared(to.even + i * 2, u16(tap));
    store_shared(to.odd + i * 2 + 2, u16(tap));
  }

  /// `count` elements from taps[first] on.
  static DEVICE void load_taps(const Sequences& to, const u16* from, const ConvLongFiltersShape& s, int first,
                               int count) {
    if constexpr (kChannels > 1 && kAddsImages) {
      for (int i = threadIdx.x; i < count; i += kThreads) {
        const uint4 v = elements(from, first + i, s.taps, s.tap_step);
        const u32 pairs[4] = {v.x, v.y, v.z, v.w};
        UNROLL
        for (int c = 0; c < kUnit; ++c) store_tap(to.of(c), i, pairs[c / 2] >> c % 2 * 16);
      }
    } else {
      for (int c = 0; c < kChannels; ++c)
        for (int i = threadIdx.x; i < count; i += kThreads) {
          const int at = first + i;
          store_tap(to.of(c), i,
                    element(from + c * s.tap_channel, kReversed ? s.taps - 1 - at : at, s.taps, s.tap_step));
        }
    }
  }

  /// Adds the products of m in [first, end), which are multiples of 128.
  static DEVICE void multiply_chunk(const Sequences& from, int first, int end,
                                    float (&sums)[kRowBlocks][kColumnBlocks][4]) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % kWarpsOfChannel, column = lane / 4;
    // Fragment h has taps[8 h + 2 (lane % 4) - column] and the next one; those before tap 0 of the chunk are a row's.
    const int start = kRow + lane % 4 * 2 - column;
    const u32 taps = column % 2 ? from.odd + (start + 1) * 2 : from.even + start * 2;
    const int row = warp * kRowBlocks * 16 + lane % 16, half = lane / 16;
    u32 fragments[kFragments];
    UNROLL
    for (int h = 1; h < kColumnBlocks; ++h)
      fragments[kFragments - h] = load_shared<u32>(taps + (first / kUnit - h) * (kUnit * 2));
    NO_UNROLL
    for (int m = first; m < end; m += kAtOnce) {
      UNROLL
      for (int step = 0; step < kStepsAtOnce; ++step) {
        UNROLL
        for (int h = 2 * step; h < 2 * step + 2; ++h)
          fragments[h] = load_shared<u32>(taps + (m / kUnit + h) * (kUnit * 2));
        const u32 line = row + m / kRow + step / 4;  // of eight units
        const u32 at = from.source + (line * 8 + ((step % 4 * 2 | half) ^ (line & 7))) * 16;
        UNROLL
        for (int block = 0; block < kRowBlocks; ++block) {
          u32 rows[4];
          load_matrices(at + block * (16 * kRow * 2), rows);
          UNROLL
          for (int c = 0; c < kColumnBlocks; ++c) {
            const u32 b[2] = {fragments[(2 * step - c) & (kFragments - 1)],
                              fragments[(2 * step + 1 - c) & (kFragments - 1)]};
            multiply_by_warp<Element>(sums[block][c], rows, b);
          }
        }
      }
    }
  }

  /// The same for taps that begin with tap `first_tap`, without products by zeros beyond them, which an infinity or
  /// NaN of the source would turn into NaN.
  static DEVICE void multiply_each(const Sequences& from, int first, int end, int first_tap, int taps,
                                   float (&sums)[kRowBlocks][kColumnBlocks][4]) {
    const int row = threadIdx.x / 32 % kWarpsOfChannel * (kRowBlocks * 16) + threadIdx.x % 32 / 4;
    NO_UNROLL
    for (int m = first; m < end; ++m) {
      float v[kRowBlocks * 2];
      UNROLL
      for (int r = 0; r < kRowBlocks * 2; ++r) {
        const u32 at = (row + r * 8) * kRow + m;
        v[r] = Element::of(load_shared<u16>(from.source + swizzled(at / kUnit) * 16 + at % kUnit * 2));
      }
      UNROLL
      for (int c = 0; c < kColumnBlocks; ++c) UNROLL
      for (int i = 0; i < 2; ++i) {
        const int column = column_of(c) + i;
        if (u32(first_tap + m - column) >= u32(taps)) continue;
        const float tap = Element::of(load_shared<u16>(from.even + (kRow + m - column) * 2));
        UNROLL
        for (int r = 0; r < kRowBlocks * 2; ++r) {
          float& sum = sums[r / 2][c][r % 2 * 2 + i];
          sum = FMA(v[r], tap, sum);
        }
      }
    }
  }

  /// The first of a thread's two columns of a block, within a row.
  static DEVICE int column_of(int block) { return block * kUnit + threadIdx.x % 4 * 2; }

  /// The results of a warp from `first` on, of which `count` exist.
  static DEVICE void store(u16* to, const ConvLongFiltersShape& s, int first, int count,
                           const float (&sums)[kRowBlocks][kColumnBlocks][4]) {
    UNROLL
    for (int block = 0; block < kRowBlocks; ++block) UNROLL
    for (int c = 0; c < kColumnBlocks; ++c) UNROLL
    for (int half = 0; half < 2; ++half) {
      const int row = block * 16 + half * 8 + threadIdx.x % 32 / 4, at = first + row * kRow + column_of(c);
      u16* const result = to + at * s.result_step;
      const float v[2] = {s.alpha * sums[block][c][half * 2], s.alpha * sums[block][c][half * 2 + 1]};
      if (s.result_step == 1 && u64(result) % 4 == 0 && at + 1 < count) {
        u32* const pair = reinterpret_cast<u32*>(result);
        if (s.beta != 0)
          *pair = Element::pack(FMA(s.beta, Element::low(*pair), v[0]), FMA(s.beta, Element::high(*pair), v[1]));
        else
          *pair = Element::pack(v[0], v[1]);
        continue;
      }
      UNROLL
      for (int i = 0; i < 2; ++i) {
        if (at + i >= count) continue;
        u16* const one = result + i * s.result_step;
        *one = u16(Element::pack(s.beta != 0 ? FMA(s.beta, Element::of(*one), v[i]) : v[i], 0));
      }
    }
  }

  /// The results of all channels from `first` on, of which `count` exist, through the source's shared memory.
  static DEVICE void store_channels(const Sequences& shared, u16* to, const ConvLongFiltersShape& s, int first,
                                    int count, const float (&sums)[kRowBlocks][kColumnBlocks][4]) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const Sequences own = shared.of(warp / kWarpsOfChannel);
    __syncthreads();
    if (s.beta != 0) load_channels(shared, to, first, kResults, s.results, s.result_step);
    __syncthreads();
    UNROLL
    for (int block = 0; block < kRowBlocks; ++block) UNROLL
    for (int c = 0; c < kColumnBlocks; ++c) UNROLL
    for (int half = 0; half < 2; ++half) {
      const int row = (warp % kWarpsOfChannel * kRowBlocks + block) * 16 + half * 8 + lane / 4;
      const u32 at = own.source + swizzled(row * kColumnBlocks + c) * 16 + lane % 4 * 4;
      float low = s.alpha * sums[block][c][half * 2], high = s.alpha * sums[block][c][half * 2 + 1];
      if (s.beta != 0) {
        const u32 old = load_shared<u32>(at);
        low = FMA(s.beta, Element::low(old), low);
        high = FMA(s.beta, Element::high(old), high);
      }
      store_shared(at, Element::pack(low, high));
    }
    __syncthreads();
    for (int i = threadIdx.x; i < min(kResults, count); i += kThreads) {
      u32 v[4];
      UNROLL
      for (int c = 0; c < 4; ++c) {
        const u32 at = swizzled(i / kUnit) * 16 + i % kUnit * 2;
        v[c] = load_shared<u16>(shared.of(2 * c).source + at) | u32(load_shared<u16>(shared.of(2 * c + 1).source + at))
                                                                    << 16;
      }
      u16* const results = to + (first + i) * s.result_step;
      if (u64(results) % 16 == 0) {
        *reinterpret_cast<uint4*>(results) = make_uint4(v[0], v[1], v[2], v[3]);
        continue;
      }
      UNROLL
      for (int c = 0; c < kUnit; ++c) results[c] = u16(v[c / 2] >> c % 2 * 16);
    }
  }

 public:
  static DEVICE void run(const Arguments& a) {
    const ConvLongFiltersShape& s = a.shape;
    const int tile = blockIdx.x % s.tiles, set = blockIdx.x / s.tiles, groups = s.channels / kChannels;
    const int channel = set % groups * kChannels, warp = threadIdx.x / 32;
    const int first_image = set / groups, end_image = kAddsImages ? s.images : first_image + 1;
    const int first = tile * kResults, own = first + warp % kWarpsOfChannel * kWarpResults;
    const Sequences shared(s.chunk), mine = shared.of(warp / kWarpsOfChannel);
    float sums[kRowBlocks][kColumnBlocks][4] = {};
    if (threadIdx.x == 0) store_shared(shared.flag, 0u);
    NO_UNROLL
    for (int image = first_image; image < end_image; ++image) {
      const i64 plane = image * s.source_image + channel * s.source_channel;
      const u16* const source = a.source + plane;
      const u16* const taps = a.taps + image * s.tap_image + channel * s.tap_channel;
      // Elements before the first one that a result needs, so that units of 16 bytes are aligned if the tensor is: sums
      // do not depend on its address.
      const int shift = s.source_step == 1 ? int((plane + s.first) & (kUnit - 1)) : 0;
      const int depth = shift + s.taps + kRow - 1;
      NO_UNROLL
      for (int m = 0; m < depth; m += s.chunk) {
        const int from = s.first - shift + first + m;  // of the source, in shared memory
        const int left = min(s.chunk, depth - m), count = (left + kAtOnce - 1) / kAtOnce * kAtOnce;
        if (from + kResults - kRow + count <= 0 || from >= s.source_size) continue;
        __syncthreads();
        load_source(shared, source, s, from, kResults - kRow + count);
        load_taps(shared, taps, s, m - shift - kRow, count + kRow);
        __syncthreads();
        if (own >= s.results) continue;
        // Only m whose elements of the source, and whose taps, exist.
        constexpr int kReach = kWarpResults - kRow + kDepth;
        const int start = from + own - first;
        const int low = max(0, -(start + kReach)), high = min(left, s.source_size - start);
        if (low >= high) continue;
        if (load_shared<u32>(shared.flag))
          multiply_each(mine, low, high, m - shift, s.taps, sums);
        else
          multiply_chunk(mine, low / kAtOnce * kAtOnce, (high + kAtOnce - 1) / kAtOnce * kAtOnce, sums);
      }
    }
    u16* const result = a.result + first_image * s.result_image + channel * s.result_channel;
    if constexpr (kChannels > 1 && !kAddsImages)
      store_channels(shared, result, s, first, s.results - first, sums);
    else if (own < s.results)
      store(result + warp / kWarpsOfChannel * s.result_channel, s, own, s.results, sums);
  }
};

}  // namespace sm90
