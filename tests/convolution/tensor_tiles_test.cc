// Programs of ConvCudaTensor, by NVRTC without a device.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "convolution/sample_problem.h"
#include "core/kernel_builder.h"
#include "core/registry.h"

namespace polymio::convolution {
namespace {

/// Where the units do not take a format it becomes bf16.
TEST(TensorTiles, OfFloat8CompileForGpusSinceAmpere) {
  try {
    create_compiler("cuda-sm90");
  } catch (const Error&) {
    GTEST_SKIP() << "no NVRTC";
  }
  const std::pair<Direction, const char*> solvers[] = {{Direction::kForward, "ConvCudaTensorFwd"},
                                                       {Direction::kBackwardData, "ConvCudaTensorBwd"},
                                                       {Direction::kBackwardWeights, "ConvCudaTensorWrw"}};
  const std::pair<DataType, DataType> pairs[] = {{DataType::kFloat8E4m3fn, DataType::kFloat8E5m2},
                                                 {DataType::kFloat8Fnuz, DataType::kBFloat8Fnuz}};
  std::size_t turn = 0;
  for (const auto& [direction, name] : solvers)
    for (const auto& [type, type_of_w] : pairs)
      for (const char* architecture : {"cuda-sm80", "cuda-sm86", "cuda-sm89", "cuda-sm90"}) {
        SCOPED_TRACE(fmt::format("{} of {} for {}", name, name_of(type), architecture));
        Problem p = problem(direction, {.x = {1, 16, 4, 4}, .w = {16, 16, 3, 3}, .pad = {1, 1}});
        for (TensorDesc* t : {&p.x, &p.w, &p.y}) t->type = t->cast = t == &p.w ? type_of_w : type;
        const auto order = static_cast<std::size_t>(direction);
        p.rounding = (turn / 4 + order) % 2 ? Rounding::kStochastic : Rounding::kStandard;  // each pair has both
        const DeviceInfo device = usual_device(architecture);
        const auto& solver = dynamic_cast<const GpuSolver<Problem>&>(*solver_by_name(name));
        ASSERT_EQ(solver.is_applicable(device, p).text(), Verdict{}.text());
        const auto specs = solver.kernel_specs(device, p, solver.default_point(device, p));
        // The programs in turn, by another order in each direction.
        const KernelSpec& spec = specs[(turn++ + order) % specs.size()];
        const bool widens = std::ranges::count(spec.options, "-DIN=bf16") > 0;
        EXPECT_EQ(widens, device.gpu.compute_capability < 89 || type == DataType::kFloat8Fnuz);
        EXPECT_FALSE(compile_program(*create_compiler(architecture), spec).binary.empty());
      }
}

/// Products in bf16 are exact; those of the units are not added exactly.
TEST(TensorTiles, OfFnuzFormatsAreAccurate) {
  Problem p = problem(Direction::kForward, {.x = {1, 16, 4, 4}, .w = {16, 16, 3, 3}, .type = DataType::kFloat8E4m3fn});
  const SolverBase& solver = *solver_by_name("ConvCudaTensorFwd");
  EXPECT_EQ(solver.error_class(p), ErrorClass::kReduced);
  p.w.type = p.w.cast = DataType::kBFloat8Fnuz;
  EXPECT_EQ(solver.error_class(p), ErrorClass::kAccurate);
}

}  // namespace
}  // namespace polymio::convolution
