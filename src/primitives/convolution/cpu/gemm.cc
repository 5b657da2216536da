// ConvCpuGemm: convolution as a matrix product with a stored column matrix (im2col), in passes of a few images.
// Backward data computes a column matrix and sums it into dx (col2im), with few weights in passes of a few output rows.
// Pointwise convolutions need no column matrix.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "kernels/cpu/epilogue.h"
#include "kernels/cpu/im2col.h"
#include "kernels/cpu/kernels_of.h"
#include "primitives/convolution/cpu/epilogue.h"
#include "primitives/convolution/cpu/problem_shape.h"
#include "primitives/convolution/cpu/product_cost.h"
#include "primitives/convolution/cpu/products.h"
#include "primitives/convolution/convolution.h"

namespace polymio::convolution {
namespace {

using kernels::ConvShape;

DataType column_type(const Problem& p) {
  if (p.direction != Direction::kBackwardData) return p.x.type;
  return p.x.type == DataType::kDouble ? DataType::kDouble : DataType::kFloat;
}

/// Images per pass: enough for products of about 1024 columns. All images for backward weights of 16-bit types, since
/// every pass rounds its sums.
std::int64_t images_per_pass(const Problem& p) {
  if (p.direction == Direction::kBackwardWeights && size_of(p.w.type) == 2) return p.n();
  std::int64_t pixels = 1;
  for (int i = 0; i < p.spatial(); ++i) pixels *= p.out(i);
  return std::min(p.n(), (1023 + pixels) / pixels);
}

/// The extent of a pass: whole images, or output rows of one image.
struct PassExtent {
  std::int64_t images = 1, rows = 1;
};

/// The problem of one pass.
ConvShape pass_shape(const Problem& p, const PassExtent& extent) {
  ConvShape shape = conv_shape(p);
  shape.n = extent.images;
  shape.out[1] = extent.rows;
  return shape;
}

std::size_t column_bytes(const Problem& p, const PassExtent& extent) {
  const ConvShape s = pass_shape(p, extent);
  std::int64_t elements = s.n * p.c();
  for (int i = 0; i < kernels::kSpatial; ++i) elements *= s.out[i] * s.taps[i];
  return static_cast<std::size_t>(elements) * size_of(column_type(p));
}

/// The extent of the default point: images_per_pass(). Backward data with few weights, which every pass reads: as much
/// as keeps the column matrix in the second-level caches of all cores. That does not depend on the number of threads,
/// since it may decide the order of summation. Not for 16-bit types, which would round between passes.
PassExtent default_extent(const DeviceInfo& d, const Problem& p) {
  const ConvShape s = conv_shape(p);
  const PassExtent usual{images_per_pass(p), s.out[1]};
  const double cache = 0.25 * static_cast<double>(d.cache_bytes[1]);
  const bool splits = p.direction == Direction::kBackwardData && size_of(p.x.type) >= 4 && s.taps[0] * s.in[0] == 1 &&
                      static_cast<double>(p.w.bytes()) < cache;
  if (!splits) return usual;
  const double images = cache * d.units / static_cast<double>(column_bytes(p, {1, s.out[1]}));
  if (images >= 1) return {std::min(usual.images, static_cast<std::int64_t>(images)), s.out[1]};
  return {1, static_cast<std::int64_t>(std::ceil(static_cast<double>(s.out[1]) / std::ceil(1 / images)))};
}

PassExtent extent_at(const DeviceInfo& d, const Problem& p, const TunePoint& point) {
  const bool is_default = point.size() != 4 || point[0] <= 0;
  return is_default ? default_extent(d, p) : PassExtent{point[0], conv_shape(p).out[1]};
}

/// The product of a pass, with x as its operand rather than the column matrix.
kernels::ConvProduct pass_product(const Problem& p, const PassExtent& extent) {
  const ConvShape shape = pass_shape(p, extent);
  return p.direction == Direction::kBackwardData ? kernels::column_product(shape, column_type(p))
                                                 : kernels::conv_products(shape, kernel_direction(p.direction))[0];
}

/// Rows per task, of `rows` rows with `bytes` in all: at least 32 KiB, and eight tasks per thread if possible. `rows`
/// may be 0: output rows that only see padding.
std::int64_t rows_per_task(std::int64_t rows, double bytes, int threads) {
  const double smallest = 32768.0 * static_cast<double>(rows) / std::max(bytes, 1.0);
  return std::clamp<std::int64_t>(std::max(rows / (8 * threads), static_cast<std::int64_t>(smallest)), 1,
                                  std::max<std::int64_t>(rows, 1));
}

/// The knob of images per pass: 0 (default_extent), one, images_per_pass(), four times that, all.
Knob image_knob(const DeviceInfo& d, const Problem& p) {
  constexpr std::int64_t kMost = 1 << 20;
  const std::int64_t per_pass = images_per_pass(p), n = p.n();
  const PassExtent usual = default_extent(d, p);
  const bool whole = usual.rows == conv_shape(p).out[1];
  Knob knob{"images", {0}};
  if (whole && usual.images == n) return knob;
  for (const std::int64_t images : {std::int64_t{1}, per_pass, 4 * per_pass, n}) {
    const bool listed = (whole && images == usual.images) || images == knob.values.back();
    if (!listed && images <= std::min(n, kMost)) knob.values.push_back(static_cast<int>(images));
  }
  return knob;
}

/// The buffers of a pass, and its first output row.
struct Buffers {
  char *x, *w, *y, *columns;
  std::int64_t row;
  double alpha, beta;
  const kernels::Epilogue* epilogue;
};

/// One pass over consecutive images, or over output rows of one image. Immutable.
class Pass {
 public:
  Pass(const Problem& p, const PassExtent& extent, CpuIsa isa, int threads, const ProductTuning& tuning)
      : kernels_(&kernels::kernels_of<kernels::Im2colKernels>(isa)),
        direction_(p.direction),
        shape_(pass_shape(p, extent)),
        all_rows_(conv_shape(p).out[1]),
        threads_(threads) {
    kernels::ConvProduct product = pass_product(p, extent);
    if (direction_ == Direction::kBackwardData) {
      columns_group_stride_ = product.c_group;
    } else {
      columns_ = kernels::take_columns(product);
      columns_group_stride_ = columns_.size();
    }
    bytes_ = static_cast<double>(column_bytes(p, extent) / p.groups());
    products_ = std::make_unique<const Products>(std::vector{product}, p.groups(), isa, threads, tuning);
  }

