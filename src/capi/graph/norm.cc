// Normalizations: reductions for the moments, pointwise operations for the rest. Moments have the sizes of x but for
// the dimensions that are averaged over, where they have 1.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <limits>

#include "capi/graph/nodes.h"
#include "core/problem_text.h"
#include "primitives/reduce/reduce.h"

namespace polymio::capi {
namespace {

using graph::Mode;
using Lens = std::vector<std::int64_t>;

/// Numbers of cuDNN, whose modes these are: the header has the attribute's type, but no names.
enum class Norm : int { kLayer = 0, kInstance = 1, kBatch = 2, kGroup = 3 };
enum class Phase : int { kInference = 0, kTraining = 1 };

/// The attributes of a node.
struct Names {
  int x, mean, inverse, scale;
};

/// Groups of channels are a dimension of their own: tensors are reshaped to [images, groups, channels of a group,
/// pixels].
class Nodes {
 public:
  Nodes(const DescriptorState& d, graph::Graph& g, Norm norm, const Names& names)
      : d_(d), g_(g), x_(tensor_in(g, d.child(names.x))) {
    wide_ = desc(x_).type == DataType::kDouble ? DataType::kDouble : DataType::kFloat;
    require(desc(x_).rank >= 2, "a normalization takes tensors of at least 2 dimensions, x has {}", desc(x_).rank);
    if (norm != Norm::kGroup) return;
    channels_ = desc(x_).lens[1];
    groups_ = number_of_groups(names);
    x_ = in(names.x);
  }

  const TensorDesc& desc(int tensor) const { return g_.tensors[static_cast<std::size_t>(tensor)].desc; }
  int x() const { return x_; }
  Lens sizes() const { return {desc(x_).sizes().begin(), desc(x_).sizes().end()}; }
  /// A tensor that is read.
  int in(int name) {
    const int given = tensor_in(g_, d_.child(name));
    const Lens lens = grouped(desc(given));
    return has_sizes(given, lens) ? given : reshape(given, temporary(lens));
  }
  /// A tensor that is written, and may be read then.
  int out(int name) {
    const int given = tensor_in(g_, d_.child(name));
    const Lens lens = grouped(desc(given));
    if (has_sizes(given, lens)) return given;
    const int result = temporary(lens);
    reshape(result, given);
    return result;
  }
  int out_or(int name, const Lens& lens) { return d_.has(name) ? out(name) : temporary(lens); }

  /// Sizes of moments; `scale`: its attribute.
  Lens moments(Norm norm, int scale) {
    Lens lens = sizes();
    const bool has_scale = d_.has(scale);
    for (std::size_t i = 0; i < lens.size(); ++i) {
      switch (norm) {
        case Norm::kBatch: lens[i] = i == 1 ? lens[i] : 1; break;
        case Norm::kInstance:
        case Norm::kGroup: lens[i] = i < 2 ? lens[i] : 1; break;
        case Norm::kLayer: lens[i] = (has_scale ? desc(in(scale)).lens[i] == 1 : i == 0) ? lens[i] : 1; break;
      }
    }
    return lens;
  }
  void require_sizes(int tensor, const Lens& lens, const char* name) const {
    require(has_sizes(tensor, lens), "the {} of a normalization has sizes {}: they must be {}", name,
            sizes_text(desc(tensor)), fmt::join(lens, "x"));
  }

  /// Returns the result, which is virtual unless it is given.
  int pointwise(Mode mode, std::vector<int> in, int out = -1, double alpha1 = 1) {
    graph::Node n;
    n.kind = graph::Kind::kPointwise;
    n.pointwise.mode = mode;
    n.pointwise.precision = wide_;
    n.pointwise.alpha1 = alpha1;
    if (out < 0) {
      Lens lens(static_cast<std::size_t>(desc(in[0]).rank), 1);
      for (const int i : in)
        for (std::size_t k = 0; k < std::min(lens.size(), desc(i).sizes().size()); ++k)
          lens[k] = std::max(lens[k], desc(i).lens[k]);
      out = temporary(lens);
    }
    return add(std::move(n), std::move(in), out);
  }
  int reduction(reduce::Op op, int in, int out) {
    graph::Node n;
    n.kind = graph::Kind::kReduction;
    n.reduction = static_cast<int>(op);
    return add(std::move(n), {in}, out);
  }
  int mean(int in, const Lens& lens) { return reduction(reduce::Op::kAvg, in, temporary(lens)); }

