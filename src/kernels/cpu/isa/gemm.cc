// Blocked, packed matrix multiplication. Depth is cut into blocks; for each block the rows of A are
// packed once, then panels of B are packed into the first-level cache one by one and multiplied by
// every panel of A. Partial sums between depth blocks are kept in C, or in scratch for 16-bit C.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/isa/entries.h"
#include "kernels/cpu/isa/pack.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

constexpr int kMaxVectors = 3;  // vectors in a row of a micro tile

template <class T>
constexpr int kMaxColumns = kMaxVectors* kLanes<T>;

/// rows[i][0 .. V * lanes) = alpha * A * B + beta * rows[i], with a and b packed panels.
template <class T, int R, int V>
void micro_tile(i64 depth, const T* a, const T* b, T* const* rows, T alpha, T beta) {
  constexpr int kN = kLanes<T>;
  Vec<T> sum[R][V] = {};
  for (i64 k = 0; k < depth; ++k) {
    Vec<T> bs[V];
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) bs[j] = load(b + j * kN);
#pragma GCC unroll 8
    for (int i = 0; i < R; ++i) {
      const Vec<T> ai = broadcast(a[i]);
#pragma GCC unroll 4
      for (int j = 0; j < V; ++j) sum[i][j] += ai * bs[j];
    }
    a += kRowsPerTile;
    b += V * kN;
  }
  const Vec<T> scale = broadcast(alpha), keep = broadcast(beta);
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) {
      T* c = rows[i] + j * kN;
      store(c, beta == 0 ? sum[i][j] * scale : sum[i][j] * scale + load(c) * keep);
    }
  }
}

template <class T>
using MicroTile = void (*)(i64, const T*, const T*, T* const*, T, T);

template <class T, int R>
constexpr MicroTile<T> micro_by_vectors(int vectors) {
  return vectors == 1 ? micro_tile<T, R, 1> : vectors == 2 ? micro_tile<T, R, 2> : micro_tile<T, R, 3>;
}

template <class T>
MicroTile<T> micro_for(int rows, int vectors) {
  switch (rows) {
    case 1:
      return micro_by_vectors<T, 1>(vectors);
    case 2:
      return micro_by_vectors<T, 2>(vectors);
    case 3:
      return micro_by_vectors<T, 3>(vectors);
#if defined(__AVX512F__)
    case 4:
      return micro_by_vectors<T, 4>(vectors);
    case 5:
      return micro_by_vectors<T, 5>(vectors);
    case 6:
      return micro_by_vectors<T, 6>(vectors);
    case 7:
      return micro_by_vectors<T, 7>(vectors);
#endif
    default:
      return micro_by_vectors<T, kRowsPerTile>(vectors);
  }
}

/// One row of C: c = alpha * value + beta * c over the runs of its columns.
template <class S, class T>
void write_row(S* c, i64 stride, const Run* runs, int count, const T* value, T alpha, T beta) {
  for (int r = 0; r < count; ++r) {
    S* out = c + runs[r].offset;
    const int length = runs[r].length;
    if constexpr (sizeof(S) == sizeof(T)) {
      if (stride == 1) {
        for (int e = 0; e < length; e += kLanes<T>) {
          const int some = min_of(length - e, kLanes<T>);
          Vec<T> v = load(value + e) * broadcast(alpha);
          if (beta != 0) v += load_lanes(out + e, 0, some) * broadcast(beta);
          store_lanes(out + e, v, some);
        }
        value += length;
        continue;
      }
    }
    for (int e = 0; e < length; ++e) {
      S& element = out[e * stride];
      T v = alpha * value[e];
      if (beta != 0) v += beta * static_cast<T>(widen(element));
      element = narrow<S>(v);
    }
    value += length;
  }
}

