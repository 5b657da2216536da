// Normalisations, softmax and pooling of more than 2^31 elements, see large.h; large_operators.cc has the others.
// SPDX-License-Identifier: MIT
#include "large.h"

namespace polymio::test {
namespace {

TEST_F(LargePrimitives, BatchNormInference) {
  const Memory y = output();
  const Tensor channels(miopenFloat, {1, 2, 1, 1});
  float one = 1, zero = 0, scale[] = {2, 3}, bias[] = {1, -1}, mean[] = {0.5, 0.25}, variance[] = {1, 4};
  expect_ok(miopenBatchNormalizationForwardInference(handle, miopenBNSpatial, &one, &zero, desc, x.data(), desc,
                                                     y.data(), channels, scale, bias, mean, variance, 1e-9));
  expect_all(y, [&](std::int64_t i) {
    const std::int64_t c = plane(i);
    return scale[c] * (x_at(i) - mean[c]) / std::sqrt(variance[c]) + bias[c];
  });
}

/// A mean and a variance for each plane, then for each element of images of one row.
TEST_F(LargePrimitives, BatchNormTraining) {
  float one = 1, zero = 0;
  const auto run = [&](miopenBatchNormMode_t mode, const Tensor& of_x, const Tensor& of_scale, Group group,
                       std::int64_t length, double epsilon) {
    const Memory y = output();
    const std::size_t count = static_cast<std::size_t>(kCount / length);
    std::vector<float> scale(count, -2), bias(count, 0.5f), mean(count), inverse(count);
    expect_ok(miopenBatchNormalizationForwardTraining(handle, mode, &one, &zero, of_x, x.data(), of_x, y.data(),
                                                      of_scale, scale.data(), bias.data(), 1, nullptr, nullptr, epsilon,
                                                      mean.data(), inverse.data()));
    expect_all(y, [&](std::int64_t i) {
      const auto [of_group, variance] = moments(group, group(i), length);
      return -2 * (x_at(i) - of_group) / std::sqrt(variance + epsilon) + 0.5;
    });
    for (const std::int64_t i : places(group)) {
      const auto [of_group, variance] = moments(group, i, length);
      EXPECT_NEAR(mean[static_cast<std::size_t>(i)], of_group, 1e-3 * std::abs(of_group)) << i;
      expect_near(inverse[static_cast<std::size_t>(i)], 1 / std::sqrt(variance + epsilon), "inverse deviation", i);
    }
  };
  run(miopenBNSpatial, desc, Tensor(miopenFloat, {1, 2, 1, 1}), plane, kPlane, 1e-8);
  run(miopenBNPerActivation, Tensor(miopenHalf, {kRows, 2, 128, 128}), Tensor(miopenFloat, {1, 2, 128, 128}), column,
      kRows, 1e-4);
}

TEST_F(LargePrimitives, BatchNormBackward) {
  const Memory dx = output();
  const Tensor channels(miopenFloat, {1, 2, 1, 1});
  const float scale[] = {2, -3}, mean[] = {0.5, 0.25}, inverse[] = {1, 2};
  float dscale[2], dbias[2];
  expect_ok(miopenBatchNormalizationBackward(handle, miopenBNSpatial, &kOne, &kZero, &kOne, &kZero, desc, x.data(),
                                             desc, x.data(), desc, dx.data(), channels, scale, dscale, dbias, 1e-9,
                                             mean, inverse));
  const auto normal = [&](std::int64_t c, double v) { return (v - mean[c]) * inverse[c]; };
  const auto product = [&](std::int64_t c) { return sum(plane, c, [&](double v) { return v * normal(c, v); }); };
  expect_all(dx, [&](std::int64_t i) {
    const std::int64_t c = plane(i);
    return scale[c] * inverse[c] * (x_at(i) - sum(plane, c, same) / kPlane - normal(c, x_at(i)) * product(c) / kPlane);
  });
  for (const std::int64_t c : {0, 1}) {
    expect_near(dscale[c], product(c), "gradient of scale", c);
    expect_near(dbias[c], sum(plane, c, same), "gradient of bias", c);
  }
}

TEST_F(LargePrimitives, Softmax) {
  const Memory y = output();
  expect_ok(miopenSoftmaxForward_V2(handle, &kOne, desc, x.data(), &kZero, desc, y.data(), MIOPEN_SOFTMAX_ACCURATE,
                                    MIOPEN_SOFTMAX_MODE_CHANNEL));
  expect_all(y, [&](std::int64_t i) { return logistic(x_at(i) - x_at(twin(i))); });
}

TEST_F(LargePrimitives, LogarithmOfSoftmaxOfAll) {
  const Memory y = output();
  expect_ok(miopenSoftmaxForward_V2(handle, &kOne, desc, x.data(), &kZero, desc, y.data(), MIOPEN_SOFTMAX_LOG,
                                    MIOPEN_SOFTMAX_MODE_INSTANCE));
  const double total = kCount + sum(all, 0, [](double v) { return std::exp(v) - 1; });
  expect_all(y, [&](std::int64_t i) { return x_at(i) - std::log(total); });
}

TEST_F(LargePrimitives, SoftmaxBackward) {
  const Memory dx = output();
  const auto run = [&](miopenSoftmaxAlgorithm_t algorithm, miopenSoftmaxMode_t mode) {
    expect_ok(miopenSoftmaxBackward_V2(handle, &kOne, desc, x.data(), desc, x.data(), &kZero, desc, dx.data(),
                                       algorithm, mode));
  };
  run(MIOPEN_SOFTMAX_ACCURATE, MIOPEN_SOFTMAX_MODE_CHANNEL);
  expect_all(dx, [&](std::int64_t i) { return x_at(i) * (x_at(i) - square(x_at(i)) - square(x_at(twin(i)))); });
  run(MIOPEN_SOFTMAX_ACCURATE, MIOPEN_SOFTMAX_MODE_INSTANCE);
  expect_all(dx, [&](std::int64_t i) { return x_at(i) * (x_at(i) - sum(all, 0, square)); });
}

constexpr std::int64_t kWindow = 64;
std::int64_t window_of(std::int64_t i) { return i / kWindow; }

/// Windows of 64 elements in images of 128 x 256.
struct LargePooling : LargePrimitives {
  void set(miopenPoolingMode_t mode, miopenIndexType_t type) {
    expect_ok(miopenSet2dPoolingDescriptor(pooling, mode, 1, kWindow, 0, 0, 1, kWindow));
    expect_ok(miopenSetPoolingIndexType(pooling, type));
    expect_ok(miopenSetPoolingWorkSpaceIndexMode(pooling, miopenPoolingWorkspaceIndexImage));
  }
  void forward(const Tensor& of_x, const Tensor& of_y, void* indices, std::size_t bytes) {
    expect_ok(miopenPoolingForward(handle, pooling, &kOne, of_x, x.data(), &kZero, of_y, y.data(), indices != nullptr,
                                   indices, bytes));
  }
  void backward(const Tensor& of_x, const Tensor& of_y, void* indices) {
    for (const std::int64_t w : places(window_of)) dy.set(w, 1 + static_cast<double>(w % 8));
    expect_ok(miopenPoolingBackward(handle, pooling, &kOne, of_y, y.data(), of_y, dy.data(), of_x, x.data(), &kZero,
                                    of_x, dx.data(), indices));
  }
  /// Maxima of the images that of_x describes, their positions and the gradient.
  void maximum(const Tensor& of_x, const Tensor& of_y, std::int64_t size, miopenIndexType_t index, Type type) {
    set(miopenPoolingMax, index);
    std::size_t bytes = 0;
    expect_ok(miopenPoolingGetWorkSpaceSizeV2(pooling, of_y, &bytes));
    const Memory positions(kCount / kWindow, type);
    ASSERT_EQ(bytes, positions.bytes());
    forward(of_x, of_y, positions.data(), bytes);
    for (const std::int64_t w : places(window_of)) {
      EXPECT_EQ(y.at(w), x_at(largest(w))) << "window " << w;
      EXPECT_EQ(positions.at(w), static_cast<double>(largest(w) % size)) << "window " << w;
    }
    backward(of_x, of_y, positions.data());
    expect_all(dx, [&](std::int64_t i) { return i == largest(window_of(i)) ? dy.at(window_of(i)) : 0; });
  }
  /// The first largest element of a window.
  std::int64_t largest(std::int64_t w) const {
    std::int64_t at = w * kWindow;
    for (std::int64_t i = at; i < (w + 1) * kWindow; ++i)
      if (x_at(i) > x_at(at)) at = i;
    return at;
  }

