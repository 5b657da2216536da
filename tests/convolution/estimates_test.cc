// Estimates of solvers, where they alone decide, and the tune points that a search may try.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "core/registry.h"
#include "primitives/convolution/cuda/hopper_plan.h"
#include "sample_problem.h"

namespace polymio::convolution {
namespace {

/// One thread of this machine, with an assumed speed.
DeviceInfo plain_device() {
  DeviceInfo d = devices()[0];
  d.threads = 1;
  d.cache_bytes = {32u << 10, 1u << 20, 32u << 20};
  d.fp32_gflops = d.isa >= CpuIsa::kAvx512 ? 180 : d.isa == CpuIsa::kAvx2 ? 100 : 25;
  d.bandwidth_gbs = 20;
  return d;
}

double estimate(const SolverBase& s, const DeviceInfo& d, const Problem& p) {
  return s.estimate(d, p, s.default_point(d, p));
}

/// The solver with the least estimate on an NVIDIA GPU, besides the reference.
const SolverBase* fastest(const DeviceInfo& device, const Problem& p) {
  const SolverBase* best = nullptr;
  double least = INFINITY;
  for (const SolverBase* s : solvers(p.direction, DeviceKind::kCuda)) {
    if (s->info().reference || !s->is_applicable(device, p)) continue;
    const double us = estimate(*s, device, p);
    if (us >= least) continue;
    best = s;
    least = us;
  }
  return best;
}

struct Slow {
  const char* what;
  Direction direction;
  Shape shape;
};

/// Another solver took at most a quarter of the direct one's time on a Zen 3 with AVX2.
const Slow kSlow[] = {
    {"one image, fully connected", Direction::kBackwardData, {.x = {1, 512, 1, 1}, .w = {1000, 512, 1, 1}}},
    {"patches", Direction::kBackwardData, {.x = {4, 3, 224, 224}, .w = {768, 3, 16, 16}, .stride = {16, 16}}},
    {"one channel of a vector", Direction::kBackwardData, {.x = {64, 1, 28, 28}, .w = {6, 1, 5, 5}, .pad = {2, 2}}},
    {"one channel, taps in the padding",
     Direction::kBackwardData,
     {.x = {2, 1, 7, 7}, .w = {128, 1, 11, 11}, .pad = {5, 5}}},
    {"weights larger than the cache, read for each row",
     Direction::kBackwardData,
     {.x = {1, 672, 6, 6}, .w = {2048, 672, 3, 3}, .pad = {1, 1}}},
};

const SolverBase& direct_solver(Direction d) {
  return *solver_by_name(d == Direction::kForward        ? "ConvCpuDirectFwd"
                         : d == Direction::kBackwardData ? "ConvCpuDirectBwd"
                                                         : "ConvCpuDirectWrw");
}

TEST(Estimates, DirectIsNotChosenWhereItIsSlow) {
  const DeviceInfo device = plain_device();
  for (const Slow& slow : kSlow) {
    SCOPED_TRACE(slow.what);
    const Problem p = problem(slow.direction, slow.shape);
    double others = INFINITY;
    for (const SolverBase* s : solvers(slow.direction)) {
      const SolverInfo info = s->info();
      if (info.reference || std::string(info.name).starts_with("ConvCpuDirect")) continue;
      if (info.devices & static_cast<unsigned>(device.kind) && s->is_applicable(device, p))
        others = std::min(others, estimate(*s, device, p));
    }
    EXPECT_GT(estimate(direct_solver(slow.direction), device, p), others);
  }
}

/// Depthwise filters of sequence models, and strided and transposed ones of speech models: on a usual NVIDIA GPU a
/// solver that is no reference applies, and the least estimate is near what memory or arithmetic allows.
TEST(Estimates, OneDimensionHasFastSolversOnGpus) {
  const DeviceInfo device = usual_device("cuda-sm90");
  const auto depthwise = [](std::int64_t n, std::int64_t c, std::int64_t w, std::int64_t taps, std::int64_t pad) {
    return Shape{.x = {n, c, w}, .w = {c, 1, taps}, .pad = {pad}, .groups = c};
  };
  const Shape shapes[] = {depthwise(1, 12288, 16384, 4, 3),
                          depthwise(2, 2048, 21, 4, 3),
                          depthwise(16, 768, 1024, 31, 15),
                          depthwise(64, 2048, 4, 4, 0),
                          {.x = {8, 512, 4000}, .w = {512, 512, 10}, .pad = {2}, .stride = {5}},
                          {.x = {1, 256, 3200}, .w = {512, 256, 16}, .pad = {4}, .stride = {8}},
                          {.x = {1, 32, 9000}, .w = {64, 32, 4}, .pad = {1}, .stride = {2}},
                          {.x = {4, 1, 64000}, .w = {512, 1, 10}, .stride = {5}}};
  for (Shape shape : shapes)
    for (const Direction direction : kDirections)
      for (const DataType type : {DataType::kFloat, DataType::kHalf})
        for (const bool last : {false, true}) {
          shape.type = type;
          shape.channels_last = last;
          const Problem p = problem(direction, shape);
          SCOPED_TRACE(p.key());
          const SolverBase* best = fastest(device, p);
          ASSERT_NE(best, nullptr);
          const double least = estimate(*best, device, p);
          EXPECT_EQ(std::string(best->info().name).find("Depthwise") != std::string::npos, p.depthwise())
              << best->info().name;
          constexpr double kNear = 10, kLaunchesUs = 15;
          const double bytes = static_cast<double>(p.x.bytes() + p.w.bytes() + p.y.bytes());
          const double floor = std::max(bytes / device.bandwidth_gbs, p.flops() / device.fp32_gflops) / 1e3;
          EXPECT_LT(least, kLaunchesUs + kNear * floor) << best->info().name;
        }
}

/// Depthwise filters of three dimensions, and several output channels per input channel.
TEST(Estimates, DepthwiseOfVolumesHasFastSolversOnGpus) {
  const DeviceInfo device = usual_device("cuda-sm90");
  Shape shapes[] = {
      {.x = {2, 64, 32, 64, 64}, .w = {64, 1, 3, 3, 3}, .pad = {1, 1, 1}, .groups = 64},
      {.x = {8, 108, 16, 40, 40}, .w = {108, 1, 3, 3, 3}, .pad = {1, 1, 1}, .stride = {1, 2, 2}, .groups = 108},
      {.x = {4, 256, 8, 28, 28}, .w = {256, 1, 5, 1, 1}, .pad = {2, 0, 0}, .groups = 256},
      {.x = {16, 64, 56, 56}, .w = {128, 1, 3, 3}, .pad = {1, 1}, .groups = 64}};
  for (Shape& shape : shapes)
    for (const Direction direction : kDirections)
      for (const DataType type : {DataType::kFloat, DataType::kHalf})
        for (const bool last : {false, true}) {
          shape.type = type;
          shape.channels_last = last;
          const Problem p = problem(direction, shape);
          SCOPED_TRACE(p.key());
          const SolverBase* best = fastest(device, p);
          ASSERT_NE(best, nullptr);
          EXPECT_TRUE(std::string_view(best->info().name).starts_with("ConvGpuDepthwise")) << best->info().name;
        }
}

/// Volumes with few channels on one side, and heads; not what has many on both.
TEST(Estimates, FewChannelsRunFromTiles) {
  const DeviceInfo device = usual_device("cuda-sm90");
  const auto volume = [](std::int64_t c, std::int64_t k, std::int64_t filter) {
    return Shape{.x = {2, c, 128, 128, 128},
                 .w = {k, c, filter, filter, filter},
                 .pad = {filter / 2, filter / 2, filter / 2},
                 .type = DataType::kHalf};
  };
  for (const bool last : {false, true})
    for (const Direction direction : {Direction::kForward, Direction::kBackwardData, Direction::kBackwardWeights}) {
      Shape many = volume(64, 64, 3), shapes[] = {volume(1, 32, 3), volume(4, 32, 3)};
      for (Shape* shape : {&shapes[0], &shapes[1], &many}) {
        shape->channels_last = last;
        const Problem p = problem(direction, *shape);
        SCOPED_TRACE(p.key());
        const SolverBase* best = fastest(device, p);
        ASSERT_NE(best, nullptr);
        const bool is_few = std::string_view(best->info().name).starts_with("ConvCudaFewChannels");
        EXPECT_EQ(is_few, shape != &many) << best->info().name;
      }
    }
}

/// Tiles of matrix products are wider than the channels of these results.
TEST(Estimates, FewOutputChannelsOfPlanesHaveAKernel) {
  const DeviceInfo device = usual_device("cuda-sm90");
  for (const std::int64_t outputs : {2, 8, 64}) {
    const Problem p = problem(Direction::kForward,
                              {.x = {32, 37, 112, 28}, .w = {outputs, 37, 3, 3}, .pad = {1, 1}, .stride = {2, 2}});
    EXPECT_EQ(fastest(device, p)->info().name == std::string("ConvGpuFewOutputsFwd"), outputs < 64);
  }
}

/// fp32 has no matrix units that are as accurate; products of many channels are faster in parts of bf16.
TEST(Estimates, FewChannelsInFloatRunFromTiles) {
  const DeviceInfo device = usual_device("cuda-sm90");
  const auto is_direct = [&](Direction direction, const Shape& shape) {
    const Problem p = problem(direction, shape);
    SCOPED_TRACE(p.key());
    double least = INFINITY;
    const SolverBase* best = nullptr;
    for (const SolverBase* s : solvers(direction, DeviceKind::kCuda)) {
      if (s->info().reference || s->error_class(p) > ErrorClass::kAccurate || !s->is_applicable(device, p)) continue;
      if (const double us = estimate(*s, device, p); us < least) std::tie(least, best) = std::pair(us, s);
    }
    return best != nullptr && std::string_view(best->info().name).starts_with("ConvGpuDirect");
  };
  for (const bool last : {false, true}) {
    const Shape volume{
        .x = {2, 16, 96, 96, 96}, .w = {32, 16, 3, 3, 3}, .pad = {1, 1, 1}, .stride = {2, 2, 2}, .channels_last = last},
        images{.x = {128, 16, 32, 32}, .w = {16, 16, 3, 3}, .pad = {1, 1}, .channels_last = last},
        many{.x = {32, 256, 56, 56}, .w = {64, 256, 3, 3}, .pad = {1, 1}, .channels_last = last};
    EXPECT_TRUE(is_direct(Direction::kForward, volume));
    EXPECT_TRUE(is_direct(Direction::kForward, images));
    EXPECT_TRUE(is_direct(Direction::kBackwardData, images));
    EXPECT_TRUE(is_direct(Direction::kBackwardWeights, images));
    EXPECT_TRUE(is_direct(Direction::kBackwardWeights, volume));
    EXPECT_FALSE(is_direct(Direction::kForward, many));
    EXPECT_FALSE(is_direct(Direction::kBackwardWeights, many));
  }
}

/// Long filters are predicted to be the fastest on matrix units, those of fp32 in parts; short ones are not.
TEST(Estimates, LongFiltersRunOnMatrixUnits) {
  const DeviceInfo device = usual_device("cuda-sm90");
  for (const std::int64_t taps : {16, 128, 512, 8192})
    for (const Direction direction : kDirections)
      for (const DataType type : {DataType::kFloat, DataType::kBFloat16})
        for (const bool last : {false, true}) {
          const Problem p = problem(direction, {.x = {8, 1024, 4096},
                                                .w = {1024, 1, taps},
                                                .pad = {taps - 1},
                                                .groups = 1024,
                                                .type = type,
                                                .channels_last = last});
          SCOPED_TRACE(p.key());
          const SolverBase* best = fastest(device, p);
          ASSERT_NE(best, nullptr);
          const std::string_view name = best->info().name;
          EXPECT_EQ(name.starts_with("ConvCudaLongFilters"), taps >= 128) << name;
          EXPECT_EQ(name.starts_with("ConvCudaLongFiltersSplit"), taps >= 128 && type == DataType::kFloat) << name;
        }
}

/// Which solver of depthwise filters is the default, as docs/kernels/depthwise-gpu.md states.
TEST(Estimates, FewTapsRunOnMatrixUnitsWhereThatIsFaster) {
  const DeviceInfo device = usual_device("cuda-sm90");
  struct Row {
    std::int64_t taps, steps;
    Direction direction;
    DataType type;
    bool last, on_matrix_units;
  };
  for (const Row& r : {Row{31, 1500, Direction::kForward, DataType::kBFloat16, false, true},
                       Row{31, 1500, Direction::kBackwardData, DataType::kHalf, true, true},
                       Row{31, 1500, Direction::kBackwardWeights, DataType::kBFloat16, true, true},
                       Row{4, 2048, Direction::kForward, DataType::kBFloat16, false, true},
                       Row{4, 2048, Direction::kBackwardWeights, DataType::kBFloat16, false, true},
                       Row{4, 2048, Direction::kForward, DataType::kBFloat16, true, false},
                       Row{31, 1500, Direction::kForward, DataType::kFloat, false, false},
                       Row{3, 21, Direction::kForward, DataType::kHalf, false, false}}) {
    const Problem p = problem(r.direction, {.x = {32, 512, r.steps},
                                            .w = {512, 1, r.taps},
                                            .pad = {r.taps / 2},
                                            .groups = 512,
                                            .type = r.type,
                                            .channels_last = r.last});
    SCOPED_TRACE(p.key());
    const SolverBase* best = fastest(device, p);
    ASSERT_NE(best, nullptr);
    EXPECT_EQ(std::string(best->info().name).starts_with("ConvCudaDepthwise1d"), r.on_matrix_units)
        << best->info().name;
  }
}

/// 96 output channels take tiles of 96 columns, not those with halo.
TEST(Estimates, NinetySixChannelsHaveTilesOfTheirOwn) {
  const DeviceInfo device = usual_device("cuda-sm90");
  const Problem p = problem(Direction::kForward, {.x = {1, 96, 1024, 1024},
                                                  .w = {96, 96, 3, 3},
                                                  .pad = {1, 1},
                                                  .type = DataType::kBFloat16,
                                                  .channels_last = true});
  const TunePoint point = cuda::hopper_default(device, p);
  ASSERT_FALSE(cuda::hopper_has_halo(p, point));
  EXPECT_EQ(cuda::kProductTiles[point[0]].columns, 96);
}

TEST(Knobs, GradientsOf16BitsAreSummedInOnePass) {
  const DeviceInfo device = plain_device();
  Shape shape{.x = {4, 8, 40, 40}, .w = {6, 8, 3, 3}, .pad = {1, 1}};
  for (const DataType type : {DataType::kFloat, DataType::kHalf, DataType::kBFloat16}) {
    shape.type = type;
    const Knob images =
        solver_by_name("ConvCpuGemmWrw")->tune_space(device, problem(Direction::kBackwardWeights, shape)).front();
    EXPECT_EQ(images.name, std::string("images"));
    EXPECT_EQ(images.values.size() == 1, size_of(type) == 2) << "passes round what they add to";
  }
}

}  // namespace
}  // namespace polymio::convolution
