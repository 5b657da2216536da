// Products that run piece by piece.
// SPDX-License-Identifier: MIT
#include "primitives/convolution/cpu/products.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "kernels/cpu/kernels_of.h"
#include "primitives/convolution/cpu/epilogue.h"
#include "primitives/convolution/cpu/problem_shape.h"

namespace polymio::convolution {

using kernels::ConvPiece;
using kernels::ConvProduct;

Products::Products(std::vector<ConvProduct> products, std::int64_t groups, CpuIsa isa, int threads,
                   const ProductTuning& tuning)
    : gemm_(&kernels::kernels_of<kernels::GemmKernels>(isa)), products_(std::move(products)) {
  if (products_.empty()) return;
  for (ConvProduct& p : products_) p.gemm.depth_block = tuning.depth;
  pieces_ = cut_products(products_, groups, gemm_->tile(products_[0].gemm.a.dtype), threads, tuning.cut);
  for (const ConvPiece& piece : pieces_) {
    const kernels::Gemm& g = products_[static_cast<std::size_t>(piece.product)].gemm;
    scratch_bytes_ = std::max(scratch_bytes_, gemm_->scratch(g, piece.m1 - piece.m0, piece.n1 - piece.n0));
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
    if (!args.epilogue) return gemm_->run(g, piece.m0, piece.m1, piece.n0, piece.n1, scratch);
    kernels::Epilogue e = *args.epilogue;
    e.y = g.c;
    e.channels_are_rows = product.a == kernels::ConvTensor::kW;
    const std::int64_t channels = e.channels_are_rows ? g.m : g.n;
    const DataType wide = g.c.dtype == DataType::kDouble ? DataType::kDouble : DataType::kFloat;
    if (e.bias) e.bias = static_cast<const char*>(e.bias) + shift(channels, e.scale ? wide : g.c.dtype);
    if (e.scale) e.scale = static_cast<const char*>(e.scale) + shift(channels, wide);
    if (e.residual) e.residual = static_cast<const char*>(e.residual) + shift(product.c_group, g.c.dtype);
    g.epilogue = &e;
    gemm_->run(g, piece.m0, piece.m1, piece.n0, piece.n1, scratch);
  });
}

std::vector<ConvProduct> products_of(const Problem& p) {
  return kernels::conv_products(conv_shape(p), kernel_direction(p.direction), true);
}

Solver<Problem>::Invoker products_invoker(Stream& stream, const Problem& p, const ProductTuning& tuning) {
  const auto products =
      std::make_shared<const Products>(products_of(p), p.groups(), stream.info().isa, stream.threads(), tuning);
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
