// Depthwise convolution of long filters along one dimension on NVIDIA's matrix units (mma.sync). With rows of 64
// results, result 64 i + j of a tile is the sum over m of source[64 i + m] * taps[m - j]: the product of a matrix whose
// rows begin 64 elements apart in one sequence, and of a Toeplitz matrix, of which eight more m add one fragment.
// Backward data reads dy, and the taps reversed. The gradient of the filter reads x, takes dy for taps, and adds
// images. fp32 becomes three parts of bf16 that add up to it; six of their nine products matter. Tensors may have any
// strides.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/bf16_parts.h"
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

/// What tensors hold, and what matrix units multiply.
template <class Element>
struct LongFilterElement {
  using Bits = u16;
  using Part = Element;
};
template <>
struct LongFilterElement<SplitFloat> {
  using Bits = u32;
  using Part = Bfloat16;
};

/// kWarps: of a block, each with kRowBlocks blocks of 16 rows. kChannels: of a block, 1, or 8 that are contiguous
/// except in the filter or its gradient. kReversed: the order of the taps. kAddsImages: the taps differ between images,
/// whose results add up.
template <class Element, int kWarps, int kRowBlocks, int kChannels, bool kReversed, bool kAddsImages>
struct ConvLongFilters {
  using Bits = typename LongFilterElement<Element>::Bits;
  static constexpr int kParts = Element::kParts, kThreads = 32 * kWarps;
  static constexpr int kResident = (kParts > 1 ? 8 : kRowBlocks > 1 ? 12 : 16) / kWarps;  // by registers

  struct Arguments {
    const Bits *source, *taps;
    Bits* result;
    ConvLongFiltersShape shape;
  };

 private:
  using Part = typename LongFilterElement<Element>::Part;
  static constexpr int kRow = 64, kDepth = 16, kUnit = 8;                // elements
  static constexpr int kColumnBlocks = kRow / kUnit;                     // of 8 results of a row
  static constexpr int kStepsAtOnce = 8, kFragments = 2 * kStepsAtOnce;  // those of a step are two of a ring's
  static constexpr int kAtOnce = kStepsAtOnce * kDepth;
  static constexpr int kWarpsOfChannel = kWarps / kChannels;
  static constexpr int kWarpResults = kRowBlocks * 16 * kRow, kResults = kWarpsOfChannel * kWarpResults;
  static_assert(kChannels == 1 || (kChannels == kUnit && kParts == 1));

  /// The sequences of a part of a channel in shared memory: the source, and the taps in pairs that begin at even ones
  /// and, in other banks, at odd ones.
  struct Sequences {
    u32 source, even, odd, part_bytes;
    u32 flag;  // of the block: not 0 from when it met an infinity or NaN, or what has no parts

    explicit DEVICE Sequences(int chunk) {
      extern __shared__ __align__(1024) unsigned char bytes[];
      source = shared_address(bytes);
      even = source + (kResults - kRow + chunk) * 2;
      odd = even + (chunk + kRow) * 2 + 64;
      part_bytes = odd + (chunk + kRow) * 2 + 16 - source;
      flag = source + kChannels * kParts * part_bytes;
    }
    DEVICE Sequences of(int channel, int part = 0) const {
      const u32 offset = (channel * kParts + part) * part_bytes;
      Sequences s = *this;
      s.source += offset;
      s.even += offset;
      s.odd += offset;
      return s;
    }
  };

  /// Units of 16 bytes are swizzled, so that those of eight rows are in different banks.
  static DEVICE u32 swizzled(u32 unit) { return (unit & ~7u) | ((unit ^ unit >> 3) & 7); }

  static DEVICE u32 element(const Bits* from, int at, int size, i64 step) {
    return u32(at) < u32(size) ? from[at * step] : 0;
  }

  /// Eight elements at a multiple of 16 bytes.
  static DEVICE void load_unit(const Bits* from, u32 (&v)[kUnit]) {
    const uint4* const quads = reinterpret_cast<const uint4*>(from);
    UNROLL
    for (int i = 0; i < kUnit / (kParts > 1 ? 4 : 8); ++i) {
      const uint4 quad = quads[i];
      const u32 bits[4] = {quad.x, quad.y, quad.z, quad.w};
      UNROLL
      for (int j = 0; j < 4; ++j) {
        if constexpr (kParts > 1) {
          v[4 * i + j] = bits[j];
        } else {
          v[2 * j] = bits[j] & 0xffff;
          v[2 * j + 1] = bits[j] >> 16;
        }
      }
    }
  }

