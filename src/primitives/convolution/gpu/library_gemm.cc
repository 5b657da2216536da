// ConvCudaGemm: as ConvGpuGemm, with the products left to cuBLASLt where that is installed. The matrix is made for some
// images at a time, so that it stays in the cache; gradients of weights are added up in single precision. Tune points
// are what the library's heuristic offers. Products in TF32 are a solver of their own, since they are less accurate.
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
constexpr std::size_t kLine = 256;              // bytes: where parts of the workspace begin
constexpr std::int64_t kMostParts = 64 * kMiB;  // bytes of the weights' gradients of single images
constexpr std::int64_t kMostGroups = 8;         // that are products of their own

enum Knobs { kChoice, kLibraryMiB, kChunkMiB };

std::size_t whole_lines(std::size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

/// A tensor as matrices: elements between columns, between the products of a batch, of groups and of images.
struct Matrix {
  std::int64_t step, batch_step, group_step, image_step;
};

struct Plan {
  gpu::Columns columns;
  Direction direction;
  DataType type;
  std::int64_t images, all_images, groups, depth, filters, pixels;  // images of a chunk; depth and filters of a group
  bool last, sums;                                                  // sums: the gradient is not written at once
  std::int64_t batch = 0;                                           // in place: columns of y
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
    const std::int64_t rows = groups * depth, channels = groups * filters, of_group = filters * depth;
    x = {last ? rows : pixels, last ? depth : rows * pixels, depth * pixels, rows * pixels};
    y = {last ? channels : pixels, last ? filters : channels * pixels, filters * pixels, channels * pixels};
    w = {depth, last ? of_group : weights() ? groups * of_group : 0, of_group, 0};
    if (columns.in_place()) set_columns(p);
  }

  bool weights() const { return direction == Direction::kBackwardWeights; }
  std::int64_t products() const { return last ? 1 : groups; }  // of a chunk
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

  /// Whether pixels that are met in strides stay where they are.
  static bool in_place(const Problem& p) {
    const std::int64_t part = p.w.count() * static_cast<std::int64_t>(sizeof(float));
    return gpu::has_even_rows(p) &&
           (p.direction != Direction::kBackwardWeights || p.out(p.spatial() - 1) * part <= kMostParts);
  }
  static bool direct(const Problem& p) { return gpu::is_pointwise(p) || in_place(p); }

 private:
  /// A product for each column of y.
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
    if (first && weights) images = std::min(images, kMostParts / static_cast<std::int64_t>(p.w.count() * 4));
    images = std::clamp<std::int64_t>(images, 1, p.n());
    const std::int64_t chunks = (p.n() + images - 1) / images;
    return (p.n() + chunks - 1) / chunks;  // of about the same size
  }
};

MatrixProduct Plan::product(std::int64_t chunk, int alignment, bool tf32) const {
  const bool forward = direction == Direction::kForward;
  const std::int64_t wide = columns.in_place() ? chunk * (pixels / batch) : last ? chunk * pixels : pixels;
  const Matrix &a = last ? (weights() ? x : w) : (direction == Direction::kBackwardData ? y : x),
               &b = last ? (forward ? x : y) : (weights() ? y : w),
               &c = forward     ? y
                    : weights() ? w
                                : x;
  MatrixProduct product = {};
  product.in = type, product.out = written(), product.tf32 = tf32;
  product.transpose_a = last ? forward : weights();
  product.transpose_b = last ? weights() : direction == Direction::kBackwardData;
  if (weights())
    product.m = depth, product.n = filters, product.k = wide;
  else if (last)
    product.m = forward ? filters : depth, product.n = wide, product.k = forward ? depth : filters;
  else
    product.m = wide, product.n = forward ? filters : depth, product.k = forward ? depth : filters;
  product.step_a = a.step, product.step_b = b.step, product.step_c = c.step;
  product.batch = columns.in_place() ? batch : last ? groups : chunk;
  product.batch_step_a = a.batch_step, product.batch_step_b = b.batch_step, product.batch_step_c = c.batch_step;
  std::int64_t known = alignment;
  if (product.batch > 1 || products() > 1 || images < all_images)
    for (const Matrix* m : {&x, &w, &y})
      for (const std::int64_t step : {m->batch_step, m->group_step, m->image_step})
        known = std::gcd(known, step * static_cast<std::int64_t>(size_of(type)));
  product.alignment = static_cast<int>(known), product.workspace = library_bytes;
  return product;
}

/// What runs a chunk: for all but the last one and for that, each for aligned tensors and for others.
using Multipliers = std::array<std::array<std::shared_ptr<const Multiplier>, 2>, 2>;

