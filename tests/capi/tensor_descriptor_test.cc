// Tensor descriptors through the C API: their values, every documented status, the text of errors.
// SPDX-License-Identifier: MIT
#include <climits>
#include <cstdint>

#include "api.h"

namespace polymio::test {
namespace {

struct Contents {
  miopenDataType_t type = miopenInt64;
  Ints lens, strides;
};

Contents contents(miopenTensorDescriptor_t t) {
  Contents c;
  int rank = -1;
  expect_ok(miopenGetTensorDescriptorSize(t, &rank));
  c.lens.resize(static_cast<std::size_t>(rank));
  c.strides.resize(static_cast<std::size_t>(rank));
  expect_ok(miopenGetTensorDescriptor(t, &c.type, c.lens.data(), c.strides.data()));
  return c;
}

void expect_contents(miopenTensorDescriptor_t t, miopenDataType_t type, const Ints& lens, const Ints& strides,
                     int line = __builtin_LINE()) {
  const testing::ScopedTrace trace("called at line", line, "");
  const Contents c = contents(t);
  EXPECT_EQ(c.type, type);
  EXPECT_EQ(c.lens, lens);
  EXPECT_EQ(c.strides, strides);
}

TEST(TensorDescriptor, CreateAndDestroy) {
  expect_bad(miopenCreateTensorDescriptor(nullptr), {"tensorDesc is null"});
  expect_bad(miopenDestroyTensorDescriptor(nullptr), {"tensor descriptor is null"});
  miopenTensorDescriptor_t t = nullptr;
  expect_ok(miopenCreateTensorDescriptor(&t));
  ASSERT_NE(t, nullptr);
  expect_ok(miopenDestroyTensorDescriptor(t));
}

TEST(TensorDescriptor, IsEmptyAfterCreation) {
  const TensorDescriptor t;
  int rank = -1;
  std::size_t bytes = 99;
  expect_ok(miopenGetTensorDescriptorSize(t, &rank));
  expect_ok(miopenGetTensorNumBytes(t, &bytes));
  EXPECT_EQ(rank, 0);
  EXPECT_EQ(bytes, 0u);
}

TEST(TensorDescriptor, EveryFunctionRefusesNullAndForeignObjects) {
  const ConvolutionDescriptor other;
  const Tensor live(miopenFloat, {1, 1, 1, 1});
  char* misaligned = reinterpret_cast<char*>(static_cast<miopenTensorDescriptor_t>(live)) + 1;
  const miopenTensorDescriptor_t bad[] = {
      nullptr, reinterpret_cast<miopenTensorDescriptor_t>(static_cast<miopenConvolutionDescriptor_t>(other)),
      reinterpret_cast<miopenTensorDescriptor_t>(misaligned)};
  const int one[] = {1, 1, 1, 1};
  const std::size_t one_wide[] = {1, 1, 1, 1};
  int n = 0;
  std::size_t bytes = 0;
  bool packed = false;
  miopenTensorLayout_t layout{};
  for (const auto t : bad) {
    const char* why = t ? "not a live tensor descriptor" : "null";
    expect_bad(miopenSet4dTensorDescriptor(t, miopenFloat, 1, 1, 1, 1), {why});
    expect_bad(miopenSet4dTensorDescriptorEx(t, miopenFloat, 1, 1, 1, 1, 1, 1, 1, 1), {why});
    expect_bad(miopenSetNdTensorDescriptorWithLayout(t, miopenFloat, miopenTensorNCHW, one, 4), {why});
    expect_bad(miopenSetTensorDescriptor(t, miopenFloat, 4, one, nullptr), {why});
    expect_bad(miopenSetTensorDescriptorV2(t, miopenFloat, 4, one_wide, nullptr), {why});
    expect_bad(miopenSetTensorCastType(t, miopenFloat8), {why});
    expect_bad(miopenGet4dTensorDescriptor(t, nullptr, &n, &n, &n, &n, &n, &n, &n, &n), {why});
    expect_bad(miopenGetTensorDescriptorSize(t, &n), {why});
    expect_bad(miopenGetTensorDescriptor(t, nullptr, nullptr, nullptr), {why});
    expect_bad(miopenGetTensorNumBytes(t, &bytes), {why});
    expect_bad(miopenGetTensorDescriptorV2(t, nullptr, nullptr, nullptr), {why});
    expect_bad(miopenGetTensorLayout(t, &layout), {why});
    expect_bad(miopenGetTensorElementSpace(t, &bytes), {why});
    expect_bad(miopenIsTensorPacked(t, &packed), {why});
    expect_bad(miopenGetTensorVectorLength(t, &bytes), {why});
    expect_bad(miopenDestroyTensorDescriptor(t), {why});
  }
  expect_contents(live, miopenFloat, {1, 1, 1, 1}, {1, 1, 1, 1});
}

TEST(TensorDescriptor, ADestroyedOneIsRefused) {
  miopenTensorDescriptor_t t = nullptr;
  expect_ok(miopenCreateTensorDescriptor(&t));
  expect_ok(miopenDestroyTensorDescriptor(t));
  expect_bad(miopenDestroyTensorDescriptor(t), {"not a live tensor descriptor"});
}

TEST(TensorDescriptor, TooManyDimensionsAreRefusedUnread) {
  TensorDescriptor t;
  const int lens[] = {1, 1};
  expect_bad(miopenSetTensorDescriptor(t, miopenFloat, INT_MAX, lens, lens), {"2147483647 dimensions", "at most 8"});
}

TEST(TensorDescriptor, FourDimensions) {
  const TensorDescriptor t;
  expect_ok(miopenSet4dTensorDescriptor(t, miopenHalf, 2, 3, 4, 5));
  expect_contents(t, miopenHalf, {2, 3, 4, 5}, {60, 20, 5, 1});
  expect_ok(miopenSet4dTensorDescriptorEx(t, miopenInt8, 2, 3, 4, 5, 100, 1, 21, 4));
  expect_contents(t, miopenInt8, {2, 3, 4, 5}, {100, 1, 21, 4});
  miopenDataType_t type = miopenFloat;
  int v[8] = {};
  expect_ok(miopenGet4dTensorDescriptor(t, &type, &v[0], &v[1], &v[2], &v[3], &v[4], &v[5], &v[6], &v[7]));
  EXPECT_EQ(type, miopenInt8);
  EXPECT_EQ(Ints(v, v + 8), (Ints{2, 3, 4, 5, 100, 1, 21, 4}));
}

/// Older programs set sizes of 0 in a default constructor.
TEST(TensorDescriptor, SizesOfZeroMakeItEmptyAgain) {
  const Handle handle;
  const Tensor t(miopenFloat, {2, 3, 4, 5}), other(miopenFloat, {2, 3, 4, 5});
  expect_ok(miopenSet4dTensorDescriptor(t, miopenHalf, 0, 0, 0, 0));
  int rank = -1;
  expect_ok(miopenGetTensorDescriptorSize(t, &rank));
  EXPECT_EQ(rank, 0);
  EXPECT_EQ(t.bytes(), 0u);
  std::vector<float> data(120);
  const float one = 1;
  expect_bad(miopenSetTensor(handle, t, data.data(), &one), {"has not been set, or with sizes of 0"});
  const ConvolutionDescriptor conv;
  int n = 0;
  expect_bad(miopenGetConvolutionForwardOutputDim(conv, t, other, &n, &n, &n, &n), {"the input", "sizes of 0"});
  expect_bad(miopenSet4dTensorDescriptor(t, miopenFloat, 0, 0, 0, 1), {"length 0 is 0"});
  expect_bad(miopenSet4dTensorDescriptor(t, static_cast<miopenDataType_t>(15), 0, 0, 0, 0), {"data type 15"});
  expect_ok(miopenSet4dTensorDescriptor(t, miopenHalf, 2, 3, 4, 5));
  expect_contents(t, miopenHalf, {2, 3, 4, 5}, {60, 20, 5, 1});
}

TEST(TensorDescriptor, NullOutputsAreSkipped) {
  const Tensor t(miopenFloat, {2, 3, 4, 5});
  int h = 0;
  expect_ok(miopenGet4dTensorDescriptor(t, nullptr, nullptr, nullptr, &h, nullptr, nullptr, nullptr, nullptr, nullptr));
  EXPECT_EQ(h, 4);
  int strides[4] = {};
  expect_ok(miopenGetTensorDescriptor(t, nullptr, nullptr, nullptr));
  expect_ok(miopenGetTensorDescriptor(t, nullptr, nullptr, strides));
  EXPECT_EQ(Ints(strides, strides + 4), (Ints{60, 20, 5, 1}));
  expect_bad(miopenGetTensorDescriptorSize(t, nullptr), {"size is null"});
  expect_bad(miopenGetTensorNumBytes(t, nullptr), {"numBytes is null"});
}

TEST(TensorDescriptor, OneToEightDimensions) {
  const TensorDescriptor t;
  Ints lens, strides;
  for (int rank = 1; rank <= 8; ++rank) {
    lens.push_back(rank + 1);
    strides.assign(lens.size(), 1);
    for (std::size_t i = lens.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * lens[i];
    expect_ok(miopenSetTensorDescriptor(t, miopenFloat, rank, lens.data(), nullptr));
    expect_contents(t, miopenFloat, lens, strides);
    for (int& s : strides) s *= 2;
    expect_ok(miopenSetTensorDescriptor(t, miopenFloat, rank, lens.data(), strides.data()));
    expect_contents(t, miopenFloat, lens, strides);
  }
  lens.push_back(1);
  expect_bad(miopenSetTensorDescriptor(t, miopenFloat, 9, lens.data(), nullptr), {"9", "8"});
}

TEST(TensorDescriptor, MissingSizesAreInvalidValues) {
  const TensorDescriptor t;
  const int lens[] = {1, 1};
  const std::size_t wide[] = {1, 1};
  expect_error(miopenSetTensorDescriptor(t, miopenFloat, 2, nullptr, nullptr), miopenStatusInvalidValue, {"null"});
  expect_error(miopenSetTensorDescriptorV2(t, miopenFloat, 2, nullptr, nullptr), miopenStatusInvalidValue, {"null"});
  expect_error(miopenSetNdTensorDescriptorWithLayout(t, miopenFloat, miopenTensorNCHW, nullptr, 4),
               miopenStatusInvalidValue, {"null"});
  for (const int count : {0, -1}) {
    const std::string number = std::to_string(count);
    expect_error(miopenSetTensorDescriptor(t, miopenFloat, count, lens, nullptr), miopenStatusInvalidValue,
                 {"positive", number.c_str()});
    expect_error(miopenSetTensorDescriptorV2(t, miopenFloat, count, wide, nullptr), miopenStatusInvalidValue,
                 {"positive", number.c_str()});
    expect_error(miopenSetNdTensorDescriptorWithLayout(t, miopenFloat, miopenTensorNCHW, lens, count),
                 miopenStatusInvalidValue, {"positive", number.c_str()});
  }
}

TEST(TensorDescriptor, WrongValuesAreBadAndLeaveTheObjectUsable) {
  const Tensor t(miopenFloat, {2, 2});
  const int zero[] = {2, 0}, negative[] = {-7, 2}, lens[] = {2, 3};
  expect_bad(miopenSetTensorDescriptor(t, miopenFloat, 2, zero, nullptr), {"positive", "length 1", "0"});
  expect_bad(miopenSetTensorDescriptor(t, miopenFloat, 2, negative, nullptr), {"positive", "length 0", "-7"});
  expect_bad(miopenSetTensorDescriptor(t, miopenFloat, 2, lens, zero), {"stride 1", "0"});
  expect_bad(miopenSetTensorDescriptor(t, miopenFloat, 2, lens, negative), {"stride 0", "-7"});
  expect_bad(miopenSet4dTensorDescriptor(t, miopenFloat, 1, 2, 0, 4), {"length 2", "0"});
  expect_bad(miopenSet4dTensorDescriptorEx(t, miopenFloat, 1, 2, 3, 4, 24, 12, -1, 1), {"stride 2", "-1"});
  for (const int type : {4, 10, 15}) {
    const std::string number = "data type " + std::to_string(type);
    expect_bad(miopenSetTensorDescriptor(t, static_cast<miopenDataType_t>(type), 2, lens, nullptr),
               {number.c_str(), "float 1", "int64 9"});
  }
  expect_ok(miopenSetTensorDescriptor(t, miopenHalf, 2, lens, nullptr));
  expect_contents(t, miopenHalf, {2, 3}, {3, 1});
}

TEST(TensorDescriptor, EveryLayout) {
  const struct {
    miopenTensorLayout_t layout;
    Ints given, lens, strides;
  } cases[] = {
      {miopenTensorNCHW, {2, 8, 4, 5}, {2, 8, 4, 5}, {160, 20, 5, 1}},
      {miopenTensorNHWC, {2, 8, 4, 5}, {2, 8, 4, 5}, {160, 1, 40, 8}},
      {miopenTensorCHWN, {2, 8, 4, 5}, {2, 8, 4, 5}, {1, 40, 10, 2}},
      {miopenTensorNCHWc4, {2, 8, 4, 5}, {2, 2, 4, 5}, {160, 80, 20, 4}},
      {miopenTensorNCHWc8, {2, 16, 4, 5}, {2, 2, 4, 5}, {320, 160, 40, 8}},
      {miopenTensorCHWNc4, {2, 8, 4, 5}, {2, 2, 4, 5}, {4, 160, 40, 8}},
      {miopenTensorCHWNc8, {2, 16, 4, 5}, {2, 2, 4, 5}, {8, 320, 80, 16}},
      {miopenTensorNCDHW, {2, 8, 3, 4, 5}, {2, 8, 3, 4, 5}, {480, 60, 20, 5, 1}},
      {miopenTensorNDHWC, {2, 8, 3, 4, 5}, {2, 8, 3, 4, 5}, {480, 1, 160, 40, 8}},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.layout);
    const TensorDescriptor t;
    expect_ok(miopenSetNdTensorDescriptorWithLayout(t, miopenInt8, c.layout, c.given.data(),
                                                    static_cast<int>(c.given.size())));
    expect_contents(t, miopenInt8, c.lens, c.strides);
    std::size_t elements = 1, bytes = 0;
    for (const int n : c.given) elements *= static_cast<std::size_t>(n);
    expect_ok(miopenGetTensorNumBytes(t, &bytes));
    EXPECT_EQ(bytes, elements);
    std::size_t space = 0, vector = 0;
    bool packed = false;
    auto layout = miopenTensorNCHW;
    expect_ok(miopenGetTensorElementSpace(t, &space));
    expect_ok(miopenGetTensorVectorLength(t, &vector));
    expect_ok(miopenIsTensorPacked(t, &packed));
    expect_ok(miopenGetTensorLayout(t, &layout));
    EXPECT_EQ(space, elements);
    EXPECT_EQ(vector * static_cast<std::size_t>(c.lens[1]), static_cast<std::size_t>(c.given[1]));
    EXPECT_TRUE(packed);
    EXPECT_EQ(layout, c.layout);
    if (vector > 1) continue;  // no function takes the strides of vectors
    expect_ok(
        miopenSetTensorDescriptor(t, miopenInt8, static_cast<int>(c.lens.size()), c.lens.data(), c.strides.data()));
    expect_ok(miopenGetTensorLayout(t, &layout));
    EXPECT_EQ(layout, c.layout) << "from the strides";
  }
}

TEST(TensorDescriptor, LayoutsThatWereNotGiven) {
  const auto layout_of = [](const Ints& lens, const Ints& strides) {
    auto layout = static_cast<miopenTensorLayout_t>(7);
    expect_ok(miopenGetTensorLayout(Tensor(miopenFloat, lens, strides), &layout));
    return layout;
  };
  EXPECT_EQ(layout_of({2, 3, 4, 5}, {}), miopenTensorNCHW);
  EXPECT_EQ(layout_of({2, 1, 4, 5}, {20, 1, 5, 1}), miopenTensorNCHW) << "the first that fits";
  EXPECT_EQ(layout_of({1, 3, 4, 5}, {7, 1, 15, 3}), miopenTensorNHWC) << "a size of 1 has any stride";
  EXPECT_EQ(layout_of({2, 3, 4, 5, 6}, {360, 1, 90, 18, 3}), miopenTensorNDHWC);
  auto layout = miopenTensorNCHW;
  const Tensor gaps(miopenFloat, {2, 3}, {10, 2});
  expect_error(miopenGetTensorLayout(gaps, &layout), miopenStatusNotImplemented, {"[2, 3]", "[10, 2]"});
  expect_bad(miopenGetTensorLayout(TensorDescriptor(), &layout), {"has not been set"});
  expect_bad(miopenGetTensorLayout(gaps, nullptr), {"layout is null"});
  const TensorDescriptor single;
  const int ones[] = {1, 1, 1, 1};
  expect_ok(miopenSetNdTensorDescriptorWithLayout(single, miopenFloat, miopenTensorCHWN, ones, 4));
  expect_ok(miopenGetTensorLayout(single, &layout));
  EXPECT_EQ(layout, miopenTensorCHWN) << "as it was given";

  std::size_t space = 0;
  bool packed = true;
  expect_ok(miopenGetTensorElementSpace(gaps, &space));
  expect_ok(miopenIsTensorPacked(gaps, &packed));
  EXPECT_EQ(space, 15u);
  EXPECT_FALSE(packed);
  expect_ok(miopenGetTensorElementSpace(TensorDescriptor(), &space));
  EXPECT_EQ(space, 0u);
  expect_bad(miopenIsTensorPacked(TensorDescriptor(), &packed), {"has not been set"});
  expect_bad(miopenGetTensorElementSpace(gaps, nullptr), {"elementSpace is null"});
  expect_bad(miopenIsTensorPacked(gaps, nullptr), {"isPacked is null"});
  expect_bad(miopenGetTensorVectorLength(gaps, nullptr), {"vectorLength is null"});
}

TEST(TensorDescriptor, LayoutsNeedTheirRankAndChannels) {
  const TensorDescriptor t;
  const int lens[] = {1, 6, 1, 1, 1};
  const auto set = [&](miopenTensorLayout_t layout, int count) {
    return miopenSetNdTensorDescriptorWithLayout(t, miopenInt8, layout, lens, count);
  };
  for (const auto layout : {miopenTensorNCHW, miopenTensorNHWC, miopenTensorCHWN, miopenTensorNCHWc4,
                            miopenTensorNCHWc8, miopenTensorCHWNc4, miopenTensorCHWNc8}) {
    expect_bad(set(layout, 3), {"needs 4", "3"});
    expect_bad(set(layout, 5), {"needs 4", "5"});
  }
  for (const auto layout : {miopenTensorNCDHW, miopenTensorNDHWC}) expect_bad(set(layout, 4), {"needs 5", "4"});
  for (const auto layout : {miopenTensorNCHWc4, miopenTensorCHWNc4})
    expect_bad(set(layout, 4), {"divisible by 4", "6"});
  for (const auto layout : {miopenTensorNCHWc8, miopenTensorCHWNc8})
    expect_bad(set(layout, 4), {"divisible by 8", "6"});
  expect_bad(set(static_cast<miopenTensorLayout_t>(9), 4), {"layout 9", "0 to 8"});
}

TEST(TensorDescriptor, BytesOfEveryTypeAndOfGaps) {
  const std::size_t sizes[std::size(kTypes)] = {2, 4, 4, 1, 2, 8, 8, 1, 1, 1, 1};
  for (std::size_t i = 0; i < std::size(kTypes); ++i) {
    EXPECT_EQ(Tensor(kTypes[i], {2, 3, 4}).bytes(), 24 * sizes[i]);
    EXPECT_EQ(Tensor(kTypes[i], {2, 3}, {10, 2}).bytes(), 15 * sizes[i]) << "to the last element, gaps included";
    EXPECT_EQ(Tensor(kTypes[i], {2, 3}, {1, 1}).bytes(), 4 * sizes[i]) << "overlapping rows";
  }
}

TEST(TensorDescriptor, SizesBeyondAnInt) {
  const TensorDescriptor t;
  const std::size_t lens[] = {std::size_t{1} << 33, 3}, strides[] = {4, 1};
  expect_ok(miopenSetTensorDescriptorV2(t, miopenHalf, 2, lens, nullptr));
  std::size_t bytes = 0;
  expect_ok(miopenGetTensorNumBytes(t, &bytes));
  EXPECT_EQ(bytes, 6 * (std::size_t{1} << 33));
  Ints out(2);
  expect_bad(miopenGetTensorDescriptor(t, nullptr, out.data(), nullptr), {"8589934592", "int"});
  expect_ok(miopenGetTensorDescriptor(t, nullptr, nullptr, out.data()));
  EXPECT_EQ(out, (Ints{3, 1}));
  std::size_t wide_lens[2] = {}, wide_strides[2] = {};
  auto type = miopenFloat;
  expect_ok(miopenGetTensorDescriptorV2(t, nullptr, nullptr, nullptr));
  expect_ok(miopenGetTensorDescriptorV2(t, &type, wide_lens, wide_strides));
  EXPECT_EQ(type, miopenHalf);
  EXPECT_EQ(std::vector(wide_lens, wide_lens + 2), std::vector(lens, lens + 2));
  EXPECT_EQ(std::vector(wide_strides, wide_strides + 2), (std::vector<std::size_t>{3, 1}));
  expect_ok(miopenSetTensorDescriptorV2(t, miopenHalf, 2, lens, strides));
  expect_ok(miopenGetTensorNumBytes(t, &bytes));
  EXPECT_EQ(bytes, 2 * (4 * ((std::size_t{1} << 33) - 1) + 3));

  const std::size_t huge[] = {std::size_t{1} << 63, 1}, product[] = {std::size_t{1} << 40, std::size_t{1} << 40};
  expect_bad(miopenSetTensorDescriptorV2(t, miopenHalf, 2, huge, nullptr), {"dimsA[0]", "2^63"});
  expect_bad(miopenSetTensorDescriptorV2(t, miopenHalf, 2, product, nullptr), {"2^63"});
  expect_bad(miopenSetTensorDescriptorV2(t, miopenHalf, 2, lens, huge), {"stridesA[0]", "2^63"});
  const std::size_t far[] = {std::size_t{1} << 62, std::size_t{1} << 62}, threes[] = {3, 3};
  expect_bad(miopenSetTensorDescriptorV2(t, miopenHalf, 2, threes, far), {"2^63"});
}

TEST(TensorDescriptor, BytesBeyondSizeTAreRefused) {
  // 2^62 elements of 8 bytes are 2^65 bytes, which no size_t can hold.
  const TensorDescriptor t;
  const std::size_t lens[] = {std::size_t{1} << 62};
  std::size_t bytes = 0;
  const miopenStatus_t set = miopenSetTensorDescriptorV2(t, miopenDouble, 1, lens, nullptr);
  if (set != miopenStatusSuccess) return expect_bad(set, {"bytes"});
  expect_bad(miopenGetTensorNumBytes(t, &bytes), {"bytes"});
}

TEST(TensorDescriptor, The4dGetterIsFor4d) {
  int n = 0;
  const auto get = [&](miopenTensorDescriptor_t t) {
    return miopenGet4dTensorDescriptor(t, nullptr, &n, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
  };
  expect_bad(get(Tensor(miopenFloat, {1, 2, 3})), {"rank 3", "rank 4"});
  expect_bad(get(Tensor(miopenFloat, {1, 2, 3, 4, 5})), {"rank 5", "rank 4"});
  const TensorDescriptor t;
  const std::size_t lens[] = {1, 1, 1, std::size_t{INT_MAX} + 1};
  expect_ok(miopenSetTensorDescriptorV2(t, miopenInt8, 4, lens, nullptr));
  expect_ok(get(t));
  EXPECT_EQ(n, 1);
  expect_bad(miopenGet4dTensorDescriptor(t, nullptr, nullptr, nullptr, nullptr, &n, nullptr, nullptr, nullptr, nullptr),
             {"2147483648", "int"});
}

TEST(TensorDescriptor, CastTypes) {
  const Tensor t(miopenFloat, {1, 2});
  for (const auto type : {miopenFloat8, miopenBFloat8, POLYMIO_FLOAT8_E4M3FN, POLYMIO_FLOAT8_E5M2, miopenFloat})
    expect_ok(miopenSetTensorCastType(t, type));
  expect_contents(t, miopenFloat, {1, 2}, {2, 1});
  for (const auto type : {miopenHalf, miopenBFloat16, miopenInt8, miopenDouble, static_cast<miopenDataType_t>(10)}) {
    const std::string number = "cast type " + std::to_string(type);
    expect_bad(miopenSetTensorCastType(t, type), {number.c_str(), "float8 7", "bfloat8 8", "e4m3fn 256", "e5m2 257"});
  }
  expect_bad(miopenSetTensorCastType(Tensor(miopenInt8, {1}), miopenFloat8), {"integer"});
  expect_bad(miopenSetTensorCastType(TensorDescriptor(), miopenFloat8), {"set the tensor"});
}

TEST(TensorDescriptor, SettingAgainReplacesEverything) {
  const TensorDescriptor t;
  const int lens[] = {2, 8, 4, 5};
  expect_ok(miopenSetNdTensorDescriptorWithLayout(t, miopenInt8, miopenTensorNCHWc4, lens, 4));
  expect_ok(miopenSet4dTensorDescriptor(t, miopenInt8, 2, 2, 4, 5));
  std::size_t bytes = 0;
  expect_ok(miopenGetTensorNumBytes(t, &bytes));
  EXPECT_EQ(bytes, 80u) << "the vector length must not stay";
}

}  // namespace
}  // namespace polymio::test
