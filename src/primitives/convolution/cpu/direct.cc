// ConvCpuDirect: forward convolution without a matrix product; every output is summed in registers over
// all channels and taps. fp32, channels first or last, no workspace.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>

#include "primitives/convolution/cpu/cost.h"
#include "primitives/convolution/cpu/products.h"
#include "primitives/convolution/solvers.h"

namespace polymio::convolution {
namespace {

constexpr std::int64_t kMostScratch = 2 << 20, kGoodScratch = 1 << 20;

/// Output rows of an image, or pixels of all images with channels last.
std::int64_t all_rows(const kernels::Direct& job) {
  const kernels::ConvShape& s = job.shape;
  return job.channels_last ? s.n * s.out[0] * s.out[1] * s.out[2] : s.out[1];
}

/// Cut into blocks of `rows`; 0: as large as the second-level cache likes, at least two a thread.
kernels::Direct job_of(const kernels::KernelTable& table, const Problem& p, int threads, std::int64_t rows) {
  kernels::Direct job;
  job.shape = conv_shape(p);
  job.channels_last = job.shape.x_d[2] != 1 || job.shape.y_d[2] != 1;
  job.rows = std::min(all_rows(job), rows > 0 ? rows : job.channels_last ? 1024 : INT64_MAX);
  const auto scratch = [&] { return static_cast<std::int64_t>(table.direct_scratch(job)); };
  if (rows > 0 && scratch() <= kMostScratch) return job;
  while (job.rows > 1 && (job.pieces() < 2 * threads || scratch() > kGoodScratch)) {
    job.rows = (job.rows + 1) / 2;
  }
  return job;
}

constexpr double kBlockCycles = 100;                             // a piece
constexpr double kSumsCycles = 25;                               // a register tile
constexpr double kWeightCycles = 0.5;                            // transposing an element
constexpr double kPadCycles = 45, kPadNext = 0.3, kPadStep = 1;  // a padded row, an element of it
constexpr double kPointCycles = 7;                               // a tap of a pixel: its address

/// Steps of the register tiles of `vectors` vectors in all, each `depth` deep; `loads` by vector and step.
double tile_cycles(double rows, double vectors, double depth, double loads) {
  const double tiles = std::ceil(vectors / 3), wide = std::fmod(vectors, tiles), width = std::floor(vectors / tiles);
  const auto step = [&](double v) { return std::max(Machine::tile_step(rows, v), (rows + loads * v + 1) / 2); };
  return depth * (wide * step(width + 1) + (tiles - wide) * step(width)) + tiles * kSumsCycles + rows * vectors * 2;
}

/// Transposing the weights of a group, an element.
double pack_cycles(const kernels::Direct& job) {
  return static_cast<double>(job.shape.k) * (30 + kWeightCycles * static_cast<double>(job.depth()));
}

double row_block_cycles(const Machine& m, const kernels::Direct& job) {
  const kernels::ConvShape& s = job.shape;
  const auto depth = static_cast<double>(job.depth()), rows = static_cast<double>(job.rows);
  const auto slabs = static_cast<double>((s.taps[0] - 1) * s.dilation[0] + 1);
  const auto lines = static_cast<double>((job.rows - 1) * s.stride[1] + (s.taps[1] - 1) * s.dilation[1] + 1);
  const auto width = static_cast<double>(s.out[2] * s.stride[2] + (s.taps[2] - 1) * s.dilation[2]);
  const double pad =
      static_cast<double>(s.c) * slabs * lines * (kPadCycles + width * (s.stride[2] == 1 ? kPadNext : kPadStep));
  const double vectors = std::ceil(static_cast<double>(s.out[2]) / m.lanes(DataType::kFloat));
  const std::int64_t rest = s.k % m.tile_rows();
  // Rows that are no vectors of their own straddle two cache lines: two loads.
  double tiles =
      static_cast<double>(s.k / m.tile_rows()) * tile_cycles(static_cast<double>(m.tile_rows()), vectors, depth, 2);
  for (std::int64_t part = m.tile_rows() / 2; part > 0; part /= 2)
    if ((rest & part) != 0) tiles += tile_cycles(static_cast<double>(part), vectors, depth, 2);
  return kBlockCycles + pad + 5 * depth + pack_cycles(job) + rows * tiles;
}

double pixel_block_cycles(const Machine& m, const kernels::Direct& job) {
  const kernels::ConvShape& s = job.shape;
  const auto taps = static_cast<double>(s.taps[0] * s.taps[1] * s.taps[2]), depth = static_cast<double>(job.depth());
  const double vectors = std::ceil(static_cast<double>(s.k) / m.lanes(DataType::kFloat));
  const double panels = std::ceil(vectors / 3);
  const double full = static_cast<double>(job.rows / m.tile_rows()),
               rest = static_cast<double>(job.rows % m.tile_rows());
  const double point = static_cast<double>(job.rows) * (20 + kPointCycles * taps);
  return kBlockCycles + point + pack_cycles(job) +
         full * (tile_cycles(static_cast<double>(m.tile_rows()), vectors, depth, 1) + panels * taps * 10) +
         rest * (tile_cycles(1, vectors, depth, 1) + panels * taps * 10);
}

/// Rows of a block: 0 is as usual, else a power of two that is another number of blocks.
Knob row_knob(const DeviceInfo& d, const Problem& p) {
  const kernels::KernelTable& table = kernel_table(d);
  const kernels::Direct usual = job_of(table, p, d.threads, 0);
  const std::int64_t all = all_rows(usual);
  Knob knob{"rows", {0}};
  for (std::int64_t rows = usual.channels_last ? 32 : 1; rows < 2 * all && rows <= 4096; rows *= 2) {
    const kernels::Direct job = job_of(table, p, d.threads, rows);
    if (job.rows == std::min(rows, all) && job.pieces() != usual.pieces())
      knob.values.push_back(static_cast<int>(rows));
  }
  return knob;
}

std::int64_t rows_of(const TunePoint& point) { return point.size() == 1 && point[0] > 0 ? point[0] : 0; }

class CpuDirect final : public Solver<Problem> {
 public:
  SolverInfo info() const override { return cpu_info(13, "ConvCpuDirectFwd", Algorithm::kDirect); }

