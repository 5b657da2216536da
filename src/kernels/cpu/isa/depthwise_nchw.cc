// Depthwise and grouped convolution, NCHW: vectors run along the rows of x and y, which are accessed in place. The
// planes of some groups share the lists of taps of a block of rows.
// SPDX-License-Identifier: MIT
#include "base/math.h"
#include "kernels/cpu/caches.h"
#include "kernels/cpu/isa/depthwise_nchw_tile.h"
#include "kernels/cpu/isa/depthwise_paths.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

constexpr i64 kGroupBytes = 48 << 10;    // the planes of a call: a block of rows of all of them, or their sums
constexpr i64 kPlanesBytes = 256 << 10;  // the planes of a call: all rows
constexpr i64 kCachedBytes = 1 << 20;    // tensors up to this size are in the cache: no prefetch
constexpr i64 kShortBytes = 1 << 10;     // planes up to this size are one stream for hardware: no prefetch
constexpr i64 kLongBytes = 12 << 10;     // longer planes are streamed one by one
constexpr i64 kMostPlanes = 256;

/// Filters as the tiles read them: in place, or copied with contiguous taps. Strides in elements.
struct NchwFilters {
  bool copied;
  i64 taps, count;  // taps per filter, filters per group
  i64 w_k, w_c;
};

/// What holds for all pieces of a job.
template <class T>
struct NchwPlan {
  const Depthwise& job;
  const ConvShape& s;
  ColumnMode mode;
  NchwFilters filters;
  i64 sums_plane;       // backward weights: vectors of sums per filter
  i64 result_planes;    // per group
  i64 column_vectors;   // per row
  i64 phases_per_tile;  // of dimension 2
  const i64 *source_strides, *result_strides;
  i64 groups_per_call = 1;
  bool prefetches = false;

  explicit NchwPlan(const Depthwise& depthwise) : job(depthwise), s(depthwise.shape) {
    const bool data = backward_data();
    filters.copied = s.w_d[2] != 1 || s.w_d[1] != s.taps[2] || (s.taps[0] > 1 && s.w_d[0] != s.taps[1] * s.taps[2]);
    filters.taps = s.taps[0] * s.taps[1] * s.taps[2];
    filters.count = s.k * s.c;
    filters.w_k = filters.copied ? s.c * filters.taps : s.w_k;
    filters.w_c = filters.copied ? filters.taps : s.w_c;
    sums_plane = round_up(filters.taps, kLanes<T>);
    result_planes = data ? s.c : s.k;
    source_strides = data ? s.y_d : s.x_d;
    result_strides = data ? s.x_d : s.y_d;
    const ColumnMode by_two = !data                                  ? ColumnMode::kHalved
                              : pass_count(s, job.direction, 2) == 2 ? ColumnMode::kDoubled
                                                                     : ColumnMode::kAny;
    mode = s.stride[2] == 1 ? ColumnMode::kDense : s.stride[2] == 2 ? by_two : ColumnMode::kAny;
    phases_per_tile = mode == ColumnMode::kDoubled ? 2 : 1;
    column_vectors = ceil_div(pass_of(s, job.direction, 2, 0).count, kLanes<T>);
    plan_calls();
  }

  bool backward_data() const { return job.direction == ConvDirection::kBackwardData; }
  bool backward_weights() const { return job.direction == ConvDirection::kBackwardWeights; }

 private:
  void plan_calls() {
    const i64 x = s.c * s.in[0] * s.in[1] * s.in[2], y = s.k * s.out[0] * s.out[1] * s.out[2];
    const i64 plane = max_of<i64>((x + y) * static_cast<i64>(sizeof(T)), 1);
    const i64 blocks = max_of<i64>(s.out[0] * s.out[1] / kMostRows, 1);
    // A plane that is one row is streamed whatever the number of planes.
    const bool one_row = s.in[0] * s.in[1] == 1 && s.out[0] * s.out[1] == 1 && s.stride[2] == 1;
    const i64 max_groups = one_row ? kMostPlanes : min_of(kGroupBytes * blocks, kPlanesBytes) / plane;
    const i64 sums =
        backward_weights() ? sums_plane * static_cast<i64>(sizeof(Vec<T>)) : filters.taps * static_cast<i64>(sizeof(T));
    const i64 fits = kGroupBytes / (filters.count * sums);
    groups_per_call = max_of<i64>(min_of(min_of(max_groups, fits), kMostPlanes), 1);
    const i64 bytes = s.n * s.groups * plane;
    prefetches = plane > kShortBytes && bytes > kCachedBytes;
    const bool has_phases = backward_data() && s.stride[1] * s.stride[2] > 1;
    const bool streams_planes = plane > kLongBytes && bytes > 2 * kResultCaches && !has_phases;
    if (streams_planes && !one_row) groups_per_call = 1;
  }
};

