// Depthwise and grouped convolution, NCHW: a tile is a vector of columns times a few rows. Lane masks per column of
// taps clear elements outside the source, so that no padded copy is needed.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/isa/depthwise_paths.h"

#include "kernels/cpu/caches.h"
#include "kernels/cpu/isa/stencil_tile.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

constexpr i64 kGroupBytes = 48 << 10;    // the planes of a call: a block of rows of all of them, or their sums
constexpr i64 kPlanesBytes = 256 << 10;  // the planes of a call: all rows
constexpr i64 kCachedBytes = 1 << 20;    // tensors up to this size are in the cache: no prefetch
constexpr i64 kShortBytes = 1 << 10;     // planes up to this size are one stream for hardware: no prefetch
constexpr i64 kLongBytes = 12 << 10;     // longer planes are streamed one by one
constexpr i64 kMostPlanes = 256;

/// Memory access of a tile: contiguous, source columns with stride 2, results of two phases interleaved, any strides.
enum class Mode { kDense, kHalved, kDoubled, kAny };
constexpr int most_rows(Mode mode) { return mode == Mode::kAny ? 1 : kMostRows; }
constexpr int source_step(Mode mode) { return mode == Mode::kAny ? 0 : mode == Mode::kHalved ? 2 : 1; }

/// Common arguments of the tiles of a block of rows; distances in elements.
template <class T>
struct Block {
  const TapColumn* columns[2];  // per phase of dimension 2
  i64 count[2];
  i64 pitch, out_pitch;                    // between source lines, between result rows
  i64 step, out_step;                      // between source columns, between result columns
  i64 w_step;                              // between the taps of a column
  i64 planes, source_plane, weight_plane;  // summed planes: number, strides of source and weights
  i64 result_plane, result_weight;         // between result planes: strides of result and weights
  T alpha, beta;
};

/// Stores `count` contiguous results per row, scaled.
template <class T, int kRows>
[[gnu::always_inline]] inline void store_rows(const Block<T>& b, T* out, i64 count, const Vec<T> (&rows)[kRows]) {
  if (count <= 0) return;
  const Writer<T> writer(static_cast<int>(min_of<i64>(count, kLanes<T>)));
  const i64 pitch = b.out_pitch;
  if (b.alpha == 1 && b.beta == 0) {
#pragma GCC unroll 16
    for (int j = 0; j < kRows; ++j) writer.store(out + j * pitch, rows[j]);
    return;
  }
#pragma GCC unroll 16
  for (int j = 0; j < kRows; ++j) {
    Vec<T> v = rows[j] * broadcast(b.alpha);
    if (b.beta != 0) v += broadcast(b.beta) * writer.load(out + j * pitch);
    writer.store(out + j * pitch, v);
  }
}

/// The same with a stride between results.
template <class T, int kRows>
void store_strided_rows(const Block<T>& b, T* out, i64 count, const Vec<T> (&rows)[kRows]) {
  for (int j = 0; j < kRows; ++j) {
    for (int i = 0; i < min_of<i64>(count, kLanes<T>); ++i) {
      T& element = out[j * b.out_pitch + i * b.out_step];
      const T v = b.alpha * rows[j][i];
      element = b.beta != 0 ? v + b.beta * element : v;
    }
  }
}

template <class V, std::size_t... I>
[[gnu::always_inline]] inline void interleave(V& a, V& b, std::index_sequence<I...>) {
  constexpr int kN = sizeof...(I);
  const V low = __builtin_shufflevector(a, b, static_cast<int>(I / 2 + I % 2 * kN)...);
  const V high = __builtin_shufflevector(a, b, static_cast<int>(kN / 2 + I / 2 + I % 2 * kN)...);
  a = low;
  b = high;
}

/// Result planes per tile: with 32 registers two planes share the loads.
template <class T>
inline constexpr int kMostResults = kRegisters == 32 && sizeof(T) == sizeof(float) ? 2 : 1;

