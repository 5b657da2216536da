// ConvCudaGemm: as ConvGpuGemm, with products by cuBLASLt if it is installed. The im2col matrix is gathered for parts
// of the batch so that it stays in the cache; backward weights accumulates in fp32. Tune points are the algorithms that
// the heuristic of the library offers. TF32 products are a solver of their own, since they are less accurate.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/math.h"
#include "primitives/activation/activation.h"
#include "primitives/convolution/gpu/gemm.h"

namespace polymio::convolution {
namespace {

using gpu::kMiB;
constexpr std::int64_t kLine = 256;                   // bytes: alignment of the parts of the workspace
constexpr std::int64_t kMaxPartialBytes = 64 * kMiB;  // bytes of partial gradients of the weights
constexpr std::int64_t kMaxGroups = 8;                // one product per group
constexpr std::int64_t kAlignedElements = 8;          // elements of 16 bits whose multiples keep columns aligned
constexpr int kRelu = static_cast<int>(activation::Mode::kRelu);

enum Knobs { kChoice, kLibraryMiB, kChunkMiB };

/// Chunks of these sizes have at least one image if its matrix is at most kMostMatrix; other sizes are never exceeded.
bool is_target(int chunk_mib) { return chunk_mib == 32 || chunk_mib == 256; }

std::size_t whole_lines(std::size_t bytes) {
  return static_cast<std::size_t>(round_up(static_cast<std::int64_t>(bytes), kLine));
}

/// A tensor as matrices. Strides in elements: between columns, products of a batch, groups, images.
struct Matrix {
  std::int64_t step, batch_step, group_step, image_step;
};

/// Multipliers of a chunk: [full chunk, smaller chunk][aligned tensors, unaligned tensors].
using Multipliers = std::array<std::array<std::shared_ptr<const Multiplier>, 2>, 2>;

bool is_tf32(ErrorClass error) { return error == ErrorClass::kReduced; }

class LibraryProduct {
 public:
  LibraryProduct(const DeviceInfo&, const Problem& p, const TunePoint& point, ErrorClass error)
      : slices(*slices_at(p, point)),
        columns(p, slices, in_place(p)),
        point_(point),
        tf32_(is_tf32(error)),
        direction_(p.direction),
        epilogue_(p.epilogue),
        type_(p.x.type),
        parts_(gpu::parts(p, slices)),
        groups_(p.groups()),
        channels_(p.c() / p.groups()),
        depth_(p.c() / p.groups() * gpu::taps_of(p)),
        filters_(p.k() / p.groups()),
        pixels_(gpu::pixels_of(p)),
        last_(!columns.pixels_innermost()),
        x_last_(columns.depth_innermost()),
        sums_(weights() && (parts_ > 1 || !last_ || columns.in_place())),
        library_bytes_(static_cast<std::size_t>(point[kLibraryMiB] * kMiB)) {
    const std::int64_t channels = groups_ * filters_, group_elements = filters_ * depth_;
    y_ = {last_ ? channels : pixels_, last_ ? filters_ : channels * pixels_, filters_ * pixels_, channels * pixels_};
    w_ = {depth_, last_ ? group_elements : weights() ? groups_ * group_elements : 0, group_elements, 0};
    if (columns.in_place()) set_columns(p);
  }

  static constexpr bool kFuses = true;
  static Verdict check(const DeviceInfo&, const Problem&, ErrorClass);

  static TuneSpace tune_space() {
    return {{"choice", {0, 1, 2, 3, 4, 5, 6, 7}}, {"library_mib", {32, 0}}, {"chunk_mib", {32, 256, 128, 8, 1}}};
  }
  static bool is_valid(const Problem& p, const TunePoint& point) {
    if (point.size() != 3 || point[kChoice] < 0 || point[kLibraryMiB] < 0 || point[kChunkMiB] <= 0) return false;
    // For callers with little workspace.
    if (point[kLibraryMiB] == 0 && point[kChoice] > 0) return false;
    if (!is_target(point[kChunkMiB]) && point[kLibraryMiB] > 0) return false;
    return is_direct(p) ? point[kChunkMiB] == start()[kChunkMiB] : slices_at(p, point).has_value();
  }
  static TunePoint default_point(const DeviceInfo&, const Problem&) { return start(); }

