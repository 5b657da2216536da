// Graphs of operations on tensors and plans that execute them: the public interface of this folder. A plan is a list of
// steps, each a call of another primitive or a chain of pointwise nodes, in one workspace that holds the virtual
// tensors.
// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "core/handle.h"
#include "core/tensor.h"

namespace polymio::graph {

/// Numbers equal miopenPointwiseMode_t.
enum class Mode : int {
  kAdd = 0,
  kAddSquare,
  kDiv,
  kMax,
  kMin,
  kMod,
  kMul,
  kPow,
  kSub,
  kAbs,
  kCeil,
  kCos,
  kExp,
  kFloor,
  kLog,
  kNeg,
  kRsqrt,
  kSin,
  kSqrt,
  kTan,
  kErf,
  kIdentity,
  kRelu,
  kTanh,
  kSigmoid,
  kElu,
  kGelu,
  kSoftplus,
  kSwish,
  kGeluTanh,
  kReluBackward,
  kTanhBackward,
  kSigmoidBackward,
  kEluBackward,
  kGeluBackward,
  kSoftplusBackward,
  kSwishBackward,
  kGeluTanhBackward,
  kEqual,
  kNotEqual,
  kGreater,
  kGreaterEqual,
  kLess,
  kLessEqual,
  kAnd,
  kOr,
  kNot,
  kIndex,
  kSelect,
  kReciprocal,
};
inline constexpr int kModes = 50;

/// Which tensors a mode reads, in the order of Node::in: X; X and B; X, B and T; or Y and DY.
enum class Slots { kUnary, kBinary, kSelect, kBackward };
Slots slots_of(Mode);

struct Pointwise {
  Mode mode = Mode::kIdentity;
  DataType precision = DataType::kFloat;
  bool propagates_nan = false;
  double lower_clip = 0, upper_clip = 3.402823466385288598e38, lower_slope = 0;
  double elu_alpha = 1, softplus_beta = 1, swish_beta = 1;
  double alpha1 = 1, alpha2 = 1;  // factors of X and B; of the result where the mode is backward
};

/// Numbers equal convolution::Direction.
enum class Direction : int { kForward = 0, kBackwardData = 1, kBackwardWeights = 2 };

/// A convolution without groups: they are the channels of X divided by those of W.
struct Convolution {
  Direction direction = Direction::kForward;
  bool transposed = false;
  std::vector<std::int64_t> pre, post, stride, dilation;
  double alpha = 1, beta = 0;
};

/// Numbers equal miopenRngDistribution_t.
enum class Distribution : int { kBernoulli = 0, kUniform = 1, kNormal = 2 };
struct Random {
  Distribution distribution = Distribution::kBernoulli;
  double first = 0.5, second = 0;  // probability of 1; least and largest value; mean and standard deviation
  std::int64_t seed = 0;           // unless the node has a second input
};

enum class Kind : int { kConvolution, kMatmul, kPointwise, kReduction, kReshape, kRandom, kIndex };
inline constexpr int kKinds = 7;

/// An operation. `in` and `out` are numbers of tensors; `in` has: X and W (forward), W and DY (data), X and DY
/// (weights); A and B; see Slots; X; X; the offset and, for a seed in device memory, the seed; X, of which only the
/// sizes count.
struct Node {
  Kind kind = Kind::kPointwise;
  std::vector<int> in;
  int out = 0;
  Pointwise pointwise;
  Convolution convolution;
  int reduction = 0;  // as miopenReduceTensorOp_t
  Random random;
  std::int64_t axis = -1;  // along which indices count
};

struct Tensor {
  std::int64_t id = 0;  // the caller's
  TensorDesc desc;
  bool is_virtual = false;  // has no memory of the caller
};

inline constexpr std::size_t kMaxTensors = 512;

struct Graph {
  std::vector<Tensor> tensors;
  std::vector<Node> nodes;  // each after those whose results it reads
};

/// Sorts the nodes. BadParm for a cycle, a tensor that two nodes write, a virtual one that none writes, two tensors
/// with one id, and more than kMaxTensors tensors.
void complete(Graph&);

/// BadParm unless sizes and types of the node's tensors fit together.
void validate(const Graph&, const Node&);

/// How a graph is cut into steps.
enum class Engine : int {
  /// Chains of pointwise nodes are a pass; convolutions and products with what follows, softmax and attention a step.
  kFused = 0,
  kNodes = 1,  // every node is a step
};

/// Predicted time and the engines that compute the graph, fastest first; none, with the reason, if no engine can.
struct Prediction {
  Engine engine;
  double us;
};
struct Predictions {
  std::vector<Prediction> engines;
  std::string reason;
};
Predictions predict(const DeviceInfo&, const Graph&);

/// Of a graph whose nodes are valid. Ready to run: its parts are built, its workspace is planned. Safe for concurrent
/// runs with different buffers.
class Plan {
 public:
  /// NotImplemented, with the reason, if the engine cannot compute the graph on the handle's device.
  Plan(Handle&, const Graph&, Engine);
  ~Plan();
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  std::size_t workspace_bytes() const;
  const Graph& graph() const;
  Engine engine() const;
  /// A name for each step, for logs and tests: "convolution", "chain(3)", "matmul", "softmax", "attention", ...
  std::vector<std::string> steps() const;

  /// `data`: the caller's buffer of each tensor, null for virtual ones. The workspace has workspace_bytes() bytes, is
  /// aligned to 16 and shares no memory with other buffers. BadParm for missing buffers and ones whose elements are
  /// not aligned, and for a handle of another device than that of the plan.
  void run(Handle&, void* const* data, void* workspace) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// The graph and the engine as JSON, and back. BadParm, naming what is wrong, for text that is not of that form.
std::string to_json(const Graph&, Engine);
Graph from_json(std::string_view text, Engine&);  // its nodes are valid

/// The program of every function that chains use, and that of random numbers.
std::vector<KernelSpec> programs(const DeviceInfo&, DataType);

}  // namespace polymio::graph
