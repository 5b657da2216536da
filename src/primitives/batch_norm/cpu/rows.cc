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
    parameters.operands = 1;
    for (std::size_t d = 0; d < loops.kept.rank; ++d)
      parameters.push({loops.kept.dims[d].size, {loops.kept.dims[d].strides[kParameter]}});
    parameters.merge();
    // Coefficients that a call computes are dense in the order of rows.
    std::int64_t stride = 1;
    for (std::size_t d = loops.kept.rank; d-- > 0; stride *= loops.kept.dims[d].size)
      for (std::size_t o = kParameter; o < kParameter + 3; ++o) loops.kept.dims[d].strides[o] = stride;
    for (std::size_t d = 0; d < loops.reduced.rank; ++d)
      for (std::size_t o = kParameter; o < kParameter + 3; ++o) loops.reduced.dims[d].strides[o] = 0;
    loops.kept.operands = loops.reduced.operands = kParameter + 3;
    loops.kept.merge();
  }
  /// Whether parameters have the order of rows.
  bool in_order() const { return parameters.flat(); }

  Problem p;
  RowLoops loops;
  Loop parameters;  // in the order of rows
  std::int64_t rows;
};

/// A value for each of at most kBlock rows.
using Block = std::array<double, static_cast<std::size_t>(common::kBlock)>;

/// The values of a parameter that rows [first, first + n) have.
void load(const Plan& plan, DataType type, const void* parameter, std::int64_t first, std::int64_t n, double* values) {
  if (plan.in_order()) return dtype::load_many(type, parameter, first, n, values);
  Block dense;
  common::gather(plan.parameters, 0, size_of(type), parameter, Cursor(plan.parameters, first), n, dense.data());
  dtype::load_many(type, dense.data(), 0, n, values);
}
void store(const Plan& plan, DataType type, void* parameter, std::int64_t first, std::int64_t n, const double* values) {
  if (plan.in_order()) return dtype::store_many(type, parameter, first, n, values);
  Block dense;
  dtype::store_many(type, dense.data(), 0, n, values);
  common::scatter(plan.parameters, 0, size_of(type), parameter, Cursor(plan.parameters, first), n, dense.data());
}

BatchNormJob job_of(const Problem& p, const Args& args, bool non_temporal) {
  const Range range = range_of(p.activation, args.activation);
  return {p.x.type, range.low, range.high, args.blend, args.keep, non_temporal};
}

/// Multiplies the values of rows by a parameter.
void multiply_by(const Plan& plan, DataType type, const void* parameter, std::int64_t first, std::int64_t n,
                 double* values) {
  Block factors;
  load(plan, type, parameter, first, n, factors.data());
  for (std::int64_t i = 0; i < n; ++i) values[i] *= factors[static_cast<std::size_t>(i)];
}

/// Stores kept + factor * value; a factor of 1 does not read what is kept.
void update(const Plan& plan, const void* from, void* to, std::int64_t first, std::int64_t n, double factor,
            const double* values) {
  Block next;
  if (factor != 1) load(plan, plan.p.moment_type, from, first, n, next.data());
  for (std::int64_t i = 0; i < n; ++i) {
    double& v = next[static_cast<std::size_t>(i)];
    v = (factor == 1 ? 0 : (1 - factor) * v) + factor * values[i];
  }
  store(plan, plan.p.moment_type, to, first, n, next.data());
}

void train(Stream& stream, const Plan& plan, const BatchNormKernels& kernels, const BatchNormJob& job, const Args& a) {
  const Problem& p = plan.p;
  Operands operands;
  operands.push(a.out, size_of(p.out.type));
  operands.push(a.x, size_of(p.x.type));
  operands.reads_outputs = job.keep != 0;
  const auto finish = [&](std::int64_t first, std::int64_t n, double* values, std::int64_t pitch) {
    kernels.moments(a.epsilon, n, values, pitch);
    double *const mean = values, *const inverse = values + pitch, *const variance = values + 2 * pitch;
    if (a.next_mean) {
      update(plan, a.mean, a.next_mean, first, n, a.factor, mean);
      update(plan, a.variance, a.next_variance, first, n, a.factor, variance);
    }
    if (a.saved_mean) {
      store(plan, p.moment_type, a.saved_mean, first, n, mean);
      store(plan, p.moment_type, a.saved_inverse, first, n, inverse);
    }
    multiply_by(plan, p.scale_type, a.scale, first, n, inverse);
    load(plan, p.bias_type, a.bias, first, n, values + 2 * pitch);
  };
  common::reduce_and_apply_many(stream, plan.loops, operands, *kernels.training(p.x.type), &job, finish);
}

template <class T>
constexpr DataType kType = std::is_same_v<T, double> ? DataType::kDouble : DataType::kFloat;

