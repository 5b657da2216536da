// Winograd convolution, fused over blocks of tiles: the kernel transforms a block of input tiles and the filters into
// the cache, multiplies them point by point with register tiles, and transforms the sums to outputs.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/winograd.h"

#include "kernels/cpu/isa/apply_epilogue.h"
#include "kernels/cpu/isa/micro_kernel.h"
#include "kernels/cpu/isa/winograd_tiles.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

constexpr i64 kFilterStep = 16;  // input channels per transform of filters

/// Parts of the filter per chunk.
i64 chunk_parts(const Winograd& job) { return job.parts(0) * job.part_rows * job.parts(2); }

/// Floats between points of the transformed filters of a panel and a chunk.
i64 filter_plane(const Winograd& job) {
  return pad_to_odd_lines(chunk_parts(job) * round_up(job.c_block, kN) * kPanel);
}

/// Input planes that a slab of output planes reads.
i64 slab_reach(const Winograd& job) { return job.planes + (job.parts(0) - 1) * job.part_step(0); }

/// Channels [c0, c0 + channels) of the rows of parts [row, row + rows).
struct Chunk {
  i64 c0, channels, row, rows;
  Chunk(const Winograd& job, i64 index)
      : c0(index % job.c_blocks() * job.c_block),
        channels(min_of(job.c_block, job.shape.c - c0)),
        row(index / job.c_blocks() * job.part_rows),
        rows(min_of(job.part_rows, job.parts(1) - row)) {}
};

/// Scratch of one call; with a null base it only counts floats. The points of a tile are contiguous, so that transforms
/// access memory in order: v[part][vector of channels][plane][tile][point], m[panel][plane][tile][point].
struct Scratch {
  i64 v_tile, v_block, v_part, m_tile, m_panel;
  float *v, *m, *u, *tile_row;
  i64* v_blocks;
  i64* u_blocks;
  i64 floats = 0;

  Scratch(const Winograd& job, float* base) {
    const ConvShape& s = job.shape;
    const i64 vectors = (job.c_block + kN - 1) / kN, panels = (min_of(job.k_block, s.k) + kPanel - 1) / kPanel;
    v_tile = pad_to_odd_lines(job.points() * kN);
    v_block = slab_reach(job) * job.tiles * v_tile;
    v_part = vectors * v_block;
    m_tile = pad_to_odd_lines(job.points() * kPanel);
    m_panel = job.planes * job.tiles * m_tile;
    v = reserve(base, job.part_rows * job.parts(2) * v_part);
    m = reserve(base, panels * m_panel);
    u = reserve(base, job.stored ? 0 : job.points() * filter_plane(job));
    v_blocks = reinterpret_cast<i64*>(reserve(base, 2 * chunk_parts(job) * vectors));
    u_blocks = reinterpret_cast<i64*>(reserve(base, 2 * chunk_parts(job) * vectors));
    tile_row = reserve(base, max_of(tile_row_floats(job), s.taps[1] * s.taps[2] * kFilterStep * kN));
  }

 private:
  float* reserve(float* base, i64 count) {
    float* place = base == nullptr ? nullptr : base + floats;
    floats += round_up(count, 16);
    return place;
  }
};

/// Transforms the sums of a run to rows of pixels.
template <int kAlpha, int kOuts>
void collect_run(const Winograd& job, const float* sums, i64 tile, i64 count, float* tile_row) {
  for_tiles(job, count, [&](i64 t, i64 first) {
    collect_square<kAlpha, kOuts>(sums + t * tile, kPanel, [&](i64 i, i64 j, Floats y) {
      store(tile_row + (i * count * kOuts + first + j * job.band()) * kN, y);
    });
  });
}

/// A part of filters: `rows` x `columns` taps of vectors of output channels; its other taps are zero.
struct Taps {
  const float* data;
  i64 row, channel;  // strides in floats; kN between taps
  i64 rows, columns;
};

/// Transforms a part of the filter of each input channel.
template <int kAlpha, int kTaps>
void transform_filters(Taps taps, i64 channels, float* u, i64 plane, i64 step) {
  const bool whole = taps.rows >= kTaps && taps.columns >= kTaps;
  float padded[kTaps * kTaps * kN] = {};
  for (i64 c = 0; c < channels; ++c, taps.data += taps.channel, u += step) {
    for (i64 i = 0; !whole && i < min_of<i64>(taps.rows, kTaps); ++i) {
      for (i64 j = 0; j < min_of<i64>(taps.columns, kTaps); ++j)
        store(padded + (i * kTaps + j) * kN, load(taps.data + i * taps.row + j * kN));
    }
    const float* from = whole ? taps.data : padded;
    const i64 row = whole ? taps.row : kTaps * kN;
    evaluate_square<kAlpha, kTaps>([&](i64 i, i64 j) { return load(from + i * row + j * kN); }, u, plane);
  }
}

