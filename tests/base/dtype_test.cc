// Conversions of element types against the definitions of the formats: every bit pattern, every
// halfway case, limits, stochastic rounding.
// SPDX-License-Identifier: MIT
#include "base/dtype.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace polymio::dtype {
namespace {

/// A small float format under test: its bit fields and the two conversions.
struct Format {
  const char* name;
  int exponent, mantissa;
  bool finite_top;  // e4m3fn: the top exponent holds numbers, all ones is the only NaN
  bool saturate;    // overflow gives the largest number, else infinity
  bool fnuz;        // the sign bit alone is the only NaN, infinities become it, and the bias is one larger
  double max;       // the largest number
  float (*decode)(unsigned bits);
  unsigned (*encode)(float value);

  unsigned patterns() const { return 1u << (1 + exponent + mantissa); }
  unsigned sign_bit() const { return 1u << (exponent + mantissa); }
  unsigned negative(unsigned bits) const { return fnuz && bits == 0 ? 0 : bits | sign_bit(); }
};

template <class T>
float decode8(unsigned bits) {
  return to_float(T{static_cast<std::uint8_t>(bits)});
}
template <class T>
unsigned encode8(float v) {
  return to_small<T>(v).bits;
}

const Format kFormats[] = {
    {"fp16", 5, 10, false, false, false, 65504,
     [](unsigned b) { return to_float(Half{static_cast<std::uint16_t>(b)}); },
     [](float v) -> unsigned { return to_small<Half>(v).bits; }},
    {"bf16", 8, 7, false, false, false, 0x1.fep127,
     [](unsigned b) { return to_float(BFloat16{static_cast<std::uint16_t>(b)}); },
     [](float v) -> unsigned { return to_bfloat16(v).bits; }},
    {"fp8", 4, 3, false, true, true, 240, &decode8<Float8Fnuz>, &encode8<Float8Fnuz>},
    {"bfp8", 5, 2, false, true, true, 57344, &decode8<BFloat8Fnuz>, &encode8<BFloat8Fnuz>},
    {"fp8_e4m3fn", 4, 3, true, true, false, 448, &decode8<Float8E4m3fn>, &encode8<Float8E4m3fn>},
    {"fp8_e5m2", 5, 2, false, true, false, 57344, &decode8<Float8E5m2>, &encode8<Float8E5m2>},
};

/// The value of a pattern, by definition: (-1)^s * 2^(e - bias) * 1.m, or 2^(1 - bias) * 0.m.
double value_of(const Format& f, unsigned bits) {
  const unsigned top = (1u << f.exponent) - 1, mask = (1u << f.mantissa) - 1;
  const unsigned e = (bits >> f.mantissa) & top, m = bits & mask;
  const int bias = (1 << (f.exponent - 1)) - (f.fnuz ? 0 : 1);
  const double sign = bits & f.sign_bit() ? -1 : 1;
  const bool is_nan = f.fnuz ? bits == f.sign_bit() : e == top && (f.finite_top ? m == mask : m != 0);
  if (is_nan) return std::numeric_limits<double>::quiet_NaN();
  if (e == top && !f.finite_top && !f.fnuz) return sign * std::numeric_limits<double>::infinity();
  const double fraction = m / static_cast<double>(1u << f.mantissa);
  return sign * (e == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, static_cast<int>(e) - bias));
}

class Formats : public testing::TestWithParam<Format> {};

TEST_P(Formats, EveryPatternHasItsValue) {
  const Format& f = GetParam();
  for (unsigned b = 0; b < f.patterns(); ++b) {
    const double want = value_of(f, b);
    const float got = f.decode(b);
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(got)) << b;
    } else {
      ASSERT_EQ(static_cast<double>(got), want) << b;
      ASSERT_EQ(std::signbit(got), (b & f.sign_bit()) != 0) << b;
    }
  }
}

TEST_P(Formats, EveryPatternSurvivesTheRoundTrip) {
  const Format& f = GetParam();
  for (unsigned b = 0; b < f.patterns(); ++b) {
    const double value = value_of(f, b);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(value_of(f, f.encode(f.decode(b))))) << b;
    } else if (std::isinf(value) && f.saturate) {
      ASSERT_EQ(value_of(f, f.encode(f.decode(b))), std::copysign(f.max, value));
    } else {
      ASSERT_EQ(f.encode(f.decode(b)), b);
    }
  }
}

