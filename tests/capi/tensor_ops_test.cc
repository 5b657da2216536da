// The tensor operations and the bias of a convolution through the C API, against the reference: every
// type, broadcast, stride and scalar, memory between the elements untouched, the text of errors. On any device.
// SPDX-License-Identifier: MIT
#include "reference/tensor_ops.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "on_device.h"
#include "reference/tolerance.h"

namespace polymio::test {
namespace {

namespace ref = polymio::reference;
using Bytes = std::vector<unsigned char>;

constexpr miopenDataType_t kFp8Types[] = {miopenFloat8_fnuz, miopenBFloat8_fnuz, POLYMIO_FLOAT8_E4M3FN,
                                          POLYMIO_FLOAT8_E5M2};
constexpr miopenTensorOp_t kOps[] = {miopenTensorOpAdd, miopenTensorOpMul, miopenTensorOpMin, miopenTensorOpMax};
constexpr unsigned char kUntouched = 0xa5;

ref::Type ref_type(miopenDataType_t type) { return static_cast<ref::Type>(type); }
std::string name(miopenDataType_t type) { return std::string(ref::type_name(ref_type(type))); }

std::vector<std::int64_t> wide(const Ints& values) { return {values.begin(), values.end()}; }

/// The strides of `lens` with the dimensions in memory in `order`, slowest first, and `gap` unused
/// elements after each row.
Ints strides_in(const Ints& lens, const Ints& order, int gap = 0) {
  Ints strides(lens.size());
  int step = 1;
  for (auto d = order.rbegin(); d != order.rend(); ++d) {
    strides[static_cast<std::size_t>(*d)] = step;
    step *= lens[static_cast<std::size_t>(*d)];
    if (d == order.rbegin()) step += gap;
  }
  return strides;
}

/// A described tensor with its elements, for the library and for the reference.
struct Data {
  Data(miopenDataType_t type, const Ints& lens, const Ints& strides = {})
      : type(type),
        desc(type, lens, strides),
        plain(ref_type(type), wide(lens), wide(strides)),
        bytes(plain.bytes(), kUntouched) {}

  void fill(unsigned seed, double limit = 4) {
    std::mt19937 random(seed);
    for (std::int64_t i = 0; i < plain.count(); ++i) {
      const double unit = static_cast<double>(random()) / static_cast<double>(random.max()) * 2 - 1;
      ref::store(plain.type, bytes.data(), plain.offset(i), unit * limit);
    }
  }
  /// Values that turn every sum and product they enter into NaN.
  void poison() {
    for (std::int64_t i = 0; i < plain.count(); ++i)
      ref::store(plain.type, bytes.data(), plain.offset(i), std::numeric_limits<double>::quiet_NaN());
  }
  double at(std::int64_t i) const { return ref::load(plain.type, bytes.data(), plain.offset(i)); }
  void* data() { return bytes.data(); }
  const void* data() const { return bytes.data(); }
  /// The buffer for a call; some begin at an odd element.
  There there(miopenHandle_t handle) const {
    static std::size_t made = 0;
    return There(handle, bytes.data(), bytes.size(), made++ % 7 == 3 ? ref::size_of(plain.type) : 0);
  }

