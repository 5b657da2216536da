// Conversion of rows of elements of any type to and from the type of the arithmetic: float, double, or a 128-bit
// integer, which holds every product and sum of two 64-bit ones.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <type_traits>

#include "base/dtype.h"

namespace polymio::tensor_ops {

__extension__ using Wide = __int128;

/// dst[i] = src[i * stride], i < n.
template <class D>
using ReadRow = void (*)(const void* src, std::int64_t stride, std::int64_t n, D* dst);

/// dst[i * stride] = src[i], rounded to nearest (ties to even) and saturated for integers.
template <class D>
using WriteRow = void (*)(const D* src, std::int64_t n, void* dst, std::int64_t stride);

/// Wide is for integers only.
template <class D>
ReadRow<D> reader(DataType type);
template <class D>
WriteRow<D> writer(DataType type);

/// Whether rows of `type` with stride 1 can be computed in place.
template <class D>
constexpr bool is_native(DataType type) {
  return (type == DataType::kFloat && std::is_same_v<D, float>) ||
         (type == DataType::kDouble && std::is_same_v<D, double>);
}

inline const void* at(const void* base, DataType type, std::int64_t offset) {
  return static_cast<const char*>(base) + offset * static_cast<std::int64_t>(size_of(type));
}
inline void* at(void* base, DataType type, std::int64_t offset) {
  return static_cast<char*>(base) + offset * static_cast<std::int64_t>(size_of(type));
}

}  // namespace polymio::tensor_ops
