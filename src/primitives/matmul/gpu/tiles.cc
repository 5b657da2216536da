// MatmulGpuTiles: tiles of c by blocks of threads, any strides and types, no workspace. Tuning knob: the tile.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/math.h"
#include "core/kernel_builder.h"
#include "kernels/gpu/portable/conv_shapes.h"
#include "kernels/gpu/portable/matmul_shape.h"
#include "primitives/matmul/solvers.h"

namespace polymio::matmul {
namespace {

/// resident: blocks per multiprocessor; efficiency: fraction of the peak on large products.
struct Tile {
  int m, n, k, thread_m, thread_n, resident;
  double efficiency;
  std::int64_t threads() const { return std::int64_t{m / thread_m} * (n / thread_n); }
};
constexpr Tile kTiles[] = {{64, 64, 16, 4, 4, 3, 0.45},
                           {16, 64, 16, 4, 4, 8, 0.25},
                           {64, 16, 16, 4, 4, 8, 0.25},
                           {128, 128, 8, 8, 8, 2, 0.60},
                           {128, 64, 16, 8, 4, 2, 0.55}};
constexpr int kTileCount = static_cast<int>(std::size(kTiles));
constexpr int kLargestWideTile = 3;  // the local memory of later ones does not suffice for fp64

const Tile& tile_of(const TunePoint& t) { return kTiles[static_cast<std::size_t>(t[0])]; }
int tile_count(const Problem& p) { return is_wide(p) ? kLargestWideTile + 1 : kTileCount; }

/// Which accesses of neighbouring threads are neighbours in memory.
struct Orders {
  bool a_along_depth, b_along_depth, fast_n;
};
Orders orders_of(const Shape& s) {
  const auto is_closer = [](std::int64_t stride, std::int64_t other) {
    return other == 0 || (stride != 0 && stride < other);
  };
  return {is_closer(s.a_depth, s.a_row), is_closer(s.b_depth, s.b_column), is_closer(s.c_column, s.c_row)};
}

struct WideScalars {  // as in matmul.cl
  double alpha, beta;
};

KernelSpec spec_of(const DeviceInfo& d, DataType in, DataType out, const Orders& orders, const Tile& tile,
                   const Epilogue& epilogue) {
  const std::pair<const char*, int> flags[] = {{"WIDE", in == DataType::kDouble},
                                               {"A_ALONG_DEPTH", orders.a_along_depth},
                                               {"B_ALONG_DEPTH", orders.b_along_depth},
                                               {"FAST_N", orders.fast_n},
                                               {"TILE_M", tile.m},
                                               {"TILE_N", tile.n},
                                               {"TILE_K", tile.k},
                                               {"THREAD_M", tile.thread_m},
                                               {"THREAD_N", tile.thread_n},
                                               {"RESIDENT", tile.resident},
                                               {"HAS_BIAS", epilogue.bias},
                                               {"MODE", epilogue.activation}};
  std::vector<std::string> options = {fmt::format("-DIN={}", name_of(in)), fmt::format("-DOUT={}", name_of(out))};
  for (const auto& [name, value] : flags) options.push_back(fmt::format("-D{}={}", name, value));
  if (d.gpu.fp64) options.emplace_back("-DFP64");
  return {"primitives/matmul/gpu/matmul.cl", "matmul", options};
}

std::int64_t blocks_of(const Shape& s, const Tile& tile) {
  return ceil_div(s.m, tile.m) * ceil_div(s.n, tile.n) * s.batch.count();
}

kernels::MatmulShape matrices_of(const Shape& s, const Tile& tile) {
  const auto narrow = [](std::int64_t v) { return static_cast<int>(v); };
  return {s.a_row,
          s.a_depth,
          s.b_depth,
          s.b_column,
          s.c_row,
          s.c_column,
          narrow(s.m),
          narrow(s.n),
          narrow(s.k),
          narrow(ceil_div(s.m, tile.m)),
          narrow(ceil_div(s.n, tile.n))};
}

kernels::MatmulBatch batch_of(const Shape& s) {
  constexpr std::size_t kDims = std::size(kernels::MatmulBatch{}.size);
  kernels::MatmulBatch batch = {{1, 1, 1}, {}, {}, {}};
  for (std::size_t d = 0; d < s.batch.rank; ++d) {
    const Loop::Dim& dim = s.batch.dims[d];
    const std::size_t to = d + kDims - s.batch.rank;
    batch.size[to] = dim.size;
    batch.a[to] = dim.strides[Shape::kA];
    batch.b[to] = dim.strides[Shape::kB];
    batch.c[to] = dim.strides[Shape::kC];
  }
  return batch;
}

class GpuTiles final : public GpuSolver<Problem> {
 public:
  using GpuSolver::GpuSolver;

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    constexpr std::int64_t kMost = std::int64_t{1} << 30;
    POLYMIO_REQUIRE(d.kind != DeviceKind::kCpu, "does not run on this kind of device");
    POLYMIO_REQUIRE(d.gpu.fp64 || !is_wide(p), "the device has no double-precision arithmetic");
    const Shape s = shape_of(p);
    POLYMIO_REQUIRE_MOST(std::max({s.m, s.n, s.k}), kMost, "rows, columns or depths");
    for (const Tile& tile : kTiles) POLYMIO_REQUIRE_MOST(blocks_of(s, tile), kMost, "tiles of c");
    return {};
  }

