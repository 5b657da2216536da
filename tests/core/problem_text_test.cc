// Equality, hash and copies of problems from their fields, and the texts of tensors in keys.
// SPDX-License-Identifier: MIT
#include "core/problem_text.h"

#include <gtest/gtest.h>

#include <set>

namespace polymio {
namespace {

using Sizes = std::vector<std::int64_t>;

TensorDesc float_tensor(const Sizes& lens, const Sizes& strides = {}) {
  return make_tensor(DataType::kFloat, lens, strides);
}

enum class Color : int { kRed = 0, kGreen = 1 };
enum class Shape : int { kRound = 0, kSquare = 1 };

/// Problems of two types with the same fields.
template <int kType>
struct Painting final : ProblemOf<Painting<kType>> {
  Color color = Color::kRed;
  TensorDesc x, y;
  Shape shape = Shape::kRound;

  auto fields() const { return std::tie(color, x, y, shape); }
  std::string key() const override { return "paint"; }
  std::string family() const override { return "paint"; }
  std::vector<float> log_sizes() const override { return {}; }
  double work() const override { return 1; }
};

Painting<0> painting() {
  Painting<0> p;
  p.x = float_tensor({2, 3, 4, 5});
  p.y = float_tensor({2, 7, 4, 5});
  return p;
}

TEST(ProblemOf, EveryFieldCountsInEqualityAndHash) {
  const Painting<0> p = painting();
  std::vector<Painting<0>> others(5, p);
  others[0].color = Color::kGreen;
  others[1].shape = Shape::kSquare;
  others[2].x = float_tensor({2, 3, 4, 6});
  others[3].y = float_tensor({2, 7, 4, 6});
  std::swap(others[4].x, others[4].y);
  std::set<std::uint64_t> hashes = {p.hash()};
  for (const auto& other : others) {
    EXPECT_TRUE(p != other);
    EXPECT_FALSE(p.equals(other));
    EXPECT_TRUE(hashes.insert(other.hash()).second);
  }
  EXPECT_TRUE(p == painting());
  EXPECT_EQ(p.hash(), painting().hash());
}

TEST(ProblemOf, CopiesAreEqualThroughTheBaseClass) {
  const Painting<0> p = painting();
  const ProblemBase& base = p;
  const auto copy = base.clone();
  EXPECT_NE(copy.get(), &base);
  EXPECT_TRUE(copy->equals(base) && base.equals(*copy));
  EXPECT_EQ(copy->hash(), base.hash());
}

TEST(ProblemOf, OtherTypesAreNeverEqual) {
  const Painting<0> p;
  const Painting<1> q;
  EXPECT_TRUE(p.equals(Painting<0>()));
  EXPECT_FALSE(p.equals(q));
  EXPECT_FALSE(q.equals(p));
}

TEST(HashOf, EnumerationsKeepTheirPlaces) {
  EXPECT_NE(hash_of(Color::kGreen, Shape::kRound), hash_of(Color::kRed, Shape::kSquare));
  EXPECT_EQ(hash_of(Color::kGreen, Shape::kRound), hash_of(Color::kGreen, Shape::kRound));
}

TEST(BaseArg, NamesTypeAndDimensions) {
  EXPECT_EQ(base_arg("conv", DataType::kFloat, 2), "conv");
  EXPECT_EQ(base_arg("activ", DataType::kHalf, 2), "activfp16");
  EXPECT_EQ(base_arg("conv", DataType::kBFloat16, 2), "convbfp16");
  EXPECT_EQ(base_arg("conv", DataType::kInt8, 2), "convint8");
  EXPECT_EQ(base_arg("conv", DataType::kFloat8Fnuz, 2), "convfp8");
  EXPECT_EQ(base_arg("conv", DataType::kBFloat8Fnuz, 2), "convbfp8");
  EXPECT_EQ(base_arg("conv", DataType::kFloat8E4m3fn, 2), "convfp8_e4m3fn");
  EXPECT_EQ(base_arg("conv", DataType::kFloat8E5m2, 2), "convfp8_e5m2");
  EXPECT_EQ(base_arg("conv", DataType::kDouble, 3), "convfp64 -_ 3");
  EXPECT_EQ(base_arg("conv", DataType::kInt32, 1), "conv -_ 1");
  EXPECT_EQ(base_arg("activ", DataType::kFloat, 0), "activ -_ 0");
}

TEST(TensorFlags, NameLayoutsElseStrides) {
  const auto flags = [](const TensorDesc& t) { return layout_flags(t, "-I", "--in_strides"); };
  EXPECT_EQ(flags(float_tensor({2, 3, 4, 5})), "");
  EXPECT_EQ(flags(float_tensor({2, 1, 4, 5}, {20, 1, 5, 1})), "") << "also dense in N, H, W, C order";
  EXPECT_EQ(flags(float_tensor({2, 3, 4, 5}, {60, 1, 15, 3})), " -I NHWC");
  EXPECT_EQ(flags(float_tensor({2, 3, 4}, {12, 1, 3})), " -I NWC");
  EXPECT_EQ(flags(float_tensor({2, 3, 2, 4, 5}, {120, 1, 60, 15, 3})), " -I NDHWC");
  EXPECT_EQ(flags(float_tensor({2, 3, 4, 5}, {120, 40, 10, 2})), " --in_strides 120,40,10,2");
  EXPECT_EQ(flags(float_tensor({2, 3}, {4, 1})), " --in_strides 4,1");
  EXPECT_EQ(strides_flag(float_tensor({2, 3, 4, 5}), "--din_strides"), " --din_strides 60,20,5,1");
}

TEST(TensorTexts, HaveTheDimensionsOfTheTensor) {
  EXPECT_EQ(std::string(sizes_text(float_tensor({2, 3, 4, 5}))), "2x3x4x5");
  EXPECT_EQ(std::string(sizes_text(float_tensor({9}))), "9");
  EXPECT_EQ(std::string(strides_text(float_tensor({2, 3, 4, 5}))), "60,20,5,1");
  EXPECT_EQ(std::string(strides_text(float_tensor({9}, {2}))), "2");
}

}  // namespace
}  // namespace polymio
