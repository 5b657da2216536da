// Tensors of the reference in tests of the library: descriptors, contents, gaps.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <random>
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

/// True for each byte that belongs to an element (not to a gap between strided elements).
inline std::vector<bool> element_bytes(const reference::Tensor& t) {
  const std::size_t size = reference::size_of(t.type);
  std::vector<bool> mask(t.bytes(), false);
  for (std::int64_t i = 0; i < t.count(); ++i)
    for (std::size_t b = 0; b < size; ++b) mask[static_cast<std::size_t>(t.offset(i)) * size + b] = true;
  return mask;
}

/// Random values; integers from -100 to 100, others from -1 to 1.
inline std::vector<unsigned char> random_tensor(const reference::Tensor& t, std::uint64_t seed, Gaps gaps) {
  std::vector<unsigned char> bytes(t.bytes(), reference::nan_byte(t.type));
  std::mt19937_64 engine(seed);
  std::uniform_real_distribution<double> real(-1, 1);
  std::uniform_int_distribution<int> integer(-100, 100);
  const std::int64_t count = gaps == Gaps::kNan ? t.count() : t.space();
  for (std::int64_t i = 0; i < count; ++i)
    reference::store(t.type, bytes.data(), gaps == Gaps::kNan ? t.offset(i) : i,
                     reference::is_integer(t.type) ? integer(engine) : real(engine));
  return bytes;
}

}  // namespace polymio::test
