// Optimizers through the C API: what a line of cases cannot say. On any device.
// SPDX-License-Identifier: MIT
#include "reference/optimizer.h"

#include <cmath>
#include <cstdint>

#include "on_device.h"

namespace polymio::test {
namespace {

namespace ref = polymio::reference;
using Bytes = std::vector<unsigned char>;

constexpr std::int64_t kCount = 211;
constexpr float kRate = 0.125f, kBeta1 = 0.5f, kBeta2 = 0.75f, kDecay = 0.25f, kEps = 0.0625f;

miopenDataType_t api_type(ref::Type type) { return static_cast<miopenDataType_t>(type); }

/// The arguments of a step on new tensors, in the names of miopenFusedAdamWithOutput.
struct Step {
  explicit Step(ref::Type type = ref::Type::kFloat, ref::Type gradient_type = ref::Type::kFloat)
      : type(type),
        desc(api_type(type), {static_cast<int>(kCount)}),
        gradient_desc(api_type(gradient_type), {static_cast<int>(kCount)}),
        half_desc(miopenHalf, {static_cast<int>(kCount)}),
        one(miopenInt32, {1}) {
    wanted.state = ref::adam_state({type, {kCount}}, 4);
    wanted.gradient = {gradient_type, {kCount}};
    wanted.rate = kRate;
    wanted.beta1 = kBeta1;
    wanted.beta2 = kBeta2;
    wanted.weight_decay = kDecay;
    wanted.eps = kEps;
    old.resize(wanted.state.bytes());
    gradient.resize(wanted.gradient.bytes());
    for (std::int64_t i = 0; i < 4 * kCount; ++i)
      ref::store(type, old.data(), i,
                 i < 2 * kCount ? std::sin(0.7 * static_cast<double>(i)) : 0.01 * static_cast<double>(i % 97));
    for (std::int64_t i = 0; i < kCount; ++i)
      ref::store(gradient_type, gradient.data(), i, std::cos(1.3 * static_cast<double>(i)));
    state = old;
  }

  /// Expects the state to be the result of the step; `parts` of it, and the others unchanged.
  void expect_result(std::int64_t parts) {
    const std::size_t used = static_cast<std::size_t>(parts) * part_bytes();
    wanted.state = ref::adam_state({type, {kCount}}, parts);
    const auto want = evaluate(wanted, old.data(), gradient.data());
    const auto found = ref::compare(arithmetic(wanted), wanted.state, state.data(), want);
    EXPECT_TRUE(found.ok()) << found.failures << " wrong, at " << found.index << " got " << found.got << " want "
                            << found.want << " +- " << found.tolerance;
    EXPECT_TRUE(std::equal(state.begin() + static_cast<std::ptrdiff_t>(used), state.end(),
                           old.begin() + static_cast<std::ptrdiff_t>(used)));
  }
  std::size_t part_bytes() const { return static_cast<std::size_t>(kCount) * ref::size_of(type); }
  void* part(void* data, std::size_t k) const { return static_cast<char*>(data) + k * part_bytes(); }

  /// miopenFusedAdam in place; null descriptors leave an argument out.
  miopenStatus_t adam(bool amsgrad, bool maximize, bool adamw, bool has_step = false, bool amp = false) {
    There all(handle, state), g(handle, gradient), step(handle, step_number), s(handle, scale), f(handle, found);
    return miopenFusedAdam(handle, desc, part(all, 0), gradient_desc, g, desc, part(all, 1), desc, part(all, 2),
                           amsgrad ? desc : no_desc, amsgrad ? part(all, 3) : nullptr, has_step ? one : no_desc,
                           has_step ? static_cast<void*>(step) : nullptr, 1, kRate, kBeta1, kBeta2, kDecay, kEps,
                           amsgrad, maximize, adamw, amp ? one : no_desc, amp ? static_cast<void*>(s) : nullptr,
                           amp ? one : no_desc, amp ? static_cast<void*>(f) : nullptr);
  }
  miopenStatus_t transformers(bool correct_bias, bool has_step = false, bool amp = false) {
    There all(handle, state), g(handle, gradient), step(handle, step_number), s(handle, scale), f(handle, found);
    return miopenTransformersAdamW(handle, desc, part(all, 0), gradient_desc, g, desc, part(all, 1), desc, part(all, 2),
                                   has_step ? one : no_desc, has_step ? static_cast<void*>(step) : nullptr, 1, kRate,
                                   kBeta1, kBeta2, kDecay, kEps, correct_bias, amp ? one : no_desc,
                                   amp ? static_cast<void*>(s) : nullptr, amp ? one : no_desc,
                                   amp ? static_cast<void*>(f) : nullptr);
  }
  /// With separate outputs, which become the state; the parameters in fp16 are copied to `copy`.
  miopenStatus_t with_output(bool transformers, float step_size = -1) {
    Bytes result = state;
    There from(handle, state), to(handle, result), g(handle, gradient), c(handle, copy), last(handle, step_number),
        next(handle, next_number), s(handle, scale), f(handle, found);
    const auto status =
        transformers
            ? miopenTransformersAdamWWithOutput(handle, desc, part(from, 0), desc, part(to, 0), half_desc, c,
                                                gradient_desc, g, desc, part(from, 1), desc, part(to, 1), desc,
                                                part(from, 2), desc, part(to, 2), one, last, one, next, 0, kRate,
                                                kBeta1, kBeta2, kDecay, kEps, step_size, true, one, s, one, f)
            : miopenFusedAdamWithOutput(handle, desc, part(from, 0), desc, part(to, 0), half_desc, c, gradient_desc, g,
                                        desc, part(from, 1), desc, part(to, 1), desc, part(from, 2), desc, part(to, 2),
                                        desc, part(from, 3), desc, part(to, 3), one, last, one, next, 0, kRate, kBeta1,
                                        kBeta2, kDecay, kEps, true, false, true, one, s, one, f);
    outputs = std::move(result);
    return status;
  }