/// Computes kRows x `count` results of kResults planes at `out` from the source at x.
template <class T, Mode kMode, int kRows, int kResults, bool kInside>
void tile(const Block<T>& b, const T* x, const Span* spans, i64 taps, const T* w, T* out, i64 count) {
  using V = Vec<T>;
  constexpr int kN = kLanes<T>, kResidues = kMode == Mode::kDoubled ? 2 : 1;
  V sum[kResidues][kResults][kRows] = {};
  for (i64 m = 0; m < b.planes; ++m, x += b.source_plane, w += b.weight_plane) {
#pragma GCC unroll 2
    for (int f = 0; f < kResidues; ++f) {
      for (const TapColumn* c = b.columns[f]; c < b.columns[f] + b.count[f]; ++c) {
        const T* source = x + c->source;
        const T* weights = w + c->weight;
        const Reader<T, source_step(kMode)> read(spans[f * taps + c->across], b.step);
        with_taps(
            c->taps, [&](auto n) __attribute__((always_inline)) {
              const auto weight = [&](int r, int t) { return broadcast(weights[r * b.result_weight + t * b.w_step]); };
              add_taps<n.value, kRows, kInside ? 0 : kAllLines, kResults>(source, b.pitch, c->lines, read, weight,
                                                                          sum[f]);
            });
      }
    }
  }
#pragma GCC unroll 2
  for (int r = 0; r < kResults; ++r, out += b.result_plane) {
    if constexpr (kMode == Mode::kAny) {
      store_strided_rows<T, kRows>(b, out, count, sum[0][r]);
    } else if constexpr (kMode == Mode::kDoubled) {
#pragma GCC unroll 16
      for (int j = 0; j < kRows; ++j) interleave(sum[0][r][j], sum[1][r][j], std::make_index_sequence<kN>{});
      store_rows<T, kRows>(b, out, count, sum[0][r]);
      store_rows<T, kRows>(b, out + kN, count - kN, sum[1][r]);
    } else {
      store_rows<T, kRows>(b, out, count, sum[0][r]);
    }
  }
}

/// Adds the products of kRows x `count` elements of dy with x to the sums of the taps.
template <class T, Mode kMode, int kRows>
void weights_tile(const Block<T>& b, const T* x, const Span* spans, const T* dy, i64 count, Vec<T>* sums) {
  using V = Vec<T>;
  const Writer<T> lanes(static_cast<int>(min_of<i64>(count, kLanes<T>)));
  V rows[kRows];
#pragma GCC unroll 16
  for (int j = 0; j < kRows; ++j) rows[j] = lanes.load(dy + j * b.out_pitch);
  for (const TapColumn* c = b.columns[0]; c < b.columns[0] + b.count[0]; ++c) {
    const T* source = x + c->source;
    const Reader<T, source_step(kMode)> read(spans[c->across], b.step);
    V* const tap_sums = sums + c->weight;
    with_taps(
        c->taps, [&](auto n) __attribute__((always_inline)) {
          V sum[n.value];
#pragma GCC unroll 16
          for (int t = 0; t < n.value; ++t) sum[t] = tap_sums[t * b.w_step];
          add_rows<n.value, kRows, kAllLines>(source, b.pitch, c->lines, read, rows, sum);
#pragma GCC unroll 16
          for (int t = 0; t < n.value; ++t) tap_sums[t * b.w_step] = sum[t];
        });
  }
}

/// Calls `use` with the mode and the rows of a tile as constants.
template <Mode kMode, class Use>
void with_mode_rows(i64 rows, const Use& use) {
  with_rows<most_rows(kMode)>(rows, [&](auto count) { use(std::integral_constant<Mode, kMode>{}, count); });
}
template <class Use>
void with_tile(Mode mode, i64 rows, const Use& use) {
  switch (mode) {
    case Mode::kDense: return with_mode_rows<Mode::kDense>(rows, use);
    case Mode::kHalved: return with_mode_rows<Mode::kHalved>(rows, use);
    case Mode::kDoubled: return with_mode_rows<Mode::kDoubled>(rows, use);
    default: return with_mode_rows<Mode::kAny>(rows, use);
  }
}

template <class T>
class Planes {
  static constexpr int kN = kLanes<T>;

