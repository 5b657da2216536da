// SPDX-License-Identifier: MIT
#include "reference/dropout.h"

#include <algorithm>
#include <bitset>
#include <cmath>
#include <map>

namespace polymio::reference {
namespace {

// The five numbers as bits, and a function of them as its values for single bits. The counter moves on its own.
using Bits = std::bitset<160>;
using Matrix = std::vector<Bits>;

Bits bits_of(const Xorwow& state) {
  Bits bits;
  for (std::size_t i = 0; i < 160; ++i) bits[i] = state[i / 32] >> (i % 32) & 1;
  return bits;
}

Bits product(const Matrix& m, const Bits& v) {
  Bits sum;
  for (std::size_t i = 0; i < 160; ++i)
    if (v[i]) sum ^= m[i];
  return sum;
}

// 2^log2 steps.
const Matrix& matrix(int log2) {
  static thread_local std::map<int, Matrix> known;
  Matrix& m = known[log2];
  if (!m.empty()) return m;
  Matrix made(160);
  for (std::size_t i = 0; i < 160; ++i) {
    if (log2 == 0) {
      Xorwow unit{};
      unit[i / 32] = 1u << (i % 32);
      draw(unit);
      made[i] = bits_of(unit);
    } else {
      made[i] = product(matrix(log2 - 1), matrix(log2 - 1)[i]);
    }
  }
  return known[log2] = made;
}

}  // namespace

std::uint32_t draw(Xorwow& s) {
  const std::uint32_t t = s[0] ^ (s[0] >> 2);
  for (std::size_t i = 0; i < 4; ++i) s[i] = s[i + 1];
  s[4] = (s[4] ^ (s[4] << 4)) ^ (t ^ (t << 1));
  s[5] += 362437;
  return s[5] + s[4];
}

Xorwow jump(const Xorwow& state, int log2_steps) {
  const Bits bits = product(matrix(log2_steps), bits_of(state));
  Xorwow result{};
  for (std::size_t i = 0; i < 160; ++i) result[i / 32] |= static_cast<std::uint32_t>(bits[i]) << (i % 32);
  result[5] = state[5] + (log2_steps < 32 ? 362437u << log2_steps : 0);
  return result;
}

std::vector<Xorwow> start_generators(std::uint64_t seed, std::int64_t count) {
  const std::uint32_t t0 = (static_cast<std::uint32_t>(seed) ^ 0x2c7f967f) * 1228688033;
  const std::uint32_t t1 = (static_cast<std::uint32_t>(seed >> 32) ^ 0xa03697cb) * 2073658381;
  std::vector<Xorwow> all = {{123456789, 362436069, 521288629, 88675123, 5783321, 6615241}};
  all[0][0] += t0;
  all[0][1] ^= t0;
  all[0][2] += t1;
  all[0][3] ^= t1;
  all[0][4] += t0;
  all[0][5] += t0 + t1;
  while (static_cast<std::int64_t>(all.size()) < count) all.push_back(jump(all.back(), 67));
  return all;
}

std::int64_t generators_for(std::int64_t elements) { return 256 * std::min<std::int64_t>(64, (elements + 255) / 256); }

std::vector<unsigned char> draw_mask(std::vector<Xorwow>& states, std::int64_t elements, float rate) {
  std::vector<unsigned char> mask;
  const std::int64_t generators = generators_for(elements);
  for (std::int64_t e = 0; e < elements; ++e) {
    const float u =
        2.3283064e-10f + 2.3283064e-10f * static_cast<float>(draw(states[static_cast<std::size_t>(e % generators)]));
    mask.push_back(u > rate ? 1 : 0);
  }
  return mask;
}

Result dropout(const Tensor& x, const void* data, const unsigned char* mask, float rate) {
  Result result;
  for (std::int64_t i = 0; i < x.count(); ++i) {
    const double v = mask[i] && rate < 1 ? load(x.type, data, x.offset(i)) / (1 - static_cast<double>(rate)) : 0;
    result.value.push_back(v);
    result.magnitude.push_back(std::fabs(v));
  }
  return result;
}

}  // namespace polymio::reference
