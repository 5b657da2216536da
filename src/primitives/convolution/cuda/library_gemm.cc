// ConvCudaGemm: as ConvGpuGemm, with products by cuBLASLt if it is installed. The im2col matrix is gathered for chunks
// of images so that it stays in the cache; backward weights accumulates in fp32. Tune points are the algorithms that
// the heuristic of the library offers. TF32 products are a solver of their own, since they are less accurate.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <memory>
#include <numeric>

#include "base/error.h"
#include "core/kernel_builder.h"
#include "primitives/convolution/gpu/columns.h"
#include "primitives/convolution/convolution.h"

namespace polymio::convolution {
namespace {

constexpr std::int64_t kMiB = 1 << 20;
constexpr std::size_t kLine = 256;                    // bytes: alignment of the parts of the workspace
constexpr std::int64_t kMaxPartialBytes = 64 * kMiB;  // bytes of partial gradients of the weights
constexpr std::int64_t kMaxGroups = 8;                // one product per group

enum Knobs { kChoice, kLibraryMiB, kChunkMiB };

std::size_t whole_lines(std::size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

/// A tensor as matrices. Strides in elements: between columns, products of a batch, groups, images.
struct Matrix {
  std::int64_t step, batch_step, group_step, image_step;
};

struct Plan {
  gpu::Columns columns;
  Direction direction;
  DataType type;
  std::int64_t images, all_images, groups, depth, filters, pixels;  // images per chunk; depth, filters per group
  bool last, sums;                                                  // NHWC; the gradient is accumulated in fp32
  std::int64_t batch = 0;                                           // in place: columns of y, one product each
  Matrix x, w, y;
  std::size_t library_bytes;

  Plan(const Problem& p, const TunePoint& point)
      : columns(p, chunk_of(p, point), in_place(p)),
        direction(p.direction),
        type(p.x.type),
        images(chunk_of(p, point)),
        all_images(p.n()),
        groups(p.groups()),
        depth(p.c() / p.groups() * gpu::taps_of(p)),
        filters(p.k() / p.groups()),
        pixels(gpu::pixels_of(p)),
        last(!columns.pixels_innermost()),
        sums(weights() && (images < all_images || !last || columns.in_place())),
        library_bytes(static_cast<std::size_t>(point[kLibraryMiB] * kMiB)) {
    const std::int64_t rows = groups * depth, channels = groups * filters, group_elements = filters * depth;
    x = {last ? rows : pixels, last ? depth : rows * pixels, depth * pixels, rows * pixels};
    y = {last ? channels : pixels, last ? filters : channels * pixels, filters * pixels, channels * pixels};
    w = {depth, last ? group_elements : weights() ? groups * group_elements : 0, group_elements, 0};
    if (columns.in_place()) set_columns(p);
  }

  bool weights() const { return direction == Direction::kBackwardWeights; }
  std::int64_t products() const { return last ? 1 : groups; }  // per chunk
  DataType written() const {
    return sums ? DataType::kFloat : direction == Direction::kBackwardData ? columns.type() : type;
  }
  std::int64_t weight_count() const { return groups * filters * depth; }
  std::int64_t parts() const { return columns.in_place() ? batch : last ? 1 : images; }
  std::size_t matrix_bytes() const { return columns.direct() ? 0 : whole_lines(columns.bytes()); }
  std::size_t sum_bytes() const {
    return sums ? whole_lines(static_cast<std::size_t>(parts() * weight_count()) * sizeof(float)) : 0;
  }
  std::size_t workspace() const {
    const std::size_t bytes = library_bytes + matrix_bytes() + sum_bytes();
    return bytes == 0 ? 0 : bytes + kLine;
  }
  MatrixProduct product(std::int64_t chunk, int alignment, bool tf32) const;

  /// Whether the pixels of a strided pointwise convolution are read in place.
  static bool in_place(const Problem& p) {
    const std::int64_t part = p.w.count() * static_cast<std::int64_t>(sizeof(float));
    return gpu::has_even_rows(p) &&
           (p.direction != Direction::kBackwardWeights || p.out(p.spatial() - 1) * part <= kMaxPartialBytes);
  }
  static bool direct(const Problem& p) { return gpu::is_pointwise(p) || in_place(p); }

 private:
  /// One product per column of y.
  void set_columns(const Problem& p) {
    const auto last_axis = static_cast<std::size_t>(p.spatial() - 1);
    const std::int64_t step_w = p.geometry.stride[last_axis],
                       step_h = p.spatial() > 1 ? p.geometry.stride[last_axis - 1] : 1;
    batch = p.out(p.spatial() - 1);
    x = {step_h * p.in(p.spatial() - 1) * depth, step_w * depth, 0, 0};
    y = {batch * filters, filters, 0, 0};
    w = {depth, weights() ? weight_count() : 0, 0, 0};
  }
  static std::int64_t chunk_of(const Problem& p, const TunePoint& point) {
    const bool first = !p.y.is_channels_last(), weights = p.direction == Direction::kBackwardWeights;
    std::int64_t images = p.n();
    if (!direct(p)) images = point[kChunkMiB] * kMiB / static_cast<std::int64_t>(gpu::Columns(p, 1).bytes());
    if (first && weights) images = std::min(images, kMaxPartialBytes / static_cast<std::int64_t>(p.w.count() * 4));
    images = std::clamp<std::int64_t>(images, 1, p.n());
    const std::int64_t chunks = (p.n() + images - 1) / images;
    return (p.n() + chunks - 1) / chunks;  // chunks of about equal size
  }
};

MatrixProduct Plan::product(std::int64_t chunk, int alignment, bool tf32) const {
  const bool forward = direction == Direction::kForward;
  const std::int64_t all_pixels = columns.in_place() ? chunk * (pixels / batch) : last ? chunk * pixels : pixels;
  const Matrix &a = last ? (weights() ? x : w) : (direction == Direction::kBackwardData ? y : x),
               &b = last ? (forward ? x : y) : (weights() ? y : w),
               &c = forward     ? y
                    : weights() ? w
                                : x;
  MatrixProduct product = {};
  product.in = type;
  product.out = written();
  product.tf32 = tf32;
  product.transpose_a = last ? forward : weights();
  product.transpose_b = last ? weights() : direction == Direction::kBackwardData;
  if (weights()) {
    product.m = depth;
    product.n = filters;
    product.k = all_pixels;
  } else if (last) {
    product.m = forward ? filters : depth;
    product.n = all_pixels;
    product.k = forward ? depth : filters;
  } else {
    product.m = all_pixels;
    product.n = forward ? filters : depth;
    product.k = forward ? depth : filters;
  }
  product.step_a = a.step;
  product.step_b = b.step;
  product.step_c = c.step;
  product.batch = columns.in_place() ? batch : last ? groups : chunk;
  product.batch_step_a = a.batch_step;
  product.batch_step_b = b.batch_step;
  product.batch_step_c = c.batch_step;
  std::int64_t common_alignment = alignment;
  if (product.batch > 1 || products() > 1 || images < all_images)
    for (const Matrix* m : {&x, &w, &y})
      for (const std::int64_t step : {m->batch_step, m->group_step, m->image_step})
        common_alignment = std::gcd(common_alignment, step * static_cast<std::int64_t>(size_of(type)));
  product.alignment = static_cast<int>(common_alignment);
  product.workspace = library_bytes;
  return product;
}

/// The products of a chunk: [full chunk, last chunk][aligned tensors, unaligned tensors].
using Multipliers = std::array<std::array<std::shared_ptr<const Multiplier>, 2>, 2>;

class LibraryGemm final : public Solver<Problem> {
 public:
  LibraryGemm(const SolverInfo& info, Direction d, bool tf32) : Solver(info), direction_(d), tf32_(tf32) {}

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    constexpr std::int64_t kMax = std::int64_t{1} << 30;
    POLYMIO_REQUIRE(d.kind == DeviceKind::kCuda, "does not run on this kind of device");
    if (const Verdict v = gpu::check_columns(d, p, direction_); !v) return v;
    POLYMIO_REQUIRE(!tf32_ || p.x.type == DataType::kFloat, "TF32 is for fp32");
    POLYMIO_REQUIRE(!p.depthwise() || p.k() / p.groups() > 1, "products of one row");
    POLYMIO_REQUIRE_MOST(p.y.is_channels_last() ? 1 : p.groups(), kMaxGroups, "groups with rows innermost");
    POLYMIO_REQUIRE_MOST(p.n() * gpu::pixels_of(p), kMax, "pixels of y");
    POLYMIO_REQUIRE(has_multipliers(d), "there is no cuBLASLt, or only one that is newer than the driver");
    return {};
  }

  ErrorClass error_class(const Problem&) const override { return tf32_ ? ErrorClass::kReduced : ErrorClass::kAccurate; }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    // Tensor cores have 16 times the throughput of SIMT fp32 for 16-bit floats, 8 times for TF32.
    constexpr double kLaunchUs = 3, kEfficiency = 0.6, kMemory = 0.7;
    const Plan plan(p, point);
    const bool narrow = p.x.type != DataType::kFloat;
    const double rate = d.fp32_gflops * (narrow ? 16 : tf32_ ? 8 : 1);
    const double chunks = static_cast<double>((plan.all_images + plan.images - 1) / plan.images);
    const double matrix = plan.columns.direct() ? 0 : chunks * static_cast<double>(plan.columns.bytes());
    const double memory = (gpu::tensor_bytes(p) + matrix) / (1e3 * d.bandwidth_gbs * kMemory);
    const double compute = p.flops() / (1e3 * rate * kEfficiency);
    const double launches = chunks * static_cast<double>(plan.products()) + (plan.sums ? 1 : 0);
    const double other_point_factor = point == default_point(d, p) ? 1 : 1.1;
    return launches * kLaunchUs + other_point_factor * slower(plan, narrow) * std::max(memory, compute) +
           chunks * plan.columns.predict(d);
  }

