// Tensors of the reference in tests of the library: descriptors, contents, gaps.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <vector>

#include "core/tensor.h"
#include "reference/tensor.h"

namespace polymio::test {

inline TensorDesc describe(const reference::Tensor& t) {
  TensorDesc d = make_tensor(static_cast<DataType>(t.type), t.lens, t.strides);
  d.cast = static_cast<DataType>(t.cast);
  return d;
}

/// Without strides of dimensions of size 1, which may differ between equal problems.
inline TensorDesc without_idle_strides(TensorDesc t) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(t.rank); ++i)
    if (t.lens[i] == 1) t.strides[i] = 0;
  return t;
}

/// Contents of the memory between the elements of an input.
enum class Gaps { kNumbers, kNan };

/// Values of floats: from -1 to 1; log-normal over many orders of magnitude; with one of 1e10; from -1 to 1 times
/// 2^-70, so that products of two are subnormal; times 2^-130, subnormal; with one infinity; with one NaN.
enum class Data { kUniform, kLogNormal, kHuge, kSmall, kSubnormal, kInfinite, kNan };

/// Random values; integers from -100 to 100, others as `data` says.
std::vector<unsigned char> random_tensor(const reference::Tensor&, std::uint64_t seed, Gaps, Data = Data::kUniform);

}  // namespace polymio::test
