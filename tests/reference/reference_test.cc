// The reference itself: exhaustive codecs, convolutions worked out by hand, adjointness of the
// three directions, agreement of the two evaluations, and tolerances that detect planted errors.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <stdexcept>
#include <vector>

#include "reference/convolution.h"
#include "reference/tensor.h"
#include "reference/tensor_ops.h"
#include "reference/tolerance.h"
#include "reference/types.h"

namespace polymio::reference {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr Type kFp8Types[] = {Type::kFloat8Fnuz, Type::kBFloat8Fnuz, Type::kFloat8E4m3fn, Type::kFloat8E5m2};
constexpr Type kAllTypes[] = {Type::kHalf,        Type::kFloat,        Type::kInt32,     Type::kInt8,
                              Type::kBFloat16,    Type::kDouble,       Type::kInt64,     Type::kFloat8Fnuz,
                              Type::kBFloat8Fnuz, Type::kFloat8E4m3fn, Type::kFloat8E5m2};
constexpr Type kSmallFloats[] = {Type::kHalf,        Type::kBFloat16,     Type::kFloat8Fnuz,
                                 Type::kBFloat8Fnuz, Type::kFloat8E4m3fn, Type::kFloat8E5m2};

double stored(Type type, double value) {
  std::uint64_t element = 0;
  store(type, &element, 0, value);
  return load(type, &element, 0);
}

double load_code(Type type, std::uint32_t code) { return load(type, &code, 0); }

// All numbers of a small type in ascending order, without NaN, negative zero and infinities.
std::vector<double> all_numbers(Type type) {
  std::vector<double> numbers;
  for (std::uint32_t code = 0; code < 1u << (8 * size_of(type)); ++code) {
    const double value = load_code(type, code);
    if (std::isfinite(value) && !(value == 0 && std::signbit(value))) numbers.push_back(value);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

TEST(Types, NumbersAndSizes) {
  for (const Type type : kAllTypes) EXPECT_EQ(type_from_number(static_cast<int>(type)), type);
  for (const int number : {-1, 4, 10, 0xff, 0x102}) EXPECT_FALSE(type_from_number(number).has_value());
  EXPECT_EQ(size_of(Type::kHalf), 2u);
  for (const Type type : kAllTypes) {
    const bool fp8 = std::find(std::begin(kFp8Types), std::end(kFp8Types), type) != std::end(kFp8Types);
    EXPECT_EQ(is_fp8(type), fp8) << type_name(type);
    EXPECT_TRUE(!fp8 || size_of(type) == 1) << type_name(type);
  }
  EXPECT_EQ(size_of(Type::kInt64), 8u);
}

TEST(Types, KnownCodes) {
  EXPECT_EQ(load_code(Type::kHalf, 0x3c00), 1);
  EXPECT_EQ(load_code(Type::kHalf, 0x7bff), 65504);
  EXPECT_EQ(load_code(Type::kHalf, 0x0001), 0x1p-24);
  EXPECT_EQ(load_code(Type::kHalf, 0xfc00), -kInf);
  EXPECT_EQ(load_code(Type::kBFloat16, 0x3fc0), 1.5);
  EXPECT_EQ(load_code(Type::kBFloat16, 0x0001), 0x1p-133);
}

TEST(Types, KnownCodesOfEightBitFloats) {
  const Type a = Type::kFloat8Fnuz, b = Type::kBFloat8Fnuz, c = Type::kFloat8E4m3fn, d = Type::kFloat8E5m2;
  EXPECT_EQ(load_code(a, 0x38), 0.5);
  EXPECT_EQ(load_code(b, 0x38), 0.25);
  EXPECT_EQ(load_code(c, 0x38), 1);
  EXPECT_EQ(load_code(d, 0x38), 0.5);
  EXPECT_EQ(load_code(a, 0x3c), 0.75);
  EXPECT_EQ(load_code(b, 0x3c), 0.5);
  EXPECT_EQ(load_code(c, 0x3c), 1.5);
  EXPECT_EQ(load_code(d, 0x3c), 1);
  EXPECT_EQ(load_code(a, 0x7f), 240);
  EXPECT_EQ(load_code(b, 0x7f), 57344);
  EXPECT_EQ(load_code(c, 0x7e), 448);
  EXPECT_EQ(load_code(d, 0x7b), 57344);
  EXPECT_EQ(load_code(a, 0x01), 0x1p-10);
  EXPECT_EQ(load_code(b, 0x01), 0x1p-17);
  EXPECT_EQ(load_code(c, 0x01), 0x1p-9);
  EXPECT_EQ(load_code(d, 0x01), 0x1p-16);
  EXPECT_EQ(load_code(a, 0xff), -240);
  EXPECT_EQ(load_code(d, 0xfc), -kInf);
}

// The value of a code: (-1)^s 2^(e - bias) (1 + m / 2^k), or 2^(1 - bias) m / 2^k if e is 0, but for the special codes.
TEST(Types, EveryCodeOfEightBitFloatsHasItsValue) {
  struct Definition {
    Type type;
    int fraction_bits, bias;
  };
  for (const auto& [type, k, bias] : {Definition{Type::kFloat8Fnuz, 3, 8}, Definition{Type::kBFloat8Fnuz, 2, 16},
                                      Definition{Type::kFloat8E4m3fn, 3, 7}, Definition{Type::kFloat8E5m2, 2, 15}}) {
    int nans = 0, infinities = 0;
    for (std::uint32_t code = 0; code < 256; ++code) {
      const double got = load_code(type, code), sign = code < 128 ? 1 : -1;
      nans += std::isnan(got);
      infinities += std::isinf(got);
      if (!std::isfinite(got)) continue;
      const int e = static_cast<int>(code % 128) >> k, m = static_cast<int>(code) % (1 << k);
      const double fraction = std::ldexp(m, -k);
      EXPECT_EQ(got, sign * (e == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, e - bias))) << code;
      EXPECT_EQ(std::signbit(got), code >= 128) << code;
    }
    EXPECT_EQ(nans, type == Type::kFloat8E5m2 ? 6 : type == Type::kFloat8E4m3fn ? 2 : 1) << type_name(type);
    EXPECT_EQ(infinities, type == Type::kFloat8E5m2 ? 2 : 0) << type_name(type);
    unsigned char repeated = nan_byte(type);
    EXPECT_TRUE(std::isnan(load(type, &repeated, 0))) << type_name(type);
  }
  for (const std::uint32_t code : {0x7cu, 0xfcu}) EXPECT_TRUE(std::isinf(load_code(Type::kFloat8E5m2, code)));
  EXPECT_TRUE(std::isnan(load_code(Type::kFloat8E4m3fn, 0x7f)) && std::isnan(load_code(Type::kFloat8E4m3fn, 0xff)));
  for (const Type type : {Type::kFloat8Fnuz, Type::kBFloat8Fnuz}) EXPECT_TRUE(std::isnan(load_code(type, 0x80)));
}

TEST(Types, FnuzHasNeitherInfinitiesNorANegativeZero) {
  for (const Type type : {Type::kFloat8Fnuz, Type::kBFloat8Fnuz}) {
    for (const double value : {-0.0, -1e-30, -smallest_positive(type) / 2}) {
      unsigned char code = 1;
      store(type, &code, 0, value);
      EXPECT_EQ(code, 0) << value;
      EXPECT_FALSE(std::signbit(round_to(type, value))) << value;
    }
    for (const double value : {kInf, -kInf, kNan}) {
      unsigned char code = 0;
      store(type, &code, 0, value);
      EXPECT_EQ(code, 0x80) << value;
      EXPECT_TRUE(std::isnan(round_to(type, value))) << value;
    }
  }
}

// Infinities of e5m2 are left out: storing saturates.
TEST(Types, EveryCodeRoundTrips) {
  for (const Type type : kSmallFloats) {
    for (std::uint32_t code = 0; code < 1u << (8 * size_of(type)); ++code) {
      const double value = load_code(type, code);
      if (type == Type::kFloat8E5m2 && std::isinf(value)) continue;
      std::uint32_t again = 0;
      store(type, &again, 0, value);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(load_code(type, again))) << type_name(type) << " " << code;
      } else {
        EXPECT_EQ(again, code) << type_name(type);
      }
    }
  }
}

