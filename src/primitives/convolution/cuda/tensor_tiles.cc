// ConvCudaTensor: implicit GEMM on NVIDIA's matrix units since sm80 for channels, filters, strides and layouts of any
// kind, without copies of the tensors. The fastest solver where im2col would multiply the traffic and no specialised
// kernel serves: few or odd channels, first layers, strides, dilation, groups.
// SPDX-License-Identifier: MIT
#include "primitives/convolution/cuda/tensor_tiles.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <memory>
#include <numeric>
#include <span>

#include "base/math.h"
#include "primitives/convolution/cuda/matrix_units.h"

namespace polymio::convolution {
namespace cuda {
namespace {

using gpu::narrow;

constexpr int kRowBytes = 64;  // of k in a tile, as in matrix_tile.h

enum Knobs { kTile, kStages, kSplit };

double real(std::int64_t v) { return static_cast<double>(v); }

/// A dimension of an index space: its size, and the elements between its neighbours.
struct Dimension {
  std::int64_t size, stride;
};

/// The power of two up to `most` that divides the run of contiguous elements along the first dimensions (fastest
/// first), and all other steps.
int common_unit(std::span<const Dimension> dimensions, std::span<const std::int64_t> others, int most) {
  std::int64_t run = 1, unit = most;
  bool contiguous = true;
  for (const auto& [size, stride] : dimensions) {
    if (size == 1) continue;
    contiguous = contiguous && stride == run;
    if (contiguous)
      run *= size;
    else
      unit = std::gcd(unit, stride);
  }
  for (const std::int64_t stride : others) unit = std::gcd(unit, stride);
  return narrow(std::gcd(unit, run));
}

/// Whether neighbours along the first dimension that has some are contiguous.
bool starts_contiguous(std::span<const Dimension> dimensions) {
  for (const auto& [size, stride] : dimensions)
    if (size > 1) return stride == 1;
  return false;
}

bool is_pointwise(const kernels::ConvSizes& z, const kernels::ConvSteps& t) {
  for (int i = 0; i < 3; ++i)
    if (z.filter[i] > 1 || t.pad[i] > 0 || t.stride[i] > 1) return false;
  return true;
}

/// Whether 8-bit operands are multiplied in bf16: FNUZ formats have values that the units' 8-bit types lack.
bool widens(const DeviceInfo& d, const Problem& p) {
  const DataType first = p.first_input().type, second = p.second_input().type;
  return is_fp8(first) &&
         (!is_ocp8(first) || !is_ocp8(second) || (d.kind == DeviceKind::kCuda && !has_float8_units(d)));
}

/// What the kernel's 32-bit numbers hold.
Verdict check_sizes(const Problem& p) {
  constexpr std::int64_t kMostElements = std::numeric_limits<int>::max(), kMost = 1 << 30, kMostPosition = 1 << 27;
  for (const TensorDesc* t : {&p.x, &p.w, &p.y}) {
    POLYMIO_REQUIRE_MOST(t->space(), kMostElements, "elements of a tensor");
    POLYMIO_REQUIRE_MOST(t->count(), kMostElements, "elements of a tensor");
  }
  std::int64_t in = p.n(), out = p.n();
  for (int i = 0; i < p.spatial(); ++i) {
    const auto d = static_cast<std::size_t>(i);
    in *= p.in(i);
    out *= p.out(i);
    POLYMIO_REQUIRE_MOST(p.in(i), kMostPosition, "positions along an axis");
    POLYMIO_REQUIRE_MOST(p.geometry.pad[d], kMostPosition, "padding");
    POLYMIO_REQUIRE_MOST(p.geometry.stride[d], kMostPosition / std::max<std::int64_t>(1, p.out(i)), "stride");
    POLYMIO_REQUIRE_MOST(p.geometry.dilation[d], kMostPosition / p.filter(i), "reach of the filter");
  }
  POLYMIO_REQUIRE_MOST(in, kMost, "pixels of x");
  POLYMIO_REQUIRE_MOST(out, kMost, "pixels of y");
  return {};
}

}  // namespace

// efficiency: fraction of the peak of mma.sync on large products, a guess.
const TensorTiles::Tile TensorTiles::kTileTable[] = {{128, 128, 2, 4, 2, 0.36},
                                                     {128, 64, 2, 2, 3, 0.32},
                                                     {64, 64, 2, 2, 4, 0.26},
                                                     {128, 32, 4, 1, 3, 0.20},
                                                     {128, 16, 4, 1, 4, 0.12}};

Verdict TensorTiles::check(const DeviceInfo& d, const Problem& p) {
  constexpr int kFewest = 4;
  const DataType t = p.first_input().type;
  if (is_fp8(t)) {
    POLYMIO_REQUIRE(is_fp8(p.second_input().type) && !p.has_casts(), "mixed types");
    POLYMIO_REQUIRE(p.output().type != DataType::kDouble, "results of fp64");
    POLYMIO_REQUIRE(p.epilogue.empty(), "does not fuse epilogues of 8-bit floats");
  } else if (t == DataType::kInt8) {
    constexpr std::int64_t kMostDepth = 131071;  // products of -128 and -128 whose sum is below 2^31
    const DataType out = p.y.type;
    POLYMIO_REQUIRE(p.direction == Direction::kForward, "int8 backward");
    POLYMIO_REQUIRE(p.w.type == t && (out == DataType::kInt32 || out == DataType::kFloat || out == t), "mixed types");
    POLYMIO_REQUIRE(p.epilogue.empty(), "does not fuse epilogues of integers");
    POLYMIO_REQUIRE_MOST(p.w.count() / p.k(), kMostDepth, "products of a sum");
  } else {
    POLYMIO_REQUIRE(t == DataType::kHalf || t == DataType::kBFloat16 || t == DataType::kFloat,
                    "not int8 or a float of 8, 16 or 32 bits");
    POLYMIO_REQUIRE(p.all_types(t), "mixed types");
  }
  if (const Verdict v = is_fp8(t) ? gpu::check_device(d, p) : gpu::check_types(d, p, true); !v) return v;
  if (const Verdict v = gpu::check_channel_epilogue(p); !v) return v;
  POLYMIO_REQUIRE(p.groups() == 1 || std::min(p.c(), p.k()) / p.groups() >= kFewest,
                  "fewer than four channels per group");
  if (const Verdict v = check_sizes(p); !v) return v;
  POLYMIO_REQUIRE(p.epilogue.empty() || TensorTiles(d, p, default_point(d, p)).shape_.splits == 1,
                  "splits the sums: the epilogue is a pass");
  return {};
}

ErrorClass TensorTiles::error_class(const Problem& p) {
  const DataType t = p.first_input().type;
  if (t == DataType::kInt8) return ErrorClass::kExact;
  if (is_fp8(t)) return is_ocp8(t) && is_ocp8(p.second_input().type) ? ErrorClass::kReduced : ErrorClass::kAccurate;
  return t == DataType::kFloat ? ErrorClass::kReduced : ErrorClass::kAccurate;
}

TuneSpace TensorTiles::tune_space() { return {{"tile", {0, 1, 2, 3, 4}}, {"stages", {4, 3}}, {"split", {1, 0}}}; }

bool TensorTiles::is_valid(const DeviceInfo& d, const Problem& p, const TunePoint& point) {
  if (point.size() != 3 || point[kTile] < 0 || point[kTile] >= static_cast<int>(std::size(kTileTable))) return false;
  if (point[kStages] < 2 || point[kStages] > 4 || (point[kSplit] != 0 && point[kSplit] != 1)) return false;
  const int splits = TensorTiles(d, p, {point[kTile], point[kStages], 1}).shape_.splits;
  // Without splits both values are the same point.
  return point[kSplit] == 0 ? splits > 1 : splits == 1 || p.epilogue.empty();
}

TunePoint TensorTiles::default_point(const DeviceInfo& d, const Problem& p) {
  constexpr int kUsualStages = 4;
  TunePoint best;
  double least = 0;
  for (int i = 0; i < static_cast<int>(std::size(kTileTable)); ++i) {
    const TunePoint point = {i, kUsualStages, 1};
    const double us = TensorTiles(d, p, point).predict(d);
    if (!best.empty() && us >= least) continue;
    best = point;
    least = us;
  }
  return best;
}

TensorTiles::TensorTiles(const DeviceInfo& d, const Problem& p, const TunePoint& point)
    : tile_(kTileTable[point[kTile]]),
      stages_(point[kStages]),
      direction_(p.direction),
      widens_(widens(d, p)),
      dithers_(p.rounding == Rounding::kStochastic && is_fp8(p.output().type)),
      first_(p.first_input().type),
      second_(p.second_input().type),
      out_(p.output().type),
      in_(widens_ ? DataType::kBFloat16 : first_),
      epilogue_(p.epilogue),
      fp64_(d.gpu.fp64),
      static_shared_(d.kind != DeviceKind::kCuda),
      tensor_bytes_(gpu::tensor_bytes(p)),
      channels_(p.c() / p.groups()),
      filters_(p.k() / p.groups()),
      result_count_(p.output().count()),
      sizes_(gpu::sizes_of(p)),
      steps_(gpu::steps_of(p)),
      strides_(gpu::strides_of(p)),
      channels_fast_(source()[1] == 1) {
  sizes_.c = channels_;
  sizes_.k = filters_;
  set_tiles();
  gathered_ = gathered_unit();
  plain_ = plain_unit();
  stored_ = result_unit();
  if (point[kSplit] == 1 && p.output().packed() && in_ != DataType::kInt8) split(d);
}

int TensorTiles::vector() const { return 16 / narrow(static_cast<std::int64_t>(size_of(in_))); }

const kernels::i64* TensorTiles::result() const { return data() ? strides_.x : weights() ? strides_.w : strides_.y; }

/// Channels of a pixel, or the pixels of planes that no filter moves.
TensorTiles::Unit TensorTiles::gathered_unit() const {
  const auto* const e = source();
  const bool along_k = channels_fast_ != weights();
  if (!along_k && vector() != 8) return {1, false};  // transposed element by element
  const std::int64_t size = data() ? filters_ : channels_;
  if (channels_fast_) {
    const Dimension channels[] = {{size, e[1]}};
    const std::int64_t others[] = {e[0], e[2], e[3], e[4]};
    return {common_unit(channels, others, vector()), along_k};
  }
  if (!is_pointwise(sizes_, steps_)) return {1, along_k};
  const Dimension pixels[] = {{sizes_.out[2], e[4]}, {sizes_.out[1], e[3]}, {sizes_.out[0], e[2]}};
  const std::int64_t others[] = {e[0], e[1]};
  return {common_unit(pixels, others, vector()), along_k};
}

/// k is taps x channels of w, or the pixels of dy.
TensorTiles::Unit TensorTiles::plain_unit() const {
  const auto* const e = weights() ? strides_.y : strides_.w;
  const std::int64_t q_stride = e[data() ? 1 : weights() ? 1 : 0];
  std::vector<Dimension> columns;
  std::vector<std::int64_t> others = {q_stride};
  const Dimension channels = {data() ? filters_ : channels_, e[data() ? 0 : 1]};
  if (!weights() && channels_fast_) columns.push_back(channels);
  for (int i = 2; i >= 0; --i) {
    const std::int64_t step = weights() ? 1 : data() ? shape_.tap_step[i] : 1;
    columns.push_back({weights() ? sizes_.out[i] : sizes_.filter[i], step * e[2 + i]});
    if (step > 1) others.push_back(e[2 + i]);  // the first tap of a phase
  }
  if (!weights() && !channels_fast_) columns.push_back(channels);
  if (weights()) others.push_back(e[0]);
  const bool along_q = q_stride == 1 && !starts_contiguous(columns);
  if (!along_q) return {common_unit(columns, others, vector()), true};
  if (vector() != 8) return {1, false};
  const Dimension outputs[] = {{data() ? channels_ : filters_, q_stride}};
  others = {e[0], e[2], e[3], e[4]};
  return {common_unit(outputs, others, vector()), false};
}

/// Rows are pixels, or taps x channels of dw. Of 8-bit operands results are stored by one or, of floats, by four.
TensorTiles::Unit TensorTiles::result_unit() const {
  if (in_ == DataType::kInt8) return {1, result()[1] == 1};
  const auto stored = [&](std::span<const Dimension> dimensions, std::span<const std::int64_t> others) {
    if (size_of(first_) > 1) return common_unit(dimensions, others, vector());
    return common_unit(dimensions, others, 4) == 4 ? 4 : 1;
  };
  const auto* const e = result();
  const std::int64_t q_stride = e[weights() ? 0 : 1];
  const std::int64_t q = data() ? channels_ : filters_;
  if (q_stride == 1) {
    const Dimension outputs[] = {{q, q_stride}};
    const std::int64_t others[] = {e[weights() ? 1 : 0], e[2], e[3], e[4]};
    return {stored(outputs, others), true};
  }
  std::vector<Dimension> rows;
  std::vector<std::int64_t> others = {q_stride};
  const Dimension channels = {channels_, e[1]};
  if (weights() && channels_fast_) rows.push_back(channels);
  for (int i = 2; i >= 0; --i) {
    const std::int64_t step = data() ? steps_.stride[i] : 1;
    rows.push_back({weights() ? sizes_.filter[i] : data() ? sizes_.in[i] : sizes_.out[i], step * e[2 + i]});
    if (step > 1) others.push_back(e[2 + i]);  // the first position of a phase
  }
  if (weights() && !channels_fast_) rows.push_back(channels);
  if (!weights()) others.push_back(e[0]);
  return {stored(rows, others), false};
}

void TensorTiles::set_tiles() {
  const auto& z = sizes_;
  const auto& t = steps_;
  std::int64_t rows = weights() ? channels_ : z.n, phases = 1;
  depth_ = weights() ? real(z.n) : real(data() ? filters_ : channels_);
  for (int i = 0; i < 3; ++i) {
    const std::int64_t common = std::gcd(t.stride[i], t.dilation[i]);
    shape_.tap_step[i] = t.stride[i] / common;
    shape_.tap_delta[i] = t.dilation[i] / common;
    const std::int64_t residues = data() ? std::min(t.stride[i], z.in[i]) : 1;
    phases *= residues;
    rows *= weights() ? z.filter[i] : data() ? ceil_div(z.in[i], t.stride[i]) : z.out[i];
    depth_ *= weights() ? real(z.out[i]) : real(z.filter[i]) / real(residues);
  }
  shape_.tiles_p = ceil_div(rows, tile_.p);
  shape_.tiles_q = ceil_div(data() ? channels_ : filters_, tile_.q);
  shape_.tiles = shape_.tiles_p * shape_.tiles_q * phases * z.groups;
  shape_.splits = 1;
}

/// Splits k into the number of parts with the least predicted time.
void TensorTiles::split(const DeviceInfo& d) {
  constexpr double kMinSteps = 4, kMaxSplits = 256, kMaxBytes = 64 << 20;
  const double step = kRowBytes / real(static_cast<std::int64_t>(size_of(in_)));
  const auto most = static_cast<std::int64_t>(std::min(depth_ / (step * kMinSteps), kMaxSplits));
  std::int64_t best = 1;
  for (std::int64_t splits = 2; splits <= most; splits *= 2)
    if (4 * real(splits * result_count_) <= kMaxBytes && time_of(d, splits) < time_of(d, best)) best = splits;
  shape_.splits = narrow(best);
}

std::size_t TensorTiles::workspace() const {
  return shape_.splits > 1 ? gpu::sum_bytes(shape_.splits * result_count_) : 0;
}

/// From counts of products, copies and bytes; the constants are guesses.
double TensorTiles::time_of(const DeviceInfo& d, std::int64_t splits) const {
  constexpr double kLaunchUs = 3, kMemory = 0.7, kBlockUs = 1.5, kStepUs = 0.2;
  const double rate = 2 * vector();     // of the units, to fp32
  constexpr double kCopiesPerUs = 7e2;  // of a multiprocessor: copies of units, by all threads
  const double elements = kRowBytes / real(static_cast<std::int64_t>(size_of(in_)));
  const double steps = std::ceil(depth_ / elements / real(splits)), blocks = real(shape_.tiles * splits);
  const double flops = 2.0 * tile_.p * tile_.q * elements;
  const double multiply = flops * d.units / (1e3 * d.fp32_gflops * rate * tile_.efficiency);
  const double copy =
      elements * (tile_.p / real(gathered_.elements) + tile_.q / real(plain_.elements)) / 32 / kCopiesPerUs;
  // A multiprocessor runs `resident` blocks at a time, each of which takes at least kStepUs per step.
  const double waves = std::ceil(blocks / (d.units * tile_.resident)), full = blocks / d.units;
  const double compute = std::max(full * steps * (multiply + copy), waves * (steps * (kStepUs + multiply) + kBlockUs));
  const double partials = splits > 1 ? 8 * real(splits * result_count_) : 0;
  const double memory = tensor_bytes_ / (1e3 * d.bandwidth_gbs * kMemory);
  return (splits > 1 ? 2 : 1) * kLaunchUs + std::max(compute, memory) + partials / (1e3 * d.bandwidth_gbs);
}

double TensorTiles::predict(const DeviceInfo& d) const {
  // Times over counts on an H100, geometric means of 9 and of 20 bf16 problems.
  constexpr double kUnits = 1.3, kSingleElements = 2.05;
  const bool by_registers = widens_ || gathered_.elements == 1 || plain_.elements == 1;
  return (by_registers ? kSingleElements : kUnits) * time_of(d, shape_.splits);
}

std::vector<KernelSpec> TensorTiles::kernels() const {
  std::vector<std::string> options = {fmt::format("-DIN={}", name_of(in_)), fmt::format("-DOUT={}", name_of(out_))};
  const std::pair<const char*, int> numbers[] = {{"DIRECTION", static_cast<int>(direction_)},
                                                 {"AXES", sizes_.in[0] > 1 || sizes_.out[0] > 1 ? 3 : 2},
                                                 {"CHANNELS_FAST", channels_fast_},
                                                 {"TILE_P", tile_.p},
                                                 {"TILE_Q", tile_.q},
                                                 {"WARPS_P", tile_.warps_p},
                                                 {"WARPS_Q", tile_.warps_q},
                                                 {"TILE_STAGES", stages_},
                                                 {"RESIDENT", tile_.resident},
                                                 {"P_UNIT", gathered_.elements},
                                                 {"Q_UNIT", plain_.elements},
                                                 {"STORE_UNIT", stored_.elements},
                                                 {"P_LANES_K", gathered_.along},
                                                 {"Q_LANES_K", plain_.along},
                                                 {"STORE_Q", stored_.along}};
  for (const auto& [name, value] : numbers) options.push_back(fmt::format("-D{}={}", name, value));
  gpu::add_epilogue_options(epilogue_, &options);
  if (widens_) {
    options.push_back(fmt::format("-DCODES={}", name_of(first_)));
    options.push_back(fmt::format("-DSECOND_CODES={}", name_of(second_)));
  } else if (second_ != first_) {
    options.push_back(fmt::format("-DSECOND={}", name_of(second_)));
  }
  if (dithers_) options.emplace_back("-DDITHERS_OUT");
  if (in_ == DataType::kInt8 && fp64_) options.emplace_back("-DFP64");
  return gpu::kernel_variants("primitives/convolution/cuda/tensor_tiles.cl", "tensor_tiles", std::move(options),
                              shape_.splits > 1, unaligned_units() > 1);
}

template <class... Scalars>
void TensorTiles::launch_tiles(Stream& stream, const Kernels& built, const Problem& p, const Problem::Args& a,
                               const Scalars&... scalars) const {
  const std::size_t first = unaligned_units() == 1 || gpu::aligned(a) ? 0 : built.size() / 2;
  Launch shape = launch_shape(tile_.threads(), shape_.tiles, shape_.splits);
  if (!static_shared_) shape.shared_bytes = static_cast<std::uint32_t>(stages_ * (tile_.p + tile_.q) * kRowBytes);
  const gpu::Operands o = gpu::operands_of(p, a);
  const Buffer workspace(a.workspace);
  const auto [bias, scale] = gpu::epilogue_operands(epilogue_, a);
  launch(stream, *built[first], shape, o.first, o.second, o.output, workspace, bias, scale, sizes_, steps_, strides_,
         shape_, result_count_, scalars...);
  if (shape_.splits == 1) return;
  gpu::Partials partials{workspace, o.output, result_count_, shape_.splits};
  if (dithers_) partials.seed = a.seed;
  gpu::add_partials(stream, *built[first + 1], partials, static_cast<float>(a.alpha), static_cast<float>(a.beta));
}

void TensorTiles::run(Stream& stream, const Kernels& built, const Problem& p, const Problem::Args& a) const {
  struct Integers {  // as the kernel has them
    double alpha, beta;
  };
  if (in_ == DataType::kInt8)
    launch_tiles(stream, built, p, a, Integers{a.alpha, a.beta});
  else if (dithers_)
    launch_tiles(stream, built, p, a, gpu::epilogue_scalars(a), a.seed);
  else
    launch_tiles(stream, built, p, a, gpu::epilogue_scalars(a));
}

}  // namespace cuda

namespace {

using cuda::TensorTiles;

class CudaTensor final : public GpuSolver<Problem> {
 public:
  CudaTensor(const SolverInfo& info, Direction d) : GpuSolver(info), direction_(d) {}

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    POLYMIO_REQUIRE(p.direction == direction_, "serves another direction");
    POLYMIO_REQUIRE(cuda::has_matrix_units(d), "the device has no matrix units that it uses");
    return TensorTiles::check(d, p);
  }
  ErrorClass error_class(const Problem& p) const override { return TensorTiles::error_class(p); }
  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    return TensorTiles(d, p, point).predict(d);
  }
  TuneSpace tune_space(const DeviceInfo&, const Problem&) const override { return TensorTiles::tune_space(); }
  bool is_valid(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    return TensorTiles::is_valid(d, p, point);
  }
  TunePoint default_point(const DeviceInfo& d, const Problem& p) const override {
    return TensorTiles::default_point(d, p);
  }
  std::size_t workspace_size(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    return TensorTiles(d, p, point).workspace();
  }
  std::vector<KernelSpec> kernel_specs(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    return TensorTiles(d, p, point).kernels();
  }
  Invoker assemble(const DeviceInfo& d, const Problem& p, const TunePoint& point, const Kernels& built) const override {
    return
        [p, tiles = TensorTiles(d, p, point), built](Stream& stream, const Args& a) { tiles.run(stream, built, p, a); };
  }

 private:
  Direction direction_;
};

}  // namespace

std::unique_ptr<const SolverBase> cuda_tensor(const SolverInfo& info, Direction d) {
  return std::make_unique<CudaTensor>(info, d);
}

}  // namespace polymio::convolution