  DeviceHandle handle;
  ref::Type type;
  ref::Adam wanted;
  Tensor desc, gradient_desc, half_desc, one;
  miopenTensorDescriptor_t no_desc = nullptr;
  Bytes old, state, gradient, outputs, copy = Bytes(2 * kCount);
  std::vector<std::int32_t> step_number{4}, next_number{-7}, scale{2}, found{0};
};

/// The copy in fp16 of the parameters that the call wrote.
void expect_copy(const Step& step) {
  for (std::int64_t i = 0; i < kCount; ++i) {
    unsigned char rounded[2];
    ref::store(ref::Type::kHalf, rounded, 0, ref::load(step.type, step.outputs.data(), i));
    ASSERT_EQ(ref::load(ref::Type::kHalf, step.copy.data(), i), ref::load(ref::Type::kHalf, rounded, 0)) << i;
  }
}

TEST(OptimizerApi, AdamWritesTheStateInPlace) {
  for (const bool adamw : {false, true}) {
    Step step;
    expect_ok(step.adam(false, true, adamw));
    step.wanted.kind = adamw ? ref::Optimizer::kAdamW : ref::Optimizer::kAdam;
    step.wanted.maximize = true;
    step.expect_result(3);
  }
}

TEST(OptimizerApi, GradientsOf16BitsSuitParametersOf32) {
  for (const ref::Type type : {ref::Type::kHalf, ref::Type::kBFloat16}) {
    Step step(ref::Type::kFloat, type);
    expect_ok(step.adam(true, false, false));
    step.expect_result(4);
  }
}

TEST(OptimizerApi, StepNumberInDeviceMemoryIsCounted) {
  Step adam, transformers;
  expect_ok(adam.adam(true, false, false, true));
  adam.wanted.step = 5;
  adam.expect_result(4);
  EXPECT_EQ(adam.step_number[0], 5);
  expect_ok(transformers.transformers(true, true));
  transformers.wanted.kind = ref::Optimizer::kTransformersAdamW;
  transformers.wanted.step = 5;
  transformers.expect_result(3);
  EXPECT_EQ(transformers.step_number[0], 5);
}

TEST(OptimizerApi, InfiniteGradientsChangeNothing) {
  for (const bool transformers : {false, true}) {
    Step step(ref::Type::kFloat, ref::Type::kHalf);
    step.found[0] = 1;
    expect_ok(transformers ? step.transformers(true, true, true) : step.adam(true, false, true, true, true));
    EXPECT_EQ(step.state, step.old);
    EXPECT_EQ(step.step_number[0], 4);
  }
}

TEST(OptimizerApi, AdamWithOutputWritesOutputsAndCopy) {
  for (const int found : {0, 1}) {
    Step step(ref::Type::kFloat, ref::Type::kHalf);
    step.found[0] = found;
    expect_ok(step.with_output(false));
    EXPECT_EQ(step.state, step.old);
    EXPECT_EQ(step.step_number[0], 4);
    EXPECT_EQ(step.next_number[0], found ? 4 : 5);
    expect_copy(step);
    step.state = step.outputs;
    step.wanted.kind = ref::Optimizer::kAdamW;
    step.wanted.step = 5;
    step.wanted.scale = 2;
    step.wanted.skip = found != 0;
    step.expect_result(4);
  }
}

TEST(OptimizerApi, TransformersCorrectsTheBiasOnRequest) {
  for (const bool correct : {false, true}) {
    Step step;
    expect_ok(step.transformers(correct));
    step.wanted.kind = ref::Optimizer::kTransformersAdamW;
    step.wanted.correct_bias = correct;
    step.expect_result(3);
  }
}

TEST(OptimizerApi, TransformersWithOutputTakesTheSizeOfTheStep) {
  for (const float size : {-1.0f, 0.5f}) {
    Step step;
    expect_ok(step.with_output(true, size));
    EXPECT_EQ(step.state, step.old);
    EXPECT_EQ(step.next_number[0], 5);
    expect_copy(step);
    step.state = step.outputs;
    step.wanted.kind = ref::Optimizer::kTransformersAdamW;
    step.wanted.step_size = size;
    step.wanted.step = 5;
    step.wanted.scale = 2;
    step.expect_result(3);
  }
}

/// Calls of miopenFusedAdam that are refused.
struct Refused {
  Step s;
  miopenTensorDescriptor_t param = s.desc, grad = s.desc, mean = s.desc, square = s.desc, max = nullptr, step = nullptr,
                           scale = nullptr, found = nullptr;
  void *p = data(0), *g = s.gradient.data(), *m = data(1), *v = data(2), *largest = nullptr;
  const void *divisor = nullptr, *flag = nullptr;
  void* counter = nullptr;
  unsigned number = 1;
  float beta1 = kBeta1, beta2 = kBeta2;
  bool amsgrad = false;

