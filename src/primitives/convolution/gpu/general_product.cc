// SPDX-License-Identifier: MIT
#include "primitives/convolution/gpu/general_product.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/math.h"

namespace polymio::convolution::gpu {
namespace {

constexpr const char* kSource = "primitives/convolution/gpu/implicit_gemm_general.cl";
constexpr std::int64_t kMaxBlocks = 1 << 30;  // along one dimension

double real(std::int64_t v) { return static_cast<double>(v); }

/// Whether every coordinate that the kernel computes is below 2^29.
bool small_positions(const kernels::ConvSizes& z, const kernels::ConvSteps& t) {
  constexpr double kMost = 1 << 29;
  for (int i = 0; i < 3; ++i)
    if (real(z.in[i]) + real(z.out[i] + 1) * real(t.stride[i]) + real(t.pad[i]) +
            real(z.filter[i]) * real(t.dilation[i]) >=
        kMost)
      return false;
  return true;
}

DataType arithmetic_of(const Problem& p) {
  if (p.first_input().type == DataType::kInt8) return DataType::kInt8;
  const bool fp64 = p.x.type == DataType::kDouble || p.w.type == DataType::kDouble || p.y.type == DataType::kDouble;
  return fp64 ? DataType::kDouble : DataType::kFloat;
}

}  // namespace

// One for many outputs, two for few, one for few rows (few pixels, or weights of few taps and channels).
const GeneralProduct::Tile GeneralProduct::kTileTable[kTiles] = {
    {64, 64, 16, 1}, {128, 16, 8, 1}, {256, 4, 8, 1}, {16, 16, 64, 16}};

GeneralProduct::GeneralProduct(const DeviceInfo& d, const Problem& p, int choice)
    : tile_(kTileTable[choice % kTiles]),
      direction_(p.direction),
      arithmetic_(arithmetic_of(p)),
      double_scalars_(arithmetic_ == DataType::kDouble || arithmetic_ == DataType::kInt8),
      tensor_bytes_(gpu::tensor_bytes(p)),
      sizes_(sizes_of(p)),
      steps_(steps_of(p)),
      strides_(strides_of(p)) {
  set_tiles();
  if (arithmetic_ == DataType::kDouble || wide_sums_) sum_size_ = 8;
  if (choice < kTiles) split(d);
}

int GeneralProduct::best_choice(const DeviceInfo& d, const Problem& p) {
  int best = 0;
  double least = 0;
  for (int i = 0; i < kTiles; ++i) {
    const double us = GeneralProduct(d, p, i).predict(d);
    if (i > 0 && us >= least) continue;
    best = i;
    least = us;
  }
  return best;
}

void GeneralProduct::set_tiles() {
  const auto& z = sizes_;
  const auto& t = steps_;
  const bool data = direction_ == Direction::kBackwardData, weights = direction_ == Direction::kBackwardWeights;
  const std::int64_t c = z.c / z.groups, k = z.k / z.groups, outputs = data ? c : k;
  const std::int64_t taps = z.filter[0] * z.filter[1] * z.filter[2];
  std::int64_t rows = weights ? c * taps : z.n, phases = 1;
  for (int i = 0; i < 3; ++i) {
    const std::int64_t common = std::gcd(t.stride[i], t.dilation[i]);
    shape_.tap_step[i] = t.stride[i] / common;
    shape_.tap_delta[i] = t.dilation[i] / common;
    if (data) phases *= std::min(t.stride[i], z.in[i]);
    if (!weights) rows *= data ? ceil_div(z.in[i], t.stride[i]) : z.out[i];
  }
  shape_.tiles_p = ceil_div(rows, tile_.p);
  shape_.tiles_q = ceil_div(outputs, tile_.q);
  shape_.tiles = shape_.tiles_p * shape_.tiles_q * phases * z.groups;
  shape_.splits = 1;
  const auto& source = data ? strides_.y : strides_.x;
  const auto& plain = weights ? strides_.y : strides_.w;
  const auto innermost = [](const kernels::i64* e) {
    std::int64_t least = INT64_MAX;
    for (int i = 2; i < 5; ++i)
      if (e[i] > 0) least = std::min<std::int64_t>(least, e[i]);
    return least;
  };
  const bool channels_innermost = source[1] > 0 && source[1] < innermost(source);
  shape_.channels_fast = channels_innermost;
  const std::int64_t plain_q = plain[data ? 1 : 0], weight_step = plain[weights ? 1 : 0];
  shape_.plain_fast = weights ? plain[1] > 0 && plain[1] < innermost(plain)
                              : plain_q > 0 && plain_q < std::min<std::int64_t>(innermost(plain), weight_step);
  // Rows are pixels, or taps and channels of backward weights. The narrow tile keeps few rows per thread only so.
  neighbours_in_p_ = channels_innermost == weights || tile_.q == 4;
  wide_positions_ = !small_positions(z, t);
  const double deepest =
      weights ? real(z.n) * real(z.out[0]) * real(z.out[1]) * real(z.out[2]) : real(data ? k : c) * real(taps);
  depth_ = weights ? real(z.n) * pixels_read() : real(data ? k : c) * mean_taps();
  constexpr double kMostOfInt = 131071;  // products of -128 and -128 whose sum is below 2^31
  wide_sums_ = arithmetic_ == DataType::kInt8 && deepest > kMostOfInt;
}

/// Taps per row of a tile: the mean over the phases of backward data, without taps that only read the padding.
double GeneralProduct::mean_taps() const {
  const bool data = direction_ == Direction::kBackwardData;
  double taps = 1, rows = tile_.p;
  for (int i = 2; i >= 0; --i) {
    const double stride = real(steps_.stride[i]), phases = data ? std::min(stride, real(sizes_.in[i])) : 1;
    const double count = data ? std::ceil(real(sizes_.in[i]) / stride) : real(sizes_.out[i]);
    const double covered = std::min(count, std::ceil(rows));  // of this axis, by the rows of a tile
    const double reached = data ? (real(sizes_.out[i]) + covered) / real(shape_.tap_delta[i])
                                : (real(sizes_.in[i]) + covered * stride) / real(steps_.dilation[i]);
    taps *= std::min(real(sizes_.filter[i]) / phases, reached + 1);
    rows = rows <= count ? 1 : rows / count + 1;
  }
  return taps;
}

/// Pixels of an image of y of which a tap reads from x.
double GeneralProduct::pixels_read() const {
  double pixels = 1;
  for (int i = 0; i < 3; ++i) {
    const std::int64_t stride = steps_.stride[i], pad = steps_.pad[i],
                       before = pad - (sizes_.filter[i] - 1) * steps_.dilation[i];
    const std::int64_t begin = before > 0 ? ceil_div(before, stride) : 0;
    const std::int64_t end = std::min<std::int64_t>(sizes_.out[i], (sizes_.in[i] - 1 + pad) / stride + 1);
    pixels *= real(std::max<std::int64_t>(end - begin, 0));
  }
  return pixels;
}

/// Splits k into the number of parts with the least predicted time.
void GeneralProduct::split(const DeviceInfo& d) {
  constexpr std::int64_t kMinSteps = 8, kMaxSplits = 256;
  constexpr double kMaxBytes = 64 << 20;
  const auto most = static_cast<std::int64_t>(std::min(depth_ / real(tile_.k * kMinSteps), real(kMaxSplits)));
  std::int64_t best = 1;
  for (std::int64_t splits = 2; splits <= most; splits *= 2)
    if (partial_bytes(splits) <= kMaxBytes && time_of(d, splits) < time_of(d, best)) best = splits;
  shape_.splits = narrow(best);
}

double GeneralProduct::partial_bytes(std::int64_t splits) const {
  return splits == 1 ? 0 : real(shape_.tiles) * real(splits * tile_.p * tile_.q) * real(sum_size_);
}

std::size_t GeneralProduct::workspace() const { return static_cast<std::size_t>(partial_bytes(shape_.splits)); }

double GeneralProduct::predict(const DeviceInfo& d) const { return time_of(d, shape_.splits); }

/// From counts of instructions and bytes; nothing of it was measured.
double GeneralProduct::time_of(const DeviceInfo& d, std::int64_t splits) const {
  constexpr double kLaunchUs = 3, kEfficiency = 0.5, kMemory = 0.5;
  constexpr double kStepUs = 0.8;  // at least, for a load from memory and two barriers
  constexpr double kRow = 250;     // instructions for the position of a row
  const double load = wide_positions_ ? 24 : 14, multiply = arithmetic_ == DataType::kDouble ? 2.3 : 1.15;
  const double step = tile_.k * (tile_.p * tile_.q * multiply + tile_.p * load + tile_.q * 8);
  const double steps = std::ceil(depth_ / tile_.k / real(splits)), blocks = real(shape_.tiles * splits);
  const double instructions = blocks * (steps * step + tile_.p * kRow);
  const double throughput = instructions * 2 / (1e3 * d.fp32_gflops * kEfficiency);
  const double slots = d.units * static_cast<double>(std::max<std::int64_t>(1, 384 / tile_.threads()));
  const double latency = std::ceil(blocks / slots) * (steps + 1) * kStepUs;
  const double memory = (tensor_bytes_ + 2 * partial_bytes(splits)) / (1e3 * d.bandwidth_gbs * kMemory);
  return (splits > 1 ? 2 : 1) * kLaunchUs + std::max({throughput, latency, memory});
}

std::vector<KernelSpec> GeneralProduct::kernels(const DeviceInfo& d, const Problem& p) const {
  std::vector<std::string> options = type_options(d, p);
  const bool fp64 = arithmetic_ == DataType::kDouble, int8 = arithmetic_ == DataType::kInt8;
  const std::pair<const char*, const char*> types[] = {{"SUM", wide_sums_ ? "i64"
                                                               : int8     ? "int"
                                                               : fp64     ? "double"
                                                                          : "float"},
                                                       {"OPERAND", int8   ? "int"
                                                                   : fp64 ? "double"
                                                                          : "float"},
                                                       {"SCALAR", double_scalars_ ? "double" : "float"},
                                                       {"POSITION", wide_positions_ ? "i64" : "int"}};
  for (const auto& [name, value] : types) options.push_back(fmt::format("-D{}={}", name, value));
  const std::pair<const char*, int> numbers[] = {{"DIRECTION", static_cast<int>(direction_)},
                                                 {"TILE_P", tile_.p},
                                                 {"TILE_Q", tile_.q},
                                                 {"TILE_K", tile_.k},
                                                 {"SLICES", tile_.slices},
                                                 {"P_FAST", neighbours_in_p_}};
  for (const auto& [name, value] : numbers) options.push_back(fmt::format("-D{}={}", name, value));
  std::vector<KernelSpec> specs = {{kSource, "general_gemm", options}};
  if (shape_.splits > 1) specs.push_back({kSource, "sum_splits", options});
  return specs;
}

void GeneralProduct::run(Stream& stream, const Kernels& built, const Operands& o, const Problem::Args& args) const {
  const std::int64_t across = std::min(shape_.tiles, kMaxBlocks), layers = ceil_div(shape_.tiles, kMaxBlocks);
  const Launch shape = launch_shape(tile_.threads(), across, shape_.splits, layers);
  const Buffer workspace = args.workspace;
  const auto with = [&](auto a, auto b) {
    launch(stream, *built[0], shape, o.first, o.second, o.output, workspace, sizes_, steps_, strides_, shape_, a, b,
           args.seed);
    if (shape_.splits == 1) return;
    const Launch sums = launch_shape(tile_.threads(), across, 1, layers);
    launch(stream, *built[1], sums, workspace, o.output, sizes_, steps_, strides_, shape_, a, b, args.seed);
  };
  if (double_scalars_) return with(args.alpha, args.beta);
  with(static_cast<float>(args.alpha), static_cast<float>(args.beta));
}

}  // namespace polymio::convolution::gpu
