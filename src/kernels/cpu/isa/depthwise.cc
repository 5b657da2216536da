// Depthwise convolution. Channels first: the input plane is copied once into zero-padded rows, each cut
// into one part per residue of the column modulo the stride; then every tap of every output row is a
// unit-stride shifted row. Channels last: vectors run over channels, taps outside are skipped.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/isa/entries.h"
#include "kernels/cpu/isa/padded.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

i64 floor_div(i64 a, i64 b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

/// What backward data reads: dx position h with tap r is at floor((h + pad - r * dilation) / stride).
template <class T>
Padded pad_y(const ConvShape& s) {
  Padded p{};
  for (int d = 0; d < kSpatial; ++d) {
    const i64 lowest = floor_div(s.pad[d] - (s.taps[d] - 1) * s.dilation[d], s.stride[d]);
    p.before[d] = max_of<i64>(-lowest, 0);
    p.size[d] = p.before[d] + max_of((s.in[d] - 1 + s.pad[d]) / s.stride[d] + 1, s.out[d]);
  }
  p.size[2] += kLanes<T>;
  p.split = 1;
  return finish<T>(p);
}

/// A tap of a stencil: where it reads in the padded copy, and its weight.
template <class T>
struct Tap {
  i64 offset;
  T weight;
};

/// sum[i] = sum of taps over V vectors.
template <class T, int V>
void sum_taps(const T* base, const Tap<T>* taps, i64 count, Vec<T> (&sum)[V]) {
  for (int v = 0; v < V; ++v) sum[v] = Vec<T>{};
  for (i64 t = 0; t < count; ++t) {
    const T* src = base + taps[t].offset;
    const Vec<T> weight = broadcast(taps[t].weight);
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) sum[v] += weight * load(src + v * kLanes<T>);
  }
}

/// One row of outputs: `count` elements `stride` apart.
template <class T>
void stencil_row(const T* base, const Tap<T>* taps, i64 tap_count, T* out, i64 stride, i64 count, T alpha,
                 T beta) {
  constexpr int kN = kLanes<T>;
  i64 i = 0;
  for (; i + 4 * kN <= count; i += 4 * kN) {
    Vec<T> sum[4];
    sum_taps<T, 4>(base + i, taps, tap_count, sum);
    for (int v = 0; v < 4; ++v) write_vector(out + (i + v * kN) * stride, stride, kN, sum[v], alpha, beta);
  }
  for (; i < count; i += kN) {
    Vec<T> sum[1];
    sum_taps<T, 1>(base + i, taps, tap_count, sum);
    write_vector(out + i * stride, stride, count - i, sum[0], alpha, beta);
  }
}

template <class T>
void forward_plane(const Depthwise& job, i64 piece, T* plane, Tap<T>* taps) {
  const ConvShape& s = job.shape;
  const Padded p = pad_x<T>(s);
  const i64 n = piece / s.groups, g = piece % s.groups;
  pad_plane(p, static_cast<const T*>(job.x) + n * s.x_n + g * s.x_c, s.in, s.x_d, plane);
  for (i64 k = g * s.k; k < (g + 1) * s.k; ++k) {
    i64 count = 0;
    for_taps(s.taps, [&](i64 r0, i64 r1, i64 r2) {
      const i64 at = k * s.w_k + r0 * s.w_d[0] + r1 * s.w_d[1] + r2 * s.w_d[2];
      taps[count++] = {x_tap(s, p, r0, r1, r2), static_cast<const T*>(job.w)[at]};
    });
    T* y = static_cast<T*>(job.result) + n * s.y_n + k * s.y_k;
    for (i64 p0 = 0; p0 < s.out[0]; ++p0) {
      for (i64 p1 = 0; p1 < s.out[1]; ++p1) {
        stencil_row(plane + p0 * s.stride[0] * p.slab + p1 * s.stride[1] * p.row, taps, count,
                    y + p0 * s.y_d[0] + p1 * s.y_d[1], 1, s.out[2], static_cast<T>(job.alpha),
                    static_cast<T>(job.beta));
      }
    }
  }
}

