// A piece of a direct convolution: what all its panels and lines share, and the taps that a line reads.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/caches.h"
#include "kernels/cpu/isa/direct_stages.h"
#include "kernels/cpu/isa/row_tiles.h"
#include "kernels/cpu/isa/store_bf16.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// The output position of a cell in a phase.
static inline i64 output_position(const Direct& job, int d, i64 cell, i64 phase) {
  return job.backward ? cell * job.shape.stride[d] + phase : cell;
}

/// How the sums of a call are stored.
struct DirectStores {
  bool is_non_temporal;     // results are written with non-temporal stores
  bool has_streamed_sums;   // tiles store results with non-temporal stores
  bool has_sums_in_place;   // tiles sum directly in the result
  bool is_rounded_to_bf16;  // NHWC bf16 results of unscaled sums
  bool is_c_bf16;           // tiles round them
  bool has_tile_stores;     // tiles store results, as they are or rounded
  i64 line_stride;          // elements between lines of results

  DirectStores(const Direct& job, const DirectArgs& args) {
    is_non_temporal = writes_non_temporal(job, args);
    const bool is_final = job.cut.channels == job.from.channels && !args.epilogue;  // sums are complete and only stored
    has_streamed_sums = is_non_temporal && job.sums_are_results() && !job.unit.amx && is_final;
    const bool is_added = args.beta == 1 && !job.unit.sums_integers();  // integers saturate
    has_sums_in_place =
        job.sums_are_results() && args.alpha == 1 && (args.beta == 0 || is_added) && !args.epilogue && !is_non_temporal;
    is_rounded_to_bf16 = kHasBf16Rounding && job.to.type == DataType::kBFloat16 && job.to.c == 1 && args.alpha == 1 &&
                         args.beta == 0 && !args.epilogue;
    is_c_bf16 =
        is_rounded_to_bf16 && job.unit.math == DirectMath::kBf16 && !job.unit.amx && is_final && job.cut.fold == 1;
    has_tile_stores = has_sums_in_place || has_streamed_sums || is_c_bf16;
    line_stride = output_position(job, 1, 1, 0) * job.to.d[1];
  }

 private:
  /// Whether to use non-temporal stores: the result exceeds kResultCaches, and the kernel writes it in whole cache
  /// lines.
  static bool writes_non_temporal(const Direct& job, const DirectArgs& args) {
    const DirectSide& to = job.to;
    const i64 columns = job.cut.columns < job.cells[2] ? job.cut.columns : 0;
    const bool is_rounded = kHasBf16Rounding && job.unit.math == DirectMath::kBf16 && !args.epilogue;
    const DataType type = job.unit.sums_integers() ? DataType::kInt32
                          : is_rounded             ? DataType::kBFloat16
                                                   : DataType::kFloat;
    const bool has_type = kStreams && to.type == type && job.unit.math != DirectMath::kDouble;
    // With more products per sum the reads before plain stores are hidden.
    constexpr i64 kMaxProducts = kVectorBytes == 64 ? INT64_MAX : 64;
    if (job.taps() * job.from.channels > kMaxProducts) return false;
    const i64 size = bytes_of(type, 1), results = to.n * job.shape.n * size;
    if (!has_type || args.alpha != 1 || args.beta != 0 || results <= kResultCaches) return false;
    if (job.backward && job.shape.stride[2] > 1) return false;
    const i64 elements = 64 / size, vectors = elements / kLanes<float>;  // per cache line
    const bool has_line_panels = vectors == 1 || job.vectors % (job.panels * vectors) == 0;
    const bool is_nhwc = to.c == 1 && to.channels % elements == 0 && has_line_panels;
    const bool is_nchw = vectors == 1 && to.c != 1 && to.c % elements == 0 && to.d[2] == 1;
    const i64 strides = to.d[0] | to.d[1] | to.n | (is_nhwc ? to.d[2] : columns);
    return (is_nhwc || is_nchw) && strides % elements == 0 && reinterpret_cast<std::uintptr_t>(args.to) % 64 == 0;
  }
};

/// The piece with an index: panels are the slowest digit, then images, groups and cells.
static inline DirectPiece direct_piece_at(const Direct& job, i64 index) {
  DirectPiece p;
  index = locate_cells(job, index, p);
  const auto digit = [&](i64 count) {
    const i64 value = index % count;
    index /= count;
    return value;
  };
  p.group = digit(job.shape.groups);  // faster than images: the groups of an image share cache lines
  p.image = digit(ceil_div(job.shape.n, job.cut.images)) * job.cut.images;
  p.images = min_of(job.cut.images, job.shape.n - p.image);
  p.panel = index * job.cut.panels;
  p.panels = min_of(job.cut.panels, job.panels - p.panel);
  return p;
}

/// What all lines of a piece share. The constructor fills the input tile.
struct DirectPieceData {
  const Direct& job;
  const DirectArgs& args;
  const DirectStores& stores;
  const DirectPiece piece;
  char* const scratch;
  char* input_tile;
  char* output;  // of the group

