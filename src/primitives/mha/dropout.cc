// Dropout of attention on the host: what keeps a score, and the jump of its generator. A step is linear in the 160 bits
// of the five numbers, so a jump is a product of matrices; only one of the numbers is needed behind it.
// SPDX-License-Identifier: MIT
#include <array>
#include <bit>
#include <cmath>

#include "primitives/mha/solvers.h"

namespace polymio::mha {
namespace {

using kernels::AttentionDropout;
using Numbers = std::array<std::uint32_t, 5>;
using Jump = std::array<Numbers, XORWOW_BITS>;  // of each bit alone

Numbers step(Numbers w) {
  std::uint32_t counter = 0, drawn = 0;
  XORWOW_STEP(w[0], w[1], w[2], w[3], w[4], counter, drawn);
  return w;
}

template <class Body>
void for_bits(const Numbers& numbers, const Body& body) {
  for (std::size_t n = 0; n < numbers.size(); ++n)
    for (std::uint32_t rest = numbers[n]; rest != 0; rest &= rest - 1)
      body(n * 32 + static_cast<std::size_t>(std::countr_zero(rest)));
}

Jump squared(const Jump& jump) {
  Jump twice{};
  for (std::size_t b = 0; b < jump.size(); ++b)
    for_bits(jump[b], [&](std::size_t from) {
      for (std::size_t n = 0; n < 5; ++n) twice[b][n] ^= jump[from][n];
    });
  return twice;
}

}  // namespace

void set_jump(AttentionDropout& dropout) {
  Jump jump{};
  std::array<std::uint32_t, XORWOW_BITS> last{};
  for (std::size_t b = 0; b < jump.size(); ++b) {
    Numbers alone{};
    alone[b / 32] = 1u << b % 32;
    jump[b] = step(alone);
    last[b] = jump[b][4];
  }
  for (std::uint64_t rest = dropout.offset; rest != 0; rest >>= 1, jump = squared(jump)) {
    if ((rest & 1) == 0) continue;
    std::array<std::uint32_t, XORWOW_BITS> further{};
    for (std::size_t b = 0; b < jump.size(); ++b)
      for_bits(jump[b], [&](std::size_t from) { further[b] ^= last[from]; });
    last = further;
  }
  std::copy(last.begin(), last.end(), dropout.jump);
}

// A number v keeps its score if 2.3283064e-10 * (1 + v) >= probability, in fp32 as rocRAND computes it.
AttentionDropout make_dropout(float probability, std::int64_t seed, std::int64_t offset) {
  AttentionDropout d{};
  d.seed = static_cast<std::uint64_t>(seed);
  d.offset = static_cast<std::uint64_t>(offset);
  d.kept = probability < 1 ? 1 / (1 - probability) : 0;
  std::uint64_t low = 0, high = std::uint64_t{1} << 32;
  while (low < high) {
    const std::uint64_t middle = (low + high) / 2;
    const float uniform = 2.3283064e-10f + static_cast<float>(middle) * 2.3283064e-10f;
    if (uniform >= probability)
      high = middle;
    else
      low = middle + 1;
  }
  d.least = static_cast<std::uint32_t>(low);
  if (low == std::uint64_t{1} << 32) d.kept = 0;
  if (d.offset >= ATTENTION_STEPS) set_jump(d);
  return d;
}

double kept_factor(const AttentionDropout& d, std::uint64_t element) {
  std::uint64_t x = d.seed + element;
  x = HASH_STEP_1(x);
  x = HASH_STEP_2(x);
  x = HASH_STEP_3(x);
  const auto low = static_cast<std::uint32_t>(x), high = static_cast<std::uint32_t>(x >> 32);
  Numbers w;
  std::uint32_t counter, t0, t1, drawn = 0;
  XORWOW_START(low, high, w[0], w[1], w[2], w[3], w[4], counter, t0, t1);
  if (d.offset < ATTENTION_STEPS) {
    for (std::uint64_t i = 0; i <= d.offset; ++i) XORWOW_STEP(w[0], w[1], w[2], w[3], w[4], counter, drawn);
  } else {
    std::uint32_t last = 0;
    for_bits(w, [&](std::size_t b) { last ^= d.jump[b]; });
    drawn = last + counter + 362437u * static_cast<std::uint32_t>(d.offset + 1);
  }
  return drawn >= d.least ? d.kept : 0;
}

}  // namespace polymio::mha