  TuneSpace tune_space(const DeviceInfo&, const Problem& p) const override {
    Knob knob{"tile", {}};
    for (int i = 0; i < tile_count(p); ++i) knob.values.push_back(i);
    return {knob};
  }
  bool is_valid(const DeviceInfo&, const Problem& p, const TunePoint& t) const override {
    return t.size() == 1 && t[0] >= 0 && t[0] < tile_count(p);
  }
  TunePoint default_point(const DeviceInfo& d, const Problem& p) const override {
    TunePoint best = {0};
    for (int i = 1; i < tile_count(p); ++i)
      if (estimate(d, p, {i}) < estimate(d, p, best)) best = {i};
    return best;
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& t) const override {
    constexpr double kLaunchUs = 3, kStepUs = 0.5;  // kStepUs: latency of a step's loads
    const Tile& tile = tile_of(t);
    const Shape s = shape_of(p);
    const auto steps = static_cast<double>(ceil_div(s.k, tile.k) + 1);
    const auto waves = static_cast<double>(ceil_div(blocks_of(s, tile), std::int64_t{d.units} * tile.resident));
    const double block = 2.0 * tile.m * tile.n * tile.k * steps;
    const double peak = std::max(d.fp32_gflops, 1.0) * (is_wide(p) ? 0.5 : 1);
    const double compute = waves * tile.resident * block * d.units / (1e3 * peak * tile.efficiency);
    const double memory = tensor_bytes(p) / (1e3 * std::max(d.bandwidth_gbs, 1.0));
    return kLaunchUs + std::max({compute, memory, waves * steps * kStepUs});
  }

  std::vector<KernelSpec> kernel_specs(const DeviceInfo& d, const Problem& p, const TunePoint& t) const override {
    return {spec_of(d, p.a.type, p.c.type, orders_of(shape_of(p)), tile_of(t), p.epilogue)};
  }

  Invoker assemble(const DeviceInfo&, const Problem& p, const TunePoint& t, const Kernels& built) const override {
    const Tile& tile = tile_of(t);
    const Shape s = shape_of(p);
    const Launch shape = launch_shape(tile.threads(), blocks_of(s, tile));
    return [built, shape, wide = is_wide(p), has_bias = p.epilogue.bias, matrices = matrices_of(s, tile),
            batch = batch_of(s)](Stream& stream, const Args& a) {
      const auto run = [&](const auto& scalars) {
        launch(stream, *built[0], shape, Buffer(a.a), Buffer(a.b), Buffer(a.c), matrices, batch, a.a_at, a.b_at, a.c_at,
               Buffer(has_bias ? a.bias : a.c), scalars);
      };
      const auto real = [](double v) { return static_cast<float>(v); };
      wide ? run(WideScalars{a.alpha, a.beta})
           : run(kernels::EpilogueScalars{real(a.alpha), real(a.beta), real(a.activation_alpha),
                                          real(a.activation_beta), real(a.activation_gamma)});
    };
  }
};

}  // namespace

std::vector<KernelSpec> programs(const DeviceInfo& device, DataType in, DataType out) {
  if (device.kind == DeviceKind::kCpu || (in == DataType::kDouble && !device.gpu.fp64)) return {};
  std::vector<KernelSpec> specs;
  for (const bool along_depth : {false, true}) {
    const Orders orders{along_depth, along_depth, along_depth};
    specs.push_back(spec_of(device, in, out, orders, kTiles[along_depth ? kLargestWideTile : 0], {}));
  }
  return specs;
}

std::unique_ptr<const SolverBase> gpu_tiles(const SolverInfo& info, Direction) {
  return std::make_unique<GpuTiles>(info);
}

}  // namespace polymio::matmul