/// The arrays of a call in scratch memory.
template <class T>
struct NchwScratch {
  Vec<T>* sums;        // backward weights, per filter of a call
  T* weights;          // copied filters of a call
  TapColumn* columns;  // per phase, then those of wide tiles
  i64* offsets;
  Span* spans;  // per vector of columns, phase and tap of dimension 2
  std::size_t bytes;

  NchwScratch(const NchwPlan<T>& plan, void* memory) {
    char* next = static_cast<char*>(memory);
    const auto reserve = [&]<class E>(E*& pointer, i64 count) {
      pointer = reinterpret_cast<E*>(next);
      next += round_up(count * static_cast<i64>(sizeof(E)), 64);
    };
    const bool weights_only = plan.backward_weights();
    const i64 filters = plan.groups_per_call * plan.filters.count;
    reserve(sums, weights_only ? filters * plan.sums_plane : 0);
    reserve(weights, plan.filters.copied && !weights_only ? filters * plan.filters.taps : 0);
    reserve(columns, (plan.phases_per_tile + 1) * plan.filters.taps);
    reserve(offsets, plan.s.taps[2]);
    reserve(spans, plan.phases_per_tile * plan.column_vectors * plan.s.taps[2]);
    bytes = static_cast<std::size_t>(next - static_cast<char*>(memory));
  }
};

/// Iterates over the blocks of rows of a plane and lists the taps that each reads.
template <class T>
class NchwRows {
  static constexpr int kN = kLanes<T>;

 public:
  NchwRows(const NchwPlan<T>& plan, const NchwScratch<T>& scratch) : plan_(plan), scratch_(scratch), s_(plan.s) {
    const bool data = plan.backward_data();
    for (int d = 0; d < kSpatial; ++d) source_.size[d] = data ? s_.out[d] : s_.in[d];
    source_.step[0] = plan.source_strides[0];
    source_.step[1] = plan.source_strides[1];
    source_.column = scratch.offsets;
    block_.has_epilogue = plan.job.epilogue != nullptr;
    block_.alpha = block_.has_epilogue ? T{1} : static_cast<T>(plan.job.alpha);
    block_.beta = static_cast<T>(plan.job.beta);
    block_.planes = data ? s_.k : s_.c;
    block_.result_plane = data ? s_.x_c : s_.y_k;
    block_.result_weight = data ? plan.filters.w_c : plan.filters.w_k;
    block_.source_plane = data ? s_.y_k : s_.x_c;
    block_.weight_plane = data ? plan.filters.w_k : plan.filters.w_c;
  }

  const NchwBlock<T>& block() const { return block_; }
  /// A row of its own whose columns have one tap, as of 1-D problems: the same block for kMostRows adjacent vectors of
  /// columns in place of rows.
  NchwBlock<T> wide_block() const {
    NchwBlock<T> wide = block_;
    wide.columns[0] = scratch_.columns + plan_.filters.taps;
    wide.pitch = wide.out_pitch = kN;
    return wide;
  }
  /// Whether kMostRows vectors of columns from this one on can be such a tile.
  bool is_wide(i64 vector) const { return single_ && vector >= full_.first && vector + kMostRows <= full_.end; }
  /// Whether no tap of the current rows is above or below the source.
  bool is_inside() const { return inside_; }
  /// The pass of dimension 2; of the first of two phases.
  const Pass& column_pass() const { return column_passes_[0]; }

