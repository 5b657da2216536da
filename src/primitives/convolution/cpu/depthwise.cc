// ConvCpuDepthwise: one input channel per group; ConvCpuGrouped: few channels per group. No matrix product, no
// workspace. Vectors run along the width (NCHW, and NHWC groups that are copied) or along channels (NHWC).
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <memory>

#include "kernels/cpu/depthwise.h"
#include "kernels/cpu/direct.h"
#include "kernels/cpu/epilogue.h"
#include "kernels/cpu/kernels_of.h"
#include "primitives/convolution/cpu/cost.h"
#include "primitives/convolution/cpu/epilogue.h"
#include "primitives/convolution/cpu/problem_shape.h"
#include "primitives/convolution/convolution.h"

namespace polymio::convolution {
namespace {

constexpr std::int64_t kMaxScratchFewResults = 16 << 20;

bool width_is_contiguous(const kernels::ConvShape& s) { return s.x_d[2] == 1 && s.y_d[2] == 1; }

const kernels::DepthwiseKernels& kernels_of(const DeviceInfo& d) {
  return kernels::kernels_of<kernels::DepthwiseKernels>(d.isa);
}

kernels::Depthwise job_of(const DeviceInfo& d, const Problem& p) {
  kernels::Depthwise job;
  job.shape = conv_shape(p);
  job.direction = kernel_direction(p.direction);
  job.result_type = p.output().type;
  job.channels_last = !width_is_contiguous(job.shape);
  const kernels::DirectUnit unit = kernels::kernels_of<kernels::DirectKernels>(d.isa).unit(p.x.type);
  kernels::DepthwiseLimits limits;
  limits.cores = d.units;
  limits.nhwc_copies = p.scalars != Scalars::kBilinear;
  plan_depthwise(job, unit, limits);
  if (static_cast<std::int64_t>(kernels_of(d).scratch(job)) <= kMaxScratch) return job;
  limits.nhwc_copies = false;
  limits.grouped_dot = false;
  plan_depthwise(job, unit, limits);
  return job;
}

using kernels::ConvDirection, kernels::DepthwisePath;

/// Pieces per task. Backward weights that transpose channels get whole vectors of them: partial vectors are summed in
/// another order.
std::int64_t chunk_of(const kernels::Depthwise& job, int threads) {
  constexpr std::int64_t kVector = 16;
  const kernels::ConvShape& s = job.shape;
  const bool permutes = job.has_aligned_groups() && (s.c == 1 || s.dtype == DataType::kFloat);
  const bool transposed = job.direction == ConvDirection::kBackwardWeights && !job.channels_last && permutes &&
                          (s.c > 1 || s.out[2] <= kVector / 2);
  if (job.blocks_at_once() > 1 && job.is_nhwc_in_place()) {
    return std::min(job.blocks_at_once(), (job.pieces() + threads - 1) / threads);
  }
  const std::int64_t unit = transposed ? std::max<std::int64_t>(1, kVector / s.c) : 1;
  const std::int64_t chunk = std::max<std::int64_t>(1, job.pieces() / (std::int64_t{8} * threads));
  return (chunk + unit - 1) / unit * unit;
}

// Cycles (see Machine); fitted, machine and command were not recorded.
constexpr double kTileCycles = 25;       // set-up of a register tile
constexpr double kColumnCycles = 6;      // set-up of a column of taps
constexpr double kLoadCycles = 1;        // loading a vector
constexpr double kProductCycles = 0.5;   // multiply-add of a vector
constexpr double kStoreCycles = 2;       // interleaving and storing a vector of two phases
constexpr double kScatterCycles = 2;     // loading or storing a single element
constexpr double kReduceCycles = 60;     // adding the lanes of a vector of taps
constexpr double kWidenCycles = 5;       // converting a vector from or to a 16-bit type
constexpr double kTransposeCycles = 20;  // transposing a vector to or from a copy
constexpr double kSlabCycles = 150;      // listing the taps of a block of rows
constexpr std::int64_t kGroup = 16;      // planes that share such a list

double volume(const std::int64_t (&sizes)[kernels::kSpatial]) {
  return static_cast<double>(sizes[0]) * static_cast<double>(sizes[1]) * static_cast<double>(sizes[2]);
}

/// Cycles of `taps` vertically adjacent taps for `rows` results, in columns of at most kColumnTaps taps.
double column_cycles(double rows, double taps, double load) {
  constexpr double kColumnTaps = 5;
  const auto column = [&](double height) {
    return height > 0 ? kColumnCycles + (rows + height - 1) * load + rows * height * kProductCycles : 0;
  };
  const double full = std::floor(taps / kColumnTaps);
  return full * column(kColumnTaps) + column(taps - full * kColumnTaps);
}

/// Cycles of loading a vector of the source; strided elements are loaded one by one.
double load_cycles(const Machine& m, const kernels::Depthwise& job) {
  const kernels::ConvShape& s = job.shape;
  if (job.channels_last) return s.c == 1 ? kLoadCycles / 2 : kLoadCycles;  // aligned; grouped: and permuted
  if (s.stride[2] == 1) return kLoadCycles;
  if (job.direction == ConvDirection::kBackwardData) return s.stride[2] == 2 ? kLoadCycles : 4;
  return s.stride[2] == 2 && m.masked() ? 2.2 * kLoadCycles : kScatterCycles * m.lanes(s.dtype);
}

/// Cycles of one image: for one vector of channels (NHWC), or for one result plane (NCHW).
double plane_cycles(const Machine& m, const kernels::Depthwise& job) {
  const kernels::ConvShape& s = job.shape;
  const bool data = job.direction == ConvDirection::kBackwardData;
  const double lanes = m.lanes(s.dtype), max_tile_rows = m.masked() ? 7 : 4;
  const std::int64_t(&size)[kernels::kSpatial] = data ? s.in : s.out;
  double taps[kernels::kSpatial], phases[kernels::kSpatial];
  for (int d = 0; d < kernels::kSpatial; ++d) {
    phases[d] = data ? static_cast<double>(std::min(s.stride[d], s.in[d])) : 1;
    taps[d] = static_cast<double>(s.taps[d]) / phases[d];
  }
  const auto along = [&](int d) { return static_cast<double>(size[d]) / phases[d]; };
  const double rows = std::min(std::ceil(along(1)), max_tile_rows),
               blocks = std::ceil(along(1) / max_tile_rows) * phases[1];
  const double across = job.channels_last ? std::ceil(along(2)) : std::ceil(along(2) / lanes);
  const double column = taps[0] * taps[2] * column_cycles(rows, taps[1], load_cycles(m, job));
  const auto planes = static_cast<double>(data                                                            ? s.k
                                          : job.direction == ConvDirection::kForward || job.channels_last ? s.c
                                                                                                          : 1);
  double tile = kTileCycles + planes / static_cast<double>(job.dot_group()) * column;
  if (!job.channels_last && data && s.stride[2] == 2) tile += kStoreCycles * rows;
  if (!job.channels_last && data && s.stride[2] > 2) tile += kScatterCycles * lanes * rows;
  const double slabs = static_cast<double>(size[0]);
  const double list = kSlabCycles / static_cast<double>(std::min(kGroup, s.groups * (data ? s.c : s.k)));
  return slabs * blocks * phases[2] * (across * tile + list);
}

/// Cycles of one piece.
double piece_cycles(const Machine& m, const kernels::Depthwise& job) {
  const kernels::ConvShape& s = job.shape;
  if (job.path == DepthwisePath::kNchwFewPixels) {
    const double vectors = static_cast<double>(std::min(s.groups, kernels::kDepthwisePixelsBlock)) / m.lanes(s.dtype);
    const double pixels = volume(s.in) + volume(s.out), products = volume(s.in) * volume(s.out);
    return vectors * (kTileCycles + pixels * kLoadCycles * 4 + products * kProductCycles);
  }
  if (job.copies_data_to_nhwc()) {
    kernels::Depthwise copy = job;
    copy.path = job.copy_path;
    copy.channels_last = true;
    copy.shape.n = job.copied_images;
    copy.shape.groups = kernels::kDepthwiseCopiedChannels / s.c;
    const double vectors =
        static_cast<double>(copy.shape.n * s.c * copy.shape.groups) * (volume(s.in) + volume(s.out)) / m.lanes(s.dtype);
    return static_cast<double>(copy.pieces()) * piece_cycles(m, copy) + kTransposeCycles / 4 * vectors;
  }
  if (job.copies_nhwc_to_fp32()) {
    kernels::Depthwise copy = job;
    copy.path = DepthwisePath::kNchw;
    copy.channels_last = false;
    copy.shape.dtype = DataType::kFloat;
    const bool all_images = job.direction == ConvDirection::kBackwardWeights;
    const double vectors = (static_cast<double>(s.c) * volume(s.in) + static_cast<double>(s.k) * volume(s.out)) *
                           static_cast<double>(all_images ? s.n : 1) / m.lanes(DataType::kFloat);
    return static_cast<double>(job.groups_per_piece()) * (piece_cycles(m, copy) + kTransposeCycles * vectors);
  }
  const double lanes = m.lanes(s.dtype), multiplier = static_cast<double>(s.k), plane = plane_cycles(m, job);
  const bool weights = job.direction == ConvDirection::kBackwardWeights;
  const double images = weights ? static_cast<double>(s.n) : 1, taps = volume(s.taps);
  if (job.channels_last) {
    const auto channels = static_cast<double>(job.channel_block());
    const auto rows = static_cast<double>((job.direction == ConvDirection::kForward ? s.out : s.in)[1]);
    const double part = weights ? 1 : std::ceil(rows / static_cast<double>(kernels::kRowBlock));
    const double conversion = size_of(s.dtype) <= 2 && job.dot_group() == 1 ? 1.3 : 1;
    return images * std::ceil(channels / lanes) * plane * conversion / part +
           (weights ? 2 * channels * taps * static_cast<double>(s.c) : 0);
  }
  const auto sources = static_cast<double>(s.c), results = job.direction == ConvDirection::kForward ? multiplier
                                                           : weights ? multiplier * sources
                                                                     : sources;
  double cycles = images * results * plane;
  if (size_of(s.dtype) <= 2)
    cycles += images * kWidenCycles * (sources * volume(s.in) + multiplier * volume(s.out)) / lanes;
  return cycles + (weights ? results * kReduceCycles * std::ceil(taps / lanes) : 0);
}

/// Set-up cycles of a task; with NHWC it transposes the weights.
double start_cycles(const kernels::Depthwise& job) {
  const bool transposes = job.is_nhwc_in_place() && job.direction != ConvDirection::kBackwardWeights;
  const kernels::ConvShape& s = job.shape;
  const auto channels = static_cast<double>(job.channel_block());
  return 200 + (transposes ? 1.5 * volume(s.taps) * channels * static_cast<double>(s.c) : 0);
}

/// Whether a group computes few result planes, in NCHW or in a copy.
bool has_few_results(const kernels::Depthwise& job) {
  constexpr std::int64_t kFew = 4;
  const kernels::ConvShape& s = job.shape;
  if (job.direction == ConvDirection::kBackwardWeights || job.is_nhwc_in_place()) return false;
  return (job.direction == ConvDirection::kForward ? s.k : s.c) <= kFew;
}

/// The most input and output channels per group that the grouped solver accepts: it reads every input plane again for
/// every two result planes.
std::int64_t most_channels(const kernels::Depthwise& job) { return has_few_results(job) ? 512 : 32; }

class CpuDepthwise final : public Solver<Problem> {
 public:
  CpuDepthwise(const SolverInfo& info, Direction d, bool grouped) : Solver(info), direction_(d), grouped_(grouped) {}