/// The outputs of one residue (f0, f1, f2) of the position modulo the stride.
template <class T>
void data_phase(const Depthwise& job, const Padded& p, i64 g, const i64 (&phase)[kSpatial], const T* planes,
                T* dx, Tap<T>* taps) {
  const ConvShape& s = job.shape;
  const PhaseWindow a = phase_window(s, 0, phase[0]), b = phase_window(s, 1, phase[1]),
                    c = phase_window(s, 2, phase[2]);
  const i64 counts[kSpatial] = {a.taps, b.taps, c.taps};
  i64 count = 0;
  for (i64 k = 0; k < s.k; ++k) {
    for_taps(counts, [&](i64 t0, i64 t1, i64 t2) {
      const i64 at = (g * s.k + k) * s.w_k + (a.first_tap + t0 * a.tap_step) * s.w_d[0] +
                     (b.first_tap + t1 * b.tap_step) * s.w_d[1] + (c.first_tap + t2 * c.tap_step) * s.w_d[2];
      const i64 offset = k * p.total + (p.before[0] + a.origin + t0 * a.tap_move) * p.slab +
                         (p.before[1] + b.origin + t1 * b.tap_move) * p.row + p.before[2] + c.origin +
                         t2 * c.tap_move;
      taps[count++] = {offset, static_cast<const T*>(job.w)[at]};
    });
  }
  dx += phase[0] * s.x_d[0] + phase[1] * s.x_d[1] + phase[2];
  for (i64 i0 = 0; i0 < a.pixels; ++i0) {
    for (i64 i1 = 0; i1 < b.pixels; ++i1) {
      stencil_row(planes + i0 * p.slab + i1 * p.row, taps, count,
                  dx + i0 * s.stride[0] * s.x_d[0] + i1 * s.stride[1] * s.x_d[1], s.stride[2], c.pixels,
                  static_cast<T>(job.alpha), static_cast<T>(job.beta));
    }
  }
}

template <class T>
void data_plane(const Depthwise& job, i64 piece, T* planes, Tap<T>* taps) {
  const ConvShape& s = job.shape;
  const Padded p = pad_y<T>(s);
  const i64 n = piece / s.groups, g = piece % s.groups;
  for (i64 k = 0; k < s.k; ++k) {
    const T* dy = static_cast<const T*>(job.y) + n * s.y_n + (g * s.k + k) * s.y_k;
    pad_plane(p, dy, s.out, s.y_d, planes + k * p.total);
  }
  T* dx = static_cast<T*>(job.result) + n * s.x_n + g * s.x_c;
  for (i64 f0 = 0; f0 < min_of(s.stride[0], s.in[0]); ++f0) {
    for (i64 f1 = 0; f1 < min_of(s.stride[1], s.in[1]); ++f1) {
      for (i64 f2 = 0; f2 < min_of(s.stride[2], s.in[2]); ++f2) {
        data_phase(job, p, g, {f0, f1, f2}, planes, dx, taps);
      }
    }
  }
}

/// Adds dy times the shifted x to the sums of B taps, over one plane.
template <class T, int B>
void add_weights(const ConvShape& s, const Padded& p, const T* plane, const T* dy, const Tap<T>* taps,
                 Vec<T>* sums) {
  constexpr int kN = kLanes<T>;
  Vec<T> sum[B];
  for (int t = 0; t < B; ++t) sum[t] = sums[t];
  Vec<T> lane;
  for (int i = 0; i < kN; ++i) lane[i] = static_cast<T>(i);
  for (i64 p0 = 0; p0 < s.out[0]; ++p0) {
    for (i64 p1 = 0; p1 < s.out[1]; ++p1) {
      const T* base = plane + p0 * s.stride[0] * p.slab + p1 * s.stride[1] * p.row;
      const T* row = dy + p0 * s.y_d[0] + p1 * s.y_d[1];
      for (i64 i = 0; i < s.out[2]; i += kN) {
        const i64 left = s.out[2] - i;
        if (left >= kN) {
          const Vec<T> v = load(row + i);
#pragma GCC unroll 9
          for (int t = 0; t < B; ++t) sum[t] += v * load(base + taps[t].offset + i);
          continue;
        }
        // x beyond the last output is cleared: it may be infinite.
        const Vec<T> v = load_lanes(row + i, 0, static_cast<int>(left));
        const auto keep = lane < broadcast(static_cast<T>(left));
#pragma GCC unroll 9
        for (int t = 0; t < B; ++t) {
          sum[t] += v * (keep ? load(base + taps[t].offset + i) : Vec<T>{});
        }
      }
    }
  }
  for (int t = 0; t < B; ++t) sums[t] = sum[t];
}

