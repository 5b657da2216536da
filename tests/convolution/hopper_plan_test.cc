// Plans and kernels of ConvHopper and ConvCudaLongFilters, executed on the CPU: every tile, tails, views, epilogues.
// SPDX-License-Identifier: MIT
#include "tests/convolution/hopper_layer.h"

namespace polymio::convolution {
namespace {

std::set<int> numbers(std::size_t count) {
  std::set<int> all;
  for (std::size_t i = 0; i < count; ++i) all.insert(static_cast<int>(i));
  return all;
}

class HopperPlan : public testing::Test {
  void SetUp() override {
    if (hopper_programs().empty()) GTEST_SKIP() << "no programs with sanitizers";
  }
};

// Tails of every tile: of channels that are read and written, of pixels.
const Shape kTails{.x = {2, 72, 9, 10}, .w = {136, 72, 2, 3}, .pad = {1, 1}},
    kBackwardTails{.x = {2, 136, 9, 10}, .w = {72, 136, 2, 3}, .pad = {1, 1}};

TEST_F(HopperPlan, EveryTileForward) {
  EXPECT_EQ(Layer(kForward, kTails, {}).check_tiles({1}, {0, 1}), numbers(std::size(cuda::kProductTiles)));
}

TEST_F(HopperPlan, EveryTileBackward) {
  EXPECT_EQ(Layer(kData, kBackwardTails, {}).check_tiles({1}, {0, 1}), numbers(std::size(cuda::kProductTiles)));
}

// 12 and 27 steps: the last blocks of a cluster have fewer, or none.
TEST_F(HopperPlan, BlocksOfAClusterShareTiles) {
  for (const int split : {2, 4})
    EXPECT_FALSE(Layer(kForward, kTails, {.units = 132}).check_tiles({split}, {0, 1}).empty());
  const Shape long_sums{.x = {1, 40, 7, 9}, .w = {136, 40, 3, 3}, .pad = {1, 1}};
  EXPECT_FALSE(Layer(kData, long_sums, {.units = 132}).check_tiles({8}, {0, 1}).empty());
}

// A last step of exactly half the channels, in both orders, and columns that fit a tile.
TEST_F(HopperPlan, HalfSteps) {
  const Shape s{.x = {1, 96, 12, 13}, .w = {96, 96, 3, 3}, .pad = {1, 1}};
  for (const Direction d : {kForward, kData}) Layer(d, s, {}).check_tiles({1}, {0, 1}, {4, 11, 13});
  Layer(kForward, {.x = {1, 32, 12, 13}, .w = {64, 32, 3, 3}, .pad = {1, 1}}, {}).check_tiles({1}, {0}, {10});
}

// Strides, dilation, padding beyond the filter's reach, an input that the last window does not end at.
TEST_F(HopperPlan, Windows) {
  for (const Shape& s :
       {Shape{.x = {2, 24, 12, 11}, .w = {40, 24, 3, 2}, .pad = {1, 0}, .stride = {2, 3}, .dilation = {1, 2}},
        Shape{.x = {2, 64, 5, 6}, .w = {64, 64, 2, 3}, .pad = {4, 3}, .dilation = {1, 2}},
        Shape{.x = {3, 8, 7, 9}, .w = {8, 8, 1, 1}, .pad = {1, 1}, .stride = {2, 2}},
        Shape{.x = {1, 8, 20, 19}, .w = {16, 8, 5, 7}, .pad = {2, 3}, .stride = {8, 1}}}) {
    EXPECT_FALSE(Layer(kForward, s, {.units = 1}).check_tiles({1}).empty());
    EXPECT_FALSE(Layer(kWeights, s, {}).check_tiles({0, 1}).empty());
    const bool few_phases = s.stride.empty() || s.stride[0] < 8;
    if (few_phases) Layer(kData, s, {.units = 1}).check_tiles({1});
  }
}

// All phases have taps; those of some dimensions, or all but one, have none; dilation.
TEST_F(HopperPlan, PhasesOfStridedData) {
  for (const Shape& s :
       {Shape{.x = {2, 72, 9, 11}, .w = {72, 72, 3, 3}, .pad = {1, 1}, .stride = {2, 2}},
        Shape{.x = {1, 40, 10, 9}, .w = {24, 40, 2, 2}, .stride = {3, 3}},
        Shape{.x = {2, 136, 7, 8}, .w = {72, 136, 1, 1}, .stride = {2, 2}},
        Shape{.x = {2, 64, 9, 12}, .w = {72, 64, 3, 3}, .pad = {2, 3}, .stride = {2, 3}, .dilation = {1, 2}}}) {
    EXPECT_FALSE(Layer(kData, s, {}).check_tiles({1}, {0, 1}).empty());
    const bool long_sums = s.w[2] > 1;
    EXPECT_EQ(!Layer(kData, s, {.alpha = 0.5, .beta = 2, .units = 132}).check_tiles({2}).empty(), long_sums);
  }
  // Four row tiles of each phase, in bands of three and one.
  const Shape interleaved{.x = {2, 64, 28, 28}, .w = {72, 64, 3, 3}, .pad = {1, 1}, .stride = {2, 2}};
  EXPECT_FALSE(Layer(kData, interleaved, {.units = 3}).check_tiles({1}).empty());
}

TEST_F(HopperPlan, OneAndThreeDimensions) {
  const std::set<int> kSome = {8, 11, 12}, kSomeOfWeights = {3, 4};
  std::set<int> products, gradients, weights;
  for (const Shape& s : {Shape{.x = {3, 88, 101}, .w = {136, 88, 3}, .pad = {1}},
                         Shape{.x = {2, 64, 75}, .w = {64, 64, 3}, .pad = {40}, .dilation = {40}},
                         Shape{.x = {2, 24, 50}, .w = {40, 24, 80}, .pad = {20}},
                         Shape{.x = {1, 24, 90}, .w = {40, 24, 3}, .pad = {1}, .stride = {4}},
                         Shape{.x = {1, 88, 5, 7, 9}, .w = {72, 88, 2, 3, 2}, .pad = {1, 1, 1}},
                         Shape{.x = {1, 40, 5, 7, 9}, .w = {72, 40, 3, 3, 3}, .pad = {1, 1, 1}, .stride = {2, 2, 1}},
                         Shape{.x = {2, 8, 4, 6, 5},
                         .w = {16, 8, 2, 1, 3},
                         .pad = {0, 1, 2},
                         .stride = {1, 2, 2},
                         .dilation = {2, 1, 1}}}) {
    const Options o{.type = DataType::kBFloat16};
    products.merge(Layer(kForward, s, o).check_tiles({1}, {0}, kSome));
    gradients.merge(Layer(kData, s, o).check_tiles({1}, {0}, kSome));
    weights.merge(Layer(kWeights, s, o).check_tiles({0, 1}, {0}, kSomeOfWeights));
  }
  EXPECT_EQ(products, kSome);
  EXPECT_EQ(gradients, kSome);
  EXPECT_EQ(weights, kSomeOfWeights);
}

// Rows of 96 channels with 64 of them, and rows and images that do not follow each other.
TEST_F(HopperPlan, Views) {
  for (const std::int64_t stride : {1, 2}) {
    const Shape s{.x = {2, 64, 9, 10}, .w = {72, 64, 3, 3}, .pad = {1, 1}, .stride = {stride, 1}};
    const Options o{
        .alpha = 2, .beta = 1, .units = 132, .x_strides = {10000, 1, 968, 96}, .y_strides = {9600, 1, 960, 80}};
    for (const TunePoint& point : {TunePoint{12, 1, 0}, TunePoint{10, 2, 0}}) {
      Layer(kForward, s, o).check(point);
      Layer(kData, s, o).check(point);
    }
    Layer(kWeights, s, o).check({3, 1});
  }
  const Shape halo{.x = {2, 64, 9, 10}, .w = {72, 64, 3, 3}, .pad = {1, 1}};
  const Options o{.alpha = 2, .beta = 1, .x_strides = {10000, 1, 968, 96}, .y_strides = {9600, 1, 960, 80}};
  for (const Direction d : kDirections) Layer(d, halo, o).check(cuda::hopper_halo_point(d));
}

TEST_F(HopperPlan, Epilogues) {
  const Epilogue bias{.bias = true, .activation = static_cast<int>(activation::Mode::kRelu)};
  const Epilogue all{
      .bias = true, .activation = static_cast<int>(activation::Mode::kRelu), .residual = true, .scale = true};
  Epilogue norm = all;
  norm.norm = true;
  const Options options[] = {{.alpha = 2, .beta = 0.5},
                             {.alpha = 0.5, .epilogue = bias},
                             {.epilogue = all},
                             {.alpha = 2, .epilogue = norm, .parameter_channels = 133}};
  for (const Options& o : options) {
    Layer layer(kForward, kTails, o);
    for (const TunePoint& point : {TunePoint{0, 1, 0}, TunePoint{8, 1, 0}, TunePoint{5, 1, 0}}) layer.check(point);
    if (!(o.epilogue == bias)) layer.check(cuda::hopper_halo_point(kForward));
    layer.set_units(132);
    layer.check({1, 2, 0});
  }
}

// One tile and several per row and column of an image, weights that stay in shared memory and that do not, several
// tiles and works per block, parts.
TEST_F(HopperPlan, TilesWithHalo) {
  for (const Shape& s : {Shape{.x = {3, 64, 11, 29}, .w = {64, 64, 3, 3}, .pad = {1, 1}},
                         Shape{.x = {2, 136, 9, 10}, .w = {72, 136, 2, 3}, .pad = {1, 0}},
                         Shape{.x = {1, 8, 4, 300}, .w = {24, 8, 3, 3}, .pad = {1, 1}},
                         Shape{.x = {2, 40, 13, 12}, .w = {8, 40, 3, 3}, .pad = {2, 3}, .dilation = {2, 3}},
                         Shape{.x = {1, 24, 21, 22}, .w = {40, 24, 5, 7}, .pad = {2, 3}},
                         Shape{.x = {2, 72, 3, 9, 10}, .w = {80, 72, 2, 3, 3}, .pad = {1, 1, 1}, .dilation = {2, 1, 1}},
                         Shape{.x = {2, 96, 230}, .w = {96, 96, 3}, .pad = {1}}})
    for (const Direction d : kDirections) {
      if (d == kWeights && (s.w.size() != 4 || s.w[3] > 3)) continue;
      Layer layer(d, s, {.alpha = 2, .beta = 1});
      for (const int units : {1, 2, 5}) {
        layer.set_units(units);
        layer.check(cuda::hopper_halo_point(d));
      }
    }
}

// A halo for each phase; slices, groups; filters smaller than the stride; types and planes.
TEST_F(HopperPlan, TilesWithHaloAndStrides) {
  for (const Shape& s :
       {Shape{.x = {2, 64, 13, 18}, .w = {64, 64, 3, 3}, .pad = {1, 1}, .stride = {2, 2}},
        Shape{.x = {1, 40, 11, 31}, .w = {24, 40, 5, 7}, .pad = {2, 0}, .stride = {1, 2}, .dilation = {2, 1}},
        Shape{.x = {2, 72, 4, 9, 10}, .w = {80, 72, 2, 3, 3}, .pad = {1, 1, 1}, .stride = {2, 2, 1}},
        Shape{.x = {2, 136, 230}, .w = {72, 136, 10}, .pad = {3}, .stride = {5}},
        Shape{.x = {2, 48, 13, 18}, .w = {48, 24, 3, 3}, .pad = {1, 1}, .stride = {2, 2}, .groups = 2},
        Shape{.x = {1, 64, 12, 15}, .w = {64, 64, 1, 2}, .stride = {3, 3}},
        // No reach, and an odd number of 8 columns that fill the tile: those dropped need a row of their own.
        Shape{.x = {3, 64, 2, 16}, .w = {64, 64, 2, 2}, .stride = {2, 2}}})
    for (const int units : {1, 5}) {
      Layer(kForward, s, {.alpha = 2, .beta = 1, .units = units}).check(cuda::hopper_halo_point(kForward));
      Layer(kForward, s, {.units = units, .planes = true}).check(cuda::hopper_halo_point(kForward));
    }
  const Shape strided{.x = {2, 36, 13, 18}, .w = {68, 36, 3, 3}, .pad = {1, 1}, .stride = {2, 2}};
  Layer(kForward, strided, {.type = DataType::kFloat}).check(cuda::hopper_halo_point(kForward));
}

// Images whose pixels are multiples of 8, of 4, and odd; phases; clusters; three dimensions; parts of rows.
TEST_F(HopperPlan, Planes) {
  const std::set<int> kSome = {0, 1, 5, 8, 10, 12};
  const Options o{.alpha = 0.5, .planes = true};
  for (const Shape& s : {Shape{.x = {2, 72, 9, 12}, .w = {136, 72, 2, 3}, .pad = {0, 1}},
                         Shape{.x = {3, 40, 7, 14}, .w = {72, 40, 2, 3}, .pad = {1, 2}, .dilation = {2, 2}},
                         Shape{.x = {3, 64, 7, 7}, .w = {64, 64, 3, 3}, .pad = {1, 1}}}) {
    EXPECT_FALSE(Layer(kForward, s, o).check_tiles({1}, {0}, kSome).empty());
    EXPECT_FALSE(Layer(kData, s, o).check_tiles({1}, {0}, kSome).empty());
  }
  Layer(kForward, kTails, {.units = 132, .planes = true}).check({1, 2, 0});
  const Shape strided{.x = {2, 72, 9, 11}, .w = {72, 72, 3, 3}, .pad = {1, 1}, .stride = {2, 2}};
  Layer(kData, strided, o).check({12, 1, 0});
  const Shape volume{.x = {2, 24, 3, 5, 6}, .w = {72, 24, 2, 3, 3}, .pad = {1, 1, 1}};
  Layer(kForward, volume, o).check({11, 1, 0});
  Epilogue bias{.bias = true, .activation = static_cast<int>(activation::Mode::kRelu)};
  Layer(kForward, kTails, {.epilogue = bias, .planes = true}).check({8, 1, 0});
  for (const Shape& s : {Shape{.x = {3, 64, 11, 29}, .w = {64, 64, 3, 3}, .pad = {1, 1}},
                         Shape{.x = {2, 136, 9, 10}, .w = {72, 136, 2, 3}, .pad = {1, 0}},
                         Shape{.x = {1, 8, 4, 300}, .w = {24, 8, 3, 3}, .pad = {1, 1}},
                         Shape{.x = {1, 24, 21, 22}, .w = {40, 24, 5, 7}, .pad = {2, 3}},
                         Shape{.x = {2, 24, 3, 9, 10}, .w = {72, 24, 2, 3, 3}, .pad = {1, 1, 1}}})
    for (const Direction d : {kForward, kData}) Layer(d, s, o).check(cuda::hopper_halo_point(d));
}

// fp32: tails of steps and tiles, phases, clusters, one to three dimensions, views, what is added and fused.
TEST_F(HopperPlan, Tf32) {
  const Options plain{.type = DataType::kFloat}, adds{.alpha = 0.5, .beta = 2, .units = 132, .type = DataType::kFloat};
  const auto all = numbers(std::size(cuda::kProductTiles));
  const Shape tails{.x = {2, 36, 9, 10}, .w = {140, 36, 2, 3}, .pad = {1, 1}},
      data_tails{.x = {2, 140, 9, 10}, .w = {36, 140, 2, 3}, .pad = {1, 1}},
      strided{.x = {2, 68, 9, 11}, .w = {44, 68, 3, 3}, .pad = {1, 1}, .stride = {2, 2}, .dilation = {1, 2}},
      series{.x = {3, 44, 101}, .w = {132, 44, 3}, .pad = {1}, .stride = {2}},
      volume{.x = {2, 12, 4, 6, 5}, .w = {68, 12, 2, 3, 3}, .pad = {1, 1, 0}, .stride = {1, 2, 1}};
  EXPECT_EQ(Layer(kForward, tails, plain).check_tiles({1}, {0, 1}), all);
  EXPECT_EQ(Layer(kData, data_tails, plain).check_tiles({1}, {0, 1}), all);
  EXPECT_FALSE(Layer(kData, strided, plain).check_tiles({1}).empty());
  EXPECT_FALSE(Layer(kForward, strided, plain).check_tiles({1}).empty());
  EXPECT_FALSE(Layer(kForward, tails, adds).check_tiles({2}).empty());
  EXPECT_FALSE(Layer(kData, data_tails, adds).check_tiles({2}).empty());
  for (const Shape& s : {series, volume})
    for (const Direction d : {kForward, kData}) EXPECT_FALSE(Layer(d, s, plain).check_tiles({1}, {0}, {8, 12}).empty());
  Options view = adds;
  view.x_strides = {10000, 1, 968, 84};
  for (const Direction d : {kForward, kData}) Layer(d, strided, view).check({12, 1, 0});
  Options planes = plain;
  planes.planes = true;
  for (const Shape& s : {Shape{.x = {2, 36, 9, 12}, .w = {140, 36, 2, 3}, .pad = {0, 1}},
                         Shape{.x = {3, 20, 7, 7}, .w = {36, 20, 3, 3}, .pad = {1, 1}}})
    for (const Direction d : {kForward, kData}) Layer(d, s, planes).check({12, 1, 0});
  Layer(kForward, tails, planes).check({0, 1, 0});
  planes.units = 132;
  Layer(kForward, tails, planes).check({1, 2, 0});
  const int relu = static_cast<int>(activation::Mode::kRelu);
  for (const Epilogue& e : {Epilogue{.bias = true, .activation = relu},
                            Epilogue{.bias = true, .activation = relu, .residual = true, .scale = true},
                            Epilogue{.bias = true, .activation = relu, .norm = true, .residual = true, .scale = true}})
    for (const TunePoint& point : {TunePoint{0, 1, 0}, TunePoint{8, 1, 0}, TunePoint{1, 2, 0}})
      Layer(kForward, tails, {.units = 132, .type = DataType::kFloat, .epilogue = e}).check(point);
}

// Groups: tails of their channels in tiles with halo, whole tiles without; bias of a group; strides; shares and parts
// of gradients.
TEST_F(HopperPlan, Groups) {
  const Shape halo{.x = {2, 144, 9, 10}, .w = {160, 72, 2, 3}, .pad = {1, 0}, .groups = 2},
      whole{.x = {2, 128, 9, 10}, .w = {256, 64, 2, 3}, .pad = {1, 1}, .groups = 2},
      whole_data{.x = {2, 256, 9, 10}, .w = {128, 128, 2, 3}, .pad = {1, 1}, .groups = 2},
      strided{.x = {2, 128, 9, 11}, .w = {128, 64, 3, 3}, .pad = {1, 1}, .stride = {2, 2}, .groups = 2};
  for (const Direction d : {kForward, kData}) {
    Layer(d, halo, {.alpha = 2, .beta = 1}).check(cuda::hopper_halo_point(d));
    Layer(d, halo, {.alpha = 0.5, .planes = true}).check(cuda::hopper_halo_point(d));
    EXPECT_FALSE(Layer(d, strided, {.units = 1}).check_tiles({1}).empty());
  }
  EXPECT_EQ(Layer(kForward, whole, {}).check_tiles({1}, {0, 1}), (std::set<int>{1, 4, 5, 10, 11, 12}));
  EXPECT_EQ(Layer(kData, whole_data, {}).check_tiles({1}, {0, 1}), (std::set<int>{1, 4, 5, 10, 11, 12}));
  EXPECT_FALSE(Layer(kForward, whole, {.units = 132}).check_tiles({2}).empty());
  for (const Shape& s : {halo, strided})
    EXPECT_FALSE(Layer(kWeights, s, {.alpha = 2, .beta = 1}).check_tiles({0, 1}).empty());
  for (const int units : {2, 132}) Layer(kWeights, halo, {.units = units}).check(cuda::hopper_halo_point(kWeights));
  const Epilogue bias{.bias = true, .activation = static_cast<int>(activation::Mode::kRelu)};
  Layer(kForward, halo, {.epilogue = bias}).check(cuda::hopper_halo_point(kForward));
  Layer(kForward, whole, {.epilogue = bias}).check({5, 1, 0});
  const Shape tf32{.x = {2, 128, 9, 10}, .w = {128, 64, 2, 3}, .pad = {1, 1}, .groups = 2};
  for (const Direction d : kDirections)
    EXPECT_FALSE(Layer(d, tf32, {.type = DataType::kFloat}).check_tiles({1}).empty());
  EXPECT_FALSE(Layer(kForward, halo, {}).takes({5, 1, 0})) << "a tile with channels of two groups";
}

// Groups of 16 channels, of 24 and 8: four and two are merged.
TEST_F(HopperPlan, MergedGroups) {
  for (const Shape& s : {Shape{.x = {2, 128, 9, 10}, .w = {128, 16, 2, 3}, .pad = {1, 0}, .groups = 8},
                         Shape{.x = {2, 144, 9, 10}, .w = {48, 24, 2, 3}, .pad = {1, 0}, .groups = 6}})
    for (const Direction d : kDirections) {
      for (const int units : {1, 3})
        Layer(d, s, {.alpha = 2, .beta = 1, .units = units, .solver = "ConvHopperGrouped"})
            .check(cuda::hopper_halo_point(d));
      if (d != kWeights)
        Layer(d, s, {.type = DataType::kFloat, .solver = "ConvHopperGrouped"}).check(cuda::hopper_halo_point(d));
    }
}

// Results of fp32: whole tiles, shares and parts of them, tiles with halo; what is added.
TEST_F(HopperPlan, WideWeights) {
  const Shape tails{.x = {2, 72, 9, 10}, .w = {136, 72, 2, 3}, .pad = {1, 1}};
  for (const double beta : {0.0, 1.0}) {
    Layer layer(kWeights, tails, {.beta = beta, .out = DataType::kFloat});
    for (const int units : {1, 40}) {
      layer.set_units(units);
      EXPECT_EQ(layer.check_tiles({0, 1}, {0}, {1, 4}), (std::set<int>{1, 4}));
      layer.check(cuda::hopper_halo_point(kWeights));
    }
  }
}

// By warps: tails of boxes and tiles, windows, one to three dimensions, shares and parts of tiles, what is added.
TEST_F(HopperPlan, Tf32Weights) {
  const Options plain{.type = DataType::kFloat}, adds{.alpha = 0.5, .beta = 2, .type = DataType::kFloat};
  const auto all = numbers(std::size(cuda::kWeightTiles));
  const Shape tails{.x = {2, 68, 9, 12}, .w = {164, 68, 2, 1}, .pad = {1, 1}},
      strided{.x = {2, 100, 9, 11}, .w = {44, 100, 3, 2}, .pad = {2, 1}, .stride = {2, 3}, .dilation = {1, 2}};
  EXPECT_EQ(Layer(kWeights, tails, plain).check_tiles({0, 1}), all);
  Layer layer(kWeights, tails, adds);
  for (const int units : {1, 40}) {
    layer.set_units(units);
    EXPECT_EQ(layer.check_tiles({0, 1}, {0}, {0, 4}), (std::set<int>{0, 4}));
  }
  EXPECT_FALSE(Layer(kWeights, strided, plain).check_tiles({1}).empty());
  for (const Shape& s : {Shape{.x = {3, 44, 101}, .w = {132, 44, 3}, .pad = {1}, .stride = {2}},
                         Shape{.x = {2, 12, 4, 6, 5}, .w = {68, 12, 2, 3, 3}, .pad = {1, 1, 0}, .stride = {1, 2, 1}}})
    EXPECT_FALSE(Layer(kWeights, s, plain).check_tiles({0, 1}, {0}, {3}).empty());
  Options view = adds;
  view.x_strides = {20000, 1, 1232, 112};
  Layer(kWeights, strided, view).check({4, 0});
}

// Outputs that do not fill a tile, or only half of it; weights that stay in shared memory; several tiles per block.
TEST_F(HopperPlan, Tf32TilesWithHalo) {
  const int relu = static_cast<int>(activation::Mode::kRelu);
  const Epilogue all{.bias = true, .activation = relu, .residual = true, .scale = true};
  for (const Shape& s : {Shape{.x = {3, 32, 11, 29}, .w = {64, 32, 3, 3}, .pad = {1, 1}},
                         Shape{.x = {2, 68, 9, 10}, .w = {100, 68, 2, 3}, .pad = {1, 0}},
                         Shape{.x = {1, 4, 4, 300}, .w = {28, 4, 3, 3}, .pad = {1, 1}},
                         Shape{.x = {2, 20, 13, 12}, .w = {136, 20, 3, 3}, .pad = {2, 3}, .dilation = {2, 3}},
                         Shape{.x = {1, 36, 2, 9, 10}, .w = {40, 36, 2, 3, 3}, .pad = {1, 1, 1}}}) {
    for (const Direction d : kDirections)
      for (const double beta : {0.0, 1.0}) {
        if (d == kWeights && s.w.size() > 4) continue;
        Layer layer(d, s, {.alpha = 2, .beta = beta, .type = DataType::kFloat});
        for (const int units : {1, 5}) {
          layer.set_units(units);
          layer.check(cuda::hopper_halo_point(d));
        }
      }
    Layer(kForward, s, {.type = DataType::kFloat, .epilogue = all}).check(cuda::hopper_halo_point(kForward));
  }
}

// Four rows of a filter, whose consumers have fewer registers.
TEST_F(HopperPlan, WeightsOfFourRows) {
  for (const DataType type : {DataType::kHalf, DataType::kFloat})
    for (const Shape& s : {Shape{.x = {3, 64, 11, 29}, .w = {64, 64, 4, 1}, .pad = {1, 0}},
                           Shape{.x = {2, 72, 11, 9}, .w = {80, 72, 4, 1}, .pad = {1, 0}}}) {
      Layer layer(kWeights, s, {.alpha = 2, .beta = 1, .type = type});
      for (const int units : {1, 5}) {
        layer.set_units(units);
        layer.check(cuda::hopper_halo_point(kWeights));
      }
    }
}

// int8 forward: tails of steps and tiles, clusters, one to three dimensions, results as they are, scaled and saturated.
TEST_F(HopperPlan, Int8) {
  const Shape tails{.x = {2, 144, 9, 10}, .w = {276, 144, 2, 3}, .pad = {1, 1}};
  const auto with = [](DataType out, double alpha = 1, double beta = 0, int units = 2) {
    return Options{.alpha = alpha, .beta = beta, .units = units, .type = DataType::kInt8, .out = out};
  };
  EXPECT_EQ(Layer(kForward, tails, with(DataType::kInt32)).check_tiles({1}, {0, 1}),
            numbers(std::size(cuda::kProductTiles)));
  EXPECT_FALSE(Layer(kForward, tails, with(DataType::kInt32, 0.5, 2, 132)).check_tiles({2}).empty());
  Layer(kForward, tails, with(DataType::kInt32, 0.5, 2)).check({1, 1, 0});
  for (const int tile : {0, 12}) Layer(kForward, tails, with(DataType::kFloat)).check({tile, 1, 0});
  Layer(kForward, tails, with(DataType::kFloat, 0.3, 1)).check({1, 1, 0});
  Layer(kForward, tails, with(DataType::kFloat, 0.3, 1, 132)).check({10, 2, 0});
  const Shape bytes{.x = {2, 144, 9, 10}, .w = {272, 144, 2, 3}, .pad = {1, 1}};  // whole rows of results
  for (const int tile : {0, 3, 8, 12}) Layer(kForward, bytes, with(DataType::kInt8)).check({tile, 1, 0});
  for (const int tile : {1, 3}) Layer(kForward, bytes, with(DataType::kInt8, 0.25, 1)).check({tile, 1, 0});
  Layer(kForward, bytes, with(DataType::kInt8, 0.25)).check({8, 1, 0});
  Layer(kForward, bytes, with(DataType::kInt8, 0.25, 1, 132)).check({10, 2, 0});
  for (const Shape& s : {Shape{.x = {3, 48, 101}, .w = {132, 48, 3}, .pad = {1}, .stride = {2}},
                         Shape{.x = {2, 16, 4, 6, 5}, .w = {84, 16, 2, 3, 3}, .pad = {1, 1, 0}, .stride = {1, 2, 1}}})
    Layer(kForward, s, with(DataType::kInt32)).check({8, 1, 0});
}

// Floats of 8 bits in pairs: tails, phases, clusters, one to three dimensions, every type of results.
TEST_F(HopperPlan, Float8) {
  constexpr DataType kE4 = DataType::kFloat8E4m3fn, kE5 = DataType::kFloat8E5m2;
  const Shape tails{.x = {2, 144, 9, 10}, .w = {208, 144, 2, 3}, .pad = {1, 1}},
      data_tails{.x = {2, 208, 9, 10}, .w = {144, 208, 2, 3}, .pad = {1, 1}},
      strided{.x = {2, 80, 9, 11}, .w = {144, 80, 3, 3}, .pad = {1, 1}, .stride = {2, 2}, .dilation = {1, 2}};
  const auto with = [](DataType type, DataType second, DataType out, double alpha = 1, double beta = 0, int units = 2) {
    return Options{.alpha = alpha, .beta = beta, .units = units, .type = type, .second = second, .out = out};
  };
  const std::set<int> fit = {1, 3, 4, 5, 10, 11, 12, 13};
  const Options mixed = with(kE4, kE5, DataType::kHalf), adds = with(kE5, kE4, DataType::kHalf, 0.5, 2, 132);
  EXPECT_EQ(Layer(kForward, tails, mixed).check_tiles({1}, {0, 1}), fit);
  EXPECT_EQ(Layer(kData, data_tails, mixed).check_tiles({1}, {0, 1}), fit);
  EXPECT_FALSE(Layer(kData, strided, mixed).check_tiles({1}).empty());
  EXPECT_FALSE(Layer(kForward, tails, adds).check_tiles({2}).empty());
  EXPECT_FALSE(Layer(kData, data_tails, adds).check_tiles({2}).empty());
  for (const Direction d : {kForward, kData}) {
    Layer(d, strided, with(kE5, kE5, DataType::kFloat)).check({1, 1, 0});
    Layer(d, strided, with(kE4, kE4, kE4)).check({4, 1, 0});
    Layer(d, strided, with(kE4, kE4, kE5)).check({1, 1, 0});
    for (const Shape& s : {Shape{.x = {3, 48, 101}, .w = {144, 48, 3}, .pad = {1}, .stride = {2}},
                           Shape{.x = {2, 16, 4, 6, 5}, .w = {80, 16, 2, 3, 3}, .pad = {1, 1, 0}, .stride = {1, 2, 1}}})
      Layer(d, s, mixed).check({10, 1, 0});
  }
  Layer(kForward, tails, with(kE4, kE4, kE4, 0.25, 1)).check({3, 1, 0});
  Layer(kForward, tails, with(kE4, kE4, DataType::kFloat, 2, 1)).check({1, 1, 0});
  Options dithers = with(kE4, kE4, kE4);
  dithers.rounding = Rounding::kStochastic;
  Layer(kForward, tails, dithers).check({4, 1, 0});
  dithers = with(kE4, kE4, kE4, 0.25, 1, 132);
  dithers.rounding = Rounding::kStochastic;
  Layer(kData, data_tails, dithers).check({10, 2, 0});
}

// 8-bit floats of all formats by copies in bf16.
TEST_F(HopperPlan, WidenedFloat8) {
  constexpr DataType kF4 = DataType::kFloat8Fnuz, kF5 = DataType::kBFloat8Fnuz, kE4 = DataType::kFloat8E4m3fn;
  const Shape tails{.x = {2, 144, 9, 10}, .w = {208, 144, 2, 3}, .pad = {1, 1}},
      strided{.x = {2, 80, 9, 11}, .w = {144, 80, 3, 3}, .pad = {1, 1}, .stride = {2, 2}, .dilation = {1, 2}};
  const auto with = [](DataType type, DataType second, DataType out, double alpha = 1, double beta = 0, int units = 2) {
    return Options{.alpha = alpha,
                   .beta = beta,
                   .units = units,
                   .type = type,
                   .second = second,
                   .out = out,
                   .solver = "ConvHopperWidened"};
  };
  Layer(kForward, tails, with(kF4, kF5, kF4)).check({3, 1, 0});
  Layer(kData, tails, with(kF4, kF4, kF4, 0.25, 1)).check({4, 1, 0});
  Layer(kData, tails, with(kF5, kE4, kF5)).check({8, 1, 0});
  Layer(kForward, tails, with(kE4, kE4, DataType::kHalf, 1, 0, 132)).check({10, 2, 0});
  Layer(kData, strided, with(kE4, kF5, DataType::kFloat)).check({1, 1, 0});
  Layer(kWeights, tails, with(kF4, kF5, DataType::kFloat, 0.5, 1)).check({1, 1});
  Layer(kWeights, strided, with(kE4, kE4, DataType::kHalf, 2)).check({4, 1});
  Layer(kWeights, tails, with(kF5, kF4, kF4, 0.25, 1)).check({4, 0});
  Layer(kWeights, {.x = {3, 88, 101}, .w = {136, 88, 3}, .pad = {1}}, with(kE4, kF4, DataType::kBFloat16))
      .check({3, 0});
  Options dithers = with(kE4, kF5, kF5);
  dithers.rounding = Rounding::kStochastic;
  Layer(kData, strided, dithers).check({1, 1, 0});
  Layer(kWeights, strided, dithers).check({4, 1});
}

const Shape kStrided{.x = {2, 72, 9, 11}, .w = {72, 72, 3, 3}, .pad = {1, 1}, .stride = {2, 2}, .dilation = {1, 2}},
    kSeries{.x = {3, 88, 101}, .w = {136, 88, 3}, .pad = {1}, .stride = {2}},
    kVolume{.x = {1, 24, 4, 6, 5}, .w = {72, 24, 2, 3, 3}, .pad = {1, 1, 0}, .stride = {1, 2, 1}};

/// fp32 in as many parts of bf16, or in fp32 arithmetic because of an infinity in the operand `infinite`.
Options in_parts(std::array<int, 2> parts, int infinite = -1) {
  return {.type = DataType::kFloat, .solver = "ConvHopperSplit", .parts = parts, .infinite = infinite};
}

// Every pair of parts that matters; tails of steps and tiles.
TEST_F(HopperPlan, PairsOfParts) {
  for (const auto& parts : {std::array{3, 1}, std::array{1, 3}, std::array{2, 2}}) {
    EXPECT_EQ(Layer(kForward, kTails, in_parts(parts)).check_tiles({1}), (std::set<int>{3, 4, 10, 11, 12}));
    EXPECT_EQ(Layer(kData, kBackwardTails, in_parts(parts)).check_tiles({1}, {1}), (std::set<int>{3, 4, 10, 11, 12}));
    EXPECT_EQ(Layer(kWeights, kTails, in_parts(parts)).check_tiles({1}), (std::set<int>{1, 3}));
  }
}

// Phases, clusters, parts of the pixels, views of the output, what is added and fused, one and three dimensions; by
// parts and in fp32.
TEST_F(HopperPlan, Parts) {
  const int relu = static_cast<int>(activation::Mode::kRelu);
  for (const int infinite : {-1, 0, 1}) {
    Options o = in_parts({2, 2}, infinite);
    for (const Shape& s : {kTails, kStrided, kSeries, kVolume}) {
      Layer(kForward, s, o).check({12, 1, 0});
      Layer(kData, s, o).check({10, 1, 0});
      Layer(kWeights, s, o).check({3, 1});
    }
    if (infinite == 1) continue;
    o.units = 132;
    Layer(kWeights, kTails, o).check({3, 1});
    Options fused = o;
    fused.epilogue = {.bias = true, .activation = relu, .norm = true, .residual = true, .scale = true};
    for (const TunePoint& point : {TunePoint{4, 1, 0}, TunePoint{12, 1, 0}, TunePoint{4, 2, 0}})
      Layer(kForward, kTails, fused).check(point);
    o.alpha = 0.5;
    o.beta = 2;
    for (const int split : {2, 4}) Layer(kForward, kTails, o).check({10, split, 0});
    for (const int split : {1, 2}) Layer(kData, kBackwardTails, o).check({4, split, 0});
    Layer(kWeights, kTails, o).check({3, 1});
    o.x_strides = {10000, 1, 968, 88};
    Layer(kData, kStrided, o).check({10, 1, 0});
    Options planes = in_parts({2, 2}, infinite);
    planes.planes = true;
    planes.alpha = 0.5;
    const Shape quads{.x = {3, 40, 6, 14}, .w = {72, 40, 2, 3}, .pad = {1, 2}, .dilation = {2, 2}};
    for (const Shape& s : {kTails, quads}) {
      for (const int tile : {4, 12}) Layer(kForward, s, planes).check({tile, 1, 0});
      Layer(kData, s, planes).check({10, 1, 0});
    }
    Layer(kData, kStrided, planes).check({10, 1, 0});
    planes.units = 132;
    Layer(kForward, kTails, planes).check({4, 2, 0});
  }
}

// Of images, then of rows with their neighbours that a filter needs; both layouts, strides, one to three dimensions.
TEST_F(HopperPlan, SlicesOfParts) {
  const Shape images{.x = {2, 24, 16, 14}, .w = {72, 24, 2, 3}, .pad = {1, 2}, .dilation = {2, 2}},
      rows{.x = {2, 40, 19, 9}, .w = {72, 40, 3, 3}, .pad = {1, 1}, .stride = {2, 2}, .dilation = {1, 2}},
      series{.x = {1, 24, 301}, .w = {72, 24, 3}, .pad = {1}, .stride = {2}},
      volume{.x = {1, 24, 9, 6, 5}, .w = {72, 24, 2, 3, 3}, .pad = {1, 1, 0}, .stride = {1, 2, 1}};
  for (const Shape& s : {images, rows, series, volume})
    for (const Direction d : kDirections)
      for (const bool planes : {false, true}) {
        const bool weights = d == kWeights;
        if (planes && (weights || s.x.size() != 4)) continue;
        Options o = in_parts({2, 2}, &s == &rows ? 0 : -1);
        o.planes = planes;
        o.alpha = 0.5;
        if (weights) o.beta = 2;
        const Problem p = problem(d, s);
        const std::int64_t image = (p.first_input().count() + (weights ? p.y.count() : 0)) / p.n() * 6;
        for (const std::int64_t parts : {p.n() * image - 64, image / 2}) {
          o.most_bytes = 2048 + (weights ? parts * 8 / 7 : parts + p.w.count() * 6);
          Layer(d, s, o).check(weights ? TunePoint{3, 1} : TunePoint{d == kForward ? 12 : 10, 1, 0});
        }
      }
}

// Whole tiles; shares that begin and end within tiles, more and fewer of them than tiles; parts of tiles.
TEST_F(HopperPlan, SharesAndPartsOfWeights) {
  const Shape tails{.x = {2, 72, 19, 30}, .w = {136, 72, 2, 1}, .pad = {1, 1}};
  for (const double beta : {0.0, 0.5}) {
    Layer layer(kWeights, tails, {.alpha = 2, .beta = beta});
    for (const int units : {1, 3, 40}) {
      layer.set_units(units);
      EXPECT_EQ(layer.check_tiles({0, 1}), numbers(std::size(cuda::kWeightTiles)));
    }
  }
}

// Tails of tiles and chunks, padding beyond the filter's reach, images that add up, both types, every tile; views, what
// is added; results shorter than a row of a tile.
TEST_F(HopperPlan, LongFilters) {
  const auto layer = [](Direction d, std::int64_t n, std::int64_t w, std::int64_t taps, std::int64_t pad, Options o) {
    o.solver = "ConvCudaLongFilters";
    return Layer(d, {.x = {n, 3, w}, .w = {3, 1, taps}, .pad = {pad}, .groups = 3}, o);
  };
  const Options half{}, bfloat16{.alpha = 0.5, .beta = 2, .type = DataType::kBFloat16};
  for (const Direction d : kDirections) {
    const bool weights = d == kWeights;
    for (int tile = 0; tile < 4; ++tile)
      layer(d, 2, weights ? 60 : 1100, weights ? 33 : 47, weights ? 16 : 46, half).check({tile});
    layer(d, 1, weights ? 190 : 1500, weights ? 180 : 150, weights ? 90 : 149, bfloat16).check({0});
    layer(d, 2, 300, weights ? 90 : 330, weights ? 100 : 340, bfloat16).check({2});
    layer(d, 2, weights ? 1900 : 1030, weights ? 40 : 1300, weights ? 0 : 1299, half).check({3});
    const Options view{.alpha = 2, .beta = 1, .x_strides = {1200, 1, 9}, .y_strides = {3100, 1030, 5}};
    layer(d, 2, 60, 60, 30, view).check({3});
  }
}

// Eight channels at once; of views, more than a chunk and than a tile, what is added.
TEST_F(HopperPlan, LongFiltersOfChannels) {
  for (const Direction d : kDirections) {
    Options o{.solver = "ConvCudaLongFilters"};
    Layer(d, {.x = {2, 16, 300}, .w = {16, 1, 75}, .pad = {74}, .groups = 16}, o).check({4});
    Layer(d, {.x = {1, 8, 1090}, .w = {8, 1, 1050}, .pad = {1049}, .groups = 8}, o).check({4});
    o = {.alpha = 2, .beta = 1, .x_strides = {9000, 1, 24}, .y_strides = {9600, 1, 16}, .solver = o.solver};
    Layer(d, {.x = {2, 8, 131}, .w = {8, 1, 40}, .pad = {20}, .groups = 8}, o).check({4});
    o.type = DataType::kBFloat16;
    Layer(d, {.x = {2, 8, 131}, .w = {8, 1, 60}, .pad = {59}, .groups = 8}, o).check({4});
  }
}

// Infinities reach the results that depend on them, and no others.
TEST_F(HopperPlan, LongFiltersOfInfinities) {
  for (const Direction d : kDirections) {
    const Shape s{.x = {2, 8, d == kWeights ? 60 : 200}, .w = {8, 1, 40}, .pad = {20}, .groups = 8};
    for (const int tile : {0, 3, 4})
      for (const int operand : {0, 1})
        Layer(d, s, {.solver = "ConvCudaLongFilters", .infinite = operand}).check({tile});
  }
}

// Every pair of parts of fp32 that matters; tails, views, what is added; fp32 arithmetic for an infinity in one of the
// operands.
TEST_F(HopperPlan, LongFiltersInParts) {
  const auto layer = [](Direction d, const Shape& s, Options o, std::array<int, 2> parts, int infinite = -1) {
    o.type = DataType::kFloat;
    o.solver = "ConvCudaLongFiltersSplit";
    o.parts = parts;
    o.infinite = infinite;
    return Layer(d, s, o);
  };
  for (const Direction d : kDirections) {
    const Shape s{.x = {2, 8, d == kWeights ? 60 : 200}, .w = {8, 1, 40}, .pad = {20}, .groups = 8},
        chunks{.x = {1, 8, 1090}, .w = {8, 1, d == kWeights ? 150 : 1050}, .pad = {100}, .groups = 8};
    for (const auto& parts : {std::array{3, 1}, std::array{1, 3}, std::array{2, 2}})
      for (const int tile : {1, 3}) layer(d, s, {}, parts).check({tile});
    const Options view{.alpha = 2, .beta = 1, .x_strides = {9000, 1, 24}, .y_strides = {9600, 1, 16}};
    layer(d, s, view, {2, 2}).check({1});
    layer(d, chunks, {.alpha = 0.5, .beta = 2}, {2, 2}).check({2});
    for (const int infinite : {0, 1}) layer(d, s, {}, {2, 2}, infinite).check({2});
  }
}

/// Depthwise in one dimension, of so many channels.
Shape depthwise_1d(std::int64_t n, std::int64_t c, std::int64_t w, std::int64_t taps, std::int64_t pad) {
  return {.x = {n, c, w}, .w = {c, 1, taps}, .pad = {pad}, .groups = c};
}

// Tails of tiles, chunks and pieces, lines at odd elements, whose source and result are aligned alike or not; pads from
// none to beyond the reach; what is added.
TEST_F(HopperPlan, Depthwise1dOfLines) {
  const auto layer = [](Direction d, const Shape& s, Options o) {
    o.solver = "ConvCudaDepthwise1d";
    const std::int64_t out = s.x[2] + 2 * s.pad[0] - s.w[2] + 1;
    if (o.x_strides.empty()) o.x_strides = {s.x[1] * s.x[2], s.x[2], 1};
    if (o.y_strides.empty()) o.y_strides = {s.x[1] * out, out, 1};
    return Layer(d, s, o);
  };
  const Options half{}, bfloat16{.alpha = 0.5, .beta = 2, .type = DataType::kBFloat16};
  for (const Direction d : kDirections) {
    layer(d, depthwise_1d(2, 3, 611, 4, 3), half).check({0});
    layer(d, depthwise_1d(1, 3, 1030, 18, 5), half).check({1});
    layer(d, depthwise_1d(3, 2, 40, 2, 9), half).check({2});
    layer(d, depthwise_1d(5, 2, 531, 34, 0), bfloat16).check({3});
    layer(d, depthwise_1d(2, 3, 2600, 31, 15), bfloat16).check({0});
    layer(d, depthwise_1d(1, 2, 5000, 19, 18), bfloat16).check({0});
    layer(d, depthwise_1d(1, 2, 700, 113, 60), half).check({0});
    Options odd = half;
    odd.shift = 2;
    layer(d, depthwise_1d(2, 3, 611, 9, 4), odd).check({0});
    Options view = half;
    view.x_strides = {1700, 533, 1};
    view.y_strides = {3100, 1030, 1};
    layer(d, depthwise_1d(2, 3, 530, 9, 4), view).check({0});
  }
}

// The same of channels; more of them than a block has, and fewer.
TEST_F(HopperPlan, Depthwise1dOfChannels) {
  const Options half{.solver = "ConvCudaDepthwise1d"};
  Options bfloat16{.alpha = 0.5, .beta = 2, .type = DataType::kBFloat16, .solver = half.solver};
  Options bias = half;
  bias.epilogue = {.bias = true, .activation = static_cast<int>(activation::Mode::kRelu)};
  Layer(kForward, depthwise_1d(2, 72, 300, 18, 8), bias).check({0});
  Layer(kData, depthwise_1d(1, 8, 300, 57, 30), half).check({0});
  for (const Direction d : kDirections) {
    Layer(d, depthwise_1d(2, 72, 300, 4, 3), half).check({0});
    Layer(d, depthwise_1d(1, 8, 700, 9, 0), half).check({1});
    Layer(d, depthwise_1d(3, 8, 40, 3, 9), half).check({2});
    Layer(d, depthwise_1d(2, 16, 611, 31, 15), bfloat16).check({0});
    Options odd = half;
    odd.shift = 2;
    Layer(d, depthwise_1d(1, 72, 300, 9, 4), odd).check({0});
    bfloat16.x_strides = {9000, 1, 24};
    bfloat16.y_strides = {9600, 1, 16};
    Layer(d, depthwise_1d(2, 16, 131, 41, 20), bfloat16).check({3});
    bfloat16.x_strides = bfloat16.y_strides = {};
  }
}

// Infinities reach the results that depend on them, and no others.
TEST_F(HopperPlan, Depthwise1dOfInfinities) {
  for (const Direction d : kDirections)
    for (const int operand : {0, 1}) {
      if (operand == 1 && d != kWeights) continue;  // all results depend on a tap
      const Options channels{.solver = "ConvCudaDepthwise1d", .infinite = operand};
      Options lines = channels;
      lines.x_strides = lines.y_strides = {1600, 200, 1};
      Layer(d, depthwise_1d(2, 8, 200, 9, 4), channels).check({0});
      Layer(d, depthwise_1d(2, 8, 200, 9, 4), lines).check({0});
    }
}

}  // namespace
}  // namespace polymio::convolution
