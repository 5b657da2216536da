// Chains of operations, each on the result of the one before: the public interface of this folder. A chain is cut into
// stages, one call of another primitive each: a convolution takes a bias, a batch norm with given moments and an
// activation that follow it, a batch norm takes an activation. Stages after the last convolution run in place.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "primitives/activation/activation.h"
#include "primitives/batch_norm/batch_norm.h"
#include "primitives/convolution/convolution.h"

namespace polymio::fusion {

/// Forward, or backward data as which a transposed convolution is computed.
struct Convolution {
  convolution::Problem problem;  // without an epilogue
  Constraints constraints;
  std::uint64_t seed = 0;
};
/// One value per channel, of the type of x.
struct Bias {
  TensorDesc x, y;
};
struct BatchNorm {
  batch_norm::Problem problem;  // without an activation
};
/// Backward: x and y are dy and dx; the gradient comes from the forward input where it is described, else from the
/// forward result, like x. Args have them.
struct Activation {
  TensorDesc x, y;
  activation::Mode mode = activation::Mode::kPassthru;
  bool backward = false;
  TensorDesc input{};
};
using Operation = std::variant<Convolution, Bias, BatchNorm, Activation>;

/// BadParm unless the tensor has one value per channel of `data`, without gaps, in its type.
void check_bias(const TensorDesc& bias, const TensorDesc& data);

/// What an operation reads and writes besides the result of the one before.
struct Args {
  const void* w = nullptr;
  const void* bias = nullptr;
  batch_norm::Problem::Args norm;  // x, backward only; parameters, moments and outputs
  const void* x = nullptr;         // of a backward activation that describes it: the forward input
  const void* y = nullptr;         // of a backward activation: the forward result; null if not needed
  activation::Parameters activation;
};

/// Where a stage reads and writes: the caller's tensors, or buffers of the workspace from 0 on.
enum Place : int { kIn = -1, kOut = -2, kNormX = -3 };

/// One call. `problem` is what the first operation or all of them together compute.
struct Stage {
  static constexpr std::size_t kNone = SIZE_MAX;
  struct AddBias {
    TensorDesc x, y, bias;
  };
  std::variant<convolution::Problem, batch_norm::Problem, activation::Problem, AddBias> problem;
  Constraints constraints{};
  std::uint64_t seed = 0;
  // The operations whose arguments it takes.
  std::size_t convolution = kNone, bias = kNone, norm = kNone, activation = kNone;
  int from = kIn, to = kOut;
};

/// How a chain runs on a handle: the solver of each stage, and the workspace.
struct Plan {
  struct Choice {
    std::uint64_t id = 0;  // 0: the best known one
    TunePoint point;       // empty: the best known one
    std::size_t workspace = 0;
  };
  std::vector<Choice> stages;
  std::size_t scratch = 0;    // bytes of a stage's own workspace, at the start
  std::size_t workspace = 0;  // bytes in all
};

class Chain {
 public:
  /// Throws BadParm or NotImplemented where an operation is wrong, UnsupportedOp for chains without a meaning: none,
  /// one that begins with a bias in front of a convolution, an activation's gradient that its result does not tell.
  explicit Chain(std::vector<Operation>);

  const std::vector<Stage>& stages() const { return stages_; }
  /// The problems of all stages.
  std::string text() const;

  /// The stage whose solvers callers may choose from: the first convolution, else the first batch norm, else the first
  /// activation. NotImplemented without one.
  const Stage& main() const;
  /// Its solvers, best first.
  std::vector<search::Candidate> solutions(Handle&, const Constraints&) const;
  search::Call search_call(Handle&, const Constraints&) const;
  /// Those of every stage that has solvers.
  std::vector<search::Call> search_calls(Handle&) const;
  SolverList solvers(DeviceKind) const;

  /// Chooses solvers without running any and makes the plans of convolutions. `choice` has solver and point of the main
  /// stage, else it takes the best known one within the limit; `algorithms` restricts convolutions that have one of
  /// them.
  Plan prepare(Handle&, std::size_t workspace_limit, const search::Candidate* choice = nullptr,
               unsigned algorithms = ~0u) const;

  /// Runs all stages. `in` is only read; it may be `out` unless there is a convolution. `args` has those of each
  /// operation, `workspace` the bytes of the plan, at an address aligned to 256 bytes or as memory is allocated.
  struct Call {
    const void* in;
    void* out;
    std::span<const Args> args;
    void* workspace;
  };
  void run(Handle&, const Plan&, const Call&) const;

 private:
  std::size_t add(const std::vector<Operation>&, std::size_t);
  std::size_t add_convolution(const std::vector<Operation>&, std::size_t);
  std::size_t add_norm(const std::vector<Operation>&, std::size_t);
  void add_gradient(const BatchNorm&, std::size_t norm, const Activation&, std::size_t activation);
  void place();

  std::vector<Stage> stages_;
  std::vector<std::size_t> buffers_;  // bytes
};

}  // namespace polymio::fusion
