// ConvCpuFft: forward and backward data of stride 1 by products of spectra; wins with large filters. Either every stage
// is a parallel loop over all tiles, with spectra in workspace, or every block of tiles goes through all stages in one
// thread's scratch.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "primitives/convolution/cpu/cost.h"
#include "primitives/convolution/cpu/products.h"
#include "primitives/convolution/convolution.h"

namespace polymio::convolution {
namespace {

using kernels::ConvShape;
using kernels::Fft;
using kernels::FftStage;

constexpr int kBlocks[] = {0, 4, 8, 16, 32};  // tiles per block in scratch; 0: all tiles, in workspace

/// Backward data as a forward convolution of dy with reversed taps.
ConvShape forward_shape(const Problem& p) {
  ConvShape s = conv_shape(p);
  if (p.direction != Direction::kBackwardData) return s;
  std::swap(s.c, s.k);
  std::swap(s.in, s.out);
  std::swap(s.x_n, s.y_n);
  std::swap(s.x_c, s.y_k);
  std::swap(s.x_d, s.y_d);
  std::swap(s.w_k, s.w_c);
  for (int d = 0; d < kernels::kSpatial; ++d) {
    s.pad[d] = (s.taps[d] - 1) * s.dilation[d] - s.pad[d];
    s.w_d[d] = -s.w_d[d];
  }
  return s;
}

/// Offset of the shape's first tap in w, in elements: the last one in memory if taps are reversed.
std::int64_t first_tap(const ConvShape& s) {
  std::int64_t offset = 0;
  for (int d = 0; d < kernels::kSpatial; ++d) offset -= std::min<std::int64_t>(0, s.w_d[d]) * (s.taps[d] - 1);
  return offset;
}

Fft job_of(const DeviceInfo& d, const Problem& p, int tile) {
  Fft job;
  job.shape = forward_shape(p);
  job.lanes = d.isa >= CpuIsa::kAvx512 ? 16 : d.isa == CpuIsa::kAvx2 ? 8 : 4;
  ConvShape& s = job.shape;
  job.depthwise = s.groups > 1 && s.c == 1 && s.k == 1;
  if (job.depthwise) {
    if (p.direction == Direction::kBackwardData) s.w_k = s.w_c;  // the stride between groups
    s.c = s.k = s.groups;
    s.groups = 1;
  }
  job.cut(tile);
  return job;
}

/// The blocks of a problem at a tune point.
struct FftPlan {
  Fft job;  // the first and largest block
  bool in_scratch = false;

  std::int64_t row_blocks() const { return (job.tiles[0] + job.rows - 1) / job.rows; }
  std::int64_t image_blocks() const { return (job.shape.n + job.images - 1) / job.images; }
  std::int64_t blocks() const { return row_blocks() * image_blocks(); }
  Fft block(std::int64_t i) const {
    Fft b = job;
    b.row = i % row_blocks() * job.rows;
    b.image = i / row_blocks() * job.images;
    b.rows = std::min(job.rows, job.tiles[0] - b.row);
    b.images = std::min(job.images, job.shape.n - b.image);
    return b;
  }
  std::size_t w_bytes() const { return bytes(job.w_frequency()); }
  std::size_t x_bytes() const { return bytes(job.x_frequency()); }
  std::size_t y_bytes() const { return bytes(job.y_frequency()); }
  std::size_t scratch() const { return job.scratch() + (in_scratch ? x_bytes() + y_bytes() : 0); }
  std::size_t workspace() const { return 64 + w_bytes() + (in_scratch ? 0 : x_bytes() + y_bytes()); }

