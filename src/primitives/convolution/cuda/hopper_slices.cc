// SPDX-License-Identifier: MIT
#include "primitives/convolution/cuda/hopper_slices.h"

#include <algorithm>
#include <optional>

#include "base/math.h"
#include "primitives/convolution/cuda/hopper_packing.h"

namespace polymio::convolution::cuda {
namespace {

/// Rows at which slices begin are multiples: what begins there is aligned as 16 bytes are.
constexpr std::int64_t kRowUnit = 8;

std::int64_t copied_bytes(const Problem& p) { return hopper_packing(p).bytes(); }

Problem of_images(Problem p, std::int64_t images) {
  p.x.lens[0] = p.y.lens[0] = images;
  return p;
}

struct Rows {
  Problem problem;
  std::int64_t source;  // the first row of the input
};

/// Rows [first, end) of the output's first spatial dimension, with the rows of the input that they need.
Rows of_rows(Problem p, std::int64_t first, std::int64_t end) {
  const bool data = p.direction == Direction::kBackwardData;
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

/// Rows per slice of one image; none if its copies are not of whole rows.
std::optional<std::int64_t> rows_per_slice(const Problem& image, std::int64_t most_bytes) {
  const HopperPacking plan = hopper_packing(image);
  const bool folds = plan.swapped || plan.overlaps || plan.inner.geometry.stride != image.geometry.stride;
  const std::int64_t reach = (image.filter(0) - 1) * image.geometry.dilation[0];
  if (folds || image.geometry.pad[0] > reach) return {};
  std::int64_t rows = image.output().lens[2];
  while (copied_bytes(of_rows(image, 0, rows).problem) > most_bytes) {
    if (rows <= kRowUnit) return {};
    rows = round_up(rows / 2, kRowUnit);
  }
  return rows;
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
    const bool data = p_.direction == Direction::kBackwardData;
    const Problem image = of_images(p_, 1);
    const std::int64_t all = p_.output().lens[2];
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
  if (p.direction == Direction::kBackwardWeights || copied_bytes(p) <= most_bytes) {
    slicer.add(p, 0, 0);
  } else if (copied_bytes(image) <= most_bytes) {
    std::int64_t images = p.n();
    while (copied_bytes(of_images(p, images)) > most_bytes) images = ceil_div(images, 2);
    slicer.add_images(images);
  } else if (const auto rows = rows_per_slice(image, most_bytes)) {
    slicer.add_rows(*rows);
  } else {
    slicer.add(p, 0, 0);
  }
  return slicer.made();
}

}  // namespace polymio::convolution::cuda
