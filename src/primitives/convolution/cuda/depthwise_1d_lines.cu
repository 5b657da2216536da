// Depthwise convolution of 16-bit floats with 2 to 114 taps along contiguous lines on NVIDIA's matrix units: see
// kernels/gpu/sm90/depthwise_1d.cuh.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/sm90/async_copy.cuh"
#include "kernels/gpu/sm90/depthwise_1d.cuh"

namespace sm90 {

/// Elements from `at` on of a line of `size`, zero outside of it.
DEVICE uint4 unit_of_line(const u16* line, int at, int size) {
  const auto element = [&](int i) -> u32 { return u32(at + i) < u32(size) ? line[at + i] : 0; };
  const auto pair = [&](int i) { return element(i) | element(i + 1) << 16; };
  return make_uint4(pair(0), pair(2), pair(4), pair(6));
}

/// Copies a unit of 16 bytes to shared memory.
DEVICE void load_unit(u32 to, const u16* line, int at, int size, bool is_aligned) {
  constexpr int kUnit = 8;
  if (!is_aligned || (at < 0 && at > -kUnit)) return store_shared(to, unit_of_line(line, at, size));
  const int left = at < 0 ? 0 : max(0, min(kUnit, size - at));
  copy_async(to, left > 0 ? line + at : line, left * 2);
}

/// The same of kUnits, by a warp, aligned if the first one is.
template <u32 kUnits>
DEVICE void load_units(u32 to, const u16* line, int at, int size) {
  const bool is_aligned = u64(line + at) % 16 == 0;
  UNROLL
  for (u32 i = threadIdx.x % 32; i < (kUnits + 31) / 32 * 32; i += 32)
    if (kUnits % 32 == 0 || i < kUnits) load_unit(to + i * 16, line, at + int(i) * 8, size, is_aligned);
}

/// Of lines in shared memory: a chunk of results needs so many units of the source.
constexpr int kLineChunk = 512, kLineUnits = kLineChunk / 8 + 16, kLineStages = 3;

/// Results along contiguous lines, forward and backward data: a warp has a piece of a line, of which it copies the
/// source two chunks in advance.
template <class Element, int kDepth, bool kReversed, bool kBias, int kActivation>
struct ConvDepthwiseLines {
  static constexpr int kThreads = 128;
  static constexpr int kResident = (kDepth > 6 ? 4 : kDepth > 4 ? 5 : 9) - (kActivation != 0);  // by registers
  using Arguments = ConvDepthwise1dArguments;

 private:
  using Base = ConvDepthwise1d<Element, kDepth>;
  static constexpr int kUnit = Base::kUnit, kTile = Base::kTile, kTiles = kLineChunk / kTile;
  static constexpr u32 kStageBytes = kLineUnits * 16;
  static_assert(2 * kDepth <= kLineUnits - kLineChunk / kUnit);

 public:
  static DEVICE void run(const Arguments& a) {
    const ConvDepthwise1dShape& s = a.shape;
    const u32 lane = threadIdx.x % 32, stages = Base::shared() + threadIdx.x / 32 * (kLineStages * kStageBytes);
    const int work = blockIdx.x * (kThreads / 32) + threadIdx.x / 32;
    if (work >= s.images * s.channels * s.pieces) return;
    const int line = work / s.pieces, image = line / s.channels, channel = line - image * s.channels;
    const i64 source_at = image * s.source_image + channel * s.source_channel,
              result_at = image * s.result_image + channel * s.result_channel;
    const u16* const source = a.source + source_at;
    const u16* const taps = a.second + i64(channel) * s.taps;
    u16* const result = static_cast<u16*>(a.result) + result_at;
    // Pieces begin at multiples of 32 bytes of the result, and the source is read from a multiple of 16 bytes on, if
    // the tensors begin there: sums do not depend on their addresses.
    const int first = (work - line * s.pieces) * s.piece - int(result_at & 15);
    const int end = min(first + s.piece, s.results);
    const int shift = int((source_at + first + s.first) & (kUnit - 1));
    const bool has_pairs = u64(result + first) % 4 == 0;
    const auto load = [&](int chunk, int slot) {
      if (chunk < end)
        load_units<kLineUnits>(stages + slot * kStageBytes, source, chunk + s.first - shift, s.source_size);
      commit_copies();
    };
    UNROLL
    for (int slot = 0; slot < kLineStages - 1; ++slot) load(first + slot * kLineChunk, slot);
    u32 toeplitz[kDepth][2];
    Base::template load_taps<kReversed>(taps, s.taps, shift, toeplitz);
    const float bias = kBias ? bias_of<Element>(a.bias, channel) : 0;
    int slot = 0;
    NO_UNROLL
    for (int chunk = first; chunk < end; chunk += kLineChunk) {
      load(chunk + (kLineStages - 1) * kLineChunk, slot == 0 ? kLineStages - 1 : slot - 1);
      wait_for_copies<kLineStages - 1>();
      __syncwarp();
      float sums[kTiles][4] = {};
      const u32 from = stages + slot * kStageBytes + (lane % 16 + lane / 16) * 16;
      UNROLL
      for (int k = 0; k < kDepth; ++k) UNROLL
      for (int tile = 0; tile < kTiles; ++tile) {
        u32 rows[4];
        load_matrices(from + (tile * 16 + 2 * k) * 16, rows);
        multiply_by_warp<Element>(sums[tile], rows, toeplitz[k]);
      }
      bool has_nan = false;
      UNROLL
      for (int tile = 0; tile < kTiles; ++tile) has_nan = has_nan || Base::has_nan(sums[tile]);
      const int column = chunk + lane / 4 * kUnit + lane % 4 * 2;
      if (__any_sync(~0u, has_nan)) {
        NO_UNROLL
        for (int at = max(chunk, 0) + int(lane); at < min(chunk + kLineChunk, end); at += 32)
          store_one(result + at, s.scalars, bias,
                    Base::exact(source, 1, kReversed ? taps + s.taps - 1 : taps, kReversed ? -1 : 1, s, at));
      } else if (has_pairs && chunk >= 0 && chunk + kLineChunk <= end) {
        UNROLL
        for (int i = 0; i < 2 * kTiles; ++i)
          store_pair(result + column + i * (kTile / 2), s.scalars, bias, sums[i / 2][i % 2 * 2],
                     sums[i / 2][i % 2 * 2 + 1]);
      } else {
        UNROLL
        for (int i = 0; i < 2 * kTiles; ++i) {
          const int at = column + i * (kTile / 2);
          const float low = sums[i / 2][i % 2 * 2], high = sums[i / 2][i % 2 * 2 + 1];
          if (has_pairs && at >= 0 && at + 1 < end) {
            store_pair(result + at, s.scalars, bias, low, high);
            continue;
          }
          if (at >= 0 && at < end) store_one(result + at, s.scalars, bias, low);
          if (at >= -1 && at + 1 < end) store_one(result + at + 1, s.scalars, bias, high);
        }
      }
      __syncwarp();
      slot = slot == kLineStages - 1 ? 0 : slot + 1;
    }
  }