 private:
  std::size_t bytes(std::int64_t vectors) const {
    return (static_cast<std::size_t>(job.floats(vectors)) * sizeof(float) + 63) / 64 * 64;
  }
};

/// Cuts into blocks of about `tiles` tiles.
void cut(Fft& job, std::int64_t tiles) {
  const std::int64_t row = job.tiles[1], image = row * job.tiles[0];
  job.images = std::clamp<std::int64_t>(tiles / image, 1, job.shape.n);
  const std::int64_t rows = std::clamp<std::int64_t>(tiles / row, 1, job.tiles[0]);
  const std::int64_t blocks = (job.tiles[0] + rows - 1) / rows;
  job.rows = (job.tiles[0] + blocks - 1) / blocks;
}

FftPlan plan_of(const DeviceInfo& d, const Problem& p, const TunePoint& point) {
  FftPlan plan{job_of(d, p, point[0])};
  plan.in_scratch = point[1] > 0;
  cut(plan.job, point[1] > 0 ? point[1] : INT64_MAX);
  return plan;
}

/// Cycles (see Machine) of transforming one vector of channels of a tile. Measured, as kMultiplyShare is; machine and
/// command were not recorded.
struct TransformCycles {
  double filter, input, output;
};
constexpr TransformCycles kSmallTile{8e3, 8e3, 6e3}, kLargeTile{40e3, 45e3, 36e3};
constexpr double kMultiplyShare = 0.6;  // of the peak
constexpr double kScattered = 4;        // slowdown of memory traffic: frequencies are pages apart

double cycles_of(const Machine& m, const Fft& job, double blocks) {
  const TransformCycles cost = job.tile == 16 ? kSmallTile : kLargeTile;
  const auto pieces = [&](FftStage stage) { return static_cast<double>(job.pieces(stage)); };
  const double parts = static_cast<double>(job.parts[0] * job.parts[1]);
  const double channels = job.depthwise ? m.lanes(DataType::kFloat) : static_cast<double>(job.shape.c);
  const double products = pieces(FftStage::kMultiply) * static_cast<double>(job.places() * job.y_vectors()) * channels;
  return pieces(FftStage::kWeights) * cost.filter +
         blocks * (pieces(FftStage::kInput) * cost.input + 2 * products * parts / kMultiplyShare +
                   pieces(FftStage::kOutput) * cost.output);
}

class CpuFft final : public Solver<Problem> {
 public:
  CpuFft(const SolverInfo& info, Direction d) : Solver(info), direction_(d) {}

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    const Verdict common = check_float_problem(p, direction_);
    if (!common) return common;
    POLYMIO_REQUIRE(p.x.type != DataType::kDouble, "computes fp32, fp16 and bf16 only");
    const Fft job = job_of(d, p, 32);
    const ConvShape& s = job.shape;
    POLYMIO_REQUIRE(s.in[0] == 1 && s.out[0] == 1 && s.taps[0] == 1, "computes two dimensions only");
    POLYMIO_REQUIRE(s.stride[1] == 1 && s.stride[2] == 1, "the strides must be 1");
    POLYMIO_REQUIRE(s.taps[1] > 1 || s.taps[2] > 1, "the filter has one tap");
    POLYMIO_REQUIRE((s.x_d[2] == 1 || s.x_c == 1) && (s.y_d[2] == 1 || s.y_k == 1),
                    "width or channels must be contiguous in x and y");
    // Outputs that only see padding must be exactly zero; the FFT would give rounding errors of their tile.
    POLYMIO_REQUIRE(s.pad[1] < job.reach(0) && s.pad[2] < job.reach(1), "some results are of padding only");
    POLYMIO_REQUIRE(s.in[1] >= s.dilation[1] && s.in[2] >= s.dilation[2], "some results are of padding only");
    POLYMIO_REQUIRE_MOST(std::max(job.parts[0], job.parts[1]), kernels::kFftParts, "parts of the filter");
    return {};
  }

  ErrorClass error_class(const Problem&) const override { return ErrorClass::kApproximate; }

  TuneSpace tune_space(const DeviceInfo&, const Problem&) const override {
    return {{"tile", {16, 32}}, {"block", {std::begin(kBlocks), std::end(kBlocks)}}};
  }

  bool is_valid(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    if (point.size() != 2 || (point[0] != 16 && point[0] != 32)) return false;
    if (std::find(std::begin(kBlocks), std::end(kBlocks), point[1]) == std::end(kBlocks)) return false;
    const FftPlan plan = plan_of(d, p, point);
    return std::max(plan.job.parts[0], plan.job.parts[1]) <= kernels::kFftParts &&
           plan.scratch() <= static_cast<std::size_t>(kMaxScratch);
  }

  TunePoint default_point(const DeviceInfo& d, const Problem& p) const override {
    // The tile size changes results, so it must not depend on the number of threads, as estimate() does.
    const Machine m(d);
    const auto cost = [&](const TunePoint& t) {
      const FftPlan plan = plan_of(d, p, t);
      constexpr double kByteCycles = 0.3;
      return cycles_of(m, plan.job, 1) + 2 * kScattered * kByteCycles * static_cast<double>(plan.workspace());
    };
    const TunePoint small{16, 0}, large{32, 0};
    return is_valid(d, p, small) && cost(small) < cost(large) ? small : large;
  }

