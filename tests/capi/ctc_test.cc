// The CTC loss through the API: descriptors, a loss known in closed form, gradients against differences of the loss in
// fp64, labels in device memory, long sequences, losses that are infinite, errors with their texts. On any device.
// SPDX-License-Identifier: MIT
#include <cmath>
#include <limits>
#include <random>

#include "on_device.h"
#include "reference/ctc.h"

namespace polymio::test {
namespace {

namespace ref = polymio::reference;
using Floats = std::vector<float>;
using Ints = std::vector<int>;

constexpr auto kAlgorithm = MIOPEN_CTC_LOSS_ALGO_DETERMINISTIC;

struct CtcApi : testing::Test {
  CtcApi() { expect_ok(miopenCreateCTCLossDescriptor(&desc)); }
  ~CtcApi() override { expect_ok(miopenDestroyCTCLossDescriptor(desc)); }

  void set(int blank, bool softmax) { expect_ok(miopenSetCTCLossDescriptor(desc, miopenFloat, blank, softmax)); }

  miopenStatus_t size(const Tensor& probs, const Tensor& gradients, std::size_t& bytes) {
    return miopenGetCTCLossWorkspaceSize(handle, probs, gradients, labels.data(), label_lengths.data(),
                                         input_lengths.data(), kAlgorithm, desc, &bytes);
  }
  /// Of contiguous tensors [steps, batch, classes].
  void run(const std::vector<int>& lens, const Floats& probs, Floats& losses, Floats& gradients) {
    const Tensor t(miopenFloat, lens);
    std::size_t bytes = 0;
    expect_ok(size(t, t, bytes));
    Floats workspace(bytes / sizeof(float) + 1);
    losses.assign(static_cast<std::size_t>(lens[1]), -1);
    gradients.assign(probs.size(), -1);
    expect_ok(miopenCTCLoss(handle, t, There(handle, probs), labels.data(), label_lengths.data(), input_lengths.data(),
                            There(handle, losses), t, There(handle, gradients), kAlgorithm, desc,
                            There(handle, workspace), bytes));
  }

