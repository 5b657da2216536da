// Pooling and its gradient by definition, in double.
// SPDX-License-Identifier: MIT
#pragma once

#include "reference/convolution.h"
#include "reference/tensor.h"
#include "reference/tolerance.h"

namespace polymio::reference {

// The numbers of miopenPoolingMode_t.
enum class PoolingMode { kMax = 0, kAverage = 1, kAverageInclusive = 2 };

struct Pooling {
  PoolingMode mode = PoolingMode::kMax;
  std::vector<std::int64_t> window, pad, stride;  // per spatial dimension
  double scale = 1, keep = 0;                     // result = scale * (...) + keep * old
  Tensor x, y, dy, dx;                            // dy and dx: backward only

  // max(1, (size + 2 * pad - window) / stride + 1)
  std::int64_t outputs(std::size_t dim, std::int64_t size) const;
};

// For each output in dense order the position of its maximum, the first of equal ones: in the window, padding included,
// or in the image. NaN counts as -infinity; a window in the padding alone has position 0.
std::vector<std::int64_t> maxima(const Pooling& problem, const void* x, bool in_image);

// y, or those of `sample`. `old` is read when keep != 0.
Result pool(const Pooling& problem, const void* x, const void* old, std::span<const std::int64_t> sample = {});
// All of dx.
Result pool_backward(const Pooling& problem, const void* x, const void* dy, const void* old);

// The error bounds of an implementation in float (double for double tensors).
Arithmetic pool_arithmetic(const Pooling& problem, bool backward);

}  // namespace polymio::reference