  std::size_t workspace_size(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    return plan_of(d, p, point.empty() ? default_point(d, p) : point).workspace();
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    const Machine m(d);
    const FftPlan plan = plan_of(d, p, point.empty() ? default_point(d, p) : point);
    const auto blocks = static_cast<double>(plan.blocks());
    const auto w = static_cast<double>(plan.w_bytes());
    const double spectra = static_cast<double>(plan.x_bytes() + plan.y_bytes()) * blocks;
    Work work;
    work.cycles = static_cast<double>(plan.job.shape.groups) * cycles_of(m, plan.job, blocks);
    work.pieces = plan.in_scratch ? blocks : 8.0 * d.threads;
    work.largest = work.cycles / work.pieces;
    const double moved = plan.in_scratch ? w * (1 + blocks) : 2 * (w + spectra);
    work.bytes = tensor_bytes(p) + static_cast<double>(plan.job.shape.groups) * kScattered * moved;
    return m.loop_us(work, tensor_bytes(p) + (plan.in_scratch ? w : w + spectra));
  }

  Invoker build(Stream& stream, const Problem& p, const TunePoint& point) const override {
    const FftPlan plan = plan_of(stream.info(), p, point);
    stream.reserve_scratch(plan.scratch());
    return [plan, &table = kernel_table(stream.info()), first = first_tap(plan.job.shape),
            backward = direction_ == Direction::kBackwardData](Stream& on, const Args& a) {
      Fft job = plan.job;
      const auto size = static_cast<std::int64_t>(size_of(job.shape.dtype));
      job.alpha = static_cast<float>(a.alpha);
      job.beta = static_cast<float>(a.beta);
      const auto address = reinterpret_cast<std::uintptr_t>(a.workspace);
      job.w_spectra = reinterpret_cast<float*>((address + 63) / 64 * 64);
      for (std::int64_t g = 0; g < job.shape.groups; ++g) {
        job.x = static_cast<const char*>(backward ? a.y : a.x) + g * job.shape.c * job.shape.x_c * size;
        job.y = static_cast<char*>(backward ? a.x : a.y) + g * job.shape.k * job.shape.y_k * size;
        // The shape's k are the output channels of the direction, so w_k is swapped for backward data.
        const std::int64_t group = backward ? job.shape.c * job.shape.w_c : job.shape.k * job.shape.w_k;
        job.w = static_cast<const char*>(a.w) + (g * group + first) * size;
        run_group(on, table, plan, job);
      }
    };
  }

 private:
  static void run_stage(Stream& stream, const kernels::KernelTable& table, const Fft& job, FftStage stage) {
    const std::int64_t pieces = job.pieces(stage);
    const std::int64_t tasks = std::min<std::int64_t>(pieces, std::int64_t{8} * stream.threads());
    stream.parallel_for(static_cast<std::size_t>(tasks), job.scratch(), [&](std::size_t i, void* scratch) {
      const auto task = static_cast<std::int64_t>(i);
      table.fft(job, stage, pieces * task / tasks, pieces * (task + 1) / tasks, scratch);
    });
  }

  static void run_group(Stream& stream, const kernels::KernelTable& table, const FftPlan& plan, const Fft& job) {
    run_stage(stream, table, job, FftStage::kWeights);
    const auto of_block = [&](std::int64_t i) {
      Fft b = plan.block(i);
      b.x = job.x;
      b.y = job.y;
      b.alpha = job.alpha;
      b.beta = job.beta;
      b.w_spectra = job.w_spectra;
      return b;
    };
    if (plan.in_scratch) {
      stream.parallel_for(static_cast<std::size_t>(plan.blocks()), plan.scratch(), [&](std::size_t i, void* scratch) {
        Fft b = of_block(static_cast<std::int64_t>(i));
        b.x_spectra = reinterpret_cast<float*>(static_cast<char*>(scratch) + job.scratch());
        b.y_spectra = b.x_spectra + plan.x_bytes() / sizeof(float);
        for (const FftStage stage : {FftStage::kInput, FftStage::kMultiply, FftStage::kOutput})
          table.fft(b, stage, 0, b.pieces(stage), scratch);
      });
      return;
    }
    for (std::int64_t i = 0; i < plan.blocks(); ++i) {
      Fft b = of_block(i);
      b.x_spectra = b.w_spectra + plan.w_bytes() / sizeof(float);
      b.y_spectra = b.x_spectra + plan.x_bytes() / sizeof(float);
      for (const FftStage stage : {FftStage::kInput, FftStage::kMultiply, FftStage::kOutput})
        run_stage(stream, table, b, stage);
    }
  }

  Direction direction_;
};

}  // namespace

std::unique_ptr<const SolverBase> cpu_fft(const SolverInfo& info, Direction d) {
  return std::make_unique<CpuFft>(info, d);
}

}  // namespace polymio::convolution
