// Dropout by definition: the generators of rocRAND's xorwow, and what they keep.
// SPDX-License-Identifier: MIT
#pragma once

#include <array>

#include "reference/convolution.h"
#include "reference/tensor.h"
#include "reference/tolerance.h"

namespace polymio::reference {

using Xorwow = std::array<std::uint32_t, 6>;  // five numbers and the counter

std::uint32_t draw(Xorwow& state);
// The state after 2^log2_steps steps.
Xorwow jump(const Xorwow& state, int log2_steps);
// Generators 0 to count - 1 of a seed: generator s is s * 2^67 steps behind the first.
std::vector<Xorwow> start_generators(std::uint64_t seed, std::int64_t count);

// Generators that `elements` use: element e uses the one with number e mod this.
std::int64_t generators_for(std::int64_t elements);
// 1 for each element in row-major order that is kept, else 0; moves the states on.
std::vector<unsigned char> draw_mask(std::vector<Xorwow>& states, std::int64_t elements, float rate);

// y = x / (1 - rate) where the mask is not 0, else 0; y as dense as x is described.
Result dropout(const Tensor& x, const void* data, const unsigned char* mask, float rate);

}  // namespace polymio::reference
