// NormCpuColumns: group norm where neighbouring channels are contiguous (NHWC). Tasks take some pixels: moments of each
// channel are merged to those of its group. Then y is a map with a mean and a factor for each channel. Neighbouring
// pixels of few channels are one pixel of many.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "base/math.h"
#include "kernels/cpu/kernels_of.h"
#include "kernels/cpu/norm.h"
#include "primitives/common/caches.h"
#include "primitives/common/kept_vector.h"
#include "primitives/common/map.h"
#include "primitives/norm/solvers.h"

namespace polymio::norm {
namespace {

constexpr std::int64_t kLeastColumns = 16;  // as many as reduce() takes as columns
constexpr std::int64_t kMerged = 128;       // columns that pixels are merged to
constexpr std::int64_t kMostMerged = 512;   // if no fewer are possible
constexpr std::int64_t kTasks = 64;         // that use most machines' threads
constexpr std::int64_t kLeastPixels = 32;   // of a task: finding and merging the moments of channels takes as long
constexpr std::size_t kMoments = 4;         // values of forward's kernel

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
  Loop pixels;           // of x
  Tiles map;
  const kernels::Reduction<>* kernel;
  const kernels::NormKernels& kernels;
  bool non_temporal;

  std::int64_t images() const { return p.x.lens[0]; }
  std::int64_t groups() const { return images() * p.extent.groups; }  // of all images

  /// T: type of the arithmetic.
  template <class T>
  void run(Stream& stream, const Problem::Args& a) const {
    common::KeptVector<double, Columns> table;  // [chunk of pixels][value][group]
    find_statistics(stream, a, *table);
    common::KeptVector<T, struct OfParameters> parameters;
    const T* const mean = expand(a, *table, *parameters);
    const T *const scale = mean + images() * columns, *const bias = scale + images() * columns;
    common::Operands operands;
    const std::size_t size = size_of(p.x.type);
    operands.push(a.y, size);
    operands.push(a.x, size);
    operands.push(mean, sizeof(T));
    operands.push(scale, sizeof(T));
    if (p.affine == Affine::kYes) operands.push(bias, sizeof(T));
    const DataType type = sizeof(T) == sizeof(double) ? DataType::kDouble : DataType::kFloat;
    const kernels::NormVariant v{p.x.type, type, p.statistics, false, false, p.affine == Affine::kYes, non_temporal};
    common::map(stream, map, operands, [&](const kernels::Run& run) { kernels.normalize(v, run); });
  }

 private:
  /// Mean and rstd of every group become the first values of the table, and are stored.
  void find_statistics(Stream& stream, const Problem::Args& a, std::vector<double>& table) const {
    const std::int64_t count = pixels.count(), of_image = ceil_div(kTasks, images());
    const std::int64_t enough = std::max(ceil_div(common::kReductionTask, columns), kLeastPixels);
    const std::int64_t chunk = std::max(enough, ceil_div(count, of_image));
    const std::int64_t chunks = ceil_div(count, chunk), of_chunk = static_cast<std::int64_t>(kMoments) * groups();
    table.resize(static_cast<std::size_t>(chunks * of_chunk));
    const std::size_t scratch = kMoments * sizeof(double) * static_cast<std::size_t>(columns);
    stream.parallel_for(static_cast<std::size_t>(chunks * images()), scratch, [&](std::size_t i, void* memory) {
      const std::int64_t image = static_cast<std::int64_t>(i) / chunks, c = static_cast<std::int64_t>(i) % chunks;
      find_moments(a.x, image, c * chunk, std::min(c * chunk + chunk, count), static_cast<double*>(memory),
                   table.data() + c * of_chunk + image * p.extent.groups);
    });
    const kernels::NormJob job;
    double *const mean = table.data(), *const rstd = mean + groups();
    for (std::int64_t c = 1; c < chunks; ++c) kernel->merge(&job, groups(), mean + c * of_chunk, mean, groups());
    kernels.statistics(false, static_cast<double>(p.length()), a.epsilon, groups(), mean, groups());
    if (a.mean) dtype::store_many(p.statistics, a.mean, 0, groups(), mean);
    if (a.rstd) dtype::store_many(p.statistics, a.rstd, 0, groups(), rstd);
  }

  /// The moments of an image's groups in pixels [begin, end), moments[value * groups() + group].
  void find_moments(const void* x, std::int64_t image, std::int64_t begin, std::int64_t end, double* of_columns,
                    double* moments) const {
    const kernels::NormJob job;
    std::fill_n(of_columns, static_cast<std::int64_t>(kMoments) * columns, 0.0);
    const auto size = static_cast<std::int64_t>(size_of(p.x.type));
    kernels::Rows rows{.row_bytes = {pixels.inner().strides[0] * size}, .n = columns};
    Cursor at(pixels, begin);
    for (std::int64_t i = begin; i < end; i += rows.rows, at.advance(rows.rows)) {
      rows.rows = std::min(at.run(), end - i);
      rows.in[0] = static_cast<const char*>(x) + (image * p.x.strides[0] + at.offset(0)) * size;
      kernel->reduce_columns(&job, rows, i, of_columns, columns);
    }
    const std::int64_t channels = p.x.lens[1];
    for (std::int64_t c = channels; c < columns; c += channels)
      kernel->merge(&job, channels, of_columns + c, of_columns, columns);
    kernels.merge_columns(channels / p.extent.groups, p.extent.groups, of_columns, columns, moments, groups());
  }

  /// Means, then factors of the columns of all images, then the bias of an image's columns if there is one.
  template <class T>
  const T* expand(const Problem::Args& a, const std::vector<double>& statistics, std::vector<T>& values) const {
    const std::int64_t channels = p.x.lens[1], of_group = channels / p.extent.groups;
    const bool affine = p.affine == Affine::kYes;
    common::KeptVector<double, struct OfChannels> loaded(static_cast<std::size_t>(2 * channels));
    double *const weight = loaded->data(), *const bias = weight + channels;
    std::fill_n(weight, channels, 1.0);
    if (affine) dtype::load_many(p.parameters, a.weight, 0, channels, weight);
    if (affine) dtype::load_many(p.parameters, a.bias, 0, channels, bias);
    values.resize(static_cast<std::size_t>((2 * images() + 1) * columns));
    T *mean = values.data(), *scale = mean + images() * columns;
    for (std::int64_t image = 0; image < images(); ++image, mean += columns, scale += columns) {
      for (std::int64_t c = 0; c < channels; ++c) {
        const auto group = static_cast<std::size_t>(image * p.extent.groups + c / of_group);
        mean[c] = static_cast<T>(statistics[group]);
        scale[c] = static_cast<T>(statistics[static_cast<std::size_t>(groups()) + group] * weight[c]);
      }
      repeat(mean);
      repeat(scale);
    }
    std::transform(bias, bias + channels, scale, [](double b) { return static_cast<T>(b); });
    repeat(scale);
    return values.data();
  }
  /// Repeats the values of the channels for the other pixels that are merged.
  template <class T>
  void repeat(T* of_columns) const {
    for (std::int64_t c = p.x.lens[1]; c < columns; ++c) of_columns[c] = of_columns[c - p.x.lens[1]];
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
                       common::row_loops(make_loop(reduced), [](std::size_t d) { return d > 1; }).reduced,
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
