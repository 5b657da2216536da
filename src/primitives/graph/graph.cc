// SPDX-License-Identifier: MIT
#include "primitives/graph/graph.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "core/problem_text.h"

namespace polymio::graph {
namespace {

const TensorDesc& desc_of(const Graph& g, int tensor) { return g.tensors[static_cast<std::size_t>(tensor)].desc; }

/// Whether each size of `t` is that of `to`, or 1.
bool broadcasts(const TensorDesc& t, const TensorDesc& to) {
  if (t.rank != to.rank) return false;
  for (std::size_t d = 0; d < static_cast<std::size_t>(t.rank); ++d)
    if (t.lens[d] != to.lens[d] && t.lens[d] != 1) return false;
  return true;
}

void validate_pointwise(const Graph& g, const Node& n) {
  const TensorDesc& y = desc_of(g, n.out);
  for (const int in : n.in)
    require(broadcasts(desc_of(g, in), y),
            "a pointwise operation reads sizes {} and writes {}: each size must be that of the result, or 1",
            sizes_text(desc_of(g, in)), sizes_text(y));
  const Slots slots = slots_of(n.pointwise.mode);
  for (const int in : n.in)
    require((slots != Slots::kUnary && slots != Slots::kSelect) || desc_of(g, in).lens == y.lens,
            "a pointwise operation without broadcast reads sizes {} and writes {}: they must be equal",
            sizes_text(desc_of(g, in)), sizes_text(y));
  for (std::size_t d = 0; d < static_cast<std::size_t>(y.rank); ++d)
    require(std::ranges::any_of(n.in, [&](int in) { return desc_of(g, in).lens[d] == y.lens[d]; }),
            "the result of a pointwise operation has size {} in dimension {}: no operand has that size", y.lens[d], d);
}

void validate_index(const Graph& g, const Node& n) {
  const TensorDesc &x = desc_of(g, n.in[0]), &y = desc_of(g, n.out);
  require(x.rank == y.rank && x.lens == y.lens, "indices of sizes {} are written to sizes {}: they must be equal",
          sizes_text(x), sizes_text(y));
  require(n.axis >= 0 && n.axis < y.rank, "the axis of indices is {}: 0 to {} are allowed", n.axis, y.rank - 1);
}

void validate_matmul(const Graph& g, const Node& n) {
  const TensorDesc &a = desc_of(g, n.in[0]), &b = desc_of(g, n.in[1]), &c = desc_of(g, n.out);
  const auto size = [](const TensorDesc& t, int from_last) {
    const int d = t.rank - 1 - from_last;
    return d < 0 ? 1 : t.lens[static_cast<std::size_t>(d)];
  };
  require(a.rank >= 2 && b.rank >= 2 && c.rank == std::max(a.rank, b.rank),
          "a matrix product takes ranks of at least 2, and the larger one for C: given A {}, B {}, C {}", a.rank,
          b.rank, c.rank);
  const std::int64_t m = size(a, 1), k = size(a, 0), columns = size(c, 0);
  const bool plain = size(b, 1) == k && size(b, 0) == columns, transposed = size(b, 0) == k && size(b, 1) == columns;
  require(size(c, 1) == m && (plain || transposed),
          "the matrices A {}, B {}, C {} do not fit: C is m x n, A m x k, B k x n or n x k", sizes_text(a),
          sizes_text(b), sizes_text(c));
  for (int d = 2; d < c.rank; ++d)
    for (const TensorDesc* t : {&a, &b})
      require(size(*t, d) == size(c, d) || size(*t, d) == 1, "batch sizes {} do not fit those of C, {}", sizes_text(*t),
              sizes_text(c));
}

void validate_reduction(const Graph& g, const Node& n) {
  const TensorDesc &x = desc_of(g, n.in[0]), &y = desc_of(g, n.out);
  bool fits = x.rank == y.rank;
  for (std::size_t d = 0; fits && d < static_cast<std::size_t>(x.rank); ++d) fits = x.lens[d] % y.lens[d] == 0;
  require(fits, "a reduction of sizes {} to {}: each size of the result must divide that of the input", sizes_text(x),
          sizes_text(y));
}

}  // namespace

Slots slots_of(Mode mode) {
  switch (mode) {
    case Mode::kAdd:
    case Mode::kAddSquare:
    case Mode::kDiv:
    case Mode::kMax:
    case Mode::kMin:
    case Mode::kMod:
    case Mode::kMul:
    case Mode::kPow:
    case Mode::kSub:
    case Mode::kEqual:
    case Mode::kNotEqual:
    case Mode::kGreater:
    case Mode::kGreaterEqual:
    case Mode::kLess:
    case Mode::kLessEqual:
    case Mode::kAnd:
    case Mode::kOr: return Slots::kBinary;
    case Mode::kSelect: return Slots::kSelect;
    case Mode::kReluBackward:
    case Mode::kTanhBackward:
    case Mode::kSigmoidBackward:
    case Mode::kEluBackward:
    case Mode::kGeluBackward:
    case Mode::kSoftplusBackward:
    case Mode::kSwishBackward:
    case Mode::kGeluTanhBackward: return Slots::kBackward;
    default: return Slots::kUnary;
  }
}

void validate(const Graph& g, const Node& n) {
  switch (n.kind) {
    case Kind::kPointwise: return validate_pointwise(g, n);
    case Kind::kMatmul: return validate_matmul(g, n);
    case Kind::kReduction: return validate_reduction(g, n);
    case Kind::kIndex: return validate_index(g, n);
    case Kind::kReshape:
      require(desc_of(g, n.in[0]).count() == desc_of(g, n.out).count(),
              "a reshape of sizes {} to {}: the numbers of elements must be equal", sizes_text(desc_of(g, n.in[0])),
              sizes_text(desc_of(g, n.out)));
      return;
    case Kind::kConvolution:
    case Kind::kRandom: return;
  }
}

void complete(Graph& g) {
  require(g.tensors.size() <= kMaxTensors, "the graph has {} tensors: at most {} are supported", g.tensors.size(),
          kMaxTensors);
  std::set<std::int64_t> ids;
  for (const Tensor& t : g.tensors) require(ids.insert(t.id).second, "two tensors have the unique id {}", t.id);
  std::vector<int> writer(g.tensors.size(), -1);
  for (std::size_t i = 0; i < g.nodes.size(); ++i) {
    int& w = writer[static_cast<std::size_t>(g.nodes[i].out)];
    require(w < 0, "two operations write the tensor {}", g.tensors[static_cast<std::size_t>(g.nodes[i].out)].id);
    w = static_cast<int>(i);
  }
  for (const Node& n : g.nodes)
    for (const int in : n.in)
      require(!g.tensors[static_cast<std::size_t>(in)].is_virtual || writer[static_cast<std::size_t>(in)] >= 0,
              "no operation writes the virtual tensor {}", g.tensors[static_cast<std::size_t>(in)].id);
  // Repeatedly takes the first node whose inputs are there, so that the given order stays where it is possible.
  std::vector<Node> sorted;
  std::vector<bool> taken(g.nodes.size());
  while (sorted.size() < g.nodes.size()) {
    std::size_t i = 0;
    const auto ready = [&](const Node& n) {
      return std::ranges::all_of(n.in, [&](int in) {
        const int w = writer[static_cast<std::size_t>(in)];
        return w < 0 || taken[static_cast<std::size_t>(w)];
      });
    };
    while (i < g.nodes.size() && (taken[i] || !ready(g.nodes[i]))) ++i;
    require(i < g.nodes.size(), "the graph has a cycle: an operation needs its own result");
    taken[i] = true;
    sorted.push_back(g.nodes[i]);
  }
  g.nodes = std::move(sorted);
}

}  // namespace polymio::graph