  const Owned<miopenPoolingDescriptor_t, miopenCreatePoolingDescriptor, miopenDestroyPoolingDescriptor> pooling;
  Tensor images{miopenHalf, {2, 32769, 128, 256}}, small{miopenHalf, {2, 32769, 128, 256 / kWindow}};
  Memory y{kCount / kWindow}, dy{kCount / kWindow}, dx = output();
};

TEST_F(LargePooling, Maximum) { maximum(images, small, kWidth, miopenIndexUint32, Type::kInt32); }

/// An image of more than 2^31 elements, whose positions take 64 bits.
TEST_F(LargePooling, MaximumInOneImage) {
  maximum(image, Tensor(miopenHalf, {1, 1, kRows, kWidth / kWindow}), kCount, miopenIndexUint64, Type::kInt64);
}

TEST_F(LargePooling, Average) {
  set(miopenPoolingAverage, miopenIndexUint8);
  forward(images, small, nullptr, 0);
  expect_all(y, places(window_of), [&](std::int64_t w) { return sum(window_of, w, same) / kWindow; });
  backward(images, small, nullptr);
  expect_all(dx, [&](std::int64_t i) { return dy.at(window_of(i)) / kWindow; });
}

/// A result of 2^30 elements.
TEST_F(LargePooling, MaximumOfPairs) {
  const auto pair = [](std::int64_t i) { return i / 2; };
  const Memory half(kPlane, places(pair));
  expect_ok(miopenSet2dPoolingDescriptor(pooling, miopenPoolingMax, 1, 2, 0, 0, 1, 2));
  expect_ok(miopenPoolingForward(handle, pooling, &kOne, images, x.data(), &kZero,
                                 Tensor(miopenHalf, {2, 32769, 128, 128}), half.data(), false, nullptr, 0));
  expect_all(half, places(pair), [&](std::int64_t i) { return std::max(x_at(2 * i), x_at(2 * i + 1)); });
}

using Lrn = Owned<miopenLRNDescriptor_t, miopenCreateLRNDescriptor, miopenDestroyLRNDescriptor>;

TEST_F(LargePrimitives, ResponseAcrossChannels) {
  Places both = places();
  for (const std::int64_t i : places()) both.push_back(twin(i));
  const Memory y(kCount, both), dx = output(), scale(kCount, both);
  const auto scale_at = [&](std::int64_t i) { return 2 + 0.1 * (square(x_at(i)) + square(x_at(twin(i)))); };
  const Lrn lrn;
  expect_ok(miopenSetLRNDescriptor(lrn, miopenLRNCrossChannel, 3, 0.3, 0.5, 2));
  expect_ok(miopenLRNForward(handle, lrn, &kOne, desc, x.data(), &kZero, desc, y.data(), true, scale.data()));
  expect_all(y, [&](std::int64_t i) { return x_at(i) / std::sqrt(scale_at(i)); });
  expect_all(scale, scale_at);
  expect_ok(miopenLRNBackward(handle, lrn, &kOne, desc, y.data(), desc, x.data(), desc, x.data(), &kZero, desc,
                              dx.data(), scale.data()));
  expect_all(dx, [&](std::int64_t i) {
    const double s = scale_at(i), squares = square(x_at(i)) + square(x_at(twin(i)));
    return x_at(i) / std::sqrt(s) * (1 - 0.1 * squares / s);
  });
}

TEST_F(LargePrimitives, ResponseWithinAChannel) {
  const Memory y = output();
  const Lrn lrn;
  expect_ok(miopenSetLRNDescriptor(lrn, miopenLRNWithinChannel, 3, 9, 0.75, 2));
  expect_ok(miopenLRNForward(handle, lrn, &kOne, desc, x.data(), &kZero, desc, y.data(), false, nullptr));
  expect_all(y, [&](std::int64_t i) {
    double scale = 2;
    for (const auto& [at, value] : values)
      if (plane(at) == plane(i) && std::abs(row(at) - row(i)) <= 1 && std::abs(column(at) - column(i)) <= 1)
        scale += square(value);
    return x_at(i) * std::pow(scale, -0.75);
  });
}

/// Layer norms of x as lines of `length` elements.
struct LargeNorms : LargePrimitives {
  void layer_norm(std::int64_t length, Group line, Group in_line, bool add) {
    const Lines l(length);
    const Memory y = output(), weight(length), bias(length);
    fill(weight, in_line, 0.5);
    fill(bias, in_line, -1);
    std::vector<float> mean(l.count), rstd(l.count);
    expect_ok(add ? miopenAddLayerNormForward(handle, MIOPEN_WEIGHT_BIAS_FUSED_ADD, l.x, x.data(), l.x, x.data(),
                                              l.weight, weight.data(), l.weight, bias.data(), kEpsilon, 1, l.x,
                                              y.data(), l.statistic, mean.data(), l.statistic, rstd.data())
                  : miopenLayerNormForward(handle, MIOPEN_WEIGHT_BIAS, l.x, x.data(), l.weight, weight.data(), l.weight,
                                           bias.data(), kEpsilon, 1, l.x, y.data(), l.statistic, mean.data(),
                                           l.statistic, rstd.data()));
    const double factor = add ? 2 : 1;
    const auto of_line = [&](std::int64_t k) {
      const auto [average, variance] = moments(line, k, length);
      return Moments{factor * average, 1 / std::sqrt(factor * factor * variance + kEpsilon)};
    };
    expect_all(y, [&](std::int64_t i) {
      const auto [average, inverse] = of_line(line(i));
      return (factor * x_at(i) - average) * inverse * weight.at(in_line(i)) + bias.at(in_line(i));
    });
    for (const std::int64_t k : places(line)) {
      EXPECT_NEAR(mean[static_cast<std::size_t>(k)], of_line(k).mean, 1e-3 * std::abs(of_line(k).mean));
      expect_near(rstd[static_cast<std::size_t>(k)], of_line(k).variance, "line", k);
    }
  }
  void t5_layer_norm(std::int64_t length, Group line, Group in_line) {
    const Lines l(length);
    const Memory y = output(), weight(length);
    fill(weight, in_line, 0.5);
    std::vector<float> rstd(l.count);
    expect_ok(miopenT5LayerNormForward(handle, MIOPEN_WEIGHT_BIAS_T5, l.x, x.data(), l.weight, weight.data(), kEpsilon,
                                       l.x, y.data(), l.statistic, rstd.data()));
    const auto inverse = [&](std::int64_t k) {
      return 1 / std::sqrt(sum(line, k, square) / static_cast<double>(length) + kEpsilon);
    };
    expect_all(y, [&](std::int64_t i) { return x_at(i) * inverse(line(i)) * weight.at(in_line(i)); });
    for (const std::int64_t k : places(line)) expect_near(rstd[static_cast<std::size_t>(k)], inverse(k), "line", k);
  }
  /// With dy = x, given means and deviations.
  void backward(std::int64_t length, Group line, Group in_line, bool t5) {
    const Lines l(length);
    const Memory dx = output(), weight(length), dw(length, places(in_line)), db(length, places(in_line));
    fill(weight, in_line, 0.5);
    const double center = t5 ? 0 : 0.5;
    const std::vector<float> mean(l.count, 0.5f), rstd(l.count, 2);
    expect_ok(t5 ? miopenT5LayerNormBackward(handle, MIOPEN_WEIGHT_BIAS_T5, nullptr, 0, l.x, x.data(), l.x, x.data(),
                                             l.weight, weight.data(), l.statistic, rstd.data(), l.x, dx.data(),
                                             l.weight, dw.data())
                 : miopenLayerNormBackward(handle, MIOPEN_WEIGHT_BIAS, nullptr, 0, l.x, x.data(), l.x, x.data(),
                                           l.weight, weight.data(), l.statistic, mean.data(), l.statistic, rstd.data(),
                                           1, l.x, dx.data(), l.weight, dw.data(), l.weight, db.data()));
    const auto normal = [&](double v) { return (v - center) * 2; };
    expect_all(dx, [&](std::int64_t i) {
      double average = 0, product = 0;
      for (const auto& [at, value] : values) {
        if (line(at) != line(i)) continue;
        const double scaled = value * weight.at(in_line(at)) / static_cast<double>(length);
        average += t5 ? 0 : scaled;
        product += scaled * normal(value);
      }
      return 2 * (weight.at(in_line(i)) * x_at(i) - average - normal(x_at(i)) * product);
    });
    for (const std::int64_t k : places(in_line)) {
      expect_near(dw.at(k), sum(in_line, k, [&](double v) { return v * normal(v); }), "gradient of weight", k);
      if (!t5) expect_near(db.at(k), sum(in_line, k, same), "gradient of bias", k);
    }
  }

