// Rotary position embeddings through the API: in place, errors with their texts. On any device.
// SPDX-License-Identifier: MIT
#include "reference/rope.h"

#include "on_device.h"

namespace polymio::test {
namespace {

namespace ref = polymio::reference;
using Floats = std::vector<float>;

struct RopeApi : testing::Test {
  DeviceHandle handle;
  Tensor x{miopenFloat, {2, 3, 4}}, rotary{miopenFloat, {3, 4}};
};

Floats ramp(std::size_t n, int step) {
  Floats v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = static_cast<float>(static_cast<int>(i) * step % 13 - 6) / 8;
  return v;
}

TEST_F(RopeApi, BothDirectionsOutOfPlaceAndInPlace) {
  const Floats in = ramp(24, 5), cos = ramp(12, 3), sin = ramp(12, 7);
  for (const bool backward : {false, true}) {
    const auto run = backward ? miopenRoPEBackward : miopenRoPEForward;
    const ref::Rope p{{ref::Type::kFloat, {2, 3, 4}}, {ref::Type::kFloat, {3, 4}}, backward};
    Floats y(24, 99), both = in;
    const There c(handle, cos), s(handle, sin);
    expect_ok(run(handle, x, There(handle, in), rotary, c, rotary, s, x, There(handle, y)));
    const ref::Result wanted = evaluate(p, in.data(), cos.data(), sin.data());
    EXPECT_TRUE(ref::compare(ref::rope_arithmetic(ref::Type::kFloat), p.x, y.data(), wanted).ok());
    {
      const There there(handle, both);
      expect_ok(run(handle, x, there, rotary, c, rotary, s, x, there));
    }
    EXPECT_EQ(both, y);
  }
}

TEST_F(RopeApi, ErrorsSayWhatIsWrong) {
  Floats in(24), cos(12), out(24, 1);
  const There a(handle, in), c(handle, cos), y(handle, out);
  const Tensor half(miopenHalf, {3, 4}), five(miopenFloat, {5, 2}), odd(miopenFloat, {2, 4, 3}),
      three(miopenFloat, {3}), other(miopenFloat, {2, 4, 3}), overlapping(miopenFloat, {2, 3, 4}, {4, 4, 1}),
      integers(miopenInt32, {2, 3, 4}), gaps(miopenFloat, {2, 3, 4}, {40, 5, 1}), eight(miopenFloat, {8});
  const auto run = [&](const Tensor& from, const Tensor& of_cos, const Tensor& of_sin, const Tensor& to) {
    return miopenRoPEForward(handle, from, a, of_cos, c, of_sin, c, to, y);
  };
  expect_bad(run(integers, rotary, rotary, x), {"x", "int32", "fp64"});
  expect_bad(run(x, half, rotary, x), {"cos", "fp16"});
  expect_bad(run(x, rotary, five, x), {"sin", "5x2", "3x4"});
  expect_bad(run(x, rotary, rotary, other), {"y", "2x4x3"});
  expect_bad(run(odd, rotary, rotary, odd), {"2x4x3", "even"});
  expect_bad(run(x, three, three, x), {"cos", "3 elements", "even"});
  expect_bad(run(x, five, five, x), {"10 elements", "divide", "24"});
  expect_bad(run(x, rotary, rotary, overlapping), {"y", "overlaps itself"});
  expect_bad(run(gaps, eight, eight, x), {"cos", "last sizes"});
  expect_bad(miopenRoPEForward(handle, x, a, rotary, c, rotary, c, rotary, y), {"y", "3x4"});
  expect_bad(miopenRoPEBackward(handle, x, a, rotary, y, rotary, c, x, y), {"dx overlaps cos"});
  expect_bad(miopenRoPEBackward(handle, x, nullptr, rotary, c, rotary, c, x, y), {"dy is null"});
  expect_bad(miopenRoPEForward(handle, x, a, nullptr, c, rotary, c, x, y), {"descriptor of cos", "null"});
  expect_bad(miopenRoPEForward(nullptr, x, a, rotary, c, rotary, c, x, y), {"handle"});
  EXPECT_EQ(out, Floats(24, 1)) << "nothing is written by a refused call";
}

}  // namespace
}  // namespace polymio::test
