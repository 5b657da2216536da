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

/// kWarps: of a block, each with kRowBlocks blocks of 16 rows. kChunk: m that pass through shared memory together, a
/// multiple of 128. kReversed: the order of the taps. kAddsImages: the taps differ between images, whose results add
/// up.
template <class Element, int kWarps, int kRowBlocks, int kChunk, bool kReversed, bool kAddsImages>
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
  static constexpr int kWarpResults = kRowBlocks * 16 * kRow, kResults = kWarps * kWarpResults;
  static constexpr int kSource = kResults - kRow + kChunk;                             // elements in shared memory
  static constexpr u32 kTapPairs = (kChunk + kRow) / 2, kPairsApart = kTapPairs + 16;  // in other banks
  static constexpr u32 kTapsAt = kSource * 2, kFlagAt = kTapsAt + (kPairsApart + kTapPairs) * 4;
  static_assert(kChunk % (kStepsAtOnce * kDepth) == 0);

 public:
  static constexpr u32 kSharedBytes = kFlagAt + 4;

 private:
  static DEVICE u32 shared() {
    extern __shared__ __align__(1024) unsigned char bytes[];
    return shared_address(bytes);
  }

  /// Units of 16 bytes are swizzled, so that those of eight rows are in different banks.
  static DEVICE u32 swizzled(u32 unit) { return (unit & ~7u) | ((unit ^ unit >> 3) & 7); }

  /// Not 0 from when the block met an infinity or NaN in the source.
  static DEVICE u32 flag() { return shared() + kFlagAt; }

  static DEVICE u32 element(const u16* from, int at, int size, i64 step) {
    return u32(at) < u32(size) ? from[at * step] : 0;
  }

  /// source[first], ..., in pairs.
  static DEVICE void load_source(const u16* from, const ConvLongFiltersShape& s, int first) {
    constexpr u32 kLowest = kExponents<Element> & ~(kExponents<Element> << 1), kCarries = 0x80008000;
    u32 sums = 0;  // of exponents and 1
    for (int i = threadIdx.x; i < kSource / 2; i += kThreads) {
      const int at = first + 2 * i;
      const u32 pair =
          element(from, at, s.source_size, s.source_step) | element(from, at + 1, s.source_size, s.source_step) << 16;
      sums |= (pair & kExponents<Element>)+kLowest;
      store_shared(shared() + swizzled(i / 4) * 16 + i % 4 * 4, pair);
    }
    if (sums & kCarries) store_shared(flag(), 1u);
  }

  static DEVICE u32 tap(const u16* from, const ConvLongFiltersShape& s, int at) {
    return element(from, kReversed ? s.taps - 1 - at : at, s.taps, s.tap_step);
  }

  /// taps[first], ..., in pairs that begin at even, and at odd ones.
  static DEVICE void load_taps(const u16* from, const ConvLongFiltersShape& s, int first) {
    for (int i = threadIdx.x; i < kTapPairs; i += kThreads) {
      const u32 before = tap(from, s, first + 2 * i - 1), even = tap(from, s, first + 2 * i),
                odd = tap(from, s, first + 2 * i + 1);
      const u32 to = shared() + kTapsAt + i * 4;
      store_shared(to, even | odd << 16);
      store_shared(to + kPairsApart * 4, before | even << 16);
    }
  }

  /// Adds the products of m in [first, end), which are multiples of 128.
  static DEVICE void multiply_chunk(int first, int end, float (&sums)[kRowBlocks][kColumnBlocks][4]) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, column = lane / 4;
    // Fragment h has taps[8 h + 2 (lane % 4) - column] and the next one; those before tap 0 of the chunk are a row's.
    const int start = kRow + lane % 4 * 2 - column;
    const u32 taps = shared() + kTapsAt + (column % 2 * kPairsApart + (start + column % 2) / 2) * 4;
    const int row = warp * kRowBlocks * 16 + lane % 16, half = lane / 16;
    u32 fragments[kFragments];
    UNROLL
    for (int h = 1; h < kColumnBlocks; ++h)
      fragments[kFragments - h] = load_shared<u32>(taps + (first / kUnit - h) * (kUnit * 2));
    NO_UNROLL
    for (int m = first; m < end; m += kStepsAtOnce * kDepth) {
      UNROLL
      for (int step = 0; step < kStepsAtOnce; ++step) {
        UNROLL
        for (int h = 2 * step; h < 2 * step + 2; ++h)
          fragments[h] = load_shared<u32>(taps + (m / kUnit + h) * (kUnit * 2));
        const u32 line = row + m / kRow + step / 4;  // of eight units
        const u32 at = shared() + (line * 8 + ((step % 4 * 2 | half) ^ (line & 7))) * 16;
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
  static DEVICE void multiply_each(int first, int end, int first_tap, int taps,
                                   float (&sums)[kRowBlocks][kColumnBlocks][4]) {
    const int row = threadIdx.x / 32 * (kRowBlocks * 16) + threadIdx.x % 32 / 4;
    NO_UNROLL
    for (int m = first; m < end; ++m) {
      float v[kRowBlocks * 2];
      UNROLL
      for (int r = 0; r < kRowBlocks * 2; ++r) {
        const u32 at = (row + r * 8) * kRow + m;
        v[r] = Element::of(load_shared<u16>(shared() + swizzled(at / kUnit) * 16 + at % kUnit * 2));
      }
      UNROLL
      for (int c = 0; c < kColumnBlocks; ++c) UNROLL
      for (int i = 0; i < 2; ++i) {
        const int column = column_of(c, i);
        if (u32(first_tap + m - column) >= u32(taps)) continue;
        const float tap = Element::of(load_shared<u16>(shared() + kTapsAt + (kRow + m - column) * 2));
        UNROLL
        for (int r = 0; r < kRowBlocks * 2; ++r) {
          float& sum = sums[r / 2][c][r % 2 * 2 + i];
          sum = FMA(v[r], tap, sum);
        }
      }
    }
  }

  /// Of a thread's sum i of a block of columns, within a row.
  static DEVICE int column_of(int block, int i) { return block * kUnit + threadIdx.x % 4 * 2 + i % 2; }

  /// The results of a warp from `first` on, of which `count` exist.
  static DEVICE void store(u16* to, const ConvLongFiltersShape& s, int first, int count,
                           const float (&sums)[kRowBlocks][kColumnBlocks][4]) {
    const int lane = threadIdx.x % 32;
    UNROLL
    for (int block = 0; block < kRowBlocks; ++block) UNROLL
    for (int c = 0; c < kColumnBlocks; ++c) UNROLL
    for (int i = 0; i < 4; ++i) {
      const int at = first + (block * 16 + i / 2 * 8 + lane / 4) * kRow + column_of(c, i);
      if (at >= count) continue;
      u16* const result = to + at * s.result_step;
      float v = s.alpha * sums[block][c][i];
      if (s.beta != 0) v = FMA(s.beta, Element::of(*result), v);
      *result = u16(Element::pack(v, 0));
    }
  }

 public:
  static DEVICE void run(const Arguments& a) {
    const ConvLongFiltersShape& s = a.shape;
    const int tile = blockIdx.x % s.tiles, plane = blockIdx.x / s.tiles, channel = plane % s.channels;
    const int first_image = plane / s.channels, end_image = kAddsImages ? s.images : first_image + 1;
    const int first = tile * kResults, warp = threadIdx.x / 32, own = first + warp * kWarpResults;
    float sums[kRowBlocks][kColumnBlocks][4] = {};
    if (threadIdx.x == 0) store_shared(flag(), 0u);
    NO_UNROLL
    for (int image = first_image; image < end_image; ++image) {
      const u16* const source = a.source + image * s.source_image + channel * s.source_channel;
      const u16* const taps = a.taps + image * s.tap_image + channel * s.tap_channel;
      NO_UNROLL
      for (int m = 0; m < s.taps + kRow - 1; m += kChunk) {
        const int from = s.first + first + m;  // of the source, in shared memory
        if (from + kSource <= 0 || from >= s.source_size) continue;
        __syncthreads();
        load_source(source, s, from);
        load_taps(taps, s, m - kRow);
        __syncthreads();
        if (own >= s.results) continue;
        // Only m whose elements of the source, and whose taps, exist.
        constexpr int kReach = kWarpResults - kRow + kDepth;
        const int mine = from + warp * kWarpResults, most = min(kChunk, s.taps + kRow - 1 - m);
        const int low = max(0, -(mine + kReach)), high = min(most, s.source_size - mine);
        constexpr int kAtOnce = kStepsAtOnce * kDepth;
        if (low >= high) continue;
        if (load_shared<u32>(flag()))
          multiply_each(low, high, m, s.taps, sums);
        else
          multiply_chunk(low / kAtOnce * kAtOnce, (high + kAtOnce - 1) / kAtOnce * kAtOnce, sums);
      }
    }
    if (own < s.results)
      store(a.result + first_image * s.result_image + channel * s.result_channel, s, own, s.results, sums);
  }
};

}  // namespace sm90
