// Backward weights by Winograd's method, F(3x3, tile x tile): tiles of dy are transformed as filters are, tiles of x
// as inputs are; their products are summed over tiles at each point and transformed into 3x3 results at the end.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/isa/micro.h"
#include "kernels/cpu/isa/winograd_tiles.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

constexpr int kTaps = 9;

/// Memory of one piece, carved in order; with base null it only counts floats. v[vector of channels][tile][point],
/// d[panel][tile][point], sums[point][channel][panel].
struct Workplace {
  i64 channels, panels, v_tile, v_block, d_tile, d_panel, s_row, s_plane;
  float *v, *d, *sums, *strip;
  i64 floats = 0;

  Workplace(const WinogradWeights& job, float* base) {
    channels = round_up(min_of(job.c_block, job.shape.c), kN);
    panels = (min_of(job.k_block, job.shape.k) + kPanel - 1) / kPanel;
    v_tile = spread_out(job.points() * kN);
    v_block = job.tiles * v_tile;
    d_tile = spread_out(job.points() * kPanel);
    d_panel = job.tiles * d_tile;
    s_row = panels * kPanel;
    s_plane = spread_out(channels * s_row);
    v = take(base, channels / kN * v_block);
    d = take(base, panels * d_panel);
    sums = take(base, job.points() * s_plane);
    strip = take(base, strip_floats(job));
  }

 private:
  float* take(float* base, i64 count) {
    float* place = base == nullptr ? nullptr : base + floats;
    floats += round_up(count, 16);
    return place;
  }
};

/// Transforms the pixels of a run of dy.
template <int kTile>
void evaluate_run(const float* strip, i64 count, i64 band, float* points, i64 tile) {
  constexpr int kAlpha = kTile + 2;
  for_tiles<kTile>(count, band, [&](i64 t, i64 first) {
    float* d = points + t * tile;
    Floats half[kAlpha][kTile];
#pragma GCC unroll 8
    for (int j = 0; j < kTile; ++j) {
      Floats in[kTile], out[kAlpha];
#pragma GCC unroll 8
      for (int i = 0; i < kTile; ++i) in[i] = load(strip + (i * count * kTile + first + j * band) * kN);
      evaluate<kTile, kTile>(in, out);
#pragma GCC unroll 8
      for (int i = 0; i < kAlpha; ++i) half[i][j] = out[i];
    }
#pragma GCC unroll 8
    for (int i = 0; i < kAlpha; ++i) {
      Floats out[kAlpha];
      evaluate<kTile, kTile>(half[i], out);
#pragma GCC unroll 8
      for (int j = 0; j < kAlpha; ++j) store(d + (i * kAlpha + j) * kPanel, out[j]);
    }
  });
}

/// The 3x3 results of one vector of output channels from sums that are `plane` apart.
template <int kTile>
void collect_taps(const float* sums, i64 plane, float* taps) {
  constexpr int kAlpha = kTile + 2;
  Floats half[3][kAlpha];
#pragma GCC unroll 8
  for (int j = 0; j < kAlpha; ++j) {
    Floats in[kAlpha], out[3];
#pragma GCC unroll 8
    for (int i = 0; i < kAlpha; ++i) in[i] = load(sums + (i * kAlpha + j) * plane);
    collect<kTile, 3>(in, out);
#pragma GCC unroll 3
    for (int i = 0; i < 3; ++i) half[i][j] = out[i];
  }
#pragma GCC unroll 3
  for (int i = 0; i < 3; ++i) {
    Floats out[3];
    collect<kTile, 3>(half[i], out);
#pragma GCC unroll 3
    for (int j = 0; j < 3; ++j) store(taps + (3 * i + j) * kN, out[j]);
  }
}

/// What depends on the size of the tiles.
struct Steps {
  void (*spread_run)(float*, i64, i64, float*, i64);
  void (*evaluate_run)(const float*, i64, i64, float*, i64);
  void (*collect_taps)(const float*, i64, float*);
};

Steps steps_of(int tile) {
  if (tile == 2) return {spread_run<2>, evaluate_run<2>, collect_taps<2>};
  if (tile == 4) return {spread_run<4>, evaluate_run<4>, collect_taps<4>};
  return {spread_run<6>, evaluate_run<6>, collect_taps<6>};
}

/// The part of the result that a piece adds up, of one slice of the tiles.
struct Part {
  i64 group, c0, channels, k0, outputs, slice;

  Part(const WinogradWeights& job, i64 piece) {
    const ConvShape& s = job.shape;
    c0 = piece % job.c_blocks() * job.c_block;
    piece /= job.c_blocks();
    k0 = piece % job.k_blocks() * job.k_block;
    piece /= job.k_blocks();
    slice = piece % job.slices;
    group = piece / job.slices;
    channels = min_of(job.c_block, s.c - c0);
    outputs = min_of(job.k_block, s.k - k0);
  }
};

