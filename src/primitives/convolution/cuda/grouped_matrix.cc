// SPDX-License-Identifier: MIT
#include "primitives/convolution/cuda/grouped_matrix.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/math.h"
#include "primitives/convolution/cuda/matrix_units.h"

namespace polymio::convolution::cuda {
namespace {

// Rows per tile: NHWC, NCHW.
constexpr int kTileH = 4, kPlaneTileH = 14;
constexpr int kBand = 28;        // backward weights: most rows per column tile
constexpr int kStages = 4;       // rows of the rings, NHWC
constexpr int kPlaneStages = 2;  // NCHW: one more row is in registers
constexpr int kResident = 4;     // blocks of four warps per multiprocessor

using gpu::narrow;

}  // namespace

bool GroupedMatrix::serve(const DeviceInfo& d, const Problem& p) {
  const auto& g = p.geometry;
  const bool plain = g.stride[0] == 1 && g.stride[1] == 1 && g.dilation[0] == 1 && g.dilation[1] == 1;
  const bool last = p.x.is_channels_last() && p.y.is_channels_last();
  const bool even = p.x.is_channels_first() && p.y.is_channels_first() && p.in(1) % 2 == 0 && p.out(1) % 2 == 0;
  return has_matrix_units(d) && size_of(p.x.type) == 2 && plain && p.filter(0) == 3 && (last || even) &&
         p.c() / p.groups() % 8 == 0 && p.k() == p.c();
}

GroupedMatrix::GroupedMatrix(const DeviceInfo& d, const Problem& p)
    : direction_(p.direction),
      type_(p.x.type),
      planes_(!p.x.is_channels_last()),
      filter_(narrow(p.filter(0))),
      weight_count_(p.w.count()) {
  const bool data = direction_ == Direction::kBackwardData, weights = direction_ == Direction::kBackwardWeights;
  const auto& pad = p.geometry.pad;
  auto& s = shape_;
  s.images = narrow(p.n());
  s.groups = narrow(p.groups());
  s.reduced = s.outputs = narrow(p.c() / p.groups());
  s.src_h = narrow(data ? p.out(0) : p.in(0));
  s.src_w = narrow(data ? p.out(1) : p.in(1));
  s.dst_h = narrow(data ? p.in(0) : p.out(0));
  s.dst_w = narrow(data ? p.in(1) : p.out(1));
  // Backward data is a forward convolution with the flipped filter.
  s.pad_h = narrow(data ? filter_ - 1 - pad[0] : pad[0]);
  s.pad_w = narrow(data ? filter_ - 1 - pad[1] : pad[1]);
  const int blocks = s.reduced / 8;
  // Channels and warps per block, measured on an H200.
  constexpr int kChannels = 64, kWeightChannels = 32, kPlaneChannels = 16, kWarps = 8, kPlaneWarps = 4;
  groups_ = std::max(1, (planes_ ? kPlaneChannels : weights ? kWeightChannels : kChannels) / s.reduced);
  const int units =
      groups_ * blocks;  // 8 output channels each; warps_ is a multiple of it, so no two warps write the same outputs
  warps_ = weights ? units * blocks : (planes_ ? kPlaneWarps : kWarps) / units * units;
  tile_w_ = ceil_div(s.dst_w, 14) * 14 < ceil_div(s.dst_w, 28) * 28 ? 14 : 28;
  const int tile_h = planes_ ? kPlaneTileH : kTileH;
  s.band = weights ? narrow(ceil_div(s.dst_h, ceil_div(s.dst_h, kBand))) : tile_h;
  tiles_ = narrow(s.images * ceil_div(s.dst_h, s.band) * ceil_div(s.dst_w, tile_w_));
  const std::int64_t resident = std::max(1, kResident * 4 / warps_) * d.units / ceil_div(s.groups, groups_);
  parts_ = narrow(ceil_div(
      tiles_, ceil_div(tiles_, std::clamp<std::int64_t>(resident, 1, tiles_))));  // the same number of tiles per block
}

std::size_t GroupedMatrix::workspace() const {
  return direction_ == Direction::kBackwardWeights ? gpu::sum_bytes(parts_ * weight_count_) : 0;
}

std::vector<KernelSpec> GroupedMatrix::kernels() const {
  const bool weights = direction_ == Direction::kBackwardWeights;
  const std::string name = weights ? "grouped_matrix_weights" : "grouped_matrix";
  const std::string source = fmt::format("primitives/convolution/cuda/{}.cl", name);
  std::vector<std::string> options = {fmt::format("-DIN={}", name_of(type_)), fmt::format("-DOUT={}", name_of(type_))};
  const auto add = [&](const char* flag, int value) { options.push_back(fmt::format("-D{}={}", flag, value)); };
  add("REDUCED", shape_.reduced);
  add("OUTPUTS", shape_.outputs);
  add("GROUPS", groups_);
  add("TILE_W", tile_w_);
  if (planes_) options.emplace_back("-DPLANES");
  if (weights)
    add("STAGES", planes_ ? kPlaneStages : kStages);
  else {
    add("DIRECTION", static_cast<int>(direction_));
    add("FILTER", filter_);
    add("TILE_H", shape_.band);
    add("WARPS", warps_);
  }
  return gpu::kernel_variants(source, name, std::move(options), weights);
}

void GroupedMatrix::run(Stream& stream, const Kernels& built, const Problem::Args& a) const {
  const std::int64_t threads = std::int64_t{warps_} * 32, chunks = ceil_div(shape_.groups, groups_);
  const gpu::Variants variants{direction_, weight_count_, parts_};
  if (direction_ == Direction::kBackwardWeights)
    return gpu::launch_variant(stream, built, variants, launch_shape(threads, parts_, chunks), a, shape_, tiles_);
  gpu::launch_variant(stream, built, variants, launch_shape(threads, tiles_ * chunks), a, shape_);
}

}  // namespace polymio::convolution::cuda