  ErrorClass error_class(const Problem& p) const override {
    return p.x.type == DataType::kInt8 ? ErrorClass::kExact : ErrorClass::kAccurate;
  }

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    POLYMIO_REQUIRE(p.direction == direction_, "computes another direction");
    const bool integer = p.x.type == DataType::kInt8;
    constexpr std::int64_t kMostProducts = (1 << 24) / (128 * 128) - 1;  // so that fp32 sums are exact
    const Verdict common = integer ? check_int8_problem(p, kMostProducts) : check_float_problem(p, direction_, true);
    if (!common) return common;
    POLYMIO_REQUIRE(
        p.epilogue.empty() || (p.scalars != Scalars::kBilinear && !p.epilogue.residual &&
                               kernels::restricts_range(p.epilogue.activation)),
        "fuses an epilogue only without beta and residual, with ReLU, clipped ReLU, clamp or no activation");
    const kernels::Depthwise job = job_of(d, p);
    const kernels::ConvShape& shape = job.shape;
    if (grouped_) {
      POLYMIO_REQUIRE(shape.c > 1, "each group must have more than one input channel");
      POLYMIO_REQUIRE_MOST(shape.c, most_channels(job), "input channels of a group");
      POLYMIO_REQUIRE_MOST(shape.k, most_channels(job), "output channels of a group");
      POLYMIO_REQUIRE(job.channels_last || shape.w_k == shape.c * shape.w_c,
                      "the filters' channels must be evenly spaced");
    } else {
      POLYMIO_REQUIRE(shape.c == 1, "each group must have one input channel");
    }
    if (job.channels_last) {
      POLYMIO_REQUIRE(p.x.strides[1] == 1 && p.y.strides[1] == 1, "width or channels must be contiguous in x and y");
      POLYMIO_REQUIRE(!job.copies_nhwc_to_fp32() || p.x.type != DataType::kDouble,
                      "groups with channels last are copied as fp32");
    }
    POLYMIO_REQUIRE_MOST(static_cast<std::int64_t>(kernels_of(d).scratch(job)),
                         has_few_results(job) ? kMaxScratchFewResults : kMaxScratch,
                         "bytes of scratch for padded planes");
    return {};
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint&) const override {
    const Machine m(d);
    const kernels::Depthwise job = job_of(d, p);
    const std::int64_t chunk = chunk_of(job, d.threads);
    Work work;
    work.pieces = static_cast<double>((job.pieces() + chunk - 1) / chunk);
    const double piece = piece_cycles(m, job), start = start_cycles(job);
    work.largest = start + static_cast<double>(chunk) * piece;
    work.cycles = work.pieces * start + static_cast<double>(job.pieces()) * piece;
    work.bytes = tensor_bytes(p);
    return m.loop_us(work, work.bytes);
  }

