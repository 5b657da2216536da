// Winograd convolution, fused over blocks of tiles: a block of input tiles and the filters are transformed into the
// cache, multiplied point by point with register tiles, and the sums are transformed back into outputs.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/isa/micro.h"
#include "kernels/cpu/isa/winograd_tiles.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

constexpr i64 kFilterStep = 16;  // channels whose filters are transformed together

/// Transformed filters of a panel and a block of input channels lie together: floats between points.
i64 filter_plane(const Winograd& job) { return spread_out(round_up(job.c_block, kN) * kPanel); }

/// Memory of one call, carved in order; with base null it only counts floats. Tiles keep their points together, so
/// that transforms write and read memory in order: v[vector of channels][tile][point], m[panel][tile][point].
struct Workplace {
  i64 v_tile, v_block, m_tile, m_panel;
  float *v, *m, *u, *strip;
  i64* v_blocks;
  i64* u_blocks;
  i64 floats = 0;

  Workplace(const Winograd& job, float* base) {
    const ConvShape& s = job.shape;
    const i64 vectors = (job.c_block + kN - 1) / kN, panels = (min_of(job.k_block, s.k) + kPanel - 1) / kPanel;
    v_tile = spread_out(job.points() * kN);
    v_block = job.tiles * v_tile;
    m_tile = spread_out(job.points() * kPanel);
    m_panel = job.tiles * m_tile;
    v = take(base, vectors * v_block);
    m = take(base, panels * m_panel);
    u = take(base, job.stored ? 0 : job.points() * filter_plane(job));
    v_blocks = reinterpret_cast<i64*>(take(base, 2 * vectors));
    u_blocks = reinterpret_cast<i64*>(take(base, 2 * vectors));
    strip = take(base, max_of(strip_floats(job), 9 * kFilterStep * kN));
  }

 private:
  float* take(float* base, i64 count) {
    float* place = base == nullptr ? nullptr : base + floats;
    floats += round_up(count, 16);
    return place;
  }
};

/// Transforms sums back into rows of pixels.
template <int kTile>
void collect_run(const float* sums, i64 tile, i64 count, i64 band, float* strip) {
  constexpr int kAlpha = kTile + 2;
  for_tiles<kTile>(count, band, [&](i64 t, i64 first) {
    const float* m = sums + t * tile;
    Floats half[kTile][kAlpha];
#pragma GCC unroll 8
    for (int j = 0; j < kAlpha; ++j) {
      Floats in[kAlpha], out[kTile];
#pragma GCC unroll 8
      for (int i = 0; i < kAlpha; ++i) in[i] = load(m + (i * kAlpha + j) * kPanel);
      collect<kTile, kTile>(in, out);
#pragma GCC unroll 8
      for (int i = 0; i < kTile; ++i) half[i][j] = out[i];
    }
#pragma GCC unroll 8
    for (int i = 0; i < kTile; ++i) {
      Floats out[kTile];
      collect<kTile, kTile>(half[i], out);
#pragma GCC unroll 8
      for (int o = 0; o < kTile; ++o) store(strip + (i * count * kTile + first + o * band) * kN, out[o]);
    }
  });
}

/// Transforms filters: nine vectors of output channels for each input channel.
template <int kTile>
void spread_filters(const float* taps, i64 channels, float* u, i64 plane, i64 step) {
  constexpr int kAlpha = kTile + 2;
  for (i64 c = 0; c < channels; ++c, taps += 9 * kN, u += step) {
    Floats half[kAlpha][3];
#pragma GCC unroll 3
    for (int s = 0; s < 3; ++s) {
      const Floats g[3] = {load(taps + s * kN), load(taps + (3 + s) * kN), load(taps + (6 + s) * kN)};
      Floats out[kAlpha];
      evaluate<kTile, 3>(g, out);
#pragma GCC unroll 8
      for (int i = 0; i < kAlpha; ++i) half[i][s] = out[i];
    }
#pragma GCC unroll 8
    for (int i = 0; i < kAlpha; ++i) {
      Floats out[kAlpha];
      evaluate<kTile, 3>(half[i], out);
#pragma GCC unroll 8
      for (int j = 0; j < kAlpha; ++j) store(u + (i * kAlpha + j) * plane, out[j]);
    }
  }
}