  std::size_t scratch_bytes() const {
    return std::max(products_->scratch_bytes(), kernels_->col2im_scratch(rows_from(0)));
  }

  void run(Stream& stream, const Buffers& b) const {
    if (direction_ == Direction::kBackwardData) {
      products_->run(stream, {{b.x, b.w, b.y}, b.columns, b.alpha, 0.0});
      sum_columns(stream, b);
      return;
    }
    store_columns(stream, b);
    void* result = direction_ == Direction::kForward ? b.y : b.w;
    products_->run(stream, {{b.columns, b.w, b.y}, result, b.alpha, b.beta, b.epilogue});
  }

 private:
  /// Calls work(group, first row, end row, scratch) in parallel; the tasks together cover `rows` rows of each group.
  template <class Work>
  void split(Stream& stream, std::int64_t rows, std::size_t scratch_bytes, const Work& work) const {
    const std::int64_t chunk = rows_per_task(rows, bytes_, threads_);
    const auto tasks = static_cast<std::size_t>((rows + chunk - 1) / chunk * shape_.groups);
    stream.parallel_for(tasks, scratch_bytes, [&](std::size_t i, void* scratch) {
      const auto task = static_cast<std::int64_t>(i);
      const std::int64_t first = task / shape_.groups * chunk;
      work(task % shape_.groups, first, std::min(first + chunk, rows), scratch);
    });
  }

  void store_columns(Stream& stream, const Buffers& b) const {
    const auto size = static_cast<std::int64_t>(size_of(shape_.dtype));
    split(stream, columns_.rows, 0, [&](std::int64_t group, std::int64_t first, std::int64_t end, void*) {
      kernels::Columns columns = columns_;
      columns.view.data = b.x + group * columns.view_group * size;
      kernels_->im2col(columns, first, end, b.columns + group * columns_group_stride_ * size);
    });
  }

