// Pooling of planes of one channel that are contiguous in memory (NCHW) and their gradient: elements of kPlanes planes
// are transposed, so that a vector holds the same element of each; windows are reduced, or gradients added, in these
// vectors, and results are transposed back. Large planes are computed in bands of lines.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/pooling_forward.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

inline constexpr i64 kBandElements = 2048;  // of each plane: 128 KiB of floats

/// The planes of a line; those after the last are its copies.
struct PlaneGroup {
  PlaneGroup(const Pooling& p, i64 line) : n(min_of(kPlanes, p.planes - line * kPlanes)) {
    image[0] = line * kPlanes / p.channels;
    channel[0] = line * kPlanes % p.channels;
    for (i64 i = 1; i < kPlanes; ++i) {
      const bool next = i < n, wraps = next && channel[i - 1] + 1 == p.channels;
      image[i] = image[i - 1] + (wraps ? 1 : 0);
      channel[i] = wraps ? 0 : channel[i - 1] + (next ? 1 : 0);
    }
  }
  i64 offset(const WindowStrides& s, i64 i) const { return image[i] * s.image + channel[i] * s.channel; }

  i64 n, image[kPlanes], channel[kPlanes];
};

/// Elements of one type of the planes of a group.
struct PlanePointers {
  PlanePointers(const PlaneGroup& group, const void* data, const WindowStrides& s, i64 bytes) {
    for (i64 i = 0; i < kPlanes; ++i) of[i] = static_cast<const unsigned char*>(data) + group.offset(s, i) * bytes;
  }
  const unsigned char* of[kPlanes];
};

/// How `count` elements of a plane become a vector: of tensors and of indices.
template <class S, class T>
struct LoadElements {
  using Lane = T;
  [[gnu::always_inline]] static Vec<T> load(const unsigned char* plane, i64 i, i64 count) {
    return load_elements<S, T>(reinterpret_cast<const S*>(plane) + i, 1, count);
  }
};
template <class U, class T>
struct LoadIndices {
  using Lane = Int<T>;
  [[gnu::always_inline]] static Ints<T> load(const unsigned char* plane, i64 i, i64 count) {
    return load_indices<U, T>(plane + i * static_cast<i64>(sizeof(U)), 1, count);
  }
};

/// to[element][plane] for the `count` elements of a vector.
template <class L>
[[gnu::always_inline]] inline void block_to_lanes(const PlanePointers& planes, i64 i, i64 count, typename L::Lane* to) {
  constexpr i64 kStep = kLanes<typename L::Lane>;
#pragma GCC unroll 4
  for (i64 v = 0; v < kPlanes; v += kStep) {
    Vec<typename L::Lane> rows[kStep];
#pragma GCC unroll 16
    for (i64 k = 0; k < kStep; ++k) rows[k] = L::load(planes.of[v + k], i, count);
    transpose(rows);
#pragma GCC unroll 16
    for (i64 k = 0; k < kStep; ++k) store(to + k * kPlanes + v, rows[k]);
  }
}
/// The same for n elements from number `first` on. Up to a vector of elements after them may be written.
template <class L>
void planes_to_lanes(const PlanePointers& planes, i64 first, i64 n, typename L::Lane* to) {
  constexpr i64 kStep = kLanes<typename L::Lane>;
  if (n < kStep) return block_to_lanes<L>(planes, first, n, to);
  for (i64 i = 0; i < n; i += kStep) {
    const i64 at = min_of(i, n - kStep);  // the last vector overlaps the one before
    block_to_lanes<L>(planes, first + at, kStep, to + at * kPlanes);
  }
}

template <class T>
[[gnu::always_inline]] inline void block_to_planes(const T* from, i64 count, T* to, i64 pitch) {
  constexpr i64 kStep = kLanes<T>;
#pragma GCC unroll 4
  for (i64 v = 0; v < kPlanes; v += kStep) {
    Vec<T> rows[kStep];
#pragma GCC unroll 16
    for (i64 k = 0; k < kStep; ++k) rows[k] = load(from + k * kPlanes + v);
    transpose(rows);
#pragma GCC unroll 16
    for (i64 k = 0; k < kStep; ++k)
      __builtin_memcpy(to + (v + k) * pitch, &rows[k], static_cast<std::size_t>(count) * sizeof(T));
  }
}
/// to[plane * n + element] of from[element][plane], which is read up to a whole vector of elements.
template <class T>
void lanes_to_planes(const T* from, i64 n, T* to) {
  constexpr i64 kStep = kLanes<T>;
  if (n < kStep) return block_to_planes(from, n, to, n);
  for (i64 i = 0; i < n; i += kStep) {
    const i64 at = min_of(i, n - kStep);
    block_to_planes(from + at * kPlanes, kStep, to + at, n);
  }
}

