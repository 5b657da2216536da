// MatmulCpuGemm: the blocked GEMM kernels on pieces of c, many small matrices per task. Rows or columns of one to four
// are dot products or sums of scaled lines there, which read the large operand once. Tuning knobs: pieces per thread
// (0: as predicted), depths per block of summation.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <memory>
#include <utility>

#include "base/math.h"
#include "kernels/cpu/conv_gemm.h"
#include "kernels/cpu/epilogue.h"
#include "kernels/cpu/kernels_of.h"
#include "primitives/matmul/solvers.h"

namespace polymio::matmul {

namespace {

using kernels::Axis;
using kernels::Gemm;
using kernels::GemmKernels;

enum Knobs : std::size_t { kPieces, kDepth };

constexpr int kDepthBlocks[] = {static_cast<int>(kernels::kGemmDepthBlock), 256, 1024};

/// The stride of size 1 is arbitrary, and kernels look for 1.
Axis axis(std::int64_t size, std::int64_t stride) {
  Axis a;
  a.level[kernels::kLevels - 1] = {size, size == 1 ? 1 : stride, -1, 0};
  return a;
}

/// The product of the first matrices.
Gemm gemm_of(const Problem& p, const Shape& s, std::int64_t depth_block) {
  Gemm g;
  g.m = s.m;
  g.n = s.n;
  g.k = s.k;
  g.a.dtype = p.a.type;
  g.a.lanes = axis(s.m, s.a_row);
  g.a.depth = axis(s.k, s.a_depth);
  g.b.dtype = p.b.type;
  g.b.lanes = axis(s.n, s.b_column);
  g.b.depth = axis(s.k, s.b_depth);
  g.c.dtype = p.c.type;
  g.c.rows = axis(s.m, s.c_row);
  g.c.columns = axis(s.n, s.c_column);
  g.depth_block = depth_block;
  return g;
}

/// All products, cut into pieces of c. Immutable.
class Products {
 public:
  Products(const Problem& p, const TunePoint& t, const DeviceInfo& device, int threads)
      : kernels_(&kernels::kernels_of<GemmKernels>(device.isa)), epilogue_(p.epilogue), batch_(shape_of(p).batch) {
    constexpr double kTaskOperations = 1 << 18;
    const Shape s = shape_of(p);
    gemm_ = gemm_of(p, s, t[kDepth]);
    exchanged_ = kernels::transpose_if_faster(gemm_);
    const kernels::CutRequest request{0, t[kPieces]};
    cut_ = kernels::cut_of(gemm_, batch_.count(), kernels_->tile(p.a.type), threads, request);
    row_parts_ = ceil_div(gemm_.m, cut_.rows);
    column_parts_ = ceil_div(gemm_.n, cut_.columns);
    pieces_ = batch_.count() * row_parts_ * column_parts_;
    const double operations = 2.0 * static_cast<double>(std::min(cut_.rows, gemm_.m)) *
                              static_cast<double>(std::min(cut_.columns, gemm_.n)) *
                              static_cast<double>(std::max<std::int64_t>(gemm_.k, 16));
    per_task_ = std::clamp<std::int64_t>(static_cast<std::int64_t>(kTaskOperations / operations), 1, pieces_);
    for (const std::int64_t rows : {std::min(cut_.rows, gemm_.m), gemm_.m - (row_parts_ - 1) * cut_.rows})
      for (const std::int64_t columns : {std::min(cut_.columns, gemm_.n), gemm_.n - (column_parts_ - 1) * cut_.columns})
        scratch_bytes_ = std::max(scratch_bytes_, kernels_->scratch(gemm_, rows, columns));
  }

  std::size_t scratch_bytes() const { return scratch_bytes_; }

  void run(Stream& stream, const Problem::Args& args) const {
    const auto tasks = static_cast<std::size_t>(ceil_div(pieces_, per_task_));
    stream.parallel_for(tasks, scratch_bytes_, [&](std::size_t task, void* scratch) {
      const std::int64_t first = static_cast<std::int64_t>(task) * per_task_;
      Gemm g = gemm_;
      g.alpha = args.alpha;
      g.beta = args.beta;
      kernels::Epilogue epilogue = epilogue_of(args);
      if (!epilogue_.empty()) g.epilogue = &epilogue;
      for (std::int64_t i = first; i < std::min(first + per_task_, pieces_); ++i)
        run_piece(g, epilogue, args, i, scratch);
    });
  }

