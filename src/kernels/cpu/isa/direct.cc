// Direct convolution, forward and backward data. A tile's rows are neighbouring outputs, its vectors are output
// channels; it is summed over a list of filter taps (batch-reduce), each a run of input channels in the strip.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/isa/direct_parts.h"
#include "kernels/cpu/isa/entries.h"
#include "kernels/cpu/isa/micro.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

static_assert(static_cast<int>(DirectMath::kInt16) == static_cast<int>(Dot::kInt16) &&
              static_cast<int>(DirectMath::kInt8) == static_cast<int>(Dot::kInt8) &&
              static_cast<int>(DirectMath::kBf16) == static_cast<int>(Dot::kBf16));

i64 ceil_div(i64 a, i64 b) { return (a + b - 1) / b; }

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
  for (int v = 0; v <= kMicroVectors; ++v) unit.rows[v] = kMicroRows[v];
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
  p.image = digit(ceil_div(job.shape.n, job.cut.images)) * job.cut.images;
  p.images = min_of(job.cut.images, job.shape.n - p.image);
  p.panel = digit(ceil_div(job.panels, job.cut.panels)) * job.cut.panels;
  p.panels = min_of(job.cut.panels, job.panels - p.panel);
  p.group = index;
  return p;
}

/// Most divisors are 1, and divisions for each tap would take as long as the products of a few channels.
i64 over(i64 a, i64 b) { return b > 1 ? a / b : a; }

/// Computes one piece.
class Worker {
 public:
  Worker(const Direct& job, const DirectArgs& args, i64 index, char* scratch)
      : job_(job), args_(args), piece_(piece_at(job, index)), scratch_(scratch) {
    const i64 size = bytes_of(job.from.type, 1);
    const char* from = static_cast<const char*>(args.from) + piece_.group * job.from.channels * job.from.c * size;
    to_ = static_cast<char*>(args.to) + bytes_of(job.to.type, piece_.group * job.to.channels * job.to.c);
    strip_ = scratch + job.places.strip;
    if (job.in_place) {
      i64 start = piece_.image * job.from.n;
      for (int d = 0; d < kSpatial; ++d) start += strip_start(d) * job.from.d[d];
      strip_ = const_cast<char*>(from) + start * size;
    } else {
      fill_strip(job, piece_, from, strip_);
    }
    a_list_ = reinterpret_cast<i64*>(scratch + job.places.lists);
    b_list_ = a_list_ + job.taps();
    const bool plain = job.unit.math == DirectMath::kFloat || job.unit.math == DirectMath::kDouble;
    around_ = writes_around();
    streamed_ = around_ && job.to.c == 1 && job.cut.fold == 1 && job.cut.channels == job.from.channels;
    streamed_ = streamed_ && !args.epilogue;
    direct_ = plain && job.cut.fold == 1 && job.to.c == 1 && bytes_of(job.to.type, 1) == job.unit.element &&
              args.alpha == 1 && (args.beta == 0 || args.beta == 1) && !args.epilogue && !around_;
  }
  ~Worker() {
#if defined(__AVX512F__)
    if (around_) _mm_sfence();  // other threads read the result when they see that the task is done
#endif
  }

  void run() {
    for (i64 panel = piece_.panel; panel < piece_.panel + piece_.panels; ++panel) {
      start_panel(panel);
      for (i64 channel = 0; channel < job_.from.channels; channel += job_.cut.channels) sum_channels(channel);
    }
  }

 private:
  /// Whole lines of the cache of a result that is larger than the caches of a core.
  bool writes_around() const {
    constexpr i64 kCaches = 8 << 20;
    const DirectSide& to = job_.to;
    const i64 lanes = job_.unit.lanes, columns = job_.cut.columns < job_.cells[2] ? job_.cut.columns : 0;
    const bool whole = kVectorBytes == 64 && to.type == DataType::kFloat && job_.unit.math == DirectMath::kFloat;
    if (!whole || args_.alpha != 1 || args_.beta != 0 || to.n * job_.shape.n * 4 <= kCaches) return false;
    if (job_.backward && job_.shape.stride[2] > 1) return false;
    const bool last = to.c == 1 && to.channels % lanes == 0, first = to.c != 1 && to.c % lanes == 0 && to.d[2] == 1;
    const i64 steps = to.d[0] | to.d[1] | to.n | (last ? to.d[2] : columns);
    return (last || first) && steps % lanes == 0 && reinterpret_cast<std::uintptr_t>(args_.to) % kVectorBytes == 0;
  }

  i64 strip_start(int d) const { return job_.first[d] + piece_.at[d] * job_.input_step(d); }

  void start_panel(i64 panel) {
    const i64 start = job_.panel_start(panel);
    vectors_ = job_.panel_start(panel + 1) - start;
    first_channel_ = start * job_.unit.lanes;
    channels_ = min_of(vectors_ * job_.unit.lanes, job_.to.channels - first_channel_);
    if (job_.cut.packed) {
      weights_ = packed_base(args_.packed) + (piece_.group * job_.panels + panel) * job_.panel_bytes;
      return;
    }
    weights_ = scratch_ + job_.places.panel;
    const i64 group = piece_.group * job_.shape.k * job_.shape.w_k;
    pack_panel(job_, panel, static_cast<const char*>(args_.w) + bytes_of(job_.weight_type, group), weights_,
               scratch_ + job_.places.turn);
  }

