// Problems as kernel shapes.
// SPDX-License-Identifier: MIT
#include "primitives/convolution/cpu/problem_shape.h"

#include <algorithm>

#include "primitives/convolution/cpu/epilogue.h"

namespace polymio::convolution {

kernels::ConvShape conv_shape(const Problem& p) {
  kernels::ConvShape s;
  s.dtype = p.x.type;
  s.n = p.n();
  s.groups = p.groups();
  s.c = p.c() / s.groups;
  s.k = p.k() / s.groups;
  const auto x = meaningful_strides(p.x), w = meaningful_strides(p.w), y = meaningful_strides(p.y);
  s.x_n = x[0];
  s.x_c = x[1];
  s.w_k = w[0];
  s.w_c = w[1];
  s.y_n = y[0];
  s.y_k = y[1];
  const int missing = kernels::kSpatial - p.spatial();
  for (int d = missing; d < kernels::kSpatial; ++d) {
    const int from = d - missing;
    const auto i = static_cast<std::size_t>(from);
    s.in[d] = p.in(from);
    s.out[d] = p.out(from);
    s.taps[d] = p.filter(from);
    s.stride[d] = p.geometry.stride[i];
    s.dilation[d] = p.geometry.dilation[i];
    s.pad[d] = p.geometry.pad[i];
    s.x_d[d] = x[i + 2];
    s.w_d[d] = w[i + 2];
    s.y_d[d] = y[i + 2];
  }
  return s;
}

kernels::ConvDirection kernel_direction(Direction d) {
  return d == Direction::kForward        ? kernels::ConvDirection::kForward
         : d == Direction::kBackwardData ? kernels::ConvDirection::kBackwardData
                                         : kernels::ConvDirection::kBackwardWeights;
}

Verdict check_float_problem(const Problem& p, Direction direction, bool fuses) {
  POLYMIO_REQUIRE(p.direction == direction, "computes another direction");
  POLYMIO_REQUIRE(fuses || p.epilogue.empty(), "has no fused epilogue");
  if (const Verdict v = check_epilogue(p); !v) return v;
  POLYMIO_REQUIRE(!p.has_casts(), "does not cast elements");
  const DataType t = p.x.type;
  POLYMIO_REQUIRE(p.all_types(t), "the three tensors must have one data type");
  POLYMIO_REQUIRE(t == DataType::kFloat || t == DataType::kDouble || t == DataType::kHalf || t == DataType::kBFloat16,
                  "computes fp32, fp64, fp16 and bf16 only");
  // Larger sizes of padded copies or column matrices could overflow 64 bits.
  double padded = 1, columns = static_cast<double>(p.n()) * static_cast<double>(p.c());
  for (int i = 0; i < p.spatial(); ++i) {
    const auto d = static_cast<std::size_t>(i);
    const double reach = static_cast<double>(p.geometry.dilation[d]) * static_cast<double>(p.filter(i));
    padded *= static_cast<double>(p.in(i)) + 2 * static_cast<double>(p.geometry.pad[d]) + reach;
    columns *= static_cast<double>(p.out(i)) * static_cast<double>(p.filter(i));
  }
  POLYMIO_REQUIRE(padded < 0x1p46 && columns < 0x1p56, "its padded extents are too large");
  // Backward data has plans per residue.
  constexpr std::int64_t kMostResidues = 1 << 14;
  std::int64_t residues = 1;
  for (int i = 0; i < p.spatial() && direction == Direction::kBackwardData && residues <= kMostResidues; ++i)
    residues *= std::min(p.geometry.stride[static_cast<std::size_t>(i)], p.in(i));
  POLYMIO_REQUIRE_MOST(residues, kMostResidues, "residues of input positions modulo the strides");
  return {};
}

Verdict check_int8_problem(const Problem& p, std::int64_t most_products) {
  POLYMIO_REQUIRE(p.direction == Direction::kForward, "int8 is computed forward only");
  POLYMIO_REQUIRE(!p.has_casts() && p.w.type == DataType::kInt8, "both inputs must be int8, without casts");
  const DataType t = p.y.type;
  POLYMIO_REQUIRE(t == DataType::kInt8 || t == DataType::kInt32 || t == DataType::kFloat,
                  "int8 gives int8, int32 or fp32");
  POLYMIO_REQUIRE(p.epilogue.empty(), "has no fused epilogue for int8");
  std::int64_t products = p.c() / p.groups();
  for (int i = 0; i < p.spatial() && products <= most_products; ++i) products *= p.filter(i);
  POLYMIO_REQUIRE_MOST(products, most_products, "products of an exact sum");
  return {};
}

bool is_pointwise(const Problem& p) {
  for (int i = 0; i < p.spatial(); ++i) {
    const auto d = static_cast<std::size_t>(i);
    if (p.filter(i) != 1 || p.geometry.stride[d] != 1 || p.geometry.pad[d] != 0) return false;
  }
  return true;
}

double tensor_bytes(const Problem& p) { return static_cast<double>(p.x.bytes() + p.w.bytes() + p.y.bytes()); }

}  // namespace polymio::convolution
