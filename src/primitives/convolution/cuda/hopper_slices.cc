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

class Slicer {
 public:
  Slicer(const Problem& p, const CopiedBytes& copied, std::int64_t most_bytes)
      : p_(p), copied_(copied), most_bytes_(most_bytes) {}

  bool fits(const Problem& slice) const { return copied_(slice, is_weights(p_)) <= most_bytes_; }

  /// Rows per slice of one image, if that many fit.
  std::optional<std::int64_t> rows_per_slice() const {
    const Problem image = of_images(p_, 1);
    if (image.geometry.pad[0] > (image.filter(0) - 1) * image.geometry.dilation[0]) return {};
    const std::int64_t all = divided(image).lens[2];
    return largest_part(all, row_unit(image), [&](std::int64_t rows) {
      // The first rows need none before them.
      return fits(of_rows(image, 0, std::min(rows, all)).problem) &&
             (rows >= all || fits(of_rows(image, rows, std::min(2 * rows, all)).problem));
    });
  }

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
  const CopiedBytes& copied_;
  std::int64_t most_bytes_;
  HopperSlices made_;
};

/// With swapped weights, if any.
std::int64_t packed_bytes(const Problem& p, bool summed, HopperInner inner) {
  const HopperPacking plan = hopper_packing(p, summed, inner);
  return plan.bytes() + (hopper_swaps_weights(plan.inner) ? static_cast<std::int64_t>(plan.inner.w.bytes()) : 0);
}

/// Whether copies are of whole rows of the first of several dimensions.
bool copies_rows(const Problem& image, HopperInner inner) {
  const HopperPacking plan = hopper_packing(image, false, inner);
  const auto &own = plan.inner.geometry.stride, &given = image.geometry.stride;
  return !plan.swapped && !plan.overlaps && (image.spatial() > 1 ? own[0] == given[0] : own == given);
}

}  // namespace

HopperSlices hopper_slices(const Problem& p, const CopiedBytes& copied, bool divides_images, std::int64_t most_bytes) {
  // Partial sums of blocks need workspace, too: whole problems have points with few.
  const std::int64_t most_whole = most_bytes - (is_weights(p) ? most_bytes / 16 : 0);
  if (is_weights(p)) most_bytes -= most_bytes / 8;
  Slicer slicer(p, copied, most_bytes);
  if (copied(p, false) <= most_whole) {
    slicer.add(p, 0, 0);
  } else if (slicer.fits(of_images(p, 1))) {
    slicer.add_images(*largest_part(p.n(), 1, [&](std::int64_t images) { return slicer.fits(of_images(p, images)); }));
  } else if (const auto rows = divides_images ? slicer.rows_per_slice() : std::nullopt) {
    slicer.add_rows(*rows);
  } else {
    slicer.add(p, 0, 0);
  }
  return slicer.made();
}

HopperSlices hopper_slices(const Problem& p, std::int64_t most_bytes, HopperInner inner) {
  const auto bytes = [inner](const Problem& slice, bool summed) { return packed_bytes(slice, summed, inner); };
  return hopper_slices(p, bytes, copies_rows(of_images(p, 1), inner), most_bytes);
}

}  // namespace polymio::convolution::cuda
