// Direct convolution, forward and backward data. A tile's rows are neighbouring outputs, its vectors are output
// channels; it is summed over a list of filter taps (batch-reduce), each a run of input channels in the strip.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/caches.h"
#include "kernels/cpu/isa/amx.h"
#include "kernels/cpu/isa/direct_stages.h"
#include "kernels/cpu/isa/entry_points.h"
#include "kernels/cpu/isa/store_bf16.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

static_assert(static_cast<int>(DirectMath::kInt16) == static_cast<int>(Dot::kInt16) &&
              static_cast<int>(DirectMath::kInt8) == static_cast<int>(Dot::kInt8) &&
              static_cast<int>(DirectMath::kBf16) == static_cast<int>(Dot::kBf16));

i64 bytes_of(DataType type, i64 elements) { return elements * static_cast<i64>(size_of(type)); }

/// The caller's memory from the next line of the cache on.
char* packed_base(void* packed) {
  const auto address = reinterpret_cast<std::uintptr_t>(packed);
  return static_cast<char*>(packed) + (64 - address % 64) % 64;
}

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

DirectPiece piece_at(const Direct& job, i64 index) {
  DirectPiece p;
  const auto digit = [&](i64 count) {
    const i64 value = index % count;
    index /= count;
    return value;
  };
  const i64 block[kSpatial] = {1, job.cut.rows, job.cut.columns};
  for (int d = kSpatial - 1; d >= 0; --d) {
    p.at[d] = digit(ceil_div(job.cells[d], block[d])) * block[d];
    p.count[d] = min_of(block[d], job.cells[d] - p.at[d]);
  }
  p.group = digit(job.shape.groups);  // of an image in turn: they share lines of the cache
  p.image = digit(ceil_div(job.shape.n, job.cut.images)) * job.cut.images;
  p.images = min_of(job.cut.images, job.shape.n - p.image);
  p.panel = index * job.cut.panels;
  p.panels = min_of(job.cut.panels, job.panels - p.panel);
  return p;
}

/// Most divisors are 1, and divisions for each tap would take as long as the products of a few channels.
i64 over(i64 a, i64 b) { return b > 1 ? a / b : a; }

/// Computes one piece.
class Worker {
 public:
  Worker(const Direct& job, const DirectArgs& args, i64 index, char* scratch, Amx& amx)
      : job_(job), args_(args), piece_(piece_at(job, index)), scratch_(scratch), amx_(amx) {
    const i64 size = bytes_of(job.from.type, 1);
    const char* from = static_cast<const char*>(args.from) + piece_.group * job.from.channels * job.from.c * size;
    to_ = static_cast<char*>(args.to) + bytes_of(job.to.type, piece_.group * job.to.channels * job.to.c);
    input_tile_ = scratch + job.places.input_tile;
    if (job.in_place) {
      i64 start = piece_.image * job.from.n;
      for (int d = 0; d < kSpatial; ++d) start += input_tile_start(d) * job.from.d[d];
      input_tile_ = const_cast<char*>(from) + start * size;
    } else {
      fill_input_tile(job, piece_, from, input_tile_);
    }
    a_list_ = reinterpret_cast<i64*>(scratch + job.places.lists);
    b_list_ = a_list_ + job.taps();
    non_temporal_ = writes_non_temporal();
    const bool at_once = job.cut.channels == job.from.channels && !args.epilogue;
    streamed_ = non_temporal_ && job.sums_are_results() && !job.unit.amx && at_once;
    const bool adds = args.beta == 1 && !job.unit.sums_integers();  // integers saturate
    direct_ = job.sums_are_results() && args.alpha == 1 && (args.beta == 0 || adds) && !args.epilogue && !non_temporal_;
    rounded_ = kRoundsPairs && job.to.type == DataType::kBFloat16 && job.to.c == 1 && args.alpha == 1 &&
               args.beta == 0 && !args.epilogue;
    micro_.rounds = rounded_ && job.unit.math == DirectMath::kBf16 && !job.unit.amx && at_once && job.cut.fold == 1;
    written_ = direct_ || streamed_ || micro_.rounds;
    down_ = position(1, 1, 0) * job.to.d[1];
    micro_.a_block = a_list_;
    micro_.b_block = b_list_;
    micro_.a_step = micro_group_bytes(static_cast<Dot>(job.unit.math));
    micro_.non_temporal = streamed_ || (micro_.rounds && non_temporal_);
  }
  ~Worker() {
#if defined(__AVX2__)
    if (non_temporal_) _mm_sfence();  // other threads read the result when they see that the task is done
#endif
  }