  /// All outputs of the piece, summed over a block of channels.
  void sum_channels(i64 channel) {
    channel_ = channel;
    const i64 some = min_of(job_.cut.channels, job_.from.channels - channel);
    tap_depth_ = ceil_div(some, job_.unit.group);
    last_ = channel + some == job_.from.channels;
    i64 line = 0;
    for (i64 image = 0; image < piece_.images; image += job_.cut.fold)
      for (i64 p0 = 0; p0 < job_.phases[0]; ++p0)
        for (i64 p1 = 0; p1 < job_.phases[1]; ++p1) rows(image, p0, p1, line);
  }

  void rows(i64 image, i64 phase0, i64 phase1, i64& line) {
    const DirectWindow slab = direct_window(job_, 0, phase0), row = direct_window(job_, 1, phase1);
    if (piece_.at[0] >= slab.cells) return;
    for (i64 r = 0; r < piece_.count[1] && piece_.at[1] + r < row.cells; ++r, ++line) {
      const i64 cell = piece_.at[1] + r;
      i64 to = (piece_.image + image) * job_.to.n;
      to += position(0, piece_.at[0], phase0) * job_.to.d[0] + position(1, cell, phase1) * job_.to.d[1];
      to += position(2, piece_.at[2], 0) * job_.to.d[2] + first_channel_ * job_.to.c;
      one_line(image, slab, row, cell, line, to_ + bytes_of(job_.to.type, to));
    }
  }

  i64 position(int d, i64 cell, i64 phase) const {
    return job_.backward ? cell * job_.shape.stride[d] + phase : cell;
  }

  void one_line(i64 image, const DirectWindow& slab, const DirectWindow& row, i64 cell, i64 line, char* to) {
    const i64 spread = job_.backward ? job_.shape.stride[2] : 1, fold = job_.cut.fold;
    const i64 pixel = vectors_ * kVectorBytes;
    const bool blocks = job_.cut.channels < job_.from.channels;
    char* const sums =
        scratch_ + job_.places.sums + (blocks ? line * piece_.count[2] * job_.phases[2] * fold * pixel : 0);
    i64 outputs = 0;
    for (i64 phase = 0; phase < job_.phases[2]; ++phase) {
      const DirectWindow column = direct_window(job_, 2, phase);
      const i64 cells = min_of(piece_.count[2], column.cells - piece_.at[2]);
      if (cells <= 0) continue;
      outputs += cells;
      char* const target = to + bytes_of(job_.to.type, phase * job_.to.d[2]);
      // Phases interleave as they will lie, but for folded images.
      char* const part = sums + phase * (fold > 1 ? piece_.count[2] * fold : 1) * pixel;
      Micro m;
      m.a = strip_ + image / fold * job_.strip.image * job_.unit.element;
      list_taps(slab, row, column, cell, m);
      m.c = direct_ ? target : part;
      m.c_row = direct_ ? bytes_of(job_.to.type, spread * job_.to.d[2]) : (fold > 1 ? 1 : spread) * pixel;
      m.add = channel_ > 0 || (direct_ && args_.beta != 0);
      m.tail = direct_ ? static_cast<int>(channels_ % job_.unit.lanes) : 0;
      tiles(m, cells * fold, target);
      if (last_ && !direct_ && fold > 1) finish(part, cells, image, target, spread * job_.to.d[2]);
    }
    if (last_ && !direct_ && !streamed_ && fold == 1) finish(sums, outputs, image, to, job_.to.d[2]);
  }

  /// The taps that a line reads. Rows of taps that are wholly in the padding are left out.
  void list_taps(const DirectWindow& slab, const DirectWindow& row, const DirectWindow& column, i64 cell, Micro& m) {
    const DirectStrip& s = job_.strip;
    const i64 b_step = vectors_ * kVectorBytes;
    i64 from[2], end[2];
    visible(0, slab, piece_.at[0], from[0], end[0]);
    visible(1, row, cell, from[1], end[1]);
    i64 count = 0;
    const i64 columns = job_.merged ? min_of<i64>(column.taps, 1) : column.taps;
    for (i64 t0 = from[0]; t0 < end[0]; ++t0) {
      for (i64 t1 = from[1]; t1 < end[1]; ++t1) {
        const i64 a = in_strip(0, slab, t0) * s.slab +
                      ((cell - piece_.at[1]) * job_.step[1] + in_strip(1, row, t1)) * s.row + channel_;
        const i64 tap_row = (slab.tap + t0 * slab.tap_step) * job_.shape.taps[1] + row.tap + t1 * row.tap_step;
        for (i64 t2 = 0; t2 < columns; ++t2, ++count) {
          const i64 q = in_strip(2, column, t2);
          const i64 tap = job_.merged ? 0 : column.tap + t2 * column.tap_step;
          const i64 pixel = over(q, s.split), part = q - pixel * s.split;
          a_list_[count] = (a + part * s.part + pixel * s.pixel) * job_.unit.element;
          b_list_[count] = (tap_row * job_.row_steps + tap * job_.tap_steps + channel_ / job_.unit.group) * b_step;
        }
      }
    }
    m.b = weights_;
    m.a_block = a_list_;
    m.b_block = b_list_;
    m.blocks = count;
    m.depth = job_.merged ? job_.row_steps : tap_depth_;
    m.a_row = job_.step[2] / s.split * s.pitch * job_.unit.element;
    m.a_step = micro_group_bytes(static_cast<Dot>(job_.unit.math));
    m.b_step = b_step;
  }

