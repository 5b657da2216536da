// ConvCpuGemm: convolution as a matrix product over stored columns (im2col), in passes of a few images;
// backward data multiplies into columns and sums them (col2im). Pointwise convolutions need no columns.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "primitives/convolution/cpu/cost.h"
#include "primitives/convolution/cpu/epilogue.h"
#include "primitives/convolution/cpu/products.h"
#include "primitives/convolution/solvers.h"

namespace polymio::convolution {
namespace {

using kernels::ConvShape;

DataType column_type(const Problem& p) {
  if (p.direction != Direction::kBackwardData) return p.x.type;
  return p.x.type == DataType::kDouble ? DataType::kDouble : DataType::kFloat;
}

/// Images whose columns are stored at once: enough pixels for wide products. Backward weights of 16-bit
/// types takes all, since sums between passes would be rounded.
std::int64_t images_a_pass(const Problem& p) {
  if (p.direction == Direction::kBackwardWeights && size_of(p.w.type) == 2) return p.n();
  std::int64_t pixels = 1;
  for (int i = 0; i < p.spatial(); ++i) pixels *= p.out(i);
  return std::min(p.n(), (1023 + pixels) / pixels);
}

std::size_t column_bytes(const Problem& p, std::int64_t images) {
  std::size_t elements = static_cast<std::size_t>(images * p.c());
  for (int i = 0; i < p.spatial(); ++i) elements *= static_cast<std::size_t>(p.out(i) * p.filter(i));
  return elements * size_of(column_type(p));
}

/// The product of a pass, before its operand is stored.
kernels::ConvProduct pass_product(const Problem& p, std::int64_t images) {
  ConvShape shape = conv_shape(p);
  shape.n = images;
  return p.direction == Direction::kBackwardData ? kernels::column_product(shape, column_type(p))
                                                 : kernels::conv_products(shape, kernel_direction(p.direction))[0];
}

/// A number of tasks for `rows` rows of `bytes` in all: small enough to balance, at least 32 KiB each.
std::int64_t rows_a_task(std::int64_t rows, double bytes, int threads) {
  const double smallest = 32768.0 * static_cast<double>(rows) / std::max(bytes, 1.0);
  return std::clamp<std::int64_t>(std::max(rows / (8 * threads), static_cast<std::int64_t>(smallest)), 1, rows);
}

/// Images a pass: 0 is as usual; fewer, a few more, or all.
Knob image_knob(const Problem& p) {
  constexpr std::int64_t kMost = 1 << 20;
  const std::int64_t usual = images_a_pass(p), n = p.n();
  Knob knob{"images", {0}};
  if (usual == n) return knob;
  for (const std::int64_t images : {std::int64_t{1}, 4 * usual, n})
    if (images != usual && images <= std::min(n, kMost) && images != knob.values.back())
      knob.values.push_back(static_cast<int>(images));
  return knob;
}

ProductTuning tuning_of(const Problem& p, const TunePoint& point) {
  if (is_pointwise(p)) return read_tuning(point);
  ProductTuning t = read_tuning(point);
  t.images = point.size() == 4 && point[0] > 0 ? point[0] : images_a_pass(p);
  return t;
}

/// The tensors of a pass.
struct Buffers {
  char *x, *w, *y, *columns;
  double alpha, beta;
  const kernels::Epilogue* epilogue;
};

/// The work on some consecutive images. Immutable.
class Pass {
 public:
  Pass(const Problem& p, std::int64_t images, const kernels::KernelTable& table, int threads,
       const ProductTuning& tuning)
      : table_(&table), direction_(p.direction), shape_(conv_shape(p)) {
    shape_.n = images;
    kernels::ConvProduct product = pass_product(p, images);
    if (direction_ == Direction::kBackwardData) {
      sum_.shape = shape_;
      columns_group_ = product.c_group;
    } else {
      columns_ = kernels::take_columns(product);
      columns_group_ = columns_.size();
    }
    rows_ = direction_ == Direction::kBackwardData ? sum_.rows() : columns_.rows;
    rows_a_task_ = rows_a_task(rows_, static_cast<double>(column_bytes(p, images) / p.groups()), threads);
    products_ = std::make_unique<const Products>(std::vector{product}, p.groups(), table, threads, tuning);
  }

  std::size_t scratch_bytes() const { return std::max(products_->scratch_bytes(), table_->col2im_scratch(sum_)); }

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
  std::size_t tasks() const {
    return static_cast<std::size_t>((rows_ + rows_a_task_ - 1) / rows_a_task_ * shape_.groups);
  }

