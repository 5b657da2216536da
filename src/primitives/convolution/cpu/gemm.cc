// ConvCpuGemm: convolution as a matrix product over stored columns (im2col), in passes of a few images;
// backward data multiplies into columns and sums them (col2im), of a few rows at once where weights are few. Pointwise
// convolutions need no columns.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "primitives/convolution/cpu/cost.h"
#include "primitives/convolution/cpu/epilogue.h"
#include "primitives/convolution/cpu/products.h"
#include "primitives/convolution/convolution.h"

namespace polymio::convolution {
namespace {

using kernels::ConvShape;

DataType column_type(const Problem& p) {
  if (p.direction != Direction::kBackwardData) return p.x.type;
  return p.x.type == DataType::kDouble ? DataType::kDouble : DataType::kFloat;
}

/// Images whose columns are stored at once: enough pixels for wide products. Backward weights of 16-bit
/// types takes all, since sums between passes would be rounded.
std::int64_t images_per_pass(const Problem& p) {
  if (p.direction == Direction::kBackwardWeights && size_of(p.w.type) == 2) return p.n();
  std::int64_t pixels = 1;
  for (int i = 0; i < p.spatial(); ++i) pixels *= p.out(i);
  return std::min(p.n(), (1023 + pixels) / pixels);
}

/// What a pass does at once: images, or one image's output rows.
struct Share {
  std::int64_t images = 1, rows = 1;
};

/// The problem of one pass.
ConvShape share_shape(const Problem& p, const Share& share) {
  ConvShape shape = conv_shape(p);
  shape.n = share.images;
  shape.out[1] = share.rows;
  return shape;
}

std::size_t column_bytes(const Problem& p, const Share& share) {
  const ConvShape s = share_shape(p, share);
  std::int64_t elements = s.n * p.c();
  for (int i = 0; i < kernels::kSpatial; ++i) elements *= s.out[i] * s.taps[i];
  return static_cast<std::size_t>(elements) * size_of(column_type(p));
}

/// As much as makes products wide. Backward data with few weights, which every pass reads: what has its columns in the
/// second-level caches of all cores, whatever the number of threads, since it may decide the order of summation. Types
/// that round do not add to what they have written.
Share usual_share(const DeviceInfo& d, const Problem& p) {
  const ConvShape s = conv_shape(p);
  const Share usual{images_per_pass(p), s.out[1]};
  const double cache = 0.25 * static_cast<double>(d.cache_bytes[1]);
  const bool splits = p.direction == Direction::kBackwardData && size_of(p.x.type) >= 4 && s.taps[0] * s.in[0] == 1 &&
                      static_cast<double>(p.w.bytes()) < cache;
  if (!splits) return usual;
  const double images = cache * d.units / static_cast<double>(column_bytes(p, {1, s.out[1]}));
  if (images >= 1) return {std::min(usual.images, static_cast<std::int64_t>(images)), s.out[1]};
  return {1, static_cast<std::int64_t>(std::ceil(static_cast<double>(s.out[1]) / std::ceil(1 / images)))};
}

Share share_of(const DeviceInfo& d, const Problem& p, const TunePoint& point) {
  const bool usual = point.size() != 4 || point[0] <= 0;
  return usual ? usual_share(d, p) : Share{point[0], conv_shape(p).out[1]};
}

/// The product of a pass, before its operand is stored.
kernels::ConvProduct pass_product(const Problem& p, const Share& share) {
  const ConvShape shape = share_shape(p, share);
  return p.direction == Direction::kBackwardData ? kernels::column_product(shape, column_type(p))
                                                 : kernels::conv_products(shape, kernel_direction(p.direction))[0];
}

/// Rows a task, of `rows` rows of `bytes` in all: few enough to balance, at least 32 KiB. There may be none: output
/// rows that meet nothing but padding.
std::int64_t rows_per_task(std::int64_t rows, double bytes, int threads) {
  const double smallest = 32768.0 * static_cast<double>(rows) / std::max(bytes, 1.0);
  return std::clamp<std::int64_t>(std::max(rows / (8 * threads), static_cast<std::int64_t>(smallest)), 1,
                                  std::max<std::int64_t>(rows, 1));
}

/// Images a pass: 0 is as usual; one, as many as make products wide, a few more, or all.
Knob image_knob(const DeviceInfo& d, const Problem& p) {
  constexpr std::int64_t kMost = 1 << 20;
  const std::int64_t wide = images_per_pass(p), n = p.n();
  const Share usual = usual_share(d, p);
  const bool whole = usual.rows == conv_shape(p).out[1];
  Knob knob{"images", {0}};
  if (whole && usual.images == n) return knob;
  for (const std::int64_t images : {std::int64_t{1}, wide, 4 * wide, n}) {
    const bool known = (whole && images == usual.images) || images == knob.values.back();
    if (!known && images <= std::min(n, kMost)) knob.values.push_back(static_cast<int>(images));
  }
  return knob;
}

/// The tensors of a pass, and from which output row on.
struct Buffers {
  char *x, *w, *y, *columns;
  std::int64_t row;
  double alpha, beta;
  const kernels::Epilogue* epilogue;
};

/// The work on some consecutive images, or rows of one. Immutable.
class Pass {
 public:
  Pass(const Problem& p, const Share& share, const kernels::KernelTable& table, int threads,
       const ProductTuning& tuning)
      : table_(&table),
        direction_(p.direction),
        shape_(share_shape(p, share)),
        all_rows_(conv_shape(p).out[1]),
        threads_(threads) {
    kernels::ConvProduct product = pass_product(p, share);
    if (direction_ == Direction::kBackwardData) {
      columns_group_ = product.c_group;
    } else {
      columns_ = kernels::take_columns(product);
      columns_group_ = columns_.size();
    }
    bytes_ = static_cast<double>(column_bytes(p, share) / p.groups());
    products_ = std::make_unique<const Products>(std::vector{product}, p.groups(), table, threads, tuning);
  }