  /// Calls use(rows, offset of their first result in a plane) for each block.
  template <class Use>
  void each(const Use& use) {
    const ConvDirection direction = plan_.job.direction;
    for (i64 f2 = 0; f2 < pass_count(s_, direction, 2); f2 += plan_.phases_per_tile) {
      for (i64 f = 0; f < plan_.phases_per_tile; ++f) column_passes_[f] = pass_of(s_, direction, 2, f2 + f);
      find_spans();
      for (i64 f0 = 0; f0 < pass_count(s_, direction, 0); ++f0) {
        for (i64 f1 = 0; f1 < pass_count(s_, direction, 1); ++f1) {
          const Pass depth = pass_of(s_, direction, 0, f0), height = pass_of(s_, direction, 1, f1);
          for (i64 i0 = 0; i0 < depth.count; ++i0) slab(depth, height, i0, use);
        }
      }
    }
  }

 private:
  /// Lists the lanes of the source that are inside and belong to a result, per vector of columns, phase and tap of
  /// dimension 2. Other lanes are loaded as zero: the source may be infinite there.
  void find_spans() {
    Span* to = scratch_.spans;
    full_ = {plan_.column_vectors, 0};
    for (i64 vector = 0; vector < plan_.column_vectors; ++vector) {
      bool full = true;
      for (i64 f = 0; f < plan_.phases_per_tile; ++f) {
        const Pass& p = column_passes_[f];
        for (i64 t = 0; t < s_.taps[2]; ++t) {
          const i64 first = p.first + vector * kN * p.stride + t * p.dilation;
          const i64 count = max_of<i64>(min_of<i64>(p.count - vector * kN, kN), 0);
          const bool whole = count == kN && first >= 0 && first + (kN - 1) * p.stride < source_.size[2];
          const Range r = whole ? Range{0, kN} : inside(first, p.stride, source_.size[2], count);  // without divisions
          *to++ = {static_cast<int>(r.first), static_cast<int>(r.end), p.stride};
          full &= whole;
        }
      }
      if (full) full_ = {min_of(full_.first, vector), vector + 1};
    }
  }

  template <class Use>
  void slab(const Pass& depth, const Pass& height, i64 i0, const Use& use) {
    const i64* strides = plan_.result_strides;
    for (i64 a = 0; a < residue_count(height); ++a) {
      const Residue residue = residue_of(height, a);
      block_.pitch = residue.line * plan_.source_strides[1];
      block_.w_step = residue.tap_step * height.w_step * s_.taps[2];
      block_.out_pitch = residue.step * height.out_step * strides[1];
      block_.step = column_passes_[0].stride;
      block_.out_step = column_passes_[0].out_step;
      i64 rows = 0;
      for (i64 m = 0; m < residue.count; m += rows) {
        rows = most_rows(plan_.mode) == 1 ? 1 : tile_rows(residue.count - m, most_rows(plan_.mode));
        list_taps(depth, height, residue, i0, m, rows);
        use(rows, (depth.out_first + i0 * depth.out_step) * strides[0] +
                      (height.out_first + (residue.first + m * residue.step) * height.out_step) * strides[1] +
                      column_passes_[0].out_first);
      }
    }
  }

  void list_taps(const Pass& depth, const Pass& height, const Residue& residue, i64 i0, i64 m, i64 rows) {
    TapColumn* columns = scratch_.columns;
    inside_ = true;
    for (i64 f = 0; f < plan_.phases_per_tile; ++f) {
      for (i64 t = 0; t < column_passes_[f].taps; ++t)
        scratch_.offsets[t] = column_passes_[f].first + t * column_passes_[f].dilation;
      const Pass pass[kSpatial] = {depth, height, column_passes_[f]};
      block_.columns[f] = columns;
      block_.count[f] = list_columns(pass, residue, i0, m, rows, source_, s_.taps, columns);
      inside_ &= all_inside(columns, block_.count[f], rows);
      columns += block_.count[f];
    }
    single_ = plan_.mode == ColumnMode::kDense && rows == 1 && inside_;
    TapColumn* wide = scratch_.columns + plan_.filters.taps;
    for (i64 i = 0; single_ && i < block_.count[0]; ++i) {
      single_ = block_.columns[0][i].taps == 1;
      wide[i] = block_.columns[0][i];
      wide[i].lines = kAllLines;
    }
  }

  const NchwPlan<T>& plan_;
  const NchwScratch<T>& scratch_;
  const ConvShape& s_;
  StencilSource source_{};
  Pass column_passes_[2];
  bool inside_ = false, single_ = false;
  Range full_{};  // vectors of columns without lanes outside the source
  NchwBlock<T> block_{};
};

