// SPDX-License-Identifier: MIT
#include "tests/runner/tensors.h"

#include <random>

namespace polymio::test {

std::vector<unsigned char> random_tensor(const reference::Tensor& t, std::uint64_t seed, Gaps gaps) {
  std::vector<unsigned char> bytes(t.bytes(), reference::nan_byte(t.type));
  std::mt19937_64 engine(seed);
  std::uniform_real_distribution<double> real(-1, 1);
  std::uniform_int_distribution<int> integer(-100, 100);
  const bool integers = reference::is_integer(t.type);
  const std::int64_t count = gaps == Gaps::kNan ? t.count() : t.space();
  for (std::int64_t i = 0; i < count; ++i)
    reference::store(t.type, bytes.data(), gaps == Gaps::kNan ? t.offset(i) : i,
                     integers ? integer(engine) : real(engine));
  return bytes;
}

}  // namespace polymio::test
