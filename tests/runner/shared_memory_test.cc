// What the launches of convolutions on NVIDIA's sm90 ask for, without such a device.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "core/kernel_builder.h"
#include "primitives/convolution/convolution.h"
#include "tests/kernels/forwarding_stream.h"
#include "tests/runner/case_files.h"

namespace polymio::test {
namespace {

struct NoKernel final : Kernel {};

/// Launches nothing.
class Device final : public ForwardingStream {
 public:
  explicit Device(Stream& cpu) : ForwardingStream(cpu), info_(usual_device("cuda-sm90")) {}
  const DeviceInfo& info() const override { return info_; }
  void clear(Buffer, std::size_t) override {}
  TensorMap tensor_map(const TensorMapSpec&, Buffer) const override { return {}; }
  void launch(const Kernel&, const Launch& shape, std::span<const Argument>) override {
    most_bytes = std::max(most_bytes, shape.shared_bytes);
  }

  std::uint32_t most_bytes = 0;  // of shared memory

 private:
  DeviceInfo info_;
};

TEST(CaseLines, EveryPointFitsSharedMemory) {
  constexpr std::uint32_t kMost = 227 << 10;  // of a block on sm90
  Handle cpu("cpu", nullptr);
  Device device(cpu.stream());
  int points = 0;
  for (const CaseFile& file : case_files()) {
    if (file.primitive->name != std::string_view("convolution") || !file.name.starts_with("gpu_hopper")) continue;
    for (const std::string& line : file.lines())
      for (const std::unique_ptr<Case>& c : file.primitive->parse(line))
        for (const SolverBase* s : convolution::solvers(
                 static_cast<const convolution::Problem&>(c->problem()).direction, DeviceKind::kCuda)) {
          const auto* solver = dynamic_cast<const GpuSolver<convolution::Problem>*>(s);
          if (!solver || !std::string_view(s->info().name).starts_with("ConvHopper")) continue;
          const auto& p = static_cast<const convolution::Problem&>(c->problem());
          if (!solver->is_applicable(device.info(), p)) continue;
          for (const TunePoint& point : valid_points(*s, device.info(), p)) {
            const Kernels kernels(solver->kernel_specs(device.info(), p, point).size(), std::make_shared<NoKernel>());
            device.most_bytes = 0;
            c->run(solver->assemble(device.info(), p, point, kernels).any(), device,
                   std::vector<void*>(c->operands.size()), nullptr, 0);
            EXPECT_LE(device.most_bytes, kMost) << s->info().name << ' ' << to_text(point) << ": " << c->line();
            ++points;
          }
        }
  }
  EXPECT_GT(points, 0);
}

}  // namespace
}  // namespace polymio::test
