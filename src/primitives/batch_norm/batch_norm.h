// Batch normalisation, any strides: the public interface of this folder. With m elements that share a mean:
//   forward   y = activation((x - mean) * inverse * scale + bias), inverse = 1 / sqrt(variance + epsilon)
//   backward  dbias = sum dy, dscale = sum dy * (x - mean) * inverse, both 0 where the activation has no gradient,
//             dx = scale * inverse * (dy - dbias / m - (x - mean) * inverse * dscale / m)
// The C API has no find for it: the first run takes the best known solver, and tunes if the environment enforces that.
// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "core/problem_text.h"
#include "primitives/activation/activation.h"
#include "search/runner.h"

namespace polymio::batch_norm {

/// Which elements share a mean: those of all images, or those of a channel. Numbers equal miopenBatchNormMode_t.
enum class Mode : int { kPerActivation = 0, kSpatial = 1 };

/// Training takes the moments of this batch, inference given ones.
enum class Direction : int { kTraining = 0, kInference = 1, kBackward = 2 };

inline constexpr int kMostRank = 5;

struct Problem final : ProblemOf<Problem> {
  struct Args {
    const void *x = nullptr, *dy = nullptr;
    void* out = nullptr;                           // y or dx; may be x or dy
    const void *scale = nullptr, *bias = nullptr;  // backward reads bias only with an activation
    /// Training: the running moments before, may be null. Inference: the moments. Backward: the saved mean and inverse
    /// deviation, both null: from x.
    const void *mean = nullptr, *variance = nullptr;
    bool inverse = false;                                  // inference: `variance` holds inverse deviations
    void *next_mean = nullptr, *next_variance = nullptr;   // training: running moments, both null: none
    void *saved_mean = nullptr, *saved_inverse = nullptr;  // training, both null: none
    void *dscale = nullptr, *dbias = nullptr;              // backward, may be null
    double factor = 1, epsilon = 0;                        // running = (1 - factor) * running + factor * batch
    activation::Parameters activation;
    double blend = 1, keep = 0;                      // out = blend * (...) + keep * out
    double parameter_blend = 1, parameter_keep = 0;  // dscale and dbias likewise
  };

  Direction direction = Direction::kTraining;
  Mode mode = Mode::kSpatial;
  activation::Mode activation = activation::Mode::kPassthru;
  TensorDesc x, out;      // y, or dx; dx may have another type than x
  TensorDesc dy;          // rank 0 forward
  TensorDesc parameters;  // sizes and strides of all parameters, of type float
  DataType scale_type = DataType::kFloat;
  DataType bias_type = DataType::kFloat;    // and of the gradients of scale and bias
  DataType moment_type = DataType::kFloat;  // of mean and variance

  auto fields() const {
    return std::tie(direction, mode, activation, x, out, dy, parameters, scale_type, bias_type, moment_type);
  }
  /// The MIOpenDriver line of the problem, without scalars.
  std::string key() const override;
  std::string family() const override;
  std::vector<float> log_sizes() const override;  // of parameters, and of elements per parameter
  double work() const override;                   // bytes

  bool forward() const { return direction != Direction::kBackward; }
  const TensorDesc& output() const { return out; }
  std::int64_t count() const { return x.count(); }
};

/// The sizes of the parameters of x in this mode: 1 where elements share them.
TensorDesc parameters_of(const TensorDesc& x, Mode);

/// Whether solvers compute the activation with the norm.
bool computes(activation::Mode);

/// Throws BadParm, naming what is wrong, unless the tensors fit together; NotImplemented for an activation that solvers
/// do not compute.
void validate(const Problem&);

/// Every solver of a direction for the CPU or for GPUs, in order of preference at equal times; those of both.
SolverList solvers(Direction, DeviceKind = DeviceKind::kCpu);
SolverList all_solvers();

/// Checks y or dx by an evaluation in double.
std::unique_ptr<const search::ResultCheck> make_check(const Problem&);

/// Runs the solver `id` at a tune point, or the best known one if the id is 0. Throws BadParm if the result overlaps an
/// input without being the same buffer. Activations that solvers do not compute are passes of their own: in memory of
/// the handle where the result is added to, or where dx is x or dy or has another type than x, else in the result.
void run(Handle&, const Problem&, const Problem::Args&, std::uint64_t id = 0, const TunePoint& = {});

/// Immediate mode and tuning of the problem, which must outlive the result.
search::Call search_call(Handle&, const Problem&, const Constraints&);

/// The GPU kernels of a problem.
std::vector<KernelSpec> programs(const DeviceInfo&, const Problem&);

}  // namespace polymio::batch_norm