  void* data(std::size_t k) { return s.part(s.state.data(), k); }
  void expect(std::initializer_list<const char*> parts, int line = __builtin_LINE()) {
    There all(s.handle, s.state), gradient(s.handle, s.gradient);
    const auto there = [&](void* host) -> void* {
      auto* const bytes = static_cast<unsigned char*>(host);
      if (bytes >= s.state.data() && bytes < s.state.data() + s.state.size())
        return static_cast<unsigned char*>(static_cast<void*>(all)) + (bytes - s.state.data());
      return host == s.gradient.data() ? static_cast<void*>(gradient) : host;
    };
    expect_bad(miopenFusedAdam(s.handle, param, there(p), grad, there(g), mean, there(m), square, there(v), max,
                               there(largest), step, counter, number, kRate, beta1, beta2, kDecay, kEps, amsgrad, false,
                               false, scale, divisor, found, flag),
               parts, line);
  }
  ~Refused() { EXPECT_EQ(s.state, s.old) << "something was written"; }
};

/// Expects the call that `change` makes wrong to be refused with these parts of a text.
void refuse(const std::function<void(Refused&)>& change, std::initializer_list<const char*> parts,
            int line = __builtin_LINE()) {
  Refused r;
  change(r);
  r.expect(parts, line);
}

TEST(OptimizerApi, ErrorsOfPointersNameTheArgument) {
  refuse([](Refused& r) { r.p = nullptr; }, {"param", "null"});
  refuse([](Refused& r) { r.param = nullptr; }, {"descriptor of param", "null"});
  refuse([](Refused& r) { r.g = nullptr; }, {"grad", "null"});
  refuse([](Refused& r) { r.m = nullptr; }, {"expAvg", "null"});
  refuse([](Refused& r) { r.square = nullptr; }, {"expAvgSq", "null"});
  refuse([](Refused& r) { r.amsgrad = true; }, {"amsgrad", "maxExpAvgSq", "null"});
  refuse([](Refused& r) { r.max = r.s.desc; }, {"maxExpAvgSq", "no buffer"});
  refuse([](Refused& r) { r.flag = &r.s.found; }, {"foundInf", "no descriptor"});
  refuse([](Refused& r) { r.m = r.v; }, {"same memory"});
  refuse([](Refused& r) { r.m = static_cast<char*>(r.p) + 4; }, {"overlaps"});
}

TEST(OptimizerApi, ErrorsOfTensorsNameGivenAndAllowed) {
  const int n = static_cast<int>(kCount);
  const Tensor shorter(miopenFloat, {n - 1}), half(miopenHalf, {n}), fp64(miopenDouble, {n}),
      integers(miopenInt32, {n}), two(miopenInt32, {2}), byte(miopenInt8, {1});
  refuse([&](Refused& r) { r.grad = shorter; }, {"grad", "210", "211"});
  refuse([&](Refused& r) { r.mean = half; }, {"expAvg", "fp16", "fp32"});
  refuse([&](Refused& r) { r.grad = fp64; }, {"grad is fp64", "fp32"});
  refuse([&](Refused& r) { r.param = integers; }, {"param", "int32", "fp32, fp16, bf16 and fp64"});
  refuse(
      [&](Refused& r) {
        r.step = r.scale = two;
        r.counter = r.data(0);
        r.divisor = r.data(0);
      },
      {"stateStep", "2 elements"});
  refuse(
      [&](Refused& r) {
        r.step = byte;
        r.counter = r.data(0);
      },
      {"stateStep is int8", "int32"});
  refuse(
      [&](Refused& r) {
        r.scale = byte;
        r.divisor = r.data(0);
      },
      {"gradScale is int8", "int32 or fp32"});
  refuse(
      [&](Refused& r) {
        r.found = half;
        r.flag = r.data(0);
      },
      {"foundInf is fp16", "int8, int32 or fp32"});
}

TEST(OptimizerApi, ErrorsOfNumbersNameGivenAndAllowed) {
  refuse([](Refused& r) { r.beta1 = 1; }, {"beta1 is 1", "less than 1"});
  refuse([](Refused& r) { r.beta2 = -0.5f; }, {"beta2 is -0.5", "at least 0"});
  refuse([](Refused& r) { r.beta2 = std::nanf(""); }, {"beta2 is nan"});
  refuse([](Refused& r) { r.number = 0; }, {"state_step is 0", "from 1"});
}

}  // namespace
}  // namespace polymio::test
