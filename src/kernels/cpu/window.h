// Windows over the spatial dimensions of a tensor: the elements of a window, the windows of an element.
// For every primitive with windows (isa/skeletons/window.h) and their drivers.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/range.h"

namespace polymio::kernels {

/// Window o of a dimension covers those of the elements [o * stride - pad, o * stride - pad + length) that exist.
struct WindowDim {
  std::int64_t size = 1, windows = 1, length = 1, stride = 1, pad = 0;
};

// Internal linkage: see base/math.h.

[[maybe_unused]] static constexpr Range elements_of(const WindowDim& d, std::int64_t window) {
  const std::int64_t start = window * d.stride - d.pad, end = start + d.length;
  return {start > 0 ? start : 0, end < d.size ? end : d.size};
}

/// The windows that cover an element.
[[maybe_unused]] static constexpr Range windows_of(const WindowDim& d, std::int64_t element) {
  const std::int64_t after = element + d.pad - d.length;  // the end of the last window before the element, if >= 0
  const std::int64_t first = after < 0 ? 0 : after / d.stride + 1, end = (element + d.pad) / d.stride + 1;
  return {first, end < d.windows ? end : d.windows};
}

/// windows_of() one element after the other, without divisions for each.
class CoveringWindows {
 public:
  constexpr CoveringWindows(const WindowDim& d, std::int64_t element) : dim_(d), here_(windows_of(d, element)) {
    const std::int64_t start = element + d.pad, after = start - d.length;
    here_.end = start / d.stride + 1;
    to_end_ = d.stride - start % d.stride;
    to_first_ = after < 0 ? -after : d.stride - after % d.stride;
  }
  constexpr Range range() const { return {here_.first, here_.end < dim_.windows ? here_.end : dim_.windows}; }
  constexpr void next() {
    move(here_.first, to_first_);
    move(here_.end, to_end_);
  }

 private:
  constexpr void move(std::int64_t& bound, std::int64_t& elements) const {
    if (--elements > 0) return;
    ++bound;
    elements = dim_.stride;
  }

  const WindowDim& dim_;
  Range here_;                      // its end may be beyond the last window
  std::int64_t to_first_, to_end_;  // elements until these change
};

/// The windows that cover any element. They are contiguous.
[[maybe_unused]] static constexpr Range windows_inside(const WindowDim& d) {
  const std::int64_t first = d.pad < d.length ? 0 : (d.pad - d.length) / d.stride + 1;
  const std::int64_t end = (d.size - 1 + d.pad) / d.stride + 1;
  return {first < d.windows ? first : d.windows, end < d.windows ? end : d.windows};
}

/// In elements; spatial dimensions slowest first.
struct WindowStrides {
  std::int64_t image = 0, channel = 0, dims[3] = {};
};

}  // namespace polymio::kernels
