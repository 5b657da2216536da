// Programs of ConvCudaTensor, by NVRTC without a device.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "convolution/sample_problem.h"
#include "core/kernel_builder.h"
#include "core/registry.h"

namespace polymio::convolution {
namespace {

/// Their instructions are of sm89 and later.
TEST(TensorTiles, OfFloat8CompileWhereUnitsTakeThem) {
  try {
    create_compiler("cuda-sm90");
  } catch (const Error&) {
    GTEST_SKIP() << "no NVRTC";
  }
  const std::pair<Direction, const char*> solvers[] = {{Direction::kForward, "ConvCudaTensorFwd"},
                                                       {Direction::kBackwardData, "ConvCudaTensorBwd"},
                                                       {Direction::kBackwardWeights, "ConvCudaTensorWrw"}};
  int compiled = 0;
  for (const auto& [direction, name] : solvers)
    for (const char* architecture : {"cuda-sm86", "cuda-sm89", "cuda-sm90"}) {
      SCOPED_TRACE(fmt::format("{} for {}", name, architecture));
      Problem p = problem(direction, {.x = {1, 16, 4, 4}, .w = {16, 16, 3, 3}, .pad = {1, 1}});
      for (TensorDesc* t : {&p.x, &p.w, &p.y})
        t->type = t->cast = t == &p.w ? DataType::kFloat8E5m2 : DataType::kFloat8E4m3fn;
      const DeviceInfo device = usual_device(architecture);
      const auto& solver = dynamic_cast<const GpuSolver<Problem>&>(*solver_by_name(name));
      EXPECT_EQ(static_cast<bool>(solver.is_applicable(device, p)), device.gpu.compute_capability >= 89);
      if (!solver.is_applicable(device, p)) continue;
      for (const KernelSpec& spec : solver.kernel_specs(device, p, solver.default_point(device, p))) {
        EXPECT_FALSE(compile_program(*create_compiler(architecture), spec).binary.empty());
        ++compiled;
      }
    }
  EXPECT_GE(compiled, 6);
}

}  // namespace
}  // namespace polymio::convolution
