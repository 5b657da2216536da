// Direct convolution, forward and backward data. A register tile is neighbouring outputs (rows) x output channels
// (vectors), summed over a list of filter taps (batch-reduce); each tap is a run of input channels in the padded input
// tile.
// Instruction sets: also those that add dot products.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/caches.h"
#include "kernels/cpu/isa/direct_stages.h"
#include "kernels/cpu/isa/multiply_rows.h"
#include "kernels/cpu/isa/store_bf16.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

template <>
const DirectKernels& entry_points<DirectKernels>();

namespace {

static_assert(static_cast<int>(DirectMath::kInt16) == static_cast<int>(Dot::kInt16) &&
              static_cast<int>(DirectMath::kInt8) == static_cast<int>(Dot::kInt8) &&
              static_cast<int>(DirectMath::kBf16) == static_cast<int>(Dot::kBf16));

i64 bytes_of(DataType type, i64 elements) { return elements * static_cast<i64>(size_of(type)); }

/// The caller's memory from the next cache line boundary on.
char* packed_base(void* packed) {
  const auto address = reinterpret_cast<std::uintptr_t>(packed);
  return static_cast<char*>(packed) + (64 - address % 64) % 64;
}

/// Sets the fields of a unit that follow from its math.
void set_math(DirectUnit& unit) {
  const Dot dot = static_cast<Dot>(unit.math);
  unit.lanes = micro_lanes(dot);
  unit.group = micro_group(dot);
  unit.element = micro_group_bytes(dot) / micro_group(dot);
  unit.amx = kHasAmx && unit.group > 1;
  for (int v = 1; v <= kMicroVectors; ++v) {
    unit.rows[v] = unit.amx ? static_cast<int>(AmxCut(1).rows(v)) : kMicroRows[v];
  }
}

/// The piece with an index: panels are the slowest digit, then images, groups and cells.
DirectPiece piece_at(const Direct& job, i64 index) {
  DirectPiece p;
  const auto digit = [&](i64 count) {
    const i64 value = index % count;
    index /= count;
    return value;
  };
  const i64 block[kSpatial] = {1, job.cut.rows, job.cut.columns};
  for (int d = kSpatial - 1; d >= 0; --d) {
    p.start[d] = digit(ceil_div(job.cells[d], block[d])) * block[d];
    p.count[d] = min_of(block[d], job.cells[d] - p.start[d]);
  }
  p.group = digit(job.shape.groups);  // faster than images: the groups of an image share cache lines
  p.image = digit(ceil_div(job.shape.n, job.cut.images)) * job.cut.images;
  p.images = min_of(job.cut.images, job.shape.n - p.image);
  p.panel = index * job.cut.panels;
  p.panels = min_of(job.cut.panels, job.panels - p.panel);
  return p;
}

/// a / b. Most divisors are 1; a division per tap would take as long as the products of a few channels.
i64 divide(i64 a, i64 b) { return b > 1 ? a / b : a; }

/// Computes one piece.
class Worker {
 public:
  Worker(const Direct& job, const DirectArgs& args, i64 index, char* scratch, Amx& amx)
      : job_(job), args_(args), piece_(piece_at(job, index)), scratch_(scratch), amx_(amx) {
    const i64 size = bytes_of(job.from.type, 1);
    const char* from = static_cast<const char*>(args.from) + piece_.group * job.from.channels * job.from.c * size;
    output_ = static_cast<char*>(args.to) + bytes_of(job.to.type, piece_.group * job.to.channels * job.to.c);
    input_tile_ = scratch + job.places.input_tile;
    if (job.in_place) {
      i64 start = piece_.image * job.from.n;
      for (int d = 0; d < kSpatial; ++d) start += input_tile_start(d) * job.from.d[d];
      input_tile_ = const_cast<char*>(from) + start * size;
    } else {
      fill_input_tile(job, piece_, from, input_tile_);
    }
    a_offsets_ = reinterpret_cast<i64*>(scratch + job.places.lists);
    b_offsets_ = a_offsets_ + job.taps();
    is_non_temporal_ = writes_non_temporal();
    const bool is_final = job.cut.channels == job.from.channels && !args.epilogue;  // sums are complete and only stored
    has_streamed_sums_ = is_non_temporal_ && job.sums_are_results() && !job.unit.amx && is_final;
    const bool is_added = args.beta == 1 && !job.unit.sums_integers();  // integers saturate
    has_sums_in_place_ = job.sums_are_results() && args.alpha == 1 && (args.beta == 0 || is_added) && !args.epilogue &&
                         !is_non_temporal_;
    is_rounded_to_bf16_ = kHasBf16Rounding && job.to.type == DataType::kBFloat16 && job.to.c == 1 && args.alpha == 1 &&
                          args.beta == 0 && !args.epilogue;
    micro_.is_c_bf16 =
        is_rounded_to_bf16_ && job.unit.math == DirectMath::kBf16 && !job.unit.amx && is_final && job.cut.fold == 1;
    has_tile_stores_ = has_sums_in_place_ || has_streamed_sums_ || micro_.is_c_bf16;
    line_stride_ = position(1, 1, 0) * job.to.d[1];
    micro_.a_block = a_offsets_;
    micro_.b_block = b_offsets_;
    micro_.a_step = micro_group_bytes(static_cast<Dot>(job.unit.math));
    micro_.non_temporal = has_streamed_sums_ || (micro_.is_c_bf16 && is_non_temporal_);
  }
  ~Worker() {
#if defined(__AVX2__)
    if (is_non_temporal_) _mm_sfence();  // other threads read the result when they see that the task is done
#endif
  }

