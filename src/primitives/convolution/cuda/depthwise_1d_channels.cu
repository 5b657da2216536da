// Depthwise convolution of 16-bit floats with 2 to 57 taps (gradient: 41) along one dimension, with channels innermost,
// on NVIDIA's matrix units: see kernels/gpu/sm90/depthwise_1d.cuh.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/sm90/async_copy.cuh"
#include "kernels/gpu/sm90/depthwise_1d.cuh"

namespace sm90 {

/// 64 contiguous channels of some rows (steps) of a tensor in shared memory; a row has 128 bytes. Swizzle::of(row) is
/// added (xor) to the place of a unit of 16 bytes, so that what lanes read together is in different banks. It is the
/// same again after 64 rows.
template <int kRows, int kThreads, class Swizzle>
struct ConvChannels {
  static constexpr int kChannels = 64, kUnit = 8, kUnits = kChannels / kUnit;
  static constexpr u32 kRowBytes = kChannels * 2, kBytes = kRows * kRowBytes;

  static DEVICE u32 place(u32 row, u32 unit) { return row * kRowBytes + (unit ^ Swizzle::of(row)) * 16; }

  /// Rows from `first` on, of `size`; those outside, and channels from `channels` on, are zero.
  static DEVICE void load(u32 to, const u16* from, i64 step, int first, int size, int channels) {
    constexpr u32 kAtOnce = kThreads / kUnits, kTimes = (kRows + kAtOnce - 1) / kAtOnce, kPeriod = 64 / kAtOnce;
    const u32 unit = threadIdx.x % kUnits, row = threadIdx.x / kUnits;
    const bool is_aligned = u64(from) % 16 == 0;
    const int left = int(unit * kUnit) < channels ? size : 0;
    int at = first + int(row);
    const u16* v = from + at * step + unit * kUnit;
    u32 places[kPeriod];
    UNROLL
    for (u32 i = 0; i < kPeriod; ++i) places[i] = to + place(row + i * kAtOnce, unit);
    _Pragma("unroll 4") for (u32 i = 0; i < kTimes; ++i) {
      const bool exists = u32(at) < u32(left);
      const u32 place = places[i % kPeriod] + i / kPeriod * (64 * kRowBytes);
      if (kRows % kAtOnce == 0 || row + i * kAtOnce < kRows) {
        if (is_aligned)
          copy_async(place, exists ? v : from, exists ? 16 : 0);
        else
          store_shared(place, exists ? elements(v) : make_uint4(0, 0, 0, 0));
      }
      at += kAtOnce;
      v += kAtOnce * step;
    }
  }

  static DEVICE uint4 elements(const u16* v) {
    return make_uint4(v[0] | u32(v[1]) << 16, v[2] | u32(v[3]) << 16, v[4] | u32(v[5]) << 16, v[6] | u32(v[7]) << 16);
  }
};

/// The pair of channel `c` of two rows, of each of which `row` and `next` have two channels in a register.
template <int kPairs>
DEVICE u32 pair_of_channel(const u32 (&row)[kPairs], const u32 (&next)[kPairs], int c) {
  return __byte_perm(row[c / 2], next[c / 2], c % 2 ? 0x7632 : 0x5410);
}

/// Results with channels innermost, forward and backward data: a block has 64 channels of every parts-th piece of the
/// results of all images; a warp has 8 of them. kDepth: rows of the Toeplitz matrix, in 8s.
template <class Element, int kDepth, bool kReversed, bool kBias, int kActivation>
struct ConvDepthwiseChannels {
  static constexpr int kThreads = 256;
  static constexpr int kResident = kActivation == 0 && !kBias ? 3 : 2;  // by registers
  using Arguments = ConvDepthwise1dArguments;

