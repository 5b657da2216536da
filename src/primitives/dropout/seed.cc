// Starting the generators: rocRAND's initial state, then a jump of s * 2^67 steps for generator s. A step is linear in
// the bits of the five numbers, so a jump is a matrix of 160 x 160 bits; the counter returns to its value.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/function_ref.h"
#include "kernels/gpu/portable/xorwow.h"
#include "primitives/dropout/dropout.h"

namespace polymio::dropout {
namespace {

using kernels::Xorwow;
using Numbers = std::array<std::uint32_t, 5>;
static_assert(sizeof(Xorwow) == kStateBytes);

constexpr int kLog2Jump = 67, kLog2Slots = std::bit_width(static_cast<std::uint64_t>(kSlots)) - 1;

/// A linear function of 160 bits: its values for each four of them.
class Linear {
 public:
  explicit Linear(FunctionRef<Numbers(const Numbers&)> f) {
    for (std::size_t n = 0; n < kNibbles; ++n)
      for (unsigned bits = 1; bits < 16; ++bits) {
        Numbers one{};
        one[n / 8] = (bits & -bits) << (n % 8 * 4);
        table_[n][bits] = f(one);
        add(table_[n][bits & (bits - 1)], table_[n][bits]);
      }
  }
  Numbers operator()(const Numbers& in) const {
    Numbers sum{};
    for (std::size_t n = 0; n < kNibbles; ++n) add(table_[n][in[n / 8] >> (n % 8 * 4) & 15], sum);
    return sum;
  }
  Linear squared() const {
    return Linear([this](const Numbers& in) { return (*this)((*this)(in)); });
  }

 private:
  static constexpr std::size_t kNibbles = 40;
  static void add(const Numbers& from, Numbers& to) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] ^= from[i];
  }
  std::array<std::array<Numbers, 16>, kNibbles> table_{};
};

/// Jumps of 2^67, 2^68, ... steps.
const std::vector<Linear>& jumps() {
  static const std::vector<Linear>& all = *new std::vector<Linear>([] {
    Linear jump([](const Numbers& in) {
      Numbers w = in;
      std::uint32_t counter = 0, drawn = 0;
      XORWOW_STEP(w[0], w[1], w[2], w[3], w[4], counter, drawn);
      return w;
    });
    for (int i = 0; i < kLog2Jump; ++i) jump = jump.squared();
    std::vector<Linear> list;
    for (int i = 0; i < kLog2Slots; ++i, jump = jump.squared()) list.push_back(jump);
    return list;
  }());
  return all;
}

/// The state that rocRAND gives subsequence 0.
Xorwow first_state(std::uint64_t seed) {
  const auto low = static_cast<std::uint32_t>(seed), high = static_cast<std::uint32_t>(seed >> 32);
  const std::uint32_t t0 = 1228688033u * (low ^ 0x2c7f967fu), t1 = 2073658381u * (high ^ 0xa03697cbu);
  return {{123456789u + t0, 362436069u ^ t0, 521288629u + t1, 88675123u ^ t1, 5783321u + t0}, 6615241u + t0 + t1};
}

}  // namespace

void seed(Stream& stream, void* states, std::size_t bytes, std::uint64_t seed) {
  const std::size_t count = std::min(bytes / kStateBytes, static_cast<std::size_t>(kSlots));
  if (count == 0) return;
  const Xorwow first = first_state(seed);
  std::vector<Xorwow> all(count, first);
  std::copy_n(first.w, 5, all[0].w);
  for (std::size_t s = 1; s < count; ++s) {
    const std::size_t top = std::bit_floor(s);
    Numbers w;
    std::copy_n(all[s - top].w, 5, w.begin());
    w = jumps()[static_cast<std::size_t>(std::countr_zero(top))](w);
    std::copy_n(w.begin(), 5, all[s].w);
  }
  if (stream.info().kind == DeviceKind::kCpu) {
    std::memcpy(states, all.data(), count * kStateBytes);
  } else {
    stream.upload(Buffer(states), all.data(), count * kStateBytes);
  }
}

}  // namespace polymio::dropout
