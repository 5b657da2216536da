// Convolutions as stencils: passes, residues of results that share source lines, and columns of taps. Forward and
// backward data are the same stencil, described by one Pass per spatial dimension.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "kernels/cpu/conv_shape.h"
#include "kernels/cpu/range.h"

namespace polymio::kernels {

/// One dimension of backward data at positions phase + i * stride, i < pixels: taps first_tap + t * tap_step, t < taps,
/// read position origin + i + t * tap_move of dy.
struct PhaseWindow {
  std::int64_t pixels, taps, origin, tap_move, first_tap, tap_step;
};
PhaseWindow phase_window(const ConvShape& shape, int dim, std::int64_t phase);

/// One dimension of a stencil. Result i < count is at out_first + i * out_step; its tap t multiplies source
/// position first + i * stride + t * dilation, if that is inside, by weight w_first + t * w_step.
struct Pass {
  std::int64_t count, out_first, out_step;
  std::int64_t first, stride, dilation;
  std::int64_t taps, w_first, w_step;
};

/// Passes of a dimension: one per phase in backward data, else one.
std::int64_t pass_count(const ConvShape& shape, ConvDirection direction, int dim);
Pass pass_of(const ConvShape& shape, ConvDirection direction, int dim, std::int64_t phase);

/// Results first + m * step, m < count, of a pass, which share source lines: for result m, the t-th of the taps r0,
/// r0 + tap_step, ... reads line m + t. Lines are `line` source positions apart.
struct Residue {
  std::int64_t first, step, count, line, tap_step;
};
std::int64_t residue_count(const Pass& pass);
Residue residue_of(const Pass& pass, std::int64_t index);

/// Vertically adjacent taps for a block of vertically adjacent results: tap t of result j reads line j + t.
struct TapColumn {
  std::int64_t source;  // element of line 0 in the source
  std::int64_t weight;  // index of tap 0
  int taps;             // 1, 2, 3 or 5
  unsigned lines;       // bit i: line i is inside the source
  int across;           // tap of the last dimension
};

/// A stencil's source: sizes, strides of dimensions 0 and 1, and the offset column[t] of tap t of dimension 2, in
/// elements.
struct StencilSource {
  std::int64_t size[kSpatial];
  std::int64_t step[2];
  const std::int64_t* column;
};

/// Lists the columns of taps of results m0 ... m0 + rows - 1 of a residue of dimension 1, at result i0 of dimension 0,
/// ordered by the tap of dimension 2, with the same number of columns per tap. Returns the number of columns, at most
/// that of taps.
std::int64_t list_columns(const Pass (&pass)[kSpatial], const Residue& residue, std::int64_t i0, std::int64_t m0,
                          std::int64_t rows, const StencilSource& source, const std::int64_t (&taps)[kSpatial],
                          TapColumn* columns);

/// Calls visit(offset of the tap in a filter) for each tap. Internal linkage: kernels of several instruction sets
/// include this file, and the linker must not merge their code.
template <class Visit>
static inline void each_tap(const ConvShape& s, const Visit& visit) {
  for (std::int64_t r0 = 0; r0 < s.taps[0]; ++r0) {
    for (std::int64_t r1 = 0; r1 < s.taps[1]; ++r1) {
      for (std::int64_t r2 = 0; r2 < s.taps[2]; ++r2) visit(r0 * s.w_d[0] + r1 * s.w_d[1] + r2 * s.w_d[2]);
    }
  }
}

/// Those i < count for which first + i * step is in [0, size).
Range inside(std::int64_t first, std::int64_t step, std::int64_t size, std::int64_t count);

}  // namespace polymio::kernels