/// The filters of `lanes` output channels and `channels` input channels, as vectors [channel][tap].
template <class T>
void read_filters(const ConvShape& s, const T* w, int lanes, i64 channels, float* taps) {
  const i64 tap = s.w_d[2];
  const bool flat = (tap == 1 || tap == -1) && s.w_d[1] == 3 * tap;
  if (s.w_k != 1 && flat && tap == 1 && s.w_c == 9) return transpose_in(w, s.w_k, lanes, 9 * channels, taps, kN);
  if (s.w_k != 1 && s.w_c != 1 && flat) {
    for (i64 c = 0; c < channels; ++c, w += s.w_c, taps += 9 * kN) {
      transpose_in(tap < 0 ? w - 8 : w, s.w_k, lanes, 9, tap < 0 ? taps + 8 * kN : taps, tap * kN);
    }
    return;
  }
  for (int r = 0; r < 9; ++r, taps += kN) {
    const T* from = w + r / 3 * s.w_d[1] + r % 3 * s.w_d[2];
    if (s.w_c == 1 && s.w_k != 1) {
      transpose_in(from, s.w_k, lanes, channels, taps, 9 * kN);
      continue;
    }
    for (i64 c = 0; c < channels; ++c, from += s.w_c) {
      float line[kN] = {};
      for (int l = 0; l < lanes; ++l) line[l] = widen(from[l * s.w_k]);
      store(taps + c * 9 * kN, load(line));
    }
  }
}

/// What depends on the type of the tensors or on the size of the tiles.
struct Steps {
  void (*spread_run)(float*, i64, i64, float*, i64);
  void (*collect_run)(const float*, i64, i64, i64, float*);
  void (*spread_filters)(const float*, i64, float*, i64, i64);
};

Steps steps_of(int tile) {
  if (tile == 2) return {spread_run<2>, collect_run<2>, spread_filters<2>};
  if (tile == 4) return {spread_run<4>, collect_run<4>, spread_filters<4>};
  return {spread_run<6>, collect_run<6>, spread_filters<6>};
}

/// Channels [c0, c0 + channels) of a block of tiles.
void input_block(const Winograd& job, const Steps& steps, i64 group, i64 begin, i64 end, i64 c0, i64 channels,
                 const Workplace& work) {
  const ConvShape& s = job.shape;
  with_type(s.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* x = static_cast<const T*>(job.x) + (group * s.c + c0) * s.x_c;
    for_runs(job, begin, end, [&](const TileRun& run) {
      const Rows rows{run.row - s.pad[1], s.dilation[1], job.tile + 2};
      const i64 columns = run.count * job.tile + 2 * job.band();
      for (i64 c = 0; c < channels; c += kN) {
        const auto image = image_of(x + run.image * s.x_n + c * s.x_c, s.in, s.x_d, s.x_c, channels - c);
        read_pixels(image, rows, run.column - s.pad[2], columns, work.strip);
        steps.spread_run(work.strip, run.count, job.band(), work.v + c / kN * work.v_block + run.first * work.v_tile,
                         work.v_tile);
      }
    });
  });
}

/// Output channels [k0, k0 + channels) of a block of tiles.
void output_block(const Winograd& job, const Steps& steps, i64 group, i64 begin, i64 end, i64 k0, i64 channels,
                  const Workplace& work) {
  const ConvShape& s = job.shape;
  with_type(s.dtype, [&](auto zero) {
    using T = decltype(zero);
    T* y = static_cast<T*>(job.y) + (group * s.k + k0) * s.y_k;
    for_runs(job, begin, end, [&](const TileRun& run) {
      for (i64 k = 0; k < channels; k += kN) {
        const auto image = image_of(y + run.image * s.y_n + k * s.y_k, s.out, s.y_d, s.y_k, channels - k);
        steps.collect_run(work.m + k / kPanel * work.m_panel + run.first * work.m_tile + k % kPanel, work.m_tile,
                          run.count, job.band(), work.strip);
        write_pixels(image, {run.row, s.dilation[1], job.tile}, run.column, run.count * job.tile, work.strip,
                     {job.alpha, job.beta});
      }
    });
  });
}

/// Vectors of the panel at output channel k0.
int panel_vectors(const Winograd& job, i64 k0) {
  return static_cast<int>(min_of<i64>(kPanelVectors, (job.shape.k - k0 + kN - 1) / kN));
}

/// Transformed filters of one panel: u[point * plane + c * vectors * kN + lane]; zeros for channels that are missing.
void filter_panel(const Winograd& job, const Steps& steps, i64 group, i64 k0, i64 c0, i64 channels, float* u,
                  float* taps) {
  const ConvShape& s = job.shape;
  const int vectors = panel_vectors(job, k0);
  const i64 plane = filter_plane(job);
  with_type(s.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (int j = 0; j < vectors; ++j) {
      const i64 k = k0 + j * kN;
      const T* w = static_cast<const T*>(job.w) + group * job.w_group + k * s.w_k + c0 * s.w_c;
      for (i64 c = 0; c < channels; c += kFilterStep) {
        const i64 some = min_of(kFilterStep, channels - c);
        read_filters(s, w + c * s.w_c, static_cast<int>(min_of<i64>(kN, s.k - k)), some, taps);
        steps.spread_filters(taps, some, u + c * vectors * kN + j * kN, plane, vectors * kN);
      }
    }
  });
  const i64 row = vectors * kN;
  for (i64 point = 0; point < job.points(); ++point) {
    for (i64 i = channels * row; i < round_up(channels, kN) * row; i += kN) store(u + point * plane + i, Floats{});
  }
}