  i64 in_strip(int d, const DirectWindow& w, i64 tap) const {
    return over(w.origin + tap * w.move - job_.first[d], job_.grain[d]);
  }

  void visible(int d, const DirectWindow& w, i64 cell, i64& from, i64& end) const {
    from = 0;
    end = w.taps;
    if (job_.unit.math == DirectMath::kInt8) return;  // sums have an excess that is the same everywhere
    const i64 start = w.origin + cell * job_.input_step(d), size = job_.from.size[d];
    if (start < 0) from = min_of(ceil_div(-start, w.move), end);
    if (start + (end - 1) * w.move >= size) end = max_of(start < size ? ceil_div(size - start, w.move) : 0, from);
  }

  /// Register tiles of nearly equal height, those that are equal in one call. What goes past the caches as it lies is
  /// written from the registers.
  void tiles(Micro m, i64 rows, char* to) {
    if (streamed_) {
      m.around = true;
      m.c = to;
      m.c_row = bytes_of(job_.to.type, job_.to.d[2]);
    }
    const i64 count = ceil_div(rows, kMicroRows[vectors_]), low = rows / count, higher = rows % count;
    const auto some = [&](i64 first, i64 height, i64 number) {
      Micro part = m;
      part.a = static_cast<const char*>(m.a) + first * m.a_row;
      part.c = static_cast<char*>(m.c) + first * m.c_row;
      part.a_next = height * m.a_row;
      part.c_next = height * m.c_row;
      part.tiles = number;
      micro_kernel(static_cast<Dot>(job_.unit.math), static_cast<int>(height), static_cast<int>(vectors_))(part);
    };
    if (higher > 0) some(0, low + 1, higher);
    some(higher * (low + 1), low, count - higher);
  }

  /// `outputs` neighbours of the images that are folded together.
  void finish(char* sums, i64 outputs, i64 image, char* to, i64 to_pixel) {
    const i64 fold = job_.cut.fold, pixel = vectors_ * kVectorBytes;
    const char* excess = weights_ + job_.shape.taps[0] * job_.shape.taps[1] * job_.row_steps * pixel;
    finish_sums(job_, args_, {sums, outputs * fold, vectors_ * job_.unit.lanes, channels_,
                              piece_.group * job_.to.channels + first_channel_, excess});
    for (i64 j = 0; j < min_of(fold, piece_.images - image); ++j) {
      store_line(job_, args_, {sums + j * pixel, fold * pixel, outputs, channels_,
                               to + bytes_of(job_.to.type, j * job_.to.n), to_pixel, job_.to.c, around_});
    }
  }

  const Direct& job_;
  const DirectArgs& args_;
  const DirectPiece piece_;
  char* const scratch_;
  char *strip_, *to_, *weights_ = nullptr;
  i64 *a_list_, *b_list_;
  bool around_, streamed_, direct_, last_ = false;
  i64 vectors_ = 0, first_channel_ = 0, channels_ = 0, channel_ = 0, tap_depth_ = 0;
};

}  // namespace

DirectUnit direct_unit(DataType type) {
  DirectUnit unit;
  unit.math = type == DataType::kDouble                              ? DirectMath::kDouble
              : type == DataType::kInt8                              ? (kHasInt8Dot ? DirectMath::kInt8 : DirectMath::kInt16)
              : type == DataType::kBFloat16 && prefers_bf16_dot() ? DirectMath::kBf16
                                                                     : DirectMath::kFloat;
  set_math(unit);
  return unit;
}

void direct(const Direct& job, const DirectArgs& args, i64 first, i64 end, void* scratch) {
  const DirectMath math = job.unit.math;
  if (kAddsProducts && math != DirectMath::kBf16 && math != DirectMath::kInt8) {
    return POLYMIO_SHARED_NAMESPACE::direct(job, args, first, end, scratch);
  }
  for (i64 piece = first; piece < end; ++piece) Worker(job, args, piece, static_cast<char*>(scratch)).run();
}

void direct_pack(const Direct& job, const DirectArgs& args, i64 first, i64 end, void* scratch) {
  for (i64 i = first; i < end; ++i) {
    const i64 group = i / job.panels * job.shape.k * job.shape.w_k;
    pack_panel(job, i % job.panels, static_cast<const char*>(args.w) + bytes_of(job.weight_type, group),
               packed_base(args.packed) + i * job.panel_bytes, static_cast<char*>(scratch) + job.places.turn);
  }
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
