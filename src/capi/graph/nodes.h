// Operations as nodes of a graph.
// SPDX-License-Identifier: MIT
#pragma once
#include <vector>

#include "capi/graph/descriptor.h"

namespace polymio::capi {

/// The number of an operation's tensor in the graph, which it joins if it is not there yet. Tensors are told apart by
/// their unique ids.
int tensor_in(graph::Graph&, const DescriptorState& tensor);

/// A normalization as reductions and pointwise operations.
std::vector<graph::Node> norm_forward_nodes(const DescriptorState&, graph::Graph&);
std::vector<graph::Node> norm_backward_nodes(const DescriptorState&, graph::Graph&);

}  // namespace polymio::capi
