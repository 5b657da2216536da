// Normalizations as nodes of graphs: moments, results, running moments and gradients, against their definitions.
// SPDX-License-Identifier: MIT
#include "graph_builder.h"

namespace polymio::test {
namespace {

constexpr int kLayer = 0, kInstance = 1, kBatch = 2, kGroup = 3;  // attribute MODE
constexpr int kInference = 0, kTraining = 1;                      // attribute PHASE
using Name = miopenBackendAttributeName_t;

/// x [n, c, h, w], and which of its elements share moments and which share a scale.
struct Moments {
  explicit Moments(int mode, const Dense& x) : x(x) {
    const Sizes& s = x.sizes;
    sizes = mode == kBatch      ? Sizes{1, s[1], 1, 1}
            : mode == kInstance ? Sizes{s[0], s[1], 1, 1}
            : mode == kGroup    ? Sizes{s[0], 2, 1, 1}
                                : Sizes{s[0], 1, 1, 1};
    scale_sizes = mode == kLayer ? Sizes{1, s[1], s[2], s[3]} : Sizes{1, s[1], 1, 1};
    mean.sizes = inverse.sizes = variance.sizes = sizes;
    const std::size_t groups = static_cast<std::size_t>(mean.count());
    samples = static_cast<double>(x.count()) / static_cast<double>(groups);
    mean.values.assign(groups, 0);
    variance.values.assign(groups, 0);
    for (std::size_t i = 0; i < x.values.size(); ++i) mean.values[at(sizes, i)] += x.values[i] / samples;
    for (std::size_t i = 0; i < x.values.size(); ++i) {
      const double d = x.values[i] - mean.values[at(sizes, i)];
      variance.values[at(sizes, i)] += d * d / samples;
    }
    for (const double v : variance.values) inverse.values.push_back(1 / std::sqrt(v + kEpsilon));
  }

  /// The number of the element of a tensor of sizes `to` that element i of x uses.
  std::size_t at(const Sizes& to, std::size_t i) const {
    std::size_t number = 0, step = 1;
    for (std::size_t d = 4; d-- > 0;) {
      const auto size = static_cast<std::size_t>(x.sizes[d]), parts = static_cast<std::size_t>(to[d]);
      number += i % size / (size / parts) * step;
      step *= parts;
      i /= size;
    }
    return number;
  }
  double normalized(std::size_t i) const {
    return (x.values[i] - mean.values[at(sizes, i)]) * inverse.values[at(sizes, i)];
  }

