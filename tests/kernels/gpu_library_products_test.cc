// ConvCudaGemm without CUDA: its matrices are gathered and summed by the GPU that POLYMIO_TEST_DEVICE names, and the
// host multiplies them where cuBLASLt would. Checks what is multiplied, in whole images and in parts of images.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "core/handle.h"
#include "core/registry.h"
#include "primitives/convolution/definition.h"
#include "tests/convolution/trial.h"
#include "tests/device.h"
#include "tests/kernels/forwarding_stream.h"

namespace polymio::test {
namespace {

float widened(const std::vector<unsigned char>& bytes, DataType type, std::int64_t i) {
  std::uint32_t bits = 0;
  if (type == DataType::kFloat) {
    std::memcpy(&bits, &bytes[static_cast<std::size_t>(i) * 4], 4);
  } else {
    std::uint16_t high = 0;
    std::memcpy(&high, &bytes[static_cast<std::size_t>(i) * 2], 2);
    bits = static_cast<std::uint32_t>(high) << 16;
  }
  float value = 0;
  std::memcpy(&value, &bits, 4);
  return value;
}

void store(std::vector<unsigned char>& bytes, DataType type, std::int64_t i, float value) {
  if (type == DataType::kFloat) {
    std::memcpy(&bytes[static_cast<std::size_t>(i) * 4], &value, 4);
    return;
  }
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, 4);
  const auto high = static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
  std::memcpy(&bytes[static_cast<std::size_t>(i) * 2], &high, 2);
}

/// Computes the product by its definition, on the host.
class HostMultiplier final : public Multiplier {
 public:
  HostMultiplier(Stream& device, const MatrixProduct& p) : device_(device), p_(p) {}
  void run(Stream&, const Operands& o) const override {
    const auto a =
        read(o.a, p_.in, p_.transpose_a ? p_.k : p_.m, p_.transpose_a ? p_.m : p_.k, p_.step_a, p_.batch_step_a);
    const auto b =
        read(o.b, p_.in, p_.transpose_b ? p_.n : p_.k, p_.transpose_b ? p_.k : p_.n, p_.step_b, p_.batch_step_b);
    auto c = read(o.c, p_.out, p_.m, p_.n, p_.step_c, p_.batch_step_c);
    for (std::int64_t batch = 0; batch < p_.batch; ++batch)
      for (std::int64_t n = 0; n < p_.n; ++n)
        for (std::int64_t m = 0; m < p_.m; ++m) {
          float sum = 0;
          for (std::int64_t k = 0; k < p_.k; ++k)
            sum +=
                widened(a, p_.in, batch * p_.batch_step_a + (p_.transpose_a ? m * p_.step_a + k : k * p_.step_a + m)) *
                widened(b, p_.in, batch * p_.batch_step_b + (p_.transpose_b ? k * p_.step_b + n : n * p_.step_b + k));
          const std::int64_t at = batch * p_.batch_step_c + n * p_.step_c + m;
          const float old = o.beta == 0 ? 0 : o.beta * widened(c, p_.out, at);
          store(c, p_.out, at, o.alpha * sum + old);
        }
    device_.upload(Buffer(o.c), c.data(), c.size());
  }

 private:
  /// The bytes of column-major matrices, from the first element to the last.
  std::vector<unsigned char> read(const void* from, DataType type, std::int64_t rows, std::int64_t cols,
                                  std::int64_t step, std::int64_t batch_step) const {
    const std::int64_t count = (p_.batch - 1) * batch_step + (cols - 1) * step + rows;
    std::vector<unsigned char> bytes(static_cast<std::size_t>(count) * size_of(type));
    device_.download(bytes.data(), Buffer(from), bytes.size());
    return bytes;
  }