 private:
  using Base = ConvDepthwise1d<Element, 1>;
  static constexpr int kUnit = Base::kUnit, kPiece = Base::kTile;
  /// For reading every other row.
  struct Swizzle {
    static DEVICE u32 of(u32 row) { return row / 2 % 8; }
  };
  using Source = ConvChannels<kPiece + kUnit*(kDepth - 1), kThreads, Swizzle>;
  using Results = ConvChannels<kPiece, kThreads, Swizzle>;
  static constexpr int kChannels = Source::kChannels;
  static constexpr u32 kRowBytes = Source::kRowBytes, kUnitBytes = kUnit * kRowBytes;
  static constexpr u32 kPitch = (kDepth + 2) * kUnit, kOddAt = kChannels * kPitch * 2;  // of taps in shared memory
  static_assert(kThreads / 32 == Source::kUnits);

 public:
  static DEVICE void run(const Arguments& a) {
    const ConvDepthwise1dShape& s = a.shape;
    const int blocks = (s.channels + kChannels - 1) / kChannels, warp = threadIdx.x / 32;
    const int part = blockIdx.x / blocks, block_channel = (blockIdx.x - part * blocks) * kChannels;
    const int channels = s.channels - block_channel, works = s.images * s.pieces;
    const u32 results = Base::shared() + 2 * Source::kBytes;  // the taps follow
    const auto load = [&](int work, int stage) {
      const int image = work / s.pieces, first = (work - image * s.pieces) * kPiece;
      if (work < works)
        Source::load(Base::shared() + stage * Source::kBytes, a.source + image * s.source_image + block_channel,
                     s.source_step, first + s.first, s.source_size, channels);
      commit_copies();
    };
    load(part, 0);
    load(part + s.parts, 1);
    store_taps(a, block_channel);
    const u32 matrix = toeplitz();
    int stage = 0;
    NO_UNROLL
    for (int work = part; work < works; work += s.parts, stage ^= 1) {
      const int image = work / s.pieces, first = (work - image * s.pieces) * kPiece;
      u16* const result = static_cast<u16*>(a.result) + image * s.result_image + block_channel;
      if (s.scalars.beta != 0) {
        __syncthreads();
        Results::load(results, result, s.result_step, first, s.results, channels);
        commit_copies();
        wait_for_copies<0>();
      }
      wait_for_copies<1>();
      __syncthreads();
      bool has_nan = false;
      if (warp * kUnit < channels) {
        float sums[kUnit][4] = {};
        multiply(Base::shared() + stage * Source::kBytes, matrix, sums);
        UNROLL
        for (int c = 0; c < kUnit; ++c) has_nan = has_nan || Base::has_nan(sums[c]);
        finish_piece(a, results, block_channel + warp * kUnit, sums);
      }
      has_nan = __syncthreads_or(has_nan);
      load(work + 2 * s.parts, stage);
      if (has_nan)
        store_exact(a, image, block_channel, first);
      else
        store(result, s, results, first, channels);
    }
  }

 private:
  static DEVICE u32 taps_at() { return Base::shared() + 2 * Source::kBytes + Results::kBytes; }

  /// The first of the two rows of a piece that a lane reads.
  static DEVICE u32 first_row() { return threadIdx.x % 32 / 4 * kUnit + threadIdx.x % 4 * 2; }

  /// Stores the taps of all channels, those of a channel after a unit of zeros, in pairs that begin at even ones and at
  /// odd ones.
  static DEVICE void store_taps(const Arguments& a, int block_channel) {
    const int count = a.shape.taps;
    NO_UNROLL
    for (u32 i = threadIdx.x; i < kChannels * kPitch; i += kThreads) {
      const int channel = block_channel + int(i / kPitch), j = int(i % kPitch) - kUnit;
      const bool exists = channel < a.shape.channels && u32(j) < u32(count);
      const u16 tap = exists ? a.second[i64(channel) * count + (kReversed ? count - 1 - j : j)] : u16(0);
      store_shared(taps_at() + i * 2, tap);
      if (i > 0) store_shared(taps_at() + kOddAt + i * 2 - 2, tap);
    }
  }

