// The k-th smallest element of columns. Elements become integers of the same order; the bits of the k-th are found
// from the highest down, by counting the elements below each candidate.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/kthvalue.h"

#include "kernels/cpu/isa/isa_namespaces.h"
#include "kernels/cpu/vector.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

template <class Key>
inline constexpr Key kLeast = static_cast<Key>(std::uint64_t{1} << (8 * sizeof(Key) - 1));
template <class Key>
inline constexpr Key kMost = static_cast<Key>(~kLeast<Key>);

/// `exponent`: the bits of infinity; 0 for integers, which are their own keys.
template <class Key>
void make_keys(Key* column, i64 length, i64 pitch, Key exponent) {
  if (exponent == 0) return;
  for (i64 i = 0; i < length; ++i, column += pitch) {
    const Vec<Key> bits = load(column), magnitude = bits & kMost<Key>;
    const Vec<Key> key = bits < 0 ? bits ^ kMost<Key> : bits;
    store(column, magnitude > exponent ? broadcast(kMost<Key>) : key);
  }
}

/// Of kVectors neighbouring vectors of columns, whose chains of dependent operations overlap.
template <int kVectors, class Key>
void select_vectors(Key* column, i64 length, i64 pitch, Key exponent, i64 k, std::int32_t* positions) {
  constexpr int kN = kLanes<Key>;
  const auto rank = broadcast(static_cast<Key>(k));
  Vec<Key> found[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    make_keys(column + v * kN, length, pitch, exponent);
    found[v] = broadcast(kLeast<Key>);
  }
  for (int bit = 8 * sizeof(Key); bit-- > 0;) {
    Vec<Key> candidates[kVectors], counts[kVectors] = {};
    for (int v = 0; v < kVectors; ++v) candidates[v] = found[v] ^ static_cast<Key>(std::uint64_t{1} << bit);
    for (i64 i = 0; i < length; ++i)
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) counts[v] -= load(column + i * pitch + v * kN) < candidates[v];
    for (int v = 0; v < kVectors; ++v) found[v] = counts[v] < rank ? candidates[v] : found[v];
  }
  for (int v = 0; v < kVectors; ++v) {
    Vec<Key> position{};
    for (i64 i = length; i-- > 0;)
      position = load(column + i * pitch + v * kN) == found[v] ? broadcast(static_cast<Key>(i)) : position;
    for (int lane = 0; lane < kN; ++lane) positions[v * kN + lane] = static_cast<std::int32_t>(position[lane]);
  }
}

template <class Key>
void select_as(const KthvalueColumns& columns, Key exponent, i64 k, std::int32_t* positions) {
  constexpr int kN = kLanes<Key>, kVectors = 4;
  for (i64 c = 0, n; c < columns.lines; c += n) {
    n = columns.lines - c > (kVectors - 1) * kN ? kVectors * kN : kN;
    const auto selected = n > kN ? &select_vectors<kVectors, Key> : &select_vectors<1, Key>;
    selected(static_cast<Key*>(columns.elements) + c, columns.length, columns.pitch, exponent, k, positions + c);
  }
}

void select(const KthvalueColumns& columns, i64 k, std::int32_t* positions) {
  switch (columns.type) {
    case DataType::kHalf: return select_as<std::int16_t>(columns, 0x7c00, k, positions);
    case DataType::kBFloat16: return select_as<std::int16_t>(columns, 0x7f80, k, positions);
    case DataType::kFloat: return select_as<std::int32_t>(columns, 0x7f800000, k, positions);
    case DataType::kDouble: return select_as<i64>(columns, i64{0x7ff} << 52, k, positions);
    case DataType::kInt8: return select_as<std::int8_t>(columns, 0, k, positions);
    default: return select_as<std::int32_t>(columns, 0, k, positions);
  }
}

}  // namespace

template <>
const KthvalueKernels& entry_points<KthvalueKernels>() {
  static constexpr KthvalueKernels kKernels{.select = select};
  return kKernels;
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
