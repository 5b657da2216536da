// Packed weights through the public API: equal results, refused arguments, speedup.
// SPDX-License-Identifier: MIT
#include <cmath>
#include <thread>

#include "api.h"

namespace polymio::test {
namespace {

struct Packed {
  polymioPackedWeights_t object = nullptr;
  Packed(miopenHandle_t handle, const ConvolutionProblem& problem, const void* w) {
    expect_ok(polymioPackWeights(handle, problem, w, &object));
  }
  Packed(const Packed&) = delete;
  Packed& operator=(const Packed&) = delete;
  ~Packed() { expect_ok(polymioDestroyPackedWeights(object)); }
  polymioPackedWeightsInfo_t info() const {
    polymioPackedWeightsInfo_t info = {};
    info.size = sizeof info;
    expect_ok(polymioGetPackedWeightsInfo(object, &info));
    return info;
  }
};

const Shape kShapes[] = {
    {{2, 32, 14, 15}, {48, 32, 3, 3}, {1, 1}},
    {{1, 160, 7, 7}, {96, 160, 3, 3}, {1, 1}},
    {{3, 24, 9, 9}, {40, 24, 1, 1}},
    {{2, 3, 31, 29}, {20, 3, 7, 7}, {3, 3}, {2, 2}},
    {{2, 12, 13, 13}, {12, 1, 3, 3}, {1, 1}, {}, {}, 12},
    {{2, 32, 10, 10}, {64, 16, 3, 3}, {1, 1}, {}, {}, 2},
    {{2, 32, 9, 8}, {32, 4, 3, 3}, {1, 1}, {}, {}, 8},
    {{2, 24, 8, 9}, {24, 16, 4, 4}, {1, 1}, {2, 2}, {}, 1, miopenTranspose},
};

class PackedWeights : public testing::TestWithParam<Shape> {};

TEST_P(PackedWeights, GivesWhatAPlainCallGives) {
  const Handle handle;
  for (const auto d : {Direction::kForward, Direction::kBackwardData}) {
    Convolution c(handle, GetParam());
    fill(c.x_data);
    fill(c.w_data);
    fill(c.y_data);
    const bool forward = d == Direction::kForward;
    const ConvolutionProblem problem(c, d);
    const Packed packed(handle, problem, c.w_data.data());
    const auto& input = forward ? c.x_data : c.y_data;
    auto& output = forward ? c.y_data : c.x_data;
    std::fill(output.begin(), output.end(), static_cast<unsigned char>(0xee));
    expect_ok(polymioRunPackedWeights(handle, packed.object, input.data(), output.data()));
    const auto got = output;
    std::fill(output.begin(), output.end(), static_cast<unsigned char>(0xee));
    c.provide_workspace(d);
    expect_ok(c.call.run(d, miopenConvolutionFwdAlgoGEMM));
    const auto* a = reinterpret_cast<const float*>(got.data());
    const auto* b = reinterpret_cast<const float*>(output.data());
    for (std::size_t i = 0; i < got.size() / sizeof(float); ++i)
      ASSERT_NEAR(a[i], b[i], 2e-4 * (10 + std::fabs(b[i]))) << i << " by " << packed.info().solver;
    EXPECT_NE(packed.info().solution_id, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, PackedWeights, testing::ValuesIn(kShapes));

TEST(PackedWeightsApi, ManyThreadsRunOneObject) {
  const Handle handle;
  Convolution c(handle, kShapes[0]);
  fill(c.x_data);
  fill(c.w_data);
  const ConvolutionProblem problem(c, miopenProblemDirectionForward);
  const Packed packed(handle, problem, c.w_data.data());
  expect_ok(polymioRunPackedWeights(handle, packed.object, c.x_data.data(), c.y_data.data()));
  std::vector<std::vector<unsigned char>> results(4, std::vector<unsigned char>(c.y_data.size(), 0xee));
  std::vector<std::thread> threads;
  for (auto& y : results)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) expect_ok(polymioRunPackedWeights(handle, packed.object, c.x_data.data(), y.data()));
    });
  for (auto& t : threads) t.join();
  for (const auto& y : results) EXPECT_EQ(y, c.y_data);
}

TEST(PackedWeightsApi, RefusesWhatItCannotDo) {
  const Handle handle, other;
  Convolution c(handle, kShapes[0]);
  polymioPackedWeights_t none = nullptr;
  const ConvolutionProblem weights(c, miopenProblemDirectionBackwardWeights), forward(c, miopenProblemDirectionForward);
  expect_bad(polymioPackWeights(handle, weights, c.w_data.data(), &none), {"forward and backward data only"});
  expect_bad(polymioPackWeights(handle, forward, nullptr, &none), {"the buffer of w is null"});
  expect_bad(polymioPackWeights(handle, forward, c.w_data.data(), nullptr), {"packed is null"});
  expect_bad(polymioPackWeights(handle, nullptr, c.w_data.data(), &none), {"problem"});
  expect_bad(polymioDestroyPackedWeights(nullptr), {"packed weights object is null"});
  const Packed packed(handle, forward, c.w_data.data());
  expect_bad(polymioRunPackedWeights(other, packed.object, c.x_data.data(), c.y_data.data()), {"another handle"});
  expect_bad(polymioRunPackedWeights(handle, packed.object, nullptr, c.y_data.data()), {"the input is null"});
  expect_bad(polymioRunPackedWeights(handle, packed.object, c.x_data.data(), nullptr), {"the output is null"});
  polymioPackedWeightsInfo_t info = {};
  expect_bad(polymioGetPackedWeightsInfo(packed.object, &info), {"size"});
}

}  // namespace
}  // namespace polymio::test
