// Passes, residues and columns of taps of stencils.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/stencil.h"

#include <algorithm>
#include <numeric>

#include "base/math.h"

namespace polymio::kernels {
namespace {

using i64 = std::int64_t;

/// Taps of the next column if `left` taps remain: the fewer columns, the fewer loads.
i64 column_taps(i64 left) {
  if (left >= 5 && left != 6) return 5;
  return left == 3 || left == 6 ? 3 : std::min<i64>(left, 2);
}

/// Bit i: line i of a column is inside the source.
unsigned lines_inside(i64 first, i64 step, i64 size, i64 lines) {
  const Range r = inside(first, step, size, lines);
  return r.count() > 0 ? (1u << r.end) - (1u << r.first) : 0;
}

}  // namespace

PhaseWindow phase_window(const ConvShape& s, int d, i64 phase) {
  const i64 stride = s.stride[d], dilation = s.dilation[d];
  const i64 divisor = std::gcd(stride, dilation), step = stride / divisor;
  PhaseWindow w{(s.in[d] - phase + stride - 1) / stride, 0, 0, -dilation / divisor, 0, step};
  for (i64 r = 0; r < std::min(step, s.taps[d]); ++r) {
    const i64 position = phase + s.pad[d] - r * dilation;
    if (position % stride != 0) continue;
    w.first_tap = r;
    w.origin = position / stride;
    w.taps = (s.taps[d] - r + step - 1) / step;
    break;
  }
  return w;
}

i64 pass_count(const ConvShape& s, ConvDirection direction, int d) {
  return direction == ConvDirection::kBackwardData ? std::min(s.stride[d], s.in[d]) : 1;
}

Pass pass_of(const ConvShape& s, ConvDirection direction, int d, i64 phase) {
  Pass p{s.out[d], 0, 1, -s.pad[d], s.stride[d], s.dilation[d], s.taps[d], 0, 1};
  if (direction == ConvDirection::kBackwardData) {
    // Taps in reverse order, so that source positions ascend.
    const PhaseWindow w = phase_window(s, d, phase);
    const i64 last = std::max<i64>(w.taps - 1, 0);
    p = {w.pixels,   phase,       s.stride[d], w.origin + last * w.tap_move,
         1,          -w.tap_move, w.taps,      w.first_tap + last * w.tap_step,
         -w.tap_step};
  }
  if (p.taps <= 1) p.dilation = 1;
  return p;
}

i64 residue_count(const Pass& p) { return std::min(p.dilation / std::gcd(p.stride, p.dilation), p.count); }

Residue residue_of(const Pass& p, i64 index) {
  const i64 divisor = std::gcd(p.stride, p.dilation), step = p.dilation / divisor;
  return {index, step, ceil_div(p.count - index, step), p.stride * step, p.stride / divisor};
}

Range inside(i64 first, i64 step, i64 size, i64 count) {
  const i64 low = first < 0 ? ceil_div(-first, step) : 0;
  const i64 high = first >= size ? 0 : std::min(count, (size - 1 - first) / step + 1);
  return {std::min(low, std::max<i64>(high, 0)), std::max<i64>(high, 0)};
}

i64 list_columns(const Pass (&pass)[kSpatial], const Residue& residue, i64 i0, i64 m0, i64 rows,
                 const StencilSource& source, const i64 (&taps)[kSpatial], TapColumn* columns) {
  const i64 start = pass[1].first + (residue.first + m0 * residue.step) * pass[1].stride;
  const i64 slab = pass[0].first + i0 * pass[0].stride;
  const Range depth = inside(slab, pass[0].dilation, source.size[0], pass[0].taps);
  i64 listed = 0;
  for (i64 t2 = 0; t2 < pass[2].taps; ++t2) {
    for (i64 t0 = depth.first; t0 < depth.end; ++t0) {
      const i64 offset = (slab + t0 * pass[0].dilation) * source.step[0] + source.column[t2];
      const i64 w0 = pass[0].w_first + t0 * pass[0].w_step, w2 = pass[2].w_first + t2 * pass[2].w_step;
      for (i64 r0 = 0; r0 < std::min(residue.tap_step, pass[1].taps); ++r0) {
        const i64 taps_of_residue = ceil_div(pass[1].taps - r0, residue.tap_step);
        for (i64 t = 0, count = 0; t < taps_of_residue; t += count) {
          count = column_taps(taps_of_residue - t);
          const i64 line = start + r0 * pass[1].dilation + t * residue.line;
          const unsigned lines = lines_inside(line, residue.line, source.size[1], rows + count - 1);
          if (lines == 0) continue;
          const i64 w1 = pass[1].w_first + (r0 + t * residue.tap_step) * pass[1].w_step;
          columns[listed++] = {offset + line * source.step[1], (w0 * taps[1] + w1) * taps[2] + w2,
                               static_cast<int>(count), lines, static_cast<int>(t2)};
        }
      }
    }
  }
  return listed;
}

}  // namespace polymio::kernels
