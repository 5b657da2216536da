// SPDX-License-Identifier: MIT
#include "primitives/convolution/cuda/hopper_plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <numeric>

#include "base/math.h"
#include "primitives/activation/activation.h"
#include "primitives/convolution/cuda/matrix_units.h"
#include "primitives/convolution/gpu/arguments.h"

namespace polymio::convolution::cuda {
namespace {

using gpu::narrow;
constexpr std::int64_t kMaxIndex = std::int64_t{1} << 30;
constexpr std::int64_t kMaxSumBytes = 64 << 20;  // of partial gradients of the weights

constexpr int kHaloTile = std::size(kProductTiles);  // the number of tiles with halo in points
constexpr int kWeightHaloTile = std::size(kWeightTiles);
constexpr int kSplits[] = {1, 2, 4, 8};
constexpr std::int64_t kSharedBytes = 227 << 10;  // that a block may have

enum Knobs { kTile, kSplit, kOrder };  // weights: tile, 1: every block has a part of a tile, 0: whole tiles and shares

/// The last spatial dimension first, as in tensor maps.
struct Axis {
  std::int64_t in, out, filter, pad, stride, dilation, x_step, y_step;
};

Axis axis(const Problem& p, int i) {
  const int s = p.spatial() - 1 - i;
  const auto at = static_cast<std::size_t>(s);
  return {p.in(s),
          p.out(s),
          p.filter(s),
          p.geometry.pad[at],
          p.geometry.stride[at],
          p.geometry.dilation[at],
          meaningful_strides(p.x)[at + 2],
          meaningful_strides(p.y)[at + 2]};
}

/// One dimension of a phase, and the corners of its map.
struct PhaseAxis {
  std::int64_t size, taps, step, base, offset, offset_step, tap, tap_step, lower, upper, first;
};

PhaseAxis forward_axis(const Axis& a) {
  const std::int64_t lower = -a.pad;
  return {.size = a.out,
          .taps = a.filter,
          .step = a.stride,
          .base = lower,
          .offset = 0,
          .offset_step = a.dilation,
          .tap = 0,
          .tap_step = 1,
          .lower = lower,
          .upper = lower + (a.out - 1) * a.stride + 1 - a.in,
          .first = 0};
}

/// Backward data at the positions `first` + i * stride: a convolution of dy with stride 1 by every so many-th tap.
PhaseAxis data_axis(const Axis& a, std::int64_t first) {
  const std::int64_t common = std::gcd(a.dilation, a.stride), delta = a.dilation / common;
  PhaseAxis phase{};
  phase.first = first;
  phase.size = ceil_div(a.in - first, a.stride);
  phase.step = 1;
  phase.tap_step = a.stride / common;
  phase.offset_step = -delta;
  const std::int64_t taps = std::min(a.filter, phase.tap_step);  // the first of them is among these, if there is one
  while (phase.tap < taps && (first + a.pad - phase.tap * a.dilation) % a.stride != 0) ++phase.tap;
  if (phase.tap < taps) {
    phase.taps = ceil_div(a.filter - phase.tap, phase.tap_step);
    phase.offset = (phase.taps - 1) * delta;
    phase.lower = phase.base = (first + a.pad - phase.tap * a.dilation) / a.stride - phase.offset;
  } else {
    phase.tap = 0;
  }
  phase.upper = phase.lower + phase.size - a.out;
  return phase;
}

using PhaseAxes = std::array<PhaseAxis, 3>;

/// Phases of a dimension that have output pixels.
std::int64_t phase_count(Direction d, const Axis& a) {
  return d == Direction::kBackwardData ? std::min(a.stride, a.in) : 1;
}

/// Those with output pixels, most taps first.
std::vector<PhaseAxes> phases_of(const Problem& p) {
  std::vector<PhaseAxes> all(1);
  for (PhaseAxis& a : all[0]) a.size = a.taps = a.step = 1;
  for (int i = 0; i < p.spatial(); ++i) {
    const Axis a = axis(p, i);
    std::vector<PhaseAxes> product;
    for (std::int64_t first = 0; first < phase_count(p.direction, a); ++first) {
      const PhaseAxis own = p.direction == Direction::kBackwardData ? data_axis(a, first) : forward_axis(a);
      for (PhaseAxes phase : all) {
        phase[static_cast<std::size_t>(i)] = own;
        product.push_back(phase);
      }
    }
    all = std::move(product);
  }
  const auto taps = [](const PhaseAxes& phase) { return phase[0].taps * phase[1].taps * phase[2].taps; };
  std::stable_sort(all.begin(), all.end(), [&](const auto& a, const auto& b) { return taps(a) > taps(b); });
  return all;
}

/// The limits of im2col maps.
Verdict check_axis(const PhaseAxis& a, int spatial) {
  const std::int64_t corner = spatial == 1 ? 1 << 15 : spatial == 2 ? 128 : 16;
  const std::int64_t offsets = spatial == 1 ? 65535 : spatial == 2 ? 255 : 31;
  POLYMIO_REQUIRE_MOST(std::max({-a.lower, -a.upper, a.lower + 1, a.upper + 1}), corner, "reach of the padded filter");
  POLYMIO_REQUIRE_MOST(std::abs(a.offset_step) * std::max<std::int64_t>(0, a.taps - 1), offsets, "reach of the filter");
  constexpr std::int64_t kMaxStep = 8;
  POLYMIO_REQUIRE_MOST(a.step, kMaxStep, "stride");
  return {};
}

std::span<const HopperTile> tiles_of(Direction d) {
  return d == Direction::kBackwardWeights ? std::span(kWeightTiles) : std::span<const HopperTile>(kProductTiles);
}

int size_in_bytes(DataType t) { return static_cast<int>(size_of(t)); }

/// Operands of fp32 are rounded to TF32 when they are loaded, results and what is added to them are not: those of 32
/// bits are moved as they are.
TensorMapSpec::Element element_of(DataType t, bool operand) {
  using enum TensorMapSpec::Element;
  if (size_of(t) == 1) return kBytes;
  return t == DataType::kHalf ? kFloat16 : t == DataType::kBFloat16 ? kBfloat16 : operand ? kTf32 : kFloat32;
}

/// A map of pixels x channels of a tensor in boxes of the channels of a step.
TensorMapSpec pixel_map(const TensorDesc& t, int pixels, bool operand = true) {
  TensorMapSpec map;
  map.element = element_of(t.type, operand);
  map.rank = t.rank;
  map.im2col = true;
  map.box = {hopper_depth(t.type), pixels};
  const auto strides = meaningful_strides(t);
  map.sizes[0] = t.lens[1];
  for (int i = 1; i < t.rank; ++i) {
    const auto from = static_cast<std::size_t>(i == t.rank - 1 ? 0 : t.rank - i), to = static_cast<std::size_t>(i);
    map.sizes[to] = t.lens[from];
    map.strides[to] = strides[from] * static_cast<std::int64_t>(size_of(t.type));
  }
  return map;
}

/// The source of a phase: corners and steps.
TensorMapSpec source_map(const TensorDesc& t, int pixels, const PhaseAxes& phase, int spatial) {
  TensorMapSpec map = pixel_map(t, pixels);
  for (int i = 0; i < spatial; ++i) {
    const auto at = static_cast<std::size_t>(i);
    map.lower[at] = narrow(phase[at].lower);
    map.upper[at] = narrow(phase[at].upper);
    map.steps[at + 1] = narrow(phase[at].step);
  }
  return map;
}

/// Channels of a group.
std::int64_t group_channels(const Problem& p) { return p.c() / p.groups(); }
std::int64_t group_outputs(const Problem& p) { return p.k() / p.groups(); }

/// Channels, taps, output channels, groups; the channels have changed places in a copy.
TensorMapSpec weight_map(const Problem& p, int rows) {
  TensorMapSpec map;
  map.element = element_of(p.w.type, true);
  map.rank = 4;
  std::int64_t inner = group_channels(p), outer = group_outputs(p);
  if (hopper_swaps_weights(p)) std::swap(inner, outer);
  const std::int64_t taps = hopper_taps(p), bytes = size_in_bytes(p.w.type);
  map.sizes = {inner, taps, outer, p.groups()};
  map.strides = {0, inner * bytes, inner * taps * bytes, inner * taps * outer * bytes};
  map.box = {hopper_depth(p.w.type), 1, rows, 1};
  return map;
}

/// Whether the last step of so many channels has half of those of a step, or fewer.
bool ends_with_half(int channels, int depth) { return (channels - 1) % depth < depth / 2; }

/// The maps of such a step, which loads from `src`.
template <class Plan>
void set_half_maps(Plan& plan, const TensorMapSpec& src, const Problem& p) {
  constexpr int kSwizzle = 64;
  const int depth = hopper_depth(p.w.type);
  const bool transposed = hopper_transposes_weights(p);
  plan.half_weights = plan.weights;
  plan.half_weights.box[transposed ? 2 : 0] = depth / 2;
  if (!transposed) plan.half_weights.swizzle = kSwizzle;
  plan.half_src = src;
  plan.half_src.box[0] = depth / 2;
  plan.half_src.swizzle = kSwizzle;
}

}  // namespace

Verdict hopper_runs_on(const DeviceInfo& d) {
  constexpr int kCapability = 90;
  POLYMIO_REQUIRE(d.kind == DeviceKind::kCuda && d.gpu.compute_capability == kCapability, "the device is no sm90");
  return {};
}

Verdict hopper_addresses(const TensorDesc& t) {
  const auto strides = meaningful_strides(t);
  POLYMIO_REQUIRE(strides[1] == 1, "channels are not innermost");
  for (int i = 0; i < t.rank; ++i)
    POLYMIO_REQUIRE(i == 1 || strides[static_cast<std::size_t>(i)] * size_in_bytes(t.type) % 16 == 0,
                    "rows that are not aligned to 16 bytes");
  POLYMIO_REQUIRE_MOST(strides[0], std::int64_t{1} << 38, "elements of an image");
  std::int64_t pixels = 1;
  for (int i = 0; i < t.rank; ++i) pixels *= i == 1 ? 1 : t.lens[static_cast<std::size_t>(i)];
  POLYMIO_REQUIRE_MOST(pixels, kMaxIndex, "pixels");
  return {};
}

bool hopper_writes_planes(const Problem& p) {
  return p.direction != Direction::kBackwardWeights && !hopper_addresses(p.output());
}

namespace {

Verdict check_types(const Problem& p) {
  const DataType t = p.first_input().type, other = p.second_input().type, out = p.output().type;
  const bool weights = p.direction == Direction::kBackwardWeights;
  POLYMIO_REQUIRE(!p.has_casts(), "mixed types");
  if (t == DataType::kInt8) {
    constexpr std::int64_t kMostDepth = 131071;  // products of -128 and -128 whose sum is below 2^31
    POLYMIO_REQUIRE(p.direction == Direction::kForward, "int8 backward");
    POLYMIO_REQUIRE_MOST(p.w.count() / p.k(), kMostDepth, "products of a sum");
  } else if (is_ocp8(t)) {
    POLYMIO_REQUIRE(!weights, "gradients of 8-bit weights");
    POLYMIO_REQUIRE(is_ocp8(other), "mixed types");
  } else if (t == DataType::kHalf || t == DataType::kBFloat16) {
    POLYMIO_REQUIRE(other == t && (out == t || out == DataType::kFloat || !weights), "mixed types");
  } else {
    POLYMIO_REQUIRE(t == DataType::kFloat, "neither int8 nor a float of 16 or 32 bits or of the OCP");
    POLYMIO_REQUIRE(p.all_types(t), "mixed types");
  }
  POLYMIO_REQUIRE(out != DataType::kDouble, "results of fp64");
  POLYMIO_REQUIRE((size_of(t) > 1 && out == t) || p.epilogue.empty(), "does not fuse epilogues of these types");
  return {};
}

constexpr int kLeastColumns = 64;  // of kProductTiles

/// Forward and backward data: whether a tile of so many columns loads and stores channels of one group only.
bool has_whole_groups(const Problem& p, int columns) {
  std::int64_t outputs = group_outputs(p), reduced = group_channels(p);
  if (p.direction == Direction::kBackwardData) std::swap(outputs, reduced);
  return p.groups() == 1 || (outputs % columns == 0 && reduced % hopper_depth(p.w.type) == 0);
}

bool takes_halo(const Problem& p) { return hopper_taps(p) > 1 && hopper_halo(p).columns > 0; }

}  // namespace

Verdict hopper_serves(const Problem& p) {
  if (const Verdict v = check_types(p); !v) return v;
  // A tensor's rows are multiples of 16 bytes, and so are those of weights, of either channels.
  const auto is_whole = [](std::int64_t channels, DataType t) { return channels % (16 / size_in_bytes(t)) == 0; };
  POLYMIO_REQUIRE(
      is_whole(group_channels(p), p.x.type) && is_whole(group_outputs(p), p.y.type) &&
          is_whole(p.direction == Direction::kBackwardData ? group_outputs(p) : group_channels(p), p.w.type),
      "channels that are no multiple of 16 bytes");
  POLYMIO_REQUIRE(p.spatial() <= 3 && p.w.is_channels_last(), "weights whose channels are not innermost");
  const bool planes = hopper_writes_planes(p);
  for (const TensorDesc* t : {&p.x, &p.y}) {
    if (planes && t == &p.output()) continue;
    if (const Verdict v = hopper_addresses(*t); !v) return v;
  }
  POLYMIO_REQUIRE(!planes || (size_of(p.w.type) > 1 && p.all_types(p.w.type)), "planes of other types");
  POLYMIO_REQUIRE(!planes || (p.scalars != Scalars::kBilinear && !p.epilogue.residual), "does not add to planes");
  POLYMIO_REQUIRE_MOST(p.w.count(), kMaxIndex, "elements of w");
  POLYMIO_REQUIRE(!p.epilogue.norm || p.epilogue.scale, "takes a batch norm beside a scale and a bias only");
  POLYMIO_REQUIRE(p.epilogue.activation != static_cast<int>(activation::Mode::kPower), "does not fuse this activation");
  POLYMIO_REQUIRE(!(p.epilogue.residual && p.scalars == Scalars::kBilinear), "does not add two tensors");
  std::int64_t phases = 1;
  for (int i = 0; i < p.spatial(); ++i) {
    phases *= phase_count(p.direction, axis(p, i));
    POLYMIO_REQUIRE_MOST(phases, HopperProduct::kMaxPhases, "phases of the strides");
  }
  for (const PhaseAxes& phase : phases_of(p))
    for (int i = 0; i < p.spatial(); ++i)
      if (const Verdict v = check_axis(phase[static_cast<std::size_t>(i)], p.spatial()); !v) return v;
  POLYMIO_REQUIRE(p.groups() == 1 || p.direction == Direction::kBackwardWeights || has_whole_groups(p, kLeastColumns) ||
                      takes_halo(p),
                  "groups that are no multiple of 64 channels, which need tiles with halo");
  return {};
}

namespace {

HopperTile product_tile(const Problem& p, const TunePoint& point) {
  HopperTile tile = kProductTiles[point[kTile]];
  // The parameters of channels and of the fused scale take the room of a stage.
  if (p.epilogue.bias && p.epilogue.scale && tile.columns == 256) --tile.stages;
  return tile;
}

/// Pixels of a plane that can be stored at once: the tensor begins at a multiple of 16 bytes.
int plane_unit(const TensorDesc& t) {
  const auto strides = meaningful_strides(t);
  std::int64_t pixels = 1;
  for (int i = t.rank - 1; i >= 2; --i) {
    if (strides[static_cast<std::size_t>(i)] != pixels) return 1;
    pixels *= t.lens[static_cast<std::size_t>(i)];
  }
  for (int unit = 16 / size_in_bytes(t.type); unit >= 4; unit /= 2)
    if (pixels % unit == 0 && strides[0] % unit == 0 && strides[1] % unit == 0) return unit;
  return 1;
}

}  // namespace

int hopper_shared_bytes(const Problem& p, const HopperTile& tile, int split, std::size_t result) {
  const int size = static_cast<int>(result);
  const int slabs = split > 1 ? 0 : 4 * 64 * tile.slab_columns(size) * size;
  const int per_channel = (p.epilogue.bias ? 1 : 0) + (p.epilogue.scale ? 1 : 0);
  return tile.stages * tile.stage_rows(hopper_transposes_weights(p)) * 128 + slabs +
         2 * per_channel * tile.columns * 4 + (2 * tile.stages + 2) * 8;
}

HopperProduct hopper_product(const DeviceInfo& d, const Problem& p, const TunePoint& point) {
  const bool data = p.direction == Direction::kBackwardData;
  const TensorDesc &src = data ? p.y : p.x, &dst = data ? p.x : p.y;
  const int spatial = p.spatial(), size = size_in_bytes(dst.type);
  HopperProduct plan;
  plan.tile = product_tile(p, point);
  plan.split = point[kSplit];
  auto& s = plan.shape;
  s.images = narrow(p.n());
  s.reduced = narrow(src.lens[1] / p.groups());
  s.outputs = narrow(dst.lens[1]);
  s.group_tiles = narrow(ceil_div(dst.lens[1] / p.groups(), plan.tile.columns));
  s.column_tiles = s.group_tiles * narrow(p.groups());
  s.taps_innermost = point[kOrder] == 0;
  const auto dst_strides = meaningful_strides(dst);
  s.dst_image = dst_strides[0];
  s.dst_channel = dst_strides[1];
  const bool planes = hopper_writes_planes(p);
  const auto phases = phases_of(p);
  s.unit = planes && phases.size() == 1 ? plane_unit(dst) : 1;
  plan.one_phase = phases.size() == 1;
  s.phases = narrow(static_cast<std::int64_t>(phases.size()));
  plan.weights = weight_map(p, hopper_transposes_weights(p) ? kHopperDepth : plan.tile.columns);
  for (int i = 0; i < spatial; ++i) {
    const Axis a = axis(p, i);
    s.dst_step[i] = data ? a.x_step * a.stride : a.y_step;
  }
  const int slab = plan.tile.slab_columns(size);
  for (const PhaseAxes& phase : phases) {
    kernels::ConvPhase out{};
    std::int64_t tap_pitch = 1, pixels = p.n();
    TensorMapSpec dst_map;
    if (!planes) dst_map = pixel_map(dst, 64, false);
    dst_map.box[0] = slab;
    dst_map.swizzle = slab * size;
    for (int i = 0; i < 3; ++i) {
      const PhaseAxis& a = phase[static_cast<std::size_t>(i)];
      out.size[i] = narrow(a.size);
      out.taps[i] = narrow(a.taps);
      if (i >= spatial) continue;
      out.step[i] = narrow(a.step);
      out.base[i] = narrow(a.base);
      out.offset[i] = narrow(a.offset);
      out.offset_step[i] = narrow(a.offset_step);
      out.tap += narrow(a.tap * tap_pitch);
      out.tap_step[i] = narrow(a.tap_step * tap_pitch);
      tap_pitch *= axis(p, i).filter;
      pixels *= a.size;
      const auto at = static_cast<std::size_t>(i);
      if (data) {
        out.dst += a.first * axis(p, i).x_step;
        dst_map.sizes[at + 1] = a.size;
        dst_map.strides[at + 1] *= axis(p, i).stride;
      }
    }
    out.row_tiles = narrow(ceil_div(pixels, plan.tile.rows()));
    out.first_tile = s.tiles;
    s.tiles += out.row_tiles * s.column_tiles;
    plan.dst_at.push_back(out.dst);
    plan.phases.push_back(out);
    plan.src.push_back(source_map(src, plan.tile.rows(), phase, spatial));
    plan.dst.push_back(dst_map);
  }
  s.halves = plan.one_phase && size_of(p.w.type) == 2 && ends_with_half(s.reduced, kHopperDepth);
  if (s.halves) set_half_maps(plan, plan.src[0], p);
  // Of many tiles, those of all phases that read the same pixels follow each other; of few, the longest are the first.
  constexpr int kManyTiles = 4;  // of a unit
  s.interleaved =
      !plan.one_phase && s.tiles >= kManyTiles * d.units &&
      std::ranges::all_of(plan.phases, [&](const kernels::ConvPhase& phase) {
        return phase.row_tiles == plan.phases[0].row_tiles && phase.taps[0] * phase.taps[1] * phase.taps[2] > 0;
      });
  // Row tiles whose pixels and whose weights have about the same size in the caches share a column tile.
  constexpr int kRaster = 8;
  s.raster = std::min(kRaster, std::max(1, d.units / s.column_tiles));
  return plan;
}

bool hopper_has_halo(const Problem& p, const TunePoint& point) {
  return point[kTile] == (p.direction == Direction::kBackwardWeights ? kWeightHaloTile : kHaloTile);
}

TunePoint hopper_halo_point(Direction d) {
  if (d == Direction::kBackwardWeights) return {kWeightHaloTile, 1};
  return {kHaloTile, 1, 0};
}

namespace {

/// Rows or columns of a halo beyond those of its tile. With a stride the halo has every so many-th pixel.
std::int64_t reach(const PhaseAxis& a) { return a.taps == 0 ? 0 : std::abs(a.offset_step) * ((a.taps - 1) / a.step); }
/// Tiles with halo along a dimension.
std::int64_t halos_along(const PhaseAxis& a) { return std::min(a.step, a.taps); }

/// A tile of an image and its halo; no columns if none fits.
struct Halo {
  std::int64_t width = 0, height = 0, halo_w = 0, columns = 0;
};

/// The tile with the most useful pixels for its time, which is counted in columns of the product.
/// `columns_of(width, height, halo_w)` gives the columns of a tile, 0 if it does not fit, `loads_of(halo_w, columns)`
/// the columns that are multiplied while its operands are loaded.
template <class Columns, class Loads>
Halo best_halo(const PhaseAxis& w, const PhaseAxis& h, const Columns& columns_of, const Loads& loads_of) {
  constexpr std::int64_t kMostBox = 256, kOtherColumns = 8, kLeastWidth = 8;
  const std::int64_t out_w = w.size, out_h = h.size, reach_w = reach(w), reach_h = reach(h);
  Halo best;
  double most = 0;
  for (std::int64_t parts = 1; parts <= out_w; ++parts) {
    const std::int64_t width = ceil_div(out_w, parts), halo_w = width + reach_w;
    if (parts > 1 && width < kLeastWidth) break;
    if (halo_w * w.step > kMostBox) continue;
    for (std::int64_t height = 1; height <= out_h && (height + reach_h) * h.step <= kMostBox; ++height) {
      const std::int64_t columns = columns_of(width, height, halo_w);
      if (columns == 0) break;
      const std::int64_t tiles = ceil_div(out_w, width) * ceil_div(out_h, height);
      const std::int64_t time = std::max(columns, loads_of(halo_w, columns)) + kOtherColumns;
      const double useful = static_cast<double>(out_w * out_h) / static_cast<double>(tiles * time);
      if (useful <= most) continue;
      most = useful;
      best = {width, height, halo_w, columns};
    }
  }
  return best;
}

bool has_unit_strides(const Problem& p) {
  for (int i = 0; i < p.spatial(); ++i)
    if (axis(p, i).stride != 1) return false;
  return true;
}

/// Whether a tap is a shift of a tile with its halo: pixels that a stride joins have no dilation.
bool is_served_by_halos(const Problem& p) {
  if (has_unit_strides(p)) return true;
  if (p.direction != Direction::kForward) return false;
  for (int i = 0; i < std::min(p.spatial(), 2); ++i)
    if (const Axis a = axis(p, i); a.stride != 1 && a.dilation != 1) return false;
  return true;
}

/// Boxes of an image and the channels of a step.
TensorMapSpec box_map(const TensorDesc& t, std::int64_t width, std::int64_t height, bool operand = true) {
  TensorMapSpec map = pixel_map(t, 1, operand);
  map.im2col = false;
  map.box = {hopper_depth(t.type), narrow(width), narrow(height), 1};
  return map;
}

/// The same with all three spatial dimensions, or with groups of channels instead of the last.
TensorMapSpec slice_map(const TensorDesc& t, std::int64_t groups, std::int64_t width, std::int64_t height,
                        bool operand = true) {
  TensorMapSpec map = box_map(t, width, height, operand);
  const auto images = static_cast<std::size_t>(t.rank - 1), last = std::size_t{4};
  map.rank = 5;
  map.sizes[last] = map.sizes[images];
  map.strides[last] = map.strides[images];
  for (std::size_t i = images; i < last; ++i) {
    map.sizes[i] = 1;
    map.strides[i] = map.strides[last];
  }
  if (groups > 1) {
    map.sizes[0] /= groups;
    map.sizes[3] = groups;
    map.strides[3] = map.sizes[0] * size_in_bytes(t.type);
  }
  map.box = {hopper_depth(t.type), narrow(width), narrow(height), 1, 1};
  return map;
}

/// Bytes of rows of 64 channels.
std::int64_t row_bytes(std::int64_t rows) { return round_up(rows * 128, 1024); }

}  // namespace

HopperHalo hopper_halo(const Problem& p) {
  HopperHalo plan;
  if (!is_served_by_halos(p) || size_of(p.w.type) == 1 || p.output().type != p.w.type) return plan;
  const std::int64_t groups = p.groups();
  if (groups > 1 && p.spatial() > 2) return plan;
  const bool data = p.direction == Direction::kBackwardData;
  const TensorDesc &src = data ? p.y : p.x, &dst = data ? p.x : p.y;
  const bool planes = hopper_writes_planes(p);
  const auto dst_strides = meaningful_strides(dst);
  const auto last = static_cast<std::size_t>(dst.rank - 1);
  if (planes && (dst_strides[last] != 1 || size_of(dst.type) != 2)) return plan;
  const PhaseAxes phase = phases_of(p).front();
  const std::int64_t reach_w = reach(phase[0]), reach_h = reach(phase[1]), slice_taps = phase[0].taps * phase[1].taps;
  const int depth = hopper_depth(src.type);
  const std::int64_t halos = HopperHalo::halos(size_of(src.type)), stages = HopperHalo::stages(size_of(src.type));
  const std::int64_t reduced = src.lens[1] / groups, outputs = dst.lens[1] / groups;
  const bool is_resident = slice_taps * phase[2].taps * hopper_steps(reduced, depth) <= stages;
  // A row more than the halo has, for columns that are dropped.
  const auto bytes_of = [&](std::int64_t halo_w, std::int64_t columns) {
    return row_bytes(reach_h * halo_w + reach_w + columns + 1);
  };
  const std::int64_t slice_halos = halos_along(phase[0]) * halos_along(phase[1]);
  const Halo halo = best_halo(
      phase[0], phase[1],
      [&](std::int64_t width, std::int64_t height, std::int64_t halo_w) {
        constexpr std::int64_t kMaxColumns = 256;
        const std::int64_t columns = round_up((height - 1) * halo_w + width, 8);
        const std::int64_t bytes = stages * 8192 + 1024 + halos * bytes_of(halo_w, columns);
        return columns <= kMaxColumns && bytes <= kSharedBytes ? columns : 0;
      },
      [&](std::int64_t halo_w, std::int64_t columns) {
        constexpr std::int64_t kColumnBytes = 72;  // that arrive in the time of a column
        return ((is_resident ? 0 : 8192) + bytes_of(halo_w, columns) * slice_halos / slice_taps) / kColumnBytes;
      });
  plan.columns = narrow(halo.columns);
  if (plan.columns == 0) return plan;
  auto& s = plan.shape;
  s.tile_w = narrow(halo.width);
  s.tile_h = narrow(halo.height);
  s.halo_w = narrow(halo.halo_w);
  s.halo_bytes = narrow(bytes_of(halo.halo_w, halo.columns));
  s.box_bytes = narrow((halo.height + reach_h) * halo.halo_w * 128);
  s.reduced = narrow(reduced);
  s.outputs = narrow(outputs);
  s.groups = narrow(groups);
  s.output_tiles = narrow(hopper_steps(outputs));
  s.tiles_w = narrow(ceil_div(phase[0].size, halo.width));
  s.tiles_h = narrow(ceil_div(phase[1].size, halo.height));
  const std::int64_t slices = groups > 1 ? groups : phase[2].size;
  const std::int64_t tiles = p.n() * slices * s.tiles_w * s.tiles_h * s.output_tiles;
  if (tiles > kMaxIndex) return {};
  s.tiles = narrow(tiles);
  for (std::size_t i = 0; i < 3; ++i) {
    s.taps[i] = narrow(phase[i].taps);
    s.step[i] = narrow(phase[i].step);
    s.base[i] = narrow(phase[i].base);
    s.offset[i] = narrow(phase[i].offset);
    s.offset_step[i] = narrow(phase[i].offset_step);
    s.size[i] = narrow(phase[i].size);
  }
  s.size[2] = narrow(slices);
  s.dst_image = dst_strides[0];
  s.dst_channel = dst_strides[1];
  s.dst_row = p.spatial() > 1 ? dst_strides[last - 1] : 0;
  s.dst_slice = groups > 1 ? outputs * dst_strides[1] : p.spatial() > 2 ? dst_strides[last - 2] : 0;
  s.resident = is_resident;
  plan.weights = weight_map(p, 64);
  plan.src = slice_map(src, groups, halo.halo_w * s.step[0], (halo.height + reach_h) * s.step[1]);
  plan.src.steps = {1, s.step[0], s.step[1], 1, 1};
  if (ends_with_half(s.reduced, depth)) set_half_maps(plan, plan.src, p);
  if (!planes) plan.dst = slice_map(dst, groups, halo.width, halo.height, false);
  return plan;
}

HopperHalo hopper_halo(const DeviceInfo& d, const Problem& p) {
  HopperHalo plan = hopper_halo(p);
  auto& s = plan.shape;
  plan.blocks = std::min(s.tiles, d.units);
  // Tiles with the same weights are that many apart; a block takes every so many-th one as there are blocks.
  const int distance = s.output_tiles * s.groups;
  constexpr double kLeastShare = 0.8;  // of the units, for weights that stay
  const int blocks = plan.blocks / distance * distance;
  s.resident = s.resident && blocks >= kLeastShare * plan.blocks;
  if (s.resident) plan.blocks = blocks;
  return plan;
}

HopperHaloWeights hopper_halo_weights(const DeviceInfo& d, const Problem& p) {
  HopperHaloWeights plan;
  constexpr std::int64_t kMaxTaps = 3, kMaxRows = 4;  // of a filter; more rows leave registers for one column only
  if (p.spatial() != 2 || !has_unit_strides(p) || p.filter(1) > kMaxTaps) return plan;
  if (p.filter(0) > (p.filter(1) == 1 ? kMaxRows : kMaxTaps)) return plan;
  const PhaseAxes phase = phases_of(p).front();
  const std::int64_t reach_w = reach(phase[0]), reach_h = reach(phase[1]);
  const std::int64_t boxes = size_in_bytes(p.x.type) / 2;  // of 64 channels
  const auto bytes_of = [&](std::int64_t halo_w, std::int64_t pixels) {
    return boxes * row_bytes(pixels + reach_h * halo_w + reach_w + pixels);
  };
  const Halo halo = best_halo(
      phase[0], phase[1],
      [&](std::int64_t width, std::int64_t height, std::int64_t halo_w) {
        const std::int64_t pixels = round_up((height - 1) * halo_w + width, 16 / boxes);
        const std::int64_t bytes = 1024 + HopperHaloWeights::kStages * bytes_of(halo_w, pixels);
        return bytes <= kSharedBytes ? pixels : 0;
      },
      [](std::int64_t, std::int64_t) { return std::int64_t{0}; });
  plan.pixels = narrow(halo.columns);
  if (plan.pixels == 0) return plan;
  auto& s = plan.shape;
  s.groups = narrow(p.groups());
  s.channels = narrow(group_channels(p));
  s.outputs = narrow(group_outputs(p));
  s.tile_w = narrow(halo.width);
  s.tile_h = narrow(halo.height);
  s.halo_w = narrow(halo.halo_w);
  s.stage_bytes = narrow(bytes_of(halo.halo_w, halo.columns));
  s.box_bytes = narrow((halo.height + reach_h) * halo.halo_w * 128);
  s.tiles_w = narrow(ceil_div(phase[0].size, halo.width));
  s.tiles_h = narrow(ceil_div(phase[1].size, halo.height));
  s.tiles = narrow(p.n()) * s.tiles_w * s.tiles_h;
  constexpr std::int64_t kLeastTiles = 2;  // of a part
  const std::int64_t pairs = p.groups() * hopper_steps(s.channels) * hopper_steps(s.outputs);
  s.parts = narrow(std::clamp<std::int64_t>(
      std::min({d.units / pairs, s.tiles / kLeastTiles, kMaxSumBytes / (p.w.count() * 4)}), 1, kMaxIndex));
  s.works = narrow(pairs * s.parts);
  for (std::size_t i = 0; i < 2; ++i) {
    s.pad[i] = -narrow(phase[i].base);
    s.dilation[i] = narrow(phase[i].offset_step);
  }
  plan.x = box_map(p.x, halo.halo_w, halo.height + reach_h);
  plan.dy = box_map(p.y, halo.width, 1);
  return plan;
}

namespace {

constexpr std::int64_t kLeastSteps = 8;  // of a block

/// Groups of blocks with the same steps of different tiles.
struct Groups {
  std::int64_t count = 1, blocks = 1;
};

/// The groups with the least to do: few, since others read other pixels, and the block that ends a tile adds the sums
/// of all blocks that share it.
Groups best_groups(std::int64_t tiles, std::int64_t steps, std::int64_t units) {
  constexpr double kGroup = 0.003, kSum = 2;  // a share of the time for each group; steps
  Groups best;
  double least = INFINITY;
  for (std::int64_t blocks = 1; blocks <= std::min(tiles, units); ++blocks) {
    const std::int64_t rounds = ceil_div(tiles, blocks);
    const std::int64_t count = std::clamp<std::int64_t>(rounds * steps / kLeastSteps, 1, units / blocks);
    const auto groups = static_cast<double>(count), all = static_cast<double>(rounds);
    const double sums = count == 1 ? 0 : std::ceil(groups / all);
    const double cost = all / groups * static_cast<double>(steps) * (1 + kGroup * groups) + kSum * sums;
    if (cost >= least) continue;
    least = cost;
    best = {count, blocks};
  }
  return best;
}

}  // namespace

HopperWeights hopper_weights(const DeviceInfo& d, const Problem& p, const TunePoint& point) {
  HopperWeights plan;
  plan.tile = kWeightTiles[point[kTile]];
  auto& s = plan.shape;
  s.images = narrow(p.n());
  s.channel_groups = narrow(p.groups());
  s.channels = narrow(group_channels(p));
  s.outputs = narrow(group_outputs(p));
  std::int64_t pixels = p.n(), taps = 1;
  PhaseAxes phase{};
  for (int i = 0; i < 3; ++i) {
    const auto at = static_cast<std::size_t>(i);
    s.size[i] = s.taps[i] = 1;
    if (i >= p.spatial()) continue;
    const PhaseAxis a = phase[at] = forward_axis(axis(p, i));
    s.size[i] = narrow(a.size);
    s.taps[i] = narrow(a.taps);
    s.step[i] = narrow(a.step);
    s.base[i] = narrow(a.base);
    s.offset_step[i] = narrow(a.offset_step);
    pixels *= a.size;
    taps *= a.taps;
  }
  s.row_tiles = narrow(ceil_div(s.outputs, plan.tile.rows()));
  s.column_tiles = narrow(ceil_div(taps * hopper_steps(s.channels), plan.tile.columns / 64));
  const int depth = hopper_depth(p.x.type);
  s.steps = narrow(ceil_div(pixels, std::int64_t{depth}));
  const std::int64_t tiles = p.groups() * s.row_tiles * s.column_tiles,
                     tile_sums = std::int64_t{plan.tile.rows()} * plan.tile.columns;
  Groups groups;
  if (point[kSplit] == 0) {
    groups = best_groups(tiles, s.steps, d.units);
  } else {
    const std::int64_t most = kMaxSumBytes / (p.w.count() * 4);
    groups = {std::clamp<std::int64_t>(std::min({d.units / tiles, s.steps / kLeastSteps, most}), 1, kMaxIndex), tiles};
  }
  s.groups = narrow(groups.count);
  s.group_blocks = narrow(groups.blocks);
  s.has_parts = point[kSplit] == 1 && s.groups > 1;
  const std::int64_t all_steps = ceil_div(tiles, groups.blocks) * s.steps;
  s.share_steps = narrow(all_steps / groups.count);
  s.longer_shares = narrow(all_steps % groups.count);
  plan.blocks = narrow(groups.count * groups.blocks);
  if (s.has_parts) plan.partials = s.groups * p.w.count();
  const bool shares = !s.has_parts && s.groups > 1;
  plan.sums = plan.blocks * tile_sums * (plan.tile.apart ? 3 : shares ? 1 : 0);
  plan.x = source_map(p.x, depth, phase, p.spatial());
  plan.dy = pixel_map(p.y, depth);
  return plan;
}

TuneSpace hopper_space(const Problem& p) {
  const bool weights = p.direction == Direction::kBackwardWeights;
  std::vector<int> tiles(tiles_of(p.direction).size() + 1);  // the last takes its tiles with their halo
  std::iota(tiles.begin(), tiles.end(), 0);
  if (weights) return {{"tile", tiles}, {"parts", {0, 1}}};
  return {{"tile", tiles}, {"split", {std::begin(kSplits), std::end(kSplits)}}, {"order", {0, 1}}};
}

namespace {

/// Its sums leave the consumers, or the producer, too few registers for more than a plain problem.
bool fills_registers(const HopperTile& tile) { return tile.row_blocks * tile.columns > 320; }
/// fp8: the registers of a step's sums, too, do not fit.
bool exceeds_registers(const HopperTile& tile, const Problem& p) {
  return is_fp8(p.w.type) && (tile.row_blocks + 1) * tile.columns > 384;
}
bool is_plain(const Problem& p) {
  const bool converts = is_fp8(p.output().type) || (p.w.type == DataType::kInt8 && p.scalars != Scalars::kDefault);
  const bool wide_planes = hopper_writes_planes(p) && size_of(p.output().type) == 4;
  return p.spatial() <= 2 && p.scalars != Scalars::kBilinear && !converts && !wide_planes && !p.epilogue.residual &&
         !p.epilogue.scale && phases_of(p).size() == 1;
}

bool takes_halo_weights(const DeviceInfo& d, const Problem& p, const TunePoint& point) {
  if (p.filter(0) * (p.spatial() > 1 ? p.filter(1) : 1) == 1) return false;
  return point[kSplit] == 1 && hopper_halo_weights(d, p).pixels > 0;
}

}  // namespace

bool hopper_takes(const DeviceInfo& d, const Problem& p, const TunePoint& point) {
  const auto tiles = tiles_of(p.direction);
  const bool weights = p.direction == Direction::kBackwardWeights;
  if (point.size() != (weights ? 2 : 3) || point[kTile] < 0 || point[kTile] > narrow(std::ssize(tiles))) return false;
  if (weights) {
    if (point[kSplit] != 0 && point[kSplit] != 1) return false;
    if (hopper_has_halo(p, point)) return takes_halo_weights(d, p, point);
    const HopperTile& tile = tiles[static_cast<std::size_t>(point[kTile])];
    if (p.x.type == DataType::kFloat && p.spatial() == 3 && tile.row_blocks > 1) return false;  // spills registers
    const HopperWeights plan = hopper_weights(d, p, point);
    const auto& s = plan.shape;
    // A tile of more than twice the rows that are needed only wastes work.
    return tile.rows() < 2 * std::max<std::int64_t>(64, s.outputs) &&
           (plan.partials + plan.sums) * 4 <= 2 * kMaxSumBytes &&
           p.groups() * s.row_tiles * s.column_tiles * s.steps <= kMaxIndex;
  }
  const int split = point[kSplit];
  if (std::find(std::begin(kSplits), std::end(kSplits), split) == std::end(kSplits)) return false;
  if (point[kOrder] != 0 && point[kOrder] != 1) return false;
  const bool data = p.direction == Direction::kBackwardData;
  std::int64_t outputs = group_outputs(p), reduced = group_channels(p);
  if (data) std::swap(outputs, reduced);
  const std::int64_t taps = hopper_taps(p);
  if (hopper_has_halo(p, point)) return split == 1 && point[kOrder] == 0 && takes_halo(p);
  const HopperTile& tile = tiles[static_cast<std::size_t>(point[kTile])];
  if (tile.columns >= 2 * std::max<std::int64_t>(64, outputs)) return false;
  if (exceeds_registers(tile, p) || (fills_registers(tile) && !is_plain(p))) return false;
  if (hopper_shared_bytes(p, product_tile(p, point), split, size_of(p.output().type)) > kSharedBytes) return false;
  const int depth = hopper_depth(p.w.type);
  if (!has_whole_groups(p, tile.columns)) return false;
  if (point[kOrder] == 1 && (taps == 1 || hopper_steps(reduced, depth) == 1)) return false;
  if (split == 1) return true;
  // Clusters are for few tiles and long sums.
  const HopperProduct plan = hopper_product(d, p, point);
  return plan.tile.can_split(split, hopper_transposes_weights(p)) && plan.shape.tiles * split <= 2 * d.units &&
         taps * hopper_steps(plan.shape.reduced, depth) >= 2 * split;
}

}  // namespace polymio::convolution::cuda
