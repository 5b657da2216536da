// Reductions on the CPU: rows or columns of memory, then the results in double.
// SPDX-License-Identifier: MIT
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
  const auto finish = [&](std::int64_t row, const double* found) {
    double value = finished(p.op, found[0], length);
    std::int64_t position = p.has_positions() ? static_cast<std::int64_t>(found[1]) : 0;
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
  common::reduce_and_apply(stream, {loops.kept, loops.reduced}, operands, kernel, &job, finish);
}

}  // namespace polymio::reduce
