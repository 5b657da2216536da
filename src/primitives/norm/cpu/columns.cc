// NormCpuColumns: group norm where neighbouring channels are contiguous (NHWC). Moments of each channel are merged to
// those of its group, then y is a map with a mean and a factor for each channel. Neighbouring pixels of few channels
// are one pixel of many.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "kernels/cpu/kernels_of.h"
#include "kernels/cpu/norm.h"
#include "primitives/common/caches.h"
#include "primitives/common/map.h"
#include "primitives/norm/solvers.h"

namespace polymio::norm {
namespace {

constexpr std::int64_t kLeastColumns = 16;  // as many as reduce() takes as columns
constexpr std::int64_t kMerged = 128;       // columns that pixels are merged to: one thread merges their moments
constexpr std::int64_t kMostMerged = 512;   // if no fewer are possible

/// How many neighbouring pixels of few channels become one, with as many columns as channels of all of them.
std::int64_t merged_pixels(const Problem& p) {
  const std::int64_t channels = p.x.lens[1], pixels = p.x.count() / (p.x.lens[0] * channels);
  if (channels >= kLeastColumns) return 1;
  TensorDesc image = p.x;
  image.lens[0] = 1;
  const bool same = std::equal(p.x.strides.begin() + 1, p.x.strides.begin() + p.x.rank, p.y.strides.begin() + 1);
  if (!same || p.x.strides[1] != 1 || !image.packed()) return 1;
  const auto divides = [&](std::int64_t n) { return pixels % n == 0; };
  std::int64_t merged = std::min(kMerged / channels, pixels);
  while (!divides(merged)) --merged;
  if (merged * channels >= kLeastColumns) return merged;
  for (std::int64_t more = kMerged / channels; more <= kMostMerged / channels; ++more)
    if (divides(more)) return more;
  return 1;
}

/// The tensor with neighbouring pixels merged.
TensorDesc with_merged(const TensorDesc& t, std::int64_t merged) {
  if (merged == 1) return t;
  const std::int64_t columns = t.lens[1] * merged;
  return make_tensor(t.type, std::array{t.lens[0], columns, t.count() / (t.lens[0] * columns)},
                     std::array{t.strides[0], std::int64_t{1}, columns});
}

/// Columns of one image and the passes over them.
struct Columns {
  const Problem p;
  std::int64_t columns;  // of an image, channel by channel of each merged pixel
  common::RowLoops moments;
  Tiles map;
  const kernels::Reduction<>* kernel;
  const kernels::NormKernels& kernels;
  bool non_temporal;

  /// T: type of the arithmetic.
  template <class T>
  void run(Stream& stream, const Problem::Args& a) const {
    const std::int64_t channels = p.x.lens[1], groups = p.extent.groups, of_group = channels / groups;
    std::vector<T> mean(static_cast<std::size_t>(p.x.lens[0] * columns)), scale(mean.size());
    std::vector<T> bias(static_cast<std::size_t>(p.affine == Affine::kYes ? columns : 0));
    for (std::size_t c = 0; c < bias.size(); ++c)
      bias[c] = static_cast<T>(dtype::load(p.parameters, a.bias, static_cast<std::int64_t>(c) % channels));
    const std::size_t size = size_of(p.x.type);
    common::Operands x;
    x.outputs = 0;
    x.push(a.x, size);
    std::vector<std::array<double, kernels::kMaxAccumulators>> of_image(static_cast<std::size_t>(groups));
    const kernels::NormJob job;
    common::reduce<double>(stream, moments, x, *kernel, &job, [&](std::int64_t i, double* values) {
      const std::int64_t column = i % columns, image = i / columns;
      if (column == 0)
        for (auto& group : of_image) kernel->start(&job, group.data());
      kernel->merge(&job, 1, values, of_image[static_cast<std::size_t>(column % channels / of_group)].data(), 1);
      if (column + 1 < columns) return;
      for (std::int64_t g = 0; g < groups; ++g) {
        double* const group = of_image[static_cast<std::size_t>(g)].data();
        kernels.statistics(false, group[0], a.epsilon, 1, group, 1);
        if (a.mean) dtype::store(p.statistics, a.mean, image * groups + g, group[0]);
        if (a.rstd) dtype::store(p.statistics, a.rstd, image * groups + g, group[1]);
      }
      for (std::int64_t c = 0; c < columns; ++c) {
        const std::int64_t channel = c % channels;
        const auto& group = of_image[static_cast<std::size_t>(channel / of_group)];
        const double weight = a.weight ? dtype::load(p.parameters, a.weight, channel) : 1;
        mean[static_cast<std::size_t>(image * columns + c)] = static_cast<T>(group[0]);
        scale[static_cast<std::size_t>(image * columns + c)] = static_cast<T>(group[1] * weight);
      }
    });
    common::Operands operands;
    operands.push(a.y, size);
    operands.push(a.x, size);
    for (const std::vector<T>* values : {&mean, &scale, &bias})
      if (!values->empty()) operands.push(values->data(), sizeof(T));
    const DataType type = sizeof(T) == sizeof(double) ? DataType::kDouble : DataType::kFloat;
    const kernels::NormVariant v{p.x.type, type, p.statistics, false, false, p.affine == Affine::kYes, non_temporal};
    common::map(stream, map, operands, [&](const kernels::Run& run) { kernels.normalize(v, run); });
  }
};

class CpuColumns final : public Solver<Problem> {
 public:
  CpuColumns(const SolverInfo& info, Direction d) : Solver(info), direction_(d) {}

  Verdict is_applicable(const DeviceInfo&, const Problem& p) const override {
    POLYMIO_REQUIRE(p.direction == direction_, "computes another direction");
    POLYMIO_REQUIRE(p.kind == Kind::kGroup, "computes group norm only");
    POLYMIO_REQUIRE(p.x.lens[1] * merged_pixels(p) >= kLeastColumns && p.x.strides[1] == 1,
                    "the channels must be contiguous");
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
    const std::int64_t merged = merged_pixels(p), columns = merged * p.x.lens[1];
    const TensorDesc x = with_merged(p.x, merged), y = with_merged(p.y, merged);
    TensorDesc of_column = x;  // and image
    std::fill(of_column.lens.begin() + 2, of_column.lens.end(), 1);
    of_column.strides[0] = columns;
    TensorDesc bias = of_column;
    bias.lens[0] = 1;
    const TensorDesc* const reduced[] = {&x};
    std::vector<const TensorDesc*> mapped = {&y, &x, &of_column, &of_column};
    if (p.affine == Affine::kYes) mapped.push_back(&bias);
    const Columns pass{p,
                       columns,
                       common::row_loops(make_loop(reduced), [](std::size_t d) { return d > 1; }),
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