  std::vector<graph::Node> take() { return std::move(nodes_); }

 private:
  bool has_sizes(int tensor, const Lens& lens) const { return std::ranges::equal(desc(tensor).sizes(), lens); }

  /// The channels of the moments: the node has no attribute for the groups.
  std::int64_t number_of_groups(const Names& names) const {
    require(d_.has(names.mean) || d_.has(names.inverse),
            "group normalization has as many groups as its mean and its inverse deviation have channels, attributes {} "
            "and {}: neither is set",
            names.mean, names.inverse);
    const TensorDesc& t = d_.child(d_.has(names.mean) ? names.mean : names.inverse).tensor;
    require(t.rank > 1 && channels_ % t.lens[1] == 0,
            "the moments of group normalization have sizes {}: the second is the number of groups, a divisor of the {} "
            "channels of x",
            sizes_text(t), channels_);
    return t.lens[1];
  }
  /// The sizes of a tensor with a dimension for groups, if there are any.
  Lens grouped(const TensorDesc& t) const {
    if (groups_ == 0) return {t.sizes().begin(), t.sizes().end()};
    const bool has_channels = t.rank > 1 && t.lens[1] == channels_;
    Lens lens = {t.lens[0],
                 has_channels ? groups_
                 : t.rank > 1 ? t.lens[1]
                              : 1,
                 has_channels ? channels_ / groups_ : 1, 1};
    for (std::size_t i = 2; i < t.sizes().size(); ++i) lens[3] *= t.lens[i];
    return lens;
  }
  int reshape(int from, int to) {
    graph::Node n;
    n.kind = graph::Kind::kReshape;
    return add(std::move(n), {from}, to);
  }

  /// Callers' ids are hardly at the end of the range; equal ones are refused.
  int temporary(const Lens& lens) {
    const auto number = static_cast<std::int64_t>(g_.tensors.size());
    g_.tensors.push_back({std::numeric_limits<std::int64_t>::min() + number, make_tensor(wide_, lens, {}), true});
    return static_cast<int>(number);
  }
  int add(graph::Node n, std::vector<int> in, int out) {
    n.in = std::move(in);
    n.out = out;
    nodes_.push_back(std::move(n));
    return out;
  }

