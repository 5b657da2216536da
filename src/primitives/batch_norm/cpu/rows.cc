// BnormCpu: rows or columns of memory, whichever is contiguous, are reduced to sums, from which a second pass over them
// computes the result. Tuning knob: non-temporal stores.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <memory>

#include "kernels/cpu/batch_norm.h"
#include "kernels/cpu/kernels_of.h"
#include "primitives/batch_norm/solvers.h"
#include "primitives/common/caches.h"
#include "primitives/common/kept_vector.h"
#include "primitives/common/map.h"

namespace polymio::batch_norm {
namespace {

using Args = Problem::Args;
using common::Operands;
using common::RowLoops;
using kernels::BatchNormJob;
using kernels::BatchNormKernels;

/// The plan of a problem, and what every pass needs.
struct Plan {
  explicit Plan(const Problem& problem) : p(problem), loops(loops_of(problem)), rows(loops.kept.count()) {
    // Coefficients that a call computes are dense in the order of rows.
    with_coefficients = loops;
    std::int64_t stride = 1;
    for (std::size_t d = loops.kept.rank; d-- > 0; stride *= loops.kept.dims[d].size)
      for (std::size_t o = kParameter; o < kParameter + 3; ++o) with_coefficients.kept.dims[d].strides[o] = stride;
    for (std::size_t d = 0; d < loops.reduced.rank; ++d)
      for (std::size_t o = kParameter; o < kParameter + 3; ++o) with_coefficients.reduced.dims[d].strides[o] = 0;
    with_coefficients.kept.operands = with_coefficients.reduced.operands = kParameter + 3;
  }
  std::int64_t offset(std::int64_t row) const { return Cursor(loops.kept, row).offset(kParameter); }
  double length() const { return static_cast<double>(loops.reduced.count()); }

  Problem p;
  RowLoops loops, with_coefficients;
  std::int64_t rows;
};

BatchNormJob job_of(const Problem& p, const Args& args, bool non_temporal) {
  const Range range = range_of(p.activation, args.activation);
  return {p.x.type, range.low, range.high, args.blend, args.keep, non_temporal};
}

struct Moments {
  double mean, variance, unbiased;
};
/// Of the values that the kernel reduces x to.
Moments moments_of(const double* v) {
  const double squares = v[3] - v[2] * v[2] / v[0], positive = squares < 0 ? 0 : squares;
  return {v[1] + v[2] / v[0], positive / v[0], v[0] > 1 ? positive / (v[0] - 1) : positive};
}

double inverse_of(double variance, double epsilon) { return 1 / std::sqrt(variance + epsilon); }

/// kept + factor * value; a factor of 1 does not read what is kept.
void update(DataType type, const void* from, void* to, std::int64_t at, double factor, double value) {
  const double old = factor == 1 ? 0 : (1 - factor) * dtype::load(type, from, at);
  dtype::store(type, to, at, old + factor * value);
}

void train(Stream& stream, const Plan& plan, const BatchNormKernels& kernels, const BatchNormJob& job, const Args& a) {
  const Problem& p = plan.p;
  Operands operands;
  operands.push(a.out, size_of(p.out.type));
  operands.push(a.x, size_of(p.x.type));
  operands.reads_outputs = job.keep != 0;
  const auto finish = [&](std::int64_t row, double* values) {
    const Moments m = moments_of(values);
    const std::int64_t at = plan.offset(row);
    const double inverse = inverse_of(m.variance, a.epsilon);
    if (a.next_mean) {
      update(p.moment_type, a.mean, a.next_mean, at, a.factor, m.mean);
      update(p.moment_type, a.variance, a.next_variance, at, a.factor, m.unbiased);
    }
    if (a.saved_mean) {
      dtype::store(p.moment_type, a.saved_mean, at, m.mean);
      dtype::store(p.moment_type, a.saved_inverse, at, inverse);
    }
    values[0] = m.mean;
    values[1] = inverse * dtype::load(p.scale_type, a.scale, at);
    values[2] = dtype::load(p.bias_type, a.bias, at);
  };
  common::reduce_and_apply(stream, plan.loops, operands, *kernels.training(p.x.type), &job, finish);
}

/// Mean, factor and bias of every row.
template <class T>
class Coefficients {
 public:
  explicit Coefficients(std::int64_t rows)
      : mean_(static_cast<std::size_t>(rows)), factor_(mean_->size()), bias_(mean_->size()) {}
  void set(std::int64_t row, double m, double f, double b) {
    const auto r = static_cast<std::size_t>(row);
    (*mean_)[r] = static_cast<T>(m);
    (*factor_)[r] = static_cast<T>(f);
    (*bias_)[r] = static_cast<T>(b);
  }
  void push_to(Operands& operands) const {
    for (const std::vector<T>* values : {&*mean_, &*factor_, &*bias_}) operands.push(values->data(), sizeof(T));
  }
  /// Repeats all values, so that each stands there `times` times.
  void repeat(std::int64_t times) {
    for (std::vector<T>* values : {&*mean_, &*factor_, &*bias_}) {
      const std::size_t n = values->size();
      values->resize(n * static_cast<std::size_t>(times));
      for (std::size_t i = n; i < values->size(); ++i) (*values)[i] = (*values)[i - n];
    }
  }

