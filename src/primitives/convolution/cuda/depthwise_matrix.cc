// SPDX-License-Identifier: MIT
#include "primitives/convolution/cuda/depthwise_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/math.h"
#include "primitives/convolution/cuda/matrix_units.h"

namespace polymio::convolution::cuda {
namespace {

using Tile = DepthwiseMatrix::Tile;

constexpr std::int64_t kColumns = 16;  // pixels per mma

// The fastest tiles measured on an H200: 5x5 and 7x7 filters, then backward weights.
constexpr Tile kFilter5[] = {
    {64, 2, 2, 1, 6, 2}, {48, 2, 2, 1, 6, 2}, {32, 2, 2, 1, 6, 4}, {32, 1, 2, 2, 6, 4}, {32, 1, 1, 1, 6, 5}};
constexpr Tile kFilter7[] = {{32, 2, 2, 1, 6, 3}, {48, 2, 2, 1, 6, 2}, {32, 1, 2, 2, 6, 3}, {32, 1, 1, 1, 6, 4}};
constexpr Tile kFilter5Weights[] = {{48, 2, 2, 1, 6, 2}, {32, 2, 2, 1, 6, 3}, {32, 1, 2, 2, 6, 3}, {32, 1, 1, 1, 6, 4}};
constexpr Tile kFilter7Weights[] = {{32, 2, 2, 1, 6, 2}, {16, 2, 2, 1, 6, 4}, {32, 1, 2, 2, 6, 2}, {32, 1, 1, 1, 6, 3}};

using gpu::narrow;

bool is_weights(const Problem& p) { return p.direction == Direction::kBackwardWeights; }

std::span<const Tile> tiles_of(const Problem& p) {
  if (p.filter(0) == 5) return is_weights(p) ? std::span<const Tile>(kFilter5Weights) : kFilter5;
  return is_weights(p) ? std::span<const Tile>(kFilter7Weights) : kFilter7;
}

/// Height (0) and width (1) of dst or, for weights, of y.
std::int64_t side(const Problem& p, int i) { return p.direction == Direction::kBackwardData ? p.in(i) : p.out(i); }

/// Columns per column tile, about equal.
std::int64_t width_of(const Problem& p, const Tile& t) {
  if (t.images > 1) return kColumns;
  return ceil_div(side(p, 1), ceil_div(ceil_div(side(p, 1), kColumns), t.columns));
}

/// Column tiles of all images if a column tile had all rows.
std::int64_t columns_of(const Problem& p, const Tile& t) {
  return ceil_div(p.n(), t.images) * ceil_div(side(p, 1), width_of(p, t));
}

/// Resident blocks per group of channels.
std::int64_t blocks_of(const DeviceInfo& d, const Problem& p, const Tile& t) {
  return std::max<std::int64_t>(1, std::int64_t{d.units} * t.resident / ceil_div(p.c(), t.channels));
}

/// Rows per column tile: all, or fewer so that all resident blocks have work.
std::int64_t band_of(const DeviceInfo& d, const Problem& p, const Tile& t) {
  constexpr std::int64_t kMin = 7;
  const std::int64_t most = std::max<std::int64_t>(1, side(p, 0) / kMin);
  return ceil_div(side(p, 0), std::clamp<std::int64_t>(blocks_of(d, p, t) / columns_of(p, t), 1, most));
}

/// Estimated slowdown: superfluous pixels and channels, halos, partial waves; the small factors were measured on an
/// H200.
double waste(const DeviceInfo& d, const Problem& p, const Tile& t) {
  const auto real = [](std::int64_t v) { return static_cast<double>(v); };
  const std::int64_t width = width_of(p, t), band = band_of(d, p, t), reach = p.filter(0) - 1;
  const std::int64_t parts = ceil_div(width, kColumns * t.per_warp);
  const std::int64_t pixels = t.images > 1 ? kColumns * t.images : parts * kColumns * t.per_warp;
  const std::int64_t column_tiles = columns_of(p, t) * ceil_div(side(p, 0), band), blocks = blocks_of(d, p, t);
  const double covered = real(column_tiles * pixels * band) / real(p.n() * side(p, 0) * side(p, 1));
  const double channels = real(ceil_div(p.c(), t.channels) * t.channels) / real(p.c());
  const double halo = real((width + reach) * (band + reach)) / real(width * band);
  const double rounds = real(ceil_div(column_tiles, blocks) * blocks) / real(column_tiles);
  const double little = t.per_warp > 1 ? 1 : 1.25;                  // little work between barriers
  const double uneven = t.channels / 8 * parts % 4 == 0 ? 1 : 1.1;  // warps over four schedulers
  return covered * channels * halo * rounds * little * uneven;
}

}  // namespace

bool DepthwiseMatrix::serve(const DeviceInfo& d, const Problem& p) {
  const auto& g = p.geometry;
  const bool plain = g.stride[0] == 1 && g.stride[1] == 1 && g.dilation[0] == 1 && g.dilation[1] == 1;
  const bool last = p.x.is_channels_last() && p.y.is_channels_last() && p.c() % 8 == 0;
  return has_matrix_units(d) && size_of(p.x.type) == 2 && plain && last && p.filter(0) > 3;
}

int DepthwiseMatrix::variants(const Problem& p) { return narrow(static_cast<std::int64_t>(tiles_of(p).size())); }

int DepthwiseMatrix::best(const DeviceInfo& d, const Problem& p) {
  const auto tiles = tiles_of(p);
  const auto less = [&](const Tile& a, const Tile& b) { return waste(d, p, a) < waste(d, p, b); };
  return narrow(std::min_element(tiles.begin(), tiles.end(), less) - tiles.begin());
}

DepthwiseMatrix::DepthwiseMatrix(const DeviceInfo& d, const Problem& p, int variant)
    : shape_(gpu::depthwise_shape(p)),
      tile_(tiles_of(p)[static_cast<std::size_t>(variant)]),
      direction_(p.direction),
      type_(p.x.type),
      epilogue_(p.epilogue),
      filter_(narrow(p.filter(0))),
      tile_w_(narrow(width_of(p, tile_))),
      chunks_(narrow(ceil_div(p.c(), tile_.channels))),
      weight_count_(p.w.count()) {
  auto& s = shape_;
  s.band = narrow(band_of(d, p, tile_));
  column_tiles_ = narrow(columns_of(p, tile_) * ceil_div(s.dst_h, s.band));
  parts_ = narrow(std::min<std::int64_t>(column_tiles_, blocks_of(d, p, tile_)));
  shorten_ring();
}

/// The ring holds rows of at most two consecutive column tiles: the kernel tracks only these.
void DepthwiseMatrix::shorten_ring() {
  const auto& s = shape_;
  const bool weights = direction_ == Direction::kBackwardWeights;
  for (int row = 0; row < s.dst_h; row += s.band) {
    const int most = std::min(s.band, s.dst_h - row), above = std::clamp(s.pad_h - row, 0, filter_ - 1);
    const int met = weights ? std::min(most + filter_ - 1, s.src_h + s.pad_h - row) : most + filter_ - 1 - above;
    tile_.stages = std::clamp(met + 1, 2, tile_.stages);
  }
}

std::size_t DepthwiseMatrix::workspace() const {
  return direction_ == Direction::kBackwardWeights ? gpu::sum_bytes(parts_ * weight_count_) : 0;
}

std::vector<KernelSpec> DepthwiseMatrix::kernels() const {
  const bool weights = direction_ == Direction::kBackwardWeights;
  const std::string name = weights ? "depthwise_matrix_weights" : "depthwise_matrix";
  const std::string source = fmt::format("primitives/convolution/cuda/{}.cl", name);
  std::vector<std::string> options = {fmt::format("-DIN={}", name_of(type_)), fmt::format("-DOUT={}", name_of(type_))};
  const auto add = [&](const char* flag, int value) { options.push_back(fmt::format("-D{}={}", flag, value)); };
  add("FILTER", filter_);
  add("CHANNELS", tile_.channels);
  add("TILE_W", tile_w_);
  add("PER_WARP", tile_.per_warp);
  add("IMAGES", tile_.images);
  add("STAGES", tile_.stages);
  add("RESIDENT", tile_.resident);
  if (!weights) add("DIRECTION", static_cast<int>(direction_));
  gpu::add_fused_options(epilogue_, &options);
  return gpu::kernel_variants(source, name, std::move(options), weights);
}

void DepthwiseMatrix::run(Stream& stream, const Kernels& built, const Problem::Args& a) const {
  const std::int64_t threads = tile_.channels / 8 * ceil_div(tile_w_, kColumns * tile_.per_warp) * 32;
  gpu::launch_variant(stream, built, {direction_, weight_count_, parts_, true, epilogue_},
                      launch_shape(threads, parts_, chunks_), a, shape_, column_tiles_);
}

}  // namespace polymio::convolution::cuda
