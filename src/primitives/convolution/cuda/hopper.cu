// Forward convolution and its gradient of data as an implicit matrix product on sm90: rows are output pixels, columns
// output channels. A producer thread loads the pixels of a tap by im2col maps and the weights by tiled maps into a ring
// of stages; two consumer warpgroups multiply (wgmma) and store through shared memory. Blocks are persistent. Method:
// implicit GEMM (Chetlur et al., cuDNN, 2014) with warp specialisation as in CUTLASS 3.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/sm90/conv_exact.cuh"
#include "kernels/gpu/sm90/conv_planes.cuh"
#include "kernels/gpu/sm90/conv_products.cuh"

namespace sm90 {

/// Maps of half as many channels as a step has.
template <int kMaxPhases>
struct ConvHalfMaps {};
template <>
struct ConvHalfMaps<1> {
  TensorMap half_weights, half_src;
};

/// kTransposed: the weights are contiguous along output channels (backward data). kRowBlocks: blocks of 64 rows of a
/// consumer. kPingPong: the consumers work on different tiles, so that one stores while the other multiplies; else each
/// has half the rows of a tile. kSplit: blocks of a cluster that share a tile, each with a part of the steps. kPlanes:
/// the output's channels are not innermost (and nothing is added to it). Operands of SplitFloat are tensors of parts:
/// images of x, or output channels of the weights (channels that are summed over, if transposed), of one part after
/// those of another.
template <class Element, int kSpatial, bool kTransposed, int kRowBlocks, int kColumns, int kStages, bool kPingPong,
          int kSplit, Addend kAddend, bool kBias, bool kScale, int kActivation, bool kPlanes, int kMaxPhases>
struct ConvProduct {
  static constexpr int kThreads = 384, kResident = 1;
  using Stored = typename Element::Stored;
  using Pair = typename Element::Pair;
  using Sum = typename Element::Sum;
  using Value = typename Element::Value;

  struct Arguments : ConvExactOperands<Element::kParts>, ConvHalfMaps<kMaxPhases> {
    TensorMap weights, residual, src[kMaxPhases], dst[kMaxPhases];
    ConvPhase phase[kMaxPhases];
    ConvProductShape shape;
    ConvChannelParameters parameters;
    Stored* dst_data;  // where clusters and planes are stored, and what clusters add is
    const Stored* residual_data;
  };

 private:
  static constexpr int kSize = sizeof(Stored), kParts = Element::kParts;  // size of results
  static constexpr int kConsumers = 2, kDepth = kRowBytes / Element::kOperandBytes, kAccumulators = kColumns / 2;
  static constexpr int kTileRows = 64 * kRowBlocks * (kPingPong ? 1 : kConsumers);
  static constexpr int kBoxes = (kColumns + 63) / 64;  // of transposed weights, 64 columns each
  static constexpr u32 kPixelBytes = kTileRows * kRowBytes;
  static constexpr u32 kWeightBytes = (kTransposed ? 64 * kBoxes : kColumns) * kRowBytes;
  static constexpr u32 kStageBytes = kPixelBytes + kWeightBytes, kBoxBytes = kDepth * kRowBytes;
  // A slab is what one store writes: 64 rows of kSlabColumns.
  static constexpr u32 kSlabRow = kColumns * kSize % 128 == 0 ? 128 : kColumns * kSize % 64 == 0 ? 64 : 32;
  static constexpr u32 kSlabBytes = 64 * kSlabRow;
  static constexpr int kSlabColumns = kSlabRow / kSize, kSlabs = kColumns / kSlabColumns;
  static constexpr int kSlabBuffers = kSplit > 1 ? 0 : 2;  // of each consumer
  static constexpr int kPerChannel = (kBias ? 1 : 0) + (kScale ? 1 : 0);
  static constexpr bool kIntegers = Sum(0.5f) == 0;
  static_assert(!kIntegers || (kAddend != kResidual && !kBias && !kScale && kActivation == 0));
  static constexpr bool kLoadsAddend = kAddend != kNone && kSplit == 1;
  static_assert(!kPlanes || (kAddend == kNone && kSize != 1));
  static_assert(!kTransposed || Element::kOperandBytes == 2);
  static constexpr bool kHasHalves =
      kMaxPhases == 1 && kParts == 1 && Element::kOperandBytes == 2 && !Element::kAddsSteps;
  enum Meeting { kStore = 1, kTurn = 3, kBoth = 5 };  // numbers of barriers; the first two have one per consumer

