// Direct convolution, forward and backward data. A register tile is neighbouring outputs (rows) x output channels
// (vectors), summed over a list of filter taps (batch-reduce); each tap is a run of input channels in the padded input
// tile.
// Instruction sets: also those that add dot products.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/isa/direct_piece.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

template <>
const DirectKernels& entry_points<DirectKernels>();

namespace {

static_assert(static_cast<int>(DirectMath::kInt16) == static_cast<int>(Dot::kInt16) &&
              static_cast<int>(DirectMath::kInt8) == static_cast<int>(Dot::kInt8) &&
              static_cast<int>(DirectMath::kBf16) == static_cast<int>(Dot::kBf16));

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

/// `vectors` vectors of output channels from channel `first` on, `channels` of which exist, and their packed weights.
struct Panel {
  i64 vectors, first, channels;
  char* weights;
};

/// Bytes between the rows of a tile.
struct RowStrides {
  i64 a, c;
};

/// The sums of a panel: multiplies rows of outputs and finishes their sums.
class PanelSums {
 public:
  PanelSums(const DirectPieceData& p, const DirectTaps& taps, Amx& amx)
      : p_(p), job_(p.job), piece_(p.piece), stores_(p.stores), amx_(amx) {
    micro_.a_block = taps.a_offsets();
    micro_.b_block = taps.b_offsets();
    micro_.a_step = micro_group_bytes(static_cast<Dot>(job_.unit.math));
    micro_.is_c_bf16 = stores_.is_c_bf16;
    micro_.non_temporal = stores_.has_streamed_sums || (stores_.is_c_bf16 && stores_.is_non_temporal);
  }

  const Panel& panel() const { return panel_; }
  const DirectChannels& channels() const { return channels_; }
  Micro& micro() { return micro_; }
  /// Bytes of the sums of an output.
  i64 pixel() const { return panel_.vectors * kVectorBytes; }

  /// Makes panel number `number` the current one; packs its weights unless the caller has.
  void start_panel(i64 number) {
    const i64 start = job_.panel_start(number), vectors = job_.panel_start(number + 1) - start;
    const i64 first = start * job_.unit.lanes;
    panel_ = {vectors, first, min_of(vectors * job_.unit.lanes, job_.to.channels - first), nullptr};
    if (job_.cut.packed) {
      panel_.weights = packed_base(p_.args.packed) + (piece_.group * job_.panels + number) * job_.panel_bytes;
      return;
    }
    panel_.weights = p_.scratch + job_.places.panel;
    const i64 group = piece_.group * job_.shape.k * job_.shape.w_k;
    pack_panel(job_, number, static_cast<const char*>(p_.args.w) + bytes_of(job_.weight_type, group), panel_.weights,
               p_.scratch + job_.places.transposed);
  }
  void select(const Panel& panel) { panel_ = panel; }

  /// Prepares the sums of the current panel over the block of channels from `first` on.
  void start_sums(i64 first) {
    const i64 channels = min_of(job_.cut.channels, job_.from.channels - first);
    channels_ = {first, ceil_div(channels, job_.unit.group), first + channels == job_.from.channels};
    micro_.b = panel_.weights;
    micro_.b_step = pixel();
    micro_.add = first > 0 || (stores_.has_sums_in_place && p_.args.beta != 0);
    micro_.tail = stores_.has_tile_stores ? static_cast<int>(panel_.channels % job_.unit.lanes) : 0;
    micro_.zero_point = stores_.has_tile_stores && job_.unit.shifts() && first == 0 ? zero_point() : nullptr;
  }

  void multiply(const char* a, char* c, const RowStrides& stride, i64 rows) {
    micro_.a = a;
    micro_.c = c;
    micro_.a_row = stride.a;
    micro_.c_row = stride.c;
    multiply_rows(amx_, dot_, rows, panel_.vectors, micro_);
  }