  double predict(const DeviceInfo&, const Problem&) const;
  std::size_t workspace() const {
    const std::size_t bytes = library_bytes_ + matrix_bytes() + sum_bytes();
    return bytes == 0 ? 0 : bytes + kLine;
  }
  std::vector<KernelSpec> kernels() const {
    if (!sums_) return {};
    return {columns.add_partials_spec()};
  }

  /// Chooses algorithms of the library.
  void prepare(Stream&, const Problem&);
  gpu::MatrixPlace matrix(void* workspace) const { return {Buffer(scratch(workspace) + library_bytes_), 0}; }
  void run(Stream&, const Kernels& built, std::size_t first, const gpu::Chunk&) const;

  gpu::Slices slices;
  gpu::Columns columns;

 private:
  static TunePoint start() { return {0, 32, 32}; }
  bool weights() const { return direction_ == Direction::kBackwardWeights; }
  /// Whether the columns of the result have channels, not pixels, innermost.
  bool writes_channels() const { return direction_ == Direction::kBackwardData ? x_last_ : last_; }
  std::int64_t products() const { return last_ ? 1 : groups_; }  // per chunk
  bool cuts_channels() const { return direction_ == Direction::kBackwardData && slices.channels < channels_; }
  /// A part of the channels is a product per tap if rows of the matrix are ordered by tap.
  bool per_tap() const { return cuts_channels() && columns.taps_first() && depth_ > channels_; }
  Matrix matrix_of(const gpu::Slices& size) const;
  DataType written() const {
    return sums_ ? DataType::kFloat : direction_ == Direction::kBackwardData ? columns.type() : type_;
  }
  std::int64_t weight_count() const { return groups_ * filters_ * depth_; }
  /// Elements of w between channels.
  std::int64_t weight_step() const { return columns.taps_first() ? 1 : depth_ / channels_; }
  std::int64_t sums_of_part() const { return columns.in_place() ? batch_ : last_ ? 1 : slices.images; }
  std::size_t matrix_bytes() const { return columns.direct() ? 0 : whole_lines(columns.bytes()); }
  std::size_t sum_bytes() const {
    return sums_ ? whole_lines(static_cast<std::size_t>(sums_of_part() * weight_count()) * sizeof(float)) : 0;
  }
  /// The library's part of the workspace, its beginning.
  static char* scratch(void* workspace) { return gpu::align_up(workspace, kLine); }

  /// x, w and y as the operands a, b and c of the column-major product.
  template <class T>
  std::array<T, 3> operands(T x, T w, T y) const {
    if (weights()) return {x, y, w};
    const bool forward = direction_ == Direction::kForward;
    const T src = forward ? x : y, dst = forward ? y : x;
    return writes_channels() ? std::array<T, 3>{w, src, dst} : std::array<T, 3>{src, w, dst};
  }

  static Verdict check_fused(const Problem&);
  static bool in_place(const Problem&);
  static bool sums_too_much(const Problem&);
  static bool is_direct(const Problem& p) { return gpu::is_pointwise(p) || in_place(p); }
  static std::optional<gpu::Slices> slices_at(const Problem&, const TunePoint&);
  void set_columns(const Problem&);
  double slowdown() const;
  MatrixProduct product(const gpu::Slices& size, int alignment) const;
  void multiply(Stream&, const Multiplier&, const gpu::Slices& size, char* x, char* w, char* y,
                Multiplier::Operands) const;

