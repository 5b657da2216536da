// SPDX-License-Identifier: MIT
#include "primitives/convolution/gpu/depthwise_windows.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <span>
#include <utility>

#include "base/math.h"

namespace polymio::convolution::gpu {
namespace {

constexpr int kThreads = 256, kMaxChunk = 32, kMaxLanes = 32;
constexpr int kMostTaps = 32;                                             // that are few
constexpr std::int64_t kLocalFloats = 10752, kWeightsLocalFloats = 8192;  // 42 and 32 KiB
// Local memory grows in steps, so that problems of other sizes share programs.
constexpr std::int64_t kLocalStep = 1024, kTapStep = 512;
constexpr std::int64_t kReduction = 8 * kThreads;  // floats that the sum over threads takes
constexpr std::int64_t kWeightsBlocks = 4224;      // for all channels and chunks of taps together; 32 per SM of an H100

/// Columns and rows of results per thread. An odd number of columns avoids bank conflicts.
struct Run {
  int cols, rows;
};
constexpr Run kPlaneRuns[] = {{15, 1}, {7, 1}, {7, 2}, {7, 4}, {3, 1}, {3, 4}, {1, 1}};
constexpr Run kPlaneWeightsRuns[] = {{7, 1}, {15, 1}, {3, 1}, {1, 1}};
constexpr Run kChannelRuns[] = {{8, 1}, {7, 1}, {4, 1}, {2, 1}, {1, 1}};
// Rows of results per thread of depthwise_taps, where rows slide; gradients of weights begin with the second.
constexpr int kTapRows[] = {8, 4, 8, 2};
constexpr int kTapVariants = 3, kMostSlidingRows = 8;  // rows of a filter
// Of the kernels for few taps; the fastest first.
/// Units per thread of depthwise_few_taps_planes; gradients of weights begin with the second.
constexpr int kUnits[] = {2, 1, 2};
constexpr int kPlanesVariants = 2;
/// Segments that threads of depthwise_few_taps_lines compute one after another, as long as there are blocks for all
/// multiprocessors.
constexpr int kSegments[] = {16, 8, 32};
constexpr std::int64_t kSegment = 256;  // results, as in the kernel
/// Columns at a time, and of a run at most, of depthwise_few_taps_channels.
struct Columns {
  int at_a_time, run;
};
constexpr Columns kColumns[] = {{6, 256}, {8, 256}, {6, 64}, {4, 1024}};

std::span<const Run> runs_of(bool planes, bool weights) {
  if (!planes) return kChannelRuns;
  return weights ? std::span<const Run>(kPlaneWeightsRuns) : kPlaneRuns;
}

/// `total` in equal parts of at most `most`.
std::int64_t equal_part(std::int64_t total, std::int64_t most) { return ceil_div(total, ceil_div(total, most)); }

int narrow_to(std::int64_t v, std::int64_t least, std::int64_t most) { return narrow(std::clamp(v, least, most)); }

}  // namespace

Verdict DepthwiseWindows::check(const DeviceInfo& d, const Problem& p) {
  // Other variants have at most 15 times as many blocks as the first.
  constexpr std::int64_t kMaxBlocks = std::int64_t{1} << 27, kMaxTaps = 1 << 16;
  if (const Verdict v = check_channel_epilogue(p, true); !v) return v;
  POLYMIO_REQUIRE(p.w.is_channels_first() || p.w.is_channels_last(), "w is not packed");
  std::int64_t filter = 1;
  for (int i = 0; i < p.spatial(); ++i) filter *= p.filter(i);
  POLYMIO_REQUIRE_MOST(filter, kMaxTaps, "taps of a filter");
  POLYMIO_REQUIRE_MOST(DepthwiseWindows(d, p, 0).blocks_, kMaxBlocks, "blocks");
  return {};
}

int DepthwiseWindows::variants(const DeviceInfo& d, const Problem& p) {
  const DepthwiseWindows first(d, p, 0);
  if (first.kind_ == Kind::kTaps) return first.slides() && first.shape_.dst_h > 1 ? kTapVariants : 1;
  const std::int64_t windows = std::ssize(runs_of(first.kind_ == Kind::kPlanes, first.weights()));
  return narrow(windows) + first.few_taps_variants();
}

int DepthwiseWindows::best(const DeviceInfo& d, const Problem& p) {
  const int all = variants(d, p);
  const DepthwiseWindows first(d, p, 0);
  if (first.kind_ == Kind::kTaps) return first.rows_ == kTapRows[0] && first.shape_.dst_h <= kTapRows[1] ? 1 : 0;
  if (const int few_taps = first.few_taps_variants(); few_taps > 0) return all - few_taps;
  int best = 0;
  double least = 0;
  for (int i = 0; i < all; ++i) {
    const DepthwiseWindows plan(d, p, i);
    const double time = plan.predict(d);
    if (!plan.fits() || (least > 0 && time >= least)) continue;
    best = i;
    least = time;
  }
  return best;
}

DepthwiseWindows::DepthwiseWindows(const DeviceInfo& d, const Problem& p, int variant)
    : direction_(p.direction),
      type_(p.x.type),
      epilogue_(p.epilogue),
      weight_count_(p.w.count()),
      bytes_(gpu::tensor_bytes(p)) {
  set_shape(p);
  const int windows = kind_ == Kind::kTaps ? 0 : narrow(std::ssize(runs_of(kind_ == Kind::kPlanes, weights())));
  few_taps_ = kind_ != Kind::kTaps && variant >= windows;
  if (few_taps_) {
    plan_few_taps(d, variant - windows);
  } else if (kind_ == Kind::kChannels) {
    plan_channels(variant);
  } else if (kind_ == Kind::kPlanes) {
    // The last variant takes the least local memory.
    plan_planes(d, narrow(std::ssize(runs_of(true, weights()))) - 1);
    if (fits_)
      plan_planes(d, variant);
    else
      kind_ = Kind::kTaps;
  }
  if (kind_ == Kind::kTaps) plan_taps(variant);
  if (kind_ == Kind::kTaps || direction_ != Direction::kBackwardData) return;
  // A forward convolution with rotated filters.
  shape_.pad_h = (shape_.filter_h - 1) * shape_.dilation_h - shape_.pad_h;
  shape_.pad_w = (filter_w_ - 1) * shape_.dilation_w - shape_.pad_w;
}

/// A dimension whose size is 1 in x, w and y goes first; steps that have no effect become 1. For depthwise_taps the
/// filter's only dimension becomes its rows, if those slide.
void DepthwiseWindows::set_shape(const Problem& p) {
  auto z = sizes_of(p);
  auto t = steps_of(p);
  auto e = strides_of(p);
  const auto exchange = [&](int i, int j) {
    for (auto* sizes : {z.in, z.out, z.filter, t.pad, t.stride, t.dilation}) std::swap(sizes[i], sizes[j]);
    for (auto* strides : {e.x, e.w, e.y}) std::swap(strides[i + 2], strides[j + 2]);
  };
  const auto is_trivial = [&](int i) { return z.in[i] == 1 && z.out[i] == 1 && z.filter[i] == 1; };
  const bool taps_only = !is_trivial(0) || z.k != z.c;
  if (is_trivial(2)) exchange(1, 2);
  if (taps_only && z.filter[1] == 1) {
    if (z.filter[0] > 1)
      exchange(0, 1);
    else if (z.filter[2] > 1 && e.x[1] == 1 && e.y[1] == 1)
      exchange(1, 2);
  }
  const bool data = direction_ == Direction::kBackwardData;
  for (int i = 0; i < 3; ++i) {
    if (z.out[i] == 1) t.stride[i] = 1;
    if (z.filter[i] == 1) t.dilation[i] = 1;
  }
  const bool slides = t.stride[1] == 1 && t.stride[2] == 1;
  const auto &src = data ? z.out : z.in, &dst = data ? z.in : z.out;
  const auto &from = data ? e.y : e.x, &to = data ? e.x : e.y;
  auto& s = shape_;
  s.src_image = from[0];
  s.src_channel = narrow(from[1]);
  s.src_row = narrow(from[3]);
  s.src_col = narrow(from[4]);
  s.dst_image = to[0];
  s.dst_channel = narrow(to[1]);
  s.dst_row = narrow(to[3]);
  s.dst_col = narrow(to[4]);
  s.images = narrow(z.n);
  s.channels = narrow(data ? z.c : z.k);
  s.src_h = narrow(src[1]);
  s.src_w = narrow(src[2]);
  s.dst_h = narrow(dst[1]);
  s.dst_w = narrow(dst[2]);
  filter_d_ = narrow(z.filter[0]);
  s.filter_h = narrow(z.filter[1]);
  filter_w_ = narrow(z.filter[2]);
  s.pad_h = narrow(t.pad[1]);
  s.pad_w = narrow(t.pad[2]);
  set_steps(s, t);
  const auto tap_step = [&](int i) { return data ? narrow(t.stride[i] / std::gcd(t.stride[i], t.dilation[i])) : 1; };
  s.tap_step_h = tap_step(1);
  s.tap_step_w = tap_step(2);
  volume_ = {.src_depth = narrow(from[2]),
             .dst_depth = narrow(to[2]),
             .src_d = narrow(src[0]),
             .dst_d = narrow(dst[0]),
             .pad_d = narrow(t.pad[0]),
             .stride_d = narrow(t.stride[0]),
             .dilation_d = narrow(t.dilation[0]),
             .tap_step_d = tap_step(0),
             .multiplier = narrow(z.k / z.c)};
  last_ = s.src_channel == 1 && s.dst_channel == 1;
  if (taps_only) return;
  // Kernels count the runs of all rows in 32 bits; those of a row are a multiple of the dilation.
  constexpr std::int64_t kMaxRuns = std::int64_t{1} << 30;
  const std::int64_t runs = (dst[2] + t.dilation[2]) * dst[1] * z.n;
  if (slides && last_ && runs <= kMaxRuns)
    kind_ = Kind::kChannels;
  else if (slides && (s.src_w == 1 || s.src_col == 1) && (s.dst_w == 1 || s.dst_col == 1) && !has_tiny_planes())
    kind_ = Kind::kPlanes;
}

/// Whether the lines of local memory that a plane takes would be nearly empty, as for a step of a causal convolution.
bool DepthwiseWindows::has_tiny_planes() const {
  constexpr std::int64_t kFewResults = 4, kFewTaps = 64;
  return !weights() && std::int64_t{shape_.dst_h} * shape_.dst_w <= kFewResults && taps() <= kFewTaps;
}

/// How many variants the problem has of kernels for few taps.
int DepthwiseWindows::few_taps_variants() const {
  constexpr int kLeastColumns = 20;  // of 4 bytes each, a window of 8 results
  const auto& s = shape_;
  if (kind_ == Kind::kTaps || s.filter_h != 1 || s.pad_h != 0 || s.src_h != s.dst_h || s.dilation_w != 1) return 0;
  if (filter_w_ < 2 || filter_w_ > kMostTaps) return 0;
  if (std::min(s.src_w, s.dst_w) < std::max(kLeastColumns, filter_w_)) return 0;
  if (kind_ == Kind::kChannels) return has_vectors_of(few_taps_vector()) ? narrow(std::ssize(kColumns)) : 0;
  if (static_cast<double>(s.dst_w) * s.dst_h * s.images * s.channels >= static_cast<double>(std::int64_t{1} << 31))
    return 0;
  const bool half_full = 2 * std::int64_t{s.dst_w} >= round_up(std::int64_t{s.dst_w}, kSegment);
  return (half_full ? narrow(std::ssize(kSegments)) : 0) + few_taps_planes_variants();
}

/// With more taps depthwise_few_taps_lines is faster.
int DepthwiseWindows::few_taps_planes_variants() const {
  return filter_w_ <= (weights() ? 4 : 8) ? kPlanesVariants : 0;
}

/// Channels per thread of depthwise_few_taps_channels: as many as leave registers for every tap of each.
int DepthwiseWindows::few_taps_vector() const {
  return size_of(type_) == 2 && filter_w_ <= (weights() ? 4 : 8) ? 4 : 2;
}

bool DepthwiseWindows::has_vectors_of(int elements) const {
  const auto& s = shape_;
  const std::int64_t values[] = {s.channels, s.src_image, s.src_row,         s.src_col,        s.dst_image,
                                 s.dst_row,  s.dst_col,   volume_.src_depth, volume_.dst_depth};
  return std::ranges::all_of(values, [&](std::int64_t v) { return v % elements == 0; });
}

/// Vectors of channels per block of kernels with channels innermost.
void DepthwiseWindows::set_lanes() {
  auto& s = shape_;
  const std::int64_t vectors = s.channels / vec_;
  s.lanes = weights() ? narrow(static_cast<std::int64_t>(
                            std::bit_ceil(static_cast<std::uint64_t>(std::min<std::int64_t>(kMaxLanes, vectors)))))
                      : narrow(equal_part(vectors, kMaxLanes));
}

void DepthwiseWindows::plan_few_taps(const DeviceInfo& d, int variant) {
  auto& s = shape_;
  const std::int64_t lines = std::int64_t{s.images} * s.dst_h;
  const std::int64_t vector = 16 / static_cast<std::int64_t>(size_of(type_));
  products_ = static_cast<double>(lines) * s.channels * s.dst_w * filter_w_;
  if (kind_ == Kind::kChannels) return plan_few_taps_of_channels(d, kColumns[variant].at_a_time, kColumns[variant].run);
  const int before = few_taps_planes_variants();
  lines_ = variant >= before;
  if (lines_) {
    constexpr std::int64_t kGroups = 8;  // as in the kernel
    units_ = ceil_div(s.dst_w + (weights() ? 0 : vector - 1), kSegment);
    const std::int64_t steps = ceil_div(lines * units_, kGroups);
    const std::int64_t few = ceil_div(steps, kSegments[variant - before]), enough = ceil_div(4 * d.units, s.channels);
    const std::int64_t most = weights() ? std::max<std::int64_t>(1, kWeightsBlocks / s.channels) : steps;
    parts_ = narrow(std::min({steps, most, std::max(few, enough)}));
    blocks_ = std::int64_t{s.channels} * parts_;
    return;
  }
  cols_ = kUnits[variant + (weights() ? 1 : 0)];
  units_ = ceil_div(s.dst_w + vector - 1, vector);
  const std::int64_t units = lines * units_, of_block = kThreads * cols_;
  if (weights()) return set_parts(s.channels, ceil_div(units, of_block));
  blocks_ = ceil_div(units * s.channels, of_block);
}

void DepthwiseWindows::plan_few_taps_of_channels(const DeviceInfo& d, int columns, int run) {
  auto& s = shape_;
  cols_ = columns;
  vec_ = few_taps_vector();
  if (filter_w_ > 8 && !weights()) threads_ = 128;  // as in the kernel
  set_lanes();
  const std::int64_t slots = threads_ / s.lanes, chunks = ceil_div(s.channels / vec_, std::int64_t{s.lanes});
  const auto groups = [&] { return ceil_div(std::int64_t{s.images} * s.dst_h * ceil_div(s.dst_w, s.tile_w), slots); };
  // Long runs, as long as the multiprocessors have the blocks that fit on them.
  const std::int64_t least = d.units * (filter_w_ > 8 ? 2 : 8);
  s.tile_w = run;
  while (s.tile_w > 2 * cols_ && chunks * groups() < least) s.tile_w /= 2;
  if (weights()) return set_parts(chunks, groups());
  blocks_ = chunks * groups();
}

void DepthwiseWindows::plan_planes(const DeviceInfo& d, int variant) {
  weights() ? plan_planes_weights(variant) : plan_planes_data(d, variant);
}

/// A thread computes one run of cols_ x rows_ results.
void DepthwiseWindows::plan_planes_data(const DeviceInfo& d, int variant) {
  auto& s = shape_;
  const Run run = kPlaneRuns[variant];
  cols_ = run.cols;
  rows_ = run.rows;
  const std::int64_t gap = s.dilation_w, chunks = ceil_div(filter_w_, kMaxChunk);
  chunk_ = narrow(chunks == 1 ? filter_w_ : round_up(ceil_div(filter_w_, chunks), 4));
  const std::int64_t vector = 16 / static_cast<std::int64_t>(size_of(type_)),
                     taps_w = ceil_div(filter_w_, chunk_) * chunk_;
  const std::int64_t tap_pitch = round_up(taps_w, 4), width = cols_ * gap;
  const std::int64_t runs = kThreads / gap;  // of neighbouring columns per thread block
  fits_ = runs > 0 && (rows_ == 1 || (s.dilation_h == 1 && s.filter_h > 1));
  if (!fits_) return;
  const std::int64_t tile_runs = equal_part(ceil_div(s.dst_w, width), runs), units_w = tile_runs * gap;
  s.tile_w = narrow(std::min<std::int64_t>(s.dst_w, tile_runs * width));
  s.src_pitch = narrow(round_up(tile_runs * width + (taps_w - 1) * gap, vector) + vector);
  s.dst_pitch = narrow(round_up(s.tile_w, vector) + vector);
  const auto src_rows = [&](std::int64_t units_h) {
    return std::min<std::int64_t>(s.src_h, units_h * rows_ + std::int64_t{s.filter_h - 1} * s.dilation_h);
  };
  const auto floats = [&](std::int64_t units_h) {
    return std::max(src_rows(units_h) * s.src_pitch, units_h * rows_ * s.dst_pitch);
  };
  const std::int64_t filter = s.filter_h * tap_pitch, all_units_h = ceil_div(s.dst_h, rows_);
  std::int64_t units_h = equal_part(all_units_h, kThreads / units_w);
  while (units_h > 1 && floats(units_h) + filter > kLocalFloats)
    units_h = ceil_div(all_units_h, ceil_div(all_units_h, units_h) + 1);
  s.tile_h = narrow(std::min<std::int64_t>(s.dst_h, units_h * rows_));
  const std::int64_t tiles = ceil_div(s.dst_h, s.tile_h) * ceil_div(s.dst_w, s.tile_w);
  const std::int64_t all = std::int64_t{s.images} * s.channels;
  // Several planes per block, as long as every multiprocessor has two blocks.
  const std::int64_t most = std::min({kThreads / (units_w * units_h), kLocalFloats / (floats(units_h) + filter),
                                      std::max<std::int64_t>(1, all / (2 * d.units))});
  s.planes = tiles > 1 ? 1 : narrow_to(most, 1, all);
  fits_ = floats(units_h) + filter <= kLocalFloats;
  local_floats_ = narrow(round_up(s.planes * floats(units_h), kLocalStep));
  tap_floats_ = narrow(round_up(s.planes * filter, kTapStep));
  blocks_ = ceil_div(all, s.planes) * tiles;
  const auto lanes = static_cast<double>(round_up(s.planes * units_w * units_h, 32) * blocks_);
  const std::int64_t lines = std::min<std::int64_t>(s.filter_h + rows_ - 1, s.src_h);
  const std::int64_t loads = lines * (ceil_div(filter_w_, chunk_) * (cols_ + chunk_ - 1) + rows_ * tap_pitch / 4);
  accesses_ = lanes * static_cast<double>(loads + 2 * cols_ * rows_);
  products_ = lanes * static_cast<double>(std::min(s.filter_h, s.src_h)) * filter_w_ * cols_ * rows_;
}

void DepthwiseWindows::set_parts(std::int64_t blocks, std::int64_t pieces) {
  parts_ = narrow_to(kWeightsBlocks / blocks, 1, pieces);
  parts_ = narrow(ceil_div(pieces, ceil_div(pieces, parts_)));
  blocks_ = blocks * parts_;
}

void DepthwiseWindows::plan_planes_weights(int variant) {
  auto& s = shape_;
  cols_ = kPlaneWeightsRuns[variant].cols;
  const std::int64_t gap = s.dilation_w, chunks_w = ceil_div(filter_w_, kMaxChunk);
  chunk_ = narrow(ceil_div(filter_w_, chunks_w));
  const std::int64_t vector = 16 / static_cast<std::int64_t>(size_of(type_)), width = cols_ * gap;
  const std::int64_t tile_runs = equal_part(ceil_div(s.dst_w, width), std::max<std::int64_t>(1, kThreads / gap));
  const std::int64_t units_w = tile_runs * gap;
  s.tile_w = narrow(std::min<std::int64_t>(s.dst_w, tile_runs * width));
  s.src_pitch = narrow(round_up(tile_runs * width + (chunk_ - 1) * gap, vector) + vector);
  s.dst_pitch = narrow(round_up(tile_runs * width, vector) + vector);
  const std::int64_t line = s.src_pitch + s.dst_pitch;
  fits_ = line <= kWeightsLocalFloats;
  // Rows of an image, then images, then channels until each thread has a run.
  const std::int64_t lines =
      std::min(std::max<std::int64_t>(1, kThreads / units_w), kWeightsLocalFloats / std::max(line, std::int64_t{1}));
  s.tile_h = narrow(equal_part(s.dst_h, std::max<std::int64_t>(1, lines)));
  s.planes = s.tile_h < s.dst_h ? 1 : narrow_to(lines / s.tile_h, 1, s.images);
  const std::int64_t more =
      std::min<std::int64_t>({lines / (std::int64_t{s.tile_h} * s.planes), s.channels, kMaxLanes});
  s.lanes =
      narrow(static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(1, more)))));
  local_floats_ = narrow(std::max(kReduction, round_up(line * s.tile_h * s.planes * s.lanes, kLocalStep)));
  const std::int64_t tiles = ceil_div(s.images, s.planes) * ceil_div(s.dst_h, s.tile_h) * ceil_div(s.dst_w, s.tile_w);
  set_parts(ceil_div(s.channels, s.lanes) * s.filter_h * chunks_w, tiles);
  const double runs = static_cast<double>(s.images) * static_cast<double>(s.channels) * s.dst_h *
                      static_cast<double>(ceil_div(s.dst_w, width) * gap * s.filter_h * chunks_w);
  accesses_ = runs * (3.0 * cols_ + chunk_ + 4);
  products_ = runs * cols_ * chunk_;
}