template <class T>
void add_all_weights(const ConvShape& s, const Padded& p, const T* plane, const T* dy, const Tap<T>* taps,
                     i64 count, Vec<T>* sums) {
  i64 t = 0;
  for (; t + 9 <= count; t += 9) add_weights<T, 9>(s, p, plane, dy, taps + t, sums + t);
  for (; t + 5 <= count; t += 5) add_weights<T, 5>(s, p, plane, dy, taps + t, sums + t);
  for (; t + 3 <= count; t += 3) add_weights<T, 3>(s, p, plane, dy, taps + t, sums + t);
  for (; t < count; ++t) add_weights<T, 1>(s, p, plane, dy, taps + t, sums + t);
}

template <class T>
void update(T& element, T value, T alpha, T beta) {
  element = beta != 0 ? alpha * value + beta * element : alpha * value;
}

template <class T>
void weights_channel(const Depthwise& job, i64 g, T* plane, Tap<T>* taps) {
  const ConvShape& s = job.shape;
  const Padded p = pad_x<T>(s);
  const i64 count = s.taps[0] * s.taps[1] * s.taps[2];
  Vec<T>* sums = reinterpret_cast<Vec<T>*>(plane + p.total);
  for (i64 t = 0; t < s.k * count; ++t) sums[t] = Vec<T>{};
  i64 made = 0;
  for_taps(s.taps, [&](i64 r0, i64 r1, i64 r2) { taps[made++] = {x_tap(s, p, r0, r1, r2), 0}; });
  for (i64 n = 0; n < s.n; ++n) {
    pad_plane(p, static_cast<const T*>(job.x) + n * s.x_n + g * s.x_c, s.in, s.x_d, plane);
    for (i64 k = 0; k < s.k; ++k) {
      const T* dy = static_cast<const T*>(job.y) + n * s.y_n + (g * s.k + k) * s.y_k;
      add_all_weights(s, p, plane, dy, taps, count, sums + k * count);
    }
  }
  for (i64 k = 0; k < s.k; ++k) {
    i64 t = k * count;
    for_taps(s.taps, [&](i64 r0, i64 r1, i64 r2) {
      T total = 0;
      for (int i = 0; i < kLanes<T>; ++i) total += sums[t][i];
      ++t;
      T* dw = static_cast<T*>(job.result) + (g * s.k + k) * s.w_k;
      update(dw[r0 * s.w_d[0] + r1 * s.w_d[1] + r2 * s.w_d[2]], total, static_cast<T>(job.alpha),
             static_cast<T>(job.beta));
    });
  }
}

// ---- channels last ----

/// Taps [low, high) of dimension d whose input position for output o is inside.
struct Range {
  i64 low, high;
};

Range inside_taps(const ConvShape& s, int d, i64 o) {
  const i64 base = o * s.stride[d] - s.pad[d], step = s.dilation[d];
  const i64 low = base < 0 ? (-base + step - 1) / step : 0;
  const i64 high = base >= s.in[d] ? 0 : (s.in[d] - 1 - base) / step + 1;
  return {low, min_of(high, s.taps[d])};
}

/// The source position that tap r connects with result position i, or -1.
i64 source_at(const Depthwise& job, int d, i64 i, i64 r) {
  const ConvShape& s = job.shape;
  if (job.direction == ConvDirection::kForward) {
    const i64 h = i * s.stride[d] + r * s.dilation[d] - s.pad[d];
    return h >= 0 && h < s.in[d] ? h : -1;
  }
  const i64 position = i + s.pad[d] - r * s.dilation[d];
  if (position < 0 || position % s.stride[d] != 0) return -1;
  return position / s.stride[d] < s.out[d] ? position / s.stride[d] : -1;
}

/// A tap that reaches a pixel: its source pixel and its row of transposed weights.
template <class T>
struct Reach {
  const T *source, *weights;
};

