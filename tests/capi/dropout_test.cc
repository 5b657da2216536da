// The dropout API: descriptors, states, masks that are drawn, stored and read, errors with their texts. On any device.
// SPDX-License-Identifier: MIT
#include "reference/dropout.h"

#include <numeric>

#include "on_device.h"

namespace polymio::test {
namespace {

namespace ref = polymio::reference;
using DropoutDescriptor =
    Owned<miopenDropoutDescriptor_t, miopenCreateDropoutDescriptor, miopenDestroyDropoutDescriptor>;
using Bytes = std::vector<unsigned char>;
using Floats = std::vector<float>;

constexpr std::size_t kStates = std::size_t{16384} * 24;
constexpr unsigned long long kSeed = 0x123456789abcdef;
constexpr float kRate = 0.3f;
constexpr int kCount = 2000;

struct DropoutApi : testing::Test {
  DropoutApi() { std::iota(x.begin(), x.end(), 1.0f); }
  miopenStatus_t set(void* states_there, bool use_mask, bool state_evo, float rate = kRate,
                     std::size_t bytes = kStates) {
    return miopenSetDropoutDescriptor(dropout, handle, rate, states_there, bytes, kSeed, use_mask, state_evo,
                                      MIOPEN_RNG_PSEUDO_XORWOW);
  }
  miopenStatus_t forward(const void* from, void* to, void* reserve, std::size_t bytes = kCount) {
    return miopenDropoutForward(handle, dropout, t, t, from, t, to, reserve, bytes);
  }
  miopenStatus_t backward(const void* from, void* to, void* reserve, std::size_t bytes = kCount) {
    return miopenDropoutBackward(handle, dropout, t, t, from, t, to, reserve, bytes);
  }
  /// The result for a mask.
  Floats expected(const Bytes& kept) const {
    Floats y;
    for (std::size_t i = 0; i < kept.size(); ++i) y.push_back(kept[i] ? x[i] * (1 / (1 - kRate)) : 0);
    return y;
  }
  Bytes drawn() {
    if (generators.empty()) generators = ref::start_generators(kSeed, ref::generators_for(kCount));
    return ref::draw_mask(generators, kCount, kRate);
  }

