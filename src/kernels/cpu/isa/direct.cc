// Direct forward convolution. Channels first: a block of output rows reads a padded copy of its input
// rows through a list of offsets, one a channel and tap; weights are broadcast. Channels last: pixels are
// broadcast through a table of pointers, one a pixel and tap (zeros outside), and weights are vectors.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/isa/entries.h"
#include "kernels/cpu/isa/pack.h"
#include "kernels/cpu/isa/padded.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

constexpr int kN = kLanes<float>;
constexpr int kMaxVectors = 3;

struct Scalars {
  float alpha, beta;
};

template <int V>
void write_tile_row(float* y, i64 stride, i64 count, const Vec<float> (&sum)[V], Scalars scalars) {
  for (int j = 0; j < V && j * kN < count; ++j) {
    write_vector(y + j * kN * stride, stride, count - j * kN, sum[j], scalars.alpha, scalars.beta);
  }
}

/// y[i][0, count) for R channels: packed weights times rows of x at base + offsets[k].
template <int R, int V>
void row_tile(i64 depth, const float* weights, const float* base, const i64* offsets, float* y,
              i64 y_stride, i64 count, Scalars scalars) {
  Vec<float> sum[R][V] = {};
  for (i64 k = 0; k < depth; ++k) {
    const float* x = base + offsets[k];
    Vec<float> xs[V];
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) xs[j] = load(x + j * kN);
#pragma GCC unroll 8
    for (int i = 0; i < R; ++i) {
      const Vec<float> weight = broadcast(weights[i]);
#pragma GCC unroll 4
      for (int j = 0; j < V; ++j) sum[i][j] += weight * xs[j];
    }
    weights += kRowsPerTile;
  }
  for (int i = 0; i < R; ++i) write_tile_row<V>(y + i * y_stride, 1, count, sum[i], scalars);
}

using RowTile = void (*)(i64, const float*, const float*, const i64*, float*, i64, i64, Scalars);

template <int R>
constexpr RowTile row_tile_by_vectors(int vectors) {
  return vectors == 1 ? row_tile<R, 1> : vectors == 2 ? row_tile<R, 2> : row_tile<R, 3>;
}

RowTile row_tile_for(int rows, int vectors) {
  if (rows == 1) return row_tile_by_vectors<1>(vectors);
  if (rows == 2) return row_tile_by_vectors<2>(vectors);
  if (rows <= 4) return row_tile_by_vectors<4>(vectors);
  return row_tile_by_vectors<kRowsPerTile>(vectors);
}

/// Weights of a group: lanes are output channels, depth is in the order of the x offsets.
Operand weight_view(const Direct& job, i64 group) {
  const ConvShape& s = job.shape;
  Operand view;
  view.data = job.w + group * s.k * s.w_k;
  view.lanes.level[kLevels - 1] = {s.k, s.w_k, -1, 0};
  const int channel = job.channels_last ? kSpatial : 0;
  view.depth.level[channel] = {s.c, s.w_c, -1, 0};
  for (int d = 0; d < kSpatial; ++d) {
    view.depth.level[d + (job.channels_last ? 0 : 1)] = {s.taps[d], s.w_d[d], -1, 0};
  }
  simplify(view);  // long runs: packing is repeated for every block
  return view;
}

/// Memory of one call, carved in order; with base null it only counts bytes.
struct Workplace {
  float *planes = nullptr, *weights = nullptr, *zeros = nullptr;
  i64* offsets = nullptr;
  const float** pointers = nullptr;
  PackScratch<float> pack{};
  std::size_t bytes = 0;

  Workplace(const Direct& job, const Padded& p, char* base) {
    const ConvShape& s = job.shape;
    const i64 depth = job.depth(), taps = depth / s.c;
    pack.line_stride = round_up(depth, kN) + kSlack<float>;
    pack.lines = take<float>(base, kBlock<float> * pack.line_stride);
    pack.runs = take<Run>(base, max_of<i64>(depth, kMaxVectors * kN) + 1);
    weights = take<float>(base, (job.channels_last ? kMaxVectors * kN : kRowsPerTile) * depth + kSlack<float>);
    if (job.channels_last) {
      zeros = take<float>(base, s.c);
      pointers = take<const float*>(base, round_up(job.rows, kRowsPerTile) * taps);
    } else {
      planes = take<float>(base, s.c * p.total + kMaxVectors * kN);
      offsets = take<i64>(base, depth);
    }
  }

