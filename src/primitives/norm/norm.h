// Layer, RMS (T5) and group normalization, and the gradients of the first two, any strides: the public interface of
// this folder. The C API has no find for them: the first run takes the best known solver, and tunes if the environment
// enforces a search.
// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "core/handle.h"
#include "core/problem_text.h"
#include "search/find.h"

namespace polymio::norm {

/// What a row is: the dimensions of x from Extent::first on, of x or of x + x2; the last dimension (RMS: without mean);
/// or one group of channels of an image.
enum class Kind : int { kLayer = 0, kAddLayer = 1, kRms = 2, kGroup = 3 };
inline constexpr int kKinds = 4;

enum class Direction : int { kForward = 0, kBackward = 1 };
enum class Affine : int { kNo = 0, kYes = 1 };  // whether weight (and bias, unless RMS) are applied

inline constexpr int kMostRank = 5;

struct Extent {
  std::int64_t first = 1;   // the first normalized dimension
  std::int64_t groups = 1;  // of channels
  bool operator==(const Extent&) const = default;
  std::uint64_t hash(std::uint64_t seed) const {
    return mix(seed, static_cast<std::uint64_t>(first) << 40 ^ static_cast<std::uint64_t>(groups));
  }
};

struct Problem final : ProblemOf<Problem> {
  /// weight, bias, dw and db have one element per element of a row (per channel for groups), mean and rstd one per row;
  /// all are dense.
  struct Args {
    const void *x = nullptr, *x2 = nullptr, *weight = nullptr, *bias = nullptr, *dy = nullptr;
    void* y = nullptr;
    void *mean = nullptr, *rstd = nullptr;  // forward: written unless null; backward: read
    void *dx = nullptr, *dw = nullptr, *db = nullptr;
    double epsilon = 1e-5;
  };

  Direction direction = Direction::kForward;
  Kind kind = Kind::kLayer;
  Affine affine = Affine::kNo;
  DataType parameters = DataType::kFloat;  // of weight, bias, dw, db; that of x if none is used
  DataType statistics = DataType::kFloat;  // of mean and rstd
  Extent extent;
  TensorDesc x, x2, y;  // x2: sums only, else rank 0; y: forward
  TensorDesc dy, dx;    // backward; rank 0 forward

  auto fields() const { return std::tie(direction, kind, affine, parameters, statistics, extent, x, x2, y, dy, dx); }
  /// The MIOpenDriver line of the problem, without epsilon.
  std::string key() const override;
  std::string family() const override;
  std::vector<float> log_sizes() const override;  // rows, elements of a row
  double work() const override;                   // bytes

  bool forward() const { return direction == Direction::kForward; }
  const TensorDesc& output() const { return forward() ? y : dx; }
  std::int64_t rows() const;
  std::int64_t length() const { return x.count() / rows(); }
};

/// The descriptors of a call, null where it has none.
struct Tensors {
  const TensorDesc *x = nullptr, *x2 = nullptr, *y = nullptr, *dy = nullptr, *dx = nullptr;
  const TensorDesc *weight = nullptr, *bias = nullptr, *mean = nullptr, *rstd = nullptr, *dw = nullptr, *db = nullptr;
};

/// Checks the descriptors of parameters and statistics, which the problem does not keep; the others are not validated.
Problem make_problem(Kind, Direction, Affine, const Extent&, const Tensors&);

/// Throws BadParm, naming what is wrong, unless the tensors fit together.
void validate(const Problem&);

/// Every solver of a direction for the CPU or for GPUs, in order of preference at equal times; those of both.
SolverList solvers(Direction, DeviceKind = DeviceKind::kCpu);
SolverList all_solvers();

/// Checks results of the problem by an evaluation in double.
std::unique_ptr<const search::ResultCheck> make_check(const Problem&);

/// Runs the best known solver, without workspace. Throws BadParm if an output overlaps an input without being
/// the same buffer.
void run(Handle&, const Problem&, const Problem::Args&);

/// The GPU kernels for tensors and parameters of these types.
std::vector<KernelSpec> programs(const DeviceInfo&, DataType data, DataType parameters);

}  // namespace polymio::norm
