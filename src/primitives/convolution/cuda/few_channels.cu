// Convolution of 16-bit floats with few channels in or out, forward and backward data, on NVIDIA's matrix units
// (mma.sync). A block copies its source pixels to shared memory once, with the halo, and lanes take their fragments
// from there. The rows of the product are the output channels of a cell of neighbouring results, its columns cells: few
// output channels fill the rows of a matrix together, and so do the phases of strided gradients. Within a cell a source
// pixel that a result does not use meets a zero of the weights; a result that is NaN, perhaps because such a zero met
// an infinity, is computed again by the definition.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/sm90/conv_epilogue.cuh"
#include "kernels/gpu/sm90/few_channels.cuh"
#include "kernels/gpu/sm90/transpose.cuh"
#include "kernels/gpu/sm90/warp.cuh"

namespace sm90 {

/// kRows: blocks of 16 rows. kPlanes: results are stored along the first dimension, else along channels.
template <class Element, ConvFewChannelsSource kSource, int kRows, bool kPlanes, bool kBias, bool kScale,
          int kActivation>
struct ConvFewChannels {
  static constexpr int kThreads = 128, kMost = kRows == 1 ? 4 : kRows == 2 ? 3 : 2;  // blocks, by registers
  static constexpr int kResident = kSource == kElements ? 1 : kMost - (kSource == kPixels && kRows < 4 ? 1 : 0);
  struct Arguments {
    const u16 *source, *weights;
    const u32* packed;
    ConvChannelParameters parameters;
    u16* result;
    ConvFewChannelsShape shape;
  };

 private:
  using Shape = ConvFewChannelsShape;
  using Row = FewChannelsRow;
  using Place = FewChannelsTile;
  static constexpr int kWarps = kThreads / 32, kTiles = 8, kGroup = kTiles * 8;  // cells of a warp
  static constexpr int kLaneRows = 2 * kRows;
  static constexpr bool kUsesMatrices = kSource == kMatrices, kIsGlobal = kSource == kPixels || kSource == kElements;
  static constexpr u32 kStepBytes = kRows * 512;
  using Sums = float[kRows][kTiles][4];

  static DEVICE u32 shared() {
    extern __shared__ __align__(1024) unsigned char bytes[];
    return shared_address(bytes);
  }

 public:
  static DEVICE void run(const Arguments& a) {
    WAIT_FOR_EARLIER_KERNEL();
    const Shape& s = a.shape;
    const int warp = threadIdx.x / 32, row_block = blockIdx.x % s.row_blocks, distance = gridDim.x / s.row_blocks;
    const int first = blockIdx.x / s.row_blocks;
    const u32 chunk_bytes = s.steps * kStepBytes, table = shared() + (s.keeps_weights ? s.chunks : 1) * chunk_bytes;
    const u32 source = table + s.table_bytes, staged = source + s.source_bytes + warp * s.staged_bytes;
    if (!kIsGlobal) store_table(s, table);
    Sums sums;
    NO_UNROLL
    for (int tile = first; tile < s.all_tiles; tile += distance) {
      const Place place(s, tile);
      NO_UNROLL
      for (int chunk = 0; chunk < s.chunks; ++chunk) {
        const u32 weights = shared() + (s.keeps_weights ? chunk : 0) * chunk_bytes;
        if (!s.keeps_weights || tile == first) load_weights(a, weights, row_block * s.chunks + chunk);
        if (!kIsGlobal) FewChannelsCopy<kThreads, kSource, Shape>::load(s, source, a.source, place, chunk * s.chunk);
        commit_copies();
        wait_for_copies<0>();
        __syncthreads();
        NO_UNROLL
        for (int group = warp; group < s.groups; group += kWarps) {
          if (chunk == 0) clear(sums);
          if constexpr (kIsGlobal)
            multiply_pixels(a, place, weights, group, sums);
          else
            multiply(s, weights, table, source, group, sums);
          if (chunk == s.chunks - 1) store(a, place, row_block * 16 * kRows, group, staged, sums);
        }
        __syncthreads();
      }
    }
  }

