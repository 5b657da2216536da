// Zero-padded copies of input planes in which each filter tap of an output row is a contiguous row.
// SPDX-License-Identifier: MIT
#pragma once
#include "base/math.h"
#include "kernels/cpu/conv_gemm.h"
#include "kernels/cpu/vec.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// Layout of the copy: element e of a dimension is source element e - before. Part j of a row has the columns of
/// residue j modulo `split`.
struct Padded {
  i64 before[kSpatial], size[kSpatial];  // size in source elements; last dimension: of a part
  i64 split, part, row, slab, total;     // elements per part, row, slab of rows, in total
};

template <class T>
static inline Padded finish(Padded p) {
  p.part = round_up(p.size[2], kLanes<T>) + kLanes<T>;
  p.row = p.part * p.split;
  p.slab = p.row * p.size[1];
  p.total = p.slab * p.size[0];
  return p;
}

/// Layout for forward and backward weights: output o with tap r reads o * stride + r * dilation.
template <class T>
static inline Padded pad_x(const ConvShape& s) {
  Padded p{};
  for (int d = 0; d < kSpatial; ++d) {
    p.before[d] = s.pad[d];
    p.size[d] = (s.out[d] - 1) * s.stride[d] + (s.taps[d] - 1) * s.dilation[d] + 1;
  }
  p.split = s.stride[2];
  p.size[2] = round_up(s.out[2], kLanes<T>) + (s.taps[2] - 1) * s.dilation[2] / p.split;
  return finish<T>(p);
}

/// Copies one row; zero outside the source.
template <class T>
static inline void pad_row(const Padded& p, const T* src, i64 width, T* dst) {
  for (i64 j = 0; j < p.split; ++j) {
    T* part = dst + j * p.part;
    const i64 base = j - p.before[2];  // element i of the part is source element base + i * split
    i64 low = base >= 0 ? 0 : (-base + p.split - 1) / p.split;
    i64 high = base >= width ? 0 : (width - 1 - base) / p.split + 1;
    low = min_of(low, p.part);
    high = max_of(min_of(high, p.part), low);
    for (i64 i = 0; i < low; ++i) part[i] = 0;
    if (p.split == 1) {
      for (i64 i = low; i < high; ++i) part[i] = src[base + i];
    } else {
      for (i64 i = low; i < high; ++i) part[i] = src[base + i * p.split];
    }
    for (i64 i = high; i < p.part; ++i) part[i] = 0;
  }
}

template <class T>
static inline void pad_plane(const Padded& p, const T* src, const i64 (&size)[kSpatial], const i64 (&stride)[kSpatial],
                             T* dst) {
  for (i64 e0 = 0; e0 < p.size[0]; ++e0) {
    for (i64 e1 = 0; e1 < p.size[1]; ++e1, dst += p.row) {
      const i64 i0 = e0 - p.before[0], i1 = e1 - p.before[1];
      const bool inside = i0 >= 0 && i0 < size[0] && i1 >= 0 && i1 < size[1];
      pad_row(p, inside ? src + i0 * stride[0] + i1 * stride[1] : src, inside ? size[2] : 0, dst);
    }
  }
}

/// Offset of tap (r0, r1, r2) of the first output in the copy of pad_x.
static inline i64 x_tap(const ConvShape& s, const Padded& p, i64 r0, i64 r1, i64 r2) {
  const i64 column = r2 * s.dilation[2];
  return r0 * s.dilation[0] * p.slab + r1 * s.dilation[1] * p.row + column % p.split * p.part + column / p.split;
}

template <class Visit>
static inline void for_taps(const i64 (&taps)[kSpatial], const Visit& visit) {
  for (i64 r0 = 0; r0 < taps[0]; ++r0) {
    for (i64 r1 = 0; r1 < taps[1]; ++r1) {
      for (i64 r2 = 0; r2 < taps[2]; ++r2) visit(r0, r1, r2);
    }
  }
}

template <class T>
static inline void write_vector(T* out, i64 stride, i64 count, Vec<T> v, T alpha, T beta) {
  const int lanes = static_cast<int>(min_of<i64>(count, kLanes<T>));
  v *= broadcast(alpha);
  if (stride == 1) {
    if (beta != 0) v += broadcast(beta) * load_lanes(out, 0, lanes);
    store_lanes(out, v, lanes);
    return;
  }
  for (int i = 0; i < lanes; ++i) {
    T& element = out[i * stride];
    element = beta != 0 ? v[i] + beta * element : v[i];
  }
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
