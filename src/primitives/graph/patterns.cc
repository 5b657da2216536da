// Nodes that other primitives compute in one step: what follows a convolution or a product, and softmax.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <optional>

#include "primitives/activation/activation.h"
#include "primitives/graph/draft.h"
#include "primitives/reduce/reduce.h"

namespace polymio::graph {
namespace {

class Finder {
 public:
  explicit Finder(const Graph& g) : g_(g), covered_(g.nodes.size()) {}

  std::vector<Item> run() {
    for (std::size_t i = 0; i < g_.nodes.size(); ++i) {
      if (covered_[i]) continue;
      if (g_.nodes[i].kind == Kind::kConvolution) convolution(static_cast<int>(i));
      if (g_.nodes[i].kind == Kind::kMatmul) product(static_cast<int>(i));
      if (g_.nodes[i].kind == Kind::kReduction) softmax(static_cast<int>(i));
    }
    return std::move(items_);
  }

 private:
  const Node& node(int i) const { return g_.nodes[static_cast<std::size_t>(i)]; }
  const Tensor& tensor(int t) const { return g_.tensors[static_cast<std::size_t>(t)]; }

  std::vector<int> readers(int t) const {
    std::vector<int> found;
    for (std::size_t i = 0; i < g_.nodes.size(); ++i)
      if (std::ranges::find(g_.nodes[i].in, t) != g_.nodes[i].in.end()) found.push_back(static_cast<int>(i));
    return found;
  }
  /// The only reader of a virtual tensor, if no other item has it; else -1.
  int reader(int t) const {
    const auto found = readers(t);
    if (!tensor(t).is_virtual || found.size() != 1 || covered_[static_cast<std::size_t>(found[0])]) return -1;
    return found[0];
  }
  bool is(int i, Mode mode) const {
    return i >= 0 && node(i).kind == Kind::kPointwise && node(i).pointwise.mode == mode;
  }
  /// A node with this mode that does not scale its operands.
  bool is_plain(int i, Mode mode) const {
    return is(i, mode) && node(i).pointwise.alpha1 == 1 && node(i).pointwise.alpha2 == 1;
  }
  void cover(Item item) {
    for (const int n : item.nodes) covered_[static_cast<std::size_t>(n)] = true;
    items_.push_back(std::move(item));
  }

  /// Whether t is an element for each index of a dimension of y.
  bool is_bias(int t, int y, std::size_t along) const {
    const TensorDesc &b = tensor(t).desc, &to = tensor(y).desc;
    if (b.type != to.type || b.rank != to.rank || b.rank < 2) return false;
    for (std::size_t d = 0; d < static_cast<std::size_t>(b.rank); ++d)
      if (b.lens[d] != (d == along ? to.lens[d] : 1)) return false;
    return b.strides[along] == 1 || b.lens[along] == 1;
  }
  bool are_alike(int t, int other) const {
    return tensor(t).desc.type == tensor(other).desc.type && tensor(t).desc.lens == tensor(other).desc.lens;
  }

  /// The activation, and its alpha.
  static std::optional<std::pair<activation::Mode, double>> activation_of(const Pointwise& p) {
    if (p.alpha1 != 1) return {};
    switch (p.mode) {
      case Mode::kRelu:
        if (p.lower_clip != 0 || p.lower_slope != 0) return {};
        if (p.upper_clip >= Pointwise{}.upper_clip) return {{activation::Mode::kRelu, 0}};
        return {{activation::Mode::kClippedRelu, p.upper_clip}};
      case Mode::kSigmoid: return {{activation::Mode::kLogistic, 0}};
      case Mode::kSwish: return {{activation::Mode::kSwish, p.swish_beta}};
      default: return {};
    }
  }

  /// If an activation is all that reads y.
  void take_activation(Draft::Epilogue& e, std::vector<int>& nodes, int& y) const {
    const int last = reader(y);
    if (last < 0 || node(last).kind != Kind::kPointwise || !are_alike(node(last).out, y)) return;
    const auto found = activation_of(node(last).pointwise);
    if (!found) return;
    e.activation = static_cast<int>(found->first);
    e.alpha = found->second;
    nodes.push_back(last);
    y = node(last).out;
  }

  // A product, then a bias for each column, then an activation.

  void product(int first) {
    const Node& matmul = node(first);
    const TensorDesc& c = tensor(matmul.out).desc;
    for (const int in : matmul.in)
      if (tensor(in).desc.type != c.type) return;
    if (c.type != DataType::kFloat && c.type != DataType::kHalf && c.type != DataType::kBFloat16) return;
    Draft::Epilogue e;
    std::vector<int> nodes = {first}, reads = matmul.in;
    int y = matmul.out;
    if (const int next = reader(y); is_plain(next, Mode::kAdd) && are_alike(node(next).out, y)) {
      const Node& sum = node(next);
      const int other = sum.in[sum.in[0] == y ? 1 : 0];
      if (sum.in[0] == sum.in[1] || !is_bias(other, y, static_cast<std::size_t>(c.rank - 1))) return;
      e.bias = other;
      nodes.push_back(next);
      reads.push_back(other);
      y = sum.out;
    }
    take_activation(e, nodes, y);
    if (nodes.size() == 1) return;
    e.y = y;
    cover({nodes, reads, {y}, [first, e](Draft& d) {
             d.add_product(d.graph().nodes[static_cast<std::size_t>(first)], e);
           }});
  }