  /// Calls work(group, first row, end row) for task i.
  template <class Work>
  void split(std::size_t i, const Work& work) const {
    const auto task = static_cast<std::int64_t>(i);
    const std::int64_t first = task / shape_.groups * rows_a_task_;
    work(task % shape_.groups, first, std::min(first + rows_a_task_, rows_));
  }

  void store_columns(Stream& stream, const Buffers& b) const {
    const auto size = static_cast<std::int64_t>(size_of(shape_.dtype));
    stream.parallel_for(tasks(), 0, [&](std::size_t i, void*) {
      split(i, [&](std::int64_t group, std::int64_t first, std::int64_t end) {
        kernels::Columns columns = columns_;
        columns.view.data = b.x + group * columns.view_group * size;
        table_->im2col(columns, first, end, b.columns + group * columns_group_ * size);
      });
    });
  }

  void sum_columns(Stream& stream, const Buffers& b) const {
    const auto size = static_cast<std::int64_t>(size_of(shape_.dtype));
    const std::int64_t column_size = std::max<std::int64_t>(size, sizeof(float));
    stream.parallel_for(tasks(), table_->col2im_scratch(sum_), [&](std::size_t i, void* scratch) {
      split(i, [&](std::int64_t group, std::int64_t first, std::int64_t end) {
        kernels::ColumnSum sum = sum_;
        sum.columns = b.columns + group * columns_group_ * column_size;
        sum.dx = b.x + group * shape_.c * shape_.x_c * size;
        sum.beta = b.beta;
        table_->col2im(sum, first, end, scratch);
      });
    });
  }

  const kernels::KernelTable* table_;
  Direction direction_;
  ConvShape shape_;
  kernels::Columns columns_;
  kernels::ColumnSum sum_;
  std::int64_t columns_group_ = 0, rows_ = 0, rows_a_task_ = 1;
  std::unique_ptr<const Products> products_;
};

// Storing columns, and summing them: a run of elements, then each of them, consecutive or not.
constexpr double kSpanCycles = 26, kSpanNext = 0.3, kSpanStep = 1.2;
constexpr double kSumCycles = 22, kSumNext = 0.125, kSumStep = 1;

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
    return width * (20 + c * write + outer * taps * (10 + out / width * (10 + 2 * c / m.lanes(DataType::kFloat))));
  }
  const double each = s.stride[2] == 1 ? kSumNext : kSumStep;
  return 40 + width * (write + 0.2) + outer * taps * (kSumCycles + out * each);
}

/// Microseconds of one pass.
double pass_us(const DeviceInfo& d, const Problem& p, const ProductTuning& tuning) {
  const Machine m(d);
  const double share = static_cast<double>(tuning.images) / static_cast<double>(p.n());
  const auto columns = static_cast<double>(column_bytes(p, tuning.images));
  const bool data = p.direction == Direction::kBackwardData;
  kernels::ConvProduct product = pass_product(p, tuning.images);
  Work store;
  double row_cycles = 0, rows = 0;
  if (data) {
    kernels::ColumnSum sum;
    sum.shape = conv_shape(p);
    sum.shape.n = tuning.images;
    row_cycles = sum_row_cycles(m, sum.shape);
    rows = static_cast<double>(sum.rows());
  } else {
    const kernels::Columns c = kernels::take_columns(product);
    row_cycles = column_row_cycles(c);
    rows = static_cast<double>(c.rows);
  }
  store.cycles = rows * row_cycles * static_cast<double>(p.groups());
  store.pieces = rows / static_cast<double>(rows_a_task(static_cast<std::int64_t>(rows),
                                                        columns / static_cast<double>(p.groups()), d.threads));
  store.pieces = std::ceil(store.pieces) * static_cast<double>(p.groups());
  store.largest = store.cycles / store.pieces;
  store.bytes = columns + share * static_cast<double>(p.x.bytes());
  const TensorBytes bytes{{columns, static_cast<double>(p.w.bytes()), share * static_cast<double>(p.y.bytes())}};
  const kernels::TileShape tile = kernel_table(d).gemm_tile(product.gemm.c.dtype);
  const Work multiply = products_work(m, {product}, p.groups(), tile, d.threads, tuning, bytes);
  return m.loop_us(store, columns) + m.loop_us(multiply, columns);
}

/// All images: passes of equal size and a last smaller one.
class Passes {
 public:
  Passes(const Problem& p, const kernels::KernelTable& table, int threads, const ProductTuning& tuning)
      : problem_(p), images_(tuning.images), whole_(p, images_, table, threads, tuning) {
    if (p.n() % images_ != 0) rest_ = std::make_unique<const Pass>(p, p.n() % images_, table, threads, tuning);
  }

