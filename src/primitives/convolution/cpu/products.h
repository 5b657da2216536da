// What the matrix-product solvers share: a problem's shape for the kernels, and a set of products cut
// into pieces, ready to run on a stream.
// SPDX-License-Identifier: MIT
#pragma once
#include <vector>

#include "kernels/cpu/kernels.h"
#include "primitives/convolution/convolution.h"
#include "primitives/convolution/cpu/tuning.h"

namespace polymio::convolution {

/// Bytes of scratch for each thread that a solver may ask for.
inline constexpr std::int64_t kMaxScratch = 2 << 20;

/// Missing spatial dimensions become leading dimensions of size 1.
kernels::ConvShape conv_shape(const Problem&);

kernels::ConvDirection kernel_direction(Direction);

/// The kernels for the device's instruction set.
const kernels::KernelTable& kernel_table(const DeviceInfo&);

/// Refuses what no CPU floating-point kernel does: other directions, casts, mixed types, and epilogues unless
/// the solver `fuses` them.
Verdict check_float_problem(const Problem&, Direction, bool fuses = false);
/// What solvers of int8 problems need: forward, no casts, no epilogue, at most so many products in a sum.
Verdict check_int8_problem(const Problem& p, std::int64_t most_products);

/// All taps 1, strides 1, no padding: x is already the matrix.
bool is_pointwise(const Problem&);

/// Bytes of the three tensors.
double tensor_bytes(const Problem&);

/// Addresses by kernels::ConvTensor, and of the result.
struct ProductArgs {
  const void* tensors[3];
  void* result;
  double alpha, beta;
  const kernels::Epilogue* epilogue = nullptr;  // of a forward convolution: runs tile by tile behind the product
};

/// Products of all groups as pieces of work. Immutable: invokers share it.
class Products {
 public:
  Products(std::vector<kernels::ConvProduct>, std::int64_t groups, const kernels::KernelTable&, int threads,
           const ProductTuning&);
  std::size_t scratch_bytes() const { return scratch_bytes_; }
  void run(Stream&, const ProductArgs&) const;

 private:
  const kernels::KernelTable* table_;
  std::vector<kernels::ConvProduct> products_;
  std::vector<kernels::ConvPiece> pieces_;
  std::size_t scratch_bytes_ = 0;
};

/// The problem's own products: kernels::conv_products.
std::vector<kernels::ConvProduct> products_of(const Problem&);

/// An invoker of products_of, with its scratch reserved.
Solver<Problem>::Invoker products_invoker(Stream&, const Problem&, const ProductTuning&);

}  // namespace polymio::convolution