 private:
  static constexpr float kEpsilon = 1e-6f;

  struct Lines {
    explicit Lines(std::int64_t length)
        : count(static_cast<std::size_t>(kCount / length)),
          x(miopenHalf, {count, static_cast<std::size_t>(length)}),
          weight(miopenHalf, {static_cast<std::size_t>(length)}),
          statistic(miopenFloat, {count}) {}
    std::size_t count;
    Long x, weight, statistic;
  };
  void fill(const Memory& parameters, Group in_line, double first) const {
    for (const std::int64_t k : places(in_line)) parameters.set(k, first + static_cast<double>(k % 4));
  }
};

TEST_F(LargeNorms, LayerNormOfRows) { layer_norm(kWidth, row, column, false); }
TEST_F(LargeNorms, LayerNormOfAll) { layer_norm(kCount, all, itself, false); }
TEST_F(LargeNorms, AddLayerNormOfRows) { layer_norm(kWidth, row, column, true); }
TEST_F(LargeNorms, AddLayerNormOfAll) { layer_norm(kCount, all, itself, true); }
TEST_F(LargeNorms, T5LayerNormOfRows) { t5_layer_norm(kWidth, row, column); }
TEST_F(LargeNorms, T5LayerNormOfAll) { t5_layer_norm(kCount, all, itself); }
TEST_F(LargeNorms, LayerNormBackwardOfRows) { backward(kWidth, row, column, false); }
TEST_F(LargeNorms, LayerNormBackwardOfAll) { backward(kCount, all, itself, false); }
TEST_F(LargeNorms, T5LayerNormBackwardOfRows) { backward(kWidth, row, column, true); }
TEST_F(LargeNorms, T5LayerNormBackwardOfAll) { backward(kCount, all, itself, true); }

TEST_F(LargePrimitives, GroupNorm) {
  const Tensor channels(miopenFloat, {2});
  const float weight[] = {2, -0.5}, bias[] = {1, -1};
  for (const std::int64_t groups : {1, 2}) {
    const Tensor of_groups(miopenFloat, {1, static_cast<int>(groups)});
    const Group group = groups == 1 ? all : plane;
    const Memory y = output();
    float mean[2], rstd[2];
    expect_ok(miopenGroupNormForward(handle, MIOPEN_WEIGHT_BIAS, desc, x.data(), channels, weight, channels, bias,
                                     static_cast<std::uint64_t>(groups), 1e-6f, desc, y.data(), of_groups, mean,
                                     of_groups, rstd));
    const auto inverse = [&](std::int64_t g) {
      return 1 / std::sqrt(moments(group, g, kCount / groups).variance + 1e-6f);
    };
    expect_all(y, [&](std::int64_t i) {
      const std::int64_t g = group(i);
      return (x_at(i) - moments(group, g, kCount / groups).mean) * inverse(g) * weight[plane(i)] + bias[plane(i)];
    });
    for (std::int64_t g = 0; g < groups; ++g) expect_near(rstd[g], inverse(g), "group", g);
  }
}

}  // namespace
}  // namespace polymio::test
