// Speed of every CPU convolution solver without find or the C API: each distinct ResNet-50 layer in three
// directions, as percentages of the measured fp32 peak.
// Usage: kernels_bench [batch] [threads] [nchw|nhwc] [part of a layer's name]
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "primitives/convolution/convolution.h"

namespace {

using namespace polymio;
using convolution::Direction;
using convolution::Problem;
using std::int64_t;

struct Layer {
  const char* name;
  int64_t c, k, size, taps, stride;
};
constexpr Layer kLayers[] = {
    {"conv1", 3, 64, 224, 7, 2},      {"2.1x1a", 64, 64, 56, 1, 1},    {"2.3x3", 64, 64, 56, 3, 1},
    {"2.1x1b", 64, 256, 56, 1, 1},    {"2.1x1c", 256, 64, 56, 1, 1},   {"3.1x1a", 256, 128, 56, 1, 1},
    {"3.3x3s2", 128, 128, 56, 3, 2},  {"3.1x1b", 128, 512, 28, 1, 1},  {"3.ds", 256, 512, 56, 1, 2},
    {"3.1x1c", 512, 128, 28, 1, 1},   {"3.3x3", 128, 128, 28, 3, 1},   {"4.1x1a", 512, 256, 28, 1, 1},
    {"4.3x3s2", 256, 256, 28, 3, 2},  {"4.1x1b", 256, 1024, 14, 1, 1}, {"4.ds", 512, 1024, 28, 1, 2},
    {"4.1x1c", 1024, 256, 14, 1, 1},  {"4.3x3", 256, 256, 14, 3, 1},   {"5.1x1a", 1024, 512, 14, 1, 1},
    {"5.3x3s2", 512, 512, 14, 3, 2},  {"5.1x1b", 512, 2048, 7, 1, 1},  {"5.ds", 1024, 2048, 14, 1, 2},
    {"5.1x1c", 2048, 512, 7, 1, 1},   {"5.3x3", 512, 512, 7, 3, 1}};

Problem problem_of(const Layer& layer, int64_t batch, Layout layout, Direction direction) {
  Problem p;
  p.direction = direction;
  const int64_t out = (layer.size + 2 * (layer.taps / 2) - layer.taps) / layer.stride + 1;
  const int64_t x[] = {batch, layer.c, layer.size, layer.size}, y[] = {batch, layer.k, out, out};
  const int64_t w[] = {layer.k, layer.c, layer.taps, layer.taps};
  p.x = make_tensor(DataType::kFloat, layout, x);
  p.w = make_tensor(DataType::kFloat, layout, w);
  p.y = make_tensor(DataType::kFloat, layout, y);
  p.geometry.pad = {layer.taps / 2, layer.taps / 2, 0};
  p.geometry.stride = {layer.stride, layer.stride, 1};
  return p;
}

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Median of a few runs after one warm-up.
template <class Run>
double median_time(const Run& run) {
  run();
  std::vector<double> times;
  const double begin = seconds();
  while (times.size() < 5 || (times.size() < 25 && seconds() - begin < 0.1)) {
    const double start = seconds();
    run();
    times.push_back(seconds() - start);
  }
  std::nth_element(times.begin(), times.begin() + static_cast<long>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

void bench_layer(Stream& stream, const Layer& layer, int64_t batch, Layout layout, double peak) {
  static constexpr const char* kDirections[] = {"fwd", "bwd", "wrw"};
  for (const Direction d : {Direction::kForward, Direction::kBackwardData, Direction::kBackwardWeights}) {
    const Problem p = problem_of(layer, batch, layout, d);
    std::vector<float> x(static_cast<std::size_t>(p.x.count()), 0.5f);
    std::vector<float> w(static_cast<std::size_t>(p.w.count()), 0.25f);
    std::vector<float> y(static_cast<std::size_t>(p.y.count()), 0.125f);
    std::printf("%-8s %s", layer.name, kDirections[static_cast<int>(d)]);
    for (const SolverBase* s : convolution::solvers(d)) {
      if (s->info().reference || !s->is_applicable(stream.info(), p)) continue;
      std::vector<char> workspace(s->workspace_size(stream.info(), p, {}));
      const AnyInvoker invoke = s->build(stream, p, {});
      const Problem::Args args{.x = x.data(), .w = w.data(), .y = y.data(), .workspace = workspace.data(),
                               .workspace_bytes = workspace.size()};
      const double time = median_time([&] { invoke(stream, &args); });
      std::printf("  %s %.3f ms %.1f%%", s->info().name + std::strlen("ConvCpu"), time * 1e3,
                  100 * p.flops() / time / peak);
    }
    std::printf("\n");
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int batch = argc > 1 ? std::atoi(argv[1]) : 4;
  const Layout layout = argc > 3 && std::strcmp(argv[3], "nhwc") == 0 ? Layout::kNHWC : Layout::kNCHW;
  const char* only = argc > 4 ? argv[4] : "";
  const std::unique_ptr<Stream> stream = create_stream("cpu", nullptr);
  stream->set_threads(argc > 2 ? std::atoi(argv[2]) : 0);
  const double peak = stream->measure_peak().fp32_gflops * 1e9;
  std::printf("measured fp32 peak: %.0f GFLOP/s with %d threads\n", peak * 1e-9, stream->threads());
  for (const Layer& layer : kLayers) {
    if (std::strstr(layer.name, only) != nullptr) bench_layer(*stream, layer, batch, layout, peak);
  }
  return 0;
}
