// The scan of a tensor's elements: every type, gaps that must not be read, many chunks and threads.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "primitives/tensor_ops/tensor_ops.h"

namespace polymio::tensor_ops {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

std::unique_ptr<Stream> stream(int threads) {
  auto s = create_stream("cpu", nullptr);
  s->set_threads(threads);
  return s;
}

using Sizes = std::vector<std::int64_t>;

/// The tensor with these values in the order of its sizes; bytes between the elements are all ones: NaN, -1, or
/// the least number of a FNUZ format.
struct Data {
  Data(DataType type, const Sizes& lens, const Sizes& strides, const std::vector<double>& values)
      : desc(make_tensor(type, lens, strides)), bytes(desc.bytes(), 0xff) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::int64_t rest = static_cast<std::int64_t>(i), offset = 0;
      for (std::size_t d = lens.size(); d-- > 0; rest /= lens[d]) offset += rest % lens[d] * desc.strides[d];
      dtype::store(type, bytes.data(), offset, values[i]);
    }
  }
  TensorDesc desc;
  std::vector<unsigned char> bytes;
};

TEST(Scan, EveryTypeWithAndWithoutGaps) {
  // All values are exact in all types.
  const std::vector<double> values = {0, 1, -3, 2, 0, -0.0, 8, 4, 0, -2, 1, 1};
  const auto s = stream(2);
  for (const DataType type : kDataTypes)
    for (const Sizes& strides : {Sizes{}, Sizes{30, 9, 2}, Sizes{1, 2, 7}}) {
      const Data data(type, {2, 3, 2}, strides, values);
      const Numerics n = scan(*s, data.desc, data.bytes.data());
      SCOPED_TRACE(name_of(type));
      EXPECT_EQ(n.count, 12);
      EXPECT_EQ(n.nan, 0);
      EXPECT_EQ(n.infinite, 0);
      EXPECT_EQ(n.zeros, 4);
      EXPECT_EQ(n.least, -3);
      EXPECT_EQ(n.most, 8);
      EXPECT_DOUBLE_EQ(n.mean, 1);
      EXPECT_DOUBLE_EQ(n.mean_abs, 22.0 / 12);
    }
}

TEST(Scan, NonFiniteValuesAreCountedAndSkipped) {
  const auto s = stream(2);
  for (const DataType type : {DataType::kHalf, DataType::kBFloat16, DataType::kFloat, DataType::kDouble}) {
    SCOPED_TRACE(name_of(type));
    const Data data(type, {7}, {}, {kNan, -kInf, 2, kInf, -4, kInf, 0});
    const Numerics n = scan(*s, data.desc, data.bytes.data());
    EXPECT_EQ(n.nan, 1);
    EXPECT_EQ(n.infinite, 3);
    EXPECT_EQ(n.zeros, 1);
    EXPECT_EQ(n.least, -4);
    EXPECT_EQ(n.most, 2);
    EXPECT_DOUBLE_EQ(n.mean, -2.0 / 3);
    EXPECT_DOUBLE_EQ(n.mean_abs, 2);
    const Data none(type, {2}, {}, {kNan, kInf});
    const Numerics nothing = scan(*s, none.desc, none.bytes.data());
    EXPECT_EQ(nothing.nan + nothing.infinite, 2);
    for (const double v : {nothing.least, nothing.most, nothing.mean, nothing.mean_abs}) EXPECT_EQ(v, 0);
  }
}

TEST(Scan, VectorsOfChannelsAndRepeatedElements) {
  const auto s = stream(1);
  TensorDesc vectors = make_tensor(DataType::kFloat, Layout::kNCHWc4, Sizes{1, 8, 2, 3});
  std::vector<float> values(static_cast<std::size_t>(vectors.space()) * 4, 1.0f);
  values.resize(48, 1.0f);
  values[47] = 3;
  const Numerics n = scan(*s, vectors, values.data());
  EXPECT_EQ(n.count, 48);
  EXPECT_EQ(n.most, 3);
  EXPECT_DOUBLE_EQ(n.mean, 50.0 / 48);
  TensorDesc repeated = make_tensor(DataType::kFloat, Sizes{5, 2}, Sizes{2, 1});
  repeated.strides[0] = 0;
  const float two[] = {1, 2};
  EXPECT_EQ(scan(*s, repeated, two).count, 10);
  EXPECT_DOUBLE_EQ(scan(*s, repeated, two).mean, 1.5);
}

TEST(Scan, LargeTensorsGiveTheSameWithAnyNumberOfThreads) {
  constexpr std::int64_t kRows = 700, kColumns = 501, kGap = 3;
  const TensorDesc desc = make_tensor(DataType::kFloat, Sizes{kRows, kColumns}, Sizes{kColumns + kGap, 1});
  std::vector<float> values(static_cast<std::size_t>(desc.space()), kNan);
  double sum = 0;
  std::int64_t zeros = 0;
  for (std::int64_t i = 0; i < kRows * kColumns; ++i) {
    const auto v = static_cast<float>(i * 37 % 101 - 20) * 0.37f;
    values[static_cast<std::size_t>(i / kColumns * (kColumns + kGap) + i % kColumns)] = v;
    sum += v;
    zeros += v == 0;
  }
  values[0] = INFINITY;
  sum -= -20 * 0.37f;
  Numerics first{};
  for (const int threads : {1, 2, 5}) {
    const Numerics n = scan(*stream(threads), desc, values.data());
    if (threads == 1) first = n;
    EXPECT_EQ(n.count, kRows * kColumns);
    EXPECT_EQ(n.nan, 0);
    EXPECT_EQ(n.infinite, 1);
    EXPECT_EQ(n.zeros, zeros);
    EXPECT_EQ(n.least, -20 * 0.37f);
    EXPECT_EQ(n.most, 80 * 0.37f);
    EXPECT_NEAR(n.mean, sum / static_cast<double>(kRows * kColumns - 1), 1e-9);
    EXPECT_EQ(std::memcmp(&n, &first, sizeof n), 0);
  }
}

}  // namespace
}  // namespace polymio::tensor_ops
