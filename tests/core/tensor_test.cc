// Tensor descriptions: accepted values, texts of errors, layouts, sizes; and Constraints.
// SPDX-License-Identifier: MIT
#include "core/tensor.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "core/solver.h"

namespace polymio {
namespace {

using Sizes = std::vector<std::int64_t>;

TensorDesc tensor(const Sizes& lens, const Sizes& strides = {}) { return make_tensor(DataType::kFloat, lens, strides); }

Sizes strides_of(const TensorDesc& t) { return {t.strides.begin(), t.strides.begin() + t.rank}; }

template <class Action>
void expect_error(Status status, std::initializer_list<const char*> parts, Action action) {
  try {
    action();
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.status, status) << e.what();
    for (const char* part : parts) EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
  }
}

TEST(MakeTensor, DefaultsToDense) {
  const TensorDesc t = tensor({2, 3, 4, 5});
  EXPECT_EQ(strides_of(t), (Sizes{60, 20, 5, 1}));
  EXPECT_EQ(t.count(), 120);
  EXPECT_EQ(t.space(), 120);
  EXPECT_EQ(t.bytes(), 480u);
  EXPECT_TRUE(t.packed());
  EXPECT_FALSE(t.has_cast());
}

TEST(MakeTensor, GapsCountAsSpace) {
  const TensorDesc t = tensor({2, 3}, {10, 2});
  EXPECT_EQ(t.count(), 6);
  EXPECT_EQ(t.space(), 15);
  EXPECT_FALSE(t.packed());
}

TEST(MakeTensor, RefusesWithNumbers) {
  expect_error(Status::kInvalidValue, {"0"}, [] { tensor({}); });
  expect_error(Status::kBadParm, {"length 1", "0"}, [] { tensor({2, 0}); });
  expect_error(Status::kBadParm, {"length 0", "-3"}, [] { tensor({-3, 2}); });
  expect_error(Status::kBadParm, {"stride 1", "0"}, [] { tensor({2, 2}, {2, 0}); });
  expect_error(Status::kBadParm, {"1 strides", "2 lengths"}, [] { tensor({2, 2}, {2}); });
  expect_error(Status::kBadParm, {"9", "8"}, [] { tensor(Sizes(9, 1)); });
  expect_error(Status::kBadParm, {"2^63"}, [] { tensor({INT64_MAX, 2}); });
  expect_error(Status::kBadParm, {"2^63"}, [] { tensor({3, 2}, {INT64_MAX / 2, INT64_MAX / 2}); });
  expect_error(Status::kBadParm, {"data type 4", "float8 7", "e5m2 257"},
               [] { make_tensor(static_cast<DataType>(4), Sizes{1}, {}); });
}

TEST(MakeTensor, EveryLayoutHasItsStrides) {
  const auto make = [](Layout layout, const Sizes& lens) { return make_tensor(DataType::kInt8, layout, lens); };
  EXPECT_EQ(strides_of(make(Layout::kNCHW, {2, 8, 4, 5})), (Sizes{160, 20, 5, 1}));
  EXPECT_EQ(strides_of(make(Layout::kNHWC, {2, 8, 4, 5})), (Sizes{160, 1, 40, 8}));
  EXPECT_EQ(strides_of(make(Layout::kCHWN, {2, 8, 4, 5})), (Sizes{1, 40, 10, 2}));
  EXPECT_EQ(strides_of(make(Layout::kNCDHW, {2, 8, 3, 4, 5})), (Sizes{480, 60, 20, 5, 1}));
  EXPECT_EQ(strides_of(make(Layout::kNDHWC, {2, 8, 3, 4, 5})), (Sizes{480, 1, 160, 40, 8}));
  const TensorDesc v = make(Layout::kNCHWc4, {2, 8, 4, 5});
  EXPECT_EQ(v.vector_length, 4);
  EXPECT_EQ(v.lens[1], 2);
  EXPECT_EQ(strides_of(v), (Sizes{160, 80, 20, 4}));
  EXPECT_EQ(v.count(), 320);
  EXPECT_EQ(v.space(), 320);
  EXPECT_EQ(strides_of(make(Layout::kCHWNc8, {2, 8, 4, 5})), (Sizes{8, 320, 80, 16}));
}

TEST(MakeTensor, LayoutsNeedTheirRankAndChannels) {
  const auto make = [](Layout layout, const Sizes& lens) { make_tensor(DataType::kHalf, layout, lens); };
  expect_error(Status::kBadParm, {"needs 4", "5"}, [&] { make(Layout::kNHWC, {1, 1, 1, 1, 1}); });
  expect_error(Status::kBadParm, {"needs 5", "4"}, [&] { make(Layout::kNDHWC, {1, 1, 1, 1}); });
  expect_error(Status::kBadParm, {"divisible by 8", "12"}, [&] { make(Layout::kNCHWc8, {1, 12, 1, 1}); });
  expect_error(Status::kBadParm, {"layout 9", "0 to 8"}, [&] { make(static_cast<Layout>(9), {1, 1, 1, 1}); });
}

TEST(Layouts, AreRecognisedFromStrides) {
  EXPECT_EQ(layout_name(tensor({2, 3, 4, 5})), "NCHW");
  EXPECT_EQ(layout_name(tensor({2, 3, 4, 5}, {60, 1, 15, 3})), "NHWC");
  EXPECT_EQ(layout_name(tensor({2, 3, 4}, {12, 1, 3})), "NWC");
  EXPECT_EQ(layout_name(tensor({2, 3, 2, 4, 5}, {120, 1, 60, 15, 3})), "NDHWC");
  EXPECT_EQ(layout_name(tensor({2, 3, 4, 5}, {120, 40, 10, 2})), "") << "every second element";
  EXPECT_EQ(layout_name(tensor({2, 3, 4, 5}, {60, 20, 1, 4})), "") << "H and W exchanged";
}

TEST(Layouts, StridesOfSizeOneDoNotMatter) {
  const TensorDesc t = tensor({1, 3, 1, 5}, {999, 5, 777, 1});
  EXPECT_TRUE(t.is_channels_first());
  EXPECT_FALSE(t.is_channels_last());
  const TensorDesc both = tensor({2, 1, 4, 5}, {20, 1, 5, 1});
  EXPECT_TRUE(both.is_channels_first() && both.is_channels_last());
  EXPECT_EQ(layout_name(both), "NCHW");
}

TEST(TensorDesc, EqualityAndHashSeeEverythingThatMatters) {
  const TensorDesc a = tensor({2, 3, 4, 5});
  EXPECT_EQ(a, tensor({2, 3, 4, 5}, {60, 20, 5, 1}));
  EXPECT_EQ(a.hash(1), tensor({2, 3, 4, 5}, {60, 20, 5, 1}).hash(1));
  TensorDesc cast = a;
  cast.cast = DataType::kFloat8Fnuz;
  for (const TensorDesc& other :
       {tensor({3, 2, 4, 5}), tensor({2, 3, 4, 5}, {60, 1, 15, 3}), make_tensor(DataType::kHalf, a.sizes(), {}), cast})
    EXPECT_TRUE(a != other && a.hash(1) != other.hash(1));
  EXPECT_NE(a, tensor({2, 3, 4, 5}, {60, 20, 5, 2})) << "equality compares every stride";
  EXPECT_NE(a.hash(1), a.hash(2));
}

TEST(TensorDesc, CountsBeyond32Bits) {
  const TensorDesc t = tensor({1, 1, 32769, 65536});
  EXPECT_EQ(t.count(), (std::int64_t{1} << 31) + (std::int64_t{1} << 16));
  EXPECT_EQ(t.bytes(), 4 * ((std::size_t{1} << 31) + (std::size_t{1} << 16)));
}

TEST(Constraints, EveryFieldCountsInEqualityAndHash) {
  const Constraints plain;
  std::vector<Constraints> others(5);
  others[0].workspace_limit = 100;
  others[1].math = MathMode::kTf32;
  others[2].deterministic = true;
  others[3].algorithms = 1;
  others[4].alignment = 4;
  EXPECT_EQ(plain, Constraints{});
  EXPECT_EQ(plain.hash(5), Constraints{}.hash(5));
  for (std::size_t i = 0; i < others.size(); ++i) {
    EXPECT_FALSE(plain == others[i]) << i;
    EXPECT_NE(plain.hash(5), others[i].hash(5)) << i;
  }
  EXPECT_NE(plain.hash(5), plain.hash(6));
}

TEST(Verdict, TextHasTheTwoNumbers) {
  EXPECT_TRUE(static_cast<bool>(Verdict{}));
  EXPECT_EQ(Verdict{}.text(), "");
  EXPECT_EQ((Verdict{"too wide"}.text()), "too wide");
  const std::string text = Verdict{"too wide", 16, 17, true}.text();
  for (const char* part : {"too wide", "16", "17"}) EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(TunePoint, TextAndBack) {
  for (const TunePoint& p : {TunePoint{}, TunePoint{4}, TunePoint{4, -2, 128}})
    EXPECT_EQ(parse_tune_point(to_text(p)), p);
  for (const char* bad : {"4,x", "a", "4;2", "4 ", "99999999999999"}) EXPECT_TRUE(parse_tune_point(bad).empty()) << bad;
}

Sizes meaningful(const Sizes& lens, const Sizes& strides) {
  const auto all = meaningful_strides(tensor(lens, strides));
  return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(lens.size())};
}

TEST(MeaningfulStrides, AreTheGivenOnesOfDenseTensors) {
  for (const Sizes& lens : {Sizes{2, 3, 4, 5}, Sizes{1, 1, 4, 5}, Sizes{2, 3, 1, 1}, Sizes{1, 3, 4, 1, 5}}) {
    const TensorDesc first = tensor(lens);
    EXPECT_EQ(meaningful(lens, strides_of(first)), strides_of(first));
    if (lens.size() != 4) continue;
    const TensorDesc last = make_tensor(DataType::kFloat, Layout::kNHWC, lens);
    EXPECT_EQ(meaningful(lens, strides_of(last)), strides_of(last));
  }
}

TEST(MeaningfulStrides, ReplaceThoseOfSingleElements) {
  EXPECT_EQ(meaningful({1, 1, 5, 1, 3}, {15, 15, 1, 1, 5}), (Sizes{5, 5, 1, 15, 5}));
  EXPECT_EQ(meaningful({2, 3, 1, 1}, {3, 1, 7, 9}), (Sizes{3, 1, 3, 3}));      // channels last
  EXPECT_EQ(meaningful({1, 8, 6, 1}, {999, 6, 1, 77}), (Sizes{48, 6, 1, 1}));  // channels first
  EXPECT_EQ(meaningful({1, 4, 1, 6}, {1, 1, 1, 4}), (Sizes{24, 1, 24, 4}));
  EXPECT_EQ(meaningful({2, 1}, {1, 8}), (Sizes{1, 1}));
}

}  // namespace
}  // namespace polymio