  Stream& device_;
  MatrixProduct p_;
};

/// A stream whose products the host computes.
class HostProducts final : public ForwardingStream {
 public:
  using ForwardingStream::ForwardingStream;
  std::unique_ptr<Multiplier> multiplier(const MatrixProduct& p, int) override {
    return std::make_unique<HostMultiplier>(device_, p);
  }
};

struct Layer {
  const char* line;
  TunePoint point;  // choice, MiB for the library, MiB of a part
};

TEST(GpuLibraryProducts, MultiplyPartsOfTheMatrix) {
  if (on_cpu()) GTEST_SKIP() << "no GPU";
  const TunePoint whole = {0, 32, 32}, mib = {0, 0, 1};
  const Layer layers[] = {
      {"convbfp16 -n 3 -c 6 -H 7 -W 9 -k 4 -y 3 -x 3 -p 1 -q 1 -F 0 -g 2 --alpha 0.5 --beta 2", whole},
      {"convbfp16 -n 3 -c 16 -H 7 -W 9 -k 4 -y 3 -x 3 -p 1 -q 1 -F 0 -I NHWC -f NHWC -O NHWC --beta 1", whole},
      // Runs of images
      {"convbfp16 -n 9 -c 16 -H 31 -W 32 -k 4 -y 3 -x 3 -p 1 -q 1 -F 0", mib},
      // Parts of an image: of its pixels, or of its channels backward
      {"convbfp16 -_ 3 -n 2 -c 40 -! 4 -H 9 -W 16 -k 3 -@ 3 -y 3 -x 3 -$ 1 -p 1 -q 1 -F 0 --alpha 0.5 --beta 2", mib},
      {"convbfp16 -_ 3 -n 1 -c 42 -! 4 -H 9 -W 16 -k 3 -@ 3 -y 3 -x 3 -$ 1 -p 1 -q 1 -F 0 -I NDHWC -f NDHWC -O NDHWC",
       mib},
      {"convbfp16 -_ 3 -n 1 -c 40 -! 4 -H 9 -W 16 -k 3 -@ 3 -y 3 -x 3 -$ 1 -p 1 -q 1 -F 0 -f NDHWC", mib},
      {"conv -_ 3 -n 1 -c 20 -! 4 -H 9 -W 17 -k 3 -@ 3 -y 3 -x 3 -$ 1 -p 1 -q 1 -F 0", mib},
      // Patches: copied, in place, in runs of images, and cut
      {"convbfp16 -n 3 -c 6 -H 17 -W 24 -k 10 -y 4 -x 8 -u 4 -v 8 -F 0 -g 2 --alpha 0.5 --beta 2", whole},
      {"convbfp16 -n 3 -c 3 -H 16 -W 25 -k 9 -y 4 -x 8 -u 4 -v 8 -F 0 -I NHWC -f NHWC -O NHWC --beta 1", whole},
      {"convbfp16 -n 3 -c 8 -H 1 -W 42 -k 10 -y 1 -x 6 -u 1 -v 6 -F 0 -I NHWC -f NHWC --alpha 0.5 --beta 2", whole},
      {"conv -n 9 -c 3 -H 128 -W 96 -k 4 -y 16 -x 16 -u 16 -v 16 -F 0 --beta 1", mib},
      {"conv -n 1 -c 3 -H 352 -W 320 -k 4 -y 16 -x 16 -u 16 -v 16 -F 0", mib}};
  Handle handle(device_name(), nullptr);
  HostProducts stream(handle.stream());
  for (const auto& [line, point] : layers)
    for (const auto direction : {driver::kForward, driver::kBackwardData, driver::kBackwardWeights}) {
      const driver::ConvArgs args = driver::parse_line(line);
      const driver::Problem source(args, direction);
      const Trial trial(source);
      const auto& p = trial.problem;
      SCOPED_TRACE(p.key());
      const char* const names[] = {"ConvCudaGemmFwd", "ConvCudaGemmBwd", "ConvCudaGemmWrw"};
      const SolverBase& solver = *solver_by_name(names[static_cast<int>(p.direction)]);
      ASSERT_TRUE(takes(solver, handle.device(), p, point));
      const std::size_t bytes = solver.workspace_size(handle.device(), p, point);
      EXPECT_LT(bytes, point == mib ? std::size_t{2} << 20 : std::size_t{64} << 20);
      const Memory x(handle, trial.x.size()), w(handle, trial.w.size()), y(handle, trial.y.size()),
          workspace(handle, bytes);
      const std::pair<const Memory&, const std::vector<unsigned char>&> contents[] = {
          {x, trial.x}, {w, trial.w}, {y, trial.y}};
      for (const auto& [memory, content] : contents) stream.upload(memory.data(), content.data(), content.size());
      const convolution::Problem::Args arguments{.x = x.data(),
                                                 .w = w.data(),
                                                 .y = y.data(),
                                                 .alpha = args.alpha,
                                                 .beta = args.beta,
                                                 .workspace = workspace.data(),
                                                 .workspace_bytes = bytes};
      solver.build(stream, p, point)(stream, &arguments);
      std::vector<unsigned char> result(trial.output_before().size());
      stream.download(result.data(), convolution::output_of(p, arguments), result.size());
      const reference::Comparison found = trial.compare(solver, result.data());
      EXPECT_TRUE(found.ok()) << found.failures << " elements are wrong; worst: " << found.index << " is " << found.got
                              << ", should be " << found.want << " +- " << found.tolerance;
    }
}

}  // namespace
}  // namespace polymio::test
