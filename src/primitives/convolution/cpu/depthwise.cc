// ConvCpuDepthwise: one input channel a group, no matrix product, no workspace. Vectors run over the width
// (channels first) or over channels (channels last).
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>

#include "primitives/convolution/cpu/cost.h"
#include "primitives/convolution/cpu/products.h"
#include "primitives/convolution/solvers.h"

namespace polymio::convolution {
namespace {

constexpr std::int64_t kMostScratch = 2 << 20;

bool width_is_contiguous(const kernels::ConvShape& s) { return s.x_d[2] == 1 && s.y_d[2] == 1; }

kernels::Depthwise job_of(const Problem& p) {
  kernels::Depthwise job;
  job.shape = conv_shape(p);
  job.direction = kernel_direction(p.direction);
  job.channels_last = !width_is_contiguous(job.shape);
  return job;
}

/// Pieces of a task.
std::int64_t chunk_of(std::int64_t pieces, int threads) {
  return std::max<std::int64_t>(1, pieces / (std::int64_t{8} * threads));
}

using kernels::ConvDirection;

constexpr double kRowCycles = 13;    // a row of outputs
constexpr double kVectorCycles = 7;  // a vector of outputs, written
constexpr double kTapCycles = 1.5;   // a tap of a vector: a load across two cache lines
constexpr double kPlaneCycles = 27, kPlaneNext = 0.3, kPlaneStep = 1.6;  // a padded row, an element of it
constexpr double kReachCycles = 3;                                       // finding a tap of a pixel
constexpr double kChannelCycles = 2.2;                                   // a tap of a vector of channels
constexpr double kChannelSum = 1.1;     // the same for weights: one sum after the other
constexpr double kScatterCycles = 0.8;  // an element that is written on its own

double product(const std::int64_t (&sizes)[kernels::kSpatial]) {
  return static_cast<double>(sizes[0]) * static_cast<double>(sizes[1]) * static_cast<double>(sizes[2]);
}

/// Copying a plane with its padding.
double pad_cycles(const kernels::ConvShape& s, const std::int64_t (&size)[kernels::kSpatial], std::int64_t split) {
  double rows = 1;
  for (int i = 0; i + 1 < kernels::kSpatial; ++i) rows *= static_cast<double>(size[i] + 2 * s.pad[i]);
  return rows * (kPlaneCycles + static_cast<double>(size[2] + 2 * s.pad[2]) * (split == 1 ? kPlaneNext : kPlaneStep));
}

/// One piece with channels first: a plane, or all planes of a channel for weights.
double plane_cycles(const Machine& m, const kernels::Depthwise& job) {
  const kernels::ConvShape& s = job.shape;
  const double lanes = m.lanes(s.dtype), taps = product(s.taps), multiplier = static_cast<double>(s.k);
  const auto vectors = [&](std::int64_t width) { return std::ceil(static_cast<double>(width) / lanes); };
  const auto rows = static_cast<double>(s.out[0] * s.out[1]);
  if (job.direction == ConvDirection::kForward)
    return pad_cycles(s, s.in, s.stride[2]) +
           multiplier * (5 * taps + rows * (kRowCycles + vectors(s.out[2]) * (kVectorCycles + taps * kTapCycles)));
  if (job.direction == ConvDirection::kBackwardWeights) {
    const double turns = std::ceil(taps / 9),
                 image = rows * (turns * kRowCycles + vectors(s.out[2]) * taps * kTapCycles);
    return static_cast<double>(s.n) * (pad_cycles(s, s.in, s.stride[2]) + multiplier * image) + 40 * taps * multiplier;
  }
  // Each output row is one of a phase in each dimension, which has its part of the taps.
  const double phase_taps = taps / product(s.stride), phases = static_cast<double>(std::min(s.stride[2], s.in[2]));
  const auto width = static_cast<double>(s.in[2]);
  const double write = s.stride[2] == 1 ? 0 : width * kScatterCycles;
  const double row = phases * (kRowCycles + vectors((s.in[2] + s.stride[2] - 1) / s.stride[2]) *
                                                (kVectorCycles + multiplier * phase_taps * kTapCycles));
  return multiplier * (pad_cycles(s, s.out, 1) + 10 * taps) + static_cast<double>(s.in[0] * s.in[1]) * (row + write);
}

/// One piece with channels last: a row of pixels, or a block of channels for weights.
double pixels_cycles(const Machine& m, const kernels::Depthwise& job) {
  const kernels::ConvShape& s = job.shape;
  const double lanes = m.lanes(s.dtype), taps = product(s.taps);
  if (job.direction == ConvDirection::kBackwardWeights) {
    const auto channels = static_cast<double>(std::min(kernels::kChannelBlock, s.groups));
    const double row = taps * (20 + std::ceil(channels / lanes) * (10 + kChannelSum * static_cast<double>(s.out[2])));
    return static_cast<double>(s.n * s.out[0] * s.out[1]) * row + 200 * taps;
  }
  const bool forward = job.direction == ConvDirection::kForward;
  const double reached = forward ? taps : taps / product(s.stride);
  const double vectors = std::ceil(static_cast<double>(s.groups) / lanes);
  const double pixel = kRowCycles + taps * kReachCycles * (forward ? 1 : 2) + vectors * (4 + kChannelCycles * reached);
  return static_cast<double>(forward ? s.out[2] : s.in[2]) * pixel;
}

double piece_cycles(const Machine& m, const kernels::Depthwise& job) {
  return job.channels_last ? pixels_cycles(m, job) : plane_cycles(m, job);
}

/// What each task does first: with channels last it transposes the weights.
double start_cycles(const kernels::Depthwise& job) {
  const bool transposes = job.channels_last && job.direction != ConvDirection::kBackwardWeights;
  return 60 + (transposes ? 2 * product(job.shape.taps) * static_cast<double>(job.shape.groups) : 0);
}

class CpuDepthwise final : public Solver<Problem> {
 public:
  constexpr explicit CpuDepthwise(Direction d) : direction_(d) {}

