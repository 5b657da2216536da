// Types that have kernels of the instruction set run on those, the others are converted block by block to the
// arithmetic's type and back.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstring>
#include <optional>

#include "kernels/cpu/kernels_of.h"
#include "primitives/common/copy.h"
#include "primitives/common/kept_vector.h"
#include "primitives/common/map.h"
#include "primitives/tensor_ops/cpu/rows.h"
#include "primitives/tensor_ops/passes.h"

namespace polymio::tensor_ops {
namespace {

using common::kBlock;

template <class D>
struct Scalars {
  D alpha1, alpha2, beta;
};

template <Function kFunction, class D>
D combine(D a, D b) {
  if constexpr (kFunction == Function::kAdd) return a + b;
  if constexpr (kFunction == Function::kMul) return a * b;
  if constexpr (kFunction == Function::kMin) return b < a ? b : a;
  if constexpr (kFunction == Function::kMax) return a < b ? b : a;
  return a;
}

template <class D>
using Kernel = void (*)(const Scalars<D>& s, const D* a, const D* b, const D* old, D* out, std::int64_t n);

/// The output may alias an input: a step is computed completely before it is stored, which also lets the compiler
/// vectorize it.
template <Function kFunction, bool kBeta, class D>
void compute(const Scalars<D>& s, const D* a, const D* b, const D* old, D* out, std::int64_t n) {
  constexpr bool kBinary = kFunction != Function::kFirst;
  const auto value = [&](std::int64_t i) {
    D v = s.alpha1 * a[i];
    if constexpr (kBinary) v = combine<kFunction>(v, s.alpha2 * b[i]);
    if constexpr (kBeta) v += s.beta * old[i];
    return v;
  };
  constexpr std::int64_t kStep = 16;
  std::int64_t i = 0;
  for (; i + kStep <= n; i += kStep) {
    D step[kStep];
    for (std::int64_t j = 0; j < kStep; ++j) step[j] = value(i + j);
    std::memcpy(out + i, step, sizeof step);
  }
  for (; i < n; ++i) out[i] = value(i);
}

template <Function kFunction, class D>
Kernel<D> with_beta(bool beta) {
  return beta ? &compute<kFunction, true, D> : &compute<kFunction, false, D>;
}

template <class D>
Kernel<D> kernel(Function f, bool beta) {
  switch (f) {
    case Function::kAdd: return with_beta<Function::kAdd, D>(beta);
    case Function::kMul: return with_beta<Function::kMul, D>(beta);
    case Function::kMin: return with_beta<Function::kMin, D>(beta);
    case Function::kMax: return with_beta<Function::kMax, D>(beta);
    case Function::kFirst: break;
  }
  return with_beta<Function::kFirst, D>(beta);
}

/// Computes runs of any types in the arithmetic of D.
template <class D>
class Converted {
 public:
  explicit Converted(const Elementwise& p)
      : p_(p),
        scalars_{static_cast<D>(p.alpha1), static_cast<D>(p.alpha2), static_cast<D>(p.beta)},
        kernel_(kernel<D>(p.function, p.beta != 0)),
        write_(writer<D>(p.types[0])) {
    const bool reads[kOperands] = {p.beta != 0, true, p.function != Function::kFirst};
    for (std::size_t o = 0; o < kOperands; ++o)
      if (reads[o]) read_[o] = reader<D>(p.types[o]);
  }

  void run(const kernels::Run& run) const {
    const void* const sources[kOperands] = {run.out[0], run.in[0], run.in[1]};
    alignas(64) D rows[kOperands + 1][kBlock];
    for (std::int64_t i = 0; i < run.n; i += kBlock) {
      const std::int64_t n = std::min(kBlock, run.n - i);
      for (std::size_t o = 0; o < kOperands; ++o)
        if (read_[o]) read_[o](at(sources[o], p_.types[o], i), 1, n, rows[o]);
      kernel_(scalars_, rows[1], rows[2], rows[0], rows[kOperands], n);
      write_(rows[kOperands], n, at(run.out[0], p_.types[0], i), 1);
    }
  }

 private:
  const Elementwise& p_;
  Scalars<D> scalars_;
  Kernel<D> kernel_;
  WriteRow<D> write_;
  std::array<ReadRow<D>, kOperands> read_{};
};

template <class D>
void run_converted(Stream& stream, const Elementwise& p, const Tiles& tiles, const common::Operands& operands) {
  const Converted<D> pass(p);
  common::map(
      stream, tiles, operands, [&](const kernels::Run& run) { pass.run(run); }, common::kTaskElements,
      common::RunShape::kOneRow);
}

/// The loop and its data with a dense copy of a second input that many images share and whose runs are short: each
/// block of an image would copy it again.
class WithDenseInput {
 public:
  WithDenseInput(Stream& stream, const Elementwise& p) : loop(p.loop), data(p.data[kInput]) {
    constexpr std::int64_t kShortRun = 16, kManyImages = 4, kMostBytes = 1 << 20;
    const std::size_t size = size_of(p.types[kInput]);
    Loop image = loop;
    image.rank = 0;
    for (std::size_t d = 1; d < loop.rank; ++d) image.push(loop.dims[d]);
    if (loop.rank < 3 || loop.inner().size >= kShortRun || loop.dims[0].strides[kInput] != 0 ||
        loop.dims[0].size < kManyImages || image.count() * static_cast<std::int64_t>(size) > kMostBytes)
      return;
    copy_->resize(static_cast<std::size_t>(image.count()) * size);
    common::gather_all(stream, image, kInput, size, data, copy_->data());
    data = copy_->data();
    std::int64_t stride = 1;
    for (std::size_t d = loop.rank; d-- > 1; stride *= loop.dims[d].size) loop.dims[d].strides[kInput] = stride;
    loop.base[kInput] = 0;
    loop.merge();
  }

  Loop loop;
  const void* data;

 private:
  static constexpr std::size_t kInput = 2;
  common::KeptVector<unsigned char, WithDenseInput> copy_;
};

void run_elementwise(Stream& stream, const Elementwise& p) {
  const bool unary = p.function == Function::kFirst;
  const std::span<const DataType> types(p.types.data(), unary ? 2 : 3);
  common::Operands operands;
  operands.push(p.out, size_of(types[0]));
  operands.push(p.data[1], size_of(types[1]));
  std::optional<WithDenseInput> dense;
  if (!unary) {
    dense.emplace(stream, p);
    operands.push(dense->data, size_of(types[2]));
  }
  operands.reads_outputs = p.beta != 0;
  const Tiles tiles(dense ? dense->loop : p.loop);
  const kernels::Binary job{p.function, types[1], types[0], p.alpha1, p.alpha2, p.beta};
  if (const kernels::BinaryKernel kernel =
          kernels::kernels_of<kernels::TensorOpsKernels>(stream.info().isa).binary(job))
    return common::map(stream, tiles, operands, [&](const kernels::Run& run) { kernel(job, run); });
  const double scalars[] = {p.alpha1, p.alpha2, p.beta};
  if (needs_exact(types, scalars)) return run_converted<Wide>(stream, p, tiles, operands);
  if (needs_double(types)) return run_converted<double>(stream, p, tiles, operands);
  run_converted<float>(stream, p, tiles, operands);
}

}  // namespace

const Passes kCpuPasses = {run_elementwise, common::copy, common::copy, run_bias_backward};

}  // namespace polymio::tensor_ops
