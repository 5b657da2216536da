// ConvCudaFewChannels on the emulated multiprocessor: tails of tiles, cells of several results, phases of strides, both
// layouts, chunks of channels.
// SPDX-License-Identifier: MIT
#include "core/registry.h"
#include "tests/convolution/hopper_layer.h"

namespace polymio::convolution {
namespace {

class FewChannels : public testing::Test {
  void SetUp() override {
    if (hopper_programs().empty()) GTEST_SKIP() << "no programs with sanitizers";
  }
};

const Options kLast{.solver = "ConvCudaFewChannels"};

/// Both tensors with channels first.
Options planes(const Shape& s, const Sizes& out, Options o = kLast) {
  const auto strides = [](Sizes sizes) {
    std::int64_t step = 1;
    for (auto i = sizes.rbegin(); i != sizes.rend(); ++i) step *= std::exchange(*i, step);
    return sizes;
  };
  o.x_strides = strides(s.x);
  o.y_strides = strides(out);
  return o;
}

TEST_F(FewChannels, ReadFewAndWriteMany) {
  const Shape volume{.x = {2, 1, 5, 6, 19}, .w = {24, 1, 3, 3, 3}, .pad = {1, 1, 1}};
  const Shape pairs{.x = {1, 4, 9, 33}, .w = {16, 4, 3, 2}, .pad = {0, 1}, .dilation = {2, 1}};
  const Shape odd{.x = {2, 3, 17, 21}, .w = {40, 3, 5, 7}, .pad = {2, 3}, .stride = {2, 2}};
  const Shape line{.x = {2, 5, 300}, .w = {16, 5, 9}, .pad = {4}, .stride = {3}};
  for (const int tile : {0, 1}) {
    Layer(kForward, volume, kLast).check({tile, 0, 0});
    Layer(kForward, pairs, kLast).check({tile, 0, 0});
    Layer(kForward, odd, planes(odd, {2, 40, 9, 11})).check({tile, 0, 0});
  }
  Layer(kForward, line, kLast).check({0, 0, 1});
}

TEST_F(FewChannels, ReadManyAndWriteFew) {
  const Shape volume{.x = {2, 8, 5, 6, 9}, .w = {4, 8, 3, 3, 3}, .pad = {1, 1, 1}};
  const Shape chunks{.x = {1, 40, 7, 30}, .w = {3, 40, 3, 3}, .pad = {1, 1}};
  Layer(kForward, volume, planes(volume, {2, 4, 5, 6, 9})).check({0, 0, 1});
  Layer(kForward, volume, kLast).check({0, 0, 0});
  Layer(kForward, chunks, planes(chunks, {1, 3, 7, 30})).check({0, 0, 1});
  Layer(kForward, chunks, {.type = DataType::kBFloat16, .solver = kLast.solver}).check({0, 1, 1});
}

// Eight pixels of planes at once, from before the first one to beyond the last; filters of one tap.
TEST_F(FewChannels, ReadBlocksAndPixels) {
  Options bfloat16{.type = DataType::kBFloat16, .solver = kLast.solver}, odd = kLast;
  odd.shift = 2;
  const Shape blocks{.x = {1, 12, 3, 40}, .w = {3, 12, 3, 5}, .pad = {1, 2}};
  const Shape head{.x = {2, 32, 3, 5, 9}, .w = {4, 32, 1, 1, 1}},
      strided{.x = {2, 64, 9, 21}, .w = {24, 64, 1, 1}, .stride = {2, 1}};
  Layer(kForward, blocks, planes(blocks, {1, 3, 3, 40})).check({0, 0, 1});
  Layer(kForward, blocks, planes(blocks, {1, 3, 3, 40}, odd)).check({0, 0, 1});
  Layer(kForward, head, kLast).check({0, 0, 0});
  Layer(kForward, head, odd).check({0, 0, 0});
  bfloat16.y_strides = {24 * 5 * 21, 5 * 21, 21, 1};
  Layer(kForward, strided, bfloat16).check({0, 0, 0});
}

TEST_F(FewChannels, GradientsOfData) {
  const Shape phases{.x = {2, 3, 13, 15}, .w = {16, 3, 7, 5}, .pad = {3, 1}, .stride = {2, 2}};
  const Shape thirds{.x = {1, 2, 10, 25}, .w = {16, 2, 4, 3}, .pad = {0, 4}, .stride = {3, 1}};
  const Shape dilated{.x = {1, 4, 9, 20}, .w = {16, 4, 3, 3}, .pad = {2, 0}, .dilation = {2, 1}};
  Layer(kData, phases, planes(phases, {2, 16, 7, 7})).check({0, 0, 1});
  Layer(kData, phases, kLast).check({0, 0, 0});
  Layer(kData, thirds, kLast).check({0, 0, 0});
  Layer(kData, dilated, planes(dilated, {1, 16, 9, 18})).check({0, 0, 1});
}

TEST_F(FewChannels, AddBiasNormAndOldResults) {
  Options bias = kLast, old{.alpha = 0.5, .beta = 2, .solver = kLast.solver};
  bias.epilogue = {.bias = true, .activation = static_cast<int>(activation::Mode::kRelu)};
  Options norm = bias;
  norm.epilogue.norm = norm.epilogue.scale = true;
  const Shape wide{.x = {1, 8, 6, 20}, .w = {72, 8, 1, 1}}, few{.x = {2, 1, 12, 20}, .w = {24, 1, 3, 3}};
  for (const Options& o : {bias, norm}) Layer(kForward, wide, o).check({0, 0, 0});
  Layer(kForward, few, old).check({0, 0, 0});
  Options odd = kLast;
  odd.shift = 2;
  Layer(kForward, few, odd).check({0, 0, 0});
}

// An infinity reaches the results that depend on it, and no others.
TEST_F(FewChannels, MultiplyInfinities) {
  const Options infinite{.solver = kLast.solver, .infinite = 0};
  Layer(kData, {.x = {2, 3, 13, 15}, .w = {16, 3, 7, 5}, .pad = {3, 1}, .stride = {2, 2}}, infinite).check({0, 0, 0});
  Layer(kForward, {.x = {2, 1, 12, 20}, .w = {24, 1, 3, 3}}, infinite).check({0, 0, 0});
}

const TunePoint kSmallTiles = {0, 0, 0};

// Few channels of x beside those of the next pixels, at strides and dilations; both layouts of both operands.
TEST_F(FewChannels, GradientsOfWeightsOfFewInputs) {
  const Shape volume{.x = {2, 1, 5, 6, 19}, .w = {24, 1, 3, 3, 3}, .pad = {1, 1, 1}};
  const Shape odd{.x = {2, 3, 17, 21}, .w = {40, 3, 5, 7}, .pad = {2, 3}, .stride = {2, 2}};
  const Shape dilated{.x = {1, 2, 9, 40}, .w = {16, 2, 3, 6}, .pad = {2, 5}, .dilation = {2, 3}};
  const Shape line{.x = {2, 4, 300}, .w = {16, 4, 9}, .pad = {4}, .stride = {3}};
  const Shape wide{.x = {1, 4, 9, 32}, .w = {36, 4, 1, 3}, .pad = {0, 1}};
  for (const Shape& s : {volume, odd, dilated, line}) Layer(kWeights, s, kLast).check(kSmallTiles);
  Layer(kWeights, odd, planes(odd, {2, 40, 9, 11})).check(kSmallTiles);
  Layer(kWeights, wide, planes(wide, {1, 36, 9, 32})).check(kSmallTiles);
}

// Few outputs: x has the rows, and the taps are in the opposite order, unless there are strides.
TEST_F(FewChannels, GradientsOfWeightsOfFewOutputs) {
  const Shape head{.x = {2, 32, 3, 5, 9}, .w = {4, 32, 1, 1, 1}};
  const Shape last{.x = {1, 20, 9, 33}, .w = {3, 20, 3, 5}, .pad = {0, 2}, .dilation = {1, 2}};
  const Shape strided{.x = {1, 40, 9, 33}, .w = {3, 40, 3, 1}, .pad = {1, 0}, .stride = {2, 2}};
  for (const Shape& s : {head, last, strided}) Layer(kWeights, s, kLast).check(kSmallTiles);
  Layer(kWeights, last, planes(last, {1, 3, 7, 29})).check(kSmallTiles);
}

TEST_F(FewChannels, GradientsOfWeightsOfManyChannels) {
  Options odd = kLast, old{.alpha = 0.5, .beta = 2, .type = DataType::kBFloat16, .solver = kLast.solver};
  odd.shift = 2;
  const Shape many{.x = {2, 24, 3, 6, 16}, .w = {32, 24, 2, 3, 3}, .pad = {1, 1, 1}};
  const Shape chunks{.x = {1, 72, 7, 30}, .w = {20, 72, 1, 2}, .stride = {1, 2}};
  Layer(kWeights, many, planes(many, {2, 32, 4, 6, 16})).check(kSmallTiles);
  Layer(kWeights, many, planes(many, {2, 32, 4, 6, 16}, odd)).check(kSmallTiles);
  Layer(kWeights, many, kLast).check({1, 1, 1});
  Layer(kWeights, chunks, old).check(kSmallTiles);
}

// An infinity of x where the last tile of dy has no pixels: results at other taps stay finite.
TEST_F(FewChannels, GradientsOfWeightsWithInfinities) {
  Options infinite = kLast;
  infinite.infinite = 0;
  Layer(kWeights, {.x = {1, 1, 1, 6}, .w = {8, 1, 1, 4}}, infinite).check(kSmallTiles);
}

/// Numbers that the kernels' 32 bits do not hold.
TEST(FewChannelsLimits, AreRefused) {
  const auto refusal = [](Direction d, Shape s) {
    s.type = DataType::kHalf;
    s.channels_last = true;
    const char* const name = d == kForward ? "ConvCudaFewChannelsFwd" : "ConvCudaFewChannelsBwd";
    return solver_by_name(name)->is_applicable(usual_device("cuda-sm90"), problem(d, s)).text();
  };
  const Shape weights{.x = {1, 1 << 20, 16, 16}, .w = {1, 1 << 20, 16, 16}};
  const Shape phases{.x = {1, 1 << 28, 1, 1, 1}, .w = {1, 1 << 28, 1, 1, 1}, .stride = {4096, 4096, 4096}};
  EXPECT_NE(refusal(kForward, weights).find("packed weights"), std::string::npos) << refusal(kForward, weights);
  EXPECT_NE(refusal(kData, phases).find("phases"), std::string::npos) << refusal(kData, phases);
}

}  // namespace
}  // namespace polymio::convolution