/// Lines of depths [depths.first, depths.end) and heights [heights.first, heights.end): all heights unless there is one
/// depth.
struct Band {
  Range depths, heights;
  i64 lines() const { return depths.count() * heights.count(); }
};
/// How many depths and heights a band has at most.
struct BandShape {
  i64 depths, heights;
};

template <class Body>
void each_band(const BandShape& shape, i64 depths, i64 heights, const Body& body) {
  for (i64 d = 0; d < depths; d += shape.depths)
    for (i64 h = 0; h < heights; h += shape.heights)
      body(Band{{d, min_of(d + shape.depths, depths)}, {h, min_of(h + shape.heights, heights)}});
}

template <class S>
class PooledPlanes {
 public:
  using T = Arithmetic<S>;
  static constexpr i64 kStep = kLanes<T>, kVectors = kPlanes / kStep;

 protected:
  /// `elements` of a band of x or dx and `windows` of one of y or dy.
  PooledPlanes(const Pooling& p, Scratch& scratch, i64 elements, i64 windows, i64 results, bool numbers)
      : p_(p),
        elements_(room<T>(scratch, elements)),
        values_(room<T>(scratch, windows)),
        numbers_(numbers ? room<Int<T>>(scratch, windows) : nullptr),
        rows_(scratch.take<T>(kPlanes * results)) {}

  /// The elements of the lines that windows of a band cover.
  static Band covered(const WindowDim (&k)[3], const Band& windows) {
    return {covered(k[0], windows.depths), covered(k[1], windows.heights)};
  }
  static i64 covered(const WindowDim& k, i64 windows) { return min_of(k.size, (windows - 1) * k.stride + k.length); }

  /// Lines of `width` elements of each plane, to a buffer.
  template <class L>
  static void transpose_lines(const PlanePointers& planes, const Band& band, const WindowStrides& s, i64 width,
                              typename L::Lane* to) {
    const i64 n = band.heights.count() * width;
    for (i64 d = band.depths.first; d < band.depths.end; ++d, to += n * kPlanes)
      planes_to_lanes<L>(planes, d * s.dims[0] + band.heights.first * s.dims[1], n, to);
  }
  PlanePointers elements_of_planes(const PlaneGroup& group) const {
    return {group, p_.in, p_.in_at, static_cast<i64>(sizeof(S))};
  }

  /// Stores the n results [element][plane] of a band that begins `start` elements after the planes.
  void write(const PlaneGroup& group, const T* results, i64 n, i64 start) {
    lanes_to_planes(results, n, rows_);
    const WindowStrides& s = p_.out_at;
    for (i64 i = 0, planes; i < group.n; i += planes) {
      const bool together = s.channel == n;  // whole planes that follow each other
      planes = min_of(group.n - i, together && s.image == p_.channels * n ? kPlanes : p_.channels - group.channel[i]);
      Run run;
      run.in[0] = rows_ + i * n;
      run.out[0] = static_cast<S*>(p_.out) + group.offset(s, i) + start;
      run.n = together ? planes * n : n;
      run.rows = together ? 1 : planes;
      run.in_row_bytes[0] = n * static_cast<i64>(sizeof(T));
      run.out_row_bytes[0] = s.channel * static_cast<i64>(sizeof(S));
      map<T, Types<T>, Types<S>>(Same<T>{}, run, Blend{p_.scale, p_.keep, p_.non_temporal});
    }
  }

  const Pooling& p_;
  T *const elements_, *const values_;
  Int<T>* const numbers_;
  T* const rows_;

 private:
  template <class U>
  static U* room(Scratch& scratch, i64 elements) {
    return scratch.take<U>((elements + kStep) * kPlanes);
  }
  static Range covered(const WindowDim& k, Range windows) {
    const i64 first = min_of(elements_of(k, windows.first).first, k.size);
    return {first, max_of(elements_of(k, windows.end - 1).end, first)};
  }
};

template <class Planes>
void pooling_planes(const Pooling& p, i64 first, i64 end, void* memory) {
  Scratch scratch(memory);
  Planes planes(p, scratch);
  for (i64 line = first; line < end; ++line) planes.line(line);
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
