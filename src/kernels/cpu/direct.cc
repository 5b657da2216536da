// Geometry of direct convolutions: the input of a piece and the layout of its scratch.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/direct.h"

#include <algorithm>
#include <numeric>

#include "base/math.h"
#include "kernels/cpu/stencil.h"

namespace polymio::kernels {
namespace {

constexpr std::int64_t kAlign = 64;

void set_windows(Direct& job) {
  for (int d = 0; d < kSpatial; ++d) {
    const ConvShape& s = job.shape;
    job.cells[d] = job.backward ? ceil_div(s.in[d], s.stride[d]) : s.out[d];
    job.phases[d] = job.backward ? std::min(s.stride[d], s.in[d]) : 1;
    job.grain[d] = s.taps[d] == 1 ? job.input_step(d) : std::gcd(job.input_step(d), s.dilation[d]);
    job.step[d] = job.input_step(d) / job.grain[d];
    bool has_taps = false;
    std::int64_t last = 0;
    job.first[d] = 0;
    for (std::int64_t phase = 0; phase < job.phases[d]; ++phase) {
      const DirectWindow w = direct_window(job, d, phase);
      if (w.taps == 0) continue;
      const std::int64_t end = w.origin + (w.taps - 1) * w.move;
      job.first[d] = has_taps ? std::min(job.first[d], w.origin) : w.origin;
      last = has_taps ? std::max(last, end) : end;
      has_taps = true;
    }
    job.input_tile.size[d] = last - job.first[d];  // completed once the cells of a piece are known
  }
}

/// Whether some taps of this dimension are outside the input.
bool leaves_input(const Direct& job, int d) {
  const std::int64_t end = job.first[d] + job.input_tile.size[d] + (job.cells[d] - 1) * job.input_step(d);
  return job.first[d] < 0 || end >= job.from.size[d];
}

/// Whether the taps of a row are half a register tile or more apart.
bool has_wide_taps(const Direct& job) {
  const DirectWindow w = direct_window(job, 2, 0);
  return w.taps > 1 && w.move * 2 >= job.unit.rows[2] * job.input_step(2);
}

/// Whether skipping the taps in the padding gains more than a zero-padded copy of the input, although tiles at the
/// borders then have few outputs: wide taps, or a first layer's large images and few products.
bool skips_padding(const Direct& job) {
  constexpr std::int64_t kLong = 64, kFewProducts = 640;  // outputs per line; products per input element
  if (has_wide_taps(job)) return true;
  std::int64_t products = job.taps() * job.to.channels;
  for (int d = 0; d < kSpatial; ++d) products /= job.shape.stride[d];
  return job.cells[2] >= kLong && products <= kFewProducts;
}

/// Whether the taps of a row are one contiguous run of channels that consists of whole dot operands.
bool has_whole_runs(const Direct& job) {
  return !job.backward && job.shape.taps[2] > 1 && job.shape.dilation[2] == 1 && job.from.d[2] == job.from.channels &&
         job.cut.channels == job.from.channels && job.shape.taps[2] * job.from.channels % job.unit.group == 0;
}

/// Whether the kernel can read the input in place.
bool reads_in_place(const Direct& job) {
  const DirectMath math = job.unit.math;
  const bool has_dot_operands = math == DirectMath::kBf16 || math == DirectMath::kInt8;
  const bool padded = leaves_input(job, 0) || leaves_input(job, 1) || leaves_input(job, 2);
  const bool native =
      math == DirectMath::kFloat || math == DirectMath::kDouble ||
      (has_dot_operands && (job.from.channels % job.unit.group == 0 || (!padded && has_whole_runs(job))));
  if (!native || size_of(job.from.type) != static_cast<std::size_t>(job.unit.element)) return false;
  if (job.from.c != 1 && job.from.channels != 1) return false;
  return !padded || (!job.unit.shifts() && skips_padding(job));  // the zero-point correction covers all taps
}

void set_input_tile(Direct& job) {
  InputTile& s = job.input_tile;
  const std::int64_t channels = job.from.channels, block[kSpatial] = {1, job.cut.rows, job.cut.columns};
  for (int d = 0; d < kSpatial; ++d) {
    const DirectWindow w = direct_window(job, d, 0);
    // A single line of outputs reads no positions between its taps.
    if (d < 2 && block[d] == 1 && job.phases[d] == 1 && w.taps > 1) {
      job.grain[d] = w.move;
      job.step[d] = 0;
    }
    s.size[d] = (s.size[d] + (block[d] - 1) * job.input_step(d)) / job.grain[d] + 1;
  }
  const bool one_column = job.shape.taps[2] == 1;
  job.merged = !one_column && job.cut.fold == 1 && job.cut.channels == channels &&
               job.shape.dilation[2] == job.grain[2] && (!job.backward || job.shape.stride[2] == 1);
  s.split = job.cut.fold > 1 ? job.step[2] : 1;
  if (job.in_place) {
    job.merged = job.merged && job.from.d[2] * job.grain[2] == channels;
    s.pitch = s.pixel = job.from.d[2] * job.grain[2];
    s.row = job.from.d[1] * job.grain[1];
    s.slab = job.from.d[0] * job.grain[0];
    s.image = job.from.n;
    s.part = s.total = 0;
    return;
  }
  constexpr std::int64_t kSets = 1024;  // bytes: pixels at multiples of this share few sets of the first-level cache
  s.pitch = job.merged ? channels : round_up(channels, job.unit.group);
  if (s.pitch * job.unit.element % kSets == 0) {
    s.pitch += kAlign / job.unit.element;
    job.merged = false;
  }
  s.part = ceil_div(s.size[2], s.split) * job.cut.fold * s.pitch;
  s.pixel = job.cut.fold * s.pitch;
  s.row = s.split * s.part;
  s.slab = s.row * s.size[1];
  s.image = s.slab * s.size[0];
  s.total = s.image * ceil_div(job.cut.images, job.cut.fold);
}

void set_places(Direct& job) {
  const DirectUnit& u = job.unit;
  const ConvShape& s = job.shape;
  const std::int64_t lanes = ceil_div(job.vectors, job.panels) * u.lanes;  // of the widest panel
  const std::int64_t row_taps = s.taps[0] * s.taps[1];
  job.tap_steps = ceil_div(job.from.channels, u.group);
  job.row_steps = job.merged ? ceil_div(s.taps[2] * job.from.channels, u.group) : s.taps[2] * job.tap_steps;
  // A panel ends with one zero-point correction per output channel.
  job.panel_bytes = round_up((row_taps * job.row_steps + 1) * lanes * u.lane_bytes(), kAlign);
  std::int64_t lines = ceil_div(job.cut.images, job.cut.fold) * job.phases[0] * job.phases[1] * job.cut.rows;
  if (job.cut.channels == job.from.channels) lines = 1;
  const std::int64_t pixels = lines * job.cut.fold * job.line() * job.phases[2];
  DirectPlaces& p = job.places;
  p.total = 0;
  const auto take = [&](std::int64_t bytes) {
    const std::int64_t offset = p.total;
    p.total += round_up(bytes, kAlign);
    return offset;
  };
  p.input_tile = take(job.in_place ? 0 : job.input_tile.total * u.element + kAlign);
  p.panel = take(job.cut.packed ? 0 : job.panel_bytes);
  p.sums = take(pixels * lanes * u.lane_bytes());
  p.transposed = take(std::max(job.taps(), kDirectTransposeDepth) * u.group * u.lanes * u.lane_bytes());
  p.lists = take(2 * job.taps() * static_cast<std::int64_t>(sizeof(std::int64_t)));
}

}  // namespace

DirectWindow direct_window(const Direct& job, int d, std::int64_t phase) {
  const ConvShape& s = job.shape;
  if (!job.backward) return {s.out[d], s.taps[d], 0, 1, -s.pad[d], s.dilation[d]};
  // Taps of backward data are packed in reverse order, so that input positions ascend.
  const PhaseWindow w = phase_window(s, d, phase);
  const std::int64_t last = std::max<std::int64_t>(w.taps - 1, 0);
  return {w.pixels,   w.taps, s.taps[d] - 1 - w.first_tap - last * w.tap_step, w.tap_step, w.origin + last * w.tap_move,
          -w.tap_move};
}

std::int64_t direct_panels(std::int64_t vectors, std::int64_t wide) {
  constexpr std::int64_t kWidest = 4;
  const std::int64_t panels = std::max<std::int64_t>(1, vectors / wide);
  return ceil_div(vectors, panels) > kWidest ? ceil_div(vectors, wide) : panels;
}

Direct direct_job(const ConvShape& s, bool backward, DataType to_type, const DirectUnit& unit) {
  Direct job;
  job.shape = s;
  job.backward = backward;
  job.unit = unit;
  job.weight_type = s.dtype;
  DirectSide x{s.dtype, s.c, {}, s.x_n, s.x_c, {}}, y{s.dtype, s.k, {}, s.y_n, s.y_k, {}};
  for (int d = 0; d < kSpatial; ++d) {
    x.size[d] = s.in[d];
    x.d[d] = s.x_d[d];
    y.size[d] = s.out[d];
    y.d[d] = s.y_d[d];
  }
  job.from = backward ? y : x;
  job.to = backward ? x : y;
  job.to.type = to_type;
  job.w_lane = backward ? s.w_c : s.w_k;
  job.w_depth = backward ? s.w_k : s.w_c;
  job.vectors = ceil_div(job.to.channels, unit.lanes);
  set_windows(job);
  return job;
}

void cut_direct(Direct& job, const DirectCut& cut) {
  set_windows(job);
  DirectCut& c = job.cut;
  c = cut;
  c.fold = std::clamp<std::int64_t>(cut.fold, 1, job.shape.n);
  c.images = std::clamp<std::int64_t>(round_up(cut.images, c.fold), 1, round_up(job.shape.n, c.fold));
  c.rows = std::clamp<std::int64_t>(cut.rows, 1, job.cells[1]);
  c.columns = std::clamp<std::int64_t>(cut.columns, 1, job.cells[2]);
  c.channels = std::clamp<std::int64_t>(round_up(cut.channels, job.unit.group), 1, job.from.channels);
  job.panels = direct_panels(job.vectors, c.vectors);
  c.panels = std::clamp<std::int64_t>(cut.panels, 1, job.panels);
  job.in_place = !c.copied && c.fold == 1 && reads_in_place(job);
  // AMX skips no taps of copied input tiles: not tested.
  const bool skips_taps = job.in_place || (c.fold == 1 && has_wide_taps(job) && !job.unit.amx);
  job.edges = skips_taps && leaves_input(job, 2);
  set_input_tile(job);
  set_places(job);
}

void split_packing(Direct& job, std::int64_t threads) {
  constexpr std::int64_t kLeast = 16 << 10;  // bytes per part
  job.pack_parts = 1;
  // Parts would share data: depth steps across two taps, zeros between groups, corrections summed over all channels.
  const bool straddles = job.merged && job.from.channels % job.unit.group != 0;
  if (straddles || job.diagonal_groups > 1 || job.unit.shifts()) return;
  const std::int64_t target = ceil_div(2 * threads, job.shape.groups * job.panels);
  const std::int64_t max_parts = std::min(job.panel_bytes / kLeast, job.from.channels / kPackChannels);
  job.pack_parts = threads == 1 ? 1 : std::clamp<std::int64_t>(target, 1, std::max<std::int64_t>(max_parts, 1));
}

std::int64_t Direct::line() const {
  const bool is_divisible = cut.fold == 1 && phases[2] == 1 && !edges && cut.channels == from.channels;
  return merges_lines() ? kDirectLine : is_divisible ? std::min(cut.columns, kDirectLine) : cut.columns;
}

bool Direct::merges_lines() const {
  const bool copies = !in_place && cut.fold == 1 && cut.channels == from.channels;
  const bool dense = step[1] == 1 && step[2] == 1 && (!backward || shape.stride[2] == 1);
  return unit.amx && copies && dense && cut.columns <= kDirectLine / 2;
}

bool Direct::interleaves_panels() const {
  // Packed weights stay in the first-level cache with AMX, where they share it with the outputs, else in the second.
  const std::int64_t max_bytes = unit.amx ? 32 << 10 : 256 << 10;
  const bool one_line = cells[0] * cells[1] == 1 && phases[0] * phases[1] * phases[2] == 1 && cut.images == 1;
  const bool pointwise = taps() == 1 && in_place && !edges && cut.channels == from.channels;
  const bool same_width = vectors % panels == 0 || !unit.amx;  // AMX: one tile configuration
  return one_line && pointwise && panels > 1 && panels <= kMaxInterleavedPanels && same_width &&
         panels * panel_bytes <= max_bytes;
}

bool Direct::sums_are_results() const {
  if (cut.fold > 1 || to.c != 1) return false;
  if (unit.sums_integers()) return to.type == DataType::kInt32 && (!unit.amx || to.channels % unit.lanes == 0);
  return unit.group == 1 && static_cast<std::int64_t>(size_of(to.type)) == unit.element;
}

std::int64_t Direct::pieces() const {
  return shape.groups * ceil_div(panels, cut.panels) * ceil_div(shape.n, cut.images) * cells[0] *
         ceil_div(cells[1], cut.rows) * ceil_div(cells[2], cut.columns);
}

}  // namespace polymio::kernels