  void run() {
    if (job_.cut.packed && job_.interleaves_panels()) return compute_interleaved();
    for (i64 panel = piece_.panel; panel < piece_.panel + piece_.panels; ++panel) {
      start_panel(panel);
      for (i64 channel = 0; channel < job_.from.channels; channel += job_.cut.channels) sum_channels(channel);
    }
  }

 private:
  /// Bytes between the rows of a tile.
  struct Strides {
    i64 a, c;
  };

  /// Whether to use non-temporal stores: the result exceeds kResultCaches, and the kernel writes it in whole cache
  /// lines.
  bool writes_non_temporal() const {
    const DirectSide& to = job_.to;
    const i64 columns = job_.cut.columns < job_.cells[2] ? job_.cut.columns : 0;
    const bool is_rounded = kHasBf16Rounding && job_.unit.math == DirectMath::kBf16 && !args_.epilogue;
    const DataType type = job_.unit.sums_integers() ? DataType::kInt32
                          : is_rounded              ? DataType::kBFloat16
                                                    : DataType::kFloat;
    const bool has_type = kStreams && to.type == type && job_.unit.math != DirectMath::kDouble;
    // With more products per sum the reads before plain stores are hidden.
    constexpr i64 kMaxProducts = kVectorBytes == 64 ? INT64_MAX : 64;
    if (job_.taps() * job_.from.channels > kMaxProducts) return false;
    const i64 size = bytes_of(type, 1), results = to.n * job_.shape.n * size;
    if (!has_type || args_.alpha != 1 || args_.beta != 0 || results <= kResultCaches) return false;
    if (job_.backward && job_.shape.stride[2] > 1) return false;
    const i64 elements = 64 / size, vectors = elements / kLanes<float>;  // per cache line
    const bool has_line_panels = vectors == 1 || job_.vectors % (job_.panels * vectors) == 0;
    const bool is_nhwc = to.c == 1 && to.channels % elements == 0 && has_line_panels;
    const bool is_nchw = vectors == 1 && to.c != 1 && to.c % elements == 0 && to.d[2] == 1;
    const i64 strides = to.d[0] | to.d[1] | to.n | (is_nhwc ? to.d[2] : columns);
    return (is_nhwc || is_nchw) && strides % elements == 0 && reinterpret_cast<std::uintptr_t>(args_.to) % 64 == 0;
  }

  i64 input_tile_start(int d) const { return job_.first[d] + piece_.start[d] * job_.input_step(d); }

  /// `vectors` vectors of output channels from channel `first` on, `channels` of which exist, and their packed weights.
  struct Panel {
    i64 vectors, first, channels;
    char* weights;
  };