  /// Finishes and stores the sums of `outputs` neighbouring outputs of the folded images from `image` on. Not inlined:
  /// in the loops of sum_lines() its variables would be spilled, and with AMX short lines take up to 1.5 times as long.
  [[gnu::noinline]] void finish(char* sums, i64 outputs, i64 image, char* to, i64 to_pixel) const {
    const i64 fold = job_.cut.fold, images = min_of(fold, piece_.images - image);
    const i64 first_channel = piece_.group * job_.to.channels + panel_.first;
    const bool is_scaled = stores_scaled(job_, p_.args);
    finish_sums(job_, p_.args,
                {sums, outputs * fold, panel_.vectors * job_.unit.lanes, panel_.channels, first_channel, zero_point(),
                 to, to_pixel, images});
    for (i64 j = 0; j < images; ++j, sums += pixel()) {
      char* const line = to + bytes_of(job_.to.type, j * job_.to.n);
      if (stores_.is_rounded_to_bf16) {
        store_bf16_lines(reinterpret_cast<const float*>(sums), fold * panel_.vectors * kLanes<float>, outputs,
                         panel_.channels, reinterpret_cast<Bfloat16*>(line), to_pixel, stores_.is_non_temporal);
      } else {
        const DirectLine stored{sums, fold * pixel(), outputs,   panel_.channels,
                                line, to_pixel,       job_.to.c, stores_.is_non_temporal};
        if (is_scaled)
          store_scaled_line(p_.args, stored, first_channel);
        else
          store_line(job_, p_.args, stored);
      }
    }
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

 private:
  /// The zero point of each lane, which follows the packed weights of a panel.
  const char* zero_point() const {
    return panel_.weights + job_.shape.taps[0] * job_.shape.taps[1] * job_.row_steps * pixel();
  }

  const DirectPieceData& p_;
  const Direct& job_;
  const DirectPiece& piece_;
  const DirectStores& stores_;
  const bool has_merged_lines_ = job_.merges_lines();
  const Dot dot_ = job_.in_place && job_.unit.shifts() ? Dot::kSigned8 : static_cast<Dot>(job_.unit.math);
  Micro micro_;
  Amx& amx_;
  Panel panel_{};
  DirectChannels channels_;
};

/// All panels of a block of outputs before the next block. Storing whole lines of results, which are in few pages, is
/// twice as fast as storing a cache line in each of many pages.
void compute_interleaved(const DirectPieceData& p, const DirectTaps& taps, PanelSums& sums) {
  constexpr i64 kBlockBytes = 16 << 10;  // of results
  const Direct& job = p.job;
  const DirectPiece& piece = p.piece;
  const DirectSide& to = job.to;
  const bool has_tile_stores = p.stores.has_tile_stores;
  const i64 a_step = job.step[2] * job.input_tile.pitch * job.unit.element, c_step = bytes_of(to.type, to.d[2]);
  Panel panels[kMaxInterleavedPanels];
  for (i64 i = 0; i < piece.panels; ++i) {
    sums.start_panel(piece.panel + i);
    panels[i] = sums.panel();
  }
  sums.start_sums(0);
  taps.list({direct_window(job, 0, 0), direct_window(job, 1, 0), 0}, direct_window(job, 2, 0), 0, sums.channels(),
            sums.micro());
  const i64 height = job.unit.rows[sums.panel().vectors];
  const i64 block = job.unit.amx ? 2 * kAmxBlock : max_of<i64>(kBlockBytes / c_step / height, 1) * height;
  const i64 max_outputs = has_tile_stores || job.unit.amx ? block : job.line();
  const bool has_x_prefetch = p.stores.is_non_temporal && !job.unit.amx;  // x comes from memory, too
  for (i64 cell = 0, cells; cell < piece.count[2]; cell += cells) {
    cells = min_of(max_outputs, piece.count[2] - cell);
    char* const y = p.output + bytes_of(to.type, piece.image * to.n + (piece.start[2] + cell) * to.d[2]);
    for (i64 i = 0; i < piece.panels; ++i) {
      sums.select(panels[i]);
      sums.start_sums(0);
      if (has_x_prefetch) {
        const char* const next = p.input_tile + (cell + max_outputs) * a_step;
        const i64 bytes = min_of(max_outputs, piece.count[2] - cell - cells) * a_step;
        for (i64 e = bytes * i / piece.panels; e < bytes * (i + 1) / piece.panels; e += 64)
          __builtin_prefetch(next + e, 0, 2);
      }
      char* const target = y + bytes_of(to.type, panels[i].first * to.c);
      char* const c = has_tile_stores ? target : p.scratch + job.places.sums;
      sums.multiply(p.input_tile + cell * a_step, c, {a_step, has_tile_stores ? c_step : sums.pixel()}, cells);
      if (!has_tile_stores) sums.finish(c, cells, 0, target, to.d[2]);
    }
  }
}

/// Computes a piece line by line.
class LineLoop {
 public:
  LineLoop(const DirectPieceData& p, const DirectTaps& taps, PanelSums& sums)
      : p_(p), job_(p.job), piece_(p.piece), stores_(p.stores), taps_(taps), sums_(sums) {}

