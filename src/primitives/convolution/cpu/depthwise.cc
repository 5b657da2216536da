// ConvCpuDepthwise: one input channel a group, no matrix product, no workspace. Vectors run over the width
// (channels first) or over channels (channels last).
// SPDX-License-Identifier: MIT
#include <algorithm>

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
    return roofline_us(d, p, 0.15, tensor_bytes(p));
  }

  Invoker make(Stream& stream, const Problem& p, const TunePoint&) const override {
    const kernels::KernelTable& table = kernel_table(stream.info());
    const kernels::Depthwise job = job_of(p);
    const std::size_t scratch = table.depthwise_scratch(job);
    stream.reserve_scratch(scratch);
    const std::int64_t pieces = job.pieces();
    const std::int64_t chunk = std::max<std::int64_t>(1, pieces / (std::int64_t{8} * stream.threads()));
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
