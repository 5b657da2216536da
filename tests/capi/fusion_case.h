// Shared by the tests of fusion: chains of operations on small images, evaluated in double. A chain is a text of
// letters: C convolution of 3x3, B bias, N and P batch norm with given moments, per channel and per activation, T batch
// norm with those of the batch, A activation.
// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cmath>
#include <random>
#include <string>

#include "on_device.h"

namespace polymio::test {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

inline Floats random_floats(std::size_t count, unsigned seed, float least = -1, float most = 1) {
  Floats values(count);
  std::mt19937 engine(seed);
  for (float& v : values) v = least + (most - least) * static_cast<float>(engine()) / static_cast<float>(engine.max());
  return values;
}

/// Images of 4 channels, 7 x 6 pixels, which no operation changes.
struct Images {
  static constexpr int kImages = 2, kChannels = 4, kRows = 7, kColumns = 6;
  static constexpr std::size_t kPixels = kRows * kColumns, kCount = kImages * kChannels * kPixels;
  bool channels_last = false;

  Ints lens() const { return {kImages, kChannels, kRows, kColumns}; }
  Ints strides() const {
    if (channels_last) return {kChannels * kRows * kColumns, 1, kColumns * kChannels, kChannels};
    return {kChannels * kRows * kColumns, kRows * kColumns, kColumns, 1};
  }
  static std::size_t channel(std::size_t i) { return i / kPixels % kChannels; }
  /// In N, C, H, W order, from memory and to it.
  template <class To, class From>
  std::vector<To> permuted(const From& data, bool to_memory) const {
    std::vector<To> result(kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
      const std::size_t image = i / (kChannels * kPixels), pixel = i % kPixels;
      const std::size_t at = channels_last ? image * kChannels * kPixels + pixel * kChannels + channel(i) : i;
      result[to_memory ? at : i] = static_cast<To>(data[to_memory ? i : at]);
    }
    return result;
  }
  Doubles dense(const Floats& memory) const { return permuted<double>(memory, false); }
};

/// The operands of all operations of chains, and their evaluation.
struct ChainData {
  Images images;
  miopenActivationMode_t mode = miopenActivationRELU;
  double alpha = 0.75, beta = 0.5, gamma = 1;
  Floats x = random_floats(Images::kCount, 1), w = random_floats(4 * 4 * 9, 2), bias = random_floats(4, 3);
  // Per channel, and per activation.
  Floats scale = random_floats(4, 4), shift = random_floats(4, 5), mean = random_floats(4, 6),
         variance = random_floats(4, 7, 0.5, 2);
  Floats scales = random_floats(168, 8), shifts = random_floats(168, 9), means = random_floats(168, 10),
         variances = random_floats(168, 11, 0.5, 2);

  double activated(double v) const {
    switch (mode) {
      case miopenActivationRELU: return std::max(v, 0.0);
      case miopenActivationTANH: return beta * std::tanh(alpha * v);
      case miopenActivationLOGISTIC: return 1 / (1 + std::exp(-v));
      case miopenActivationCLIPPEDRELU: return std::clamp(v, 0.0, alpha);
      default: return v > 0 ? v : alpha * v;  // leaky ReLU
    }
  }
  double derivative(double v) const {
    switch (mode) {
      case miopenActivationRELU: return v > 0;
      case miopenActivationTANH: return alpha * beta * (1 - std::pow(std::tanh(alpha * v), 2));
      case miopenActivationLOGISTIC: return activated(v) * (1 - activated(v));
      case miopenActivationCLIPPEDRELU: return v > 0 && v <= alpha;
      default: return v > 0 ? 1 : alpha;
    }
  }

  /// Mean and variance of each channel.
  static std::pair<Doubles, Doubles> moments(const Doubles& v) {
    constexpr double kEach = Images::kCount / Images::kChannels;
    Doubles means(4), variances(4);
    for (std::size_t i = 0; i < v.size(); ++i) means[Images::channel(i)] += v[i] / kEach;
    for (std::size_t i = 0; i < v.size(); ++i)
      variances[Images::channel(i)] += std::pow(v[i] - means[Images::channel(i)], 2) / kEach;
    return {means, variances};
  }