  Verdict check(const DeviceInfo& d, const Problem& p) const override {
    const Verdict common = check_float_problem(p, Direction::kForward);
    if (!common) return common;
    POLYMIO_REQUIRE(p.x.type == DataType::kFloat, "computes fp32 only");
    const kernels::ConvShape s = conv_shape(p);
    POLYMIO_REQUIRE((s.x_d[2] == 1 && s.y_d[2] == 1) || (s.x_c == 1 && s.y_k == 1),
                    "width or channels must be contiguous in x and y");
    const kernels::KernelTable& table = kernel_table(d);
    POLYMIO_REQUIRE_MOST(static_cast<std::int64_t>(table.direct_scratch(job_of(table, p, d.units, 0))), kMostScratch,
                         "bytes of scratch for one block");
    return {};
  }

  TuneSpace knobs(const DeviceInfo& d, const Problem& p) const override { return {row_knob(d, p)}; }

  bool accepts(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    if (point.size() != 1) return false;
    const auto values = row_knob(d, p).values;
    return std::find(values.begin(), values.end(), point[0]) != values.end();
  }

  TunePoint start(const DeviceInfo&, const Problem&) const override { return {0}; }

  double predict(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    const Machine m(d);
    const kernels::Direct job = job_of(kernel_table(d), p, d.threads, rows_of(point));
    Work work;
    work.pieces = static_cast<double>(job.pieces());
    work.largest = job.channels_last ? pixel_block_cycles(m, job) : row_block_cycles(m, job);
    const std::int64_t rows = all_rows(job), blocks = (rows + job.rows - 1) / job.rows;
    work.cycles = work.largest * work.pieces * static_cast<double>(rows) / static_cast<double>(blocks * job.rows);
    work.bytes = tensor_bytes(p);
    return m.loop_us(work, work.bytes);
  }

  Invoker make(Stream& stream, const Problem& p, const TunePoint& point) const override {
    const kernels::KernelTable& table = kernel_table(stream.info());
    const kernels::Direct job = job_of(table, p, stream.threads(), rows_of(point));
    const std::size_t scratch = table.direct_scratch(job);
    stream.reserve_scratch(scratch);
    const auto tasks = static_cast<std::size_t>(job.pieces());
    return [job, &table, scratch, tasks](Stream& on, const Args& a) {
      kernels::Direct now = job;
      now.x = static_cast<const float*>(a.x);
      now.w = static_cast<const float*>(a.w);
      now.y = static_cast<float*>(a.y);
      now.alpha = static_cast<float>(a.alpha);
      now.beta = static_cast<float>(a.beta);
      on.parallel_for(tasks, scratch, [&](std::size_t i, void* memory) {
        const auto piece = static_cast<std::int64_t>(i);
        table.direct(now, piece, piece + 1, memory);
      });
    };
  }
};

}  // namespace

const Solver<Problem>& cpu_direct_forward() {
  static constexpr CpuDirect kSolver;
  return kSolver;
}

}  // namespace polymio::convolution
