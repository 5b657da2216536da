// Graphs as JSON. One list of fields serves both directions, so that what is written can be read.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "base/json_tree.h"
#include "primitives/graph/graph.h"

namespace polymio::graph {
namespace {

using Json = nlohmann::json;

constexpr const char* kFormat = "polymio-graph";
constexpr int kVersion = 1;
constexpr std::size_t kMostBytes = std::size_t{1} << 24, kMostDims = 8;

/// Writes the members of an object.
class Writer {
 public:
  explicit Writer(std::string& to) : to_(to) {}
  void number(const char* name, double v) {
    if (std::isfinite(v))
      member(name, fmt::format("{}", v));
    else
      member(name, std::isnan(v) ? "\"nan\"" : v > 0 ? "\"inf\"" : "\"-inf\"");
  }
  void value(const char* name, bool v) { member(name, v ? "true" : "false"); }
  void value(const char* name, int v) { member(name, std::to_string(v)); }
  void value(const char* name, std::int64_t v) { member(name, std::to_string(v)); }
  template <class T>
  void value(const char* name, const std::vector<T>& list) {
    std::string text;
    for (const T v : list) text += (text.empty() ? "[" : ",") + std::to_string(v);
    member(name, text.empty() ? "[]" : text + "]");
  }
  template <class E>
  void choice(const char* name, E v, int) {
    value(name, static_cast<int>(v));
  }

 private:
  void member(const char* name, const std::string& text) {
    to_ += first_ ? "\"" : ",\"";
    to_ += name;
    to_ += "\":" + text;
    first_ = false;
  }
  std::string& to_;
  bool first_ = true;
};

class Reader {
 public:
  explicit Reader(const Json& from) : from_(from) {
    require(from.is_object(), "JSON of a plan: an object was expected");
  }
  void number(const char* name, double& v) {
    const Json& j = at(name);
    if (j.is_number()) {
      v = j.get<double>();
    } else {
      require(j == "inf" || j == "-inf" || j == "nan", "JSON of a plan: \"{}\" is no number", name);
      v = j == "nan" ? std::nan("") : j == "inf" ? HUGE_VAL : -HUGE_VAL;
    }
  }
  void value(const char* name, bool& v) {
    require(at(name).is_boolean(), "JSON of a plan: \"{}\" is not true or false", name);
    v = at(name).get<bool>();
  }
  template <class T>
  void value(const char* name, T& v) {
    v = integer<T>(at(name), name);
  }
  template <class T>
  void value(const char* name, std::vector<T>& v) {
    require(at(name).is_array() && at(name).size() <= kMostDims,
            "JSON of a plan: \"{}\" is no list of at most {} numbers", name, kMostDims);
    v.clear();
    for (const Json& j : at(name)) v.push_back(integer<T>(j, name));
  }
  template <class E>
  void choice(const char* name, E& v, int count) {
    const int i = integer<int>(at(name), name);
    require(i >= 0 && i < count, "JSON of a plan: \"{}\" is {}, allowed are 0 to {}", name, i, count - 1);
    v = static_cast<E>(i);
  }

