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