  /// The rows of dx that output rows from `row` on contribute to. Rows [more, high) have contributions of a later range
  /// of output rows already: passes run from the last output row to the first.
  kernels::ColumnSum rows_from(std::int64_t row) const {
    kernels::ColumnSum sum;
    sum.shape = shape_;
    sum.shape.pad[1] -= row * shape_.stride[1];
    const std::int64_t reach = (shape_.taps[1] - 1) * shape_.dilation[1] + 1, end = row + shape_.out[1];
    const auto clip = [&](std::int64_t h) { return std::clamp<std::int64_t>(h, 0, shape_.in[1]); };
    const auto first = [&](std::int64_t p) { return clip(p * shape_.stride[1] - shape_.pad[1]); };
    sum.low = row == 0 ? 0 : first(row);
    sum.more = end == all_rows_ ? shape_.in[1] : first(end);
    sum.high = std::max(clip((end - 1) * shape_.stride[1] - shape_.pad[1] + reach), sum.more);
    return sum;
  }

  void sum_columns(Stream& stream, const Buffers& b) const {
    const auto size = static_cast<std::int64_t>(size_of(shape_.dtype));
    const std::int64_t column_size = std::max<std::int64_t>(size, sizeof(float));
    const kernels::ColumnSum whole = rows_from(b.row);
    const auto work = [&](std::int64_t group, std::int64_t first, std::int64_t end, void* scratch) {
      kernels::ColumnSum sum = whole;
      sum.columns = b.columns + group * columns_group_stride_ * column_size;
      sum.dx = b.x + group * shape_.c * shape_.x_c * size;
      sum.beta = b.beta;
      kernels_->col2im(sum, first, end, scratch);
    };
    split(stream, whole.rows(), kernels_->col2im_scratch(whole), work);
  }

