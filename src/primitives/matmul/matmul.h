// Batched matrix products for other primitives: the public interface of this folder. No function of the C API computes
// one alone. A composite adds best_solver() as a step (core/composite.h); other callers use run().
// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "core/handle.h"
#include "core/problem_text.h"
#include "search/runner.h"

namespace polymio::matmul {

inline constexpr int kMostRank = 5;

/// What follows the product, per element of c.
struct Epilogue {
  bool bias = false;   // an element per column of c, of c's type, for all batches
  int activation = 0;  // activation::Mode, not kPower; 0 is none
  bool operator==(const Epilogue&) const = default;
  bool empty() const { return *this == Epilogue{}; }
  std::uint64_t hash(std::uint64_t seed) const;
};

/// c = activation(alpha * a x b + beta * c + bias) for every batch index: a is [batch.., m, k], b [batch.., k, n], c
/// [batch.., m, n], with any strides: a transpose is a pair of exchanged strides. A batch size of a or b is that of c,
/// or 1: the matrix is then the same for all. a and b are fp32, fp16, bf16 or fp64; c has their type or, for 16-bit
/// ones, fp32. Sums are in fp32, of fp64 in fp64. k may be 0, which make_tensor() does not allow: set the length in the
/// description.
struct Problem final : ProblemOf<Problem> {
  /// The matrices begin `*_at` elements from the buffers: OpenCL's memory objects are used from their start only. c
  /// shares no memory with a and b, which nothing checks. beta 0 does not read c.
  struct Args {
    const void* a = nullptr;
    const void* b = nullptr;
    void* c = nullptr;
    std::int64_t a_at = 0, b_at = 0, c_at = 0;
    double alpha = 1, beta = 0;
    const void* bias = nullptr;
    double activation_alpha = 0, activation_beta = 0, activation_gamma = 0;
    void* workspace = nullptr;
    std::size_t workspace_bytes = 0;
  };

  TensorDesc a, b, c;
  Epilogue epilogue;

  auto fields() const { return std::tie(a, b, c, epilogue); }
  /// A line of tests/cases/matmul: no command of the driver.
  std::string key() const override;
  std::string family() const override;
  std::vector<float> log_sizes() const override;  // batch, m, n, k
  double work() const override;                   // operations

  std::int64_t m() const { return c.lens[row()]; }
  std::int64_t n() const { return c.lens[column()]; }
  std::int64_t k() const { return a.lens[column()]; }
  std::size_t row() const { return static_cast<std::size_t>(c.rank - 2); }
  std::size_t column() const { return static_cast<std::size_t>(c.rank - 1); }
  const TensorDesc& output() const { return c; }
};

/// Matrices of `rows` x `columns` with these strides; `batch_sizes` and `batch_strides` may be empty. Not validated.
TensorDesc matrices(DataType, std::int64_t rows, std::int64_t columns, std::int64_t row_stride,
                    std::int64_t column_stride, std::span<const std::int64_t> batch_sizes = {},
                    std::span<const std::int64_t> batch_strides = {});

/// Throws BadParm, naming what is wrong, unless the tensors fit together.
void validate(const Problem&);

/// Every solver for the CPU or for GPUs, in order of preference at equal times; those of both.
SolverList solvers(DeviceKind = DeviceKind::kCpu);
SolverList all_solvers();

/// The solver with the least estimate at its default point, without a search, for callers that make plans of their own.
/// NotImplemented, with the reasons, if none applies.
const SolverBase& best_solver(const DeviceInfo&, const Problem&);

/// Checks results of the problem by an evaluation in double.
std::unique_ptr<const search::ResultCheck> make_check(const Problem&);

/// The GPU kernels for operands of the type `in` and results of the type `out`.
std::vector<KernelSpec> programs(const DeviceInfo&, DataType in, DataType out);

/// Runs best_solver() as it is predicted to be fastest with this workspace, which may be none. Never searches. Throws
/// BadParm for tensors that do not fit together.
void run(Handle&, const Problem&, const Problem::Args&);

/// Find, immediate mode and tuning of the problem, which must outlive the result.
search::Call search_call(Handle&, const Problem&, const Constraints&);

}  // namespace polymio::matmul