  Invoker build(Stream& stream, const Problem& p, const TunePoint&) const override {
    const kernels::DepthwiseKernels& kernels = kernels_of(stream.info());
    const kernels::Depthwise job = job_of(stream.info(), p);
    const std::size_t scratch = kernels.scratch(job);
    stream.reserve_scratch(scratch);
    const std::int64_t pieces = job.pieces();
    const std::int64_t chunk = chunk_of(job, stream.threads());
    const auto tasks = static_cast<std::size_t>((pieces + chunk - 1) / chunk);
    return [p, job, &kernels, scratch, pieces, chunk, tasks](Stream& on, const Args& a) {
      kernels::Depthwise call = job;
      const kernels::Epilogue epilogue = epilogue_job(p, a);
      if (!p.epilogue.empty()) call.epilogue = &epilogue;
      call.x = a.x;
      call.w = a.w;
      call.y = a.y;
      void* const results[] = {a.y, a.x, a.w};
      call.result = results[static_cast<int>(job.direction)];
      call.alpha = a.alpha;
      call.beta = a.beta;
      on.parallel_for(tasks, scratch, [&](std::size_t i, void* memory) {
        const std::int64_t first = static_cast<std::int64_t>(i) * chunk;
        kernels.run(call, first, std::min(first + chunk, pieces), memory);
      });
    };
  }

 private:
  Direction direction_;
  bool grouped_;
};

}  // namespace

std::unique_ptr<const SolverBase> cpu_depthwise(const SolverInfo& info, Direction d) {
  return std::make_unique<CpuDepthwise>(info, d, false);
}

std::unique_ptr<const SolverBase> cpu_grouped(const SolverInfo& info, Direction d) {
  return std::make_unique<CpuDepthwise>(info, d, true);
}

}  // namespace polymio::convolution