/// Mean, factor and bias of every row, or the first of them.
template <class T>
class Coefficients {
 public:
  explicit Coefficients(std::int64_t rows, std::size_t count = 3) {
    for (std::size_t k = 0; k < count; ++k) all()[k]->resize(static_cast<std::size_t>(rows));
  }
  /// Number k of rows [first, first + n).
  void set(std::size_t k, std::int64_t first, std::int64_t n, const double* values) {
    dtype::store_many(kType<T>, all()[k]->data(), first, n, values);
  }
  std::array<T*, 3> data() { return {mean_->data(), factor_->data(), bias_->data()}; }
  void push_to(Operands& operands) {
    for (const std::vector<T>* values : all()) operands.push(values->data(), sizeof(T));
  }
  /// Repeats all values, so that each stands there `times` times.
  void repeat(std::int64_t times) {
    for (std::vector<T>* values : all()) {
      const std::size_t n = values->size();
      values->resize(n * static_cast<std::size_t>(times));
      for (std::size_t i = n; i < values->size(); ++i) (*values)[i] = (*values)[i - n];
    }
  }

 private:
  std::array<std::vector<T>*, 3> all() { return {&*mean_, &*factor_, &*bias_}; }

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

/// Mean, factor and bias of rows from given moments: values[k * pitch + row].
void load_coefficients(const Plan& plan, const BatchNormKernels& kernels, const Args& a, std::int64_t first,
                       std::int64_t n, double* values, std::int64_t pitch) {
  const Problem& p = plan.p;
  double* const factor = values + pitch;
  load(plan, p.moment_type, a.mean, first, n, values);
  load(plan, p.moment_type, a.variance, first, n, factor);
  if (!a.inverse) kernels.inverses(a.epsilon, n, factor);
  multiply_by(plan, p.scale_type, a.scale, first, n, factor);
  load(plan, p.bias_type, a.bias, first, n, values + 2 * pitch);
}

/// Coefficients of rows [first, first + n), in the arithmetic's type.
template <class T>
void set_coefficients(const Plan& plan, const BatchNormKernels& kernels, const Args& a, std::int64_t first,
                      std::int64_t n, const std::array<T*, 3>& to) {
  for (std::int64_t row = 0, part; row < n; row += part) {
    part = std::min(common::kBlock, n - row);
    std::array<Block, 3> values;
    load_coefficients(plan, kernels, a, first + row, part, values[0].data(), common::kBlock);
    for (std::size_t k = 0; k < to.size(); ++k) dtype::store_many(kType<T>, to[k], row, part, values[k].data());
  }
}

/// Many contiguous rows of few elements: the coefficients of some rows, then their elements.
template <class T>
void infer_rows(Stream& stream, const Plan& plan, const BatchNormKernels& kernels, const BatchNormJob& job,
                const Args& a) {
  constexpr std::int64_t kRows = 2048;
  const Loop::Dim& samples = plan.loops.reduced.inner();
  for_ranges(stream, plan.rows, kRows, [&](std::int64_t first, std::int64_t end) {
    alignas(64) std::array<std::array<T, kRows>, 3> c;
    set_coefficients<T>(plan, kernels, a, first, end - first, {c[0].data(), c[1].data(), c[2].data()});
    kernels::Run run{.in = {nullptr, c[0].data(), c[1].data(), c[2].data()}, .n = end - first, .rows = samples.size};
    const auto x = static_cast<std::int64_t>(size_of(plan.p.x.type));
    run.in[0] = static_cast<const char*>(a.x) + first * x;
    run.in_row_bytes[0] = samples.strides[kX] * x;
    run.out[0] = static_cast<char*>(a.out) + first * x;
    run.out_row_bytes[0] = samples.strides[kOut] * x;
    kernels.inference(job, run);
  });
}

template <class T>
void infer(Stream& stream, const Plan& plan, const BatchNormKernels& kernels, const BatchNormJob& job, const Args& a) {
  const Problem& p = plan.p;
  if (p.mode == Mode::kPerActivation && plan.loops.kept.flat()) return infer_rows<T>(stream, plan, kernels, job, a);
  Coefficients<T> coefficients(plan.rows);
  set_coefficients<T>(plan, kernels, a, 0, plan.rows, coefficients.data());
  // The map's operands: those of the rows without dy.
  Loop loop = plan.loops.kept;
  for (std::size_t d = 0; d < plan.loops.reduced.rank; ++d) loop.push(plan.loops.reduced.dims[d]);
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

/// The mean and inverse deviation of every row, saved or from x: passes those of some rows to `set`, concurrently.
void each_moments(Stream& stream, const Plan& plan, const BatchNormKernels& kernels, const BatchNormJob& job,
                  const Args& a, FunctionRef<void(std::int64_t, std::int64_t, const double*, const double*)> set) {
  const Problem& p = plan.p;
  if (a.mean) {
    constexpr std::int64_t kRows = 16 * common::kBlock;  // of a task
    return for_ranges(stream, plan.rows, kRows, [&](std::int64_t row, std::int64_t end) {
      for (std::int64_t n; row < end; row += n) {
        n = std::min(common::kBlock, end - row);
        Block mean, inverse;
        load(plan, p.moment_type, a.mean, row, n, mean.data());
        load(plan, p.moment_type, a.variance, row, n, inverse.data());
        set(row, n, mean.data(), inverse.data());
      }
    });
  }
  Operands operands;
  operands.push(a.out, size_of(p.out.type));
  operands.push(a.x, size_of(p.x.type));
  kernels::Reduction<> kernel = *kernels.training(p.x.type);
  kernel.apply = nullptr;
  common::reduce_many(stream, plan.loops, operands, kernel, &job,
                      [&](std::int64_t row, std::int64_t n, double* values, std::int64_t pitch) {
                        kernels.moments(a.epsilon, n, values, pitch);
                        set(row, n, values, values + pitch);
                      });
}

/// Stores blend * values + keep * old ones, if there is where.
void store_gradient(const Plan& plan, const Args& a, void* to, std::int64_t first, std::int64_t n,
                    const double* values) {
  if (!to) return;
  Block result{};
  if (a.parameter_keep != 0) load(plan, plan.p.bias_type, to, first, n, result.data());
  for (std::int64_t i = 0; i < n; ++i) {
    double& v = result[static_cast<std::size_t>(i)];
    v = a.parameter_blend * values[i] + (a.parameter_keep != 0 ? a.parameter_keep * v : 0);
  }
  store(plan, plan.p.bias_type, to, first, n, result.data());
}

template <class T>
void backward(Stream& stream, const Plan& plan, const BatchNormKernels& kernels, const BatchNormJob& job,
              const Args& a) {
  const Problem& p = plan.p;
  const bool gated = p.activation != activation::Mode::kPassthru;
  const bool saved = !gated && a.mean && plan.in_order() && p.moment_type == kType<T>;
  Coefficients<T> coefficients(saved ? 0 : plan.rows, gated ? 3 : 1);
  common::KeptVector<double, struct OfInverses> inverses(a.mean ? 0 : static_cast<std::size_t>(plan.rows));
  const auto set = [&](std::int64_t first, std::int64_t n, const double* mean, const double* inverse) {
    coefficients.set(0, first, n, mean);
    if (!a.mean) std::copy_n(inverse, n, inverses->data() + first);
    if (!gated) return;
    Block values;
    std::copy_n(inverse, n, values.data());
    multiply_by(plan, p.scale_type, a.scale, first, n, values.data());
    coefficients.set(1, first, n, values.data());
    load(plan, p.bias_type, a.bias, first, n, values.data());
    coefficients.set(2, first, n, values.data());
  };
  if (!saved) each_moments(stream, plan, kernels, job, a, set);
  Operands operands;
  operands.push(a.out, size_of(p.out.type));
  operands.push(a.x, size_of(p.x.type));
  operands.push(a.dy, size_of(p.dy.type));
  if (saved)
    operands.push(a.mean, sizeof(T));
  else
    coefficients.push_to(operands);
  if (!gated) operands.count = kParameter + 1;
  operands.reads_outputs = job.keep != 0;
  const double share = 1 / static_cast<double>(plan.loops.reduced.count());
  const auto finish = [&](std::int64_t first, std::int64_t n, double* values, std::int64_t pitch) {
    Block inverse, scale;
    if (a.mean)
      load(plan, p.moment_type, a.variance, first, n, inverse.data());
    else
      std::copy_n(inverses->data() + first, n, inverse.data());
    load(plan, p.scale_type, a.scale, first, n, scale.data());
    double *const dbias = values, *const dscale = values + pitch;
    for (std::int64_t i = 0; i < n; ++i) dscale[i] *= inverse[static_cast<std::size_t>(i)];
    store_gradient(plan, a, a.dscale, first, n, dscale);
    store_gradient(plan, a, a.dbias, first, n, dbias);
    for (std::int64_t i = 0; i < n; ++i) {
      const double of_row = inverse[static_cast<std::size_t>(i)], factor = of_row * scale[static_cast<std::size_t>(i)];
      const double of_element = -factor * share;
      values[2 * pitch + i] = of_element * dbias[i];
      dscale[i] *= of_element * of_row;
      dbias[i] = factor;
    }
  };
  common::reduce_and_apply_many(stream, plan.loops, operands, *kernels.backward(p.x.type, p.dy.type, gated), &job,
                                finish);
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
    const std::int64_t elements = p.mode == Mode::kPerActivation ? channels * pixels
                                  : p.out.strides[1] == 1        ? channels
                                                                 : pixels;
    const std::int64_t run = elements * static_cast<std::int64_t>(size_of(p.out.type));
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