  TunePoint point_;
  bool tf32_;
  Direction direction_;
  Epilogue epilogue_;
  DataType type_;
  std::int64_t parts_, groups_, channels_, depth_, filters_, pixels_;  // channels, depth, filters per group
  bool last_, x_last_, sums_;  // channels innermost in y, in the matrix; the gradient is accumulated in fp32
  std::int64_t batch_ = 0;     // in place: columns of y, one product each
  Matrix x_{}, w_, y_;         // x_: in place
  std::size_t library_bytes_;
  Multipliers multipliers_;
};

Verdict LibraryProduct::check(const DeviceInfo& d, const Problem& p, ErrorClass error) {
  constexpr std::int64_t kMax = std::int64_t{1} << 30;
  POLYMIO_REQUIRE(d.kind == DeviceKind::kCuda, "does not run on this kind of device");
  POLYMIO_REQUIRE(!is_tf32(error) || p.x.type == DataType::kFloat, "TF32 is for fp32");
  POLYMIO_REQUIRE(!p.depthwise() || p.k() / p.groups() > 1, "products of one row");
  POLYMIO_REQUIRE_MOST(p.y.is_channels_last() ? 1 : p.groups(), kMaxGroups, "groups with rows innermost");
  POLYMIO_REQUIRE_MOST(p.n() * gpu::pixels_of(p), kMax, "pixels of y");
  if (const Verdict v = check_fused(p); !v) return v;
  POLYMIO_REQUIRE(slices_at(p, start()), "the least matrix, of 64 pixels or of one channel backward, exceeds 384 MiB");
  POLYMIO_REQUIRE(!sums_too_much(p), "unaligned sums of more than 65536 pixels, which the library does not split");
  POLYMIO_REQUIRE(has_multipliers(d), "there is no cuBLASLt, or only one that is newer than the driver");
  return {};
}

/// The library adds an element per row of its result, whose rows are channels then.
Verdict LibraryProduct::check_fused(const Problem& p) {
  if (p.epilogue.empty()) return {};
  POLYMIO_REQUIRE(!p.epilogue.norm && !p.epilogue.scale && !p.epilogue.residual &&
                      (p.epilogue.activation == 0 || p.epilogue.activation == kRelu),
                  "fuses bias and ReLU only");
  POLYMIO_REQUIRE(is_direct(p) && p.y.is_channels_last() && p.groups() == 1,
                  "fuses into pointwise convolutions with channels last and without groups");
  return {};
}

/// Whether the pixels of a strided pointwise convolution are read in place.
bool LibraryProduct::in_place(const Problem& p) {
  const std::int64_t part = p.w.count() * static_cast<std::int64_t>(sizeof(float));
  return gpu::has_even_rows(p) &&
         (p.direction != Direction::kBackwardWeights || p.out(p.spatial() - 1) * part <= kMaxPartialBytes);
}

/// Matrix units truncate each sum of 16-bit products: without split K, long sums lose the bits of a 16-bit result.
bool LibraryProduct::sums_too_much(const Problem& p) {
  constexpr std::int64_t kMost = 1 << 16;
  const std::int64_t depth = p.c() / p.groups() * gpu::taps_of(p), filters = p.k() / p.groups();
  const std::int64_t pixels = gpu::pixels_of(p) * (p.y.is_channels_last() ? p.n() : 1);
  return p.direction == Direction::kBackwardWeights && p.x.type != DataType::kFloat && pixels > kMost &&
         (depth % kAlignedElements != 0 || filters % kAlignedElements != 0);
}

std::optional<gpu::Slices> LibraryProduct::slices_at(const Problem& p, const TunePoint& point) {
  const bool first = !p.y.is_channels_last(), weights = p.direction == Direction::kBackwardWeights;
  const std::int64_t target = point[kChunkMiB] * kMiB, sums = weights ? p.w.count() * 4 : 0;
  // The sums of the weights need workspace, too.
  const std::int64_t most =
      is_target(point[kChunkMiB]) ? gpu::kMostMatrix - std::max<std::int64_t>(0, sums - kMaxPartialBytes) : target;
  auto slices = most > 0 ? gpu::slices_of(p, is_direct(p), target, most) : std::nullopt;
  if (slices && first && weights) {
    const std::int64_t images = std::clamp<std::int64_t>(kMaxPartialBytes / sums, 1, slices->images);
    slices->images = ceil_div(p.n(), ceil_div(p.n(), images));  // of about equal size
  }
  return slices;
}

/// One product per column of y.
void LibraryProduct::set_columns(const Problem& p) {
  const auto last_axis = static_cast<std::size_t>(p.spatial() - 1);
  const std::int64_t step_w = p.geometry.stride[last_axis],
                     step_h = p.spatial() > 1 ? p.geometry.stride[last_axis - 1] : 1;
  batch_ = p.out(p.spatial() - 1);
  x_ = {step_h * p.in(p.spatial() - 1) * depth_, step_w * depth_, 0, 0};
  y_ = {batch_ * filters_, filters_, 0, 0};
  w_ = {depth_, weights() ? weight_count() : 0, 0, 0};
}

/// The matrix of a part in the workspace, or x in place.
Matrix LibraryProduct::matrix_of(const gpu::Slices& size) const {
  if (columns.in_place()) return x_;
  const std::int64_t depth = depth_ / channels_ * size.channels, rows = groups_ * depth;
  const std::int64_t taps = per_tap() ? size.channels : 0;  // rows between the products of a part of the channels
  return {x_last_ ? rows : size.pixels,
          taps > 0 ? (last_ ? taps : taps * size.pixels)
          : last_  ? depth
                   : rows * size.pixels,
          x_last_ ? depth : depth * size.pixels, rows * size.pixels};
}

MatrixProduct LibraryProduct::product(const gpu::Slices& size, int alignment) const {
  const bool forward = direction_ == Direction::kForward, data = direction_ == Direction::kBackwardData;
  const std::int64_t all_pixels = columns.in_place() ? size.images * (pixels_ / batch_)
                                  : last_            ? size.images * size.pixels
                                                     : size.pixels;
  const std::int64_t depth = per_tap() ? size.channels : depth_ / channels_ * size.channels;
  const std::int64_t outputs = forward ? filters_ : depth, reduced = forward ? depth : filters_;
  Matrix x = matrix_of(size), w = w_, y = y_;
  if (per_tap()) {
    w.batch_step = channels_;
    y.batch_step = 0;
  }
  const auto [a, b, c] = operands(x, w, y);
  MatrixProduct product = {};
  product.in = type_;
  product.out = written();
  product.tf32 = tf32_;
  product.transpose_a = weights() ? !x_last_ : forward && x_last_;
  product.transpose_b = weights() ? last_ : data && !last_;
  product.m = weights() ? depth : writes_channels() ? outputs : all_pixels;
  product.n = weights() ? filters_ : writes_channels() ? all_pixels : outputs;
  product.k = weights() ? all_pixels : reduced;
  product.step_a = a.step;
  product.step_b = b.step;
  product.step_c = c.step;
  product.batch = columns.in_place() ? batch_ : per_tap() ? depth_ / channels_ : last_ ? groups_ : size.images;
  product.batch_step_a = a.batch_step;
  product.batch_step_b = b.batch_step;
  product.batch_step_c = c.batch_step;
  std::int64_t common_alignment = alignment;
  const auto bytes = static_cast<std::int64_t>(size_of(type_));
  if (product.batch > 1 || products() > 1 || parts_ > 1)
    for (const Matrix* m : {&x, &w, &y})
      for (const std::int64_t step : {m->batch_step, m->group_step, m->image_step})
        common_alignment = std::gcd(common_alignment, step * bytes);
  if (cuts_channels()) common_alignment = std::gcd(common_alignment, weight_step() * slices.channels * bytes);
  product.alignment = static_cast<int>(common_alignment);
  product.workspace = library_bytes_;
  product.bias = epilogue_.bias;
  product.relu = epilogue_.activation == kRelu;
  return product;
}

double LibraryProduct::predict(const DeviceInfo& d, const Problem& p) const {
  // Tensor cores have 16 times the throughput of SIMT fp32 for 16-bit floats, 8 times for TF32.
  constexpr double kLaunchUs = 3, kEfficiency = 0.6, kMemory = 0.7;
  const double rate = d.fp32_gflops * (type_ != DataType::kFloat ? 16 : tf32_ ? 8 : 1);
  const auto chunks = static_cast<double>(parts_);
  double matrix = columns.direct() ? 0 : chunks * static_cast<double>(columns.bytes());
  if (cuts_channels())
    matrix += (static_cast<double>(ceil_div(channels_, slices.channels)) - 1) *
              static_cast<double>(p.y.bytes());  // y is read for each run of channels
  const double memory = (gpu::tensor_bytes(p) + matrix) / (1e3 * d.bandwidth_gbs * kMemory);
  const double compute = p.flops() / (1e3 * rate * kEfficiency);
  const double launches = chunks * static_cast<double>(products()) + (sums_ ? 1 : 0);
  const double other_point_factor = point_ == start() ? 1 : 1.1;
  return launches * kLaunchUs + other_point_factor * slowdown() * std::max(memory, compute);
}

/// Slowdown of products, measured on an H200: 16-bit matrices with unaligned columns, results of few columns, data
/// gradients a few channels at a time; fp32 sums over many pixels, for which the library does not split K.
double LibraryProduct::slowdown() const {
  constexpr double kUnaligned = 3.5, kUnalignedDepth = 6, kUnalignedData = 2, kFewOutputs = 2.5, kFewChannels = 100;
  constexpr double kManyPixels = 12;
  const bool data = direction_ == Direction::kBackwardData;
  if (cuts_channels() && slices.channels < kAlignedElements) return kFewChannels;
  if (type_ == DataType::kFloat) return weights() && last_ && !tf32_ ? kManyPixels : 1;
  if (!last_ && pixels_ % kAlignedElements != 0) return kUnaligned;
  if (x_last_ && !columns.direct() && depth_ % kAlignedElements != 0) return data ? kUnalignedData : kUnalignedDepth;
  const bool few = direction_ == Direction::kForward && filters_ < kAlignedElements;
  return few && (last_ || !columns.direct()) ? kFewOutputs : 1;
}

void LibraryProduct::prepare(Stream& stream, const Problem& p) {
  const gpu::Slices rest = gpu::part(p, slices, parts_ - 1).size;
  const int size = static_cast<int>(size_of(type_));
  for (int smaller = 0; smaller < (rest == slices ? 1 : 2); ++smaller)
    for (const int alignment : {size, 16}) {
      auto& variants = multipliers_[static_cast<std::size_t>(smaller)];
      auto made = stream.multiplier(product(smaller ? rest : slices, alignment), point_[kChoice]);
      if (!made && !variants[1])
        fail(Status::kNotImplemented, "cuBLASLt has no algorithm for the product of {}", p.key());
      variants[alignment == 16 ? 0 : 1] = made ? std::move(made) : variants[1];
    }
}

void LibraryProduct::run(Stream& stream, const Kernels& built, std::size_t first, const gpu::Chunk& c) const {
  const Multiplier& multiplier = *multipliers_[columns.is_full(c.part) ? 0 : 1][c.aligned ? 0 : 1];
  char* const scratch = LibraryProduct::scratch(c.workspace.handle);
  char* const sums = scratch + library_bytes_ + matrix_bytes();
  const auto size = static_cast<std::int64_t>(size_of(type_));
  char* const x = static_cast<char*>(c.x.address()) + c.x_at * size;
  char* const w = static_cast<char*>(c.w.address()) + c.part.channel * weight_step() * size;
  char* const y = static_cast<char*>(c.y.address()) + c.y_at * size;
  Multiplier::Operands o = {nullptr, nullptr, nullptr, scratch, c.alpha, c.beta, c.bias};
  if (sums_) {
    o.alpha = 1;
    o.beta = c.first ? 0 : 1;
  }
  multiply(stream, multiplier, c.part.size, x, sums_ ? sums : w, y, o);
  if (!sums_ || !c.last) return;
  gpu::add_partials(stream, *built[first], {Buffer(sums), c.w, weight_count(), static_cast<int>(sums_of_part())},
                    c.alpha, c.beta);
}

/// The product, or one per group.
void LibraryProduct::multiply(Stream& stream, const Multiplier& multiplier, const gpu::Slices& part, char* x, char* w,
                              char* y, Multiplier::Operands o) const {
  const auto size = static_cast<std::int64_t>(size_of(type_)), sum_size = static_cast<std::int64_t>(size_of(written()));
  const std::int64_t x_step = matrix_of(part).group_step * (direction_ == Direction::kBackwardData ? sum_size : size);
  const std::int64_t w_step = w_.group_step * (weights() ? sum_size : size), y_step = y_.group_step * size;
  for (std::int64_t g = 0; g < products(); ++g) {
    const auto [a, b, c] = operands(x + g * x_step, w + g * w_step, y + g * y_step);
    o.a = a;
    o.b = b;
    o.c = c;
    multiplier.run(stream, o);
  }
}

}  // namespace

std::unique_ptr<const SolverBase> cuda_gemm(const SolverInfo& info, Direction d) {
  return std::make_unique<gpu::Gemm<LibraryProduct>>(info, d);
}

std::unique_ptr<const SolverBase> cuda_gemm_tf32(const SolverInfo& info, Direction d) {
  return std::make_unique<gpu::Gemm<LibraryProduct>>(info, d, ErrorClass::kReduced);
}

}  // namespace polymio::convolution