 public:
  Planes(const Depthwise& job, void* scratch) : job_(job), s_(job.shape), direction_(job.direction) {
    const bool data = direction_ == ConvDirection::kBackwardData;
    taps_ = s_.taps[0] * s_.taps[1] * s_.taps[2];
    sums_plane_ = (taps_ + kN - 1) / kN * kN;
    result_planes_ = data ? s_.c : s_.k;
    source_strides_ = data ? s_.y_d : s_.x_d;
    result_strides_ = data ? s_.x_d : s_.y_d;
    for (int d = 0; d < kSpatial; ++d) source_.size[d] = data ? s_.out[d] : s_.in[d];
    source_.step[0] = source_strides_[0];
    source_.step[1] = source_strides_[1];
    const i64 residues = pass_count(s_, direction_, 2);
    if (data) {
      mode_ = s_.stride[2] == 1 ? Mode::kDense : s_.stride[2] == 2 && residues == 2 ? Mode::kDoubled : Mode::kAny;
    } else {
      mode_ = s_.stride[2] == 1 ? Mode::kDense : s_.stride[2] == 2 ? Mode::kHalved : Mode::kAny;
    }
    phases_per_tile_ = mode_ == Mode::kDoubled ? 2 : 1;
    column_vectors_ = ceil_div(pass_of(s_, direction_, 2, 0).count, kN);
    copies_weights_ =
        s_.w_d[2] != 1 || s_.w_d[1] != s_.taps[2] || (s_.taps[0] > 1 && s_.w_d[0] != s_.taps[1] * s_.taps[2]);
    lay_out(static_cast<char*>(scratch));
    block_.alpha = static_cast<T>(job.alpha);
    block_.beta = static_cast<T>(job.beta);
    w_k_ = copies_weights_ ? s_.c * taps_ : s_.w_k;
    w_c_ = copies_weights_ ? taps_ : s_.w_c;
    block_.planes = data ? s_.k : s_.c;
    block_.result_plane = data ? s_.x_c : s_.y_k;
    block_.result_weight = data ? w_c_ : w_k_;
    block_.source_plane = data ? s_.y_k : s_.x_c;
    block_.weight_plane = data ? w_k_ : w_c_;
  }

  std::size_t bytes() const { return bytes_; }

  /// Pieces [first, end): groups of an image; backward weights: groups.
  void run(i64 first, i64 end) {
    const bool weights = direction_ == ConvDirection::kBackwardWeights;
    for (i64 p = first; p < end; p += groups_per_call_) {
      const i64 groups = min_of(groups_per_call_, end - p);
      if (weights) {
        for (i64 i = 0; i < groups * s_.k * s_.c * sums_plane_; ++i) sums_[i] = Vec<T>{};
        for (i64 n = 0; n < s_.n; ++n) passes(n * s_.groups + p, groups);
        write(p, groups);
      } else {
        if (copies_weights_) copy_weights(p, groups);
        passes(p, groups);
      }
    }
  }

 private:
  void lay_out(char* scratch) {
    const bool weights = direction_ == ConvDirection::kBackwardWeights;
    const i64 x = s_.c * s_.in[0] * s_.in[1] * s_.in[2], y = s_.k * s_.out[0] * s_.out[1] * s_.out[2];
    const i64 plane = max_of<i64>((x + y) * static_cast<i64>(sizeof(T)), 1);
    const i64 filters = s_.k * s_.c, blocks = max_of<i64>(s_.out[0] * s_.out[1] / kMostRows, 1);
    const i64 max_groups = min_of(kGroupBytes * blocks, kPlanesBytes) / plane;
    const i64 sums = weights ? sums_plane_ * static_cast<i64>(sizeof(Vec<T>)) : taps_ * static_cast<i64>(sizeof(T));
    const i64 fits = kGroupBytes / (filters * sums);
    groups_per_call_ = max_of<i64>(min_of(min_of(max_groups, fits), kMostPlanes), 1);
    const i64 bytes = s_.n * s_.groups * plane;
    prefetches_ = plane > kShortBytes && bytes > kCachedBytes;
    const bool has_phases = direction_ == ConvDirection::kBackwardData && s_.stride[1] * s_.stride[2] > 1;
    if (plane > kLongBytes && bytes > 2 * kResultCaches && !has_phases) groups_per_call_ = 1;  // streams whole planes
    char* next = scratch;
    const auto reserve = [&]<class E>(E*& pointer, i64 count) {
      pointer = reinterpret_cast<E*>(next);
      next += (count * static_cast<i64>(sizeof(E)) + 63) / 64 * 64;
    };
    reserve(sums_, weights ? groups_per_call_ * filters * sums_plane_ : 0);
    reserve(weights_, copies_weights_ && !weights ? groups_per_call_ * filters * taps_ : 0);
    reserve(columns_, phases_per_tile_ * taps_);
    reserve(offsets_, s_.taps[2]);
    reserve(spans_, phases_per_tile_ * column_vectors_ * s_.taps[2]);
    bytes_ = static_cast<std::size_t>(next - scratch);
  }