  /// The address of the lane's first fragment of the Toeplitz matrix of the warp's first channel. Others are kUnit taps
  /// and kPitch taps after it.
  static DEVICE u32 toeplitz() {
    const u32 lane = threadIdx.x % 32, first = threadIdx.x / 32 * kUnit * kPitch + kUnit + lane % 4 * 2 - lane / 4;
    return taps_at() + (first % 2 == 0 ? first * 2 : kOddAt + first * 2 - 2);
  }

  static DEVICE void multiply(u32 source, u32 toeplitz, float (&sums)[kUnit][4]) {
    u32 places[2];  // of units of eight rows; after two of them the swizzle is the same
    UNROLL
    for (u32 i = 0; i < 2; ++i)
      places[i] = source + Source::place(first_row() + i * kUnit, threadIdx.x / 32) - i * kUnitBytes;
    _Pragma("unroll 2") for (u32 k = 0; k < kDepth; ++k) {  // more at once spill registers
      u32 rows[4][4];                                       // the two rows of each half of a piece
      UNROLL
      for (u32 i = 0; i < 4; ++i) {
        const uint4 v = load_shared<uint4>(places[k % 2] + (k + i / 2 * 8) * kUnitBytes + i % 2 * kRowBytes);
        rows[i][0] = v.x;
        rows[i][1] = v.y;
        rows[i][2] = v.z;
        rows[i][3] = v.w;
      }
      UNROLL
      for (int c = 0; c < kUnit; ++c) {
        const u32 halves[2] = {pair_of_channel(rows[0], rows[1], c), pair_of_channel(rows[2], rows[3], c)};
        multiply_by_warp<Element>(sums[c], halves, load_shared<u32>(toeplitz + (c * kPitch + k * kUnit) * 2));
      }
    }
  }

  static DEVICE float finished(const ConvScalars& s, float sum, u16 bias, float old) {
    const float added = kBias ? Element::of(bias) : 0;
    return s.beta != 0 ? finish<kOld, kBias, false, kActivation>(s, sum, 1, added, old)
                       : finish<kNone, kBias, false, kActivation>(s, sum, 1, added, 0);
  }

  /// Stores a piece of eight channels in shared memory, where the old results are if they count.
  static DEVICE void finish_piece(const Arguments& a, u32 results, int channel, const float (&sums)[kUnit][4]) {
    const ConvScalars& s = a.shape.scalars;
    const uint4 biases = kBias ? Source::elements(a.bias + channel) : make_uint4(0, 0, 0, 0);
    const u32 bias[4] = {biases.x, biases.y, biases.z, biases.w};
    const u32 place = results + Results::place(first_row(), threadIdx.x / 32);
    UNROLL
    for (int i = 0; i < 4; ++i) {
      const u32 at = place + i % 2 * kRowBytes + i / 2 * (8 * kUnitBytes);
      uint4 old = make_uint4(0, 0, 0, 0);
      if (s.beta != 0) old = load_shared<uint4>(at);
      u32 v[4] = {old.x, old.y, old.z, old.w};
      UNROLL
      for (int c = 0; c < 4; ++c)
        v[c] = Element::pack(finished(s, sums[2 * c][i], u16(bias[c]), Element::low(v[c])),
                             finished(s, sums[2 * c + 1][i], u16(bias[c] >> 16), Element::high(v[c])));
      store_shared(at, make_uint4(v[0], v[1], v[2], v[3]));
    }
  }

  /// The results of a piece of all channels of the block, by the definition.
  static DEVICE void store_exact(const Arguments& a, int image, int block_channel, int first) {
    const ConvDepthwise1dShape& s = a.shape;
    const int channel = block_channel + threadIdx.x % kChannels;
    if (channel >= s.channels) return;
    const u16* const taps = a.second + i64(channel) * s.taps;
    const u16 bias = kBias ? a.bias[channel] : u16(0);
    NO_UNROLL
    for (int at = first + threadIdx.x / kChannels; at < min(first + kPiece, s.results); at += kThreads / kChannels) {
      u16* const result = static_cast<u16*>(a.result) + image * s.result_image + at * s.result_step + channel;
      const float sum = Base::exact(a.source + image * s.source_image + channel, s.source_step,
                                    kReversed ? taps + s.taps - 1 : taps, kReversed ? -1 : 1, s, at);
      const float old = s.scalars.beta != 0 ? Element::of(*result) : 0;
      *result = u16(Element::pack(finished(s.scalars, sum, bias, old), 0));
    }
  }