// Between each pair of neighbours: the midpoint goes to the even code, all else to the nearer neighbour.
TEST(Types, EveryMidpointRoundsToEven) {
  for (const Type type : kSmallFloats) {
    const std::vector<double> numbers = all_numbers(type);
    for (std::size_t i = 0; i + 1 < numbers.size(); ++i) {
      const double low = numbers[i], high = numbers[i + 1], middle = (low + high) / 2;
      std::uint32_t low_code = 0;
      store(type, &low_code, 0, low);
      EXPECT_EQ(stored(type, middle), low_code % 2 == 0 ? low : high) << type_name(type) << low;
      EXPECT_EQ(stored(type, std::nextafter(middle, low)), low);
      EXPECT_EQ(stored(type, std::nextafter(middle, high)), high);
      EXPECT_EQ(round_to(type, middle, Rounding::kDown), low);
      EXPECT_EQ(round_to(type, middle, Rounding::kUp), high);
      const double wider = std::max(std::fabs(low), std::fabs(high)) == std::fabs(low) ? low : high;
      const double inner = wider == low ? high : low;
      EXPECT_EQ(spacing(type, inner), high - low) << type_name(type) << " " << inner;
    }
  }
}

TEST(Types, ConstantsMatchTheNumbers) {
  for (const Type type : kSmallFloats) {
    const std::vector<double> numbers = all_numbers(type);
    EXPECT_EQ(max_finite(type), numbers.back());
    EXPECT_EQ(-max_finite(type), numbers.front());
    const auto positive = std::upper_bound(numbers.begin(), numbers.end(), 0.0);
    EXPECT_EQ(smallest_positive(type), *positive);
    const auto above_one = std::upper_bound(numbers.begin(), numbers.end(), 1.0);
    EXPECT_EQ(unit_roundoff(type), (*above_one - 1) / 2);
  }
  EXPECT_EQ(unit_roundoff(Type::kFloat), 0x1p-24);
  EXPECT_EQ(unit_roundoff(Type::kDouble), 0x1p-53);
  EXPECT_EQ(smallest_positive(Type::kFloat), std::numeric_limits<float>::denorm_min());
  EXPECT_EQ(smallest_positive(Type::kDouble), std::numeric_limits<double>::denorm_min());
}

