// im2col and col2im for any layout, stride, dilation and padding.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/im2col.h"

#include "kernels/cpu/isa/isa_namespaces.h"
#include "kernels/cpu/isa/operand_cursor.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

/// dst[e] = src[e * stride] for low <= e < high, zero in the rest of [0, length); writes exactly `length` elements.
template <class T>
void copy_exactly(const T* src, i64 stride, int low, int high, int length, T* dst) {
  for (int e = 0; e < low; ++e) dst[e] = 0;
  if (stride == 1) {
    for (int e = low; e < high; ++e) dst[e] = src[e];
  } else {
    for (int e = low; e < high; ++e) dst[e] = src[e * stride];
  }
  for (int e = high; e < length; ++e) dst[e] = 0;
}

/// im2col: rows [first, end) of the matrix `columns`, of what.row_size elements each.
template <class T>
void store_rows(const Columns& what, i64 first, i64 end, T* columns) {
  constexpr int kChunk = 128;
  const Operand& view = what.view;
  const Axis& row_axis = what.lanes_are_rows ? view.lanes : view.depth;
  const Axis& axis = what.lanes_are_rows ? view.depth : view.lanes;
  const Level& inner = axis.level[kLevels - 1];
  Run runs[kChunk];
  for (i64 begin = 0; begin < what.row_size; begin += kChunk) {
    const int some = static_cast<int>(min_of<i64>(kChunk, what.row_size - begin));
    const int count = cut_runs(axis, begin, some, runs);
    Cursor cursor = seek(row_axis, first);
    for (i64 row = first; row < end; ++row, step(cursor, row_axis)) {
      const Line line = line_at(view, cursor);
      T* dst = columns + row * what.row_size + begin;
      for (int r = 0; r < count; ++r) {
        int low = 0, high = runs[r].length;
        visible(view, inner, line, runs[r], low, high);
        const T* src = static_cast<const T*>(view.data) + line.offset + runs[r].offset;
        copy_exactly(src, inner.stride, low, high, runs[r].length, dst);
        dst += runs[r].length;
      }
    }
  }
}

/// The output position in dimension d for which tap r reads input position h, or -1.
i64 output_at(const ConvShape& s, int d, i64 h, i64 r) {
  const i64 position = h + s.pad[d] - r * s.dilation[d];
  if (position < 0 || position % s.stride[d] != 0) return -1;
  return position / s.stride[d] < s.out[d] ? position / s.stride[d] : -1;
}

/// Calls visit(tap, pixel) for each pair of outer filter taps (r0, r1) and output row that contributes to the input row
/// (n, h0, h1); both are the index of the innermost position 0.
template <class Visit>
void for_outer_taps(const ConvShape& s, i64 n, i64 h0, i64 h1, const Visit& visit) {
  for (i64 r0 = 0; r0 < s.taps[0]; ++r0) {
    const i64 p0 = output_at(s, 0, h0, r0);
    if (p0 < 0) continue;
    for (i64 r1 = 0; r1 < s.taps[1]; ++r1) {
      const i64 p1 = output_at(s, 1, h1, r1);
      if (p1 < 0) continue;
      visit((r0 * s.taps[1] + r1) * s.taps[2], ((n * s.out[0] + p0) * s.out[1] + p1) * s.out[2]);
    }
  }
}

/// sum[i] = beta * dx[i * stride].
template <class S, class T>
void begin_sum(const S* dx, i64 stride, i64 count, T beta, T* sum) {
  for (i64 i = 0; i < count; ++i) sum[i] = beta != 0 ? beta * static_cast<T>(widen(dx[i * stride])) : 0;
}

/// dx[i * stride] = sum[i], rounded to S.
template <class S, class T>
void write(S* dx, i64 stride, i64 count, const T* sum) {
  for (i64 i = 0; i < count; ++i) dx[i * stride] = narrow<S>(sum[i]);
}

/// 1 for rows of dx that an earlier call has begun.
template <class T>
T beta_of(const ColumnSum& sum, i64 h1) {
  return h1 >= sum.more ? T{1} : static_cast<T>(sum.beta);
}

/// col2im of one row of one channel of dx; `columns` is (channels, taps) x pixels. total: s.in[2] elements.
template <class S, class T>
void sum_channel_row(const ColumnSum& sum, i64 row, T* total) {
  const ConvShape& s = sum.shape;
  const i64 rows = sum.high - sum.low, h1 = sum.low + row % rows, h0 = row / rows % s.in[0];
  const i64 c = row / (rows * s.in[0]) % s.c, n = row / (rows * s.in[0] * s.c);
  const i64 pixels = s.n * s.out[0] * s.out[1] * s.out[2];
  const i64 taps = s.taps[0] * s.taps[1] * s.taps[2], width = s.in[2];
  S* dx = static_cast<S*>(sum.dx) + n * s.x_n + c * s.x_c + h0 * s.x_d[0] + h1 * s.x_d[1];
  begin_sum(dx, s.x_d[2], width, beta_of<T>(sum, h1), total);
  for_outer_taps(s, n, h0, h1, [&](i64 tap, i64 pixel) {
    for (i64 r = 0; r < s.taps[2]; ++r) {
      const T* column = static_cast<const T*>(sum.columns) + (c * taps + tap + r) * pixels + pixel;
      const i64 base = r * s.dilation[2] - s.pad[2], step = s.stride[2];
      const i64 low = base < 0 ? (-base + step - 1) / step : 0;
      const i64 high = base >= width ? 0 : min_of(s.out[2], (width - 1 - base) / step + 1);
      if (step == 1) {
        for (i64 q = low; q < high; ++q) total[base + q] += column[q];
      } else {
        for (i64 q = low; q < high; ++q) total[base + q * step] += column[q];
      }
    }
  });
  write(dx, s.x_d[2], width, total);
}