 private:
  static DEVICE void clear(Sums& sums) {
    UNROLL
    for (int i = 0; i < kRows * kTiles * 4; ++i) sums[i / 4 / kTiles][i / 4 % kTiles][i % 4] = 0;
  }

  /// Where the source of each half of a step is, or of each pair of it, from that of a cell's first point.
  static DEVICE void store_table(const Shape& s, u32 table) {
    const int count = s.steps * (kUsesMatrices ? 2 : 8);
    NO_UNROLL
    for (int i = threadIdx.x; i < count; i += kThreads) {
      const int k = kUsesMatrices ? i * 8 : i / 8 * 16 + i % 2 * 8 + i / 2 % 4 * 2;
      int point = k / s.chunk, position[3];
      UNROLL
      for (int d = 0; d < 3; ++d) {
        position[d] = point % s.points[d] * s.distance[d];
        point /= s.points[d];
      }
      const u32 at = ((position[2] * s.halo[1] + position[1]) * s.halo[0] + position[0]) * s.pitch + k % s.chunk * 2;
      store_shared(table + i * 4, point == 0 ? at : 0u);
    }
  }

  static DEVICE void load_weights(const Arguments& a, u32 to, int chunk) {
    const u32 bytes = a.shape.steps * kStepBytes;
    const auto* const from = reinterpret_cast<const unsigned char*>(a.packed) + i64(chunk) * bytes;
    NO_UNROLL
    for (u32 i = threadIdx.x * 16; i < bytes; i += kThreads * 16) copy_async(to + i, from + i, 16);
  }

  /// A cell's only source pixel: its place, and how many there are from it to the end of the line, none outside.
  static DEVICE int place_of_pixel(const Shape& s, const Place& place, int n, i64& at) {
    int left = 0;
    UNROLL
    for (int i = 0; i < 3; ++i) {
      const int p = place.cell(s, n, i) * s.step[i];
      left = i == 0 ? s.source_size[0] - p : u32(p) < u32(s.source_size[i]) ? left : 0;
      at += p * s.source_step[i];
    }
    return left;
  }

  /// Adds the products of a group of cells with pixels in global memory: a lane has eight channels of 32, the fragments
  /// of two steps, in the order in which the weights are packed.
  static DEVICE void multiply_pixels(const Arguments& a, const Place& place, u32 weights, int group, Sums& sums) {
    const Shape& s = a.shape;
    const int lane = threadIdx.x % 32;
    const u16* pixels[kTiles];  // null outside of the image
    const u16* const image = a.source + (place.image * s.source_image + lane % 4 * 8);
    const bool is_line = (kGroup - 1) >> s.tile_log[0] == 0;
    i64 first = 0;
    int left = place_of_pixel(s, place, group * kGroup + lane / 4, first);
    UNROLL
    for (int j = 0; j < kTiles; ++j) {
      i64 at = first + j * 8 * s.step[0] * s.source_step[0];
      if (!is_line) {
        at = 0;
        left = place_of_pixel(s, place, group * kGroup + j * 8 + lane / 4, at) + j * 8 * s.step[0];
      }
      pixels[j] = j * 8 * s.step[0] < left ? image + at : nullptr;
    }
    weights += lane * 16;
    NO_UNROLL
    for (int step = 0; step < s.steps; step += 2) {
      u32 b[kTiles][4];
      UNROLL
      for (int j = 0; j < kTiles; ++j) {
        uint4 v = make_uint4(0, 0, 0, 0);
        const u16* const from = pixels[j] + step * 16;
        if (kSource == kPixels && pixels[j]) v = *reinterpret_cast<const uint4*>(from);
        if (kSource == kElements && pixels[j])
          v = make_uint4(from[0] | u32(from[1]) << 16, from[2] | u32(from[3]) << 16, from[4] | u32(from[5]) << 16,
                         from[6] | u32(from[7]) << 16);
        b[j][0] = v.x;
        b[j][1] = v.y;
        b[j][2] = v.z;
        b[j][3] = v.w;
      }
      UNROLL
      for (int i = 0; i < 2 * kRows; ++i) {
        const uint4 w = load_shared<uint4>(weights + step * kStepBytes + i * 512);
        const u32 fragment[4] = {w.x, w.y, w.z, w.w};
        UNROLL
        for (int j = 0; j < kTiles; ++j) {
          const u32 columns[2] = {b[j][i / kRows * 2], b[j][i / kRows * 2 + 1]};
          multiply_by_warp<Element>(sums[i % kRows][j], fragment, columns);
        }
      }
    }
  }