  TuneSpace tune_space(const DeviceInfo&, const Problem&) const override {
    return {{"choice", {0, 1, 2, 3, 4, 5, 6, 7}}, {"library_mib", {32, 0}}, {"chunk_mib", {32, 256}}};
  }

  bool is_valid(const DeviceInfo&, const Problem& p, const TunePoint& point) const override {
    if (point.size() != 3 || point[kChoice] < 0 || point[kLibraryMiB] < 0 || point[kChunkMiB] <= 0) return false;
    if (point[kLibraryMiB] == 0 && point[kChoice] > 0) return false;  // for callers without workspace
    return !Plan::direct(p) || point[kChunkMiB] == start_chunk();
  }

  TunePoint default_point(const DeviceInfo&, const Problem&) const override { return {0, 32, start_chunk()}; }

  std::size_t workspace_size(const DeviceInfo&, const Problem& p, const TunePoint& point) const override {
    return Plan(p, point).workspace();
  }

  std::vector<KernelSpec> kernel_specs(const DeviceInfo&, const Problem& p, const TunePoint& point) const override {
    const Plan plan(p, point);
    std::vector<KernelSpec> specs = plan.columns.kernels();
    if (plan.sums) specs.push_back(plan.columns.add_partials_spec());
    return specs;
  }