/// total[i] += column[i] for i < length; reads and writes up to a vector of total past them.
template <class T>
void add_run(const T* column, i64 length, T* total) {
  i64 e = 0;
  for (; e + kLanes<T> <= length; e += kLanes<T>) store(total + e, load(total + e) + load(column + e));
  if (e < length) store(total + e, load(total + e) + load_lanes(column + e, 0, static_cast<int>(length - e)));
}

/// Elements of an NHWC dx that are summed at once: they stay in the first-level cache.
constexpr i64 kSumElements = 2048;

i64 pixels_at_once(const ConvShape& s) { return min_of(s.in[2], max_of<i64>(kSumElements / s.c, 1)); }

/// col2im of one row of all channels of an NHWC dx; `columns` is pixels x (taps, channels). Neighbouring taps of a
/// pixel are neighbours in dx, too, and are added as one run.
template <class S, class T>
void sum_row(const ColumnSum& sum, i64 row, T* total) {
  const ConvShape& s = sum.shape;
  const i64 rows = sum.high - sum.low, h1 = sum.low + row % rows, h0 = row / rows % s.in[0], n = row / (rows * s.in[0]);
  const i64 row_size = s.taps[0] * s.taps[1] * s.taps[2] * s.c, step = s.stride[2] * s.c;
  const bool contiguous = s.dilation[2] == 1;
  const i64 runs = contiguous ? 1 : s.taps[2], length = contiguous ? s.taps[2] * s.c : s.c;
  // Pixels at this distance add to different vectors, so that no load waits for the store before it.
  const i64 distance = (length + kLanes<T> - 1 + step - 1) / step;
  for (i64 begin = 0; begin < s.in[2]; begin += pixels_at_once(s)) {
    const i64 pixels = min_of(pixels_at_once(s), s.in[2] - begin), size = pixels * s.c;
    S* dx = static_cast<S*>(sum.dx) + n * s.x_n + h0 * s.x_d[0] + h1 * s.x_d[1] + begin * s.x_d[2];
    // A contiguous line of dx is one piece.
    const i64 pieces = s.x_c == 1 && s.x_d[2] == s.c ? 1 : pixels, piece = size / pieces;
    for (i64 i = 0; i < pieces; ++i) begin_sum(dx + i * s.x_d[2], s.x_c, piece, beta_of<T>(sum, h1), total + i * piece);
    for_outer_taps(s, n, h0, h1, [&](i64 tap, i64 pixel) {
      for (i64 r = 0; r < runs; ++r) {
        const T* columns = static_cast<const T*>(sum.columns) + pixel * row_size + (tap + r) * s.c;
        const i64 base = (r * s.dilation[2] - s.pad[2] - begin) * s.c;
        const i64 low = base + length > 0 ? 0 : -(base + length) / step + 1;
        const i64 high = base >= size ? 0 : min_of(s.out[2], (size - 1 - base) / step + 1);
        for (i64 first = low; first < min_of(low + distance, high); ++first)
          for (i64 q = first; q < high; q += distance) {
            const i64 start = base + q * step, from = max_of<i64>(-start, 0), end = min_of(length, size - start);
            add_run(columns + q * row_size + from, end - from, total + start + from);
          }
      }
    });
    for (i64 i = 0; i < pieces; ++i) write(dx + i * s.x_d[2], s.x_c, piece, total + i * piece);
  }
}

template <class S, class T>
void sum_rows(const ColumnSum& sum, i64 first, i64 end, T* scratch) {
  const bool is_nhwc = sum.shape.x_c <= sum.shape.x_d[kSpatial - 1];
  for (i64 row = first; row < end; ++row) {
    if (is_nhwc) {
      sum_row<S, T>(sum, row, scratch);
    } else {
      sum_channel_row<S, T>(sum, row, scratch);
    }
  }
}

void im2col(const Columns& what, i64 first, i64 end, void* columns) {
  switch (what.view.dtype) {
    case DataType::kDouble: store_rows(what, first, end, static_cast<double*>(columns)); break;
    case DataType::kFloat: store_rows(what, first, end, static_cast<float*>(columns)); break;
    default: store_rows(what, first, end, static_cast<std::uint16_t*>(columns)); break;
  }
}

void col2im(const ColumnSum& sum, i64 first, i64 end, void* scratch) {
  float* total = static_cast<float*>(scratch);
  switch (sum.shape.dtype) {
    case DataType::kDouble: sum_rows<double>(sum, first, end, static_cast<double*>(scratch)); break;
    case DataType::kHalf: sum_rows<Half>(sum, first, end, total); break;
    case DataType::kBFloat16: sum_rows<Bfloat16>(sum, first, end, total); break;
    default: sum_rows<float>(sum, first, end, total); break;
  }
}

std::size_t col2im_scratch(const ColumnSum& sum) {
  const i64 elements = max_of(pixels_at_once(sum.shape) * sum.shape.c + kLanes<float>, sum.shape.in[2]);
  return static_cast<std::size_t>(elements) * sizeof(double);
}

}  // namespace

template <>
const Im2colKernels& entry_points<Im2colKernels>() {
  static constexpr Im2colKernels kKernels{.im2col = im2col, .col2im = col2im, .col2im_scratch = col2im_scratch};
  return kKernels;
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