  // The ring, slabs, per-channel parameters, barriers.
  static constexpr u32 kSlabsAt = kStages * kStageBytes;
  static constexpr u32 kParametersAt = kSlabsAt + kConsumers * kSlabBuffers * kSlabBytes;
  static constexpr u32 kBarriersAt = kParametersAt + kConsumers * kPerChannel * kColumns * 4;

 public:
  static constexpr u32 kSharedBytes = kBarriersAt + (2 * kStages + kConsumers) * 8;

 private:
  struct Tile {
    int phase, row, column;
  };

  static DEVICE unsigned char* shared() {
    extern __shared__ __align__(1024) unsigned char bytes[];
    return bytes;
  }
  static DEVICE Barrier& barrier(int i) { return reinterpret_cast<Barrier*>(shared() + kBarriersAt)[i]; }
  static DEVICE Barrier& full(int slot) { return barrier(slot); }
  static DEVICE Barrier& empty(int slot) { return barrier(kStages + slot); }
  static DEVICE Barrier& addend(int consumer) { return barrier(2 * kStages + consumer); }

  static DEVICE Tile tile_at(const Arguments& a, int index) {
    int phase = 0;
    if constexpr (kMaxPhases > 1) {
      if (a.shape.interleaved) {
        const int group = a.shape.raster * a.shape.column_tiles * a.shape.phases, rest = index % group;
        const int first = index / group * a.shape.raster, height = min(a.shape.raster, a.phase[0].row_tiles - first);
        const int in_band = rest % (height * a.shape.column_tiles);
        return {rest / (height * a.shape.column_tiles), first + in_band % height, in_band / height};
      }
      while (phase + 1 < a.shape.phases && index >= a.phase[phase + 1].first_tile) ++phase;
    }
    const int rest = index - a.phase[phase].first_tile, band = a.shape.raster * a.shape.column_tiles;
    const int first = rest / band * a.shape.raster, in_band = rest % band;
    const int height = min(a.shape.raster, a.phase[phase].row_tiles - first);
    return {phase, first + in_band % height, in_band / height};
  }

  static DEVICE int all_steps(const Arguments& a, const ConvPhase& p) {
    int taps = 1;
    UNROLL
    for (int i = 0; i < kSpatial; ++i) taps *= p.taps[i];
    return taps * ((a.shape.reduced + kDepth - 1) / kDepth);
  }
  /// Steps of a block. Those beyond the last load zeros.
  static DEVICE int steps_of(const Arguments& a, const ConvPhase& p) {
    return max(1, (all_steps(a, p) + kSplit - 1) / kSplit);
  }

  /// The tap and the channels, of a group, of a step.
  struct Step {
    static constexpr int kBeyond = 1 << 30;  // no tensor has so many channels
    int tap[kSpatial], channel;

    DEVICE Step(const Arguments& a, const ConvPhase& p, int index) {
      if (index >= all_steps(a, p)) {
        UNROLL
        for (int i = 0; i < kSpatial; ++i) tap[i] = 0;
        channel = kBeyond;
        return;
      }
      const int blocks = (a.shape.reduced + kDepth - 1) / kDepth;
      if (!a.shape.taps_innermost) {
        channel = index % blocks * kDepth;
        index /= blocks;
      }
      UNROLL
      for (int i = 0; i < kSpatial; ++i) {
        tap[i] = index % p.taps[i];
        index /= p.taps[i];
      }
      if (a.shape.taps_innermost) channel = index * kDepth;
    }

    DEVICE void advance(const Arguments& a, const ConvPhase& p) {
      if (channel >= a.shape.reduced) return;  // beyond the last
      if (a.shape.taps_innermost) {
        if (!next_tap(p)) channel += kDepth;
        return;
      }
      channel += kDepth;
      if (channel >= a.shape.reduced && next_tap(p)) channel = 0;
    }

    /// False after the last, and then at the first again.
    DEVICE bool next_tap(const ConvPhase& p) {
      UNROLL
      for (int i = 0; i < kSpatial; ++i) {
        if (++tap[i] < p.taps[i]) return true;
        tap[i] = 0;
      }
      return false;
    }
  };