  /// Makes panel number `panel` the current one; packs its weights unless the caller has.
  void start_panel(i64 panel) {
    const i64 start = job_.panel_start(panel), vectors = job_.panel_start(panel + 1) - start;
    const i64 first = start * job_.unit.lanes;
    panel_ = {vectors, first, min_of(vectors * job_.unit.lanes, job_.to.channels - first), nullptr};
    if (job_.cut.packed) {
      panel_.weights = packed_base(args_.packed) + (piece_.group * job_.panels + panel) * job_.panel_bytes;
      return;
    }
    panel_.weights = scratch_ + job_.places.panel;
    const i64 group = piece_.group * job_.shape.k * job_.shape.w_k;
    pack_panel(job_, panel, static_cast<const char*>(args_.w) + bytes_of(job_.weight_type, group), panel_.weights,
               scratch_ + job_.places.transposed);
  }

  /// All panels of a block of outputs before the next block. Storing whole lines of results, which are in few pages, is
  /// twice as fast as storing a cache line in each of many pages.
  void compute_interleaved() {
    constexpr i64 kBlockBytes = 16 << 10;  // of results
    const DirectSide& to = job_.to;
    const i64 a_step = job_.step[2] * job_.input_tile.pitch * job_.unit.element, c_step = bytes_of(to.type, to.d[2]);
    Panel panels[kMaxInterleavedPanels];
    for (i64 p = 0; p < piece_.panels; ++p) {
      start_panel(piece_.panel + p);
      panels[p] = panel_;
    }
    start_sums(0);
    list_taps(direct_window(job_, 0, 0), direct_window(job_, 1, 0), direct_window(job_, 2, 0), 0, 0);
    const i64 height = job_.unit.rows[panel_.vectors];
    const i64 block = job_.unit.amx ? 2 * kAmxBlock : max_of<i64>(kBlockBytes / c_step / height, 1) * height;
    const i64 max_outputs = has_tile_stores_ || job_.unit.amx ? block : finish_outputs_;
    const bool has_x_prefetch = is_non_temporal_ && !job_.unit.amx;  // x comes from memory, too
    for (i64 cell = 0, cells; cell < piece_.count[2]; cell += cells) {
      cells = min_of(max_outputs, piece_.count[2] - cell);
      char* const y = output_ + bytes_of(to.type, piece_.image * to.n + (piece_.start[2] + cell) * to.d[2]);
      for (i64 p = 0; p < piece_.panels; ++p) {
        panel_ = panels[p];
        start_sums(0);
        if (has_x_prefetch) {
          const char* const next = input_tile_ + (cell + max_outputs) * a_step;
          const i64 bytes = min_of(max_outputs, piece_.count[2] - cell - cells) * a_step;
          for (i64 i = bytes * p / piece_.panels; i < bytes * (p + 1) / piece_.panels; i += 64)
            __builtin_prefetch(next + i, 0, 2);
        }
        char* const target = y + bytes_of(to.type, panel_.first * to.c);
        char* const c = has_tile_stores_ ? target : scratch_ + job_.places.sums;
        multiply(input_tile_ + cell * a_step, c, {a_step, has_tile_stores_ ? c_step : panel_.vectors * kVectorBytes},
                 cells);
        if (!has_tile_stores_) finish(c, cells, 0, target, to.d[2]);
      }
    }
  }

  /// Sets up micro_ for the current panel and the block of channels from `channel` on.
  void start_sums(i64 channel) {
    channel_ = channel;
    const i64 channels = min_of(job_.cut.channels, job_.from.channels - channel);
    tap_depth_ = ceil_div(channels, job_.unit.group);
    is_last_block_ = channel + channels == job_.from.channels;
    micro_.b = panel_.weights;
    micro_.b_step = panel_.vectors * kVectorBytes;
    micro_.add = channel > 0 || (has_sums_in_place_ && args_.beta != 0);
    micro_.tail = has_tile_stores_ ? static_cast<int>(panel_.channels % job_.unit.lanes) : 0;
    micro_.zero_point = has_tile_stores_ && job_.unit.shifts() && channel == 0 ? zero_point() : nullptr;
  }