  /// All channels of a piece, 16 bytes at a time if the address allows.
  static DEVICE void store(u16* to, const ConvDepthwise1dShape& s, u32 results, int first, int channels) {
    constexpr u32 kAtOnce = kThreads / Results::kUnits;  // rows, a multiple of the swizzle's period
    const u32 unit = threadIdx.x % Results::kUnits, row = threadIdx.x / Results::kUnits;
    const u32 place = results + Results::place(row, unit);
    if (int(unit * kUnit) >= channels) return;
    to += (first + int(row)) * s.result_step + unit * kUnit;
    const bool is_aligned = u64(to) % 16 == 0;
    UNROLL
    for (u32 i = 0; i < kPiece / kAtOnce; ++i, to += kAtOnce * s.result_step) {
      if (first + int(row + i * kAtOnce) >= s.results) break;
      const uint4 v = load_shared<uint4>(place + i * (kAtOnce * kRowBytes));
      if (is_aligned)
        *reinterpret_cast<uint4*>(to) = v;
      else
        store_elements(to, v);
    }
  }

  static DEVICE void store_elements(u16* to, uint4 v) {
    const u32 pairs[4] = {v.x, v.y, v.z, v.w};
    UNROLL
    for (int c = 0; c < kUnit; ++c) to[c] = u16(pairs[c / 2] >> c % 2 * 16);
  }
};

/// The gradient of the filter with channels innermost: a block has 64 channels of every parts-th piece of dy.
template <class Element, int kDepth>
struct ConvDepthwiseChannelsWeights {
  static constexpr int kThreads = 512, kResident = kDepth > 1 ? 1 : 2;  // by registers
  using Arguments = ConvDepthwise1dArguments;

 private:
  using Base = ConvDepthwise1d<Element, kDepth>;
  static constexpr int kUnit = Base::kUnit, kTile = Base::kTile, kPiece = kDepth > 1 ? 256 : 128;
  static constexpr int kTogether = 4;  // channels of a warp
  /// For reading every 16th row, and three after it.
  struct Swizzle {
    static DEVICE u32 of(u32 row) { return row / 16 % 4 + row % 2 * 4; }
  };
  using Source = ConvChannels<kPiece + 16 * kDepth - kUnit, kThreads, Swizzle>;
  using Gradients = ConvChannels<kPiece, kThreads, Swizzle>;
  static constexpr int kChannels = Source::kChannels;
  static constexpr u32 kUnitBytes = kUnit * Source::kRowBytes;
  static_assert(kThreads / 32 * kTogether == kChannels);

 public:
  static constexpr u32 kStageBytes = Source::kBytes + Gradients::kBytes;
  static_assert(kThreads / 32 * Base::kGramBytes <= 2 * kStageBytes);

