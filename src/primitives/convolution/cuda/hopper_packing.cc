// SPDX-License-Identifier: MIT
#include "primitives/convolution/cuda/hopper_packing.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <vector>

#include "base/math.h"
#include "primitives/convolution/cuda/hopper_plan.h"
#include "primitives/convolution/cuda/hopper_slices.h"
#include "primitives/convolution/gpu/arguments.h"

namespace polymio::convolution::cuda {
namespace {

using gpu::narrow;

/// Elements of 16 bytes.
std::int64_t unit_of(const TensorDesc& t) { return 16 / static_cast<std::int64_t>(size_of(t.type)); }
/// Channels of a step of the kernels, half of which are few.
std::int64_t depth_of(const TensorDesc& t) { return hopper_depth(t.type); }
bool has_few_channels(const Problem& p) { return p.groups() == 1 && p.c() <= depth_of(p.x) / 2; }

struct Axis {
  std::int64_t in = 1, out = 1, filter = 1, pad = 0, stride = 1, dilation = 1;
};

/// `back` dimensions before the last one.
Axis axis(const Problem& p, int back) {
  const int i = p.spatial() - 1 - back;
  if (i < 0) return {};
  const auto at = static_cast<std::size_t>(i);
  return {p.in(i), p.out(i), p.filter(i), p.geometry.pad[at], p.geometry.stride[at], p.geometry.dilation[at]};
}

TensorDesc tensor(DataType type, std::vector<std::int64_t> lens, const std::vector<std::int64_t>& strides) {
  return make_tensor(type, lens, strides);
}

/// Elements of a channel of an image.
std::int64_t plane_of(const TensorDesc& t) {
  return std::accumulate(t.lens.begin() + 2, t.lens.begin() + t.rank, std::int64_t{1}, std::multiplies{});
}

/// The tensor's part of a copy's arguments; images, rows and columns of a dense tensor.
void set_tensor(HopperOperand& o, const TensorDesc& t, bool one_row) {
  kernels::FoldShape& s = o.shape;
  const auto strides = meaningful_strides(t);
  const auto last = static_cast<std::size_t>(t.rank - 1);
  s.tensor_images = narrow(t.lens[0]);
  s.channels = narrow(t.lens[1]);
  s.image = strides[0];
  s.channel = narrow(strides[1]);
  s.column = narrow(strides[last]);
  s.width = narrow(one_row ? plane_of(t) : t.lens[last]);
  s.height = 1;
  if (!one_row && last >= 3) {
    s.row = narrow(strides[last - 1]);
    s.height = narrow(t.lens[last - 1]);
  }
  o.copied = true;
}

/// The folded pixels' part: images x rows x columns of `depth` elements.
void set_folded(HopperOperand& o, DataType type, std::int64_t images, std::int64_t rows, std::int64_t columns,
                std::int64_t depth) {
  kernels::FoldShape& s = o.shape;
  s.images = narrow(images);
  s.rows = narrow(rows);
  s.columns = narrow(columns);
  s.depth = narrow(depth);
  s.folded_column = narrow(depth);
  s.folded_row = narrow(columns * depth);
  s.folded_image = rows * columns * depth;
  o.bytes =
      round_up(images * rows * columns * depth * static_cast<std::int64_t>(size_of(type)), HopperPacking::kAlignment);
}

/// A dense copy with channels last, of `images` images with `channels` channels.
HopperOperand whole_copy(const TensorDesc& t, std::int64_t images, std::int64_t channels) {
  HopperOperand o;
  const std::int64_t plane = plane_of(t);
  set_tensor(o, t, true);
  set_folded(o, t.type, images, 1, plane, channels);
  o.shape.fold_h = o.shape.fold_w = 1;
  o.shape.fold_c = narrow(channels);
  o.planes = o.shape.column == 1 && o.shape.channel != 1;
  o.unit = std::gcd(plane, meaningful_strides(t)[1]);
  if (meaningful_strides(t)[1] != plane) o.unit = std::gcd(o.unit, t.strides[2]);  // a slice of rows
  return o;
}

bool is_dense(const TensorDesc& t) { return t.is_channels_first() || t.is_channels_last(); }
/// Outputs may be planes, unless something is added to them, or their rows are written in phases, a pixel at a time.
bool may_write_planes(const Problem& p) {
  if (p.direction == Direction::kBackwardWeights || p.scalars == Scalars::kBilinear || p.epilogue.residual)
    return false;
  const auto& stride = p.geometry.stride;
  return p.direction == Direction::kForward || std::all_of(stride.begin(), stride.end(), [](auto s) { return s == 1; });
}

bool needs_copy(const Problem& p, const TensorDesc& t) {
  if (t.lens[1] % unit_of(t) != 0) return true;
  return !hopper_addresses(t) && !(&t == &p.output() && may_write_planes(p));
}

/// How rows and taps become channels of x.
struct SourceFold {
  std::int64_t rows = 1;      // of the image that a row of the copy joins
  std::int64_t channels = 0;  // of a pixel of x, padded
  std::int64_t taps = 1;      // of a row of the filter that a pixel of the copy joins
  bool joins_taps = false;
  std::int64_t pixel() const { return rows * channels; }
};

/// What the products of a tap of so many channels cost: as whole steps (im2col loads), and as half ones (with halo).
std::int64_t cost_of(std::int64_t channels, std::int64_t depth) {
  return 2 * ceil_div(channels, depth) + ceil_div(channels, depth / 2);
}

std::int64_t cost_of(const Problem& p, const SourceFold& f) {
  return ceil_div(axis(p, 1).filter, f.rows) * ceil_div(axis(p, 0).filter, f.taps) *
         cost_of(f.taps * f.pixel(), depth_of(p.x));
}

/// The fold that joins so many rows, with whole 16 bytes between pixels.
std::optional<SourceFold> fold_of_rows(const Problem& p, std::int64_t rows) {
  constexpr std::int64_t kMostChannels = 64;  // of a pixel of the copy
  const Axis w = axis(p, 0);
  const std::int64_t unit = unit_of(p.x);
  SourceFold f;
  f.rows = rows;
  f.channels = p.c();
  while (f.pixel() * w.stride % unit != 0) ++f.channels;
  const std::int64_t pixel = f.pixel(), whole = unit / std::gcd(unit, pixel);
  const std::int64_t most = kMostChannels / pixel, step = std::lcm(whole, w.stride);
  f.joins_taps = true;
  if (round_up(w.filter, whole) <= most) {
    f.taps = round_up(w.filter, whole);
  } else if (step <= most) {
    f.taps = round_up(ceil_div(w.filter, ceil_div(w.filter, most / step * step)), step);
  } else {
    f.joins_taps = false;
    while (f.pixel() % unit != 0) ++f.channels;
    if (f.pixel() > kMostChannels) return {};
  }
  return f;
}

/// The fold that costs least, if it is less than without.
std::optional<SourceFold> source_fold(const Problem& p) {
  const Axis h = axis(p, 1), w = axis(p, 0);
  if (p.spatial() > 2 || !has_few_channels(p) || w.dilation != 1) return {};
  std::int64_t least = h.filter * w.filter * cost_of(p.c(), depth_of(p.x));
  std::optional<SourceFold> best;
  for (std::int64_t rows = h.stride; rows >= 1; --rows) {
    if (h.stride % rows != 0 || (rows > 1 && (h.filter == 1 || h.dilation != 1))) continue;
    const auto f = fold_of_rows(p, rows);
    if (!f || cost_of(p, *f) >= least) continue;
    least = cost_of(p, *f);
    best = f;
  }
  return best;
}

/// Whether the fold joins whole pixels of a row of x that all exist, so that it needs no copy but that of its layout.
bool joins_existing(const Problem& p, const SourceFold& f) {
  const Axis w = axis(p, 0);
  return f.rows == 1 && f.joins_taps && f.channels == p.c() && w.pad == 0 &&
         (w.out - 1) * w.stride + round_up(w.filter, f.taps) <= w.in;
}

/// Whether pixels of a row follow each other, and rows begin at multiples of 16 bytes.
bool has_aligned_rows(const TensorDesc& t) {
  const auto strides = meaningful_strides(t);
  if (strides[1] != 1 || strides[static_cast<std::size_t>(t.rank - 1)] != t.lens[1]) return false;
  return strides[0] % unit_of(t) == 0 && (t.rank == 3 || strides[2] % unit_of(t) == 0);
}

/// What the folded x is read from.
struct SourceRows {
  std::int64_t image, row, height, width;  // strides; of single pixels
};

SourceRows copied_rows(HopperPacking& plan, const Problem& p, const SourceFold& f) {
  const Axis h = axis(p, 1), w = axis(p, 0);
  const std::int64_t pixel = f.pixel(), whole = unit_of(p.x) / std::gcd(unit_of(p.x), pixel);
  const std::int64_t filter_rows = ceil_div(h.filter, f.rows), step_h = h.stride / f.rows;
  const std::int64_t rows = (h.out - 1) * step_h + (filter_rows - 1) * h.dilation + 1;
  const std::int64_t columns = round_up((w.out - 1) * w.stride + round_up(w.filter, f.taps), whole);
  set_tensor(plan.x, p.x, false);
  set_folded(plan.x, p.x.type, p.n(), rows, columns / whole, whole * pixel);
  kernels::FoldShape& x = plan.x.shape;
  x.fold_h = narrow(f.rows);
  x.fold_w = narrow(whole);
  x.fold_c = narrow(f.channels);
  x.pad_h = narrow(h.pad);
  x.pad_w = narrow(w.pad);
  return {rows * columns * pixel, columns * pixel, rows, columns};
}

SourceRows existing_rows(HopperPacking& plan, const Problem& p) {
  TensorDesc source = p.x;
  if (!has_aligned_rows(p.x)) {
    source = channels_last(p.x, p.n(), p.c());
    plan.x = whole_copy(p.x, p.n(), p.c());
  }
  const auto strides = meaningful_strides(source);
  const Axis h = axis(p, 1), w = axis(p, 0);
  return {strides[0], p.spatial() == 2 ? strides[2] : 0, h.in, w.in};
}

/// x and w of forward and backward weights with a fold.
void fold_source(HopperPacking& plan, const Problem& p, const SourceFold& f) {
  const Axis h = axis(p, 1), w = axis(p, 0);
  const std::int64_t pixel = f.pixel(), parts = ceil_div(w.filter, f.taps), filter_rows = ceil_div(h.filter, f.rows);
  const bool exists = joins_existing(p, f) && (has_aligned_rows(p.x) || p.c() % unit_of(p.x) == 0);
  const SourceRows source = exists ? existing_rows(plan, p) : copied_rows(plan, p, f);

  const std::int64_t depth = f.taps * pixel, outputs = plan.inner.y.lens[1];
  set_tensor(plan.w, p.w, false);
  set_folded(plan.w, p.w.type, outputs, filter_rows, parts, depth);
  kernels::FoldShape& k = plan.w.shape;
  k.fold_h = narrow(f.rows);
  k.fold_w = narrow(f.taps);
  k.fold_c = narrow(f.channels);

  // Pixels of the inner x overlap if it joins taps: the next one begins a stride later.
  const std::int64_t step = f.joins_taps ? w.stride * pixel : pixel;
  const std::int64_t dilation = f.joins_taps && parts > 1 ? f.taps / w.stride : 1;
  const std::int64_t width = f.joins_taps ? w.out + (parts - 1) * dilation : source.width;
  const bool plane = p.spatial() == 2;
  plan.overlaps = step < depth;
  plan.inner.x = plane ? tensor(p.x.type, {p.n(), depth, source.height, width}, {source.image, 1, source.row, step})
                       : tensor(p.x.type, {p.n(), depth, width}, {source.image, 1, step});
  TensorDesc filter = p.w;
  if (plane) filter.lens[2] = filter_rows;
  filter.lens[static_cast<std::size_t>(filter.rank - 1)] = parts;
  plan.inner.w = channels_last(filter, outputs, depth);
  Geometry& g = plan.inner.geometry;
  g.pad = {};
  const auto at = static_cast<std::size_t>(p.spatial() - 1);
  if (plane) g.stride[0] = h.stride / f.rows;
  if (plane && exists) g.pad[0] = h.pad;
  g.stride[at] = f.joins_taps ? 1 : w.stride;
  g.dilation[at] = dilation;
}

/// Zero taps before the filter's first, so that blocks of the stride begin at the first column of x.
std::int64_t taps_before(const Axis& a) { return round_up(a.pad, a.stride) - a.pad; }
/// Taps of blocks.
std::int64_t block_taps(const Axis& a) { return ceil_div(taps_before(a) + a.filter, a.stride); }

/// The block of a space-to-depth along W, where that is possible: the stride, so that blocks have stride 1; else 1.
std::int64_t depth_block(const Problem& p) {
  const Axis w = axis(p, 0);
  if (p.direction == Direction::kBackwardWeights || !has_few_channels(p) || p.c() % unit_of(p.x) != 0) return 1;
  if (w.dilation != 1 || w.in % w.stride != 0 || w.stride * p.c() > depth_of(p.x)) return 1;
  if (!needs_copy(p, p.x) && meaningful_strides(p.x)[static_cast<std::size_t>(p.x.rank - 1)] != p.c()) return 1;
  return 2 * w.stride * block_taps(w) <= 3 * w.filter ? w.stride : 1;  // at most a third of the taps are zero
}

/// x or its copy with blocks of neighbouring pixels of a row as one pixel, with the channels of all, and w to match.
/// Taps that the filter does not have are zero.
void space_to_depth(HopperPacking& plan, const Problem& p, std::int64_t block) {
  const Axis w = axis(p, 0);
  const std::int64_t before = taps_before(w), taps = block_taps(w), depth = block * p.c();
  const auto last = static_cast<std::size_t>(p.x.rank - 1), at = static_cast<std::size_t>(p.spatial() - 1);
  Problem& q = plan.inner;
  if (needs_copy(p, p.x)) {
    q.x = channels_last(p.x, p.n(), p.c());
    plan.x = whole_copy(p.x, p.n(), p.c());
  }
  auto strides = meaningful_strides(q.x);
  std::vector<std::int64_t> lens(q.x.lens.begin(), q.x.lens.begin() + q.x.rank);
  lens[1] = strides[last] = depth;
  lens[last] = w.in / block;
  q.x = tensor(p.x.type, lens, {strides.begin(), strides.begin() + q.x.rank});
  q.geometry.pad[at] = (w.pad + before) / block;
  q.geometry.stride[at] = 1;

  TensorDesc filter = p.w;
  filter.lens[last] = taps;
  q.w = channels_last(filter, q.y.lens[1], depth);
  const std::int64_t rows = plane_of(p.w) / w.filter;  // of all slices
  set_tensor(plan.w, p.w, false);
  set_folded(plan.w, p.w.type, q.y.lens[1], rows, taps, depth);
  kernels::FoldShape& k = plan.w.shape;
  k.height = narrow(rows);
  k.fold_h = 1;
  k.fold_w = narrow(block);
  k.fold_c = narrow(p.c());
  k.pad_w = narrow(before);
}

/// One axis of dx in blocks: a convolution of dy.
struct BlockAxis {
  std::int64_t block, first, taps, stride;  // first: the index of dy that the first tap of block 0 reads
};
BlockAxis block_axis(const Axis& a, std::int64_t block) {
  BlockAxis b{};
  b.block = block;
  b.first = -((a.filter - 1 - a.pad) / a.stride);  // the padding is smaller than the filter
  b.taps = (block - 1 + a.pad) / a.stride - b.first + 1;
  b.stride = block / a.stride;
  return b;
}

struct DataFold {
  BlockAxis h, w;
  double cost = 0;  // products per element of dx, with those of unused columns
};

double data_cost(std::int64_t taps, std::int64_t outputs, std::int64_t pixels) {
  constexpr std::int64_t kTileOutputs = 64;
  return static_cast<double>(taps * round_up(outputs, kTileOutputs)) / static_cast<double>(pixels);
}

/// The blocks of dx with the least products per element, if they are fewer than without.
std::optional<DataFold> data_fold(const Problem& p) {
  const Axis h = axis(p, 1), w = axis(p, 0);
  if (p.spatial() != 2 || !has_few_channels(p) || h.dilation != 1 || w.dilation != 1) return {};
  if (h.pad >= h.filter || w.pad >= w.filter) return {};
  constexpr std::int64_t kMostOutputs = 128, kMostBlock = 8, kMostStride = 4;
  constexpr double kGain = 0.75;
  double least = kGain * data_cost(h.filter * w.filter, p.c(), h.stride * w.stride);
  std::optional<DataFold> best;
  for (std::int64_t y = h.stride; y <= kMostBlock; y += h.stride)
    for (std::int64_t x = w.stride; x <= kMostBlock; x += w.stride) {
      if (x * y * p.c() > kMostOutputs || y / h.stride > kMostStride || x / w.stride > kMostStride) continue;
      DataFold f{block_axis(h, y), block_axis(w, x)};
      f.cost = data_cost(f.h.taps * f.w.taps, x * y * p.c(), x * y);
      if (f.cost >= least) continue;
      least = f.cost;
      best = f;
    }
  return best;
}

/// dx and w of backward data with a fold; `depth`: channels of the inner dy.
void fold_data(HopperPacking& plan, const Problem& p, const DataFold& f, std::int64_t depth) {
  const Axis h = axis(p, 1), w = axis(p, 0);
  const std::int64_t rows = ceil_div(h.in, f.h.block), columns = ceil_div(w.in, f.w.block);
  const std::int64_t outputs = round_up(f.h.block * f.w.block * p.c(), unit_of(p.x));
  plan.swapped = true;
  set_tensor(plan.x, p.x, false);
  set_folded(plan.x, p.x.type, p.n(), rows, columns, outputs);
  kernels::FoldShape& x = plan.x.shape;
  x.fold_h = narrow(f.h.block);
  x.fold_w = narrow(f.w.block);
  x.fold_c = narrow(p.c());

  Problem& q = plan.inner;
  q.direction = Direction::kForward;
  q.x = q.y;
  q.y = tensor(p.x.type, {p.n(), outputs, rows, columns}, {rows * columns * outputs, 1, columns * outputs, outputs});
  TensorDesc filter = p.w;
  filter.lens[2] = f.h.taps;
  filter.lens[3] = f.w.taps;
  q.w = channels_last(filter, outputs, depth);
  q.geometry.pad = {-f.h.first, -f.w.first, 0};
  q.geometry.stride = {f.h.stride, f.w.stride, 1};
  plan.w.copied = true;
  plan.w.bytes = round_up(static_cast<std::int64_t>(q.w.bytes()), HopperPacking::kAlignment);
  const auto strides = meaningful_strides(p.w);
  plan.weights = {narrow(strides[0]),
                  narrow(strides[1]),
                  narrow(strides[2]),
                  narrow(strides[3]),
                  narrow(outputs),
                  narrow(f.h.taps),
                  narrow(f.w.taps),
                  narrow(depth),
                  narrow(p.k()),
                  narrow(p.c()),
                  narrow(h.filter),
                  narrow(w.filter),
                  narrow(f.h.block),
                  narrow(f.w.block),
                  narrow(h.pad - f.h.first * h.stride),
                  narrow(w.pad - f.w.first * w.stride),
                  narrow(h.stride),
                  narrow(w.stride)};
}

/// Channels of a copy. Those of an input are whole boxes of a step, or of half a step for the last: loads of boxes
/// whose channels do not all exist take longer.
std::int64_t copied_channels(const Problem& p, const TensorDesc& t) {
  const std::int64_t depth = depth_of(t), channels = round_up(t.lens[1], unit_of(t)), last = channels % depth;
  if (p.groups() > 1) return t.lens[1];
  return &t != &p.output() && last > depth / 2 ? round_up(channels, depth) : channels;
}

/// Whether space-to-depth costs no more than the fold, which copies x or dx; folds that copy nothing are better.
bool is_cheaper(const Problem& p, std::int64_t block, const std::optional<SourceFold>& f) {
  if (!f) return true;
  const std::int64_t own = axis(p, 1).filter * block_taps(axis(p, 0)) * cost_of(block * p.c(), depth_of(p.x));
  return !joins_existing(p, *f) && own <= cost_of(p, *f);
}
bool is_cheaper(const Problem& p, std::int64_t block, const std::optional<DataFold>& f) {
  const Axis h = axis(p, 1);
  return !f || data_cost(h.filter * block_taps(axis(p, 0)), block * p.c(), h.stride * block) <= f->cost;
}

/// Of a pixel of the matrix of patches: whole boxes of a step, or of half a step for the last.
std::int64_t patch_channels(const Problem& p) { return round_up(p.c() * hopper_taps(p), depth_of(p.x) / 2); }

/// Whether patches are copied: x would need padding, the matrix needs little.
bool copies_patches(const Problem& p) {
  return has_few_channels(p) && p.c() % unit_of(p.x) != 0 && gpu::has_patches(p) && !gpu::has_patches_in_place(p) &&
         8 * patch_channels(p) <= 9 * p.c() * hopper_taps(p);
}

/// x as the matrix of patches, with w as it is unless that is padded.
void gather_patches(HopperPacking& plan, const Problem& p) {
  Problem& q = plan.inner;
  const std::int64_t depth = patch_channels(p), elements = p.c() * hopper_taps(p), outputs = q.y.lens[1];
  plan.patches.emplace(p, depth);
  q.x = channels_last(p.y, p.n(), depth);
  plan.x.copied = true;
  plan.x.bytes = round_up(static_cast<std::int64_t>(q.x.bytes()), HopperPacking::kAlignment);
  TensorDesc filter = p.w;
  std::fill(filter.lens.begin() + 2, filter.lens.begin() + filter.rank, 1);
  q.w = channels_last(filter, outputs, depth);
  if (depth != elements || outputs != p.k())
    plan.w = whole_copy(tensor(p.w.type, {p.k(), elements, 1}, {elements, 1, elements}), outputs, depth);
  q.geometry.stride.fill(1);
  q.geometry.dilation.fill(1);
}

/// All but where copies are in the workspace.
HopperPacking packing_of(const Problem& p) {
  HopperPacking plan;
  Problem& q = plan.inner = p;
  const bool data = p.direction == Direction::kBackwardData;
  if (needs_copy(p, p.y)) {
    q.y = channels_last(p.y, p.n(), copied_channels(p, p.y));
    plan.y = whole_copy(p.y, p.n(), q.y.lens[1]);
  }
  if (copies_patches(p)) {
    gather_patches(plan, p);
    return plan;
  }
  const auto source = data ? std::nullopt : source_fold(p);
  const auto blocks = data ? data_fold(p) : std::nullopt;
  const std::int64_t block = depth_block(p);
  if (block > 1 && is_cheaper(p, block, source) && is_cheaper(p, block, blocks)) {
    space_to_depth(plan, p, block);
    return plan;
  }
  if (blocks) {
    fold_data(plan, p, *blocks, q.y.lens[1]);
    return plan;
  }
  if (source) {
    fold_source(plan, p, *source);
    return plan;
  }
  if (needs_copy(p, p.x)) {
    q.x = channels_last(p.x, p.n(), copied_channels(p, p.x));
    plan.x = whole_copy(p.x, p.n(), q.x.lens[1]);
  }
  if (!p.w.is_channels_last() || q.x.lens[1] != p.c() || q.y.lens[1] != p.k()) {
    const std::int64_t depth = q.x.lens[1] / p.groups();
    q.w = channels_last(p.w, q.y.lens[1], depth);
    plan.w = whole_copy(p.w, q.y.lens[1], depth);
  }
  return plan;
}

}  // namespace

TensorDesc channels_last(const TensorDesc& like, std::int64_t images, std::int64_t channels) {
  std::vector<std::int64_t> lens(like.lens.begin(), like.lens.begin() + like.rank), strides(lens.size());
  lens[0] = images;
  lens[1] = channels;
  std::int64_t step = channels;
  strides[1] = 1;
  for (std::size_t i = lens.size() - 1; i >= 2; --i) {
    strides[i] = step;
    step *= lens[i];
  }
  strides[0] = step;
  return tensor(like.type, lens, strides);
}

static void set_types(Problem& p, DataType type) {
  for (TensorDesc* t : {&p.x, &p.w, &p.y}) t->type = t->cast = type;
}

/// The copies are planned as those of parts, which have half the bytes.
static HopperPacking packing_for_parts(const Problem& given) {
  Problem p = given;
  set_types(p, DataType::kBFloat16);
  HopperPacking plan = packing_of(p);
  set_types(plan.inner, DataType::kFloat);
  if (plan.patches) plan.patches.emplace(given, plan.inner.x.lens[1]);
  for (HopperOperand* o : {&plan.x, &plan.w, &plan.y}) o->bytes *= 2;
  return plan;
}

HopperPacking hopper_packing(const Problem& p, bool summed, HopperInner inner) {
  HopperPacking plan = inner == HopperInner::kSplit ? packing_for_parts(p) : packing_of(p);
  if (summed && size_of(p.w.type) == 2) {
    plan.inner.w.type = plan.inner.w.cast = DataType::kFloat;
    plan.sums = round_up(static_cast<std::int64_t>(plan.inner.w.bytes()), HopperPacking::kAlignment);
  }
  // What slices share has the same place in all of them.
  plan.w.at = plan.sums;
  plan.x.at = plan.w.at + plan.w.bytes;
  plan.y.at = plan.x.at + plan.x.bytes;
  HopperOperand* const operands[] = {&plan.y, &plan.x, &plan.w};  // in the order of directions
  operands[static_cast<std::size_t>(p.direction)]->output = true;
  return plan;
}

/// What depends on sizes.
static Verdict slice_serves(const Problem& p, bool summed, HopperInner inner) {
  constexpr std::int64_t kMostElements = std::int64_t{1} << 31, kMostBytes = std::int64_t{2} << 30;
  for (const TensorDesc* t : {&p.x, &p.y, &p.w}) POLYMIO_REQUIRE_MOST(t->space(), kMostElements - 1, "elements");
  const HopperPacking plan = hopper_packing(p, summed, inner);
  POLYMIO_REQUIRE_MOST(plan.bytes(), kMostBytes, "bytes of copies");
  return inner == HopperInner::kHopper ? hopper_serves(plan.inner) : Verdict{};
}

Verdict hopper_packing_serves(const Problem& p, HopperInner inner, std::int64_t most_bytes) {
  POLYMIO_REQUIRE(p.all_types(DataType::kHalf) || p.all_types(DataType::kBFloat16) || p.all_types(DataType::kFloat),
                  "not all floats of 16 or 32 bits");
  POLYMIO_REQUIRE(!p.has_casts(), "casts");
  POLYMIO_REQUIRE(is_dense(p.w), "strided weights");
  const HopperPacking plan = hopper_packing(p, false, inner);
  POLYMIO_REQUIRE(plan.x.copied || plan.w.copied || plan.y.copied, "needs no copies");
  POLYMIO_REQUIRE(!plan.x.copied || is_dense(p.x), "strided x");
  POLYMIO_REQUIRE(!plan.y.copied || is_dense(p.y), "strided y");
  for (const HopperOperand* o : {&plan.x, &plan.w, &plan.y}) {
    if (!o->output || !o->copied) continue;
    POLYMIO_REQUIRE(p.scalars != Scalars::kBilinear, "does not add to a copy");
    POLYMIO_REQUIRE(!p.epilogue.residual, "does not add a tensor to a copy");
  }
  POLYMIO_REQUIRE(plan.inner.y.lens[1] == p.k() || p.groups() == 1 || !(p.epilogue.bias || p.epilogue.scale),
                  "parameters of channels of groups that the copy has more of");
  const HopperSlices made = hopper_slices(p, most_bytes, inner);
  for (const Problem& slice : made.shapes)
    if (const Verdict v = slice_serves(slice, made.summed(), inner); !v) return v;
  return {};
}

}  // namespace polymio::convolution::cuda