  void copy_weights(i64 piece, i64 groups) {
    T* to = weights_;
    for (i64 i = 0; i < groups * s_.k * s_.c; ++i) {
      const i64 group = (piece + i / (s_.k * s_.c)) % s_.groups, k = group * s_.k + i / s_.c % s_.k;
      const T* from = static_cast<const T*>(job_.w) + k * s_.w_k + i % s_.c * s_.w_c;
      for_taps([&](i64 offset) { *to++ = from[offset]; });
    }
  }
  template <class Use>
  void for_taps(const Use& visit) const {
    for (i64 r0 = 0; r0 < s_.taps[0]; ++r0) {
      for (i64 r1 = 0; r1 < s_.taps[1]; ++r1) {
        for (i64 r2 = 0; r2 < s_.taps[2]; ++r2) visit(r0 * s_.w_d[0] + r1 * s_.w_d[1] + r2 * s_.w_d[2]);
      }
    }
  }

  void passes(i64 piece, i64 groups) {
    for (i64 f2 = 0; f2 < pass_count(s_, direction_, 2); f2 += phases_per_tile_) {
      for (i64 f = 0; f < phases_per_tile_; ++f) column_passes_[f] = pass_of(s_, direction_, 2, f2 + f);
      find_spans();
      for (i64 f0 = 0; f0 < pass_count(s_, direction_, 0); ++f0) {
        for (i64 f1 = 0; f1 < pass_count(s_, direction_, 1); ++f1) {
          const Pass depth = pass_of(s_, direction_, 0, f0), height = pass_of(s_, direction_, 1, f1);
          for (i64 i0 = 0; i0 < depth.count; ++i0) slab(depth, height, i0, piece, groups);
        }
      }
    }
  }

  /// Lists the lanes of the source that are inside and belong to a result, per vector of columns, phase and tap of
  /// dimension 2. Other lanes are loaded as zero: the source may be infinite there.
  void find_spans() {
    Span* to = spans_;
    for (i64 vector = 0; vector < column_vectors_; ++vector) {
      for (i64 f = 0; f < phases_per_tile_; ++f) {
        const Pass& p = column_passes_[f];
        for (i64 t = 0; t < s_.taps[2]; ++t) {
          const Range r = inside(p.first + vector * kN * p.stride + t * p.dilation, p.stride, source_.size[2],
                                 max_of<i64>(min_of<i64>(p.count - vector * kN, kN), 0));
          *to++ = {static_cast<int>(r.low), static_cast<int>(r.high), p.stride};
        }
      }
    }
  }

  void slab(const Pass& depth, const Pass& height, i64 i0, i64 piece, i64 groups) {
    for (i64 a = 0; a < residue_count(height); ++a) {
      const Residue residue = residue_of(height, a);
      block_.pitch = residue.line * source_strides_[1];
      block_.w_step = residue.tap_step * height.w_step * s_.taps[2];
      block_.out_pitch = residue.step * height.out_step * result_strides_[1];
      block_.step = column_passes_[0].stride;
      block_.out_step = column_passes_[0].out_step;
      i64 rows = 0;
      for (i64 m = 0; m < residue.count; m += rows) {
        rows = most_rows(mode_) == 1 ? 1 : tile_rows(residue.count - m, most_rows(mode_));
        TapColumn* columns = columns_;
        inside_ = true;
        for (i64 f = 0; f < phases_per_tile_; ++f) {
          for (i64 t = 0; t < column_passes_[f].taps; ++t)
            offsets_[t] = column_passes_[f].first + t * column_passes_[f].dilation;
          const Pass pass[kSpatial] = {depth, height, column_passes_[f]};
          source_.column = offsets_;
          block_.columns[f] = columns;
          block_.count[f] = list_columns(pass, residue, i0, m, rows, source_, s_.taps, columns);
          inside_ &= all_inside(columns, block_.count[f], rows);
          columns += block_.count[f];
        }
        const i64 out = (depth.out_first + i0 * depth.out_step) * result_strides_[0] +
                        (height.out_first + (residue.first + m * residue.step) * height.out_step) * result_strides_[1] +
                        column_passes_[0].out_first;
        all_planes(rows, out, piece, groups);
      }
    }
  }

