// SPDX-License-Identifier: MIT
#include "primitives/convolution/gpu/product.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/math.h"

namespace polymio::convolution::gpu {
namespace {

constexpr const char* kSource = "primitives/convolution/gpu/implicit_gemm.cl";
constexpr std::int64_t kThreads = 256;  // of pack_weights

bool quads(std::initializer_list<std::int64_t> values) {
  return std::all_of(values.begin(), values.end(), [](std::int64_t v) { return v % 4 == 0; });
}

}  // namespace

// resident: blocks per multiprocessor; efficiency: fraction of the peak, measured on large products.
const Product::Tile Product::kTileTable[kTiles] = {{64, 64, 16, 4, 4, 3, 0.45},
                                                   {128, 64, 16, 8, 4, 2, 0.55},
                                                   {128, 128, 8, 8, 8, 2, 0.60},
                                                   {128, 128, 16, 8, 8, 2, 0.61},
                                                   {256, 128, 8, 8, 16, 1, 0.62}};

Product::Product(const DeviceInfo& d, const Problem& p, int tile)
    : tile_(kTileTable[tile]),
      direction_(p.direction),
      in_(p.first_input().type),
      out_(p.output().type),
      tensor_bytes_(gpu::tensor_bytes(p)) {
  set_shape(p);
  direction_ == Direction::kBackwardWeights ? plan_weights(d, p) : plan_data(d, p);
}

int Product::best_tile(const DeviceInfo& d, const Problem& p) {
  int best = 0;
  for (int i = 1; i < kDefaultTiles; ++i)
    if (Product(d, p, i).predict(d) < Product(d, p, best).predict(d)) best = i;
  return best;
}

void Product::set_shape(const Problem& p) {
  kernels::ProductShape& s = shape_;
  const auto z = sizes_of(p);
  const auto t = steps_of(p);
  const auto e = strides_of(p);
  const bool data = direction_ == Direction::kBackwardData;
  const auto &src = data ? e.y : e.x, &dst = data ? e.x : e.y;
  s.src_image = src[0];
  s.dst_image = dst[0];
  s.src_channel = narrow(src[1]);
  s.src_row = narrow(src[3]);
  s.src_col = narrow(src[4]);
  s.dst_channel = narrow(dst[1]);
  s.dst_row = narrow(dst[3]);
  s.dst_col = narrow(dst[4]);
  const auto &from = data ? z.out : z.in, &to = data ? z.in : z.out;
  s.src_h = narrow(from[1]);
  s.src_w = narrow(from[2]);
  s.dst_h = narrow(to[1]);
  s.dst_w = narrow(to[2]);
  s.images = narrow(z.n);
  s.filter_h = narrow(z.filter[1]);
  s.filter_w = narrow(z.filter[2]);
  s.pad_h = narrow(t.pad[1]);
  s.pad_w = narrow(t.pad[2]);
  set_steps(s, t);
  s.tap_step_h = s.stride_h / std::gcd(s.stride_h, s.dilation_h);
  s.tap_step_w = s.stride_w / std::gcd(s.stride_w, s.dilation_w);
  const std::int64_t c = z.c / z.groups, k = z.k / z.groups;
  s.reduced = narrow(data ? k : c);
  s.outputs = narrow(data ? c : k);
  s.splits = 1;
  groups_ = z.groups;
  taps_ = z.filter[1] * z.filter[2];
  weight_group_ = k * e.w[0];
  weight_reduced_ = e.w[data ? 0 : 1];
  weight_output_ = e.w[data ? 1 : 0];
  weight_row_ = e.w[3];
  weight_col_ = e.w[4];
}

/// Splits of K that minimise the steps of the last wave; a split has at least kMinSteps steps.
int Product::splits_for(const DeviceInfo& d) const {
  constexpr std::int64_t kMinSteps = 8, kMaxSplits = 256, kMaxWaves = 3;
  const std::int64_t slots = std::int64_t{d.units} * tile_.resident;
  const std::int64_t most = std::min(steps_ / kMinSteps, kMaxSplits);
  std::int64_t best = 1, least = ceil_div(blocks_, slots) * steps_;
  for (std::int64_t waves = 1; waves <= kMaxWaves; ++waves) {
    const std::int64_t splits = std::min(waves * slots / std::max<std::int64_t>(1, blocks_), most);
    if (splits <= 1) continue;
    const std::int64_t steps = ceil_div(blocks_ * splits, slots) * ceil_div(steps_, splits);
    if (steps < least * 9 / 10) {
      best = splits;
      least = steps;
    }
  }
  return narrow(best);
}

void Product::plan_weights(const DeviceInfo& d, const Problem& p) {
  kernels::ProductShape& s = shape_;
  const std::int64_t columns = taps_ * s.reduced;
  fast_n_ = true;
  fast_channel_ = p.w.is_channels_last();
  quads_ = fast_channel_ && s.src_channel == 1 && s.dst_channel == 1 &&
           quads({s.reduced, s.outputs, s.src_row, s.src_col, s.src_image, s.dst_row, s.dst_col, s.dst_image});
  if (!quads_ && p.w.is_channels_first()) fast_channel_ = false;  // both layouts coincide: build one program
  s.store_quads = columns % 4 == 0;
  blocks_ = ceil_div(columns, tile_.n) * ceil_div(s.outputs, tile_.m) * groups_;
  result_ = p.w.count();
  steps_ = ceil_div(std::int64_t{s.images} * s.dst_h * s.dst_w, tile_.k);
  s.splits = splits_for(d);
}

void Product::plan_data(const DeviceInfo& d, const Problem& p) {
  constexpr int kFewChannels = 8;
  kernels::ProductShape& s = shape_;
  const bool backward = direction_ == Direction::kBackwardData;
  const std::int64_t phases = backward ? std::int64_t{s.stride_h} * s.stride_w : 1;
  fast_n_ = s.dst_channel == 1;
  flat_ = !backward && s.reduced <= kFewChannels;
  quads_ = !flat_ && s.src_channel == 1 && quads({s.reduced, s.src_row, s.src_col, s.src_image});
  s.outputs_padded = narrow(round_up(s.outputs, tile_.n));
  s.reduced_padded = narrow(round_up(flat_ ? s.reduced * taps_ : s.reduced, tile_.k));
  rows_ = s.reduced_padded * (flat_ ? 1 : taps_);
  packed_ = groups_ * rows_ * s.outputs_padded;
  const bool plane =
      s.dst_col == 1 && (s.dst_h == 1 || s.dst_row == s.dst_w) && std::int64_t{s.dst_h} * s.dst_w % 4 == 0;
  s.store_quads = fast_n_ ? quads({s.outputs, s.dst_row, s.dst_col, s.dst_image})
                          : phases == 1 && plane && quads({s.dst_channel, s.dst_image});
  const std::int64_t rows = backward ? ceil_div(s.dst_h, s.stride_h) : s.dst_h;
  const std::int64_t cols = backward ? ceil_div(s.dst_w, s.stride_w) : s.dst_w;
  blocks_ = ceil_div(s.images * rows * cols, tile_.m) * phases * (s.outputs_padded / tile_.n) * groups_;
  steps_ = ceil_div(rows_ / tile_.k, std::min(phases, taps_));
  result_ = p.output().count();
  if (p.output().packed()) s.splits = splits_for(d);
}

Verdict Product::check() const {
  constexpr std::int64_t kMax = std::int64_t{1} << 30;
  POLYMIO_REQUIRE_MOST(blocks_ / groups_, kMax, "blocks");
  POLYMIO_REQUIRE_MOST(packed_, kMax, "elements of packed weights");
  return {};
}

std::size_t Product::workspace() const { return sum_bytes(sums()); }

double Product::predict(const DeviceInfo& d) const {
  constexpr double kLaunchUs = 3;
  const auto real = [](std::int64_t v) { return static_cast<double>(v); };
  const std::int64_t slots = std::int64_t{d.units} * tile_.resident;
  const double waves = real(ceil_div(blocks_ * shape_.splits, slots)) * tile_.resident;
  const double block = 2.0 * tile_.m * tile_.n * tile_.k * real(ceil_div(steps_, shape_.splits) + 1);
  const double compute = waves * block * d.units / (1e3 * d.fp32_gflops * tile_.efficiency);
  const double bytes = 4.0 * real(2 * sums() + (shape_.splits > 1 ? result_ : 0));
  const int launches = 1 + (weights() ? 0 : 1) + (shape_.splits > 1 ? 1 : 0);
  return launches * kLaunchUs + std::max(compute, tensor_bytes_ / (1e3 * d.bandwidth_gbs)) +
         bytes / (1e3 * d.bandwidth_gbs);
}

std::vector<KernelSpec> Product::kernels() const {
  const std::pair<const char*, int> flags[] = {{"DIRECTION", static_cast<int>(direction_)},
                                               {"FAST_N", fast_n_},
                                               {"QUADS", quads_},
                                               {"FLAT", flat_},
                                               {"FAST_CHANNEL", fast_channel_},
                                               {"TILE_M", tile_.m},
                                               {"TILE_N", tile_.n},
                                               {"TILE_K", tile_.k},
                                               {"THREAD_M", tile_.thread_m},
                                               {"THREAD_N", tile_.thread_n},
                                               {"RESIDENT", tile_.resident}};
  std::vector<std::string> options = {fmt::format("-DIN={}", name_of(in_)), fmt::format("-DOUT={}", name_of(out_))};
  for (const auto& [name, value] : flags) options.push_back(fmt::format("-D{}={}", name, value));
  std::vector<KernelSpec> specs;
  for (int variant = 0; variant < (quads_ ? 2 : 1); ++variant) {
    if (variant == 1) options.emplace_back("-DUNALIGNED");
    specs.push_back({kSource, weights() ? "implicit_gemm_weights" : "implicit_gemm", options});
    specs.push_back({kSource, "add_partials", options});
    if (!weights()) specs.push_back({kSource, "pack_weights", options});
  }
  return specs;
}

void Product::pack(Stream& stream, const Kernel& kernel, const Call& c) const {
  const kernels::ProductShape& s = shape_;
  launch(stream, kernel, launch_shape(kThreads, ceil_div(packed_, kThreads)), c.tensors.second, c.workspace,
         narrow(groups_), narrow(taps_), s.filter_w, s.reduced, s.outputs, narrow(rows_), s.outputs_padded,
         weight_group_, weight_reduced_, weight_output_, weight_row_, weight_col_, c.second_at);
}

void Product::run(Stream& stream, const Kernels& built, std::size_t first, const Call& c) const {
  const std::size_t at = first + (quads_ && !c.aligned ? kernels_per_variant() : 0);
  kernels::ProductShape s = shape_;
  if (!c.aligned && !quads_) s.store_quads = 0;
  const Launch shape = launch_shape(tile_.threads(), blocks_ / groups_, groups_, s.splits);
  const auto& [src, second, output] = c.tensors;
  if (weights()) {
    launch(stream, *built[at], shape, src, second, output, c.workspace, s, divider(std::int64_t{s.dst_h} * s.dst_w),
           divider(s.dst_w), c.first_at, c.second_at, c.output_at, c.alpha, c.beta);
  } else {
    pack(stream, *built[at + 2], c);
    launch(stream, *built[at], shape, src, c.workspace, output, c.workspace, s, divider(s.reduced), divider(s.filter_w),
           packed_, result_, c.first_at, c.output_at, c.alpha, c.beta);
  }
  if (s.splits == 1) return;
  add_partials(stream, *built[at + 1], {c.workspace, output, result_, s.splits, packed_, c.output_at}, c.alpha, c.beta);
}

}  // namespace polymio::convolution::gpu