 private:
  /// Without its y.
  kernels::Epilogue epilogue_of(const Problem::Args& args) const {
    kernels::Epilogue e;
    e.bias = epilogue_.bias ? args.bias : nullptr;
    e.channels_are_rows = exchanged_;
    e.mode = epilogue_.activation;
    e.alpha = args.activation_alpha;
    e.beta = args.activation_beta;
    e.gamma = args.activation_gamma;
    return e;
  }

  void run_piece(Gemm& g, kernels::Epilogue& epilogue, const Problem::Args& args, std::int64_t piece,
                 void* scratch) const {
    const std::int64_t parts = row_parts_ * column_parts_, part = piece % parts;
    const Cursor at(batch_, piece / parts);
    const std::int64_t m0 = part % row_parts_ * cut_.rows, n0 = part / row_parts_ * cut_.columns;
    kernels::Operand &a = exchanged_ ? g.b : g.a, &b = exchanged_ ? g.a : g.b;
    a.data = args.a;
    a.offset = args.a_at + at.offset(Shape::kA);
    b.data = args.b;
    b.offset = args.b_at + at.offset(Shape::kB);
    g.c.data = args.c;
    g.c.offset = args.c_at + at.offset(Shape::kC);
    epilogue.y = g.c;
    kernels_->run(g, m0, std::min(m0 + cut_.rows, g.m), n0, std::min(n0 + cut_.columns, g.n), scratch);
  }

  const GemmKernels* kernels_;
  Gemm gemm_;
  Epilogue epilogue_;
  bool exchanged_ = false;  // a and b
  Loop batch_;
  kernels::Cut cut_;
  std::int64_t row_parts_ = 1, column_parts_ = 1, pieces_ = 1, per_task_ = 1;
  std::size_t scratch_bytes_ = 0;
};

class CpuGemm final : public Solver<Problem> {
 public:
  using Solver::Solver;

  Verdict is_applicable(const DeviceInfo&, const Problem&) const override { return {}; }

  TuneSpace tune_space(const DeviceInfo&, const Problem&) const override {
    return {{"pieces", {0, 1, 2, 4}}, {"depth", {std::begin(kDepthBlocks), std::end(kDepthBlocks)}}};
  }
  bool is_valid(const DeviceInfo&, const Problem& p, const TunePoint& t) const override {
    return t.size() == 2 && t[kPieces] >= 0 && (t[kDepth] == kDepthBlocks[0] || (t[kDepth] > 0 && p.k() > t[kDepth]));
  }
  TunePoint default_point(const DeviceInfo&, const Problem&) const override { return {0, kDepthBlocks[0]}; }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint&) const override {
    constexpr double kEfficiency = 0.7, kCallUs = 1, kMatrixUs = 0.3;
    const double peak = std::max(d.fp32_gflops, 1.0) * (is_wide(p) ? 0.5 : 1);
    const Shape s = shape_of(p);
    // Few rows and columns leave lanes of the register tiles empty.
    const double lanes = std::min(1.0, static_cast<double>(std::max(s.m, s.n)) / 16);
    const double compute = p.work() / (1e3 * peak * kEfficiency * lanes);
    const double memory = tensor_bytes(p) / (1e3 * std::max(d.bandwidth_gbs, 1.0));
    return kCallUs + std::max(compute, memory) +
           kMatrixUs * static_cast<double>(s.batch.count()) / std::max(d.threads, 1);
  }

  Invoker build(Stream& stream, const Problem& p, const TunePoint& t) const override {
    const auto products = std::make_shared<const Products>(p, t, stream.info(), stream.threads());
    stream.reserve_scratch(products->scratch_bytes());
    return [products](Stream& on, const Args& args) { products->run(on, args); };
  }
};

}  // namespace

std::unique_ptr<const SolverBase> cpu_gemm(const SolverInfo& info, Direction) {
  return std::make_unique<CpuGemm>(info);
}

}  // namespace polymio::matmul
