// Backward weights by Winograd, F(taps x taps, tile x tile): tiles of dy pass the filter transform, tiles of x the
// input transform. Products are summed over tiles at each point; the output transform of the sums gives dw of a part.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/winograd.h"

#include "kernels/cpu/isa/micro_kernel.h"
#include "kernels/cpu/isa/winograd_tiles.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

/// Scratch of one piece; with a null base it only counts floats. v[vector of channels][tile][point],
/// d[panel][tile][point], sums[point][channel][panel].
struct Scratch {
  i64 channels, panels, v_tile, v_block, d_tile, d_panel, s_row, s_plane;
  float *v, *d, *sums, *tile_row;
  i64 floats = 0;

  Scratch(const WinogradWeights& job, float* base) {
    channels = round_up(min_of(job.c_block, job.shape.c), kN);
    panels = (min_of(job.k_block, job.shape.k) + kPanel - 1) / kPanel;
    v_tile = pad_to_odd_lines(job.points() * kN);
    v_block = job.tiles * v_tile;
    d_tile = pad_to_odd_lines(job.points() * kPanel);
    d_panel = job.tiles * d_tile;
    s_row = panels * kPanel;
    s_plane = pad_to_odd_lines(channels * s_row);
    v = reserve(base, channels / kN * v_block);
    d = reserve(base, panels * d_panel);
    sums = reserve(base, job.points() * s_plane);
    tile_row = reserve(base, tile_row_floats(job));
  }

 private:
  float* reserve(float* base, i64 count) {
    float* place = base == nullptr ? nullptr : base + floats;
    floats += round_up(count, 16);
    return place;
  }
};

/// Transforms the pixels of a run of dy.
template <int kAlpha, int kTile>
void evaluate_run(const WinogradTiles& job, const float* tile_row, i64 count, float* points, i64 tile) {
  for_tiles(job, count, [&](i64 t, i64 first) {
    evaluate_square<kAlpha, kTile>(
        [&](i64 i, i64 j) { return load(tile_row + (i * count * kTile + first + j * job.band()) * kN); },
        points + t * tile, kPanel);
  });
}

/// dw of a part: rows x columns of its taps; rows are `step` floats apart.
struct Results {
  float* taps;
  i64 step, rows, columns;
};

/// Transforms sums, whose points are `plane` floats apart, to the taps of one vector of output channels.
template <int kAlpha, int kTaps>
void collect_taps(const float* sums, i64 plane, Results to) {
  const bool whole = to.rows >= kTaps && to.columns >= kTaps;
  float all[kTaps * kTaps * kN];
  float* taps = whole ? to.taps : all;
  const i64 step = whole ? to.step : kTaps * kN;
  collect_square<kAlpha, kTaps>(sums, plane, [&](i64 i, i64 j, Floats y) { store(taps + i * step + j * kN, y); });
  for (i64 i = 0; !whole && i < min_of<i64>(to.rows, kTaps); ++i) {
    for (i64 j = 0; j < min_of<i64>(to.columns, kTaps); ++j)
      store(to.taps + i * to.step + j * kN, load(all + (i * kTaps + j) * kN));
  }
}

/// Functions compiled per form (points, tile, taps).
struct Steps {
  void (*transform_input_run)(const WinogradTiles&, float*, i64, i64, Points);
  void (*evaluate_run)(const WinogradTiles&, const float*, i64, float*, i64);
  void (*collect_taps)(const float*, i64, Results);
};

Steps steps_of(const WinogradWeights& job) {
  return with_form(job.tile, job.taps, []<int kAlpha, int kTile, int kTaps>() -> Steps {
    return {transform_input_run<kAlpha>, evaluate_run<kAlpha, kTile>, collect_taps<kAlpha, kTaps>};
  });
}

/// A piece: a block of input and output channels of one part of the filters, over one slice of the tiles.
struct Part {
  i64 group, c0, channels, k0, outputs, slice;
  i64 part[kSpatial];

  Part(const WinogradWeights& job, i64 piece) {
    const ConvShape& s = job.shape;
    const auto next = [&](i64 count) {
      const i64 i = piece % count;
      piece /= count;
      return i;
    };
    c0 = next(job.c_blocks()) * job.c_block;
    k0 = next(job.k_blocks()) * job.k_block;
    for (int d = kSpatial - 1; d >= 0; --d) part[d] = next(job.parts(d));
    slice = next(job.slices);
    group = piece;
    channels = min_of(job.c_block, s.c - c0);
    outputs = min_of(job.k_block, s.k - k0);
  }
  /// Input position of the part's first tap, relative to the output position.
  i64 first_tap(const WinogradWeights& job, int d) const { return part[d] * job.part_step(d) - job.shape.pad[d]; }
};