 private:
  static DEVICE float finished(const ConvScalars& s, float sum, float bias, float old) {
    return s.beta != 0 ? finish<kOld, kBias, false, kActivation>(s, sum, 1, bias, old)
                       : finish<kNone, kBias, false, kActivation>(s, sum, 1, bias, 0);
  }
  static DEVICE void store_pair(u16* to, const ConvScalars& s, float bias, float low, float high) {
    u32* const pair = reinterpret_cast<u32*>(to);
    const u32 old = s.beta != 0 ? *pair : 0;
    *pair = Element::pack(finished(s, low, bias, Element::low(old)), finished(s, high, bias, Element::high(old)));
  }
  static DEVICE void store_one(u16* to, const ConvScalars& s, float bias, float sum) {
    const float old = s.beta != 0 ? Element::of(*to) : 0;
    *to = u16(Element::pack(finished(s, sum, bias, old), 0));
  }
};

/// The gradient of the filter along contiguous lines. Block (channel * parts + part) has every parts-th set of pieces
/// of the lines of all images, a piece per warp. Chunks of 512 elements of dy, with the source that they need, pass
/// through the warp's stages in shared memory, those of the next piece before the last one ends.
template <class Element, int kDepth>
struct ConvDepthwiseLinesWeights {
  static constexpr int kThreads = 128, kResident = kDepth > 3 ? 4 : 7;  // by registers and shared memory
  using Arguments = ConvDepthwise1dArguments;

 private:
  using Base = ConvDepthwise1d<Element, kDepth>;
  static constexpr int kUnit = Base::kUnit, kTile = Base::kTile, kChunk = kLineChunk, kWarps = kThreads / 32;
  static constexpr int kTapsOfLane = (kDepth * 16 - 2 * kUnit + 2 + 31) / 32;
  static constexpr int kDyUnits = kChunk / kUnit, kStages = kLineStages;
  static constexpr u32 kUnitBytes = (kDyUnits + kLineUnits) * 16;
  static constexpr u32 kStageBytes = kUnitBytes > Base::kGramBytes ? kUnitBytes : Base::kGramBytes;
  static_assert(2 * kDepth <= kLineUnits - kDyUnits);

  /// A chunk of a warp's pieces. The source begins `shift` elements before the first that it needs, so that both begin
  /// at multiples of 16 bytes if the tensors do: sums do not depend on their addresses.
  struct Position {
    int work, at = 0, end = 0, first = 0, shift = 0;  // `first` and `end` of the piece
    i64 source = 0, dy = 0;                           // where lines begin

    DEVICE Position(const ConvDepthwise1dShape& s, int channel, int first_work) : work(first_work) {
      begin(s, channel);
    }
    DEVICE bool exists(const ConvDepthwise1dShape& s) const { return work < s.images * s.pieces; }
    DEVICE bool is_last() const { return at + kChunk >= end; }
    DEVICE void advance(const ConvDepthwise1dShape& s, int channel) {
      const bool ends = is_last();
      at += kChunk;
      if (!ends) return;
      work += s.parts * kWarps;
      begin(s, channel);
    }