  /// Adds the products of a group of cells.
  static DEVICE void multiply(const Shape& s, u32 weights, u32 table, u32 source, int group, Sums& sums) {
    constexpr int kBases = kUsesMatrices ? kTiles / 2 : kTiles;
    const int lane = threadIdx.x % 32;
    u32 bases[kBases];  // of the lane's cell in each tile; of rows of two tiles that it passes to ldmatrix
    UNROLL
    for (int j = 0; j < kBases; ++j) {
      const int n = group * kGroup + (kUsesMatrices ? (2 * j + lane / 16) * 8 + lane % 8 : j * 8 + lane / 4);
      const int w = Place::within(s, n, 0) * s.step[0], h = Place::within(s, n, 1) * s.step[1],
                d = Place::within(s, n, 2) * s.step[2];
      bases[j] = source + ((d * s.halo[1] + h) * s.halo[0] + w) * s.pitch;
    }
    weights += lane * 16;
    table += kUsesMatrices ? lane / 8 % 2 * 4 : lane % 4 * 8;
    _Pragma("unroll 2") for (int step = 0; step < s.steps; ++step) {
      u32 b[kTiles][2];
      if constexpr (kUsesMatrices) {
        const u32 at = load_shared<u32>(table + step * 8);
        UNROLL
        for (int j = 0; j < kBases; ++j) {
          u32 v[4];
          load_matrices(bases[j] + at, v);
          UNROLL
          for (int e = 0; e < 4; ++e) b[2 * j + e / 2][e % 2] = v[e];
        }
      } else {
        const uint2 at = load_shared<uint2>(table + step * 32);
        UNROLL
        for (int j = 0; j < kTiles; ++j) {
          b[j][0] = load_shared<u32>(bases[j] + at.x);
          b[j][1] = load_shared<u32>(bases[j] + at.y);
        }
      }
      UNROLL
      for (int i = 0; i < kRows; ++i) {
        const uint4 w = load_shared<uint4>(weights + step * kStepBytes + i * 512);
        const u32 fragment[4] = {w.x, w.y, w.z, w.w};
        UNROLL
        for (int j = 0; j < kTiles; ++j) multiply_by_warp<Element>(sums[i][j], fragment, b[j]);
      }
    }
  }

  /// The lane's r-th row in a block of rows.
  static DEVICE int lane_row(int r) { return threadIdx.x % 32 / 4 * kLaneRows + r; }

  static DEVICE void store(const Arguments& a, const Place& place, int first_row, int group, u32 staged,
                           const Sums& sums) {
    const Shape& s = a.shape;
    float all = 0;
    UNROLL
    for (int i = 0; i < kRows * kTiles * 4; ++i) all += sums[i / 4 / kTiles][i / 4 % kTiles][i % 4];
    const int by_elements =
        s.by_elements || s.scalars.beta != 0 || u64(a.result) % 16 != 0 || __any_sync(~0u, all != all);
    if (by_elements)
      store_by_elements(a, place, first_row, group, staged, sums);
    else if (s.cells == 1 && s.store_unit % (kPlanes ? 8 : kLaneRows) == 0)
      store_directly(a, place, first_row, group, sums);
    else
      store_cells(a, place, first_row, group, staged, sums);
  }

