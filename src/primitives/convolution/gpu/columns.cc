// SPDX-License-Identifier: MIT
#include "primitives/convolution/gpu/columns.h"

#include <fmt/format.h>

#include <algorithm>

namespace polymio::convolution::gpu {
namespace {

constexpr std::int64_t kThreads = 256;
constexpr double kMost = 1 << 30;

bool packed(const TensorDesc& t) { return t.is_channels_first() || t.is_channels_last(); }

/// Threads for the elements of an image; each goes through images, since these have their indices in common.
Launch launch_for(std::int64_t elements, std::int64_t images) {
  constexpr std::int64_t kMostBlocks = 1 << 16, kEnough = 1 << 11;
  const auto blocks = std::clamp<std::int64_t>((elements + kThreads - 1) / kThreads, 1, kMostBlocks);
  return launch_shape(kThreads, blocks, std::clamp<std::int64_t>(kEnough / blocks, 1, images));
}

}  // namespace

std::int64_t taps_of(const Problem& p) {
  std::int64_t taps = 1;
  for (int i = 0; i < p.spatial(); ++i) taps *= p.filter(i);
  return taps;
}

std::int64_t pixels_of(const Problem& p) {
  std::int64_t pixels = 1;
  for (int i = 0; i < p.spatial(); ++i) pixels *= p.out(i);
  return pixels;
}

bool is_pointwise(const Problem& p) {
  const auto& g = p.geometry;
  bool plain = taps_of(p) == 1 && p.x.is_channels_last() == p.y.is_channels_last() && packed(p.x);
  for (std::size_t i = 0; i < static_cast<std::size_t>(p.spatial()); ++i)
    plain = plain && g.pad[i] == 0 && g.stride[i] == 1;
  return plain;
}

Verdict check_columns(const DeviceInfo& d, const Problem& p, Direction direction) {
  POLYMIO_REQUIRE(p.direction == direction, "serves another direction");
  const DataType t = p.x.type;
  POLYMIO_REQUIRE(t == DataType::kFloat || t == DataType::kHalf || t == DataType::kBFloat16,
                  "not a float of 16 or 32 bits");
  POLYMIO_REQUIRE(p.all_types(t), "mixed types");
  POLYMIO_REQUIRE(!p.depthwise() || p.k() != p.c(), "depthwise: products of one row");
  if (const Verdict v = check_types(d, p); !v) return v;
  POLYMIO_REQUIRE(packed(p.y) && packed(p.w), "y or w is neither packed NCHW nor packed NHWC");
  const double depth = static_cast<double>(p.c()) * static_cast<double>(taps_of(p));
  POLYMIO_REQUIRE(depth * static_cast<double>(pixels_of(p)) <= kMost, "the matrix of an image is too large");
  for (int i = 0; i < p.spatial(); ++i) {
    const auto axis = static_cast<std::size_t>(i);
    POLYMIO_REQUIRE(p.geometry.pad[axis] <= kMost / 4 && p.geometry.stride[axis] <= kMost,
                    "padding or stride too large");
    POLYMIO_REQUIRE(static_cast<double>(p.geometry.dilation[axis]) * static_cast<double>(p.filter(i)) <= kMost / 4,
                    "the filter reaches too far");
  }
  POLYMIO_REQUIRE(static_cast<double>(p.x.space()) / static_cast<double>(p.n()) <= kMost, "an image of x is too large");
  return {};
}

Columns::Columns(const Problem& p, std::int64_t images)
    : sizes_(sizes_of(p)),
      steps_(steps_of(p)),
      strides_(strides_of(p)),
      order_{taps_of(p) == 1 || !p.w.is_channels_first(), !p.y.is_channels_last()},
      backward_(p.direction == Direction::kBackwardData),
      pointwise_(is_pointwise(p)),
      wide_(0),
      // Gradients of single taps are added up in single precision.
      type_(backward_ && !pointwise_ ? DataType::kFloat : p.x.type),
      x_type_(p.x.type),
      images_(images),
      image_elements_(p.c() * taps_of(p) * pixels_of(p)),
      bytes_(static_cast<double>(bytes()) +
             static_cast<double>(p.x.bytes()) * static_cast<double>(images) / static_cast<double>(p.n())) {
  const int vector = static_cast<int>(16 / size_of(type_));
  const bool plain = order_.taps_first && !order_.pixels_innermost && p.x.is_channels_last();
  if (plain && p.c() / p.groups() % vector == 0) wide_ = vector;
}

/// What measurements on an H200 say.
double Columns::predict(const DeviceInfo& d) const {
  if (pointwise_) return 0;
  constexpr double kLaunchUs = 3;
  const bool strided = steps_.stride[0] * steps_.stride[1] * steps_.stride[2] > 1;
  const double gathered = pixels_innermost() ? 0.17 : 0.5, scattered = !pixels_innermost() ? 0.3
                                                                       : strided           ? 0.06
                                                                                           : 0.12;
  return kLaunchUs + bytes_ / (1e3 * d.bandwidth_gbs * (backward_ ? scattered : gathered));
}

KernelSpec Columns::spec(const char* entry, int wide) const {
  return {"primitives/convolution/gpu/columns.cl",
          entry,
          {fmt::format("-DIN={}", name_of(x_type_)), fmt::format("-DOUT={}", name_of(x_type_)),
           fmt::format("-DWIDE={}", wide)}};
}

std::vector<KernelSpec> Columns::kernels() const {
  if (pointwise_) return {};
  const char* entry = backward_ ? "col2im" : "im2col";
  if (wide_ == 0) return {spec(entry, 0)};
  return {spec(entry, 0), spec(entry, 1)};
}

KernelSpec Columns::adding() const { return spec("add_partials", 0); }

void Columns::run(Stream& stream, const std::vector<std::shared_ptr<const Kernel>>& built, std::size_t first,
                  const Call& c) const {
  const bool wide = wide_ != 0 && c.aligned;
  const std::int64_t step = wide ? wide_ : 1;
  const Kernel& kernel = *built[first + (wide ? 1 : 0)];
  kernels::ConvSizes sizes = sizes_;
  kernels::ConvStrides strides = strides_;
  sizes.n = c.images, sizes.c /= step;
  for (kernels::i64& stride : strides.x) stride /= step;
  strides.x[1] = wide ? 1 : strides.x[1];
  const std::int64_t x_elements = sizes.c * sizes.in[0] * sizes.in[1] * sizes.in[2];
  const Launch shape = launch_for((backward_ ? x_elements : image_elements_ / step), c.images);
  if (backward_)
    launch(stream, kernel, shape, c.matrix, c.x, c.matrix_at / step, sizes, steps_, strides, order_, c.alpha, c.beta);
  else
    launch(stream, kernel, shape, c.x, c.matrix, c.matrix_at / step, sizes, steps_, strides, order_);
}

}  // namespace polymio::convolution::gpu
