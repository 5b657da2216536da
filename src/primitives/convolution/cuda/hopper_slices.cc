// SPDX-License-Identifier: MIT
#include "primitives/convolution/cuda/hopper_slices.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/math.h"
#include "primitives/convolution/cuda/hopper_packing.h"
#include "primitives/convolution/cuda/hopper_plan.h"

namespace polymio::convolution::cuda {
namespace {

bool is_data(const Problem& p) { return p.direction == Direction::kBackwardData; }
bool is_weights(const Problem& p) { return p.direction == Direction::kBackwardWeights; }

/// With swapped weights, if any.
std::int64_t copied_bytes(const Problem& p, bool summed) {
  const HopperPacking plan = hopper_packing(p, summed);
  return plan.bytes() + (hopper_swaps_weights(plan.inner) ? static_cast<std::int64_t>(plan.inner.w.bytes()) : 0);
}
/// Of a slice.
std::int64_t copied_bytes(const Problem& p) { return copied_bytes(p, is_weights(p)); }

/// The tensor whose rows are divided: the output, or dy.
const TensorDesc& divided(const Problem& p) { return is_data(p) ? p.x : p.y; }

/// Rows at which slices begin are multiples: what begins there is aligned as 16 bytes are.
std::int64_t row_unit(const Problem& p) {
  constexpr std::int64_t kUnit = 8;
  return kUnit / std::gcd(kUnit, divided(p).strides[2]);
}

Problem of_images(Problem p, std::int64_t images) {
  p.x.lens[0] = p.y.lens[0] = images;
  return p;
}

struct Rows {
  Problem problem;
  std::int64_t source;  // the first row of the input or of x
};

/// Rows [first, end) of the first spatial dimension of the output, or of dy, with the rows of the input, or of x, that
/// they need.
Rows of_rows(Problem p, std::int64_t first, std::int64_t end) {
  const bool data = is_data(p);
  TensorDesc& in = data ? p.y : p.x;
  const std::int64_t stride = p.geometry.stride[0], pad = p.geometry.pad[0];
  const std::int64_t reach = (p.filter(0) - 1) * p.geometry.dilation[0];
  std::int64_t begin = 0, last = 0;
  if (data) {
    begin = std::min(ceil_div(std::max<std::int64_t>(first + pad - reach, 0), stride), in.lens[2] - 1);
    last = std::max((end - 1 + pad) / stride, begin);
  } else {
    begin = std::max<std::int64_t>(first * stride - pad, 0);
    last = (end - 1) * stride - pad + reach;
  }
  p.geometry.pad[0] = data ? first + pad - begin * stride : begin + pad - first * stride;
  in.lens[2] = std::min(last + 1, in.lens[2]) - begin;
  (data ? p.x : p.y).lens[2] = end - first;
  return {std::move(p), begin};
}

/// The size of the fewest parts of about the same size, a multiple of `unit`, that fit; none if there is no such size.
template <class Fits>
std::optional<std::int64_t> largest_part(std::int64_t all, std::int64_t unit, const Fits& fits) {
  for (std::int64_t parts = 1;; ++parts) {
    const std::int64_t size = round_up(ceil_div(all, parts), unit);
    if (fits(size)) return size;
    if (size <= unit) return {};
  }
}

/// Rows per slice of one image; none if its copies are not of whole rows.
std::optional<std::int64_t> rows_per_slice(const Problem& image, std::int64_t most_bytes) {
  const HopperPacking plan = hopper_packing(image);
  const bool folds = plan.swapped || plan.overlaps || plan.inner.geometry.stride != image.geometry.stride;
  const std::int64_t reach = (image.filter(0) - 1) * image.geometry.dilation[0];
  if (folds || image.geometry.pad[0] > reach) return {};
  const std::int64_t all = divided(image).lens[2];
  return largest_part(all, row_unit(image), [&](std::int64_t rows) {
    // The first rows need none before them.
    return copied_bytes(of_rows(image, 0, std::min(rows, all)).problem) <= most_bytes &&
           (rows >= all || copied_bytes(of_rows(image, rows, std::min(2 * rows, all)).problem) <= most_bytes);
  });
}

class Slicer {
 public:
  explicit Slicer(const Problem& p) : p_(p) {}

  void add(const Problem& slice, std::int64_t x, std::int64_t y) {
    auto shape = std::ranges::find(made_.shapes, slice);
    if (shape == made_.shapes.end()) shape = made_.shapes.insert(shape, slice);
    made_.slices.push_back({static_cast<std::size_t>(shape - made_.shapes.begin()), x, y});
  }

  void add_images(std::int64_t per_slice) {
    for (std::int64_t n = 0; n < p_.n(); n += per_slice)
      add(of_images(p_, std::min(per_slice, p_.n() - n)), n * p_.x.strides[0], n * p_.y.strides[0]);
  }

  void add_rows(std::int64_t per_slice) {
    const bool data = is_data(p_);
    const Problem image = of_images(p_, 1);
    const std::int64_t all = divided(p_).lens[2];
    for (std::int64_t n = 0; n < p_.n(); ++n)
      for (std::int64_t row = 0; row < all; row += per_slice) {
        const Rows rows = of_rows(image, row, std::min(row + per_slice, all));
        add(rows.problem, n * p_.x.strides[0] + (data ? row : rows.source) * p_.x.strides[2],
            n * p_.y.strides[0] + (data ? rows.source : row) * p_.y.strides[2]);
      }
  }

  HopperSlices made() { return std::move(made_); }

 private:
  const Problem& p_;
  HopperSlices made_;
};

}  // namespace

HopperSlices hopper_slices(const Problem& p, std::int64_t most_bytes) {
  Slicer slicer(p);
  const Problem image = of_images(p, 1);
  // Partial sums of blocks need workspace, too: whole problems have points with few.
  const std::int64_t most_whole = most_bytes - (is_weights(p) ? most_bytes / 16 : 0);
  if (is_weights(p)) most_bytes -= most_bytes / 8;
  if (copied_bytes(p, false) <= most_whole) {
    slicer.add(p, 0, 0);
  } else if (copied_bytes(image) <= most_bytes) {
    slicer.add_images(
        *largest_part(p.n(), 1, [&](std::int64_t images) { return copied_bytes(of_images(p, images)) <= most_bytes; }));
  } else if (const auto rows = rows_per_slice(image, most_bytes)) {
    slicer.add_rows(*rows);
  } else {
    slicer.add(p, 0, 0);
  }
  return slicer.made();
}

}  // namespace polymio::convolution::cuda