  /// Addresses of a group: source, result (backward weights: dy, read only), weights and sums.
  struct Place {
    const T* source;
    T* result;
    const T* weights;
    Vec<T>* sums;
  };
  Place place_of(i64 n, i64 g, i64 i) const {
    const i64 x = n * s_.x_n + g * s_.c * s_.x_c, y = n * s_.y_n + g * s_.k * s_.y_k;
    const bool weights = direction_ == ConvDirection::kBackwardWeights;
    Place p{static_cast<const T*>(job_.x) + x, static_cast<T*>(job_.result) + y, nullptr, nullptr};
    if (direction_ == ConvDirection::kBackwardData) {
      p.source = static_cast<const T*>(job_.y) + y;
      p.result = static_cast<T*>(job_.result) + x;
    } else if (weights) {
      p.result = const_cast<T*>(static_cast<const T*>(job_.y)) + y;
      p.sums = sums_ + i * s_.k * s_.c * sums_plane_;
    }
    if (weights) return p;
    p.weights = copies_weights_ ? weights_ + i * s_.k * w_k_ : static_cast<const T*>(job_.w) + g * s_.k * w_k_;
    return p;
  }

  /// Computes tiles of `rows` rows at offset `out` of the result planes of `groups` groups.
  void all_planes(i64 rows, i64 out, i64 piece, i64 groups) {
    i64 n = piece / s_.groups, g = piece % s_.groups;
    for (i64 i = 0; i < groups;) {
      const i64 count = min_of(groups - i, s_.groups - g);
      Place place = place_of(n, g, i);
      place.result += out;
      with_tile(mode_, rows, [&](auto mode, auto row_count) {
        constexpr Mode kMode = mode.value;
        constexpr int kRows = row_count.value;
        if (direction_ == ConvDirection::kBackwardWeights) {
          if constexpr (kMode != Mode::kDoubled) weights_planes<kMode, kRows>(place, count);
        } else if (inside_ && kRows == kMostRows) {
          planes<kMode, kRows, kRows == kMostRows>(place, count);
        } else {
          planes<kMode, kRows, false>(place, count);
        }
      });
      i += count;
      ++n;
      g = 0;
    }
  }

  template <Mode kMode, int kRows, bool kInside>
  void planes(Place place, i64 count) {
    const i64 source_group = direction_ == ConvDirection::kBackwardData ? s_.k * s_.y_k : s_.c * s_.x_c;
    const Block<T> block = block_;
    const i64 weight_group = s_.k * w_k_ - result_planes_ * block.result_weight;
    for (i64 i = 0; i < count; ++i, place.source += source_group, place.weights += weight_group) {
      for (i64 r = 0; r < result_planes_;) {
        const i64 planes = min_of<i64>(result_planes_ - r, kMostResults<T>);
        each_column_vector<kMode>(place.source, place.result, [&](const T* x, T* out, const Span* spans, i64 left) {
          const i64 taps = s_.taps[2];
          if (planes == 1) return tile<T, kMode, kRows, 1, kInside>(block, x, spans, taps, place.weights, out, left);
          tile<T, kMode, kRows, kMostResults<T>, kInside>(block, x, spans, taps, place.weights, out, left);
        });
        r += planes;
        place.result += planes * block.result_plane;
        place.weights += planes * block.result_weight;
      }
    }
  }

  template <Mode kMode, int kRows>
  void weights_planes(Place place, i64 count) {
    const Block<T> block = block_;
    for (i64 i = 0; i < count * s_.k; ++i, place.result += s_.y_k) {
      const T* const x = place.source + i / s_.k * s_.c * s_.x_c;
      for (i64 c = 0; c < s_.c; ++c, place.sums += sums_plane_) {
        each_column_vector<kMode>(x + c * s_.x_c, place.result,
                                  [&](const T* source, T* dy, const Span* spans, i64 left) {
                                    weights_tile<T, kMode, kRows>(block, source, spans, dy, left, place.sums);
                                  });
      }
    }
  }

