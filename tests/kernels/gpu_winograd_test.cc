// ConvGpuWinograd in slices: its workspace for images of any size, and its results, on the GPU that POLYMIO_TEST_DEVICE
// names.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "core/registry.h"
#include "tests/device.h"
#include "tests/runner/runner.h"

namespace polymio::test {
namespace {

constexpr const char* kFlags = " -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -l 1 -j 1 -g 1 -m conv";
constexpr std::size_t kMiB = 1 << 20;

const SolverBase& winograd(const Case& c) {
  for (const SolverBase* s : c.solvers(DeviceKind::kCuda))
    if (std::string(s->info().name).starts_with("ConvGpuWinograd")) return *s;
  throw std::logic_error("there is no such solver");
}

TEST(GpuWinograd, WorkspaceIsLimited) {
  const DeviceInfo device = usual_device("cuda-sm90");
  for (const char* sizes : {"convfp16 -n 1 -c 96 -H 1024 -W 1024 -k 96", "conv -n 1 -c 192 -H 1024 -W 1024 -k 96",
                            "conv -n 64 -c 128 -H 112 -W 112 -k 128", "conv -n 1 -c 1280 -H 64 -W 64 -k 1280",
                            "conv -n 1 -c 2560 -H 64 -W 64 -k 1280", "conv -n 16 -c 8 -H 512 -W 512 -k 8"})
    for (const auto& c : convolution_cases(std::string(sizes) + kFlags)) {
      SCOPED_TRACE(c->line());
      const SolverBase& solver = winograd(*c);
      ASSERT_TRUE(solver.is_applicable(device, c->problem()));
      for (const TunePoint& point : valid_points(solver, device, c->problem()))
        EXPECT_LE(solver.workspace_size(device, c->problem(), point), 512 * kMiB) << to_text(point);
    }
}

TEST(GpuWinograd, SlicesFitTheCallersLimit) {
  const DeviceInfo device = usual_device("cuda-sm90");
  for (const auto& c : convolution_cases(std::string("convfp16 -n 1 -c 96 -H 1024 -W 1024 -k 96") + kFlags))
    for (const std::size_t limit : {256 * kMiB, 40 * kMiB}) {
      SCOPED_TRACE(c->line());
      const std::optional<TunePoint> point = starting_point(winograd(*c), device, c->problem(), limit);
      ASSERT_TRUE(point);
      EXPECT_LE(winograd(*c).workspace_size(device, c->problem(), *point), limit);
    }
}

/// The last slice has fewer tiles than the others.
TEST(GpuWinograd, SlicesMatchReference) {
  if (on_cpu()) GTEST_SKIP() << "no GPU is named";
  Handle handle(device_name(), nullptr);
  const DeviceInfo& device = handle.device();
  for (const char* flags : {" -F 1", " -F 4 -I NHWC -f NHWC -O NHWC --alpha 0.5 --beta 2"})
    for (const auto& c : convolution_cases(std::string("conv -n 2 -c 8 -H 130 -W 123 -k 9") + kFlags + flags)) {
      SCOPED_TRACE(c->line());
      const SolverBase& solver = winograd(*c);
      c->prepare();
      const TunePoint all = {2, 0, 512}, point = {2, 0, 8};
      ASSERT_TRUE(takes(solver, device, c->problem(), point));
      ASSERT_LT(solver.workspace_size(device, c->problem(), point), solver.workspace_size(device, c->problem(), all));
      check(handle, *c, solver, point);
    }
}

}  // namespace
}  // namespace polymio::test