 private:
  template <class U>
  U* take(char* base, i64 count) {
    char* place = base == nullptr ? nullptr : base + bytes;
    bytes += static_cast<std::size_t>(round_up(count * static_cast<i64>(sizeof(U)), 64));
    return reinterpret_cast<U*>(place);
  }
};

/// The padded copy that output rows [first, first + count) of slab p0 read.
Padded pad_rows(const ConvShape& s, i64 p0, i64 first, i64 count) {
  Padded p = pad_x<float>(s);
  p.before[0] = s.pad[0] - p0 * s.stride[0];
  p.size[0] = (s.taps[0] - 1) * s.dilation[0] + 1;
  p.before[1] = s.pad[1] - first * s.stride[1];
  p.size[1] = (count - 1) * s.stride[1] + (s.taps[1] - 1) * s.dilation[1] + 1;
  return finish<float>(p);
}

/// One block of output rows, all channels of a group.
void row_block(const Direct& job, i64 piece, char* scratch) {
  const ConvShape& s = job.shape;
  const i64 blocks = (s.out[1] + job.rows - 1) / job.rows;
  const i64 first = piece % blocks * job.rows, count = min_of(job.rows, s.out[1] - first);
  const i64 p0 = piece / blocks % s.out[0], n = piece / (blocks * s.out[0]) % s.n;
  const i64 group = piece / (blocks * s.out[0] * s.n);
  const Padded p = pad_rows(s, p0, first, count);
  const Workplace work(job, pad_rows(s, 0, 0, job.rows), scratch);
  const float* x = job.x + n * s.x_n + group * s.c * s.x_c;
  i64 depth = 0;
  for (i64 c = 0; c < s.c; ++c) {
    pad_plane(p, x + c * s.x_c, s.in, s.x_d, work.planes + c * p.total);
    for_taps(s.taps, [&](i64 r0, i64 r1, i64 r2) {
      work.offsets[depth++] = c * p.total + x_tap(s, p, r0, r1, r2);
    });
  }
  const Operand view = weight_view(job, group);
  float* y = job.y + n * s.y_n + p0 * s.y_d[0] + group * s.k * s.y_k;
  const i64 vectors = (s.out[2] + kN - 1) / kN, tiles = (vectors + kMaxVectors - 1) / kMaxVectors;
  for (i64 k = 0; k < s.k; k += kRowsPerTile) {
    const int channels = static_cast<int>(min_of<i64>(kRowsPerTile, s.k - k));
    pack<float>(view, k, channels, kRowsPerTile, 0, static_cast<int>(depth), work.weights, work.pack);
    for (i64 row = 0; row < count; ++row) {
      const float* base = work.planes + row * s.stride[1] * p.row;
      float* out = y + (first + row) * s.y_d[1];
      for (i64 t = 0; t < tiles; ++t) {
        const i64 from = vectors * t / tiles, to = vectors * (t + 1) / tiles;
        const i64 columns = min_of((to - from) * kN, s.out[2] - from * kN);
        int left = channels;
        for (i64 i = 0; left > 0;) {
          const int some = left >= kRowsPerTile ? kRowsPerTile : left >= 4 ? 4 : left >= 2 ? 2 : 1;
          row_tile_for(some, static_cast<int>(to - from))(depth, work.weights + i, base + from * kN, work.offsets,
                                                          out + (k + i) * s.y_k + from * kN, s.y_k, columns,
                                                          {job.alpha, job.beta});
          i += some;
          left -= some;
        }
      }
    }
  }
}

/// y[i][0, count) for R pixels: broadcast pixels times a panel of weights.
template <int R, int V>
void pixel_tile(i64 taps, i64 channels, const float* const* pointers, const float* weights, float* const* y,
                i64 count, Scalars scalars) {
  Vec<float> sum[R][V] = {};
  for (i64 t = 0; t < taps; ++t) {
    const float* x[R];
#pragma GCC unroll 8
    for (int i = 0; i < R; ++i) x[i] = pointers[i];
    for (i64 c = 0; c < channels; ++c) {
      Vec<float> ws[V];
#pragma GCC unroll 4
      for (int j = 0; j < V; ++j) ws[j] = load(weights + j * kN);
#pragma GCC unroll 8
      for (int i = 0; i < R; ++i) {
        const Vec<float> xi = broadcast(x[i][c]);
#pragma GCC unroll 4
        for (int j = 0; j < V; ++j) sum[i][j] += xi * ws[j];
      }
      weights += V * kN;
    }
    pointers += kRowsPerTile;
  }
  for (int i = 0; i < R; ++i) write_tile_row<V>(y[i], 1, count, sum[i], scalars);
}

