// The gradient of a bias: the sum of dy over everything but the channels, as a reduction.
// SPDX-License-Identifier: MIT
#include <algorithm>

#include "kernels/cpu/kernels_of.h"
#include "kernels/cpu/tensor_ops.h"
#include "primitives/common/reduce.h"
#include "primitives/tensor_ops/cpu/rows.h"
#include "primitives/tensor_ops/passes.h"

namespace polymio::tensor_ops {
namespace {

using common::kBlock;

template <class D>
D sum_block(const D* p, std::int64_t n) {
  constexpr std::int64_t kLanes = 16;
  D lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (std::int64_t j = 0; j < kLanes; ++j) lanes[j] += p[i + j];
  D sum = 0;
  for (const D lane : lanes) sum += lane;
  for (; i < n; ++i) sum += p[i];
  return sum;
}

/// The sum of elements of a type without a kernel of the instruction set, whose job is the type. Blocks are converted
/// to D, sums are of type A.
template <class D, class A>
struct ConvertedSum {
  static DataType type(const void* job) { return *static_cast<const DataType*>(job); }

  static void start(const void*, A* sum) { *sum = 0; }
  static void merge(const void*, std::int64_t n, const A* later, A* sums, std::int64_t) {
    for (std::int64_t i = 0; i < n; ++i) sums[i] += later[i];
  }

  static void reduce(const void* job, const kernels::Run& run, std::int64_t, A* sum) {
    D block[kBlock];
    for (std::int64_t r = 0; r < run.rows; ++r) {
      const char* const row = static_cast<const char*>(run.in[0]) + r * run.in_row_bytes[0];
      for (std::int64_t i = 0; i < run.n; i += kBlock) {
        const std::int64_t n = std::min(kBlock, run.n - i);
        reader<D>(type(job))(at(row, type(job), i), 1, n, block);
        *sum += sum_block(block, n);
      }
    }
  }

  static void reduce_columns(const void* job, const kernels::Rows& rows, std::int64_t, A* sums, std::int64_t) {
    const ReadRow<D> read = reader<D>(type(job));
    D block[kBlock];
    for (std::int64_t r = 0; r < rows.rows; ++r) {
      const char* const row = static_cast<const char*>(rows.in[0]) + r * rows.row_bytes[0];
      for (std::int64_t i = 0; i < rows.n; i += kBlock) {
        const std::int64_t n = std::min(kBlock, rows.n - i);
        read(at(row, type(job), i), 1, n, block);
        for (std::int64_t j = 0; j < n; ++j) sums[i + j] += block[j];
      }
    }
  }

  static constexpr kernels::Reduction<A> kKernel = {
      .start = &start, .reduce = &reduce, .reduce_columns = &reduce_columns, .merge = &merge};
};

/// Offset of a channel of a tensor, possibly NCHWc.
std::int64_t channel_offset(const TensorDesc& t, std::int64_t k) {
  return k / t.vector_length * t.strides[1] + k % t.vector_length;
}

/// A: type of the sums, S: type of alpha * sum + beta * db.
template <class A, class S>
void run_in(Stream& stream, double alpha, Input dy, double beta, Output db, const kernels::Reduction<A>& kernel) {
  const TensorDesc* const desc = &dy.desc;
  const auto vector_dim = static_cast<std::size_t>(dy.desc.rank);
  const common::RowLoops loops =
      common::row_loops(make_loop({&desc, 1}), [&](std::size_t d) { return d != 1 && d != vector_dim; });
  common::Operands operands;
  operands.outputs = 0;
  operands.push(dy.data, size_of(dy.desc.type));
  const DataType type = db.desc.type;
  common::reduce<A>(stream, loops, operands, kernel, &dy.desc.type, [&](std::int64_t k, const A* sum) {
    void* const out = at(db.data, type, channel_offset(db.desc, k));
    S value = static_cast<S>(alpha) * static_cast<S>(*sum);
    if (beta != 0) {
      S old;
      reader<S>(type)(out, 1, 1, &old);
      value += static_cast<S>(beta) * old;
    }
    writer<S>(type)(&value, 1, out, 1);
  });
}

}  // namespace

void run_bias_backward(Stream& stream, double alpha, Input dy, double beta, Output db) {
  const DataType types[] = {dy.desc.type, db.desc.type};
  const double scalars[] = {alpha, beta};
  const bool wide = dy.desc.type == DataType::kInt32 || dy.desc.type == DataType::kInt64;
  const kernels::Reduction<>* const kernel =
      kernels::kernels_of<kernels::TensorOpsKernels>(stream.info().isa).sum(dy.desc.type);
  if (kernel)
    run_in<double, double>(stream, alpha, dy, beta, db, *kernel);
  else if (wide && needs_exact(types, scalars))
    run_in<Wide, Wide>(stream, alpha, dy, beta, db, ConvertedSum<Wide, Wide>::kKernel);
  else if (wide)
    run_in<Wide, double>(stream, alpha, dy, beta, db, ConvertedSum<Wide, Wide>::kKernel);
  else
    run_in<double, double>(stream, alpha, dy, beta, db, ConvertedSum<float, double>::kKernel);
}

}  // namespace polymio::tensor_ops
