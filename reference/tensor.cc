// Sizes, addresses and samples of a tensor.
// SPDX-License-Identifier: MIT
#include "reference/tensor.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

namespace polymio::reference {
namespace {

// A bijective mixing of 64 bits: consecutive counters give pseudo-random numbers.
std::uint64_t mix(std::uint64_t z) {
  z = (z + 0x9e3779b97f4a7c15u) * 0xff51afd7ed558ccdu;
  z = (z ^ z >> 33) * 0xc4ceb9fe1a85ec53u;
  return z ^ z >> 31;
}

std::int64_t corner(const std::vector<std::int64_t>& lens, unsigned number) {
  std::int64_t dense = 0;
  for (std::size_t d = 0; d < lens.size(); ++d) {
    dense = dense * lens[d] + ((number >> d & 1) ? lens[d] - 1 : 0);
  }
  return dense;
}

}  // namespace

Tensor::Tensor(Type element_type, std::vector<std::int64_t> sizes, std::vector<std::int64_t> steps)
    : type(element_type), cast(element_type), lens(std::move(sizes)), strides(std::move(steps)) {
  if (strides.empty()) strides = packed_strides(lens);
}

std::int64_t Tensor::count() const {
  std::int64_t product = 1;
  for (const std::int64_t len : lens) product *= len;
  return product;
}

std::int64_t Tensor::space() const {
  std::int64_t last = 0;
  for (std::size_t d = 0; d < lens.size(); ++d) last += (lens[d] - 1) * strides[d];
  return last + 1;
}

std::int64_t Tensor::offset(std::int64_t dense) const {
  std::int64_t step = 1;
  std::size_t packed = lens.size();  // dimensions from this one on are packed, in row-major order
  while (packed > 0 && strides[packed - 1] == step) step *= lens[--packed];
  if (packed == 0) return dense;
  std::int64_t address = dense % step;
  dense /= step;
  for (std::size_t d = packed; d-- > 1;) {
    address += dense % lens[d] * strides[d];
    dense /= lens[d];
  }
  return address + dense * strides[0];
}

std::vector<std::int64_t> packed_strides(const std::vector<std::int64_t>& lens, bool channels_last) {
  std::vector<std::int64_t> strides(lens.size());
  std::int64_t step = 1;
  if (channels_last && lens.size() > 1) step = lens[1];
  for (std::size_t d = lens.size(); d-- > 0;) {
    if (channels_last && d == 1) {
      strides[d] = 1;
      continue;
    }
    strides[d] = step;
    step *= lens[d];
  }
  return strides;
}

std::vector<std::int64_t> sample_indices(const Tensor& tensor, std::int64_t count, std::uint64_t seed) {
  const std::int64_t total = tensor.count();
  if (count >= total) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(total));
    for (std::int64_t i = 0; i < total; ++i) all[static_cast<std::size_t>(i)] = i;
    return all;
  }
  std::set<std::int64_t> chosen;
  for (unsigned i = 0; i < 1u << tensor.lens.size(); ++i) chosen.insert(corner(tensor.lens, i));
  for (std::uint64_t i = mix(seed); static_cast<std::int64_t>(chosen.size()) < count; ++i) {
    chosen.insert(static_cast<std::int64_t>(mix(i) % static_cast<std::uint64_t>(total)));
  }
  return {chosen.begin(), chosen.end()};
}

std::vector<unsigned char> element_bytes(const Tensor& tensor) {
  const std::size_t size = size_of(tensor.type);
  std::vector<unsigned char> mask(tensor.bytes());
  for (std::int64_t i = 0; i < tensor.count(); ++i)
    std::memset(&mask[static_cast<std::size_t>(tensor.offset(i)) * size], 1, size);
  return mask;
}

}  // namespace polymio::reference
