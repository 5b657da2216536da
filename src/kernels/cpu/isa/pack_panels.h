// Packing of implicit operands into panels: element (lane, depth) goes to panel[depth * width + lane].
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/operand_runs.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// Elements that packing may write past the end of a panel or a line.
template <class T>
inline constexpr int kSlack = kLanes<T>;

/// Lines that are transposed together.
template <class T>
inline constexpr int kBlock = kRowsPerTile < kLanes<T> ? kRowsPerTile : kLanes<T>;

/// dst[e] = src[e * stride] for low <= e < high, zero in the rest of [0, length); may write kSlack more elements.
template <class T, class S>
static inline void copy_run(const S* src, i64 stride, int low, int high, int length, T* dst) {
  constexpr int kN = kLanes<T>;
  if constexpr (sizeof(T) == sizeof(S)) {
    if (stride == 1) {
      for (int e = 0; e < length; e += kN) {
        const int from = max_of(low - e, 0), to = min_of(high - e, kN);
        if (from == 0 && to == kN) {
          store(dst + e, load(src + e));
        } else if (from >= to) {
          store(dst + e, Vec<T>{});
        } else {
          store(dst + e, load_lanes(src + e, from, to));
        }
      }
      return;
    }
  }
  for (int e = 0; e < low; ++e) dst[e] = 0;
  for (int e = low; e < high; ++e) dst[e] = widen(src[e * stride]);
  for (int e = high; e < length; ++e) dst[e] = 0;
}

/// fetch() for stride 1 or 2, by masked loads.
template <int kStride, class T>
static inline void fetch_masked(const Operand& operand, const Level& inner, const Line& line, const Run* runs,
                                int count, T* dst) {
  constexpr int kN = kLanes<T>;
  const T* data = static_cast<const T*>(operand.data) + line.offset;
  for (int r = 0; r < count; ++r) {
    const Run& run = runs[r];
    const T* src = data + run.offset;
    int low = 0, high = run.length;
    visible(operand, inner, line, run, low, high);
    store(dst, load_steps<kStride>(src, min_of(low, kN), min_of(high, kN)));
    for (int e = kN; e < run.length; e += kN) {
      const int from = max_of(low - e, 0), to = max_of(min_of(high - e, kN), 0);
      store(dst + e, load_steps<kStride>(src + e * kStride, min_of(from, kN), to));
    }
    dst += run.length;
  }
}

/// Copies the positions of `runs` on one line to dst, zeros out of bounds.
template <class T, class S>
static inline void fetch(const Operand& operand, const Level& inner, bool bounded, const Line& line, const Run* runs,
                         int count, T* dst) {
  if constexpr (kMaskedLoads && sizeof(T) == sizeof(S)) {
    if (inner.stride == 1) return fetch_masked<1>(operand, inner, line, runs, count, dst);
    if (inner.stride == 2) return fetch_masked<2>(operand, inner, line, runs, count, dst);
  }
  const S* data = static_cast<const S*>(operand.data) + line.offset;
  for (int r = 0; r < count; ++r) {
    const Run& run = runs[r];
    int low = 0, high = run.length;
    if (bounded) visible(operand, inner, line, run, low, high);
    copy_run<T, S>(data + run.offset, inner.stride, low, high, run.length, dst);
    dst += run.length;
  }
}

/// Scratch memory of one packing call.
template <class T>
struct PackScratch {
  Run* runs;  // one more than the depths of a block
  T* lines;   // kBlock lines of line_stride elements
  i64 line_stride;
};

/// Packs one panel whose lanes are cheaper to read than its depths: depth by depth.
template <class T, class S>
static inline void pack_across(const Operand& operand, i64 lane0, int lanes, int width, i64 depth0, int depths,
                               T* panel, const PackScratch<T>& scratch) {
  const Level& inner = operand.lanes.level[kLevels - 1];
  const int count = cut_runs(operand.lanes, lane0, lanes, scratch.runs);
  const bool bounded = is_bounded(operand);
  Cursor cursor = seek(operand.depth, depth0);
  const bool plain = sizeof(T) == sizeof(S) && count == 1 && !bounded && inner.stride == 1 && lanes == width;
  for (int k = 0; k < depths; ++k) {
    const Line line = line_at(operand, cursor);
    if (plain) {
      const T* src = static_cast<const T*>(operand.data) + line.offset + scratch.runs[0].offset;
      for (int i = 0; i < width; i += kBlock<T>) {
        store<T, kBlock<T>>(panel + i, load<T, kBlock<T>>(src + i));
      }
    } else {
      fetch<T, S>(operand, inner, bounded, line, scratch.runs, count, panel);
      for (int i = lanes; i < width; ++i) panel[i] = 0;
    }
    step(cursor, operand.depth);
    panel += width;
  }
}