  Invoker build(Stream& stream, const Problem& p, const TunePoint& point) const override {
    const Plan plan(p, point);
    const std::int64_t rest = plan.all_images % plan.images;
    const int size = static_cast<int>(size_of(plan.type));
    Multipliers multipliers;
    for (int tail = 0; tail < (rest == 0 ? 1 : 2); ++tail)
      for (const int alignment : {size, 16}) {
        const auto product = plan.product(tail ? rest : plan.images, alignment, tf32_);
        auto& variants = multipliers[static_cast<std::size_t>(tail)];
        auto made = stream.multiplier(product, point[kChoice]);
        if (!made && !variants[1])
          fail(Status::kNotImplemented, "cuBLASLt has no algorithm for the product of {}", p.key());
        variants[alignment == 16 ? 0 : 1] = made ? std::move(made) : variants[1];
      }
    return [plan, multipliers, built = build_kernels(stream, kernel_specs(stream.info(), p, point))](
               Stream& on, const Args& a) { run(on, plan, multipliers, built, a); };
  }

 private:
  static constexpr int start_chunk() { return 32; }

  /// Slowdown of products, measured on an H200: 16-bit matrices with unaligned columns; fp32 sums over many pixels, for
  /// which the library does not split K.
  double slower(const Plan& plan, bool narrow) const {
    constexpr double kUnaligned = 3.5, kManyPixels = 12;
    if (narrow) return !plan.last && plan.pixels % 8 != 0 ? kUnaligned : 1;
    return plan.weights() && plan.last && !tf32_ ? kManyPixels : 1;
  }

