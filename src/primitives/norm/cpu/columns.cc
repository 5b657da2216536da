// NormCpuColumns: group norm where neighbouring channels are contiguous (NHWC). Moments of each channel are merged to
// those of its group, then y is a map with a mean and a factor for each channel.
// SPDX-License-Identifier: MIT
#include <memory>
#include <vector>

#include "kernels/cpu/kernels_of.h"
#include "kernels/cpu/norm.h"
#include "primitives/common/caches.h"
#include "primitives/common/map.h"
#include "primitives/norm/solvers.h"

namespace polymio::norm {
namespace {

constexpr std::int64_t kLeastChannels = 16;  // as many as reduce() takes as columns

/// Channels of one image and the passes over them.
struct Channels {
  const Problem p;
  common::RowLoops moments;
  Tiles map;
  const kernels::Reduction<>* kernel;
  const kernels::NormKernels& kernels;
  bool non_temporal;

  /// T: type of the arithmetic.
  template <class T>
  void run(Stream& stream, const Problem::Args& a) const {
    const std::int64_t channels = p.x.lens[1], of_group = channels / p.extent.groups;
    std::vector<T> mean(static_cast<std::size_t>(p.x.lens[0] * channels)), scale(mean.size());
    const std::size_t size = size_of(p.x.type);
    common::Operands x;
    x.outputs = 0;
    x.push(a.x, size);
    double group[kernels::kMaxAccumulators];
    const kernels::NormJob job;
    common::reduce<double>(stream, moments, x, *kernel, &job, [&](std::int64_t i, double* values) {
      if (i % of_group == 0) kernel->start(&job, group);
      kernel->merge(&job, 1, values, group, 1);
      if ((i + 1) % of_group != 0) return;
      kernels.statistics(false, group[0], a.epsilon, 1, group, 1);
      const std::int64_t row = i / of_group;
      if (a.mean) dtype::store(p.statistics, a.mean, row, group[0]);
      if (a.rstd) dtype::store(p.statistics, a.rstd, row, group[1]);
      for (std::int64_t c = row * of_group; c <= i; ++c) {
        const double weight = a.weight ? dtype::load(p.parameters, a.weight, c % channels) : 1;
        mean[static_cast<std::size_t>(c)] = static_cast<T>(group[0]);
        scale[static_cast<std::size_t>(c)] = static_cast<T>(group[1] * weight);
      }
    });
    common::Operands operands;
    operands.push(a.y, size);
    operands.push(a.x, size);
    operands.push(mean.data(), sizeof(T));
    operands.push(scale.data(), sizeof(T));
    if (p.affine == Affine::kYes) operands.push(a.bias, size_of(p.parameters));
    const kernels::NormVariant v{p.x.type,    p.parameters, p.statistics, false, false, p.affine == Affine::kYes,
                                 non_temporal};
    common::map(stream, map, operands, [&](const kernels::Run& run) { kernels.normalize(v, run); });
  }
};

class CpuColumns final : public Solver<Problem> {
 public:
  CpuColumns(const SolverInfo& info, Direction d) : Solver(info), direction_(d) {}

  Verdict is_applicable(const DeviceInfo&, const Problem& p) const override {
    POLYMIO_REQUIRE(p.direction == direction_, "computes another direction");
    POLYMIO_REQUIRE(p.kind == Kind::kGroup, "computes group norm only");
    POLYMIO_REQUIRE(p.x.lens[1] >= kLeastChannels && p.x.strides[1] == 1, "the channels must be contiguous");
    return {};
  }

  TuneSpace tune_space(const DeviceInfo&, const Problem&) const override { return {{"non_temporal", {0, 1}}}; }
  bool is_valid(const DeviceInfo& d, const Problem& p, const TunePoint& t) const override {
    return t[0] == 0 || p.work() > static_cast<double>(d.cache_bytes[1]);
  }
  TunePoint default_point(const DeviceInfo& d, const Problem& p) const override {
    return {common::exceeds_caches(d, p.work()) ? 1 : 0};
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& t) const override {
    return 4 + traffic_us(d, p, 1, t[0] != 0);
  }

  Invoker build(Stream& stream, const Problem& p, const TunePoint& t) const override {
    const auto& kernels = kernels::kernels_of<kernels::NormKernels>(stream.info().isa);
    const TensorDesc x = split(p, p.x), y = split(p, p.y), parameter = parameter_desc(p);
    TensorDesc of_channel = statistic_desc(p);
    of_channel.lens[2] = x.lens[2];
    of_channel.strides[0] = p.x.lens[1];
    of_channel.strides[1] = x.lens[2];
    const TensorDesc* const reduced[] = {&x};
    std::vector<const TensorDesc*> mapped = {&y, &x, &of_channel, &of_channel};
    if (p.affine == Affine::kYes) mapped.push_back(&parameter);
    const Channels pass{p,
                        common::row_loops(make_loop(reduced), [](std::size_t d) { return d > 2; }),
                        Tiles(simplified_loop(mapped)),
                        kernels.forward({p.x.type, p.x.type, p.x.type}),
                        kernels,
                        t[0] != 0};
    return [pass](Stream& on, const Args& a) {
      pass.p.x.type == DataType::kDouble ? pass.run<double>(on, a) : pass.run<float>(on, a);
    };
  }

 private:
  Direction direction_;
};

}  // namespace

std::unique_ptr<const SolverBase> cpu_columns(const SolverInfo& info, Direction d) {
  return std::make_unique<CpuColumns>(info, d);
}

}  // namespace polymio::norm
