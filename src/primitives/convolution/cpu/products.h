// The products of a problem, cut into pieces and ready to run on a stream.
// SPDX-License-Identifier: MIT
#pragma once
#include <vector>

#include "kernels/cpu/conv_gemm.h"
#include "kernels/cpu/epilogue.h"
#include "primitives/convolution/convolution.h"
#include "primitives/convolution/cpu/tuning.h"

namespace polymio::convolution {

/// Buffers of a run; `tensors` is indexed by kernels::ConvTensor.
struct ProductArgs {
  const void* tensors[3];
  void* result;
  double alpha, beta;
  const kernels::Epilogue* epilogue = nullptr;  // of a forward convolution: applied to each piece after its product
};

/// The products of all groups, cut into pieces. Immutable: invokers share it.
class Products {
 public:
  Products(std::vector<kernels::ConvProduct>, std::int64_t groups, CpuIsa, int threads, const ProductTuning&);
  std::size_t scratch_bytes() const { return scratch_bytes_; }
  void run(Stream&, const ProductArgs&) const;

 private:
  const kernels::GemmKernels* gemm_;
  std::vector<kernels::ConvProduct> products_;
  std::vector<kernels::ConvPiece> pieces_;
  std::size_t scratch_bytes_ = 0;
};

/// kernels::conv_products of the problem.
std::vector<kernels::ConvProduct> products_of(const Problem&);

/// An invoker of products_of(); reserves the stream's scratch.
Solver<Problem>::Invoker products_invoker(Stream&, const Problem&, const ProductTuning&);

}  // namespace polymio::convolution