  std::size_t scratch_bytes() const {
    return std::max(products_->scratch_bytes(), table_->col2im_scratch(rows_from(0)));
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
  /// Calls work(group, first row, end row, scratch) for tasks that together have `rows` rows of each group.
  template <class Work>
  void split(Stream& stream, std::int64_t rows, std::size_t scratch_bytes, const Work& work) const {
    const std::int64_t some = rows_per_task(rows, bytes_, threads_);
    const auto tasks = static_cast<std::size_t>((rows + some - 1) / some * shape_.groups);
    stream.parallel_for(tasks, scratch_bytes, [&](std::size_t i, void* scratch) {
      const auto task = static_cast<std::int64_t>(i);
      const std::int64_t first = task / shape_.groups * some;
      work(task % shape_.groups, first, std::min(first + some, rows), scratch);
    });
  }

  void store_columns(Stream& stream, const Buffers& b) const {
    const auto size = static_cast<std::int64_t>(size_of(shape_.dtype));
    split(stream, columns_.rows, 0, [&](std::int64_t group, std::int64_t first, std::int64_t end, void*) {
      kernels::Columns columns = columns_;
      columns.view.data = b.x + group * columns.view_group * size;
      table_->im2col(columns, first, end, b.columns + group * columns_group_ * size);
    });
  }

  /// The rows of dx from the first one that is reached from output row `row`. Those that rows behind the pass reach too
  /// have their part of them.
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
      sum.columns = b.columns + group * columns_group_ * column_size;
      sum.dx = b.x + group * shape_.c * shape_.x_c * size;
      sum.beta = b.beta;
      table_->col2im(sum, first, end, scratch);
    };
    split(stream, whole.rows(), table_->col2im_scratch(whole), work);
  }

  const kernels::KernelTable* table_;
  Direction direction_;
  ConvShape shape_;
  std::int64_t all_rows_;
  int threads_;
  kernels::Columns columns_;
  std::int64_t columns_group_ = 0;
  double bytes_ = 0;  // of a group's columns
  std::unique_ptr<const Products> products_;
};

// Storing columns, and summing them: a run of elements, then each of them, consecutive or not.
constexpr double kSpanCycles = 26, kSpanNext = 0.3, kSpanStep = 1.2;
constexpr double kSumCycles = 22, kSumNext = 0.125, kSumStep = 1, kDiagonalCycles = 6, kDiagonalVector = 2.5;

/// Cycles of storing one row of columns.
double column_row_cycles(const kernels::Columns& c) {
  constexpr double kChunk = 128;  // the kernel finds the runs of so many elements at once
  const kernels::Axis& axis = c.lanes_are_rows ? c.view.depth : c.view.lanes;
  const kernels::Level& inner = axis.level[kernels::kLevels - 1];
  const auto size = static_cast<double>(c.row_size);
  const double run = std::min(kChunk, static_cast<double>(inner.size));
  return size / run * (kSpanCycles + run * (inner.stride == 1 ? kSpanNext : kSpanStep)) + 10 * std::ceil(size / kChunk);
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
  const double each = s.stride[2] == 1 ? kSumNext : kSumStep;
  return 40 + width * (write + 0.2) + outer * taps * (kSumCycles + out * each);
}

/// How many passes there are, the last one counted by its part.
double count_of(const Problem& p, const Share& share) {
  return static_cast<double>(p.n()) / static_cast<double>(share.images) * static_cast<double>(conv_shape(p).out[1]) /
         static_cast<double>(share.rows);
}

/// Microseconds of one pass.
double pass_us(const DeviceInfo& d, const Problem& p, const Share& share, const ProductTuning& tuning) {
  const Machine m(d);
  const double part = 1 / count_of(p, share);
  const auto columns = static_cast<double>(column_bytes(p, share));
  const bool data = p.direction == Direction::kBackwardData;
  kernels::ConvProduct product = pass_product(p, share);
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
  const kernels::TileShape tile = kernel_table(d).gemm_tile(product.gemm.a.dtype);
  const Work multiply = products_work(m, {product}, p.groups(), tile, d.threads, tuning, bytes);
  return m.loop_us(store, columns) + m.loop_us(multiply, columns);
}

/// All images: passes of equal size and a last smaller one, of the images or of each image.
class Passes {
 public:
  Passes(const Problem& p, const Share& share, const kernels::KernelTable& table, int threads,
         const ProductTuning& tuning)
      : problem_(p), share_(share), all_rows_(conv_shape(p).out[1]), whole_(p, share, table, threads, tuning) {
    const std::int64_t images = p.n() % share.images, rows = all_rows_ % share.rows;
    if (images + rows == 0) return;
    const Share rest{images == 0 ? share.images : images, rows == 0 ? share.rows : rows};
    rest_ = std::make_unique<const Pass>(p, rest, table, threads, tuning);
  }

