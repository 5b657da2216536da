// The order of steps, and which pointwise nodes become one pass.
// SPDX-License-Identifier: MIT
#include <algorithm>

#include "primitives/graph/draft.h"

namespace polymio::graph {
namespace {

constexpr std::size_t kChainNodes = 32;

bool has(const std::vector<int>& list, int value) { return std::ranges::find(list, value) != list.end(); }

class Scheduler {
 public:
  Scheduler(Draft& draft, Engine engine) : draft_(draft), graph_(draft.graph()), fuses_(engine == Engine::kFused) {
    if (fuses_) items_ = find_patterns(graph_);
    std::vector<bool> covered(graph_.nodes.size());
    for (const Item& item : items_)
      for (const int n : item.nodes) covered[static_cast<std::size_t>(n)] = true;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
      if (!covered[i]) items_.push_back({{static_cast<int>(i)}, graph_.nodes[i].in, {graph_.nodes[i].out}, nullptr});
    // In the order of their last nodes, which follows every node that they read.
    const auto last = [](const Item& item) { return std::ranges::max(item.nodes); };
    for (std::size_t i = 1; i < items_.size(); ++i)
      for (std::size_t k = i; k > 0 && last(items_[k]) < last(items_[k - 1]); --k) std::swap(items_[k], items_[k - 1]);
    made_.resize(graph_.tensors.size(), true);
    for (const Item& item : items_)
      for (const int t : item.writes) made_[static_cast<std::size_t>(t)] = false;
    taken_.resize(items_.size());
  }

  void run() {
    for (std::size_t left = items_.size(); left > 0; --left) {
      std::size_t next = find([&](const Item& item) { return extends_chain(item); });
      if (next == items_.size()) {
        close_chain();
        // Other steps first: they may make what a chain reads.
        next = find([&](const Item& item) { return !is_pointwise(item) && is_ready(item); });
        if (next == items_.size()) next = find([&](const Item& item) { return is_ready(item); });
      }
      take(next);
    }
    close_chain();
  }

 private:
  const Node& node(const Item& item) const { return graph_.nodes[static_cast<std::size_t>(item.nodes.front())]; }
  const TensorDesc& desc(int tensor) const { return graph_.tensors[static_cast<std::size_t>(tensor)].desc; }
  bool is_pointwise(const Item& item) const { return !item.add && node(item).kind == Kind::kPointwise; }
  bool is_ready(const Item& item) const {
    return std::ranges::all_of(item.reads, [&](int t) { return made_[static_cast<std::size_t>(t)]; });
  }

  template <class Accepts>
  std::size_t find(const Accepts& accepts) const {
    std::size_t i = 0;
    while (i < items_.size() && (taken_[i] || !accepts(items_[i]))) ++i;
    return i;
  }

  /// Whether the node can be computed in the pass of the open chain: its sizes are those of the chain, what it reads of
  /// the chain is kept in registers without rounding, and there are not too many operands.
  bool extends_chain(const Item& item) const {
    if (chain_.empty() || !fuses_ || !is_pointwise(item) || chain_.size() == kChainNodes) return false;
    const Node& n = node(item);
    if (desc(n.out).sizes().size() != sizes().sizes().size() || desc(n.out).lens != sizes().lens) return false;
    for (const int in : n.in) {
      if (made_[static_cast<std::size_t>(in)]) continue;
      const bool in_chain = std::ranges::any_of(chain_, [&](const Node* c) { return c->out == in; });
      if (!in_chain || desc(in).lens != sizes().lens || is_integer(desc(in).type) || is_fp8(desc(in).type))
        return false;
    }
    std::vector<const Node*> longer = chain_;
    longer.push_back(&n);
    std::vector<int> inputs;
    const std::vector<int> results = results_of(longer);
    const Chain code = make_chain(graph_, longer, results, inputs);
    return inputs.size() <= kChainInputs && results.size() <= kChainOutputs &&
           assign_registers(code).count <= kChainRegisters;
  }

  const TensorDesc& sizes() const { return desc(chain_.front()->out); }

  /// The tensors of these nodes that others read, or the caller.
  std::vector<int> results_of(const std::vector<const Node*>& nodes) const {
    std::vector<int> results;
    for (const Node* n : nodes) {
      bool needed = !graph_.tensors[static_cast<std::size_t>(n->out)].is_virtual;
      bool is_read = false;
      for (const Item& item : items_) {
        if (!has(item.reads, n->out)) continue;
        is_read = true;
        needed = needed || item.add || std::ranges::find(nodes, &node(item)) == nodes.end();
      }
      if (needed || !is_read) results.push_back(n->out);
    }
    return results;
  }

  void take(std::size_t i) {
    taken_[i] = true;
    const Item& item = items_[i];
    if (is_pointwise(item)) {
      chain_.push_back(&node(item));
      return;
    }
    item.add ? item.add(draft_) : draft_.add(node(item));
    for (const int t : item.writes) made_[static_cast<std::size_t>(t)] = true;
  }

  void close_chain() {
    if (chain_.empty()) return;
    const std::vector<int> results = results_of(chain_);
    draft_.add_chain(chain_, results);
    for (const Node* n : chain_) made_[static_cast<std::size_t>(n->out)] = true;
    chain_.clear();
  }

  Draft& draft_;
  const Graph& graph_;
  const bool fuses_;
  std::vector<Item> items_;
  std::vector<bool> taken_, made_;  // by item; by tensor
  std::vector<const Node*> chain_;  // open: its results are not there yet
};

}  // namespace

void schedule(Draft& draft, Engine engine) {
  if (!add_attention(draft, engine)) Scheduler(draft, engine).run();
}

}  // namespace polymio::graph
