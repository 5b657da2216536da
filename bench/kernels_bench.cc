// Speed of the CPU convolution kernels without the library around them: every distinct ResNet-50
// layer, three directions, as a percentage of the measured multiply-add peak.
// Usage: kernels_bench [batch] [threads] [nchw|nhwc] [generic|avx2|avx512]
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "kernels/cpu/conv_gemm.h"
#include "kernels/cpu/kernels.h"

namespace {

using namespace polymio;
using namespace polymio::kernels;
using std::int64_t;

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Memory of one thread, aligned for the kernels.
struct Scratch {
  explicit Scratch(std::size_t bytes)
      : memory(static_cast<char*>(std::aligned_alloc(kScratchAlignment, (bytes + 127) / 64 * 64)),
               std::free) {}
  std::unique_ptr<char, void (*)(void*)> memory;
};

void run_tasks(int threads, std::size_t tasks, const std::function<void(std::size_t, int)>& task) {
  std::atomic<std::size_t> next{0};
  auto work = [&](int thread) {
    for (std::size_t i; (i = next++) < tasks;) task(i, thread);
  };
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(work, t);
  work(0);
  for (std::thread& t : others) t.join();
}

/// Median of a few runs after one warm-up.
double median_time(const std::function<void()>& run) {
  run();
  std::vector<double> times;
  const double begin = seconds();
  while (times.size() < 3 || (times.size() < 25 && seconds() - begin < 0.15)) {
    const double start = seconds();
    run();
    times.push_back(seconds() - start);
  }
  std::nth_element(times.begin(), times.begin() + static_cast<long>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

/// A product whose operands stay in the first-level cache: all multiply-adds, as fast as it gets.
double peak_flops(const KernelTable& table, int threads) {
  const TileShape tile = table.gemm_tile(DataType::kFloat);
  const int64_t m = tile.rows * 16, n = tile.columns, k = 256;
  std::vector<float> a(static_cast<std::size_t>(m * k), 1), b(static_cast<std::size_t>(n * k), 1);
  Gemm g;
  g.m = m;
  g.n = n;
  g.k = k;
  g.a.data = a.data();
  g.a.lanes.level[3] = {m, k};
  g.a.depth.level[3] = {k, 1};
  g.b.data = b.data();
  g.b.lanes.level[3] = {n, 1};
  g.b.depth.level[3] = {k, n};
  g.c.rows.level[3] = {m, n};
  g.c.columns.level[3] = {n, 1};
  double best = 0;
  for (int repeat = 0; repeat < 3; ++repeat) {
    const double start = seconds();
    run_tasks(threads, static_cast<std::size_t>(threads), [&](std::size_t, int) {
      Gemm mine = g;
      std::vector<float> c(static_cast<std::size_t>(m * n));
      mine.c.data = c.data();
      Scratch scratch(table.gemm_scratch(mine, m, n));
      for (int i = 0; i < 2000; ++i) table.gemm(mine, 0, m, 0, n, scratch.memory.get());
    });
    best = std::max(best, 2.0 * 2000 * threads * static_cast<double>(m * n * k) / (seconds() - start));
  }
  return best;
}

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

ConvShape shape_of(const Layer& layer, int64_t batch, bool channels_last) {
  ConvShape s;
  s.n = batch;
  s.c = layer.c;
  s.k = layer.k;
  for (int d = 1; d < kSpatial; ++d) {
    s.in[d] = layer.size;
    s.taps[d] = layer.taps;
    s.stride[d] = layer.stride;
    s.pad[d] = layer.taps / 2;
    s.out[d] = (layer.size + 2 * s.pad[d] - layer.taps) / layer.stride + 1;
  }
  set_packed_strides(s, channels_last);
  return s;
}

struct Tensors {
  std::vector<float> x, w, y;
};

double time_direction(const KernelTable& table, const ConvShape& s, ConvDirection direction,
                      Tensors& t, int threads) {
  const std::vector<ConvProduct> products = conv_products(s, direction);
  const auto pieces =
      cut_products(products, s.groups, table.gemm_tile(DataType::kFloat), threads);
  std::size_t bytes = 0;
  for (const ConvPiece& p : pieces) {
    const Gemm& g = products[static_cast<std::size_t>(p.product)].gemm;
    bytes = std::max(bytes, table.gemm_scratch(g, p.m1 - p.m0, p.n1 - p.n0));
  }
  std::vector<Scratch> scratch;
  for (int i = 0; i < threads; ++i) scratch.emplace_back(bytes);
  float* tensors[] = {t.x.data(), t.w.data(), t.y.data()};
  float* result = direction == ConvDirection::kForward        ? t.y.data()
                  : direction == ConvDirection::kBackwardData ? t.x.data()
                                                              : t.w.data();
  return median_time([&] {
    run_tasks(threads, pieces.size(), [&](std::size_t i, int thread) {
      const ConvPiece& piece = pieces[i];
      const ConvProduct& p = products[static_cast<std::size_t>(piece.product)];
      Gemm g = p.gemm;
      g.a.data = tensors[static_cast<int>(p.a)] + piece.group * p.a_group;
      g.b.data = tensors[static_cast<int>(p.b)] + piece.group * p.b_group;
      g.c.data = result + piece.group * p.c_group;
      table.gemm(g, piece.m0, piece.m1, piece.n0, piece.n1,
                 scratch[static_cast<std::size_t>(thread)].memory.get());
    });
  });
}

}  // namespace

int main(int argc, char** argv) {
  const int batch = argc > 1 ? std::atoi(argv[1]) : 4, threads = argc > 2 ? std::atoi(argv[2]) : 2;
  const bool channels_last = argc > 3 && std::strcmp(argv[3], "nhwc") == 0;
  const Isa isa = argc > 4 && std::strcmp(argv[4], "generic") == 0 ? Isa::kGeneric
                  : argc > 4 && std::strcmp(argv[4], "avx2") == 0  ? Isa::kAvx2
                                                                   : Isa::kAvx512;
  const KernelTable& table = kernel_table(isa);
  const double peak = peak_flops(table, threads);
  std::printf("peak %.0f GFLOP/s (%d threads)\n%-8s %6s | %8s %5s | %8s %5s | %8s %5s\n", peak * 1e-9,
              threads, "layer", "MFLOP", "fwd ms", "%", "bwd ms", "%", "wrw ms", "%");
  double total[3] = {0, 0, 0};
  for (const Layer& layer : kLayers) {
    const ConvShape s = shape_of(layer, batch, channels_last);
    const auto pixels_in = static_cast<std::size_t>(s.n * s.in[1] * s.in[2]);
    const auto pixels_out = static_cast<std::size_t>(s.n * s.out[1] * s.out[2]);
    Tensors t;
    t.x.assign(pixels_in * static_cast<std::size_t>(s.c), 0.5f);
    t.w.assign(static_cast<std::size_t>(s.c * s.k * s.taps[1] * s.taps[2]), 0.25f);
    t.y.assign(pixels_out * static_cast<std::size_t>(s.k), 0.125f);
    const double flops = 2.0 * static_cast<double>(pixels_out) * static_cast<double>(t.w.size());
    std::printf("%-8s %6.0f", layer.name, flops * 1e-6);
    for (int d = 0; d < 3; ++d) {
      const double time = time_direction(table, s, static_cast<ConvDirection>(d), t, threads);
      total[d] += time;
      std::printf(" | %8.3f %5.1f", time * 1e3, 100 * flops / time / peak);
      std::fflush(stdout);
    }
    std::printf("\n");
  }
  std::printf("%-8s %6s | %8.3f %5s | %8.3f %5s | %8.3f\n", "total", "", total[0] * 1e3, "",
              total[1] * 1e3, "", total[2] * 1e3);
  return 0;
}
