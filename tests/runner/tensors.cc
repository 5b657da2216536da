// SPDX-License-Identifier: MIT
#include "tests/runner/tensors.h"

#include <cmath>
#include <limits>
#include <random>

#include "tests/random.h"

namespace polymio::test {

namespace {

/// The value that one element of a tensor has, 0 for none.
double special(Data data) {
  constexpr double kHuge = 1e10;
  return data == Data::kHuge       ? kHuge
         : data == Data::kInfinite ? std::numeric_limits<double>::infinity()
         : data == Data::kNan      ? std::numeric_limits<double>::quiet_NaN()
                                   : 0;
}

double factor(Data data) { return data == Data::kSmall ? 0x1p-70 : data == Data::kSubnormal ? 0x1p-130 : 1; }

}  // namespace

std::vector<unsigned char> random_tensor(const reference::Tensor& t, std::uint64_t seed, Gaps gaps, Data data) {
  std::vector<unsigned char> bytes(t.bytes(), reference::nan_byte(t.type));
  std::mt19937_64 engine(seed);
  std::lognormal_distribution<double> wide(0, 3);
  std::uniform_int_distribution<int> integer(-100, 100);
  const auto number = [&] {
    const double v = random_unit(engine) * factor(data);
    return data == Data::kLogNormal ? std::copysign(wide(engine), v) : v;
  };
  const bool integers = reference::is_integer(t.type);
  const std::int64_t count = gaps == Gaps::kNan ? t.count() : t.space();
  for (std::int64_t i = 0; i < count; ++i)
    reference::store(t.type, bytes.data(), gaps == Gaps::kNan ? t.offset(i) : i, integers ? integer(engine) : number());
  if (special(data) != 0)
    reference::store(t.type, bytes.data(), t.offset(static_cast<std::int64_t>(engine() % 1000) * t.count() / 1000),
                     special(data));
  return bytes;
}

}  // namespace polymio::test
