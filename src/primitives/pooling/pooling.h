// Pooling over windows of 1-D to 3-D tensors, and its gradient: the public interface of this folder. The C API has no
// find for pooling: the first run takes the best known solver, and tunes if the environment enforces a search.
// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "core/handle.h"
#include "core/problem_text.h"
#include "search/find.h"

namespace polymio::pooling {

/// Numbers equal miopenPoolingMode_t.
enum class Mode : int { kMax = 0, kAverage = 1, kAverageInclusive = 2 };
/// The integers of miopenIndexType_t, plus 1; kNone: no indices.
enum class Index : int { kNone = 0, kUint8 = 1, kUint16 = 2, kUint32 = 3, kUint64 = 4 };
/// Numbers equal miopenPoolingWorkspaceIndexMode_t: an index is a position in the window, or in the image.
enum class Position : int { kWindow = 0, kImage = 1 };
enum class Direction : int { kForward = 0, kBackward = 1 };

constexpr std::size_t size_of(Index i) { return i == Index::kNone ? 0 : std::size_t{1} << (static_cast<int>(i) - 1); }

inline constexpr int kMostSpatial = 3;

/// Per spatial dimension, in the order [D], [H], W.
struct Window {
  int rank = 2;  // spatial dimensions
  std::array<std::int64_t, kMostSpatial> length{1, 1, 1}, pad{}, stride{1, 1, 1};
  bool operator==(const Window&) const = default;
  std::uint64_t hash(std::uint64_t seed) const;
  /// Elements, padding included.
  std::int64_t volume() const;
  /// max(1, (size + 2 * pad - length) / stride + 1), rounded down.
  std::int64_t outputs(std::size_t dim, std::int64_t size) const;
};

struct Problem final : ProblemOf<Problem> {
  struct Args {
    const void* x = nullptr;     // forward, and backward of a maximum without indices
    const void* dy = nullptr;    // backward only
    void* result = nullptr;      // y, or dx
    void* index = nullptr;       // written forward, read backward
    double scale = 1, keep = 0;  // result = scale * (...) + keep * result
  };

  Direction direction = Direction::kForward;
  Mode mode = Mode::kMax;
  Index index = Index::kNone;  // of maxima only
  Position position = Position::kWindow;
  Window window;
  TensorDesc x, y;    // forward: read and written
  TensorDesc dy, dx;  // backward: read and written; rank 0 forward

  auto fields() const { return std::tie(direction, mode, index, position, window, x, y, dy, dx); }
  /// The MIOpenDriver line of the problem, without scalars.
  std::string key() const override;
  std::string family() const override;
  std::vector<float> log_sizes() const override;
  double work() const override;  // bytes

  bool forward() const { return direction == Direction::kForward; }
  const TensorDesc& output() const { return forward() ? y : dx; }
  /// Whether the gradient finds the maxima in x.
  bool searches_x() const { return !forward() && mode == Mode::kMax && index == Index::kNone; }
  bool uses(const TensorDesc& t) const { return &t == &x ? forward() || searches_x() : t.rank != 0; }
};

/// Throws BadParm, naming what is wrong, unless the descriptor's values are valid and the tensors fit together;
/// UnknownError, as MIOpen, for ranks that have no windows and for index types that cannot hold every position.
void validate(const Problem&);
/// The part of validate() that needs no tensors.
void validate(Mode, const Window&);

/// The tensor of indices: the sizes of y and the order of its dimensions, without gaps. Its type means nothing.
TensorDesc index_tensor(const TensorDesc& y);
/// Bytes of the indices, 0 without.
std::size_t index_bytes(const Problem&);

/// Every solver of a direction for the CPU or for GPUs, in order of preference at equal times; those of both.
SolverList solvers(Direction, DeviceKind = DeviceKind::kCpu);
SolverList all_solvers();

/// Checks results of the problem by an evaluation in double.
std::unique_ptr<const search::ResultCheck> make_check(const Problem&);

/// Runs the best known solver. With MIOPEN_FIND_ENFORCE the first run of a problem tunes, on private data. Throws
/// BadParm if a written buffer overlaps another one.
void run(Handle&, const Problem&, const Problem::Args&);

/// The GPU kernels of both directions for this type.
std::vector<KernelSpec> programs(const DeviceInfo&, DataType, Mode);

}  // namespace polymio::pooling