  static DEVICE void run(const Arguments& a) {
    const ConvDepthwise1dShape& s = a.shape;
    const int blocks = (s.channels + kChannels - 1) / kChannels, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int part = blockIdx.x / blocks, block_channel = (blockIdx.x - part * blocks) * kChannels;
    const int channel = block_channel + warp * kTogether, channels = s.channels - block_channel;
    const auto load = [&](int work, int stage) {
      const int image = work / s.pieces, first = (work - image * s.pieces) * kPiece;
      const u32 to = Base::shared() + stage * kStageBytes;
      if (work < s.images * s.pieces) {
        Source::load(to, a.source + image * s.source_image + block_channel, s.source_step, first + s.first,
                     s.source_size, channels);
        Gradients::load(to + Source::kBytes, a.second + image * s.result_image + block_channel, s.result_step, first,
                        s.results, channels);
      }
      commit_copies();
    };
    load(part, 0);
    float g[kTogether][kDepth][4] = {};
    int stage = 0;
    NO_UNROLL
    for (int work = part; work < s.images * s.pieces; work += s.parts, stage ^= 1) {
      load(work + s.parts, stage ^ 1);
      wait_for_copies<1>();
      __syncthreads();
      NO_UNROLL
      for (int tile = 0; tile < kPiece && channel < s.channels; tile += kTile)
        multiply(Base::shared() + stage * kStageBytes + tile * Source::kRowBytes, g);
      __syncthreads();
    }
    const u32 gram = Base::shared() + warp * Base::kGramBytes;
    UNROLL
    for (int c = 0; c < kTogether; ++c) {
      __syncwarp();
      Base::store_gram(gram, g[c]);
      NO_UNROLL
      for (int tap = lane; tap < s.taps && channel + c < s.channels; tap += 32) {
        float sum = Base::diagonal(gram, tap);
        if (sum != sum) sum = exact_sum(a, part, channel + c, tap);
        static_cast<float*>(a.result)[(i64(part) * s.channels + channel + c) * s.taps + tap] = sum;
      }
    }
  }

 private:
  static DEVICE float exact_sum(const Arguments& a, int part, int channel, int tap) {
    const ConvDepthwise1dShape& s = a.shape;
    float sum = 0;
    NO_UNROLL
    for (int work = part; work < s.images * s.pieces; work += s.parts) {
      const int image = work / s.pieces, first = (work - image * s.pieces) * kPiece;
      sum += Base::exact_gradient(a.source + image * s.source_image + channel, s.source_step,
                                  a.second + image * s.result_image + channel, s.result_step, s, tap, first,
                                  min(first + kPiece, s.results));
    }
    return sum;
  }

  /// Rows 8 apart are neighbours in the sum.
  static DEVICE void multiply(u32 source, float (&g)[kTogether][kDepth][4]) {
    // Units of eight rows; two of them have the same swizzle, and after eight it is the same again.
    u32 places[4];
    UNROLL
    for (u32 i = 0; i < 4; ++i) {
      const u32 row = threadIdx.x % 4 * 16 + threadIdx.x % 32 / 4 + i * (2 * kUnit), group = threadIdx.x / 32;
      places[i] = source + Source::place(row, group / 2) + group % 2 * 8 - i * (2 * kUnitBytes);
    }
    struct Pairs {
      u32 of[2];
    };
    const auto load = [&](u32 after, u32 unit) {
      const uint2 v = load_shared<uint2>(places[unit / 2 % 4] + after + unit * kUnitBytes);
      return Pairs{{v.x, v.y}};
    };
    u32 columns[kTogether][2];
    UNROLL
    for (u32 half = 0; half < 2; ++half) {
      const Pairs one = load(Source::kBytes, half * 8), next = load(Source::kBytes, half * 8 + 1);
      UNROLL
      for (int c = 0; c < kTogether; ++c) columns[c][half] = pair_of_channel(one.of, next.of, c);
    }
    Pairs last[2] = {load(0, 0), load(0, 8)};
    UNROLL
    for (int k = 0; k < kDepth; ++k) {
      u32 rows[kTogether][4];
      UNROLL
      for (int quarter = 0; quarter < 4; ++quarter) {
        Pairs& one = last[quarter / 2];
        const Pairs next = load(0, quarter / 2 * 8 + 2 * k + quarter % 2 + 1);
        UNROLL
        for (int c = 0; c < kTogether; ++c) rows[c][quarter] = pair_of_channel(one.of, next.of, c);
        one = next;
      }
      UNROLL
      for (int c = 0; c < kTogether; ++c) multiply_by_warp<Element>(g[c][k], rows[c], columns[c]);
    }
  }
};

}  // namespace sm90
