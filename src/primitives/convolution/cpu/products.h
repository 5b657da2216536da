// Helpers of the matrix-product solvers: a problem's shape for the kernels, and a set of products cut into pieces,
// ready to run on a stream.
// SPDX-License-Identifier: MIT
#pragma once
#include <vector>

#include "kernels/cpu/kernels.h"
#include "primitives/convolution/convolution.h"
#include "primitives/convolution/cpu/tuning.h"

namespace polymio::convolution {

/// The most bytes of scratch per thread that a solver may use.
inline constexpr std::int64_t kMaxScratch = 2 << 20;

/// Missing spatial dimensions become leading dimensions of size 1.
kernels::ConvShape conv_shape(const Problem&);

kernels::ConvDirection kernel_direction(Direction);

/// The kernels for the device's instruction set.
const kernels::KernelTable& kernel_table(const DeviceInfo&);

/// Refuses what no floating-point kernel of the CPU supports: other directions, casts, mixed types, and epilogues
/// unless the solver `fuses` them.
Verdict check_float_problem(const Problem&, Direction, bool fuses = false);
/// Refuses int8 problems other than forward without casts and epilogue, and sums of more than `most_products` products.
Verdict check_int8_problem(const Problem& p, std::int64_t most_products);

/// One tap, strides 1, no padding: x is the column matrix.
bool is_pointwise(const Problem&);

/// Bytes of the three tensors together.
double tensor_bytes(const Problem&);

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

/// kernels::conv_products of the problem.
std::vector<kernels::ConvProduct> products_of(const Problem&);

/// An invoker of products_of(); reserves the stream's scratch.
Solver<Problem>::Invoker products_invoker(Stream&, const Problem&, const ProductTuning&);

}  // namespace polymio::convolution