  /// Element `at` of eight channels.
  static DEVICE void elements(const Bits* from, int at, int size, i64 step, u32 (&v)[kUnit]) {
    const Bits* const first = from + at * step;
    const bool exists = u32(at) < u32(size);
    if (exists && u64(first) % 16 == 0) return load_unit(first, v);
    UNROLL
    for (int c = 0; c < kUnit; ++c) v[c] = exists ? first[c] : 0;
  }

  /// The parts of two elements, the largest first. Returns what carries into a sign for an infinity or NaN, or for what
  /// parts cannot represent.
  static DEVICE u32 split(u32 first, u32 second, u32 (&parts)[kParts]) {
    if constexpr (kParts > 1) {
      float a = sum_of<float>(first), b = sum_of<float>(second);
      UNROLL
      for (int p = 0; p < kParts; ++p) {
        parts[p] = Part::pack(a, b);
        a -= Part::low(parts[p]);
        b -= Part::high(parts[p]);
      }
      return has_no_parts(first) || has_no_parts(second) ? ~0u : 0;
    } else {
      constexpr u32 kMask = kExponents<Element>, kOne = kMask & ~(kMask << 1);
      parts[0] = first | second << 16;
      return kOne + (parts[0] & kMask);
    }
  }

  /// `count` elements from source[first] on, a multiple of kUnit: units of 16 bytes of each part.
  static DEVICE void load_source(const Sequences& to, const Bits* from, const ConvLongFiltersShape& s, int first,
                                 int count) {
    u32 found = 0;
    if constexpr (kChannels > 1) {
      found = load_channels(to, from, first, count, s.source_size, s.source_step);
    } else {
      for (int unit = threadIdx.x; unit < count / kUnit; unit += kThreads) {
        const int at = first + unit * kUnit;
        u32 v[kUnit], parts[kUnit / 2][kParts];
        if (s.source_step == 1 && u64(from + at) % 16 == 0 && at >= 0 && at + kUnit <= s.source_size) {
          load_unit(from + at, v);
        } else {
          UNROLL
          for (int i = 0; i < kUnit; ++i) v[i] = element(from, at + i, s.source_size, s.source_step);
        }
        UNROLL
        for (int i = 0; i < kUnit / 2; ++i) found |= split(v[2 * i], v[2 * i + 1], parts[i]);
        UNROLL
        for (int p = 0; p < kParts; ++p)
          store_shared(to.of(0, p).source + swizzled(unit) * 16,
                       make_uint4(parts[0][p], parts[1][p], parts[2][p], parts[3][p]));
      }
    }
    if (found & 0x80008000u) store_shared(to.flag, 1u);
  }

  /// `count` elements from from[first] on, of eight channels. Returns the bits of split().
  static DEVICE u32 load_channels(const Sequences& to, const Bits* from, int first, int count, int size, i64 step) {
    u32 found = 0;
    for (int i = threadIdx.x * 2; i < count; i += kThreads * 2) {
      u32 one[kUnit], next[kUnit];
      elements(from, first + i, size, step, one);
      elements(from, first + i + 1, size, step, next);
      UNROLL
      for (int c = 0; c < kUnit; ++c) {
        u32 pair[1];
        found |= split(one[c], next[c], pair);
        store_shared(to.of(c).source + swizzled(i / kUnit) * 16 + i % kUnit * 2, pair[0]);
      }
    }
    return found;
  }

  static DEVICE u32 store_tap(const Sequences& to, int channel, int i, u32 tap) {
    u32 parts[kParts];
    const u32 found = split(tap, 0, parts);
    UNROLL
    for (int p = 0; p < kParts; ++p) {
      const Sequences own = to.of(channel, p);
      store_shared(own.even + i * 2, u16(parts[p]));
      store_shared(own.odd + i * 2 + 2, u16(parts[p]));
    }
    return found;
  }

  /// `count` elements from taps[first] on.
  static DEVICE void load_taps(const Sequences& to, const Bits* from, const ConvLongFiltersShape& s, int first,
                               int count) {
    u32 found = 0;
    if constexpr (kChannels > 1 && kAddsImages) {
      for (int i = threadIdx.x; i < count; i += kThreads) {
        u32 v[kUnit];
        elements(from, first + i, s.taps, s.tap_step, v);
        UNROLL
        for (int c = 0; c < kUnit; ++c) found |= store_tap(to, c, i, v[c]);
      }
    } else {
      for (int c = 0; c < kChannels; ++c)
        for (int i = threadIdx.x; i < count; i += kThreads)
          found |= store_tap(to, c, i, element(from + c * s.tap_channel, tap_at(s, first + i), s.taps, s.tap_step));
    }
    if (found & 0x80008000u) store_shared(to.flag, 1u);
  }
  static DEVICE int tap_at(const ConvLongFiltersShape& s, int i) { return kReversed ? s.taps - 1 - i : i; }