  const DescriptorState& d_;
  graph::Graph& g_;
  int x_;
  std::int64_t channels_ = 0, groups_ = 0;  // of group normalization
  DataType wide_ = DataType::kFloat;
  std::vector<graph::Node> nodes_;
};

}  // namespace

std::vector<graph::Node> norm_forward_nodes(const DescriptorState& d, graph::Graph& g) {
  const auto norm = static_cast<Norm>(d.value(MIOPEN_ATTR_OPERATION_NORM_FWD_MODE).at<int>());
  const auto phase = static_cast<Phase>(d.value(MIOPEN_ATTR_OPERATION_NORM_FWD_PHASE).at<int>());
  constexpr int kMean = MIOPEN_ATTR_OPERATION_NORM_FWD_MEAN_DESC,
                kInverse = MIOPEN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC,
                kScale = MIOPEN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, kBias = MIOPEN_ATTR_OPERATION_NORM_FWD_BIAS_DESC,
                kFactor = MIOPEN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC;
  Nodes n(d, g, norm, {MIOPEN_ATTR_OPERATION_NORM_FWD_XDESC, kMean, kInverse, kScale});
  const Lens lens = n.moments(norm, kScale);
  const bool given = phase == Phase::kInference && d.has(kMean) && d.has(kInverse);
  require(given || phase == Phase::kTraining || norm != Norm::kBatch,
          "inference by batch normalization needs the mean and the inverse deviation, attributes {} and {}", kMean,
          kInverse);
  int mean = -1, variance = -1, inverse = -1;
  if (given) {
    mean = n.in(kMean);
    inverse = n.in(kInverse);
  } else {
    require(d.has(MIOPEN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC),
            "a normalization that computes moments needs an epsilon, attribute {}",
            static_cast<int>(MIOPEN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC));
    mean = n.reduction(reduce::Op::kAvg, n.x(), n.out_or(kMean, lens));
    const int centered = n.pointwise(Mode::kSub, {n.x(), mean});
    variance = n.mean(n.pointwise(Mode::kMul, {centered, centered}), lens);
    const int shifted = n.pointwise(Mode::kAdd, {variance, n.in(MIOPEN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC)});
    inverse = n.pointwise(Mode::kRsqrt, {shifted}, n.out_or(kInverse, lens));
  }
  n.require_sizes(mean, lens, "mean");
  n.require_sizes(inverse, lens, "inverse deviation");

  // x - mean again: kept, it would be written and read.
  const int y = n.out(MIOPEN_ATTR_OPERATION_NORM_FWD_YDESC);
  std::vector<std::pair<Mode, int>> rest = {{Mode::kMul, inverse}};
  if (d.has(kScale)) rest.emplace_back(Mode::kMul, n.in(kScale));
  if (d.has(kBias)) rest.emplace_back(Mode::kAdd, n.in(kBias));
  int value = n.pointwise(Mode::kSub, {n.x(), mean});
  for (std::size_t i = 0; i < rest.size(); ++i)
    value = n.pointwise(rest[i].first, {value, rest[i].second}, i + 1 == rest.size() ? y : -1);

  // Running moments: out = in + factor * (new - in), of variances the unbiased ones.
  double count = 1, moments = 1;
  for (const std::int64_t size : n.sizes()) count *= static_cast<double>(size);
  for (const std::int64_t size : lens) moments *= static_cast<double>(size);
  const double samples = count / moments;
  const auto run = [&](int from, double factor, int in_name, int out_name) {
    if (!d.has(out_name)) return;
    require(variance >= 0 && d.has(in_name) && d.has(kFactor),
            "running moments, attribute {}, need training, the moments before, attribute {}, and their factor, "
            "attribute {}",
            out_name, in_name, kFactor);
    const int before = n.in(in_name);
    const int step = n.pointwise(Mode::kMul, {n.pointwise(Mode::kSub, {from, before}, -1, factor), n.in(kFactor)});
    n.pointwise(Mode::kAdd, {before, step}, n.out(out_name));
  };
  run(mean, 1, MIOPEN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC,
      MIOPEN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC);
  run(variance, samples / std::max(samples - 1, 1.0), MIOPEN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC,
      MIOPEN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC);
  return n.take();
}

// With g = dy * scale and the normalized x: dx = (g - mean(g) - x * mean(g * x)) / deviation.
std::vector<graph::Node> norm_backward_nodes(const DescriptorState& d, graph::Graph& g) {
  const auto norm = static_cast<Norm>(d.value(MIOPEN_ATTR_OPERATION_NORM_BWD_MODE).at<int>());
  constexpr int kMean = MIOPEN_ATTR_OPERATION_NORM_BWD_MEAN_DESC,
                kInverse = MIOPEN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC,
                kScale = MIOPEN_ATTR_OPERATION_NORM_BWD_SCALE_DESC,
                kDScale = MIOPEN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC,
                kDBias = MIOPEN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC;
  Nodes n(d, g, norm, {MIOPEN_ATTR_OPERATION_NORM_BWD_XDESC, kMean, kInverse, kScale});
  const Lens lens = n.moments(norm, kScale);
  const int mean = n.in(kMean);
  const int inverse = n.in(kInverse);
  const int dy = n.in(MIOPEN_ATTR_OPERATION_NORM_BWD_DYDESC);
  n.require_sizes(mean, lens, "mean");
  n.require_sizes(inverse, lens, "inverse deviation");
  n.require_sizes(dy, n.sizes(), "gradient dy");
  const int normalized = n.pointwise(Mode::kMul, {n.pointwise(Mode::kSub, {n.x(), mean}), inverse});
  if (d.has(kDBias)) n.reduction(reduce::Op::kAdd, dy, n.out(kDBias));
  if (d.has(kDScale)) n.reduction(reduce::Op::kAdd, n.pointwise(Mode::kMul, {dy, normalized}), n.out(kDScale));
  const int scaled = d.has(kScale) ? n.pointwise(Mode::kMul, {dy, n.in(kScale)}) : dy;
  const int of_mean = n.mean(scaled, lens);
  const int of_deviation = n.mean(n.pointwise(Mode::kMul, {scaled, normalized}), lens);
  const int rest = n.pointwise(
      Mode::kSub, {n.pointwise(Mode::kSub, {scaled, of_mean}), n.pointwise(Mode::kMul, {normalized, of_deviation})});
  n.pointwise(Mode::kMul, {rest, inverse}, n.out(MIOPEN_ATTR_OPERATION_NORM_BWD_DXDESC));
  return n.take();
}

}  // namespace polymio::capi