 private:
  const Json& at(const char* name) const {
    const auto it = from_.find(name);
    require(it != from_.end(), "JSON of a plan: \"{}\" is missing", name);
    return *it;
  }
  template <class T>
  static T integer(const Json& j, const char* name) {
    require(j.is_number_integer(), "JSON of a plan: \"{}\" is no integer", name);
    const auto wide = j.get<std::int64_t>();
    require(std::in_range<T>(wide), "JSON of a plan: \"{}\" is {}, which is out of range", name, wide);
    return static_cast<T>(wide);
  }
  const Json& from_;
};

template <class Fields>
void each_field(Fields& f, Node& n) {
  f.choice("kind", n.kind, kKinds);
  f.value("in", n.in);
  f.value("out", n.out);
  switch (n.kind) {
    case Kind::kConvolution: {
      Convolution& c = n.convolution;
      f.choice("direction", c.direction, 3);
      f.value("transposed", c.transposed);
      f.value("pre", c.pre);
      f.value("post", c.post);
      f.value("stride", c.stride);
      f.value("dilation", c.dilation);
      f.number("alpha", c.alpha);
      f.number("beta", c.beta);
      return;
    }
    case Kind::kPointwise: {
      Pointwise& p = n.pointwise;
      int precision = static_cast<int>(p.precision);
      f.choice("mode", p.mode, kModes);
      f.value("precision", precision);
      p.precision = static_cast<DataType>(precision);
      f.value("propagates_nan", p.propagates_nan);
      f.number("lower_clip", p.lower_clip);
      f.number("upper_clip", p.upper_clip);
      f.number("lower_slope", p.lower_slope);
      f.number("elu_alpha", p.elu_alpha);
      f.number("softplus_beta", p.softplus_beta);
      f.number("swish_beta", p.swish_beta);
      f.number("alpha1", p.alpha1);
      f.number("alpha2", p.alpha2);
      return;
    }
    case Kind::kReduction: f.choice("reduction", n.reduction, 8); return;
    case Kind::kRandom:
      f.choice("distribution", n.random.distribution, 3);
      f.number("first", n.random.first);
      f.number("second", n.random.second);
      f.value("seed", n.random.seed);
      return;
    case Kind::kIndex: f.value("axis", n.axis); return;
    case Kind::kMatmul:
    case Kind::kReshape: return;
  }
}

template <class Fields>
void each_field(Fields& f, Tensor& t) {
  int type = static_cast<int>(t.desc.type);
  std::vector<std::int64_t> sizes(t.desc.sizes().begin(), t.desc.sizes().end()),
      strides(t.desc.strides.begin(), t.desc.strides.begin() + t.desc.rank);
  f.value("id", t.id);
  f.value("virtual", t.is_virtual);
  f.value("type", type);
  f.value("sizes", sizes);
  f.value("strides", strides);
  require(sizes.size() == strides.size(), "JSON of a plan: a tensor has {} sizes and {} strides", sizes.size(),
          strides.size());
  for (const std::int64_t s : strides) require(s > 0, "JSON of a plan: a stride is {}", s);
  t.desc = make_tensor(static_cast<DataType>(type), sizes, strides);
}

/// What the steps of a node take for granted.
void check_node(const Graph& g, const Node& n) {
  std::size_t least = 1, most = 1;
  if (n.kind == Kind::kConvolution || n.kind == Kind::kMatmul) least = most = 2;
  if (n.kind == Kind::kRandom) most = 2;
  if (n.kind == Kind::kPointwise) {
    const Slots slots = slots_of(n.pointwise.mode);
    least = most = slots == Slots::kUnary ? 1 : slots == Slots::kSelect ? 3 : 2;
    require(n.pointwise.mode != Mode::kIndex && is_valid(n.pointwise.precision),
            "JSON of a plan: mode {} in the precision {} is not possible", static_cast<int>(n.pointwise.mode),
            static_cast<int>(n.pointwise.precision));
  }
  require(n.in.size() >= least && n.in.size() <= most, "JSON of a plan: a node has {} inputs, {} to {} are allowed",
          n.in.size(), least, most);
  const auto exists = [&](int t) { return t >= 0 && static_cast<std::size_t>(t) < g.tensors.size(); };
  for (const int t : n.in) require(exists(t), "JSON of a plan: there is no tensor {}", t);
  require(exists(n.out), "JSON of a plan: there is no tensor {}", n.out);
  const Convolution& c = n.convolution;
  if (n.kind != Kind::kConvolution) return;
  const std::size_t dims = c.pre.size();
  require(dims >= 1 && c.post.size() == dims && c.stride.size() == dims && c.dilation.size() == dims,
          "JSON of a plan: a convolution needs as many pads, strides and dilations");
  for (std::size_t d = 0; d < dims; ++d)
    require(c.pre[d] >= 0 && c.post[d] >= 0 && c.stride[d] > 0 && c.dilation[d] > 0,
            "JSON of a plan: a pad is negative, or a stride or dilation not positive");
}

}  // namespace

std::string to_json(const Graph& graph, Engine engine) {
  std::string text =
      fmt::format("{{\"format\":\"{}\",\"version\":{},\"engine\":{}", kFormat, kVersion, static_cast<int>(engine));
  const auto add = [&](const char* name, auto list) {
    text += fmt::format(",\"{}\":", name);
    char separator = '[';
    for (auto& element : list) {
      text += separator;
      text += '{';
      Writer writer(text);
      each_field(writer, element);
      text += '}';
      separator = ',';
    }
    text += ']';
  };
  add("tensors", graph.tensors);
  add("nodes", graph.nodes);
  return text + '}';
}

Graph from_json(std::string_view text, Engine& engine) {
  require(text.size() <= kMostBytes, "JSON of a plan: the text has {} bytes, at most {} are read", text.size(),
          kMostBytes);
  const JsonTree tree(text, "JSON of a plan");
  const Json& json = tree.root();
  Reader head(json);
  const auto format = json.find("format");
  require(format != json.end() && *format == kFormat, "JSON of a plan: the format is not \"{}\"", kFormat);
  int version = 0;
  head.value("version", version);
  if (version != kVersion)
    fail(Status::kVersionMismatch, "JSON of a plan: version {} was written by another release, {} is read", version,
         kVersion);
  head.choice("engine", engine, 2);
  const auto list = [&](const char* name, std::size_t most) -> const Json& {
    const auto it = json.find(name);
    require(it != json.end() && it->is_array() && !it->empty() && it->size() <= most,
            "JSON of a plan: \"{}\" is no list of 1 to {} objects", name, most);
    return *it;
  };
  Graph graph;
  for (const Json& j : list("tensors", kMaxTensors)) {
    Reader reader(j);
    each_field(reader, graph.tensors.emplace_back());
  }
  for (const Json& j : list("nodes", kMaxTensors)) {
    Reader reader(j);
    each_field(reader, graph.nodes.emplace_back());
    check_node(graph, graph.nodes.back());
  }
  complete(graph);
  for (const Node& n : graph.nodes) validate(graph, n);
  return graph;
}

}  // namespace polymio::graph
