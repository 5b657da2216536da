// The steps of a plan before they are built: what they read and write, and how long they may take.
// SPDX-License-Identifier: MIT
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "primitives/graph/chain.h"
#include "primitives/graph/graph.h"

namespace polymio::graph {

/// A tensor in a buffer, `at` elements from its start.
struct Operand {
  TensorDesc desc;
  int buffer = -1;
  std::int64_t at = 0;
};

/// Memory of the caller (`tensor` is its number in the graph), or a part of the workspace.
struct PlanBuffer {
  int tensor = -1;
  std::size_t bytes = 0, offset = 0;
};

/// A running plan, as its steps see it.
struct Running {
  Handle& handle;
  Stream& stream;
  const std::vector<PlanBuffer>& buffers;
  void* const* data;
  char* workspace;
  void* scratch = nullptr;  // of the step

  void* address(const Operand& o) const {
    const PlanBuffer& b = buffers[static_cast<std::size_t>(o.buffer)];
    char* const start = b.tensor >= 0 ? static_cast<char*>(data[b.tensor]) : workspace + b.offset;
    return start + o.at * static_cast<std::int64_t>(size_of(o.desc.type));
  }
};

using StepRun = std::function<void(const Running&)>;
struct Built {
  StepRun run;
  std::size_t scratch = 0;
};

struct Step {
  std::string name;
  std::vector<int> buffers;  // that it uses
  double us = 0;             // predicted
  std::function<Built(Handle&)> build;
};

class Draft {
 public:
  Draft(const DeviceInfo& device, const Graph& graph) : device_(device), graph_(graph) {}

  /// Adds the steps of one node.
  void add(const Node&);
  /// Adds one pass for pointwise nodes, each after those that it reads; `results` are the tensors that it writes.
  void add_chain(const std::vector<const Node*>& nodes, const std::vector<int>& results);
  /// y = softmax of x over the last dimension.
  void add_softmax(int x, int y);
  struct Epilogue {
    int bias = -1, residual = -1, y = -1;  // tensors; -1: none
    double scale = 1, residual_scale = 1;  // y = f(scale * product + residual_scale * residual + bias)
    int activation = 0;                    // activation::Mode
    double alpha = 0;                      // of the activation
  };
  void add_convolution(const Node&, const Epilogue&);
  /// With a bias and an activation.
  void add_product(const Node&, const Epilogue&);

  Operand tensor(int number);
  /// Adds a step that computes on whole operands.
  void push(std::string name, const std::vector<Operand>& operands, double operations,
            std::function<Built(Handle&)> build);

  const Graph& graph() const { return graph_; }
  std::vector<PlanBuffer> buffers;
  std::vector<Step> steps;

 private:
  Operand temporary(const TensorDesc&);
  Operand dense(const TensorDesc&, DataType);
  Operand in_type(const Operand&, DataType);
  void push_chain(std::string name, const std::vector<Operand>& in, const std::vector<Operand>& out, Chain);
  void copy(const Operand& from, const Operand& to);
  void add_reduction(const Node&);
  void add_reshape(const Node&);
  void add_random(const Node&);
  void add_index(const Node&);

  const DeviceInfo& device_;
  const Graph& graph_;
  std::vector<int> buffer_of_tensor_;
};

/// The chain of these nodes, and the tensors that are its inputs.
Chain make_chain(const Graph&, const std::vector<const Node*>& nodes, const std::vector<int>& results,
                 std::vector<int>& inputs);

/// Adds the step of a graph that is attention as a whole; false, and adds nothing, for other graphs. NotImplemented for
/// such a graph node by node.
bool add_attention(Draft&, Engine);

/// Adds the steps of all nodes, in an order in which each follows what it reads.
void schedule(Draft&, Engine);

/// Nodes that one step computes.
struct Item {
  std::vector<int> nodes;  // of the graph
  std::vector<int> reads, writes;
  std::function<void(Draft&)> add;  // null: a single node
};
/// Replaces nodes by what computes several at once: convolutions and products with an epilogue, softmax.
std::vector<Item> find_patterns(const Graph&);

}  // namespace polymio::graph
