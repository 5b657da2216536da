// Activation functions and their gradients, any strides: the public interface of this folder. The C API has no find for
// activations: the first run takes the best known solver, and tunes if the environment enforces a search.
// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "core/handle.h"
#include "core/problem_text.h"
#include "search/runner.h"

namespace polymio::activation {

/// Numbers equal miopenActivationMode_t, which gives the formulas, but for the last one: only epilogues have it.
enum class Mode : int {
  kPassthru = 0,
  kLogistic = 1,
  kTanh = 2,
  kRelu = 3,
  kSoftrelu = 4,
  kAbs = 5,
  kPower = 6,
  kClippedRelu = 7,
  kLeakyRelu = 8,
  kElu = 9,
  kClamp = 10,
  kSwish = 11,  // x / (1 + e^(-alpha x))
};
inline constexpr int kModes = 11, kEpilogueModes = 12;
const char* name_of(Mode);

/// Parameters of the function, rounded to float unless the tensors are fp64.
struct Parameters {
  double alpha = 0, beta = 0, gamma = 0;
};

/// y = f(x), or dx = dy * f'(x).
enum class Direction : int { kForward = 0, kBackward = 1 };

inline constexpr int kMostRank = 5;

struct Problem final : ProblemOf<Problem> {
  struct Args {
    const void* x = nullptr;
    const void* dy = nullptr;  // backward only
    void* result = nullptr;    // y, or dx; may be x or dy
    Parameters parameters;
    double scale = 1, keep = 0;  // result = scale * (...) + keep * result
    bool x_is_y = false;         // backward of an in-place forward pass: x holds y
  };

  Direction direction = Direction::kForward;
  Mode mode = Mode::kPassthru;
  TensorDesc x, y;    // forward: read and written
  TensorDesc dy, dx;  // backward: read and written; rank 0 forward

  auto fields() const { return std::tie(direction, mode, x, y, dy, dx); }
  /// The MIOpenDriver line of the problem, without parameters and scalars.
  std::string key() const override;
  std::string family() const override;
  std::vector<float> log_sizes() const override;  // the number of elements
  double work() const override;                   // bytes

  bool forward() const { return direction == Direction::kForward; }
  const TensorDesc& output() const { return forward() ? y : dx; }
  std::int64_t count() const { return x.count(); }
};

/// Tensors of rank 1 become tensors of one image. Not validated.
Problem forward_problem(Mode, const TensorDesc& x, const TensorDesc& y);
Problem backward_problem(Mode, const TensorDesc& x, const TensorDesc& y, const TensorDesc& dy, const TensorDesc& dx);

/// Throws BadParm, naming what is wrong, unless the tensors fit together.
void validate(const Problem&);

/// Whether x and y are one buffer, which then holds y: set Args::x_is_y. Otherwise backward does not read y. BadParm
/// for functions whose derivative is not a function of y.
bool forward_was_in_place(Mode, const Parameters&, const void* x, const void* y);

/// Every solver of a direction for the CPU or for GPUs, in order of preference at equal times; those of both.
SolverList solvers(Direction, DeviceKind = DeviceKind::kCpu);
SolverList all_solvers();

/// Checks results of the problem by an evaluation in double.
std::unique_ptr<const search::ResultCheck> make_check(const Problem&);

/// Runs the solver `id` at a tune point, or the best known one if the id is 0. With MIOPEN_FIND_ENFORCE the first run
/// of a problem tunes, on private data. Throws BadParm if the result overlaps an input without being the same buffer.
void run(Handle&, const Problem&, const Problem::Args&, std::uint64_t id = 0, const TunePoint& = {});

/// Immediate mode and tuning of the problem, which must outlive the result.
search::Call search_call(Handle&, const Problem&, const Constraints&);

/// data = f(data), any strides, without search: an epilogue pass for other primitives.
void apply(Stream&, const TensorDesc& desc, void* data, Mode, const Parameters&);

/// On GPUs: y = f(y * scale + bias + residual_alpha * residual), with one scale and bias per channel and a residual
/// like y, each if the epilogue has it. The bias has y's type; with a scale both are fp64 for fp64, else fp32.
struct Epilogue {
  Mode mode = Mode::kPassthru;
  bool scale = false, bias = false, residual = false;
};
struct EpilogueArgs {
  void* y;
  const void *scale, *bias, *residual;
  double residual_alpha;
  Parameters parameters;
};
/// Whether the device supports it, its kernels, and the invoker.
Verdict check_epilogue(const DeviceInfo&, DataType, Mode);
std::vector<KernelSpec> epilogue_kernels(const DeviceInfo&, DataType, const Epilogue&);
using EpilogueInvoker = std::function<void(Stream&, const EpilogueArgs&)>;
EpilogueInvoker epilogue(Stream&, const TensorDesc& y, const Epilogue&);

/// The GPU kernels of a function and its gradient for this type, and of the gated linear unit.
std::vector<KernelSpec> programs(const DeviceInfo&, DataType, Mode);

/// Gated linear unit: out = a * logistic(b), where a and b are the halves of `in` along dimension `dim`; the gradient
/// with respect to `in`.
void glu_forward(Stream&, const TensorDesc& in, const void* x, const TensorDesc& out, void* y, std::int64_t dim);
void glu_backward(Stream&, const TensorDesc& in, const void* x, const TensorDesc& out_grad, const void* dy,
                  const TensorDesc& in_grad, void* dx, std::int64_t dim);

}  // namespace polymio::activation