  miopenDataType_t type;
  Tensor desc;
  ref::Tensor plain;
  Bytes bytes;
};

/// A host scalar of the type that the API expects for an output of `type`.
struct Scalar {
  Scalar(miopenDataType_t type, double value)
      : as_double(value), as_float(static_cast<float>(value)), is_double(type == miopenDouble) {}
  operator const void*() const {  // NOLINT: passed to the API
    return is_double ? static_cast<const void*>(&as_double) : &as_float;
  }
  double as_double;
  float as_float;
  bool is_double;
};

/// Expects y to hold `want` and the bytes between its elements to be unchanged.
void expect_result(const Data& y, const ref::Result& want, const ref::Arithmetic& how, const std::string& what) {
  const auto found = ref::compare(how, y.plain, y.data(), want);
  EXPECT_TRUE(found.ok()) << what << ": " << found.failures << " wrong, at " << found.index << " got " << found.got
                          << " want " << found.want << " +- " << found.tolerance;
  const Bytes owned = ref::element_bytes(y.plain);
  for (std::size_t i = 0; i < owned.size(); ++i)
    if (!owned[i] && y.bytes[i] != kUntouched) FAIL() << what << ": byte " << i << " is no element";
}

/// The bound of one operation in the arithmetic for these types: double if one has a wide integer or is
/// double, else float.
ref::Arithmetic arithmetic(miopenDataType_t output, std::initializer_list<miopenDataType_t> inputs,
                           std::int64_t reduction = 1) {
  ref::Arithmetic how;
  how.output = ref_type(output);
  how.reduction_length = reduction;
  const auto wide_type = [](miopenDataType_t t) { return t == miopenDouble || t == miopenInt32 || t == miopenInt64; };
  const bool all_wide = wide_type(output) || std::any_of(inputs.begin(), inputs.end(), wide_type);
  how.accumulate = all_wide ? ref::Type::kDouble : ref::Type::kFloat;
  return how;
}

struct Layouts {
  Ints lens, b_lens, a_strides, b_strides, c_strides;
};

const std::vector<Layouts>& layouts() {
  static const Ints x{2, 3, 5, 7}, bias{1, 3, 1, 1}, nhwc{0, 2, 3, 1}, nchw{0, 1, 2, 3};
  static const std::vector<Layouts> all = {
      {x, x, {}, {}, {}},
      {x, bias, {}, {}, {}},
      {x, {1, 1, 1, 1}, {}, {}, {}},
      {x, {2, 1, 5, 1}, {}, {}, {}},
      {x, bias, strides_in(x, nhwc), {}, strides_in(x, nhwc)},
      {x, x, strides_in(x, nhwc), strides_in(x, nchw, 3), strides_in(x, nchw, 1)},
      {x, x, strides_in(x, {3, 2, 1, 0}), {}, strides_in(x, nhwc, 2)},
      {{11}, {1}, {}, {}, {3}},
      {{3, 700}, {3, 1}, {}, {}, {}},
      {{3, 700}, {1, 700}, {701, 1}, {}, {}},
      {{2, 300, 3}, {1, 300, 1}, {}, {}, {900, 1, 300}},
      {{2, 2, 3, 4, 5}, {1, 2, 1, 4, 1}, {}, {}, {}},
      {{9, 64, 100}, {9, 64, 100}, {}, {}, {}},
      // Few channels innermost, more than a block of 512: each kind of repeated row, gaps in rows and between them.
      {{2, 3, 19, 23}, {1, 3, 1, 1}, strides_in({2, 3, 19, 23}, nhwc), {}, strides_in({2, 3, 19, 23}, nhwc)},
      {{2, 3, 19, 23}, {1, 1, 19, 23}, strides_in({2, 3, 19, 23}, nhwc), {}, strides_in({2, 3, 19, 23}, nhwc, 1)},
      {{2, 3, 19, 23}, {2, 3, 1, 1}, {}, {}, strides_in({2, 3, 19, 23}, nhwc)},
      // Rows that several images share.
      {{4, 3, 9, 23},
       {1, 1, 9, 23},
       strides_in({4, 3, 9, 23}, nhwc),
       strides_in({1, 1, 9, 23}, nchw, 2),
       strides_in({4, 3, 9, 23}, nhwc)},
      {{5, 7, 31, 5}, {5, 7, 31, 5}, {}, strides_in({5, 7, 31, 5}, nchw, 2), {}},
  };
  return all;
}

struct ScalarSet {
  double alpha1, alpha2, beta;
};
constexpr ScalarSet kScalars[] = {{1, 1, 0}, {0.5, -2, 0}, {1, 1, 1}, {-1.5, 0.25, 0.75}, {0, 1, 0}};

void check_op(miopenHandle_t handle, miopenTensorOp_t op, miopenDataType_t type, const Layouts& at,
              const ScalarSet& s) {
  Data a(type, at.lens, at.a_strides), b(type, at.b_lens, at.b_strides), c(type, at.lens, at.c_strides);
  a.fill(1);
  b.fill(2);
  c.fill(3);
  ref::OpTensor problem{static_cast<ref::TensorOp>(op), s.alpha1, s.alpha2, s.beta, a.plain, b.plain, c.plain};
  const auto want = ref::op_tensor(problem, a.data(), b.data(), c.data());
  if (s.beta == 0) c.poison();
  expect_ok(miopenOpTensor(handle, op, Scalar(type, s.alpha1), a.desc, a.there(handle), Scalar(type, s.alpha2), b.desc,
                           b.there(handle), Scalar(type, s.beta), c.desc, c.there(handle)));
  expect_result(c, want, arithmetic(type, {}), name(type) + " op " + std::to_string(op));
}

TEST(TensorOps, OpTensorMatchesTheReference) {
  const DeviceHandle handle;
  for (std::size_t i = 0; i < layouts().size(); ++i) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, "layout " + std::to_string(i));
    for (const auto type : kTypes)
      for (std::size_t s = 0; s < std::size(kScalars); ++s)
        if (sampled()) check_op(handle, kOps[(i + s) % 4], type, layouts()[i], kScalars[s]);
  }
  for (const auto op : kOps)
    for (const auto type : kTypes)
      for (const auto& s : kScalars)
        if (sampled()) check_op(handle, op, type, layouts()[1], s);
}

TEST(TensorOps, OpTensorWorksInPlace) {
  const DeviceHandle handle;
  for (const auto type : kTypes) {
    Data c(type, {4, 1000}), b(type, {4, 1000});
    c.fill(1, 2);
    b.fill(2, 2);
    const auto want = ref::op_tensor({ref::TensorOp::kMul, 2, 1, 0.5, c.plain, b.plain, c.plain}, c.data(), b.data(),
                                     Bytes(c.bytes).data());
    {
      const There both = c.there(handle);
      expect_ok(miopenOpTensor(handle, miopenTensorOpMul, Scalar(type, 2), c.desc, both, Scalar(type, 1), b.desc,
                               b.there(handle), Scalar(type, 0.5), c.desc, both));
    }
    expect_result(c, want, arithmetic(type, {}), name(type));
  }
}