void DepthwiseWindows::plan_channels(int variant) {
  constexpr int kTapsAtATime = 8;
  auto& s = shape_;
  cols_ = kChannelRuns[variant].cols;
  chunk_ = narrow(equal_part(filter_w_, kTapsAtATime));
  vec_ = has_vectors_of(4) ? 4 : 1;
  set_lanes();
  const std::int64_t vectors = s.channels / vec_, gap = s.dilation_w;
  const std::int64_t units_w = ceil_div(s.dst_w, cols_ * gap) * gap, runs = units_w * s.dst_h * s.images;
  const std::int64_t chunks_c = ceil_div(vectors, s.lanes), slots = kThreads / s.lanes;
  const std::int64_t chunks_w = ceil_div(filter_w_, chunk_);
  const double threads = static_cast<double>(runs) * static_cast<double>(vectors);
  const double windows = static_cast<double>(s.filter_h * chunks_w) * vec_;
  products_ = threads * windows * chunk_ * cols_;
  if (weights()) {
    set_parts(chunks_c * s.filter_h * chunks_w, ceil_div(runs, 2 * slots));
    accesses_ = threads * windows * (2.0 * cols_ + chunk_);
  } else {
    blocks_ = chunks_c * ceil_div(runs, slots);
    accesses_ = threads * windows * (cols_ + 2.0 * chunk_);
  }
}

