// The gradients of the parametric ReLU through the API: absent gradients, in place, NaN and infinities, errors with
// their texts. On any device.
// SPDX-License-Identifier: MIT
#include "reference/prelu.h"

#include <cmath>
#include <limits>

#include "on_device.h"

namespace polymio::test {
namespace {

namespace ref = polymio::reference;

using Floats = std::vector<float>;

struct PreluApi : testing::Test {
  /// Null vectors are absent.
  miopenStatus_t run(const Floats* x, const Floats* w, const Floats* dy, Floats* dx, Floats* dw) {
    std::size_t bytes = 0;
    expect_ok(miopenGetPReLUBackwardWorkspaceSize(handle, input, weight, &bytes));
    Floats workspace(bytes / sizeof(float));
    const There space(handle, workspace.data(), bytes);
    const auto there = [&](const Floats* v) { return v ? std::make_unique<There>(handle, *v) : nullptr; };
    const auto at = [](const auto& v) { return v ? static_cast<void*>(*v) : nullptr; };
    const auto x_there = there(x), w_there = there(w), dy_there = there(dy);
    const auto dx_there = dx == x ? nullptr : there(dx), dw_there = there(dw);
    return miopenPReLUBackward(handle, space, bytes, input, at(x_there), weight, at(w_there), input, at(dy_there),
                               input, dx && dx == x ? at(x_there) : at(dx_there), weight, at(dw_there));
  }

  DeviceHandle handle;
  Tensor input{miopenFloat, {2, 3, 4}}, weight{miopenFloat, {3}};
};

Floats ramp(std::size_t n) {
  Floats v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = static_cast<float>(static_cast<int>(i * 7 % 11) - 5) / 4;
  return v;
}

TEST_F(PreluApi, GradientsTogetherAndAlone) {
  const ref::Prelu p{{ref::Type::kFloat, {2, 3, 4}}, {ref::Type::kFloat, {2, 3, 4}}, {ref::Type::kFloat, {3}}};
  Floats x = ramp(24), w = {0.25f, -2, 0}, dy = ramp(24), dx(24, kNan), dw(3, kNan), dx_alone = dx, dw_alone = dw;
  std::reverse(dy.begin(), dy.end());
  expect_ok(run(&x, &w, &dy, &dx, &dw));
  EXPECT_TRUE(ref::compare(arithmetic(p, false), p.x, dx.data(), prelu_input(p, x.data(), w.data(), dy.data())).ok());
  EXPECT_TRUE(ref::compare(arithmetic(p, true), p.weight, dw.data(), prelu_weight(p, x.data(), dy.data())).ok());
  expect_ok(run(&x, &w, &dy, &dx_alone, nullptr));
  expect_ok(run(&x, &w, &dy, nullptr, &dw_alone));
  expect_ok(run(&x, &w, &dy, nullptr, nullptr));
  EXPECT_EQ(dx_alone, dx);
  EXPECT_EQ(dw_alone, dw);
  Floats in_place = x, dw_in_place(3, kNan);
  expect_ok(run(&in_place, &w, &dy, &in_place, &dw_in_place));
  EXPECT_EQ(in_place, dx);
  EXPECT_EQ(dw_in_place, dw) << "it is computed from the input before the input is overwritten";
}

TEST_F(PreluApi, NanAndInfinities) {
  input.set(miopenFloat, {1, 1, 5});
  weight.set(miopenFloat, {1});
  Floats x = {kNan, kInf, -kInf, 2, -2}, w = {0.5f}, dy = {1, 2, 3, kNan, kInf}, dx(5), dw(1);
  expect_ok(run(&x, &w, &dy, &dx, &dw));
  EXPECT_EQ(dx[0], 0.5f);  // NaN is not positive
  EXPECT_EQ(dx[1], 2);
  EXPECT_EQ(dx[2], 1.5f);
  EXPECT_TRUE(std::isnan(dx[3]));
  EXPECT_EQ(dx[4], kInf);
  EXPECT_TRUE(std::isnan(dw[0]));
  x = {1, kInf, 3, 2, 4};
  expect_ok(run(&x, &w, &dy, &dx, &dw));
  EXPECT_EQ(dw[0], 0) << "positive elements do not count, whatever their gradients";
}

TEST_F(PreluApi, ErrorsSayWhatIsWrong) {
  std::size_t bytes = 7;
  Floats x(24), w(3), out(24, 1), dw(3, 1);
  const There at(handle, x), weights(handle, w), to(handle, out), dw_to(handle, dw);
  const Tensor two(miopenFloat, {2}), half(miopenHalf, {3}), matrix(miopenFloat, {3, 1}), other(miopenFloat, {2, 3, 5}),
      half_input(miopenHalf, {2, 3, 4}), integers(miopenInt32, {2, 3, 4}),
      overlapping(miopenFloat, {2, 3, 4}, {4, 4, 1});
  const auto size = [&](const Tensor& in, const Tensor& of) {
    return miopenGetPReLUBackwardWorkspaceSize(handle, in, of, &bytes);
  };
  expect_bad(size(input, two), {"the weight", "2", "1 or 3"});
  expect_bad(size(input, half), {"fp16", "fp32"});
  expect_bad(size(input, matrix), {"3x1", "one dimension"});
  expect_bad(size(integers, weight), {"int32", "fp64"});
  expect_bad(miopenGetPReLUBackwardWorkspaceSize(handle, input, weight, nullptr), {"sizeInBytes"});
  expect_bad(miopenGetPReLUBackwardWorkspaceSize(nullptr, input, weight, &bytes), {"handle"});
  EXPECT_EQ(bytes, 7u);
  expect_ok(size(input, weight));
  EXPECT_EQ(bytes == 0, on_cpu());
  const auto run = [&](const Tensor& dy, const Tensor& dx, const Tensor& grad, void* dx_data, void* grad_data) {
    return miopenPReLUBackward(handle, nullptr, 0, input, at, weight, weights, dy, at, dx, dx_data, grad, grad_data);
  };
  expect_bad(run(other, input, weight, to, nullptr), {"doutput", "2x3x5"});
  expect_bad(run(half_input, input, weight, to, nullptr), {"doutput", "fp16"});
  expect_bad(run(input, other, weight, to, nullptr), {"dinput", "2x3x5"});
  expect_bad(run(input, overlapping, weight, to, nullptr), {"dinput", "overlaps itself"});
  expect_bad(run(input, input, two, nullptr, dw_to), {"dweight", "2"});
  expect_bad(run(input, input, weight, nullptr, weights), {"dweight overlaps the weight"});
  expect_bad(run(input, input, weight, to, to), {"dweight overlaps dinput"});
  expect_bad(run(input, input, weight, static_cast<char*>(static_cast<void*>(at)) + 4, nullptr), {"overlaps"});
  expect_bad(
      miopenPReLUBackward(handle, nullptr, 0, input, nullptr, weight, weights, input, at, input, to, weight, nullptr),
      {"the input", "null"});
  expect_bad(
      miopenPReLUBackward(handle, nullptr, 0, input, at, weight, weights, input, at, nullptr, to, weight, nullptr),
      {"dinput", "null"});
  if (!on_cpu()) expect_bad(run(input, input, weight, nullptr, dw_to), {"workspace", "0 bytes"});
  EXPECT_EQ(out, Floats(24, 1)) << "nothing is written by a refused call";
  EXPECT_EQ(dw, Floats(3, 1));
}

}  // namespace
}  // namespace polymio::test