TEST(TensorOps, Int64IsExactWhenTheScalarsAreSigns) {
  const DeviceHandle handle;
  constexpr std::int64_t kTop = std::numeric_limits<std::int64_t>::max();
  const std::vector<std::int64_t> a{kTop, kTop - 1, -kTop, 1, (std::int64_t{1} << 53) + 1},
      b{kTop, -1, -kTop, (std::int64_t{1} << 62) + 1, 3};
  std::vector<std::int64_t> c{1, 5, -1, 2, 0};
  const Tensor desc(miopenInt64, {5});
  const float one = 1, minus = -1;
  expect_ok(miopenOpTensor(handle, miopenTensorOpAdd, &one, desc, There(handle, a), &one, desc, There(handle, b),
                           &minus, desc, There(handle, c)));
  EXPECT_EQ(
      c, (std::vector<std::int64_t>{kTop, kTop - 7, -kTop - 1, (std::int64_t{1} << 62), (std::int64_t{1} << 53) + 4}));
  const std::int64_t factor = 3;
  c = {(std::int64_t{1} << 60) + 1, kTop, -kTop, 0, -5};
  expect_ok(miopenScaleTensor(handle, desc, There(handle, c), &factor));
  EXPECT_EQ(c, (std::vector<std::int64_t>{3 * ((std::int64_t{1} << 60) + 1), kTop, -kTop - 1, 0, -15}));
}

/// The data type's value as bytes.
Bytes value_of(miopenDataType_t type, double value) {
  Bytes bytes(ref::size_of(ref_type(type)));
  ref::store(ref_type(type), bytes.data(), 0, value);
  return bytes;
}

TEST(TensorOps, SetAndScaleTakeAValueOfTheTensorsType) {
  const DeviceHandle handle;
  const Ints lens{3, 4, 50, 70}, gaps = strides_in(lens, {0, 2, 3, 1}, 2);
  for (const auto type : kTypes) {
    for (const Ints& strides : {Ints{}, gaps}) {
      if (!sampled()) continue;
      Data y(type, lens, strides);
      const Bytes three = value_of(type, 3), factor = value_of(type, -2);
      expect_ok(miopenSetTensor(handle, y.desc, y.there(handle), three.data()));
      expect_result(y, ref::set_tensor(y.plain, 3), arithmetic(type, {}), name(type) + " set");
      y.fill(5);
      const auto want = ref::scale_tensor(y.plain, -2, Bytes(y.bytes).data());
      expect_ok(miopenScaleTensor(handle, y.desc, y.there(handle), factor.data()));
      expect_result(y, want, arithmetic(type, {}), name(type) + " scale");
    }
  }
}

TEST(TensorOps, TransformConvertsEveryPairOfTypesAndLayouts) {
  const DeviceHandle handle;
  const Ints lens{2, 5, 7, 9}, nhwc = strides_in(lens, {0, 2, 3, 1}), gaps = strides_in(lens, {1, 0, 2, 3}, 4);
  const std::pair<Ints, Ints> strides[] = {{{}, {}}, {{}, nhwc}, {nhwc, {}}, {gaps, nhwc}, {nhwc, gaps}};
  for (const auto from : kTypes) {
    for (const auto to : kTypes) {
      if (!sampled()) continue;
      for (const auto& [x_strides, y_strides] : strides) {
        for (const auto& [alpha, beta] : {std::pair{1.0, 0.0}, std::pair{-0.5, 0.0}, std::pair{2.0, 1.5}}) {
          Data x(from, lens, x_strides), y(to, lens, y_strides);
          x.fill(1, 50);
          y.fill(2);
          const auto want = ref::transform_tensor(alpha, x.plain, x.data(), beta, y.plain, Bytes(y.bytes).data());
          if (beta == 0) y.poison();
          expect_ok(miopenTransformTensor(handle, Scalar(to, alpha), x.desc, x.there(handle), Scalar(to, beta), y.desc,
                                          y.there(handle)));
          auto how = arithmetic(to, {from});
          // A conversion alone: a single rounding.
          if (alpha == 1 && beta == 0) {
            how.accumulate = ref::Type::kInt64;
            how.scaled = false;
          }
          expect_result(y, want, how, name(from) + " to " + name(to));
        }
      }
    }
  }
}