template <class T>
void write_row(const Output& c, i64 offset, const Run* runs, int count, const T* value, T alpha, T beta) {
  const i64 stride = c.columns.level[kLevels - 1].stride;
  if constexpr (sizeof(T) == sizeof(double)) {
    write_row(static_cast<double*>(c.data) + offset, stride, runs, count, value, alpha, beta);
  } else if (c.dtype == DataType::kHalf) {
    write_row(static_cast<Half*>(c.data) + offset, stride, runs, count, value, alpha, beta);
  } else if (c.dtype == DataType::kBFloat16) {
    write_row(static_cast<Bfloat16*>(c.data) + offset, stride, runs, count, value, alpha, beta);
  } else {
    write_row(static_cast<float*>(c.data) + offset, stride, runs, count, value, alpha, beta);
  }
}

i64 round_up(i64 value, i64 unit) { return (value + unit - 1) / unit * unit; }

bool keeps_sums_in_scratch(const Gemm& g) { return g.c.dtype == DataType::kHalf || g.c.dtype == DataType::kBFloat16; }

/// Scratch of one call, carved in order; with base null it only counts bytes.
template <class T>
struct Workplace {
  T *a, *b, *tile, *sums;
  PackScratch<T> pack;
  Run* column_runs;
  i64* row_offsets;
  i64 sums_stride;
  std::size_t bytes = 0;

  Workplace(const Gemm& g, i64 rows, i64 columns, char* base) {
    const int kc = static_cast<int>(g.depth_step());
    sums_stride = round_up(columns, kLanes<T>);
    pack.line_stride = round_up(kc, kLanes<T>) + kSlack<T>;
    a = take<T>(base, round_up(rows, kRowsPerTile) * kc + kSlack<T>);
    b = take<T>(base, kMaxColumns<T> * static_cast<i64>(kc) + kSlack<T>);
    tile = take<T>(base, kRowsPerTile * kMaxColumns<T> + kSlack<T>);
    pack.lines = take<T>(base, kBlock<T> * pack.line_stride);
    pack.runs = take<Run>(base, max_of(kc, kMaxColumns<T>) + 1);
    column_runs = take<Run>(base, kMaxColumns<T>);
    row_offsets = take<i64>(base, rows);
    sums = take<T>(base, keeps_sums_in_scratch(g) ? rows * sums_stride : 0);
  }

 private:
  template <class U>
  U* take(char* base, i64 count) {
    char* place = base == nullptr ? nullptr : base + bytes;
    bytes += static_cast<std::size_t>(round_up(count * static_cast<i64>(sizeof(U)), 64));
    return reinterpret_cast<U*>(place);
  }
};

/// The columns of one panel and where they lie in C.
struct Panel {
  i64 first;
  int columns, vectors, runs;
  bool contiguous;  // full vectors, one run, unit stride: tiles go straight to C
};

template <class T>
Panel panel_at(const Gemm& g, i64 first, i64 end, int vectors, Run* runs) {
  Panel panel{first, static_cast<int>(min_of<i64>(end - first, vectors * kLanes<T>)), vectors, 0, false};
  panel.runs = cut_runs(g.c.columns, first, panel.columns, runs);
  panel.contiguous =
      panel.runs == 1 && panel.columns == vectors * kLanes<T> && g.c.columns.level[kLevels - 1].stride == 1;
  return panel;
}

/// Multiplies every packed row panel by the packed column panel and adds the result to C.
template <class T>
void multiply_panel(const Gemm& g, i64 rows, int depth, const Panel& panel, T alpha, T beta, const Workplace<T>& work) {
  const i64 column = panel.contiguous ? work.column_runs[0].offset : 0;
  for (i64 i = 0; i < rows; i += kRowsPerTile) {
    const int some = static_cast<int>(min_of<i64>(kRowsPerTile, rows - i));
    const T* a = work.a + i * depth;
    T* out[kRowsPerTile];
    if (panel.contiguous) {
      for (int r = 0; r < some; ++r) {
        out[r] = static_cast<T*>(g.c.data) + work.row_offsets[i + r] + column;
        __builtin_prefetch(out[r]);
        __builtin_prefetch(out[r] + kLanes<T>);
        __builtin_prefetch(out[r] + 2 * kLanes<T>);
      }
      micro_for<T>(some, panel.vectors)(depth, a, work.b, out, alpha, beta);
      continue;
    }
    for (int r = 0; r < some; ++r) out[r] = work.tile + r * kMaxColumns<T>;
    micro_for<T>(some, panel.vectors)(depth, a, work.b, out, T{1}, T{0});
    for (int r = 0; r < some; ++r) {
      write_row(g.c, work.row_offsets[i + r], work.column_runs, panel.runs, out[r], alpha, beta);
    }
  }
}

