// SPDX-License-Identifier: MIT
#include "primitives/convolution/gpu/depthwise_tiles.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

namespace polymio::convolution::gpu {
namespace {

constexpr std::int64_t kSlack = 16;  // bytes: kernels align the workspace themselves
constexpr std::int64_t kLocalBytes = 48 << 10;
constexpr int kBlocksOfUnit = 12;  // more partial results give nothing

/// Channels and pixels of a block, pixels of a thread at a time, rows of the filter that a thread owns.
struct Tile {
  int channels, tile_h, tile_w, rows, cols, tap_rows;
};
// What measurements on an H200 say.
constexpr Tile kSmall[] = {
    {32, 14, 16, 7, 4, 3}, {32, 14, 14, 7, 7, 3}, {48, 14, 28, 7, 7, 3}, {16, 14, 28, 7, 4, 3}, {64, 7, 7, 1, 7, 3}};
constexpr Tile kLarge[] = {{32, 14, 14, 2, 7, 1}, {16, 14, 14, 2, 7, 1}, {32, 7, 7, 1, 7, 1}};
constexpr Tile kSmallWeights[] = {{32, 14, 14, 2, 14, 3}, {48, 14, 14, 2, 7, 3}, {32, 8, 16, 2, 4, 3},
                                  {32, 7, 14, 1, 14, 3},  {64, 7, 7, 1, 7, 3},   {32, 8, 8, 2, 8, 3}};
constexpr Tile kLargeWeights[] = {{16, 14, 14, 7, 14, 1}, {32, 7, 7, 7, 7, 1}};

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

bool weights(const Problem& p) { return p.direction == Direction::kBackwardWeights; }

std::span<const Tile> tiles_of(bool weights, std::int64_t filter) {
  if (filter == 3) return weights ? std::span<const Tile>(kSmallWeights) : kSmall;
  return weights ? std::span<const Tile>(kLargeWeights) : kLarge;
}

const Tile& tile_of(const Problem& p, int variant) {
  return tiles_of(weights(p), p.filter(0))[static_cast<std::size_t>(variant)];
}

int threads_of(const Tile& t, bool weights, std::int64_t filter) {
  const int slots = t.channels / 4 * (t.tile_w / t.cols) * (t.tile_h / t.rows);
  return weights ? slots * static_cast<int>(filter) / t.tap_rows : slots;
}

/// Pixels of the sides of what is written forward or backward, or of y.
std::int64_t side(const Problem& p, int i) { return p.direction == Direction::kBackwardData ? p.in(i) : p.out(i); }

/// How much more is read and computed than has to be.
double waste(const Problem& p, const Tile& t) {
  const auto real = [](std::int64_t v) { return static_cast<double>(v); };
  const double covered =
      real(ceil_div(side(p, 0), t.tile_h) * t.tile_h) * real(ceil_div(side(p, 1), t.tile_w) * t.tile_w);
  const double channels = real(ceil_div(p.c(), t.channels) * t.channels) / real(p.c());
  const auto reach = static_cast<int>(p.filter(0)) - 1;
  const double halo = real((t.tile_h + reach) * (t.tile_w + reach)) / real(t.tile_h * t.tile_w);
  const std::size_t segment = static_cast<std::size_t>(t.channels) * size_of(p.x.type);  // bytes in a row
  const double narrow = segment >= 128 ? 1 : segment >= 64 ? 1.1 : 1.25;
  return covered / real(side(p, 0) * side(p, 1)) * channels * halo * narrow;
}

}  // namespace

bool DepthwiseTiles::serve(const Problem& p) {
  const auto& g = p.geometry;
  const auto vector = static_cast<std::int64_t>(16 / size_of(p.x.type));
  const bool plain = g.stride[0] == 1 && g.stride[1] == 1 && g.dilation[0] == 1 && g.dilation[1] == 1;
  return plain && p.x.is_channels_last() && p.y.is_channels_last() && p.c() % vector == 0;
}

int DepthwiseTiles::variants(const Problem& p) { return static_cast<int>(tiles_of(weights(p), p.filter(0)).size()); }

bool DepthwiseTiles::fits(const Problem& p, int variant) {
  const Tile& t = tile_of(p, variant);
  const auto size = static_cast<std::int64_t>(size_of(p.x.type)), filter = p.filter(0);
  const std::int64_t window = (t.tile_h + filter - 1) * (t.tile_w + filter - 1) * t.channels * size;
  const std::int64_t beside = weights(p) ? t.tile_h * t.tile_w * t.channels * size + threads_of(t, true, filter) * 16
                                         : filter * filter * t.channels * 4;
  return window + beside <= kLocalBytes;
}

int DepthwiseTiles::best(const Problem& p) {
  int best = -1;
  for (int i = 0; i < variants(p); ++i)
    if (fits(p, i) && (best < 0 || waste(p, tile_of(p, i)) < waste(p, tile_of(p, best)))) best = i;
  return best;
}

DepthwiseTiles::DepthwiseTiles(const DeviceInfo& d, const Problem& p, int variant)
    : direction_(p.direction),
      type_(p.x.type),
      filter_(static_cast<int>(p.filter(0))),
      variant_(variant),
      weight_count_(p.w.count()) {
  const auto narrow = [](std::int64_t v) { return static_cast<int>(v); };
  const bool data = direction_ == Direction::kBackwardData;
  const auto& pad = p.geometry.pad;
  const Tile& t = tile_of(p, variant);
  auto& s = shape_;
  s.images = narrow(p.n()), s.channels = narrow(p.c());
  s.src_h = narrow(data ? p.out(0) : p.in(0)), s.src_w = narrow(data ? p.out(1) : p.in(1));
  s.dst_h = narrow(side(p, 0)), s.dst_w = narrow(side(p, 1));
  // Backward data is a forward convolution with the filter turned round.
  s.pad_h = narrow(data ? filter_ - 1 - pad[0] : pad[0]), s.pad_w = narrow(data ? filter_ - 1 - pad[1] : pad[1]);
  tiles_ = narrow(p.n() * ceil_div(s.dst_h, t.tile_h) * ceil_div(s.dst_w, t.tile_w));
  parts_ = std::clamp(kBlocksOfUnit * d.units / narrow(ceil_div(p.c(), t.channels)), 1, tiles_);
}

std::size_t DepthwiseTiles::workspace() const {
  return direction_ != Direction::kBackwardWeights ? 0 : static_cast<std::size_t>(parts_ * weight_count_ * 4 + kSlack);
}

std::vector<KernelSpec> DepthwiseTiles::kernels() const {
  const bool weights = direction_ == Direction::kBackwardWeights;
  const Tile& t = tiles_of(weights, filter_)[static_cast<std::size_t>(variant_)];
  const std::string name = weights ? "depthwise_tiles_weights" : "depthwise_tiles";
  const std::string source = fmt::format("primitives/convolution/gpu/{}.cl", name);
  const std::pair<const char*, int> flags[] = {{"FILTER", filter_},  {"CHANNELS", t.channels}, {"TILE_H", t.tile_h},
                                               {"TILE_W", t.tile_w}, {"ROWS", t.rows},         {"COLS", t.cols}};
  std::vector<std::string> options = {fmt::format("-DIN={}", name_of(type_)), fmt::format("-DOUT={}", name_of(type_))};
  for (const auto& [flag, value] : flags) options.push_back(fmt::format("-D{}={}", flag, value));
  options.push_back(weights ? fmt::format("-DTAP_ROWS={}", t.tap_rows)
                            : fmt::format("-DDIRECTION={}", static_cast<int>(direction_)));
  return kernel_variants(source, name, std::move(options), weights);
}

void DepthwiseTiles::run(Stream& stream, const Kernels& built, const Problem::Args& a) const {
  const bool weights = direction_ == Direction::kBackwardWeights;
  const Tile& t = tiles_of(weights, filter_)[static_cast<std::size_t>(variant_)];
  const std::int64_t threads = threads_of(t, weights, filter_), chunks = ceil_div(shape_.channels, t.channels);
  const auto alpha = static_cast<float>(a.alpha), beta = static_cast<float>(a.beta);
  const std::size_t first = aligned(a) ? 0 : built.size() / 2;
  if (!weights) {
    const bool data = direction_ == Direction::kBackwardData;
    launch(stream, *built[first], launch_shape(threads, tiles_ * chunks), Buffer(data ? a.y : a.x), Buffer(a.w),
           Buffer(data ? a.x : a.y), shape_, alpha, beta);
    return;
  }
  launch(stream, *built[first], launch_shape(threads, parts_, chunks), Buffer(a.x), Buffer(a.y), Buffer(a.workspace),
         shape_, tiles_);
  add_partials(stream, *built[first + 1], Buffer(a.workspace), Buffer(a.w), weight_count_, parts_, alpha, beta);
}

}  // namespace polymio::convolution::gpu