template <class T>
void pixel(const Reach<T>* reach, i64 count, i64 channels, T* out, T alpha, T beta) {
  constexpr int kN = kLanes<T>;
  i64 c = 0;
  for (; c + 2 * kN <= channels; c += 2 * kN) {
    Vec<T> sum[2] = {};
    for (i64 t = 0; t < count; ++t) {
      sum[0] += load(reach[t].source + c) * load(reach[t].weights + c);
      sum[1] += load(reach[t].source + c + kN) * load(reach[t].weights + c + kN);
    }
    write_vector(out + c, 1, kN, sum[0], alpha, beta);
    write_vector(out + c + kN, 1, kN, sum[1], alpha, beta);
  }
  for (; c < channels; c += kN) {
    const int some = static_cast<int>(min_of<i64>(kN, channels - c));
    Vec<T> sum{};
    for (i64 t = 0; t < count; ++t) {
      sum += load_lanes(reach[t].source + c, 0, some) * load_lanes(reach[t].weights + c, 0, some);
    }
    write_vector(out + c, 1, some, sum, alpha, beta);
  }
}

/// Weights as rows of channels, one row a tap.
template <class T>
void transpose_weights(const Depthwise& job, T* rows) {
  const ConvShape& s = job.shape;
  for_taps(s.taps, [&](i64 r0, i64 r1, i64 r2) {
    const T* w = static_cast<const T*>(job.w) + r0 * s.w_d[0] + r1 * s.w_d[1] + r2 * s.w_d[2];
    for (i64 c = 0; c < s.groups; ++c) rows[c] = w[c * s.w_k];
    rows += s.groups;
  });
}

/// One row of result pixels, forward or backward data; weights are transposed.
template <class T>
void pixel_row(const Depthwise& job, i64 piece, const T* weights, Reach<T>* reach) {
  const ConvShape& s = job.shape;
  const bool forward = job.direction == ConvDirection::kForward;
  const i64 *size = forward ? s.out : s.in, *to = forward ? s.y_d : s.x_d, *from = forward ? s.x_d : s.y_d;
  const i64 i1 = piece % size[1], i0 = piece / size[1] % size[0], n = piece / (size[1] * size[0]);
  const T* source = static_cast<const T*>(forward ? job.x : job.y) + n * (forward ? s.x_n : s.y_n);
  T* out = static_cast<T*>(job.result) + n * (forward ? s.y_n : s.x_n) + i0 * to[0] + i1 * to[1];
  for (i64 i2 = 0; i2 < size[2]; ++i2) {
    i64 count = 0, row = 0;
    for (i64 r0 = 0; r0 < s.taps[0]; ++r0) {
      const i64 h0 = source_at(job, 0, i0, r0);
      for (i64 r1 = 0; r1 < s.taps[1]; ++r1) {
        const i64 h1 = source_at(job, 1, i1, r1);
        for (i64 r2 = 0; r2 < s.taps[2]; ++r2, ++row) {
          const i64 h2 = h0 < 0 || h1 < 0 ? -1 : source_at(job, 2, i2, r2);
          if (h2 < 0) continue;
          reach[count++] = {source + h0 * from[0] + h1 * from[1] + h2 * from[2], weights + row * s.groups};
        }
      }
    }
    pixel(reach, count, s.groups, out + i2 * to[2], static_cast<T>(job.alpha), static_cast<T>(job.beta));
  }
}

/// sums[c] += dy * x over the columns of one row that tap r2 reaches.
template <class T>
void add_row(const ConvShape& s, const T* x, const T* dy, i64 r2, i64 channels, T* sums) {
  constexpr int kN = kLanes<T>;
  const i64 base = r2 * s.dilation[2] - s.pad[2], step = s.stride[2];
  const i64 low = base < 0 ? (-base + step - 1) / step : 0;
  const i64 high = base >= s.in[2] ? 0 : min_of(s.out[2], (s.in[2] - 1 - base) / step + 1);
  for (i64 c = 0; c < channels; c += kN) {
    const int some = static_cast<int>(min_of<i64>(kN, channels - c));
    Vec<T> sum = load(sums + c);
    for (i64 q = low; q < high; ++q) {
      const T *a = x + (base + q * step) * s.x_d[2] + c, *b = dy + q * s.y_d[2] + c;
      sum += some == kN ? load(a) * load(b) : load_lanes(a, 0, some) * load_lanes(b, 0, some);
    }
    store(sums + c, sum);
  }
}