  SolverInfo info() const override {
    static constexpr const char* kNames[] = {"ConvCpuDepthwiseFwd", "ConvCpuDepthwiseBwd", "ConvCpuDepthwiseWrw"};
    const auto i = static_cast<std::size_t>(direction_);
    return cpu_info(10 + i, kNames[i], Algorithm::kDirect);
  }

  Verdict check(const DeviceInfo& d, const Problem& p) const override {
    const Verdict common = check_float_problem(p, direction_);
    if (!common) return common;
    POLYMIO_REQUIRE(p.c() == p.groups(), "each group must have one input channel");
    POLYMIO_REQUIRE(p.x.type == DataType::kFloat || p.x.type == DataType::kDouble, "computes fp32 and fp64 only");
    const kernels::Depthwise job = job_of(p);
    if (job.channels_last) {
      POLYMIO_REQUIRE(p.x.strides[1] == 1 && p.y.strides[1] == 1, "width or channels must be contiguous in x and y");
      POLYMIO_REQUIRE(p.k() == p.c(), "with channels last, each group must have one output channel");
    }
    POLYMIO_REQUIRE_MOST(static_cast<std::int64_t>(kernel_table(d).depthwise_scratch(job)), kMostScratch,
                         "bytes of scratch for one padded plane");
    return {};
  }

  double predict(const DeviceInfo& d, const Problem& p, const TunePoint&) const override {
    const Machine m(d);
    const kernels::Depthwise job = job_of(p);
    const std::int64_t chunk = chunk_of(job.pieces(), d.threads);
    Work work;
    work.pieces = static_cast<double>((job.pieces() + chunk - 1) / chunk);
    const double piece = piece_cycles(m, job), start = start_cycles(job);
    work.largest = start + static_cast<double>(chunk) * piece;
    work.cycles = work.pieces * start + static_cast<double>(job.pieces()) * piece;
    work.bytes = tensor_bytes(p);
    return m.loop_us(work, work.bytes);
  }

  Invoker make(Stream& stream, const Problem& p, const TunePoint&) const override {
    const kernels::KernelTable& table = kernel_table(stream.info());
    const kernels::Depthwise job = job_of(p);
    const std::size_t scratch = table.depthwise_scratch(job);
    stream.reserve_scratch(scratch);
    const std::int64_t pieces = job.pieces();
    const std::int64_t chunk = chunk_of(pieces, stream.threads());
    const auto tasks = static_cast<std::size_t>((pieces + chunk - 1) / chunk);
    return [job, &table, scratch, pieces, chunk, tasks](Stream& on, const Args& a) {
      kernels::Depthwise now = job;
      now.x = a.x;
      now.w = a.w;
      now.y = a.y;
      void* const results[] = {a.y, a.x, a.w};
      now.result = results[static_cast<int>(job.direction)];
      now.alpha = a.alpha;
      now.beta = a.beta;
      on.parallel_for(tasks, scratch, [&](std::size_t i, void* memory) {
        const std::int64_t first = static_cast<std::int64_t>(i) * chunk;
        table.depthwise(now, first, std::min(first + chunk, pieces), memory);
      });
    };
  }

 private:
  Direction direction_;
};

}  // namespace

const Solver<Problem>& cpu_depthwise(Direction d) {
  static constexpr CpuDepthwise kSolvers[] = {CpuDepthwise(Direction::kForward), CpuDepthwise(Direction::kBackwardData),
                                              CpuDepthwise(Direction::kBackwardWeights)};
  return kSolvers[static_cast<int>(d)];
}

}  // namespace polymio::convolution
