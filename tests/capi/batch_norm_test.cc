// The batch norm API: every function against the reference, optional pointers, in place, parameters of one descriptor,
// errors with their texts. On any device.
// SPDX-License-Identifier: MIT
#include "reference/batch_norm.h"

#include <cmath>
#include <limits>
#include <random>

#include "on_device.h"

namespace polymio::test {
namespace {

namespace ref = polymio::reference;
using Floats = std::vector<float>;
using Activation =
    Owned<miopenActivationDescriptor_t, miopenCreateActivationDescriptor, miopenDestroyActivationDescriptor>;

const Ints kSizes = {4, 6, 5, 7}, kOnePerChannel = {1, 6, 1, 1};

Floats random(std::size_t count, unsigned seed, float least, float most) {
  Floats values(count);
  std::mt19937 engine(seed);
  for (float& v : values) v = least + (most - least) * static_cast<float>(engine()) / static_cast<float>(engine.max());
  return values;
}

struct BatchNormApi : testing::Test {
  BatchNormApi() {
    wanted.activation.mode = ref::ActivationMode::kPassthru;
    wanted.epsilon = kEpsilon;
    wanted.factor = kFactor;
    wanted.x = wanted.dy = wanted.out = {ref::Type::kFloat, {4, 6, 5, 7}};
    wanted.scales = wanted.biases = wanted.moments = {ref::Type::kFloat, {1, 6, 1, 1}};
  }
  void set_activation(miopenActivationMode_t mode) {
    expect_ok(miopenSetActivationDescriptor(activation, mode, 0.75, 0.5, 0));
    wanted.activation.mode = static_cast<ref::ActivationMode>(mode);
    wanted.activation.alpha = 0.75;
    wanted.activation.beta = 0.5;
  }

  /// The results for `direction`; with moments where given.
  ref::BatchNormResults results(ref::BatchNorm::Direction direction, const Floats* first = nullptr,
                                const Floats* second = nullptr) {
    wanted.direction = direction;
    return evaluate(wanted, {x.data(), dy.data(), nullptr, scale.data(), bias.data(), first ? first->data() : nullptr,
                             second ? second->data() : nullptr});
  }
  void expect_near(const Floats& got, const ref::Result& expected, const char* what) {
    const bool whole = got.size() == x.size();
    const auto found =
        ref::compare(arithmetic(wanted, ref::Type::kFloat), whole ? wanted.x : wanted.moments, got.data(), expected);
    EXPECT_TRUE(found.ok()) << what << " " << found.index << " is " << found.got << ", should be " << found.want;
  }
  /// Training with running moments from mean and variance.
  void expect_trained(const Floats& next_mean, const Floats& next_variance, const Floats& before_mean,
                      const Floats& before_variance) {
    const auto expected = results(ref::BatchNorm::Direction::kTraining, &before_mean, &before_variance);
    expect_near(out, expected.out, "y");
    expect_near(next_mean, expected.next_mean, "the running mean");
    expect_near(next_variance, expected.next_variance, "the running variance");
    expect_near(saved_mean, expected.mean, "the saved mean");
    expect_near(saved_inverse, expected.inverse, "the saved inverse variance");
  }
  void expect_inferred(bool inverse) {
    wanted.inverse = inverse;
    expect_near(out, results(ref::BatchNorm::Direction::kInference, &mean, &variance).out, "y");
  }
  void expect_differentiated(bool saved) {
    const auto expected =
        results(ref::BatchNorm::Direction::kBackward, saved ? &mean : nullptr, saved ? &variance : nullptr);
    expect_near(out, expected.out, "dx");
    expect_near(dscale, expected.dscale, "the gradient of the scale");
    expect_near(dbias, expected.dbias, "the gradient of the bias");
  }
  void clear() {
    for (Floats* values : {&out, &saved_mean, &saved_inverse, &dscale, &dbias})
      std::fill(values->begin(), values->end(), kNan);
  }
  There there(Floats& values) { return {handle, values}; }
  void* one() { return &kOne; }
  void* zero() { return &kZero; }