   private:
    /// The next piece that has elements.
    DEVICE void begin(const ConvDepthwise1dShape& s, int channel) {
      NO_UNROLL
      for (; exists(s); work += s.parts * kWarps) {
        const int image = work / s.pieces;
        source = image * s.source_image + channel * s.source_channel;
        dy = image * s.result_image + channel * s.result_channel;
        at = first = (work - image * s.pieces) * s.piece - int(dy & (kUnit - 1));
        end = min(first + s.piece, s.results);
        shift = int((source + first + s.first) & (kUnit - 1));
        if (first < end) return;
      }
    }
  };

  static DEVICE void load(const Arguments& a, const Position& p, u32 stage) {
    const ConvDepthwise1dShape& s = a.shape;
    load_units<kLineUnits>(stage, a.source + p.source, p.at + s.first - p.shift, s.source_size);
    load_units<kDyUnits>(stage + kLineUnits * 16, a.second + p.dy, p.at, p.end);
  }

  static DEVICE void multiply(u32 stage, float (&g)[kDepth][4]) {
    const u32 lane = threadIdx.x % 32, b_from = stage + (kLineUnits + lane) * 16;
    const u32 a_from = stage + (lane / 16 * 8 + lane % 8 + lane / 8 % 2) * 16;
    UNROLL
    for (int tile = 0; tile < kChunk / kTile; tile += 2) {
      u32 b[4];
      load_matrices_transposed(b_from + tile * 16 * 16, b);
      UNROLL
      for (int i = 0; i < 2 * kDepth; ++i) {
        u32 a[4];
        load_matrices_transposed(a_from + ((tile + i % 2) * 16 + i / 2 * 2) * 16, a);
        const u32 of_tile[2] = {b[i % 2 * 2], b[i % 2 * 2 + 1]};
        multiply_by_warp<Element>(g[i / 2], a, of_tile);
      }
    }
  }

  /// Adds the sums of a piece to those of the lane's taps.
  static DEVICE void add_piece(const Arguments& a, const Position& p, u32 gram, const float (&g)[kDepth][4],
                               float (&sums)[kTapsOfLane]) {
    const ConvDepthwise1dShape& s = a.shape;
    Base::store_gram(gram, g);
    UNROLL
    for (int i = 0; i < kTapsOfLane; ++i) {
      const int tap = int(threadIdx.x % 32) + 32 * i;
      if (tap >= s.taps) continue;
      const float sum = Base::diagonal(gram, tap + p.shift);
      sums[i] += sum == sum
                     ? sum
                     : Base::exact_gradient(a.source + p.source, 1, a.second + p.dy, 1, s, tap, max(p.first, 0), p.end);
    }
    __syncwarp();
  }

 public:
  static DEVICE void run(const Arguments& a) {
    const ConvDepthwise1dShape& s = a.shape;
    const int channel = blockIdx.x / s.parts, part = blockIdx.x - channel * s.parts;
    const u32 lane = threadIdx.x % 32, stages = Base::shared() + threadIdx.x / 32 * (kStages * kStageBytes);
    Position next(s, channel, part * kWarps + threadIdx.x / 32), now = next;
    const auto load_next = [&](int slot) {
      if (next.exists(s)) {
        load(a, next, stages + slot * kStageBytes);
        next.advance(s, channel);
      }
      commit_copies();
    };
    UNROLL
    for (int slot = 0; slot < kStages - 1; ++slot) load_next(slot);
    float sums[kTapsOfLane] = {};  // of taps `lane`, lane + 32, ..
    float g[kDepth][4] = {};
    int slot = 0;
    NO_UNROLL
    while (now.exists(s)) {
      load_next(slot == 0 ? kStages - 1 : slot - 1);
      wait_for_copies<kStages - 1>();
      __syncwarp();
      const u32 stage = stages + slot * kStageBytes;
      multiply(stage, g);
      __syncwarp();
      if (now.is_last()) {
        add_piece(a, now, stage, g, sums);
        UNROLL
        for (int i = 0; i < kDepth * 4; ++i) g[i / 4][i % 4] = 0;
      }
      now.advance(s, channel);
      slot = slot == kStages - 1 ? 0 : slot + 1;
    }
    wait_for_copies<0>();
    __syncwarp();
    UNROLL
    for (int i = 0; i < kTapsOfLane; ++i) store_shared(stages + (lane + 32 * i) * 4, sums[i]);
    __syncthreads();
    if (threadIdx.x >= s.taps) return;
    float sum = 0;
    for (int i = 0; i < kWarps; ++i)
      sum += load_shared<float>(Base::shared() + i * (kStages * kStageBytes) + threadIdx.x * 4);
    static_cast<float*>(a.result)[(i64(part) * s.channels + channel) * s.taps + threadIdx.x] = sum;
  }
};

}  // namespace sm90