/// Loads the filters of `lanes` output channels and `channels` input channels as vectors [channel][tap].
template <class T>
void read_filters(const ConvShape& s, const T* w, int lanes, i64 channels, float* taps) {
  const i64 tap = s.w_d[2], all = s.taps[1] * s.taps[2], step = all * kN;
  const bool flat = (tap == 1 || tap == -1) && s.w_d[1] == s.taps[2] * tap;
  if (s.w_k != 1 && flat && tap == 1 && s.w_c == all) return transpose_in(w, s.w_k, lanes, all * channels, taps, kN);
  if (s.w_k != 1 && s.w_c != 1 && flat) {
    const auto read = [&](i64 count) {
      const i64 last = tap < 0 ? count - 1 : 0;  // the tap that is first in memory
      for (i64 c = 0; c < channels; ++c, w += s.w_c, taps += step) {
        transpose_in(w - last, s.w_k, lanes, count, taps + last * kN, tap * kN);
      }
    };
    if (all == 9) {
      read(9);  // 3x3: a constant for the compiler
    } else {
      read(all);
    }
    return;
  }
  for (i64 r = 0; r < all; ++r, taps += kN) {
    const T* from = w + r / s.taps[2] * s.w_d[1] + r % s.taps[2] * s.w_d[2];
    if (s.w_c == 1 && s.w_k != 1) {
      transpose_in(from, s.w_k, lanes, channels, taps, step);
      continue;
    }
    for (i64 c = 0; c < channels; ++c, from += s.w_c) {
      float line[kN] = {};
      for (int l = 0; l < lanes; ++l) line[l] = widen(from[l * s.w_k]);
      store(taps + c * step, load(line));
    }
  }
}

/// Functions compiled per form (points, tile, taps).
struct Steps {
  void (*transform_input_run)(const WinogradTiles&, float*, i64, i64, Points);
  void (*collect_run)(const Winograd&, const float*, i64, i64, float*);
  void (*transform_filters)(Taps, i64, float*, i64, i64);
};

Steps steps_of(const Winograd& job) {
  return with_form(job.tile, job.taps, []<int kAlpha, int kTile, int kTaps>() -> Steps {
    return {transform_input_run<kAlpha>, collect_run<kAlpha, kTile>, transform_filters<kAlpha, kTaps>};
  });
}

/// Transforms one plane of a run's tiles, one vector of channels, for one row of parts of the filter.
template <class T>
void input_run(const Winograd& job, const Steps& steps, const TileRun& run, Image<const T> image, i64 row, float* v,
               const Scratch& work) {
  const ConvShape& s = job.shape;
  const i64 columns = tile_row_columns(job, run.count, job.parts(2));
  const Rows rows{run.row - s.pad[1] + row * job.part_step(1), s.dilation[1], job.tile + job.taps - 1};
  read_pixels(image, rows, run.column - s.pad[2], columns, work.tile_row);
  steps.transform_input_run(job, work.tile_row, run.count, job.parts(2), {v, work.v_tile, work.v_part});
}

/// Transforms a chunk of the input of a block of tiles.
void input_block(const Winograd& job, const Steps& steps, i64 group, i64 begin, i64 end, const Chunk& chunk,
                 const Scratch& work) {
  const ConvShape& s = job.shape;
  with_type(s.dtype, [&](auto zero) {
    using T = decltype(zero);
    for_runs(job, begin, end, [&](const TileRun& run) {
      const T* x = static_cast<const T*>(job.x) + (group * s.c + chunk.c0) * s.x_c + run.image * s.x_n;
      for (i64 i = 0; i < slab_reach(job) * chunk.rows; ++i) {
        const i64 slab_plane = i / chunk.rows, part = i % chunk.rows, plane = run.plane - s.pad[0] + slab_plane;
        float* v = work.v + part * job.parts(2) * work.v_part + (slab_plane * (end - begin) + run.first) * work.v_tile;
        for (i64 c = 0; c < chunk.channels; c += kN, v += work.v_block) {
          auto image = image_of(x + plane * s.x_d[0] + c * s.x_c, s.in, s.x_d, s.x_c, chunk.channels - c);
          if (plane < 0 || plane >= s.in[0]) image.size[0] = 0;
          input_run(job, steps, run, image, chunk.row + part, v, work);
        }
      }
    });
  });
}