  /// Whether a step that begins with these channels has half of them.
  static DEVICE bool is_half(const Arguments& a, int channel) {
    const int left = a.shape.reduced - channel;
    return kHasHalves && a.shape.halves && left > 0 && left <= kDepth / 2;
  }
  static DEVICE HalfSteps half_steps(const Arguments& a, const ConvPhase& p, int rank) {
    if (!kHasHalves || !a.shape.halves) return {0, 0, 0};
    const int all = all_steps(a, p), first = rank * steps_of(a, p), end = all - first;
    const int blocks = (a.shape.reduced + kDepth - 1) / kDepth;
    if (a.shape.taps_innermost) return {max(0, all - all / blocks - first), 1, end};
    return {blocks - 1 - first % blocks, blocks, end};
  }

  static DEVICE void load(const Arguments& a, const Tile& t, const ConvPhase& p, Pixel<kSpatial> pixel,
                          const Step& step, int part, int slot) {
    const u32 pixels = shared_address(shared()) + slot * kStageBytes, weights = pixels + kPixelBytes;
    pixel.image += part * a.shape.images;
    int offset[kSpatial], tap = p.tap;
    UNROLL
    for (int i = 0; i < kSpatial; ++i) {
      offset[i] = p.offset[i] + step.tap[i] * p.offset_step[i];
      tap += step.tap[i] * p.tap_step[i];
    }
    const Barrier& bar = full(slot);
    const int group = t.column / a.shape.group_tiles, column = (t.column - group * a.shape.group_tiles) * kColumns;
    const TensorMap *src = &a.src[t.phase], *filter = &a.weights;
    if constexpr (kHasHalves) {
      if (is_half(a, step.channel)) {
        src = &a.half_src;
        filter = &a.half_weights;
      }
    }
    load_pixels<kSpatial>(pixels, *src, bar, group * a.shape.reduced + step.channel, pixel, offset);
    if constexpr (kTransposed) {
      UNROLL
      for (int i = 0; i < kBoxes; ++i)
        load_box(weights + i * kBoxBytes, *filter, bar, column + 64 * i, tap, step.channel + part * a.shape.reduced,
                 group);
    } else {
      load_box(weights, *filter, bar, step.channel, tap, column + part * a.shape.outputs, group);
    }
  }

  static DEVICE void produce(const Arguments& a, int first, int stride, int rank) {
    RingPosition<kStages> at;
    NO_UNROLL
    for (int index = first; index < a.shape.tiles; index += stride) {
      const Tile t = tile_at(a, index);
      const ConvPhase& p = a.phase[t.phase];
      Pixel<kSpatial> pixel = pixel_at<kSpatial>(p, t.row * kTileRows);
      UNROLL
      for (int i = 0; i < kSpatial; ++i) pixel.at[i] = pixel.at[i] * p.step[i] + p.base[i];
      const int steps = steps_of(a, p);
      Step step(a, p, rank * steps);
      NO_UNROLL
      for (int i = 0; i < steps; ++i) {
        NO_UNROLL
        for (int part = 0; part < kParts; ++part) {
          empty(at.slot).wait(at.parity ^ 1);
          full(at.slot).arrive_and_expect(is_half(a, step.channel) ? kStageBytes / 2 : kStageBytes);
          load(a, t, p, pixel, step, part, at.slot);
          at.advance();
        }
        step.advance(a, p);
      }
    }
  }

  using Products = ConvProducts<Element, kTransposed, kRowBlocks, kColumns, kStages, kStageBytes>;
  using Sums = typename Products::Sums;

  static DEVICE Products products_of(int consumer) {
    const u32 ring = shared_address(shared());
    const u32 row = kPingPong ? 0 : consumer * 64 * kRowBlocks;
    const u64 weights = operand(ring + kPixelBytes, kBoxBytes);
    return {operand(ring + row * kRowBytes), weights, operand<kRowBytes / 2>(ring + row * (kRowBytes / 2)),
            kTransposed ? weights : operand<kRowBytes / 2>(ring + kPixelBytes), &full(0)};
  }