  const kernels::Im2colKernels* kernels_;
  Direction direction_;
  ConvShape shape_;
  std::int64_t all_rows_;
  int threads_;
  kernels::Columns columns_;
  std::int64_t columns_group_stride_ = 0;
  double bytes_ = 0;  // of a group's columns
  std::unique_ptr<const Products> products_;
};

// Cycles (see Machine) of im2col: per run of elements, per contiguous element of it, per strided element. The machine
// was not recorded; estimates_test.cc pins rankings against the direct solver.
constexpr double kSpanCycles = 26, kSpanUnitCycles = 0.3, kSpanStrideCycles = 1.2;
// The same of col2im; with NHWC per pixel and per vector of a run of channels.
constexpr double kSumCycles = 22, kSumUnitCycles = 0.125, kSumStrideCycles = 1;
constexpr double kDiagonalCycles = 6, kDiagonalVector = 2.5;

/// Cycles of storing one row of the column matrix.
double column_row_cycles(const kernels::Columns& c) {
  constexpr double kChunk = 128;  // elements whose runs the kernel finds at once
  const kernels::Axis& axis = c.lanes_are_rows ? c.view.depth : c.view.lanes;
  const kernels::Level& inner = axis.level[kernels::kLevels - 1];
  const auto size = static_cast<double>(c.row_size);
  const double run = std::min(kChunk, static_cast<double>(inner.size));
  return size / run * (kSpanCycles + run * (inner.stride == 1 ? kSpanUnitCycles : kSpanStrideCycles)) +
         10 * std::ceil(size / kChunk);
}

/// Cycles of summing one row of dx.
double sum_row_cycles(const Machine& m, const ConvShape& s) {
  double outer = 1;
  for (int d = 0; d + 1 < kernels::kSpatial; ++d)
    outer *= static_cast<double>(s.taps[d]) * static_cast<double>(s.out[d] * 1.0) / static_cast<double>(s.in[d]);
  const auto taps = static_cast<double>(s.taps[2]), width = static_cast<double>(s.in[2]),
             out = static_cast<double>(s.out[2]);
  const double write = convert_cycles(s.dtype);
  if (kernels::columns_are_channels_last(s)) {
    const auto c = static_cast<double>(s.c);
    const double runs = s.dilation[2] == 1 ? 1 : taps;
    const double vectors = std::ceil(c * taps / runs / m.lanes(DataType::kFloat));
    return 40 + width * c * (write + 0.2) +
           outer * runs * (kSumCycles + out * (kDiagonalCycles + kDiagonalVector * vectors));
  }
  const double each = s.stride[2] == 1 ? kSumUnitCycles : kSumStrideCycles;
  return 40 + width * (write + 0.2) + outer * taps * (kSumCycles + out * each);
}

/// Number of passes; a smaller last one counts as a fraction.
double passes_of(const Problem& p, const PassExtent& extent) {
  return static_cast<double>(p.n()) / static_cast<double>(extent.images) * static_cast<double>(conv_shape(p).out[1]) /
         static_cast<double>(extent.rows);
}

/// Microseconds of one pass.
double pass_us(const DeviceInfo& d, const Problem& p, const PassExtent& extent, const ProductTuning& tuning) {
  const Machine m(d);
  const double part = 1 / passes_of(p, extent);
  const auto columns = static_cast<double>(column_bytes(p, extent));
  const bool data = p.direction == Direction::kBackwardData;
  kernels::ConvProduct product = pass_product(p, extent);
  Work store;
  double row_cycles = 0, rows = 0;
  if (data) {
    kernels::ColumnSum sum;
    sum.shape = conv_shape(p);
    sum.high = sum.shape.in[1];
    row_cycles = sum_row_cycles(m, sum.shape);
    rows = part * static_cast<double>(sum.rows());
  } else {
    const kernels::Columns c = kernels::take_columns(product);
    row_cycles = column_row_cycles(c);
    rows = static_cast<double>(c.rows);
  }
  store.cycles = rows * row_cycles * static_cast<double>(p.groups());
  store.pieces = rows / static_cast<double>(rows_per_task(static_cast<std::int64_t>(rows),
                                                          columns / static_cast<double>(p.groups()), d.threads));
  store.pieces = std::ceil(store.pieces) * static_cast<double>(p.groups());
  store.largest = store.cycles / store.pieces;
  store.bytes = columns + part * static_cast<double>(p.x.bytes());
  const TensorBytes bytes{{columns, static_cast<double>(p.w.bytes()), part * static_cast<double>(p.y.bytes())}};
  const kernels::TileShape tile = kernels::kernels_of<kernels::GemmKernels>(d.isa).tile(product.gemm.a.dtype);
  const Work multiply = products_work(m, {product}, p.groups(), tile, d.threads, tuning, bytes);
  return m.loop_us(store, columns) + m.loop_us(multiply, columns);
}

/// All passes of a problem: equal ones, and a smaller last one of the images, or of the rows of each image.
class Passes {
 public:
  Passes(const Problem& p, const PassExtent& extent, CpuIsa isa, int threads, const ProductTuning& tuning)
      : problem_(p), extent_(extent), all_rows_(conv_shape(p).out[1]), full_pass_(p, extent, isa, threads, tuning) {
    const std::int64_t images = p.n() % extent.images, rows = all_rows_ % extent.rows;
    if (images + rows == 0) return;
    const PassExtent rest{images == 0 ? extent.images : images, rows == 0 ? extent.rows : rows};
    last_pass_ = std::make_unique<const Pass>(p, rest, isa, threads, tuning);
  }

  std::size_t scratch_bytes() const {
    return std::max(full_pass_.scratch_bytes(), last_pass_ ? last_pass_->scratch_bytes() : std::size_t{0});
  }