/// Transforms output channels [k0, k0 + channels) of a block of tiles and writes y.
void output_block(const Winograd& job, const Steps& steps, i64 group, i64 begin, i64 end, i64 k0, i64 channels,
                  const Scratch& work) {
  const ConvShape& s = job.shape;
  with_type(s.dtype, [&](auto zero) {
    using T = decltype(zero);
    for_runs(job, begin, end, [&](const TileRun& run) {
      T* y = static_cast<T*>(job.y) + (group * s.k + k0) * s.y_k + run.image * s.y_n + run.plane * s.y_d[0];
      const i64 planes = min_of(job.planes, s.out[0] - run.plane);
      for (i64 i = 0; i < planes; ++i, y += s.y_d[0]) {
        const float* m = work.m + (i * (end - begin) + run.first) * work.m_tile;
        for (i64 k = 0; k < channels; k += kN) {
          const auto image = image_of(y + k * s.y_k, s.out, s.y_d, s.y_k, channels - k);
          steps.collect_run(job, m + k / kPanel * work.m_panel + k % kPanel, work.m_tile, run.count, work.tile_row);
          const i64 pixels = run.count * job.tile;
          if (job.epilogue) {
            const EpilogueSums<float> sums{work.tile_row, job.tile * pixels, kN, min_of<i64>(kN, channels - k),
                                           group * s.k + k0 + k};
            apply_epilogue<float, T>(*job.epilogue, job.alpha, sums, [] {});
          }
          write_pixels(image, {run.row, s.dilation[1], job.tile}, run.column, pixels, work.tile_row,
                       {job.epilogue ? 1 : job.alpha, job.beta});
        }
      }
    });
  });
}

/// Vectors of the panel at output channel k0.
int panel_vectors(const Winograd& job, i64 k0) {
  return static_cast<int>(min_of<i64>(kPanelVectors, (job.shape.k - k0 + kN - 1) / kN));
}

/// Transformed filters of one panel and a chunk: u[point * plane + (part * channels + c) * vectors * kN + lane]; zero
/// for channels past the last.
void filter_panel(const Winograd& job, const Steps& steps, i64 group, i64 k0, const Chunk& chunk, float* u,
                  float* taps) {
  const ConvShape& s = job.shape;
  const int vectors = panel_vectors(job, k0);
  const i64 plane = filter_plane(job), row = vectors * kN, part_size = round_up(chunk.channels, kN) * row;
  const i64 across = job.parts(2), parts = chunk.rows * across;
  const auto transform_parts = [&](i64 channels, float* to) {
    for (i64 i = 0; i < parts; ++i, to += part_size) {
      const i64 r = (chunk.row + i / across) * job.taps, q = i % across * job.taps;
      const Taps part{taps + (r * s.taps[2] + q) * kN, s.taps[2] * kN, s.taps[1] * s.taps[2] * kN, s.taps[1] - r,
                      s.taps[2] - q};
      steps.transform_filters(part, channels, to, plane, row);
    }
  };
  with_type(s.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (i64 i = 0; i < s.taps[0] * vectors; ++i) {
      const i64 z = i / vectors, j = i % vectors, k = k0 + j * kN;
      const T* w = static_cast<const T*>(job.w) + group * job.w_group + z * s.w_d[0] + k * s.w_k + chunk.c0 * s.w_c;
      for (i64 c = 0; c < chunk.channels; c += kFilterStep) {
        const i64 channels = min_of(kFilterStep, chunk.channels - c);
        read_filters(s, w + c * s.w_c, static_cast<int>(min_of<i64>(kN, s.k - k)), channels, taps);
        transform_parts(channels, u + z * parts * part_size + c * row + j * kN);
      }
    }
  });
  for (i64 i = 0; i < job.points() * s.taps[0] * parts; ++i) {
    float* part = u + i / (s.taps[0] * parts) * plane + i % (s.taps[0] * parts) * part_size;
    for (i64 e = chunk.channels * row; e < part_size; e += kN) store(part + e, Floats{});
  }
}

i64 panels(const Winograd& job) { return (job.shape.k + kPanel - 1) / kPanel; }

/// Address of the stored filters of a panel and a chunk.
float* stored_panel(const Winograd& job, i64 group, i64 k0, i64 chunk) {
  const i64 panel = group * panels(job) + k0 / kPanel;
  return job.memory + (panel * job.chunks() + chunk) * job.points() * filter_plane(job);
}

/// Lists the blocks that the micro-kernel sums, vectors of channels of a chunk's parts; returns their number.
i64 list_blocks(const Winograd& job, i64 tiles, const Chunk& chunk, int vectors, const Scratch& work) {
  const i64 blocks = (chunk.channels + kN - 1) / kN, parts = chunk.rows * job.parts(2), all = job.parts(0) * parts;
  for (i64 i = 0; i < all * blocks; ++i) {
    const i64 c = i % blocks, part = i / blocks % parts, z = i / (blocks * parts);
    const i64 v = part * work.v_part + c * work.v_block + z * job.part_step(0) * tiles * work.v_tile;
    work.v_blocks[i] = v * static_cast<i64>(sizeof(float));
    work.u_blocks[i] = i * kN * vectors * kVectorBytes;
  }
  return all * blocks;
}

