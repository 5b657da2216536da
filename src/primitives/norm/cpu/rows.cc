// NormCpuRows: each row is reduced, then computed in a second pass while it is in the caches; any strides. The
// gradients of weight and bias are a reduction over rows, before dx is written.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/cpu/kernels_of.h"
#include "kernels/cpu/norm.h"
#include "primitives/common/caches.h"
#include "primitives/common/kept_vector.h"
#include "primitives/common/map.h"
#include "primitives/norm/solvers.h"

namespace polymio::norm {
namespace {

using kernels::NormKernels;
using kernels::Reduction;

using Descs = std::vector<const TensorDesc*>;

/// Loops of the rows, and the kernel of a pass over them.
struct Pass {
  common::RowLoops loops;
  const Reduction<>* kernel;
  const NormKernels& kernels;
  bool non_temporal = false;
  std::optional<Loop> expanded = {};  // parameters for each element of an image, and for each channel
};

/// Elements [first, first + n).
void put(DataType type, void* data, std::int64_t first, std::int64_t n, const double* values) {
  if (data) dtype::store_many(type, data, first, n, values);
}

void run_forward(Stream& stream, const Problem& p, const Pass& pass, const Problem::Args& a) {
  const kernels::NormJob job{pass.non_temporal};
  common::Operands operands;
  const std::size_t size = size_of(p.x.type), parameter = size_of(p.parameters);
  operands.push(a.y, size);
  operands.push(a.x, size);
  if (p.kind == Kind::kAddLayer) operands.push(a.x2, size);
  common::KeptVector<unsigned char, struct OfWeights> weights;
  common::KeptVector<unsigned char, struct OfBiases> biases;
  const auto push = [&](const void* given, std::vector<unsigned char>& copy) {
    if (pass.expanded) {
      copy.resize(static_cast<std::size_t>(pass.expanded->count()) * parameter);
      common::gather_all(stream, *pass.expanded, 1, parameter, given, copy.data());
    }
    operands.push(pass.expanded ? copy.data() : given, parameter);
  };
  if (p.affine == Affine::kYes) push(a.weight, *weights);
  if (p.affine == Affine::kYes && p.kind != Kind::kRms) push(a.bias, *biases);
  const bool rms = p.kind == Kind::kRms;
  const double length = static_cast<double>(p.length());
  common::reduce_and_apply_many(stream, pass.loops, operands, *pass.kernel, &job,
                                [&](std::int64_t first, std::int64_t n, double* values, std::int64_t pitch) {
                                  pass.kernels.statistics(rms, length, a.epsilon, n, values, pitch);
                                  if (!rms) put(p.statistics, a.mean, first, n, values);
                                  put(p.statistics, a.rstd, first, n, values + (rms ? 0 : pitch));
                                });
}

void run_gradient(Stream& stream, const Problem& p, const Pass& pass, const Problem::Args& a) {
  const kernels::NormJob job{pass.non_temporal};
  common::Operands operands;
  const std::size_t size = size_of(p.x.type), statistic = size_of(p.statistics);
  operands.push(a.dx, size);
  operands.push(a.dy, size);
  operands.push(a.x, size);
  if (p.affine == Affine::kYes) operands.push(a.weight, size_of(p.parameters));
  if (p.kind != Kind::kRms) operands.push(a.mean, statistic);
  operands.push(a.rstd, statistic);
  common::reduce_and_apply_many(
      stream, pass.loops, operands, *pass.kernel, &job,
      [&](std::int64_t, std::int64_t n, double* values, std::int64_t pitch) { mean_gradients(p, n, values, pitch); });
}

void run_parameter_gradient(Stream& stream, const Problem& p, const Pass& pass, const Problem::Args& a) {
  common::Operands operands;
  const std::size_t size = size_of(p.x.type), statistic = size_of(p.statistics);
  operands.outputs = 0;
  operands.push(a.dy, size);
  operands.push(a.x, size);
  if (p.kind != Kind::kRms) operands.push(a.mean, statistic);
  operands.push(a.rstd, statistic);
  common::reduce_many(stream, pass.loops, operands, *pass.kernel, nullptr,
                      [&](std::int64_t first, std::int64_t n, const double* values, std::int64_t pitch) {
                        put(p.parameters, a.dw, first, n, values);
                        if (p.kind != Kind::kRms) put(p.parameters, a.db, first, n, values + pitch);
                      });
}

kernels::NormVariant variant_of(const Problem& p) {
  return {
      p.x.type, p.parameters, p.statistics, p.kind == Kind::kRms, p.kind == Kind::kAddLayer, p.affine == Affine::kYes};
}

Loop row_of(const Problem& p) {
  const TensorDesc x = split(p, p.x), y = split(p, p.output()), parameter = parameter_desc(p);
  const TensorDesc* const operands[] = {&y, &x, p.affine == Affine::kYes ? &parameter : &x};
  return rows_of(p, operands).reduced;
}

/// Whether rows are long runs; short ones are copied, as common::Runs does.
bool is_in_place(const Problem& p) {
  constexpr std::int64_t kLongRun = 32;
  const Loop row = row_of(p);
  const auto& strides = row.inner().strides;
  return strides[0] == 1 && strides[1] == 1 && strides[2] <= 1 && (row.rank == 1 || row.inner().size >= kLongRun);
}

/// Whether rows are long runs, but those of elements that share a weight are not, or so short that a copy of the
/// weights pays for many images.
bool expands(const Problem& p) {
  constexpr std::int64_t kLongRun = 256, kManyImages = 16;
  if (p.kind != Kind::kGroup || p.affine == Affine::kNo) return false;
  const TensorDesc x = split(p, p.x), y = split(p, p.y);
  const TensorDesc* const operands[] = {&y, &x};
  const bool short_runs = row_of(p).inner().size < kLongRun && p.x.lens[0] >= kManyImages;
  return (short_runs || !is_in_place(p)) && rows_of(p, operands).reduced.flat();
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
    return t[0] == 0 || p.work() > static_cast<double>(d.cache_bytes[1]);
  }
  TunePoint default_point(const DeviceInfo& d, const Problem& p) const override {
    const bool whole = expands(p);
    const std::int64_t run =
        (whole ? p.length() : row_of(p).inner().size) * static_cast<std::int64_t>(size_of(p.x.type));
    const bool suits = (whole || is_in_place(p)) && common::fills_lines(run);
    return {suits && common::exceeds_caches(d, p.work()) ? 1 : 0};
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& t) const override {
    const double copies = is_in_place(p) || expands(p) ? 0 : 5e-3 * static_cast<double>(p.x.count()) / d.threads;
    return 2 + copies + runs_us(d, p) + traffic_us(d, p, p.forward() ? 0 : 2, t[0] != 0);
  }