/// Transforms tiles [begin, end) of x and dy.
void transform_block(const WinogradWeights& job, const Steps& steps, const Part& part, i64 begin, i64 end,
                     const Scratch& work) {
  const ConvShape& s = job.shape;
  with_type(s.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* x = static_cast<const T*>(job.x) + (part.group * s.c + part.c0) * s.x_c;
    const T* dy = static_cast<const T*>(job.dy) + (part.group * s.k + part.k0) * s.y_k;
    for_runs(job, begin, end, [&](const TileRun& run) {
      const i64 plane = run.plane + part.first_tap(job, 0);
      const T* in = x + run.image * s.x_n + plane * s.x_d[0];
      for (i64 c = 0; c < part.channels; c += kN) {
        auto image = image_of(in + c * s.x_c, s.in, s.x_d, s.x_c, part.channels - c);
        if (plane < 0 || plane >= s.in[0]) image.size[0] = 0;
        read_pixels(image, {run.row + part.first_tap(job, 1), s.dilation[1], job.tile + job.taps - 1},
                    run.column + part.first_tap(job, 2), tile_row_columns(job, run.count, 1), work.tile_row);
        float* v = work.v + c / kN * work.v_block + run.first * work.v_tile;
        steps.transform_input_run(job, work.tile_row, run.count, 1, {v, work.v_tile, 0});
      }
      const T* out = dy + run.image * s.y_n + run.plane * s.y_d[0];
      for (i64 k = 0; k < part.outputs; k += kN) {
        const auto image = image_of(out + k * s.y_k, s.out, s.y_d, s.y_k, part.outputs - k);
        read_pixels(image, {run.row, s.dilation[1], job.tile}, run.column, run.count * job.tile, work.tile_row);
        float* d = work.d + k / kPanel * work.d_panel + run.first * work.d_tile + k % kPanel;
        steps.evaluate_run(job, work.tile_row, run.count, d, work.d_tile);
      }
    });
  });
}

