// The soft margin and multi margin losses through the API: reductions, gradients of one element, arguments that
// overflow naive formulas, errors with their texts. On any device.
// SPDX-License-Identifier: MIT
#include "reference/loss.h"

#include <cmath>
#include <limits>

#include "on_device.h"

namespace polymio::test {
namespace {

namespace ref = polymio::reference;
using Floats = std::vector<float>;
using Classes = std::vector<std::int64_t>;

constexpr miopenLossReductionMode_t kReductions[] = {MIOPEN_LOSS_REDUCTION_NONE, MIOPEN_LOSS_REDUCTION_SUM,
                                                     MIOPEN_LOSS_REDUCTION_MEAN};

struct SoftMarginLossApi : testing::Test {
  miopenStatus_t forward(const Floats& in, Floats& out, miopenLossReductionMode_t reduction) {
    const Tensor y(miopenFloat, {static_cast<int>(out.size())});
    std::size_t bytes = 1;
    expect_ok(miopenGetSoftMarginLossForwardWorkspaceSize(handle, x, x, y, reduction, &bytes));
    EXPECT_EQ(bytes == 0, reduction == MIOPEN_LOSS_REDUCTION_NONE || on_cpu());
    Floats workspace(bytes / sizeof(float) + 1);
    return miopenSoftMarginLossForward(handle, x, There(handle, in), x, There(handle, targets), y, There(handle, out),
                                       reduction, There(handle, workspace), bytes);
  }