TEST(Types, Overflow) {
  EXPECT_EQ(stored(Type::kHalf, 65519.99), 65504);
  EXPECT_EQ(stored(Type::kHalf, 65520), kInf);
  EXPECT_EQ(stored(Type::kHalf, -kInf), -kInf);
  EXPECT_EQ(stored(Type::kBFloat16, 1e39), kInf);
  EXPECT_EQ(stored(Type::kFloat, -1e39), -kInf);
  EXPECT_EQ(stored(Type::kFloat8Fnuz, 1e9), 240);
  EXPECT_EQ(stored(Type::kBFloat8Fnuz, -1e9), -57344);
  EXPECT_EQ(stored(Type::kFloat8E4m3fn, 1e9), 448);
  EXPECT_EQ(stored(Type::kFloat8E4m3fn, -kInf), -448);
  EXPECT_EQ(stored(Type::kFloat8E5m2, 1e9), 57344);
  EXPECT_EQ(stored(Type::kFloat8E5m2, kInf), 57344);
  EXPECT_EQ(round_to(Type::kHalf, 70000, Rounding::kDown), 65504);
  EXPECT_EQ(round_to(Type::kHalf, -70000, Rounding::kDown), -kInf);
  EXPECT_EQ(round_to(Type::kHalf, -70000, Rounding::kUp), -65504);
  EXPECT_EQ(round_to(Type::kHalf, 70000, Rounding::kUp), kInf);
  for (const Type type : kSmallFloats) EXPECT_TRUE(std::isnan(stored(type, kNan)));
}

TEST(Types, IntegersRoundToEvenAndSaturate) {
  const std::pair<double, double> cases[] = {{2.5, 2},     {3.5, 4},      {-2.5, -2},  {-0.5, 0},
                                             {127.4, 127}, {127.5, 127},  {1000, 127}, {-129, -128},
                                             {kInf, 127},  {-kInf, -128}, {kNan, 0}};
  for (const auto& [value, want] : cases) {
    EXPECT_EQ(stored(Type::kInt8, value), want) << value;
    EXPECT_EQ(round_to(Type::kInt8, value), want) << value;
  }
  EXPECT_EQ(stored(Type::kInt32, 1e10), 2147483647);
  EXPECT_EQ(stored(Type::kInt32, -1e10), -2147483648.0);
  std::int64_t big = 0;
  store(Type::kInt64, &big, 0, 0x1p63);
  EXPECT_EQ(big, std::numeric_limits<std::int64_t>::max());
  store(Type::kInt64, &big, 0, -0x1p63);
  EXPECT_EQ(big, std::numeric_limits<std::int64_t>::min());
}

TEST(Tensors, StridesOffsetsSpace) {
  const Tensor nhwc(Type::kHalf, {2, 3, 4, 5}, packed_strides({2, 3, 4, 5}, true));
  EXPECT_EQ(nhwc.strides, (std::vector<std::int64_t>{60, 1, 15, 3}));
  EXPECT_EQ(nhwc.count(), 120);
  EXPECT_EQ(nhwc.space(), 120);
  EXPECT_EQ(nhwc.bytes(), 240u);
  EXPECT_EQ(nhwc.offset(((1 * 3 + 2) * 4 + 3) * 5 + 4), 60 + 2 + 45 + 12);
  const Tensor holes(Type::kFloat, {2, 2}, {10, 3});
  EXPECT_EQ(holes.space(), 14);
  EXPECT_EQ(packed_strides({2, 3, 4}), (std::vector<std::int64_t>{12, 4, 1}));
}

TEST(Tensors, SamplesHoldTheCornersAndAreDistinct) {
  const Tensor tensor(Type::kFloat, {3, 4, 5, 6});
  const auto sample = sample_indices(tensor, 100, 7);
  EXPECT_EQ(sample.size(), 100u);
  EXPECT_EQ(sample, sample_indices(tensor, 100, 7));
  EXPECT_NE(sample, sample_indices(tensor, 100, 8));
  EXPECT_TRUE(std::adjacent_find(sample.begin(), sample.end(), std::greater_equal<>()) == sample.end());
  for (const std::int64_t n : {0, 2}) {
    for (const std::int64_t c : {0, 3}) {
      for (const std::int64_t h : {0, 4}) {
        for (const std::int64_t w : {0, 5}) {
          EXPECT_TRUE(std::binary_search(sample.begin(), sample.end(), ((n * 4 + c) * 5 + h) * 6 + w));
        }
      }
    }
  }
  EXPECT_EQ(sample_indices(tensor, 1000).size(), 360u);
}