  void run(Stream& stream, const Problem::Args& a) const {
    const auto size = static_cast<std::int64_t>(size_of(problem_.x.type));
    const bool weights = problem_.direction == Direction::kBackwardWeights;
    const std::int64_t y_row = conv_shape(problem_).y_d[1];
    std::optional<kernels::Epilogue> epilogue;
    if (!problem_.epilogue.empty()) epilogue = epilogue_job(problem_, a);
    for (std::int64_t n = 0; n < problem_.n(); n += extent_.images)
      for (std::int64_t row = (all_rows_ - 1) / extent_.rows * extent_.rows; row >= 0; row -= extent_.rows) {
        const std::int64_t shift = (n * problem_.y.strides[0] + row * y_row) * size;
        if (epilogue && epilogue->residual) epilogue->residual = static_cast<const char*>(a.residual) + shift;
        const Buffers b{static_cast<char*>(a.x) + n * problem_.x.strides[0] * size,
                        static_cast<char*>(a.w),
                        static_cast<char*>(a.y) + shift,
                        static_cast<char*>(a.workspace),
                        row,
                        a.alpha,
                        weights && n > 0 ? 1.0 : a.beta,
                        epilogue ? &*epilogue : nullptr};
        const bool whole = n + extent_.images <= problem_.n() && row + extent_.rows <= all_rows_;
        (whole ? full_pass_ : *last_pass_).run(stream, b);
      }
  }

 private:
  Problem problem_;
  PassExtent extent_;
  std::int64_t all_rows_;
  Pass full_pass_;
  std::unique_ptr<const Pass> last_pass_;
};

class CpuGemm final : public Solver<Problem> {
 public:
  CpuGemm(const SolverInfo& info, Direction d) : Solver(info), direction_(d) {}

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    constexpr std::int64_t kMostMiB = 1024;
    if (const Verdict v = check_float_problem(p, direction_, true); !v) return v;
    const auto bytes = static_cast<std::int64_t>(workspace_size(d, p, default_point(d, p)));
    POLYMIO_REQUIRE_MOST(bytes >> 20, kMostMiB, "MiB of the matrix of an image");
    return {};
  }

  std::size_t workspace_size(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    return is_pointwise(p) ? 0 : column_bytes(p, extent_at(d, p, point));
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    const ProductTuning tuning = read_tuning(point);
    if (is_pointwise(p)) return own_products_us(d, p, tuning);
    const PassExtent extent = extent_at(d, p, point);
    return passes_of(p, extent) * pass_us(d, p, extent, tuning);
  }

  TuneSpace tune_space(const DeviceInfo& d, const Problem& p) const override {
    const kernels::TileShape tile = kernels::kernels_of<kernels::GemmKernels>(d.isa).tile(p.x.type);
    if (is_pointwise(p)) return product_knobs(products_of(p), tile);
    TuneSpace space = product_knobs({pass_product(p, extent_at(d, p, {}))}, tile);
    space.insert(space.begin(), image_knob(d, p));
    return space;
  }

  bool is_valid(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    const bool pointwise = is_pointwise(p);
    if (point.size() != (pointwise ? 3 : 4)) return false;
    const kernels::TileShape tile = kernels::kernels_of<kernels::GemmKernels>(d.isa).tile(p.x.type);
    if (pointwise) return is_distinct(products_of(p), p.groups(), tile, d.threads, point);
    const auto images = image_knob(d, p).values;
    return std::find(images.begin(), images.end(), point[0]) != images.end() &&
           is_distinct({pass_product(p, extent_at(d, p, point))}, p.groups(), tile, d.threads, point);
  }

  TunePoint default_point(const DeviceInfo&, const Problem& p) const override {
    const int depth = static_cast<int>(kernels::kGemmDepthBlock);
    if (is_pointwise(p)) return {0, 0, depth};
    return {0, 0, 0, depth};
  }

  Invoker build(Stream& stream, const Problem& p, const TunePoint& point) const override {
    const ProductTuning tuning = read_tuning(point);
    if (is_pointwise(p)) return products_invoker(stream, p, tuning);
    const auto passes = std::make_shared<const Passes>(p, extent_at(stream.info(), p, point), stream.info().isa,
                                                       stream.threads(), tuning);
    stream.reserve_scratch(passes->scratch_bytes());
    return [passes](Stream& on, const Args& a) { passes->run(on, a); };
  }

 private:
  Direction direction_;
};

}  // namespace

std::unique_ptr<const SolverBase> cpu_gemm(const SolverInfo& info, Direction d) {
  return std::make_unique<CpuGemm>(info, d);
}

}  // namespace polymio::convolution