/// The value of a code by the definition of its format.
double value_of_code(miopenDataType_t type, unsigned code) {
  const bool fnuz = type == miopenFloat8_fnuz || type == miopenBFloat8_fnuz;
  const bool e4 = type == miopenFloat8_fnuz || type == POLYMIO_FLOAT8_E4M3FN;
  const int bias = (e4 ? 7 : 15) + (fnuz ? 1 : 0), mantissa = e4 ? 3 : 2;
  const unsigned body = code & 0x7f, e = body >> mantissa, m = body & ((1u << mantissa) - 1);
  const bool nan = fnuz ? code == 0x80 : body > (e4 ? 0x7eu : 0x7cu);
  if (nan) return std::numeric_limits<double>::quiet_NaN();
  const double unit = 1.0 / (1 << mantissa);
  const double value = body == 0x7c && !e4 && !fnuz ? std::numeric_limits<double>::infinity()
                       : e == 0                     ? std::ldexp(m * unit, 1 - bias)
                                                    : std::ldexp(1 + m * unit, static_cast<int>(e) - bias);
  return code & 0x80 ? -value : value;
}

TEST(TensorOps, EveryCodeOfTheEightBitFloatsHasItsValue) {
  const DeviceHandle handle;
  const Scalar one(miopenFloat, 1), zero(miopenFloat, 0);
  const auto transform = [&](const Data& x, Data& y) {
    expect_ok(miopenTransformTensor(handle, one, x.desc, x.there(handle), zero, y.desc, y.there(handle)));
  };
  for (const auto type : kFp8Types) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, name(type));
    Data codes(type, {256}), values(miopenFloat, {256}), again(type, {256});
    for (unsigned code = 0; code < 256; ++code) codes.bytes[code] = static_cast<unsigned char>(code);
    transform(codes, values);
    transform(values, again);
    for (unsigned code = 0; code < 256; ++code) {
      const double want = value_of_code(type, code), got = values.at(code), back = again.at(code);
      if (std::isnan(want)) {
        EXPECT_TRUE(std::isnan(got) && std::isnan(back)) << code;
        continue;
      }
      EXPECT_EQ(got, want) << code;
      EXPECT_EQ(std::signbit(got), std::signbit(want)) << code;
      EXPECT_EQ(ref::load(ref_type(type), &codes.bytes[code], 0), want) << "in the reference, " << code;
      if (std::isinf(want))
        EXPECT_EQ(std::fabs(back), 57344) << code;
      else
        EXPECT_EQ(again.bytes[code], code);
    }
  }
}

/// Exponents from below the smallest subnormal to above the largest number, with fractions at and beside every tie.
TEST(TensorOps, FloatsRoundToTheNearestEightBitFloat) {
  const DeviceHandle handle;
  const Scalar one(miopenFloat, 1), zero(miopenFloat, 0);
  std::vector<float> floats{0.0f, -0.0f, std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::max()};
  for (int e = -20; e <= 17; ++e)
    for (int thirty_seconds = 32; thirty_seconds < 64; ++thirty_seconds) {
      const float v = std::ldexp(static_cast<float>(thirty_seconds), e - 5);
      for (const float near : {std::nextafter(v, 0.0f), v, std::nextafter(v, 1e30f)}) floats.push_back(near);
    }
  const std::size_t half = floats.size();
  for (std::size_t i = 0; i < half; ++i) floats.push_back(-floats[i]);
  for (const float special : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
    for (const float v : {special, -special}) floats.push_back(v);
  Data x(miopenFloat, {static_cast<int>(floats.size())});
  std::memcpy(x.data(), floats.data(), x.bytes.size());
  for (const auto type : kFp8Types) {
    Data y(type, {static_cast<int>(floats.size())});
    expect_ok(miopenTransformTensor(handle, one, x.desc, x.there(handle), zero, y.desc, y.there(handle)));
    for (std::size_t i = 0; i < floats.size(); ++i) {
      unsigned char want = 0;
      ref::store(ref_type(type), &want, 0, floats[i]);
      if (std::isnan(ref::load(ref_type(type), &want, 0)))
        EXPECT_TRUE(std::isnan(y.at(static_cast<std::int64_t>(i)))) << floats[i];
      else
        EXPECT_EQ(y.bytes[i], want) << name(type) << " " << floats[i];
    }
  }
}

TEST(TensorOps, TransformTransposesPlanesOfAnOddNumberOfElements) {
  const DeviceHandle handle;
  for (const Ints& lens : {Ints{2, 80, 7, 7}, Ints{2, 3, 21, 33}, Ints{3, 12, 40, 5}}) {
    const Ints nhwc = strides_in(lens, {0, 2, 3, 1});
    for (const auto type : {miopenHalf, miopenFloat, miopenInt8})
      for (const auto& [x_strides, y_strides] : {std::pair{Ints{}, nhwc}, std::pair{nhwc, Ints{}}})
        for (const auto& [alpha, beta] : {std::pair{1.0, 0.0}, std::pair{2.0, 1.5}}) {
          Data x(type, lens, x_strides), y(type, lens, y_strides);
          x.fill(1, 20);
          y.fill(2);
          const auto want = ref::transform_tensor(alpha, x.plain, x.data(), beta, y.plain, Bytes(y.bytes).data());
          if (beta == 0) y.poison();
          expect_ok(miopenTransformTensor(handle, Scalar(type, alpha), x.desc, x.there(handle), Scalar(type, beta),
                                          y.desc, y.there(handle)));
          expect_result(y, want, arithmetic(type, {type}), name(type));
        }
  }
}

TEST(TensorOps, OutputsThatOverlapThemselvesAreRefusedByGpus) {
  const DeviceHandle handle;
  const float one = 1, zero = 0;
  Data x(miopenFloat, {2, 3}, {}), y(miopenFloat, {2, 3}, {1, 1});
  x.fill(1);
  const auto got = miopenTransformTensor(handle, &one, x.desc, x.there(handle), &zero, y.desc, y.there(handle));
  if (on_cpu())
    expect_ok(got);
  else
    expect_error(got, miopenStatusNotImplemented, {"the output overlaps itself"});
}

TEST(TensorOps, TransformRoundsOnceAndSaturates) {
  const DeviceHandle handle;
  const Scalar one(miopenFloat, 1), zero(miopenFloat, 0);
  // Just above the midpoint of 1 and the next half: rounding twice, through float, would round down.
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> values{1 + 0x1p-11 + 0x1p-40,
                                   1 + 0x1p-11 - 0x1p-40,
                                   0.5,
                                   1.5,
                                   2.5,
                                   -2.5,
                                   127.4,
                                   127.6,
                                   -128.6,
                                   300,
                                   -300,
                                   1e300,
                                   -1e300,
                                   inf,
                                   -inf,
                                   nan,
                                   65519.999,
                                   65520,
                                   0x1p-25,
                                   0x1.8p-24,
                                   447.9,
                                   1e-320,
                                   -0.0,
                                   1e10};
  Data x(miopenDouble, {static_cast<int>(values.size())});
  std::copy(values.begin(), values.end(), reinterpret_cast<double*>(x.bytes.data()));
  for (const auto to : kTypes) {
    if (to == miopenDouble || !sampled()) continue;
    Data y(to, {static_cast<int>(values.size())});
    expect_ok(miopenTransformTensor(handle, one, x.desc, x.there(handle), zero, y.desc, y.there(handle)));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double want = ref::round_to(ref_type(to), values[i]), got = y.at(static_cast<std::int64_t>(i));
      EXPECT_TRUE(got == want || (std::isnan(got) && std::isnan(want)))
          << values[i] << " to " << name(to) << ": got " << got << ", want " << want;
    }
  }
}