  /// Of the columns of a tile, in shared memory: the biases and then the scales.
  static DEVICE float* parameters(int consumer) {
    return reinterpret_cast<float*>(shared() + kParametersAt) + consumer * kPerChannel * kColumns;
  }
  static DEVICE void load_parameters(const Arguments& a, int consumer, int first) {
    if constexpr (kPerChannel > 0) {
      float* const to = parameters(consumer);
      for (int i = threadIdx.x % 128; i < kColumns; i += 128) {
        const bool inside = first + i < a.shape.outputs;
        const ScaleAndBias of =
            inside ? scale_and_bias<Element, kBias, kScale>(a.parameters, first + i) : ScaleAndBias{};
        if constexpr (kBias) to[i] = of.bias;
        if constexpr (kScale) to[(kBias ? kColumns : 0) + i] = of.scale;
      }
    }
  }

  /// Two results, the first of which has this place.
  template <class V>
  static DEVICE Pair pack(const Arguments& a, V low, V high, i64 place) {
    if constexpr (Element::kDithers)
      return Element::pack(low, high, a.shape.scalars.seed, place);
    else
      return Element::pack(low, high);
  }

  /// The result of a sum at column `column` of the tile.
  static DEVICE auto result(const Arguments& a, const float* parameters, int column, Sum sum, Value added) {
    if constexpr (kIntegers) {
      if constexpr (Element::kScaled)
        return scaled<kAddend>(a.shape.scalars, sum, added);
      else
        return sum;
    } else {
      const float bias = kBias ? parameters[column] : 0.0f;
      const float scale = kScale ? parameters[(kBias ? kColumns : 0) + column] : 1.0f;
      return finish<kAddend, kBias, kScale, kActivation>(a.shape.scalars, sum, scale, bias, added);
    }
  }

  static DEVICE void store_tile(const Arguments& a, const Tile& t, int consumer, const Sums& d, u32& stores) {
    const ConvPhase& p = a.phase[t.phase];
    const int thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32;
    const u32 slabs = shared_address(shared()) + kSlabsAt + consumer * kSlabBuffers * kSlabBytes;
    const float* const per_channel = parameters(consumer);
    const int row0 = t.row * kTileRows + (kPingPong ? 0 : consumer * 64 * kRowBlocks);
    UNROLL
    for (int b = 0; b < kRowBlocks; ++b) {
      Pixel<kSpatial> pixel;
      if (thread == 0) pixel = pixel_at<kSpatial>(p, row0 + 64 * b);
      PlanePart<Stored, kSpatial, kSlabColumns> part;
      if constexpr (kPlanes) part.select(a.shape, p, row0 + 64 * b);
      i64 places[2] = {};  // of this thread's rows
      if constexpr (Element::kDithers) {
        UNROLL
        for (int h = 0; h < 2; ++h)
          places[h] = place_of(a.shape, p, pixel_at<kSpatial>(p, row0 + 64 * b + 16 * warp + lane / 4 + 8 * h)) +
                      t.column * kColumns;
      }
      UNROLL
      for (int j = 0; j < kSlabs; ++j) {
        const u32 slab = slabs + stores % kSlabBuffers * kSlabBytes;
        const int column = j * kSlabColumns;  // of the tile
        if (!kPlanes && thread == 0) {
          wait_for_reads<kSlabBuffers - 1>();
          if constexpr (kLoadsAddend) {
            constexpr int kNowhere[kSpatial] = {};
            addend(consumer).arrive_and_expect(kSlabBytes);
            load_pixels<kSpatial>(slab, kAddend == kOld ? a.dst[t.phase] : a.residual, addend(consumer),
                                  t.column * kColumns + column, pixel, kNowhere);
          }
        }
        if constexpr (kLoadsAddend) {
          addend(consumer).wait(stores & 1);
        } else if constexpr (!kPlanes) {
          meet(kStore + consumer, 128);
        }
        UNROLL
        for (int u = 0; u < kSlabColumns / 16; ++u) {
          const Sum* const sums = &d[b][(column + 16 * u) / 2];
          Pair packed[4];
          // Of this thread's elements of matrix m.
          const auto place = [&](int m) {
            return element_at<Element, kSlabRow>(slab, 16 * warp + 8 * (m % 2) + lane / 4,
                                                 16 * u + 8 * (m / 2) + 2 * (lane % 4));
          };
          UNROLL
          for (int m = 0; m < 4; ++m) {  // an 8x8 matrix: rows 8 (m % 2), columns 8 (m / 2)
            const int c = column + 16 * u + 8 * (m / 2) + 2 * (lane % 4);
            Pair added = {};
            if constexpr (kLoadsAddend) added = load_shared<Pair>(place(m));
            packed[m] = pack(a, result(a, per_channel, c, sums[2 * m], Element::low(added)),
                             result(a, per_channel, c + 1, sums[2 * m + 1], Element::high(added)), places[m % 2] + c);
          }
          if constexpr (kLoadsAddend) __syncwarp();
          if constexpr (kSize == 4 && kPlanes) {
            UNROLL
            for (int m = 0; m < 4; ++m) {
              const int channel = 16 * u + 8 * (m / 2) + 2 * (lane % 4), pixel = 16 * warp + 8 * (m % 2) + lane / 4;
              const u32 at = plane_piece<kSize>(slab, channel, pixel / 4) + pixel % 4 * kSize;
              store_shared(at, Element::low(packed[m]));
              store_shared(at + 64 * kSize, Element::high(packed[m]));
            }
          } else if constexpr (kSize != 2) {
            UNROLL
            for (int m = 0; m < 4; ++m) store_shared(place(m), packed[m]);
          } else if constexpr (kPlanes) {  // rows are channels, of 64 pixels
            store_matrices_transposed(swizzled(slab, 16 * u + lane / 16 * 8 + lane % 8, 2 * warp + lane / 8 % 2),
                                      packed);
          } else {
            store_matrices(swizzled<kSlabRow>(slab, 16 * warp + lane % 16, 2 * u + lane / 16), packed);
          }
        }
        if constexpr (!kPlanes) publish_writes();
        meet(kStore + consumer, 128);
        if constexpr (kPlanes) part.store(a.shape, slab, t.column * kColumns + column, a.dst_data);
        if (!kPlanes && thread == 0) {
          store_pixels<kSpatial>(a.dst[t.phase], slab, t.column * kColumns + column, pixel);
          commit_stores();
        }
        ++stores;
      }
    }
  }

