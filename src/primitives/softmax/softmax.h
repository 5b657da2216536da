// Softmax over channels or whole images and its gradient, any strides: the public interface of this folder. Find 2.0
// measures the solvers; the other functions run the best known one.
// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "core/handle.h"
#include "core/problem_text.h"
#include "search/runner.h"

namespace polymio::softmax {

/// Numbers equal miopenSoftmaxAlgorithm_t. kFast is computed as kAccurate: it costs nothing and does not overflow.
enum class Algorithm : int { kFast = 0, kAccurate = 1, kLog = 2 };
inline constexpr int kAlgorithms = 3;
/// Numbers equal miopenSoftmaxMode_t. A row, whose results add up to 1, is an image or its channels at one pixel.
enum class Mode : int { kInstance = 0, kChannel = 1 };
inline constexpr int kModes = 2;
/// y from x, or dx from y and dy.
enum class Direction : int { kForward = 0, kBackward = 1 };

inline constexpr int kMostRank = 5;

struct Problem final : ProblemOf<Problem> {
  struct Args {
    const void* in = nullptr;    // x; backward: y
    const void* dy = nullptr;    // backward only
    void* result = nullptr;      // y or dx; may be an input
    double scale = 1, keep = 0;  // result = scale * (...) + keep * result
  };

  Direction direction = Direction::kForward;
  Algorithm algorithm = Algorithm::kAccurate;
  Mode mode = Mode::kChannel;
  TensorDesc in;   // x; backward: y
  TensorDesc dy;   // backward only
  TensorDesc out;  // y; backward: dx

  auto fields() const { return std::tie(direction, algorithm, mode, in, dy, out); }
  /// The MIOpenDriver line of the problem, without scalars.
  std::string key() const override;
  std::string family() const override;
  std::vector<float> log_sizes() const override;  // rows, elements of a row
  double work() const override;                   // bytes

  bool forward() const { return direction == Direction::kForward; }
  bool log() const { return algorithm == Algorithm::kLog; }
  const TensorDesc& output() const { return out; }
  bool reduces(std::size_t dim) const { return dim == 1 || (dim > 1 && mode == Mode::kInstance); }
  std::int64_t row_size() const;
  const char* in_name() const { return forward() ? "x" : "y"; }
  const char* out_name() const { return forward() ? "y" : "dx"; }
};

/// A tensor of rank 1 becomes one image; more dimensions than 5 are merged where they can be. Not validated.
Problem forward_problem(Algorithm, Mode, const TensorDesc& x, const TensorDesc& y);
Problem backward_problem(Algorithm, Mode, const TensorDesc& y, const TensorDesc& dy, const TensorDesc& dx);

/// Throws BadParm, naming what is wrong, unless the tensors fit together.
void validate(const Problem&);

/// Every solver of a direction for the CPU or for GPUs, in order of preference at equal times; those of both.
SolverList solvers(Direction, DeviceKind = DeviceKind::kCpu);
SolverList all_solvers();

/// Checks results of the problem by an evaluation in double.
std::unique_ptr<const search::ResultCheck> make_check(const Problem&);

/// The GPU kernels of a direction for this type.
std::vector<KernelSpec> programs(const DeviceInfo&, DataType, Direction, bool log);

/// Runs the solver `id` at a tune point, or the best known one if the id is 0: with MIOPEN_FIND_ENFORCE the first run
/// of a problem tunes, on private data. Throws BadParm if the result overlaps an input without being the same buffer.
void run(Handle&, const Problem&, const Problem::Args&, std::uint64_t id = 0, const TunePoint& = {});

/// Find, immediate mode and tuning of the problem, which must outlive the result.
search::Call search_call(Handle&, const Problem&, const Constraints&);

/// Measures on these tensors. NotInitialized while the stream is being captured.
std::vector<search::Candidate> find(Handle&, const Problem&, const Constraints&, const Problem::Args&,
                                    const search::FindOptions&);

}  // namespace polymio::softmax