  /// Sums all outputs of the piece over a block of channels.
  void sum_channels(i64 channel) {
    start_sums(channel);
    i64 line = 0;
    for (i64 image = 0; image < piece_.images; image += job_.cut.fold)
      for (i64 p0 = 0; p0 < job_.phases[0]; ++p0)
        for (i64 p1 = 0; p1 < job_.phases[1]; ++p1) sum_rows(image, p0, p1, line);
  }

  /// Lines of one phase of `fold` images. `line`: the index of their first line of sums, which is advanced.
  void sum_rows(i64 image, i64 phase0, i64 phase1, i64& line) {
    const DirectWindow slab = direct_window(job_, 0, phase0), row = direct_window(job_, 1, phase1);
    if (piece_.start[0] >= slab.cells) return;
    const i64 count = min_of(piece_.count[1], row.cells - piece_.start[1]);
    const bool has_several_lines = has_tile_stores_ || is_finished_by_lines();
    for (i64 r = 0, lines; r < count; r += lines, line += lines) {
      const i64 cell = piece_.start[1] + r;
      lines = has_several_lines ? equal_cells(1, row, cell, count - r) : 1;
      i64 offset = (piece_.image + image) * job_.to.n;
      offset += position(0, piece_.start[0], phase0) * job_.to.d[0] + position(1, cell, phase1) * job_.to.d[1];
      offset += position(2, piece_.start[2], 0) * job_.to.d[2] + panel_.first * job_.to.c;
      sum_lines(image, slab, row, cell, lines, line, output_ + bytes_of(job_.to.type, offset));
    }
  }

  /// The output position of a cell in a phase.
  i64 position(int d, i64 cell, i64 phase) const { return job_.backward ? cell * job_.shape.stride[d] + phase : cell; }

  /// Whether all sums of a line are complete after one pass, so that they can be finished line by line.
  bool is_finished_by_lines() const { return job_.phases[2] == 1 && !job_.edges; }

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

  /// How many lines of `outputs` outputs AMX computes as one, of `count`: the number with the fewest tiles per line,
  /// since loads of weights take as long for a tile of few rows as for a full one.
  i64 merged_lines(i64 outputs, i64 count) const {
    if (count == 1 || !has_merged_lines_) return 1;
    const i64 height = amx_.cut(micro_.depth).rows(panel_.vectors), next = job_.input_tile.size[2];
    i64 best = 1, best_tiles = ceil_div(outputs, height);
    for (i64 n = 2; n <= count && (n - 1) * next + outputs <= kDirectLine; ++n) {
      const i64 tiles = ceil_div((n - 1) * next + outputs, height);
      if (tiles * best < best_tiles * n) {
        best = n;
        best_tiles = tiles;
      }
    }
    return best;
  }