  /// Prefetches lines of the next plane, whose start hardware does not predict, if a vector of columns starts a line.
  template <int kResultColumns, int kStep>
  [[gnu::always_inline]] void prefetch_next(const T* x, i64 x_offset, const T* y, i64 y_offset) const {
    constexpr i64 kLine = 64 / sizeof(T);
    const bool data = direction_ == ConvDirection::kBackwardData;
    const T* const next_x = x + (data ? s_.y_k : s_.x_c) + block_.columns[0]->source;
    if (x_offset % kLine == 0) {
      for (i64 i = 0; i < (data ? 1 : s_.stride[1]); ++i)  // all rows between those of adjacent results
        for (int j = 0; j < kMostRows; ++j)
          for (i64 e = 0; e < kStep * kLine; e += kLine)
            __builtin_prefetch(next_x + i * s_.x_d[1] + j * block_.pitch + e, 0, 2);
    }
    if (y_offset % kLine != 0) return;
    const bool writes = direction_ != ConvDirection::kBackwardWeights;
    for (i64 i = kMostResults<T>; i < 2 * kMostResults<T>; ++i)
      for (int j = 0; j < kMostRows; ++j)
        for (i64 e = 0; e < kResultColumns; e += kLine) {
          const T* const line = y + i * block_.result_plane + j * block_.out_pitch + e;
          writes ? __builtin_prefetch(line, 1, 2) : __builtin_prefetch(line, 0, 2);
        }
  }

  /// Calls use(source, result, spans, remaining columns) for each vector of columns of a plane.
  template <Mode kMode, class Use>
  [[gnu::always_inline]] void each_column_vector(const T* x, T* y, const Use& use) const {
    constexpr int kResultColumns = kMode == Mode::kDoubled ? 2 * kN : kN;
    const i64 width = kMode == Mode::kDoubled ? s_.in[2] : column_passes_[0].count;
    const i64 step = kN * column_passes_[0].stride, out_step = kN * column_passes_[0].out_step;
    const Span* spans = spans_;
    const T *const x0 = x, *const y0 = y;
    for (i64 left = width; left > 0;
         left -= kResultColumns, x += step, y += out_step, spans += phases_per_tile_ * s_.taps[2]) {
      if (prefetches_ && block_.count[0] > 0) prefetch_next<kResultColumns, source_step(kMode)>(x, x - x0, y, y - y0);
      use(x, y, spans, left);
    }
  }

  void write(i64 g, i64 groups) {
    const Vec<T>* sums = sums_;
    for (i64 k = g * s_.k; k < (g + groups) * s_.k; ++k) {
      for (i64 c = 0; c < s_.c; ++c, sums += sums_plane_) {
        write_filter(sums, static_cast<T*>(job_.result) + k * s_.w_k + c * s_.w_c);
      }
    }
  }
  void write_filter(const Vec<T>* sums, T* dw) {
    for (i64 t = 0; t < taps_; t += kN) {
      Vec<T> rows[kN];
#pragma GCC unroll 16
      for (i64 j = 0; j < kN; ++j) rows[j] = sums[t + j];
      const i64 count = min_of<i64>(kN, taps_ - t);
      const Vec<T> total[1] = {sum_lanes<kN / 2, kN>(rows, count)};
      if (!copies_weights_) {
        store_rows<T, 1>(block_, dw + t, count, total);
        continue;
      }
      i64 tap = 0;
      for_taps([&](i64 offset) {
        const i64 lane = tap++ - t;
        if (lane < 0 || lane >= count) return;
        const T value = block_.alpha * total[0][lane];
        dw[offset] = block_.beta != 0 ? value + block_.beta * dw[offset] : value;
      });
    }
  }

  const Depthwise& job_;
  const ConvShape& s_;
  const ConvDirection direction_;
  Mode mode_;
  bool copies_weights_, prefetches_;
  bool inside_ = false;  // no tap of the current rows is above or below the source
  i64 taps_, sums_plane_, w_k_, w_c_, result_planes_, column_vectors_, groups_per_call_;
  i64 phases_per_tile_;  // of dimension 2
  const i64 *source_strides_, *result_strides_;
  StencilSource source_{};
  Pass column_passes_[2];
  Block<T> block_{};
  Vec<T>* sums_;
  T* weights_;
  TapColumn* columns_;
  i64* offsets_;
  Span* spans_;
  std::size_t bytes_;
};

}  // namespace

void depthwise_nchw(const Depthwise& job, i64 first, i64 end, void* scratch) {
  if (job.shape.dtype == DataType::kDouble) return Planes<double>(job, scratch).run(first, end);
  Planes<float>(job, scratch).run(first, end);
}

std::size_t depthwise_nchw_scratch(const Depthwise& job) {
  return job.shape.dtype == DataType::kDouble ? Planes<double>(job, nullptr).bytes()
                                              : Planes<float>(job, nullptr).bytes();
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