  void run() {
    if (job_.cut.packed && job_.interleaves_panels()) return by_outputs();
    for (i64 panel = piece_.panel; panel < piece_.panel + piece_.panels; ++panel) {
      start_panel(panel);
      for (i64 channel = 0; channel < job_.from.channels; channel += job_.cut.channels) sum_channels(channel);
    }
  }

 private:
  /// Bytes from row to row of a tile.
  struct Steps {
    i64 a, c;
  };

  /// Whole lines of the cache of a result that is larger than what caches keep.
  bool writes_non_temporal() const {
    const DirectSide& to = job_.to;
    const i64 columns = job_.cut.columns < job_.cells[2] ? job_.cut.columns : 0;
    const bool rounds = kRoundsPairs && job_.unit.math == DirectMath::kBf16 && !args_.epilogue;
    const DataType type = job_.unit.sums_integers() ? DataType::kInt32
                          : rounds                  ? DataType::kBFloat16
                                                    : DataType::kFloat;
    const bool whole = kStreams && to.type == type && job_.unit.math != DirectMath::kDouble;
    // Sums of more products hide that lines are read before they are written.
    constexpr i64 kMostProducts = kVectorBytes == 64 ? INT64_MAX : 64;
    if (job_.taps() * job_.from.channels > kMostProducts) return false;
    const i64 size = bytes_of(type, 1), results = to.n * job_.shape.n * size;
    if (!whole || args_.alpha != 1 || args_.beta != 0 || results <= kResultCaches) return false;
    if (job_.backward && job_.shape.stride[2] > 1) return false;
    const i64 elements = 64 / size, vectors = elements / kLanes<float>;  // of a line
    const bool lines = vectors == 1 || job_.vectors % (job_.panels * vectors) == 0;
    const bool last = to.c == 1 && to.channels % elements == 0 && lines;
    const bool first = vectors == 1 && to.c != 1 && to.c % elements == 0 && to.d[2] == 1;
    const i64 steps = to.d[0] | to.d[1] | to.n | (last ? to.d[2] : columns);
    return (last || first) && steps % elements == 0 && reinterpret_cast<std::uintptr_t>(args_.to) % 64 == 0;
  }

  i64 input_tile_start(int d) const { return job_.first[d] + piece_.at[d] * job_.input_step(d); }

  /// Packed weights that some vectors of output channels have.
  struct Panel {
    i64 vectors, first, channels;
    char* weights;
  };

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

  /// All panels of some outputs before the next ones. Lines of results in few pages are written twice as fast as one of
  /// each of many pages.
  void by_outputs() {
    constexpr i64 kPages = 16 << 10;
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
    const i64 few = job_.unit.amx ? 2 * kAmxBlock : max_of<i64>(kPages / c_step / height, 1) * height;
    const i64 most = written_ || job_.unit.amx ? few : line_;
    const bool fetches = non_temporal_ && !job_.unit.amx;  // then x comes from memory, too
    for (i64 at = 0, some; at < piece_.count[2]; at += some) {
      some = min_of(most, piece_.count[2] - at);
      char* const y = to_ + bytes_of(to.type, piece_.image * to.n + (piece_.at[2] + at) * to.d[2]);
      for (i64 p = 0; p < piece_.panels; ++p) {
        panel_ = panels[p];
        start_sums(0);
        if (fetches) {
          const char* const next = input_tile_ + (at + most) * a_step;
          const i64 bytes = min_of(most, piece_.count[2] - at - some) * a_step;
          for (i64 i = bytes * p / piece_.panels; i < bytes * (p + 1) / piece_.panels; i += 64)
            __builtin_prefetch(next + i, 0, 2);
        }
        char* const target = y + bytes_of(to.type, panel_.first * to.c);
        char* const c = written_ ? target : scratch_ + job_.places.sums;
        tiles(input_tile_ + at * a_step, c, {a_step, written_ ? c_step : panel_.vectors * kVectorBytes}, some);
        if (!written_) finish(c, some, 0, target, to.d[2]);
      }
    }
  }