  DeviceHandle handle;
  miopenCTCLossDescriptor_t desc = nullptr;
  Ints labels, label_lengths, input_lengths;
};

TEST_F(CtcApi, DescriptorKeepsItsValues) {
  miopenDataType_t type = miopenInt8;
  int blank = -1;
  bool softmax = false;
  expect_ok(miopenGetCTCLossDescriptor(desc, &type, &blank, &softmax));
  EXPECT_EQ(type, miopenFloat);
  EXPECT_EQ(blank, 0);
  EXPECT_TRUE(softmax);
  expect_ok(miopenSetCTCLossDescriptor(desc, miopenHalf, 7, false));
  expect_ok(miopenGetCTCLossDescriptor(desc, &type, nullptr, nullptr));
  EXPECT_EQ(type, miopenHalf);
  expect_ok(miopenGetCTCLossDescriptor(desc, &type, &blank, &softmax));
  EXPECT_EQ(blank, 7);
  EXPECT_FALSE(softmax);
  expect_bad(miopenGetCTCLossDescriptor(desc, nullptr, &blank, &softmax), {"dataType"});
  expect_bad(miopenCreateCTCLossDescriptor(nullptr), {"ctcLossDesc"});
  expect_bad(miopenDestroyCTCLossDescriptor(nullptr), {"CTC loss descriptor"});
  expect_bad(miopenSetCTCLossDescriptor(nullptr, miopenFloat, 0, true), {"CTC loss descriptor"});
}

/// Two steps, one label: the paths are "a a", "a -" and "- a".
TEST_F(CtcApi, LossInClosedForm) {
  labels = {1, 1};
  label_lengths = {1, 1};
  input_lengths = {2, 1};
  set(0, false);
  const float a = 0.3f, b = 0.7f, p = 0.4f, q = 0.6f;
  const Floats probs = {std::log(a), std::log(b), std::log(a), std::log(b),
                        std::log(p), std::log(q), std::log(p), std::log(q)};
  Floats losses, gradients;
  run({2, 2, 2}, probs, losses, gradients);
  const double likelihood = static_cast<double>(b * q + b * p + a * q);
  EXPECT_NEAR(losses[0], -std::log(likelihood), 1e-6);
  EXPECT_NEAR(losses[1], -std::log(static_cast<double>(b)), 1e-6);
  // Derivatives of the negative logarithm with respect to each probability.
  EXPECT_NEAR(gradients[0], -static_cast<double>(q) / likelihood, 1e-5);
  EXPECT_NEAR(gradients[1], -1 / likelihood, 1e-5);
  EXPECT_NEAR(gradients[3], -1 / static_cast<double>(b), 1e-5);
  EXPECT_EQ(gradients[2], 0);
  EXPECT_EQ(gradients[6], 0) << "sequence 1 has one step";
  EXPECT_EQ(gradients[7], 0);
}

/// Central differences of the reference's loss, in fp64.
TEST_F(CtcApi, GradientsAreDifferencesOfTheLoss) {
  labels = {1, 2, 2, 4, 0};
  label_lengths = {4, 1, 0};
  input_lengths = {7, 5, 6};
  constexpr int kSteps = 7, kBatch = 3, kClasses = 5, kBlank = 3;
  std::mt19937 random(3);
  std::uniform_real_distribution<float> uniform(-2, 2);
  Floats probs(kSteps * kBatch * kClasses), losses, gradients;
  for (float& v : probs) v = uniform(random);
  for (const bool softmax : {true, false}) {
    set(kBlank, softmax);
    if (!softmax)
      for (float& v : probs) v = v / 2 - 2;
    run({kSteps, kBatch, kClasses}, probs, losses, gradients);
    ref::Ctc p;
    p.probs = {ref::Type::kDouble, {kSteps, kBatch, kClasses}};
    p.gradients = p.probs;
    p.labels = labels;
    p.label_lengths = label_lengths;
    p.input_lengths = input_lengths;
    p.blank = kBlank;
    p.softmax = softmax;
    std::vector<double> wide(probs.begin(), probs.end());
    const auto loss = [&] {
      double sum = 0;
      for (const double v : evaluate(p, wide.data()).losses.value) sum += v;
      return sum;
    };
    for (std::size_t i = 0; i < wide.size(); ++i) {
      // Without softmax the gradient is that of the probability e^x, whose derivative is itself.
      constexpr double kStep = 1e-5;
      const double x = wide[i];
      wide[i] = x + kStep;
      const double above = loss();
      wide[i] = x - kStep;
      const double difference = (above - loss()) / (2 * kStep) / (softmax ? 1 : std::exp(x));
      wide[i] = x;
      EXPECT_NEAR(gradients[i], difference, 2e-5 * (1 + std::fabs(difference))) << i << " softmax " << softmax;
    }
  }
}

/// Logarithms of thousands would be 1e-4 off at every step in fp32.
TEST_F(CtcApi, LongSequencesKeepTheirAccuracy) {
  constexpr int kSteps = 2000, kClasses = 40;
  label_lengths = {250};
  input_lengths = {kSteps};
  std::mt19937 random(5);
  for (int i = 0; i < label_lengths[0]; ++i) labels.push_back(1 + static_cast<int>(random() % (kClasses - 1)));
  std::uniform_real_distribution<float> uniform(-5, 5);
  Floats probs(kSteps * kClasses), losses, gradients;
  for (float& v : probs) v = uniform(random);
  set(0, true);
  run({kSteps, 1, kClasses}, probs, losses, gradients);
  ref::Ctc p;
  p.probs = {ref::Type::kFloat, {kSteps, 1, kClasses}};
  p.gradients = p.probs;
  p.labels = labels;
  p.label_lengths = label_lengths;
  p.input_lengths = input_lengths;
  const ref::CtcResults want = evaluate(p, probs.data());
  EXPECT_NEAR(losses[0], want.losses.value[0], 1e-6 * want.losses.value[0]);
  double worst = 0;
  for (std::size_t i = 0; i < gradients.size(); ++i)
    worst = std::max(worst, std::fabs(static_cast<double>(gradients[i]) - want.gradients.value[i]));
  EXPECT_LT(worst, 1e-4);
}

TEST_F(CtcApi, ArraysMayBeInDeviceMemory) {
  if (on_cpu()) GTEST_SKIP() << "a CPU has one kind of memory";
  labels = {1, 2, 2};
  label_lengths = {2, 1};
  input_lengths = {4, 3};
  const Floats probs(4 * 2 * 3, 0.5f);
  Floats losses, gradients, again(2, -1);
  run({4, 2, 3}, probs, losses, gradients);
  const Tensor t(miopenFloat, {4, 2, 3});
  std::size_t bytes = 0;
  {
    const There in_labels(handle, labels), in_counts(handle, label_lengths), in_steps(handle, input_lengths);
    const auto ints = [](const There& there) { return static_cast<const int*>(static_cast<void*>(there)); };
    const int *at = ints(in_labels), *counts = ints(in_counts), *steps = ints(in_steps);
    expect_ok(miopenGetCTCLossWorkspaceSize(handle, t, t, at, counts, steps, kAlgorithm, desc, &bytes));
    Floats workspace(bytes / sizeof(float) + 1);
    expect_ok(miopenCTCLoss(handle, t, There(handle, probs), at, counts, steps, There(handle, again), t, nullptr,
                            kAlgorithm, desc, There(handle, workspace), bytes));
  }
  EXPECT_EQ(again, losses) << "without gradients, too";
}

TEST_F(CtcApi, ImpossibleAndNanInputs) {
  labels = {1, 1};
  label_lengths = {1, 1};
  input_lengths = {2, 2};
  set(0, false);
  Floats losses, gradients;
  run({2, 2, 2}, {0, -kInf, 0, std::nanf(""), 0, -kInf, 0, 0}, losses, gradients);
  EXPECT_EQ(losses[0], kInf) << "the label has no probability";
  EXPECT_TRUE(std::isnan(losses[1]));
  EXPECT_EQ(gradients[0], 0) << "no path, no share";
  label_lengths = {0, 0};
  run({2, 2, 2}, {-1, 0, -2, 0, -1, 0, -2, 0}, losses, gradients);
  EXPECT_NEAR(losses[0], 2, 1e-6) << "only blanks";
  EXPECT_NEAR(losses[1], 4, 1e-6);
}

TEST_F(CtcApi, ErrorsSayWhatIsWrong) {
  labels = {1, 1, 2};
  label_lengths = {3};
  input_lengths = {4};
  const Tensor t(miopenFloat, {4, 1, 3}), flat(miopenFloat, {4, 3}), other(miopenFloat, {4, 1, 2}),
      wide(miopenDouble, {4, 1, 3});
  std::size_t bytes = 77;
  const Floats probs(12, 0.5f);
  Floats losses(1), gradients(12), workspace(4096);
  const There from(handle, probs), to(handle, losses), gradient(handle, gradients), space(handle, workspace);
  const auto call = [&](const Tensor& x, const Tensor& g, std::size_t size_of_space) {
    return miopenCTCLoss(handle, x, from, labels.data(), label_lengths.data(), input_lengths.data(), to, g, gradient,
                         kAlgorithm, desc, space, size_of_space);
  };
  const auto expect_both = [&](const Tensor& x, const Tensor& g, std::initializer_list<const char*> parts) {
    expect_bad(size(x, g, bytes), parts);
    EXPECT_EQ(call(x, g, 0), miopenStatusUnknownError);
    EXPECT_EQ(bytes, 77u);
  };
  expect_both(flat, flat, {"4x3", "steps"});
  expect_both(t, other, {"4x1x3", "4x1x2"});
  expect_bad(size(wide, wide, bytes), {"fp64", "fp32"});
  input_lengths = {5};
  expect_both(t, t, {"input length 5", "0 to 4"});
  input_lengths = {3};
  expect_both(t, t, {"3 labels", "1 of them equal", "3 steps"});
  input_lengths = {4};
  for (const int label : {3, -1}) {
    labels[2] = label;
    expect_both(t, t, {"label 2", "0 to 2"});
  }
  labels[2] = 2;
  label_lengths = {-1};
  expect_both(t, t, {"label length -1"});
  label_lengths = {3};
  expect_ok(size(t, t, bytes));
  expect_bad(call(t, t, bytes - 1), {"workspace", "miopenGetCTCLossWorkspaceSize"});
  expect_bad(miopenCTCLoss(handle, t, from, labels.data(), label_lengths.data(), input_lengths.data(), to, t, from,
                           kAlgorithm, desc, space, bytes),
             {"probs", "gradients"});
  expect_bad(miopenGetCTCLossWorkspaceSize(handle, t, t, nullptr, label_lengths.data(), input_lengths.data(),
                                           kAlgorithm, desc, &bytes),
             {"labels is null"});
  expect_bad(miopenGetCTCLossWorkspaceSize(handle, t, t, labels.data(), nullptr, input_lengths.data(), kAlgorithm, desc,
                                           &bytes),
             {"labelLengths"});
}

}  // namespace
}  // namespace polymio::test