/// Packs one panel whose depths are cheaper to read: reads kBlock lanes along the depth and transposes them.
template <class T, class S>
static inline void pack_along(const Operand& operand, i64 lane0, int lanes, int width, const Run* runs, int count,
                              int depths, T* panel, const PackScratch<T>& scratch) {
  constexpr int kB = kBlock<T>;
  const Level& inner = operand.depth.level[kLevels - 1];
  const bool bounded = is_bounded(operand);
  const bool plain = sizeof(T) == sizeof(S) && count == 1 && !bounded && inner.stride == 1;
  Cursor cursor = seek(operand.lanes, lane0);
  for (int group = 0; group < width; group += kB) {
    const T* source[kB];
    for (int t = 0; t < kB; ++t) {
      T* buffer = scratch.lines + t * scratch.line_stride;
      source[t] = buffer;
      if (group + t >= lanes) {
        for (int k = 0; k < depths; ++k) buffer[k] = 0;
        continue;
      }
      const Line line = line_at(operand, cursor);
      if (plain) {
        source[t] = static_cast<const T*>(operand.data) + line.offset + runs[0].offset;
      } else {
        fetch<T, S>(operand, inner, bounded, line, runs, count, buffer);
      }
      step(cursor, operand.lanes);
    }
    int k = 0;
    for (; k + kB <= depths; k += kB) {
      typename VecType<T, kB>::type rows[kB];
      for (int t = 0; t < kB; ++t) rows[t] = load<T, kB>(source[t] + k);
      transpose(rows);
      for (int t = 0; t < kB; ++t) store<T, kB>(panel + (k + t) * width + group, rows[t]);
    }
    for (; k < depths; ++k) {
      for (int t = 0; t < kB; ++t) panel[k * width + group + t] = source[t][k];
    }
  }
}

/// Rough cost per element of reading along an axis: long runs of stride 1 (or 2, with masked loads) are cheap.
static inline double run_cost(const Axis& axis) {
  const Level& inner = axis.level[kLevels - 1];
  const bool quick = inner.stride == 1 || (kMaskedLoads && inner.stride == 2);
  return quick ? static_cast<double>(inner.stride) * 8.0 / static_cast<double>(inner.size) : 2.0;
}

/// Packs lanes [lane0, lane0 + lanes) x depths [depth0, depth0 + depths) into consecutive panels of `width` lanes;
/// missing lanes of the last panel are zero.
template <class T, class S>
static void pack_panels(const Operand& operand, i64 lane0, i64 lanes, int width, i64 depth0, int depths, T* panels,
                        const PackScratch<T>& scratch) {
  const bool across = run_cost(operand.lanes) <= run_cost(operand.depth);
  int count = 0;
  if (!across) count = cut_runs(operand.depth, depth0, depths, scratch.runs);
  for (i64 i = 0; i < lanes; i += width) {
    const int some = static_cast<int>(min_of<i64>(width, lanes - i));
    if (across) {
      pack_across<T, S>(operand, lane0 + i, some, width, depth0, depths, panels, scratch);
    } else {
      pack_along<T, S>(operand, lane0 + i, some, width, scratch.runs, count, depths, panels, scratch);
    }
    panels += static_cast<i64>(width) * depths;
  }
}

/// pack_panels() for the operand's element type.
template <class T>
static void pack(const Operand& operand, i64 lane0, i64 lanes, int width, i64 depth0, int depths, T* panels,
                 const PackScratch<T>& scratch) {
  if constexpr (sizeof(T) == sizeof(double)) {
    pack_panels<T, double>(operand, lane0, lanes, width, depth0, depths, panels, scratch);
  } else if (operand.dtype == DataType::kHalf) {
    pack_panels<T, Half>(operand, lane0, lanes, width, depth0, depths, panels, scratch);
  } else if (operand.dtype == DataType::kBFloat16) {
    pack_panels<T, Bfloat16>(operand, lane0, lanes, width, depth0, depths, panels, scratch);
  } else {
    pack_panels<T, float>(operand, lane0, lanes, width, depth0, depths, panels, scratch);
  }
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