  void start_sums(i64 channel) {
    channel_ = channel;
    const i64 some = min_of(job_.cut.channels, job_.from.channels - channel);
    tap_depth_ = ceil_div(some, job_.unit.group);
    last_ = channel + some == job_.from.channels;
    micro_.b = panel_.weights;
    micro_.b_step = panel_.vectors * kVectorBytes;
    micro_.add = channel > 0 || (direct_ && args_.beta != 0);
    micro_.tail = written_ ? static_cast<int>(panel_.channels % job_.unit.lanes) : 0;
    micro_.zero_point = written_ && job_.unit.shifts() && channel == 0 ? zero_point() : nullptr;
  }

  /// All outputs of the piece, summed over a block of channels.
  void sum_channels(i64 channel) {
    start_sums(channel);
    i64 line = 0;
    for (i64 image = 0; image < piece_.images; image += job_.cut.fold)
      for (i64 p0 = 0; p0 < job_.phases[0]; ++p0)
        for (i64 p1 = 0; p1 < job_.phases[1]; ++p1) rows(image, p0, p1, line);
  }

  void rows(i64 image, i64 phase0, i64 phase1, i64& line) {
    const DirectWindow slab = direct_window(job_, 0, phase0), row = direct_window(job_, 1, phase1);
    if (piece_.at[0] >= slab.cells) return;
    const i64 count = min_of(piece_.count[1], row.cells - piece_.at[1]);
    const bool many = written_ || by_lines();
    for (i64 r = 0, some; r < count; r += some, line += some) {
      const i64 cell = piece_.at[1] + r;
      some = many ? alike(1, row, cell, count - r) : 1;
      i64 to = (piece_.image + image) * job_.to.n;
      to += position(0, piece_.at[0], phase0) * job_.to.d[0] + position(1, cell, phase1) * job_.to.d[1];
      to += position(2, piece_.at[2], 0) * job_.to.d[2] + panel_.first * job_.to.c;
      lines(image, slab, row, cell, some, line, to_ + bytes_of(job_.to.type, to));
    }
  }

  i64 position(int d, i64 cell, i64 phase) const { return job_.backward ? cell * job_.shape.stride[d] + phase : cell; }

  /// Whether a line's sums are made in one go, after which they can be finished.
  bool by_lines() const { return job_.phases[2] == 1 && !job_.edges; }

  /// How many cells from this one on, at most so many, meet the same taps of a window.
  i64 alike(int d, const DirectWindow& w, i64 cell, i64 most) const {
    i64 from, end, other_from, other_end, count = 1;
    visible(d, w, cell, from, end);
    for (; count < most; ++count) {
      visible(d, w, cell + count, other_from, other_end);
      if (other_from != from || other_end != end) break;
    }
    return count;
  }

  /// How many lines of `some` outputs are one for tile registers, so that these are used best: their loads of weights
  /// take as long for a few rows as for all.
  i64 lines_together(i64 some, i64 count) const {
    if (count == 1 || !joins_) return 1;
    const i64 height = amx_.cut(micro_.depth).rows(panel_.vectors), next = job_.input_tile.size[2];
    i64 best = 1, best_tiles = ceil_div(some, height);
    for (i64 n = 2; n <= count && (n - 1) * next + some <= kDirectLine; ++n) {
      const i64 tiles = ceil_div((n - 1) * next + some, height);
      if (tiles * best < best_tiles * n) best = n, best_tiles = tiles;
    }
    return best;
  }