 private:
  common::KeptVector<T, struct OfMeans> mean_;
  common::KeptVector<T, struct OfFactors> factor_;
  common::KeptVector<T, struct OfBiases> bias_;
};

/// Merges neighbouring pixels of few contiguous channels: several pixels become one row of the map.
template <class T>
void merge_pixels(Loop& loop, std::int64_t rows, Coefficients<T>& coefficients) {
  constexpr std::int64_t kRow = 512;
  if (loop.rank != 2 || !loop.contiguous()) return;
  Loop::Dim &pixels = loop.dims[0], &channels = loop.dims[1];
  if (channels.size != rows || pixels.strides[0] != rows || pixels.strides[1] != rows) return;
  std::int64_t merged = std::min(kRow / rows, pixels.size);
  while (merged > 1 && pixels.size % merged != 0) --merged;
  if (merged <= 1) return;
  for (std::size_t o = 0; o < loop.operands; ++o) pixels.strides[o] *= merged;
  pixels.size /= merged;
  channels.size *= merged;
  loop.merge();
  coefficients.repeat(merged);
}

template <class T>
void infer(Stream& stream, const Plan& plan, const BatchNormKernels& kernels, const BatchNormJob& job, const Args& a) {
  const Problem& p = plan.p;
  Coefficients<T> coefficients(plan.rows);
  for (std::int64_t row = 0; row < plan.rows; ++row) {
    const std::int64_t at = plan.offset(row);
    const double given = dtype::load(p.moment_type, a.variance, at);
    const double inverse = a.inverse ? given : inverse_of(given, a.epsilon);
    coefficients.set(row, dtype::load(p.moment_type, a.mean, at), inverse * dtype::load(p.scale_type, a.scale, at),
                     dtype::load(p.bias_type, a.bias, at));
  }
  // The map's operands: those of the rows without dy.
  Loop loop = plan.with_coefficients.kept;
  for (std::size_t d = 0; d < plan.loops.reduced.rank; ++d) loop.push(plan.with_coefficients.reduced.dims[d]);
  for (std::size_t d = 0; d < loop.rank; ++d)
    std::copy_n(loop.dims[d].strides.begin() + kParameter, 3, loop.dims[d].strides.begin() + kDy);
  loop.operands = kDy + 3;
  loop.simplify();
  merge_pixels(loop, plan.rows, coefficients);
  Operands operands;
  operands.push(a.out, size_of(p.out.type));
  operands.push(a.x, size_of(p.x.type));
  coefficients.push_to(operands);
  operands.reads_outputs = job.keep != 0;
  common::map(stream, Tiles(loop), operands, [&](const kernels::Run& run) { kernels.inference(job, run); });
}

/// The mean and inverse deviation of every row, saved or from x, with the factor and bias of the activation.
template <class T>
void set_moments(Stream& stream, const Plan& plan, const BatchNormKernels& kernels, const BatchNormJob& job,
                 const Args& a, Coefficients<T>& coefficients, std::vector<double>& inverses) {
  const Problem& p = plan.p;
  const auto set = [&](std::int64_t row, double mean, double inverse) {
    const std::int64_t at = plan.offset(row);
    inverses[static_cast<std::size_t>(row)] = inverse;
    coefficients.set(row, mean, inverse * dtype::load(p.scale_type, a.scale, at),
                     a.bias ? dtype::load(p.bias_type, a.bias, at) : 0);
  };
  if (a.mean) {
    for (std::int64_t row = 0; row < plan.rows; ++row) {
      const std::int64_t at = plan.offset(row);
      set(row, dtype::load(p.moment_type, a.mean, at), dtype::load(p.moment_type, a.variance, at));
    }
    return;
  }
  Operands operands;
  operands.push(a.out, size_of(p.out.type));
  operands.push(a.x, size_of(p.x.type));
  kernels::Reduction<> kernel = *kernels.training(p.x.type);
  kernel.apply = nullptr;
  common::reduce<double>(stream, plan.loops, operands, kernel, &job, [&](std::int64_t row, const double* values) {
    const Moments m = moments_of(values);
    set(row, m.mean, inverse_of(m.variance, a.epsilon));
  });
}

template <class T>
void backward(Stream& stream, const Plan& plan, const BatchNormKernels& kernels, const BatchNormJob& job,
              const Args& a) {
  const Problem& p = plan.p;
  Coefficients<T> coefficients(plan.rows);
  common::KeptVector<double, struct OfInverses> inverses(static_cast<std::size_t>(plan.rows));
  set_moments(stream, plan, kernels, job, a, coefficients, *inverses);
  const bool gated = p.activation != activation::Mode::kPassthru;
  Operands operands;
  operands.push(a.out, size_of(p.out.type));
  operands.push(a.x, size_of(p.x.type));
  operands.push(a.dy, size_of(p.dy.type));
  coefficients.push_to(operands);
  if (!gated) operands.count -= 2;
  operands.reads_outputs = job.keep != 0;
  const auto finish = [&](std::int64_t row, double* values) {
    const std::int64_t at = plan.offset(row);
    const double inverse = (*inverses)[static_cast<std::size_t>(row)];
    const double dbias = values[0], dscale = values[1] * inverse;
    const double factor = inverse * dtype::load(p.scale_type, a.scale, at);
    const auto store = [&](void* to, double value) {
      if (!to) return;
      value *= a.parameter_blend;
      if (a.parameter_keep != 0) value += a.parameter_keep * dtype::load(p.bias_type, to, at);
      dtype::store(p.bias_type, to, at, value);
    };
    store(a.dscale, dscale);
    store(a.dbias, dbias);
    values[0] = factor;
    values[1] = -factor * inverse * dscale / plan.length();
    values[2] = -factor * dbias / plan.length();
  };
  common::reduce_and_apply(stream, plan.with_coefficients, operands, *kernels.backward(p.x.type, p.dy.type, gated),
                           &job, finish);
}

class CpuRows final : public Solver<Problem> {
 public:
  CpuRows(const SolverInfo& info, Direction d) : Solver(info), direction_(d) {}

