// Local response normalisation, across channels or within a channel, any strides: the public interface of this folder.
//   scale = k + alpha / window * sum of x^2 over the window, y = x * scale ^ -beta
// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "base/hash.h"
#include "core/handle.h"
#include "core/loop.h"
#include "core/problem_text.h"
#include "search/find.h"

namespace polymio::lrn {

/// Numbers equal miopenLRNMode_t. The window is n elements of each spatial dimension, or n channels.
enum class Mode : int { kWithinChannel = 0, kCrossChannel = 1 };
enum class Direction : int { kForward = 0, kBackward = 1 };
/// Whether there is a buffer of scales, with the type and strides of y: forward writes it, backward reads it. Without
/// it backward computes them from x.
enum class Scale : int { kNone = 0, kBuffer = 1 };

/// Elements of the window along each of its dimensions; from (n - 1) / 2 before to n / 2 after its element.
struct Window {
  std::uint32_t n = 5;
  bool operator==(const Window&) const = default;
  std::uint64_t hash(std::uint64_t seed) const { return mix(seed, n); }
};

struct Parameters {
  double alpha = 1, beta = 0.75, k = 1;
};

inline constexpr int kMostRank = 5;

struct Problem final : ProblemOf<Problem> {
  struct Args {
    const void* x = nullptr;
    const void* y = nullptr;   // backward only
    const void* dy = nullptr;  // backward only
    void* scale = nullptr;     // with Scale::kBuffer
    void* result = nullptr;    // y, or dx
    Parameters parameters;
  };

  Direction direction = Direction::kForward;
  Mode mode = Mode::kWithinChannel;
  Scale scale = Scale::kNone;
  Window window;
  TensorDesc x, y;    // forward: read and written
  TensorDesc dy, dx;  // backward: read and written; rank 0 forward

  auto fields() const { return std::tie(direction, mode, scale, window, x, y, dy, dx); }
  /// The MIOpenDriver line of the problem, without parameters.
  std::string key() const override;
  std::string family() const override;
  std::vector<float> log_sizes() const override;  // the number of elements
  double work() const override;                   // bytes

  bool forward() const { return direction == Direction::kForward; }
  bool has_scale() const { return scale == Scale::kBuffer; }
  const TensorDesc& output() const { return forward() ? y : dx; }
  std::int64_t count() const { return x.count(); }
  bool windowed(std::size_t dim) const { return mode == Mode::kCrossChannel ? dim == 1 : dim >= 2; }
};

/// Throws BadParm, naming what is wrong, unless the tensors fit together.
void validate(const Problem&);

/// The elements of y, scale, x; or dx, x, dy, scale, y; without the scale if there is no buffer. Not simplified: it has
/// the dimensions of the tensors.
Loop loop_of(const Problem&);

/// Elements before and after an element that its window has along a dimension of `size` elements. Backward the window
/// is mirrored: it has the elements whose window has this one.
struct Reach {
  std::int64_t before, after;
  Reach mirrored() const { return {after, before}; }
};
Reach reach_of(const Problem&, std::int64_t size);

/// What the formulas multiply: scale = k + factor * sum of x^2, dx = scale ^ -beta * dy - ratio * x * sum of y * dy /
/// scale.
struct Factors {
  double factor, ratio;
};
Factors factors_of(const Problem&, const Parameters&);

/// Every solver of a direction for the CPU or for GPUs, in order of preference at equal times; those of both.
SolverList solvers(Direction, DeviceKind = DeviceKind::kCpu);
SolverList all_solvers();

/// Checks results of the problem by an evaluation in double.
std::unique_ptr<const search::ResultCheck> make_check(const Problem&);

/// Runs the best known solver. Throws BadParm if an output overlaps another buffer: results depend on neighbours.
void run(Handle&, const Problem&, const Problem::Args&);

/// The GPU kernels for this type.
std::vector<KernelSpec> programs(const DeviceInfo&, DataType);

}  // namespace polymio::lrn