  /// `count` lines that meet the same rows of taps: one, or lines whose sums are not wanted together with others.
  void lines(i64 image, const DirectWindow& slab, const DirectWindow& row, i64 cell, i64 count, i64 line, char* to) {
    const i64 phase_step = position(2, 1, 0), fold = job_.cut.fold, pixel = panel_.vectors * kVectorBytes;
    const InputTile& s = job_.input_tile;
    const i64 kept = job_.cut.channels < job_.from.channels ? piece_.count[2] * job_.phases[2] * fold * pixel : 0;
    char* const sums = scratch_ + job_.places.sums + line * kept;
    const char* const source = input_tile_ + image / fold * s.image * job_.unit.element;
    const Steps across{
        job_.step[2] / s.split * s.pitch * job_.unit.element,
        written_ ? bytes_of(job_.to.type, phase_step * job_.to.d[2]) : (fold > 1 ? 1 : phase_step) * pixel};
    const Steps down{job_.step[1] * s.row * job_.unit.element, written_ ? bytes_of(job_.to.type, down_) : kept};
    const bool finishes = last_ && !written_, each = fold > 1 || by_lines();
    i64 outputs = 0;
    for (i64 phase = 0; phase < job_.phases[2]; ++phase) {
      const DirectWindow column = direct_window(job_, 2, phase);
      const i64 cells = min_of(piece_.count[2], column.cells - piece_.at[2]);
      if (cells <= 0) continue;
      outputs += cells;
      char* const target = to + bytes_of(job_.to.type, phase * job_.to.d[2]);
      // Phases interleave as they will lie, but for folded images.
      char* const part = sums + phase * (fold > 1 ? piece_.count[2] * fold : 1) * pixel;
      const i64 most = finishes ? min_of(line_, cells) : cells;
      for (i64 at = 0, some; at < cells; at += some) {
        some = job_.edges ? alike(2, column, piece_.at[2] + at, cells - at) : min_of(most, cells - at);
        if (at == 0 || job_.edges) list_taps(slab, row, column, cell, piece_.at[2] + at);
        const char* a = source + at * across.a;
        char* c = written_ ? target + at * across.c : most < cells ? part : part + at * across.c;
        if (written_ && some < count && some < kMicroRows[panel_.vectors]) {
          for (i64 i = 0; i < some; ++i) tiles(a + i * across.a, c + i * across.c, down, count);
          continue;
        }
        const i64 most_lines = finishes ? lines_together(some, count) : 1;
        for (i64 r = 0, several; r < count; r += several, a += several * down.a, c += several * down.c) {
          several = min_of(most_lines, count - r);
          tiles(a, c, across, (several - 1) * s.size[2] + some * fold);
          if (!finishes || !each) continue;
          for (i64 i = 0; i < several; ++i) {
            const i64 place = (r + i) * down_ + at * phase_step * job_.to.d[2];
            finish(c + i * s.size[2] * pixel, some, image, target + bytes_of(job_.to.type, place),
                   phase_step * job_.to.d[2]);
          }
        }
      }
    }
    if (finishes && !each) finish(sums, outputs, image, to, job_.to.d[2]);
  }

  /// The taps that a line reads. Rows of taps that are wholly in the padding are left out, and so are columns where
  /// the input is read in place or taps lie far apart.
  void list_taps(const DirectWindow& slab, const DirectWindow& row, const DirectWindow& column, i64 cell, i64 across) {
    const InputTile& s = job_.input_tile;
    Micro& m = micro_;
    i64 from[kSpatial] = {}, end[kSpatial] = {0, 0, column.taps};
    visible(0, slab, piece_.at[0], from[0], end[0]);
    visible(1, row, cell, from[1], end[1]);
    if (job_.edges) visible(2, column, across, from[2], end[2]);
    i64 count = 0;
    const i64 columns = job_.merged ? min_of(end[2], from[2] + 1) : end[2];
    for (i64 t0 = from[0]; t0 < end[0]; ++t0) {
      for (i64 t1 = from[1]; t1 < end[1]; ++t1) {
        const i64 a = in_input_tile(0, slab, t0) * s.slab +
                      ((cell - piece_.at[1]) * job_.step[1] + in_input_tile(1, row, t1)) * s.row + channel_;
        const i64 tap_row = (slab.tap + t0 * slab.tap_step) * job_.shape.taps[1] + row.tap + t1 * row.tap_step;
        for (i64 t2 = from[2]; t2 < columns; ++t2, ++count) {
          const i64 q = in_input_tile(2, column, t2), tap = column.tap + t2 * column.tap_step;
          const i64 pixel = over(q, s.split), part = q - pixel * s.split;
          a_list_[count] = (a + part * s.part + pixel * s.pixel) * job_.unit.element;
          b_list_[count] = (tap_row * job_.row_steps + tap * job_.tap_steps + channel_ / job_.unit.group) * m.b_step;
        }
      }
    }
    m.blocks = count;
    m.depth = !job_.merged ? tap_depth_ : job_.edges ? (end[2] - from[2]) * job_.tap_steps : job_.row_steps;
  }