  /// What is stored for sum `e` (row of two, cell of two) of tile j and the lane's rows 2 i and 2 i + 1.
  struct Finish {
    const Sums& sums;
    const ConvScalars& scalars;
    float scale[kLaneRows], bias[kLaneRows];

    DEVICE Finish(const Arguments& a, int first_row, const Sums& v) : sums(v), scalars(a.shape.scalars) {
      UNROLL
      for (int r = 0; r < kLaneRows; ++r) {
        const int m = first_row + lane_row(r);
        const ScaleAndBias of =
            scale_and_bias<Element, kBias, kScale>(a.parameters, m < a.shape.rows ? m % a.shape.outputs : 0);
        scale[r] = of.scale;
        bias[r] = of.bias;
      }
    }
    DEVICE float operator()(int r, int j, int e) const {
      return finish<kNone, kBias, kScale, kActivation>(scalars, sums[r / 2][j][r % 2 * 2 + e], scale[r], bias[r], 0);
    }
  };

  /// Cells of one result: the lane's rows of a cell or, of planes, eight cells of a row.
  static DEVICE void store_directly(const Arguments& a, const Place& place, int first_row, int group,
                                    const Sums& sums) {
    const Shape& s = a.shape;
    const Finish finished(a, first_row, sums);
    const int lane = threadIdx.x % 32, output = first_row + lane_row(0), none[3] = {0, 0, 0};
    u16* const image = a.result + (place.image * s.result_image + output * s.result_channel);
    if constexpr (kPlanes) {
      UNROLL
      for (int half = 0; half < 2; ++half) {
        i64 at = 0;
        const bool exists = place_of(s, place, group * kGroup + (half * 4 + lane % 4) * 8, none, at);
        UNROLL
        for (int r = 0; r < kLaneRows; ++r) {
          u32 v[4];
          UNROLL
          for (int j = 0; j < 4; ++j) v[j] = Element::pack(finished(r, half * 4 + j, 0), finished(r, half * 4 + j, 1));
          transpose_four(v);
          if (exists && output + r < s.outputs)
            *reinterpret_cast<uint4*>(image + at + r * s.result_channel) = make_uint4(v[0], v[1], v[2], v[3]);
        }
      }
    } else {
      UNROLL
      for (int j = 0; j < kTiles; ++j) {
        i64 at = 0;
        const int cell = group * kGroup + j * 8 + lane % 4 * 2, left = s.size[0] - place.cell(s, cell, 0);
        const bool exists = place_of(s, place, cell, none, at) && output < s.outputs;
        UNROLL
        for (int e = 0; e < 2; ++e) {
          u16* const to = image + at + e * s.result_step[0];
          u32 v[kRows];
          UNROLL
          for (int i = 0; i < kRows; ++i) v[i] = Element::pack(finished(2 * i, j, e), finished(2 * i + 1, j, e));
          if (!exists || e >= left) continue;
          if constexpr (kRows == 1)
            *reinterpret_cast<u32*>(to) = v[0];
          else if constexpr (kRows == 2)
            *reinterpret_cast<uint2*>(to) = uint2{v[0], v[1]};
          else
            *reinterpret_cast<uint4*>(to) = make_uint4(v[0], v[1], v[2], v[3]);
        }
      }
    }
  }

  /// [cell][row] or, of planes, [row without its place along the first dimension][pixel along it].
  static constexpr u32 kCellPitch = 16 * kRows * 2 + 16;
  static DEVICE u32 plane_pitch(const Shape& s) { return (kGroup * 2 << s.cell_log[0]) + 16; }
  /// Of a row of the block, the bytes before its first pixel.
  static DEVICE u32 plane_at(const Shape& s, int m) {
    const int result = m / s.outputs, rest = result >> s.cell_log[0];
    const int plane = ((m - result * s.outputs) << (s.cell_log[1] + s.cell_log[2])) + rest;
    return plane * plane_pitch(s) + (result - (rest << s.cell_log[0])) * 2;
  }