bool DepthwiseWindows::slides() const {
  const auto& s = shape_;
  return s.stride_h == 1 && s.dilation_h == 1 && s.filter_h <= kMostSlidingRows;
}

double DepthwiseWindows::results() const {
  const auto& s = shape_;
  return static_cast<double>(s.images) * static_cast<double>(s.channels) * volume_.dst_d * s.dst_h * s.dst_w;
}

void DepthwiseWindows::plan_taps(int variant) {
  constexpr std::int64_t kFewPlaces = 4, kSums = 64, kMostTapFloats = 8192;
  auto& s = shape_;
  kind_ = Kind::kTaps;
  fits_ = true;
  cols_ = 1;
  chunk_ = slides() ? s.filter_h : 1;
  rows_ = slides() && s.dst_h > 1 ? kTapRows[variant + (weights() ? 1 : 0)] : 1;
  vec_ = last_ && volume_.multiplier == 1 && has_vectors_of(4) ? 4 : 1;
  const bool data = direction_ == Direction::kBackwardData;
  const std::int64_t vectors = s.channels / vec_;
  const std::int64_t places = std::int64_t{volume_.dst_d} * ceil_div(s.dst_h, rows_) * s.dst_w;
  const double taps_of_result =
      static_cast<double>(taps()) * (data ? volume_.multiplier : 1) /
      (weights() ? 1.0 : static_cast<double>(volume_.tap_step_d) * s.tap_step_h * s.tap_step_w);
  products_ = results() * taps_of_result;
  accesses_ = products_ / (chunk_ * rows_) * (chunk_ + rows_ - 1 + (weights() ? 0 : chunk_));
  if (weights()) {
    const std::int64_t columns = taps() / chunk_;
    cols_ = narrow(equal_part(columns, std::max<std::int64_t>(1, kSums / (chunk_ * vec_))));
    s.lanes = 1;
    if (last_) set_lanes();
    const std::int64_t slots = kThreads / s.lanes;
    set_parts(ceil_div(vectors, s.lanes) * ceil_div(columns, cols_), ceil_div(s.images * places, kFewPlaces * slots));
    return;
  }
  if (!last_) {
    blocks_ = ceil_div(s.channels * places, kThreads);
    return;
  }
  const std::int64_t taps_of_vector = taps() * vec_ * (data ? volume_.multiplier : 1);
  const bool staged = taps_of_vector <= kMostTapFloats;
  s.lanes = narrow(
      equal_part(vectors, staged ? std::min<std::int64_t>(kMaxLanes, kMostTapFloats / taps_of_vector) : kMaxLanes));
  tap_floats_ = staged ? narrow(round_up(s.lanes * taps_of_vector, kTapStep)) : 0;
  blocks_ = ceil_div(vectors, s.lanes) * ceil_div(places, kThreads / s.lanes);
}