TEST(TensorOps, EveryHalfSurvivesConversionThroughFloat) {
  const DeviceHandle handle;
  const float one = 1, zero = 0;
  std::vector<std::uint16_t> codes(65536), back(65536);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint16_t>(i);
  std::vector<float> values(65536);
  const Tensor half(miopenHalf, {65536}), single(miopenFloat, {65536});
  expect_ok(miopenTransformTensor(handle, &one, half, There(handle, codes), &zero, single, There(handle, values)));
  expect_ok(miopenTransformTensor(handle, &one, single, There(handle, values), &zero, half, There(handle, back)));
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const double want = ref::load(ref::Type::kHalf, codes.data(), static_cast<std::int64_t>(i));
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(values[i])) << i;
      EXPECT_GT(back[i] & 0x7fff, 0x7c00) << i;
    } else {
      ASSERT_EQ(values[i], want) << i;
      ASSERT_EQ(back[i], codes[i]);
    }
  }
}

TEST(TensorOps, FloatToHalfRoundsLikeTheReference) {
  const DeviceHandle handle;
  const float one = 1, zero = 0;
  std::vector<float> values;
  for (std::uint32_t code = 0; code < 0x7c00; ++code) {  // every midpoint and both its neighbours
    const std::uint16_t pair[] = {static_cast<std::uint16_t>(code), static_cast<std::uint16_t>(code + 1)};
    const double low = ref::load(ref::Type::kHalf, pair, 0);
    const double high = code + 1 == 0x7c00 ? 65536 : ref::load(ref::Type::kHalf, pair, 1);
    const auto middle = static_cast<float>((low + high) / 2);
    for (const float v : {std::nextafter(middle, 0.0f), middle, std::nextafter(middle, 1e9f)})
      values.insert(values.end(), {v, -v});
  }
  std::vector<std::uint16_t> halves(values.size());
  const int n = static_cast<int>(values.size());
  const Tensor single(miopenFloat, {n}), half(miopenHalf, {n});
  expect_ok(miopenTransformTensor(handle, &one, single, There(handle, values), &zero, half, There(handle, halves)));
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(ref::load(ref::Type::kHalf, halves.data(), static_cast<std::int64_t>(i)),
              ref::round_to(ref::Type::kHalf, values[i]))
        << std::hexfloat << values[i];
}

