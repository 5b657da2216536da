// MatmulCudaLibrary: products by cuBLASLt, a launch for each of the batch dimensions that do not merge. Where the
// library has no algorithm for a product, the tiles compute it. Not deterministic: the library may choose another
// algorithm for tensors that are not aligned to 16 bytes. Tuning knobs: the algorithm, by its rank in the library's
// list; MiB of workspace for it.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <utility>

#include "primitives/activation/activation.h"
#include "primitives/matmul/solvers.h"

namespace polymio::matmul {
namespace {

enum Knobs : std::size_t { kChoice, kMiB };

constexpr std::size_t kBytesPerMiB = 1 << 20;
constexpr int kLargeMiB = 32, kVectorBytes = 16;
constexpr std::int64_t kMaxLaunches = 16;
constexpr int kRelu = static_cast<int>(activation::Mode::kRelu);

/// A matrix for the library, which reads columns of contiguous elements: lanes, that is, rows of the left operand or
/// columns of the right one; or depths. Elements of a single lane are contiguous depths.
struct Columns {
  bool fits, has_contiguous_lanes;
  std::int64_t step;
};
Columns columns_of(std::int64_t lanes, std::int64_t lane_stride, std::int64_t depths, std::int64_t depth_stride) {
  const auto fits = [](std::int64_t inner, std::int64_t inner_stride, std::int64_t outer, std::int64_t outer_stride) {
    return (inner == 1 || inner_stride == 1) && (outer == 1 || outer_stride >= inner);
  };
  const bool has_depths = fits(depths, depth_stride, lanes, lane_stride);
  if (fits(lanes, lane_stride, depths, depth_stride) && !(lanes == 1 && has_depths))
    return {true, true, depths == 1 ? lanes : depth_stride};
  return {has_depths, false, lanes == 1 ? depths : lane_stride};
}

/// The products of a problem in column-major terms: of the transposes if c has contiguous columns.
struct Plan {
  explicit Plan(const Problem& p) : shape(shape_of(p)), outer(shape.batch) {
    const Shape& s = shape;
    const Columns a = columns_of(s.m, s.a_row, s.k, s.a_depth), b = columns_of(s.n, s.b_column, s.k, s.b_depth);
    const Columns c = columns_of(s.m, s.c_row, s.n, s.c_column);
    exchanged = !c.has_contiguous_lanes;
    const Columns &left = exchanged ? b : a, &right = exchanged ? a : b;
    fits = a.fits && b.fits && c.fits;
    product.in = p.a.type;
    product.out = p.c.type;
    product.transpose_a = !left.has_contiguous_lanes;
    product.transpose_b = right.has_contiguous_lanes;
    product.m = exchanged ? s.n : s.m;
    product.n = exchanged ? s.m : s.n;
    product.k = s.k;
    product.step_a = left.step;
    product.step_b = right.step;
    product.step_c = c.step;
    product.bias = p.epilogue.bias;
    product.relu = p.epilogue.activation == kRelu;
    take_batch();
  }

  /// The library's batch is the largest dimension.
  void take_batch() {
    std::size_t largest = 0;
    for (std::size_t d = 1; d < outer.rank; ++d)
      if (outer.dims[d].size > outer.dims[largest].size) largest = d;
    const Loop::Dim dim = outer.dims[largest];
    outer.dims[largest].size = 1;
    product.batch = dim.size;
    product.batch_step_a = dim.strides[exchanged ? Shape::kB : Shape::kA];
    product.batch_step_b = dim.strides[exchanged ? Shape::kA : Shape::kB];
    product.batch_step_c = dim.strides[Shape::kC];
    if (dim.size == 1) {
      product.batch_step_a = 0;
      product.batch_step_b = 0;
      product.batch_step_c = 0;
    }
    outer.merge();
  }

  /// What the library may assume about the addresses of the matrices of all batches, if those of the first are aligned.
  int alignment(int first) const {
    std::int64_t common = first;
    const auto in = static_cast<std::int64_t>(size_of(product.in)),
               out = static_cast<std::int64_t>(size_of(product.out));
    for (std::size_t d = 0; d < shape.batch.rank; ++d) {
      const Loop::Dim& dim = shape.batch.dims[d];
      if (dim.size == 1) continue;
      common = std::gcd(common, dim.strides[Shape::kA] * in);
      common = std::gcd(common, dim.strides[Shape::kB] * in);
      common = std::gcd(common, dim.strides[Shape::kC] * out);
    }
    return static_cast<int>(common);
  }