/// Shares of the peaks; measured, on an H200, with few taps and with 32 to 1024 in a row only. Local memory and the
/// first-level cache serve one access per thread and four cycles of a multiprocessor's arithmetic.
double DepthwiseWindows::predict(const DeviceInfo& d) const {
  constexpr double kLaunchUs = 3, kMemory = 0.7, kArithmetic = 0.6, kAccess = 4, kTapAccess = 8;
  const auto memory = [&](double rate) { return bytes_ / (1e3 * d.bandwidth_gbs * rate); };
  const auto compute = [&](double cycles, double rate) { return 2 * cycles / (1e3 * d.fp32_gflops * rate); };
  const double launches = kLaunchUs * (weights() ? 2 : 1);
  if (few_taps_ && kind_ == Kind::kChannels && filter_w_ > 8)
    return launches + memory(kMemory) + compute(products_, weights() ? 0.5 : 1);
  if (few_taps_) return launches + std::max(memory(0.8), compute(products_, weights() ? 0.25 : 0.35));
  const bool half = vec_ > 1 && size_of(type_) == 2;  // of the bytes per access
  const double access = kind_ == Kind::kTaps ? kTapAccess : half ? kAccess / 2 : kAccess;
  const double idle = std::max(1.0, static_cast<double>(d.units) / static_cast<double>(blocks_));
  const double arithmetic = compute(idle * std::max(products_, access * accesses_), kArithmetic);
  if (filter_w_ >= kMaxChunk && shape_.filter_h == 1) {
    constexpr double kLongMemory = 0.4, kWeights = 4.5, kChannels = 3;
    const double slowdown = weights() ? kWeights : kind_ == Kind::kChannels ? kChannels : 1;
    return launches + memory(kLongMemory) + slowdown * arithmetic;
  }
  return launches + std::max(memory(kMemory), arithmetic);
}