  std::size_t scratch_bytes() const {
    return std::max(whole_.scratch_bytes(), rest_ ? rest_->scratch_bytes() : std::size_t{0});
  }

  void run(Stream& stream, const Problem::Args& a) const {
    const auto size = static_cast<std::int64_t>(size_of(problem_.x.type));
    const bool weights = problem_.direction == Direction::kBackwardWeights;
    const std::int64_t y_row = conv_shape(problem_).y_d[1];
    std::optional<kernels::Epilogue> epilogue;
    if (!problem_.epilogue.empty()) epilogue = epilogue_job(problem_, a);
    for (std::int64_t n = 0; n < problem_.n(); n += share_.images)
      for (std::int64_t row = (all_rows_ - 1) / share_.rows * share_.rows; row >= 0; row -= share_.rows) {
        const Buffers b{static_cast<char*>(a.x) + n * problem_.x.strides[0] * size,
                        static_cast<char*>(a.w),
                        static_cast<char*>(a.y) + (n * problem_.y.strides[0] + row * y_row) * size,
                        static_cast<char*>(a.workspace),
                        row,
                        a.alpha,
                        weights && n > 0 ? 1.0 : a.beta,
                        epilogue ? &*epilogue : nullptr};
        const bool whole = n + share_.images <= problem_.n() && row + share_.rows <= all_rows_;
        (whole ? whole_ : *rest_).run(stream, b);
      }
  }

 private:
  Problem problem_;
  Share share_;
  std::int64_t all_rows_;
  Pass whole_;
  std::unique_ptr<const Pass> rest_;
};

class CpuGemm final : public Solver<Problem> {
 public:
  CpuGemm(const SolverInfo& info, Direction d) : Solver(info), direction_(d) {}

  Verdict is_applicable(const DeviceInfo&, const Problem& p) const override {
    return check_float_problem(p, direction_, true);
  }

  std::size_t workspace_size(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    return is_pointwise(p) ? 0 : column_bytes(p, share_of(d, p, point));
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    const ProductTuning tuning = read_tuning(point);
    if (is_pointwise(p)) return own_products_us(d, p, tuning);
    const Share share = share_of(d, p, point);
    return count_of(p, share) * pass_us(d, p, share, tuning);
  }

  TuneSpace tune_space(const DeviceInfo& d, const Problem& p) const override {
    const kernels::TileShape tile = kernel_table(d).gemm_tile(p.x.type);
    if (is_pointwise(p)) return product_knobs(products_of(p), tile);
    TuneSpace space = product_knobs({pass_product(p, share_of(d, p, {}))}, tile);
    space.insert(space.begin(), image_knob(d, p));
    return space;
  }

  bool is_valid(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    const bool pointwise = is_pointwise(p);
    if (point.size() != (pointwise ? 3 : 4)) return false;
    const kernels::TileShape tile = kernel_table(d).gemm_tile(p.x.type);
    if (pointwise) return is_distinct(products_of(p), p.groups(), tile, d.threads, point);
    const auto images = image_knob(d, p).values;
    return std::find(images.begin(), images.end(), point[0]) != images.end() &&
           is_distinct({pass_product(p, share_of(d, p, point))}, p.groups(), tile, d.threads, point);
  }

  TunePoint default_point(const DeviceInfo&, const Problem& p) const override {
    const int depth = static_cast<int>(kernels::kGemmDepthBlock);
    if (is_pointwise(p)) return {0, 0, depth};
    return {0, 0, 0, depth};
  }

  Invoker build(Stream& stream, const Problem& p, const TunePoint& point) const override {
    const ProductTuning tuning = read_tuning(point);
    if (is_pointwise(p)) return products_invoker(stream, p, tuning);
    const auto passes = std::make_shared<const Passes>(p, share_of(stream.info(), p, point),
                                                       kernel_table(stream.info()), stream.threads(), tuning);
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