  Shape shape;
  Loop outer;  // the batch dimensions that the library does not loop over
  bool exchanged = false, fits = false;
  MatrixProduct product{};
};

/// The products with addresses that are multiples of 16 bytes, and with others.
struct Multipliers {
  std::shared_ptr<const Multiplier> aligned, unaligned;
};

class CudaLibrary final : public Solver<Problem> {
 public:
  explicit CudaLibrary(const SolverInfo& info) : Solver(info), tiles_(gpu_tiles(info, Direction::kForward)) {}

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    constexpr std::int64_t kMost = std::int64_t{1} << 30;
    POLYMIO_REQUIRE(d.kind == DeviceKind::kCuda, "does not run on this kind of device");
    POLYMIO_REQUIRE(!is_wide(p), "products of fp64");
    POLYMIO_REQUIRE(p.k() > 0, "nothing is multiplied");
    const Plan plan(p);
    POLYMIO_REQUIRE(plan.fits, "a matrix has neither contiguous rows nor contiguous columns");
    POLYMIO_REQUIRE(p.epilogue.activation == 0 || p.epilogue.activation == kRelu, "fuses bias and ReLU only");
    POLYMIO_REQUIRE(!p.epilogue.bias || plan.exchanged, "adds a bias along contiguous elements of c only");
    POLYMIO_REQUIRE_MOST(plan.outer.count(), kMaxLaunches, "launches");
    const MatrixProduct& product = plan.product;
    POLYMIO_REQUIRE_MOST(std::max({product.m, product.n, product.k, product.batch}), kMost, "rows, columns or depths");
    POLYMIO_REQUIRE_MOST(std::max({product.step_a, product.step_b, product.step_c}), kMost, "elements between columns");
    POLYMIO_REQUIRE(has_multipliers(d), "there is no cuBLASLt, or only one that is newer than the driver");
    return tiles_->is_applicable(d, static_cast<const ProblemBase&>(p));
  }

  TuneSpace tune_space(const DeviceInfo&, const Problem&) const override {
    return {{"choice", {0, 1, 2, 3, 4, 5, 6, 7}}, {"library_mib", {kLargeMiB, 0}}};
  }
  bool is_valid(const DeviceInfo&, const Problem&, const TunePoint& t) const override {
    return t.size() == 2 && t[kChoice] >= 0 && (t[kMiB] > 0 || (t[kMiB] == 0 && t[kChoice] == 0));
  }
  /// Small products take no workspace: splitting their depth would not pay.
  TunePoint default_point(const DeviceInfo&, const Problem& p) const override {
    constexpr double kLarge = 1 << 28;
    return {0, p.work() < kLarge ? 0 : kLargeMiB};
  }
  std::size_t workspace_size(const DeviceInfo&, const Problem&, const TunePoint& t) const override {
    return static_cast<std::size_t>(t[kMiB]) * kBytesPerMiB;
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& t) const override {
    // Tensor cores have 16 times the throughput of SIMT fp32 for 16-bit floats; unaligned columns cost most of it.
    constexpr double kLaunchUs = 3, kEfficiency = 0.6, kMatrixUnits = 16, kUnaligned = 3.5;
    const Plan plan(p);
    const bool has_units = p.a.type != DataType::kFloat;
    const bool is_unaligned = plan.product.step_a % 8 != 0 || plan.product.step_b % 8 != 0;
    const double rate = std::max(d.fp32_gflops, 1.0) * (has_units ? kMatrixUnits / (is_unaligned ? kUnaligned : 1) : 1);
    const double memory = tensor_bytes(p) / (1e3 * std::max(d.bandwidth_gbs, 1.0) * 0.7);
    const double other_point_factor = t[kChoice] == 0 ? 1 : 1.1;
    return kLaunchUs * static_cast<double>(plan.outer.count()) +
           other_point_factor * std::max(memory, p.work() / (1e3 * rate * kEfficiency));
  }

  Invoker build(Stream& stream, const Problem& p, const TunePoint& t) const override {
    Plan plan(p);
    plan.product.workspace = workspace_size(stream.info(), p, t);
    const auto make = [&](int alignment) {
      MatrixProduct product = plan.product;
      product.alignment = plan.alignment(alignment);
      return std::shared_ptr<const Multiplier>(stream.multiplier(product, t[kChoice]));
    };
    Multipliers made{make(kVectorBytes), make(static_cast<int>(size_of(p.a.type)))};
    if (!made.unaligned) {
      const AnyInvoker tiles = tiles_->build(stream, p, tiles_->default_point(stream.info(), p));
      return [tiles](Stream& on, const Args& args) { tiles(on, &args); };
    }
    if (!made.aligned) made.aligned = made.unaligned;
    return [plan, made](Stream& on, const Args& args) { run(on, plan, made, args); };
  }

 private:
  static void run(Stream& stream, const Plan& plan, const Multipliers& made, const Args& args) {
    const auto in = static_cast<std::int64_t>(size_of(plan.product.in)),
               out = static_cast<std::int64_t>(size_of(plan.product.out));
    const char* const a = static_cast<const char*>(args.a) + args.a_at * in;
    const char* const b = static_cast<const char*>(args.b) + args.b_at * in;
    char* const c = static_cast<char*>(args.c) + args.c_at * out;
    const auto bits = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p); };
    const bool is_aligned = (bits(a) | bits(b) | bits(c) | bits(args.bias)) % kVectorBytes == 0;
    const Multiplier& multiplier = is_aligned ? *made.aligned : *made.unaligned;
    Cursor at(plan.outer, 0);
    for (std::int64_t i = 0; i < plan.outer.count(); ++i, at.advance(1)) {
      const void* left = a + at.offset(Shape::kA) * in;
      const void* right = b + at.offset(Shape::kB) * in;
      if (plan.exchanged) std::swap(left, right);
      multiplier.run(stream, {left, right, c + at.offset(Shape::kC) * out, args.workspace,
                              static_cast<float>(args.alpha), static_cast<float>(args.beta), args.bias});
    }
  }

  std::unique_ptr<const SolverBase> tiles_;
};

}  // namespace

std::unique_ptr<const SolverBase> cuda_library(const SolverInfo& info, Direction) {
  return std::make_unique<CudaLibrary>(info);
}

}  // namespace polymio::matmul