std::size_t DepthwiseWindows::workspace() const { return weights() ? sum_bytes(parts_ * weight_count_) : 0; }

std::vector<KernelSpec> DepthwiseWindows::kernels() const {
  const bool planes = kind_ == Kind::kPlanes, channels = kind_ == Kind::kChannels;
  std::string family = "depthwise_taps";
  if (kind_ != Kind::kTaps)
    family = fmt::format("depthwise_{}_{}", few_taps_ ? "few_taps" : "window",
                         lines_   ? "lines"
                         : planes ? "planes"
                                  : "channels");
  std::vector<std::string> options = {fmt::format("-DIN={}", name_of(type_)), fmt::format("-DOUT={}", name_of(type_))};
  const auto add = [&](const char* flag, int value) { options.push_back(fmt::format("-D{}={}", flag, value)); };
  add("DIRECTION", static_cast<int>(direction_));
  add("FILTER_W", filter_w_);
  if (kind_ == Kind::kTaps) {
    add("FILTER_D", filter_d_);
    add("LAST", last_);
    add("VEC", vec_);
    add("SLIDES", slides());
    add("ROWS", rows_);
    add("CHUNK", chunk_);
    add(weights() ? "COLUMNS" : "TAP_FLOATS", weights() ? cols_ : tap_floats_);
  } else if (few_taps_) {
    if (!lines_) add(planes ? "UNITS" : "COLS", cols_);
  } else {
    add("CHUNK", chunk_);
    add("COLS", cols_);
    if (planes) {
      add("DILATED", shape_.dilation_w > 1);
      add("LOCAL_FLOATS", local_floats_);
      if (!weights()) {
        add("ROWS", rows_);
        add("TAP_FLOATS", tap_floats_);
      }
    }
  }
  if (channels) add("VEC", vec_);
  if (!weights()) add_epilogue_options(epilogue_, &options);
  return kernel_variants(fmt::format("primitives/convolution/gpu/{}.cl", family),
                         family + (weights() ? "_weights" : ""), std::move(options), weights(), vec_ > 1);
}

