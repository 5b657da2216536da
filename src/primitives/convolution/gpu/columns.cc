// SPDX-License-Identifier: MIT
#include "primitives/convolution/gpu/columns.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/math.h"

namespace polymio::convolution::gpu {
namespace {

constexpr std::int64_t kThreads = 256;
constexpr double kMax = 1 << 30;
constexpr std::int64_t kPixels = 64;  // parts begin at multiples, aligned to 16 bytes

bool packed(const TensorDesc& t) { return t.is_channels_first() || t.is_channels_last(); }

bool plain_taps(const Problem& p, std::int64_t most_stride) {
  bool plain = taps_of(p) == 1 && p.x.is_channels_last() == p.y.is_channels_last() && packed(p.x);
  const auto& g = p.geometry;
  for (std::size_t i = 0; i < static_cast<std::size_t>(p.spatial()); ++i)
    plain = plain && g.pad[i] == 0 && g.stride[i] <= most_stride;
  return plain;
}

/// The arguments of pixels.cl for one image.
kernels::PixelShape pixel_shape(const Problem& p) {
  const auto z = sizes_of(p);
  const auto t = steps_of(p);
  const bool last = p.y.is_channels_last();
  kernels::PixelShape s{};
  s.planes = last ? 1 : z.c;
  s.vectors = last ? narrow(z.c) : 1;
  s.in_d = narrow(z.in[0]);
  s.in_h = narrow(z.in[1]);
  s.in_w = narrow(z.in[2]);
  s.out_d = narrow(z.out[0]);
  s.out_h = narrow(z.out[1]);
  s.out_w = narrow(z.out[2]);
  s.stride_d = narrow(t.stride[0]);
  s.stride_h = narrow(t.stride[1]);
  s.stride_w = narrow(t.stride[2]);
  return s;
}

/// One thread per element of an image; it loops over images, which share the index arithmetic.
Launch launch_for(std::int64_t elements, std::int64_t images) {
  constexpr std::int64_t kMaxBlocks = 1 << 16, kEnough = 1 << 11;
  const auto blocks = std::clamp<std::int64_t>((elements + kThreads - 1) / kThreads, 1, kMaxBlocks);
  return launch_shape(kThreads, blocks, std::clamp<std::int64_t>(kEnough / blocks, 1, images));
}

/// Whether the matrix consists of elements of x, each once at most, in another order.
bool permutes(const Problem& p) { return !is_pointwise(p) && (plain_taps(p, std::int64_t{1} << 30) || has_patches(p)); }

/// Of the matrix of the whole problem, or of a cut image.
DataType matrix_type(const Problem& p, bool cut) {
  // Backward sums the products of an element's taps in fp32.
  const bool sums = p.direction == Direction::kBackwardData && !is_pointwise(p) && (cut || !permutes(p));
  return sums ? DataType::kFloat : p.x.type;
}

/// Parts of about equal size, none larger than `most`.
std::int64_t equal_parts(std::int64_t all, std::int64_t most) { return ceil_div(all, ceil_div(all, most)); }

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

bool is_pointwise(const Problem& p) { return plain_taps(p, 1) || has_patches_in_place(p); }

bool has_even_rows(const Problem& p) {
  const auto z = sizes_of(p);
  const auto t = steps_of(p);
  return !is_pointwise(p) && plain_taps(p, std::int64_t{1} << 30) && p.y.is_channels_last() && p.groups() == 1 &&
         z.in[0] == z.out[0] && z.in[1] == z.out[1] * t.stride[1];
}

std::optional<Slices> slices_of(const Problem& p, bool direct, std::int64_t target, std::int64_t most) {
  const std::int64_t pixels = pixels_of(p), channels = p.c() / p.groups(), taps = taps_of(p);
  Slices s = {p.n(), pixels, channels};
  if (direct) return s;
  const bool backward = p.direction == Direction::kBackwardData;
  const auto bytes = [&](bool cut) { return static_cast<double>(size_of(matrix_type(p, cut))); };
  const double image = bytes(false) * static_cast<double>(p.c()) * static_cast<double>(taps * pixels);
  const auto fitting = [&](double unit) { return static_cast<std::int64_t>(static_cast<double>(most) / unit); };
  if (image <= static_cast<double>(most)) {
    const auto images = static_cast<std::int64_t>(static_cast<double>(std::min(target, most)) / image);
    s.images = equal_parts(p.n(), std::clamp<std::int64_t>(images, 1, p.n()));
  } else if (!backward) {
    const std::int64_t fit = fitting(bytes(true) * static_cast<double>(p.c()) * static_cast<double>(taps));
    if (fit < kPixels) return std::nullopt;
    s.images = 1;
    s.pixels = round_up(equal_parts(pixels, fit / kPixels * kPixels), kPixels);
  } else {
    constexpr std::int64_t kVector = 8;
    std::int64_t fit = std::min(channels, fitting(bytes(true) * static_cast<double>(taps * pixels)));
    if (fit < 1 || p.groups() > 1) return std::nullopt;
    fit = equal_parts(channels, fit);
    s.images = 1;
    s.channels = fit > kVector ? fit / kVector * kVector : fit;
  }
  double x = static_cast<double>(s.channels) * static_cast<double>(p.groups());  // elements that col2im numbers
  for (int i = 0; i < p.spatial(); ++i) x *= static_cast<double>(p.in(i));
  if (backward && x > kMax) return std::nullopt;
  return s;
}

std::int64_t parts(const Problem& p, const Slices& s) {
  return ceil_div(p.n(), s.images) * ceil_div(pixels_of(p), s.pixels) * ceil_div(p.c() / p.groups(), s.channels);
}

Part part(const Problem& p, const Slices& s, std::int64_t index) {
  const std::int64_t pixels = pixels_of(p), channels = p.c() / p.groups();
  const std::int64_t of_channels = ceil_div(channels, s.channels), of_pixels = ceil_div(pixels, s.pixels);
  const std::int64_t image = index / of_channels / of_pixels * s.images,
                     pixel = index / of_channels % of_pixels * s.pixels, channel = index % of_channels * s.channels;
  return {image,
          pixel,
          channel,
          {std::min(s.images, p.n() - image), std::min(s.pixels, pixels - pixel),
           std::min(s.channels, channels - channel)}};
}

Verdict check_columns(const DeviceInfo& d, const Problem& p, Direction direction, bool fuses) {
  POLYMIO_REQUIRE(p.direction == direction, "serves another direction");
  const DataType t = p.x.type;
  POLYMIO_REQUIRE(t == DataType::kFloat || t == DataType::kHalf || t == DataType::kBFloat16,
                  "not a float of 16 or 32 bits");
  POLYMIO_REQUIRE(p.all_types(t), "mixed types");
  POLYMIO_REQUIRE(!p.depthwise() || p.k() != p.c(), "depthwise: products of one row");
  if (const Verdict v = check_types(d, p, fuses); !v) return v;
  POLYMIO_REQUIRE(packed(p.y) && packed(p.w), "y or w is neither packed NCHW nor packed NHWC");
  POLYMIO_REQUIRE_MOST(pixels_of(p), std::int64_t{1} << 30, "pixels of an image of y");
  POLYMIO_REQUIRE_MOST(p.c() * taps_of(p), std::int64_t{1} << 30, "rows of the matrix");
  for (int i = 0; i < p.spatial(); ++i) {
    const auto axis = static_cast<std::size_t>(i);
    POLYMIO_REQUIRE(p.geometry.pad[axis] <= kMax / 4 && p.geometry.stride[axis] <= kMax, "padding or stride too large");
    POLYMIO_REQUIRE(static_cast<double>(p.geometry.dilation[axis]) * static_cast<double>(p.filter(i)) <= kMax / 4,
                    "the filter extent is too large");
  }
  return {};
}

Columns::Columns(const Problem& p, const Slices& slices, bool in_place)
    : sizes_(sizes_of(p)),
      steps_(steps_of(p)),
      strides_(strides_of(p)),
      order_{taps_of(p) == 1 || !p.w.is_channels_first(), !p.y.is_channels_last()},
      pixels_(pixel_shape(p)),
      backward_(p.direction == Direction::kBackwardData),
      pointwise_(is_pointwise(p)),
      in_place_(in_place),
      wide_(0),
      x_type_(p.x.type),
      slices_(slices),
      groups_(p.groups()),
      taps_(taps_of(p)) {
  const bool cut = slices.pixels < pixels_of(p) || slices.channels < p.c() / p.groups();
  picks_ = !cut && permutes(p);
  type_ = matrix_type(p, cut);
  const auto share = [](std::int64_t some, std::int64_t all) {
    return static_cast<double>(some) / static_cast<double>(all);
  };
  bytes_ = static_cast<double>(bytes()) + static_cast<double>(p.x.bytes()) * share(slices.images, p.n()) *
                                              share(slices.pixels, pixels_of(p)) *
                                              share(slices.channels, p.c() / p.groups());
  if (!cut && has_patches(p)) {
    patches_.emplace(p);
    wide_ = patches_->unit() == 1 ? 0 : patches_->unit();
    return;
  }
  const int vector = static_cast<int>(16 / size_of(type_));
  const bool plain = order_.taps_first && !order_.pixels_innermost && p.x.is_channels_last();
  if (plain && slices.channels % vector == 0 && p.c() / p.groups() % vector == 0) wide_ = vector;
  const auto whole = [&](std::int64_t elements) { return elements % vector == 0; };
  const std::int64_t out_plane = std::int64_t{pixels_.out_h} * pixels_.out_w;
  runs_ = picks_ && order_.pixels_innermost && whole(out_plane) && whole(pixels_.in_w);
  if (runs_) wide_ = vector;
}

/// Fractions of the bandwidth measured on an H200.
double Columns::predict(const DeviceInfo& d) const {
  if (pointwise_ || (in_place_ && !backward_)) return 0;
  constexpr double kLaunchUs = 3, kPicked = 0.7;
  if (picks_) return kLaunchUs + bytes_ / (1e3 * d.bandwidth_gbs * kPicked);
  const bool strided = steps_.stride[0] * steps_.stride[1] * steps_.stride[2] > 1;
  const double gathered = pixels_innermost() ? 0.17 : 0.5, scattered = !pixels_innermost() ? 0.3
                                                                       : strided           ? 0.06
                                                                                           : 0.12;
  return kLaunchUs + bytes_ / (1e3 * d.bandwidth_gbs * (backward_ ? scattered : gathered));
}

KernelSpec Columns::spec(std::string_view source, const char* entry, int wide) const {
  const std::string width = source == "patches" ? fmt::format("-DUNIT={}", wide ? wide_ : 1)
                                                : fmt::format("-DWIDE={}", wide && runs_ ? 2 : wide);
  return {fmt::format("primitives/convolution/gpu/{}.cl", source),
          entry,
          {fmt::format("-DIN={}", name_of(x_type_)), fmt::format("-DOUT={}", name_of(x_type_)), width}};
}

std::vector<KernelSpec> Columns::kernels() const {
  if (pointwise_ || (in_place_ && !backward_)) return {};
  const char* const source = patches_ ? "patches" : picks_ ? "pixels" : "columns";
  const char* const gather = patches_ ? "gather_patches" : picks_ ? "pick_pixels" : "im2col";
  const char* const scatter = patches_ ? "scatter_patches" : picks_ ? "upsample_pixels" : "col2im";
  std::vector<const char*> entries = {in_place_ ? "scale_others" : backward_ ? scatter : gather};
  if (picks_ && backward_ && !in_place_) entries.push_back(gather);
  std::vector<KernelSpec> specs;
  for (const char* entry : entries)
    for (int wide = 0; wide < (wide_ == 0 ? 1 : 2); ++wide) specs.push_back(spec(source, entry, wide));
  return specs;
}

KernelSpec Columns::add_partials_spec() const { return spec("columns", "add_partials", 0); }

KernelSpec Columns::scale_sums_spec() const { return spec("columns", "scale_sums", 0); }

void scale_sums(Stream& stream, const Kernel& kernel, const Partials& p, float alpha, float beta) {
  launch(stream, kernel, launch_for(p.count, 1), p.sums, p.result, p.sums_at, p.count, alpha, beta);
}

Launch Columns::launch_picks(kernels::PixelShape& s, const Call& c, bool upsample) const {
  constexpr std::int64_t kPlanes = 16;  // of a block, as in pixels.cl
  const int step = wide(c) ? wide_ : 1;
  const std::int64_t pixels = upsample ? std::int64_t{s.in_h} * s.in_w : std::int64_t{s.out_h} * s.out_w;
  const std::int64_t units = pixels * s.vectors / step;
  s.vectors /= runs_ ? 1 : step;
  s.planes *= c.part.size.images;
  s.x_at = c.x_at;
  const std::int64_t planes = s.planes * (upsample ? s.in_d : s.out_d);
  const std::int64_t chunks = (units + kThreads - 1) / kThreads;
  return launch_shape(kThreads, chunks * ((planes + kPlanes - 1) / kPlanes));
}

void Columns::run_picks(Stream& stream, const Kernel& kernel, const Call& c, bool upsample) const {
  if (patches_) return run_patches(stream, kernel, c, upsample);
  kernels::PixelShape s = pixels_;
  const Launch shape = launch_picks(s, c, upsample);
  if (upsample)
    launch(stream, kernel, shape, c.matrix, c.x, c.matrix_at, s, c.beta);
  else
    launch(stream, kernel, shape, c.x, c.matrix, c.matrix_at, s);
}

void Columns::run_patches(Stream& stream, const Kernel& kernel, const Call& c, bool scatter) const {
  const Patches::Call call = {c.x, c.matrix, c.x_at, c.matrix_at, c.part.size.images, wide(c) ? wide_ : 1};
  if (scatter)
    patches_->scatter(stream, kernel, call, c.beta);
  else
    patches_->gather(stream, kernel, call);
}

void Columns::scale_others(Stream& stream, const Kernel& kernel, const Call& c) const {
  kernels::PixelShape s = pixels_;
  const Launch shape = launch_picks(s, c, true);
  launch(stream, kernel, shape, c.x, s, c.beta);
}

void Columns::prepare(Stream& stream, const std::vector<std::shared_ptr<const Kernel>>& built, std::size_t first,
                      const Call& c) const {
  if (in_place_ && backward_) return scale_others(stream, *built[first + (wide(c) ? 1 : 0)], c);
  if (!picks_ || !backward_ || c.beta == 0) return;
  run_picks(stream, *built[first + (wide_ ? 2 : 1) + (wide(c) ? 1 : 0)], c, false);
}

void Columns::run(Stream& stream, const std::vector<std::shared_ptr<const Kernel>>& built, std::size_t first,
                  const Call& c) const {
  const std::int64_t step = wide(c) ? wide_ : 1;
  const Kernel& kernel = *built[first + (wide(c) ? 1 : 0)];
  if (picks_) return run_picks(stream, kernel, c, backward_);
  kernels::ConvSizes sizes = sizes_;
  kernels::ConvStrides strides = strides_;
  const Slices& part = c.part.size;
  sizes.n = part.images;
  sizes.c = part.channels * groups_ / step;
  for (kernels::i64& stride : strides.x) stride /= step;
  strides.x[1] = wide(c) ? 1 : strides.x[1];
  const std::int64_t x_elements = sizes.c * sizes.in[0] * sizes.in[1] * sizes.in[2];
  const std::int64_t x_at = (c.x_at + c.part.channel * strides_.x[1]) / step, matrix_at = c.matrix_at / step;
  const Launch shape = launch_for(backward_ ? x_elements : sizes.c * taps_ * part.pixels, part.images);
  if (backward_)
    launch(stream, kernel, shape, c.matrix, c.x, matrix_at, x_at, sizes, steps_, strides, order_, c.alpha, c.beta);
  else
    launch(stream, kernel, shape, c.x, c.matrix, x_at, matrix_at, sizes, steps_, strides, order_, narrow(c.part.pixel),
           narrow(part.pixels));
}

}  // namespace polymio::convolution::gpu