  /// `count` lines from `line` on, which have the same visible rows of taps; more than one only if lines
  /// are finished one by one. `row_cell`: the first line's cell in dimension 1; `to`: its result.
  void sum_lines(i64 image, const DirectWindow& slab, const DirectWindow& row, i64 row_cell, i64 count, i64 line,
                 char* to) {
    const i64 phase_step = position(2, 1, 0), fold = job_.cut.fold, pixel = panel_.vectors * kVectorBytes;
    const InputTile& s = job_.input_tile;
    // Of partial sums: those of all lines are kept while the channels are summed block by block.
    const i64 line_bytes = job_.cut.channels < job_.from.channels ? piece_.count[2] * job_.phases[2] * fold * pixel : 0;
    char* const sums = scratch_ + job_.places.sums + line * line_bytes;
    const char* const source = input_tile_ + image / fold * s.image * job_.unit.element;
    const Strides across{
        job_.step[2] / s.split * s.pitch * job_.unit.element,
        has_tile_stores_ ? bytes_of(job_.to.type, phase_step * job_.to.d[2]) : (fold > 1 ? 1 : phase_step) * pixel};
    const Strides down{job_.step[1] * s.row * job_.unit.element,
                       has_tile_stores_ ? bytes_of(job_.to.type, line_stride_) : line_bytes};
    const bool is_finished_here = is_last_block_ && !has_tile_stores_;
    const bool is_per_line = fold > 1 || is_finished_by_lines();
    i64 outputs = 0;
    for (i64 phase = 0; phase < job_.phases[2]; ++phase) {
      const DirectWindow column = direct_window(job_, 2, phase);
      const i64 cells = min_of(piece_.count[2], column.cells - piece_.start[2]);
      if (cells <= 0) continue;
      outputs += cells;
      char* const target = to + bytes_of(job_.to.type, phase * job_.to.d[2]);
      // The sums of phases interleave in the order of the results, except for folded images.
      char* const phase_sums = sums + phase * (fold > 1 ? piece_.count[2] * fold : 1) * pixel;
      const i64 max_outputs = is_finished_here ? min_of(finish_outputs_, cells) : cells;
      for (i64 cell = 0, width; cell < cells; cell += width) {
        width = job_.edges ? equal_cells(2, column, piece_.start[2] + cell, cells - cell)
                           : min_of(max_outputs, cells - cell);
        if (cell == 0 || job_.edges) list_taps(slab, row, column, row_cell, piece_.start[2] + cell);
        const char* a = source + cell * across.a;
        char* c = has_tile_stores_      ? target + cell * across.c
                  : max_outputs < cells ? phase_sums
                                        : phase_sums + cell * across.c;
        if (has_tile_stores_ && width < count && width < kMicroRows[panel_.vectors]) {
          for (i64 i = 0; i < width; ++i) multiply(a + i * across.a, c + i * across.c, down, count);
          continue;
        }
        const i64 max_lines = is_finished_here ? merged_lines(width, count) : 1;
        for (i64 r = 0, lines; r < count; r += lines, a += lines * down.a, c += lines * down.c) {
          lines = min_of(max_lines, count - r);
          multiply(a, c, across, (lines - 1) * s.size[2] + width * fold);
          if (!is_finished_here || !is_per_line) continue;
          for (i64 i = 0; i < lines; ++i) {
            const i64 offset = (r + i) * line_stride_ + cell * phase_step * job_.to.d[2];
            finish(c + i * s.size[2] * pixel, width, image, target + bytes_of(job_.to.type, offset),
                   phase_step * job_.to.d[2]);
          }
        }
      }
    }
    if (is_finished_here && !is_per_line) finish(sums, outputs, image, to, job_.to.d[2]);
  }