  i64 in_input_tile(int d, const DirectWindow& w, i64 tap) const {
    return over(w.origin + tap * w.move - job_.first[d], job_.grain[d]);
  }

  void visible(int d, const DirectWindow& w, i64 cell, i64& from, i64& end) const {
    from = 0;
    end = w.taps;
    if (job_.unit.shifts()) return;  // the excess of sums is the same everywhere
    const i64 start = w.origin + cell * job_.input_step(d), size = job_.from.size[d];
    if (start < 0) from = min_of(ceil_div(-start, w.move), end);
    if (start + (end - 1) * w.move >= size) end = max_of(start < size ? ceil_div(size - start, w.move) : 0, from);
  }

  /// What sums of shifted inputs have too much, behind the weights of a panel.
  const char* zero_point() const {
    return panel_.weights + job_.shape.taps[0] * job_.shape.taps[1] * job_.row_steps * panel_.vectors * kVectorBytes;
  }

  void tiles(const char* a, char* c, const Steps& step, i64 rows) {
    micro_.a = a;
    micro_.c = c;
    micro_.a_row = step.a;
    micro_.c_row = step.c;
    multiply_rows(amx_, dot_, rows, panel_.vectors, micro_);
  }

  /// `outputs` neighbours of the images that are folded together. Not inlined: among the loops of lines() what it
  /// counts with goes to the stack, and with AMX short lines take up to 1.5 times as long.
  [[gnu::noinline]] void finish(char* sums, i64 outputs, i64 image, char* to, i64 to_pixel) const {
    const i64 fold = job_.cut.fold, pixel = panel_.vectors * kVectorBytes;
    finish_sums(job_, args_,
                {sums, outputs * fold, panel_.vectors * job_.unit.lanes, panel_.channels,
                 piece_.group * job_.to.channels + panel_.first, zero_point()});
    for (i64 j = 0; j < min_of(fold, piece_.images - image); ++j, sums += pixel) {
      char* const line = to + bytes_of(job_.to.type, j * job_.to.n);
      if (rounded_) {
        round_lines(reinterpret_cast<const float*>(sums), fold * panel_.vectors * kLanes<float>, outputs,
                    panel_.channels, reinterpret_cast<Bfloat16*>(line), to_pixel, non_temporal_);
      } else {
        store_line(job_, args_,
                   {sums, fold * pixel, outputs, panel_.channels, line, to_pixel, job_.to.c, non_temporal_});
      }
    }
  }

  const Direct& job_;
  const DirectArgs& args_;
  const DirectPiece piece_;
  const i64 line_ = job_.line();
  const bool joins_ = job_.merges_lines();
  const Dot dot_ = job_.in_place && job_.unit.shifts() ? Dot::kSigned8 : static_cast<Dot>(job_.unit.math);
  char* const scratch_;
  char *input_tile_, *to_;
  i64 *a_list_, *b_list_;
  bool non_temporal_, streamed_, direct_, last_ = false;
  bool written_;  // tiles write their sums where the results belong, as they are or rounded
  bool rounded_;  // sums are rounded to bf16, channels last, and no more
  i64 down_;      // from line to line of results
  Micro micro_;
  Amx& amx_;
  Panel panel_{};
  i64 channel_ = 0, tap_depth_ = 0;
};

}  // namespace

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
    return POLYMIO_SHARED_NAMESPACE::direct(job, args, first, end, scratch);
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

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