  void run() {
    for (i64 panel = piece_.panel; panel < piece_.panel + piece_.panels; ++panel) {
      sums_.start_panel(panel);
      for (i64 channel = 0; channel < job_.from.channels; channel += job_.cut.channels) sum_channels(channel);
    }
  }

 private:
  /// Sums all outputs of the piece over a block of channels.
  void sum_channels(i64 channel) {
    sums_.start_sums(channel);
    i64 line = 0;
    for (i64 image = 0; image < piece_.images; image += job_.cut.fold)
      for (i64 p0 = 0; p0 < job_.phases[0]; ++p0)
        for (i64 p1 = 0; p1 < job_.phases[1]; ++p1) sum_rows(image, p0, p1, line);
  }

  /// Lines of one phase of `fold` images. `line`: the index of their first line of sums, which is advanced.
  void sum_rows(i64 image, i64 phase0, i64 phase1, i64& line) {
    DirectLines windows{direct_window(job_, 0, phase0), direct_window(job_, 1, phase1), 0};
    if (piece_.start[0] >= windows.slab.cells) return;
    const i64 count = min_of(piece_.count[1], windows.row.cells - piece_.start[1]);
    const bool has_several_lines = stores_.has_tile_stores || is_finished_by_lines();
    for (i64 r = 0, lines; r < count; r += lines, line += lines) {
      windows.row_cell = piece_.start[1] + r;
      lines = has_several_lines ? taps_.equal_cells(1, windows.row, windows.row_cell, count - r) : 1;
      i64 offset = (piece_.image + image) * job_.to.n;
      offset += output_position(job_, 0, piece_.start[0], phase0) * job_.to.d[0];
      offset += output_position(job_, 1, windows.row_cell, phase1) * job_.to.d[1];
      offset += output_position(job_, 2, piece_.start[2], 0) * job_.to.d[2] + sums_.panel().first * job_.to.c;
      sum_lines(image, windows, lines, line, p_.output + bytes_of(job_.to.type, offset));
    }
  }

  /// Whether all sums of a line are complete after one pass, so that they can be finished line by line.
  bool is_finished_by_lines() const { return job_.phases[2] == 1 && !job_.edges; }

  /// `count` lines from `line` on, which have the same visible rows of taps; more than one only if lines are finished
  /// one by one. `to`: the first line's result.
  void sum_lines(i64 image, const DirectLines& windows, i64 count, i64 line, char* to) {
    const i64 fold = job_.cut.fold, pixel = sums_.pixel();
    // Of partial sums: those of all lines are kept while the channels are summed block by block.
    const i64 line_bytes = job_.cut.channels < job_.from.channels ? piece_.count[2] * job_.phases[2] * fold * pixel : 0;
    char* const sums = p_.scratch + job_.places.sums + line * line_bytes;
    i64 outputs = 0;
    for (i64 phase = 0; phase < job_.phases[2]; ++phase) {
      // The sums of phases interleave in the order of the results, except for folded images.
      char* const phase_sums = sums + phase * (fold > 1 ? piece_.count[2] * fold : 1) * pixel;
      outputs += sum_phase({image, count, line_bytes, phase_sums, to + bytes_of(job_.to.type, phase * job_.to.d[2])},
                           windows, direct_window(job_, 2, phase));
    }
    const bool is_finished_here = sums_.channels().is_last && !stores_.has_tile_stores;
    if (is_finished_here && fold == 1 && !is_finished_by_lines()) sums_.finish(sums, outputs, image, to, job_.to.d[2]);
  }