  DirectPieceData(const Direct& direct, const DirectArgs& arguments, const DirectStores& s, i64 index, char* memory)
      : job(direct), args(arguments), stores(s), piece(direct_piece_at(direct, index)), scratch(memory) {
    const i64 size = bytes_of(job.from.type, 1);
    const char* from = static_cast<const char*>(args.from) + piece.group * job.from.channels * job.from.c * size;
    output = static_cast<char*>(args.to) + bytes_of(job.to.type, piece.group * job.to.channels * job.to.c);
    input_tile = scratch + job.places.input_tile;
    if (job.in_place) {
      i64 start = piece.image * job.from.n;
      for (int d = 0; d < kSpatial; ++d) start += (job.first[d] + piece.start[d] * job.input_step(d)) * job.from.d[d];
      input_tile = const_cast<char*>(from) + start * size;
    } else {
      fill_input_tile(job, piece, from, input_tile);
    }
  }
  ~DirectPieceData() {
    if (stores.is_non_temporal) finish_non_temporal_stores();
  }
};

/// A block of input channels that are summed at once.
struct DirectChannels {
  i64 first = 0;
  i64 tap_depth = 0;     // steps per tap
  bool is_last = false;  // block
};

/// Lines of outputs in one phase of the outer dimensions.
struct DirectLines {
  DirectWindow slab, row;
  i64 row_cell;  // the first line's cell in dimension 1
};

/// Lists of the taps that a line reads: byte offsets in the input tile and in the packed weights.
class DirectTaps {
 public:
  explicit DirectTaps(const DirectPieceData& p)
      : job_(p.job),
        piece_(p.piece),
        a_offsets_(reinterpret_cast<i64*>(p.scratch + p.job.places.lists)),
        b_offsets_(a_offsets_ + p.job.taps()) {}

  const i64* a_offsets() const { return a_offsets_; }
  const i64* b_offsets() const { return b_offsets_; }

  /// How many consecutive cells from `cell` on, at most `max_cells`, have the same visible taps of a window.
  i64 equal_cells(int d, const DirectWindow& w, i64 cell, i64 max_cells) const {
    i64 from, end, other_from, other_end, count = 1;
    find_visible_taps(d, w, cell, from, end);
    for (; count < max_cells; ++count) {
      find_visible_taps(d, w, cell + count, other_from, other_end);
      if (other_from != from || other_end != end) break;
    }
    return count;
  }

  /// Sets the blocks and the depth of m. Skips rows of taps that are wholly in the padding, and, if job.edges (the
  /// input is read in place or taps are far apart), columns of taps in the padding.
  void list(const DirectLines& lines, const DirectWindow& column, i64 column_cell, const DirectChannels& channels,
            Micro& m) const {
    const InputTile& s = job_.input_tile;
    const auto& [slab, row, row_cell] = lines;
    i64 from[kSpatial] = {}, end[kSpatial] = {0, 0, column.taps};
    find_visible_taps(0, slab, piece_.start[0], from[0], end[0]);
    find_visible_taps(1, row, row_cell, from[1], end[1]);
    if (job_.edges) find_visible_taps(2, column, column_cell, from[2], end[2]);
    i64 count = 0;
    const i64 columns = job_.merged ? min_of(end[2], from[2] + 1) : end[2];
    for (i64 t0 = from[0]; t0 < end[0]; ++t0) {
      for (i64 t1 = from[1]; t1 < end[1]; ++t1) {
        const i64 a = input_tile_position(0, slab, t0) * s.slab +
                      ((row_cell - piece_.start[1]) * job_.step[1] + input_tile_position(1, row, t1)) * s.row +
                      channels.first;
        const i64 tap_row = (slab.tap + t0 * slab.tap_step) * job_.shape.taps[1] + row.tap + t1 * row.tap_step;
        for (i64 t2 = from[2]; t2 < columns; ++t2, ++count) {
          const i64 q = input_tile_position(2, column, t2), tap = column.tap + t2 * column.tap_step;
          const i64 pixel = divide(q, s.split), part = q - pixel * s.split;
          const i64 step = tap_row * job_.row_steps + tap * job_.tap_steps + channels.first / job_.unit.group;
          a_offsets_[count] = (a + part * s.part + pixel * s.pixel) * job_.unit.element;
          b_offsets_[count] = step * m.b_step;
        }
      }
    }
    m.blocks = count;
    m.depth = !job_.merged ? channels.tap_depth : job_.edges ? (end[2] - from[2]) * job_.tap_steps : job_.row_steps;
  }

 private:
  /// a / b. Most divisors are 1; a division per tap would take as long as the products of a few channels.
  static i64 divide(i64 a, i64 b) { return b > 1 ? a / b : a; }

  /// The position of a tap of cell 0 in the input tile.
  i64 input_tile_position(int d, const DirectWindow& w, i64 tap) const {
    return divide(w.origin + tap * w.move - job_.first[d], job_.grain[d]);
  }

  /// The taps [from, end) of a window that read inside the input.
  void find_visible_taps(int d, const DirectWindow& w, i64 cell, i64& from, i64& end) const {
    from = 0;
    end = w.taps;
    if (job_.unit.shifts()) return;  // padding counts, so that all sums have one zero point
    const i64 start = w.origin + cell * job_.input_step(d), size = job_.from.size[d];
    if (start < 0) from = min_of(ceil_div(-start, w.move), end);
    if (start + (end - 1) * w.move >= size) end = max_of(start < size ? ceil_div(size - start, w.move) : 0, from);
  }

  const Direct& job_;
  const DirectPiece& piece_;
  i64 *a_offsets_, *b_offsets_;
};

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