  using Sums = float[kRowBlocks][kColumnBlocks][4];

  /// Adds the products of m in [first, end), which are multiples of 128. Matrix units truncate sums, so that those of
  /// parts begin at zero every 128 m.
  static DEVICE void multiply_chunk(const Sequences& from, int first, int end, Sums& sums) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % kWarpsOfChannel, column = lane / 4;
    // Fragment h has taps[8 h + 2 (lane % 4) - column] and the next one; those before tap 0 of the chunk are a row's.
    const int start = kRow + lane % 4 * 2 - column;
    const u32 taps = column % 2 ? from.odd + (start + 1) * 2 : from.even + start * 2;
    const int row = warp * kRowBlocks * 16 + lane % 16, half = lane / 16;
    u32 fragments[kParts][kFragments];
    const auto load_fragment = [&](int part, int slot, int at) {
      fragments[part][slot] = load_shared<u32>(taps + part * from.part_bytes + at * (kUnit * 2));
    };
    UNROLL
    for (int p = 0; p < kParts; ++p) UNROLL
    for (int h = 1; h < kColumnBlocks; ++h) load_fragment(p, kFragments - h, first / kUnit - h);
    NO_UNROLL
    for (int m = first; m < end; m += kAtOnce) {
      Sums large, small;
      if constexpr (kParts > 1) {
        clear(large);
        clear(small);
      }
      UNROLL
      for (int step = 0; step < kStepsAtOnce; ++step) {
        UNROLL
        for (int p = 0; p < kParts; ++p) UNROLL
        for (int h = 2 * step; h < 2 * step + 2; ++h) load_fragment(p, h, m / kUnit + h);
        const u32 line = row + m / kRow + step / 4;  // of eight units
        const u32 at = from.source + (line * 8 + ((step % 4 * 2 | half) ^ (line & 7))) * 16;
        UNROLL
        for (int block = 0; block < kRowBlocks; ++block) {
          u32 rows[kParts][4];
          UNROLL
          for (int p = 0; p < kParts; ++p) load_matrices(at + p * from.part_bytes + block * (16 * kRow * 2), rows[p]);
          const auto multiply = [&](int source, int tap, float(&to)[kColumnBlocks][4]) {
            UNROLL
            for (int c = 0; c < kColumnBlocks; ++c) {
              const u32 b[2] = {fragments[tap][(2 * step - c) & (kFragments - 1)],
                                fragments[tap][(2 * step + 1 - c) & (kFragments - 1)]};
              multiply_by_warp<Part>(to[c], rows[source], b);
            }
          };
          if constexpr (kParts > 1) {
            multiply(0, 2, small[block]);
            multiply(2, 0, small[block]);
            multiply(1, 1, small[block]);
            multiply(0, 1, small[block]);
            multiply(1, 0, small[block]);
            multiply(0, 0, large[block]);
          } else {
            multiply(0, 0, sums[block]);
          }
        }
      }
      if constexpr (kParts > 1) {
        UNROLL
        for (int block = 0; block < kRowBlocks; ++block) UNROLL
        for (int c = 0; c < kColumnBlocks; ++c) UNROLL
        for (int i = 0; i < 4; ++i) sums[block][c][i] += large[block][c][i] + small[block][c][i];
      }
    }
  }
  static DEVICE void clear(Sums& sums) {
    UNROLL
    for (int block = 0; block < kRowBlocks; ++block) UNROLL
    for (int c = 0; c < kColumnBlocks; ++c) UNROLL
    for (int i = 0; i < 4; ++i) sums[block][c][i] = 0;
  }

  /// The same in fp32 from the tensors, without products by zeros before and beyond the taps and the source, which an
  /// infinity or NaN would turn into NaN: the chunk begins with element `at` of the source and tap `first_tap`.
  static DEVICE void multiply_each(const Bits* source, const Bits* taps, const ConvLongFiltersShape& s, int at,
                                   int first_tap, int first, int end, Sums& sums) {
    const int row = threadIdx.x / 32 % kWarpsOfChannel * (kRowBlocks * 16) + threadIdx.x % 32 / 4;
    NO_UNROLL
    for (int m = first; m < end; ++m) {
      UNROLL
      for (int r = 0; r < kRowBlocks * 2; ++r) {
        const int from = at + (row + r * 8) * kRow + m;
        if (u32(from) >= u32(s.source_size)) continue;
        const float v = value(source[from * s.source_step]);
        UNROLL
        for (int c = 0; c < kColumnBlocks; ++c) UNROLL
        for (int i = 0; i < 2; ++i) {
          const int tap = first_tap + m - column_of(c) - i;
          if (u32(tap) >= u32(s.taps)) continue;
          float& sum = sums[r / 2][c][r % 2 * 2 + i];
          sum = FMA(v, value(taps[tap_at(s, tap) * s.tap_step]), sum);
        }
      }
    }
  }
  static DEVICE float value(u32 bits) {
    if constexpr (kParts > 1)
      return sum_of<float>(bits);
    else
      return Element::of(u16(bits));
  }

  /// The first of a thread's two columns of a block, within a row.
  static DEVICE int column_of(int block) { return block * kUnit + threadIdx.x % 4 * 2; }

  /// The results of a warp from `first` on, of which `count` exist.
  static DEVICE void store(Bits* to, const ConvLongFiltersShape& s, int first, int count, const Sums& sums) {
    using Pair = typename Element::Pair;
    UNROLL
    for (int block = 0; block < kRowBlocks; ++block) UNROLL
    for (int c = 0; c < kColumnBlocks; ++c) UNROLL
    for (int half = 0; half < 2; ++half) {
      const int row = block * 16 + half * 8 + threadIdx.x % 32 / 4, at = first + row * kRow + column_of(c);
      Bits* const result = to + at * s.result_step;
      const float v[2] = {s.alpha * sums[block][c][half * 2], s.alpha * sums[block][c][half * 2 + 1]};
      if (s.result_step == 1 && u64(result) % sizeof(Pair) == 0 && at + 1 < count) {
        Pair* const pair = reinterpret_cast<Pair*>(result);
        if (s.beta != 0)
          *pair = Element::pack(FMA(s.beta, Element::low(*pair), v[0]), FMA(s.beta, Element::high(*pair), v[1]));
        else
          *pair = Element::pack(v[0], v[1]);
        continue;
      }
      UNROLL
      for (int i = 0; i < 2; ++i) {
        if (at + i >= count) continue;
        Bits* const one = result + i * s.result_step;
        const float sum = s.beta != 0 ? FMA(s.beta, value(*one), v[i]) : v[i];
        if constexpr (kParts > 1)
          *one = bits_of(sum);
        else
          *one = u16(Element::pack(sum, 0));
      }
    }
  }

  /// The results of all channels from `first` on, of which `count` exist, through the source's shared memory.
  static DEVICE void store_channels(const Sequences& shared, u16* to, const ConvLongFiltersShape& s, int first,
                                    int count, const Sums& sums) {
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
    const int own_channel = warp / kWarpsOfChannel;
    const int first_image = set / groups, end_image = kAddsImages ? s.images : first_image + 1;
    const int first = tile * kResults, own = first + warp % kWarpsOfChannel * kWarpResults;
    const Sequences shared(s.chunk), mine = shared.of(own_channel);
    Sums sums = {};
    if (threadIdx.x == 0) store_shared(shared.flag, 0u);
    NO_UNROLL
    for (int image = first_image; image < end_image; ++image) {
      const i64 plane = image * s.source_image + channel * s.source_channel;
      const Bits* const source = a.source + plane;
      const Bits* const taps = a.taps + image * s.tap_image + channel * s.tap_channel;
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
          multiply_each(source + own_channel * s.source_channel, taps + own_channel * s.tap_channel, s, from, m - shift,
                        low, high, sums);
        else
          multiply_chunk(mine, low / kAtOnce * kAtOnce, (high + kAtOnce - 1) / kAtOnce * kAtOnce, sums);
      }
    }
    Bits* const result = a.result + first_image * s.result_image + channel * s.result_channel;
    if constexpr (kChannels > 1 && !kAddsImages)
      store_channels(shared, result, s, first, s.results - first, sums);
    else if (own < s.results)
      store(result + own_channel * s.result_channel, s, own, s.results, sums);
  }
};

}  // namespace sm90