Convolution one_dimensional(Direction direction, std::int64_t in, std::int64_t filter, std::int64_t out,
                            std::int64_t pad, std::int64_t stride, std::int64_t dilation) {
  Convolution p;
  p.direction = direction;
  p.x = Tensor(Type::kDouble, {1, 1, in});
  p.w = Tensor(Type::kDouble, {1, 1, filter});
  p.y = Tensor(Type::kDouble, {1, 1, out});
  p.pad = {pad};
  p.stride = {stride};
  p.dilation = {dilation};
  return p;
}

using Numbers = std::vector<double>;

TEST(ConvolutionByHand, ForwardIsACrossCorrelation) {
  const Numbers x = {1, 2, 3, 4}, w = {10, 1};
  const Convolution p = one_dimensional(Direction::kForward, 4, 2, 3, 0, 1, 1);
  EXPECT_EQ(evaluate(p, {x.data(), w.data(), nullptr}).value, (Numbers{12, 23, 34}));
}

TEST(ConvolutionByHand, PadStrideDilation) {
  const Numbers x = {1, 2, 3, 4, 5}, w = {1, 10, 100};
  // Taps of output o are at 2 o - 2, 2 o, 2 o + 2.
  const Convolution p = one_dimensional(Direction::kForward, 5, 3, 3, 2, 2, 2);
  EXPECT_EQ(evaluate(p, {x.data(), w.data(), nullptr}).value, (Numbers{310, 531, 53}));
}

TEST(ConvolutionByHand, GradientsOfPadStrideDilation) {
  const Numbers x = {1, 2, 3, 4, 5}, w = {1, 10, 100}, dy = {1, 2, 3};
  Convolution p = one_dimensional(Direction::kBackwardData, 5, 3, 3, 2, 2, 2);
  EXPECT_EQ(evaluate(p, {nullptr, w.data(), dy.data()}).value, (Numbers{12, 0, 123, 0, 230}));
  p.direction = Direction::kBackwardWeights;
  EXPECT_EQ(evaluate(p, {x.data(), nullptr, dy.data()}).value, (Numbers{2 + 9, 1 + 6 + 15, 3 + 10}));
}

TEST(ConvolutionByHand, GroupsAndTwoDimensions) {
  Convolution p;
  p.x = Tensor(Type::kDouble, {1, 2, 2, 2});
  p.w = Tensor(Type::kDouble, {4, 1, 1, 2});
  p.y = Tensor(Type::kDouble, {1, 4, 2, 1});
  p.pad = {0, 0};
  p.stride = p.dilation = {1, 1};
  p.groups = 2;
  const Numbers x = {1, 2, 3, 4, 5, 6, 7, 8}, w = {1, 0, 0, 1, 1, 1, -1, 1};
  EXPECT_EQ(evaluate(p, {x.data(), w.data(), nullptr}).value, (Numbers{1, 3, 2, 4, 11, 15, 1, 1}));
}

TEST(ConvolutionByHand, FilterLargerThanPaddedInput) {
  const Numbers x = {3}, w = {1, 10, 100, 1000};
  const Convolution p = one_dimensional(Direction::kForward, 1, 4, 1, 1, 1, 1);
  EXPECT_EQ(evaluate(p, {x.data(), w.data(), nullptr}).value, Numbers{30});
}

TEST(ConvolutionByHand, AlphaBetaAndMagnitude) {
  const Numbers x = {1, -2}, w = {3, 4}, old = {100};
  Convolution p = one_dimensional(Direction::kForward, 2, 2, 1, 0, 1, 1);
  p.alpha = -2;
  p.beta = 0.5;
  const Result result = evaluate(p, {x.data(), w.data(), old.data()});
  EXPECT_EQ(result.value, Numbers{-2 * (3 - 8) + 50});
  EXPECT_EQ(result.magnitude, Numbers{2 * (3 + 8) + 50});
}

TEST(ConvolutionByHand, InputsAreRoundedToTheCastType) {
  const Numbers x = {1.06, 1000}, w = {1, 1};  // e4m3fnuz: 1.0 or 1.125, at most 240
  Convolution p = one_dimensional(Direction::kForward, 2, 1, 2, 0, 1, 1);
  p.x.cast = Type::kFloat8Fnuz;
  EXPECT_EQ(evaluate(p, {x.data(), w.data(), nullptr}).value, (Numbers{1, 240}));
}

struct Shape {
  const char* name;
  std::vector<std::int64_t> x, w, pad, stride, dilation;
  std::int64_t groups;
};