/// Transforms tiles [begin, end) of x and dy.
void transform_block(const WinogradWeights& job, const Steps& steps, const Part& part, i64 begin, i64 end,
                     const Workplace& work) {
  const ConvShape& s = job.shape;
  with_type(s.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* x = static_cast<const T*>(job.x) + (part.group * s.c + part.c0) * s.x_c;
    const T* dy = static_cast<const T*>(job.dy) + (part.group * s.k + part.k0) * s.y_k;
    for_runs(job, begin, end, [&](const TileRun& run) {
      const i64 columns = run.count * job.tile;
      for (i64 c = 0; c < part.channels; c += kN) {
        const auto image = image_of(x + run.image * s.x_n + c * s.x_c, s.in, s.x_d, s.x_c, part.channels - c);
        read_pixels(image, {run.row - s.pad[1], s.dilation[1], job.tile + 2}, run.column - s.pad[2],
                    columns + 2 * job.band(), work.strip);
        steps.spread_run(work.strip, run.count, job.band(), work.v + c / kN * work.v_block + run.first * work.v_tile,
                         work.v_tile);
      }
      for (i64 k = 0; k < part.outputs; k += kN) {
        const auto image = image_of(dy + run.image * s.y_n + k * s.y_k, s.out, s.y_d, s.y_k, part.outputs - k);
        read_pixels(image, {run.row, s.dilation[1], job.tile}, run.column, columns, work.strip);
        float* d = work.d + k / kPanel * work.d_panel + run.first * work.d_tile + k % kPanel;
        steps.evaluate_run(work.strip, run.count, job.band(), d, work.d_tile);
      }
    });
  });
}

/// Adds the products of `tiles` tiles to the sums, or starts with them.
void multiply(const WinogradWeights& job, const Part& part, i64 tiles, bool add, const Workplace& work) {
  constexpr i64 kSize = sizeof(float);
  constexpr int kRows = kN < kMicroRows[kPanelVectors] ? kN : kN / 2;
  const MicroKernel kernel = micro_kernel(Dot::kFloat, kRows, kPanelVectors);
  const MicroKernel narrow = micro_kernel(Dot::kFloat, kRows, 1);
  Micro m{.depth = tiles, .a_row = kSize, .a_step = work.v_tile * kSize, .b_step = work.d_tile * kSize,
          .c_row = work.s_row * kSize, .add = add};
  for (i64 point = 0; point < job.points(); ++point) {
    for (i64 k = 0; k < part.outputs; k += kPanel) {
      const MicroKernel run = part.outputs - k > kN ? kernel : narrow;
      m.b = work.d + k / kPanel * work.d_panel + point * kPanel;
      for (i64 c = 0; c < part.channels; c += kRows) {
        m.a = work.v + c / kN * work.v_block + point * kN + c % kN;
        m.c = work.sums + point * work.s_plane + c * work.s_row + k;
        run(m);
      }
    }
  }
}

i64 vectors_of(const WinogradWeights& job) { return (job.shape.k + kN - 1) / kN; }

/// Where the results of a slice for a vector of output channels lie: [group][vector][slice][channel][tap][lane].
float* place_of(const WinogradWeights& job, i64 group, i64 vector, i64 slice) {
  return job.memory + ((group * vectors_of(job) + vector) * job.slices + slice) * job.shape.c * kTaps * kN;
}

void piece(const WinogradWeights& job, i64 index, const Workplace& work) {
  const Steps steps = steps_of(job.tile);
  const Part part(job, index);
  const i64 blocks = job.tile_blocks();
  const i64 first = blocks * part.slice / job.slices, last = blocks * (part.slice + 1) / job.slices;
  for (i64 block = first; block < last; ++block) {
    const i64 begin = block * job.tiles, end = min_of(begin + job.tiles, job.all_tiles());
    transform_block(job, steps, part, begin, end, work);
    multiply(job, part, end - begin, block > first, work);
  }
  for (i64 k = 0; k < part.outputs; k += kN) {
    float* taps = place_of(job, part.group, (part.k0 + k) / kN, part.slice) + part.c0 * kTaps * kN;
    for (i64 c = 0; c < part.channels; ++c)
      steps.collect_taps(work.sums + c * work.s_row + k, work.s_plane, taps + c * kTaps * kN);
  }
}

/// Adds up the slices of one vector of output channels and writes all its filters.
template <class T>
void write_filters(const WinogradWeights& job, i64 group, i64 vector) {
  const ConvShape& s = job.shape;
  const int lanes = static_cast<int>(min_of<i64>(kN, s.k - vector * kN));
  T* dw = static_cast<T*>(job.dw) + group * job.w_group + vector * kN * s.w_k;
  const float* from = place_of(job, group, vector, 0);
  const i64 slice = s.c * kTaps * kN;
  for (i64 c = 0; c < s.c; ++c, dw += s.w_c) {
    for (int tap = 0; tap < kTaps; ++tap, from += kN) {
      Floats sum = load(from);
      for (i64 i = 1; i < job.slices; ++i) sum += load(from + i * slice);
      sum *= broadcast(job.alpha);
      T* to = dw + tap / 3 * s.w_d[1] + tap % 3 * s.w_d[2];
      for (int l = 0; l < lanes; ++l, to += s.w_k) {
        const float old = job.beta == 0 ? 0 : job.beta * widen(*to);
        *to = narrow<T>(sum[l] + old);
      }
    }
  }
}

}  // namespace

std::size_t winograd_weights_scratch(const WinogradWeights& job) {
  return static_cast<std::size_t>(Workplace(job, nullptr).floats) * sizeof(float);
}

std::size_t winograd_weights_memory(const WinogradWeights& job) {
  const i64 vectors = job.shape.groups * vectors_of(job);
  return static_cast<std::size_t>(vectors * job.slices * job.shape.c * kTaps * kN) * sizeof(float);
}

void winograd_weights(const WinogradWeights& job, i64 first, i64 end, void* scratch) {
  const Workplace work(job, static_cast<float*>(scratch));
  for (i64 i = first; i < end; ++i) piece(job, i, work);
}

void winograd_weights_sum(const WinogradWeights& job, i64 first, i64 end) {
  with_type(job.shape.dtype, [&](auto zero) {
    for (i64 i = first; i < end; ++i)
      write_filters<decltype(zero)>(job, i / vectors_of(job), i % vectors_of(job));
  });
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
