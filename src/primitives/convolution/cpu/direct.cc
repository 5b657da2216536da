// ConvCpuDirect: forward convolution without a matrix product; every output is summed in registers over
// all channels and taps. fp32, channels first or last, no workspace.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>

#include "primitives/convolution/cpu/products.h"
#include "primitives/convolution/solvers.h"

namespace polymio::convolution {
namespace {

constexpr std::int64_t kMostScratch = 2 << 20, kGoodScratch = 1 << 20;

/// Cut into blocks as large as the second-level cache likes, at least two a thread.
kernels::Direct job_of(const kernels::KernelTable& table, const Problem& p, int threads) {
  kernels::Direct job;
  job.shape = conv_shape(p);
  job.channels_last = job.shape.x_d[2] != 1 || job.shape.y_d[2] != 1;
  const auto pixels = static_cast<std::int64_t>(p.y.count() / p.k());
  job.rows = job.channels_last ? std::min<std::int64_t>(pixels, 1024) : job.shape.out[1];
  const auto too_much = [&] { return static_cast<std::int64_t>(table.direct_scratch(job)) > kGoodScratch; };
  while (job.rows > 1 && (job.pieces() < 2 * threads || too_much())) {
    job.rows = (job.rows + 1) / 2;
  }
  return job;
}

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
    POLYMIO_REQUIRE_MOST(static_cast<std::int64_t>(table.direct_scratch(job_of(table, p, d.units))), kMostScratch,
                         "bytes of scratch for one block");
    return {};
  }

  double predict(const DeviceInfo& d, const Problem& p, const TunePoint&) const override {
    const kernels::ConvShape s = conv_shape(p);
    const bool rows = s.x_d[2] == 1 && s.y_d[2] == 1;
    const auto lanes = static_cast<double>(rows ? s.out[2] : s.k);
    // Each block packs the weights it uses again.
    const auto pixels = static_cast<double>(s.out[1] * s.out[2] * (rows ? 1 : s.n));
    const double efficiency = 0.8 * lanes / (std::ceil(lanes / 16) * 16) * pixels / (pixels + 200);
    return roofline_us(d, p, s.stride[2] == 1 ? efficiency : efficiency / 2, tensor_bytes(p));
  }

  Invoker make(Stream& stream, const Problem& p, const TunePoint&) const override {
    const kernels::KernelTable& table = kernel_table(stream.info());
    const kernels::Direct job = job_of(table, p, stream.threads());
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