/// As multiply_panel, into the sums kept in scratch.
template <class T>
void accumulate_panel(i64 rows, i64 n0, int depth, const Panel& panel, bool first, const Workplace<T>& work) {
  for (i64 i = 0; i < rows; i += kRowsPerTile) {
    const int some = static_cast<int>(min_of<i64>(kRowsPerTile, rows - i));
    T* out[kRowsPerTile];
    for (int r = 0; r < some; ++r) {
      out[r] = work.sums + (i + r) * work.sums_stride + (panel.first - n0);
    }
    micro_for<T>(some, panel.vectors)(depth, work.a + i * depth, work.b, out, T{1}, first ? T{0} : T{1});
  }
}

template <class T>
void write_sums(const Gemm& g, i64 rows, const Panel& panel, i64 n0, const Workplace<T>& work) {
  for (i64 i = 0; i < rows; ++i) {
    write_row(g.c, work.row_offsets[i], work.column_runs, panel.runs,
              work.sums + i * work.sums_stride + (panel.first - n0), static_cast<T>(g.alpha), static_cast<T>(g.beta));
  }
}

template <class T>
void run(const Gemm& g, i64 m0, i64 m1, i64 n0, i64 n1, char* scratch) {
  const i64 rows = m1 - m0;
  const Workplace<T> work(g, rows, n1 - n0, scratch);
  const bool in_scratch = keeps_sums_in_scratch(g);
  const int kc = static_cast<int>(g.depth_step());
  Cursor row = seek(g.c.rows, m0);
  for (i64 i = 0; i < rows; ++i, step(row, g.c.rows)) {
    work.row_offsets[i] = g.c.offset + row.offset;
  }
  const i64 vectors = (n1 - n0 + kLanes<T> - 1) / kLanes<T>;
  const i64 panels = (vectors + kMaxVectors - 1) / kMaxVectors;
  i64 k0 = 0;
  do {
    const int depth = static_cast<int>(min_of<i64>(kc, g.k - k0));
    const bool first = k0 == 0, last = k0 + depth >= g.k;
    pack<T>(g.a, m0, rows, kRowsPerTile, k0, depth, work.a, work.pack);
    for (i64 p = 0; p < panels; ++p) {
      const i64 from = vectors * p / panels, to = vectors * (p + 1) / panels;
      const Panel panel = panel_at<T>(g, n0 + from * kLanes<T>, n1, static_cast<int>(to - from), work.column_runs);
      pack<T>(g.b, panel.first, panel.columns, panel.vectors * kLanes<T>, k0, depth, work.b, work.pack);
      if (in_scratch) {
        accumulate_panel(rows, n0, depth, panel, first, work);
        if (last) write_sums(g, rows, panel, n0, work);
      } else {
        multiply_panel(g, rows, depth, panel, static_cast<T>(g.alpha), first ? static_cast<T>(g.beta) : T{1}, work);
      }
    }
    k0 += depth;
  } while (k0 < g.k);
}

}  // namespace

TileShape gemm_tile(DataType type) {
  const int lanes = type == DataType::kDouble ? kLanes<double> : kLanes<float>;
  return {kRowsPerTile, kMaxVectors * lanes, lanes};
}

std::size_t gemm_scratch(const Gemm& g, i64 rows, i64 columns) {
  return g.c.dtype == DataType::kDouble ? Workplace<double>(g, rows, columns, nullptr).bytes
                                        : Workplace<float>(g, rows, columns, nullptr).bytes;
}

void gemm(const Gemm& g, i64 m0, i64 m1, i64 n0, i64 n1, void* scratch) {
  if (g.c.dtype == DataType::kDouble) {
    run<double>(g, m0, m1, n0, n1, static_cast<char*>(scratch));
  } else {
    run<float>(g, m0, m1, n0, n1, static_cast<char*>(scratch));
  }
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