  // A convolution, then up to one sum with a tensor and one with a bias in either order, then an activation.

  void convolution(int first) {
    const Node& conv = node(first);
    const Convolution& c = conv.convolution;
    if (c.direction != Direction::kForward || c.transposed || c.beta != 0) return;
    Draft::Epilogue e;
    std::vector<int> nodes = {first};
    std::vector<int> reads = conv.in;
    int y = conv.out;
    const auto same = [&](int t) { return are_alike(t, conv.out); };
    if (tensor(conv.in[0]).desc.type != tensor(conv.in[1]).desc.type ||
        tensor(conv.in[0]).desc.type != tensor(conv.out).desc.type)
      return;
    for (int next; (next = reader(y)) >= 0 && is(next, Mode::kAdd);) {
      const Node& sum = node(next);
      const bool first_slot = sum.in[0] == y;
      if (sum.in[0] == sum.in[1] || !same(sum.out)) break;
      const int other = sum.in[first_slot ? 1 : 0];
      const double of_y = first_slot ? sum.pointwise.alpha1 : sum.pointwise.alpha2,
                   of_other = first_slot ? sum.pointwise.alpha2 : sum.pointwise.alpha1;
      if (e.bias < 0 && is_bias(other, y, 1) && of_y == 1 && of_other == 1) {
        e.bias = other;
      } else if (e.residual < 0 && same(other) && (of_y == 1 || e.bias < 0)) {
        e.residual = other;
        e.residual_scale = of_other;
        e.scale *= of_y;
      } else {
        break;
      }
      nodes.push_back(next);
      reads.push_back(other);
      y = sum.out;
    }
    take_activation(e, nodes, y);
    if (nodes.size() == 1) return;
    e.y = y;
    cover({nodes, reads, {y}, [first, e](Draft& d) {
             d.add_convolution(d.graph().nodes[static_cast<std::size_t>(first)], e);
           }});
  }

  // The largest of a row, e^(x - largest), their sum, and the quotients: by division, or by the reciprocal of the sum.

  bool reduces_last(int i, reduce::Op op) const {
    if (i < 0 || node(i).kind != Kind::kReduction || node(i).reduction != static_cast<int>(op)) return false;
    const TensorDesc &x = tensor(node(i).in[0]).desc, &y = tensor(node(i).out).desc;
    for (std::size_t d = 0; d < static_cast<std::size_t>(x.rank); ++d)
      if (y.lens[d] != (d + 1 == static_cast<std::size_t>(x.rank) ? 1 : x.lens[d])) return false;
    return true;
  }

  bool is_dense(int t) const {
    const TensorDesc& d = tensor(t).desc;
    return make_tensor(d.type, d.sizes(), {}) == d && !is_integer(d.type) && !is_fp8(d.type);
  }

  void softmax(int largest) {
    if (!reduces_last(largest, reduce::Op::kMax)) return;
    const int x = node(largest).in[0], difference = reader(node(largest).out);
    if (!is_plain(difference, Mode::kSub) || node(difference).in != std::vector<int>{x, node(largest).out}) return;
    const int power = reader(node(difference).out);
    if (!is_plain(power, Mode::kExp) || !tensor(node(power).out).is_virtual) return;
    const int e = node(power).out;
    const auto of_power = readers(e);
    if (of_power.size() != 2) return;
    const int sum = reduces_last(of_power[0], reduce::Op::kAdd) ? of_power[0] : of_power[1];
    const int last = sum == of_power[0] ? of_power[1] : of_power[0];
    if (!reduces_last(sum, reduce::Op::kAdd)) return;
    int denominator = reader(node(sum).out);
    std::vector<int> nodes = {largest, difference, power, sum, last};
    if (is_plain(denominator, Mode::kReciprocal)) {
      nodes.push_back(denominator);
      const int inverse = node(denominator).out;
      const std::vector<int> factors = {e, inverse}, exchanged = {inverse, e};
      if (!is_plain(last, Mode::kMul) || reader(inverse) != last) return;
      if (node(last).in != factors && node(last).in != exchanged) return;
    } else if (denominator != last || !is_plain(last, Mode::kDiv) ||
               node(last).in != std::vector<int>{e, node(sum).out}) {
      return;
    }
    const int y = node(last).out;
    if (!is_dense(x) || !is_dense(y) || tensor(x).desc != tensor(y).desc) return;
    cover({nodes, {x}, {y}, [x, y](Draft& d) { d.add_softmax(x, y); }});
  }

  const Graph& g_;
  std::vector<bool> covered_;
  std::vector<Item> items_;
};

}  // namespace

std::vector<Item> find_patterns(const Graph& graph) { return Finder(graph).run(); }

}  // namespace polymio::graph