  Invoker build(Stream& stream, const Problem& p, const TunePoint& t) const override {
    const auto& kernels = kernels::kernels_of<NormKernels>(stream.info().isa);
    const TensorDesc x = split(p, p.x), x2 = split(p, p.x2), out = split(p, p.output()), dy = split(p, p.dy);
    const TensorDesc parameter = parameter_desc(p), statistic = statistic_desc(p);
    const bool rms = p.kind == Kind::kRms, affine = p.affine == Affine::kYes;
    Descs descs = {&out};
    if (p.forward()) {
      descs.push_back(&x);
      if (p.kind == Kind::kAddLayer) descs.push_back(&x2);
      std::optional<Loop> expanded;
      TensorDesc of_image = out;
      of_image.lens[0] = 1;
      if (expands(p)) expanded = simplified_loop(std::array<const TensorDesc*, 2>{&of_image, &parameter});
      if (affine) descs.insert(descs.end(), rms ? 1 : 2, expanded ? &of_image : &parameter);
      return [p, pass = Pass{rows_of(p, descs), kernels.forward(variant_of(p)), kernels, t[0] != 0, expanded}](
                 Stream& on, const Args& a) { run_forward(on, p, pass, a); };
    }
    descs.insert(descs.end(), {&dy, &x});
    if (affine) descs.push_back(&parameter);
    descs.insert(descs.end(), rms ? 1 : 2, &statistic);
    Descs reduced = {&dy, &x};
    reduced.insert(reduced.end(), rms ? 1 : 2, &statistic);
    const auto first = static_cast<std::size_t>(first_of_row(p));
    const Pass columns{common::row_loops(make_loop(reduced), [&](std::size_t d) { return d < first; }),
                       kernels.parameter_gradient(variant_of(p)), kernels};
    return [p, pass = Pass{rows_of(p, descs), kernels.gradient(variant_of(p)), kernels, t[0] != 0}, columns](
               Stream& on, const Args& a) {
      run_parameter_gradient(on, p, columns, a);
      run_gradient(on, p, pass, a);
    };
  }

 private:
  /// For the beginnings of the runs that a row consists of, each with lines that are fetched in vain.
  static double runs_us(const DeviceInfo& d, const Problem& p) {
    constexpr double kRun = 15e-3, kBytes = 128;
    const Loop row = row_of(p);
    if (row.rank == 1) return 0;
    const auto runs = static_cast<double>(p.x.count() / row.inner().size);
    return runs * (kRun / d.threads + kBytes / std::max(d.bandwidth_gbs, 1.0) * 1e-3);
  }

  Direction direction_;
};

}  // namespace

void mean_gradients(const Problem& p, std::int64_t n, double* values, std::int64_t pitch) {
  const double share = 1 / static_cast<double>(p.length());
  for (std::int64_t i = 0; i < n; ++i) {
    values[i] = p.kind == Kind::kRms ? 0 : values[i] * share;
    values[pitch + i] *= share;
  }
}

std::unique_ptr<const SolverBase> cpu_rows(const SolverInfo& info, Direction d) {
  return std::make_unique<CpuRows>(info, d);
}

}  // namespace polymio::norm