TEST(TensorOps, VectorLayoutsHoldTheSameChannels) {
  const DeviceHandle handle;
  const float one = 1, zero = 0;
  const int lens[] = {2, 8, 3, 5};
  for (const int vector : {4, 8}) {
    Tensor plain(miopenFloat, {2, 8, 3, 5}), vectors;
    expect_ok(miopenSetNdTensorDescriptorWithLayout(vectors, miopenFloat,
                                                    vector == 4 ? miopenTensorNCHWc4 : miopenTensorNCHWc8, lens, 4));
    std::vector<float> x(240), y(240), back(240);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
    expect_ok(miopenTransformTensor(handle, &one, plain, There(handle, x), &zero, vectors, There(handle, y)));
    for (int n = 0; n < 2; ++n)
      for (int c = 0; c < 8; ++c)
        for (int p = 0; p < 15; ++p)
          ASSERT_EQ(y[static_cast<std::size_t>(((n * 8 / vector + c / vector) * 15 + p) * vector + c % vector)],
                    x[static_cast<std::size_t>((n * 8 + c) * 15 + p)]);
    expect_ok(miopenTransformTensor(handle, &one, vectors, There(handle, y), &zero, plain, There(handle, back)));
    EXPECT_EQ(x, back);
    const Tensor bias(miopenFloat, {1, 8, 1, 1});
    std::vector<float> sums(8), plain_sums(8);
    expect_ok(miopenConvolutionBackwardBias(handle, &one, vectors, There(handle, y), &zero, bias, There(handle, sums)));
    expect_ok(
        miopenConvolutionBackwardBias(handle, &one, plain, There(handle, x), &zero, bias, There(handle, plain_sums)));
    EXPECT_EQ(sums, plain_sums);  // small integers: exact in any order
    expect_ok(miopenConvolutionForwardBias(handle, &one, bias, There(handle, sums), &zero, vectors, There(handle, y)));
    expect_ok(miopenConvolutionForwardBias(handle, &one, bias, There(handle, sums), &zero, plain, There(handle, x)));
    expect_ok(miopenTransformTensor(handle, &one, vectors, There(handle, y), &zero, plain, There(handle, back)));
    EXPECT_EQ(x, back);
  }
}

struct BiasCase {
  Ints lens, strides;
};

std::vector<BiasCase> bias_cases() {
  const Ints x{3, 5, 6, 7}, wide_x{2, 40, 9, 9}, volume{2, 3, 4, 5, 6};
  return {{x, {}},
          {x, strides_in(x, {0, 2, 3, 1})},
          {x, strides_in(x, {3, 1, 0, 2}, 2)},
          {wide_x, {}},
          {wide_x, strides_in(wide_x, {0, 2, 3, 1})},
          {wide_x, strides_in(wide_x, {0, 2, 3, 1}, 3)},
          {volume, {}},
          {volume, strides_in(volume, {0, 2, 3, 4, 1})},
          {{1, 1, 1, 1}, {}},
          {{7, 600}, {}},
          {{2, 3, 50000}, {}},
          {{2000, 40, 2}, {80, 1, 40}},
          {{17, 24, 7, 7}, {}},  // planes that share vectors
          {{11, 24, 6, 14}, {}},
          {{1, 40, 8, 12}, {}},
          {{1, 24, 64, 66}, {}}};  // planes in pieces
}

Data bias_of(miopenDataType_t type, const Ints& lens) {
  Ints sizes(lens.size(), 1);
  sizes[1] = lens[1];
  return Data(type, sizes);
}

TEST(TensorOps, ForwardBiasAddsToTheOutput) {
  const DeviceHandle handle;
  for (const auto& c : bias_cases()) {
    for (const auto type : kTypes) {
      for (const auto& [alpha, beta] : {std::pair{1.0, 0.0}, std::pair{0.5, 0.0}, std::pair{-1.5, 0.25}}) {
        if (!sampled()) continue;
        Data y(type, c.lens, c.strides), b = bias_of(type, c.lens);
        y.fill(1);
        b.fill(2);
        // alpha * (y + b) + beta * y, in terms of the reference's alpha * b + beta * y.
        const auto want = ref::bias_forward(alpha, b.plain, b.data(), alpha + beta, y.plain, Bytes(y.bytes).data());
        auto how = arithmetic(type, {});
        how.reduction_length = 2;
        expect_ok(miopenConvolutionForwardBias(handle, Scalar(type, alpha), b.desc, b.there(handle), Scalar(type, beta),
                                               y.desc, y.there(handle)));
        expect_result(y, want, how, name(type) + " forward bias");
      }
    }
  }
}

