// Reductions of a tensor over any set of dimensions: the interface of this folder. Passes over memory, without find.
// The order of every sum depends on sizes and strides only.
// SPDX-License-Identifier: MIT
#pragma once
#include <vector>

#include "core/solver.h"
#include "core/tensor.h"
#include "runtime/device.h"

namespace polymio::reduce {

/// Numbers equal miopenReduceTensorOp_t.
enum class Op : int { kAdd = 0, kMul = 1, kMin = 2, kMax = 3, kAmax = 4, kAvg = 5, kNorm1 = 6, kNorm2 = 7 };
inline constexpr int kOps = 8;

/// What happens to NaNs. Sums and products are NaN with the first two. Extremes: kPropagate takes the last NaN, kIgnore
/// the extreme of the numbers, kFirst the same unless the first element is NaN. kZero (kAdd, kMul): they count as 0.
enum class Nan : int { kIgnore = 0, kPropagate = 1, kFirst, kZero };

/// What is computed. c has the rank of a; its sizes are 1 or, where a is not reduced, those of a.
struct Problem {
  Op op = Op::kAdd;
  Nan nan = Nan::kIgnore;
  bool values = true;            // c is written
  bool allows_workspace = true;  // callers can give one
  TensorDesc a, c;
  TensorDesc positions;  // int32, the sizes of c; rank 0: not written, else kMin, kMax or kAmax

  bool has_positions() const { return positions.rank > 0; }
};

struct Args {
  double alpha = 1, beta = 0;  // c = alpha * result + beta * c; beta 0 does not read c
  const void* a = nullptr;
  void* c = nullptr;
  /// The number of the extreme among the reduced elements of its row, the last dimension fastest.
  std::int32_t* positions = nullptr;
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
};

bool is_extreme(Op);

/// A descriptor of positions: dense, its dimensions in the order of c's strides, so that it has the strides of a dense
/// c.
TensorDesc positions_of(const TensorDesc& c);

/// Throws with the text of what is wrong: BadParm, or UnknownError where MIOpen has that for sizes that do not fit.
void validate(const Problem&);

/// Whether the device has the arithmetic: fp64 and int32 need fp64.
bool is_supported(const DeviceInfo&, const Problem&);

/// Bytes that run() needs with buffers at any addresses. 0 on the CPU.
std::size_t workspace_bytes(const DeviceInfo&, const Problem&);

/// The problem is valid. BadParm if c or the positions overlap a; UnknownError if the workspace is too small;
/// NotImplemented if the device has no such arithmetic.
void run(Stream&, const Problem&, const Args&);

/// The programs that a GPU needs for reductions of this kind, whatever the sizes are.
std::vector<KernelSpec> programs(const DeviceInfo&, const Problem&);

}  // namespace polymio::reduce