  /// Lists the taps that a line reads in a_offsets_ and b_offsets_. Skips rows of taps that are wholly in the padding,
  /// and, if job_.edges (the input is read in place or taps are far apart), columns of taps in the padding.
  void list_taps(const DirectWindow& slab, const DirectWindow& row, const DirectWindow& column, i64 row_cell,
                 i64 column_cell) {
    const InputTile& s = job_.input_tile;
    Micro& m = micro_;
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
                      channel_;
        const i64 tap_row = (slab.tap + t0 * slab.tap_step) * job_.shape.taps[1] + row.tap + t1 * row.tap_step;
        for (i64 t2 = from[2]; t2 < columns; ++t2, ++count) {
          const i64 q = input_tile_position(2, column, t2), tap = column.tap + t2 * column.tap_step;
          const i64 pixel = divide(q, s.split), part = q - pixel * s.split;
          a_offsets_[count] = (a + part * s.part + pixel * s.pixel) * job_.unit.element;
          b_offsets_[count] = (tap_row * job_.row_steps + tap * job_.tap_steps + channel_ / job_.unit.group) * m.b_step;
        }
      }
    }
    m.blocks = count;
    m.depth = !job_.merged ? tap_depth_ : job_.edges ? (end[2] - from[2]) * job_.tap_steps : job_.row_steps;
  }

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

  /// The zero point of each lane, which follows the packed weights of a panel.
  const char* zero_point() const {
    return panel_.weights + job_.shape.taps[0] * job_.shape.taps[1] * job_.row_steps * panel_.vectors * kVectorBytes;
  }

  void multiply(const char* a, char* c, const Strides& stride, i64 rows) {
    micro_.a = a;
    micro_.c = c;
    micro_.a_row = stride.a;
    micro_.c_row = stride.c;
    multiply_rows(amx_, dot_, rows, panel_.vectors, micro_);
  }

  /// Finishes and stores the sums of `outputs` neighbouring outputs of the folded images from `image` on. Not inlined:
  /// in the loops of sum_lines() its variables would be spilled, and with AMX short lines take up to 1.5 times as long.
  [[gnu::noinline]] void finish(char* sums, i64 outputs, i64 image, char* to, i64 to_pixel) const {
    const i64 fold = job_.cut.fold, pixel = panel_.vectors * kVectorBytes;
    finish_sums(job_, args_,
                {sums, outputs * fold, panel_.vectors * job_.unit.lanes, panel_.channels,
                 piece_.group * job_.to.channels + panel_.first, zero_point()});
    for (i64 j = 0; j < min_of(fold, piece_.images - image); ++j, sums += pixel) {
      char* const line = to + bytes_of(job_.to.type, j * job_.to.n);
      if (is_rounded_to_bf16_) {
        store_bf16_lines(reinterpret_cast<const float*>(sums), fold * panel_.vectors * kLanes<float>, outputs,
                         panel_.channels, reinterpret_cast<Bfloat16*>(line), to_pixel, is_non_temporal_);
      } else {
        store_line(job_, args_,
                   {sums, fold * pixel, outputs, panel_.channels, line, to_pixel, job_.to.c, is_non_temporal_});
      }
    }
  }

  // The piece.
  const Direct& job_;
  const DirectArgs& args_;
  const DirectPiece piece_;
  const i64 finish_outputs_ = job_.line();  // that are finished together
  const bool has_merged_lines_ = job_.merges_lines();
  const Dot dot_ = job_.in_place && job_.unit.shifts() ? Dot::kSigned8 : static_cast<Dot>(job_.unit.math);
  char* const scratch_;
  char* input_tile_;
  char* output_;                 // of the group
  i64 *a_offsets_, *b_offsets_;  // bytes to each tap in the input tile and in the packed weights

  // How sums are stored.
  bool is_non_temporal_;
  bool has_streamed_sums_;      // tiles store results with non-temporal stores
  bool has_sums_in_place_;      // tiles sum directly in the result
  bool is_last_block_ = false;  // of channels
  bool has_tile_stores_;        // tiles store results, as they are or rounded
  bool is_rounded_to_bf16_;     // NHWC bf16 results of unscaled sums
  i64 line_stride_;             // elements between lines of results

  // The tile at hand.
  Micro micro_;
  Amx& amx_;
  Panel panel_{};
  i64 channel_ = 0;    // the first one of the block
  i64 tap_depth_ = 0;  // steps per tap
};

DirectUnit direct_unit(DataType type) {
  DirectUnit unit;
  unit.math = type == DataType::kDouble ? DirectMath::kDouble
              : type == DataType::kInt8 ? (kHasInt8Dot ? DirectMath::kInt8 : DirectMath::kInt16)
              : type == DataType::kBFloat16 && (kHasAmx || prefers_bf16_dot()) ? DirectMath::kBf16
                                                                               : DirectMath::kFloat;
  set_math(unit);
  return unit;
}

void direct(const Direct& job, const DirectArgs& args, i64 first, i64 end, void* scratch) {
  const DirectMath math = job.unit.math;
  if (kAddsProducts && math != DirectMath::kBf16 && math != DirectMath::kInt8) {
    return POLYMIO_SHARED_NAMESPACE::entry_points<DirectKernels>().run(job, args, first, end, scratch);
  }
  Amx amx;
  for (i64 piece = first; piece < end; ++piece) Worker(job, args, piece, static_cast<char*>(scratch), amx).run();
}

void direct_pack(const Direct& job, const DirectArgs& args, i64 first, i64 end, void* scratch) {
  for (i64 i = first; i < end; ++i) {
    const i64 panel = i / job.pack_parts, group = panel / job.panels * job.shape.k * job.shape.w_k;
    pack_panel(job, panel % job.panels, static_cast<const char*>(args.w) + bytes_of(job.weight_type, group),
               packed_base(args.packed) + panel * job.panel_bytes, static_cast<char*>(scratch) + job.places.transposed,
               i % job.pack_parts, job.pack_parts);
  }
}

}  // namespace

template <>
const DirectKernels& entry_points<DirectKernels>() {
  static constexpr DirectKernels kKernels{.unit = direct_unit, .run = direct, .pack = direct_pack};
  return kKernels;
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
