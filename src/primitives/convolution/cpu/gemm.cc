// ConvCpuGemm: convolution as a matrix product over stored columns (im2col), in passes of a few images;
// backward data multiplies into columns and sums them (col2im). Pointwise convolutions need no columns.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <memory>
#include <utility>

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

/// A number of tasks for `rows` rows of `bytes` in all: small enough to balance, at least 32 KiB each.
std::int64_t rows_a_task(std::int64_t rows, double bytes, int threads) {
  const double smallest = 32768.0 * static_cast<double>(rows) / std::max(bytes, 1.0);
  return std::clamp<std::int64_t>(std::max(rows / (8 * threads), static_cast<std::int64_t>(smallest)), 1, rows);
}

/// The tensors of a pass.
struct Buffers {
  char *x, *w, *y, *columns;
  double alpha, beta;
};

/// The work on some consecutive images. Immutable.
class Pass {
 public:
  Pass(const Problem& p, std::int64_t images, const kernels::KernelTable& table, int threads)
      : table_(&table), direction_(p.direction), shape_(conv_shape(p)) {
    shape_.n = images;
    kernels::ConvProduct product = direction_ == Direction::kBackwardData
                                       ? kernels::column_product(shape_, column_type(p))
                                       : kernels::conv_products(shape_, kernel_direction(direction_))[0];
    if (direction_ == Direction::kBackwardData) {
      sum_.shape = shape_;
      columns_group_ = product.c_group;
    } else {
      columns_ = kernels::take_columns(product);
      columns_group_ = columns_.size();
    }
    rows_ = direction_ == Direction::kBackwardData ? sum_.rows() : columns_.rows;
    rows_a_task_ = rows_a_task(rows_, static_cast<double>(column_bytes(p, images) / p.groups()), threads);
    products_ = std::make_unique<const Products>(std::vector{product}, p.groups(), table, threads);
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
    products_->run(stream, {{b.columns, b.w, b.y}, result, b.alpha, b.beta});
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

/// All images: passes of equal size and a last smaller one.
class Passes {
 public:
  Passes(const Problem& p, const kernels::KernelTable& table, int threads)
      : problem_(p), images_(images_a_pass(p)), whole_(p, images_, table, threads) {
    if (p.n() % images_ != 0) rest_ = std::make_unique<const Pass>(p, p.n() % images_, table, threads);
  }

  std::size_t scratch_bytes() const {
    return std::max(whole_.scratch_bytes(), rest_ ? rest_->scratch_bytes() : std::size_t{0});
  }

  void run(Stream& stream, const Problem::Args& a) const {
    const auto size = static_cast<std::int64_t>(size_of(problem_.x.type));
    const bool weights = problem_.direction == Direction::kBackwardWeights;
    for (std::int64_t n = 0; n < problem_.n(); n += images_) {
      const Buffers b{static_cast<char*>(a.x) + n * problem_.x.strides[0] * size,
                      static_cast<char*>(a.w),
                      static_cast<char*>(a.y) + n * problem_.y.strides[0] * size,
                      static_cast<char*>(a.workspace),
                      a.alpha,
                      weights && n > 0 ? 1.0 : a.beta};
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
    return cpu_info(4 + i, kNames[i], Algorithm::kGemm);
  }

  Verdict check(const DeviceInfo&, const Problem& p) const override { return check_float_problem(p, direction_); }

  std::size_t workspace(const DeviceInfo&, const Problem& p, const TunePoint&) const override {
    return is_pointwise(p) ? 0 : column_bytes(p, images_a_pass(p));
  }

  double predict(const DeviceInfo& d, const Problem& p, const TunePoint&) const override {
    const double efficiency = 0.85 * tile_efficiency(p);
    if (is_pointwise(p)) return roofline_us(d, p, efficiency, tensor_bytes(p));
    // Columns are written, then read again from whichever cache they fit.
    const double columns = 2.0 * static_cast<double>(column_bytes(p, p.n()));
    return roofline_us(d, p, efficiency, tensor_bytes(p)) + columns / std::max(d.bandwidth_gbs, 1.0) * 1e-3;
  }

  Invoker make(Stream& stream, const Problem& p, const TunePoint&) const override {
    if (is_pointwise(p)) return products_invoker(stream, p);
    const auto passes = std::make_shared<const Passes>(p, kernel_table(stream.info()), stream.threads());
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
