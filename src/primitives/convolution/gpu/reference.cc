// ConvGpuReference: convolution by its definition, a thread per element of the output. Any layout, strides, groups,
// scalars and 1 to 3 spatial dimensions; sums in double if the device has it, integers exactly.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <memory>

#include "core/kernel_builder.h"
#include "primitives/convolution/gpu/arguments.h"
#include "primitives/convolution/convolution.h"

namespace polymio::convolution {
namespace {

constexpr std::int64_t kThreads = 256;  // as in the kernel

class GpuReference final : public GpuSolver<Problem> {
 public:
  GpuReference(const SolverInfo& info, Direction d) : GpuSolver(info), direction_(d) {}

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    POLYMIO_REQUIRE(p.direction == direction_, "serves another direction");
    return gpu::check_device(d, p);
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint&) const override {
    constexpr double kLaunchUs = 5, kEfficiency = 0.01;
    return kLaunchUs + p.flops() / (1e3 * d.fp32_gflops * kEfficiency);
  }

  std::vector<KernelSpec> kernel_specs(const DeviceInfo& d, const Problem& p, const TunePoint&) const override {
    static constexpr const char* kEntries[] = {"reference_forward", "reference_backward_data",
                                               "reference_backward_weights"};
    auto options = gpu::type_options(d, p);
    options.emplace_back(p.first_input().type == DataType::kInt8 ? "-DSUM=i64" : "-DSUM=real");
    return {{"primitives/convolution/gpu/reference.cl", kEntries[static_cast<int>(direction_)], std::move(options)}};
  }

  Invoker assemble(const DeviceInfo& d, const Problem& p, const TunePoint&, const Kernels& kernels) const override {
    constexpr std::int64_t kMaxBlocks = 1 << 20;
    const std::int64_t blocks = std::clamp<std::int64_t>((p.output().count() + kThreads - 1) / kThreads, 1, kMaxBlocks);
    return [p, shape = launch_shape(kThreads, blocks), kernel = kernels[0], wide = d.gpu.fp64, sizes = gpu::sizes_of(p),
            steps = gpu::steps_of(p), strides = gpu::strides_of(p)](Stream& stream, const Args& a) {
      const auto [first, second, output] = gpu::operands_of(p, a);
      if (wide)
        return launch(stream, *kernel, shape, first, second, output, sizes, steps, strides, a.alpha, a.beta, a.seed);
      const auto alpha = static_cast<float>(a.alpha), beta = static_cast<float>(a.beta);
      launch(stream, *kernel, shape, first, second, output, sizes, steps, strides, alpha, beta, a.seed);
    };
  }

 private:
  Direction direction_;
};

}  // namespace

std::unique_ptr<const SolverBase> gpu_reference(const SolverInfo& info, Direction d) {
  return std::make_unique<GpuReference>(info, d);
}

}  // namespace polymio::convolution
