// What the threads of a warp do together on matrix units of sm80 and later, on the emulated multiprocessor. Tests find
// this header before the one in src/.
// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <utility>

#include "kernels/gpu/sm90/warpgroup.cuh"

namespace sm90 {

inline void load_matrices(u32 shared, u32 (&m)[4]) {
  const unsigned lane = threadIdx.x % 32;
  std::array<u32, 32> rows;
  std::ranges::copy(polymio::emulated::exchange(shared), rows.begin());
  for (unsigned i = 0; i < 4; ++i) m[i] = polymio::emulated::read_shared<u32>(rows[8 * i + lane / 4] + lane % 4 * 4);
}
inline void load_matrices_transposed(u32 shared, u32 (&m)[4]) {
  const unsigned column = threadIdx.x % 32 / 4 * 2, row = threadIdx.x % 4 * 2;
  std::array<u32, 32> rows;
  std::ranges::copy(polymio::emulated::exchange(shared), rows.begin());
  const auto element = [&](unsigned at) -> u32 { return polymio::emulated::read_shared<u16>(rows[at] + column); };
  for (unsigned i = 0; i < 4; ++i) m[i] = element(8 * i + row) | element(8 * i + row + 1) << 16;
}

/// The sum of the products of the elements of two registers.
template <class Element>
float multiply_registers(u32 a, u32 b) {
  if constexpr (std::is_same_v<Element, Tf32>)
    return std::bit_cast<float>(a) * std::bit_cast<float>(b);
  else
    return Element::low(a) * Element::low(b) + Element::high(a) * Element::high(b);
}

template <class Element>
void multiply_by_warp(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  static std::pair<const u32*, const u32*> fragments[1024];  // of the threads of a block
  fragments[threadIdx.x] = {a, b};
  __syncwarp();
  const unsigned lane = threadIdx.x % 32;
  const auto* const warp = fragments + (threadIdx.x - lane);
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = i / 2, column = lane % 4 * 2 + i % 2;  // row: of the upper or the lower quarters
    for (unsigned k = 0; k < 8; ++k)
      d[i] += multiply_registers<Element>(warp[lane / 4 * 4 + k % 4].first[k / 4 * 2 + row],
                                          warp[column * 4 + k % 4].second[k / 4]);
  }
  __syncwarp();
}

/// Half as many k: the rest is zero.
template <class Element>
void multiply_by_warp(float (&d)[4], const u32 (&a)[2], u32 b) {
  const u32 rows[4] = {a[0], a[1], 0, 0}, columns[2] = {b, 0};
  multiply_by_warp<Element>(d, rows, columns);
}

}  // namespace sm90
