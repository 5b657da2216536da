// Contents of tensors: seeded random numbers and raw files. Equal seeds give equal elements.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>

#include "reference/tensor.h"

namespace polymio::driver {

// Uniform numbers from `low` to below `high`; for integers rounded down.
struct Range {
  double low, high;
  bool integer;
};

// The finaliser of splitmix64: every input bit changes half of the output bits.
std::uint64_t mix(std::uint64_t value);

// Random elements in memory of tensor.space() elements.
void fill_random(const reference::Tensor& tensor, void* memory, std::uint64_t seed, const Range& range);

// The raw elements of a file. Throws RunError when it is shorter than `bytes`.
void read_file(const std::string& path, void* memory, std::size_t bytes);
void write_file(const std::string& path, const void* memory, std::size_t bytes);

}  // namespace polymio::driver
