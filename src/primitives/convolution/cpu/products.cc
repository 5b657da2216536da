// Problems as kernel shapes, and products that run piece by piece.
// SPDX-License-Identifier: MIT
#include "primitives/convolution/cpu/products.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "primitives/convolution/cpu/epilogue.h"

namespace polymio::convolution {

using kernels::ConvPiece;
using kernels::ConvProduct;

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

const kernels::KernelTable& kernel_table(const DeviceInfo& device) {
  return kernels::kernel_table(static_cast<kernels::Isa>(device.isa));
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

Products::Products(std::vector<ConvProduct> products, std::int64_t groups, const kernels::KernelTable& table,
                   int threads, const ProductTuning& tuning)
    : table_(&table), products_(std::move(products)) {
  if (products_.empty()) return;
  for (ConvProduct& p : products_) p.gemm.depth_block = tuning.depth;
  pieces_ = cut_products(products_, groups, table.gemm_tile(products_[0].gemm.a.dtype), threads, tuning.cut);
  for (const ConvPiece& piece : pieces_) {
    const kernels::Gemm& g = products_[static_cast<std::size_t>(piece.product)].gemm;
    scratch_bytes_ = std::max(scratch_bytes_, table.gemm_scratch(g, piece.m1 - piece.m0, piece.n1 - piece.n0));
  }
}

void Products::run(Stream& stream, const ProductArgs& args) const {
  stream.parallel_for(pieces_.size(), scratch_bytes_, [&](std::size_t i, void* scratch) {
    const ConvPiece& piece = pieces_[i];
    const ConvProduct& product = products_[static_cast<std::size_t>(piece.product)];
    if (product.fills_gap && args.beta == 0) return;
    kernels::Gemm g = product.gemm;
    const auto shift = [&](std::int64_t elements, DataType type) {
      return piece.group * elements * static_cast<std::int64_t>(size_of(type));
    };
    g.a.data = static_cast<const char*>(args.tensors[static_cast<int>(product.a)]) + shift(product.a_group, g.a.dtype);
    g.b.data = static_cast<const char*>(args.tensors[static_cast<int>(product.b)]) + shift(product.b_group, g.b.dtype);
    g.c.data = static_cast<char*>(args.result) + shift(product.c_group, g.c.dtype);
    g.alpha = args.alpha;
    g.beta = args.beta;
    table_->gemm(g, piece.m0, piece.m1, piece.n0, piece.n1, scratch);
    if (!args.epilogue) return;
    kernels::Epilogue e = *args.epilogue;
    e.y = g.c;
    e.channels_are_rows = product.a == kernels::ConvTensor::kW;
    if (e.bias) e.bias = static_cast<const char*>(e.bias) + shift(e.channels_are_rows ? g.m : g.n, g.c.dtype);
    table_->epilogue(e, piece.m0, piece.m1, piece.n0, piece.n1);
  });
}

std::vector<ConvProduct> products_of(const Problem& p) {
  return kernels::conv_products(conv_shape(p), kernel_direction(p.direction));
}

Solver<Problem>::Invoker products_invoker(Stream& stream, const Problem& p, const ProductTuning& tuning) {
  const auto products = std::make_shared<const Products>(products_of(p), p.groups(), kernel_table(stream.info()),
                                                         stream.threads(), tuning);
  stream.reserve_scratch(products->scratch_bytes());
  return [products, p](Stream& on, const Problem::Args& a) {
    void* const results[] = {a.y, a.x, a.w};
    const ProductArgs plain{{a.x, a.w, a.y}, results[static_cast<int>(p.direction)], a.alpha, a.beta, nullptr};
    if (p.epilogue.empty()) return products->run(on, plain);
    const kernels::Epilogue epilogue = epilogue_job(p, a);
    ProductArgs fused = plain;
    fused.epilogue = &epilogue;
    products->run(on, fused);
  };
}

}  // namespace polymio::convolution