/// Computes forward and backward data, or the sums of backward weights, of the planes of some groups.
template <class T>
class Planes {
  static constexpr int kN = kLanes<T>;

 public:
  Planes(const NchwPlan<T>& plan, const NchwScratch<T>& scratch)
      : plan_(plan), scratch_(scratch), s_(plan.s), epilogue_(plan.job), rows_(plan, scratch) {}

  /// `groups` groups from a piece on: one after another, image by image.
  void run(i64 piece, i64 groups) {
    rows_.each([&](i64 rows, i64 out) { all_planes(rows, out, piece, groups); });
  }

 private:
  /// Addresses of a group: source, result (backward weights: dy, read only), weights and sums.
  struct Place {
    const T* source;
    T* result;
    const T* weights;
    Vec<T>* sums;
  };
  Place place_of(i64 n, i64 g, i64 i) const {
    const Depthwise& job = plan_.job;
    const i64 x = n * s_.x_n + g * s_.c * s_.x_c, y = n * s_.y_n + g * s_.k * s_.y_k;
    Place p{static_cast<const T*>(job.x) + x, static_cast<T*>(job.result) + y, nullptr, nullptr};
    if (plan_.backward_weights()) {
      p.result = const_cast<T*>(static_cast<const T*>(job.y)) + y;
      p.sums = scratch_.sums + i * plan_.filters.count * plan_.sums_plane;
      return p;
    }
    if (plan_.backward_data()) {
      p.source = static_cast<const T*>(job.y) + y;
      p.result = static_cast<T*>(job.result) + x;
    }
    const i64 group_weights = s_.k * plan_.filters.w_k;
    p.weights =
        plan_.filters.copied ? scratch_.weights + i * group_weights : static_cast<const T*>(job.w) + g * group_weights;
    return p;
  }

  /// Computes tiles of `rows` rows at offset `out` of the result planes of `groups` groups.
  void all_planes(i64 rows, i64 out, i64 piece, i64 groups) {
    i64 n = piece / s_.groups, g = piece % s_.groups;
    for (i64 i = 0; i < groups;) {
      const i64 count = min_of(groups - i, s_.groups - g);
      Place place = place_of(n, g, i);
      place.result += out;
      with_tile(plan_.mode, rows, [&](auto mode, auto row_count) {
        constexpr ColumnMode kMode = mode.value;
        constexpr int kRows = row_count.value;
        if (plan_.backward_weights()) {
          if constexpr (kMode != ColumnMode::kDoubled) weights_planes<kMode, kRows>(place, count);
        } else if (rows_.is_inside() && kRows == kMostRows) {
          planes<kMode, kRows, kRows == kMostRows>(place, g * plan_.result_planes, count);
        } else {
          planes<kMode, kRows, false>(place, g * plan_.result_planes, count);
        }
      });
      i += count;
      ++n;
      g = 0;
    }
  }

  template <ColumnMode kMode, int kRows, bool kInside>
  void planes(Place place, i64 channel, i64 count) {
    const i64 source_group = plan_.backward_data() ? s_.k * s_.y_k : s_.c * s_.x_c;
    NchwBlock<T> block = rows_.block(), wide = rows_.wide_block();
    block.range = wide.range = epilogue_.range;
    const i64 weight_group = s_.k * plan_.filters.w_k - plan_.result_planes * block.result_weight;
    for (i64 i = 0; i < count; ++i, place.source += source_group, place.weights += weight_group) {
      for (i64 r = 0; r < plan_.result_planes;) {
        const i64 planes = min_of<i64>(plan_.result_planes - r, kMostResults<T>);
        for (i64 p = 0; p < planes && epilogue_; ++p, ++channel) {
          block.scale[p] = wide.scale[p] = epilogue_.scale(channel);
          block.bias[p] = wide.bias[p] = epilogue_.bias(channel);
        }
        const auto tile = [&](const T* x, T* out, const Span* spans, i64 left, auto is_wide) {
          constexpr bool kWide = is_wide.value, kWithin = kInside || kWide;
          constexpr int kHeight = kWide ? kMostRows : kRows;
          const NchwBlock<T>& b = kWide ? wide : block;
          if (planes == 1) {
            return nchw_tile<T, kMode, kHeight, 1, kWithin>(b, x, spans, s_.taps[2], place.weights, out, left);
          }
          if constexpr (kMostResults<T> != 1)
            nchw_planes_tile<T, kMode, kHeight, kWithin>(b, x, spans, s_.taps[2], place.weights, out, left);
        };
        each_column_vector<kMode, kRows>(place.source, place.result, tile);
        r += planes;
        place.result += planes * block.result_plane;
        place.weights += planes * block.result_weight;
      }
    }
  }

