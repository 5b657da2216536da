// What finalizing a descriptor checks and makes: tensors, operations as nodes, graphs, engines, plans.
// SPDX-License-Identifier: MIT
#include <miopen/convolution.h>

#include <algorithm>

#include "capi/graph/nodes.h"
#include "core/problem_text.h"

namespace polymio::capi {

int tensor_in(graph::Graph& g, const DescriptorState& tensor) {
  const graph::Tensor t{tensor.value(MIOPEN_ATTR_TENSOR_UNIQUE_ID).at<std::int64_t>(), tensor.tensor,
                        tensor.value(MIOPEN_ATTR_TENSOR_IS_VIRTUAL).at<unsigned char>() != 0};
  for (std::size_t i = 0; i < g.tensors.size(); ++i) {
    if (g.tensors[i].id != t.id) continue;
    require(g.tensors[i].desc == t.desc && g.tensors[i].is_virtual == t.is_virtual,
            "two tensors with the unique id {} differ: sizes {} and {}", t.id, sizes_text(g.tensors[i].desc),
            sizes_text(t.desc));
    return static_cast<int>(i);
  }
  g.tensors.push_back(t);
  return static_cast<int>(g.tensors.size()) - 1;
}

namespace {

template <class T>
void store(DescriptorState& d, int name, miopenBackendAttributeType_t type, const std::vector<T>& elements) {
  AttributeValue v;
  v.type = type;
  v.count = static_cast<std::int64_t>(elements.size());
  v.bytes.resize(elements.size() * sizeof(T));
  if (!elements.empty()) std::memcpy(v.bytes.data(), elements.data(), v.bytes.size());
  d.values[name] = std::move(v);
}

void set_default(DescriptorState& d, int name, double value) {
  if (!d.has(name)) store<double>(d, name, MIOPEN_TYPE_DOUBLE, {value});
}

void finalize_tensor(DescriptorState& d) {
  const auto sizes = d.integers(MIOPEN_ATTR_TENSOR_DIMENSIONS), strides = d.integers(MIOPEN_ATTR_TENSOR_STRIDES);
  require(sizes.size() == strides.size(), "the tensor has {} sizes and {} strides: the numbers must be equal",
          sizes.size(), strides.size());
  d.tensor = make_tensor(static_cast<DataType>(d.value(MIOPEN_ATTR_TENSOR_DATA_TYPE).at<int>()), sizes, strides);
  if (!d.has(MIOPEN_ATTR_TENSOR_IS_VIRTUAL))
    store<unsigned char>(d, MIOPEN_ATTR_TENSOR_IS_VIRTUAL, MIOPEN_TYPE_BOOLEAN, {0});
}

void finalize_convolution(DescriptorState& d) {
  const std::int64_t dims = d.value(MIOPEN_ATTR_CONVOLUTION_SPATIAL_DIMS).at<std::int64_t>();
  for (const int name : {MIOPEN_ATTR_CONVOLUTION_DILATIONS, MIOPEN_ATTR_CONVOLUTION_FILTER_STRIDES,
                         MIOPEN_ATTR_CONVOLUTION_PRE_PADDINGS, MIOPEN_ATTR_CONVOLUTION_POST_PADDINGS})
    require(d.value(name).count == dims, "attribute {} has {} elements: the convolution has {} spatial dimensions",
            name, d.value(name).count, dims);
}

void finalize_pointwise(DescriptorState& d) {
  const graph::Pointwise otherwise;
  set_default(d, MIOPEN_ATTR_POINTWISE_RELU_LOWER_CLIP, otherwise.lower_clip);
  set_default(d, MIOPEN_ATTR_POINTWISE_RELU_UPPER_CLIP, otherwise.upper_clip);
  set_default(d, MIOPEN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, otherwise.lower_slope);
  set_default(d, MIOPEN_ATTR_POINTWISE_ELU_ALPHA, otherwise.elu_alpha);
  set_default(d, MIOPEN_ATTR_POINTWISE_SOFTPLUS_BETA, otherwise.softplus_beta);
  set_default(d, MIOPEN_ATTR_POINTWISE_SWISH_BETA, otherwise.swish_beta);
  if (!d.has(MIOPEN_ATTR_POINTWISE_NAN_PROPAGATION))
    store<int>(d, MIOPEN_ATTR_POINTWISE_NAN_PROPAGATION, MIOPEN_TYPE_NAN_PROPOGATION, {0});
  if (!d.has(MIOPEN_ATTR_POINTWISE_AXIS)) store<std::int64_t>(d, MIOPEN_ATTR_POINTWISE_AXIS, MIOPEN_TYPE_INT64, {-1});
}

void finalize_rng(const DescriptorState& d) {
  const auto need = [&](int name, const char* what) {
    require(d.has(name), "the distribution needs its {}, attribute {}", what, name);
  };
  switch (static_cast<graph::Distribution>(d.value(MIOPEN_ATTR_RNG_DISTRIBUTION).at<int>())) {
    case graph::Distribution::kBernoulli: return need(MIOPEN_ATTR_RNG_BERNOULLI_DIST_PROBABILITY, "probability");
    case graph::Distribution::kNormal:
      need(MIOPEN_ATTR_RNG_NORMAL_DIST_MEAN, "mean");
      return need(MIOPEN_ATTR_RNG_NORMAL_DIST_STANDARD_DEVIATION, "standard deviation");
    case graph::Distribution::kUniform: {
      need(MIOPEN_ATTR_RNG_UNIFORM_DIST_MINIMUM, "minimum");
      need(MIOPEN_ATTR_RNG_UNIFORM_DIST_MAXIMUM, "maximum");
      const double least = d.value(MIOPEN_ATTR_RNG_UNIFORM_DIST_MINIMUM).real(),
                   most = d.value(MIOPEN_ATTR_RNG_UNIFORM_DIST_MAXIMUM).real();
      require(least <= most, "the minimum {} of the distribution exceeds its maximum {}", least, most);
    }
  }
}

/// Attributes of the three convolution operations: descriptor, inputs in the order of Node::in, result, scalars.
struct ConvolutionNames {
  int desc, first, second, result, alpha, beta;
};
constexpr ConvolutionNames kConvolutionNames[] = {
    {MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
     MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
     MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    {MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
     MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
     MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    {MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
     MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
     MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA}};

graph::Direction direction_of(int type) {
  if (type == MIOPEN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR) return graph::Direction::kForward;
  return type == MIOPEN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ? graph::Direction::kBackwardData
                                                                               : graph::Direction::kBackwardWeights;
}

graph::Node convolution_node(const DescriptorState& d, graph::Graph& g) {
  const graph::Direction direction = direction_of(d.type);
  const ConvolutionNames& names = kConvolutionNames[static_cast<std::size_t>(direction)];
  const DescriptorState& c = d.child(names.desc);
  graph::Node n;
  n.kind = graph::Kind::kConvolution;
  n.in = {tensor_in(g, d.child(names.first)), tensor_in(g, d.child(names.second))};
  n.out = tensor_in(g, d.child(names.result));
  n.convolution = {direction,
                   c.value(MIOPEN_ATTR_CONVOLUTION_CONV_MODE).at<int>() == miopenTranspose,
                   c.integers(MIOPEN_ATTR_CONVOLUTION_PRE_PADDINGS),
                   c.integers(MIOPEN_ATTR_CONVOLUTION_POST_PADDINGS),
                   c.integers(MIOPEN_ATTR_CONVOLUTION_FILTER_STRIDES),
                   c.integers(MIOPEN_ATTR_CONVOLUTION_DILATIONS),
                   d.real(names.alpha, 1),
                   d.real(names.beta, 0)};
  return n;
}

graph::Node pointwise_node(const DescriptorState& d, graph::Graph& g) {
  const DescriptorState& p = d.child(MIOPEN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  graph::Node n;
  n.kind = graph::Kind::kPointwise;
  graph::Pointwise& to = n.pointwise;
  to.mode = static_cast<graph::Mode>(p.value(MIOPEN_ATTR_POINTWISE_MODE).at<int>());
  n.axis = p.value(MIOPEN_ATTR_POINTWISE_AXIS).at<std::int64_t>();
  if (to.mode == graph::Mode::kIndex) n.kind = graph::Kind::kIndex;
  to.precision = static_cast<DataType>(p.value(MIOPEN_ATTR_POINTWISE_MATH_PREC).at<int>());
  to.propagates_nan = p.value(MIOPEN_ATTR_POINTWISE_NAN_PROPAGATION).at<int>() != 0;
  to.lower_clip = p.value(MIOPEN_ATTR_POINTWISE_RELU_LOWER_CLIP).real();
  to.upper_clip = p.value(MIOPEN_ATTR_POINTWISE_RELU_UPPER_CLIP).real();
  to.lower_slope = p.value(MIOPEN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE).real();
  to.elu_alpha = p.value(MIOPEN_ATTR_POINTWISE_ELU_ALPHA).real();
  to.softplus_beta = p.value(MIOPEN_ATTR_POINTWISE_SOFTPLUS_BETA).real();
  to.swish_beta = p.value(MIOPEN_ATTR_POINTWISE_SWISH_BETA).real();
  to.alpha1 = d.real(MIOPEN_ATTR_OPERATION_POINTWISE_ALPHA1, 1);
  to.alpha2 = d.real(MIOPEN_ATTR_OPERATION_POINTWISE_ALPHA2, 1);

  constexpr int kX = MIOPEN_ATTR_OPERATION_POINTWISE_XDESC, kB = MIOPEN_ATTR_OPERATION_POINTWISE_BDESC,
                kY = MIOPEN_ATTR_OPERATION_POINTWISE_YDESC, kT = MIOPEN_ATTR_OPERATION_POINTWISE_TDESC,
                kDx = MIOPEN_ATTR_OPERATION_POINTWISE_DXDESC, kDy = MIOPEN_ATTR_OPERATION_POINTWISE_DYDESC;
  std::vector<int> in = {kX};
  int out = kY;
  switch (graph::slots_of(to.mode)) {
    case graph::Slots::kUnary:
      require(!d.has(MIOPEN_ATTR_OPERATION_POINTWISE_ALPHA2),
              "the pointwise mode {} has one operand, but ALPHA2 is set", static_cast<int>(to.mode));
      break;
    case graph::Slots::kBinary: in = {kX, kB}; break;
    case graph::Slots::kSelect: in = {kX, kB, kT}; break;
    case graph::Slots::kBackward:
      in = {kY, kDy};
      out = kDx;
      break;
  }
  for (const int slot : {kX, kB, kY, kT, kDx, kDy}) {
    const bool used = slot == out || std::ranges::find(in, slot) != in.end();
    require(used == d.has(slot), "the pointwise mode {} {} tensor {}, which is {}", static_cast<int>(to.mode),
            used ? "needs" : "does not use", slot, used ? "not set" : "set");
  }
  for (const int slot : in) n.in.push_back(tensor_in(g, d.child(slot)));
  n.out = tensor_in(g, d.child(out));
  return n;
}

graph::Node random_node(const DescriptorState& d, graph::Graph& g) {
  const DescriptorState& r = d.child(MIOPEN_ATTR_OPERATION_RNG_DESC);
  graph::Node n;
  n.kind = graph::Kind::kRandom;
  n.random.distribution = static_cast<graph::Distribution>(r.value(MIOPEN_ATTR_RNG_DISTRIBUTION).at<int>());
  constexpr std::pair<int, int> kParameters[] = {
      {MIOPEN_ATTR_RNG_BERNOULLI_DIST_PROBABILITY, -1},
      {MIOPEN_ATTR_RNG_UNIFORM_DIST_MINIMUM, MIOPEN_ATTR_RNG_UNIFORM_DIST_MAXIMUM},
      {MIOPEN_ATTR_RNG_NORMAL_DIST_MEAN, MIOPEN_ATTR_RNG_NORMAL_DIST_STANDARD_DEVIATION}};
  const auto [first, second] = kParameters[static_cast<std::size_t>(n.random.distribution)];
  n.random.first = r.real(first, 0);
  n.random.second = r.real(second, 0);
  const auto scalar = [&](const DescriptorState& t) {
    require(t.tensor.count() == 1 &&
                std::ranges::all_of(t.integers(MIOPEN_ATTR_TENSOR_STRIDES), [](std::int64_t s) { return s == 1; }),
            "the seed and offset of random numbers are tensors whose sizes and strides are 1, sizes {} were given",
            sizes_text(t.tensor));
    return tensor_in(g, t);
  };
  n.in = {scalar(d.child(MIOPEN_ATTR_OPERATION_RNG_OFFSET_DESC))};
  if (d.has(MIOPEN_ATTR_OPERATION_RNG_SEED)) {
    const AttributeValue& seed = d.value(MIOPEN_ATTR_OPERATION_RNG_SEED);
    if (seed.children.empty())
      n.random.seed = seed.at<std::int64_t>();
    else
      n.in.push_back(scalar(*seed.children[0]));
  }
  n.out = tensor_in(g, d.child(MIOPEN_ATTR_OPERATION_RNG_YDESC));
  return n;
}

std::vector<graph::Node> nodes_of(const DescriptorState& d, graph::Graph& g) {
  const auto plain = [&](graph::Kind kind, std::initializer_list<int> in, int out) {
    graph::Node n;
    n.kind = kind;
    for (const int name : in) n.in.push_back(tensor_in(g, d.child(name)));
    n.out = tensor_in(g, d.child(out));
    return n;
  };
  switch (d.type) {
    case MIOPEN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: return {pointwise_node(d, g)};
    case MIOPEN_BACKEND_OPERATION_RNG_DESCRIPTOR: return {random_node(d, g)};
    case MIOPEN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
      return {plain(graph::Kind::kMatmul, {MIOPEN_ATTR_OPERATION_MATMUL_ADESC, MIOPEN_ATTR_OPERATION_MATMUL_BDESC},
                    MIOPEN_ATTR_OPERATION_MATMUL_CDESC)};
    case MIOPEN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR: {
      graph::Node n = plain(graph::Kind::kReduction, {MIOPEN_ATTR_OPERATION_REDUCTION_XDESC},
                            MIOPEN_ATTR_OPERATION_REDUCTION_YDESC);
      n.reduction = d.child(MIOPEN_ATTR_OPERATION_REDUCTION_DESC).value(MIOPEN_ATTR_REDUCTION_OPERATOR).at<int>();
      return {n};
    }
    case MIOPEN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
      return {plain(graph::Kind::kReshape, {MIOPEN_ATTR_OPERATION_RESHAPE_XDESC}, MIOPEN_ATTR_OPERATION_RESHAPE_YDESC)};
    case MIOPEN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR: return norm_forward_nodes(d, g);
    case MIOPEN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR: return norm_backward_nodes(d, g);
    default: return {convolution_node(d, g)};
  }
}

Handle& handle_of(const DescriptorState& d, int name) { return deref(d.value(name).at<miopenHandle_t>()); }

void finalize_operation(const DescriptorState& d) {
  graph::Graph alone;
  for (const graph::Node& n : nodes_of(d, alone)) graph::validate(alone, n);
}

void finalize_graph(DescriptorState& d) {
  graph::Graph g;
  bool has_overrides = false;
  for (const DescriptorPointer& op : d.value(MIOPEN_ATTR_OPERATIONGRAPH_OPS).children) {
    for (graph::Node& n : nodes_of(*op, g)) g.nodes.push_back(std::move(n));
    for (const int name :
         {MIOPEN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, MIOPEN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC,
          MIOPEN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC})
      has_overrides = has_overrides || op->has(name);
  }
  graph::complete(g);
  const Handle& handle = handle_of(d, MIOPEN_ATTR_OPERATIONGRAPH_HANDLE);
  if (has_overrides)
    d.predictions.reason = "matrix products whose sizes are in device memory are not supported";
  else
    d.predictions = graph::predict(handle.device(), g);
  d.graph = std::move(g);
  store<std::int64_t>(d, MIOPEN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, MIOPEN_TYPE_INT64,
                      {static_cast<std::int64_t>(d.predictions.engines.size())});
}

void finalize_engine(DescriptorState& d) {
  const DescriptorState& g = d.child(MIOPEN_ATTR_ENGINE_OPERATION_GRAPH);
  const auto& engines = g.predictions.engines;
  const auto index = static_cast<std::size_t>(d.value(MIOPEN_ATTR_ENGINE_GLOBAL_INDEX).at<std::int64_t>());
  require(!engines.empty(), "no engine computes the graph: {}", g.predictions.reason);
  require(index < engines.size(), "the graph has {} engines: there is no engine {}", engines.size(), index);
  d.engine = engines[index].engine;
}

/// Engine configurations, fastest first; the simplest first where that is requested.
void finalize_heuristic(DescriptorState& d) {
  const AttributeValue& graph_value = d.value(MIOPEN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  const std::size_t engines = graph_value.children[0]->predictions.engines.size();
  const bool fallback = d.value(MIOPEN_ATTR_ENGINEHEUR_MODE).at<int>() == MIOPEN_HEUR_MODE_FALLBACK;
  std::vector<miopenBackendDescriptor_t> handles;
  d.results.clear();
  const auto child_value = [](BackendObject& object) {
    AttributeValue v;
    v.type = MIOPEN_TYPE_BACKEND_DESCRIPTOR;
    v.count = 1;
    miopenBackendDescriptor_t handle = &object;
    v.bytes.resize(sizeof handle);
    std::memcpy(v.bytes.data(), &handle, sizeof handle);
    v.children = {object.state};
    return v;
  };
  const auto make = [&](int type) {
    auto object = std::make_unique<BackendObject>(std::make_shared<DescriptorState>());
    object->state->type = type;
    object->owned = true;
    return object;
  };
  for (std::size_t i = 0; i < engines; ++i) {
    auto engine = make(MIOPEN_BACKEND_ENGINE_DESCRIPTOR);
    engine->state->values[MIOPEN_ATTR_ENGINE_OPERATION_GRAPH] = graph_value;
    store<std::int64_t>(*engine->state, MIOPEN_ATTR_ENGINE_GLOBAL_INDEX, MIOPEN_TYPE_INT64,
                        {static_cast<std::int64_t>(fallback ? engines - 1 - i : i)});
    finalize(*engine->state);
    auto config = make(MIOPEN_BACKEND_ENGINECFG_DESCRIPTOR);
    config->state->values[MIOPEN_ATTR_ENGINECFG_ENGINE] = child_value(*engine);
    finalize(*config->state);
    handles.push_back(config.get());
    d.results.push_back(std::move(config));
    d.results.push_back(std::move(engine));
  }
  store(d, MIOPEN_ATTR_ENGINEHEUR_RESULTS, MIOPEN_TYPE_BACKEND_DESCRIPTOR, handles);
}

void finalize_plan(DescriptorState& d) {
  Handle& handle = handle_of(d, MIOPEN_ATTR_EXECUTION_PLAN_HANDLE);
  if (d.has(MIOPEN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)) {
    const DescriptorState& engine =
        d.child(MIOPEN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG).child(MIOPEN_ATTR_ENGINECFG_ENGINE);
    d.plan = std::make_shared<const graph::Plan>(handle, engine.child(MIOPEN_ATTR_ENGINE_OPERATION_GRAPH).graph,
                                                 engine.engine);
  } else {
    require(d.has(MIOPEN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION),
            "an execution plan needs an engine configuration or its JSON representation");
    const AttributeValue& json = d.value(MIOPEN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
    std::string_view text(reinterpret_cast<const char*>(json.bytes.data()), json.bytes.size());
    while (!text.empty() && text.back() == '\0') text.remove_suffix(1);
    graph::Engine engine{};
    const graph::Graph g = graph::from_json(text, engine);
    d.plan = std::make_shared<const graph::Plan>(handle, g, engine);
  }
  const std::string json = graph::to_json(d.plan->graph(), d.plan->engine());
  store<char>(d, MIOPEN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, MIOPEN_TYPE_CHAR,
              {json.c_str(), json.c_str() + json.size() + 1});
  store<std::int64_t>(d, MIOPEN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, MIOPEN_TYPE_INT64,
                      {static_cast<std::int64_t>(d.plan->workspace_bytes())});
}

void finalize_pack(DescriptorState& d) {
  const AttributeValue& ids = d.value(MIOPEN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const AttributeValue& pointers = d.value(MIOPEN_ATTR_VARIANT_PACK_DATA_POINTERS);
  require(ids.count == pointers.count, "the variant pack has {} unique ids and {} pointers: the numbers must be equal",
          ids.count, pointers.count);
  d.workspace = d.value(MIOPEN_ATTR_VARIANT_PACK_WORKSPACE).at<void*>();
  d.buffers.clear();
  for (std::size_t i = 0; i < static_cast<std::size_t>(ids.count); ++i) {
    require(!d.workspace || pointers.at<void*>(i) != d.workspace, "the workspace is also the buffer of tensor {}",
            ids.at<std::int64_t>(i));
    d.buffers.emplace_back(ids.at<std::int64_t>(i), pointers.at<void*>(i));
  }
  std::ranges::sort(d.buffers);
}

}  // namespace

void finalize(DescriptorState& d) {
  // MIOpen's convolutions answer with a status of their own.
  if (d.finalized)
    fail(is_convolution(d.type) ? Status::kBadParm : Status::kNotInitialized, "the {} descriptor is already finalized",
         name_of_descriptor(d.type));
  for (const Attribute& a : attributes_of(d.type)) {
    if (!a.required || d.has(a.name)) continue;
    // MIOpen: an engine without a graph has no engines to choose from.
    const bool engine = a.name == MIOPEN_ATTR_ENGINE_OPERATION_GRAPH;
    fail(engine ? Status::kNotInitialized : Status::kBadParm, "the {} descriptor lacks attribute {}",
         name_of_descriptor(d.type), static_cast<int>(a.name));
  }
  switch (d.type) {
    case MIOPEN_BACKEND_TENSOR_DESCRIPTOR: finalize_tensor(d); break;
    case MIOPEN_BACKEND_CONVOLUTION_DESCRIPTOR: finalize_convolution(d); break;
    case MIOPEN_BACKEND_POINTWISE_DESCRIPTOR: finalize_pointwise(d); break;
    case MIOPEN_BACKEND_RNG_DESCRIPTOR: finalize_rng(d); break;
    case MIOPEN_BACKEND_OPERATIONGRAPH_DESCRIPTOR: finalize_graph(d); break;
    case MIOPEN_BACKEND_ENGINE_DESCRIPTOR: finalize_engine(d); break;
    case MIOPEN_BACKEND_ENGINEHEUR_DESCRIPTOR: finalize_heuristic(d); break;
    case MIOPEN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: finalize_plan(d); break;
    case MIOPEN_BACKEND_VARIANT_PACK_DESCRIPTOR: finalize_pack(d); break;
    default:
      if (is_operation(d.type)) finalize_operation(d);
  }
  d.finalized = true;
}

}  // namespace polymio::capi
