// SPDX-License-Identifier: MIT
#include "primitives/tensor_ops/tensor_ops.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "core/aligned_buffer.h"
#include "core/problem_text.h"
#include "core/tensor_checks.h"
#include "primitives/tensor_ops/passes.h"

namespace polymio::tensor_ops {
namespace {

/// An operand whose elements are aligned.
struct Aligned {
  Aligned(const Stream& stream, Input given, const char* name)
      : desc(given.desc), buffer(stream.info(), given.desc, given.data, name) {}
  Aligned(const Stream& stream, Output given, const char* name)
      : desc(given.desc), buffer(stream.info(), given.desc, given.data, name) {}
  void* data() const { return buffer.data(); }
  Input input() const { return {desc, buffer.data()}; }
  Output output() const { return {desc, buffer.data()}; }
  void write_back() const { buffer.write_back(); }

  const TensorDesc& desc;
  AlignedBuffer buffer;
};

/// A copy of a value at an address of any alignment.
struct Scalar {
  Scalar(DataType type, const void* value) { std::memcpy(bytes, value, size_of(type)); }
  alignas(8) unsigned char bytes[8] = {};
};

const Passes& passes(const Stream& stream) { return stream.info().kind == DeviceKind::kCpu ? kCpuPasses : kGpuPasses; }

std::string sizes(const TensorDesc& t) { return sizes_text(unvectored(t)); }

void require_repeatable(const TensorDesc& b, const TensorDesc& c) {
  const TensorDesc small = unvectored(b), large = unvectored(c);
  bool fits = b.rank == c.rank;
  for (std::size_t d = 0; fits && d < static_cast<std::size_t>(b.rank); ++d)
    fits = small.lens[d] == 1 || small.lens[d] == large.lens[d];
  if (fits) return;
  fail(Status::kBadParm, "b has sizes {}, c has {}: each size of b must be 1 or that of c", sizes(b), sizes(c));
}

void require_bias(const TensorDesc& bias, const char* bias_name, const TensorDesc& tensor, const char* tensor_name) {
  require(tensor.rank >= 2, "{} has rank {}: a bias needs channels, so at least rank 2", tensor_name, tensor.rank);
  TensorDesc wanted = unvectored(tensor);
  for (std::size_t d = 0; d < static_cast<std::size_t>(wanted.rank); ++d)
    if (d != 1) wanted.lens[d] = 1;
  if (bias.rank != wanted.rank || unvectored(bias).lens != wanted.lens)
    fail(Status::kBadParm, "{} has sizes {}: for {} of sizes {} they must be {}", bias_name, sizes(bias), tensor_name,
         sizes(tensor), sizes(wanted));
  require_same_type(bias, bias_name, tensor, tensor_name);
}

void binary(Stream& stream, Function function, double alpha1, Input a, double alpha2, Input b, double beta, Output c,
            bool host_b = false) {
  const TensorDesc* operands[] = {&c.desc, &a.desc, &b.desc};
  Elementwise pass{function, alpha1, alpha2, beta, simplified_loop(operands), {c.data, a.data, b.data},
                   {},       c.data, host_b};
  pass.types = {c.desc.type, a.desc.type, b.desc.type};
  passes(stream).elementwise(stream, pass);
}

/// Descriptor of one value of y's type, broadcast over y.
TensorDesc single(const TensorDesc& y) {
  TensorDesc t = y;
  t.vector_length = 1;
  t.lens.fill(0);
  for (std::size_t d = 0; d < static_cast<std::size_t>(y.rank); ++d) t.lens[d] = 1;
  return t;
}

}  // namespace

bool needs_exact(std::span<const DataType> types, std::span<const double> scalars) {
  return std::all_of(types.begin(), types.end(), is_integer) &&
         std::find(types.begin(), types.end(), DataType::kInt64) != types.end() &&
         std::all_of(scalars.begin(), scalars.end(), [](double s) { return s == 0 || s == 1 || s == -1; });
}

bool needs_double(std::span<const DataType> types) {
  return std::any_of(types.begin(), types.end(), [](DataType t) {
    return t == DataType::kDouble || t == DataType::kInt32 || t == DataType::kInt64;
  });
}

void op_tensor(Stream& stream, Op op, double alpha1, Input a, double alpha2, Input b, double beta, Output c) {
  require(static_cast<int>(op) >= 0 && static_cast<int>(op) <= 3,
          "tensor operation {} is unknown: allowed are add 0, mul 1, min 2, max 3", static_cast<int>(op));
  require(c.desc.rank <= kMaxOpRank, "c has rank {}, at most {} is supported", c.desc.rank, kMaxOpRank);
  require_same_type(a.desc, "a", c.desc, "c");
  require_same_type(b.desc, "b", c.desc, "c");
  require_same_sizes(a.desc, "a", c.desc, "c");
  require_repeatable(b.desc, c.desc);
  const Aligned from_a(stream, a, "a"), from_b(stream, b, "b"), to(stream, c, "c");
  binary(stream, static_cast<Function>(op), alpha1, from_a.input(), alpha2, from_b.input(), beta, to.output());
  to.write_back();
}

void set(Stream& stream, Output to, const void* value_address) {
  const Aligned y(stream, to, "y");
  const Scalar value(y.desc.type, value_address);
  const TensorDesc repeated = single(y.desc);
  const TensorDesc* operands[] = {&y.desc, &repeated};
  const Loop loop = simplified_loop(operands);
  passes(stream).fill(stream, loop, size_of(y.desc.type), value.bytes, y.data());
  y.write_back();
}

void scale(Stream& stream, Output to, const void* factor_address) {
  const Aligned y(stream, to, "y");
  const Scalar factor(y.desc.type, factor_address);
  const TensorDesc repeated = single(y.desc);
  binary(stream, Function::kMul, 1, y.input(), 1, {repeated, factor.bytes}, 0, y.output(), true);
  y.write_back();
}

void transform(Stream& stream, double alpha, Input from, double beta, Output to) {
  require_same_sizes(from.desc, "x", to.desc, "y");
  const Aligned x(stream, from, "x"), y(stream, to, "y");
  const TensorDesc* operands[] = {&y.desc, &x.desc};
  const Loop loop = simplified_loop(operands);
  if (x.desc.type == y.desc.type && alpha == 1 && beta == 0) {
    passes(stream).copy(stream, loop, size_of(y.desc.type), x.data(), y.data());
  } else {
    Elementwise pass{Function::kFirst,           alpha,   0, beta, loop, {y.data(), x.data()},
                     {y.desc.type, x.desc.type}, y.data()};
    passes(stream).elementwise(stream, pass);
  }
  y.write_back();
}

void bias_forward(Stream& stream, double alpha, Input from, double beta, Output to) {
  require_bias(from.desc, "b", to.desc, "y");
  const Aligned b(stream, from, "b"), y(stream, to, "y");
  binary(stream, Function::kAdd, alpha, y.input(), alpha, b.input(), beta, y.output());
  y.write_back();
}

void bias_backward(Stream& stream, double alpha, Input from, double beta, Output to) {
  require_bias(to.desc, "db", from.desc, "dy");
  const Aligned dy(stream, from, "dy"), db(stream, to, "db");
  passes(stream).bias_backward(stream, alpha, dy.input(), beta, db.output());
  db.write_back();
}

}  // namespace polymio::tensor_ops
