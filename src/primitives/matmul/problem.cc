// The matrix product's problem: its text, validation and shape.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "core/tensor_checks.h"
#include "primitives/activation/activation.h"
#include "primitives/matmul/solvers.h"

namespace polymio::matmul {
namespace {

std::span<const std::int64_t> batch_of(const TensorDesc& t) { return t.sizes().first(t.sizes().size() - 2); }

bool is_dense(const TensorDesc& t) {
  std::int64_t step = 1;
  for (auto d = static_cast<std::size_t>(t.rank); d-- > 0; step *= std::max<std::int64_t>(t.lens[d], 1))
    if (t.lens[d] > 1 && t.strides[d] != step) return false;
  return true;
}

std::int64_t stride_of(const TensorDesc& t, std::size_t d) { return t.lens[d] == 1 ? 0 : t.strides[d]; }

/// One operand is the same along the dimension, and that of the other operand and of c continues their rows (columns).
bool continues(const Loop::Dim& dim, Shape::Operand same, Shape::Operand other, std::int64_t size,
               std::int64_t other_stride, std::int64_t c_stride) {
  if (dim.strides[same] != 0) return false;
  return size == 1 || (dim.strides[other] == size * other_stride && dim.strides[Shape::kC] == size * c_stride);
}

void check_batch(const TensorDesc& t, const char* name, const TensorDesc& c) {
  require(t.rank == c.rank, "{} has rank {}, c has {}: they must be equal", name, t.rank, c.rank);
  for (std::size_t d = 0; d + 2 < static_cast<std::size_t>(t.rank); ++d)
    require(t.lens[d] == c.lens[d] || t.lens[d] == 1,
            "size {} of {} is {}: a batch size must be 1 or that of c, {}; the sizes are {} and {}", d, name, t.lens[d],
            c.lens[d], sizes_text(t), sizes_text(c));
}

void check_matrices(const TensorDesc& t, const char* name) {
  require(t.rank >= 2 && t.rank <= kMostRank, "{} has rank {}: matrices have 2 to {}", name, t.rank, kMostRank);
  require_float_tensor(t, name, kMostRank, "matrix products");
}

}  // namespace

TensorDesc matrices(DataType type, std::int64_t rows, std::int64_t columns, std::int64_t row_stride,
                    std::int64_t column_stride, std::span<const std::int64_t> batch_sizes,
                    std::span<const std::int64_t> batch_strides) {
  TensorDesc t;
  t.type = type;
  t.cast = type;
  const std::size_t batch = batch_sizes.size();
  t.rank = static_cast<int>(batch + 2);
  std::ranges::copy(batch_sizes, t.lens.begin());
  std::ranges::copy(batch_strides, t.strides.begin());
  t.lens[batch] = rows;
  t.lens[batch + 1] = columns;
  t.strides[batch] = row_stride;
  t.strides[batch + 1] = column_stride;
  return t;
}

std::uint64_t Epilogue::hash(std::uint64_t seed) const {
  return mix(seed, static_cast<std::uint64_t>(activation) << 1 | static_cast<std::uint64_t>(bias));
}

std::string Problem::key() const {
  std::string text = base_arg("matmul", a.type, 2) + fmt::format(" -m {} -n {} -k {}", m(), n(), k());
  const auto batch = batch_of(c);
  if (!batch.empty()) text += fmt::format(" -b {}", fmt::join(batch, ","));
  const auto add_batch = [&](const TensorDesc& t, const char* flag) {
    if (!std::ranges::equal(batch_of(t), batch)) text += fmt::format(" {} {}", flag, fmt::join(batch_of(t), ","));
  };
  add_batch(a, "--a_batch");
  add_batch(b, "--b_batch");
  if (c.type != a.type) text += fmt::format(" -o {}", name_of(c.type));
  const auto add_strides = [&](const TensorDesc& t, const char* flag) {
    if (!is_dense(t)) text += strides_flag(t, flag);
  };
  add_strides(a, "--a_strides");
  add_strides(b, "--b_strides");
  add_strides(c, "--c_strides");
  if (epilogue.bias) text += " --bias 1";
  if (epilogue.activation != 0) text += fmt::format(" --activation {}", epilogue.activation);
  return text;
}

std::string Problem::family() const {
  const auto order = [](std::int64_t row, std::int64_t column) { return column == 1 ? "n" : row == 1 ? "t" : "s"; };
  const Shape s = shape_of(*this);
  return fmt::format("matmul{} {} {} {}{}{} {}", epilogue.empty() ? "" : "+", name_of(a.type), name_of(c.type),
                     order(s.a_row, s.a_depth), order(s.b_depth, s.b_column), order(s.c_row, s.c_column),
                     s.batch.count() == 1 ? "single" : "batch");
}

std::vector<float> Problem::log_sizes() const {
  const Shape s = shape_of(*this);
  const auto log = [](std::int64_t size) { return std::log2(static_cast<float>(std::max<std::int64_t>(size, 1))); };
  return {log(s.batch.count()), log(s.m), log(s.n), log(s.k)};
}

double Problem::work() const {
  return 2.0 * static_cast<double>(c.count()) * static_cast<double>(std::max<std::int64_t>(k(), 1));
}

void validate(const Problem& p) {
  check_matrices(p.a, "a");
  check_matrices(p.b, "b");
  check_matrices(p.c, "c");
  require_same_type(p.a, "a", p.b, "b");
  require(p.c.type == p.a.type || (p.c.type == DataType::kFloat && size_of(p.a.type) == 2),
          "c is {}, a and b are {}: c has their type or, for 16-bit ones, fp32", name_of(p.c.type), name_of(p.a.type));
  check_batch(p.a, "a", p.c);
  check_batch(p.b, "b", p.c);
  const std::size_t row = p.row(), column = p.column();
  require(p.a.lens[row] == p.m() && p.b.lens[column] == p.n() && p.b.lens[row] == p.k(),
          "a has sizes {}, b {}, c {}: the last two must be m x k, k x n and m x n", sizes_text(p.a), sizes_text(p.b),
          sizes_text(p.c));
  for (const TensorDesc* t : {&p.a, &p.b, &p.c})
    for (std::size_t d = 0; d <= column; ++d)
      require(t->strides[d] >= 0 && t->lens[d] >= (t != &p.c && p.k() == 0 ? 0 : 1),
              "a matrix of {} has sizes {} and strides {}: sizes must be positive, strides not negative",
              name_of(t->type), sizes_text(*t), strides_text(*t));
  require_separate(p.c, "c");
  constexpr int kPower = static_cast<int>(activation::Mode::kPower), kLast = activation::kEpilogueModes - 1;
  require(p.epilogue.activation >= 0 && p.epilogue.activation <= kLast && p.epilogue.activation != kPower,
          "the activation after a product is {}: allowed are 0 to {}, but {}", p.epilogue.activation, kLast, kPower);
  require(p.epilogue.empty() || p.c.type != DataType::kDouble, "nothing follows products of fp64");
}

Shape shape_of(const Problem& p) {
  const std::size_t row = p.row(), column = p.column();
  Shape s;
  s.m = p.m();
  s.n = p.n();
  s.k = p.k();
  s.a_row = stride_of(p.a, row);
  s.a_depth = stride_of(p.a, column);
  s.b_depth = stride_of(p.b, row);
  s.b_column = stride_of(p.b, column);
  s.c_row = stride_of(p.c, row);
  s.c_column = stride_of(p.c, column);
  s.batch.operands = 3;
  for (std::size_t d = 0; d < row; ++d) {
    Loop::Dim dim;
    dim.size = p.c.lens[d];
    dim.strides[Shape::kC] = stride_of(p.c, d);
    dim.strides[Shape::kA] = stride_of(p.a, d);
    dim.strides[Shape::kB] = stride_of(p.b, d);
    s.batch.push(dim);
  }
  s.batch.simplify();
  while (s.batch.count() > 1) {
    const Loop::Dim& dim = s.batch.inner();
    if (continues(dim, Shape::kB, Shape::kA, s.m, s.a_row, s.c_row)) {
      if (s.m == 1) {
        s.a_row = dim.strides[Shape::kA];
        s.c_row = dim.strides[Shape::kC];
      }
      s.m *= dim.size;
    } else if (!p.epilogue.bias && continues(dim, Shape::kA, Shape::kB, s.n, s.b_column, s.c_column)) {
      if (s.n == 1) {
        s.b_column = dim.strides[Shape::kB];
        s.c_column = dim.strides[Shape::kC];
      }
      s.n *= dim.size;
    } else {
      break;
    }
    --s.batch.rank;
    s.batch.merge();
  }
  return s;
}

double tensor_bytes(const Problem& p) {
  double bytes = 0;
  for (const TensorDesc* t : {&p.a, &p.b, &p.c})
    bytes += static_cast<double>(t->count()) * static_cast<double>(size_of(t->type));
  return bytes;
}

}  // namespace polymio::matmul
