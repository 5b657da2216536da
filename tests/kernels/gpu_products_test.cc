// Tune points of the GPU's matrix products that no default reaches in small cases: every tile of the general product,
// with and without splits; matrices in several parts. On the GPU that POLYMIO_TEST_DEVICE names.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <string>

#include "tests/device.h"
#include "tests/runner/runner.h"

namespace polymio::test {
namespace {

/// Checks the solvers whose names begin so at the points that `choose` admits; returns how many points these were.
template <class Choose>
int check_points(const std::string& line, const std::string& name, const Choose& choose) {
  int points = 0;
  Handle handle(device_name(), nullptr);
  const DeviceInfo& device = handle.device();
  for (const auto& c : convolution_cases(line)) {
    SCOPED_TRACE(c->line());
    c->prepare();
    for (const SolverBase* s : c->solvers(device.kind)) {
      if (!std::string(s->info().name).starts_with(name) || !s->is_applicable(device, c->problem())) continue;
      for (const TunePoint& point : valid_points(*s, device, c->problem())) {
        if (!choose(point)) continue;
        SCOPED_TRACE(s->info().name + std::string(" at ") + to_text(point));
        check(handle, *c, *s, point);
        ++points;
      }
    }
  }
  return points;
}

TEST(GpuProducts, GeneralTilesWithAndWithoutSplits) {
  if (on_cpu()) GTEST_SKIP() << "no GPU";
  static constexpr const char* kLines[] = {
      "conv -_ 3 -n 2 -c 300 -! 2 -H 4 -W 5 -k 6 -@ 2 -y 2 -x 3 -$ 1 -p 0 -q 1 -# 2 -u 1 -v 2 -F 0 --alpha 0.5 --beta "
      "2",
      "convfp16 -_ 3 -n 1 -c 140 -! 3 -H 9 -W 9 -k 5 -@ 1 -y 3 -x 3 -$ 0 -p 1 -q 1 -F 1 -I NDHWC -f NDHWC -O NDHWC"};
  for (const char* line : kLines) {
    const int points = check_points(line, "ConvGpuImplicitGemm", [](const TunePoint&) { return true; });
    EXPECT_GE(points, 4) << line;  // a direction has four tiles
  }
}

TEST(GpuProducts, MatricesInParts) {
  if (on_cpu()) GTEST_SKIP() << "no GPU";
  static constexpr const char* kLines[] = {
      // Parts of an image's pixels
      "conv -_ 3 -n 2 -c 20 -! 4 -H 9 -W 11 -k 4 -@ 3 -y 3 -x 3 -$ 1 -p 1 -q 1 -F 5 --alpha 0.5 --beta 2",
      "convfp16 -_ 3 -n 1 -c 48 -! 5 -H 10 -W 11 -k 6 -@ 3 -y 3 -x 3 -$ 1 -p 1 -q 1 -F 4 -I NDHWC -f NDHWC -O NDHWC",
      // Parts of several images
      "convbfp16 -n 11 -c 16 -H 31 -W 32 -k 4 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -F 2 -g 2",
      "conv -n 9 -c 70 -H 45 -W 44 -k 3 -y 1 -x 1 -p 0 -q 0 -u 2 -v 2 -F 3"};
  for (const char* line : kLines) {
    const int points = check_points(line, "ConvGpuGemm", [](const TunePoint& point) {
      return point == TunePoint{0, 1};  // a MiB for the matrix
    });
    EXPECT_GE(points, 1) << line;
  }
}

}  // namespace
}  // namespace polymio::test