  /// The blocks of a cluster add their sums in the order of their ranks, each for its share of the columns, and store.
  static DEVICE void add_and_store(const Arguments& a, const Tile& t, int consumer, const Sums& d, int rank) {
    const ConvPhase& p = a.phase[t.phase];
    const int thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32;
    constexpr int kQuads = kRowBlocks * kAccumulators / 4, kShare = kQuads / kSplit;
    static_assert(kQuads % kSplit == 0 && kQuads * kConsumers * 128 * 16 <= kStages * kStageBytes);
    meet(kBoth, kConsumers * 128);  // no product of either consumer reads the ring
    uint4* const mine = reinterpret_cast<uint4*>(shared()) + consumer * kQuads * 128 + thread;
    UNROLL
    for (int q = 0; q < kQuads; ++q) {
      const Sum* const sums = &d[q / (kAccumulators / 4)][q % (kAccumulators / 4) * 4];
      mine[q * 128] = make_uint4(bits_of(sums[0]), bits_of(sums[1]), bits_of(sums[2]), bits_of(sums[3]));
    }
    meet_cluster();
    const float* const per_channel = parameters(consumer);
    NO_UNROLL
    for (int i = 0; i < kShare; ++i) {
      const int q = rank * kShare + i, b = q / (kAccumulators / 4),
                column = q % (kAccumulators / 4) * 8 + 2 * (lane % 4);
      const u32 at = shared_address(mine + q * 128);
      Sum sums[4] = {};
      UNROLL
      for (int r = 0; r < kSplit; ++r) {
        const uint4 v = load_of_block(at, r);
        const Sum part[] = {sum_of<Sum>(v.x), sum_of<Sum>(v.y), sum_of<Sum>(v.z), sum_of<Sum>(v.w)};
        UNROLL
        for (int e = 0; e < 4; ++e) sums[e] = r == 0 ? part[e] : sums[e] + part[e];
      }
      const int c = t.column * kColumns + column;
      UNROLL
      for (int h = 0; h < 2; ++h) {
        const int row =
            t.row * kTileRows + (kPingPong ? 0 : consumer * 64 * kRowBlocks) + 64 * b + 16 * warp + lane / 4 + 8 * h;
        const Pixel<kSpatial> pixel = pixel_at<kSpatial>(p, row);
        if (pixel.image >= a.shape.images || c >= a.shape.outputs) continue;
        const i64 place = place_of(a.shape, p, pixel) + c * (kPlanes ? a.shape.dst_channel : 1);
        Pair added = {};
        if constexpr (kAddend != kNone)
          added = *reinterpret_cast<const Pair*>((kAddend == kOld ? a.dst_data : a.residual_data) + place);
        const Pair pair = pack(a, result(a, per_channel, column, sums[2 * h], Element::low(added)),
                               result(a, per_channel, column + 1, sums[2 * h + 1], Element::high(added)), place);
        if constexpr (kPlanes && kSize == 4) {
          a.dst_data[place] = Element::low(pair);
          a.dst_data[place + a.shape.dst_channel] = Element::high(pair);
        } else if constexpr (kPlanes) {
          a.dst_data[place] = u16(pair);
          a.dst_data[place + a.shape.dst_channel] = u16(pair >> 16);
        } else {
          *reinterpret_cast<Pair*>(a.dst_data + place) = pair;
        }
      }
    }
    meet_cluster();  // the others have read this block's sums
  }