  DeviceHandle handle;
  Activation activation;
  Tensor t{miopenFloat, kSizes}, p{miopenFloat, kOnePerChannel};
  Floats x = random(840, 1, 8, 10), dy = random(840, 2, -1, 1), out = Floats(840, kNan);
  Floats scale = random(6, 3, -1, 1), bias = random(6, 4, -1, 1);
  Floats mean = random(6, 5, 8, 10), variance = random(6, 6, 0.5, 2);
  Floats saved_mean = Floats(6, kNan), saved_inverse = Floats(6, kNan), dscale = Floats(6, kNan),
         dbias = Floats(6, kNan);
  ref::BatchNorm wanted;
  static inline float kOne = 1, kZero = 0;
};

constexpr auto kSpatial = miopenBNSpatial;

TEST_F(BatchNormApi, DerivesTheDescriptorOfParameters) {
  const auto expect = [&](const Ints& sizes, miopenDataType_t type, miopenBatchNormMode_t mode, const Ints& lens) {
    const Tensor from(type, sizes);
    Tensor derived;
    expect_ok(miopenDeriveBNTensorDescriptor(derived, from, mode));
    Ints got(lens.size()), strides(lens.size()), packed(lens.size(), 1);
    miopenDataType_t got_type;
    expect_ok(miopenGetTensorDescriptor(derived, &got_type, got.data(), strides.data()));
    for (std::size_t d = lens.size() - 1; d-- > 0;) packed[d] = packed[d + 1] * lens[d + 1];
    EXPECT_EQ(got, lens);
    EXPECT_EQ(strides, packed);
    EXPECT_EQ(got_type, miopenFloat);
  };
  expect({2, 3, 5, 7}, miopenFloat, miopenBNSpatial, {1, 3, 1, 1});
  expect({2, 3, 5, 7}, miopenHalf, miopenBNPerActivation, {1, 3, 5, 7});
  expect({2, 3, 4, 5, 7}, miopenDouble, miopenBNSpatial, {1, 3, 1, 1, 1});
  expect({2, 3, 4, 5, 7}, miopenBFloat16, miopenBNPerActivation, {1, 3, 4, 5, 7});
  Tensor derived(miopenFloat, {9});
  const Tensor flat(miopenFloat, {2, 3, 5});
  expect_bad(miopenDeriveBNTensorDescriptor(derived, flat, miopenBNSpatial), {"rank 3", "4 and 5"});
  expect_bad(miopenDeriveBNTensorDescriptor(nullptr, t, miopenBNSpatial), {"null"});
  expect_bad(miopenDeriveBNTensorDescriptor(derived, nullptr, miopenBNSpatial), {"x", "null"});
  const int number = 2;
  miopenBatchNormMode_t mode;
  std::memcpy(&mode, &number, sizeof mode);
  expect_bad(miopenDeriveBNTensorDescriptor(derived, t, mode), {"mode 2", "spatial"});
  std::size_t bytes = 0;
  expect_ok(miopenGetTensorNumBytes(derived, &bytes));
  EXPECT_EQ(bytes, 36u) << "a refused call changes nothing";
}

TEST_F(BatchNormApi, ForwardTraining) {
  Floats running_mean = mean, running_variance = variance;
  expect_ok(miopenBatchNormalizationForwardTraining(
      handle, kSpatial, one(), zero(), t, there(x), t, there(out), p, there(scale), there(bias), kFactor,
      there(running_mean), there(running_variance), kEpsilon, there(saved_mean), there(saved_inverse)));
  expect_trained(running_mean, running_variance, mean, variance);
}

TEST_F(BatchNormApi, ForwardTrainingOfFourDescriptors) {
  Floats running_mean = mean, running_variance = variance;
  expect_ok(miopenBatchNormalizationForwardTraining_V2(
      handle, kSpatial, one(), zero(), t, there(x), t, there(out), p, p, p, p, there(scale), there(bias), kFactor,
      there(running_mean), there(running_variance), kEpsilon, there(saved_mean), there(saved_inverse)));
  expect_trained(running_mean, running_variance, mean, variance);
}

TEST_F(BatchNormApi, ForwardTrainingKeepsPreviousMoments) {
  Floats before_mean = mean, before_variance = variance, next_mean(6, kNan), next_variance(6, kNan);
  expect_ok(miopenBatchNormalizationForwardTraining_V3(handle, kSpatial, one(), zero(), t, there(x), t, there(out), p,
                                                       p, p, p, there(scale), there(bias), kFactor, there(before_mean),
                                                       there(before_variance), there(next_mean), there(next_variance),
                                                       kEpsilon, there(saved_mean), there(saved_inverse)));
  expect_trained(next_mean, next_variance, mean, variance);
  EXPECT_EQ(before_mean, mean);
  EXPECT_EQ(before_variance, variance);
}

TEST_F(BatchNormApi, ForwardTrainingActivation) {
  set_activation(miopenActivationCLIPPEDRELU);
  Floats running_mean = mean, running_variance = variance;
  expect_ok(miopenBatchNormForwardTrainingActivation(
      handle, kSpatial, one(), zero(), t, there(x), t, there(out), p, p, p, p, there(scale), there(bias), kFactor,
      there(running_mean), there(running_variance), kEpsilon, there(saved_mean), there(saved_inverse), activation));
  expect_trained(running_mean, running_variance, mean, variance);
}

TEST_F(BatchNormApi, ForwardTrainingActivationKeepsPreviousMoments) {
  set_activation(miopenActivationCLIPPEDRELU);
  Floats before_mean = mean, before_variance = variance, next_mean(6, kNan), next_variance(6, kNan);
  expect_ok(miopenBatchNormForwardTrainingActivation_V2(handle, kSpatial, one(), zero(), t, there(x), t, there(out), p,
                                                        p, p, p, there(scale), there(bias), kFactor, there(before_mean),
                                                        there(before_variance), there(next_mean), there(next_variance),
                                                        kEpsilon, there(saved_mean), there(saved_inverse), activation));
  expect_trained(next_mean, next_variance, mean, variance);
  EXPECT_EQ(before_mean, mean);
}

TEST_F(BatchNormApi, ForwardInference) {
  expect_ok(miopenBatchNormalizationForwardInference(handle, kSpatial, one(), zero(), t, there(x), t, there(out), p,
                                                     there(scale), there(bias), there(mean), there(variance),
                                                     kEpsilon));
  expect_inferred(false);
}

TEST_F(BatchNormApi, ForwardInferenceOfFourDescriptors) {
  expect_ok(miopenBatchNormalizationForwardInference_V2(handle, kSpatial, one(), zero(), t, there(x), t, there(out), p,
                                                        p, p, p, there(scale), there(bias), there(mean),
                                                        there(variance), kEpsilon));
  expect_inferred(false);
}

TEST_F(BatchNormApi, ForwardInferenceOfInverseVariances) {
  expect_ok(miopenBatchNormalizationForwardInferenceInvVariance(handle, kSpatial, one(), zero(), t, there(x), t,
                                                                there(out), p, p, p, p, there(scale), there(bias),
                                                                there(mean), there(variance)));
  expect_inferred(true);
}

TEST_F(BatchNormApi, ForwardInferenceActivation) {
  set_activation(miopenActivationCLIPPEDRELU);
  expect_ok(miopenBatchNormForwardInferenceActivation(handle, kSpatial, one(), zero(), t, there(x), t, there(out), p, p,
                                                      p, p, there(scale), there(bias), there(mean), there(variance),
                                                      kEpsilon, activation));
  expect_inferred(false);
}

TEST_F(BatchNormApi, ForwardInferenceActivationOfInverseVariances) {
  set_activation(miopenActivationCLIPPEDRELU);
  expect_ok(miopenBatchNormForwardInferenceActivationInvVariance(handle, kSpatial, one(), zero(), t, there(x), t,
                                                                 there(out), p, p, p, p, there(scale), there(bias),
                                                                 there(mean), there(variance), activation));
  expect_inferred(true);
}

TEST_F(BatchNormApi, InferenceWithoutMomentsTakesThoseOfTheBatch) {
  const Floats before = mean;
  expect_ok(miopenBatchNormalizationForwardInference(handle, kSpatial, one(), zero(), t, there(x), t, there(out), p,
                                                     there(scale), there(bias), there(mean), nullptr, kEpsilon));
  expect_near(out, results(ref::BatchNorm::Direction::kTraining).out, "y");
  EXPECT_EQ(mean, before) << "nothing is stored";
  clear();
  wanted.epsilon = 1e-5;
  expect_ok(miopenBatchNormalizationForwardInferenceInvVariance(handle, kSpatial, one(), zero(), t, there(x), t,
                                                                there(out), p, p, p, p, there(scale), there(bias),
                                                                nullptr, nullptr));
  expect_near(out, results(ref::BatchNorm::Direction::kTraining).out, "y with the epsilon of this function");
}

TEST_F(BatchNormApi, Backward) {
  for (const bool saved : {false, true}) {
    clear();
    const There m(handle, mean), v(handle, variance);
    expect_ok(miopenBatchNormalizationBackward(handle, kSpatial, one(), zero(), one(), zero(), t, there(x), t,
                                               there(dy), t, there(out), p, there(scale), there(dscale), there(dbias),
                                               kEpsilon, saved ? static_cast<void*>(m) : nullptr,
                                               saved ? static_cast<void*>(v) : nullptr));
    expect_differentiated(saved);
  }
}

TEST_F(BatchNormApi, BackwardOfFourDescriptors) {
  expect_ok(miopenBatchNormalizationBackward_V2(handle, kSpatial, one(), zero(), one(), zero(), t, there(x), t,
                                                there(dy), t, there(out), p, p, p, p, there(scale), there(dscale),
                                                there(dbias), kEpsilon, there(mean), there(variance)));
  expect_differentiated(true);
}

TEST_F(BatchNormApi, BackwardActivation) {
  set_activation(miopenActivationCLIPPEDRELU);
  expect_ok(miopenBatchNormBackwardActivation(handle, kSpatial, one(), zero(), one(), zero(), t, there(x), t, there(dy),
                                              t, there(out), p, p, p, p, there(scale), there(bias), there(dscale),
                                              there(dbias), kEpsilon, nullptr, nullptr, activation));
  expect_differentiated(false);
  expect_bad(miopenBatchNormBackwardActivation(handle, kSpatial, one(), zero(), one(), zero(), t, there(x), t,
                                               there(dy), t, there(out), p, p, p, p, there(scale), nullptr,
                                               there(dscale), there(dbias), kEpsilon, nullptr, nullptr, activation),
             {"bias", "null"});
}

// In passes of their own: those that no solver computes with the norm.
TEST_F(BatchNormApi, EveryActivation) {
  for (const auto mode : {miopenActivationLOGISTIC, miopenActivationTANH, miopenActivationSOFTRELU, miopenActivationABS,
                          miopenActivationLEAKYRELU, miopenActivationELU}) {
    const testing::ScopedTrace trace("activation", 0, std::to_string(mode));
    set_activation(mode);
    Floats running_mean = mean, running_variance = variance;
    expect_ok(miopenBatchNormForwardTrainingActivation(
        handle, kSpatial, one(), zero(), t, there(x), t, there(out), p, p, p, p, there(scale), there(bias), kFactor,
        there(running_mean), there(running_variance), kEpsilon, there(saved_mean), there(saved_inverse), activation));
    expect_trained(running_mean, running_variance, mean, variance);
    clear();
    expect_ok(miopenBatchNormForwardInferenceActivation(handle, kSpatial, one(), zero(), t, there(x), t, there(out), p,
                                                        p, p, p, there(scale), there(bias), there(mean),
                                                        there(variance), kEpsilon, activation));
    expect_inferred(false);
    for (const bool saved : {false, true}) {
      clear();
      const There m(handle, mean), v(handle, variance);
      expect_ok(miopenBatchNormBackwardActivation(
          handle, kSpatial, one(), zero(), one(), zero(), t, there(x), t, there(dy), t, there(out), p, p, p, p,
          there(scale), there(bias), there(dscale), there(dbias), kEpsilon, saved ? static_cast<void*>(m) : nullptr,
          saved ? static_cast<void*>(v) : nullptr, activation));
      expect_differentiated(saved);
    }
  }
}

// In passes, between tensors of 16 bits whose gaps differ; also to dx in fp32.
TEST_F(BatchNormApi, OtherActivationsOf16BitsInStridedTensors) {
  set_activation(miopenActivationTANH);
  const Ints rows = {260, 42, 8, 1}, pixels = {270, 1, 50, 7}, apart = {430, 70, 14, 2};
  const auto tensor = [](miopenDataType_t type, const Ints& strides) {
    return ref::Tensor(static_cast<ref::Type>(type), {4, 6, 5, 7}, {strides.begin(), strides.end()});
  };
  const auto narrowed = [](const Floats& values, const ref::Tensor& to) {
    std::vector<unsigned char> bytes(to.bytes(), 0xff);
    for (std::int64_t i = 0; i < to.count(); ++i)
      ref::store(to.type, bytes.data(), to.offset(i), static_cast<double>(values[static_cast<std::size_t>(i)]));
    return bytes;
  };
  for (const auto type : {miopenHalf, miopenBFloat16})
    for (const auto gradient : {type, miopenFloat}) {
      const testing::ScopedTrace trace("types", 0, std::to_string(type) + " " + std::to_string(gradient));
      const Tensor of_x(type, kSizes, rows), of_y(type, kSizes, pixels);
      const Tensor of_dy(gradient, kSizes, apart), of_dx(gradient, kSizes, pixels);
      wanted.x = tensor(type, rows);
      wanted.dy = tensor(gradient, apart);
      const auto from = narrowed(x, wanted.x), of_gradient = narrowed(dy, wanted.dy);
      const auto expect_result = [&](const auto& direction, miopenDataType_t of_type, auto& got) {
        wanted.out = tensor(of_type, pixels);
        wanted.direction = direction;
        const auto expected = evaluate(wanted, {from.data(), of_gradient.data(), nullptr, scale.data(), bias.data()});
        const auto found = ref::compare(arithmetic(wanted, wanted.out.type), wanted.out, got.data(), expected.out);
        EXPECT_TRUE(found.ok()) << "element " << found.index << " is " << found.got << " instead of " << found.want;
        const auto used = ref::element_bytes(wanted.out);
        for (std::size_t i = 0; i < got.size(); ++i)
          EXPECT_TRUE(used[i] || got[i] == 0xff) << "byte " << i << " of a gap";
        return expected;
      };
      std::vector<unsigned char> y(tensor(type, pixels).bytes(), 0xff), dx(tensor(gradient, pixels).bytes(), 0xff);
      expect_ok(miopenBatchNormForwardTrainingActivation(
          handle, kSpatial, one(), zero(), of_x, There(handle, from), of_y, There(handle, y), p, p, p, p, there(scale),
          there(bias), kFactor, nullptr, nullptr, kEpsilon, nullptr, nullptr, activation));
      expect_result(ref::BatchNorm::Direction::kTraining, type, y);
      expect_ok(miopenBatchNormBackwardActivation(handle, kSpatial, one(), zero(), one(), zero(), of_x,
                                                  There(handle, from), of_dy, There(handle, of_gradient), of_dx,
                                                  There(handle, dx), p, p, p, p, there(scale), there(bias),
                                                  there(dscale), there(dbias), kEpsilon, nullptr, nullptr, activation));
      const auto expected = expect_result(ref::BatchNorm::Direction::kBackward, gradient, dx);
      expect_near(dscale, expected.dscale, "the gradient of the scale");
      expect_near(dbias, expected.dbias, "the gradient of the bias");
    }
}

// y is added to, and dx is dy or x.
TEST_F(BatchNormApi, OtherActivationsInMemoryOfTheHandle) {
  set_activation(miopenActivationTANH);
  float half = 0.5f, two = 2;
  out = dy;
  expect_ok(miopenBatchNormForwardTrainingActivation(handle, kSpatial, &two, &half, t, there(x), t, there(out), p, p, p,
                                                     p, there(scale), there(bias), kFactor, nullptr, nullptr, kEpsilon,
                                                     nullptr, nullptr, activation));
  const auto plain = results(ref::BatchNorm::Direction::kTraining).out;
  for (std::size_t i = 0; i < out.size(); ++i)
    ASSERT_NEAR(out[i], 2 * plain.value[i] + 0.5 * static_cast<double>(dy[i]), 1e-5) << i;
  const auto backward = results(ref::BatchNorm::Direction::kBackward).out;
  for (const Floats* input : {&dy, &x}) {
    Floats both = *input;
    {
      const There data(handle, both), other(handle, input == &x ? dy : x);
      const void *const of_x = input == &x ? data : other, *const of_dy = input == &x ? other : data;
      expect_ok(miopenBatchNormBackwardActivation(handle, kSpatial, one(), zero(), one(), zero(), t, of_x, t, of_dy, t,
                                                  data, p, p, p, p, there(scale), there(bias), there(dscale),
                                                  there(dbias), kEpsilon, nullptr, nullptr, activation));
    }
    expect_near(both, backward, "dx");
  }
}

TEST_F(BatchNormApi, OfPairsOfPointersBothOrNoneCount) {
  const Floats nothing(6, kNan);
  Floats running = mean;
  expect_ok(miopenBatchNormalizationForwardTraining(handle, kSpatial, one(), zero(), t, there(x), t, there(out), p,
                                                    there(scale), there(bias), kFactor, there(running), nullptr,
                                                    kEpsilon, there(saved_mean), nullptr));
  expect_near(out, results(ref::BatchNorm::Direction::kTraining).out, "y");
  EXPECT_EQ(running, mean);
  EXPECT_TRUE(std::isnan(saved_mean[0]));
  clear();
  expect_ok(miopenBatchNormalizationBackward(handle, kSpatial, one(), zero(), one(), zero(), t, there(x), t, there(dy),
                                             t, there(out), p, there(scale), nullptr, there(dbias), kEpsilon,
                                             there(mean), nullptr));
  const auto expected = results(ref::BatchNorm::Direction::kBackward);
  expect_near(out, expected.out, "dx");
  expect_near(dbias, expected.dbias, "the gradient of the bias");
  EXPECT_TRUE(std::isnan(dscale[0]));
}

TEST_F(BatchNormApi, ResultsMayReplaceTheirInputs) {
  const auto forward = results(ref::BatchNorm::Direction::kTraining);
  const auto backward = results(ref::BatchNorm::Direction::kBackward);
  Floats both = x;
  {
    const There data(handle, both);
    expect_ok(miopenBatchNormalizationForwardTraining(handle, kSpatial, one(), zero(), t, data, t, data, p,
                                                      there(scale), there(bias), kFactor, nullptr, nullptr, kEpsilon,
                                                      nullptr, nullptr));
  }
  expect_near(both, forward.out, "y");
  for (const Floats* input : {&dy, &x}) {
    both = *input;
    {
      const There data(handle, both), other(handle, input == &x ? dy : x);
      const void *const of_x = input == &x ? data : other, *const of_dy = input == &x ? other : data;
      expect_ok(miopenBatchNormalizationBackward(handle, kSpatial, one(), zero(), one(), zero(), t, of_x, t, of_dy, t,
                                                 data, p, there(scale), there(dscale), there(dbias), kEpsilon, nullptr,
                                                 nullptr));
    }
    expect_near(both, backward.out, "dx");
  }
}

TEST_F(BatchNormApi, OneDescriptorOf16BitsLeavesMomentsInFloatForChannelsLast) {
  for (const bool last : {false, true}) {
    const Ints strides = last ? Ints{210, 1, 42, 6} : Ints{210, 35, 7, 1};
    const Tensor half(miopenHalf, kSizes, strides), parameter(miopenHalf, kOnePerChannel);
    std::vector<std::uint16_t> values(840, 0x3c00), y(840), ones(6, 0x3c00), zeros(6, 0);
    std::vector<std::uint32_t> first(6, 0xffffffff), second(6, 0xffffffff);
    expect_ok(miopenBatchNormalizationForwardTraining(handle, kSpatial, one(), zero(), half, There(handle, values),
                                                      half, There(handle, y), parameter, There(handle, ones),
                                                      There(handle, zeros), kFactor, nullptr, nullptr, 0.25,
                                                      There(handle, first), There(handle, second)));
    EXPECT_EQ(y, std::vector<std::uint16_t>(840, 0));
    // 1 and 2: six floats, or six halves in the first half of the memory.
    EXPECT_EQ(first[0], last ? 0x3f800000u : 0x3c003c00u);
    EXPECT_EQ(second[0], last ? 0x40000000u : 0x40004000u);
    EXPECT_EQ(first[5], last ? 0x3f800000u : 0xffffffffu);
  }
}

TEST_F(BatchNormApi, ParametersOfFiveDimensionsMayHaveFour) {
  const Tensor five(miopenFloat, {4, 6, 1, 5, 7}), fives(miopenFloat, {1, 6, 1, 1, 1});
  for (const Tensor* parameter : {static_cast<const Tensor*>(&p), &fives}) {
    clear();
    expect_ok(miopenBatchNormalizationForwardInference(handle, kSpatial, one(), zero(), five, there(x), five,
                                                       there(out), *parameter, there(scale), there(bias), there(mean),
                                                       there(variance), kEpsilon));
    expect_inferred(false);
  }
}

TEST_F(BatchNormApi, ErrorsNameWhatIsWrongAndWriteNothing) {
  const auto train = [&](miopenTensorDescriptor_t x_desc, const void* from, miopenTensorDescriptor_t y_desc, void* to,
                         miopenTensorDescriptor_t parameter, void* of_scale, void* of_bias) {
    return miopenBatchNormalizationForwardTraining(handle, kSpatial, one(), zero(), x_desc, from, y_desc, to, parameter,
                                                   of_scale, of_bias, kFactor, nullptr, nullptr, kEpsilon, nullptr,
                                                   nullptr);
  };
  const There in(handle, x), to(handle, out), s(handle, scale), b(handle, bias);
  expect_bad(train(nullptr, in, t, to, p, s, b), {"descriptor of x", "null"});
  expect_bad(train(t, nullptr, t, to, p, s, b), {"x", "null"});
  expect_bad(train(t, in, t, nullptr, p, s, b), {"y", "null"});
  expect_bad(train(t, in, t, to, nullptr, s, b), {"scale", "null"});
  expect_bad(train(t, in, t, to, p, nullptr, b), {"scale", "null"});
  expect_bad(train(t, in, t, to, p, s, nullptr), {"bias", "null"});
  const Tensor other(miopenFloat, {4, 6, 5, 6}), half(miopenHalf, kSizes), flat(miopenFloat, {6}),
      six(miopenFloat, {4, 6, 5, 7, 1, 1});
  const Tensor five(miopenFloat, {1, 5, 1, 1}), ints(miopenInt32, kOnePerChannel), three(miopenFloat, {1, 6, 1});
  const Tensor apart(miopenFloat, kOnePerChannel, {12, 2, 1, 1});
  expect_bad(train(t, in, other, to, p, s, b), {"4x6x5x6", "4x6x5x7"});
  expect_bad(train(t, in, half, to, p, s, b), {"fp16", "fp32", "equal"});
  expect_bad(train(flat, in, flat, to, p, s, b), {"rank 1"});
  expect_bad(train(six, in, six, to, p, s, b), {"x has rank 6", "2 to 5"});
  expect_bad(train(t, in, t, to, five, s, b), {"1x5x1x1", "1x6x1x1"});
  expect_bad(train(t, in, t, to, three, s, b), {"1x6x1", "1x6x1x1"});
  expect_bad(train(t, in, t, to, ints, s, b), {"int32", "fp32"});
  expect_bad(train(t, in, t, to, apart, s, b), {"12,2,1,1", "gaps"});
  const auto overlapping = static_cast<char*>(static_cast<void*>(to)) + 4;
  if (on_cpu()) expect_bad(train(t, overlapping, t, to, p, s, b), {"overlaps x"});
  expect_bad(miopenBatchNormalizationForwardTraining_V3(handle, kSpatial, one(), zero(), t, in, t, to, p, p, p, p, s, b,
                                                        kFactor, nullptr, nullptr, s, b, kEpsilon, nullptr, nullptr),
             {"previous running mean", "null"});
  expect_bad(miopenBatchNormalizationForwardInference(handle, kSpatial, nullptr, zero(), t, in, t, to, p, s, b, s, b,
                                                      kEpsilon),
             {"alpha", "null"});
  expect_bad(miopenBatchNormalizationBackward(handle, kSpatial, one(), zero(), one(), zero(), t, in, t, nullptr, t, to,
                                              p, s, nullptr, nullptr, kEpsilon, nullptr, nullptr),
             {"dy", "null"});
  expect_bad(miopenBatchNormalizationBackward(handle, kSpatial, one(), zero(), one(), zero(), t, in, half, in, t, to, p,
                                              s, nullptr, nullptr, kEpsilon, nullptr, nullptr),
             {"dy", "fp16", "dx"});
  for (std::size_t i = 0; on_cpu() && i < out.size(); ++i) ASSERT_TRUE(std::isnan(out[i])) << i;
}

}  // namespace
}  // namespace polymio::test
