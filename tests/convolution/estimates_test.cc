// Estimates of solvers, where they alone decide, and the tune points that a search may try.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "core/registry.h"
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