TEST(TensorOps, BackwardBiasSumsEverythingButTheChannels) {
  const DeviceHandle handle;
  for (const auto& c : bias_cases()) {
    for (const auto type : kTypes) {
      for (const auto& [alpha, beta] : {std::pair{1.0, 0.0}, std::pair{0.5, 0.0}, std::pair{-1.5, 0.25}}) {
        if (!sampled()) continue;
        Data dy(type, c.lens, c.strides), db = bias_of(type, c.lens);
        dy.fill(1);
        db.fill(2);
        const auto want = ref::bias_backward(alpha, dy.plain, dy.data(), beta, db.plain, Bytes(db.bytes).data());
        if (beta == 0) db.poison();
        expect_ok(miopenConvolutionBackwardBias(handle, Scalar(type, alpha), dy.desc, dy.there(handle),
                                                Scalar(type, beta), db.desc, db.there(handle)));
        const auto how = arithmetic(type, {}, dy.plain.count() / c.lens[1]);
        expect_result(db, want, how, name(type) + " backward bias, channels " + std::to_string(c.lens[1]));
      }
    }
  }
}

TEST(TensorOps, BackwardBiasOfWideIntegersIsExact) {
  const DeviceHandle handle;
  const float one = 1, zero = 0;
  constexpr std::int64_t kTop = std::numeric_limits<std::int64_t>::max();
  const std::vector<std::int64_t> dy{kTop, kTop, -kTop, -kTop + 1};
  std::int64_t db = 0;
  expect_ok(miopenConvolutionBackwardBias(handle, &one, Tensor(miopenInt64, {4, 1, 1, 1}), There(handle, dy), &zero,
                                          Tensor(miopenInt64, {1, 1, 1, 1}), There(handle, &db, sizeof db)));
  EXPECT_EQ(db, 1);
}

TEST(TensorOps, ResultsDoNotDependOnTheNumberOfThreads) {
  const DeviceHandle handle;
  const Ints lens{4, 33, 60, 50};
  for (const Ints& strides : {Ints{}, strides_in(lens, {0, 2, 3, 1})}) {
    Data dy(miopenFloat, lens, strides);
    dy.fill(9);
    std::vector<Bytes> results;
    for (const int threads : {1, 2, 3, 8}) {
      expect_ok(polymioSetThreadCap(handle, threads));
      Data db = bias_of(miopenFloat, lens);
      const float one = 1, zero = 0;
      // At one alignment: on a GPU the order of summation depends on it.
      expect_ok(miopenConvolutionBackwardBias(handle, &one, dy.desc, There(handle, dy.bytes), &zero, db.desc,
                                              There(handle, db.bytes)));
      results.push_back(db.bytes);
    }
    for (const auto& r : results) EXPECT_EQ(r, results[0]);
  }
}

TEST(TensorOps, RankEightWorksWhereNoLimitIsStated) {
  const DeviceHandle handle;
  const Ints lens{2, 3, 1, 2, 2, 1, 3, 2};
  Data x(miopenFloat, lens), y(miopenDouble, lens, strides_in(lens, {7, 6, 5, 4, 3, 2, 1, 0}));
  x.fill(1);
  const double one = 1, zero = 0;
  expect_ok(miopenTransformTensor(handle, &one, x.desc, x.there(handle), &zero, y.desc, y.there(handle)));
  for (std::int64_t i = 0; i < x.plain.count(); ++i) ASSERT_EQ(x.at(i), y.at(i));
}

class TensorOpsErrors : public testing::Test {
 protected:
  miopenStatus_t op(miopenTensorDescriptor_t a, miopenTensorDescriptor_t b, miopenTensorDescriptor_t c) {
    return miopenOpTensor(handle, miopenTensorOpAdd, &one, a, x, &one, b, x, &zero, c, x);
  }

  const Handle handle;
  const float one = 1, zero = 0;
  float x[1024] = {};
  const Tensor small{miopenFloat, {1, 3, 1, 1}}, large{miopenFloat, {2, 3, 4, 5}}, half{miopenHalf, {2, 3, 4, 5}};
  const TensorDescriptor unset;
};

TEST_F(TensorOpsErrors, OpTensor) {
  expect_bad(op(small, small, large), {"a has sizes 1x3x1x1", "c has 2x3x4x5"});
  expect_bad(op(large, Tensor(miopenFloat, {2, 1, 2, 1}), large), {"b has sizes 2x1x2x1", "must be 1 or that of c"});
  expect_bad(op(large, Tensor(miopenFloat, {2, 3, 4}), large), {"b has sizes 2x3x4", "2x3x4x5"});
  expect_bad(op(half, large, large), {"a is fp16, c is fp32"});
  expect_bad(op(large, half, large), {"b is fp16, c is fp32"});
  expect_bad(miopenOpTensor(handle, static_cast<miopenTensorOp_t>(4), &one, large, x, &one, large, x, &zero, large, x),
             {"tensor operation 4", "max 3"});
  const Tensor six(miopenFloat, {1, 1, 1, 1, 1, 2});
  expect_bad(op(six, six, six), {"rank 6", "at most 5"});
  expect_bad(op(unset, large, large), {"descriptor of A has not been set"});
  expect_bad(op(large, nullptr, large), {"descriptor of B is null"});
  const auto call = [&](const void* alpha1, const void* a, const void* alpha2, const void* b, const void* beta,
                        void* c) {
    return miopenOpTensor(handle, miopenTensorOpAdd, alpha1, large, a, alpha2, large, b, beta, large, c);
  };
  expect_ok(call(&one, x, &one, x, &zero, x));
  expect_bad(call(nullptr, x, &one, x, &zero, x), {"alpha1 is null"});
  expect_bad(call(&one, nullptr, &one, x, &zero, x), {"A is null"});
  expect_bad(call(&one, x, nullptr, x, &zero, x), {"alpha2 is null"});
  expect_bad(call(&one, x, &one, nullptr, &zero, x), {"B is null"});
  expect_bad(call(&one, x, &one, x, nullptr, x), {"beta is null"});
  expect_bad(call(&one, x, &one, x, &zero, nullptr), {"C is null"});
  expect_bad(miopenOpTensor(nullptr, miopenTensorOpAdd, &one, large, x, &one, large, x, &zero, large, x),
             {"handle is null"});
}