using PixelTile = void (*)(i64, i64, const float* const*, const float*, float* const*, i64, Scalars);

PixelTile pixel_tile_for(bool single, int vectors) {
  if (single) return vectors == 1 ? pixel_tile<1, 1> : vectors == 2 ? pixel_tile<1, 2> : pixel_tile<1, 3>;
  return vectors == 1   ? pixel_tile<kRowsPerTile, 1>
         : vectors == 2 ? pixel_tile<kRowsPerTile, 2>
                        : pixel_tile<kRowsPerTile, 3>;
}

/// Where each tap of a pixel reads, in steps of kRowsPerTile; zeros outside.
void point_taps(const Direct& job, const Cursor& at, const float* x, const float* zeros,
                const float** pointers) {
  const ConvShape& s = job.shape;
  for_taps(s.taps, [&](i64 r0, i64 r1, i64 r2) {
    const i64 r[kSpatial] = {r0, r1, r2};
    bool inside = true;
    i64 offset = 0;
    for (int d = 0; d < kSpatial; ++d) {
      const i64 h = at.index[d + 1] * s.stride[d] + r[d] * s.dilation[d] - s.pad[d];
      inside = inside && h >= 0 && h < s.in[d];
      offset += h * s.x_d[d];
    }
    *pointers = inside ? x + at.index[0] * s.x_n + offset : zeros;
    pointers += kRowsPerTile;
  });
}

/// One block of pixels, all channels of a group.
void pixel_block(const Direct& job, i64 piece, char* scratch) {
  const ConvShape& s = job.shape;
  const i64 taps = s.taps[0] * s.taps[1] * s.taps[2], depth = job.depth();
  Axis pixels;
  pixels.level[0] = {s.n, s.y_n, -1, 0};
  for (int d = 0; d < kSpatial; ++d) pixels.level[d + 1] = {s.out[d], s.y_d[d], -1, 0};
  const i64 total = s.n * s.out[0] * s.out[1] * s.out[2], blocks = (total + job.rows - 1) / job.rows;
  const i64 group = piece / blocks, first = piece % blocks * job.rows;
  const i64 count = min_of(job.rows, total - first);
  const Workplace work(job, Padded{}, scratch);
  for (i64 c = 0; c < s.c; ++c) work.zeros[c] = 0;
  const float* x = job.x + group * s.c * s.x_c;
  Cursor at = seek(pixels, first);
  for (i64 i = 0; i < count; ++i, step(at, pixels)) {
    point_taps(job, at, x, work.zeros, work.pointers + i / kRowsPerTile * kRowsPerTile * taps + i % kRowsPerTile);
  }
  const Operand view = weight_view(job, group);
  const i64 vectors = (s.k + kN - 1) / kN, panels = (vectors + kMaxVectors - 1) / kMaxVectors;
  for (i64 panel = 0; panel < panels; ++panel) {
    const i64 from = vectors * panel / panels, width = vectors * (panel + 1) / panels - from;
    const i64 channels = min_of(width * kN, s.k - from * kN);
    pack<float>(view, from * kN, channels, static_cast<int>(width * kN), 0, static_cast<int>(depth),
                work.weights, work.pack);
    float* y = job.y + (group * s.k + from * kN);
    at = seek(pixels, first);
    for (i64 i = 0; i < count;) {
      const int some = count - i >= kRowsPerTile && i % kRowsPerTile == 0 ? kRowsPerTile : 1;
      float* rows[kRowsPerTile];
      for (int r = 0; r < some; ++r, step(at, pixels)) rows[r] = y + at.offset;
      pixel_tile_for(some == 1, static_cast<int>(width))(
          taps, s.c, work.pointers + i / kRowsPerTile * kRowsPerTile * taps + i % kRowsPerTile, work.weights, rows,
          channels, {job.alpha, job.beta});
      i += some;
    }
  }
}

}  // namespace

void direct(const Direct& job, i64 first, i64 end, void* scratch) {
  for (i64 piece = first; piece < end; ++piece) {
    if (job.channels_last) {
      pixel_block(job, piece, static_cast<char*>(scratch));
    } else {
      row_block(job, piece, static_cast<char*>(scratch));
    }
  }
}

std::size_t direct_scratch(const Direct& job) {
  return Workplace(job, job.channels_last ? Padded{} : pad_rows(job.shape, 0, 0, job.rows), nullptr).bytes;
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