  DeviceHandle handle;
  DropoutDescriptor dropout;
  Tensor t{miopenFloat, {4, 5, 10, 10}};
  Floats x = Floats(kCount), y = Floats(kCount);
  Bytes states = Bytes(kStates), mask = Bytes(kCount);
  std::vector<ref::Xorwow> generators;
};

TEST_F(DropoutApi, DescriptorKeepsItsValues) {
  const There there(handle, states);
  expect_ok(set(there, true, true));
  float rate = 0;
  void* pointer = nullptr;
  unsigned long long seed = 0;
  bool use_mask = false, state_evo = false;
  miopenRNGType_t rng;
  const auto get = [&] {
    return miopenGetDropoutDescriptor(dropout, handle, &rate, &pointer, &seed, &use_mask, &state_evo, &rng);
  };
  expect_ok(get());
  EXPECT_EQ(rate, kRate);
  EXPECT_EQ(pointer, there) << "the caller's pointer";
  EXPECT_EQ(seed, kSeed);
  EXPECT_TRUE(use_mask && state_evo);
  EXPECT_EQ(rng, MIOPEN_RNG_PSEUDO_XORWOW);
  expect_bad(miopenGetDropoutDescriptor(dropout, handle, nullptr, &pointer, &seed, &use_mask, &state_evo, &rng),
             {"dropout is null"});
  expect_bad(miopenGetDropoutDescriptor(dropout, handle, &rate, &pointer, &seed, &use_mask, &state_evo, nullptr),
             {"rng_mode is null"});
  miopenRNGType_t unknown;
  const int bad = 1;
  std::memcpy(&unknown, &bad, sizeof unknown);
  expect_bad(miopenRestoreDropoutDescriptor(dropout, handle, 0.5f, there, kStates, 1, false, false, unknown),
             {"generator 1", "0 (XORWOW)"});
  expect_bad(set(nullptr, false, false), {"states is null"});
  expect_ok(get());
  EXPECT_EQ(rate, kRate) << "refused calls change nothing";
}

TEST_F(DropoutApi, DescriptorsAreCreatedAndDestroyed) {
  expect_bad(miopenCreateDropoutDescriptor(nullptr), {"dropoutDesc is null"});
  expect_bad(miopenDestroyDropoutDescriptor(nullptr), {"dropout descriptor", "null"});
  miopenDropoutDescriptor_t other = nullptr;
  expect_ok(miopenCreateDropoutDescriptor(&other));
  expect_ok(miopenDestroyDropoutDescriptor(other));
  expect_bad(miopenDestroyDropoutDescriptor(other), {"dropout descriptor"});
}

TEST_F(DropoutApi, Sizes) {
  std::size_t bytes = 0;
  expect_ok(miopenDropoutGetStatesSize(handle, &bytes));
  EXPECT_EQ(bytes, kStates);
  expect_ok(miopenDropoutGetReserveSpaceSize(Tensor(miopenHalf, {2, 3}, {100, 1}), &bytes));
  EXPECT_EQ(bytes, 6u) << "a byte for each element";
  expect_bad(miopenDropoutGetStatesSize(handle, nullptr), {"stateSizeInBytes is null"});
  expect_bad(miopenDropoutGetReserveSpaceSize(nullptr, &bytes), {"descriptor of x is null"});
  expect_bad(miopenDropoutGetReserveSpaceSize(t, nullptr), {"reserveSpaceSizeInBytes is null"});
}

TEST_F(DropoutApi, SetStartsEveryGenerator) {
  {
    const There there(handle, states);
    expect_ok(set(there, false, false));
  }
  const auto want = ref::start_generators(kSeed, 16384);
  EXPECT_EQ(std::memcmp(states.data(), want.data(), kStates), 0);
  // The reference's jump is what its steps are.
  ref::Xorwow stepped = want[1];
  for (int i = 0; i < 1 << 10; ++i) ref::draw(stepped);
  EXPECT_EQ(ref::jump(want[1], 10), stepped);
}

TEST_F(DropoutApi, RestoreLeavesStatesAlone) {
  const Bytes before = states;
  {
    const There there(handle, states);
    expect_ok(miopenRestoreDropoutDescriptor(dropout, handle, kRate, there, kStates, kSeed, false, false,
                                             MIOPEN_RNG_PSEUDO_XORWOW));
  }
  EXPECT_EQ(states, before);
}

TEST_F(DropoutApi, StatesMoveOnIfToldAndReserveIsGiven) {
  const Bytes first = drawn(), second = drawn();
  ASSERT_NE(first, second);
  for (const bool state_evo : {false, true}) {
    const There on_states(handle, states), on_x(handle, x);
    expect_ok(set(on_states, false, state_evo));
    for (const bool again : {false, true}) {
      {
        const There on_y(handle, y), on_mask(handle, mask);
        expect_ok(forward(on_x, on_y, on_mask));
        expect_ok(polymioSynchronize(handle));
      }
      EXPECT_EQ(mask, again && state_evo ? second : first);
      EXPECT_EQ(y, expected(mask));
    }
  }
}

TEST_F(DropoutApi, BackwardUsesTheMaskOrDrawsItAgain) {
  const Bytes want = drawn();
  const There on_states(handle, states), on_x(handle, x);
  expect_ok(set(on_states, false, true));
  for (const bool is_backward : {false, true}) {
    {
      const There on_y(handle, y);
      expect_ok(is_backward ? backward(on_x, on_y, nullptr, 0) : forward(on_x, on_y, nullptr, 0));
      expect_ok(polymioSynchronize(handle));
    }
    EXPECT_EQ(y, expected(want)) << "without a reserve space the states stay";
  }
  for (std::size_t i = 0; i < mask.size(); ++i) mask[i] = i % 5 == 0;
  {
    const There on_y(handle, y), on_mask(handle, mask);
    expect_ok(backward(on_x, on_y, on_mask));
    expect_ok(polymioSynchronize(handle));
  }
  EXPECT_EQ(y, expected(mask));
}

TEST_F(DropoutApi, ForwardReadsTheMaskIfTold) {
  for (std::size_t i = 0; i < mask.size(); ++i) mask[i] = i % 3 == 0;
  const Bytes before = mask;
  expect_ok(set(nullptr, true, true, kRate, 0));  // needs no states
  {
    const There on_x(handle, x), on_mask(handle, mask);
    expect_ok(forward(on_x, on_x, on_mask));  // in place
    expect_ok(polymioSynchronize(handle));
  }
  std::swap(x, y);
  std::iota(x.begin(), x.end(), 1.0f);
  EXPECT_EQ(y, expected(mask));
  EXPECT_EQ(mask, before);
}

TEST_F(DropoutApi, Errors) {
  const There on_states(handle, states), on_x(handle, x), on_mask(handle, mask);
  const Floats before = y;
  {
    const There on_y(handle, y);
    constexpr auto kUnknown = miopenStatusUnknownError;
    expect_ok(set(on_states, false, false));
    expect_bad(forward(nullptr, on_y, nullptr), {"buffer of x is null"});
    expect_bad(forward(on_x, nullptr, nullptr), {"buffer of y is null"});
    expect_bad(backward(nullptr, on_y, nullptr), {"buffer of dy is null"});
    expect_bad(backward(on_x, nullptr, nullptr), {"buffer of dx is null"});
    expect_error(forward(on_x, on_y, on_mask, kCount - 1), kUnknown, {"1999 bytes", "2000 are needed"});
    const auto with = [&](const Tensor& noise, const Tensor& to) {
      return miopenDropoutForward(handle, dropout, noise, t, on_x, to, on_y, nullptr, 0);
    };
    expect_error(with(t, Tensor(miopenFloat, {4, 5, 10, 9})), kUnknown, {"4x5x10x10", "4x5x10x9"});
    expect_error(with(t, Tensor(miopenFloat, {4, 5, 100})), kUnknown, {"4x5x100"});
    expect_error(with(t, Tensor(miopenHalf, {4, 5, 10, 10})), kUnknown, {"data types must be equal"});
    expect_error(with(Tensor(miopenFloat, {4, 5, 100}), t), kUnknown, {"noise_shape has sizes 4x5x100"});
    expect_bad(miopenDropoutForward(handle, dropout, nullptr, t, on_x, t, on_y, nullptr, 0), {"noise_shape is null"});
    expect_bad(miopenDropoutForward(handle, nullptr, t, t, on_x, t, on_y, nullptr, 0), {"dropout descriptor"});
    expect_ok(set(on_states, true, false));
    expect_error(forward(on_x, on_y, nullptr), kUnknown, {"no reserve space"});
    for (const float rate : {-0.5f, 1.5f}) {
      expect_ok(set(on_states, false, false, rate));
      expect_error(forward(on_x, on_y, nullptr), kUnknown, {"dropout rate", "from 0 to 1"});
    }
    expect_ok(set(on_states, false, false, kRate, 24 * 2047));
    expect_error(forward(on_x, on_y, nullptr), kUnknown, {"49128 bytes of states", "49152"});
    expect_ok(set(nullptr, false, false, kRate, 0));
    expect_error(forward(on_x, on_y, nullptr), kUnknown, {"0 bytes of states"});
  }
  EXPECT_EQ(y, before) << "refused calls write nothing";
}

}  // namespace
}  // namespace polymio::test
