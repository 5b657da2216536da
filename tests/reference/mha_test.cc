// The gradients of the reference against differences of its results, in fp64.
// SPDX-License-Identifier: MIT
#include "reference/mha.h"

#include <gtest/gtest.h>

#include <random>

namespace polymio::reference {
namespace {

using Values = std::vector<double>;

Values random(const Tensor& t, unsigned seed) {
  Values values(static_cast<std::size_t>(t.count()));
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> draw(-1, 1);
  for (double& v : values) v = draw(engine);
  return values;
}

/// Scales, dropout, a mask, a bias, and more keys than queries.
Mha problem(bool causal, float probability) {
  Mha p;
  p.causal = causal;
  p.probability = probability;
  p.seed = 5;
  p.scale = 0.4;
  p.q = p.o = p.dout = p.dq = {Type::kDouble, {2, 2, 4, 3}};
  p.k = p.v = p.dk = p.dv = {Type::kDouble, {2, 2, 5, 3}};
  p.bias = {Type::kFloat, {1, 2, 4, 5}};
  p.descale_q = 1.5;
  p.descale_k = 0.75;
  return p;
}

struct Inputs {
  explicit Inputs(const Mha& p) : q(random(p.q, 1)), k(random(p.k, 2)), v(random(p.v, 3)), dout(random(p.o, 4)) {
    for (std::int64_t i = 0; i < p.bias.count(); ++i) bias.push_back(static_cast<float>(i % 7) * 0.1f);
  }
  MhaData data() const { return {q.data(), k.data(), v.data(), bias.data()}; }

  Values q, k, v, dout;
  std::vector<float> bias;
};

/// The sum of dout times o.
double loss(const Mha& p, const Inputs& in) {
  const Result o = mha_forward(p, in.data())[kMhaO];
  double sum = 0;
  for (std::size_t i = 0; i < o.value.size(); ++i) sum += o.value[i] * in.dout[i];
  return sum;
}

TEST(MhaReference, GradientsAreThoseOfDifferences) {
  for (const bool causal : {false, true})
    for (const float probability : {0.0f, 0.4f}) {
      const Mha p = problem(causal, probability);
      Inputs in(p);
      const auto forward = mha_forward(p, in.data());
      const std::vector<float> m(forward[kMhaM].value.begin(), forward[kMhaM].value.end());
      const std::vector<float> z_inv(forward[kMhaZInv].value.begin(), forward[kMhaZInv].value.end());
      MhaData data = in.data();
      data.o = forward[kMhaO].value.data();
      data.m = m.data();
      data.z_inv = z_inv.data();
      data.dout = in.dout.data();
      const auto gradients = mha_backward(p, data);
      const std::pair<Values*, double> inputs[] = {{&in.q, 1 / p.descale_q}, {&in.k, 1 / p.descale_k}, {&in.v, 1}};
      for (std::size_t which = 0; which < 3; ++which) {
        auto& [values, factor] = inputs[which];
        for (std::size_t i = 0; i < values->size(); ++i) {
          constexpr double kStep = 1e-5;
          const double old = (*values)[i];
          (*values)[i] = old + kStep;
          const double above = loss(p, in);
          (*values)[i] = old - kStep;
          const double difference = (above - loss(p, in)) / (2 * kStep);
          (*values)[i] = old;
          // The statistics are fp32. A gradient is that of the number that the stored one stands for.
          EXPECT_NEAR(gradients[which].value[i], difference * factor, 1e-6) << which << " " << i << " " << probability;
        }
      }
    }
}

/// A caller may pass any statistics: an error bound must not be negative, or cancel, where 1 / sum is below 0.
TEST(MhaReference, ErrorBoundsDoNotDependOnTheSignOfTheStatistics) {
  const Mha p = problem(true, 0.4f);
  const Inputs in(p);
  const Values o = random(p.o, 5);
  const std::vector<float> m(static_cast<std::size_t>(p.statistics().count()), 0.5f);
  const auto magnitudes = [&](float sign) {
    std::vector<float> z_inv;
    for (std::size_t i = 0; i < m.size(); ++i) z_inv.push_back(i % 2 == 0 ? 0.25f : sign * 0.25f);
    MhaData data = in.data();
    data.o = o.data();
    data.m = m.data();
    data.z_inv = z_inv.data();
    data.dout = in.dout.data();
    std::vector<Values> all;
    for (const Result& r : mha_backward(p, data)) all.push_back(r.magnitude);
    return all;
  };
  EXPECT_EQ(magnitudes(-1), magnitudes(1));
}

}  // namespace
}  // namespace polymio::reference