/// Multiplies `tiles` tiles; adds to the sums or overwrites them.
void multiply(const WinogradWeights& job, const Part& part, i64 tiles, bool add, const Scratch& work) {
  constexpr i64 kSize = sizeof(float);
  constexpr int kRows = kN < kMicroRows[kPanelVectors] ? kN : kN / 2;
  const MicroKernel kernel = micro_kernel(Dot::kFloat, kRows, kPanelVectors);
  const MicroKernel narrow = micro_kernel(Dot::kFloat, kRows, 1);
  Micro m{.depth = tiles,
          .a_row = kSize,
          .a_step = work.v_tile * kSize,
          .b_step = work.d_tile * kSize,
          .c_row = work.s_row * kSize,
          .add = add};
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

i64 all_taps(const ConvShape& s) { return s.taps[0] * s.taps[1] * s.taps[2]; }

/// Address of the results of a slice for a vector of output channels: [group][vector][slice][channel][tap][lane].
float* slice_results(const WinogradWeights& job, i64 group, i64 vector, i64 slice) {
  const i64 size = job.shape.c * all_taps(job.shape) * kN;
  return job.memory + ((group * vectors_of(job) + vector) * job.slices + slice) * size;
}

/// Transforms the sums of a piece to dw of its part and slice.
void collect_part(const WinogradWeights& job, const Steps& steps, const Part& part, const Scratch& work) {
  const ConvShape& s = job.shape;
  const i64 row = part.part[1] * job.taps, column = part.part[2] * job.taps;
  const i64 first = (part.part[0] * s.taps[1] + row) * s.taps[2] + column;
  for (i64 k = 0; k < part.outputs; k += kN) {
    float* to = slice_results(job, part.group, (part.k0 + k) / kN, part.slice);
    for (i64 c = 0; c < part.channels; ++c) {
      float* taps = to + ((part.c0 + c) * all_taps(s) + first) * kN;
      steps.collect_taps(work.sums + c * work.s_row + k, work.s_plane,
                         {taps, s.taps[2] * kN, s.taps[1] - row, s.taps[2] - column});
    }
  }
}

void piece(const WinogradWeights& job, i64 index, const Scratch& work) {
  const Steps steps = steps_of(job);
  const Part part(job, index);
  const i64 blocks = job.tile_blocks();
  const i64 first = blocks * part.slice / job.slices, last = blocks * (part.slice + 1) / job.slices;
  for (i64 block = first; block < last; ++block) {
    const i64 begin = block * job.tiles, end = min_of(begin + job.tiles, job.all_tiles());
    transform_block(job, steps, part, begin, end, work);
    multiply(job, part, end - begin, block > first, work);
  }
  collect_part(job, steps, part, work);
}

/// Adds the slices of one vector of output channels to the first slice.
void add_slices(const WinogradWeights& job, float* sums) {
  const i64 slice = job.shape.c * all_taps(job.shape) * kN;
  for (i64 e = 0; job.slices > 1 && e < slice; e += kN) {
    Floats sum = load(sums + e);
    for (i64 i = 1; i < job.slices; ++i) sum += load(sums + i * slice + e);
    store(sums + e, sum);
  }
}

/// Writes all filters of one vector of output channels, in the longest contiguous runs of dw.
template <class T>
void write_filters(const WinogradWeights& job, i64 group, i64 vector, const float* from) {
  const ConvShape& s = job.shape;
  const int lanes = static_cast<int>(min_of<i64>(kN, s.k - vector * kN));
  const Scaling scaling{job.alpha, job.beta};
  T* dw = static_cast<T*>(job.dw) + group * job.w_group + vector * kN * s.w_k;
  const i64 taps = all_taps(s), plane = s.taps[1] * s.taps[2];
  const bool flat = s.w_d[2] == 1 && s.w_d[1] == s.taps[2] && (s.taps[0] == 1 || s.w_d[0] == plane);
  if (flat && s.w_k != 1) {
    const i64 runs = s.w_c == taps ? 1 : s.c, count = s.c * taps / runs;
    for (i64 i = 0; i < runs; ++i) {
      transpose_out(from + i * count * kN, kN, dw + i * s.w_c, s.w_k, lanes, count, scaling);
    }
    return;
  }
  for (i64 tap = 0; tap < taps; ++tap, from += kN) {
    const i64 pixel = tap % plane;
    T* to = dw + tap / plane * s.w_d[0] + pixel / s.taps[2] * s.w_d[1] + pixel % s.taps[2] * s.w_d[2];
    if (s.w_c == 1 && s.w_k != 1) {
      transpose_out(from, taps * kN, to, s.w_k, lanes, s.c, scaling);
      continue;
    }
    for (i64 c = 0; c < s.c; ++c, to += s.w_c) {
      const float* sums = from + c * taps * kN;
      s.w_k == 1 ? write_scaled(to, load(sums), lanes, scaling) : transpose_out(sums, kN, to, s.w_k, lanes, 1, scaling);
    }
  }
}

std::size_t winograd_weights_scratch(const WinogradWeights& job) {
  return static_cast<std::size_t>(Scratch(job, nullptr).floats) * sizeof(float);
}

std::size_t winograd_weights_memory(const WinogradWeights& job) {
  const i64 vectors = job.shape.groups * vectors_of(job);
  return static_cast<std::size_t>(vectors * job.slices * job.shape.c * all_taps(job.shape) * kN) * sizeof(float);
}

void winograd_weights(const WinogradWeights& job, i64 first, i64 end, void* scratch) {
  const Scratch work(job, static_cast<float*>(scratch));
  for (i64 i = first; i < end; ++i) piece(job, i, work);
}

void winograd_weights_sum(const WinogradWeights& job, i64 first, i64 end) {
  with_type(job.shape.dtype, [&](auto zero) {
    for (i64 i = first; i < end; ++i) {
      float* sums = slice_results(job, i / vectors_of(job), i % vectors_of(job), 0);
      add_slices(job, sums);
      write_filters<decltype(zero)>(job, i / vectors_of(job), i % vectors_of(job), sums);
    }
  });
}

}  // namespace

template <>
const WinogradWeightsKernels& entry_points<WinogradWeightsKernels>() {
  static constexpr WinogradWeightsKernels kKernels{.panel = kPanel,
                                                   .run = winograd_weights,
                                                   .sum = winograd_weights_sum,
                                                   .scratch = winograd_weights_scratch,
                                                   .memory = winograd_weights_memory};
  return kKernels;
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