  Verdict is_applicable(const DeviceInfo&, const Problem& p) const override {
    POLYMIO_REQUIRE(p.direction == direction_, "computes another direction");
    return {};
  }

  TuneSpace tune_space(const DeviceInfo&, const Problem&) const override { return {{"non_temporal", {0, 1}}}; }
  bool is_valid(const DeviceInfo& d, const Problem& p, const TunePoint& t) const override {
    return t[0] == 0 || (p.out.packed() && p.work() > static_cast<double>(d.cache_bytes[1]));
  }
  TunePoint default_point(const DeviceInfo& d, const Problem& p) const override {
    const std::int64_t channels = p.out.lens[1], pixels = p.out.count() / (p.out.lens[0] * channels);
    const std::int64_t run =
        (p.out.strides[1] == 1 ? channels : pixels) * static_cast<std::int64_t>(size_of(p.out.type));
    const bool suits = p.out.packed() && common::fills_lines(run);
    return {suits && common::exceeds_caches(d, p.work()) ? 1 : 0};
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& t) const override {
    const double written = static_cast<double>(p.count()) * static_cast<double>(size_of(p.out.type));
    // Rows that the caches do not hold are read twice; a plain store reads the line first.
    const double again = direction_ == Direction::kInference ? 0 : p.work() - written;
    const bool large = common::exceeds_caches(d, p.work());
    const double gbs = std::max(d.bandwidth_gbs, 1.0) * (large ? 1 : 4);
    return (p.work() + again + (large && t[0] == 0 ? written : 0)) / gbs * 1e-3 + 3;
  }

  Invoker build(Stream& stream, const Problem& p, const TunePoint& t) const override {
    const auto& kernels = kernels::kernels_of<BatchNormKernels>(stream.info().isa);
    return [plan = std::make_shared<const Plan>(p), &kernels, non_temporal = t[0] != 0](Stream& on, const Args& args) {
      const BatchNormJob job = job_of(plan->p, args, non_temporal);
      const bool wide = plan->p.x.type == DataType::kDouble;
      switch (plan->p.direction) {
        case Direction::kTraining: return train(on, *plan, kernels, job, args);
        case Direction::kInference:
          return wide ? infer<double>(on, *plan, kernels, job, args) : infer<float>(on, *plan, kernels, job, args);
        case Direction::kBackward:
          return wide ? backward<double>(on, *plan, kernels, job, args)
                      : backward<float>(on, *plan, kernels, job, args);
      }
    };
  }

 private:
  Direction direction_;
};

}  // namespace

std::unique_ptr<const SolverBase> cpu_rows(const SolverInfo& info, Direction d) {
  return std::make_unique<CpuRows>(info, d);
}

}  // namespace polymio::batch_norm