/// Multiplies a block of tiles by a panel over a chunk; adds to the sums or overwrites them.
void multiply(const Winograd& job, i64 tiles, const Chunk& chunk, const float* u, int vectors, float* sums, bool add,
              const Scratch& work) {
  const i64 all = tiles * job.planes, max_rows = kMicroRows[vectors], calls = (all + max_rows - 1) / max_rows;
  const i64 rows = all / calls, taller = all % calls;
  const MicroKernel small = micro_kernel(Dot::kFloat, static_cast<int>(rows), vectors);
  const MicroKernel large = taller == 0 ? small : micro_kernel(Dot::kFloat, static_cast<int>(rows) + 1, vectors);
  constexpr i64 kSize = sizeof(float);
  const i64 plane = filter_plane(job), blocks = list_blocks(job, tiles, chunk, vectors, work);
  Micro m{.a_block = work.v_blocks,
          .b_block = work.u_blocks,
          .blocks = blocks,
          .depth = kN,
          .a_row = work.v_tile * kSize,
          .a_step = kSize,
          .b_step = vectors * kVectorBytes,
          .c_row = work.m_tile * kSize,
          .add = add};
  for (i64 point = 0; point < job.points(); ++point) {
    const float* v = work.v + point * kN;
    float* c = sums + point * kPanel;
    m.b = u + point * plane;
    for (i64 i = 0; i < calls; ++i) {
      const i64 tile_rows = rows + (i < taller);
      m.a = v;
      m.c = c;
      (i < taller ? large : small)(m);
      v += tile_rows * work.v_tile;
      c += tile_rows * work.m_tile;
    }
  }
}

/// Computes one block of tiles, k_piece output channels of a group.
void piece(const Winograd& job, i64 index, const Scratch& work) {
  const ConvShape& s = job.shape;
  const Steps steps = steps_of(job);
  const i64 blocks = job.tile_blocks(), k_pieces = (s.k + job.k_piece - 1) / job.k_piece, chunks = job.chunks();
  const i64 begin = index % blocks * job.tiles, end = min_of(begin + job.tiles, job.all_tiles());
  const i64 k_begin = index / blocks % k_pieces * job.k_piece, k_end = min_of(k_begin + job.k_piece, s.k);
  const i64 group = index / (blocks * k_pieces);
  for (i64 k0 = k_begin; k0 < k_end; k0 += job.k_block) {
    const i64 k1 = min_of(k0 + job.k_block, k_end);
    for (i64 i = 0; i < chunks; ++i) {
      const Chunk chunk(job, i);
      if (k0 == k_begin || chunks > 1) input_block(job, steps, group, begin, end, chunk, work);
      for (i64 k = k0; k < k1; k += kPanel) {
        const int vectors = panel_vectors(job, k);
        const float* u = job.stored ? stored_panel(job, group, k, i) : work.u;
        if (!job.stored) filter_panel(job, steps, group, k, chunk, work.u, work.tile_row);
        multiply(job, end - begin, chunk, u, vectors, work.m + (k - k0) / kPanel * work.m_panel, i > 0, work);
      }
    }
    output_block(job, steps, group, begin, end, k0, k1 - k0, work);
  }
}

std::size_t winograd_scratch(const Winograd& job) {
  return static_cast<std::size_t>(Scratch(job, nullptr).floats) * sizeof(float);
}

std::size_t winograd_memory(const Winograd& job) {
  return static_cast<std::size_t>(job.points() * job.shape.groups * panels(job) * job.chunks() * filter_plane(job)) *
         sizeof(float);
}

void winograd_filters(const Winograd& job, i64 first, i64 end, void* scratch) {
  const Steps steps = steps_of(job);
  for (i64 i = first; i < end; ++i) {
    const i64 group = i / panels(job), k0 = i % panels(job) * kPanel;
    for (i64 c = 0; c < job.chunks(); ++c) {
      filter_panel(job, steps, group, k0, Chunk(job, c), stored_panel(job, group, k0, c), static_cast<float*>(scratch));
    }
  }
}

void winograd(const Winograd& job, i64 first, i64 end, void* scratch) {
  const Scratch work(job, static_cast<float*>(scratch));
  for (i64 i = first; i < end; ++i) piece(job, i, work);
}

}  // namespace

template <>
const WinogradKernels& entry_points<WinogradKernels>() {
  static constexpr WinogradKernels kKernels{.panel = kPanel,
                                            .filters = winograd_filters,
                                            .run = winograd,
                                            .scratch = winograd_scratch,
                                            .memory = winograd_memory};
  return kKernels;
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