class LibraryGemm final : public Solver<Problem> {
 public:
  LibraryGemm(const SolverInfo& info, Direction d, bool tf32) : Solver(info), direction_(d), tf32_(tf32) {}

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    constexpr std::int64_t kMost = std::int64_t{1} << 30;
    POLYMIO_REQUIRE(d.kind == DeviceKind::kCuda, "does not run on this kind of device");
    if (const Verdict v = gpu::check_columns(d, p, direction_); !v) return v;
    POLYMIO_REQUIRE(!tf32_ || p.x.type == DataType::kFloat, "TF32 is for fp32");
    POLYMIO_REQUIRE(!p.depthwise() || p.k() / p.groups() > 1, "products of one row");
    POLYMIO_REQUIRE_MOST(p.y.is_channels_last() ? 1 : p.groups(), kMostGroups, "groups with rows innermost");
    POLYMIO_REQUIRE_MOST(p.n() * gpu::pixels_of(p), kMost, "pixels of y");
    POLYMIO_REQUIRE(has_multipliers(d), "there is no cuBLASLt, or only one that is newer than the driver");
    return {};
  }

  ErrorClass error_class(const Problem&) const override { return tf32_ ? ErrorClass::kReduced : ErrorClass::kAccurate; }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    // Tensor cores do 16 times as many operations as the others in 16 bits, 8 times as many in TF32.
    constexpr double kLaunchUs = 3, kEfficiency = 0.6, kMemory = 0.7;
    const Plan plan(p, point);
    const bool narrow = p.x.type != DataType::kFloat;
    const double rate = d.fp32_gflops * (narrow ? 16 : tf32_ ? 8 : 1);
    const double chunks = static_cast<double>((plan.all_images + plan.images - 1) / plan.images);
    const double matrix = plan.columns.direct() ? 0 : chunks * static_cast<double>(plan.columns.bytes());
    const double memory = (gpu::tensor_bytes(p) + matrix) / (1e3 * d.bandwidth_gbs * kMemory);
    const double compute = p.flops() / (1e3 * rate * kEfficiency);
    const double launches = chunks * static_cast<double>(plan.products()) + (plan.sums ? 1 : 0);
    const double later = point == default_point(d, p) ? 1 : 1.1;
    return launches * kLaunchUs + later * slower(plan, narrow) * std::max(memory, compute) +
           chunks * plan.columns.predict(d);
  }

  TuneSpace tune_space(const DeviceInfo&, const Problem&) const override {
    return {{"choice", {0, 1, 2, 3, 4, 5, 6, 7}}, {"library_mib", {32, 0}}, {"chunk_mib", {32, 256}}};
  }

  bool is_valid(const DeviceInfo&, const Problem& p, const TunePoint& point) const override {
    if (point.size() != 3 || point[kChoice] < 0 || point[kLibraryMiB] < 0 || point[kChunkMiB] <= 0) return false;
    if (point[kLibraryMiB] == 0 && point[kChoice] > 0) return false;  // for those who have no workspace to give
    return !Plan::direct(p) || point[kChunkMiB] == start_chunk();
  }

  TunePoint default_point(const DeviceInfo&, const Problem&) const override { return {0, 32, start_chunk()}; }

  std::size_t workspace_size(const DeviceInfo&, const Problem& p, const TunePoint& point) const override {
    return Plan(p, point).workspace();
  }

  std::vector<KernelSpec> kernel_specs(const DeviceInfo&, const Problem& p, const TunePoint& point) const override {
    const Plan plan(p, point);
    std::vector<KernelSpec> specs = plan.columns.kernels();
    if (plan.sums) specs.push_back(plan.columns.adding());
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

  /// By how much products are slower than the library's usual ones, measured on an H200: 16-bit matrices whose columns
  /// are not aligned; sums over many pixels in fp32, which are not split.
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
      if (plan.sums) o.alpha = 1, o.beta = first == 0 ? 0 : 1;
      if (backward) plan.columns.prepare(stream, built, 0, columns);
      if (!direct && backward && !plan.columns.picks()) o.alpha = 1, o.beta = 0;
      multiply(stream, plan, multiplier, direct ? x : matrix, plan.sums ? sums : static_cast<char*>(a.w), y, o);
      if (!direct && backward) plan.columns.run(stream, built, 0, columns);
    }
    if (!plan.sums) return;
    gpu::add_partials(stream, *built.back(),
                      {Buffer(sums), Buffer(a.w), plan.weight_count(), static_cast<int>(plan.parts())}, alpha, beta);
  }

  /// The product, or one of each group.
  static void multiply(Stream& stream, const Plan& plan, const Multiplier& multiplier, char* x, char* w, char* y,
                       Multiplier::Operands o) {
    const bool forward = plan.direction == Direction::kForward, weights = plan.weights(), last = plan.last;
    const auto size = static_cast<std::int64_t>(size_of(plan.type)),
               written = static_cast<std::int64_t>(size_of(plan.written()));
    for (std::int64_t g = 0; g < plan.products(); ++g) {
      char* const at_x = x + g * plan.x.group_step * (plan.direction == Direction::kBackwardData ? written : size);
      char* const at_w = w + g * plan.w.group_step * (weights ? written : size);
      char* const at_y = y + g * plan.y.group_step * size;
      o.a = last ? (weights ? at_x : at_w) : (plan.direction == Direction::kBackwardData ? at_y : at_x);
      o.b = last ? (forward ? at_x : at_y) : (weights ? at_y : at_w);
      o.c = forward ? at_y : weights ? at_w : at_x;
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
