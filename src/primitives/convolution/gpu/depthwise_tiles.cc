// SPDX-License-Identifier: MIT
#include "primitives/convolution/gpu/depthwise_tiles.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <span>

#include "base/math.h"

namespace polymio::convolution::gpu {
namespace {

using Tile = DepthwiseTiles::Tile;

constexpr std::int64_t kLocalBytes = 48 << 10;
constexpr int kLineThreads = 256;  // as in depthwise_lines.cl

// The fastest tiles measured on an H200.
constexpr Tile kSmall[] = {{64, 7, 14, 1, 7, 3, 4},  {64, 14, 16, 1, 4, 3, 4},  {32, 14, 16, 7, 4, 3},
                           {32, 14, 16, 1, 4, 3, 4}, {144, 28, 28, 1, 4, 3, 4}, {48, 28, 28, 1, 4, 3, 4},
                           {64, 14, 8, 1, 4, 3, 4},  {64, 7, 7, 1, 7, 3}};
constexpr Tile kLarge[] = {{32, 14, 14, 1, 7, 1}, {32, 14, 14, 2, 7, 1}, {16, 14, 28, 1, 7, 1},
                           {16, 14, 14, 1, 7, 1}, {16, 14, 14, 2, 7, 1}, {32, 7, 7, 1, 7, 1}};
constexpr Tile kSmallWeights[] = {{32, 28, 28, 1, 7, 3, 4},  {48, 28, 28, 1, 4, 3, 3}, {64, 14, 16, 1, 4, 3, 4},
                                  {32, 28, 16, 1, 4, 3, 4},  {64, 7, 7, 1, 7, 3},      {32, 8, 8, 2, 8, 3},
                                  {32, 112, 56, 1, 7, 3, 3}, {144, 56, 14, 1, 7, 3, 4}};
constexpr Tile kMiddleWeights[] = {
    {32, 14, 14, 7, 7, 1}, {16, 14, 14, 7, 14, 1}, {32, 14, 7, 2, 7, 5}, {32, 7, 7, 7, 7, 1}};
constexpr Tile kLargeWeights[] = {{16, 14, 14, 7, 14, 1}, {16, 14, 7, 7, 7, 1}, {32, 7, 7, 7, 7, 1}};
constexpr Tile kLines[] = {{0, 28, 0, 28, 0, 3}, {0, 14, 0, 14, 0, 3}, {0, 7, 0, 7, 0, 3}};
constexpr Tile kLinesWeights[] = {
    {0, 112, 0, 112, 0, 3}, {0, 56, 0, 56, 0, 3}, {0, 28, 0, 28, 0, 3}, {0, 14, 0, 14, 0, 3}, {0, 7, 0, 7, 0, 3}};

bool is_weights(const Problem& p) { return p.direction == Direction::kBackwardWeights; }

/// Elements per 16 bytes.
std::int64_t vector_of(const Problem& p) { return static_cast<std::int64_t>(16 / size_of(p.x.type)); }

bool channels_innermost(const Problem& p) {
  return p.x.is_channels_last() && p.y.is_channels_last() && p.c() % vector_of(p) == 0;
}

std::span<const Tile> tiles_of(const Problem& p) {
  if (!channels_innermost(p)) return is_weights(p) ? std::span<const Tile>(kLinesWeights) : kLines;
  if (p.filter(0) == 3) return is_weights(p) ? std::span<const Tile>(kSmallWeights) : kSmall;
  if (!is_weights(p)) return kLarge;
  return p.filter(0) == 5 ? std::span<const Tile>(kMiddleWeights) : kLargeWeights;
}

Tile tile_of(const Problem& p, int variant) {
  Tile t = tiles_of(p)[static_cast<std::size_t>(variant)];
  const std::int64_t most = is_weights(p) ? 4 : vector_of(p);  // a thread also keeps three rows of dy in registers
  if (t.is_lines_kernel()) t.cols = t.tile_w = narrow(std::gcd(p.in(1), most));
  return t;
}

int threads_of(const Tile& t, bool weights, std::int64_t filter) {
  if (t.is_lines_kernel()) return kLineThreads;
  const int slots = t.channels / 4 * (t.tile_w / t.cols) * (t.is_rows_kernel() ? 1 : t.tile_h / t.rows);
  return weights ? slots * narrow(filter) / t.tap_rows : slots;
}

/// Height (0) and width (1) of dst or, for weights, of y.
std::int64_t side(const Problem& p, int i) { return p.direction == Direction::kBackwardData ? p.in(i) : p.out(i); }

/// Rows per block; column tiles have about equal numbers of rows.
std::int64_t rows_of(const Problem& p, const Tile& t) {
  return t.is_rows_kernel() ? ceil_div(side(p, 0), ceil_div(side(p, 0), t.tile_h)) : t.tile_h;
}

/// Estimated slowdown: superfluous pixels and channels, halos, idle multiprocessors; the small factors were measured on
/// an H200.
double waste(const DeviceInfo& d, const Problem& p, const Tile& t) {
  const auto real = [](std::int64_t v) { return static_cast<double>(v); };
  const std::int64_t rows = rows_of(p, t);
  const bool wide = p.x.type == DataType::kFloat, weights = is_weights(p);
  if (t.is_lines_kernel()) {
    constexpr std::int64_t kEnough = 512, kLong = 14;  // threads per multiprocessor, rows
    const std::int64_t bands = ceil_div(side(p, 0), rows), threads = p.n() * p.c() * bands * (side(p, 1) / t.cols);
    return real(bands * rows) * (wide && !weights && rows > kLong ? 1.05 : 1) *
           std::max(1.0, real(d.units * kEnough) / real(threads));
  }
  const double covered = real(ceil_div(side(p, 0), rows) * rows) * real(ceil_div(side(p, 1), t.tile_w) * t.tile_w);
  const double channels = real(ceil_div(p.c(), t.channels) * t.channels) / real(p.c());
  const std::int64_t reach = p.filter(0) - 1;
  const double halo = real((rows + reach) * (t.tile_w + reach)) / real(rows * t.tile_w);
  const std::size_t segment = static_cast<std::size_t>(t.channels) * size_of(p.x.type);  // contiguous bytes per pixel
  const double narrow = segment >= 128 ? 1 : segment >= 64 ? 1.1 : 1.2;
  const double slower = wide                                    ? (t.is_rows_kernel() && t.cols > 4 ? 1.1 : 1)
                        : t.is_rows_kernel() || p.filter(0) > 3 ? 1
                                                                : 1.2;
  const double blocks = covered / real(rows * t.tile_w) * real(p.n() * ceil_div(p.c(), t.channels));
  const double idle = std::max(1.0, 2 * real(d.units) / blocks);
  const double cut = t.is_rows_kernel() && 2 * rows < t.tile_h ? 1.2 : 1;  // variants for higher planes
  return covered / real(side(p, 0) * side(p, 1)) * channels * halo * narrow * slower * idle * cut;
}

/// Backward weights: blocks per multiprocessor.
int resident(const Problem& p, const Tile& t) {
  constexpr int kLineBlocks = 8, kWideTiles = 12, kTiles = 8, kThreads = 384, kFewerThreads = 320;
  if (t.is_lines_kernel()) return kLineBlocks;
  if (t.is_rows_kernel())
    return std::max(1, (t.cols > 4 ? kFewerThreads : kThreads) / threads_of(t, true, p.filter(0)));
  return p.x.type == DataType::kFloat ? kWideTiles : kTiles;
}

}  // namespace

bool DepthwiseTiles::serve(const Problem& p) {
  const auto& g = p.geometry;
  if (g.stride[0] != 1 || g.stride[1] != 1 || g.dilation[0] != 1 || g.dilation[1] != 1) return false;
  const bool even = p.filter(0) == 3 && g.pad[0] == 1 && g.pad[1] == 1 && p.in(1) % 2 == 0;
  return channels_innermost(p) || (even && p.x.is_channels_first() && p.y.is_channels_first());
}

int DepthwiseTiles::variants(const Problem& p) { return narrow(static_cast<std::int64_t>(tiles_of(p).size())); }

bool DepthwiseTiles::fits(const Problem& p, int variant) {
  const Tile t = tile_of(p, variant);
  const auto size = static_cast<std::int64_t>(size_of(p.x.type)), filter = p.filter(0);
  const std::int64_t rows = t.is_rows_kernel() ? t.stages : t.tile_h, more = t.is_rows_kernel() ? 0 : filter - 1;
  const std::int64_t window = (rows + more) * (t.tile_w + filter - 1) * t.channels * size;
  const std::int64_t beside = is_weights(p) ? rows * t.tile_w * t.channels * size + threads_of(t, true, filter) * 16
                                            : filter * filter * t.channels * 4;
  return window + beside <= kLocalBytes;
}

int DepthwiseTiles::best(const DeviceInfo& d, const Problem& p) {
  int best = -1;
  for (int i = 0; i < variants(p); ++i)
    if (fits(p, i) && (best < 0 || waste(d, p, tile_of(p, i)) < waste(d, p, tile_of(p, best)))) best = i;
  return best;
}

DepthwiseTiles::DepthwiseTiles(const DeviceInfo& d, const Problem& p, int variant)
    : shape_(depthwise_shape(p)),
      tile_(tile_of(p, variant)),
      direction_(p.direction),
      type_(p.x.type),
      epilogue_(p.epilogue),
      filter_(narrow(p.filter(0))),
      threads_(threads_of(tile_, weights(), filter_)),
      chunks_(tile_.is_lines_kernel() ? p.c() : ceil_div(p.c(), tile_.channels)),
      weight_count_(p.w.count()) {
  auto& s = shape_;
  s.band = narrow(rows_of(p, tile_));
  tiles_ = narrow(p.n() * ceil_div(s.dst_h, s.band) * ceil_div(s.dst_w, tile_.tile_w));
  const std::int64_t pieces = tile_.is_lines_kernel() ? ceil_div(tiles_, kLineThreads) : tiles_;  // blocks of work
  const std::int64_t most = std::clamp<std::int64_t>(std::int64_t{d.units} * resident(p, tile_) / chunks_, 1, pieces);
  parts_ = narrow(ceil_div(pieces, ceil_div(pieces, most)));  // the same number of pieces per block
}

std::size_t DepthwiseTiles::workspace() const { return weights() ? sum_bytes(parts_ * weight_count_) : 0; }

std::vector<KernelSpec> DepthwiseTiles::kernels() const {
  const Tile& t = tile_;
  const std::string family = fmt::format("depthwise_{}", t.is_lines_kernel()  ? "lines"
                                                         : t.is_rows_kernel() ? "rows"
                                                                              : "tiles");
  const std::string name = family + (weights() ? "_weights" : "");
  const std::string source = fmt::format("primitives/convolution/gpu/{}.cl", t.is_lines_kernel() ? family : name);
  std::vector<std::string> options = {fmt::format("-DIN={}", name_of(type_)), fmt::format("-DOUT={}", name_of(type_)),
                                      fmt::format("-DCOLS={}", t.cols)};
  const auto add = [&](const char* flag, int value) { options.push_back(fmt::format("-D{}={}", flag, value)); };
  if (!weights() || t.is_lines_kernel()) add("DIRECTION", static_cast<int>(direction_));
  if (!t.is_lines_kernel()) {
    add("CHANNELS", t.channels);
    add("TILE_W", t.tile_w);
  }
  if (t.is_rows_kernel()) add("STAGES", t.stages);
  if (!t.is_rows_kernel()) add("ROWS", t.rows);
  if (!t.is_rows_kernel() && !t.is_lines_kernel()) {
    add("FILTER", filter_);
    add("TILE_H", t.tile_h);
  }
  if (!t.is_rows_kernel() && !t.is_lines_kernel() && weights()) add("TAP_ROWS", t.tap_rows);
  add_fused_options(epilogue_, &options);
  return kernel_variants(source, name, std::move(options), weights());
}

void DepthwiseTiles::run(Stream& stream, const Kernels& built, const Problem::Args& a) const {
  const Variants variants{direction_, weight_count_, parts_, true, epilogue_};
  const bool lines = tile_.is_lines_kernel();
  if (weights()) {
    const Launch shape = lines ? launch_shape(threads_, chunks_, parts_) : launch_shape(threads_, parts_, chunks_);
    return launch_variant(stream, built, variants, shape, a, shape_, tiles_);
  }
  const std::int64_t pieces = tiles_ * chunks_;
  const Launch shape = launch_shape(threads_, lines ? ceil_div(pieces, threads_) : pieces);
  launch_variant(stream, built, variants, shape, a, shape_);
}

}  // namespace polymio::convolution::gpu