const Shape kShapes[] = {
    {"pointwise", {2, 5, 4, 6}, {3, 5, 1, 1}, {0, 0}, {1, 1}, {1, 1}, 1},
    {"same", {2, 4, 7, 9}, {6, 4, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 1},
    {"strided", {1, 3, 11, 10}, {4, 3, 5, 3}, {2, 0}, {3, 2}, {1, 1}, 1},
    {"dilated", {2, 2, 12, 11}, {3, 2, 3, 2}, {3, 1}, {2, 1}, {3, 4}, 1},
    {"grouped", {2, 6, 5, 5}, {9, 2, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 3},
    {"depthwise", {3, 4, 6, 5}, {8, 1, 3, 3}, {1, 1}, {2, 2}, {1, 1}, 4},
    {"skipping", {1, 2, 9, 9}, {2, 2, 1, 2}, {0, 0}, {4, 3}, {1, 1}, 1},
    {"large pad", {1, 2, 3, 3}, {2, 2, 2, 2}, {5, 4}, {1, 1}, {1, 1}, 1},
    {"filter beyond input", {2, 2, 2, 3}, {3, 2, 5, 7}, {1, 0}, {1, 1}, {1, 1}, 1},
    {"line", {2, 3, 17}, {4, 3, 5}, {2}, {2}, {2}, 1},
    {"volume", {1, 4, 4, 5, 6}, {6, 2, 3, 1, 2}, {1, 0, 1}, {1, 2, 1}, {1, 1, 2}, 2},
};

Convolution problem_of(const Shape& shape, Direction direction, Type type = Type::kDouble) {
  Convolution p;
  p.direction = direction;
  p.pad = shape.pad;
  p.stride = shape.stride;
  p.dilation = shape.dilation;
  p.groups = shape.groups;
  std::vector<std::int64_t> y = {shape.x[0], shape.w[0]};
  for (std::size_t d = 0; d < p.pad.size(); ++d) {
    const std::int64_t extent = 1 + p.dilation[d] * (shape.w[d + 2] - 1);
    const std::int64_t room = shape.x[d + 2] + 2 * p.pad[d] - extent;
    y.push_back(room < 0 ? 1 : room / p.stride[d] + 1);
  }
  p.x = Tensor(type, shape.x);
  p.w = Tensor(type, shape.w);
  p.y = Tensor(type, y);
  return p;
}

// Small integers: every sum is exact, so results may be compared with ==.
Numbers random_integers(std::int64_t count, unsigned seed) {
  std::mt19937 engine(seed);
  Numbers numbers(static_cast<std::size_t>(count));
  for (double& number : numbers) number = static_cast<double>(engine() % 19) - 9;
  return numbers;
}

double inner_product(const Numbers& a, const Numbers& b) {
  EXPECT_EQ(a.size(), b.size());
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

TEST(ConvolutionProperties, DirectionsAreAdjoint) {
  for (const Shape& shape : kShapes) {
    const Convolution forward = problem_of(shape, Direction::kForward);
    const Numbers x = random_integers(forward.x.count(), 1);
    const Numbers w = random_integers(forward.w.count(), 2);
    const Numbers dy = random_integers(forward.y.count(), 3);
    const Operands data = {x.data(), w.data(), dy.data()};
    const double by_y = inner_product(dy, evaluate(forward, data).value);
    const double by_x = inner_product(x, evaluate(problem_of(shape, Direction::kBackwardData), data).value);
    const double by_w = inner_product(w, evaluate(problem_of(shape, Direction::kBackwardWeights), data).value);
    EXPECT_NE(by_y, 0) << shape.name;
    EXPECT_EQ(by_y, by_x) << shape.name;
    EXPECT_EQ(by_y, by_w) << shape.name;
  }
}

constexpr Direction kDirections[] = {Direction::kForward, Direction::kBackwardData, Direction::kBackwardWeights};

// The evaluations of rows and of single points share only the geometry.
TEST(ConvolutionProperties, WholeAgreesWithPointsForAnyThreadsAndCopies) {
  for (const Shape& shape : kShapes) {
    for (const Direction direction : kDirections) {
      Convolution p = problem_of(shape, direction);
      p.alpha = 3;
      p.beta = -2;
      const Numbers x = random_integers(p.x.count(), 1);
      const Numbers w = random_integers(p.w.count(), 2);
      const Numbers y = random_integers(p.y.count(), 3);
      const Operands data = {x.data(), w.data(), y.data()};
      const Result whole = evaluate(p, data, 1);
      std::vector<std::int64_t> all(whole.value.size());
      std::iota(all.begin(), all.end(), 0);
      const Result points = evaluate(p, data, all, 3);
      EXPECT_EQ(whole.value, points.value) << shape.name;
      EXPECT_EQ(whole.magnitude, points.magnitude) << shape.name;
      for (const int threads : {1, 4}) {
        for (const double copy_bytes : {0.0, 1e9}) {  // an image at a time, and all of them
          EXPECT_EQ(whole.value, evaluate(p, data, threads, copy_bytes).value) << shape.name;
          EXPECT_EQ(whole.value, evaluate(p, data, all, threads, copy_bytes).value) << shape.name;
        }
      }
      for (std::size_t i = 0; i < all.size(); ++i) {  // few reads: taken in place
        ASSERT_EQ(evaluate(p, data, {&all[i], 1}, 1).value[0], whole.value[i]) << shape.name << ' ' << i;
      }
      std::vector<std::int64_t> backwards(all.rbegin(), all.rend());
      EXPECT_EQ(evaluate(p, data, backwards, 1, 0).value, Numbers(whole.value.rbegin(), whole.value.rend()));
    }
  }
}

// Samples cost a pass over the inputs at most, however long their sums are; few samples cost less.
TEST(ConvolutionProperties, SamplesLoadEachInputOnceAtMost) {
  const Shape shape{"", {12, 8, 17, 17}, {16, 8, 3, 3}, {1, 1}, {2, 2}, {1, 1}, 1};
  for (const Direction direction : kDirections) {
    const Convolution p = problem_of(shape, direction);
    const Numbers x = random_integers(p.x.count(), 1), w = random_integers(p.w.count(), 2),
                  y = random_integers(p.y.count(), 3);
    const Operands data = {x.data(), w.data(), y.data()};
    const std::int64_t inputs = p.x.count() + p.w.count() + p.y.count() - p.output().count();
    const Result whole = evaluate(p, data, 1);
    EXPECT_EQ(whole.loads, inputs);
    for (const double copy_bytes : {0.0, 1e6}) {
      const auto sample = sample_indices(p.output(), 1000);
      const Result some = evaluate(p, data, sample, 1, copy_bytes);
      EXPECT_EQ(some.loads, inputs);
      for (std::size_t i = 0; i < sample.size(); ++i) {
        ASSERT_EQ(some.value[i], whole.value[static_cast<std::size_t>(sample[i])]) << i;
      }
    }
    const std::vector<std::int64_t> middle = {p.output().count() / 2};
    EXPECT_LE(evaluate(p, data, middle).loads, 2 * p.reduction_length());
  }
}

// Layout and type do not change the values that they can hold.
TEST(ConvolutionProperties, StridesAndTypesAreTransparent) {
  const Shape& shape = kShapes[4];
  for (const Direction direction : kDirections) {
    Convolution plain = problem_of(shape, direction);
    Convolution other = plain;
    const Numbers numbers[] = {random_integers(plain.x.count(), 1), random_integers(plain.w.count(), 2),
                               random_integers(plain.y.count(), 3)};
    other.x = Tensor(Type::kInt8, plain.x.lens, packed_strides(plain.x.lens, true));
    other.w = Tensor(Type::kHalf, plain.w.lens, {100, 31, 7, 2});
    other.y = Tensor(Type::kFloat8E5m2, plain.y.lens, {1, 2, 90, 18});
    const Tensor* tensors[] = {&other.x, &other.w, &other.y};
    std::vector<unsigned char> bytes[3];
    Numbers representable[3];
    for (int t = 0; t < 3; ++t) {
      bytes[t].assign(tensors[t]->bytes(), 0x55);
      for (std::int64_t i = 0; i < tensors[t]->count(); ++i) {
        const double number = numbers[t][static_cast<std::size_t>(i)];
        store(tensors[t]->type, bytes[t].data(), tensors[t]->offset(i), number);
        representable[t].push_back(round_to(tensors[t]->type, number));
      }
    }
    const Operands expected_data = {representable[0].data(), representable[1].data(), representable[2].data()};
    const Operands data = {bytes[0].data(), bytes[1].data(), bytes[2].data()};
    const Result expected = evaluate(plain, expected_data);
    EXPECT_EQ(evaluate(other, data).value, expected.value);
    const std::vector<std::int64_t> some = {0, plain.output().count() / 2};
    const Numbers want = {expected.value[0], expected.value[static_cast<std::size_t>(some[1])]};
    EXPECT_EQ(evaluate(other, data, some).value, want);
  }
}

TEST(ConvolutionProperties, LengthsAndFlops) {
  const Shape& shape = kShapes[4];  // 2x6x5x5, 9x2x3x3, 3 groups
  EXPECT_EQ(problem_of(shape, Direction::kForward).reduction_length(), 2 * 9);
  EXPECT_EQ(problem_of(shape, Direction::kBackwardData).reduction_length(), 3 * 9);
  EXPECT_EQ(problem_of(shape, Direction::kBackwardWeights).reduction_length(), 2 * 25);
  EXPECT_EQ(problem_of(shape, Direction::kForward).flops(), 2.0 * 2 * 9 * 25 * 18);
}

TEST(ConvolutionErrors, AreReported) {
  const Numbers zeros(1000);
  const Operands data = {zeros.data(), zeros.data(), zeros.data()};
  const Convolution good = problem_of(kShapes[1], Direction::kForward);
  EXPECT_NO_THROW(evaluate(good, data));
  Convolution bad = good;
  bad.groups = 2;
  EXPECT_THROW(evaluate(bad, data), std::invalid_argument);
  bad = good;
  bad.stride[0] = 0;
  EXPECT_THROW(evaluate(bad, data), std::invalid_argument);
  bad = good;
  bad.pad = {1};
  EXPECT_THROW(evaluate(bad, data), std::invalid_argument);
  bad = good;
  bad.beta = 1;
  EXPECT_THROW(evaluate(bad, {zeros.data(), zeros.data(), nullptr}), std::invalid_argument);
  EXPECT_THROW(evaluate(good, {nullptr, zeros.data(), nullptr}), std::invalid_argument);
  const std::vector<std::int64_t> outside = {good.y.count()};
  EXPECT_THROW(evaluate(good, data, outside), std::invalid_argument);
}

TEST(Tolerance, GrowsWithMagnitudeAndLength) {
  Arithmetic how;
  how.reduction_length = 97;
  const double one = error_bound(how, 1);
  EXPECT_GT(one, 8 * 10 * 0x1p-24 * 0.999);
  EXPECT_LT(one, 8 * 10 * 0x1p-24 * 1.001);
  EXPECT_NEAR(error_bound(how, 2) / one, 2, 1e-9);
  how.reduction_length = 2;  // shorter than 64: the worst case is smaller
  EXPECT_NEAR(error_bound(how, 1) / (5 * 0x1p-24), 1, 1e-6);
  how.accumulate = Type::kDouble;
  EXPECT_LT(error_bound(how, 1), 11 * 0x1p-53);
  how.input_rounding = 0x1p-11;
  EXPECT_GT(error_bound(how, 1), 2 * 0x1p-11);
}

TEST(Tolerance, ExactIntegersHaveOneAnswer) {
  Arithmetic how;
  how.accumulate = Type::kInt64;
  how.scaled = false;
  how.reduction_length = 5000;
  for (const Type output : {Type::kInt8, Type::kInt32, Type::kFloat}) {
    how.output = output;
    EXPECT_EQ(tolerance(how, 100, 1e6), 0);
  }
  how.output = Type::kFloat;
  EXPECT_EQ(accepted(how, 16777217, 16777217).high, 16777216);
  how.output = Type::kInt8;
  EXPECT_EQ(accepted(how, 1000, 1000).low, 127);
  how.scaled = true;
  EXPECT_EQ(accepted(how, 2.5, 2.5).low, 2);
  EXPECT_EQ(accepted(how, 2.5, 2.5).high, 3);
  EXPECT_EQ(accepted(how, 2.4, 2.4).high, 2);
}

TEST(Tolerance, StochasticRoundingAcceptsBothNeighbours) {
  Arithmetic how;
  how.output = Type::kFloat8Fnuz;
  how.reduction_length = 1;
  EXPECT_EQ(accepted(how, 1.03, 1.03).high, 1);
  how.stochastic_rounding = true;
  EXPECT_EQ(accepted(how, 1.03, 1.03).low, 1);
  EXPECT_EQ(accepted(how, 1.03, 1.03).high, 1.125);
}

// Sums in float, forwards and backwards, rounded to each output type, pass; 10 times the tolerance
// does not.
TEST(Compare, AcceptsHonestArithmeticAndDetectsPlantedErrors) {
  for (const Type output : {Type::kFloat, Type::kHalf, Type::kBFloat16, Type::kFloat8Fnuz}) {
    Convolution p;
    p.x = Tensor(Type::kFloat, {16, 400, 1});
    p.w = Tensor(Type::kFloat, {20, 400, 1});
    p.y = Tensor(output, {16, 20, 1});
    p.pad = {0};
    p.stride = p.dilation = {1};
    std::mt19937 engine(5);
    std::uniform_real_distribution<float> uniform(-1, 1);
    std::vector<float> x(16 * 400), w(20 * 400);
    for (float& v : x) v = uniform(engine);
    for (float& v : w) v = uniform(engine);
    const Result expected = evaluate(p, {x.data(), w.data(), nullptr});
    std::vector<unsigned char> y(p.y.bytes());
    for (std::size_t i = 0; i < 320; ++i) {
      const float* a = &x[i / 20 * 400];
      const float* b = &w[i % 20 * 400];
      float sum = 0;
      for (std::size_t c = 0; c < 400; ++c) {
        const std::size_t at = i % 2 ? c : 399 - c;
        sum += a[at] * b[at];
      }
      store(output, y.data(), static_cast<std::int64_t>(i), sum);
    }
    const Arithmetic how = arithmetic(p);
    const Comparison honest = compare(how, p.y, y.data(), expected);
    EXPECT_TRUE(honest.ok()) << type_name(output) << " " << honest.worst_ratio;
    EXPECT_LE(honest.worst_ratio, 1);
    EXPECT_LT(honest.rms_error, 4 * unit_roundoff(output));
    for (const std::size_t i : {0u, 77u, 319u}) {
      const std::vector<unsigned char> saved = y;
      const double bound = std::max(error_bound(how, expected.magnitude[i]), spacing(output, expected.value[i]) / 2);
      store(output, y.data(), static_cast<std::int64_t>(i), expected.value[i] + 10 * bound);
      const Comparison planted = compare(how, p.y, y.data(), expected);
      EXPECT_EQ(planted.failures, 1) << type_name(output);
      EXPECT_EQ(planted.index, static_cast<std::int64_t>(i));
      EXPECT_GT(planted.worst_ratio, 1);
      y = saved;
    }
  }
}

TEST(Compare, NonFiniteResults) {
  const Tensor y(Type::kFloat, {3});
  const Result expected = {{1, 2, 3}, {1, 2, 3}};
  for (const float wrong : {static_cast<float>(kNan), static_cast<float>(kInf)}) {
    const float data[] = {1, wrong, 3};
    const Comparison result = compare({}, y, data, expected);
    EXPECT_EQ(result.failures, 1);
    EXPECT_EQ(result.index, 1);
    EXPECT_EQ(result.worst_ratio, kInf);
    EXPECT_EQ(result.rms_error, kInf);
  }
  const Tensor half(Type::kHalf, {1});
  std::uint16_t element = 0;
  store(Type::kHalf, &element, 0, kInf);
  Arithmetic how;
  how.output = Type::kHalf;
  EXPECT_TRUE(compare(how, half, &element, {{1e6}, {1e6}}).ok());  // overflows rightly
  EXPECT_FALSE(compare(how, half, &element, {{6e4}, {6e4}}).ok());
  store(Type::kHalf, &element, 0, 65504);
  EXPECT_FALSE(compare(how, half, &element, {{1e6}, {1e6}}).ok());
}

TEST(Compare, SampleAndMetric) {
  const Tensor y(Type::kFloat, {4}, {2});
  const float data[] = {1, 9, 2, 9, 3, 9, 5};
  const std::vector<std::int64_t> sample = {1, 3};
  const Comparison result = compare({}, y, data, {{2, 4}, {2, 4}}, sample);
  EXPECT_EQ(result.failures, 1);
  EXPECT_EQ(result.index, 3);
  EXPECT_EQ(result.got, 5);
  EXPECT_EQ(result.want, 4);
  EXPECT_DOUBLE_EQ(result.rms_error, std::sqrt(0.5) / 5);
}

TEST(Compare, ArithmeticOfAProblem) {
  const auto accumulate = [](Type x, Type w, Type y) {
    Convolution p = problem_of(kShapes[0], Direction::kForward);
    p.x = Tensor(x, p.x.lens);
    p.w = Tensor(w, p.w.lens);
    p.y = Tensor(y, p.y.lens);
    return arithmetic(p).accumulate;
  };
  EXPECT_EQ(accumulate(Type::kInt8, Type::kInt8, Type::kFloat), Type::kInt64);
  EXPECT_EQ(accumulate(Type::kDouble, Type::kDouble, Type::kDouble), Type::kDouble);
  EXPECT_EQ(accumulate(Type::kHalf, Type::kHalf, Type::kHalf), Type::kFloat);
  EXPECT_FALSE(arithmetic(problem_of(kShapes[0], Direction::kForward)).scaled);
}

TEST(TensorOps, BroadcastsAndScales) {
  OpTensor p;
  p.a = p.c = Tensor(Type::kDouble, {2, 2});
  p.b = Tensor(Type::kDouble, {1, 2});
  p.alpha1 = 2;
  p.alpha2 = -1;
  p.beta = 10;
  const Numbers a = {1, 2, 3, 4}, b = {5, 1}, c = {1, 0, 0, 1};
  const auto value = [&](TensorOp op) {
    p.op = op;
    return op_tensor(p, a.data(), b.data(), c.data()).value;
  };
  EXPECT_EQ(value(TensorOp::kAdd), (Numbers{7, 3, 1, 17}));
  EXPECT_EQ(value(TensorOp::kMul), (Numbers{0, -4, -30, 2}));
  EXPECT_EQ(value(TensorOp::kMin), (Numbers{5, -1, -5, 9}));
  EXPECT_EQ(value(TensorOp::kMax), (Numbers{12, 4, 6, 18}));
  p.b.lens = {1, 3};
  EXPECT_THROW(value(TensorOp::kAdd), std::invalid_argument);
}

TEST(TensorOps, SetScaleTransform) {
  const Tensor y(Type::kFloat, {2, 2}, {1, 2});  // column-major
  const float old[] = {1, 3, 2, 4};
  EXPECT_EQ(set_tensor(y, 7).value, Numbers(4, 7.0));
  EXPECT_EQ(scale_tensor(y, 3, old).value, (Numbers{3, 6, 9, 12}));
  const Tensor x(Type::kInt8, {2, 2});
  const std::int8_t source[] = {10, 20, 30, 40};
  const Result result = transform_tensor(0.5, x, source, -1, y, old);
  EXPECT_EQ(result.value, (Numbers{4, 8, 12, 16}));
  EXPECT_EQ(result.magnitude, (Numbers{6, 12, 18, 24}));
}

TEST(TensorOps, Bias) {
  const Tensor y(Type::kDouble, {2, 2, 1, 2});
  const Tensor b(Type::kDouble, {1, 2, 1, 1});
  const Numbers bias = {1, 2}, old = {1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(bias_forward(10, b, bias.data(), 1, y, old.data()).value, (Numbers{11, 12, 23, 24, 15, 16, 27, 28}));
  EXPECT_EQ(bias_backward(2, y, old.data(), 100, b, bias.data()).value,
            (Numbers{2 * (1 + 2 + 5 + 6) + 100, 2 * (3 + 4 + 7 + 8) + 200}));
  EXPECT_THROW(bias_forward(1, y, old.data(), 0, y, nullptr), std::invalid_argument);
}

}  // namespace
}  // namespace polymio::reference