TEST_P(Formats, HalfwayValuesGoToTheEvenNeighbourAndOthersToTheNearest) {
  const Format& f = GetParam();
  int checked = 0;
  for (unsigned b = 0; value_of(f, b + 1) <= f.max; ++b) {
    const double low = value_of(f, b), high = value_of(f, b + 1), middle = low + (high - low) / 2;
    const auto half = static_cast<float>(middle);
    ASSERT_EQ(static_cast<double>(half), middle) << "the middle must be a float: " << b;
    const unsigned even = b % 2 == 0 ? b : b + 1;
    ASSERT_EQ(f.encode(half), even) << half;
    ASSERT_EQ(f.encode(-half), f.negative(even)) << half;
    ASSERT_EQ(f.encode(std::nextafter(half, -1.0f)), b) << half;
    ASSERT_EQ(f.encode(std::nextafter(half, std::numeric_limits<float>::infinity())), b + 1) << half;
    ++checked;
  }
  EXPECT_GE(checked, 120);
}

TEST_P(Formats, OverflowAndSpecialValues) {
  const Format& f = GetParam();
  const float infinity = std::numeric_limits<float>::infinity();
  const auto max = static_cast<float>(f.max);
  const unsigned top = f.encode(max);
  ASSERT_EQ(value_of(f, top), f.max);
  // Half a spacing above the largest number is the first value that overflows.
  const double spacing = f.max - value_of(f, top - 1);
  const auto limit = static_cast<float>(f.max + spacing / 2);
  EXPECT_EQ(f.encode(std::nextafter(limit, 0.0f)), top);
  for (const float big : {limit, std::numeric_limits<float>::max(), infinity}) {
    if (f.fnuz && big == infinity) continue;
    EXPECT_EQ(value_of(f, f.encode(big)), f.saturate ? f.max : infinity) << big;
    EXPECT_EQ(value_of(f, f.encode(-big)), f.saturate ? -f.max : -infinity) << big;
  }
  if (f.fnuz) {
    EXPECT_EQ(f.encode(infinity), 0x80u);
    EXPECT_EQ(f.encode(-infinity), 0x80u);
  }
  EXPECT_TRUE(std::isnan(value_of(f, f.encode(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_TRUE(std::isnan(value_of(f, f.encode(std::bit_cast<float>(0x7f800001u))))) << "a NaN with a low payload";
  EXPECT_EQ(f.encode(0.0f), 0u);
  EXPECT_EQ(f.encode(-0.0f), f.negative(0));
  // Below half of the smallest number there is only zero; exactly half is a tie with even zero.
  const double smallest = value_of(f, 1);
  EXPECT_EQ(f.encode(static_cast<float>(smallest / 2)), 0u);
  EXPECT_EQ(f.encode(-static_cast<float>(smallest / 4)), f.negative(0));
  EXPECT_EQ(f.encode(-std::numeric_limits<float>::denorm_min()), f.negative(0));
}

INSTANTIATE_TEST_SUITE_P(All, Formats, testing::ValuesIn(kFormats),
                         [](const auto& info) { return std::string(info.param.name); });

constexpr std::int64_t kDithers = std::int64_t{1} << 23;

/// The fraction of all dithers that round `v` up; fails when a result is neither neighbour.
template <class T>
double share_up(float v, double low, double high) {
  std::int64_t up = 0;
  // Every 16th dither and the last: the fraction is exact, because no format has bits that low.
  for (std::int64_t d = 0; d < kDithers; d += 16) {
    const double got = to_float(to_small<T>(v, d));
    if (got != low && got != high) ADD_FAILURE() << v << " became " << got << " with dither " << d;
    up += got == high;
  }
  return static_cast<double>(up) * 16 / static_cast<double>(kDithers);
}

TEST(StochasticRounding, RoundsUpAsOftenAsTheFractionSays) {
  EXPECT_DOUBLE_EQ(share_up<Float8E4m3fn>(1.03125f, 1, 1.125), 0.25);
  EXPECT_DOUBLE_EQ(share_up<Float8Fnuz>(1.0625f, 1, 1.125), 0.5);
  EXPECT_DOUBLE_EQ(share_up<Float8Fnuz>(-1.109375f, -1, -1.125), 0.875);
  EXPECT_DOUBLE_EQ(share_up<Float8E4m3fn>(0x1p-11f, 0, 0x1p-9), 0.25) << "subnormal";
  EXPECT_DOUBLE_EQ(share_up<Float8Fnuz>(0x1p-12f, 0, 0x1p-10), 0.25) << "subnormal";
  EXPECT_DOUBLE_EQ(share_up<BFloat8Fnuz>(1.0625f, 1, 1.25), 0.25);
  EXPECT_DOUBLE_EQ(share_up<Float8E5m2>(3 * 0x1p-18f, 0, 0x1p-16), 0.75) << "subnormal";
  EXPECT_DOUBLE_EQ(share_up<BFloat8Fnuz>(3 * 0x1p-19f, 0, 0x1p-17), 0.75) << "subnormal";
}

TEST(StochasticRounding, NegativeNumbersThatBecomeZeroLoseTheirSignInFnuz) {
  EXPECT_EQ(to_small<Float8Fnuz>(-0x1p-12f, 0).bits, 0u);
  EXPECT_EQ(to_small<Float8Fnuz>(-0x1p-12f, kDithers - 1).bits, 0x81u);
  EXPECT_EQ(to_small<BFloat8Fnuz>(-0x1p-100f, kDithers - 1).bits, 0u);
  EXPECT_EQ(to_small<Float8E4m3fn>(-0x1p-12f, 0).bits, 0x80u);
}

TEST(StochasticRounding, NumbersOfTheFormatNeverMove) {
  for (unsigned b = 0; b < 256; ++b) {
    const float v = decode8<Float8Fnuz>(b), w = decode8<Float8E4m3fn>(b);
    for (const std::int64_t d : {std::int64_t{0}, kDithers / 2, kDithers - 1}) {
      ASSERT_EQ(to_small<Float8Fnuz>(v, d).bits, b);
      if (!std::isnan(w)) {
        ASSERT_EQ(to_small<Float8E4m3fn>(w, d).bits, b);
      }
    }
  }
}

TEST(StochasticRounding, TheSmallestAndTheLargestDitherAreTheTwoNeighbours) {
  EXPECT_EQ(to_float(to_small<Float8Fnuz>(1.1f, 0)), 1.0f);
  EXPECT_EQ(to_float(to_small<Float8Fnuz>(1.1f, kDithers - 1)), 1.125f);
  EXPECT_EQ(to_float(to_small<Float8E5m2>(-1.1f, 0)), -1.0f);
  EXPECT_EQ(to_float(to_small<Float8E5m2>(-1.1f, kDithers - 1)), -1.25f);
  EXPECT_EQ(to_float(to_small<Float8E4m3fn>(1000.0f, kDithers - 1)), 448.0f) << "saturates";
  EXPECT_EQ(to_float(to_small<Float8Fnuz>(1000.0f, kDithers - 1)), 240.0f) << "saturates";
}

TEST(Integers, RoundToNearestEvenAndSaturate) {
  EXPECT_EQ(to_integer<std::int8_t>(0.5), 0);
  EXPECT_EQ(to_integer<std::int8_t>(1.5), 2);
  EXPECT_EQ(to_integer<std::int8_t>(-2.5), -2);
  EXPECT_EQ(to_integer<std::int8_t>(127.49), 127);
  EXPECT_EQ(to_integer<std::int8_t>(1e30), 127);
  EXPECT_EQ(to_integer<std::int8_t>(-128.6), -128);
  EXPECT_EQ(to_integer<std::int32_t>(2147483648.0), std::numeric_limits<std::int32_t>::max());
  EXPECT_EQ(to_integer<std::int32_t>(-2147483649.0), std::numeric_limits<std::int32_t>::min());
  EXPECT_EQ(to_integer<std::int64_t>(0x1p63), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(to_integer<std::int64_t>(-0x1p63), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(to_integer<std::int32_t>(std::numeric_limits<double>::quiet_NaN()), 0);
  EXPECT_EQ(to_integer<std::int8_t>(std::numeric_limits<double>::infinity()), 127);
}

TEST(LoadStore, EveryTypeKeepsWhatItCanHold) {
  for (const DataType t : kDataTypes) {
    unsigned char memory[3 * 8];
    std::memset(memory, 0xa5, sizeof memory);
    store(t, memory, 1, -3.0);
    EXPECT_EQ(load(t, memory, 1), -3.0) << name_of(t);
    const std::size_t size = size_of(t);
    for (std::size_t i = 0; i < sizeof memory; ++i)
      EXPECT_TRUE(memory[i] == 0xa5 || (i >= size && i < 2 * size)) << name_of(t) << " wrote byte " << i;
  }
}

TEST(DataTypes, ValidityNamesAndSizes) {
  const std::vector<std::size_t> sizes = {2, 4, 4, 1, 0, 2, 8, 1, 1, 8};
  for (int i = -1; i <= 10; ++i) {
    const auto t = static_cast<DataType>(i);
    const bool valid = i >= 0 && i <= 9 && i != 4;
    EXPECT_EQ(is_valid(t), valid) << i;
    EXPECT_EQ(size_of(t), valid ? sizes[static_cast<std::size_t>(i)] : 0) << i;
    EXPECT_EQ(std::string(name_of(t)) == "invalid", !valid) << i;
  }
  for (const int i : {0xff, 0x100, 0x101, 0x102}) {
    const auto t = static_cast<DataType>(i);
    const bool valid = i == 0x100 || i == 0x101;
    EXPECT_EQ(is_valid(t), valid) << i;
    EXPECT_EQ(size_of(t), valid ? 1u : 0u) << i;
    EXPECT_EQ(is_fp8(t), valid) << i;
  }
  EXPECT_TRUE(is_fp8(DataType::kFloat8Fnuz) && is_fp8(DataType::kBFloat8Fnuz) && !is_fp8(DataType::kInt8));
}

}  // namespace
}  // namespace polymio::dtype
