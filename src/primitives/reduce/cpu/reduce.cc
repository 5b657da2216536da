// ReduceCpu: rows or columns of memory, whichever is contiguous, then the results in double. Tuning knob: elements of a
// task.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <type_traits>

#include "kernels/cpu/kernels_of.h"
#include "kernels/cpu/reduce.h"
#include "primitives/common/caches.h"
#include "primitives/common/copy.h"
#include "primitives/common/reduce.h"
#include "primitives/reduce/solvers.h"

namespace polymio::reduce {
namespace {

using kernels::ReduceKind;

ReduceKind kind_of(const Problem& p) {
  if (is_extreme(p.op) && p.has_positions()) return ReduceKind::kPosition;
  if (is_extreme(p.op)) return p.nan == Nan::kPropagate ? ReduceKind::kExtreme : ReduceKind::kLargest;
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

void finish(Op op, std::int64_t length, std::int64_t n, double* values) {
  const auto each = [&](const auto& finished) { std::transform(values, values + n, values, finished); };
  switch (op) {
    case Op::kMin: return each([](double v) { return -v; });
    case Op::kAvg: return each([&](double v) { return v / static_cast<double>(length); });
    case Op::kNorm2: return each([](double v) { return std::sqrt(v); });
    default: return;
  }
}

/// Calls body(type) with a constant for types that are frequent.
template <class Body>
void with_constant(DataType type, const Body& body) {
  switch (type) {
    case DataType::kFloat: return body(std::integral_constant<DataType, DataType::kFloat>());
    case DataType::kBFloat16: return body(std::integral_constant<DataType, DataType::kBFloat16>());
    case DataType::kHalf: return body(std::integral_constant<DataType, DataType::kHalf>());
    default: return body(type);
  }
}

/// Writes the results of rows.
class Results {
 public:
  /// kept: the loop over rows, with operands a, c and positions.
  Results(const Problem& p, const Loop& kept, const Problem::Args& args) : p_(p), kept_(kept), args_(args) {}

  void operator()(std::int64_t first, std::int64_t n, double* values, std::int64_t pitch) const {
    if (is_extreme(p_.op) && !p_.has_positions() && p_.nan == Nan::kPropagate)
      for (std::int64_t i = 0; i < n; ++i)
        if (std::isnan(values[pitch + i])) values[i] = values[pitch + i];
    finish(p_.op, p_.length(), n, values);
    Cursor at(kept_, first);
    for (std::int64_t i = 0, m; i < n; i += m, at.advance(m)) {
      m = std::min({at.run(), n - i, common::kBlock});
      if (p_.nan == Nan::kFirst) put_first_nans(at, m, values + i, pitch);
      if (p_.has_positions()) put_positions(at, m, values + i + pitch);
      if (p_.has_values()) put_values(at, m, values + i);
    }
  }

 private:
  void put_first_nans(const Cursor& at, std::int64_t n, double* values, std::int64_t pitch) const {
    const std::int64_t stride = kept_.inner().strides[0];
    with_constant(p_.a.type, [&](auto type) {
      for (std::int64_t i = 0; i < n; ++i) {
        const double first = dtype::load(type, args_.a, at.offset(0) + i * stride);
        if (!std::isnan(first)) continue;
        values[i] = first;
        if (p_.has_positions()) values[pitch + i] = 0;
      }
    });
  }
  void put_positions(const Cursor& at, std::int64_t n, const double* numbers) const {
    auto* const positions = static_cast<std::int32_t*>(args_.positions) + at.offset(2);
    const std::int64_t stride = kept_.inner().strides[2];
    for (std::int64_t i = 0; i < n; ++i) positions[i * stride] = static_cast<std::int32_t>(numbers[i]);
  }
  void put_values(const Cursor& at, std::int64_t n, double* values) const {
    const std::int64_t stride = kept_.inner().strides[1], to = at.offset(1);
    if (args_.alpha != 1)
      for (std::int64_t i = 0; i < n; ++i) values[i] *= args_.alpha;
    if (args_.beta != 0)
      for (std::int64_t i = 0; i < n; ++i) values[i] += args_.beta * dtype::load(p_.c.type, args_.c, to + i * stride);
    if (stride == 1) return dtype::store_many(p_.c.type, args_.c, to, n, values);
    const std::size_t size = size_of(p_.c.type);
    alignas(double) unsigned char stored[common::kBlock * sizeof(double)];
    dtype::store_many(p_.c.type, stored, 0, n, values);
    common::copy_elements(size, stored, 1, static_cast<char*>(args_.c) + to * static_cast<std::int64_t>(size), stride,
                          n);
  }

  const Problem& p_;
  const Loop& kept_;
  const Problem::Args& args_;
};

/// Whether rows have one element, which is the value.
bool is_copy(const Problem& p, const Problem::Args& args) {
  if (p.length() != 1) return false;
  if (!p.has_values()) return true;
  const bool changes = p.op == Op::kAmax || p.op == Op::kNorm1 || p.op == Op::kNorm2 || p.nan == Nan::kZero ||
                       (is_extreme(p.op) && p.nan == Nan::kIgnore);
  return !changes && p.a.type == p.c.type && args.alpha == 1 && args.beta == 0;
}

/// Copies values; all positions are 0.
void run_copy(Stream& stream, const Problem& p, const Problem::Args& args) {
  if (p.has_values()) {
    const TensorDesc* const operands[] = {&p.c, &p.a};
    common::copy(stream, simplified_loop(operands), size_of(p.c.type), args.a, args.c);
  }
  if (p.has_positions()) {
    const TensorDesc* const operands[] = {&p.positions};
    const std::int32_t zero = 0;
    common::copy(stream, simplified_loop(operands), sizeof zero, &zero, args.positions);
  }
}

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
    common::RowLoops rows{loops.kept, loops.reduced};
    for (Loop* const loop : {&rows.kept, &rows.reduced}) {
      loop->operands = 1;
      loop->merge();
    }
    return [p, kernel, job = job_of(p), kept = loops.kept, rows, task = t[0]](Stream& on, const Args& args) {
      if (is_copy(p, args)) return run_copy(on, p, args);
      common::Operands operands;
      operands.outputs = 0;
      operands.push(args.a, size_of(p.a.type));
      const Results results(p, kept, args);
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