  DeviceHandle handle;
  Tensor x{miopenFloat, {6}};
  Floats targets = {1, -1, 1, -1, 1, -1};
};

TEST_F(SoftMarginLossApi, EveryReduction) {
  const Floats in = {0, 0.5f, -2, 3, 700, 700};
  Floats all(6), sum(1), mean(1);
  expect_ok(forward(in, all, kReductions[0]));
  expect_ok(forward(in, sum, kReductions[1]));
  expect_ok(forward(in, mean, kReductions[2]));
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(all[i], std::log1p(std::exp(-static_cast<double>(in[i] * targets[i]))), 1e-6);
  EXPECT_EQ(all[4], 0) << "e^-700 is below the smallest float";
  EXPECT_EQ(all[5], 700) << "e^700 would overflow";
  double total = 0;
  for (const float v : all) total += v;
  EXPECT_NEAR(sum[0], total, 1e-4);
  EXPECT_NEAR(mean[0], total / 6, 1e-5);
}

TEST_F(SoftMarginLossApi, NanAndInfinities) {
  Floats all(6);
  expect_ok(forward({kNan, kInf, kInf, -kInf, -kInf, 1}, all, kReductions[0]));
  EXPECT_TRUE(std::isnan(all[0]));
  EXPECT_EQ(all[1], kInf);
  EXPECT_EQ(all[2], 0);
  EXPECT_EQ(all[3], 0);
  EXPECT_EQ(all[4], kInf);
}

TEST_F(SoftMarginLossApi, GradientTakesOneElementWhereTheLossIsReduced) {
  const Floats in = {0, 0.5f, -2, 3, 700, 700}, one = {2}, full(6, 2);
  const Tensor single(miopenFloat, {1});
  for (const auto reduction : kReductions) {
    Floats of_full(6), of_one(6);
    const There at(handle, in), target(handle, targets);
    expect_ok(miopenSoftMarginLossBackward(handle, x, at, x, target, x, There(handle, full), x, There(handle, of_full),
                                           reduction));
    const double scale = reduction == MIOPEN_LOSS_REDUCTION_MEAN ? 2.0 / 6 : 2;
    for (std::size_t i = 0; i < 6; ++i)
      EXPECT_NEAR(of_full[i], -targets[i] / (std::exp(static_cast<double>(in[i] * targets[i])) + 1) * scale, 1e-6);
    const auto status = miopenSoftMarginLossBackward(handle, x, at, x, target, single, There(handle, one), x,
                                                     There(handle, of_one), reduction);
    if (reduction == MIOPEN_LOSS_REDUCTION_NONE) {
      expect_bad(status, {"doutput", "1", "6"});
    } else {
      expect_ok(status);
      EXPECT_EQ(of_one, of_full);
    }
  }
}

TEST_F(SoftMarginLossApi, ErrorsSayWhatIsWrong) {
  Floats in(6), out(6, 3);
  const There a(handle, in), t(handle, targets), y(handle, out);
  const Tensor half(miopenHalf, {6}), other(miopenFloat, {2, 3}), single(miopenFloat, {1});
  const auto none = MIOPEN_LOSS_REDUCTION_NONE, sum = MIOPEN_LOSS_REDUCTION_SUM;
  miopenLossReductionMode_t unknown;
  const int three = 3;
  std::memcpy(&unknown, &three, sizeof unknown);
  std::size_t bytes = 5;
  expect_bad(miopenGetSoftMarginLossForwardWorkspaceSize(handle, x, other, x, none, &bytes), {"target", "2x3", "6"});
  expect_bad(miopenGetSoftMarginLossForwardWorkspaceSize(handle, x, x, x, sum, &bytes), {"output", "one element"});
  expect_bad(miopenGetSoftMarginLossForwardWorkspaceSize(handle, x, x, x, none, nullptr), {"sizeInBytes"});
  EXPECT_EQ(bytes, 5u);
  expect_bad(miopenSoftMarginLossForward(handle, x, a, half, t, x, y, none), {"target", "fp16"});
  expect_bad(miopenSoftMarginLossForward(handle, x, a, x, t, single, y, none), {"output", "1"});
  expect_bad(miopenSoftMarginLossForward(handle, x, a, x, t, x, y, unknown), {"reduction 3", "mean 2"});
  expect_bad(miopenSoftMarginLossForward(handle, x, a, x, t, single, a, sum), {"the output overlaps the input"});
  expect_bad(miopenSoftMarginLossForward(handle, x, nullptr, x, t, x, y, none), {"the input is null"});
  expect_bad(miopenSoftMarginLossForward(handle, x, a, x, t, x, nullptr, none), {"the output is null"});
  if (!on_cpu())
    expect_bad(miopenSoftMarginLossForward(handle, x, a, x, t, single, y, sum, nullptr, 0), {"workspace", "needed"});
  expect_bad(miopenSoftMarginLossBackward(handle, x, a, x, t, x, a, other, y, none), {"dinput", "2x3"});
  expect_bad(miopenSoftMarginLossBackward(handle, x, a, x, t, half, a, x, y, none), {"doutput", "fp16"});
  EXPECT_EQ(out, Floats(6, 3)) << "nothing is written by a refused call";
}

struct MultiMarginLossApi : testing::Test {
  DeviceHandle handle;
  Tensor x{miopenFloat, {4, 3}}, target{miopenInt64, {4}}, weight{miopenFloat, {3}}, single{miopenFloat, {1}};
};

TEST_F(MultiMarginLossApi, EveryReductionAndPower) {
  const Floats in = {1, 2, 4, 0, 0.5f, -1, 3, 3, 3, kInf, 0, 1}, factors = {1, 2, 0.5f};
  const Classes classes = {0, 1, 3, 0};  // the third is none; the fourth is certain
  for (const long p : {1L, 2L}) {
    const double first = p == 1 ? 1.0 * (1.5 + 3.5) / 3 : 1.0 * (1.5 * 1.5 + 3.5 * 3.5) / 3;
    const Floats losses = {static_cast<float>(first), 0, 0, 0};
    for (const auto reduction : kReductions) {
      SCOPED_TRACE(testing::Message() << "p " << p << " reduction " << reduction);
      const bool none = reduction == MIOPEN_LOSS_REDUCTION_NONE;
      const Tensor y(miopenFloat, {none ? 4 : 1});
      Floats out(none ? 4 : 1, 9);
      std::size_t bytes = 1;
      expect_ok(miopenGetMultiMarginLossForwardWorkspaceSize(handle, x, target, weight, y, p, 0.5f, reduction, &bytes));
      Floats workspace(bytes / sizeof(float) + 1);
      expect_ok(miopenMultiMarginLossForward(handle, x, There(handle, in), target, There(handle, classes), weight,
                                             There(handle, factors), y, There(handle, out), p, 0.5f, reduction,
                                             There(handle, workspace), bytes));
      if (none)
        for (std::size_t i = 0; i < 4; ++i) EXPECT_FLOAT_EQ(out[i], losses[i]);
      else
        EXPECT_FLOAT_EQ(out[0], static_cast<float>(reduction == MIOPEN_LOSS_REDUCTION_MEAN ? first / 4 : first));
    }
  }
}

TEST_F(MultiMarginLossApi, ErrorsSayWhatIsWrong) {
  Floats in(12), factors(3), out(4, 3);
  Classes classes(4);
  const There a(handle, in), t(handle, classes), w(handle, factors), y(handle, out);
  const Tensor rows(miopenFloat, {4}), vector(miopenFloat, {12}), half(miopenHalf, {3}), int32(miopenInt32, {4});
  std::size_t bytes = 5;
  const auto size = [&](const Tensor& of_x, const Tensor& of_t, const Tensor& of_w, const Tensor& of_y, long p,
                        int reduction) {
    return miopenGetMultiMarginLossForwardWorkspaceSize(handle, of_x, of_t, of_w, of_y, p, 1,
                                                        static_cast<miopenLossReductionMode_t>(reduction), &bytes);
  };
  expect_bad(size(vector, target, weight, rows, 1, 0), {"the input", "12", "two dimensions"});
  expect_bad(size(x, int32, weight, rows, 1, 0), {"the target", "int32", "int64"});
  expect_bad(size(x, target, half, rows, 1, 0), {"the weight", "fp16"});
  expect_bad(size(x, target, rows, rows, 1, 0), {"the weight", "4", "3"});
  expect_bad(size(x, target, weight, single, 1, 0), {"the output", "4"});
  expect_bad(size(x, target, weight, rows, 1, 1), {"the output", "one element"});
  expect_bad(size(x, target, weight, rows, 3, 0), {"p is 3", "1 and 2"});
  EXPECT_EQ(bytes, 5u);
  const auto run = [&](const void* input, void* output) {
    return miopenMultiMarginLossForward(handle, x, input, target, t, weight, w, rows, output, 1, 1,
                                        MIOPEN_LOSS_REDUCTION_NONE, nullptr, 0);
  };
  expect_bad(run(nullptr, y), {"the input is null"});
  expect_bad(run(a, nullptr), {"the output is null"});
  expect_bad(run(a, a), {"the output overlaps the input"});
  if (!on_cpu())
    expect_bad(miopenMultiMarginLossForward(handle, x, a, target, t, weight, w, single, y, 1, 1,
                                            MIOPEN_LOSS_REDUCTION_SUM, nullptr, 0),
               {"workspace", "needed"});
  EXPECT_EQ(out, Floats(4, 3)) << "nothing is written by a refused call";
}

}  // namespace
}  // namespace polymio::test
