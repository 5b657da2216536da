// Reductions on the CPU: rows or columns of memory, then the results in double.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/kernels_of.h"
#include "kernels/cpu/reduce.h"
#include "primitives/common/reduce.h"
#include "primitives/reduce/passes.h"

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

double finished(Op op, double value, std::int64_t length) {
  switch (op) {
    case Op::kMin: return -value;
    case Op::kAvg: return value / static_cast<double>(length);
    case Op::kNorm2: return std::sqrt(value);
    default: return value;
  }
}

}  // namespace

void run_cpu(Stream& stream, const Problem& p, const Args& args) {
  const Loops loops(p);
  common::Operands operands;
  operands.outputs = 0;
  operands.push(args.a, size_of(p.a.type));
  const auto& kernel = *kernels::kernels_of<kernels::ReduceKernels>(stream.info().isa).kernel(kind_of(p), p.a.type);
  const kernels::ReduceJob job = job_of(p);
  const std::int64_t length = loops.reduced.count();
  const bool plain = p.values && !p.has_positions() && p.nan != Nan::kFirst && args.beta == 0;
  const auto finish = [&](std::int64_t row, double value, std::int64_t position) {
    if (p.nan == Nan::kFirst) {
      const double first = dtype::load(p.a.type, args.a, offset_of(loops.kept, row, 0));
      if (std::isnan(first)) {
        value = first;
        position = 0;
      }
    }
    if (p.has_positions()) args.positions[offset_of(loops.kept, row, 2)] = static_cast<std::int32_t>(position);
    if (!p.values) return;
    const std::int64_t at = offset_of(loops.kept, row, 1);
    value *= args.alpha;
    if (args.beta != 0) value += args.beta * dtype::load(p.c.type, args.c, at);
    dtype::store(p.c.type, args.c, at, value);
  };
  const auto finish_rows = [&](std::int64_t first, std::int64_t n, double* values, std::int64_t pitch) {
    for (std::int64_t i = 0; i < n; ++i) values[i] = finished(p.op, values[i], length);
    if (plain && p.c.type == DataType::kFloat) {
      Cursor at(loops.kept, first);
      for (std::int64_t i = 0, m; i < n; i += m, at.advance(m)) {
        m = std::min(at.run(), n - i);
        float* const c = static_cast<float*>(args.c) + at.offset(1);
        const std::int64_t stride = loops.kept.inner().strides[1];
        for (std::int64_t j = 0; j < m; ++j) c[j * stride] = static_cast<float>(args.alpha * values[i + j]);
      }
      return;
    }
    for (std::int64_t i = 0; i < n; ++i)
      finish(first + i, values[i], p.has_positions() ? static_cast<std::int64_t>(values[pitch + i]) : 0);
  };
  common::reduce_many(stream, {loops.kept, loops.reduced}, operands, kernel, &job, finish_rows);
}

}  // namespace polymio::reduce