  static void run(Stream& stream, const Plan& plan, const Multipliers& multipliers, const Kernels& built,
                  const Args& a) {
    const auto begin = (reinterpret_cast<std::uintptr_t>(a.workspace) + kLine - 1) / kLine * kLine;
    const auto part = [&](std::size_t bytes) { return reinterpret_cast<char*>(begin) + bytes; };
    char* const matrix = part(plan.library_bytes);
    char* const sums = matrix + plan.matrix_bytes();
    const bool aligned = gpu::aligned(a), backward = plan.direction == Direction::kBackwardData;
    const auto size = static_cast<std::int64_t>(size_of(plan.type));
    const auto alpha = static_cast<float>(a.alpha), beta = static_cast<float>(a.beta);
    for (std::int64_t first = 0; first < plan.all_images; first += plan.images) {
      const std::int64_t images = std::min(plan.images, plan.all_images - first);
      const Multiplier& multiplier = *multipliers[images == plan.images ? 0 : 1][aligned ? 0 : 1];
      char* const x = static_cast<char*>(a.x) + first * plan.columns.image_step() * size;
      char* const y = static_cast<char*>(a.y) + first * plan.y.image_step * size;
      const gpu::Columns::Call columns = {Buffer(x), Buffer(matrix), 0, images, aligned, alpha, beta};
      const bool direct = plan.columns.direct();
      if (!direct && !backward) plan.columns.run(stream, built, 0, columns);
      Multiplier::Operands o = {nullptr, nullptr, nullptr, part(0), alpha, beta};
      if (plan.sums) {
        o.alpha = 1;
        o.beta = first == 0 ? 0 : 1;
      }
      if (backward) plan.columns.prepare(stream, built, 0, columns);
      if (!direct && backward && !plan.columns.picks()) {
        o.alpha = 1;
        o.beta = 0;
      }
      multiply(stream, plan, multiplier, direct ? x : matrix, plan.sums ? sums : static_cast<char*>(a.w), y, o);
      if (!direct && backward) plan.columns.run(stream, built, 0, columns);
    }
    if (!plan.sums) return;
    gpu::add_partials(stream, *built.back(),
                      {Buffer(sums), Buffer(a.w), plan.weight_count(), static_cast<int>(plan.parts())}, alpha, beta);
  }

  /// The product, or one per group.
  static void multiply(Stream& stream, const Plan& plan, const Multiplier& multiplier, char* x, char* w, char* y,
                       Multiplier::Operands o) {
    const bool forward = plan.direction == Direction::kForward, weights = plan.weights(), last = plan.last;
    const auto size = static_cast<std::int64_t>(size_of(plan.type)),
               written = static_cast<std::int64_t>(size_of(plan.written()));
    for (std::int64_t g = 0; g < plan.products(); ++g) {
      char* const group_x = x + g * plan.x.group_step * (plan.direction == Direction::kBackwardData ? written : size);
      char* const group_w = w + g * plan.w.group_step * (weights ? written : size);
      char* const group_y = y + g * plan.y.group_step * size;
      o.a = last ? (weights ? group_x : group_w) : (plan.direction == Direction::kBackwardData ? group_y : group_x);
      o.b = last ? (forward ? group_x : group_y) : (weights ? group_y : group_w);
      o.c = forward ? group_y : weights ? group_w : group_x;
      multiplier.run(stream, o);
    }
  }

  Direction direction_;
  bool tf32_;
};

}  // namespace

std::unique_ptr<const SolverBase> cuda_gemm(const SolverInfo& info, Direction d) {
  return std::make_unique<LibraryGemm>(info, d, false);
}

std::unique_ptr<const SolverBase> cuda_gemm_tf32(const SolverInfo& info, Direction d) {
  return std::make_unique<LibraryGemm>(info, d, true);
}

}  // namespace polymio::convolution