  std::size_t scratch_bytes() const {
    return std::max(whole_.scratch_bytes(), rest_ ? rest_->scratch_bytes() : std::size_t{0});
  }

  void run(Stream& stream, const Problem::Args& a) const {
    const auto size = static_cast<std::int64_t>(size_of(problem_.x.type));
    const bool weights = problem_.direction == Direction::kBackwardWeights;
    std::optional<kernels::Epilogue> epilogue;
    if (!problem_.epilogue.empty()) epilogue = epilogue_job(problem_, a);
    for (std::int64_t n = 0; n < problem_.n(); n += images_) {
      const Buffers b{static_cast<char*>(a.x) + n * problem_.x.strides[0] * size,
                      static_cast<char*>(a.w),
                      static_cast<char*>(a.y) + n * problem_.y.strides[0] * size,
                      static_cast<char*>(a.workspace),
                      a.alpha,
                      weights && n > 0 ? 1.0 : a.beta,
                      epilogue ? &*epilogue : nullptr};
      (n + images_ <= problem_.n() ? whole_ : *rest_).run(stream, b);
    }
  }

 private:
  Problem problem_;
  std::int64_t images_;
  Pass whole_;
  std::unique_ptr<const Pass> rest_;
};

class CpuGemm final : public Solver<Problem> {
 public:
  constexpr explicit CpuGemm(Direction d) : direction_(d) {}

  SolverInfo info() const override {
    static constexpr const char* kNames[] = {"ConvCpuGemmFwd", "ConvCpuGemmBwd", "ConvCpuGemmWrw"};
    const auto i = static_cast<std::size_t>(direction_);
    return cpu_info(4 + i, kNames[i], Algorithm::kGemm, 4);
  }

  Verdict check(const DeviceInfo&, const Problem& p) const override { return check_float_problem(p, direction_, true); }

  std::size_t workspace(const DeviceInfo&, const Problem& p, const TunePoint& point) const override {
    return is_pointwise(p) ? 0 : column_bytes(p, tuning_of(p, point).images);
  }

  double predict(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    const ProductTuning tuning = tuning_of(p, point);
    if (is_pointwise(p)) return own_products_us(d, p, tuning);
    const auto passes = static_cast<double>(p.n()) / static_cast<double>(tuning.images);
    return passes * pass_us(d, p, tuning);
  }

  TuneSpace knobs(const DeviceInfo& d, const Problem& p) const override {
    const kernels::TileShape tile = kernel_table(d).gemm_tile(p.x.type);
    if (is_pointwise(p)) return product_knobs(products_of(p), tile);
    TuneSpace space = product_knobs({pass_product(p, images_a_pass(p))}, tile);
    space.insert(space.begin(), image_knob(p));
    return space;
  }

  bool accepts(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    const bool pointwise = is_pointwise(p);
    if (point.size() != (pointwise ? 3 : 4)) return false;
    const kernels::TileShape tile = kernel_table(d).gemm_tile(p.x.type);
    if (pointwise) return is_distinct(products_of(p), p.groups(), tile, d.threads, point);
    const auto images = image_knob(p).values;
    return std::find(images.begin(), images.end(), point[0]) != images.end() &&
           is_distinct({pass_product(p, tuning_of(p, point).images)}, p.groups(), tile, d.threads, point);
  }

  TunePoint start(const DeviceInfo&, const Problem& p) const override {
    const int depth = static_cast<int>(kernels::kGemmDepthBlock);
    if (is_pointwise(p)) return {0, 0, depth};
    return {0, 0, 0, depth};
  }

  Invoker make(Stream& stream, const Problem& p, const TunePoint& point) const override {
    const ProductTuning tuning = tuning_of(p, point);
    if (is_pointwise(p)) return products_invoker(stream, p, tuning);
    const auto passes = std::make_shared<const Passes>(p, kernel_table(stream.info()), stream.threads(), tuning);
    stream.reserve_scratch(passes->scratch_bytes());
    return [passes](Stream& on, const Args& a) { passes->run(on, a); };
  }

 private:
  Direction direction_;
};

}  // namespace

const Solver<Problem>& cpu_gemm(Direction d) {
  static constexpr CpuGemm kSolvers[] = {CpuGemm(Direction::kForward), CpuGemm(Direction::kBackwardData),
                                         CpuGemm(Direction::kBackwardWeights)};
  return kSolvers[static_cast<int>(d)];
}

}  // namespace polymio::convolution
