// Reductions of a tensor over any set of dimensions: the public interface of this folder. The C API has no find for
// them: the first run takes the best known solver, and tunes if the environment enforces a search.
// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "core/handle.h"
#include "core/problem_text.h"
#include "search/runner.h"

namespace polymio::reduce {

/// The function of the C API, and what it writes: c (kTensor also positions, if the problem has them), c, c and
/// positions, positions alone.
enum class Kind : int { kTensor = 0, kCalculation = 1, kExtreme = 2, kPosition = 3 };

/// Numbers equal miopenReduceTensorOp_t.
enum class Op : int { kAdd = 0, kMul = 1, kMin = 2, kMax = 3, kAmax = 4, kAvg = 5, kNorm1 = 6, kNorm2 = 7 };
inline constexpr int kOps = 8;

/// What happens to NaNs. Sums and products are NaN with the first two. Extremes: kPropagate takes the last NaN, kIgnore
/// the extreme of the numbers, kFirst the same unless the first element is NaN. kZero (kAdd, kMul): they count as 0.
enum class Nan : int { kIgnore = 0, kPropagate = 1, kFirst, kZero };

/// c has the rank of a; its sizes are 1 or, where a is not reduced, those of a.
struct Problem final : ProblemOf<Problem> {
  struct Args {
    double alpha = 1, beta = 0;  // c = alpha * result + beta * c; beta 0 does not read c
    const void* a = nullptr;
    void* c = nullptr;
    void* positions = nullptr;  // the extreme's number among the reduced elements of its row, last dimension fastest
    void* workspace = nullptr;
    std::size_t workspace_bytes = 0;
  };

  Kind kind = Kind::kTensor;
  Op op = Op::kAdd;
  Nan nan = Nan::kIgnore;
  TensorDesc a, c;       // kPosition: c is `positions`
  TensorDesc positions;  // int32, the sizes of c; rank 0: not written, else kMin, kMax or kAmax

  auto fields() const { return std::tie(kind, op, nan, a, c, positions); }
  /// The MIOpenDriver line of the problem, without alpha and beta.
  std::string key() const override;
  std::string family() const override;
  std::vector<float> log_sizes() const override;  // rows, elements of a row
  double work() const override;                   // bytes

  bool has_values() const { return kind != Kind::kPosition; }
  bool has_positions() const { return positions.rank > 0; }
  bool allows_workspace() const { return kind == Kind::kTensor || kind == Kind::kCalculation; }  // callers can give one
  const TensorDesc& output() const { return c; }
  std::int64_t length() const { return a.count() / c.count(); }  // elements of a row
};

bool is_extreme(Op);

/// A descriptor of positions: dense, its dimensions in the order of c's strides, so that it has the strides of a dense
/// c.
TensorDesc positions_of(const TensorDesc& c);

/// Throws with the text of what is wrong: BadParm, or UnknownError where MIOpen has that for sizes that do not fit.
void validate(const Problem&);

/// Whether the device has the arithmetic: fp64 and int32 need fp64.
bool is_supported(const DeviceInfo&, const Problem&);

/// Every solver for the CPU or for GPUs, in order of preference at equal times; those of both.
SolverList solvers(DeviceKind = DeviceKind::kCpu);
SolverList all_solvers();

/// Checks results of the problem by an evaluation in double.
std::unique_ptr<const search::ResultCheck> make_check(const Problem&);

/// Bytes with which run() takes the best known solver.
std::size_t workspace_bytes(Handle&, const Problem&);

/// Runs the best known solver that does with the given workspace. Throws BadParm if c or the positions overlap a.
void run(Handle&, const Problem&, const Problem::Args&);

search::Call search_call(Handle&, const Problem&, const Constraints&);

/// The programs that a GPU needs for reductions of this kind, whatever the sizes are.
std::vector<KernelSpec> programs(const DeviceInfo&, const Problem&);

}  // namespace polymio::reduce