  /// The lines of a phase of dimension 2; the addresses of the first one's sums and results.
  struct PhaseLines {
    i64 image, count;
    i64 line_bytes;  // between lines of partial sums
    char *sums, *target;
  };

  /// Returns the number of outputs of a line.
  i64 sum_phase(const PhaseLines& l, const DirectLines& windows, const DirectWindow& column) {
    const i64 cells = min_of(piece_.count[2], column.cells - piece_.start[2]);
    if (cells <= 0) return 0;
    const InputTile& s = job_.input_tile;
    const bool has_tile_stores = stores_.has_tile_stores;
    const i64 phase_step = output_position(job_, 2, 1, 0), fold = job_.cut.fold, pixel = sums_.pixel();
    const char* const source = p_.input_tile + l.image / fold * s.image * job_.unit.element;
    const RowStrides across{
        job_.step[2] / s.split * s.pitch * job_.unit.element,
        has_tile_stores ? bytes_of(job_.to.type, phase_step * job_.to.d[2]) : (fold > 1 ? 1 : phase_step) * pixel};
    const RowStrides down{job_.step[1] * s.row * job_.unit.element,
                          has_tile_stores ? bytes_of(job_.to.type, stores_.line_stride) : l.line_bytes};
    const bool is_finished_here = sums_.channels().is_last && !has_tile_stores;
    const bool is_per_line = fold > 1 || is_finished_by_lines();
    const i64 max_outputs = is_finished_here ? min_of(finish_outputs_, cells) : cells;
    for (i64 cell = 0, width; cell < cells; cell += width) {
      width = job_.edges ? taps_.equal_cells(2, column, piece_.start[2] + cell, cells - cell)
                         : min_of(max_outputs, cells - cell);
      if (cell == 0 || job_.edges) {
        taps_.list(windows, column, piece_.start[2] + cell, sums_.channels(), sums_.micro());
      }
      const char* a = source + cell * across.a;
      char* c = has_tile_stores ? l.target + cell * across.c : max_outputs < cells ? l.sums : l.sums + cell * across.c;
      if (has_tile_stores && width < l.count && width < kMicroRows[sums_.panel().vectors]) {
        for (i64 i = 0; i < width; ++i) sums_.multiply(a + i * across.a, c + i * across.c, down, l.count);
        continue;
      }
      const i64 max_lines = is_finished_here ? sums_.merged_lines(width, l.count) : 1;
      for (i64 r = 0, lines; r < l.count; r += lines, a += lines * down.a, c += lines * down.c) {
        lines = min_of(max_lines, l.count - r);
        sums_.multiply(a, c, across, (lines - 1) * s.size[2] + width * fold);
        if (!is_finished_here || !is_per_line) continue;
        for (i64 i = 0; i < lines; ++i) {
          const i64 offset = (r + i) * stores_.line_stride + cell * phase_step * job_.to.d[2];
          sums_.finish(c + i * s.size[2] * pixel, width, l.image, l.target + bytes_of(job_.to.type, offset),
                       phase_step * job_.to.d[2]);
        }
      }
    }
    return cells;
  }

  const DirectPieceData& p_;
  const Direct& job_;
  const DirectPiece& piece_;
  const DirectStores& stores_;
  const DirectTaps& taps_;
  PanelSums& sums_;
  const i64 finish_outputs_ = job_.line();  // that are finished together
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
  const DirectStores stores(job, args);
  const bool interleaves = job.cut.packed && job.interleaves_panels();
  Amx amx;
  for (i64 index = first; index < end; ++index) {
    const DirectPieceData piece(job, args, stores, index, static_cast<char*>(scratch));
    const DirectTaps taps(piece);
    PanelSums sums(piece, taps, amx);
    interleaves ? compute_interleaved(piece, taps, sums) : LineLoop(piece, taps, sums).run();
  }
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