  /// Through shared memory, where contiguous results meet.
  static DEVICE void store_cells(const Arguments& a, const Place& place, int first_row, int group, u32 staged,
                                 const Sums& sums) {
    const Shape& s = a.shape;
    const Finish finished(a, first_row, sums);
    const int column = threadIdx.x % 4 * 2;
    UNROLL
    for (int r = 0; kPlanes && r < kLaneRows; ++r) {
      const u32 to = staged + plane_at(s, lane_row(r)) + (column << s.cell_log[0]) * 2;
      UNROLL
      for (int j = 0; j < kTiles; ++j) {
        const u32 v = Element::pack(finished(r, j, 0), finished(r, j, 1)), at = to + (j * 16 << s.cell_log[0]);
        if (first_row + lane_row(r) >= s.rows) continue;
        store_shared(at, u16(v));
        store_shared(at + (2u << s.cell_log[0]), u16(v >> 16));
      }
    }
    UNROLL
    for (int i = 0; !kPlanes && i < kTiles * kLaneRows; ++i) {
      const int j = i / 2 / kRows, e = i / kRows % 2, r = i % kRows * 2;
      store_shared(staged + (j * 8 + column + e) * kCellPitch + lane_row(r) * 2,
                   Element::pack(finished(r, j, e), finished(r + 1, j, e)));
    }
    __syncwarp();
    if (s.store_unit == 8)
      copy_out<8>(a, place, first_row, group, staged);
    else if (s.store_unit == 4)
      copy_out<4>(a, place, first_row, group, staged);
    else if (s.store_unit == 2)
      copy_out<2>(a, place, first_row, group, staged);
    else
      copy_out<1>(a, place, first_row, group, staged);
    __syncwarp();
  }

  /// Result r of a cell: its place from the image's first one; whether it exists.
  static DEVICE bool place_of(const Shape& s, const Place& place, int n, const int (&result)[3], i64& at) {
    bool exists = true;
    UNROLL
    for (int i = 0; i < 3; ++i) {
      const int p = place.cell(s, n, i) * s.cell[i] + result[i];
      exists = exists && p < s.size[i];
      at += p * s.result_step[i];
    }
    return exists;
  }

  template <int kUnit>
  static DEVICE void copy_out(const Arguments& a, const Place& place, int first_row, int group, u32 staged) {
    const Shape& s = a.shape;
    const int width = kGroup << s.cell_log[0];
    const int count = kPlanes ? min(16 * kRows, s.rows - first_row) * kGroup / kUnit : 16 * kRows * kGroup / kUnit;
    u16* const image = a.result + place.image * s.result_image;
    NO_UNROLL
    for (int i = threadIdx.x % 32; i < count; i += 32) {
      int n, output, result[3];
      u32 from;
      if constexpr (kPlanes) {
        const int row = i * kUnit >> s.width_log, x = i * kUnit & (width - 1), rest_log = s.cell_log[1] + s.cell_log[2];
        n = x >> s.cell_log[0];
        result[0] = x & (s.cell[0] - 1);
        result[1] = row & (s.cell[1] - 1);
        result[2] = row >> s.cell_log[1] & (s.cell[2] - 1);
        output = row >> rest_log;
        if (s.cells == 1) output += first_row;
        from = staged + row * plane_pitch(s) + x * 2;
      } else {
        constexpr int kUnits = 16 * kRows / kUnit;
        n = i / kUnits;
        const int within = i % kUnits * kUnit, m = first_row + within;
        if (m >= s.rows) continue;
        int r = s.cells == 1 ? 0 : m / s.outputs;
        output = m - r * s.outputs;
        UNROLL
        for (int d = 0; d < 3; ++d) {
          result[d] = r & (s.cell[d] - 1);
          r >>= s.cell_log[d];
        }
        from = staged + n * kCellPitch + within * 2;
      }
      i64 at = output * s.result_channel;
      if (!place_of(s, place, group * kGroup + n, result, at)) continue;
      if constexpr (kUnit == 8)
        *reinterpret_cast<uint4*>(image + at) = load_shared<uint4>(from);
      else if constexpr (kUnit == 4)
        *reinterpret_cast<uint2*>(image + at) = load_shared<uint2>(from);
      else if constexpr (kUnit == 2)
        *reinterpret_cast<u32*>(image + at) = load_shared<u32>(from);
      else
        image[at] = load_shared<u16>(from);
    }
  }