void DepthwiseWindows::run(Stream& stream, const Kernels& built, const Problem::Args& a) const {
  constexpr std::int64_t kMaxImages = 32768;
  const auto vector = static_cast<std::int64_t>(16 / size_of(type_));
  const auto by_src = divider(std::max<std::int64_t>(1, shape_.src_pitch / vector));
  const auto by_dst = divider(std::max<std::int64_t>(1, shape_.dst_pitch / vector));
  const bool planes = kind_ == Kind::kPlanes, units = planes && few_taps_;
  const auto by_line = divider(std::max<std::int64_t>(1, units_)), by_rows = divider(shape_.dst_h);
  const std::int64_t units_of_channel = units_ * shape_.dst_h * shape_.images;
  if (weights()) {
    const Variants variants{direction_, weight_count_, parts_, vec_ > 1};
    const Launch shape = launch_shape(threads_, blocks_);
    if (units)
      return launch_variant(stream, built, variants, shape, a, shape_, parts_, narrow(units_of_channel), by_line,
                            by_rows);
    if (planes) return launch_variant(stream, built, variants, shape, a, shape_, parts_, by_src, by_dst);
    if (kind_ == Kind::kTaps) return launch_variant(stream, built, variants, shape, a, shape_, volume_, parts_);
    return launch_variant(stream, built, variants, shape, a, shape_, parts_);
  }
  const bool data = direction_ == Direction::kBackwardData;
  const Buffer src(data ? a.y : a.x), w(a.w), dst(data ? a.x : a.y);
  const kernels::EpilogueScalars scalars = epilogue_scalars(a);
  const Kernel& kernel = *built[vec_ > 1 && !aligned(a) ? 1 : 0];
  const Launch shape =
      launch_shape(threads_, blocks_, kind_ == Kind::kTaps ? std::min<std::int64_t>(shape_.images, kMaxImages) : 1);
  const auto run_with = [&](const auto&... rest) {
    with_channel_parameters(epilogue_, a, [&](const auto&... parameters) {
      launch(stream, kernel, shape, src, w, dst, parameters..., shape_, rest..., scalars);
    });
  };
  if (lines_) return run_with(parts_, narrow(units_of_channel), by_line, by_rows);
  if (units) return run_with(narrow(units_of_channel * shape_.channels), by_line, by_rows, divider(shape_.channels));
  if (planes) return run_with(by_src, by_dst);
  if (kind_ == Kind::kTaps) return run_with(volume_);
  run_with();
}

}  // namespace polymio::convolution::gpu