TEST_F(TensorOpsErrors, SetScaleAndTransform) {
  expect_bad(miopenSetTensor(handle, large, x, nullptr), {"alpha is null"});
  expect_bad(miopenSetTensor(handle, large, nullptr, &one), {"y is null"});
  expect_bad(miopenSetTensor(handle, unset, x, &one), {"descriptor of y has not been set"});
  expect_bad(miopenSetTensor(nullptr, large, x, &one), {"handle is null"});
  expect_bad(miopenScaleTensor(handle, large, x, nullptr), {"alpha is null"});
  expect_bad(miopenScaleTensor(handle, nullptr, x, &one), {"descriptor of y is null"});
  expect_bad(miopenTransformTensor(handle, &one, small, x, &zero, large, x), {"x has sizes 1x3x1x1", "y has 2x3x4x5"});
  expect_bad(miopenTransformTensor(handle, nullptr, large, x, &zero, large, x), {"alpha is null", "float"});
  expect_bad(miopenTransformTensor(handle, &one, large, x, nullptr, large, x), {"beta is null"});
  expect_bad(miopenTransformTensor(handle, &one, large, nullptr, &zero, large, x), {"x is null"});
  Tensor four, eight;
  const int lens[] = {1, 8, 2, 2};
  expect_ok(miopenSetNdTensorDescriptorWithLayout(four, miopenFloat, miopenTensorNCHWc4, lens, 4));
  expect_ok(miopenSetNdTensorDescriptorWithLayout(eight, miopenFloat, miopenTensorNCHWc8, lens, 4));
  expect_bad(miopenTransformTensor(handle, &one, four, x, &zero, eight, x), {"vectors of 4 and 8", "do not mix"});
}

TEST_F(TensorOpsErrors, Bias) {
  const Tensor wrong(miopenFloat, {1, 4, 1, 1}), half_bias(miopenHalf, {1, 3, 1, 1}), line(miopenFloat, {5});
  expect_bad(miopenConvolutionForwardBias(handle, &one, wrong, x, &zero, large, x),
             {"b has sizes 1x4x1x1", "y of sizes 2x3x4x5", "must be 1x3x1x1"});
  expect_bad(miopenConvolutionForwardBias(handle, &one, half_bias, x, &zero, large, x), {"b is fp16, y is fp32"});
  expect_bad(miopenConvolutionForwardBias(handle, &one, line, x, &zero, line, x), {"y has rank 1", "at least rank 2"});
  expect_bad(miopenConvolutionForwardBias(handle, &one, small, nullptr, &zero, large, x), {"b is null"});
  expect_bad(miopenConvolutionBackwardBias(handle, &one, large, x, &zero, wrong, x),
             {"db has sizes 1x4x1x1", "dy of sizes 2x3x4x5", "must be 1x3x1x1"});
  expect_bad(miopenConvolutionBackwardBias(handle, &one, large, x, &zero, half_bias, x), {"db is fp16, dy is fp32"});
  expect_bad(miopenConvolutionBackwardBias(handle, nullptr, large, x, &zero, small, x), {"alpha is null"});
  expect_bad(miopenConvolutionBackwardBias(handle, &one, large, x, &zero, small, nullptr), {"db is null"});
}

TEST(SeqTensorDescriptor, CreateAndDestroy) {
  expect_bad(miopenCreateSeqTensorDescriptor(nullptr), {"tensorDesc is null"});
  expect_bad(miopenDestroySeqTensorDescriptor(nullptr), {"sequence tensor descriptor is null"});
  miopenSeqTensorDescriptor_t t = nullptr;
  expect_ok(miopenCreateSeqTensorDescriptor(&t));
  ASSERT_NE(t, nullptr);
  const Tensor other(miopenFloat, {1});
  expect_bad(miopenDestroySeqTensorDescriptor(
                 reinterpret_cast<miopenSeqTensorDescriptor_t>(static_cast<miopenTensorDescriptor_t>(other))),
             {"not a live sequence tensor descriptor"});
  expect_ok(miopenDestroySeqTensorDescriptor(t));
}

}  // namespace
}  // namespace polymio::test