  /// Through fp32 sums in shared memory, of half the tiles at once: for what is added, and for NaN.
  static DEVICE void store_by_elements(const Arguments& a, const Place& place, int first_row, int group, u32 staged,
                                       const Sums& sums) {
    const Shape& s = a.shape;
    constexpr int kHalf = kGroup / 2;
    const int lane = threadIdx.x % 32, rows = min(16 * kRows, s.rows - first_row);
    u16* const image = a.result + place.image * s.result_image;
    UNROLL
    for (int half = 0; half < 2; ++half) {
      UNROLL
      for (int i = 0; i < kRows * kTiles / 2 * 4; ++i) {
        const int tile = i / 4 % (kTiles / 2), row = lane_row(i / 4 / (kTiles / 2) * 2 + i % 4 / 2);
        store_shared(staged + ((row * kHalf) + tile * 8 + lane % 4 * 2 + i % 2) * 4,
                     sums[i / 4 / (kTiles / 2)][half * (kTiles / 2) + tile][i % 4]);
      }
      __syncwarp();
      NO_UNROLL
      for (int i = lane; i < rows * kHalf; i += 32) {
        const int row = kPlanes ? i / kHalf : i % rows, cell = kPlanes ? i % kHalf : i / rows;
        const int n = group * kGroup + half * kHalf + cell;
        const Row m(s, first_row + row);
        i64 at = m.output * s.result_channel;
        if (!place_of(s, place, n, m.result, at)) continue;
        float sum = load_shared<float>(staged + (row * kHalf + cell) * 4);
        if (sum != sum) sum = exact(a, place, n, m);
        const auto of = scale_and_bias<Element, kBias, kScale>(a.parameters, m.output);
        const float v =
            s.scalars.beta != 0
                ? finish<kOld, kBias, kScale, kActivation>(s.scalars, sum, of.scale, of.bias, Element::of(image[at]))
                : finish<kNone, kBias, kScale, kActivation>(s.scalars, sum, of.scale, of.bias, 0);
        image[at] = u16(Element::pack(v, 0));
      }
      __syncwarp();
    }
  }

  static DEVICE float exact(const Arguments& a, const Place& place, int n, const Row& m) {
    const Shape& s = a.shape;
    const int points = s.points[0] * s.points[1] * s.points[2];
    float sum = 0;
    NO_UNROLL
    for (int point = 0; point < points; ++point) {
      int rest = point;
      bool exists = true;
      i64 from = place.image * s.source_image, tap = m.output * s.weight_output;
      UNROLL
      for (int i = 0; i < 3; ++i) {
        const int j = rest % s.points[i], t = few_channels_tap(s, i, j, m.result[i]);
        const int p = place.cell(s, n, i) * s.step[i] + s.origin[i] + j * s.distance[i];
        rest /= s.points[i];
        exists = exists && u32(t) < u32(s.taps[i]) && u32(p) < u32(s.source_size[i]);
        from += p * s.source_step[i];
        tap += t * s.weight_tap[i];
      }
      NO_UNROLL
      for (int c = 0; exists && c < s.channels; ++c)
        sum = FMA(Element::of(a.source[from + c * s.source_channel]),
                  Element::of(a.weights[tap + c * s.weight_channel]), sum);
    }
    return sum;
  }
};

}  // namespace sm90