  template <ColumnMode kMode, int kRows>
  void weights_planes(Place place, i64 count) {
    const NchwBlock<T> block = rows_.block(), wide = rows_.wide_block();
    for (i64 i = 0; i < count * s_.k; ++i, place.result += s_.y_k) {
      const T* const x = place.source + i / s_.k * s_.c * s_.x_c;
      for (i64 c = 0; c < s_.c; ++c, place.sums += plan_.sums_plane) {
        const auto tile = [&](const T* source, T* dy, const Span* spans, i64 left, auto is_wide) {
          constexpr int kHeight = is_wide.value ? kMostRows : kRows;
          nchw_weights_tile<T, kMode, kHeight>(is_wide.value ? wide : block, source, spans, dy, left, place.sums);
        };
        each_column_vector<kMode, kRows>(x + c * s_.x_c, place.result, tile);
      }
    }
  }

  /// Prefetches lines of the next plane, whose start hardware does not predict, if a vector of columns starts a line.
  template <int kResultColumns, int kStep>
  [[gnu::always_inline]] void prefetch_next(const T* x, i64 x_offset, const T* y, i64 y_offset) const {
    constexpr i64 kLine = 64 / sizeof(T);
    const NchwBlock<T>& block = rows_.block();
    const bool data = plan_.backward_data();
    const T* const next_x = x + (data ? s_.y_k : s_.x_c) + block.columns[0]->source;
    if (x_offset % kLine == 0) {
      for (i64 i = 0; i < (data ? 1 : s_.stride[1]); ++i)  // all rows between those of adjacent results
        for (int j = 0; j < kMostRows; ++j)
          for (i64 e = 0; e < kStep * kLine; e += kLine)
            __builtin_prefetch(next_x + i * s_.x_d[1] + j * block.pitch + e, 0, 2);
    }
    if (y_offset % kLine != 0) return;
    const bool writes = !plan_.backward_weights();
    for (i64 i = kMostResults<T>; i < 2 * kMostResults<T>; ++i)
      for (int j = 0; j < kMostRows; ++j)
        for (i64 e = 0; e < kResultColumns; e += kLine) {
          const T* const line = y + i * block.result_plane + j * block.out_pitch + e;
          if (writes)
            __builtin_prefetch(line, 1, 2);
          else
            __builtin_prefetch(line, 0, 2);
        }
  }

  /// Calls use(source, result, spans, remaining columns, wide) for each vector of columns of a plane, or for the first
  /// of those of a wide tile.
  template <ColumnMode kMode, int kRows, class Use>
  [[gnu::always_inline]] void each_column_vector(const T* x, T* y, const Use& use) const {
    constexpr int kResultColumns = kMode == ColumnMode::kDoubled ? 2 * kN : kN;
    const Pass& pass = rows_.column_pass();
    const i64 width = kMode == ColumnMode::kDoubled ? s_.in[2] : pass.count;
    const i64 step = kN * pass.stride, out_step = kN * pass.out_step;
    const Span* spans = scratch_.spans;
    const T *const x0 = x, *const y0 = y;
    for (i64 left = width; left > 0;
         left -= kResultColumns, x += step, y += out_step, spans += plan_.phases_per_tile * s_.taps[2]) {
      if constexpr (kMode == ColumnMode::kDense && kRows == 1) {
        for (; rows_.is_wide((width - left) / kN); left -= kMostRows * kN, x += kMostRows * kN, y += kMostRows * kN) {
          use(x, y, spans, left, std::true_type{});
          spans += kMostRows * s_.taps[2];
        }
        if (left <= 0) break;
      }
      if (plan_.prefetches && rows_.block().count[0] > 0) {
        prefetch_next<kResultColumns, source_step(kMode)>(x, x - x0, y, y - y0);
      }
      use(x, y, spans, left, std::false_type{});
    }
  }