  Doubles convolved(const Doubles& v) const {
    constexpr int kR = Images::kRows, kC = Images::kColumns;
    Doubles y(v.size());
    for (int n = 0; n < 2; ++n)
      for (int k = 0; k < 4; ++k)
        for (int h = 0; h < kR; ++h)
          for (int c = 0; c < kC; ++c) {
            double sum = 0;
            for (int q = 0; q < 4; ++q)
              for (int r = -1; r <= 1; ++r)
                for (int s = -1; s <= 1; ++s)
                  if (h + r >= 0 && h + r < kR && c + s >= 0 && c + s < kC)
                    sum += static_cast<double>(w[static_cast<std::size_t>((k * 4 + q) * 9 + (r + 1) * 3 + s + 1)]) *
                           v[static_cast<std::size_t>(((n * 4 + q) * kR + h + r) * kC + c + s)];
            y[static_cast<std::size_t>(((n * 4 + k) * kR + h) * kC + c)] = sum;
          }
    return y;
  }

  Doubles apply(char operation, const Doubles& v) const {
    if (operation == 'C') return convolved(v);
    const auto [batch_mean, batch_variance] = moments(v);
    Doubles y(v.size());
    for (std::size_t i = 0; i < v.size(); ++i) {
      const std::size_t c = Images::channel(i), p = i % 168;
      switch (operation) {
        case 'B': y[i] = v[i] + bias[c]; break;
        case 'N': y[i] = scale[c] * (v[i] - mean[c]) / std::sqrt(variance[c] + kEpsilon) + shift[c]; break;
        case 'P': y[i] = scales[p] * (v[i] - means[p]) / std::sqrt(variances[p] + kEpsilon) + shifts[p]; break;
        case 'T': y[i] = scale[c] * (v[i] - batch_mean[c]) / std::sqrt(batch_variance[c] + kEpsilon) + shift[c]; break;
        default: y[i] = activated(v[i]);
      }
    }
    return y;
  }
  /// What the chain makes of x, in N, C, H, W order.
  Doubles expected(const std::string& chain) const {
    Doubles v = images.dense(x);
    for (const char operation : chain) v = apply(operation, v);
    return v;
  }

  void expect_result(const Floats& memory, const Doubles& want, const std::string& what) const {
    const Doubles got = images.dense(memory);
    double most = 1;
    for (const double v : want) most = std::max(most, std::fabs(v));
    for (std::size_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(got[i], want[i], 2e-5 * most) << what << ", element " << i << ", " << images.channels_last;
  }

  /// The gradients of a batch norm of x with these moments and an activation, for dy.
  struct Gradients {
    Doubles y, dx, dscale, dbias, mean, inverse;
  };
  Gradients gradients(const Doubles& dy) const {
    const Doubles v = images.dense(x);
    const auto [batch_mean, batch_variance] = moments(v);
    constexpr double kEach = Images::kCount / Images::kChannels;
    Gradients g{Doubles(v.size()), Doubles(v.size()), Doubles(4), Doubles(4), batch_mean, Doubles(4)};
    for (std::size_t c = 0; c < 4; ++c) g.inverse[c] = 1 / std::sqrt(batch_variance[c] + kEpsilon);
    Doubles inner(v.size()), normal(v.size());
    for (std::size_t i = 0; i < v.size(); ++i) {
      const std::size_t c = Images::channel(i);
      normal[i] = (v[i] - g.mean[c]) * g.inverse[c];
      const double z = scale[c] * normal[i] + shift[c];
      g.y[i] = activated(z);
      inner[i] = dy[i] * derivative(z);
      g.dbias[c] += inner[i];
      g.dscale[c] += inner[i] * normal[i];
    }
    for (std::size_t i = 0; i < v.size(); ++i) {
      const std::size_t c = Images::channel(i);
      g.dx[i] = scale[c] * g.inverse[c] * (inner[i] - g.dbias[c] / kEach - normal[i] * g.dscale[c] / kEach);
    }
    return g;
  }
};

}  // namespace polymio::test