  static DEVICE void consume(const Arguments& a, int consumer, int first, int stride, int rank) {
    RingPosition<kStages> at;
    u32 stores = 0;  // of slabs
    int turn = 0;    // of the tile, among those of the block
    NO_UNROLL
    for (int index = first; index < a.shape.tiles; index += stride, ++turn) {
      const Tile t = tile_at(a, index);
      const int steps = steps_of(a, a.phase[t.phase]);
      if (kPingPong && turn % kConsumers != consumer) {
        at.skip(steps * kParts);
        continue;
      }
      Sums d;
      load_parameters(a, consumer, t.column * kColumns);
      if (kPingPong && turn > 0) meet(kTurn + consumer, 256);
      products_of(consumer).sum(d, steps, at, half_steps(a, a.phase[t.phase], rank));
      if (kPingPong && index + stride < a.shape.tiles) signal(kTurn + 1 - consumer, 256);
      if constexpr (kSplit > 1)
        add_and_store(a, t, consumer, d, rank);
      else
        store_tile(a, t, consumer, d, stores);
    }
    if (kSplit == 1 && !kPlanes && threadIdx.x % 128 == 0) wait_for_stores();
  }

  /// What parts cannot represent: products of fp32, by threads.
  static DEVICE void run_exactly(const Arguments& a) {
    using Exact = ConvExact<Element, kSpatial, kTransposed, kTileRows, kColumns, kAddend, kBias, kScale, kActivation>;
    const int tiles = a.shape.tiles, blocks = gridDim.x;
    NO_UNROLL
    for (int index = blockIdx.x; index < tiles; index += blocks) {
      const Tile t = tile_at(a, index);
      Exact::run(a, a.phase[t.phase], t.row * kTileRows, t.column * kColumns, reinterpret_cast<float*>(shared()));
    }
  }

 public:
  static DEVICE void run(const Arguments& a) {
    if constexpr (kParts > 1)
      if (*a.outside != 0) return run_exactly(a);
    const int warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0);  // the same for all threads of a warp
    const int rank = kSplit > 1 ? cluster_rank() : 0;
    const int first = blockIdx.x / kSplit, stride = gridDim.x / kSplit;
    if (threadIdx.x == 0) {
      for (int i = 0; i < kStages; ++i) {
        full(i).init(1);
        empty(i).init(kPingPong ? 4 : 4 * kConsumers);  // a warp each
      }
      for (int i = 0; i < kConsumers; ++i) addend(i).init(1);
      publish_barriers();
    }
    __syncthreads();
    constexpr bool kMany = kRowBlocks * kAccumulators * (kParts > 1 ? 2 : 1) > 160;
    if (warpgroup == 0) {
      give_registers<kMany ? 24 : 40>();
      if (threadIdx.x < 32 && elected()) produce(a, first, stride, rank);
      __syncwarp();
      if constexpr (kSplit > 1) {
        meet_cluster();
        meet_cluster();
      }
    } else {
      take_registers<kMany ? 240 : 232>();
      consume(a, warpgroup - 1, first, stride, rank);
    }
  }
};

}  // namespace sm90