  const NchwPlan<T>& plan_;
  const NchwScratch<T>& scratch_;
  const ConvShape& s_;
  const DepthwiseEpilogue<T> epilogue_;
  NchwRows<T> rows_;
};

/// Copies the filters of `groups` groups from a piece on.
template <class T>
void copy_filters(const NchwPlan<T>& plan, i64 piece, i64 groups, T* to) {
  const ConvShape& s = plan.s;
  for (i64 i = 0; i < groups * s.k * s.c; ++i) {
    const i64 group = (piece + i / (s.k * s.c)) % s.groups, k = group * s.k + i / s.c % s.k;
    const T* from = static_cast<const T*>(plan.job.w) + k * s.w_k + i % s.c * s.w_c;
    each_tap(s, [&](i64 offset) { *to++ = from[offset]; });
  }
}

/// Adds the lanes of the sums of a filter's taps and writes it.
template <class T>
void write_filter(const NchwPlan<T>& plan, const Vec<T>* sums, T* dw) {
  constexpr int kN = kLanes<T>;
  NchwBlock<T> scaling{};
  scaling.alpha = static_cast<T>(plan.job.alpha);
  scaling.beta = static_cast<T>(plan.job.beta);
  for (i64 t = 0; t < plan.filters.taps; t += kN) {
    Vec<T> rows[kN];
#pragma GCC unroll 16
    for (i64 j = 0; j < kN; ++j) rows[j] = sums[t + j];
    const i64 count = min_of<i64>(kN, plan.filters.taps - t);
    const Vec<T> total[1] = {sum_lanes<kN / 2, kN>(rows, count)};
    if (!plan.filters.copied) {
      store_rows<T, 1>(scaling, dw + t, count, total);
      continue;
    }
    i64 tap = 0;
    each_tap(plan.s, [&](i64 offset) {
      const i64 lane = tap++ - t;
      if (lane < 0 || lane >= count) return;
      const T value = scaling.alpha * total[0][lane];
      dw[offset] = scaling.beta != 0 ? value + scaling.beta * dw[offset] : value;
    });
  }
}

/// Backward weights of `groups` groups from g on.
template <class T>
void compute_weights(const NchwPlan<T>& plan, const NchwScratch<T>& scratch, Planes<T>& planes, i64 g, i64 groups) {
  const ConvShape& s = plan.s;
  Vec<T>* sums = scratch.sums;
  for (i64 i = 0; i < groups * plan.filters.count * plan.sums_plane; ++i) sums[i] = Vec<T>{};
  for (i64 n = 0; n < s.n; ++n) planes.run(n * s.groups + g, groups);
  for (i64 k = g * s.k; k < (g + groups) * s.k; ++k) {
    for (i64 c = 0; c < s.c; ++c, sums += plan.sums_plane) {
      write_filter(plan, sums, static_cast<T*>(plan.job.result) + k * s.w_k + c * s.w_c);
    }
  }
}

/// Pieces [first, end): groups of an image; backward weights: groups.
template <class T>
void compute(const Depthwise& job, i64 first, i64 end, void* memory) {
  const NchwPlan<T> plan(job);
  const NchwScratch<T> scratch(plan, memory);
  Planes<T> planes(plan, scratch);
  for (i64 piece = first; piece < end; piece += plan.groups_per_call) {
    const i64 groups = min_of(plan.groups_per_call, end - piece);
    if (plan.backward_weights()) {
      compute_weights(plan, scratch, planes, piece, groups);
      continue;
    }
    if (plan.filters.copied) copy_filters(plan, piece, groups, scratch.weights);
    planes.run(piece, groups);
  }
}

template <class T>
std::size_t scratch_bytes(const Depthwise& job) {
  return NchwScratch<T>(NchwPlan<T>(job), nullptr).bytes;
}

}  // namespace

void depthwise_nchw(const Depthwise& job, i64 first, i64 end, void* scratch) {
  if (job.shape.dtype == DataType::kDouble) return compute<double>(job, first, end, scratch);
  compute<float>(job, first, end, scratch);
}

std::size_t depthwise_nchw_scratch(const Depthwise& job) {
  return job.shape.dtype == DataType::kDouble ? scratch_bytes<double>(job) : scratch_bytes<float>(job);
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
