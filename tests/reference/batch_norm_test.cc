// The gradients of a batch norm and an activation, by the reference, against differences of their results, in fp64.
// SPDX-License-Identifier: MIT
#include "reference/batch_norm.h"

#include <gtest/gtest.h>

#include <random>

namespace polymio::reference {
namespace {

using Values = std::vector<double>;

Values random(std::int64_t count, unsigned seed) {
  Values values(static_cast<std::size_t>(count));
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> draw(-1, 1);
  for (double& v : values) v = draw(engine);
  return values;
}

BatchNorm problem(bool spatial, ActivationMode mode) {
  BatchNorm p;
  p.spatial = spatial;
  p.activation.mode = mode;
  p.activation.alpha = 0.75;
  p.activation.beta = 0.5;
  p.epsilon = 0.1;
  p.x = p.dy = p.out = {Type::kDouble, {3, 2, 2, 2}};
  p.scales = p.biases = p.moments = {Type::kDouble, parameter_lens(p)};
  return p;
}

TEST(BatchNormReference, GradientsAreThoseOfDifferences) {
  using enum ActivationMode;
  for (const bool spatial : {false, true})
    for (const auto mode : {kPassthru, kLogistic, kTanh, kSoftrelu, kElu}) {
      BatchNorm p = problem(spatial, mode);
      Values x = random(p.x.count(), 1), scale = random(p.scales.count(), 2), bias = random(p.biases.count(), 3);
      const Values dy = random(p.x.count(), 4);
      BatchNormInputs in{.x = x.data(), .dy = dy.data(), .scale = scale.data(), .bias = bias.data()};
      const auto loss = [&] {
        const Result y = evaluate(p, in).out;
        double sum = 0;
        for (std::size_t i = 0; i < dy.size(); ++i) sum += y.value[i] * dy[i];
        return sum;
      };
      p.direction = BatchNorm::Direction::kBackward;
      const BatchNormResults gradients = evaluate(p, in);
      p.direction = BatchNorm::Direction::kTraining;
      const std::pair<Values*, const Result*> all[] = {
          {&x, &gradients.out}, {&scale, &gradients.dscale}, {&bias, &gradients.dbias}};
      for (const auto& [values, gradient] : all)
        for (std::size_t i = 0; i < values->size(); ++i) {
          constexpr double kStep = 1e-5;
          const double old = (*values)[i];
          (*values)[i] = old + kStep;
          const double above = loss();
          (*values)[i] = old - kStep;
          const double difference = (above - loss()) / (2 * kStep);
          (*values)[i] = old;
          EXPECT_NEAR(gradient->value[i], difference, 1e-8)
              << "element " << i << " of " << values->size() << " spatial " << spatial << " " << static_cast<int>(mode);
        }
    }
}

}  // namespace
}  // namespace polymio::reference
