// Memory throughput of a GPU's memory-bound operations relative to a device copy: layout transposes, OpTensor, bias,
// activations. Usage: gpu_bandwidth [DEVICE]; prints one line per operation, the best of several runs.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "core/handle.h"
#include "primitives/activation/activation.h"
#include "primitives/tensor_ops/tensor_ops.h"

namespace polymio {
namespace {

class Bench {
 public:
  explicit Bench(const char* device) : handle_(device, nullptr), stream_(handle_.stream()) {}

  /// Microseconds per call, averaged over a batch of calls.
  double time(const std::function<void()>& call) {
    constexpr int kRuns = 10, kCalls = 20;
    double best = 1e30;
    for (int i = 0; i < 3; ++i) call();
    for (int i = 0; i < kRuns; ++i) {
      const auto from = stream_.record();
      for (int j = 0; j < kCalls; ++j) call();
      const auto to = stream_.record();
      best = std::min(best, stream_.elapsed_us(*from, *to) / kCalls);
    }
    return best;
  }

  void run(DataType type, std::int64_t n, std::int64_t c, std::int64_t side) {
    const std::int64_t lens[] = {n, c, side, side}, channels[] = {1, c, 1, 1};
    const TensorDesc nchw = make_tensor(type, Layout::kNCHW, lens), nhwc = make_tensor(type, Layout::kNHWC, lens);
    const TensorDesc bias = make_tensor(type, Layout::kNCHW, channels);
    const Memory x(handle_, nchw.bytes()), y(handle_, nchw.bytes()), z(handle_, nchw.bytes()), b(handle_, bias.bytes());
    const float zero = 0;
    for (const Memory* m : {&x, &y, &z}) tensor_ops::set(stream_, {nchw, m->data()}, &zero);
    tensor_ops::set(stream_, {bias, b.data()}, &zero);
    const double bytes = static_cast<double>(nchw.bytes());
    const double copy = 2 * bytes / time([&] { stream_.copy(y.data(), x.data(), nchw.bytes()); });
    fmt::print("{} {}x{}x{}x{}: copy {:.0f} GB/s", name_of(type), n, c, side, side, copy * 1e-3);
    const auto line = [&](const char* name, double moved, const std::function<void()>& call) {
      fmt::print(", {} {:.2f}", name, moved / time(call) / copy);
    };
    using tensor_ops::Op;
    line("to NHWC", 2 * bytes, [&] { tensor_ops::transform(stream_, 1, {nchw, x.data()}, 0, {nhwc, y.data()}); });
    line("to NCHW", 2 * bytes, [&] { tensor_ops::transform(stream_, 1, {nhwc, x.data()}, 0, {nchw, y.data()}); });
    line("add", 3 * bytes, [&] {
      tensor_ops::op_tensor(stream_, Op::kAdd, 1, {nchw, x.data()}, 1, {nchw, y.data()}, 0, {nchw, z.data()});
    });
    line("add a bias", 2 * bytes, [&] {
      tensor_ops::op_tensor(stream_, Op::kAdd, 1, {nchw, x.data()}, 1, {bias, b.data()}, 0, {nchw, z.data()});
    });
    line("add a bias in NHWC", 2 * bytes, [&] {
      tensor_ops::op_tensor(stream_, Op::kAdd, 1, {nhwc, x.data()}, 1, {bias, b.data()}, 0, {nhwc, z.data()});
    });
    line("bias gradient", bytes, [&] { tensor_ops::bias_backward(stream_, 1, {nchw, x.data()}, 0, {bias, b.data()}); });
    line("bias gradient in NHWC", bytes, [&] {
      tensor_ops::bias_backward(stream_, 1, {nhwc, x.data()}, 0, {bias, b.data()});
    });
    for (const auto mode : {activation::Mode::kRelu, activation::Mode::kTanh}) {
      activation::Problem::Args args;
      args.x = x.data();
      args.result = y.data();
      args.parameters = {1, 1, 1};
      const auto forward = activation::forward_problem(mode, nchw, nchw);
      line(activation::name_of(mode), 2 * bytes, [&] { activation::run(handle_, forward, args); });
    }
    fmt::print("\n");
  }

 private:
  Handle handle_;
  Stream& stream_;
};

}  // namespace
}  // namespace polymio

int main(int argc, char** argv) try {
  polymio::Bench bench(argc > 1 ? argv[1] : "cuda:0");
  using enum polymio::DataType;
  for (const auto type : {kFloat, kHalf, kBFloat16}) {
    bench.run(type, 128, 256, 56);
    bench.run(type, 256, 512, 28);
    bench.run(type, 512, 1024, 7);
  }
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\nusage: gpu_bandwidth [DEVICE, default cuda:0]\n", e.what());
  return 2;
}
