// ReduceCpu: rows or columns of memory, whichever is contiguous, then the results in double. Tuning knob: elements of a
// task.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "kernels/cpu/kernels_of.h"
#include "kernels/cpu/reduce.h"
#include "primitives/common/caches.h"
#include "primitives/common/reduce.h"
#include "primitives/reduce/solvers.h"

namespace polymio::reduce {
namespace {

using kernels::ReduceKind;

ReduceKind kind_of(const Problem& p) {
  if (is_extreme(p.op)) return p.has_positions() ? ReduceKind::kPosition : ReduceKind::kExtreme;
  switch (p.op) {
    case Op::kMul: return ReduceKind::kProduct;
    case Op::kNorm1: return ReduceKind::kMagnitudes;
    case Op::kNorm2: return ReduceKind::kSquares;
    default: return p.nan == Nan::kZero ? ReduceKind::kNumbers : ReduceKind::kSum;
  }
}

kernels::ReduceJob job_of(const Problem& p) {
  kernels::ReduceJob job;
  job.magnitude = p.op == Op::kAmax;
  job.negative = p.op == Op::kMin;
  job.propagate = p.nan == Nan::kPropagate;
  job.first = p.op == Op::kAmax ? 0 : -std::numeric_limits<double>::infinity();
  job.zero = p.nan == Nan::kZero;
  return job;
}

/// The offset of a row in an operand.
std::int64_t offset_of(const Loop& kept, std::int64_t row, std::size_t operand) {
  return kept.rank == 1 ? row * kept.inner().strides[operand] : Cursor(kept, row).offset(operand);
}

void finish(Op op, std::int64_t length, std::int64_t n, double* values) {
  const auto each = [&](const auto& finished) { std::transform(values, values + n, values, finished); };
  switch (op) {
    case Op::kMin: return each([](double v) { return -v; });
    case Op::kAvg: return each([&](double v) { return v / static_cast<double>(length); });
    case Op::kNorm2: return each([](double v) { return std::sqrt(v); });
    default: return;
  }
}

/// Writes the results of rows.
class Results {
 public:
  Results(const Problem& p, const common::RowLoops& loops, const Problem::Args& args)
      : p_(p),
        kept_(loops.kept),
        args_(args),
        length_(loops.reduced.count()),
        plain_(!p.has_positions() && p.nan != Nan::kFirst && args.beta == 0) {}

  void operator()(std::int64_t first, std::int64_t n, double* values, std::int64_t pitch) const {
    if (is_extreme(p_.op) && !p_.has_positions() && p_.nan == Nan::kPropagate)
      for (std::int64_t i = 0; i < n; ++i)
        if (std::isnan(values[pitch + i])) values[i] = values[pitch + i];
    finish(p_.op, length_, n, values);
    if (plain_) return put_plain(first, n, values);
    for (std::int64_t i = 0; i < n; ++i)
      put(first + i, values[i], p_.has_positions() ? static_cast<std::int64_t>(values[pitch + i]) : 0);
  }

 private:
  void put_plain(std::int64_t first, std::int64_t n, double* values) const {
    if (args_.alpha != 1)
      for (std::int64_t i = 0; i < n; ++i) values[i] *= args_.alpha;
    Cursor at(kept_, first);
    for (std::int64_t i = 0, m; i < n; i += m, at.advance(m)) {
      m = std::min(at.run(), n - i);
      const std::int64_t stride = kept_.inner().strides[1], to = at.offset(1);
      if (stride == 1) {
        dtype::store_many(p_.c.type, args_.c, to, m, values + i);
      } else {
        for (std::int64_t j = 0; j < m; ++j) dtype::store(p_.c.type, args_.c, to + j * stride, values[i + j]);
      }
    }
  }
  void put(std::int64_t row, double value, std::int64_t position) const {
    if (p_.nan == Nan::kFirst) {
      const double first = dtype::load(p_.a.type, args_.a, offset_of(kept_, row, 0));
      if (std::isnan(first)) {
        value = first;
        position = 0;
      }
    }
    if (p_.has_positions())
      static_cast<std::int32_t*>(args_.positions)[offset_of(kept_, row, 2)] = static_cast<std::int32_t>(position);
    if (!p_.has_values()) return;
    const std::int64_t at = offset_of(kept_, row, 1);
    value *= args_.alpha;
    if (args_.beta != 0) value += args_.beta * dtype::load(p_.c.type, args_.c, at);
    dtype::store(p_.c.type, args_.c, at, value);
  }

  const Problem& p_;
  const Loop& kept_;
  const Problem::Args& args_;
  const std::int64_t length_;
  const bool plain_;
};

class CpuRows final : public Solver<Problem> {
 public:
  using Solver::Solver;

  Verdict is_applicable(const DeviceInfo&, const Problem&) const override { return {}; }

  TuneSpace tune_space(const DeviceInfo&, const Problem&) const override { return {{"task", {8192, kUsual, 131072}}}; }
  bool is_valid(const DeviceInfo&, const Problem& p, const TunePoint& t) const override {
    return t[0] == kUsual || p.a.count() > std::min(t[0], kUsual);
  }
  TunePoint default_point(const DeviceInfo&, const Problem&) const override { return {kUsual}; }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& t) const override {
    const double gbs = std::max(d.bandwidth_gbs, 1.0) * (common::exceeds_caches(d, p.work()) ? 1 : 4);
    const double busy = std::clamp(static_cast<double>(p.a.count()) / t[0] / std::max(d.threads, 1), 0.05, 1.0);
    return p.work() / gbs / busy * 1e-3 + 1;
  }

  Invoker build(Stream& stream, const Problem& p, const TunePoint& t) const override {
    const auto& kernels = kernels::kernels_of<kernels::ReduceKernels>(stream.info().isa);
    const auto* const kernel = kernels.kernel(kind_of(p), p.a.type);
    const Loops loops(p);
    return [p, kernel, job = job_of(p), rows = common::RowLoops{loops.kept, loops.reduced}, task = t[0]](
               Stream& on, const Args& args) {
      common::Operands operands;
      operands.outputs = 0;
      operands.push(args.a, size_of(p.a.type));
      const Results results(p, rows, args);
      common::reduce_many(on, rows, operands, *kernel, &job, results, task);
    };
  }

 private:
  static constexpr int kUsual = common::kReductionTask;
};

}  // namespace

std::unique_ptr<const SolverBase> cpu_rows(const SolverInfo& info, Direction) {
  return std::make_unique<CpuRows>(info);
}

}  // namespace polymio::reduce
