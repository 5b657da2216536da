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

/// A contiguous line, which passes through a warp's shared memory in chunks of 64 units of 16 bytes, each followed by
/// the first 16 units of the next one. Chunks are loaded one after the next before they are stored.
class ConvLine {
 public:
  static constexpr int kUnit = 8, kUnits = 64, kAfter = 16, kChunk = kUnits * kUnit;  // kUnit, kChunk: elements
  static constexpr u32 kBufferBytes = (kUnits + kAfter) * 16, kBytes = 2 * kBufferBytes;

  /// From element `start` on, at a multiple of 16 bytes if the tensor is; those outside of the line are zero.
  DEVICE ConvLine(u32 shared, const u16* line, int start, int size)
      : chunk_(shared),
        other_(shared + kBufferBytes),
        line_(line),
        at_(start),
        size_(size),
        is_aligned_(u64(line + start) % 16 == 0) {
    load(true);
    const uint4 first[2] = {next_[0], next_[1]};
    load(true);
    store(first);
    store(next_);
    __syncwarp();
  }

  /// Loads the chunk that advance() stores.
  DEVICE void load(bool more) {
    more_ = more;
    if (!more) return;
    const int at = at_ + threadIdx.x % 32 * kUnit;
    if (is_aligned_ && at_ >= 0 && at_ + kChunk <= size_) {
      const uint4* const units = reinterpret_cast<const uint4*>(line_ + at);
      next_[0] = units[0];
      next_[1] = units[kUnits / 2];
    } else {
      next_[0] = unit(at);
      next_[1] = unit(at + kChunk / 2);
    }
    at_ += kChunk;
  }

  /// The next chunk takes the place of the first one.
  DEVICE void advance() {
    if (more_) {
      __syncwarp();
      store(next_);
      __syncwarp();
    } else {
      swap();
    }
  }

  DEVICE u32 chunk() const { return chunk_; }

 private:
  DEVICE void swap() {
    const u32 chunk = chunk_;
    chunk_ = other_;
    other_ = chunk;
  }

  DEVICE void store(const uint4 (&units)[2]) {
    const u32 lane = threadIdx.x % 32;
    store_shared(chunk_ + lane * 16, units[0]);
    store_shared(chunk_ + (lane + kUnits / 2) * 16, units[1]);
    if (lane < kAfter) store_shared(other_ + (lane + kUnits) * 16, units[0]);
    swap();
  }

  DEVICE uint4 unit(int at) const {
    if (is_aligned_ && at >= 0 && at + kUnit <= size_) return *reinterpret_cast<const uint4*>(line_ + at);
    return unit_of_line(line_, at, size_);
  }

  u32 chunk_, other_;
  const u16* const line_;
  int at_;
  const int size_;
  const bool is_aligned_;
  bool more_;
  uint4 next_[2];
};

/// Results along contiguous lines, forward and backward data: a warp has a piece of a line.
template <class Element, int kDepth, bool kReversed, bool kBias, int kActivation>
struct ConvDepthwiseLines {
  static constexpr int kThreads = 128, kResident = (kDepth > 4 ? 5 : 8) - (kActivation != 0);  // by registers
  using Arguments = ConvDepthwise1dArguments;

 private:
  using Base = ConvDepthwise1d<Element, kDepth>;
  static constexpr int kUnit = ConvLine::kUnit, kChunk = ConvLine::kChunk, kTile = Base::kTile;
  static constexpr int kTiles = kChunk / kTile;
  static_assert(2 * kDepth <= ConvLine::kAfter);