  const Dense& x;
  Sizes sizes, scale_sizes;
  Dense mean, variance, inverse;
  double samples = 1;
};

struct GraphNorm : testing::Test {
  using Others = std::vector<std::pair<Name, int64_t>>;
  /// Sets a node's attributes; y is the normalized x.
  static Backend& describe(Backend& op, GraphBuilder& g, int mode, int phase, int64_t x, int64_t y,
                           const Others& others) {
    op.set<int>(MIOPEN_ATTR_OPERATION_NORM_FWD_MODE, MIOPEN_TYPE_NORM_MODE, {mode})
        .set<int>(MIOPEN_ATTR_OPERATION_NORM_FWD_PHASE, MIOPEN_TYPE_NORM_FWD_PHASE, {phase})
        .set_child(MIOPEN_ATTR_OPERATION_NORM_FWD_XDESC, g.desc(x))
        .set_child(MIOPEN_ATTR_OPERATION_NORM_FWD_YDESC, g.desc(y));
    for (const auto& [name, id] : others) op.set_child(name, g.desc(id));
    return op;
  }
  static void normalize(GraphBuilder& g, int mode, int phase, int64_t x, int64_t y, const Others& others) {
    describe(g.operation(MIOPEN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR), g, mode, phase, x, y, others).finalize();
  }
  int64_t constant(GraphBuilder& g, double value) {
    const int64_t id = g.tensor(miopenFloat, {1, 1, 1, 1});
    g.dense(id).values = {value};
    return id;
  }
  DeviceHandle handle;
};

TEST_F(GraphNorm, TrainingInEveryModeAndType) {
  for (const int mode : {kLayer, kInstance, kBatch, kGroup})
    for (const auto type : {miopenFloat, miopenHalf, miopenDouble}) {
      if (!sampled()) continue;
      GraphBuilder g(handle);
      const auto of_moments = type == miopenDouble ? miopenDouble : miopenFloat;
      const int64_t x = g.input(type, {3, 4, 5, 6});
      const Moments m(mode, g.dense(x));
      const int64_t y = g.tensor(type, g.dense(x).sizes), mean = g.tensor(of_moments, m.sizes),
                    inverse = g.tensor(of_moments, m.sizes), scale = g.input(of_moments, m.scale_sizes),
                    bias = g.input(of_moments, m.scale_sizes);
      normalize(g, mode, kTraining, x, y,
                {{MIOPEN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, mean},
                 {MIOPEN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, inverse},
                 {MIOPEN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, scale},
                 {MIOPEN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, bias},
                 {MIOPEN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, constant(g, kEpsilon)}});
      Dense want{g.dense(x).sizes, {}};
      for (std::size_t i = 0; i < m.x.values.size(); ++i) {
        const std::size_t s = m.at(m.scale_sizes, i);
        want.values.push_back(m.normalized(i) * g.dense(scale).values[s] + g.dense(bias).values[s]);
      }
      const double error = type == miopenHalf ? 1e-3 : 1e-5;
      g.expect(y, want, error);
      g.expect(mean, m.mean, 1e-5);
      g.expect(inverse, m.inverse, 1e-5);
      const auto plan = g.plan(0);
      g.expect_same_from_json(*plan, g.run(*plan));
    }
}

TEST_F(GraphNorm, RunningMomentsOfBatches) {
  GraphBuilder g(handle);
  const int64_t x = g.input(miopenFloat, {4, 3, 5, 2});
  const Moments m(kBatch, g.dense(x));
  const int64_t y = g.tensor(miopenFloat, g.dense(x).sizes), mean_in = g.input(miopenFloat, m.sizes),
                var_in = g.input(miopenFloat, m.sizes), mean_out = g.tensor(miopenFloat, m.sizes),
                var_out = g.tensor(miopenFloat, m.sizes);
  normalize(g, kBatch, kTraining, x, y,
            {{MIOPEN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, constant(g, kEpsilon)},
             {MIOPEN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC, constant(g, kFactor)},
             {MIOPEN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC, mean_in},
             {MIOPEN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC, var_in},
             {MIOPEN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC, mean_out},
             {MIOPEN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC, var_out}});
  Dense mean = m.mean, variance = m.variance, normalized = m.x;
  for (std::size_t c = 0; c < mean.values.size(); ++c) {
    mean.values[c] = (1 - kFactor) * g.dense(mean_in).values[c] + kFactor * m.mean.values[c];
    variance.values[c] =
        (1 - kFactor) * g.dense(var_in).values[c] + kFactor * m.variance.values[c] * m.samples / (m.samples - 1);
  }
  for (std::size_t i = 0; i < normalized.values.size(); ++i) normalized.values[i] = m.normalized(i);
  g.expect(mean_out, mean, 1e-5);
  g.expect(var_out, variance, 1e-5);
  g.expect(y, normalized, 1e-5);
}

TEST_F(GraphNorm, InferenceReadsMoments) {
  GraphBuilder g(handle);
  const int64_t x = g.input(miopenFloat, {2, 3, 4, 4}), mean = g.input(miopenFloat, {1, 3, 1, 1}),
                inverse = g.input(miopenFloat, {1, 3, 1, 1}, 0.5, 2), y = g.tensor(miopenFloat, {2, 3, 4, 4});
  normalize(
      g, kBatch, kInference, x, y,
      {{MIOPEN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, mean}, {MIOPEN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, inverse}});
  Dense want = g.dense(x);
  for (std::size_t i = 0; i < want.values.size(); ++i) {
    const std::size_t c = i / 16 % 3;
    want.values[i] = (want.values[i] - g.dense(mean).values[c]) * g.dense(inverse).values[c];
  }
  g.expect(y, want, 1e-6);
}

TEST_F(GraphNorm, GroupsBeforeAnActivation) {
  GraphBuilder g(handle);
  const Sizes sizes = {2, 6, 4, 4};
  const int64_t x = g.input(miopenFloat, sizes), mean = g.input(miopenFloat, {2, 3, 1, 1}),
                inverse = g.input(miopenFloat, {2, 3, 1, 1}, 0.5, 2), y = g.tensor(miopenFloat, sizes, true),
                z = g.tensor(miopenFloat, sizes);
  normalize(
      g, kGroup, kInference, x, y,
      {{MIOPEN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, mean}, {MIOPEN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, inverse}});
  g.pointwise(MIOPEN_POINTWISE_RELU_FWD, {y}, z);
  Dense want = g.dense(x);
  for (std::size_t i = 0; i < want.values.size(); ++i) {
    const std::size_t group = i / 32;
    want.values[i] = std::max(0.0, (want.values[i] - g.dense(mean).values[group]) * g.dense(inverse).values[group]);
  }
  g.expect(z, want, 1e-6);
}

TEST_F(GraphNorm, GradientsInEveryMode) {
  for (const int mode : {kLayer, kInstance, kBatch, kGroup}) {
    GraphBuilder g(handle);
    const int64_t x = g.input(miopenFloat, {3, 4, 5, 6}), dy = g.input(miopenFloat, {3, 4, 5, 6});
    const Moments m(mode, g.dense(x));
    const int64_t mean = g.tensor(miopenFloat, m.sizes), inverse = g.tensor(miopenFloat, m.sizes),
                  scale = g.input(miopenFloat, m.scale_sizes), dscale = g.tensor(miopenFloat, m.scale_sizes),
                  dbias = g.tensor(miopenFloat, m.scale_sizes), dx = g.tensor(miopenFloat, {3, 4, 5, 6});
    g.dense(mean) = m.mean;
    g.dense(inverse) = m.inverse;
    g.operation(MIOPEN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR)
        .set<int>(MIOPEN_ATTR_OPERATION_NORM_BWD_MODE, MIOPEN_TYPE_NORM_MODE, {mode})
        .set_child(MIOPEN_ATTR_OPERATION_NORM_BWD_XDESC, g.desc(x))
        .set_child(MIOPEN_ATTR_OPERATION_NORM_BWD_DYDESC, g.desc(dy))
        .set_child(MIOPEN_ATTR_OPERATION_NORM_BWD_MEAN_DESC, g.desc(mean))
        .set_child(MIOPEN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC, g.desc(inverse))
        .set_child(MIOPEN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, g.desc(scale))
        .set_child(MIOPEN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, g.desc(dscale))
        .set_child(MIOPEN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, g.desc(dbias))
        .set_child(MIOPEN_ATTR_OPERATION_NORM_BWD_DXDESC, g.desc(dx))
        .finalize();
    Dense of_scale{m.scale_sizes, std::vector<double>(g.dense(scale).values.size())}, of_bias = of_scale;
    Dense of_mean{m.sizes, std::vector<double>(m.mean.values.size())}, of_deviation = of_mean, want = m.x;
    const auto weighted = [&](std::size_t i) {
      return g.dense(dy).values[i] * g.dense(scale).values[m.at(m.scale_sizes, i)];
    };
    for (std::size_t i = 0; i < want.values.size(); ++i) {
      of_bias.values[m.at(m.scale_sizes, i)] += g.dense(dy).values[i];
      of_scale.values[m.at(m.scale_sizes, i)] += g.dense(dy).values[i] * m.normalized(i);
      of_mean.values[m.at(m.sizes, i)] += weighted(i) / m.samples;
      of_deviation.values[m.at(m.sizes, i)] += weighted(i) * m.normalized(i) / m.samples;
    }
    for (std::size_t i = 0; i < want.values.size(); ++i)
      want.values[i] =
          (weighted(i) - of_mean.values[m.at(m.sizes, i)] - m.normalized(i) * of_deviation.values[m.at(m.sizes, i)]) *
          m.inverse.values[m.at(m.sizes, i)];
    g.expect(dbias, of_bias, 1e-5);
    g.expect(dscale, of_scale, 1e-5);
    g.expect(dx, want, 1e-5);
  }
}

TEST_F(GraphNorm, WhatIsMissingOrWrong) {
  GraphBuilder g(handle);
  const int64_t x = g.input(miopenFloat, {2, 3, 4, 4}), y = g.tensor(miopenFloat, {2, 3, 4, 4}),
                wrong = g.tensor(miopenFloat, {2, 3, 4, 4});
  const auto refused = [&](int mode, int phase, const Others& others, miopenStatus_t status,
                           std::initializer_list<const char*> parts) {
    Backend op(MIOPEN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR);
    expect_error(miopenBackendFinalize(describe(op, g, mode, phase, x, y, others)), status, parts);
  };
  refused(kBatch, kTraining, {}, miopenStatusBadParm, {"epsilon", "2007"});
  refused(kBatch, kInference, {}, miopenStatusBadParm, {"mean", "2003"});
  refused(kGroup, kTraining, {}, miopenStatusBadParm, {"groups", "mean", "2003"});
  refused(kGroup, kTraining, {{MIOPEN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, g.tensor(miopenFloat, {2, 2, 1, 1})}},
          miopenStatusBadParm, {"2x2x1x1", "divisor of the 3 channels"});
  const std::pair<Name, int64_t> epsilon{MIOPEN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, constant(g, kEpsilon)};
  refused(kBatch, kTraining, {epsilon, {MIOPEN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, wrong}}, miopenStatusBadParm,
          {"mean", "1x3x1x1"});
  refused(kBatch, kTraining, {epsilon, {MIOPEN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC, wrong}},
          miopenStatusBadParm, {"running moments", "2008"});
}

}  // namespace
}  // namespace polymio::test