i64 channel_blocks(const Winograd& job) { return (job.shape.c + job.c_block - 1) / job.c_block; }
i64 panels(const Winograd& job) { return (job.shape.k + kPanel - 1) / kPanel; }

/// Where those of a panel and a block of input channels are stored.
float* stored_panel(const Winograd& job, i64 group, i64 k0, i64 c0) {
  const i64 panel = group * panels(job) + k0 / kPanel;
  return job.memory + (panel * channel_blocks(job) + c0 / job.c_block) * job.points() * filter_plane(job);
}

/// Adds up the products of a block of tiles and a panel over `channels`, or starts with them.
void multiply(const Winograd& job, i64 tiles, i64 channels, const float* u, int vectors, float* sums,
              bool add, const Workplace& work) {
  const i64 most = kMicroRows[vectors], calls = (tiles + most - 1) / most;
  const i64 rows = tiles / calls, more = tiles % calls;
  const MicroKernel small = micro_kernel(Dot::kFloat, static_cast<int>(rows), vectors);
  const MicroKernel large = more == 0 ? small : micro_kernel(Dot::kFloat, static_cast<int>(rows) + 1, vectors);
  constexpr i64 kSize = sizeof(float);
  const i64 blocks = (channels + kN - 1) / kN, plane = filter_plane(job);
  for (i64 i = 0; i < blocks; ++i) {
    work.v_blocks[i] = i * work.v_block * kSize;
    work.u_blocks[i] = i * kN * vectors * kVectorBytes;
  }
  Micro m{.a_block = work.v_blocks, .b_block = work.u_blocks, .blocks = blocks, .depth = kN,
          .a_row = work.v_tile * kSize, .a_step = kSize, .b_step = vectors * kVectorBytes,
          .c_row = work.m_tile * kSize, .add = add};
  for (i64 point = 0; point < job.points(); ++point) {
    const float* v = work.v + point * kN;
    float* c = sums + point * kPanel;
    m.b = u + point * plane;
    for (i64 i = 0; i < calls; ++i) {
      const i64 some = rows + (i < more);
      m.a = v;
      m.c = c;
      (i < more ? large : small)(m);
      v += some * work.v_tile;
      c += some * work.m_tile;
    }
  }
}

/// One block of tiles, all or some output channels of a group.
void piece(const Winograd& job, i64 index, const Workplace& work) {
  const ConvShape& s = job.shape;
  const Steps steps = steps_of(job.tile);
  const i64 blocks = job.tile_blocks(), k_pieces = (s.k + job.k_piece - 1) / job.k_piece;
  const i64 begin = index % blocks * job.tiles, end = min_of(begin + job.tiles, job.all_tiles());
  const i64 k_begin = index / blocks % k_pieces * job.k_piece, k_end = min_of(k_begin + job.k_piece, s.k);
  const i64 group = index / (blocks * k_pieces);
  for (i64 k0 = k_begin; k0 < k_end; k0 += job.k_block) {
    const i64 k1 = min_of(k0 + job.k_block, k_end);
    for (i64 c0 = 0; c0 < s.c; c0 += job.c_block) {
      const i64 channels = min_of(job.c_block, s.c - c0);
      if (k0 == k_begin || job.c_block < s.c) input_block(job, steps, group, begin, end, c0, channels, work);
      for (i64 k = k0; k < k1; k += kPanel) {
        const int vectors = panel_vectors(job, k);
        const float* u = job.stored ? stored_panel(job, group, k, c0) : work.u;
        if (!job.stored) filter_panel(job, steps, group, k, c0, channels, work.u, work.strip);
        multiply(job, end - begin, channels, u, vectors, work.m + (k - k0) / kPanel * work.m_panel, c0 > 0, work);
      }
    }
    output_block(job, steps, group, begin, end, k0, k1 - k0, work);
  }
}

}  // namespace

int winograd_panel() { return kPanel; }

std::size_t winograd_scratch(const Winograd& job) {
  return static_cast<std::size_t>(Workplace(job, nullptr).floats) * sizeof(float);
}

std::size_t winograd_memory(const Winograd& job) {
  return static_cast<std::size_t>(job.points() * job.shape.groups * panels(job) * channel_blocks(job) *
                                  filter_plane(job)) *
         sizeof(float);
}

void winograd_filters(const Winograd& job, i64 first, i64 end, void* scratch) {
  const Steps steps = steps_of(job.tile);
  for (i64 i = first; i < end; ++i) {
    const i64 group = i / panels(job), k0 = i % panels(job) * kPanel;
    for (i64 c0 = 0; c0 < job.shape.c; c0 += job.c_block) {
      filter_panel(job, steps, group, k0, c0, min_of(job.c_block, job.shape.c - c0), stored_panel(job, group, k0, c0),
                   static_cast<float*>(scratch));
    }
  }
}

void winograd(const Winograd& job, i64 first, i64 end, void* scratch) {
  const Workplace work(job, static_cast<float*>(scratch));
  for (i64 i = first; i < end; ++i) piece(job, i, work);
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