template <class T>
void weights_block(const Depthwise& job, i64 block, T* sums) {
  const ConvShape& s = job.shape;
  const i64 first = block * kChannelBlock, channels = min_of(kChannelBlock, s.groups - first);
  const i64 count = s.taps[0] * s.taps[1] * s.taps[2];
  for (i64 i = 0; i < count * kChannelBlock; ++i) sums[i] = 0;
  const i64 rows = s.n * s.out[0] * s.out[1];
  for (i64 row = 0; row < rows; ++row) {
    const i64 p1 = row % s.out[1], p0 = row / s.out[1] % s.out[0], n = row / (s.out[1] * s.out[0]);
    const T* dy = static_cast<const T*>(job.y) + n * s.y_n + p0 * s.y_d[0] + p1 * s.y_d[1] + first;
    const Range a = inside_taps(s, 0, p0), b = inside_taps(s, 1, p1);
    for (i64 r0 = a.low; r0 < a.high; ++r0) {
      for (i64 r1 = b.low; r1 < b.high; ++r1) {
        const i64 h0 = p0 * s.stride[0] + r0 * s.dilation[0] - s.pad[0];
        const i64 h1 = p1 * s.stride[1] + r1 * s.dilation[1] - s.pad[1];
        const T* x = static_cast<const T*>(job.x) + n * s.x_n + h0 * s.x_d[0] + h1 * s.x_d[1] + first;
        T* to = sums + (r0 * s.taps[1] + r1) * s.taps[2] * kChannelBlock;
        for (i64 r2 = 0; r2 < s.taps[2]; ++r2) add_row(s, x, dy, r2, channels, to + r2 * kChannelBlock);
      }
    }
  }
  for_taps(s.taps, [&](i64 r0, i64 r1, i64 r2) {
    T* dw = static_cast<T*>(job.result) + r0 * s.w_d[0] + r1 * s.w_d[1] + r2 * s.w_d[2];
    for (i64 c = 0; c < channels; ++c) {
      update(dw[(first + c) * s.w_k], sums[c], static_cast<T>(job.alpha), static_cast<T>(job.beta));
    }
    sums += kChannelBlock;
  });
}

template <class T>
struct Sizes {
  i64 values, taps;  // scratch: elements, then tap records
};

template <class T>
Sizes<T> scratch_sizes(const Depthwise& job) {
  const ConvShape& s = job.shape;
  const i64 count = s.taps[0] * s.taps[1] * s.taps[2];
  const bool weights = job.direction == ConvDirection::kBackwardWeights;
  if (job.channels_last) {
    return weights ? Sizes<T>{count * kChannelBlock, 0} : Sizes<T>{round_up(count * s.groups, 64), count};
  }
  if (job.direction == ConvDirection::kBackwardData) return {pad_y<T>(s).total * s.k, count * s.k};
  return {pad_x<T>(s).total + (weights ? s.k * count * kLanes<T> : 0), count};
}

template <class T>
void run(const Depthwise& job, i64 first, i64 end, T* scratch) {
  void* behind = scratch + round_up(scratch_sizes<T>(job).values, 64);
  Tap<T>* taps = static_cast<Tap<T>*>(behind);
  const bool weights = job.direction == ConvDirection::kBackwardWeights;
  if (job.channels_last && !weights) transpose_weights(job, scratch);
  for (i64 piece = first; piece < end; ++piece) {
    if (job.channels_last) {
      if (weights) {
        weights_block(job, piece, scratch);
      } else {
        pixel_row(job, piece, scratch, static_cast<Reach<T>*>(behind));
      }
    } else if (weights) {
      weights_channel(job, piece, scratch, taps);
    } else if (job.direction == ConvDirection::kForward) {
      forward_plane(job, piece, scratch, taps);
    } else {
      data_plane(job, piece, scratch, taps);
    }
  }
}

template <class T>
std::size_t scratch_bytes(const Depthwise& job) {
  const Sizes<T> sizes = scratch_sizes<T>(job);
  return static_cast<std::size_t>(round_up(sizes.values, 64)) * sizeof(T) +
         static_cast<std::size_t>(sizes.taps) * 16;
}

static_assert(sizeof(Tap<double>) == 16 && sizeof(Reach<double>) == 16);

}  // namespace

void depthwise(const Depthwise& job, i64 first, i64 end, void* scratch) {
  if (job.shape.dtype == DataType::kDouble) {
    run(job, first, end, static_cast<double*>(scratch));
  } else {
    run(job, first, end, static_cast<float*>(scratch));
  }
}

std::size_t depthwise_scratch(const Depthwise& job) {
  return job.shape.dtype == DataType::kDouble ? scratch_bytes<double>(job) : scratch_bytes<float>(job);
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