 public:
  static DEVICE void run(const Arguments& a) {
    const ConvDepthwise1dShape& s = a.shape;
    const u32 lane = threadIdx.x % 32;
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
    const int end = min(first + s.piece, s.results), wanted = first + s.first;
    const int shift = int((source_at + wanted) & (kUnit - 1));
    const bool has_pairs = u64(result + first) % 4 == 0;
    u32 toeplitz[kDepth][2];
    Base::template load_taps<kReversed>(taps, s.taps, shift, toeplitz);
    ConvLine units(Base::shared() + threadIdx.x / 32 * ConvLine::kBytes, source, wanted - shift, s.source_size);
    const float bias = kBias ? bias_of<Element, false>(a.bias, channel) : 0;
    NO_UNROLL
    for (int chunk = first; chunk < end; chunk += kChunk) {
      units.load(chunk + kChunk < end);
      float sums[kTiles][4] = {};
      const u32 from = units.chunk() + (lane % 16 + lane / 16) * 16;
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
        for (int at = max(chunk, 0) + int(lane); at < min(chunk + kChunk, end); at += 32)
          store_one(result + at, s.scalars, bias,
                    Base::exact(source, 1, kReversed ? taps + s.taps - 1 : taps, kReversed ? -1 : 1, s, at));
      } else if (has_pairs && chunk >= 0 && chunk + kChunk <= end) {
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
      units.advance();
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

/// The gradient of the filter along contiguous lines. Block (channel * parts + part) has every parts-th set of pieces of
/// the lines of all images, a piece per warp. Chunks of 512 elements of dy, with the source that they need, pass through
/// the warp's stages in shared memory, those of the next piece before the last one ends.
template <class Element, int kDepth>
struct ConvDepthwiseLinesWeights {
  static constexpr int kThreads = 128, kResident = kDepth > 3 ? 4 : 7;  // by registers and shared memory
  using Arguments = ConvDepthwise1dArguments;

 private:
  using Base = ConvDepthwise1d<Element, kDepth>;
  static constexpr int kUnit = Base::kUnit, kTile = Base::kTile, kChunk = 512, kWarps = kThreads / 32;
  static constexpr int kTapsOfLane = (kDepth * 16 - 2 * kUnit + 2 + 31) / 32;
  static constexpr int kDyUnits = kChunk / kUnit, kSourceUnits = kDyUnits + 16, kStages = 3;
  static constexpr u32 kUnitBytes = (kDyUnits + kSourceUnits) * 16;
  static constexpr u32 kStageBytes = kUnitBytes > Base::kGramBytes ? kUnitBytes : Base::kGramBytes;
  static_assert(2 * kDepth <= 16);

  /// A chunk of a warp's pieces. The source begins `shift` elements before the first that it needs, so that both begin at
  /// multiples of 16 bytes if the tensors do: sums do not depend on their addresses.
  struct Position {
    int work, at = 0, end = 0, first = 0, shift = 0;  // `first` and `end` of the piece
    i64 source = 0, dy = 0;                           // where lines begin

    DEVICE Position(const ConvDepthwise1dShape& s, int channel, int first_work) : work(first_work) { begin(s, channel); }
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

  static DEVICE void load_unit(u32 to, const u16* line, int at, int size, bool is_aligned) {
    if (!is_aligned || (at < 0 && at > -kUnit)) return store_shared(to, unit_of_line(line, at, size));
    const int left = at < 0 ? 0 : max(0, min(kUnit, size - at));
    copy_async(to, left > 0 ? line + at : line, left * 2);
  }

  static DEVICE void load(const Arguments& a, const Position& p, u32 stage) {
    const ConvDepthwise1dShape& s = a.shape;
    const u32 lane = threadIdx.x % 32;
    const u16 *const source = a.source + p.source, *const dy = a.second + p.dy;
    const int from = p.at + s.first - p.shift;
    const bool source_is_aligned = u64(source + from) % 16 == 0, dy_is_aligned = u64(dy + p.at) % 16 == 0;
    UNROLL
    for (u32 i = 0; i < kSourceUnits; i += 32)
      if (lane + i < kSourceUnits)
        load_unit(stage + (lane + i) * 16, source, from + int(lane + i) * kUnit, s.source_size, source_is_aligned);
    UNROLL
    for (u32 i = lane; i < lane + kDyUnits; i += 32)
      load_unit(stage + (kSourceUnits + i) * 16, dy, p.at + int(i) * kUnit, p.end, dy_is_aligned);
  }

  static DEVICE void multiply(u32 stage, float (&g)[kDepth][4]) {
    const u32 lane = threadIdx.x % 32, b_from = stage + (kSourceUnits + lane) * 16;
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
      sums[i] += sum == sum ? sum
                            : Base::exact_gradient(a.source + p.source, 1, a.second + p.dy, 1, s, tap, max(p.first, 0),
                                                   p.end);
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
